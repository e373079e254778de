"""What the properties of a result are called, and what ORDER BY means by a name of the select list."""

from __future__ import annotations

from azlatch.lab.cosmos.sql import ast
from azlatch.lab.cosmos.sql.scope import Scope


def item_names(query: ast.Query) -> list[str]:
    """The names of a select list: the alias, else the last part of the path, else $1, $2 and so on."""
    names: list[str] = []
    unnamed = 0
    for item in query.items:
        name = item.alias
        if not name:
            value = item.value
            if isinstance(value, ast.Member):
                name = value.key
            elif isinstance(value, ast.Name):
                name = value.name
            else:
                unnamed += 1
                name = f"${unnamed}"
        names.append(name)
    return names


def order_keys(query: ast.Query, scope: Scope | None = None) -> tuple[ast.OrderKey, ...]:
    """The keys of ORDER BY, those that are a name of the select list replaced by what it stands for."""
    aliases = {item.alias: item.value for item in query.items if item.alias}
    known = {source.alias for source in query.sources}

    def meant(key: ast.OrderKey) -> ast.OrderKey:
        value = key.value
        if not isinstance(value, ast.Name) or value.name not in aliases or value.name in known:
            return key
        if scope is None or scope.find(value.name) is None:
            return ast.OrderKey(aliases[value.name], key.descending)
        return key

    return tuple(map(meant, query.order))
