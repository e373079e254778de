"""Pages of a query over several physical partitions, and what an answer says of its work."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from azlatch.testing.cosmos_engine import Engine

_EVERYWHERE = {"x_ms_documentdb_query_enablecrosspartition": "True"}


def _filled(throughput: int = 400, items: int = 10) -> Engine:
    engine = Engine(throughput=throughput)
    for number in range(items):
        engine.create({"id": str(number), "pk": f"k{number}", "n": number})
    return engine


def _metrics(reply: Any) -> dict[str, str]:
    return dict(each.split("=") for each in reply.headers["x-ms-documentdb-query-metrics"].split(";"))


def test_a_page_is_of_one_physical_partition() -> None:
    """The empty ones have one, too; nothing is told twice or left out."""
    engine = _filled(throughput=30_000, items=3)
    found: list[str] = []
    sizes: list[int] = []
    more = ""
    for _ in range(5):
        reply = engine.query("SELECT * FROM c", x_ms_continuation=more, **_EVERYWHERE)
        page = json.loads(reply.body)["Documents"]
        found += [each["id"] for each in page]
        sizes.append(len(page))
        more = reply.headers.get("x-ms-continuation", "")
    assert more == ""
    assert sorted(found) == ["0", "1", "2"]
    assert 0 in sizes


def test_metrics_count_what_was_done() -> None:
    """Only where they are asked for."""
    engine = _filled()
    asked = {**_EVERYWHERE, "x_ms_documentdb_populatequerymetrics": "True"}
    reply = engine.query("SELECT * FROM c WHERE c.n < 4", **asked)
    told = _metrics(reply)
    assert (told["retrievedDocumentCount"], told["outputDocumentCount"]) == ("10", "4")
    assert int(told["retrievedDocumentSize"]) > int(told["outputDocumentSize"]) > 0
    assert told["indexUtilizationRatio"] == "0.40"
    assert "x-ms-documentdb-query-metrics" not in engine.query("SELECT * FROM c", **_EVERYWHERE).headers


@pytest.mark.parametrize(
    ("text", "loaded"),
    [
        ("SELECT VALUE COUNT(1) FROM c", "0"),
        ("SELECT VALUE COUNT(c.n) FROM c", "1"),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.n >= 0", "1"),
        ("SELECT VALUE COUNT(1) FROM x IN c.list", "1"),
    ],
)
def test_items_that_are_only_counted_are_not_loaded(text: str, loaded: str) -> None:
    """Everything else has to look into them."""
    engine = _filled()
    asked = {"x_ms_documentdb_populatequerymetrics": "True", "x_ms_documentdb_partitionkey": '["k1"]'}
    assert _metrics(engine.query(text, **asked))["retrievedDocumentCount"] == loaded


def test_index_utilization_names_the_paths_of_the_filter() -> None:
    """The partition key's has no expression; a path that is not indexed is potential."""
    policy = {"includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/off/?"}]}
    engine = Engine(container={"indexingPolicy": policy})
    text = "SELECT * FROM c WHERE c.a.b = 1 AND (c.off < 2 OR c.n + 1 = 3)"
    asked = {"x_ms_cosmos_populateindexmetrics": "True", "x_ms_documentdb_partitionkey": '["k1"]'}
    reply = engine.query(text, **asked)
    told = json.loads(base64.b64decode(reply.headers["x-ms-cosmos-index-utilization"]))
    used = [(each["IndexSpec"], each["FilterExpression"]) for each in told["UtilizedSingleIndexes"]]
    assert used == [("/pk/?", ""), ("/a/b/?", "(c.a.b = 1)")]
    assert [each["IndexSpec"] for each in told["PotentialSingleIndexes"]] == ["/off/?"]
