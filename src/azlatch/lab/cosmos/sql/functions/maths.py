"""Functions on numbers. What has no number as its answer is undefined."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from azlatch.lab.cosmos.sql.functions.table import Context, Table
from azlatch.lab.cosmos.sql.values import UNDEFINED, double, is_number, number

MATHS = Table()


def _on_numbers(function: Callable[..., float]) -> Callable[..., Any]:
    """The function where all arguments are numbers and it has an answer, else undefined."""

    def applied(*arguments: Any) -> Any:
        if not all(map(is_number, arguments)):
            return UNDEFINED
        try:
            return number(function(*map(double, arguments)))
        except (ArithmeticError, ValueError):
            return UNDEFINED

    return applied


def _round(value: float) -> float:
    """Halves away from zero."""
    if abs(value) >= 2**52:
        return value
    return math.copysign(math.floor(abs(value) + 0.5), value)


def _power(base: float, exponent: float) -> float:
    value = base**exponent
    if isinstance(value, complex):
        raise ValueError("no real number")
    return float(value)


def _log(value: float, base: float = math.e) -> float:
    return math.log(value) if base == math.e else math.log(value, base)


_NAMED: dict[str, tuple[Callable[..., float], int, int]] = {
    "ABS": (abs, 1, 1),
    "ACOS": (math.acos, 1, 1),
    "ASIN": (math.asin, 1, 1),
    "ATAN": (math.atan, 1, 1),
    "ATN2": (math.atan2, 2, 2),
    "CEILING": (math.ceil, 1, 1),
    "COS": (math.cos, 1, 1),
    "COT": (lambda value: 1 / math.tan(value), 1, 1),
    "DEGREES": (math.degrees, 1, 1),
    "EXP": (math.exp, 1, 1),
    "FLOOR": (math.floor, 1, 1),
    "LOG": (_log, 1, 2),
    "LOG10": (math.log10, 1, 1),
    "POWER": (_power, 2, 2),
    "RADIANS": (math.radians, 1, 1),
    "SIGN": (lambda value: (value > 0) - (value < 0), 1, 1),
    "SIN": (math.sin, 1, 1),
    "SQRT": (math.sqrt, 1, 1),
    "SQUARE": (lambda value: value * value, 1, 1),
    "TAN": (math.tan, 1, 1),
    "TRUNC": (math.trunc, 1, 1),
}
for _name, (_function, _least, _most) in _NAMED.items():
    MATHS.add(_name, _least, _most)(_on_numbers(_function))

MATHS.add("PI", 0)(lambda: math.pi)


@MATHS.add("ROUND", 1, 2)
def _rounded(value: Any, places: Any = 0) -> Any:
    if not is_number(value) or not is_number(places) or places != int(places) or abs(places) > 300:
        return UNDEFINED
    scale = 10.0 ** int(places)
    scaled = double(value) * scale
    return number(_round(scaled) / scale) if math.isfinite(scaled) else number(value)


@MATHS.add("RAND", 0, context=True)
def _rand(context: Context) -> float:
    # The lab is deterministic: the number depends on the time of the query and how far it got.
    state = hash((context.now, context.meter.steps, context.meter.read)) & (2**64 - 1)
    state = (state * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
    return float(state >> 11) / 2**53


@MATHS.add("NumberBin", 1, 2)
def _bin(value: Any, size: Any = 1) -> Any:
    if not is_number(value) or not is_number(size) or size <= 0:
        return UNDEFINED
    place = double(value) / double(size)
    return number(math.floor(place) * double(size)) if math.isfinite(place) else UNDEFINED


_LONG = 2**63


def _on_longs(function: Callable[..., int]) -> Callable[..., Any]:
    """The function on whole numbers of 64 bits, else undefined."""

    def applied(*arguments: Any) -> Any:
        if not all(
            is_number(each) and each == math.floor(each) and -_LONG <= each < _LONG for each in arguments
        ):
            return UNDEFINED
        try:
            value = function(*map(int, arguments))
        except (ArithmeticError, ValueError):
            return UNDEFINED
        return number((value + _LONG) % (2 * _LONG) - _LONG)

    return applied


def _shifted_left(value: int, by: int) -> int:
    return value << (by & 63)


def _shifted_right(value: int, by: int) -> int:
    return value >> (by & 63)


def _divided(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


_LONGS: dict[str, tuple[Callable[..., int], int]] = {
    "IntAdd": (lambda left, right: left + right, 2),
    "IntBitAnd": (lambda left, right: left & right, 2),
    "IntBitLeftShift": (_shifted_left, 2),
    "IntBitNot": (lambda value: ~value, 1),
    "IntBitOr": (lambda left, right: left | right, 2),
    "IntBitRightShift": (_shifted_right, 2),
    "IntBitXor": (lambda left, right: left ^ right, 2),
    "IntDiv": (_divided, 2),
    "IntMod": (lambda left, right: left - right * _divided(left, right), 2),
    "IntMul": (lambda left, right: left * right, 2),
    "IntSub": (lambda left, right: left - right, 2),
}
for _name, (_whole, _least) in _LONGS.items():
    MATHS.add(_name, _least)(_on_longs(_whole))
