"""What an answer says of the work of its query: the headers with the metrics and with the index utilization.

The counts are those of what was done. The times are an estimate from them, as the engine has no clock. There is
no index in this lab either: what is told is which paths of the filter one with that policy would serve.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from azlatch.lab.cosmos.indexing import Indexing
from azlatch.lab.cosmos.sql import ast
from azlatch.lab.cosmos.sql.text import expression_text
from azlatch.lab.cosmos.wire import encode

METRICS_HEADER = "x-ms-documentdb-query-metrics"
INDEX_HEADER = "x-ms-cosmos-index-utilization"
#: What the estimate takes for one item that is loaded, and one result that is written, milliseconds.
_LOAD_MS, _WRITE_MS = 0.01, 0.005
#: Most filters that are told.
_MOST_FILTERS = 50
_COMPARISONS = ("=", "!=", "<>", "<", ">", "<=", ">=")


@dataclass(frozen=True, slots=True)
class Work:
    """What a page of results took: items and bytes read, results and bytes told."""

    read: int
    read_bytes: int
    told: int
    told_bytes: int


def metrics(query: ast.Query, work: Work) -> str:
    """The metrics of a page, in the form of the service."""
    loaded, loaded_bytes = (0, 0) if counts_only(query) else (work.read, work.read_bytes)
    load, write = loaded * _LOAD_MS, work.told * _WRITE_MS
    values = {
        "totalExecutionTimeInMs": f"{load + write:.2f}",
        "queryCompileTimeInMs": "0.00",
        "queryLogicalPlanBuildTimeInMs": "0.00",
        "queryPhysicalPlanBuildTimeInMs": "0.00",
        "queryOptimizationTimeInMs": "0.00",
        "VMExecutionTimeInMs": f"{load + write:.2f}",
        "indexLookupTimeInMs": "0.00",
        "documentLoadTimeInMs": f"{load:.2f}",
        "systemFunctionExecuteTimeInMs": "0.00",
        "userFunctionExecuteTimeInMs": "0.00",
        "retrievedDocumentCount": str(loaded),
        "retrievedDocumentSize": str(loaded_bytes),
        "outputDocumentCount": str(work.told),
        "outputDocumentSize": str(work.told_bytes),
        "writeOutputTimeInMs": f"{write:.2f}",
        "indexUtilizationRatio": f"{min(work.told / loaded, 1.0) if loaded else 1.0:.2f}",
    }
    return ";".join(f"{name}={value}" for name, value in values.items())


def counts_only(query: ast.Query) -> bool:
    """Whether it only counts items, for which the service reads none."""
    sources = query.sources
    if len(sources) != 1 or sources[0].each or not isinstance(sources[0].origin, ast.Name):
        return False
    if query.where is not None or query.group or query.order or query.distinct:
        return False
    return bool(query.items) and all(_is_count(item.value) for item in query.items)


def _is_count(node: ast.Expression) -> bool:
    return (
        isinstance(node, ast.Call)
        and node.name.upper() == "COUNT"
        and all(isinstance(each, ast.Constant) for each in node.arguments)
    )


def utilization(query: ast.Query, key_paths: Sequence[str], indexing: Indexing) -> str:
    """The index utilization, in the form of the service: JSON in base64.

    Args:
        key_paths: of the partition key, if the query is for one.
        indexing: of the container.
    """
    used: list[dict[str, Any]] = [_index(f"{path}/?", "") for path in key_paths]
    missing: list[dict[str, Any]] = []
    for comparison, steps in _filters(query):
        document: Any = 0
        for step in reversed(steps):
            document = {step: document}
        index = _index("".join(f"/{step}" for step in steps) + "/?", expression_text(comparison))
        (used if indexing.terms(document) else missing).append(index)
    told = {
        "UtilizedSingleIndexes": used,
        "PotentialSingleIndexes": missing,
        "UtilizedCompositeIndexes": [],
        "PotentialCompositeIndexes": [],
    }
    return base64.b64encode(encode(told)).decode()


def _index(path: str, expression: str) -> dict[str, Any]:
    return {
        "FilterExpression": expression,
        "IndexSpec": path,
        "FilterPreciseSet": True,
        "IndexPreciseSet": True,
        "IndexImpactScore": "High",
    }


def _filters(query: ast.Query) -> Iterator[tuple[ast.Binary, list[str]]]:
    """The comparisons of the filter that are for one path of the item, each with the path."""
    if query.where is None or not query.sources:
        return
    left = _MOST_FILTERS
    pending: list[ast.Node] = [query.where]
    while pending and left:
        node = pending.pop()
        if isinstance(node, ast.Query):
            continue
        if isinstance(node, ast.Binary) and node.operator in _COMPARISONS:
            steps = _steps(node.left, query.sources[0].alias) or _steps(node.right, query.sources[0].alias)
            if steps:
                left -= 1
                yield node, steps
            continue
        pending.extend(reversed(list(ast.children(node))))


def _steps(node: ast.Expression, root: str) -> list[str]:
    """The properties from the item down, if it is nothing but that."""
    steps: list[str] = []
    while isinstance(node, ast.Member):
        steps.append(node.key)
        node = node.base
    return steps[::-1] if isinstance(node, ast.Name) and node.name == root else []
