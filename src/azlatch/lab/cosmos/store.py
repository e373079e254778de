"""The items of one container: its physical partitions, and which of them a key or a range belongs to."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from azlatch.errors import UsageError
from azlatch.lab.cosmos.budget import Budget
from azlatch.lab.cosmos.errors import bad_request, range_gone
from azlatch.lab.cosmos.indexing import Indexing
from azlatch.lab.cosmos.partition import PhysicalPartition
from azlatch.lab.cosmos.topology import Topology
from azlatch.lab.cosmos.unique_keys import UniqueKeyPolicy

if TYPE_CHECKING:
    from azlatch.lab.cosmos.resource_tree import ContainerResource

#: The bounds of all effective partition keys.
LOWEST, HIGHEST = "", "FF"
#: What a physical partition is given at most when a container is made, request units per second.
PER_RANGE = 6_000
#: ... and later on, when throughput is raised.
MOST_PER_RANGE = 10_000
_MOST_RANGES = 1_000
#: Ranges that are gone, of which is known what they were used for.
_MOST_FORMER = 32


class Former(NamedTuple):
    """A range that was split or merged, with what was left of its budget."""

    id: str
    low: str
    high: str
    ended: float
    budget: Budget


class Store:
    """The ranges of a container.

    Attributes:
        parts: the physical partitions, in the order of their ranges.
        version: goes up with every split and merge.
    """

    def __init__(self, resource: ContainerResource, topology: Topology, *, burst: bool, now: float):
        self.resource = resource
        self.topology = topology
        self._burst = burst
        self.unique = UniqueKeyPolicy.of(resource.body.get("uniqueKeyPolicy"))
        self.indexing = Indexing(resource.indexing_policy)
        self._default_ttl = resource.default_ttl
        self.next_range = 0
        self.numbers: Iterator[int] = itertools.count(1)
        self.version = 0
        self.parts: list[PhysicalPartition] = []
        self.budgets: dict[str, Budget] = {}
        #: Ranges that were split or merged, and when: what they were used for is still to be seen.
        self.former: deque[Former] = deque(maxlen=_MOST_FORMER)
        #: The version with which each range came.
        self._made_in: dict[str, int] = {}
        count = max(1, min(math.ceil(resource.throughput / PER_RANGE), _MOST_RANGES))
        self.lay_out(count, now)

    def lay_out(self, count: int, now: float) -> None:
        """Makes `count` equal ranges, of a container that is empty."""
        width = (0x40 << 120) - 1
        bounds = [LOWEST, *(f"{width // count * at:032X}" for at in range(1, count)), HIGHEST]
        parts = [self.new_part(self._name(), low, high, []) for low, high in itertools.pairwise(bounds)]
        self.take_parts(parts, now)

    def new_part(self, name: str, low: str, high: str, parents: list[str]) -> PhysicalPartition:
        """A physical partition that is not in the container yet."""
        return PhysicalPartition(name, low, high, self.topology, self.unique, parents)

    def take_parts(self, parts: list[PhysicalPartition], now: float) -> None:
        """From now on the container consists of these."""
        self.parts = parts
        self.budgets = {}
        self._changed(now)

    def _name(self) -> str:
        self.next_range += 1
        return str(self.next_range - 1)

    def _changed(self, now: float) -> None:
        self.version += 1
        self._lows = [each.low for each in self.parts]
        self._by_id = {each.id: each for each in self.parts}
        rate = self.resource.throughput / len(self.parts)
        for each in self.parts:
            self._made_in.setdefault(each.id, self.version)
            budget = self.budgets.get(each.id)
            if budget is None:
                self.budgets[each.id] = Budget(rate, now, burst=self._burst)
            else:
                budget.set_rate(now, rate)

    def resized(self, now: float) -> None:
        """The container was changed: a range that would have to give more than it can is split."""
        self.indexing = Indexing(self.resource.indexing_policy)
        if self._default_ttl != self.resource.default_ttl:
            self._default_ttl = self.resource.default_ttl
            for each in self.parts:
                each.expire_by(self._default_ttl, now)
        while self.resource.throughput > MOST_PER_RANGE * len(self.parts) and len(self.parts) < _MOST_RANGES:
            wide = [each for each in self.parts if self._halves(each) is not None]
            if not wide:
                break
            self.split(max(wide, key=_width).id, now)
        self._changed(now)

    def _halves(self, part: PhysicalPartition) -> str | None:
        """Where a range can be split, None if it cannot."""
        at = part.middle(hashed=self.resource.definition.version == 2)
        return at if part.low < at < part.high else None

    # -- finding -------------------------------------------------------------------------------------

    def part_of(self, epk: str) -> PhysicalPartition:
        """The physical partition that has an effective partition key."""
        return self.parts[bisect_right(self._lows, epk) - 1]

    def part(self, name: str) -> PhysicalPartition:
        """The physical partition of that id.

        Raises:
            ServiceError: 410/1002 if it was split or merged, or there never was one.
        """
        found = self._by_id.get(name)
        if found is None:
            raise range_gone()
        return found

    def parts_in(self, low: str, high: str) -> list[PhysicalPartition]:
        """The physical partitions that share something with a range."""
        return [each for each in self.parts if each.low < high and low < each.high]

    # -- splitting -----------------------------------------------------------------------------------

    def split(self, name: str, now: float) -> list[str]:
        """Splits a range in two and returns their ids.

        Raises:
            UsageError: there is no such range.
        """
        part = self._known(name)
        part.advance(now)
        at = self._halves(part)
        if at is None:
            raise UsageError(f"range {name!r} of {self.resource.path} is too narrow to be split")
        self._replace([part], list(part.split(at, (self._name(), self._name()))), now)
        return [each.id for each in self.parts if part.id in each.parents[-1:]]

    def merge(self, names: Sequence[str], now: float) -> str:
        """Merges neighbouring ranges and returns the id of what they become.

        Raises:
            UsageError: there is no such range, or they are no neighbours.
        """
        parts = sorted((self._known(name) for name in dict.fromkeys(names)), key=lambda each: each.low)
        if len(parts) < 2 or any(a.high != b.low for a, b in itertools.pairwise(parts)):
            raise UsageError(f"ranges {list(names)!r} of {self.resource.path}: name two or more neighbours")
        for part in parts:
            part.advance(now)
        whole = PhysicalPartition.merged(self._name(), parts, now)
        self._replace(parts, [whole], now)
        return whole.id

    def _known(self, name: str) -> PhysicalPartition:
        if name not in self._by_id:
            known = ", ".join(self._by_id)
            raise UsageError(f"there is no range {name!r} in {self.resource.path}: use one of {known}")
        return self._by_id[name]

    def _replace(self, old: list[PhysicalPartition], new: list[PhysicalPartition], now: float) -> None:
        for each in old:
            self.former.append(Former(each.id, each.low, each.high, now, self.budgets.pop(each.id)))
        kept = [each for each in self.parts if each not in old]
        self.parts = sorted([*kept, *new], key=lambda each: each.low)
        self._changed(now)

    def ranges(self, since: str = "") -> list[dict[str, Any]]:
        """The ranges as the service lists them: all, or those that came after an etag that it gave."""
        container = self.resource
        known = since.strip('"')
        version = int(known) if known.isdecimal() and len(known) < 10 else 0
        etag = f'"{self.version:08x}-0000-0000-0000-000000000000"'
        return [
            {
                "_rid": container.rid,
                "id": each.id,
                "_etag": etag,
                "minInclusive": each.low,
                "maxExclusive": each.high,
                "ridPrefix": number,
                "_self": f"{container.self_link}pkranges/{each.id}/",
                "throughputFraction": 1 / len(self.parts),
                "status": "online",
                "parents": each.parents,
                "_ts": container.body.get("_ts", 0),
                "_lsn": each.head,
            }
            for number, each in enumerate(self.parts)
            if self._made_in[each.id] > version
        ]

    def check_rid(self, intended: str) -> None:
        """Raises 400/1024 where a request is meant for a container that had this name before."""
        if intended and intended != self.resource.rid:
            raise bad_request("The requested container was recreated: its resource id is another one.", 1024)


def _width(part: PhysicalPartition) -> int:
    low = int(part.low.ljust(32, "0")[:32] or "0", 16)
    high = 0x40 << 120 if part.high == HIGHEST else int(part.high.ljust(32, "0")[:32], 16)
    return high - low
