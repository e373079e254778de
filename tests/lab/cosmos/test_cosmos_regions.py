"""Regions: who takes writes, what is lost when one fails, and why several writers overwrite each other."""

from __future__ import annotations

import pytest
from azure.cosmos._vector_session_token import VectorSessionToken

from azlatch.errors import UsageError
from azlatch.lab.cosmos.replication import MOST_COUNTED
from azlatch.testing.cosmos_engine import Engine, document, substatus


def _doc(n: int = 0) -> dict[str, object]:
    return {"id": "a", "pk": "p", "n": n}


def test_only_the_write_region_takes_writes_until_it_fails_over() -> None:
    engine = Engine(regions=("A", "B"))
    refused = engine.create(_doc(), "B")
    assert (refused.status, substatus(refused)) == (403, 3)
    assert engine.create(_doc(), "A").status == 201
    assert engine.admin.failover("B") == 0
    assert engine.replace(_doc(1), "B").status == 200
    refused = engine.replace(_doc(2), "A")
    assert (refused.status, substatus(refused)) == (403, 3)


def test_a_planned_failover_loses_nothing_in_spite_of_lag() -> None:
    engine = Engine(regions=("A", "B"))
    engine.admin.lag("A", "B", 100)
    engine.create(_doc(7))
    assert engine.read("a", "p", "B").status == 404
    assert engine.admin.failover("B") == 0
    assert document(engine.read("a", "p", "B"))["n"] == 7


@pytest.mark.parametrize("level", ["BoundedStaleness", "Session", "ConsistentPrefix", "Eventual"])
def test_below_strong_an_outage_loses_what_was_not_replicated(level: str) -> None:
    engine = Engine(regions=("A", "B"), consistency=level)
    engine.create(_doc(1))
    engine.admin.lag("A", "B", 100)
    token = engine.replace(_doc(2)).headers["x-ms-session-token"]
    engine.admin.offline("A")
    assert engine.read("a", "p", "A").status == 503
    assert engine.admin.failover("B") == 1
    assert document(engine.read("a", "p", "B"))["n"] == 1
    if level == "Session":
        lost = engine.read("a", "p", "B", x_ms_session_token=token)
        assert (lost.status, substatus(lost)) == (404, 1002)
    engine.replace(_doc(3), "B")
    engine.admin.online("A")
    engine.tick(200)
    assert document(engine.read("a", "p", "A"))["n"] == 3


def test_strong_acknowledges_nothing_that_could_be_lost() -> None:
    engine = Engine(regions=("A", "B"), consistency="Strong")
    engine.admin.lag("A", "B", 2)
    reply = engine.create(_doc(1))
    assert reply.ready_at == engine.now + 2
    engine.admin.pause("A", "B")
    late = engine.create({**_doc(2), "id": "b"})
    assert (late.status, late.ready_at) == (408, engine.now + 5)
    engine.tick(10)
    # It was reported as failed, and is there once the regions can talk again.
    assert engine.read("b", "p", "B").status == 404
    engine.admin.resume("A", "B")
    engine.tick(10)
    assert engine.read("b", "p", "B").status == 200


def test_bounded_staleness_holds_writers_back() -> None:
    engine = Engine(regions=("A", "B"), consistency="BoundedStaleness", most_behind=10, longest_behind=50)
    engine.admin.pause("A", "B")
    status = [engine.upsert(_doc(each)).status for each in range(12)]
    assert status == [201] + [200] * 9 + [429] * 2
    refused = engine.upsert(_doc())
    assert substatus(refused) == 3074
    engine.admin.resume("A", "B")
    assert engine.upsert(_doc()).status == 200
    engine.admin.pause("A", "B")
    engine.upsert(_doc())
    engine.tick(51)
    assert engine.upsert(_doc()).status == 429


def test_a_region_that_the_account_gave_up() -> None:
    engine = Engine(regions=("A", "B"))
    with pytest.raises(UsageError, match="write region"):
        engine.admin.remove_region("A")
    engine.admin.remove_region("B")
    gone = engine.read("a", "p", "B")
    assert (gone.status, substatus(gone)) == (403, 1008)
    names = [each["name"] for each in document(engine.send("GET", "/"))["readableLocations"]]
    assert names == ["A"]


def test_the_late_replica_is_met_by_weak_reads_alone() -> None:
    engine = Engine(consistency="Strong")
    engine.create(_doc(1))
    engine.admin.lag("East US", "East US", 60)
    token = engine.replace(_doc(2)).headers["x-ms-session-token"]

    def seen(**headers: str) -> set[int]:
        return {document(engine.read("a", "p", **headers))["n"] for _ in range(60)}

    assert seen() == {2}
    assert seen(x_ms_consistency_level="BoundedStaleness") == {2}
    assert seen(x_ms_consistency_level="Session", x_ms_session_token=token) == {2}
    assert seen(x_ms_consistency_level="Session") == {1, 2}
    assert seen(x_ms_consistency_level="Eventual") == {1, 2}
    engine.tick(61)
    assert seen(x_ms_consistency_level="Eventual") == {2}


def test_a_request_asks_for_no_more_than_the_account_has() -> None:
    engine = Engine(consistency="Eventual")
    assert engine.read("a", "p", x_ms_consistency_level="Strong").status == 400
    assert engine.read("a", "p", x_ms_consistency_level="Nonsense").status == 400


# -- several write regions -----------------------------------------------------------------------------------


def test_two_writers_both_win_and_one_is_overwritten() -> None:
    """Why a latch refuses such an account: both conditional writes are granted."""
    engine = Engine(regions=("A", "B"), multiple_write_regions=True)
    etag = engine.create(_doc(), "A").headers["etag"]
    engine.admin.lag("A", "B", 5)
    engine.admin.lag("B", "A", 5)
    first = engine.replace({**_doc(), "holder": "A"}, "A", if_match=etag)
    engine.tick(1)
    second = engine.replace({**_doc(), "holder": "B"}, "B", if_match=etag)
    assert (first.status, second.status) == (200, 200)
    assert document(engine.read("a", "p", "A"))["holder"] == "A"
    assert document(engine.read("a", "p", "B"))["holder"] == "B"
    engine.tick(10)
    assert {document(engine.read("a", "p", region))["holder"] for region in "AB"} == {"B"}


def test_a_deletion_wins_against_a_write_that_did_not_know_of_it() -> None:
    engine = Engine(regions=("A", "B"), multiple_write_regions=True)
    engine.create(_doc(), "A")
    engine.admin.lag("A", "B", 5)
    engine.admin.lag("B", "A", 5)
    engine.delete("a", "p", "A")
    engine.tick(1)
    assert engine.replace(_doc(1), "B").status == 200
    engine.tick(10)
    assert {engine.read("a", "p", region).status for region in "AB"} == {404}


def test_tokens_of_several_writers_are_vectors() -> None:
    engine = Engine(regions=("A", "B"), multiple_write_regions=True)
    engine.admin.lag("A", "B", 5)
    token = engine.create(_doc(), "A").headers["x-ms-session-token"]
    behind = engine.read("a", "p", "B", x_ms_session_token=token)
    assert (behind.status, substatus(behind)) == (404, 1002)
    engine.tick(6)
    assert engine.read("a", "p", "B", x_ms_session_token=token).status == 200


def test_impossible_accounts() -> None:
    with pytest.raises(UsageError, match="Strong"):
        Engine(regions=("A", "B"), consistency="Strong", multiple_write_regions=True)
    with pytest.raises(UsageError, match="regions"):
        Engine(regions=("A", "a"))


def test_tokens_of_before_and_after_a_failover_can_be_merged() -> None:
    """By the SDK, for which two tokens of one version with different regions are an error of its own, 500."""
    engine = Engine(regions=("A", "B"))
    before = engine.create(_doc()).headers["x-ms-session-token"]
    engine.admin.failover("B")
    after = engine.replace(_doc(1), "B").headers["x-ms-session-token"]
    old, new = (VectorSessionToken.create(each.partition(":")[2]) for each in (before, after))
    assert old.merge(new).convert_to_string() == after.partition(":")[2]


def test_how_far_each_region_is_behind() -> None:
    """The writes that each region lacks and how old the first of them is; a split inherits it."""
    engine = Engine(regions=("A", "B", "C"))
    regions = engine.account.topology.regions

    def behind() -> list[tuple[int, float]]:
        (part,) = engine.store.parts
        return [part.behind(each, engine.now) for each in regions]

    assert behind() == [(0, 0.0)] * 3
    engine.admin.lag("A", "B", 10)
    engine.admin.pause("A", "C")
    for number in range(4):
        engine.create({"id": str(number), "pk": "p"})
        engine.tick(3)
    assert behind() == [(0, 0.0), (3, 9.0), (4, 12.0)]
    engine.tick(20)
    assert behind() == [(0, 0.0), (0, 0.0), (4, 32.0)]
    engine.admin.split("d/c", "0")
    assert sorted(each.behind(regions[2], engine.now)[0] for each in engine.store.parts) == [4, 4]
    engine.admin.resume("A", "C")
    assert [each.behind(regions[2], engine.now) for each in engine.store.parts] == [(0, 0.0)] * 2


def test_how_far_regions_are_behind_that_all_take_writes() -> None:
    """Only what others wrote can be lacked, and the count has an end."""
    engine = Engine(regions=("A", "B"), multiple_write_regions=True)
    a, b = engine.account.topology.regions
    engine.admin.pause("A", "B")
    engine.admin.pause("B", "A")
    engine.create({"id": "a", "pk": "p"}, "A")
    engine.tick(2)
    for number in range(3):
        engine.create({"id": f"b{number}", "pk": "p"}, "B")
    (part,) = engine.store.parts
    assert (part.behind(a, engine.now), part.behind(b, engine.now)) == ((3, 0.0), (1, 2.0))
    for number in range(MOST_COUNTED):
        engine.upsert({"id": "b", "pk": "p", "n": number}, "B")
    assert part.behind(a, engine.now)[0] == MOST_COUNTED
