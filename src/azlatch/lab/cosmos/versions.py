"""The versions of an item, and which of them a replica shows.

Every write of a physical partition has a log sequence number (LSN). A replica has seen the writes of each
source up to one LSN, and shows of each item the last of those: that is all there is to replication here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from azlatch.lab.cosmos.wire import decode

#: Where all writes come from in an account with one write region, whichever that is.
WRITER = -1
#: What a replica has seen: by source the last LSN. None: everything.
View = Mapping[int, int] | None


class Version:
    """One state of an item; without a body it says that the item was deleted."""

    __slots__ = (
        "_document",
        "at",
        "base",
        "body",
        "counted",
        "etag",
        "expires",
        "lsn",
        "order",
        "source",
        "ts",
    )

    def __init__(self, body: bytes | None, etag: str, ts: int, expires: float | None, source: int) -> None:
        self.body = body
        self.etag = etag
        #: Seconds since the Unix epoch, as `_ts` says.
        self.ts = ts
        self.expires = expires
        self.source = source
        #: Set when it is written: its LSN, the time, and the LSN that its writer had seen of this item.
        self.lsn = 0
        self.at = 0.0
        self.base = 0
        #: What decides between versions that did not know of each other.
        self.order: float = ts
        #: Whether the sizes and unique keys of its logical partition have it in them.
        self.counted = False
        self._document: dict[str, Any] | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The body as an object; not to be changed."""
        if self._document is None:
            self._document = self.read()
        return self._document

    def read(self) -> dict[str, Any]:
        """The same, and it is not kept: for who reads many."""
        if self._document is not None:
            return self._document
        found = decode(self.body or b"{}")
        return found if isinstance(found, dict) else {}

    def lives(self, now: float) -> bool:
        """Whether there is an item: neither deleted nor expired."""
        return self.body is not None and (self.expires is None or now < self.expires)


class History:
    """The versions of one item, in the order of their LSNs: as many as some replica may still show."""

    __slots__ = ("id", "key", "number", "versions")

    def __init__(self, key: LogicalPartition, name: str, number: int) -> None:
        self.key = key
        self.id = name
        #: Counts the items of a container; its resource id is made of it, and scans are in its order.
        self.number = number
        self.versions: list[Version] = []

    def show(self, view: View) -> Version | None:
        """The version that a replica shows; one that says "deleted" is shown, too."""
        versions = self.versions
        if not versions or (view is None and len(versions) == 1):
            return versions[-1] if versions else None
        if versions[-1].source == WRITER:
            # One writer's: the last one counts.
            seen = math.inf if view is None else view.get(WRITER, 0)
            return next((each for each in reversed(versions) if each.lsn <= seen), None)
        shown: Version | None = None
        for each in versions:
            if view is None or each.lsn <= view.get(each.source, 0):
                shown = each if shown is None else winner(shown, each)
        return shown

    def prune(self, floor: View) -> None:
        """Forgets what no replica can show any more."""
        versions = self.versions
        if floor is None:
            shown = self.show(None)
            self.versions = [shown] if shown is not None else []
            return
        base = [each for each in versions if each.lsn <= floor.get(each.source, 0)]
        if len(base) > 1:
            kept = base[0]
            for each in base[1:]:
                kept = winner(kept, each)
            self.versions = [each for each in versions if each is kept or each not in base]


def winner(first: Version, second: Version) -> Version:
    """Of two versions, the one that stays: the later, or the last writer's where neither knew the other.

    A deletion that is in conflict always wins, as in the service.
    """
    if second.base >= first.lsn or first.source == second.source:
        return second
    if (first.body is None) != (second.body is None):
        return first if first.body is None else second
    return second if (second.order, second.source) >= (first.order, first.source) else first


class LogicalPartition:
    """The items with one partition key value."""

    __slots__ = ("epk", "items", "size", "text", "unique", "values")

    def __init__(self, text: str, values: tuple[Any, ...], epk: str) -> None:
        self.text = text
        self.values = values
        self.epk = epk
        self.items: dict[str, History] = {}
        #: Bytes of the items that are there.
        self.size = 0
        #: The index of unique keys, if the container has any.
        self.unique: Any = None
