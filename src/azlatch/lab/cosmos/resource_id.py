"""Resource ids (`_rid`): bytes that name a resource below its parents, in base64 with `-` for `/`.

Sources: `ResourceId.java` of azure-cosmos for Java. A database has 4 bytes; a container and a user have 4
more, of which the highest bit says container; what is in a container or belongs to a user has 8 more, and for
what is in a container the upper half of the last byte says of which kind it is, while its number begins at
the first byte. An offer has 3 bytes and no parent.

The SDK (`IsNameBased` in `_base.py`) takes a database for a `_rid` if it has 8 characters that decode to 4
bytes.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from typing import Literal

#: The upper half of the last byte, by kind of resource in a container.
_IN_CONTAINER = {
    "docs": 0x0,
    "sprocs": 0x8,
    "triggers": 0x7,
    "udfs": 0x6,
    "conflicts": 0x4,
    "pkranges": 0x5,
}
_KINDS = {mark: kind for kind, mark in _IN_CONTAINER.items()}

#: What has 8 bytes of its own has a number of 60 bits; the rest is its kind.
_MOST_NUMBER = 2**60
#: An id of a container has its highest bit set.
_CONTAINER = 1 << 31
#: Longest id, letters.
_MOST_LETTERS = 28


def database_id(counter: int) -> str:
    """Of the database with this number, 1 to 2**32 - 1."""
    return _text(_bytes(counter, 1, 2**32, 4))


def container_id(database: str, counter: int) -> str:
    """Of the container with this number in its database, 0 to 2**31 - 1."""
    return _text(_parent(database, 4) + _bytes(counter, 0, _CONTAINER, 4, _CONTAINER))


def user_id(database: str, counter: int) -> str:
    """Of the user with this number in its database, 1 to 2**31 - 1."""
    return _text(_parent(database, 4) + _bytes(counter, 1, _CONTAINER, 4))


def permission_id(user: str, counter: int) -> str:
    """Of the permission with this number of its user, 1 to 2**60 - 1."""
    parent = _parent(user, 8)
    if kind_of(user) != "users":
        raise ValueError("it is the id of no user")
    return _text(parent + _bytes(counter, 1, _MOST_NUMBER, 8, 0, "little"))


def child_id(container: str, kind: str, counter: int) -> str:
    """Of a document or anything else in a container, by the kind's name in paths and its number, 1 to 2**60 -
    1.
    """
    parent = _parent(container, 8)
    if kind_of(container) != "colls":
        raise ValueError("it is the id of no container")
    return _text(parent + _bytes(counter, 1, _MOST_NUMBER, 8, _IN_CONTAINER[kind] << 60, "little"))


def offer_id(counter: int) -> str:
    """Of the offer with this number, 1 to 2**24 - 1."""
    return _text(_bytes(counter, 1, 2**24, 3))


def number_of(rid: str) -> int:
    """The number of what is in a container; 0 if it is the id of nothing there."""
    data = _decoded(rid)
    if data is None or len(data) != 16 or not data[4] & 0x80:
        return 0
    return int.from_bytes(data[8:], "little") % _MOST_NUMBER


def kind_of(rid: str) -> str:
    """Which kind of resource an id is of, by its name in paths; "" if it is no id."""
    data = _decoded(rid)
    if data is None or len(data) not in (3, 4, 8, 16):
        return ""
    if len(data) == 3:
        return "offers"
    if len(data) == 4:
        return "dbs"
    in_container = bool(data[4] & 0x80)
    if len(data) == 8:
        return "colls" if in_container else "users"
    return _KINDS.get(data[15] >> 4, "") if in_container else "permissions"


def parent_of(rid: str) -> str:
    """The id of the container, user or database that the resource is in; "" if it has none."""
    data = _decoded(rid)
    if data is None or len(data) not in (8, 16):
        return ""
    return _text(data[: len(data) // 2])


def _bytes(
    counter: int, least: int, end: int, length: int, bits: int = 0, order: Literal["big", "little"] = "big"
) -> bytes:
    if not least <= counter < end:
        raise ValueError(f"{counter} is beyond the numbers of a resource id")
    return (counter | bits).to_bytes(length, order)


def _text(data: bytes) -> str:
    return b64encode(data, b"+-").decode()


def _decoded(rid: str) -> bytes | None:
    if not rid or len(rid) > _MOST_LETTERS or len(rid) % 4 or "/" in rid:
        return None
    try:
        return b64decode(rid, b"+-", validate=True)
    except (binascii.Error, ValueError):
        return None


def _parent(rid: str, length: int) -> bytes:
    data = _decoded(rid)
    if data is None or len(data) != length:
        raise ValueError("it is the id of no such parent")
    return data
