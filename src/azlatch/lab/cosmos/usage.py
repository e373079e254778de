"""What a physical partition was used for, second by second, for as long as a heat map looks back."""

from __future__ import annotations

from dataclasses import dataclass

#: Seconds that are kept.
KEPT_S = 600


@dataclass(slots=True)
class Second:
    """One second: request units, requests, how many of them were answered with 429, and what was allowed."""

    at: int
    units: float = 0.0
    requests: int = 0
    throttled: int = 0
    rate: float = 0.0


class Usage:
    """The last `KEPT_S` seconds in bounded memory; a second without a request takes none of it."""

    def __init__(self) -> None:
        self._ring: list[Second | None] = [None] * KEPT_S
        #: The one that was asked for last: hardly ever it is another one.
        self._last = Second(-1)

    def second(self, now: float, rate: float) -> Second:
        """The second of a time, to be counted in; a rate that changes within it is the later one."""
        at = int(now)
        found = self._last
        if found.at != at:
            place = at % KEPT_S
            there = self._ring[place]
            if there is None or there.at < at:
                there = self._ring[place] = Second(at)
            found = self._last = there
        found.rate = rate
        return found

    def seconds(self, now: float) -> list[Second]:
        """Those of the last `KEPT_S` seconds that had a request, oldest first."""
        after = int(now) - KEPT_S
        return sorted([each for each in self._ring if each and each.at > after], key=lambda each: each.at)

    def recent(self, now: float, within: int) -> list[Second]:
        """Those of the last `within` seconds that had a request, the running one among them, oldest first."""
        last, within = int(now), min(within, KEPT_S)
        found = (self._ring[at % KEPT_S] for at in range(last - within + 1, last + 1))
        return [each for each in found if each is not None and last - within < each.at <= last]
