"""The query plan: what the SDK has to do with the answers of the partitions, and which query it sends to each.

The shapes follow what azure-cosmos 4.17.1 reads (`_execution_context/`) and the plans that are recorded in
QueryPlanRetrieverTests.cs of azure-cosmos-dotnet-v3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from azlatch.lab.cosmos.sql import ast, faults
from azlatch.lab.cosmos.sql.execute import execute
from azlatch.lab.cosmos.sql.names import item_names, order_keys
from azlatch.lab.cosmos.sql.points import key_values
from azlatch.lab.cosmos.sql.rewrite import (
    aggregate_kind,
    partial_aggregate,
    rewritten_groups,
    rewritten_order,
    rewritten_values,
)
from azlatch.lab.cosmos.sql.scope import aggregates_in, has_aggregates
from azlatch.lab.cosmos.sql.text import expression_text, query_text

#: All of a container.
EVERYTHING = {"min": "", "max": "FF", "isMinInclusive": True, "isMaxInclusive": False}

#: From the values of a partition key to the range of effective partition keys that has its items.
RangeOf = Callable[[tuple[Any, ...]], Mapping[str, Any]]


def needs_plan(query: ast.Query) -> bool:
    """Whether the gateway answers 400/1004 over several partitions: the SDK has to put the result together."""
    return bool(
        query.distinct
        or query.order
        or query.group
        or query.top is not None
        or query.limit is not None
        or has_aggregates(query)
        or any(
            isinstance(source.origin, ast.Query) and needs_plan(source.origin) for source in query.sources[:1]
        )
    )


def plan(
    query: ast.Query,
    partition_key_paths: Sequence[str],
    supported_features: str,
    *,
    parameters: Mapping[str, Any] | None = None,
    range_of: RangeOf | None = None,
) -> dict[str, Any]:
    """The plan of a query, as JSON.

    Args:
        query: of `parse`.
        partition_key_paths: of the container, such as `["/pk"]`.
        supported_features: what the client can do (x-ms-cosmos-supported-query-features); "" is not checked.
        parameters: values by name.
        range_of: makes the ranges narrow where the filter names the partition key; else they are everything.

    Raises:
        ServiceError: 400 for a query that cannot run, or that this client cannot put together.
    """
    given = parameters or {}
    # What is wrong with it comes out here, before any partition is asked.
    execute(query, given, ())
    if _is_distinct_count(query):
        _check(supported_features, ["DCount"])
        return _distinct_count(query, partition_key_paths, given, range_of)
    _check(supported_features, _features(query))
    info = _info(query, given)
    return {
        "partitionedQueryExecutionInfoVersion": 2,
        "queryInfo": info,
        "queryRanges": _ranges(query, partition_key_paths, given, range_of),
    }


def _info(query: ast.Query, parameters: Mapping[str, Any]) -> dict[str, Any]:
    aggregated = has_aggregates(query)
    order = () if aggregated or query.group else order_keys(query)
    top, offset, limit = (_number(each, parameters) for each in (query.top, query.offset, query.limit))
    info: dict[str, Any] = {
        "distinctType": _distinct_type(query, order),
        "top": top,
        "offset": offset,
        "limit": limit,
        "orderBy": ["Descending" if key.descending else "Ascending" for key in order],
        "orderByExpressions": [expression_text(key.value) for key in order],
        "groupByExpressions": [expression_text(each) for each in query.group],
        "groupByAliases": [],
        "aggregates": [],
        "groupByAliasToAggregateType": {},
        "rewrittenQuery": "",
        "hasSelectValue": query.value,
        "dCountInfo": None,
        "hasNonStreamingOrderBy": False,
    }
    if query.group or (aggregated and not query.value):
        _check_items(query)
        names = item_names(query)
        kinds = [aggregate_kind(item.value) for item in query.items]
        info["groupByAliases"] = [] if query.value else names
        info["aggregates"] = [kind for kind in kinds if kind] if query.value else []
        info["groupByAliasToAggregateType"] = {
            name: kind or None for name, kind in zip(names, kinds, strict=True) if name
        }
        info["rewrittenQuery"] = query_text(rewritten_groups(query))
    elif aggregated:
        _check_items(query)
        info["aggregates"] = [aggregate_kind(query.items[0].value)]
        item = ast.ArrayLiteral((partial_aggregate(query.items[0].value),))
        info["rewrittenQuery"] = query_text(rewritten_values(query, item))
    elif order:
        info["rewrittenQuery"] = query_text(rewritten_order(query, order, _most(query, top, offset, limit)))
    elif limit is not None:
        info["rewrittenQuery"] = query_text(replace(query, offset=0, limit=(offset or 0) + limit))
    return info


def _most(query: ast.Query, top: int | None, offset: int | None, limit: int | None) -> int | None:
    """How many results of one partition can matter at most; unknown where the SDK drops some of them later."""
    if query.distinct:
        return None
    return (offset or 0) + limit if limit is not None else top


def _number(count: ast.Count | None, parameters: Mapping[str, Any]) -> int | None:
    return int(parameters[count.name]) if isinstance(count, ast.Parameter) else count


def _distinct_type(query: ast.Query, order: tuple[ast.OrderKey, ...]) -> str:
    """Ordered where equal results come one after the other."""
    if not query.distinct:
        return "None"
    selected = {item.value for item in query.items}
    leading = {key.value for key in order[: len(selected)]}
    return "Ordered" if selected and selected == leading else "Unordered"


def _check_items(query: ast.Query) -> None:
    for item in query.items:
        if aggregates_in(item.value) and not aggregate_kind(item.value):
            raise faults.refused("Compositions of aggregates and other expressions are not allowed.")


def _features(query: ast.Query) -> list[str]:
    """What a client has to be able to do for it, in the words of the header."""
    aggregated = has_aggregates(query)
    needed = {
        "Aggregate": aggregated,
        "NonValueAggregate": aggregated and not query.value and not query.group,
        "CountIf": any(
            call.name.upper() == "COUNTIF" for item in query.items for call in aggregates_in(item.value)
        ),
        "Distinct": query.distinct,
        "GroupBy": bool(query.group),
        "OrderBy": bool(query.order),
        "MultipleOrderBy": len(query.order) > 1,
        "Top": query.top is not None,
        "OffsetAndLimit": query.limit is not None,
    }
    return [name for name, is_needed in needed.items() if is_needed]


def _check(supported: str, needed: list[str]) -> None:
    have = {each.strip() for each in supported.split(",")}
    missing = [name for name in needed if name not in have]
    if supported.strip() and missing:
        lines = [f"Query contained {name}, which the calling client does not support." for name in missing]
        raise faults.refused(
            "Query contains 1 or more unsupported features. Upgrade your SDK to a version that does support "
            "the requested features:\r\n" + "\r\n".join(lines)
        )


def _is_distinct_count(query: ast.Query) -> bool:
    """Whether it is `SELECT [VALUE] COUNT(1) FROM (SELECT DISTINCT …)`."""
    if len(query.sources) != 1 or len(query.items) != 1 or query.where is not None or query.group:
        return False
    inner = query.sources[0].origin
    return aggregate_kind(query.items[0].value) == "Count" and isinstance(inner, ast.Query) and inner.distinct


def _distinct_count(
    query: ast.Query, paths: Sequence[str], parameters: Mapping[str, Any], range_of: RangeOf | None
) -> dict[str, Any]:
    inner = query.sources[0].origin
    assert isinstance(inner, ast.Query)
    info = _info(inner, parameters)
    info["rewrittenQuery"] = info["rewrittenQuery"] or query_text(inner)
    info["dCountInfo"] = {"dCountAlias": "" if query.value else item_names(query)[0]}
    info["hasSelectValue"] = query.value
    return {
        "partitionedQueryExecutionInfoVersion": 2,
        "queryInfo": info,
        "queryRanges": _ranges(inner, paths, parameters, range_of),
    }


def _ranges(
    query: ast.Query, paths: Sequence[str], parameters: Mapping[str, Any], range_of: RangeOf | None
) -> list[Mapping[str, Any]]:
    keys = key_values(query, paths, parameters) if range_of is not None else None
    if keys is None or range_of is None:
        return [dict(EVERYTHING)]
    ranges = {str(each["min"]): each for each in map(range_of, keys)}
    return [ranges[low] for low in sorted(ranges)]
