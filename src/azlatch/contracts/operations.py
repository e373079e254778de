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

import binascii
import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from azlatch.errors import UsageError

PROPERTY = "azlatch_ops"
MOST = 16
_LIST = re.compile(r"[\w-]{8}\.[\w-]{6}(?: [\w-]{8}\.[\w-]{6})*", re.ASCII)
#: An entry with the space before it.
_WIDTH = 16
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def hashed(etag: str) -> str:
    """36 bits of a version's name."""
    return word(hashlib.sha256(etag.encode()).digest())[:6]


def word(data: bytes) -> str:
    """Bytes in URL-safe base64, as the module of that name has it, in fewer steps; six of them are an id."""
    return binascii.b2a_base64(data, newline=False).translate(_URL_SAFE).decode()


class Operations(NamedTuple):
    """The operations that an item tells of, as their text; it is taken apart when something is asked."""

    text: str = ""

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
        return cls(text[1 - MOST * _WIDTH :])

    @property
    def entries(self) -> list[str]:
        """Each as `ID.HASH`, the newest last."""
        return self.text.split()

    @property
    def newest(self) -> str | None:
        """The id of the last one."""
        return self.text[1 - _WIDTH :][:8] or None

    def has(self, operation: str | None) -> bool:
        """Whether the operation is among them."""
        return operation is not None and any(each[:8] == operation for each in self.entries)

    def used_up(self, etag: str) -> bool:
        """Whether one of them was conditional on that version: no other such write can succeed."""
        basis = hashed(etag)
        return any(each[9:] == basis for each in self.entries)

    def then(self, operation: str, etag: str) -> str:
        """The property's value after one more, which is conditional on `etag`."""
        entry = f"{operation}.{hashed(etag)}"
        return f"{self.text[1 - (MOST - 1) * _WIDTH :]} {entry}" if self.text else entry
