"""What an item may be, what the service adds to it, and when it expires."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from azlatch.lab.cosmos.errors import bad_request, too_large

#: Largest item, bytes of JSON in UTF-8.
MOST_BYTES = 2 * 1024 * 1024
#: Deepest nesting of objects and arrays, the item itself included.
MOST_LEVELS = 128
#: Longest id, bytes in UTF-8.
MOST_ID_BYTES = 1_023
#: Longest time to live, seconds.
MOST_TTL = 2**31 - 1

#: What the service writes into each item, in its order.
SYSTEM_PROPERTIES = ("_rid", "_self", "_etag", "_attachments", "_ts")

_SYSTEM = frozenset(SYSTEM_PROPERTIES)
_ILLEGAL = frozenset("/\\?#")
#: The first whole number that has no double: halfway from the largest one to what would be the next.
_NO_DOUBLE = 2**1024 - 2**970


def check_item(document: Any, size: int, *, most_bytes: int = MOST_BYTES) -> None:
    """An item that may be stored: an object with an id, within the limits.

    Args:
        document: as decoded.
        size: of its JSON, bytes.
        most_bytes: the limit for `size`.

    Raises:
        ServiceError: 413 for the size, 400 for all else.
    """
    if size > most_bytes:
        raise too_large(f"Request size is too large: the item has {size} bytes of at most {most_bytes}.")
    if not isinstance(document, dict):
        raise bad_request("The item must be a JSON object.")
    check_id(document.get("id"))
    if "ttl" in document:
        check_ttl(document["ttl"], "ttl")
    _check_nested(document, MOST_LEVELS)


def check_id(value: Any) -> str:
    """An id of an item or any other resource: a string that can be part of a path.

    The documentation forbids `/`, `\\`, `?` and `#`, and the SDK does not send them; a live account has been
    reported to create items with some of them, which then can be neither read nor deleted.

    Raises:
        ServiceError: 400.
    """
    if value is None:
        raise bad_request("The input content is invalid because the required properties - 'id; ' - are missing")
    if not isinstance(value, str):
        raise bad_request("The input content is invalid because 'id' is not a string.")
    if not value:
        raise bad_request("The input content is invalid because 'id' is empty.")
    if not _ILLEGAL.isdisjoint(value):
        raise bad_request("Id contains illegal chars: one of / \\ ? #")
    if value[-1] == " ":
        raise bad_request("Id ends with a space.")
    if len(value) * 4 > MOST_ID_BYTES and len(value.encode("utf-8", "surrogatepass")) > MOST_ID_BYTES:
        raise bad_request(
            "The input name is invalid. Ensure to provide a unique non-empty string less than "
            f"'{MOST_ID_BYTES + 1}' characters."
        )
    return value


def check_ttl(value: Any, name: str) -> int:
    """A time to live of an item (`ttl`) or of a container (`defaultTtl`): -1, or a number of seconds.

    Raises:
        ServiceError: 400; null is none either.
    """
    if type(value) is not int or not (value == -1 or 1 <= value <= MOST_TTL):
        raise bad_request(
            f"The input {name} is invalid: it must be -1, or a whole number from 1 to {MOST_TTL}."
        )
    return value


def with_system(document: dict[str, Any], rid: str, self_link: str, etag: str, ts: int) -> dict[str, Any]:
    """A new item: what the caller sent, without what it sent under the names of the service, and the
    service's own.
    """
    if not _SYSTEM.isdisjoint(document):
        document = {name: value for name, value in document.items() if name not in _SYSTEM}
    return {
        **document,
        "_rid": rid,
        "_self": self_link,
        "_etag": etag,
        "_attachments": "attachments/",
        "_ts": ts,
    }


def new_etag(counter: int, ts: float) -> str:
    """An ETag in the form of the service, quotes included: another one for each `counter` below 2**48.

    Args:
        counter: the number of the write.
        ts: its time, seconds; only for the looks of it.
    """
    low, high = counter & 0xFFFFFFFF, counter >> 32 & 0xFFFF
    return f'"{low:08x}-{high:04x}-0000-0000-{int(ts) & 0xFFFFFFFF:08x}0000"'


def expires_at(document: dict[str, Any], container_default: int | None, ts: float) -> float | None:
    """When an item expires, on the clock of `ts`; None for never.

    Args:
        document: its `ttl` goes before the container's.
        container_default: `defaultTtl` of the container. Without one nothing expires, whatever the items say;
        -1 is
            "never, unless the item says so".
        ts: when the item was last written, seconds.
    """
    if container_default is None:
        return None
    ttl = document.get("ttl", container_default)
    return None if ttl == -1 else ts + ttl


def _check_nested(value: dict[str, Any] | list[Any], levels: int) -> None:
    if not levels:
        raise bad_request(f"The item is nested more than {MOST_LEVELS} levels deep.")
    inner: Iterable[Any] = value.values() if isinstance(value, dict) else value
    for each in inner:
        kind = type(each)
        if kind is dict or kind is list:
            _check_nested(each, levels - 1)
        elif kind is int and not -_NO_DOUBLE < each < _NO_DOUBLE:
            raise bad_request("A number of the item is out of range.")
