"""A physical partition: the items of one range of effective partition keys, their log, and its replicas."""

from __future__ import annotations

import heapq
import itertools
import math
from bisect import bisect_right, insort
from collections.abc import Iterator
from typing import Any

from azlatch.lab.cosmos.item import expires_at
from azlatch.lab.cosmos.replication import Entry, Replication
from azlatch.lab.cosmos.session_token import SessionToken
from azlatch.lab.cosmos.topology import Region, Topology
from azlatch.lab.cosmos.unique_keys import Keys, UniqueIndex, UniqueKeyPolicy
from azlatch.lab.cosmos.versions import WRITER, History, LogicalPartition, Version, View
from azlatch.lab.cosmos.wire import decode


class PhysicalPartition:
    """One range, from `low` to below `high`, as effective partition keys in hexadecimal digits."""

    def __init__(
        self,
        name: str,
        low: str,
        high: str,
        topology: Topology,
        unique: UniqueKeyPolicy,
        parents: list[str],
    ) -> None:
        self.id = name
        self.low = low
        self.high = high
        self.parents = parents
        self.topology = topology
        self.replication = Replication(topology)
        self.keys: dict[str, LogicalPartition] = {}
        #: The LSN of the last write.
        self.head = 0
        #: Goes up where the log was cut or begun anew, or another region writes it; tokens of a version below
        #: `valid` say nothing more, those of one below `begun` are of a log that all replicas have whole.
        self.version = 1
        self.valid = 1
        self.begun = 1
        #: By version that came with it, after which LSN of versions before it something may be another.
        self.floors: list[tuple[int, int]] = []
        self._unique = unique
        self._order: list[History] = []
        #: LSNs and what was written with them, in their order; None until a change feed is read.
        self._log: list[tuple[int, History]] | None = None
        self._dead = 0
        self._expiring: list[tuple[float, int, History]] = []
        self._ticks = itertools.count()

    # -- reading -------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of the items."""
        return sum(each.size for each in self.keys.values())

    @property
    def count(self) -> int:
        """How many items there are, expired ones included."""
        return sum(
            1 for key in self.keys.values() for each in key.items.values() if each.versions[-1].body is not None
        )

    @property
    def held(self) -> int:
        """How many items some replica may show; nothing is counted for it. Without lag it is `count`."""
        return len(self._order) - self._dead

    def find(self, text: str, name: str) -> History | None:
        """An item's history, by its partition key and id."""
        key = self.keys.get(text)
        return key.items.get(name) if key is not None else None

    def numbered(self, number: int) -> History | None:
        """The item with this number."""
        found = next(self.scan(number - 1), None)
        return found if found is not None and found.number == number else None

    def scan(self, after: int = -1) -> Iterator[History]:
        """The items with higher numbers than `after`, in the order in which they were made."""
        for at in range(bisect_right(self._order, after, key=lambda each: each.number), len(self._order)):
            history = self._order[at]
            if history.versions:
                yield history

    def written(self, after: int) -> Iterator[tuple[int, History]]:
        """What was written with higher LSNs than `after`, in their order; the item may have changed since."""
        if self._log is None or len(self._log) > 2 * len(self._order) + 1_000:
            found = [(version.lsn, each) for each in self._order for version in each.versions]
            self._log = sorted(found, key=lambda each: each[0])
        for at in range(bisect_right(self._log, after, key=lambda each: each[0]), len(self._log)):
            yield self._log[at]

    def advance(self, now: float) -> None:
        """Brings it up to the time: what has arrived is seen, what has expired is gone."""
        for history in self.replication.advance(now):
            self._leave(history, now)
        while self._expiring and self._expiring[0][0] <= now:
            _, _, history = heapq.heappop(self._expiring)
            shown = history.show(None)
            if shown is not None and not shown.lives(now):
                # Late replicas may still show what was before it; it counts no longer.
                self._discount(history, shown)
                self._leave(history, now)

    def _leave(self, history: History, now: float) -> None:
        """Forgets an item that is deleted or expired for all replicas."""
        if len(history.versions) == 1 and not history.versions[0].lives(now):
            self._forget(history)

    # -- writing -------------------------------------------------------------------------------------

    def logical(self, text: str, values: tuple[Any, ...], epk: str) -> LogicalPartition:
        """The logical partition of a key, made if there is none."""
        found = self.keys.get(text)
        if found is None:
            found = self.keys[text] = LogicalPartition(text, values, epk)
            found.unique = self._new_index()
        return found

    def write(
        self,
        key: LogicalPartition,
        changes: dict[str, Version],
        numbers: dict[str, int],
        now: float,
        view: View,
    ) -> Entry:
        """Writes versions by the ids of their items, all with one LSN.

        Args:
            numbers: of the items that are made.
            view: what the writer had seen.
        """
        before, self.head = self.head, self.head + 1
        histories = []
        for name, version in changes.items():
            history = key.items.get(name)
            old = history.show(view) if history is not None else None
            is_new = history is None or old is None or not old.lives(now)
            if history is None or is_new or numbers.get(name, history.number) != history.number:
                history = self._place(key, name, numbers.get(name, 0), history)
            version.lsn, version.at, version.base = self.head, now, old.lsn if old is not None else 0
            self._discount(history, history.show(None))
            history.versions.append(version)
            histories.append(history)
            if self._log is not None:
                self._log.append((self.head, history))
        for history in histories:
            # Not always the new one: it may be in conflict with one that its writer had not seen.
            shown = history.show(None)
            if shown is not None:
                self._count(history, shown)
                self._expires(history, shown)
        entry = Entry(self.head, histories[0].versions[-1].source, now, histories)
        self.replication.wrote(entry, before)
        if not self.replication.pending:
            for history in histories:
                history.prune(None)
                if history.versions[0].body is None:
                    self._forget(history)
        return entry

    def restore(self, key: LogicalPartition, name: str, number: int, version: Version) -> None:
        """Puts an item back as it was."""
        history = self._place(key, name, number, None)
        history.versions.append(version)
        self._log = None
        self._count(history, version)
        self._expires(history, version)

    def expire_by(self, default_ttl: int | None, now: float) -> None:
        """From now on the container has another time to live, for the items that it has, too."""
        self.advance(now)
        self._expiring = []
        for history in self._order:
            for version in history.versions:
                if version.body is not None and version.lives(now):
                    # Most items say nothing of it: those are not worth taking apart.
                    document = decode(version.body) if b'"ttl"' in version.body else {}
                    version.expires = expires_at(document, default_ttl, version.ts)
            shown = history.show(None)
            if shown is not None:
                self._expires(history, shown)
        self.advance(now)

    def _expires(self, history: History, version: Version) -> None:
        if version.expires is None:
            return
        if len(self._expiring) > 64 and len(self._expiring) > 4 * len(self._order):
            # Those of versions that were replaced before their time; each item has one at most.
            self._expiring = []
            for each in self._order:
                shown = each.show(None)
                if shown is not None and shown.expires is not None and each is not history:
                    self._expiring.append((shown.expires, next(self._ticks), each))
            heapq.heapify(self._expiring)
        heapq.heappush(self._expiring, (version.expires, next(self._ticks), history))

    def _place(self, key: LogicalPartition, name: str, number: int, old: History | None) -> History:
        """A place for an item that is made; what late replicas still show of it moves along."""
        history = History(key, name, number)
        if old is not None:
            history.versions, old.versions = old.versions, []
            self._dead += 1
        key.items[name] = history
        if self._order and self._order[-1].number > number:
            insort(self._order, history, key=lambda each: each.number)
        else:
            self._order.append(history)
        return history

    def _new_index(self) -> UniqueIndex | None:
        return UniqueIndex(len(self._unique.paths)) if self._unique.paths else None

    def _keys_of(self, document: dict[str, Any]) -> Keys:
        return self._unique.keys_of(document)

    def _count(self, history: History, new: Version) -> None:
        """An item is there from now on."""
        if new.body is not None and not new.counted:
            new.counted = True
            history.key.size += len(new.body)
            if history.key.unique is not None:
                history.key.unique.put(self._keys_of(new.read()), history.id)

    def _discount(self, history: History, old: Version | None) -> None:
        """A version is not there any more."""
        if old is not None and old.body is not None and old.counted:
            old.counted = False
            history.key.size -= len(old.body)
            if history.key.unique is not None:
                history.key.unique.remove(self._keys_of(old.read()), history.id)

    def _forget(self, history: History) -> None:
        """Nobody shows it any more."""
        key = history.key
        if key.items.get(history.id) is history:
            del key.items[history.id]
            version = history.versions[-1] if history.versions else None
            self._discount(history, version)
            if not key.items:
                self.keys.pop(key.text, None)
        history.versions = []
        self._dead += 1
        if self._dead > 64 and self._dead * 2 > len(self._order):
            self._order = [each for each in self._order if each.versions]
            self._dead = 0

    # -- consistency ---------------------------------------------------------------------------------

    def view(self, region: Region, *, late: bool, now: float) -> View:
        """What a replica of the region shows now."""
        self.advance(now)
        return self.replication.view(region, late=late)

    def token(self, view: View) -> SessionToken:
        """What a client knows that has seen this view."""
        if not self.topology.multiple:
            lsn = self.head if view is None else view[WRITER]
            # The same ones after a failover: the SDK takes two tokens of one version with different regions for
            # an error of its own, status 500, on each further read of a client that has the old one.
            others = [each.number for each in self.topology.regions[1:]]
            return SessionToken(self.id, self.version, lsn, dict.fromkeys(others, lsn))
        numbers = self.topology.sources
        seen = {number: self.head if view is None else view[number] for number in numbers}
        return SessionToken(self.id, self.version, max(seen.values()), seen)

    def satisfies(self, view: View, token: SessionToken) -> bool:
        """Whether a replica with this view has all that the token's owner has seen."""
        if token.version == -1:
            return token.global_lsn <= (self.head if view is None else max(view.values()))
        if token.version < self.valid or token.version > self.version:
            return False
        if token.version < self.begun:
            return True
        if not self.topology.multiple or not token.regions:
            return token.global_lsn <= (self.head if view is None else max(view.values()))
        return all(
            lsn <= (self.head if view is None else view.get(number, 0)) for number, lsn in token.regions.items()
        )

    def truncate(self, region: Region, now: float) -> int:
        """What the region has not seen is lost; returns how many writes."""
        self.advance(now)
        cut = self.replication.cut(region)
        lost = self.replication.truncate(cut) if cut is not None else []
        if cut is None or not lost:
            return 0
        self.head = cut
        self.version += 1
        self.valid = self.version
        self._log = None
        # An item that was deleted and made again has left its versions to the later one.
        cut_off = [h for h in dict.fromkeys(h for entry in lost for h in entry.histories) if h.versions]
        for history in cut_off:
            for version in history.versions:
                self._discount(history, version)
            history.versions = [each for each in history.versions if each.lsn <= cut]
        floor = cut
        for history in cut_off:
            shown = history.show(None)
            if shown is None:
                self._forget(history)
            else:
                # A reader of changes may not have met what stands again.
                floor = min(floor, shown.lsn - 1)
                self._count(history, shown)
                self._expires(history, shown)
                self._leave(history, now)
        self.floors.append((self.version, floor))
        return len(lost)

    def resumed(self, version: int, lsn: int) -> int:
        """After which LSN a reader goes on that has read up to `lsn` in the log of a version."""
        return min([lsn, *(floor for at, floor in self.floors if at > version)])

    def catch_up(self, region: Region) -> None:
        """A region sees everything."""
        self.replication.catch_up(region, self.head)

    def settle(self, now: float) -> None:
        """Every replica sees everything."""
        self.replication.settle()
        for history in list(self._order):
            self._leave(history, now)

    # -- splits and merges ---------------------------------------------------------------------------

    def split(self, at: str, names: tuple[str, str]) -> tuple[PhysicalPartition, PhysicalPartition]:
        """Two that share its range at a key, its items and its log."""
        low = self._part(names[0], self.low, at)
        high = self._part(names[1], at, self.high)
        return low, high

    def _part(self, name: str, low: str, high: str) -> PhysicalPartition:
        part = PhysicalPartition(name, low, high, self.topology, self._unique, [*self.parents, self.id])
        part.head, part.version, part.valid, part.begun = self.head, self.version, self.valid, self.begun
        part.floors = list(self.floors)
        part.keys = {text: key for text, key in self.keys.items() if low <= key.epk < high}
        part._order = [each for each in self._order if each.versions and low <= each.key.epk < high]
        part._expiring = [each for each in self._expiring if low <= each[2].key.epk < high]
        heapq.heapify(part._expiring)
        part._ticks = itertools.count(next(self._ticks))
        part.replication = self.replication.part({id(each) for each in part._order})
        return part

    @classmethod
    def merged(cls, name: str, parts: list[PhysicalPartition], now: float) -> PhysicalPartition:
        """One of several neighbours; its log begins anew, and all replicas see everything of it."""
        first = parts[0]
        parents = list(dict.fromkeys(each for part in parts for each in (*part.parents, part.id)))
        whole = cls(name, first.low, parts[-1].high, first.topology, first._unique, parents)
        whole.version = max(each.version for each in parts) + 1
        whole.valid = max(each.valid for each in parts)
        whole.begun = whole.version
        whole.floors = [(whole.version, 0)]
        for part in parts:
            part.settle(now)
            whole.keys.update(part.keys)
            whole._order.extend(each for each in part._order if each.versions)
            whole._expiring.extend((at, next(whole._ticks), each) for at, _, each in part._expiring)
        whole._order.sort(key=lambda each: each.number)
        heapq.heapify(whole._expiring)
        whole.head = len(whole._order) + 1
        written = sorted(whole._order, key=lambda each: (each.versions[-1].at, each.versions[-1].lsn))
        for lsn, history in enumerate(written, start=1):
            history.versions[-1].lsn = lsn
            history.versions[-1].base = 0
        return whole

    def middle(self, *, hashed: bool) -> str:
        """Where it is split: in the middle of its range, or where its keys are halved."""
        if hashed:
            low = int(self.low.ljust(32, "0")[:32] or "0", 16)
            high = 0x40 << 120 if self.high == "FF" else int(self.high.ljust(32, "0")[:32], 16)
            return f"{(low + high) // 2:032X}"
        epks = sorted(each.epk for each in self.keys.values())
        return epks[len(epks) // 2] if epks else "05C1DFFFFFFFFC"

    def fail_over(self, region: Region, now: float) -> None:
        """Another region writes it, which has everything: tokens tell of other regions from now on."""
        self.advance(now)
        self.catch_up(region)
        self.version += 1

    def commits_at(self, entry: Entry) -> float:
        """When a write is in all regions that answer."""
        return self.replication.commits_at(entry) if self.replication.pending else entry.at

    @property
    def is_even(self) -> bool:
        """Whether no replica lags."""
        return not self.replication.pending

    def staleness(self, now: float) -> tuple[int, float]:
        """How many writes the slowest region lacks, and since when, seconds."""
        self.advance(now)
        count, age = self.replication.backlog(now)
        return count, age if math.isfinite(age) else 0.0

    def behind(self, region: Region, now: float) -> tuple[int, float]:
        """How many writes one region lacks, and since when, seconds; see `Replication.behind`."""
        self.advance(now)
        return self.replication.behind(region, now)
