"""The SQL of Cosmos DB: text and JSON documents in, JSON values out. No I/O, no clock.

    query, parameters = request_of(body)
    for value in execute(query, parameters, items): ...

`plan` and `needs_plan` are for queries over several partitions, `next_page` for answers in pages.
"""

from __future__ import annotations

from azlatch.lab.cosmos.sql.ast import Query
from azlatch.lab.cosmos.sql.execute import Execution, execute, request_of
from azlatch.lab.cosmos.sql.limits import Limits
from azlatch.lab.cosmos.sql.paging import Page, Position, next_page, streams
from azlatch.lab.cosmos.sql.parser import parse
from azlatch.lab.cosmos.sql.plan import needs_plan, plan
from azlatch.lab.cosmos.sql.points import key_values, point_values

__all__ = [
    "Execution",
    "Limits",
    "Page",
    "Position",
    "Query",
    "execute",
    "key_values",
    "needs_plan",
    "next_page",
    "parse",
    "plan",
    "point_values",
    "request_of",
    "streams",
]
