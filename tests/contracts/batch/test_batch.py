"""What a batch does: all or nothing, the cause by name, the session that knows of it, and how often it asks."""

from __future__ import annotations

import contextlib
import datetime
import subprocess
import sys
import types
from typing import Any

import pytest
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient
from azure.cosmos.exceptions import CosmosBatchOperationError

from azlatch import contracts
from azlatch.contracts import BatchFailed, BatchNotTaken, BatchOutcomeUnknown
from azlatch.errors import FenceRejected, LatchError
from azlatch.lab.cosmos import CosmosLab


def _item(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "fund": "f", **more}


def test_a_batch_is_applied_as_a_whole(family: Any) -> None:
    """Each operation has its result, with status, item, etag and charge; the whole has its own."""
    old = family.truth.create_item(_item("old", n=1))
    family.truth.create_item(_item("gone"))
    family.truth.create_item(_item("counted", n=1, state="open"))
    batch = family.batch().create(_item("new")).replace("old", _item("old", n=2), etag=old["_etag"])
    batch.upsert(_item("up")).patch("counted", [{"op": "incr", "path": "/n", "value": 4}],
                                    condition="from c where c.state = 'open'")  # fmt: skip
    batch.delete("gone").read("new")
    result = family.execute(batch)
    assert [each.status for each in result] == [201, 200, 201, 200, 204, 200]
    assert [each.operation for each in result] == ["create", "replace", "upsert", "patch", "delete", "read"]
    assert [each.item_id for each in result] == ["new", "old", "up", "counted", "gone", "new"]
    assert result[3].item is not None
    assert result[3].item["n"] == 5
    assert result[1].etag == family.truth.read_item("old", "f")["_etag"]
    assert result[4].item is None
    assert all(each.charge > 0 for each in result)
    assert result.request_charge == pytest.approx(sum(each.charge for each in result), rel=0.05)
    assert result.outcome == "applied"
    assert family.ids() == {"new", "old", "up", "counted"}


def test_it_costs_one_call(family: Any) -> None:
    """The container is read once for a client object; from then on a batch is one request."""
    since = family.mark()
    family.execute(family.batch().create(_item("a")))
    assert family.calls(since).count("docs/batch") == 1
    since = family.mark()
    family.execute(family.batch().create(_item("b")))
    assert family.calls(since) == ["docs/batch"]


def test_c2_17_the_cause_is_named_not_what_followed_from_it(family: Any) -> None:
    """Row 17: create, stale replace, delete is 424, 412, 424; the error names the replace and what to do."""
    stale = family.truth.create_item(_item("fund-1", n=1))
    family.truth.replace_item("fund-1", _item("fund-1", n=2))
    family.truth.create_item(_item("there"))
    batch = family.batch().create(_item("new"))
    batch.replace("fund-1", _item("fund-1", n=3), etag=stale["_etag"]).delete("there")
    since = family.mark()
    with pytest.raises(BatchFailed) as caught:
        family.execute(batch)
    error = caught.value
    root = error.root
    assert (root.index, root.operation, root.item_id) == (1, "replace", "fund-1")
    assert (root.status, root.substatus, root.kind) == (412, None, "stale_version")
    assert [(each.index, each.status, each.kind) for each in error.dependents] == [
        (0, 424, "failed_dependency"),
        (2, 424, "failed_dependency"),
    ]
    assert "operation 2 of 3 (replace 'fund-1')" in str(error)
    assert "412 stale_version" in str(error)
    assert "read it again" in str(error)
    assert "424" not in str(error)
    assert isinstance(error, LatchError)
    assert (error.code, error.who) == ("batch-failed", "caller")
    assert isinstance(error.__cause__, CosmosBatchOperationError)
    assert family.calls(since)[-1:] == ["docs/batch"]
    assert family.ids() == {"fund-1", "there"}
    assert family.truth.read_item("fund-1", "f")["n"] == 2


def _answer(family: Any, results: Any, headers: dict[str, str] | None = None, hooked: bool = False) -> Any:
    """A container whose service answers a batch so; the reply is made by hand, as no lab makes it."""

    class Listed(list[Any]):
        def get_response_headers(self) -> dict[str, str]:
            return headers or {}

    class Container:
        calls = 0
        container_link = "dbs/d/colls/c"

        def read(self, **_options: Any) -> dict[str, Any]:
            return {"partitionKey": {"paths": ["/fund"], "kind": "Hash"}, "_self": "dbs/a/colls/b/"}

        def execute_item_batch(self, _operations: Any, _key: Any, **options: Any) -> Any:
            Container.calls += 1
            if hooked:
                http = types.SimpleNamespace(headers={"x-ms-cosmos-is-batch-request": "True"})
                options["raw_request_hook"](types.SimpleNamespace(http_request=http))
            if isinstance(results, BaseException):
                raise results
            return Listed(results)

    class AsyncContainer(Container):
        async def read(self, **_options: Any) -> dict[str, Any]:  # type: ignore[override]
            return Container.read(self)

        async def execute_item_batch(self, operations: Any, key: Any, **options: Any) -> Any:
            return Container.execute_item_batch(self, operations, key, **options)

    return Container() if family.name == "sync" else AsyncContainer()


def test_the_read_of_the_container_is_part_of_the_deadline(family: Any) -> None:
    """It has what is left of the time, at least half a second, and nothing below it tries again by itself."""
    container = _answer(family, [{"statusCode": 201}], hooked=True)
    given: list[dict[str, Any]] = []
    read = container.read
    container.read = lambda **options: given.append(options) or read(**options)
    family.execute(family.batch(container=container).create(_item("a")), deadline=7.0)
    family.execute(family.batch(container=container).create(_item("a")), deadline=0)
    other = _answer(family, [{"statusCode": 201}], hooked=True)
    other.read = container.read
    family.execute(family.batch(container=other).create(_item("a")), deadline=0)
    assert [(each["timeout"], each["read_timeout"]) for each in given] == [(7.0, 7.0), (0.5, 0.5)]
    assert all(each["retry_connect"] == each["retry_read"] == 0 for each in given)


def test_a_lock_of_a_management_operation_is_no_older_fence(family: Any) -> None:
    """A 412 of a split is waited out: nobody is told that another holder came after."""
    locked = {"statusCode": 412, "subStatusCode": 2012}
    container = _answer(family, [locked, {"statusCode": 424}], hooked=True)
    with pytest.raises(BatchNotTaken, match="412/2012 busy: a management operation") as caught:
        family.execute(family.batch(container=container).create(_item("a")).guard(7), deadline=0.2)
    assert (caught.value.root.operation, container.calls > 1) == ("guard", True)


@pytest.mark.parametrize("results", [[], [{"statusCode": 201}], [{"statusCode": 201}] * 3, [{}, {}], ["x", 1]])
def test_c2_19_results_that_do_not_match_are_an_unknown_outcome(family: Any, results: Any) -> None:
    """Row 19: an answer with other than one result for each operation proves nothing."""
    batch = family.batch(container=_answer(family, results)).create(_item("a")).delete("b")
    with pytest.raises(BatchOutcomeUnknown, match="not known") as caught:
        family.execute(batch)
    assert caught.value.items == (("create", "a"), ("delete", "b"))
    assert "create 'a', delete 'b'" in str(caught.value)
    assert (caught.value.code, caught.value.who) == ("batch-outcome-unknown", "operator")
    with pytest.raises(ValueError, match="may have been applied"):
        family.execute(batch)


@pytest.mark.parametrize("fault", ["drop-reply", "truncate", "reset-reply"])
def test_c2_19_an_answer_that_does_not_arrive_is_unknown_and_once_resolves_it(family: Any, fault: str) -> None:
    """Row 19: with an operation id the batch is sent again and found to be applied; it is applied once."""
    family.rule(f"{fault} op=batch times=1")
    family.truth.create_item(_item("n", n=0))
    with pytest.raises(BatchOutcomeUnknown):
        family.execute(family.batch().patch("n", [{"op": "incr", "path": "/n", "value": 1}]))
    assert family.truth.read_item("n", "f")["n"] == 1
    family.rule(f"{fault} op=batch times=1")
    since = family.mark()
    result = family.execute(family.batch().patch("n", [{"op": "incr", "path": "/n", "value": 1}]).once("one"))
    assert (result.outcome, result[0].status, result.diagnostics.unknowns) == ("applied", None, 1)
    assert family.calls(since) == ["docs/batch", "docs/batch", "docs/read"]
    assert family.truth.read_item("n", "f")["n"] == 2


def test_c2_20_a_failed_batch_is_handled_as_the_page_shows(family: Any) -> None:
    """Row 20: the error has what a handler needs, so nothing is executed by itself to learn why."""
    family.truth.create_item(_item("a"))
    with pytest.raises(BatchFailed) as caught:
        family.execute(family.batch().create(_item("b")).create(_item("a")))
    assert caught.value.root.kind == "already_exists"
    assert caught.value.request_charge > 0
    assert caught.value.session_token
    assert family.ids() == {"a"}


def test_c2_21_a_list_of_items_is_no_operation(family: Any) -> None:
    """Row 21: several items at once are refused before anything is sent; one call for each is the way."""
    for verb in ("create", "upsert"):
        with pytest.raises(ValueError, match="2 items at once"):
            getattr(family.batch(), verb)([_item("a"), _item("b")])
    result = family.execute(family.batch().upsert(_item("a")).upsert(_item("b")))
    assert [each.status for each in result] == [201, 201]


@pytest.mark.timeout(15)
def test_c2_23_a_throttled_batch_says_so_and_when_to_come_back(family: Any) -> None:
    """Row 23: 429 is told as throttling with its wait, for the batch, not as an element with a strange code."""
    family.rule("status=429/3200 op=batch retry-after-ms=25000")
    since = family.mark()
    with pytest.raises(BatchNotTaken, match="retry after 25000 ms") as caught:
        family.execute(family.batch().create(_item("a")), deadline=1)
    error = caught.value
    assert (error.root.kind, error.root.status, error.root.substatus) == ("throttled", 429, 3200)
    assert (error.retry_after_s, error.diagnostics.throttles) == (25.0, 1)
    assert (error.code, error.who) == ("batch-not-taken", "service")
    assert family.calls(since).count("docs/batch") == 1
    assert family.ids() == set()


def test_c2_23_a_throttled_batch_is_sent_again_within_the_deadline(family: Any) -> None:
    """Row 23: more answers 429 than the SDK itself outlasts are waited for, and counted."""
    family.rule("status=429/3200 op=batch retry-after-ms=2 times=12")
    result = family.execute(family.batch().create(_item("a")))
    assert (result.diagnostics.throttles, result.diagnostics.sends) == (12, 13)
    assert family.ids() == {"a"}


def test_c2_24_what_a_refused_batch_touched_is_as_it_was(family: Any) -> None:
    """Row 24: replace and then a delete of what is missing leaves the replaced item unchanged."""
    family.truth.create_item(_item("1", n=1))
    with pytest.raises(BatchFailed) as caught:
        family.execute(family.batch().replace("1", _item("1", n=2)).delete("missing"))
    assert (caught.value.root.index, caught.value.root.kind) == (1, "absent")
    assert family.truth.read_item("1", "f")["n"] == 1


def test_c2_25_what_is_inside_decides_about_a_repeat(family: Any) -> None:
    """Row 25: an inner 429 under a 207 is sent again; an inner 409 is not, whatever the outer status."""
    busy = _answer(
        family, [{"statusCode": 424}, {"statusCode": 429, "retryAfterMilliseconds": 20}], hooked=True
    )
    with pytest.raises(BatchNotTaken, match=r"operation 2 of 2 .delete 'b'. .*retry after 20 ms") as caught:
        family.execute(family.batch(container=busy).create(_item("a")).delete("b"), deadline=0.2)
    assert busy.calls == caught.value.diagnostics.throttles > 1
    from azlatch.contracts.batch_answer import Answer, NotTaken, Refused, Unknown, judge

    names = [(0, "create", "a"), (1, "delete", "b")]
    inner = judge(Answer(207, results=[{"statusCode": 424}, {"statusCode": 429}]), names)
    assert isinstance(inner, NotTaken)
    assert inner.root.index == 1
    assert isinstance(judge(Answer(202, results=[{"statusCode": 409}, {"statusCode": 424}]), names), Refused)
    several = judge(Answer(207, results=[{"statusCode": 412}, {"statusCode": 404}]), names)
    assert isinstance(several, Refused)
    assert (several.root.index, several.root.status) == (0, 412)
    nobody = judge(Answer(207, results=[{"statusCode": 424}, {"statusCode": 424}]), names)
    assert isinstance(nobody, Unknown)
    family.truth.create_item(_item("a"))
    since = family.mark()
    with pytest.raises(BatchFailed):
        family.execute(family.batch().create(_item("a")).delete("b"))
    assert family.calls(since).count("docs/batch") == 1


@pytest.mark.parametrize("way", ["if-match", "count", "size", "key"])
def test_c2_26_limits_and_conditions_hold(family: Any, way: str) -> None:
    """Row 26: If-Match is honoured in a batch; 100 operations, 2 MB and one key are limits, told beforehand."""
    batch = family.batch()
    if way == "if-match":
        stale = family.truth.create_item(_item("a"))
        family.truth.upsert_item(_item("a"))
        with pytest.raises(BatchFailed) as caught:
            family.execute(batch.delete("a", etag=stale["_etag"]))
        assert caught.value.root.kind == "stale_version"
        assert family.ids() == {"a"}
        return
    since = family.mark()
    if way == "count":
        for number in range(100):
            batch.create(_item(str(number)))
        with pytest.raises(ValueError, match="101 operations; the service takes 100"):
            batch.create(_item("100"))
        with pytest.raises(ValueError, match="1 of them for guard and once"):
            family.execute(batch.guard(1))
    elif way == "size":
        batch.create(_item("a", text="x" * 1_100_000)).create(_item("b", text="é" * 200_000))
        with pytest.raises(ValueError, match="2,300,"):  # as the SDK escapes it, six bytes for each é
            family.execute(batch)
    else:
        batch.create(_item("a")).create({"id": "b", "fund": "g"})
        with pytest.raises(
            ValueError, match="operation 2 \\(create 'b'\\) has 'g' at /fund, and the batch is for 'f'"
        ):
            family.execute(batch)
    assert "docs/batch" not in family.calls(since)


def test_c2_27_bulk_is_not_a_batch(family: Any) -> None:
    """Row 27: of single writes in a row, one that fails leaves the others; the same as a batch leaves none."""
    family.truth.create_item(_item("taken"))
    failed = 0
    for name in ("a", "taken", "b"):
        try:
            family.run(family.container.create_item(_item(name)))
        except Exception as error:
            failed += 1
            assert getattr(error, "status_code", 0) == 409
    assert failed == 1
    assert family.ids() == {"a", "taken", "b"}
    with pytest.raises(BatchFailed):
        family.execute(family.batch().create(_item("c")).create(_item("taken")).create(_item("d")))
    assert family.ids() == {"a", "taken", "b"}


def test_two_batches_for_two_keys_are_not_atomic_together(family: Any) -> None:
    """What is divided over two keys is two promises: the first stays when the second is refused."""
    family.truth.create_item({"id": "there", "fund": "g"})
    family.execute(family.batch("f").create(_item("here")))
    with pytest.raises(BatchFailed):
        family.execute(family.batch("g").create({"id": "there", "fund": "g"}))
    assert family.ids() == {"here"}


@pytest.mark.parametrize("fault", ["drop-reply", "reset-reply", "status=503", "status=408", "drop-request"])
def test_the_sdk_does_not_send_again_what_may_be_applied(family: Any, fault: str) -> None:
    """One send, and an unknown outcome; never a 409 that is our own first write."""
    family.rule(f"{fault} op=batch times=1")
    since = family.mark()
    with pytest.raises(BatchOutcomeUnknown):
        family.execute(family.batch().create(_item("a")))
    assert family.calls(since).count("docs/batch") == 1
    assert family.ids() == ({"a"} if "reply" in fault else set())


@pytest.mark.parametrize("fault", ["449", "403/3", "404/1002", "410/1002", "429/3214"])
def test_what_was_not_processed_is_sent_again(family: Any, fault: str) -> None:
    """A refusal for a while is no failure: the batch is sent again as a whole, and applied once."""
    family.rule(f"status={fault} op=batch times=2 retry-after-ms=1")
    result = family.execute(family.batch().create(_item("a")))
    assert (result.outcome, result.diagnostics.sends, result.diagnostics.unknowns) == ("applied", 3, 0)
    assert family.ids() == {"a"}


@pytest.mark.parametrize("fault", ["449", "403/3", "404/1002"])
def test_what_stays_refused_ends_at_the_deadline(family: Any, fault: str) -> None:
    """Nothing waits without a bound, not the SDK's 120 tries either."""
    family.rule(f"status={fault} op=batch")
    with pytest.raises(BatchNotTaken) as caught:
        family.execute(family.batch().create(_item("a")), deadline=0.3)
    assert caught.value.root.kind in ("concurrent_write", "wrong_region", "behind_session")


def test_a_batch_of_reads_is_sent_again_whatever_happened(family: Any) -> None:
    """Reads have no outcome to be unsure of."""
    family.truth.create_item(_item("a"))
    family.rule("drop-reply op=batch times=2")
    result = family.execute(family.batch().read("a"))
    assert (result[0].status, result.diagnostics.sends) == (200, 3)


def test_the_next_read_of_the_client_knows_of_the_batch(family: Any) -> None:
    """The token is handed on: by the client's own session, and to anyone by `session_token`."""
    family.execute(family.batch().create(_item("first")))
    result = family.execute(family.batch().create(_item("second")))
    sent: list[str] = []

    def look(request: Any) -> None:
        sent.append(str(request.http_request.headers.get("x-ms-session-token")))

    family.run(family.container.read_item("second", "f", raw_request_hook=look))
    assert result.session_token
    assert result.diagnostics.session_handed_on
    assert sent[-1] == result.session_token


def test_the_sdk_alone_does_not_hand_the_token_on(family: Any) -> None:
    """What makes the hand-over necessary; when this fails, the SDK does it itself."""
    family.run(family.container.create_item(_item("first")))
    done = family.run(family.container.execute_item_batch([("create", (_item("second"),))], "f"))
    sent: list[str] = []

    def look(request: Any) -> None:
        sent.append(str(request.http_request.headers.get("x-ms-session-token")))

    family.run(family.container.read_item("second", "f", raw_request_hook=look))
    assert sent[-1] != done.get_response_headers()["x-ms-session-token"]


def test_a_refused_batch_hands_its_token_on_too(family: Any) -> None:
    """Who reads again after a 412 has to see what the batch was refused for."""
    stale = family.truth.create_item(_item("a", n=1))
    family.truth.replace_item("a", _item("a", n=2))
    with pytest.raises(BatchFailed) as caught:
        family.execute(family.batch().replace("a", _item("a", n=3), etag=stale["_etag"]))
    sent: list[str] = []

    def look(request: Any) -> None:
        sent.append(str(request.http_request.headers.get("x-ms-session-token")))

    family.run(family.container.read_item("a", "f", raw_request_hook=look))
    assert sent[-1] == caught.value.session_token


def test_a_session_that_cannot_be_told_is_no_failure(family: Any) -> None:
    """Where the SDK's inner function is missing, or raises, the token is there for explicit use alone."""
    container = _answer(family, [{"statusCode": 201}], {"x-ms-session-token": "0:1#7"})
    result = family.execute(family.batch(container=container).create(_item("a")))
    assert (result.session_token, result.diagnostics.session_handed_on) == ("0:1#7", False)

    class Session:
        def update_session(self, *_arguments: Any) -> None:
            raise KeyError("version")

    container.client_connection = type("Connection", (), {"session": Session()})()
    result = family.execute(family.batch(container=container).create(_item("a")))
    assert (result.session_token, result.diagnostics.session_handed_on) == ("0:1#7", False)


def test_without_the_hooks_a_failure_is_not_certain(family: Any) -> None:
    """Where nobody counts the sends, a refusal may be that of our own second send."""
    error = CosmosBatchOperationError(0, {}, 409, "no", [{"statusCode": 409}, {"statusCode": 424}])
    batch = family.batch(container=_answer(family, error)).create(_item("a")).delete("b")
    with pytest.raises(BatchOutcomeUnknown, match="may have sent it before"):
        family.execute(batch)


def test_an_applied_batch_is_not_executed_again(family: Any) -> None:
    """A second execute of what was applied would be another batch."""
    batch = family.batch().create(_item("a"))
    family.execute(batch)
    with pytest.raises(ValueError, match="was applied: build another"):
        family.execute(batch)


def test_a_missing_container_is_told_before_anything_is_sent(family: Any) -> None:
    """The container is looked at first; that it is not there is no unknown outcome."""
    database = family.container.client_connection
    missing = type(family.container)(database, "dbs/d", "missing")
    with pytest.raises(BatchFailed, match="Nothing was sent") as caught:
        family.execute(family.batch(container=missing).create(_item("a")))
    assert caught.value.root.status == 404


def test_a_client_that_repeats_writes_is_stopped_too(family: Any, batch_lab: Any) -> None:
    """Also where the client was made with `retry_write`: a batch that may be applied goes out once."""
    batch_lab.add_rule("status=408 op=batch times=1")
    since = family.mark()
    if family.name == "sync":
        with CosmosClient(batch_lab.endpoint, batch_lab.key, retry_write=3) as client:
            container = client.get_database_client("d").get_container_client(family.container.id)
            with pytest.raises(BatchOutcomeUnknown):
                family.batch(container=container).create(_item("a")).execute()
    else:

        async def work() -> None:
            async with AsyncCosmosClient(batch_lab.endpoint, batch_lab.key, retry_write=3) as client:
                container = client.get_database_client("d").get_container_client(family.container.id)
                with pytest.raises(BatchOutcomeUnknown):
                    await family.batch(container=container).create(_item("a")).execute()

        family.run(work())
    assert family.calls(since).count("docs/batch") == 1


def test_a_service_that_is_gone_is_no_unknown_outcome(family: Any) -> None:
    """Where no connection can be made nothing was sent, and it is said so."""
    with CosmosLab() as lab:
        with CosmosClient(lab.endpoint, lab.key) as maker:
            maker.create_database("d").create_container("c", PartitionKey("/fund"))
        if family.name == "sync":
            client: Any = CosmosClient(lab.endpoint, lab.key)
        else:

            async def start() -> Any:
                return await AsyncCosmosClient(lab.endpoint, lab.key).__aenter__()

            client = family.run(start())
        container = client.get_database_client("d").get_container_client("c")
        family.execute(family.batch(container=container).create(_item("a")))
    with contextlib.suppress(BatchOutcomeUnknown, BatchNotTaken):  # the connection that was open
        family.execute(family.batch(container=container).create(_item("b")), deadline=0.1)
    with pytest.raises(BatchNotTaken) as caught:
        family.execute(family.batch(container=container).create(_item("b")), deadline=0.1)
    assert caught.value.root.kind == "unreachable"
    family.run(client.close())


def test_an_interrupted_batch_is_not_executed_again(family: Any) -> None:
    """Where this call was ended from outside, nobody knows; with an operation id it may go on."""

    class Interrupt(BaseException):
        pass

    container = _answer(family, Interrupt())
    batch = family.batch(container=container).create(_item("a"))
    with pytest.raises(Interrupt):
        family.execute(batch)
    with pytest.raises(ValueError, match="may have been applied"):
        family.execute(batch)
    batch = family.batch(container=container).create(_item("a")).once("one", ttl_s=None)
    for _ in range(2):
        with pytest.raises(Interrupt):
            family.execute(batch)


def test_what_the_sdk_drops_without_a_word(family: Any) -> None:
    """What circulating code gives in a batch's tuples, and the SDK does not send: here it is an error."""
    stale = family.truth.create_item(_item("a", n=1))
    family.truth.upsert_item(_item("a", n=2))
    options = {"filter_predicate": "from c where c.n = 1"}
    family.run(family.container.execute_item_batch([("upsert", (_item("a", n=3),), dict(options))], "f"))
    family.run(family.container.execute_item_batch([("delete", ("a",), {"if_match_etag": None})], "f"))
    assert family.ids() == set()
    creates = [("upsert", (_item("b"),), {"if_match_etag": stale["_etag"]})]
    family.run(family.container.execute_item_batch(creates, "f"))
    assert family.ids() == {"b"}
    with pytest.raises(TypeError):
        family.batch().upsert(_item("a"), condition="from c where c.n = 1")


def test_what_is_no_json_is_refused_by_its_path(family: Any) -> None:
    """NaN, bytes and dates are named where they are; so are keys that are no texts."""
    bad: list[tuple[Any, str]] = [
        (float("nan"), "nan at /deep/0/x"),
        (b"x", "a bytes at /deep/0/x"),
        (datetime.date(2026, 1, 1), "a date at /deep/0/x"),
        ({1: 2}, "the key 1 at /deep/0/x"),
        ({1}, "a set at /deep/0/x"),
    ]
    for value, words in bad:
        with pytest.raises(ValueError, match=words):
            family.batch().create(_item("a", deep=[{"x": value}]))


def test_what_the_service_would_refuse_is_refused_here(family: Any) -> None:
    """Each with the reason; nothing is sent."""
    batch = family.batch()
    for name, words in (
        ("", "no id"),
        (None, "no id"),
        (7, "an id is a str"),
        ("a/b", "contains /"),
        ("a?#", "contains"),
    ):
        with pytest.raises(ValueError, match=words):
            batch.delete(name)
    for call, words in (
        (lambda: batch.create({"fund": "f"}), "no id"),
        (lambda: batch.delete("x" * 1024), "1,024 bytes"),
        (lambda: batch.replace("a", _item("b")), "renames nothing"),
        (lambda: batch.replace("a", _item("a"), etag=None), "etag=None, which guards nothing"),
        (lambda: batch.delete("a", etag="*"), "guards nothing"),
        (lambda: batch.patch("a", [{"op": "remove", "path": "/n"}], condition=None), "condition=None"),
        (lambda: batch.patch("a", []), "0 steps"),
        (lambda: batch.patch("a", [{"op": "bump", "path": "/n"}]), "op='bump'"),
        (lambda: batch.patch("a", [{"op": "set", "path": "n", "value": 1}]), "begins with /"),
        (lambda: batch.patch("a", [{"op": "set", "path": "/id", "value": 1}]), "changes /id"),
        (lambda: family.execute(batch), "the batch is empty"),
        (lambda: family.execute(family.batch().patch("a", [{"op": "set", "path": "/fund", "value": "g"}])),
         "the partition key, which cannot be changed"),
        (lambda: family.execute(family.batch().delete("a"), deadline=-1), "deadline=-1"),
        (lambda: family.batch().once("a", ttl_s=0), "ttl_s=0"),
        (lambda: family.execute(family.batch().delete("a").once("a", ttl_s=60)), "less than the deadline"),
        (lambda: family.execute(family.batch().delete("gate").guard(1, item_id="gate")), "azlatch's alone"),
        (lambda: contracts.Batch("c", "f"), "not of a str"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            call()


def test_importing_it_loads_no_sdk() -> None:
    """Neither the package nor its parts import azure; who touches a name gets it."""
    code = (
        "import sys\nfrom azlatch import contracts\nassert 'azlatch.contracts.batch' not in sys.modules\n"
        "contracts.Batch\nfrom azlatch.contracts import aio\naio.Batch\n"
        "assert not [each for each in sys.modules if each.split('.')[0] == 'azure']\n"
        "assert 'Batch' in dir(contracts) and 'Batch' in dir(aio)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_error_is_one_of_azlatch() -> None:
    """The tree of the errors is as its docstring draws it."""
    assert issubclass(BatchNotTaken, BatchFailed)
    assert issubclass(BatchFailed, LatchError)
    assert not issubclass(BatchFailed, FenceRejected)
