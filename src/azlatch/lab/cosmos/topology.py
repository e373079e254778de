"""The regions of an account, who may write, and how long what is written takes from one to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from azlatch.errors import UsageError
from azlatch.lab.cosmos.versions import WRITER

Level = Literal["Strong", "BoundedStaleness", "Session", "ConsistentPrefix", "Eventual"]

#: The levels, the strongest first: a request may ask for a weaker one than the account's, never for a stronger.
LEVELS: tuple[Level, ...] = ("Strong", "BoundedStaleness", "Session", "ConsistentPrefix", "Eventual")
#: Copies in each region. One of them may be late, by the lag of the region to itself.
REPLICAS = 4

_MOST_REGIONS = 10
_LONGEST_LAG = 86_400.0


def check(names: Sequence[str], level: str, *, multiple: bool) -> None:
    """Raises UsageError where there can be no such account; see `Topology`."""
    different = len({_flat(name) for name in names})
    if isinstance(names, str) or not 1 <= len(names) <= _MOST_REGIONS or different < len(names):
        raise UsageError(f"regions are {names!r}: give 1 to {_MOST_REGIONS} names, each once")
    if level not in LEVELS:
        raise UsageError(f"consistency is {level!r}: use one of {', '.join(LEVELS)}")
    if multiple and level == "Strong":
        raise UsageError("Strong consistency needs one write region: leave multiple_write_regions out")


@dataclass(slots=True)
class Region:
    """One region. `number` is what session tokens call it."""

    name: str
    number: int
    #: Whether it answers.
    online: bool = True
    #: Whether the account has it; one that was taken away answers 403/1008.
    member: bool = True


@dataclass(slots=True)
class Link:
    """The way from one region to another."""

    lag: float = 0.0
    paused: bool = False


class Topology:
    """The regions of an account and the links between them.

    Args:
        names: the regions, the first of them is the write region.
        level: the account's consistency.
        multiple: whether all of them take writes.
        before_change: called before anything changes that decides who sees what.

    Raises:
        UsageError: no region, too many, one twice, or several write regions with Strong.
    """

    def __init__(
        self, names: Sequence[str], level: str, *, multiple: bool, before_change: Callable[[], None]
    ) -> None:
        check(names, level, multiple=multiple)
        self.regions = [Region(name, number) for number, name in enumerate(names)]
        self.level: Level = next(each for each in LEVELS if each == level)
        self.multiple = multiple
        self.write = self.regions[0]
        self._links = {(a.number, b.number): Link() for a in self.regions for b in self.regions}
        self._before_change = before_change
        #: Whether all see everything at once.
        self.straight = True

    def region(self, name: str) -> Region:
        """The region of that name, in any case and with or without spaces.

        Raises:
            UsageError: there is none.
        """
        for each in self.regions:
            if _flat(each.name) == _flat(name):
                return each
        known = ", ".join(each.name for each in self.regions)
        raise UsageError(f"there is no region {name!r} in the account: use one of {known}")

    @property
    def present(self) -> list[Region]:
        """The regions that the account has and that answer."""
        return [each for each in self.regions if each.member and each.online]

    def writes_here(self, region: Region) -> bool:
        """Whether the region takes writes."""
        return region.member and (self.multiple or region is self.write)

    @property
    def sources(self) -> list[int]:
        """Where writes come from, as versions tell it."""
        return [each.number for each in self.regions] if self.multiple else [WRITER]

    def source(self, region: Region) -> int:
        """What a version that is written in the region says of where it comes from."""
        return region.number if self.multiple else WRITER

    def lag(self, source: int, target: int, *, late: bool) -> float | None:
        """Seconds from a write to when a replica of the target has it; None while it is held up."""
        origin = self.write.number if source == WRITER else source
        links = [self._links[origin, target]] if origin != target else []
        if late:
            links.append(self._links[target, target])
        elif origin == target:
            return 0.0
        if any(each.paused for each in links):
            return None
        # What a region has not sent when it stops to answer, it sends when it is back.
        if not (self.regions[target].online and (self.regions[origin].online or origin == target)):
            return None
        return sum(each.lag for each in links)

    def link(self, source: str, target: str) -> Link:
        """The link between two regions, to look at."""
        return self._links[self.region(source).number, self.region(target).number]

    def set_lag(self, source: str, target: str, seconds: float) -> None:
        """From now on what is written in `source` is in `target` after `seconds`.

        A region's lag to itself is that of its late replica, which every fourth weak read meets.
        """
        if not 0 <= seconds <= _LONGEST_LAG:
            raise UsageError(f"a lag of {seconds:g} s: give it 0 to {_LONGEST_LAG:g}")
        link = self.link(source, target)
        self._before_change()
        link.lag = float(seconds)
        self._look()

    def set_paused(self, source: str, target: str, paused: bool) -> None:
        """Holds up what goes from one region to another, or lets it go on."""
        link = self.link(source, target)
        self._before_change()
        link.paused = paused
        self._look()

    def set_online(self, name: str, online: bool) -> None:
        """A region stops to answer, or comes back."""
        region = self.region(name)
        self._before_change()
        region.online = online
        self._look()

    def set_member(self, name: str, member: bool) -> None:
        """The account gives a region up, or takes it (again).

        Raises:
            UsageError: it is the write region.
        """
        region = self.region(name)
        if region is self.write and not self.multiple:
            raise UsageError(f"{region.name} is the write region: fail over to another one first")
        self._before_change()
        region.member = member
        self._look()

    def set_write(self, region: Region) -> None:
        """Another region is the write region."""
        self._before_change()
        self.write = region
        self._look()

    def _look(self) -> None:
        self.straight = all(each.online for each in self.regions) and not any(
            link.paused or link.lag for link in self._links.values()
        )


def _flat(name: str) -> str:
    return name.replace(" ", "").lower()
