"""Queries that are none, and queries that are: what `parse` says, and what text they become again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.sql import execute, parse, plan
from azlatch.lab.cosmos.sql.parser import MOST_TEXT
from azlatch.lab.cosmos.sql.text import query_text


def refusal(text: str, parameters: dict[str, Any] | None = None) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        list(execute(parse(text), parameters or {}, [{"id": "1", "a": [1, 2]}]))
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize(
    ("text", "near", "start", "end"),
    [
        ("selectttt", "selectttt", 0, 9),
        ("SELECT * FORM c", "FORM", 9, 13),
        ("SELECT c.order FROM c", "order", 9, 14),
        ("SELECT FROM c", "FROM", 7, 11),
        ("SELECT * FROM c WHERE c.x = 'a", "'a", 28, 30),
        ("SELECT * FROM c WHERE c.a == 1", "=", 27, 28),
        ("SELECT TOP -1 * FROM c", "-", 11, 12),
        ("SELECT TOP 1.5 * FROM c", "1.5", 11, 14),
        ("SELECT 1e999", "1e999", 7, 12),
        ("SELECT '\\u12'", "'\\u12'", 7, 13),
        ("SELECT '\\ud800'", "\\u", 7, 9),
        ("SELECT * FROM c; DROP", ";", 15, 16),
    ],
)
def test_syntax_errors_name_the_place(text: str, near: str, start: int, end: int) -> None:
    """The message has the shape of the service, with the place and the word."""
    (error,) = json.loads(refusal(text).message)["errors"]
    assert error["code"] == "SC1001"
    assert error["message"].startswith(f"Syntax error, incorrect syntax near '{near}")
    assert error["location"]["start"] == start
    assert error["location"]["end"] >= end


@pytest.mark.parametrize("text", ["", "  ", "SELECT", "SELECT * FROM", "SELECT * FROM c WHERE", "SELECT (1"])
def test_text_that_ends_too_early(text: str) -> None:
    """The end of the text has a code of its own."""
    (error,) = json.loads(refusal(text).message)["errors"]
    assert error["code"] == "SC1002"
    assert error["location"] == {"start": len(text), "end": len(text)}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("SELECT x.y FROM c", "Identifier 'x' could not be resolved."),
        ("SELECT * FROM c WHERE root.a = 1", "Identifier 'root' could not be resolved."),
        ("SELECT c.id FROM c JOIN t IN d.tags", "Identifier 'd' could not be resolved."),
        ("SELECT * FROM c WHERE c.a = @a", "Parameter '@a' could not be resolved."),
        ("SELECT FOO(c) FROM c", "'FOO' is not a recognized built-in function name."),
        ("SELECT LOWER() FROM c", "requires 1 argument(s)"),
        ("SELECT CONCAT('a')", "requires at least 2 argument(s)"),
        ("SELECT udf.f(1)", "User-defined functions"),
        ("SELECT *", "'SELECT *' is not valid if FROM clause is omitted."),
        ("SELECT * FROM c JOIN t IN c.a", "'SELECT *' is only valid with a single input set."),
        ("SELECT * FROM c GROUP BY c.a", "'SELECT *' is not allowed with GROUP BY"),
        ("SELECT c.a, COUNT(1) FROM c", "not contained in either an aggregate function"),
        ("SELECT c.a FROM c WHERE COUNT(1) > 1", "only allowed in the select list"),
        ("SELECT SUM(MAX(c.a)) FROM c", "Cannot perform an aggregate function on"),
        ("SELECT c.id FROM c JOIN c IN c.a", "specified more than once"),
        ("SELECT TOP 1 c.id FROM c OFFSET 0 LIMIT 1", "TOP is not allowed"),
        ("SELECT (SELECT VALUE t FROM t IN c.a) FROM c", "cardinality of a scalar subquery"),
        ("SELECT VALUE REGEXMATCH('a', '(')", "regular expression"),
        ("SELECT VALUE REGEXMATCH('a', '(a)\\\\1')", "regular expression"),
    ],
)
def test_refused_queries_say_why(text: str, part: str) -> None:
    """A query that can be read and not be run gets 400 with the reason."""
    assert part in refusal(text).message


@pytest.mark.parametrize("value", ["a", -1, 1.5, None, True, [1]])
def test_counts_have_to_be_counts(value: Any) -> None:
    """A parameter of TOP is a whole number."""
    assert "non-negative integer" in refusal("SELECT TOP @n * FROM c", {"@n": value}).message


def test_text_and_nesting_are_bounded() -> None:
    """Too much text, too many brackets, too long chains and too many joins get 400."""
    assert "maximum limit" in refusal("SELECT " + "1" * MOST_TEXT).message
    for deep in ("- " * 5000 + "a", "1" + "+1" * 5000, "[" * 2000 + "]" * 2000):
        assert "nested more deeply" in refusal(f"SELECT {deep}").message
    assert list(execute(parse(f"SELECT VALUE {'(' * 5000}1{')' * 5000}"), {}, [])) == [1]
    joins = " ".join(f"JOIN t{at} IN c.a" for at in range(11))
    assert "number of 10 joins" in refusal(f"SELECT c.id FROM c {joins}").message


def test_long_lists_of_conditions_are_fine() -> None:
    """Two thousand ORs, ANDs and choices are no nesting."""
    items = [{"id": "7"}]
    for text in (
        " OR ".join(f"c.id = '{at}'" for at in range(2000)),
        " AND ".join(f"c.id != '{at}'" for at in range(10, 2000)),
        f"c.id IN ({', '.join(str(at) for at in range(2000))}, '7')",
    ):
        assert list(execute(parse(f"SELECT * FROM c WHERE {text}"), {}, items)) == items


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM c",
        "select distinct top 5 c.a as x, c.b y from root as c where not c.a > -1.5",
        "SELECT VALUE {'a b': [1, true, null, undefined], value: @p} FROM c",
        "SELECT VALUE t.x FROM c JOIN t IN c['a b'][0].tags WHERE t IN (1, 'x') AND t NOT IN (2)",
        "SELECT c.a ?? 1 = 2 ? 'x' : 'y' FROM c ORDER BY c.a DESC, c.b ASC OFFSET 1 LIMIT @n",
        "SELECT s.n FROM (SELECT COUNT(1) AS n FROM c GROUP BY c.b) AS s",
        "SELECT ARRAY(SELECT VALUE t FROM t IN c.tags), EXISTS(SELECT 1), (SELECT VALUE 1) FROM c",
        "SELECT VALUE c.s LIKE 'a!%%' ESCAPE '!' AND c.n NOT BETWEEN 1 AND 2 FROM c -- the end",
        "SELECT /* one */ 1 & 2 | 3 ^ ~4 << 5 >> 6 >>> 7 || 'x', a.b['c'][d.e] FROM a JOIN (SELECT 1 x) d",
    ],
)
def test_text_of_a_query_means_the_same(text: str) -> None:
    """Writing a query and reading it again gives the same query."""
    query = parse(text)
    assert parse(query_text(query)) == query


WORDS = st.sampled_from(
    [
        "SELECT",
        "VALUE",
        "*",
        "TOP",
        "1",
        "DISTINCT",
        "FROM",
        "c",
        "JOIN",
        "t",
        "IN",
        "c.tags",
        "WHERE",
        "AND",
        "OR",
        "NOT",
        "=",
        "<",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ".",
        "?",
        "??",
        ":",
        "'a'",
        '"b"',
        "@p",
        "1.5",
        "-2",
        "null",
        "true",
        "undefined",
        "LIKE",
        "BETWEEN",
        "ORDER",
        "BY",
        "GROUP",
        "DESC",
        "OFFSET",
        "LIMIT",
        "EXISTS",
        "ARRAY",
        "COUNT(1)",
        "c",
        "c.a",
        "c.b",
        "t",
        "a",
        "+",
        "||",
        "LOWER(c.b)",
        "ARRAY_CONTAINS(c.a,",
        "1)",
        "REGEXMATCH(c.b,",
        "'a+')",
        "IS_DEFINED(c.a)",
        "udf.",
        "--",
        "/*",
        "*/",
        "\\",
        ";",
        "AS",
        "x",
    ]
)


@given(st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=25).map(" ".join)))
@settings(deadline=None)
def test_any_text_is_answered(text: str) -> None:
    """Any text is a query with results and a plan, or gets 400: never another exception."""
    items = [{"id": "1", "a": [1, {"b": None}], "b": "aab", "tags": [[], {}, 1, "x"]}, {"id": "2"}]
    for step in (
        lambda: list(execute(parse(text), {"@p": {"a": 1}}, items)),
        lambda: plan(parse(text), ["/id"], "", parameters={"@p": 1}),
    ):
        try:
            step()
        except ServiceError as error:
            assert error.status == 400
