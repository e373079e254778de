"""Results in pages: how much fits into an answer, and where the next one goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from azlatch.lab.cosmos.sql.ast import Query
from azlatch.lab.cosmos.sql.execute import Execution
from azlatch.lab.cosmos.sql.scope import has_aggregates


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page goes on: with the item after so many, and in what it leads to after so many values."""

    items: int = 0
    values: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """Values of one answer, their size, and the position of the next page; None when nothing follows."""

    values: list[Any]
    size: int
    following: Position | None


def streams(query: Query) -> bool:
    """Whether each item leads to its results without the others, so that a page can start at any item."""
    return not (
        query.order
        or query.group
        or query.distinct
        or query.top is not None
        or query.limit is not None
        or has_aggregates(query)
        or any(isinstance(source.origin, Query) for source in query.sources[:1])
    )


def next_page(
    execution: Execution,
    query: Query,
    start: Position,
    *,
    most_values: int,
    most_size: int,
    size_of: Callable[[Any], int],
) -> Page:
    """The next values of a query.

    Args:
        execution: of the same query, on the items after the first `start.items` of those of the first page.
        query: what is executed.
        start: `Position()`, or `following` of the page before.
        most_values: how many values at most.
        most_size: how large all of them together may be; one value is given in any case.
        size_of: the size of a value, in the unit of `most_size`.

    Raises:
        ServiceError: as the execution does.
    """
    for _ in islice(execution, start.values):
        pass
    values: list[Any] = []
    size = 0
    streaming = streams(query)
    for value in execution:
        more = size_of(value)
        if values and (len(values) >= most_values or size + more > most_size):
            if streaming:
                # The value that did not fit is the first of the next page.
                return Page(values, size, Position(start.items + execution.read - 1, execution.within - 1))
            return Page(values, size, Position(0, start.values + len(values)))
        values.append(value)
        size += more
    return Page(values, size, None)
