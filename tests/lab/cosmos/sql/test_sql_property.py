"""Random queries on random items against an evaluation in plain Python that shares nothing with the engine.

Here a query is made as a pair: its text, and a function of Python for the same. Undefined is a missing key
there, and the order of values is written down once more.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cmp_to_key
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.sql import execute, parse
from azlatch.lab.cosmos.sql.functions import FUNCTIONS
from azlatch.lab.cosmos.sql.operators import OPERATORS

MISSING = object()

SIMPLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.5, -1.5, 2.0]),
    st.sampled_from(["", "a", "b", "ab"]),
)
VALUES = st.one_of(
    SIMPLE, st.lists(SIMPLE, max_size=3), st.dictionaries(st.sampled_from("xy"), SIMPLE, max_size=2)
)
ITEM = st.dictionaries(st.sampled_from(["a", "b", "s", "t"]), VALUES, max_size=4)
ITEMS = st.lists(ITEM, max_size=8).map(lambda items: [{**item, "id": str(at)} for at, item in enumerate(items)])


def kind(value: Any) -> int:
    for place, test in enumerate(
        [
            lambda: value is MISSING,
            lambda: value is None,
            lambda: isinstance(value, bool),
            lambda: isinstance(value, int | float),
            lambda: isinstance(value, str),
            lambda: isinstance(value, list),
        ]
    ):
        if test():
            return place
    return 6


def same(one: Any, other: Any) -> bool:
    if kind(one) != kind(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return sorted(one) == sorted(other) and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def in_order(one: Any, other: Any) -> int:
    """The order of simple values."""
    if kind(one) != kind(other):
        return kind(one) - kind(other)
    if one is MISSING or one is None or one == other:
        return 0
    return -1 if one < other else 1


class Term(NamedTuple):
    text: str
    of: Callable[[dict[str, Any]], Any]


def literal(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def member(name: str) -> Term:
    return Term(f"c.{name}", lambda item: item.get(name, MISSING))


def deeper(name: str, key: str) -> Term:
    def of(item: dict[str, Any]) -> Any:
        value = item.get(name)
        return value.get(key, MISSING) if isinstance(value, dict) else MISSING

    return Term(f"c.{name}.{key}", of)


def comparison(operator: str, left: Term, right: Term) -> Term:
    def of(item: dict[str, Any]) -> Any:
        one, other = left.of(item), right.of(item)
        if one is MISSING or other is MISSING:
            return MISSING
        if operator in ("=", "!="):
            return same(one, other) is (operator == "=")
        if kind(one) != kind(other) or kind(one) > 4:
            return MISSING
        order = in_order(one, other)
        return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[operator]

    return Term(f"({left.text} {operator} {right.text})", of)


def logic(operator: str, left: Term, right: Term) -> Term:
    def of(item: dict[str, Any]) -> Any:
        both = [left.of(item), right.of(item)]
        decisive = operator == "OR"
        if any(each is decisive for each in both):
            return decisive
        return not decisive if all(isinstance(each, bool) for each in both) else MISSING

    return Term(f"({left.text} {operator} {right.text})", of)


def negation(term: Term) -> Term:
    def of(item: dict[str, Any]) -> Any:
        value = term.of(item)
        return not value if isinstance(value, bool) else MISSING

    return Term(f"(NOT {term.text})", of)


def sum_of(left: Term, right: Term) -> Term:
    def of(item: dict[str, Any]) -> Any:
        one, other = left.of(item), right.of(item)
        return one + other if kind(one) == kind(other) == 3 else MISSING

    return Term(f"({left.text} + {right.text})", of)


def fallback(left: Term, right: Term) -> Term:
    def of(item: dict[str, Any]) -> Any:
        value = left.of(item)
        return right.of(item) if value is MISSING else value

    return Term(f"({left.text} ?? {right.text})", of)


def among(term: Term, values: list[Any]) -> Term:
    def of(item: dict[str, Any]) -> Any:
        value = term.of(item)
        return MISSING if value is MISSING else any(same(value, each) for each in values)

    return Term(f"({term.text} IN ({', '.join(map(literal, values))}))", of)


def contains(term: Term, value: Any) -> Term:
    def of(item: dict[str, Any]) -> Any:
        array = term.of(item)
        return any(same(each, value) for each in array) if isinstance(array, list) else MISSING

    return Term(f"ARRAY_CONTAINS({term.text}, {literal(value)})", of)


def is_defined(term: Term) -> Term:
    return Term(f"IS_DEFINED({term.text})", lambda item: term.of(item) is not MISSING)


LEAVES = st.one_of(
    st.sampled_from(["a", "b", "s", "t", "id", "no"]).map(member),
    st.builds(deeper, st.sampled_from("ab"), st.sampled_from("xy")),
    SIMPLE.map(lambda value: Term(literal(value), lambda _: value)),
)
TERMS = st.recursive(
    LEAVES,
    lambda terms: st.one_of(
        st.builds(comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), terms, terms),
        st.builds(logic, st.sampled_from(["AND", "OR"]), terms, terms),
        st.builds(negation, terms),
        st.builds(sum_of, terms, terms),
        st.builds(fallback, terms, terms),
        st.builds(among, terms, st.lists(SIMPLE, min_size=1, max_size=3)),
        st.builds(contains, terms, SIMPLE),
        st.builds(is_defined, terms),
    ),
    max_leaves=8,
)


def alike(found: Any, expected: Any) -> None:
    assert same(found, expected), f"{found!r} is not {expected!r}"


def ask(text: str, items: list[dict[str, Any]]) -> list[Any]:
    return list(execute(parse(text), {}, items))


@given(ITEMS, TERMS, TERMS)
@settings(max_examples=300, deadline=None)
def test_filter_and_projection(items: list[dict[str, Any]], where: Term, value: Term) -> None:
    """WHERE keeps what is true, and SELECT gives what is defined."""
    passing = [item for item in items if where.of(item) is True]
    expected = [found for item in passing if (found := value.of(item)) is not MISSING]
    alike(ask(f"SELECT VALUE {value.text} FROM c WHERE {where.text}", items), expected)
    listed = [{} if (found := value.of(item)) is MISSING else {"v": found} for item in passing]
    alike(ask(f"SELECT {value.text} AS v FROM c WHERE {where.text}", items), listed)


@given(
    ITEMS,
    st.lists(st.tuples(st.sampled_from("abst"), st.booleans()), min_size=2, max_size=3),
    st.integers(0, 4),
    st.integers(0, 4),
)
@settings(deadline=None)
def test_order_and_page(
    items: list[dict[str, Any]], keys: list[tuple[str, bool]], offset: int, limit: int
) -> None:
    """Several keys, each in its direction; equal ones stay as they were; then a part of it."""
    items = [{key: each for key, each in item.items() if kind(each) < 5} for item in items]

    def compare(one: dict[str, Any], other: dict[str, Any]) -> int:
        for key, descending in keys:
            order = in_order(one.get(key, MISSING), other.get(key, MISSING))
            if order:
                return -order if descending else order
        return 0

    expected = sorted(items, key=cmp_to_key(compare))
    order = ", ".join(f"c.{key}{' DESC' if descending else ' ASC'}" for key, descending in keys)
    alike(ask(f"SELECT * FROM c ORDER BY {order}", items), expected)
    page = ask(f"SELECT * FROM c ORDER BY {order} OFFSET {offset} LIMIT {limit}", items)
    alike(page, expected[offset : offset + limit])
    alike(ask(f"SELECT TOP {limit} * FROM c ORDER BY {order}", items), expected[:limit])


def without_doubles(values: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for value in values:
        if not any(same(value, each) for each in kept):
            kept.append(value)
    return kept


@given(ITEMS, TERMS)
@settings(deadline=None)
def test_distinct_and_groups(items: list[dict[str, Any]], term: Term) -> None:
    """DISTINCT keeps the first of equal ones; GROUP BY counts them."""
    values = [found for item in items if (found := term.of(item)) is not MISSING]
    alike(ask(f"SELECT DISTINCT VALUE {term.text} FROM c", items), without_doubles(values))
    text = f"SELECT {term.text} AS g, COUNT(1) AS n FROM c WHERE IS_DEFINED({term.text}) GROUP BY {term.text}"
    expected = [{"g": each, "n": sum(same(each, one) for one in values)} for each in without_doubles(values)]
    alike(ask(text, items), expected)


@given(ITEMS, st.sampled_from("abs"))
@settings(deadline=None)
def test_aggregates(items: list[dict[str, Any]], key: str) -> None:
    """COUNT, SUM, AVG, MIN and MAX of what is defined."""
    values = [item[key] for item in items if key in item]
    alike(ask(f"SELECT VALUE COUNT(c.{key}) FROM c", items), [len(values)])
    numbers = all(kind(each) == 3 for each in values)
    alike(ask(f"SELECT VALUE SUM(c.{key}) FROM c", items), [sum(values)] if numbers else [])
    alike(
        ask(f"SELECT VALUE AVG(c.{key}) FROM c", items),
        [sum(values) / len(values)] if numbers and values else [],
    )
    simple = [each for each in values if kind(each) < 5]
    if simple and len(simple) == len(values):
        ordered = sorted(simple, key=cmp_to_key(in_order))
        alike(ask(f"SELECT VALUE MIN(c.{key}) FROM c", items), [ordered[0]])
        alike(ask(f"SELECT VALUE MAX(c.{key}) FROM c", items), [ordered[-1]])


ANY = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
        st.sampled_from(
            [2**53 + 1, -(10**400), 1e308, -0.5, 3, "2020-02-29T10:00:00.1234567Z", "yyyy", "hh", "i"]
        ),
        st.just({"type": "Point", "coordinates": [1, 2]}),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_functions_take_anything(name: str, data: st.DataObject) -> None:
    """Any values are answered with a value of JSON, with nothing, or with 400."""
    function = FUNCTIONS[name]
    most = function.least + 2 if function.most is None else function.most
    values = data.draw(st.lists(ANY, min_size=function.least, max_size=most))
    parameters = {f"@p{at}": value for at, value in enumerate(values)}
    query = parse(f"SELECT VALUE {name}({', '.join(parameters)})")
    try:
        found = list(execute(query, parameters, []))
    except ServiceError as error:
        assert error.status == 400
    else:
        assert len(json.dumps(found, allow_nan=False)) > 1


@given(st.sampled_from(sorted(OPERATORS)), ANY, ANY)
@settings(deadline=None)
def test_operators_take_anything(operator: str, left: Any, right: Any) -> None:
    """So do operators."""
    query = parse(f"SELECT VALUE @a {operator} @b")
    assert len(json.dumps(list(execute(query, {"@a": left, "@b": right}, [])), allow_nan=False)) > 1


@given(ITEMS, st.sampled_from("abs"), SIMPLE)
@settings(deadline=None)
def test_join(items: list[dict[str, Any]], key: str, value: Any) -> None:
    """JOIN makes a row for each element; EXISTS and ARRAY look at the same ones."""
    arrays = [(item["id"], item.get(key) if isinstance(item.get(key), list) else []) for item in items]
    pairs = [[name, each] for name, array in arrays for each in array]
    alike(ask(f"SELECT VALUE [c.id, t] FROM c JOIN t IN c.{key}", items), pairs)
    wanted = literal(value)
    having = [name for name, array in arrays if any(same(each, value) for each in array)]
    exists = f"SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.{key} WHERE t = {wanted})"
    alike(ask(exists, items), having)
    matching = [[each for each in array if same(each, value)] for _, array in arrays]
    alike(
        ask(f"SELECT VALUE ARRAY(SELECT VALUE t FROM t IN c.{key} WHERE t = {wanted}) FROM c", items), matching
    )
