"""JSON values: a copy that shares nothing, and equality as JSON has it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from azlatch.errors import UsageError

#: Deeper values are refused; the service takes 128 levels.
MOST_LEVELS = 128


def copied(value: Any, what: str = "the item") -> Any:
    """A deep copy made of dict, list, str, int, float, bool and None alone.

    Raises:
        UsageError: there is something in it that JSON does not have; the message says where.
    """
    try:
        return _copied(value, 0)
    except _Unfit as unfit:
        where = "".join(f"/{each}" for each in reversed(unfit.path)) or "/"
        raise UsageError(f"{what} has {unfit.found} at {where[:200]}: {unfit.reason}") from None


class _Unfit(Exception):
    """A value that JSON does not have; the path to it is put together on the way out."""

    def __init__(self, found: str, reason: str) -> None:
        self.found = found
        self.reason = reason
        self.path: list[str] = []


_PLAIN = frozenset({str, int, bool, type(None)})
_TEXTS = frozenset({str})


def _copied(value: Any, level: int) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, (str, int, float)):
        if isinstance(value, float) and not math.isfinite(value):
            raise _Unfit(repr(value), "JSON has no such number")
        return value
    if level >= MOST_LEVELS:
        raise _Unfit("something", f"there are at most {MOST_LEVELS} levels")
    # A dict is told at once; what an abstract class takes is looked up.
    if kind is dict or isinstance(value, Mapping):
        return _copied_mapping(value, level)
    if isinstance(value, (list, tuple)):
        return [
            each if type(each) in _PLAIN else _copied_inside(each, level, index)
            for index, each in enumerate(value)
        ]
    raise _Unfit(f"a {kind.__name__}", "JSON has no such value")


def _copied_mapping(value: Mapping[Any, Any], level: int) -> dict[str, Any]:
    for name in value if not _TEXTS.issuperset(map(type, value)) else ():
        if not isinstance(name, str):
            raise _Unfit(f"the name {name!r}", "names in JSON are texts")
    # As a whole, because nearly all is plain; what is not is looked at one by one.
    found = dict(value)
    if not _PLAIN.issuperset(map(type, found.values())):
        for name, each in found.items():
            if type(each) not in _PLAIN:
                found[name] = _copied_inside(each, level, name)
    return found


def _copied_inside(value: Any, level: int, name: str | int) -> Any:
    try:
        return _copied(value, level + 1)
    except _Unfit as unfit:
        unfit.path.append(escaped(str(name)))
        raise


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: 1 and 1.0 are one number, 1 and true are not the same."""
    if one is other:
        return True
    if isinstance(one, bool) or isinstance(other, bool):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(each, other[name]) for name, each in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


def escaped(name: str) -> str:
    """A name as a JSON pointer (RFC 6901) has it."""
    return name.replace("~", "~0").replace("/", "~1")
