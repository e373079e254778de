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

    def second(self, now: float, rate: float) -> Second:
        """The second of a time, to be counted in; a rate that changes within it is the later one."""
        at = int(now // 1)
        place = at % KEPT_S
        found = self._ring[place]
        if found is None or found.at < at:
            found = self._ring[place] = Second(at, rate=rate)
        found.rate = rate
        return found

    def seconds(self, now: float) -> list[Second]:
        """Those of the last `KEPT_S` seconds that had a request, oldest first."""
        after = int(now // 1) - KEPT_S
        return sorted([each for each in self._ring if each and each.at > after], key=lambda each: each.at)
