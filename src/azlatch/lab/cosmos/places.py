"""Where the next page goes on: what a continuation says, so that it survives splits of what it is about."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from azlatch.lab.cosmos.errors import bad_request
from azlatch.lab.cosmos.partition import PhysicalPartition
from azlatch.lab.cosmos.store import LOWEST
from azlatch.lab.cosmos.wire import decode, encode

#: More results than that no page follows.
_MOST_SKIP = 2**53


@dataclass(frozen=True, slots=True)
class Place:
    """Where a range of keys goes on: after which item, and after how many results of the next one.

    Where the results are not told item by item, `skip` counts all results.
    """

    low: str = LOWEST
    high: str = LOWEST
    after: int = -1
    skip: int = 0

    def in_part(self, part: PhysicalPartition, low: str, high: str, *, streams: bool) -> Place:
        """Where it goes on in a part of the range: it may have been split."""
        if not streams:
            return Place(low, high, self.after, self.skip)
        following = next(part.scan(self.after), None)
        is_in = following is not None and following.number == self.after + 1
        return Place(low, high, self.after, self.skip if is_in else 0)


class Places:
    """Where a page goes on: in order, the ranges of which something was told, and what comes after them."""

    def __init__(self, places: Sequence[Place], start: str) -> None:
        self._places = places
        #: The lowest key of which not everything was told.
        self.start = start

    @classmethod
    def of(cls, text: str) -> Places:
        """Raises ServiceError 400 for a continuation that is none of ours."""
        if not text:
            return cls([], LOWEST)
        try:
            start, places = decode(base64.urlsafe_b64decode(text.encode()))
            read = [Place(str(low), str(high), int(after), int(skip)) for low, high, after, skip in places]
            if not all(0 <= each.skip <= _MOST_SKIP for each in read):
                raise ValueError("it is beyond all results")
        except (ValueError, TypeError):
            raise bad_request("The continuation is not valid for this request.") from None
        return cls(read, str(start))

    def __str__(self) -> str:
        places = [[each.low, each.high, each.after, each.skip] for each in self._places]
        return base64.urlsafe_b64encode(encode([self.start, places])).decode()

    def in_part(self, part: PhysicalPartition, *, streams: bool) -> Place:
        """Where it goes on in a part: in all of it, unless it was merged of ranges that are told apart."""
        low = max(part.low, self.start)
        bounds = [bound for each in self._places for bound in (each.low, each.high)]
        high = min([each for each in bounds if low < each < part.high], default=part.high)
        for each in self._places:
            if each.low <= low < each.high:
                return each.in_part(part, low, high, streams=streams)
        return Place(low, high)

    def begin_at(self, low: str, place: Place | None = None) -> Places:
        """The same without what comes before a key; there it goes on at a place, if one is given."""
        begin = low if place is None else place.high
        rest = [
            Place(max(each.low, begin), each.high, each.after, each.skip)
            for each in self._places
            if each.high > begin
        ]
        return Places([place, *rest] if place is not None else rest, low)
