"""What the operators mean, undefined included: each takes values and gives one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from azlatch.lab.cosmos.sql.limits import Meter
from azlatch.lab.cosmos.sql.values import UNDEFINED, compare, double, equal, is_number, number

Operator = Callable[[Any, Any], Any]

_WHOLE = 2**53


def _arithmetic(work: Callable[[Any, Any], Any]) -> Operator:
    def applied(left: Any, right: Any) -> Any:
        if not is_number(left) or not is_number(right):
            return UNDEFINED
        if not (-_WHOLE <= left <= _WHOLE and -_WHOLE <= right <= _WHOLE):
            left, right = double(left), double(right)
        try:
            return number(work(left, right))
        except (ArithmeticError, ValueError):
            return UNDEFINED

    return applied


def _remainder(left: float, right: float) -> float:
    # The sign is that of the dividend, as in C.
    return math.fmod(left, right)


def bits(value: float) -> int:
    """A number as the 32 bits that operators on bits see (ECMAScript, ToInt32)."""
    value = double(value)
    if not math.isfinite(value):
        return 0
    whole = int(value) & 0xFFFF_FFFF
    return whole - 2**32 if whole >= 2**31 else whole


def _on_bits(work: Callable[[int, int], int]) -> Operator:
    def applied(left: Any, right: Any) -> Any:
        if not is_number(left) or not is_number(right):
            return UNDEFINED
        return bits(work(bits(left), bits(right)))

    return applied


def _zero_filled(left: Any, right: Any) -> Any:
    if not is_number(left) or not is_number(right):
        return UNDEFINED
    return (bits(left) & 0xFFFF_FFFF) >> (bits(right) & 31)


def _equal(left: Any, right: Any) -> Any:
    if left is UNDEFINED or right is UNDEFINED:
        return UNDEFINED
    return equal(left, right)


def _unequal(left: Any, right: Any) -> Any:
    if left is UNDEFINED or right is UNDEFINED:
        return UNDEFINED
    return not equal(left, right)


def less(left: Any, right: Any) -> Any:
    """`<`: undefined across types, and for arrays and objects."""
    order = compare(left, right)
    return UNDEFINED if order is None else order < 0


def less_or_equal(left: Any, right: Any) -> Any:
    """`<=`."""
    order = compare(left, right)
    return UNDEFINED if order is None else order <= 0


OPERATORS: dict[str, Operator] = {
    "+": _arithmetic(lambda left, right: left + right),
    "-": _arithmetic(lambda left, right: left - right),
    "*": _arithmetic(lambda left, right: left * right),
    "/": _arithmetic(lambda left, right: left / right),
    "%": _arithmetic(_remainder),
    "&": _on_bits(lambda left, right: left & right),
    "|": _on_bits(lambda left, right: left | right),
    "^": _on_bits(lambda left, right: left ^ right),
    "<<": _on_bits(lambda left, right: left << (right & 31)),
    ">>": _on_bits(lambda left, right: left >> (right & 31)),
    ">>>": _zero_filled,
    "=": _equal,
    "!=": _unequal,
    "<": less,
    "<=": less_or_equal,
    ">": lambda left, right: less(right, left),
    ">=": lambda left, right: less_or_equal(right, left),
}


def concatenate(meter: Meter, left: Any, right: Any) -> Any:
    """`||`."""
    if type(left) is not str or type(right) is not str:
        return UNDEFINED
    meter.check_text(len(left) + len(right))
    return left + right


def negate(value: Any) -> Any:
    """`NOT`."""
    return not value if type(value) is bool else UNDEFINED


def _minus(value: Any) -> Any:
    return number(-value) if is_number(value) else UNDEFINED


def _plus(value: Any) -> Any:
    return value if is_number(value) else UNDEFINED


def _inverted(value: Any) -> Any:
    return ~bits(value) if is_number(value) else UNDEFINED


UNARY: dict[str, Callable[[Any], Any]] = {"NOT": negate, "-": _minus, "+": _plus, "~": _inverted}
