"""No query takes for ever or keeps everything: each bound is reached, and answered with 400."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.sql import Limits, execute, parse
from azlatch.lab.cosmos.sql.like import pattern_of
from azlatch.lab.cosmos.sql.limits import Meter
from azlatch.lab.cosmos.sql.regex import RegexError, regex_of


def ended(text: str, items: list[dict[str, Any]], limits: Limits, part: str) -> None:
    with pytest.raises(ServiceError) as caught:
        list(execute(parse(text), {}, items, limits=limits))
    assert caught.value.status == 400
    assert part in caught.value.message


WIDE = [{"id": "1", "a": list(range(200)), "s": "a" * 5000, "e": []}]
FEW = Limits(steps=20_000)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.a JOIN z IN c.a",
        "SELECT VALUE 1 FROM c JOIN x IN c.a JOIN y IN c.a WHERE x = -1",
        "SELECT VALUE 1 FROM c JOIN x IN c.a JOIN y IN c.a JOIN z IN c.e",
        "SELECT VALUE (SELECT VALUE COUNT(1) FROM x IN c.a JOIN y IN c.a) FROM c",
        "SELECT VALUE ARRAY_CONTAINS(c.a, -1) FROM c JOIN x IN c.a JOIN y IN c.a",
        "SELECT VALUE CONTAINS(c.s, 'b') FROM c JOIN x IN c.a JOIN y IN c.a",
        "SELECT VALUE REGEXMATCH(c.s, '(a+)+b') FROM c",
        "SELECT VALUE c.s LIKE '%a%a%a%a%a%a%a%a%b' FROM c JOIN x IN c.a",
    ],
)
def test_steps_are_bounded(text: str) -> None:
    """Joins, subqueries, functions and patterns all count."""
    ended(text, WIDE, FEW, "maximum of 20000 evaluation steps")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM c ORDER BY c.id",
        "SELECT DISTINCT c.id FROM c",
        "SELECT c.id, COUNT(1) FROM c GROUP BY c.id",
        "SELECT VALUE MAKELIST(c.id) FROM c",
        "SELECT VALUE MAKESET(c.id) FROM c",
    ],
)
def test_memory_is_bounded(text: str) -> None:
    """What has to be kept for the result is counted."""
    items = [{"id": str(at)} for at in range(200)]
    ended(text, items, Limits(held=100), "maximum allowed memory usage")


def test_memory_of_one_row_is_let_go() -> None:
    """A subquery in every row may use it again."""
    items = [{"id": "1", "a": [1, 2, 3]}] * 100
    query = parse("SELECT VALUE ARRAY(SELECT VALUE x FROM x IN c.a) FROM c")
    assert len(list(execute(query, {}, items, limits=Limits(held=10)))) == 100


def test_strings_are_bounded() -> None:
    """No function makes a string without end."""
    for text in ("CONCAT(c.s, c.s)", "c.s || c.s", "REPLACE(c.s, 'a', 'aa')", "STRINGJOIN([c.s, c.s], '')"):
        ended(f"SELECT VALUE {text} FROM c", WIDE, Limits(text=9_000), "maximum length of 9000")


@pytest.mark.parametrize("text", ["c.v = c.w", "c.v IN (c.w)", "ARRAY_CONTAINS([c.v], c.w)", "ToString(c.v)"])
def test_deep_values_are_answered(text: str) -> None:
    """A value that is nested as deeply as JSON allows gets an answer or 400, no other error."""
    one: Any = 1
    other: Any = 1
    for _ in range(5000):
        one, other = [one], [other]
    execution = execute(parse(f"SELECT VALUE {text} FROM c ORDER BY c.v"), {}, [{"v": one, "w": other}])
    with pytest.raises(ServiceError) as caught:
        list(execution)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "pattern",
    [
        "(){9999}",
        "((((){99}){99}){99}){99}",
        "(a{99}){99}",
        "a" * 2001,
        "(" * 60,
        "(?=a)",
        "\\1",
        "[b-a]",
        "a{2,1}",
        "*",
        "[a",
        "(a",
        "a)",
        "\\",
    ],
)
def test_patterns_that_are_refused(pattern: str) -> None:
    """Too large, not understood or broken."""
    with pytest.raises(RegexError):
        regex_of(pattern)


PIECES = st.sampled_from(
    [
        "a",
        "b",
        ".",
        "\\w",
        "\\d",
        "[ab]",
        "[^a]",
        "^",
        "$",
        "(a|b)",
        "(?:ab)",
        "a*",
        "b+",
        "a?",
        "(ab){1,2}",
        "|",
        "\\b",
        "B*?",
    ]
)


@given(
    st.lists(PIECES, max_size=6).map("".join),
    st.text("aAbB1 \n", max_size=12),
    st.sampled_from(["", "i", "m", "s", "im"]),
)
@settings(deadline=None)
def test_patterns_agree_with_python(pattern: str, text: str, flags: str) -> None:
    """What is understood means what it means to Python's own regular expressions."""
    meant = 0
    for flag in flags:
        meant |= {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}[flag]
    # Python's $ also stands before a last line end.
    expected = (
        re.search(re.sub(r"\$", r"(?:\\Z|(?=\\n))" if "m" in flags else r"\\Z", pattern), text, meant)
        is not None
    )
    assert regex_of(pattern, flags).search(text, Meter(Limits())) is expected


@given(st.text("ab%_", max_size=8), st.text("ab%_", max_size=12))
@settings(deadline=None)
def test_like_agrees_with_a_regular_expression(pattern: str, text: str) -> None:
    """% is any text and _ one character."""
    meant = "".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in pattern)
    assert pattern_of(pattern).matches(text) is (re.fullmatch(meant, text, re.DOTALL) is not None)


@pytest.mark.parametrize("text", ["SELECT " + "[" * 200_000, "SELECT 1" + "+1" * 100_000])
def test_more_words_than_a_query_may_have_are_refused_unread(text: str) -> None:
    with pytest.raises(ServiceError, match="words and signs"):
        parse(text)


def test_a_long_text_of_few_words_is_read() -> None:
    many = ", ".join(str(each) for each in range(16_000))
    assert parse(f"SELECT * FROM c WHERE c.n IN ({many})")
    assert parse("SELECT '" + "+" * 200_000 + "' FROM c")
