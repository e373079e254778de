"""Paths into documents, as partition keys and unique keys spell them: `/address/city`, `/"a/b"`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from azlatch.lab.cosmos.effective_key import UNDEFINED
from azlatch.lab.cosmos.errors import bad_request

#: Longest path, characters.
_MOST_CHARACTERS = 1_023


def parts_of(path: str) -> tuple[str, ...]:
    """The names that a path goes through.

    A part in double or single quotes may contain a slash, and its own quote behind a backslash; like the SDK
    (`ParsePaths` in `_base.py`), the backslashes stay in the name. Space around a part without quotes does
    not count.

    Raises:
        ServiceError: 400 for what is no path.
    """
    if not path.startswith("/") or len(path) > _MOST_CHARACTERS:
        raise _no_path(path)
    parts = []
    at = 0
    while at < len(path):
        if path[at] != "/":
            raise _no_path(path)
        at += 1
        if at == len(path):
            break
        if path[at] in "\"'":
            end = _closing(path, at)
            parts.append(path[at + 1 : end])
            at = end + 1
        else:
            end = path.find("/", at)
            end = len(path) if end < 0 else end
            parts.append(path[at:end].strip())
            at = end
    if not parts or not all(parts):
        raise _no_path(path)
    return tuple(parts)


def value_at(document: Mapping[str, Any], parts: tuple[str, ...]) -> Any:
    """What a document has there; `UNDEFINED` if it has nothing. The way does not lead through arrays."""
    value: Any = document
    for part in parts:
        if not isinstance(value, dict) or part not in value:
            return UNDEFINED
        value = value[part]
    return value


def _closing(path: str, opening: int) -> int:
    quote = path[opening]
    at = path.find(quote, opening + 1)
    while at > 0 and path[at - 1] == "\\":
        at = path.find(quote, at + 1)
    if at < 0:
        raise _no_path(path)
    return at


def _no_path(path: str) -> Exception:
    return bad_request(f"The path '{path[:100]}' is not valid: it must look like /name or /outer/inner.")
