"""Point operations and batches: what each answers, and that nothing is half done."""

from __future__ import annotations

import json
from typing import Any

import pytest

from azlatch.testing.cosmos_engine import Engine, document, substatus


@pytest.fixture
def engine() -> Engine:
    return Engine()


def _doc(name: str = "a", pk: Any = "p", **more: Any) -> dict[str, Any]:
    return {"id": name, "pk": pk, **more}


def test_an_item_lives(engine: Engine) -> None:
    made = engine.create(_doc(n=1))
    assert made.status == 201
    assert float(made.headers["x-ms-request-charge"]) > 0
    body = document(made)
    assert made.headers["etag"] == body["_etag"]
    assert body["_self"].startswith(engine.store.resource.self_link + "docs/")
    assert body["_ts"] == int(engine.now)
    read = engine.read("a", "p")
    assert (read.status, document(read)) == (200, body)
    assert engine.create(_doc()).status == 409
    assert engine.replace(_doc(n=2)).status == 200
    assert engine.upsert(_doc(n=3)).status == 200
    assert engine.upsert(_doc("b")).status == 201
    assert engine.delete("a", "p").status == 204
    gone = engine.read("a", "p")
    assert (gone.status, substatus(gone)) == (404, 0)
    assert json.loads(gone.body)["code"] == "NotFound"


def test_the_same_id_is_another_item_under_another_key(engine: Engine) -> None:
    for pk in ("p", "q", 1, True, None):
        assert engine.create(_doc(pk=pk)).status == 201
    assert engine.read("a", "other").status == 404


@pytest.mark.parametrize("act", ["replace", "upsert", "delete"])
def test_a_stale_etag_is_refused_and_nothing_changes(engine: Engine, act: str) -> None:
    old = engine.create(_doc(n=1)).headers["etag"]
    engine.replace(_doc(n=2))
    if act == "delete":
        refused = engine.delete("a", "p", if_match=old)
    else:
        refused = getattr(engine, act)(_doc(n=3), if_match=old)
    assert refused.status == 412
    assert document(engine.read("a", "p"))["n"] == 2


def test_conditions_of_reads_and_the_two_that_surprise(engine: Engine) -> None:
    etag = engine.create(_doc()).headers["etag"]
    assert engine.read("a", "p", if_none_match=etag).status == 304
    # An upsert with If-Match creates what is missing, and a create does not look at conditions at all.
    assert engine.upsert(_doc("new"), if_match=etag).status == 201
    assert engine.create(_doc("newer"), if_match="something").status == 201


def test_the_key_of_the_header_has_to_be_the_documents(engine: Engine) -> None:
    headers = {"x-ms-documentdb-partitionkey": '["other"]'}
    reply = engine.send("POST", "/dbs/d/colls/c/docs/", _doc(), headers)
    assert (reply.status, substatus(reply)) == (400, 1001)
    engine.create(_doc())
    moved = engine.send("PUT", "/dbs/d/colls/c/docs/a", _doc(pk="q"), {"x-ms-documentdb-partitionkey": '["p"]'})
    assert (moved.status, substatus(moved)) == (400, 1001)
    assert engine.send("POST", "/dbs/d/colls/c/docs/", _doc()).status == 400


def test_a_replacement_may_change_the_id(engine: Engine) -> None:
    engine.create(_doc())
    path = {"x-ms-documentdb-partitionkey": '["p"]'}
    assert engine.send("PUT", "/dbs/d/colls/c/docs/a", _doc("b"), path).status == 200
    assert (engine.read("a", "p").status, engine.read("b", "p").status) == (404, 200)
    engine.create(_doc("a"))
    assert engine.send("PUT", "/dbs/d/colls/c/docs/a", _doc("b"), path).status == 409


def test_patch(engine: Engine) -> None:
    engine.create(_doc(n=1, tags=["x"]))
    operations = [
        {"op": "incr", "path": "/n", "value": 4},
        {"op": "add", "path": "/tags/0", "value": "w"},
        {"op": "set", "path": "/new", "value": {"deep": 1}},
        {"op": "move", "from": "/new/deep", "path": "/moved"},
    ]
    found = document(engine.patch("a", "p", operations))
    assert (found["n"], found["tags"], found["new"], found["moved"]) == (5, ["w", "x"], {}, 1)
    assert (
        engine.patch("a", "p", [{"op": "incr", "path": "/n", "value": 1}], "from c where c.n = 1").status == 412
    )
    assert (
        engine.patch("a", "p", [{"op": "incr", "path": "/n", "value": 1}], "from c where c.n = 5").status == 200
    )
    # All or nothing: the second operation is impossible.
    broken = [{"op": "set", "path": "/n", "value": 0}, {"op": "replace", "path": "/none", "value": 0}]
    assert engine.patch("a", "p", broken).status == 400
    assert document(engine.read("a", "p"))["n"] == 6
    for path in ("/pk", "/id", "/_etag"):
        assert engine.patch("a", "p", [{"op": "set", "path": path, "value": "z"}]).status == 400
    assert engine.patch("a", "p", [{"op": "set", "path": "/x", "value": 1}] * 11).status == 400


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'"x"', 400),
        (b'{"pk":"p"}', 400),
        (b'{"id":1,"pk":"p"}', 400),
        (b'{"id":"","pk":"p"}', 400),
        (b'{"id":"a/b","pk":"p"}', 400),
        (b'{"id":"a","pk":"p","ttl":0}', 400),
        (b'{"id":"a","pk":"p","ttl":null}', 400),
        (b'{"id":"a","pk":"p","x":"' + b"y" * (2 * 2**20) + b'"}', 413),
        (b'{"id":"a","pk":"p","x":' + b"[" * 5_000 + b"]" * 5_000 + b"}", 400),
        (b'{"id":"a","pk":"p","x":"\xff"}', 400),
    ],
)
def test_what_is_no_item_is_refused(engine: Engine, body: bytes, status: int) -> None:
    reply = engine.send("POST", "/dbs/d/colls/c/docs/", body, {"x-ms-documentdb-partitionkey": '["p"]'})
    assert reply.status == status
    assert set(json.loads(reply.body)) == {"code", "message"}


def test_unknown_places(engine: Engine) -> None:
    for method, path in (("GET", "/dbs/none"), ("GET", "/dbs/d/colls/none")):
        assert engine.send(method, path).status == 404
    reply = engine.send("GET", "/dbs/d/colls/none/docs/a", None, {"x-ms-documentdb-partitionkey": '["p"]'})
    assert (reply.status, substatus(reply)) == (404, 1003)
    assert engine.send("GET", "/nowhere").status == 404
    assert engine.send("PUT", "/").status == 405
    stale = {"x-ms-documentdb-partitionkey": '["p"]', "x-ms-cosmos-intended-collection-rid": "AAAAAA=="}
    reply = engine.send("GET", "/dbs/d/colls/c/docs/a", None, stale)
    assert (reply.status, substatus(reply)) == (400, 1024)


def test_a_minimal_answer_has_no_body(engine: Engine) -> None:
    reply = engine.create(_doc(), prefer="return=minimal")
    assert (reply.status, reply.body) == (201, b"")
    assert reply.headers["etag"]


# -- batches -----------------------------------------------------------------------------------------------


def test_a_batch_is_one_write(engine: Engine) -> None:
    before = int(engine.create(_doc()).headers["lsn"])
    operations = [
        {"operationType": "Create", "resourceBody": _doc("b", n=1)},
        {"operationType": "Replace", "id": "b", "resourceBody": _doc("b", n=2)},
        {
            "operationType": "Patch",
            "id": "b",
            "resourceBody": {"operations": [{"op": "incr", "path": "/n", "value": 1}]},
        },
        {"operationType": "Read", "id": "b"},
        {"operationType": "Delete", "id": "a"},
        {"operationType": "Upsert", "resourceBody": _doc("c")},
    ]
    reply = engine.batch("p", operations)
    results = json.loads(reply.body)
    assert (reply.status, [each["statusCode"] for each in results]) == (200, [201, 200, 200, 200, 204, 201])
    assert results[3]["resourceBody"]["n"] == 3
    assert int(reply.headers["lsn"]) == before + 1
    assert engine.read("a", "p").status == 404


@pytest.mark.parametrize("at", range(3))
def test_a_batch_that_fails_changes_nothing(engine: Engine, at: int) -> None:
    """Replace of one item and delete of a missing one: the first stays as it is."""
    engine.create(_doc(n=1))
    token = engine.read("a", "p").headers["x-ms-session-token"]
    operations = [
        {"operationType": "Replace", "id": "a", "resourceBody": _doc(n=2)},
        {"operationType": "Create", "resourceBody": _doc("b")},
    ]
    operations.insert(at, {"operationType": "Delete", "id": "none"})
    reply = engine.batch("p", operations)
    assert reply.status == 207
    wanted = [424, 424, 424]
    wanted[at] = 404
    assert [each["statusCode"] for each in json.loads(reply.body)] == wanted
    read = engine.read("a", "p")
    assert document(read)["n"] == 1
    assert read.headers["x-ms-session-token"] == token
    assert engine.read("b", "p").status == 404


def test_conditions_of_a_batch(engine: Engine) -> None:
    etag = engine.create(_doc()).headers["etag"]
    good = {"operationType": "Replace", "id": "a", "resourceBody": _doc(n=1), "ifMatch": etag}
    assert engine.batch("p", [good]).status == 200
    results = json.loads(engine.batch("p", [{"operationType": "Create", "resourceBody": _doc("b")}, good]).body)
    assert [each["statusCode"] for each in results] == [424, 412]


def test_limits_of_a_batch(engine: Engine) -> None:
    one = {"operationType": "Upsert", "resourceBody": _doc()}
    assert engine.batch("p", [one] * 100).status == 200
    assert b"more operations than what is supported" in engine.batch("p", [one] * 101).body
    assert b"no operations" in engine.batch("p", []).body
    heavy = {"operationType": "Upsert", "resourceBody": _doc(x="y" * (1024 * 1024))}
    assert engine.batch("p", [heavy, heavy]).status == 413
    wrong = json.loads(
        engine.batch("p", [one, {"operationType": "Create", "resourceBody": _doc("b", "q")}]).body
    )
    assert [each["statusCode"] for each in wrong] == [424, 400]
    for broken in ([1], {"a": 1}, [{"operationType": "Fly"}], [{"operationType": "Read", "id": 1}]):
        assert engine.batch("p", broken).status == 400  # type: ignore[arg-type]


# -- unique keys, time to live, limits ---------------------------------------------------------------------


def test_unique_keys() -> None:
    policy = {"uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/email", "/site"]}]}}
    engine = Engine(container=policy)
    assert engine.create(_doc("a", email="x", site=1)).status == 201
    taken = engine.create(_doc("b", email="x", site=1.0))
    assert (taken.status, substatus(taken)) == (409, 3301)
    assert engine.create(_doc("b", "other", email="x", site=1)).status == 201
    assert engine.create(_doc("b", email="y", site=1)).status == 201
    assert engine.replace(_doc("b", email="x", site=1)).status == 409
    assert engine.replace(_doc("a", email="x", site=1, n=2)).status == 200
    # Nothing at a path is a value, too: there is one of it.
    assert engine.create(_doc("c")).status == 201
    assert engine.create(_doc("d")).status == 409
    swap = [
        {"operationType": "Replace", "id": "a", "resourceBody": _doc("a", email="free")},
        {"operationType": "Replace", "id": "b", "resourceBody": _doc("b", email="x", site=1)},
    ]
    assert engine.batch("p", swap).status == 200
    twice = [{"operationType": "Create", "resourceBody": _doc(name, email="z")} for name in "ef"]
    assert [each["statusCode"] for each in json.loads(engine.batch("p", twice).body)] == [424, 409]
    engine.delete("a", "p")
    assert engine.create(_doc("g", email="free")).status == 201


def test_time_to_live() -> None:
    engine = Engine(container={"defaultTtl": 10})
    engine.create(_doc("default"))
    engine.create(_doc("short", ttl=2))
    engine.create(_doc("for ever", ttl=-1))
    engine.tick(3)
    assert [engine.read(each, "p").status for each in ("default", "short", "for ever")] == [200, 404, 200]
    # Its id is free again at once, and a write begins its time anew.
    assert engine.create(_doc("short")).status == 201
    engine.tick(6)
    engine.replace(_doc("default"))
    engine.tick(6)
    assert [engine.read(each, "p").status for each in ("default", "short", "for ever")] == [200, 404, 200]
    engine.tick(10**6)
    assert engine.read("for ever", "p").status == 200
    assert engine.store.parts[0].count == 1


def test_a_full_logical_partition() -> None:
    engine = Engine(largest_key=10_000)
    status = [engine.create(_doc(str(each), x="y" * 1_000)).status for each in range(12)]
    assert status[:5] == [201] * 5
    full = engine.create(_doc("last", x="y" * 1_000))
    assert (full.status, substatus(full)) == (403, 1014)
    assert engine.create(_doc("last", "other", x="y" * 1_000)).status == 201
    assert engine.delete("0", "p").status == 204
    assert engine.create(_doc("last", x="y" * 500)).status == 201


def test_deleting_a_whole_key(engine: Engine) -> None:
    for name in "abc":
        engine.create(_doc(name))
    engine.create(_doc("a", "other"))
    path = "/dbs/d/colls/c/operations/partitionkeydelete/"
    assert engine.send("POST", path, None, {"x-ms-documentdb-partitionkey": '["p"]'}).status == 200
    assert [engine.read(each, "p").status for each in "abc"] == [404] * 3
    assert engine.read("a", "other").status == 200
