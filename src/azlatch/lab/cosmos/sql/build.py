"""Rules of the grammar to nodes, bottom up, while the text is read."""

from __future__ import annotations

import re
from typing import Any

from lark import Token, Transformer

from azlatch.lab.cosmos.sql import ast, faults
from azlatch.lab.cosmos.sql.grammar import RESERVED

_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PAIRS = re.compile("[\ud800-\udbff][\udc00-\udfff]")

#: Largest number in TOP, OFFSET and LIMIT.
_MOST_COUNT = 2**31 - 1

Parts = list[Any]


def _name(token: Token) -> str:
    if token.lower() in RESERVED:
        raise faults.syntax(str(token), token.start_pos or 0)
    return str(token)


def text_of(token: Token) -> str:
    """What a string literal means."""

    def meant(match: re.Match[str]) -> str:
        code = match.group(1)
        if len(code) == 5:
            return chr(int(code[1:], 16))
        if code == "u":
            raise faults.syntax(str(token), token.start_pos or 0)
        return _ESCAPES.get(code, code)

    text = _ESCAPED.sub(meant, token[1:-1]) if "\\" in token else str(token[1:-1])
    text = _PAIRS.sub(lambda pair: pair.group().encode("utf-16", "surrogatepass").decode("utf-16"), text)
    if any("\ud800" <= each <= "\udfff" for each in text):
        # Half of a pair is no text: it could not be sent back.
        raise faults.syntax("\\u", token.start_pos or 0)
    return text


def number_of(token: Token) -> int | float:
    """What a number literal means: a double, as an int where it is a small whole number."""
    value = float(token)
    if value in (float("inf"), float("-inf")):
        raise faults.syntax(str(token), token.start_pos or 0)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _count(token: Token) -> ast.Count:
    if token.type == "PARAMETER":
        return ast.Parameter(str(token), token.start_pos or 0)
    value = number_of(token)
    if not isinstance(value, int) or not 0 <= value <= _MOST_COUNT:
        raise faults.syntax(str(token), token.start_pos or 0)
    return value


def _tokens(parts: Parts, *kinds: str) -> list[Token]:
    return [each for each in parts if isinstance(each, Token) and each.type in kinds]


def _rest(parts: Parts) -> Parts:
    return [each for each in parts if not isinstance(each, Token)]


class Builder(Transformer[Token, Any]):
    """Each method is a rule; it gets what the rule is made of."""

    def start(self, parts: Parts) -> Any:
        return parts[0]

    def query(self, parts: Parts) -> ast.Query:
        made: dict[str, Any] = {}
        for each in parts:
            if isinstance(each, dict):
                made.update(each)
            elif each.type == "DISTINCT":
                made["distinct"] = True
        return ast.Query(**made)

    def top(self, parts: Parts) -> dict[str, Any]:
        return {"top": _count(parts[1])}

    def star(self, _parts: Parts) -> dict[str, Any]:
        return {}

    def single(self, parts: Parts) -> dict[str, Any]:
        return {"items": (ast.SelectItem(parts[1]),), "value": True}

    def listed(self, parts: Parts) -> dict[str, Any]:
        return {"items": tuple(parts)}

    def item(self, parts: Parts) -> ast.SelectItem:
        alias = _tokens(parts[1:], "NAME")
        return ast.SelectItem(parts[0], _name(alias[0]) if alias else "")

    # -- FROM

    def from_(self, parts: Parts) -> dict[str, Any]:
        return {"sources": tuple(_rest(parts))}

    def named(self, parts: Parts) -> ast.Source:
        alias = _tokens(parts[1:], "NAME")
        path = parts[0]
        if alias:
            return ast.Source(path, _name(alias[0]))
        return ast.Source(path, path.key if isinstance(path, ast.Member) else getattr(path, "name", ""))

    def iterated(self, parts: Parts) -> ast.Source:
        return ast.Source(parts[2], _name(parts[0]), each=True)

    def derived(self, parts: Parts) -> ast.Source:
        alias = _tokens(parts, "NAME")
        return ast.Source(_rest(parts)[0], _name(alias[0]) if alias else "")

    def iterated_query(self, parts: Parts) -> ast.Source:
        return ast.Source(_rest(parts)[0], _name(parts[0]), each=True)

    def path_root(self, parts: Parts) -> ast.Name:
        return ast.Name(_name(parts[0]), parts[0].start_pos or 0)

    def path_name(self, parts: Parts) -> ast.Member:
        return ast.Member(parts[0], _name(parts[1]))

    def path_index(self, parts: Parts) -> ast.Expression:
        token = parts[1]
        if token.type == "STRING":
            return ast.Member(parts[0], text_of(token))
        if token.type == "PARAMETER":
            return ast.Index(parts[0], ast.Parameter(str(token), token.start_pos or 0))
        return ast.Index(parts[0], ast.Constant(number_of(token)))

    # -- the other clauses

    def where(self, parts: Parts) -> dict[str, Any]:
        return {"where": parts[1]}

    def group(self, parts: Parts) -> dict[str, Any]:
        return {"group": tuple(_rest(parts))}

    def order(self, parts: Parts) -> dict[str, Any]:
        return {"order": tuple(_rest(parts))}

    def key(self, parts: Parts) -> ast.OrderKey:
        return ast.OrderKey(parts[0], bool(_tokens(parts[1:], "DESC")))

    def page(self, parts: Parts) -> dict[str, Any]:
        return {"offset": _count(parts[1]), "limit": _count(parts[3])}

    # -- expressions

    def conditional(self, parts: Parts) -> ast.Conditional:
        return ast.Conditional(*parts)

    def coalesce(self, parts: Parts) -> ast.Coalesce:
        return ast.Coalesce(*parts)

    def any_of(self, parts: Parts) -> ast.Logic:
        return ast.Logic("OR", tuple(_rest(parts)))

    def all_of(self, parts: Parts) -> ast.Logic:
        return ast.Logic("AND", tuple(_rest(parts)))

    def between(self, parts: Parts) -> ast.Between:
        operand, low, high = _rest(parts)
        return ast.Between(operand, low, high, bool(_tokens(parts, "NOT")))

    def member_of(self, parts: Parts) -> ast.In:
        operand, *choices = _rest(parts)
        return ast.In(operand, tuple(choices), negated=bool(_tokens(parts, "NOT")))

    def like(self, parts: Parts) -> ast.Like:
        operand, pattern = _rest(parts)
        escape = ""
        for token in _tokens(parts, "STRING"):
            escape = text_of(token)
            if len(escape) != 1:
                raise faults.syntax(str(token), token.start_pos or 0)
        return ast.Like(operand, pattern, escape, negated=bool(_tokens(parts, "NOT")))

    def binary(self, parts: Parts) -> ast.Binary:
        left, token, right = parts
        return ast.Binary("!=" if token == "<>" else str(token), left, right)  # noqa: S105 - a token of SQL

    def product(self, parts: Parts) -> ast.Binary:
        operands = _rest(parts)
        return ast.Binary(str(parts[1]) if len(parts) == 3 else "*", operands[0], operands[1])

    def unary(self, parts: Parts) -> ast.Expression:
        operator, operand = parts[0].upper(), parts[1]
        if operator in "+-" and isinstance(operand, ast.Constant) and type(operand.value) in (int, float):
            value: Any = operand.value
            return ast.Constant(-value if operator == "-" else value)
        return ast.Unary(operator, operand)

    def name(self, parts: Parts) -> ast.Name:
        return ast.Name(_name(parts[0]), parts[0].start_pos or 0)

    def parameter(self, parts: Parts) -> ast.Parameter:
        return ast.Parameter(str(parts[0]), parts[0].start_pos or 0)

    def string(self, parts: Parts) -> ast.Constant:
        return ast.Constant(text_of(parts[0]))

    def number(self, parts: Parts) -> ast.Constant:
        return ast.Constant(number_of(parts[0]))

    def true(self, _parts: Parts) -> ast.Constant:
        return ast.Constant(True)

    def false(self, _parts: Parts) -> ast.Constant:
        return ast.Constant(False)

    def null(self, _parts: Parts) -> ast.Constant:
        return ast.Constant(None)

    def undefined(self, _parts: Parts) -> ast.Undefined:
        return ast.Undefined()

    def array(self, parts: Parts) -> ast.ArrayLiteral:
        return ast.ArrayLiteral(tuple(parts))

    def object(self, parts: Parts) -> ast.ObjectLiteral:
        return ast.ObjectLiteral(tuple(parts))

    def property(self, parts: Parts) -> tuple[str, ast.Expression]:
        token = parts[0]
        return (text_of(token) if token.type == "STRING" else str(token), parts[1])

    def scalar(self, parts: Parts) -> ast.Subquery:
        return ast.Subquery("scalar", parts[0])

    def exists(self, parts: Parts) -> ast.Subquery:
        return ast.Subquery("exists", parts[1])

    def array_of(self, parts: Parts) -> ast.Subquery:
        return ast.Subquery("array", parts[1])

    def member(self, parts: Parts) -> ast.Member:
        return ast.Member(parts[0], _name(parts[1]))

    def index(self, parts: Parts) -> ast.Expression:
        base, key = parts
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            return ast.Member(base, key.value)
        return ast.Index(base, key)

    def call(self, parts: Parts) -> ast.Call:
        return ast.Call(str(parts[0]), tuple(parts[1:]), start=parts[0].start_pos or 0)

    def udf(self, parts: Parts) -> ast.Call:
        return ast.Call(str(parts[1]), tuple(parts[2:]), udf=True, start=parts[1].start_pos or 0)


# `from` is a word of Python.
setattr(Builder, "from", Builder.from_)
