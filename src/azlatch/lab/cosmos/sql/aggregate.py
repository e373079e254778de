"""Aggregates: one object for each while it is counted up.

SUM and AVG leave undefined values out and are undefined once they met anything else that is no number; MIN and
MAX go by the order of all values (documentation of the functions; the SDK merges them the same way).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from azlatch.lab.cosmos.sql.limits import Meter
from azlatch.lab.cosmos.sql.values import UNDEFINED, double, identity, is_number, number, size_of, sort_key


class Aggregate(Protocol):
    """Takes values, and has a result at any time."""

    def add(self, value: Any) -> None: ...

    def result(self) -> Any: ...


class _Count:
    def __init__(self, _meter: Meter) -> None:
        self.count = 0

    def add(self, value: Any) -> None:
        if value is not UNDEFINED:
            self.count += 1

    def result(self) -> Any:
        return self.count


class _CountIf(_Count):
    def add(self, value: Any) -> None:
        if value is True:
            self.count += 1


class _Sum:
    def __init__(self, _meter: Meter) -> None:
        self.sum: Any = 0
        self.count = 0

    def add(self, value: Any) -> None:
        if value is UNDEFINED or self.sum is UNDEFINED:
            return
        if not is_number(value):
            self.sum = UNDEFINED
            return
        self.sum = number(self.sum + value) if abs(value) < 2**53 else number(double(self.sum) + double(value))
        self.count += 1

    def result(self) -> Any:
        return self.sum


class _Average(_Sum):
    def result(self) -> Any:
        return UNDEFINED if self.sum is UNDEFINED or not self.count else number(self.sum / self.count)


class _Extreme:
    def __init__(self, _meter: Meter) -> None:
        self.value: Any = UNDEFINED
        self.key: Any = None

    def add(self, value: Any) -> None:
        if value is UNDEFINED:
            return
        key = sort_key(value)
        if self.value is UNDEFINED or self.wins(key):
            self.value, self.key = value, key

    def wins(self, key: Any) -> bool:
        raise NotImplementedError

    def result(self) -> Any:
        return UNDEFINED if type(self.value) in (list, dict) else self.value


class _Min(_Extreme):
    def wins(self, key: Any) -> bool:
        return bool(key < self.key)


class _Max(_Extreme):
    def wins(self, key: Any) -> bool:
        return bool(key > self.key)


class _List:
    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.values: list[Any] = []

    def add(self, value: Any) -> None:
        if value is not UNDEFINED:
            self.meter.hold(size_of(value))
            self.values.append(value)

    def result(self) -> Any:
        return self.values


class _Set(_List):
    def __init__(self, meter: Meter) -> None:
        super().__init__(meter)
        self.seen: set[Any] = set()

    def add(self, value: Any) -> None:
        if identity(value) not in self.seen:
            self.seen.add(identity(value))
            super().add(value)


#: How to start one, by name in capitals.
AGGREGATES: dict[str, Callable[[Meter], Aggregate]] = {
    "AVG": _Average,
    "COUNT": _Count,
    "COUNTIF": _CountIf,
    "MAKELIST": _List,
    "MAKESET": _Set,
    "MAX": _Max,
    "MIN": _Min,
    "SUM": _Sum,
}
