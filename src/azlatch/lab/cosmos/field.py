"""Reads fields of a definition: each has the type that it must have, or the request is a 400."""

from __future__ import annotations

from typing import Any

from azlatch.lab.cosmos.errors import ServiceError, bad_request
from azlatch.lab.cosmos.wire import Request, decode

#: Deepest nesting of a definition; what is stored is encoded again and again.
_MOST_DEPTH = 32
_MOST_ID = 255
_FORBIDDEN_IN_ID = frozenset("/\\?#")


def body_of(request: Request) -> dict[str, Any]:
    """The body of a request, a JSON object.

    Raises:
        ServiceError: 400 for what is none, or is nested too deeply.
    """
    try:
        body = decode(request.body)
    except ValueError:
        raise bad_request("The request body is not valid JSON.") from None
    _check_depth(body)
    return as_object(body)


def invalid() -> ServiceError:
    """400 as the service words it for a field of the wrong type."""
    return bad_request("One of the specified inputs is invalid")


def as_object(value: Any) -> dict[str, Any]:
    """The value, a JSON object."""
    if not isinstance(value, dict):
        raise invalid()
    return value


def as_list(value: Any) -> list[Any]:
    """The value, a JSON array."""
    if not isinstance(value, list):
        raise invalid()
    return value


def as_text(value: Any) -> str:
    """The value, a string with something in it."""
    if not isinstance(value, str) or not value:
        raise invalid()
    return value


def as_int(value: Any) -> int:
    """The value, a whole number (2.0 is one)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or value % 1:
        raise invalid()
    return int(value)


def as_id(value: Any) -> str:
    """The value, a name that a resource may have."""
    if not isinstance(value, str) or not value:
        raise bad_request("The input content is invalid because the required properties - 'id; ' - are missing")
    if len(value) > _MOST_ID or len(value.encode()) > _MOST_ID:
        raise bad_request(
            "The input name is invalid."
            f" Ensure to provide a unique non-empty string less than '{_MOST_ID}' characters."
        )
    if not _FORBIDDEN_IN_ID.isdisjoint(value):
        raise bad_request("The resource name presented contains an invalid character: one of / \\\\ ? #.")
    if value[-1].isspace():
        raise bad_request("The resource name can't end with space.")
    return value


def _check_depth(value: Any) -> None:
    """Refuses what is nested too deeply to be a definition."""
    level = [value]
    for _ in range(_MOST_DEPTH):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise bad_request("The definition is nested too deeply.")
