"""A query as text again, in the style of the rewritten queries of the service."""

from __future__ import annotations

from azlatch.lab.cosmos.sql import ast
from azlatch.lab.cosmos.sql.functions.strings import shown
from azlatch.lab.cosmos.sql.grammar import RESERVED
from azlatch.lab.cosmos.wire import encode


def expression_text(node: ast.Expression) -> str:
    """An expression as SQL; what has operators is in parentheses wherever it is part of something."""
    match node:
        case ast.Undefined():
            return "undefined"
        case ast.Constant(value):
            return shown(value) if isinstance(value, float) else encode(value).decode()
        case ast.Parameter(name) | ast.Name(name):
            return name
        case ast.Member(base, key):
            return f"{expression_text(base)}{_key(key)}"
        case ast.Index(base, key):
            return f"{expression_text(base)}[{expression_text(key)}]"
        case ast.Unary(operator, operand):
            return f"({operator} {expression_text(operand)})"
        case ast.Binary(operator, left, right):
            return f"({expression_text(left)} {operator} {expression_text(right)})"
        case ast.Logic(operator, operands):
            return f"({f' {operator} '.join(map(expression_text, operands))})"
        case ast.Coalesce(left, right):
            return f"({expression_text(left)} ?? {expression_text(right)})"
        case ast.Conditional(condition, yes, no):
            return f"({expression_text(condition)} ? {expression_text(yes)} : {expression_text(no)})"
        case ast.Between(operand, low, high, negated):
            word = _not(negated)
            return (
                f"({expression_text(operand)} {word}BETWEEN {expression_text(low)} AND {expression_text(high)})"
            )
        case ast.In(operand, choices, negated):
            return f"({expression_text(operand)} {_not(negated)}IN ({_list(choices)}))"
        case ast.Like(operand, pattern, escape, negated):
            ending = f" ESCAPE {encode(escape).decode()}" if escape else ""
            return f"({expression_text(operand)} {_not(negated)}LIKE {expression_text(pattern)}{ending})"
        case ast.Call(name, arguments, udf):
            return f"{'udf.' if udf else ''}{name}({_list(arguments)})"
        case ast.ArrayLiteral(items):
            return f"[{_list(items)}]"
        case ast.ObjectLiteral(items):
            return object_text(items)
        case ast.Subquery(kind, query):
            opening = {"scalar": "", "array": "ARRAY", "exists": "EXISTS"}[kind]
            return f"{opening}({query_text(query, ' ')})"


def object_text(items: tuple[tuple[str, ast.Expression], ...]) -> str:
    """An object literal."""
    return "{" + ", ".join(f"{encode(key).decode()}: {expression_text(each)}" for key, each in items) + "}"


def query_text(query: ast.Query, between: str = "\n") -> str:
    """A query as SQL, its clauses put together by `between`."""
    clauses = [f"SELECT {_selection(query)}"]
    if query.sources:
        clauses.append(f"FROM {' JOIN '.join(map(_source, query.sources))}")
    if query.where is not None:
        clauses.append(f"WHERE {expression_text(query.where)}")
    if query.group:
        clauses.append(f"GROUP BY {_list(query.group)}")
    if query.order:
        keys = [f"{expression_text(key.value)}{' DESC' if key.descending else ''}" for key in query.order]
        clauses.append(f"ORDER BY {', '.join(keys)}")
    if query.limit is not None:
        clauses.append(f"OFFSET {_count(query.offset)} LIMIT {_count(query.limit)}")
    return between.join(clauses)


def _selection(query: ast.Query) -> str:
    words = ["DISTINCT"] if query.distinct else []
    if query.top is not None:
        words.append(f"TOP {_count(query.top)}")
    if query.star:
        words.append("*")
    elif query.value:
        words.append(f"VALUE {expression_text(query.items[0].value)}")
    else:
        words.append(
            ", ".join(
                f"{expression_text(item.value)}{f' AS {item.alias}' if item.alias else ''}"
                for item in query.items
            )
        )
    return " ".join(words)


def _source(source: ast.Source) -> str:
    if isinstance(source.origin, ast.Query):
        origin = f"({query_text(source.origin, ' ')})"
    else:
        origin = expression_text(source.origin)
    if source.each:
        return f"{source.alias} IN {origin}"
    implied = source.origin.name if isinstance(source.origin, ast.Name) else ""
    if isinstance(source.origin, ast.Member):
        implied = source.origin.key
    return origin if source.alias in (implied, "") else f"{origin} AS {source.alias}"


def _key(key: str) -> str:
    if key.isidentifier() and key.isascii() and key.lower() not in RESERVED:
        return f".{key}"
    return f"[{encode(key).decode()}]"


def _not(negated: bool) -> str:
    return "NOT " if negated else ""


def _list(items: tuple[ast.Expression, ...]) -> str:
    return ", ".join(map(expression_text, items))


def _count(count: ast.Count | None) -> str:
    return count.name if isinstance(count, ast.Parameter) else str(count)
