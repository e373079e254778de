"""A query from the body of a request to its results."""

from __future__ import annotations

from azlatch.lab.cosmos.sql import execute, needs_plan, plan, request_of

ITEMS = [{"id": "1", "a": 2}, {"id": "2", "a": 1}, {"id": "3"}]
BODY = b"""{"query": "SELECT VALUE c.id FROM c WHERE c.a >= @a ORDER BY c.a",
            "parameters": [{"name": "@a", "value": 1}]}"""


def test_request_to_results() -> None:
    """Parameters, a filter and an order work together."""
    query, parameters = request_of(BODY)
    assert list(execute(query, parameters, ITEMS)) == ["2", "1"]
    assert needs_plan(query)
    assert plan(query, ["/id"], "", parameters=parameters)["queryInfo"]["orderBy"] == ["Ascending"]
