"""Which names a part of a query sees, and where their values are while it runs."""

from __future__ import annotations

from azlatch.lab.cosmos.sql import ast, faults
from azlatch.lab.cosmos.sql.aggregate import AGGREGATES


class Slots:
    """Places for values; a whole query, subqueries included, shares one row of them."""

    def __init__(self) -> None:
        self.count = 0

    def take(self) -> int:
        """A place that nothing else uses."""
        self.count += 1
        return self.count - 1


class Scope:
    """The names of one FROM, and those around it."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.names: dict[str, int] = {}

    def find(self, name: str) -> int | None:
        """The place of a name, None if there is none."""
        at: Scope | None = self
        while at is not None:
            if name in at.names:
                return at.names[name]
            at = at.outer
        return None

    def empty(self) -> bool:
        """Whether no name is known yet: what FROM names then is the container."""
        return not self.names and (self.outer is None or self.outer.empty())

    def resolve(self, name: ast.Name) -> int:
        """The place of a name. Raises ServiceError (400) if there is none."""
        found = self.find(name.name)
        if found is None:
            raise faults.unresolved(name.name, name.start)
        return found


def aggregates_in(node: ast.Node) -> list[ast.Call]:
    """The aggregates that belong to the query of an expression, not to a subquery in it, in their order."""
    found: list[ast.Call] = []
    stack = [node]
    while stack:
        at = stack.pop()
        if isinstance(at, ast.Call) and not at.udf and at.name.upper() in AGGREGATES:
            found.append(at)
        elif not isinstance(at, ast.Query):
            stack.extend(reversed(list(ast.children(at))))
    return found


def has_aggregates(query: ast.Query) -> bool:
    """Whether a query makes one row of many."""
    return any(aggregates_in(item.value) for item in query.items)
