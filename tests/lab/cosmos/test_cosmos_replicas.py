"""What lag, splits, merges, failovers and restarts must not change: items, their keys and sizes, their feed."""

from __future__ import annotations

import json
from typing import Any

from azlatch.lab.cosmos import session_token
from azlatch.lab.cosmos.account import Account
from azlatch.testing.cosmos_engine import Engine, document, substatus

UNIQUE = {"uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/u"]}]}}
DOCS = "/dbs/d/colls/c/docs/"


def _doc(name: str = "a", pk: str = "p", **more: Any) -> dict[str, Any]:
    return {"id": name, "pk": pk, **more}


def _token(reply: Any) -> str:
    return str(reply.headers["x-ms-session-token"])


def _changes(engine: Engine, mark: str = "", part: str = "0", region: str = "") -> tuple[list[Any], str]:
    headers = {"a-im": "Incremental Feed", "x-ms-documentdb-partitionkeyrangeid": part, "if-none-match": mark}
    reply = engine.send("GET", DOCS, None, headers, region)
    found = document(reply)["Documents"] if reply.status == 200 else []
    return [(each["id"], each.get("n")) for each in found], reply.headers["etag"]


# -- what expires or is deleted while replicas are late ------------------------------------------------------


def test_what_expired_frees_its_unique_key_though_replicas_are_late() -> None:
    engine = Engine(regions=("A", "B"), container={"defaultTtl": -1, **UNIQUE})
    engine.admin.lag("A", "B", 100)
    engine.create(_doc(u=1, ttl=5))
    engine.replace(_doc(u=1, ttl=5))
    engine.tick(6)
    assert engine.create(_doc("b", u=1)).status == 201
    engine.tick(101)
    assert len(engine.read("b", "p").body) == engine.store.parts[0].size
    assert engine.store.parts[0].count == 1


def test_what_was_deleted_leaves_nothing_when_all_have_seen_it() -> None:
    engine = Engine(regions=("A", "B"))
    engine.admin.lag("A", "B", 5)
    for number in range(10):
        engine.create(_doc(str(number), f"k{number}"))
        engine.delete(str(number), f"k{number}")
    engine.tick(6)
    engine.read("a", "p")
    assert not engine.store.parts[0].keys


def test_items_expire_after_a_split() -> None:
    """The half of a heap is none: they have to leave in the order of their times all the same."""
    engine = Engine(container={"defaultTtl": -1})
    for number in range(200):
        engine.create(_doc(str(number), f"k{number}", ttl=1 + number * 37 % 199))
    engine.admin.split("d/c", "0")
    for _ in range(20):
        engine.tick(10)
        for part in engine.store.parts:
            part.advance(engine.now)
        left = sum(engine.read(str(each), f"k{each}").status == 200 for each in range(200))
        assert sum(each.count for each in engine.store.parts) == left


def test_another_time_to_live_of_the_container_holds_for_what_it_has() -> None:
    engine = Engine()
    engine.create(_doc())
    engine.create(_doc("b", ttl=100))
    definition = engine.ok("GET", "/dbs/d/colls/c")
    engine.ok("PUT", "/dbs/d/colls/c", {**definition, "defaultTtl": 10})
    engine.tick(11)
    assert [engine.read(each, "p").status for each in "ab"] == [404, 200]
    engine.ok("PUT", "/dbs/d/colls/c", definition)
    engine.tick(100)
    assert [engine.read(each, "p").status for each in "ab"] == [404, 200]


def test_rewriting_an_item_that_would_expire_takes_no_memory_for_it() -> None:
    engine = Engine(container={"defaultTtl": 1_000_000})
    for number in range(500):
        engine.upsert(_doc(n=number))
    assert len(engine.store.parts[0]._expiring) < 100


def test_what_is_rewritten_often_does_not_keep_others_from_expiring() -> None:
    engine = Engine(container={"defaultTtl": 1_000_000})
    engine.create(_doc("b", ttl=10))
    for number in range(500):
        engine.upsert(_doc(n=number))
    engine.tick(11)
    engine.read("a", "p")
    assert engine.store.parts[0].count == 1


# -- failover ------------------------------------------------------------------------------------------------


def test_an_outage_takes_back_a_delete_and_a_create_of_one_id() -> None:
    engine = Engine(regions=("A", "B"), container=UNIQUE)
    engine.create(_doc(n=1, u=1))
    engine.admin.lag("A", "B", 100)
    engine.delete("a", "p")
    engine.create(_doc(n=2, u=2))
    engine.admin.offline("A")
    assert engine.admin.failover("B") == 2
    found = engine.read("a", "p", "B")
    assert document(found)["n"] == 1
    assert engine.create(_doc("b", u=1), "B").status == 409
    assert engine.create(_doc("b", u=2), "B").status == 201
    size = len(found.body) + len(engine.read("b", "p", "B").body)
    assert engine.store.parts[0].size == size


def test_what_an_outage_has_not_sent_is_lost_however_long_it_lasts() -> None:
    engine = Engine(regions=("A", "B"))
    engine.admin.lag("A", "B", 5)
    engine.create(_doc())
    engine.admin.offline("A")
    engine.tick(60)
    assert engine.read("a", "p", "B").status == 404
    assert engine.admin.failover("B") == 1


def test_tokens_of_before_and_after_a_failover_can_be_merged() -> None:
    """The SDK merges them, and fails where one version has two sets of regions."""
    engine = Engine(regions=("A", "B", "C"))
    engine.admin.lag("A", "C", 10)
    engine.admin.lag("B", "C", 10)
    before = _token(engine.create(_doc(n=1)))
    engine.admin.failover("B")
    after = _token(engine.replace(_doc(n=2), "B"))
    merged = session_token.parse_header(f"{before},{after}")["0"]
    assert str(merged) == after
    # What was seen before still has to be seen: C has not got it yet.
    for token in (before, after):
        behind = engine.read("a", "p", "C", x_ms_session_token=token)
        assert (behind.status, substatus(behind)) == (404, 1002)
    assert engine.read("a", "p", "A", x_ms_session_token=before).status == 200


def test_a_token_that_an_outage_made_worthless_stays_so_after_a_merge() -> None:
    engine = Engine(regions=("A", "B"), throughput=12_000)
    engine.admin.lag("A", "B", 100)
    token = _token(engine.create(_doc()))
    engine.admin.offline("A")
    engine.admin.failover("B")
    engine.admin.merge("d/c", ["0", "1"])
    refused = engine.read("a", "p", "B", x_ms_session_token=token)
    assert (refused.status, substatus(refused)) == (404, 1002)


def test_strong_reads_never_go_back_when_a_region_returns() -> None:
    engine = Engine(regions=("A", "B"), consistency="Strong")
    engine.create(_doc(n=1))
    engine.admin.lag("A", "B", 3)
    engine.admin.offline("B")
    acknowledged = engine.replace(_doc(n=2))
    assert acknowledged.ready_at is None
    engine.admin.online("B")
    assert {document(engine.read("a", "p", each))["n"] for each in "AB"} == {2}


def test_strong_keeps_what_it_has_promised() -> None:
    """The reply is on its way when the link is cut and the region fails."""
    engine = Engine(regions=("A", "B"), consistency="Strong")
    engine.admin.lag("A", "B", 2)
    promised = engine.create(_doc(n=1))
    assert promised.ready_at == engine.now + 2
    engine.tick(1)
    engine.admin.pause("A", "B")
    engine.tick(1)
    assert engine.read("a", "p", "B").status == 200
    engine.create(_doc("b"))
    engine.admin.resume("A", "B")
    assert engine.create(_doc("c")).ready_at is not None
    engine.admin.offline("A")
    assert engine.admin.failover("B") == 0
    assert [engine.read(each, "p", "B").status for each in "abc"] == [200, 200, 200]


# -- several write regions -----------------------------------------------------------------------------------


def _two_writers(**options: Any) -> Engine:
    engine = Engine(regions=("A", "B"), multiple_write_regions=True, **options)
    engine.admin.lag("A", "B", 5)
    engine.admin.lag("B", "A", 5)
    return engine


def test_each_of_several_writers_reads_what_it_wrote() -> None:
    engine = _two_writers()
    engine.create(_doc("b"), "B")
    token = _token(engine.create(_doc(), "A"))
    assert engine.read("a", "p", "A", x_ms_session_token=token).status == 200
    behind = engine.read("a", "p", "B", x_ms_session_token=token)
    assert (behind.status, substatus(behind)) == (404, 1002)


def test_a_conflict_counts_for_one_item() -> None:
    engine = _two_writers(container=UNIQUE)
    engine.create(_doc(u=1, n=1), "A")
    engine.tick(1)
    engine.create(_doc(u=2, n=2), "B")
    engine.tick(6)
    found = engine.read("a", "p", "A")
    assert document(found)["n"] == 2
    assert engine.store.parts[0].size == len(found.body)
    assert engine.create(_doc("b", u=1), "A").status == 201


def test_changes_of_another_writer_are_told_though_they_come_late() -> None:
    engine = _two_writers()
    engine.create(_doc("b"), "B")
    engine.create(_doc("a"), "A")
    seen, mark = _changes(engine, region="A")
    engine.tick(6)
    later, _ = _changes(engine, mark, region="A")
    assert sorted(name for name, _ in seen + later) == ["a", "b"]


# -- errors --------------------------------------------------------------------------------------------------


def test_an_error_tells_no_more_than_was_seen() -> None:
    """The SDK keeps the token of a 404: with that of the write region the next read would fail for nothing."""
    engine = Engine(regions=("A", "B"))
    engine.admin.lag("A", "B", 5)
    engine.create(_doc())
    missing = engine.read("a", "p", "B")
    assert missing.status == 404
    again = engine.read("a", "p", "B", x_ms_session_token=_token(missing))
    assert (again.status, substatus(again)) == (404, 0)


# -- resource ids --------------------------------------------------------------------------------------------


def test_a_new_item_under_an_old_id_is_another_resource() -> None:
    engine = Engine()
    first = document(engine.create(_doc()))["_rid"]
    rename = {"operationType": "Replace", "id": "a", "resourceBody": _doc("b")}
    make = {"operationType": "Create", "resourceBody": _doc()}
    assert engine.batch("p", [rename, make]).status == 200
    rids = {each: document(engine.read(each, "p"))["_rid"] for each in "ab"}
    assert rids["b"] == first != rids["a"]
    # It keeps it, and is found by it.
    assert document(engine.replace(_doc(n=1)))["_rid"] == rids["a"]
    swap = [{"operationType": "Delete", "id": "a"}, make]
    assert engine.batch("p", swap).status == 200
    made = document(engine.read("a", "p"))["_rid"]
    assert made not in rids.values()
    assert document(engine.replace(_doc(n=2)))["_rid"] == made


# -- splits and merges ---------------------------------------------------------------------------------------


def test_changes_go_through_merges_and_outages() -> None:
    engine = Engine(regions=("A", "B"), throughput=12_000)
    store = engine.store
    low = next(f"k{each}" for each in range(99) if store.part_of(_epk(engine, f"k{each}")).id == "0")
    for number in range(20):
        engine.upsert(_doc(pk=low, n=number))
    _, mark = _changes(engine)
    merged = engine.admin.merge("d/c", ["0", "1"])
    engine.upsert(_doc(pk=low, n=20))
    found, mark = _changes(engine, mark, merged)
    assert ("a", 20) in found
    engine.admin.pause("A", "B")
    for number in range(5):
        engine.create(_doc(f"lost{number}", low))
    _, mark = _changes(engine, mark, merged)
    engine.admin.offline("A")
    engine.admin.failover("B")
    engine.create(_doc("new", low), "B")
    assert ("new", None) in _changes(engine, mark, merged, "B")[0]


def test_a_reader_of_what_was_lost_is_told_what_stands_again() -> None:
    engine = Engine(regions=("A", "B"))
    engine.create(_doc(n=1))
    engine.admin.pause("A", "B")
    engine.replace(_doc(n=2))
    seen, mark = _changes(engine)
    engine.admin.offline("A")
    engine.admin.failover("B")
    assert (seen, _changes(engine, mark, region="B")[0]) == ([("a", 2)], [("a", 1)])


def _epk(engine: Engine, key: str) -> str:
    return str(engine.store.resource.definition.epk((key,)))


def test_a_reader_of_changes_goes_on_after_a_merge_and_a_restart() -> None:
    engine = Engine(throughput=12_000)
    part = engine.store.part_of(_epk(engine, "p")).id
    for number in range(9):
        engine.upsert(_doc(n=number))
    _, mark = _changes(engine, part=part)
    merged = engine.admin.merge("d/c", ["0", "1"])
    engine.upsert(_doc("b"))
    kept = engine.account.dump()
    engine.account = Account(throttling=False)
    engine.account.load(kept)
    assert ("b", None) in _changes(engine, mark, merged)[0]


def test_pages_go_through_a_merge() -> None:
    """Of one range some was told, of the other nothing; each item is told once."""
    engine = Engine(throughput=12_000)
    for number in range(40):
        engine.create(_doc(str(number), f"k{number % 8}"))
    for merge_after in range(8):
        names, seen, continuation = [each.id for each in engine.store.parts], [], ""
        headers = {"x_ms_documentdb_query_enablecrosspartition": "True", "x_ms_max_item_count": "7"}
        for page in range(100):
            reply = engine.query("SELECT * FROM c", **headers, x_ms_continuation=continuation)
            seen += [each["id"] for each in document(reply)["Documents"]]
            continuation = reply.headers.get("x-ms-continuation", "")
            if page == merge_after:
                merged = engine.admin.merge("d/c", names)
            if not continuation:
                break
        assert sorted(seen, key=int) == [str(each) for each in range(40)]
        if page >= merge_after:
            engine.admin.split("d/c", merged)


def test_a_merge_tells_changes_in_the_order_in_which_they_were_made() -> None:
    engine = Engine(throughput=12_000)
    for name in ("b", "a", "c"):
        engine.create(_doc(name))
    engine.replace(_doc("b", n=1))
    found, _ = _changes(engine, "", engine.admin.merge("d/c", ["0", "1"]))
    assert [name for name, _ in found] == ["a", "c", "b"]


def test_parents_are_named_once_however_often_ranges_change() -> None:
    engine = Engine()
    name = "0"
    for _ in range(20):
        name = engine.admin.merge("d/c", engine.admin.split("d/c", name))
    parents = engine.store.part(name).parents
    assert len(parents) == len(set(parents)) == 60


def test_more_throughput_than_the_ranges_of_old_keys_can_give_is_no_error() -> None:
    """A range of a container with keys of version 1 is split where its keys are, and has none."""
    engine = Engine(container={"partitionKey": {"paths": ["/pk"], "kind": "Hash"}})
    offer = engine.ok("GET", "/offers")["Offers"][0]
    offer["content"]["offerThroughput"] = 100_000
    assert engine.send("PUT", f"/offers/{offer['_rid']}", offer).status == 200
    assert engine.create(_doc()).status == 201


# -- a restart -----------------------------------------------------------------------------------------------


def test_a_state_is_taken_back_whole() -> None:
    engine = Engine(regions=("A", "B"), throughput=12_000, container={"defaultTtl": -1, **UNIQUE})
    engine.create(_doc(u=1, n=1))
    engine.create(_doc("b", u=2, ttl=10))
    token = _token(engine.create(_doc("c", u=3)))
    engine.admin.split("d/c", "0")
    other = Account(regions=("A", "B"), throttling=False)
    other.load(engine.account.dump())
    kept, engine.account = engine.account.dump(), other
    assert json.loads(other.dump())["stores"].keys() == json.loads(kept)["stores"].keys()
    assert document(engine.read("a", "p", x_ms_session_token=token))["n"] == 1
    assert substatus(engine.create(_doc("d", u=1))) == 3301
    engine.tick(11)
    assert engine.read("b", "p").status == 404
    assert engine.create(_doc("d", u=2)).status == 201


# -- faults --------------------------------------------------------------------------------------------------


def test_a_rule_knows_a_key_in_any_spelling() -> None:
    engine = Engine(container={"partitionKey": {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2}})
    headers = {"x-ms-documentdb-partitionkey": json.dumps(["x y", "é"])}
    for spelling in ('key=["x y","é"] op=read', """op=read 'key=["x y", "\\u00e9"]'"""):
        engine.admin.add_rule(f"status=449 {spelling} times=1")
        assert engine.send("GET", DOCS + "a", None, headers).status == 449
    assert engine.send("GET", DOCS + "a", None, headers).status == 404
