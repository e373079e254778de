"""The queries that the SDK sends to each partition instead of the one it was given."""

from __future__ import annotations

from dataclasses import replace

from azlatch.lab.cosmos.sql import ast
from azlatch.lab.cosmos.sql.aggregate import AGGREGATES
from azlatch.lab.cosmos.sql.names import item_names
from azlatch.lab.cosmos.sql.parser import FILTER_HOLE

#: Aggregates in the words of the plan.
_KINDS = {"AVG": "Average", "COUNTIF": "CountIf", "MAKELIST": "MakeList", "MAKESET": "MakeSet"}


def aggregate_kind(node: ast.Expression) -> str:
    """What the plan calls the aggregate that an expression is, "" if it is none."""
    if isinstance(node, ast.Call) and not node.udf and node.name.upper() in AGGREGATES:
        name = node.name.upper()
        return _KINDS.get(name, name.capitalize())
    return ""


def _call(name: str, node: ast.Call) -> ast.Call:
    return ast.Call(name, node.arguments)


def partial_aggregate(node: ast.Expression) -> ast.ObjectLiteral:
    """What a partition gives for an aggregate, so that the SDK can put it together."""
    assert isinstance(node, ast.Call)
    kind = node.name.upper()
    if kind == "AVG":
        parts = (("sum", _call("SUM", node)), ("count", _call("COUNT", node)))
        return ast.ObjectLiteral((("item", ast.ObjectLiteral(parts)),))
    if kind in ("MIN", "MAX"):
        # Newer clients take the second item, which tells nothing found from undefined.
        parts = ((kind.lower(), _call(kind, node)), ("count", _call("COUNT", node)))
        return ast.ObjectLiteral((("item", _call(kind, node)), ("item2", ast.ObjectLiteral(parts))))
    return ast.ObjectLiteral((("item", _call(kind, node)),))


def _item(node: ast.Expression) -> ast.ObjectLiteral:
    return ast.ObjectLiteral((("item", node),))


def rewritten_values(query: ast.Query, value: ast.Expression) -> ast.Query:
    """Only that value, of the same items."""
    return replace(
        query,
        items=(ast.SelectItem(value),),
        value=True,
        order=(),
        distinct=False,
        top=None,
        offset=None,
        limit=None,
    )


def rewritten_groups(query: ast.Query) -> ast.Query:
    """The keys of each group beside its partial results."""
    names = item_names(query)
    parts = [
        partial_aggregate(item.value) if aggregate_kind(item.value) else item.value for item in query.items
    ]
    payload = parts[0] if query.value else ast.ObjectLiteral(tuple(zip(names, parts, strict=True)))
    keys = ast.ArrayLiteral(tuple(map(_item, query.group)))
    items = [ast.SelectItem(payload, "payload")]
    if query.group:
        items.insert(0, ast.SelectItem(keys, "groupByItems"))
    return replace(
        query, items=tuple(items), value=False, order=(), distinct=False, top=None, offset=None, limit=None
    )


def rewritten_order(query: ast.Query, order: tuple[ast.OrderKey, ...], most: int | None) -> ast.Query:
    """The values to sort by beside each result, the first `most` of them; the SDK merges the partitions.

    DISTINCT is left to the SDK: beside `_rid` every result is distinct.
    """
    payload = _payload(query)
    where: list[ast.Expression] = [query.where] if query.where is not None else []
    if query.value and not any(key.value == payload for key in order):
        # The SDK fails on a result without payload; in the result of the whole query it has no place.
        where.append(ast.Call("IS_DEFINED", (payload,)))
    where.append(ast.Name(FILTER_HOLE))
    items = (
        ast.SelectItem(ast.Member(ast.Name(query.sources[0].alias), "_rid")),
        ast.SelectItem(ast.ArrayLiteral(tuple(_item(key.value) for key in order)), "orderByItems"),
        ast.SelectItem(payload, "payload"),
    )
    return replace(
        query,
        items=items,
        value=False,
        distinct=False,
        where=ast.Logic("AND", tuple(where)),
        order=order,
        top=most if query.top is not None else None,
        offset=0 if query.limit is not None and most is not None else None,
        limit=most if query.limit is not None else None,
    )


def _payload(query: ast.Query) -> ast.Expression:
    if query.star:
        return ast.Name(query.sources[0].alias)
    if query.value:
        return query.items[0].value
    values = tuple(zip(item_names(query), (item.value for item in query.items), strict=True))
    return ast.ObjectLiteral(values)
