"""Whatever a client sends, the engine answers in the service's form, and with one seed always the same."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from azlatch.lab.cosmos.auth import Authority
from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.wire import Reply, Request
from azlatch.testing.cosmos_engine import Engine, document

DOCS = "/dbs/d/colls/c/docs"
often = settings(
    max_examples=400, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)

#: Text as the server hands it on: never half of a surrogate pair.
text = st.text(st.characters(codec="utf-8"), max_size=30)
numbers = st.one_of(
    st.integers(),
    st.sampled_from(["-1", "0", "1", "10", "1e9", "NaN", "Infinity", "-0", "٣", "1_0", " 7 ", "9" * 5_000]),
    st.floats(),
).map(str)
json_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
#: NaN and Infinity stay as Python writes them, which is no JSON.
as_json = json_values.map(json.dumps)


def _continuation(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


bounds = (
    st.sampled_from(["", "00", "05C1", "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "ff", "FF", "zz", "3F" * 40]) | text
)
places = st.lists(
    st.tuples(bounds, bounds, st.integers() | st.floats() | text, st.integers() | st.floats() | json_values),
    max_size=3,
)
continuations = (
    st.tuples(bounds, places).map(_continuation) | json_values.map(_continuation) | text | st.just("=" * 9)
)
token = st.builds(
    "{}:{}#{}{}".format,
    st.sampled_from(["0", "1", "9", "", "x"]),
    numbers,
    numbers,
    st.lists(st.builds("#{}={}".format, numbers, numbers), max_size=3).map("".join),
)
tokens = st.lists(token | text, max_size=3).map(",".join)
keys = (
    st.sampled_from(['["p"]', '["p","q"]', "[]", "[{}]", "[null]", "[[]]", "[1e999]", '["\\ud800"]', "["])
    | as_json
)

HEADERS: dict[str, Any] = {
    "x-ms-documentdb-partitionkey": keys,
    "x-ms-max-item-count": numbers,
    "x-ms-continuation": continuations,
    "x-ms-session-token": tokens,
    "x-ms-consistency-level": st.sampled_from(["Session", "eventual", "Strong", "", "None"]) | text,
    "if-match": text | st.just("*"),
    "if-none-match": text | numbers | st.builds('"{}:{}"'.format, numbers, numbers) | st.just("*"),
    "if-modified-since": text
    | st.builds(
        "Mon, {} Jan {} 00:00:00 {}".format, numbers, numbers, st.sampled_from(["GMT", "+99999999999"])
    ),
    "x-ms-start-epk": bounds,
    "x-ms-end-epk": bounds,
    "x-ms-documentdb-partitionkeyrangeid": st.sampled_from(["0", "1", "9", "rid,0", ","]) | text,
    "a-im": st.sampled_from(["Incremental Feed", "Incremental feed", "Full-Fidelity Feed"]),
    "x-ms-documentdb-isquery": st.sampled_from(["True", "true", "no"]),
    "x-ms-documentdb-query-enablecrosspartition": st.sampled_from(["True", "False"]),
    "x-ms-cosmos-is-query-plan-request": st.sampled_from(["True", "False"]),
    "x-ms-documentdb-is-upsert": st.sampled_from(["True", "False"]),
    "x-ms-cosmos-is-batch-request": st.sampled_from(["True", "False"]),
    "x-ms-cosmos-batch-atomic": st.sampled_from(["True", "False"]),
    "x-ms-documentdb-populatequerymetrics": st.sampled_from(["True", "x"]),
    "x-ms-cosmos-populateindexmetrics": st.sampled_from(["True", "x"]),
    "x-ms-cosmos-intended-collection-rid": text,
    "x-ms-cosmos-supported-query-features": text,
    "x-ms-offer-throughput": numbers,
    "x-ms-cosmos-offer-autopilot-settings": as_json,
    "x-ms-documentdb-expiry-seconds": numbers,
    "x-ms-activity-id": text,
    "content-type": st.sampled_from(["application/query+json", "application/json"]) | text,
    "prefer": st.sampled_from(["return=minimal"]) | text,
}
headers: Any = st.lists(st.sampled_from(sorted(HEADERS)), max_size=6, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: HEADERS[name] for name in names})
)
segments = st.sampled_from(
    [
        *("dbs", "d", "colls", "c", "docs", "a", "pkranges", "0", "offers", "users", "permissions", "sprocs"),
        *("triggers", "udfs", "conflicts", "operations", "partitionkeydelete", "clientencryptionkeys"),
        *("", "%2F", "%00", "%ED%A0%80", "%", "..", "a%2Fb", "é", "AAAAAA==", "x" * 300),
    ]
)
paths = st.lists(segments, max_size=8).map(lambda parts: "/" + "/".join(parts)) | st.sampled_from(
    [
        DOCS,
        f"{DOCS}/a",
        f"{DOCS}/a/",
        "/",
        "/dbs",
        "/dbs/d/colls",
        "/dbs/d/colls/c",
        "/offers",
        "/dbs/d/colls/c/pkranges",
    ]
)
methods = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "QUERY", "", "get"])
operation = st.fixed_dictionaries(
    {},
    optional={
        "operationType": st.sampled_from(["Create", "Upsert", "Read", "Replace", "Patch", "Delete", "Nothing"]),
        "id": st.sampled_from(["a", "b"]) | json_values,
        "resourceBody": st.builds(
            lambda more: {"id": "b", "pk": "p", **more}, st.dictionaries(text, json_values)
        )
        | json_values,
        "ifMatch": json_values,
        "ifNoneMatch": json_values,
    },
)
step = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "set", "replace", "remove", "incr", "move", "x"])},
    optional={
        "path": st.sampled_from(["/n", "/n/0", "/n/-", "/", "/id", "/pk", "/~", "/n/x/y"]) | json_values,
        "from": st.sampled_from(["/n", "/m"]) | json_values,
        "value": json_values,
    },
)
queries = st.sampled_from(
    [
        "SELECT * FROM c",
        "SELECT TOP 1 * FROM c ORDER BY c.n",
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT * FROM c WHERE c.pk = 'p'",
        "SELECT * FROM c WHERE c.pk IN (@a, 1e400, {})",
        "SELECT * FROM c OFFSET 1 LIMIT @a",
    ]
)
bodies = (
    as_json.map(str.encode)
    | st.lists(operation, max_size=4).map(lambda value: json.dumps(value).encode())
    | st.builds(lambda steps: json.dumps({"operations": steps}).encode(), st.lists(step, max_size=3))
    | st.builds(
        lambda query, value: json.dumps(
            {"query": query, "parameters": [{"name": "@a", "value": value}]}
        ).encode(),
        queries | text,
        json_values,
    )
    | st.dictionaries(text, json_values).map(lambda more: json.dumps({"id": "b", "pk": "p", **more}).encode())
    | st.binary(max_size=40)
    | st.sampled_from(
        [b"", b'{"id":"a","pk":"p","n":1e999}', b'"\\ud800"', b"\xff\xfe", b'{"id":' + b"9" * 5_000 + b"}"]
    )
)


def _check(reply: Reply) -> None:
    assert 200 <= reply.status < 500
    assert all(isinstance(each, str) for each in reply.headers.values())
    assert int(reply.headers.get("x-ms-substatus", "0")) >= 0
    assert float(reply.headers.get("x-ms-request-charge", "0")) >= 0
    assert b"Traceback" not in reply.body
    if reply.status >= 400:
        assert set(json.loads(reply.body)) == {"code", "message"}
    elif reply.body:
        json.loads(reply.body)


@pytest.fixture(scope="module")
def engine() -> Engine:
    engine = Engine(regions=("A", "B"), throughput=12_000)
    for number in range(12):
        engine.create({"id": "a", "pk": "p" if number == 0 else f"k{number}", "n": [number, None]})
    return engine


@often
@given(method=methods, path=paths, headers=headers, body=bodies)
def test_any_request_has_an_answer(
    engine: Engine, method: str, path: str, headers: dict[str, str], body: bytes
) -> None:
    reply = engine.account.handle(Request(method, path, headers, body, "A"), engine.now)
    _check(reply)
    if "c" not in [each.name for each in engine.account.resources.database("d").containers]:
        engine.ok(
            "POST",
            "/dbs/d/colls",
            {"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}},
        )


@often
@given(
    shape=st.sampled_from(
        ["create", "batch", "patch", "query", "plan", "changes", "list", "read", "delete-key"]
    ),
    headers=headers,
    body=bodies,
)
def test_any_request_for_items_has_an_answer(
    engine: Engine, shape: str, headers: dict[str, str], body: bytes
) -> None:
    """The same with a path and a method that lead to items, so that what else is sent is looked at."""
    method, path, needed = {
        "create": ("POST", DOCS, {}),
        "batch": (
            "POST",
            DOCS,
            {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True"},
        ),
        "patch": ("PATCH", f"{DOCS}/a", {}),
        "query": ("POST", DOCS, {"x-ms-documentdb-isquery": "True"}),
        "plan": ("POST", DOCS, {"x-ms-cosmos-is-query-plan-request": "True"}),
        "changes": ("GET", DOCS, {"a-im": "Incremental Feed"}),
        "list": ("GET", DOCS, {}),
        "read": ("GET", f"{DOCS}/a", {}),
        "delete-key": ("POST", "/dbs/d/colls/c/operations/partitionkeydelete", {}),
    }[shape]
    given_headers = {"x-ms-documentdb-partitionkey": '["p"]', **headers, **needed}
    _check(engine.account.handle(Request(method, path, given_headers, body, "A"), engine.now))


signatures = text | st.sampled_from(["a.b.c", "e30.W10.x", "é", "AAAA"])
authorizations = (
    st.builds(
        "type={}&ver={}&sig={}".format,
        st.sampled_from(["master", "resource", "aad", "x"]),
        st.sampled_from(["1.0", "2.0", ""]),
        signatures,
    )
    | text
)
dates = text | st.sampled_from(["Mon, 01 Jan 2024 00:00:00 GMT", "Mon, 01 Jan 99999 00:00:00 gmt", "x gmt"])


@often
@given(
    method=methods, path=paths, authorization=authorizations.map(quote) | text, date=dates, aad=st.booleans()
)
@example("GET", "/dbs/operations/x", "type=master&ver=1.0&sig=x", "", False)
def test_nobody_comes_in_and_all_are_answered(
    method: str, path: str, authorization: str, date: str, aad: bool
) -> None:
    given_headers = {"authorization": authorization, "x-ms-date": date}
    with pytest.raises(ServiceError) as refused:
        Authority(aad=aad).check(Request(method, path, given_headers), 1_700_000_000.0)
    assert refused.value.status in (400, 401, 403, 404, 405)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'[{"operationType":"Create","resourceBody":', b"}]"),
        (b'{"operations":[{"op":"set","path":"/x","value":', b"}]}"),
        (b'{"id":"deep","pk":"p","x":', b"}"),
        (b'{"query":"SELECT * FROM c","parameters":[{"name":"@a","value":', b"}]}"),
        (b'{"query":"SELECT * FROM c WHERE c.pk = ', b'"}'),
    ],
)
def test_no_nesting_is_too_deep_for_an_answer(engine: Engine, before: bytes, after: bytes) -> None:
    """At each depth around the one at which the interpreter gives up."""
    shapes = [
        ("POST", DOCS, {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True"}),
        ("PATCH", f"{DOCS}/a", {}),
        ("POST", DOCS, {"x-ms-documentdb-is-upsert": "True"}),
        ("POST", DOCS, {"x-ms-documentdb-isquery": "True"}),
        ("PUT", "/dbs/d/colls/c", {}),
    ]
    for depth in [1, 126, 127, 128, 129, *range(700, 1_010, 3), 5_000]:
        body = before + b"[" * depth + b"]" * depth + after
        for method, path, given_headers in shapes:
            everything = {"x-ms-documentdb-partitionkey": '["p"]', **given_headers}
            _check(engine.account.handle(Request(method, path, everything, body, "A"), engine.now))


def test_a_forged_continuation_skips_within_bounds() -> None:
    engine = Engine()
    engine.create({"id": "a", "pk": "p"})
    for skip in (2**70, -1, 2**53):
        for query in ("SELECT * FROM c", "SELECT * FROM c ORDER BY c.id"):
            given_continuation = _continuation(["", [["", "FF", 0, skip]]])
            reply = engine.query(query, "p", x_ms_continuation=given_continuation)
            assert reply.status == (200 if skip == 2**53 else 400)


@pytest.mark.parametrize(
    "date", ["Mon, 01 Jan 2020 00:00:00 +99999999999999", "Mon, 99 Jan 2020 00:00:00 GMT", "x", "9" * 400]
)
def test_dates_that_are_none(engine: Engine, date: str) -> None:
    reply = engine.send("GET", DOCS, None, {"a-im": "Incremental Feed", "if-modified-since": date}, "A")
    assert reply.status == 400


def test_a_batch_does_not_answer_without_limit() -> None:
    """Each read of it is within all limits; nothing of it is done, not even what comes before."""
    engine = Engine()
    engine.create({"id": "a", "pk": "p", "text": "x" * 1_500_000})
    reads = [{"operationType": "Read", "id": "a"}] * 99
    reply = engine.batch("p", [{"operationType": "Create", "resourceBody": {"id": "b", "pk": "p"}}, *reads])
    results = document(reply)
    assert reply.status == 207
    assert (results[3]["statusCode"], results[3]["subStatusCode"]) == (413, 3402)  # type: ignore[index]
    assert engine.read("b", "p").status == 404


def test_a_page_of_changes_has_a_limit_in_bytes() -> None:
    engine = Engine()
    for number in range(8):
        engine.create({"id": str(number), "pk": "p", "text": "x" * 1_000_000})
    found: list[str] = []
    mark = ""
    for _ in range(8):
        reply = engine.send(
            "GET",
            DOCS,
            None,
            {
                "a-im": "Incremental Feed",
                "if-none-match": mark,
                "x-ms-documentdb-partitionkeyrangeid": "0",
                "x-ms-max-item-count": "1000",
            },
        )
        mark = reply.headers["etag"]
        if reply.status == 304:
            break
        assert len(reply.body) < 6 * 2**20
        found += [each["id"] for each in document(reply)["Documents"]]
    assert found == [str(each) for each in range(8)]


def test_the_ledger_forgets_what_is_too_much() -> None:
    """Keys of 60 KB that nobody can have are not remembered 50,000 times."""
    engine = Engine()
    for _ in range(700):
        engine.read("a", "x" * 60_000)
    rows = engine.account.ledger.rows()
    assert 500 < len(rows) < 600
    assert rows[-1].number == 702


_SCRIPT = """
import json, sys
from random import Random
from azlatch.testing.cosmos_engine import Engine
random = Random(7)
engine = Engine(regions=("A", "B"), consistency="Eventual", seed=3, throttling=True,
                container={"uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/u"]}]}})
engine.admin.lag("A", "B", 1)
engine.admin.lag("A", "A", 2)
engine.admin.add_rule("status=449 op=any-write p=0.2")
engine.admin.add_rule("delay=0.1 op=any-read every=3")
replies = []
for number in range(600):
    name, pk = random.choice("abcdef"), random.choice("pqrs")
    act = random.randrange(6)
    region = random.choice("AB")
    if act < 2:
        reply = engine.upsert({"id": name, "pk": pk, "u": {"x": name}, "n": number}, "A")
    elif act == 2:
        reply = engine.query("SELECT * FROM c WHERE c.pk IN ('p', 'q', 'r') AND c.id IN ('a', 'b', 'c')",
                             x_ms_documentdb_query_enablecrosspartition="True", x_ms_max_item_count="2")
    elif act == 3:
        reply = engine.send("GET", "/dbs/d/colls/c/docs", None,
                            {"a-im": "Incremental Feed", "if-none-match": str(number // 9)}, region)
    else:
        reply = engine.read(name, pk, region)
    replies.append((reply.status, sorted(reply.headers.items()), reply.body.decode(), reply.delay, reply.fate))
    engine.tick(random.random() / 4)
    if number == 300:
        engine.admin.split("d/c", "0")
print(json.dumps([replies, engine.admin.ledger(), engine.account.dump().decode(), engine.admin.state()]))
"""


def test_the_same_seed_and_requests_give_the_same_bytes() -> None:
    """In processes in which hashes, and so the order of sets, are different."""
    told = [
        subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    replies = json.loads(told[0])[0]
    assert {200, 201, 304, 404, 449} <= {each[0] for each in replies}
