"""JSON values as queries see them: undefined is a value too, and all of them have one order.

undefined < null < false < true < numbers < strings < arrays < objects
"""

from __future__ import annotations

import math
from typing import Any, Final


class _Nothing:
    """The type of UNDEFINED; false in a condition of Python, so that none is taken for true."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "UNDEFINED"


#: The value of what is not there. It is never part of a result.
UNDEFINED: Final = _Nothing()

_WHOLE = 2**53
_RANKS: dict[type, int] = {
    _Nothing: 0,
    type(None): 1,
    bool: 2,
    int: 3,
    float: 3,
    str: 4,
    list: 5,
    dict: 6,
}


def is_number(value: Any) -> bool:
    """Whether it is a number; true and false are none here."""
    return type(value) is int or type(value) is float


def is_exact(value: float) -> bool:
    """Whether a number is the same as an int and as a double."""
    return -_WHOLE <= value <= _WHOLE


def number(value: float) -> Any:
    """A result of arithmetic: whole numbers as int, and undefined where JSON has no number for it."""
    if type(value) is int:
        if -_WHOLE <= value <= _WHOLE:
            return value
        try:
            value = float(value)
        except OverflowError:
            return UNDEFINED
    elif not math.isfinite(value):
        return UNDEFINED
    return int(value) if value.is_integer() and -_WHOLE <= value <= _WHOLE else value


def double(value: float) -> float:
    """A number as the service keeps it."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def equal(left: Any, right: Any) -> bool:
    """Whether two values are the same; never across types, arrays and objects by what is in them."""
    kind = type(left)
    if kind is str or kind is bool:
        return kind is type(right) and bool(left == right)
    if kind is int or kind is float:
        return is_number(right) and bool(left == right or _same_double(left, right))
    if kind is list:
        return (
            type(right) is list
            and len(left) == len(right)
            and all(equal(one, other) for one, other in zip(left, right, strict=True))
        )
    if kind is dict:
        return (
            type(right) is dict
            and len(left) == len(right)
            and all(key in right and equal(value, right[key]) for key, value in left.items())
        )
    return kind is type(right)


def _same_double(left: float, right: float) -> bool:
    # Whole numbers that a double cannot hold are the double next to them.
    return not -_WHOLE <= left <= _WHOLE and double(left) == double(right)


def compare(left: Any, right: Any) -> int | None:
    """-1, 0 or 1 for two values of one simple type, None where `<` has no answer."""
    place = _RANKS[type(left)]
    if place != _RANKS[type(right)] or place == 0 or place > 4:
        return None
    if place == 1:
        return 0
    if place == 3 and not (-_WHOLE <= left <= _WHOLE and -_WHOLE <= right <= _WHOLE):
        left, right = double(left), double(right)
    return int(left > right) - int(left < right)


def sort_key(value: Any) -> Any:
    """What sorts values of any type in the order of all values."""
    kind = type(value)
    if kind is int:
        return (3, value if -_WHOLE <= value <= _WHOLE else double(value))
    if kind is list:
        return (5, tuple(sort_key(each) for each in value))
    if kind is dict:
        return (6, tuple((key, sort_key(each)) for key, each in sorted(value.items())))
    return (_RANKS[kind], value if kind in (bool, float, str) else 0)


def identity(value: Any) -> Any:
    """What is equal for equal values only, and can be in a set."""
    kind = type(value)
    if kind is str or kind is float or value is None:
        return value
    if kind is int:
        return value if -_WHOLE <= value <= _WHOLE else double(value)
    if kind is list:
        return ("a", *[identity(each) for each in value])
    if kind is dict:
        return ("o", frozenset((key, identity(each)) for key, each in value.items()))
    return ("b", value) if kind is bool else ("u",)


def size_of(value: Any) -> int:
    """About how much memory it takes, in units of 64 bytes, counted up to where it is nested."""
    kind = type(value)
    if kind is str:
        return 1 + len(value) // 64
    if kind is list:
        return 1 + sum(map(size_of, value))
    if kind is dict:
        return 1 + sum(1 + size_of(each) for each in value.values())
    return 1
