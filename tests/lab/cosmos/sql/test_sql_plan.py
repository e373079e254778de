"""Query plans: their shape, and what the SDK makes of them with partitions behind it."""

# ruff: noqa: E501 - a table reads best with a case a line

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from azure.cosmos._execution_context.execution_dispatcher import _ProxyQueryExecutionContext
from azure.cosmos.exceptions import CosmosHttpResponseError

from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.sql import execute, needs_plan, parse, plan

PYTHON = (
    "Aggregate,CompositeAggregate,Distinct,MultipleOrderBy,OffsetAndLimit,OrderBy,Top,NonStreamingOrderBy,"
    "HybridSearch,CountIf,WeightedRankFusion"
)
HOLE = "{documentdb-formattableorderbyquery-filter}"


def info(text: str, features: str = "", **given: Any) -> dict[str, Any]:
    return dict(plan(parse(text), ["/pk"], features, **given)["queryInfo"])


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("SELECT * FROM c", False),
        ("SELECT * FROM c WHERE c.a = 1 OR c.b = 2", False),
        ("SELECT VALUE t FROM c JOIN t IN c.tags", False),
        ("SELECT VALUE (SELECT VALUE COUNT(1) FROM t IN c.tags) FROM c", False),
        ("SELECT * FROM c ORDER BY c.a", True),
        ("SELECT VALUE COUNT(1) FROM c", True),
        ("SELECT COUNT(1) + 5 FROM c", True),
        ("SELECT c.a FROM c GROUP BY c.a", True),
        ("SELECT DISTINCT c.a FROM c", True),
        ("SELECT TOP 1 * FROM c", True),
        ("SELECT * FROM c OFFSET 0 LIMIT 1", True),
        ("SELECT VALUE s FROM (SELECT DISTINCT VALUE c.a FROM c) AS s", True),
    ],
)
def test_which_queries_need_a_plan(text: str, needed: bool) -> None:
    """What has to be put together of several partitions does."""
    assert needs_plan(parse(text)) is needed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM c ORDER BY c.id", f'SELECT c._rid, [{{"item": c.id}}] AS orderByItems, c AS payload\nFROM c\nWHERE ({HOLE})\nORDER BY c.id'),
        ("SELECT c.id FROM c GROUP BY c.id", 'SELECT [{"item": c.id}] AS groupByItems, {"id": c.id} AS payload\nFROM c\nGROUP BY c.id'),
        ("SELECT COUNTIF(c.valid) FROM c GROUP BY c.zipcode", 'SELECT [{"item": c.zipcode}] AS groupByItems, {"$1": {"item": COUNTIF(c.valid)}} AS payload\nFROM c\nGROUP BY c.zipcode'),
        ("SELECT DISTINCT VALUE c.id FROM c", ""),
        ("SELECT TOP 10 * FROM c ORDER BY c.p DESC", f'SELECT TOP 10 c._rid, [{{"item": c.p}}] AS orderByItems, c AS payload\nFROM c\nWHERE ({HOLE})\nORDER BY c.p DESC'),
        ("SELECT c._ts FROM c ORDER BY c.a OFFSET 5 LIMIT 7", f'SELECT c._rid, [{{"item": c.a}}] AS orderByItems, {{"_ts": c._ts}} AS payload\nFROM c\nWHERE ({HOLE})\nORDER BY c.a\nOFFSET 0 LIMIT 12'),
        ("SELECT VALUE AVG(c.a) FROM c", 'SELECT VALUE [{"item": {"sum": SUM(c.a), "count": COUNT(c.a)}}]\nFROM c'),
    ],
)  # fmt: skip
def test_rewritten_queries(text: str, expected: str) -> None:
    """As other clients of the service have recorded them."""
    assert info(text)["rewrittenQuery"] == expected


def test_every_field_is_there() -> None:
    """A plan has all that a client may read."""
    found = plan(
        parse("SELECT DISTINCT TOP @n c.a FROM c ORDER BY c.a DESC, c.b"), ["/pk"], "", parameters={"@n": 3}
    )
    assert found["queryRanges"] == [{"min": "", "max": "FF", "isMinInclusive": True, "isMaxInclusive": False}]
    assert found["partitionedQueryExecutionInfoVersion"] == 2
    rewritten = found["queryInfo"].pop("rewrittenQuery")
    assert "TOP" not in rewritten, "the SDK drops duplicates after it, so more than three can matter"
    assert found["queryInfo"] == {
        "distinctType": "Ordered",
        "top": 3,
        "offset": None,
        "limit": None,
        "orderBy": ["Descending", "Ascending"],
        "orderByExpressions": ["c.a", "c.b"],
        "groupByExpressions": [],
        "groupByAliases": [],
        "aggregates": [],
        "groupByAliasToAggregateType": {},
        "hasSelectValue": False,
        "dCountInfo": None,
        "hasNonStreamingOrderBy": False,
    }


def test_distinct_that_is_not_in_order() -> None:
    """Only what is sorted by all that is selected comes in order."""
    assert info("SELECT DISTINCT c.a FROM c ORDER BY c.b")["distinctType"] == "Unordered"
    assert info("SELECT DISTINCT c.a, c.b FROM c ORDER BY c.b")["distinctType"] == "Unordered"
    assert info("SELECT DISTINCT c.a, c.b FROM c ORDER BY c.b, c.a")["distinctType"] == "Ordered"


def test_count_of_distinct_values() -> None:
    """A client that can count them gets the values of each partition."""
    found = info("SELECT COUNT(1) AS n FROM (SELECT DISTINCT VALUE c.a FROM c) AS s", "DCount")
    assert found["dCountInfo"] == {"dCountAlias": "n"}
    assert found["rewrittenQuery"] == "SELECT DISTINCT VALUE c.a\nFROM c"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("SELECT c.a, COUNT(1) FROM c GROUP BY c.a", "Query contained GroupBy"),
        ("SELECT COUNT(1) FROM c", "Query contained NonValueAggregate"),
        ("SELECT COUNT(1) + SUM(c) FROM c", "Query contained NonValueAggregate"),
        ("SELECT VALUE SUM(c.a) - SUM(c.b) FROM c", "Compositions of aggregates and other expressions"),
        ("SELECT x.a FROM c", "could not be resolved"),
    ],
)
def test_refused_plans(text: str, part: str) -> None:
    """What this SDK cannot put together, or the service does not run, gets 400."""
    with pytest.raises(ServiceError) as caught:
        info(text, PYTHON)
    assert caught.value.status == 400
    assert part in caught.value.message


def test_ranges_of_a_partition_key() -> None:
    """A filter on the whole partition key makes the ranges narrow."""

    def range_of(key: tuple[Any, ...]) -> dict[str, Any]:
        return {"min": json.dumps(key), "max": "", "isMinInclusive": True, "isMaxInclusive": True}

    def ranges(where: str) -> list[str]:
        query = parse(f"SELECT TOP 1 * FROM c WHERE {where}")
        return [each["min"] for each in plan(query, ["/a", "/b/c"], "", range_of=range_of)["queryRanges"]]

    assert ranges("c.a = 1 AND c.b.c IN ('x', 'y') AND c.z = 1") == ['[1, "x"]', '[1, "y"]']
    assert ranges("c.a = 1") == [""]
    assert ranges("c.a IN (1, true) AND c.b.c = null") == ["[1, null]", "[true, null]"]


# -- the SDK's own pipeline, with partitions of the lab behind it


class Client:
    """As much of a client as the SDK's execution contexts ask for; each partition has a list of items."""

    _global_endpoint_manager = None

    def __init__(self, partitions: list[list[dict[str, Any]]], page: int) -> None:
        self.partitions = partitions
        self.page = page
        self.plans = 0
        self._routing_map_provider = SimpleNamespace(get_overlapping_ranges=lambda *_: self._ranges())

    def _ranges(self) -> list[dict[str, Any]]:
        bounds = ["", *[f"{at:02d}" for at in range(1, len(self.partitions))], "FF"]
        return [
            {"id": str(at), "minInclusive": bounds[at], "maxExclusive": bounds[at + 1]}
            for at in range(len(self.partitions))
        ]

    def _GetQueryPlanThroughGateway(self, query: Any, *_: Any, **__: Any) -> dict[str, Any]:
        self.plans += 1
        text, parameters = self._read(query)
        try:
            found = plan(parse(text), ["/pk"], PYTHON, parameters=parameters)
        except ServiceError as error:
            raise CosmosHttpResponseError(status_code=error.status, message=error.message) from None
        return json.loads(json.dumps(found))

    @staticmethod
    def _read(query: Any) -> tuple[str, dict[str, Any]]:
        if isinstance(query, str):
            return query, {}
        return query["query"], {each["name"]: each["value"] for each in query.get("parameters", [])}

    def QueryFeed(
        self, path: str, collection: str, query: Any, options: Any, partition: str, **_: Any
    ) -> tuple[list[Any], dict[str, Any]]:
        text, parameters = self._read(query)
        found = list(execute(parse(text), parameters, self.partitions[int(partition)]))
        start = int(options.get("continuation") or 0)
        more = start + self.page < len(found)
        headers = {"x-ms-continuation": str(start + self.page)} if more else {}
        return json.loads(json.dumps(found[start : start + self.page])), headers

    def query(self, query: Any) -> list[Any]:
        def whole(_options: Any) -> tuple[list[Any], dict[str, Any]]:
            text, parameters = self._read(query)
            if needs_plan(parse(text)):
                response = SimpleNamespace(
                    headers={"x-ms-substatus": "1004"}, status_code=400, reason="", text=lambda: ""
                )
                error = CosmosHttpResponseError(status_code=400, message="plan", response=response)
                error.sub_status = 1004
                raise error
            items = [item for each in self.partitions for item in each]
            return list(execute(parse(text), parameters, items)), {}

        context = _ProxyQueryExecutionContext(
            self, "dbs/d/colls/c", query, {"enableCrossPartitionQuery": True}, whole, None, None, "docs"
        )
        return list(context)


@pytest.fixture(autouse=True)
def _no_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a real client there is nothing that retries could ask."""
    from azure.cosmos._execution_context import base_execution_context

    monkeypatch.setattr(
        base_execution_context._retry_utility, "Execute", lambda _client, _manager, function, **_: function()
    )


ITEMS = [{"id": f"{at:02d}", "n": at * 7 % 11, "g": "abc"[at % 3], "m": (at % 2) or None} for at in range(23)]
WHOLE: list[Any] = [
    "SELECT * FROM c WHERE c.n > 3",
    "SELECT * FROM c ORDER BY c.n, c.id",
    "SELECT c.id, c.n + 1 AS more FROM c ORDER BY c.g DESC, c.id ASC",
    "SELECT TOP 5 * FROM c ORDER BY c.id DESC",
    "SELECT VALUE c.id FROM c ORDER BY c.id OFFSET 4 LIMIT 6",
    "SELECT DISTINCT VALUE c.g FROM c ORDER BY c.g",
    "SELECT DISTINCT TOP 2 VALUE c.g FROM c ORDER BY c.g DESC",
    "SELECT DISTINCT c.g FROM c ORDER BY c.g OFFSET 1 LIMIT 5",
    "SELECT VALUE c.m FROM c ORDER BY c.id",
    "SELECT VALUE c.no FROM c ORDER BY c.id",
    "SELECT VALUE COUNT(1) FROM c",
    "SELECT VALUE SUM(c.n) FROM c WHERE c.g = 'a'",
    "SELECT VALUE AVG(c.n) FROM c ORDER BY c.n",
    "SELECT VALUE MIN(c.n) FROM c",
    "SELECT VALUE MAX(c.id) FROM c",
    "SELECT TOP 10 VALUE COUNT(c.id) FROM c",
    "SELECT * FROM c WHERE c.n = -1 ORDER BY c.id",
    {"query": "SELECT TOP @n * FROM c WHERE c.g = @g ORDER BY c.id", "parameters": [{"name": "@n", "value": 3}, {"name": "@g", "value": "b"}]},
]  # fmt: skip


@pytest.mark.parametrize("query", WHOLE, ids=str)
@pytest.mark.parametrize("page", [2, 100])
def test_sdk_over_partitions_is_the_query_on_everything(query: Any, page: int) -> None:
    """What the SDK puts together of three partitions is what one partition with all items has."""
    client = Client([ITEMS[0::3], ITEMS[1::3], ITEMS[2::3]], page)
    text, parameters = Client._read(query)
    expected = list(execute(parse(text), parameters, ITEMS))
    found = client.query(query)
    if "ORDER BY" not in text:
        found, expected = sorted(found, key=str), sorted(expected, key=str)
    assert found == expected
    assert client.plans == int(needs_plan(parse(text)))


@pytest.mark.parametrize(
    ("query", "count"),
    [("SELECT DISTINCT VALUE c.g FROM c", 3), ("SELECT DISTINCT c.g, c.m FROM c", 6), ("SELECT TOP 7 * FROM c", 7), ("SELECT * FROM c OFFSET 20 LIMIT 9", 3)],
)  # fmt: skip
def test_sdk_without_an_order(query: str, count: int) -> None:
    """Without ORDER BY the number of results is what can be said."""
    found = Client([ITEMS[:10], ITEMS[10:11], ITEMS[11:]], 4).query(query)
    assert len(found) == len({json.dumps(each) for each in found}) == count


def test_sdk_has_none_for_the_largest_of_nothing() -> None:
    """The SDK's own word for an aggregate that no partition has."""
    assert Client([ITEMS, []], 9).query("SELECT VALUE MAX(c.no) FROM c") == [None]


@pytest.mark.parametrize(
    "query", ["SELECT COUNT(1) FROM c", "SELECT c.g FROM c GROUP BY c.g", "SELECT VALUE x FROM c"]
)
def test_sdk_gives_refusals_on(query: str) -> None:
    """400 reaches the caller."""
    with pytest.raises((CosmosHttpResponseError, ServiceError)) as caught:
        Client([ITEMS], 9).query(query)
    assert (
        caught.value.status_code if isinstance(caught.value, CosmosHttpResponseError) else caught.value.status
    ) == 400
