"""A query to a function that gives its results, clause by clause: from FROM and WHERE to DISTINCT and TOP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from azlatch.lab.cosmos.sql import ast, faults
from azlatch.lab.cosmos.sql.expressions import Evaluate, Expressions, Row
from azlatch.lab.cosmos.sql.functions import Context
from azlatch.lab.cosmos.sql.groups import Groups
from azlatch.lab.cosmos.sql.names import item_names, order_keys
from azlatch.lab.cosmos.sql.parser import MOST_JOINS
from azlatch.lab.cosmos.sql.scope import Scope, Slots, has_aggregates
from azlatch.lab.cosmos.sql.values import UNDEFINED, identity, is_exact, size_of, sort_key

Results = Callable[[Row], Iterator[Any]]
Rows = Callable[[Row], Iterator[Row]]

#: The place of the item that is being looked at.
ITEM = 0


class Pipeline:
    """Compiles one query, and the subqueries in it, for one execution."""

    def __init__(
        self,
        context: Context,
        parameters: Mapping[str, Any],
        items: Iterable[Mapping[str, Any]],
        sorted_missing: bool,
    ) -> None:
        self.context = context
        self.items = items
        self.parameters = parameters
        self.sorted_missing = sorted_missing
        self.slots = Slots()
        self.slots.take()

    def compile(self, query: ast.Query, outer: Scope | None = None) -> Results:
        """The function from a row to the results that it leads to."""
        scope = Scope(outer)
        expressions = Expressions(scope, self.slots, self.context, self.parameters, self.compile)
        rows = self._charged(self._bindings(query, scope, expressions), expressions)
        if query.where is not None:
            rows = _filtered(rows, expressions.make(query.where))
        grouped = bool(query.group) or has_aggregates(query)
        if grouped:
            rows = self._grouped(query, rows, expressions)
        project = self._projection(query, expressions)
        results = _projected(rows, project)
        if query.order and (query.group or not grouped):
            results = self._ordered(query, rows, project, expressions)
        if query.distinct:
            results = self._distinct(results)
        return self._counted(query, results, expressions)

    # -- FROM

    def _bindings(self, query: ast.Query, scope: Scope, expressions: Expressions) -> Rows:
        if not query.sources:
            return lambda row: iter((row,))
        if len(query.sources) > MOST_JOINS + 1:
            raise faults.refused(f"The query exceeds the maximum number of {MOST_JOINS} joins.")
        rows: Rows = lambda row: iter((row,))  # noqa: E731 - what joining starts with
        sources = query.sources
        if scope.outer is None:
            first = sources[0]
            if isinstance(first.origin, ast.Query):
                # A query on a query: the inner one is about the container, not about an item of it.
                results = self.compile(first.origin)
                slot = self.slots.take()
                rows = _bound(_each(results) if first.each else results, slot)
                scope.names[first.alias] = slot
                sources = sources[1:]
            else:
                rows = _bound(self._each_item, ITEM)
                if isinstance(first.origin, ast.Name) and not first.each:
                    scope.names[first.alias] = ITEM
                    sources = sources[1:]
        for source in sources:
            values = self._source(source, scope, expressions)
            slot = self.slots.take()
            if source.alias and source.alias in scope.names:
                raise faults.refused(f"The input alias '{source.alias[:100]}' is specified more than once.")
            scope.names[source.alias] = slot
            rows = self._joined(rows, values, slot)
        return rows

    def _each_item(self, _row: Row) -> Iterator[Any]:
        meter = self.context.meter
        for item in self.items:
            meter.read += 1
            yield item if type(item) is dict else dict(item)

    def _joined(self, outer: Rows, values: Results, slot: int) -> Rows:
        spend = self.context.meter.spend

        def rows(row: Row) -> Iterator[Row]:
            for each in outer(row):
                spend(1)
                for value in values(each):
                    each[slot] = value
                    yield each

        return rows

    def _source(self, source: ast.Source, scope: Scope, expressions: Expressions) -> Results:
        origin = source.origin
        if isinstance(origin, ast.Query):
            results = self.compile(origin, scope)
            return _each(results) if source.each else results
        if scope.empty():
            # The first name of all stands for the container, whatever it is.
            container = Scope()
            container.names[_root(origin).name] = ITEM
            expressions = Expressions(container, self.slots, self.context, self.parameters, self.compile)
        value = expressions.make(origin)

        def only(row: Row) -> Iterator[Any]:
            found = value(row)
            if found is not UNDEFINED:
                yield found

        return _each(only) if source.each else only

    def _charged(self, rows: Rows, expressions: Expressions) -> Rows:
        spend = self.context.meter.spend

        def charged(row: Row) -> Iterator[Row]:
            cost = 1 + expressions.cost
            for each in rows(row):
                spend(cost)
                yield each

        return charged

    # -- GROUP BY, SELECT, ORDER BY

    def _grouped(self, query: ast.Query, rows: Rows, expressions: Expressions) -> Rows:
        if query.star:
            raise faults.refused("'SELECT *' is not allowed with GROUP BY")
        groups = Groups(query.group, expressions)
        expressions.grouping = groups
        return lambda row: groups.rows(rows(row), row)

    def _projection(self, query: ast.Query, expressions: Expressions) -> Evaluate:
        if query.star:
            if len(query.sources) != 1:
                raise faults.refused(
                    "'SELECT *' is only valid with a single input set."
                    if query.sources
                    else "'SELECT *' is not valid if FROM clause is omitted."
                )
            slot = expressions.scope.names[query.sources[0].alias]
            return lambda row: row[slot]
        if query.value:
            return expressions.make(query.items[0].value)
        items = [
            (name, expressions.make(item.value))
            for name, item in zip(item_names(query), query.items, strict=True)
        ]
        return lambda row: {name: value for name, each in items if (value := each(row)) is not UNDEFINED}

    def _ordered(self, query: ast.Query, rows: Rows, project: Evaluate, expressions: Expressions) -> Results:
        meter = self.context.meter
        keys = [(expressions.make(key.value), key.descending) for key in order_keys(query, expressions.scope)]
        held = 1 + len(keys)
        # Where a row is nothing but an item, the result is made when it is asked for.
        later = set(expressions.scope.names.values()) == {ITEM} and not query.group
        skip_missing = len(keys) == 1 and not self.sorted_missing

        def results(row: Row) -> Iterator[Any]:
            columns: list[list[Any]] = [[] for _ in keys]
            found = []
            for each in rows(row):
                values = [key(each) for key, _ in keys]
                if skip_missing and values[0] is UNDEFINED:
                    continue
                value = each[ITEM] if later else project(each)
                if value is not UNDEFINED:
                    meter.hold(held)
                    found.append(value)
                    for column, one in zip(columns, values, strict=True):
                        column.append(one)
            meter.spend(len(found))
            for at in _in_order(columns, [descending for _, descending in keys]):
                value = found[at]
                if later:
                    row[ITEM] = value
                    value = project(row)
                if value is not UNDEFINED:
                    yield value
            meter.held -= len(found) * held

        return results

    def _distinct(self, results: Results) -> Results:
        meter = self.context.meter

        def unique(row: Row) -> Iterator[Any]:
            seen = set()
            for value in results(row):
                key = identity(value)
                if key not in seen:
                    meter.hold(size_of(value))
                    seen.add(key)
                    yield value

        return unique

    def _counted(self, query: ast.Query, results: Results, expressions: Expressions) -> Results:
        top = self.count_of(query.top, expressions)
        offset = self.count_of(query.offset, expressions)
        limit = self.count_of(query.limit, expressions)
        if top is None and limit is None:
            return results
        if top is not None and limit is not None:
            raise faults.refused("TOP is not allowed with OFFSET and LIMIT in the same query.")
        first = offset or 0
        upto = top if top is not None else first + (limit or 0)
        return lambda row: islice(results(row), first, upto)

    def count_of(self, count: ast.Count | None, expressions: Expressions) -> int | None:
        """The number in TOP, OFFSET or LIMIT. Raises ServiceError (400) for a parameter that is none."""
        if not isinstance(count, ast.Parameter):
            return count
        value = expressions.value_of(count)
        if type(value) not in (int, float) or value != int(value) or not 0 <= value < 2**31:
            raise faults.refused(
                f"The value of parameter '{count.name[:100]}' has to be a non-negative integer."
            )
        return int(value)


def _in_order(columns: list[list[Any]], descending: list[bool]) -> list[int]:
    """The places of rows, sorted by the columns; equal rows stay in their order."""
    places = list(range(len(columns[0])))
    # The last column first: sorting keeps the order of equals.
    for column, backwards in reversed(list(zip(columns, descending, strict=True))):
        kinds = set(map(type, column))
        # Values of one plain type have an order of their own, which is much faster.
        plain = kinds == {str} or (kinds <= {int, float} and all(map(is_exact, column)))
        keys = column if plain else [sort_key(value) for value in column]
        places.sort(key=keys.__getitem__, reverse=backwards)
    return places


def _root(path: ast.Expression) -> ast.Name:
    while isinstance(path, ast.Member | ast.Index):
        path = path.base
    assert isinstance(path, ast.Name)
    return path


def _each(results: Results) -> Results:
    def values(row: Row) -> Iterator[Any]:
        for found in results(row):
            if type(found) is list:
                yield from found

    return values


def _bound(values: Results, slot: int) -> Rows:
    def rows(row: Row) -> Iterator[Row]:
        for value in values(row):
            row[slot] = value
            yield row

    return rows


def _filtered(rows: Rows, where: Evaluate) -> Rows:
    def passing(row: Row) -> Iterator[Row]:
        for each in rows(row):
            if where(each) is True:
                yield each

    return passing


def _projected(rows: Rows, project: Evaluate) -> Results:
    def results(row: Row) -> Iterator[Any]:
        for each in rows(row):
            value = project(each)
            if value is not UNDEFINED:
                yield value

    return results
