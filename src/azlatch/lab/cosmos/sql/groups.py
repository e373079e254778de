"""GROUP BY and aggregates: many rows to one row for each group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from azlatch.lab.cosmos.sql import ast, faults
from azlatch.lab.cosmos.sql.aggregate import AGGREGATES
from azlatch.lab.cosmos.sql.expressions import Evaluate, Expressions, Row
from azlatch.lab.cosmos.sql.limits import Meter
from azlatch.lab.cosmos.sql.scope import aggregates_in
from azlatch.lab.cosmos.sql.values import identity, size_of

#: Units that one aggregate of one group keeps.
_STATE = 2


class Groups:
    """Reads rows, and gives each group as a row in which aggregates and group expressions have places."""

    def __init__(self, keys: tuple[ast.Expression, ...], expressions: Expressions) -> None:
        self._expressions = expressions
        self._meter: Meter = expressions.context.meter
        self._keys = [(key, expressions.make(key), expressions.slots.take()) for key in keys]
        self._aggregates: list[tuple[str, Evaluate, int]] = []

    def substitute(self, node: ast.Expression) -> Evaluate | None:
        """A reader for what has a place of its own after grouping."""
        for key, _, slot in self._keys:
            if key == node:
                return _reader(slot)
        if isinstance(node, ast.Call) and not node.udf and node.name.upper() in AGGREGATES:
            return _reader(self._declare(node))
        return None

    def _declare(self, node: ast.Call) -> int:
        if len(node.arguments) != 1:
            raise faults.arguments(node.name.upper(), 1, 1, node.start)
        argument = node.arguments[0]
        if aggregates_in(argument):
            raise faults.refused(
                "Cannot perform an aggregate function on an expression containing an aggregate or a subquery."
            )
        expressions = self._expressions
        grouping, expressions.grouping = expressions.grouping, None
        evaluate = expressions.make(argument)
        expressions.grouping = grouping
        slot = expressions.slots.take()
        self._aggregates.append((node.name.upper(), evaluate, slot))
        return slot

    def rows(self, rows: Iterable[Row], row: Row) -> Iterator[Row]:
        """One row for each group, in the order of their first rows; without keys, exactly one.

        `row` is the one that all rows are, one after the other.
        """
        found: dict[Any, tuple[list[Any], list[Any]]] = {}
        keys = [evaluate for _, evaluate, _ in self._keys]
        for _ in rows:
            values = [evaluate(row) for evaluate in keys]
            key = tuple(map(identity, values))
            state = found.get(key)
            if state is None:
                self._meter.hold(sum(map(size_of, values)) + _STATE * (1 + len(self._aggregates)))
                state = found[key] = (values, self._fresh())
            for aggregate, (_, evaluate, _) in zip(state[1], self._aggregates, strict=True):
                aggregate.add(evaluate(row))
        if not keys and not found:
            found[()] = ([], self._fresh())
        for values, aggregates in found.values():
            for (_, _, slot), value in zip(self._keys, values, strict=True):
                row[slot] = value
            for (_, _, slot), aggregate in zip(self._aggregates, aggregates, strict=True):
                row[slot] = aggregate.result()
            yield row

    def _fresh(self) -> list[Any]:
        return [AGGREGATES[name](self._meter) for name, _, _ in self._aggregates]


def _reader(slot: int) -> Callable[[Row], Any]:
    return lambda row: row[slot]
