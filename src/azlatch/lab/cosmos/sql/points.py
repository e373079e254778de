"""Which ids and partition keys a query can find at all, so that it need not look everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from azlatch.lab.cosmos.sql import ast
from azlatch.lab.cosmos.sql.values import UNDEFINED, identity

#: Most partition keys that are told; beyond it everything is looked at.
_MOST_KEYS = 100

#: Values by what makes them equal: true is not 1.
_Values = dict[Any, Any]


def point_values(query: ast.Query, key: str, parameters: Mapping[str, Any]) -> frozenset[str] | None:
    """The strings that a property of the item has to be one of, None where that is not provable."""
    found = _found(query, f"/{key}", parameters)
    return None if found is None else frozenset(each for each in found.values() if isinstance(each, str))


def key_values(
    query: ast.Query, paths: Sequence[str], parameters: Mapping[str, Any]
) -> tuple[tuple[Any, ...], ...] | None:
    """The partition keys, with a value for every path, that items of the result can have; None if unknown."""
    levels = []
    for path in paths:
        found = _found(query, path, parameters)
        if found is None:
            return None
        levels.append(list(found.values()))
    count = 1
    for level in levels:
        count *= len(level)
    return tuple(product(*levels)) if levels and count <= _MOST_KEYS else None


def _found(query: ast.Query, path: str, parameters: Mapping[str, Any]) -> _Values | None:
    if query.where is None or not query.sources:
        return None
    first = query.sources[0]
    if first.each or not isinstance(first.origin, ast.Name):
        return None
    node: ast.Expression = ast.Name(first.alias)
    for part in path.strip("/").split("/"):
        node = ast.Member(node, part.strip('"'))
    return _values(query.where, node, parameters)


def _values(node: ast.Expression, path: ast.Expression, parameters: Mapping[str, Any]) -> _Values | None:
    if isinstance(node, ast.Binary) and node.operator == "=":
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if one == path and _fixed(other, parameters):
                return _by_identity([other], parameters)
    elif isinstance(node, ast.In) and not node.negated and node.operand == path:
        if all(_fixed(each, parameters) for each in node.choices):
            return _by_identity(node.choices, parameters)
    elif isinstance(node, ast.Logic):
        sets = [_values(each, path, parameters) for each in node.operands]
        known = [each for each in sets if each is not None]
        if node.operator == "AND" and known:
            return {key: value for key, value in known[0].items() if all(key in other for other in known)}
        if node.operator == "OR" and len(known) == len(sets):
            return {key: value for each in known for key, value in each.items()}
    return None


def _by_identity(nodes: Sequence[ast.Expression], parameters: Mapping[str, Any]) -> _Values:
    values = [each.value if isinstance(each, ast.Constant) else parameters[each.name] for each in nodes]  # type: ignore[union-attr]
    return {identity(each): each for each in values if each is not UNDEFINED}


def _fixed(node: ast.Expression, parameters: Mapping[str, Any]) -> bool:
    """Whether its value is known before any item is looked at."""
    if isinstance(node, ast.Parameter):
        return node.name in parameters and type(parameters[node.name]) not in (list, dict)
    return isinstance(node, ast.Constant)
