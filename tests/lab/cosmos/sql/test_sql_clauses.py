"""What the clauses of a query do, one by one and together."""

# ruff: noqa: E501 - a table reads best with a case a line

from __future__ import annotations

from typing import Any

import pytest

from azlatch.lab.cosmos.sql import execute, parse

ITEMS: list[dict[str, Any]] = [
    {"id": "1", "n": 3, "g": "a", "tags": ["x", "y"], "o": {"k": 1}},
    {"id": "2", "n": 1, "g": "b", "tags": ["y"]},
    {"id": "3", "n": "1", "g": "a", "tags": []},
    {"id": "4", "n": None, "g": "a"},
    {"id": "5", "g": "b", "n": True, "tags": [["z"], {"t": 1}]},
    {"id": "6", "n": [1]},
]


def results(text: str, parameters: dict[str, Any] | None = None, **options: Any) -> list[Any]:
    return list(execute(parse(text), parameters or {}, ITEMS, **options))


CASES: list[tuple[str, Any]] = [
    ("SELECT c.id FROM c WHERE c.n = 1", [{"id": "2"}]),
    ("SELECT VALUE c.id FROM c WHERE c.n", ["5"]),
    ("SELECT VALUE c.id FROM c WHERE NOT c.n", []),
    ("SELECT VALUE root.id FROM root WHERE root.id > '4'", ["5", "6"]),
    ("SELECT VALUE r.id FROM anything AS r WHERE r.id = '1'", ["1"]),
    ("SELECT c.n, c['g'], c.o.k, 1, 'x' AS y, c FROM c WHERE c.id = '2'", [{"n": 1, "g": "b", "$1": 1, "y": "x", "c": ITEMS[1]}]),
    ("SELECT c.no FROM c WHERE c.id = '2'", [{}]),
    ("SELECT VALUE c.no FROM c", []),
    ("SELECT 1 + 1 AS two, [1, undefined] AS one", [{"two": 2, "one": [1]}]),
    # FROM and JOIN
    ("SELECT VALUE o FROM c.o", [{"k": 1}]),
    ("SELECT VALUE k FROM c.o.k", [1]),
    ("SELECT * FROM t IN c.tags", ["x", "y", "y", ["z"], {"t": 1}]),
    ("SELECT VALUE {i: c.id, t: t} FROM c JOIN t IN c.tags WHERE IS_STRING(t)", [{"i": "1", "t": "x"}, {"i": "1", "t": "y"}, {"i": "2", "t": "y"}]),
    ("SELECT VALUE [t, u] FROM c JOIN t IN c.tags JOIN u IN c.tags WHERE c.id = '1'", [["x", "x"], ["x", "y"], ["y", "x"], ["y", "y"]]),
    ("SELECT VALUE u FROM c JOIN t IN c.tags JOIN u IN t", ["z"]),
    ("SELECT VALUE c.id FROM c JOIN o IN c.o", []),
    ("SELECT VALUE c.id FROM c JOIN (SELECT VALUE t FROM t IN c.tags WHERE t = 'y') AS s", ["1", "2"]),
    ("SELECT VALUE s.n FROM (SELECT c.id, c.n FROM c WHERE c.id < '3') AS s", [3, 1]),
    ("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.g FROM c) AS s", [2]),
    # ORDER BY
    ("SELECT VALUE c.id FROM c ORDER BY c.n", ["4", "5", "2", "1", "3", "6"]),
    ("SELECT VALUE c.id FROM c ORDER BY c.n DESC", ["6", "3", "1", "2", "5", "4"]),
    ("SELECT VALUE c.id FROM c ORDER BY c.g DESC, c.id", ["2", "5", "1", "3", "4", "6"]),
    ("SELECT VALUE c.id FROM c ORDER BY c.g", ["1", "3", "4", "2", "5"]),
    ("SELECT VALUE c.id FROM c ORDER BY c.no", []),
    ("SELECT c.id AS name FROM c WHERE c.id < '3' ORDER BY name DESC", [{"name": "2"}, {"name": "1"}]),
    ("SELECT TOP 2 VALUE c.id FROM c ORDER BY c.id DESC", ["6", "5"]),
    ("SELECT TOP 0 VALUE c.id FROM c", []),
    ("SELECT VALUE c.id FROM c ORDER BY c.id OFFSET 1 LIMIT 2", ["2", "3"]),
    ("SELECT VALUE c.id FROM c OFFSET 5 LIMIT 2", ["6"]),
    ("SELECT VALUE c.id FROM c OFFSET 0 LIMIT 0", []),
    # DISTINCT
    ("SELECT DISTINCT VALUE c.g FROM c", ["a", "b"]),
    ("SELECT DISTINCT c.g FROM c", [{"g": "a"}, {"g": "b"}, {}]),
    ("SELECT DISTINCT TOP 1 VALUE c.g FROM c ORDER BY c.g DESC", ["b"]),
    ("SELECT DISTINCT VALUE x FROM x IN c.tags WHERE IS_STRING(x)", ["x", "y"]),
    ("SELECT DISTINCT VALUE c.n = 1 OR c.n = true FROM c WHERE c.id IN ('2', '5')", [True]),
    # aggregates and GROUP BY
    ("SELECT VALUE COUNT(1) FROM c", [6]),
    ("SELECT VALUE COUNT(c.g) FROM c", [5]),
    ("SELECT VALUE COUNT(1) FROM c WHERE false", [0]),
    ("SELECT VALUE SUM(c.n) FROM c WHERE IS_NUMBER(c.n)", [4]),
    ("SELECT VALUE SUM(c.n) FROM c", []),
    ("SELECT VALUE AVG(c.n) FROM c WHERE IS_NUMBER(c.n)", [2]),
    ("SELECT VALUE AVG(c.n) FROM c WHERE false", []),
    ("SELECT VALUE MIN(c.n) FROM c", [None]),
    ("SELECT VALUE MAX(c.n) FROM c WHERE NOT IS_ARRAY(c.n)", ["1"]),
    ("SELECT VALUE MAX(c.no) FROM c", []),
    ("SELECT COUNT(1) AS n, COUNTIF(c.g = 'a') AS a, MAKESET(c.g) AS g FROM c", [{"n": 6, "a": 3, "g": ["a", "b"]}]),
    ("SELECT VALUE MAKELIST(c.n) FROM c WHERE IS_NUMBER(c.n)", [[3, 1]]),
    ("SELECT MAX(c.n) - MIN(c.n) AS d FROM c WHERE IS_NUMBER(c.n)", [{"d": 2}]),
    ("SELECT c.g, COUNT(1) AS n FROM c GROUP BY c.g", [{"g": "a", "n": 3}, {"g": "b", "n": 2}, {"n": 1}]),
    ("SELECT c.g, IS_NUMBER(c.n) AS i, COUNT(1) AS n FROM c WHERE c.g = 'b' GROUP BY c.g, IS_NUMBER(c.n)", [{"g": "b", "i": True, "n": 1}, {"g": "b", "i": False, "n": 1}]),
    ("SELECT VALUE UPPER(c.g) FROM c GROUP BY c.g", ["A", "B"]),
    ("SELECT VALUE COUNT(1) FROM c WHERE false GROUP BY c.g", []),
    ("SELECT c.g, COUNT(1) AS n FROM c WHERE IS_DEFINED(c.g) GROUP BY c.g ORDER BY c.g DESC", [{"g": "b", "n": 2}, {"g": "a", "n": 3}]),
    ("SELECT VALUE COUNT(1) FROM c JOIN t IN c.tags", [5]),
    ("SELECT VALUE SUM(c.n) FROM c WHERE IS_NUMBER(c.n) ORDER BY c.n", [4]),
    # what the SDK sends to partitions
    ("SELECT VALUE [{\"item\": {\"sum\": SUM(c.n), \"count\": COUNT(c.n)}}] FROM c WHERE IS_NUMBER(c.n)", [[{"item": {"sum": 4, "count": 2}}]]),
    ("SELECT VALUE [{\"item\": MAX(c.no)}] FROM c", [[{}]]),
    ("SELECT c._rid, [{\"item\": c.n}] AS orderByItems, c.id AS payload FROM c WHERE ((c.g = 'b') AND ({documentdb-formattableorderbyquery-filter})) ORDER BY c.n", [{"orderByItems": [{"item": True}], "payload": "5"}, {"orderByItems": [{"item": 1}], "payload": "2"}]),
    ("SELECT [{\"item\": c.g}] AS groupByItems, {\"g\": c.g, \"n\": {\"item\": COUNT(1)}} AS payload FROM c WHERE c.g = 'b' GROUP BY c.g", [{"groupByItems": [{"item": "b"}], "payload": {"g": "b", "n": {"item": 2}}}]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text[:90] for text, _ in CASES])
def test_clause(text: str, expected: Any) -> None:
    """Each query has its results, in their order; true is not 1."""
    assert repr(results(text)) == repr(expected)


def test_missing_sort_keys_on_request() -> None:
    """Items without the sort key come first where the indexing policy names the path."""
    assert results("SELECT VALUE c.id FROM c ORDER BY c.g", sorted_missing=True) == [
        "6",
        "1",
        "3",
        "4",
        "2",
        "5",
    ]


def test_parameters_in_every_place() -> None:
    """TOP, OFFSET, LIMIT, paths, lists and patterns take parameters."""
    given = {"@n": 2.0, "@one": 1, "@key": "g", "@like": "%", "@list": ["1", "2"], "@tags": "tags"}
    assert results("SELECT TOP @n VALUE c.id FROM c WHERE c[@key] LIKE @like", given) == ["1", "2"]
    assert results("SELECT VALUE c.id FROM c OFFSET @one LIMIT @n", given) == ["2", "3"]
    assert results("SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(@list, c.id)", given) == ["1", "2"]
    assert results("SELECT VALUE t FROM c JOIN t IN c[@tags] WHERE t = 'x'", given) == ["x"]


def test_results_come_as_they_are_asked_for() -> None:
    """A filter reads only as many items as its results need, and says how many it read."""
    execution = execute(parse("SELECT * FROM c WHERE c.g = 'b'"), {}, iter(ITEMS))
    assert next(execution)["id"] == "2"
    assert (execution.read, execution.produced) == (2, 1)
    assert len(list(execution)) == 1
    assert (execution.read, execution.produced) == (6, 2)
    assert execution.steps >= 6


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("c.id = 'a'", {"a"}),
        ("'a' = c.id AND c.n > 1", {"a"}),
        ("c.id IN ('a', @b) OR c.id = 'd'", {"a", "b", "d"}),
        ("c.id IN ('a', 'b') AND c.id IN ('b', 'c')", {"b"}),
        ("c.id = 1", set()),
        ("c.id = 'a' OR c.n = 1", None),
        ("c.id != 'a'", None),
        ("NOT c.id = 'a'", None),
        ("c.id NOT IN ('a')", None),
        ("c.o.id = 'a'", None),
        ("c.id = c.n", None),
    ],
)
def test_ids_of_a_query(where: str, expected: set[str] | None) -> None:
    """Where a filter allows a few ids only, they are known; where it does not, they are not."""
    assert parse(f"SELECT * FROM c WHERE {where}").point_ids({"@b": "b"}) == expected
    assert parse(f"SELECT * FROM c IN c.list WHERE {where}").point_ids({"@b": "b"}) is None
