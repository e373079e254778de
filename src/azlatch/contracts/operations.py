"""The last operations on an item, kept in the item itself: what tells an own write from a stranger's.

Each update has one id, which is written with it into the property `azlatch_ops`: one text, so that it is one
entry of the index, of the last sixteen ids, the newest last. Beside each id is a short hash of the version that
its write was conditional on. From that follows what can be proved of a write whose answer was lost:

- its id is there: it was applied;
- another id with the same condition is there: that one used the version up, so this one never can be;
- the newest id of the version that it began with is there, and its own is not: it was not applied, because ids
  leave at the front alone;
- else nothing: more than fifteen others came since, or someone wrote the item without the property.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from azlatch.errors import UsageError

PROPERTY = "azlatch_ops"
MOST = 16
_LIST = re.compile(r"[\w-]{8}\.[\w-]{6}(?: [\w-]{8}\.[\w-]{6})*", re.ASCII)


def hashed(etag: str) -> str:
    """36 bits of a version's name."""
    return base64.urlsafe_b64encode(hashlib.sha256(etag.encode()).digest()).decode()[:6]


class Operations(NamedTuple):
    """The operations that an item tells of, the newest last; each entry is `ID.HASH`."""

    entries: tuple[str, ...] = ()

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> Operations:
        """What an item tells.

        Raises:
            UsageError: the property is there, and is something else.
        """
        text = item.get(PROPERTY)
        if text is None:
            return cls()
        if not isinstance(text, str) or not _LIST.fullmatch(text):
            raise UsageError(
                f"the item's property {PROPERTY!r} is not what update_item writes there: "
                "rename yours, or remove it if it is damaged"
            )
        return cls(tuple(text.split()[-MOST:]))

    @property
    def newest(self) -> str | None:
        """The id of the last one."""
        return self.entries[-1][:8] if self.entries else None

    def has(self, operation: str | None) -> bool:
        """Whether the operation is among them."""
        return operation is not None and any(each[:8] == operation for each in self.entries)

    def used_up(self, etag: str) -> bool:
        """Whether one of them was conditional on that version: no other such write can succeed."""
        basis = hashed(etag)
        return any(each[9:] == basis for each in self.entries)

    def then(self, operation: str, etag: str) -> str:
        """The property's value after one more, which is conditional on `etag`."""
        return " ".join((*self.entries[1 - MOST :], f"{operation}.{hashed(etag)}"))
