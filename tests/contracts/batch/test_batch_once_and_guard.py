"""Exactly once by an operation id, a gate in the transaction, keys of every form, and both under faults."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
from azure.cosmos import CosmosClient
from azure.cosmos.partition_key import NonePartitionKeyValue, NullPartitionKeyValue
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from azlatch import contracts
from azlatch.contracts import BatchFailed, BatchNotTaken, BatchOutcomeUnknown
from azlatch.errors import FenceRejected

_numbers = itertools.count(1)


def _item(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "fund": "f", **more}


def _add(batch: Any, amount: int = 1) -> Any:
    return batch.patch("n", [{"op": "incr", "path": "/n", "value": amount}])


# -- once --------------------------------------------------------------------------------------------------


def test_an_operation_id_is_applied_once(family: Any) -> None:
    """A second batch of the same id, from a program that began again, writes nothing and says so."""
    family.truth.create_item(_item("n", n=0))
    assert family.execute(_add(family.batch()).once("trade-7")).outcome == "applied"
    again = family.execute(_add(family.batch(), 2).once("trade-7"))
    assert (again.outcome, [each.status for each in again]) == ("applied-earlier", [None])
    assert again.session_token
    assert family.truth.read_item("n", "f")["n"] == 1
    assert family.truth.read_item("azlatch-once-trade-7", "f")["ttl"] == 86_400


def test_an_operation_id_is_of_one_operation(family: Any) -> None:
    """The same id for other operations, or an item that is no marker, is refused; nothing is written."""
    family.execute(family.batch().create(_item("a")).once("one"))
    with pytest.raises(ValueError, match="used for a batch of other operations \\('create:a'\\)"):
        family.execute(family.batch().create(_item("b")).once("one"))
    family.truth.create_item(_item("azlatch-once-two"))
    with pytest.raises(ValueError, match="not one of azlatch"):
        family.execute(family.batch().create(_item("b")).once("two"))
    assert family.ids() == {"a", "azlatch-once-two"}


def test_a_failure_after_an_unknown_outcome_is_final(family: Any) -> None:
    """The marker is taken before the failure is told: no late send can be applied; the id can be used again."""
    family.truth.create_item(_item("taken"))
    family.execute(family.batch().read("taken"))
    family.rule("drop-request op=batch times=1")
    since = family.mark()
    batch = family.batch().create(_item("taken")).once("one")
    with pytest.raises(BatchFailed) as caught:
        family.execute(batch)
    assert caught.value.root.kind == "already_exists"
    assert family.calls(since) == ["docs/batch"] * 3  # lost, refused, and the marker that was taken
    assert family.truth.read_item("azlatch-once-one", "f")["azlatch"]["state"] == "void"
    family.truth.delete_item("taken", "f")
    late = family.batch().create(_item("taken")).once("one")
    sent = [each.for_sdk() for each in _sent(late)]
    with pytest.raises(Exception, match="index 0"):  # what was lost and turns up now
        family.truth.execute_item_batch(sent, "f")
    assert family.ids() == set()
    assert family.execute(batch).outcome == "applied"
    assert family.ids() == {"taken"}
    assert family.execute(late).outcome == "applied-earlier"


def _sent(batch: Any) -> Any:
    from azlatch.contracts.batch_plan import Plan

    properties = {"partitionKey": {"paths": ["/fund"]}, "defaultTtl": -1}
    parts = (batch._operations, batch._guard, batch._once, "f", properties)
    return Plan(*parts, run="r", deadline_s=1, escaped=True).sent()


def test_an_unknown_outcome_to_the_end_is_told_and_can_be_resolved_later(family: Any) -> None:
    """When the deadline passes with no answer, the same batch may be executed again, and is applied once."""
    family.truth.create_item(_item("n", n=0))
    family.rule("drop-reply op=batch")
    batch = _add(family.batch()).once("one")
    with pytest.raises(BatchOutcomeUnknown, match="Execute it again with the operation id 'one'"):
        family.execute(batch, deadline=0.2)
    family.lab.call(family.lab.account.admin.clear_rules)
    assert family.execute(batch).outcome in ("applied-earlier", "applied")
    assert family.truth.read_item("n", "f")["n"] == 1


def test_markers_want_a_time_to_live(family: Any) -> None:
    """In a container without one they would stay for ever, which has to be asked for."""
    container = family.other("/fund")
    with pytest.raises(ValueError, match="default_ttl to -1"):
        family.execute(family.batch(container=container).create(_item("a")).once("one"))
    family.execute(family.batch(container=container).create(_item("a")).once("one", ttl_s=None))


def test_unique_keys_leave_room_for_markers_and_gates(family: Any) -> None:
    """Two items without a value of a unique key would collide: ours have values of their own."""
    container = family.other(
        "/fund", unique_key_policy={"uniqueKeys": [{"paths": ["/isin", "/a/b"]}]}, default_ttl=-1
    )
    for name in ("one", "two"):
        batch = family.batch(container=container).create(_item(name, isin=name))
        assert family.execute(batch.once(name).guard(1)).outcome == "applied"


def test_a_unique_key_below_the_fence_of_a_gate(family: Any) -> None:
    """A path that goes through what is no object has no value in our item: there is room for one such item."""
    container = family.other("/fund", unique_key_policy={"uniqueKeys": [{"paths": ["/fence/x"]}]})
    family.execute(family.batch(container=container).create(_item("a", fence={"x": 1})).guard(1))
    with pytest.raises(FenceRejected):
        family.execute(family.batch(container=container).create(_item("b", fence={"x": 2})).guard(0))


# -- guard -------------------------------------------------------------------------------------------------


class _Hold:
    def __init__(self, fence: int | None) -> None:
        self.fence = fence
        self.noted: list[tuple[str, int | None]] = []

    def note_rejection(self, gate: str, newest: int | None) -> None:
        self.noted.append((gate, newest))


def test_an_equal_or_newer_fence_is_let_in_an_older_refused(family: Any) -> None:
    """The service compares, in the transaction with the data; the refused holder is told the newest fence."""
    for number, fence in enumerate((5, 5, 9)):
        family.execute(family.batch().create(_item(f"a{number}")).guard(fence))
    old = _Hold(8)
    with pytest.raises(FenceRejected) as caught:
        family.execute(family.batch().create(_item("late")).guard(old))
    assert (caught.value.offered, caught.value.newest) == (8, 9)
    assert isinstance(caught.value.__cause__, BatchFailed)
    assert [newest for _, newest in old.noted] == [9]
    assert family.ids() == {"a0", "a1", "a2"}
    with pytest.raises(FenceRejected, match="no fence"):
        family.batch().guard(_Hold(None))


def test_a_guard_costs_no_call(family: Any) -> None:
    """Two at the first use of the gate, one from then on."""
    family.execute(family.batch().upsert(_item("warm")))
    since = family.mark()
    family.execute(family.batch().upsert(_item("a")).guard(1))
    assert family.calls(since) == ["docs/batch", "docs/batch"]
    since = family.mark()
    family.execute(family.batch().upsert(_item("a")).guard(1))
    assert family.calls(since) == ["docs/batch"]


def test_a_gate_in_an_item_of_the_users(family: Any) -> None:
    """An item without the field is one that no fence has written to yet; a text in it is no fence."""
    family.truth.create_item(_item("own", state="open"))
    family.execute(family.batch().upsert(_item("a")).guard(3, item_id="own", field="epoch"))
    found = family.truth.read_item("own", "f")
    assert (found["epoch"], found["state"]) == (3, "open")
    family.truth.upsert_item(_item("own", epoch="7"))
    with pytest.raises(ValueError, match="changed by hand"):
        family.execute(family.batch().upsert(_item("a")).guard(8, item_id="own", field="epoch"))


def test_a_gate_never_forgets(family: Any) -> None:
    """It is made to live for ever, in a container whose other items expire."""
    container = family.other("/fund", default_ttl=60)
    family.execute(family.batch(container=container).create(_item("a")).guard(9))
    family.lab.clock.advance(120)
    with pytest.raises(FenceRejected):
        family.execute(family.batch(container=container).create(_item("a")).guard(8))


def test_the_first_use_of_a_gate_is_free_of_races(family: Any) -> None:
    """Of many first users with different fences, none that comes after a newer one is let in."""
    accepted: list[int] = []
    ready = threading.Barrier(6)

    def use(fence: int) -> None:
        with CosmosClient(family.lab.endpoint, family.lab.key) as client:
            container = client.get_database_client("d").get_container_client(family.container.id)
            batch = contracts.Batch(container, "f").create(_item(f"w{fence}")).guard(fence)
            ready.wait()
            try:
                batch.execute()
                accepted.append(fence)
            except FenceRejected:
                pass

    threads = [threading.Thread(target=use, args=(fence,)) for fence in range(1, 7)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    written = list(
        family.truth.query_items(
            "SELECT c.id, c._etag FROM c WHERE NOT IS_DEFINED(c.azlatch)", partition_key="f"
        )
    )
    order = [int(each["id"][1:]) for each in sorted(written, key=lambda each: each["_etag"])]
    assert sorted(order) == sorted(accepted)
    assert order == sorted(order)
    assert 6 in accepted
    assert family.truth.read_item("azlatch-gate", "f")["fence"] == 6


def test_a_fence_that_json_cannot_carry_is_refused(family: Any) -> None:
    """Beyond 2**53 two fences could be the same number of Cosmos DB."""
    with pytest.raises(ValueError, match="have gaps"):
        family.batch().guard(2**53)


# -- keys --------------------------------------------------------------------------------------------------


def test_keys_of_every_form(family: Any) -> None:
    """Hierarchical keys, null, none at all, numbers and truth values; each with marker and gate."""
    levels = family.other("/fund", "/desk/name", default_ttl=-1)
    batch = family.batch(["f", "d"], levels).create(_item("a", desk={"name": "d"})).guard(1).once("one")
    assert family.execute(batch)[0].status == 201
    with pytest.raises(ValueError, match="has 'e' at /desk/name"):
        family.execute(family.batch(["f", "d"], levels).create(_item("a", desk={"name": "e"})))
    with pytest.raises(ValueError, match="1 of the container's 2 levels"):
        family.execute(family.batch(["f"], levels).delete("a"))
    for key, body in (
        (NonePartitionKeyValue, {"id": "none"}),
        (None, {"id": "null", "fund": None}),
        (NullPartitionKeyValue, {"id": "null2", "fund": None}),
        (1, {"id": "one", "fund": 1.0}),
        (True, {"id": "true", "fund": True}),
    ):
        result = family.execute(family.batch(key).create(body).guard(1).once(body["id"]))
        assert result[0].status == 201
    wrong: list[tuple[Any, dict[str, Any]]] = [(1, {"id": "x", "fund": True}), (None, {"id": "x"})]
    for key, body in (*wrong, ("f", {"id": "x"}), ("1", _item("x", fund=1))):
        with pytest.raises(ValueError, match="at /fund"):
            family.execute(family.batch(key).create(body))
    by_id = family.other("/id", default_ttl=-1)
    assert family.execute(family.batch("a", by_id).create({"id": "a"}))[0].status == 201
    with pytest.raises(ValueError, match="no room for a second item"):
        family.execute(family.batch("a", by_id).delete("a").guard(1))


# -- under faults ------------------------------------------------------------------------------------------

_FAULTS = st.lists(
    st.sampled_from(
        [
            "drop-reply op=batch times=1",
            "drop-reply op=batch times=3 p=0.5",
            "drop-request op=batch times=1",
            "reset-reply op=batch times=2 p=0.5",
            "truncate op=batch times=1",
            "status=429/3200 op=batch times=3 retry-after-ms=1",
            "status=449 op=batch times=2",
            "status=503 op=batch times=1",
            "status=408 op=batch times=1",
            "drop-reply op=read times=1",
        ]
    ),
    max_size=3,
)
_WORK = st.lists(st.sampled_from(["add", "stale", "taken"]), min_size=1, max_size=4)
_BOUNDED = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def _one(family: Any, kind: str, name: str, stale: str) -> Any:
    batch = _add(family.batch()).create(_item(name))
    if kind == "stale":
        batch.replace("other", _item("other"), etag=stale)
    elif kind == "taken":
        batch.create(_item("other"))
    return batch


def _fresh(family: Any) -> str:
    """Puts the counter to 0 and gives an etag that is old."""
    family.truth.upsert_item(_item("n", n=0))
    stale = family.truth.upsert_item(_item("other"))["_etag"]
    family.truth.upsert_item(_item("other"))
    return str(stale)


@_BOUNDED
@given(faults=st.lists(_FAULTS, min_size=1, max_size=4), work=_WORK)
def test_with_an_operation_id_every_batch_is_exactly_once(
    family: Any, faults: list[list[str]], work: list[str]
) -> None:
    """Whatever is lost or refused: applied means once, failed means never, and nothing stays unknown."""
    stale = _fresh(family)
    applied: set[str] = set()
    failed: set[str] = set()
    for kind, rules in zip(work, itertools.cycle(faults)):
        for rule in rules:
            family.rule(rule)
        name = f"w{next(_numbers)}"
        batch = _one(family, kind, name, stale).once(name)
        try:
            assert family.execute(batch).outcome == "applied"
            applied.add(name)
        except BatchFailed as error:
            assert kind != "add" or isinstance(error, BatchNotTaken)
            assert error.root.status != 424
            failed.add(name)
        family.lab.call(family.lab.account.admin.clear_rules)
    there = family.ids()
    assert applied <= there
    assert not failed & there
    assert family.truth.read_item("n", "f")["n"] == len(applied)
    assert len(applied) == work.count("add")


@_BOUNDED
@given(faults=st.lists(_FAULTS, min_size=1, max_size=4), work=_WORK)
def test_without_one_every_reported_outcome_is_true(
    family: Any, faults: list[list[str]], work: list[str]
) -> None:
    """Applied is there once, failed is not there, and what is unknown is all there or not at all."""
    stale = _fresh(family)
    count = 0
    for kind, rules in zip(work, itertools.cycle(faults)):
        for rule in rules:
            family.rule(rule)
        name = f"w{next(_numbers)}"
        batch = _one(family, kind, name, stale)
        outcome = "applied"
        try:
            family.execute(batch)
        except BatchFailed:
            outcome = "failed"
        except BatchOutcomeUnknown:
            outcome = "unknown"
        family.lab.call(family.lab.account.admin.clear_rules)
        is_there = name in family.ids()
        assert outcome == "unknown" or is_there == (outcome == "applied")
        count += is_there
        assert family.truth.read_item("n", "f")["n"] == count
