"""Physical partitions: ranges, splits and merges, budgets, and what a hot key does to one of them."""

from __future__ import annotations

import itertools
import json
from random import Random
from typing import Any

import pytest

from azlatch.testing.cosmos_engine import Engine, document, substatus


def _ranges(engine: Engine, headers: dict[str, str] | None = None) -> Any:
    reply = engine.send("GET", "/dbs/d/colls/c/pkranges/", None, headers)
    return reply, json.loads(reply.body)["PartitionKeyRanges"] if reply.body else []


@pytest.mark.parametrize(
    ("throughput", "count"), [(400, 1), (6_000, 1), (10_100, 2), (30_000, 5), (60_000, 10)]
)
def test_ranges_come_from_the_throughput(throughput: int, count: int) -> None:
    _, ranges = _ranges(Engine(throughput=throughput))
    assert len(ranges) == count
    assert (ranges[0]["minInclusive"], ranges[-1]["maxExclusive"]) == ("", "FF")
    assert all(a["maxExclusive"] == b["minInclusive"] for a, b in itertools.pairwise(ranges))


def test_ranges_are_told_once() -> None:
    engine = Engine(throughput=12_000)
    reply, _ = _ranges(engine, {"a-im": "Incremental Feed"})
    etag = reply.headers["etag"]
    assert _ranges(engine, {"a-im": "Incremental Feed", "if-none-match": etag})[0].status == 304
    made = engine.admin.split("d/c", "0")
    _, new = _ranges(engine, {"a-im": "Incremental Feed", "if-none-match": etag})
    assert sorted(each["id"] for each in new) == sorted(made)
    assert all(each["parents"] == ["0"] for each in new)


def test_a_split_keeps_items_order_and_tokens() -> None:
    engine = Engine()
    for number in range(60):
        engine.create({"id": str(number), "pk": f"k{number % 20}", "n": number})
    token = engine.read("7", "k7").headers["x-ms-session-token"]
    low, high = engine.admin.split("d/c", "0")
    lower, higher = engine.store.part(low), engine.store.part(high)
    assert lower.count + higher.count == 60
    assert min(lower.count, higher.count) > 5
    for number in range(60):
        # What was seen of the parent counts for its children, and they have it.
        found = engine.read(str(number), f"k{number % 20}", x_ms_session_token=token)
        assert document(found)["n"] == number
    gone = engine.query("SELECT * FROM c", x_ms_documentdb_partitionkeyrangeid="0")
    assert (gone.status, substatus(gone)) == (410, 1002)
    engine.create({"id": "new", "pk": "k7"})
    again = engine.admin.merge("d/c", [low, high])
    assert engine.store.part(again).count == 61
    whole = engine.read("new", "k7", x_ms_session_token=token)
    assert whole.status == 200
    assert whole.headers["x-ms-session-token"].split(":")[1].split("#")[0] == "2"


def test_a_split_in_the_middle_of_lag_loses_nothing() -> None:
    engine = Engine(regions=("A", "B"), consistency="Eventual")
    engine.admin.lag("A", "B", 5)
    for number in range(20):
        engine.create({"id": str(number), "pk": f"k{number}"})
    engine.admin.split("d/c", "0")
    assert {engine.read(str(each), f"k{each}", "B").status for each in range(20)} == {404}
    engine.tick(6)
    assert {engine.read(str(each), f"k{each}", "B").status for each in range(20)} == {200}


def test_pages_go_through_a_split() -> None:
    engine = Engine()
    for number in range(40):
        engine.create({"id": str(number), "pk": f"k{number % 8}"})
    seen: list[str] = []
    headers = {"x_ms_documentdb_query_enablecrosspartition": "True", "x_ms_max_item_count": "7"}
    continuation = ""
    for page in range(100):
        reply = engine.query("SELECT * FROM c", **headers, x_ms_continuation=continuation)
        seen += [each["id"] for each in document(reply)["Documents"]]
        continuation = reply.headers.get("x-ms-continuation", "")
        if not continuation:
            break
        if page == 1:
            engine.admin.split("d/c", "0")
    assert sorted(seen, key=int) == [str(each) for each in range(40)]


# -- request units -----------------------------------------------------------------------------------------


def test_one_hot_key_is_throttled_where_the_average_looks_idle() -> None:
    """Ten ranges, half of the throughput used, three fifths of it by one key: 429 on its range alone."""
    engine = Engine(throughput=60_000, throttling=True, burst=False)
    random = Random(5)
    parts = engine.store.parts
    keys = [f"k{number}" for number in range(2_000)]
    hot = "hot"
    hot_range = engine.store.part_of(engine.store.resource.definition.epk((hot,))).id
    refused: dict[str, int] = {}
    units = 0.0
    seconds = 5
    for step in range(seconds * 50):
        engine.tick(0.02)
        wanted = 30_000 * 0.02
        while wanted > 0:
            key = hot if random.random() < 0.6 else random.choice(keys)
            reply = engine.upsert({"id": "a", "pk": key, "step": step})
            charge = float(reply.headers["x-ms-request-charge"])
            wanted -= max(charge, 10.0)
            units += charge
            if reply.status == 429:
                assert int(reply.headers["x-ms-retry-after-ms"]) > 0
                at = reply.headers["x-ms-documentdb-partitionkeyrangeid"]
                refused[at] = refused.get(at, 0) + 1
    assert set(refused) == {hot_range}
    assert units / (60_000 * seconds) < 0.5
    busy = {
        part.id: sum(each.units for each in engine.store.budgets[part.id].seconds(engine.now)) for part in parts
    }
    assert max(busy, key=lambda each: busy[each]) == hot_range
    assert busy[hot_range] > 0.9 * 6_000 * seconds


def test_a_page_ends_where_its_results_are_too_many_bytes() -> None:
    """What was read for it does not count: the results of a sorted page are small."""
    engine = Engine()
    for number in range(12):
        engine.create({"id": str(number), "pk": "p", "n": -number, "text": "x" * 900_000})
    small = engine.query("SELECT c.id FROM c ORDER BY c.n", "p")
    assert [each["id"] for each in document(small)["Documents"]] == [str(each) for each in range(11, -1, -1)]
    large, seen = engine.query("SELECT * FROM c", "p"), []
    while True:
        assert len(large.body) < 5 * 2**20
        seen += [each["id"] for each in document(large)["Documents"]]
        if "x-ms-continuation" not in large.headers:
            break
        large = engine.query("SELECT * FROM c", "p", x_ms_continuation=large.headers["x-ms-continuation"])
    assert seen == [str(each) for each in range(12)]


@pytest.mark.parametrize("throttling", [True, False])
def test_use_is_counted_whether_it_is_limited_or_not(throttling: bool) -> None:
    """A request is one, and its units are those that it was told, of a lab that refuses nothing as well."""
    engine = Engine(throttling=throttling)
    charges = [
        float(reply.headers["x-ms-request-charge"])
        for reply in (engine.create({"id": "a", "pk": "p"}), engine.read("a", "p"), engine.read("b", "p"))
    ]
    (second,) = engine.store.budgets["0"].recent(engine.now, 10)
    assert (second.requests, second.throttled, second.rate) == (3, 0, 400)
    assert second.units == pytest.approx(sum(charges))


def test_what_a_range_was_used_for_is_known_after_its_split() -> None:
    """Of the last ranges that were split or merged, with the time of it; the new ones begin at nothing."""
    engine = Engine()
    engine.create({"id": "a", "pk": "p"})
    engine.tick(5)
    low, high = engine.admin.split("d/c", "0")
    (parent,) = engine.store.former
    assert (parent.id, parent.low, parent.high, parent.ended) == ("0", "", "FF", engine.now)
    assert [each.requests for each in parent.budget.seconds(engine.now)] == [1]
    assert all(not engine.store.budgets[each].seconds(engine.now) for each in (low, high))
    for _ in range(40):
        whole = engine.admin.merge("d/c", [each.id for each in engine.store.parts])
        engine.admin.split("d/c", whole)
    assert len(engine.store.former) == 32
    assert engine.store.former[-1].id == whole
