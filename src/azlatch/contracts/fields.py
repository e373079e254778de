"""Looking at values whose type nobody knows: numbers, names, ids, and the fields of mappings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from azlatch.contracts.diagnosis import OPERATIONS, Operation

#: Of a mapping no more fields than this are looked at.
_MOST_FIELDS = 500
_LONGEST_WAIT_MS = 3_600_000.0
_NUMBER = re.compile(r"\s*(\d{1,5})(?:\.0+)?\s*", re.ASCII)
_GUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_NO_LETTER = re.compile(r"[^a-z]")
#: The types that columns of AzureDiagnostics have at the end of their names.
_TYPES = re.compile(r"_[sdgtb]$")

_OPERATION_WORDS: dict[str, Operation] = {
    **{each: each for each in OPERATIONS},
    "get": "read",
    "insert": "create",
    "partialupdate": "patch",
    "transactionalbatch": "batch",
    "executebatch": "batch",
    "executeitembatch": "batch",
    "sqlquery": "query",
    "readfeed": "query",
    "readall": "query",
    "list": "query",
}


def is_a(thing: Any, *kinds: type) -> bool:
    """Whether it really is of one of these types, whatever it says of its class."""
    return issubclass(type(thing), kinds)


def peek(thing: Any, name: str) -> Any:
    """An attribute, or None where it cannot be had."""
    try:
        return getattr(thing, name, None)
    except Exception:  # noqa: BLE001 - a property may raise anything
        return None


def number(value: Any) -> int | None:
    """A whole number from 0 to 99,999, as a number or as text."""
    if is_a(value, bool):
        return None
    if is_a(value, int):
        whole = int.__index__(value)
        return whole if 0 <= whole <= 99_999 else None
    if is_a(value, float):
        return int(value) if 0 <= value <= 99_999 and value == int(value) else None
    if is_a(value, bytes):
        value = value[:20].decode("ascii", "replace")
    if is_a(value, str):
        found = _NUMBER.fullmatch(value)
        return int(found[1]) if found else None
    return None


def seconds(milliseconds: Any) -> float | None:
    """Milliseconds, as a number or as text, in seconds; at most an hour."""
    if is_a(milliseconds, bool) or not is_a(milliseconds, int, float, str):
        return None
    try:
        found = float(milliseconds)
    except (ValueError, OverflowError):
        return None
    return min(found, _LONGEST_WAIT_MS) / 1000 if math.isfinite(found) and found >= 0 else None


def activity(value: Any) -> str | None:
    """An activity id, if it is one: nothing else of what an answer said is ever repeated."""
    return str(value).lower() if is_a(value, str) and _GUID.fullmatch(str(value)) else None


def operation_of(word: Any) -> Operation | None:
    """The operation that a word names: `Create`, `upsert_item`, `docs/create`, `ReplaceDocument`."""
    if not is_a(word, str):
        return None
    letters = _NO_LETTER.sub("", str(word)[:200].rpartition("/")[2].lower())
    for suffix in ("", "items", "item", "documents", "document"):
        if letters.endswith(suffix):
            known = _OPERATION_WORDS.get(letters[: len(letters) - len(suffix)])
            if known is not None:
                return known
    return None


def fields_of(thing: Any) -> dict[str, Any]:
    """The fields of a mapping, with names in small letters and without punctuation; empty for anything else."""
    if not is_a(thing, Mapping):
        return {}
    found: dict[str, Any] = {}
    for key, value in islice(thing.items(), _MOST_FIELDS):
        if is_a(key, str):
            name = _NO_LETTER.sub("", _TYPES.sub("", key[:100].lower()))
            if found.get(name) is None:
                found[name] = value
    return found


def names_of(thing: Any) -> list[str]:
    """The names of the classes of an object, the nearest first."""
    return [kind.__name__ for kind in type(thing).__mro__]
