"""What the replicas of one physical partition have seen, and until when they have seen it."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Mapping

from azlatch.lab.cosmos.topology import Region, Topology
from azlatch.lab.cosmos.versions import WRITER, History, View

#: How far the writes that a region lacks are counted.
MOST_COUNTED = 10_000


class Entry:
    """A write that some replica may not have seen."""

    __slots__ = ("at", "histories", "lsn", "source")

    def __init__(self, lsn: int, source: int, at: float, histories: list[History]) -> None:
        self.lsn = lsn
        self.source = source
        self.at = at
        self.histories = histories


class Replication:
    """The writes on their way.

    As long as nothing lags there are none, and it costs nothing.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self.pending: list[Entry] = []
        #: By source, region and whether it is the late replica: the last LSN that was seen there.
        self._seen: dict[tuple[int, int, bool], int] = {}
        #: Of Strong: when a write was said to be in all regions, and its LSN.
        self._promised: list[tuple[float, int]] = []

    def wrote(self, entry: Entry, head: int) -> None:
        """A write was made; `head` is the LSN before it."""
        if self._topology.straight and not self.pending:
            return
        if not self.pending:
            self._seen = dict.fromkeys(self._replicas(), head)
            self._promised = []
        self.pending.append(entry)

    def promise(self, entry: Entry, ready: float) -> None:
        """From then on all regions that answer have the write, whatever happens to their links."""
        if self.pending:
            heapq.heappush(self._promised, (ready, entry.lsn))

    def _replicas(self) -> list[tuple[int, int, bool]]:
        regions = [each.number for each in self._topology.regions]
        return [(s, r, late) for s in self._topology.sources for r in regions for late in (False, True)]

    def advance(self, now: float) -> list[History]:
        """Lets every replica see what has reached it by now; returns the items of what all have seen."""
        if not self.pending:
            return []
        self._keep_promises(now)
        for replica, seen in self._seen.items():
            source, region, late = replica
            lag = self._topology.lag(source, region, late=late)
            if lag is None:
                continue
            for at in range(self._after(seen), len(self.pending)):
                entry = self.pending[at]
                if entry.source != source:
                    continue
                if entry.at + lag > now:
                    break
                seen = entry.lsn
            self._seen[replica] = seen
        return self._done(self.floor() or {})

    def _done(self, floor: Mapping[int, int]) -> list[History]:
        """Takes out what all have seen; returns the items of it."""
        count = 0
        while count < len(self.pending) and self.pending[count].lsn <= floor.get(self.pending[count].source, 0):
            count += 1
        done, self.pending[:count] = self.pending[:count], []
        histories = list(dict.fromkeys(history for entry in done for history in entry.histories))
        for history in histories:
            history.prune(floor if self.pending else None)
        return histories

    def _after(self, lsn: int) -> int:
        """The place of the first write with a higher LSN."""
        return bisect_right(self.pending, lsn, key=lambda each: each.lsn)

    def _keep_promises(self, now: float) -> None:
        while self._promised and self._promised[0][0] <= now:
            _, lsn = heapq.heappop(self._promised)
            for region in self._topology.present:
                replica = (WRITER, region.number, False)
                self._seen[replica] = max(self._seen[replica], lsn)

    def floor(self) -> View:
        """What every replica has seen."""
        if not self.pending:
            return None
        return {
            s: min(lsn for (of, _, _), lsn in self._seen.items() if of == s) for s in self._topology.sources
        }

    def view(self, region: Region, *, late: bool) -> View:
        """What a replica of a region has seen; call `advance` first."""
        if not self.pending:
            return None
        return {s: self._seen[s, region.number, late] for s in self._topology.sources}

    def committed(self) -> View:
        """What all regions that answer have seen."""
        if not self.pending:
            return None
        numbers = [each.number for each in self._topology.present]
        return {s: min((self._seen[s, r, False] for r in numbers), default=0) for s in self._topology.sources}

    def commits_at(self, entry: Entry) -> float:
        """When all regions that answer will have seen a write; infinite while one is held up."""
        latest = entry.at
        for region in self._topology.present:
            lag = self._topology.lag(entry.source, region.number, late=False)
            latest = max(latest, math.inf if lag is None else entry.at + lag)
        return latest

    def backlog(self, now: float) -> tuple[int, float]:
        """How many writes some region has not seen, and how old the oldest of them is, seconds."""
        committed = self.committed()
        if committed is None:
            return 0, 0.0
        first = self._after(min(committed.values()))
        if len(committed) == 1:
            count = len(self.pending) - first
            return count, now - self.pending[first].at if count else 0.0
        waiting = [each for each in self.pending[first:] if each.lsn > committed.get(each.source, 0)]
        return len(waiting), now - waiting[0].at if waiting else 0.0

    def behind(self, region: Region, now: float) -> tuple[int, float]:
        """How many writes a region has not seen, up to MOST_COUNTED, and how old the first one is, seconds."""
        view = self.view(region, late=False)
        if view is None:
            return 0, 0.0
        count, age = 0, 0.0
        for at in range(self._after(min(view.values())), len(self.pending)):
            entry = self.pending[at]
            if entry.lsn > view.get(entry.source, 0):
                age = age if count else now - entry.at
                count += 1
                if count == MOST_COUNTED:
                    break
        return count, age

    def cut(self, region: Region) -> int | None:
        """The last LSN that a region has, None for all; for an account with one write region."""
        if not self.pending:
            return None
        return max(self._seen[WRITER, region.number, False], *(lsn for _, lsn in self._promised), 0)

    def complete(self, view: View) -> int | None:
        """Up to which LSN a view lacks nothing, None for all there is."""
        if view is None:
            return None
        first = self._after(min(view.values()))
        missing = (each.lsn for each in self.pending[first:] if each.lsn > view.get(each.source, 0))
        lsn = next(missing, None)
        return None if lsn is None else lsn - 1

    def settle(self) -> None:
        """All replicas see everything."""
        for entry in self.pending:
            for history in entry.histories:
                history.prune(None)
        self.pending = []

    def catch_up(self, region: Region, head: int) -> None:
        """A region sees everything."""
        for replica in self._seen:
            if replica[1] == region.number:
                self._seen[replica] = head

    def truncate(self, cut: int) -> list[Entry]:
        """Takes back what came after an LSN, and returns it; no replica has seen more than it afterwards."""
        lost = [each for each in self.pending if each.lsn > cut]
        self.pending = [each for each in self.pending if each.lsn <= cut]
        self._seen = {replica: min(lsn, cut) for replica, lsn in self._seen.items()}
        return [each for each in lost if each.histories]

    def part(self, histories: set[int]) -> Replication:
        """The same for those of the items whose identities are given: what a part of the partition has."""
        part = Replication(self._topology)
        part._seen = dict(self._seen)
        part._promised = list(self._promised)
        for entry in self.pending:
            kept = [each for each in entry.histories if id(each) in histories]
            part.pending.append(Entry(entry.lsn, entry.source, entry.at, kept))
        return part
