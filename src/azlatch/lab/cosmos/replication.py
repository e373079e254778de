"""What the replicas of one physical partition have seen, and until when they have seen it."""

from __future__ import annotations

import math
from bisect import bisect_right

from azlatch.lab.cosmos.topology import WRITER, Region, Topology
from azlatch.lab.cosmos.versions import History, View


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

    def wrote(self, entry: Entry, head: int) -> None:
        """A write was made; `head` is the LSN before it."""
        if self._topology.straight and not self.pending:
            return
        if not self.pending:
            self._seen = dict.fromkeys(self._replicas(), head)
        self.pending.append(entry)

    def _replicas(self) -> list[tuple[int, int, bool]]:
        regions = [each.number for each in self._topology.regions]
        return [(s, r, late) for s in self._topology.sources for r in regions for late in (False, True)]

    def advance(self, now: float) -> None:
        """Lets every replica see what has reached it by now."""
        if not self.pending:
            return
        lsns = [each.lsn for each in self.pending]
        for replica, seen in self._seen.items():
            source, region, late = replica
            lag = self._topology.lag(source, region, late=late)
            if lag is None:
                continue
            for entry in self.pending[bisect_right(lsns, seen) :]:
                if entry.source != source:
                    continue
                if entry.at + lag > now:
                    break
                seen = entry.lsn
            self._seen[replica] = seen
        floor = self.floor()
        if floor is None:
            return
        done = [each for each in self.pending if each.lsn <= floor.get(each.source, 0)]
        if done:
            self.pending = [each for each in self.pending if each.lsn > floor.get(each.source, 0)]
            for entry in done:
                for history in entry.histories:
                    history.prune(floor if self.pending else None)

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
        waiting = [each for each in self.pending if each.lsn > committed.get(each.source, 0)]
        return len(waiting), now - waiting[0].at if waiting else 0.0

    def cut(self, region: Region) -> int | None:
        """The last LSN that a region has seen, None for all; for an account with one write region."""
        return self._seen[WRITER, region.number, False] if self.pending else None

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
        return lost

    def part(self, histories: set[int]) -> Replication:
        """The same for those of the items whose identities are given: what a part of the partition has."""
        part = Replication(self._topology)
        part._seen = dict(self._seen)
        for entry in self.pending:
            kept = [each for each in entry.histories if id(each) in histories]
            part.pending.append(Entry(entry.lsn, entry.source, entry.at, kept))
        return part
