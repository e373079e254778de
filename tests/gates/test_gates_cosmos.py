"""The gate around a Cosmos DB item, over the unmodified SDK, sync and asyncio, in the lab; requests counted."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient
from azure.cosmos.partition_key import NonePartitionKeyValue

from azlatch import contracts, gates
from azlatch.errors import (
    BackendDenied,
    BackendMisconfigured,
    BackendThrottled,
    BackendUnavailable,
    FenceRejected,
    OutcomeUnknown,
    UsageError,
)
from azlatch.gates import CosmosGate, aio
from azlatch.lab.cosmos import CosmosLab

_numbers = itertools.count(1)
Item = dict[str, Any]


class Family:
    """Gates over the clients of one family, used as if none were asynchronous."""

    def __init__(self, name: str, lab: CosmosLab, runner: asyncio.Runner, client: Any, truth: Any) -> None:
        self.name, self.lab, self._runner, self._client = name, lab, runner, client
        self.id = f"state-{next(_numbers)}"
        self.truth = truth.get_database_client("d").get_container_client("c")
        self.container = client.get_database_client("d").get_container_client("c")

    def gate(self, **options: Any) -> Any:
        """A gate around the item of this test, as another instance would make it."""
        return self.of(self.container, self.id, "p", **options)

    def of(self, container: Any, item_id: str, key: Any, **options: Any) -> Any:
        options.setdefault("timeout", 10.0)
        kind = CosmosGate if self.name == "sync" else aio.CosmosGate
        return kind(container, item_id, key, **options)

    def run(self, made: Any) -> Any:
        """What a call comes to."""
        return self._runner.run(made) if asyncio.iscoroutine(made) else made

    def write(self, gate: Any, fence: Any, change: Any) -> Any:
        return self.run(gate.write(fence, change))

    def read(self, gate: Any, fence: Any) -> Any:
        return self.run(gate.read(fence))

    def newest(self, gate: Any) -> Any:
        return gate.newest if self.name == "sync" else self.run(gate.newest())

    def history(self, gate: Any) -> Any:
        return self.run(gate.history())

    def stored(self) -> Item:
        return dict(self.truth.read_item(self.id, "p"))

    def other(self, *paths: str, **options: Any) -> Any:
        """Another container."""
        name = f"c{next(_numbers)}"
        key = PartitionKey(paths[0]) if len(paths) == 1 else PartitionKey(list(paths), kind="MultiHash")
        with CosmosClient(self.lab.endpoint, self.lab.key) as client:
            client.get_database_client("d").create_container(name, key, **options)
        return self._client.get_database_client("d").get_container_client(name)

    def rules(self, *rules: str) -> None:
        for each in rules:
            self.lab.add_rule(each)

    def mark(self) -> int:
        return int(self.lab.call(lambda: self.lab.account.admin.ledger(0, 1_000_000))[-1]["number"])

    def calls(self, since: int) -> list[str]:
        """The requests for items that came to the service, with their answers."""
        rows = self.lab.call(lambda: self.lab.account.admin.ledger(since, 1_000_000))
        rows = [each for each in rows if each["operation"].startswith("docs/")]
        return [f"{each['operation'].removeprefix('docs/')} {each['status']}" for each in rows]


@pytest.fixture(scope="module")
def lab() -> Iterator[CosmosLab]:
    with CosmosLab(throttling=False) as running, CosmosClient(running.endpoint, running.key) as client:
        client.create_database("d").create_container("c", PartitionKey("/pk"))
        yield running


@pytest.fixture(scope="module")
def clients(lab: CosmosLab) -> Iterator[Callable[[str], tuple[asyncio.Runner, Any, Any]]]:
    """A client of each family that is kept, and the loop that the asynchronous one lives in."""
    with asyncio.Runner() as runner, CosmosClient(lab.endpoint, lab.key) as client:

        async def start() -> AsyncCosmosClient:
            return await AsyncCosmosClient(lab.endpoint, lab.key).__aenter__()

        asynchronous = runner.run(start())
        yield lambda name: (runner, client if name == "sync" else asynchronous, client)
        runner.run(asynchronous.close())


@pytest.fixture(params=["sync", "asyncio"])
def family(request: pytest.FixtureRequest, lab: CosmosLab, clients: Any) -> Iterator[Family]:
    yield Family(request.param, lab, *clients(request.param))
    lab.call(lab.account.admin.clear_rules)


def add_one(before: Item | None) -> Item:
    return {**(before or {}), "n": (before or {"n": 0})["n"] + 1}


class _Hold:
    def __init__(self, fence: int | None) -> None:
        self.fence = fence
        self.noted: list[tuple[str, int | None]] = []

    def note_rejection(self, gate: str, newest: int | None) -> None:
        self.noted.append((gate, newest))


# -- what is accepted ----------------------------------------------------------------------------------------


def test_older_fences_are_refused(family: Family) -> None:
    """Equal is accepted, older is not, by whichever client; the order is counted (F5, M3)."""
    gate, other = family.gate(), family.gate()
    assert family.newest(gate) is None
    assert family.read(gate, 4) is None
    assert family.write(gate, 5, {"a": 1}) == (1, 5)
    assert family.write(other, 5, {"b": 1}) == (2, 5)
    assert family.write(gate, 7, lambda before: {**before, "c": 1}) == (3, 7)
    late = _Hold(6)
    with pytest.raises(FenceRejected) as refused:
        family.write(other, late, {"z": 1})
    assert (refused.value.offered, refused.value.newest) == (6, 7)
    assert late.noted == [(f"the gate of item {family.id!r}", 7)]
    with pytest.raises(FenceRejected, match="fence=True"):
        family.write(gate, _Hold(None), {"z": 1})
    assert family.read(gate, 7) == {"id": family.id, "pk": "p", "b": 1, "c": 1}
    assert family.history(gate) == ((1, 5), (2, 5), (3, 7))
    assert family.newest(gate) == 7


def test_a_reader_shows_its_fence(family: Family) -> None:
    """Once a newer holder has read, an older one writes no more; an older reader is refused too."""
    gate, old = family.gate(), family.gate()
    family.write(old, 1, {"n": 1})
    assert family.read(gate, 3)["n"] == 1
    assert family.newest(gate) == 3
    for late in (lambda: family.write(old, 2, {"n": 9}), lambda: family.read(old, 2)):
        with pytest.raises(FenceRejected) as refused:
            late()
        assert (refused.value.offered, refused.value.newest) == (2, 3)
    assert family.read(gate, 3)["n"] == 1
    assert family.history(gate) == ((1, 1),)


def test_an_item_that_is_there_already(family: Family) -> None:
    """What the user has keeps its content; it is one that no fence has written to yet."""
    family.truth.create_item({"id": family.id, "pk": "p", "n": 4})
    assert family.write(family.gate(), 2, add_one) == (1, 2)
    assert family.read(family.gate(), 2)["n"] == 5
    with pytest.raises(FenceRejected):
        family.write(family.gate(), 1, add_one)


def test_the_content_replaces_all_there_is(family: Family) -> None:
    """No property of an earlier content stays, and the gate's own do."""
    gate = family.gate()
    family.write(gate, 1, {"a": 1})
    family.write(gate, 1, {"b": {"c": [1, None, "ü"]}})
    assert family.read(gate, 1) == {"id": family.id, "pk": "p", "b": {"c": [1, None, "ü"]}}
    stored = family.stored()
    assert (stored["fence"], stored["ttl"]) == (1, -1)
    assert stored["azlatch_gate"].startswith("2 ")


def test_the_history_is_of_sixteen(family: Family) -> None:
    """Older acceptances leave it; their numbers go on."""
    gate = family.gate()
    for number in range(20):
        family.write(gate, number // 5, {"n": number})
    assert family.history(gate) == tuple((number, (number - 1) // 5) for number in range(5, 21))


# -- what it costs -------------------------------------------------------------------------------------------


def test_requests_are_few(family: Family) -> None:
    """2 for the first write of a gate, 1 for each after that while nobody else writes, 1 for a read."""
    family.read(family.of(family.container, "warm", "p"), 1)
    gate = family.gate()
    for act, wanted in [
        (lambda: family.write(gate, 1, {"n": 0}), ["read 404", "create 201"]),
        (lambda: family.write(gate, 1, add_one), ["replace 200"]),
        (lambda: family.write(gate, 2, add_one), ["replace 200"]),
        (lambda: family.read(gate, 2), ["patch 200"]),
        (lambda: family.write(gate, 2, add_one), ["replace 200"]),
        (lambda: family.write(family.gate(), 3, add_one), ["read 200", "replace 200"]),
        (lambda: family.write(gate, 3, add_one), ["replace 412", "read 200", "replace 200"]),
        (lambda: family.newest(gate), ["read 200"]),
    ]:
        since = family.mark()
        act()
        assert family.calls(since) == wanted
    assert family.stored()["n"] == 5
    first = family.of(family.container, f"{family.id}-first", "p")
    since = family.mark()
    assert family.read(first, 1) is None
    family.write(first, 1, add_one)
    assert family.calls(since) == ["patch 404", "create 201"]


def test_a_refusal_costs_no_write(family: Family) -> None:
    """A gate that has not looked yet reads; one that has seen the newer fence does not even ask."""
    newer = family.gate()
    family.write(newer, 5, {"n": 0})
    since = family.mark()
    with pytest.raises(FenceRejected):
        family.write(family.gate(), 4, {"n": 1})
    with pytest.raises(FenceRejected):
        family.write(newer, 4, {"n": 1})
    with pytest.raises(FenceRejected):
        family.read(family.gate(), 4)
    assert family.calls(since) == ["read 200", "patch 412", "read 200"]


# -- races ---------------------------------------------------------------------------------------------------


def test_of_two_writers_one_comes_first(family: Family) -> None:
    """A write between reading and writing is noticed: the function runs again on what is there now."""
    family.write(family.gate(), 1, {"n": 0})
    seen: list[Item] = []

    def change(before: Item) -> Item:
        seen.append(before)
        if len(seen) == 1:
            CosmosGate(family.truth, family.id, "p").write(1, {"n": 5})
        return {"n": before["n"] + 1}

    since = family.mark()
    assert family.write(family.gate(), 1, change).sequence == 3
    assert [each["n"] for each in seen] == [0, 5]
    assert family.calls(since)[-3:] == ["replace 412", "read 200", "replace 200"]
    assert family.stored()["n"] == 6


def test_a_newer_holder_in_between(family: Family) -> None:
    """If that write has a newer fence, this one is refused, and nothing of it happened."""
    family.write(family.gate(), 1, {"n": 0})

    def change(before: Item) -> Item:
        CosmosGate(family.truth, family.id, "p").write(2, {"n": "newer"})
        return {"n": "older"}

    with pytest.raises(FenceRejected):
        family.write(family.gate(), 1, change)
    assert family.stored()["n"] == "newer"


def test_two_that_create(family: Family) -> None:
    """Of two first writers one creates the item, and the other one meets its fence."""

    def change(before: Item | None) -> Item:
        if before is None:
            CosmosGate(family.truth, family.id, "p").write(2, {"n": "newer"})
        return {"n": "older"}

    since = family.mark()
    with pytest.raises(FenceRejected):
        family.write(family.gate(), 1, change)
    assert family.calls(since)[-2:] == ["create 409", "read 200"]


def test_what_the_function_does_to_its_copy_stays_there(family: Family) -> None:
    """The content that a gate keeps for its next write is the stored one, whatever was made of a copy of it."""
    gate = family.gate()
    family.write(gate, 1, {"list": [1]})

    def spoil(before: Item) -> Item:
        before["list"].append(2)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        family.write(gate, 1, spoil)
    family.read(gate, 1)["list"].append(2)
    family.write(gate, 1, lambda before: {"list": [*before["list"], 3]})
    assert family.stored()["list"] == [1, 3]


def test_threads_lose_nothing(lab: CosmosLab) -> None:
    """Eight threads with one fence add to one number, each through a gate of its own."""
    name = f"state-{next(_numbers)}"
    ready = threading.Barrier(8)

    def work() -> None:
        with CosmosClient(lab.endpoint, lab.key) as client:
            gate = CosmosGate(client.get_database_client("d").get_container_client("c"), name, "p")
            ready.wait()
            for _ in range(5):
                gate.write(3, add_one)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with CosmosClient(lab.endpoint, lab.key) as client:
        gate = CosmosGate(client.get_database_client("d").get_container_client("c"), name, "p")
        found = gate.read(3)
        assert found is not None
        assert found["n"] == 40
        assert [each.sequence for each in gate.history()] == list(range(25, 41))


# -- what goes wrong -----------------------------------------------------------------------------------------

#: A fault of one write, and the requests of a fresh gate for it: sync, and asyncio where the SDK sends again.
FAULTS: list[tuple[str, list[str], list[str] | None]] = [
    ("drop-request", ["replace 503", "patch 200", "replace 200"], ["replace 503", "replace 200"]),
    ("reset", ["replace 503", "patch 200", "replace 200"], ["replace 503", "replace 200"]),
    ("drop-reply", ["replace 200", "patch 200"], ["replace 200", "replace 412", "patch 200"]),
    ("reset-reply", ["replace 200", "patch 200"], ["replace 200", "replace 412", "patch 200"]),
    ("truncate", ["replace 200", "patch 200"], None),
    ("status=408", ["replace 408", "patch 200", "replace 200"], None),
    ("status=410/1002", ["replace 410", "patch 200", "replace 200"], None),
    ("status=500", ["replace 500", "patch 200", "replace 200"], None),
    ("status=503", ["replace 503", "replace 200"], None),
    ("status=449", ["replace 449", "replace 200"], None),
    ("status=429/3200 retry-after-ms=5", ["replace 429", "replace 200"], None),
    ("status=412/2001", ["replace 412", "replace 200"], None),
    ("status=412", ["replace 412", "read 200", "patch 200", "replace 200"], None),
]


@pytest.mark.parametrize(("fault", "requests", "asynchronous"), FAULTS, ids=lambda each: str(each)[:14])
def test_a_write_that_a_fault_meets(
    fault: str, requests: list[str], asynchronous: list[str] | None, family: Family
) -> None:
    """It is written once, whatever became of the first request, and its place in the order is known (M5)."""
    family.write(family.gate(), 1, {"n": 0})
    family.rules(f"{fault} op=replace times=1")
    since = family.mark()
    assert family.write(family.gate(), 1, add_one) == (2, 1)
    wanted = requests if family.name == "sync" or asynchronous is None else asynchronous
    assert family.calls(since) == ["read 200", *wanted]
    assert family.stored()["n"] == 1


@pytest.mark.parametrize("fault", ["drop-reply", "drop-request", "truncate", "status=503", "status=408"])
def test_a_first_write_that_a_fault_meets(fault: str, family: Family) -> None:
    """A create whose answer is lost is found again, or sent again: it is there once."""
    family.rules(f"{fault} op=create times=1")
    assert family.write(family.gate(), 1, {"n": 1}) == (1, 1)
    assert family.stored()["n"] == 1
    assert family.history(family.gate()) == ((1, 1),)


@pytest.mark.parametrize("fault", ["drop-reply", "drop-request", "status=503", "status=449", "status=410/1002"])
def test_a_read_that_a_fault_meets(fault: str, family: Family) -> None:
    """A read is sent again: to note a fence twice does no harm."""
    family.write(family.gate(), 1, {"n": 1})
    family.rules(f"{fault} op=patch times=1")
    assert family.read(family.gate(), 2)["n"] == 1
    assert family.newest(family.gate()) == 2


@pytest.mark.parametrize("fault", ["status=404/1002", "status=503 times=6", "status=429/3200 retry-after-ms=1"])
def test_a_look_that_fails_is_no_obstacle(fault: str, family: Family) -> None:
    """Where no replica tells, the write region does."""
    family.write(family.gate(), 1, {"n": 0})
    family.rules(f"{fault} op=read" + ("" if "times" in fault else " times=3"))
    assert family.write(family.gate(), 1, add_one) == (2, 1)
    family.lab.call(family.lab.account.admin.clear_rules)
    assert family.stored()["n"] == 1


class _Between:
    """A rule that loses a reply of the first replace, and what comes before the gate can ask after it."""

    def __init__(self, family: Family, fault: str, then: Callable[[], object]) -> None:
        self._family, self._fault, self._then = family, fault, then

    def __call__(self, before: Item) -> Item:
        container = self._family.container
        ask, between = container.patch_item, self._then
        if self._family.name == "sync":

            def sync(*arguments: Any, **options: Any) -> Any:
                del container.patch_item
                between()
                return ask(*arguments, **options)

            container.patch_item = sync
        else:

            async def asynchronous(*arguments: Any, **options: Any) -> Any:
                del container.patch_item
                between()
                return await ask(*arguments, **options)

            container.patch_item = asynchronous
        self._family.rules(f"{self._fault} op=replace times=1")
        return {"log": [*before["log"], "ours"]}


@pytest.mark.parametrize("newer", [1, 2])
def test_a_lost_reply_and_another_write(newer: int, family: Family) -> None:
    """The item tells that the lost one was written, though others wrote over it since."""
    family.write(family.gate(), 1, {"log": []})

    def others() -> None:
        gate = CosmosGate(family.truth, family.id, "p")
        for _ in range(15):
            gate.write(newer, lambda before: {"log": [*before["log"], "theirs"]})  # type: ignore[index]

    assert family.write(family.gate(), 1, _Between(family, "drop-reply", others)) == (2, 1)
    assert family.stored()["log"] == ["ours", *["theirs"] * 15]


def test_a_lost_reply_and_too_many_writes(family: Family) -> None:
    """After more writes than the item tells of it is unknown: not refused, and not done again (M5)."""
    family.write(family.gate(), 1, {"log": []})

    def others() -> None:
        gate = CosmosGate(family.truth, family.id, "p")
        for _ in range(16):
            gate.write(1, lambda before: {"log": [*before["log"], "theirs"]})  # type: ignore[index]

    with pytest.raises(OutcomeUnknown, match="does not tell any more"):
        family.write(family.gate(), 1, _Between(family, "drop-reply", others))
    assert family.stored()["log"] == ["ours", *["theirs"] * 16]


@pytest.mark.parametrize("act", ["read", "write"])
def test_a_lost_request_and_a_newer_holder(act: str, family: Family) -> None:
    """It is certain that nothing was written, and never will be: the newer fence is told."""
    family.write(family.gate(), 1, {"log": []})

    def newer() -> None:
        gate = CosmosGate(family.truth, family.id, "p")
        gate.read(2) if act == "read" else gate.write(2, {"log": ["theirs"]})

    with pytest.raises(FenceRejected) as refused:
        # A status, so that the asyncio client does not send it again before it is asked after.
        family.write(family.gate(), 1, _Between(family, "status=408", newer))
    assert refused.value.newest == 2
    assert family.stored()["log"] == ([] if act == "read" else ["theirs"])


def test_a_lost_reply_and_a_deleted_item(family: Family) -> None:
    """What someone deleted outside of the gate tells nothing."""
    family.write(family.gate(), 1, {"log": []})
    with pytest.raises(OutcomeUnknown, match="deleted"):
        family.write(
            family.gate(),
            1,
            _Between(family, "drop-reply", lambda: family.truth.delete_item(family.id, "p")),
        )


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        (["status=429/3200 op=replace retry-after-ms=60000"], BackendThrottled),
        (["status=449 op=replace"], BackendThrottled),
        (["status=403/1008 op=replace"], BackendUnavailable),
        (["status=403/5300 op=replace"], BackendDenied),
        (["status=413 op=replace"], UsageError),
        (["status=404/1003 op=replace"], BackendMisconfigured),
        (["drop-reply op=replace", "status=449 op=patch"], OutcomeUnknown),
        (["status=408 op=replace", "status=449 op=patch"], OutcomeUnknown),
    ],
    ids=str,
)
def test_ends_that_are_no_success(rules: list[str], error: type[Exception], family: Family) -> None:
    """Within the bound of the gate; only where nothing was written is it said that nothing was (M5, M6, M7)."""
    family.write(family.gate(), 1, {"n": 0})
    family.rules(*rules)
    with pytest.raises(error):
        family.write(family.gate(timeout=0.6), 1, add_one)
    family.lab.call(family.lab.account.admin.clear_rules)
    if error is not OutcomeUnknown:
        assert family.stored()["n"] == 0
    elif rules[0].startswith("status"):
        # What the fault took is not there, and nobody can know.
        assert family.stored()["n"] == 0
    else:
        assert family.stored()["n"] == 1


def test_a_service_that_is_not_there() -> None:
    """An outage is one, within the bound of the gate."""
    with CosmosLab(throttling=False) as lab:
        client = CosmosClient(lab.endpoint, lab.key)
        container = client.create_database("d").create_container("c", PartitionKey("/pk"))
        gate = CosmosGate(container, "state", "p", timeout=1.0)
        gate.write(1, {"n": 0})
    with client:
        with pytest.raises(BackendUnavailable):
            CosmosGate(container, "state", "p", timeout=1.0).write(1, {"n": 1})
        with pytest.raises(BackendUnavailable):
            gate.read(1)


# -- regions -------------------------------------------------------------------------------------------------


def test_a_replica_that_lags_lets_nobody_in() -> None:
    """A look at what is old is found out by the write; then the write region is asked, not the replica."""
    with CosmosLab(regions=("West US", "East US"), consistency="Eventual", throttling=False) as lab:
        with CosmosClient(lab.endpoint, lab.key) as near:
            container = near.create_database("d").create_container("c", PartitionKey("/pk"))
            gate = CosmosGate(container, "state", "p")
            gate.write(1, {"n": 0})
            lab.call(lambda: lab.account.admin.lag("West US", "East US", 3_600))
            gate.write(1, add_one)
            with CosmosClient(lab.endpoint, lab.key, preferred_locations=["East US"]) as far:
                there = CosmosGate(far.get_database_client("d").get_container_client("c"), "state", "p")
                since = int(lab.call(lambda: lab.account.admin.ledger(0, 10_000))[-1]["number"])
                assert there.write(1, add_one) == (3, 1)
                rows = lab.call(lambda: lab.account.admin.ledger(since, 10_000))
                told = [(e["operation"], e["status"]) for e in rows if e["operation"].startswith("docs/")]
                assert told == [
                    ("docs/read", 200),
                    ("docs/replace", 412),
                    ("docs/read", 200),
                    ("docs/patch", 200),
                    ("docs/replace", 200),
                ]
                gate.write(5, add_one)
                with pytest.raises(FenceRejected):
                    there.write(4, add_one)
                with pytest.raises(FenceRejected) as refused:
                    there.read(4)
                assert refused.value.newest in (None, 5)
                found = there.read(6)
                assert found is not None
                assert found["n"] == 3


def test_a_failover_changes_nothing_for_a_gate() -> None:
    """The same gates go on in the new write region, with the same fences."""
    with (
        CosmosLab(regions=("West US", "East US"), throttling=False) as lab,
        CosmosClient(lab.endpoint, lab.key) as client,
    ):
        container = client.create_database("d").create_container("c", PartitionKey("/pk"))
        gate = CosmosGate(container, "state", "p")
        gate.write(5, {"n": 0})
        lab.call(lambda: lab.account.admin.failover("East US"))
        assert gate.write(5, add_one) == (2, 5)
        with pytest.raises(FenceRejected):
            gate.write(4, add_one)
        found = gate.read(6)
        assert found is not None
        assert found["n"] == 1


def test_an_outage_can_take_back_a_write_with_its_fence() -> None:
    """Below Strong what was not replicated is gone; the gate goes on with what there is, and guards that."""
    with (
        CosmosLab(regions=("West US", "East US"), throttling=False) as lab,
        CosmosClient(lab.endpoint, lab.key) as client,
    ):
        admin = lab.account.admin
        container = client.create_database("d").create_container("c", PartitionKey("/pk"))
        gate = CosmosGate(container, "state", "p")
        gate.write(5, {"n": 0})
        lab.call(lambda: admin.lag("West US", "East US", 3_600))
        gate.write(7, add_one)
        lab.call(lambda: admin.offline("West US"))
        lab.call(lambda: admin.failover("East US"))
        lab.call(lambda: admin.online("West US"))  # it says no to writes now, so that the SDK looks where to go
        assert CosmosGate(container, "state", "p").write(6, add_one) == (2, 6)
        assert gate.write(7, add_one) == (3, 7)
        with pytest.raises(FenceRejected):
            gate.write(6, add_one)
        found = gate.read(7)
        assert found is not None
        assert found["n"] == 2


def test_several_write_regions_are_refused() -> None:
    """There a condition guards nothing: two regions would both accept."""
    with CosmosLab(regions=("West US", "East US"), multiple_write_regions=True, throttling=False) as lab:
        with CosmosClient(lab.endpoint, lab.key) as client:
            container = client.create_database("d").create_container("c", PartitionKey("/pk"))
            gate = CosmosGate(container, "state", "p")
            for act in (lambda: gate.write(1, {"n": 0}), lambda: gate.read(1)):
                with pytest.raises(BackendMisconfigured, match="2 write regions"):
                    act()


# -- beside a batch ------------------------------------------------------------------------------------------


def test_a_batch_and_a_gate_guard_one_item(family: Family) -> None:
    """`contracts.Batch.guard` on the item of a gate: either refuses what the other one has seen newer."""
    batch = contracts.Batch if family.name == "sync" else contracts.aio.Batch

    def in_batch(fence: int) -> Any:
        made = batch(family.container, "p").upsert({"id": f"data-{family.id}", "pk": "p", "by": fence})
        return family.run(made.guard(fence, item_id=family.id).execute())

    gate = family.gate()
    family.write(gate, 5, {"n": 0})
    in_batch(5)
    in_batch(7)
    with pytest.raises(FenceRejected):
        family.write(family.gate(), 6, add_one)
    assert family.write(gate, 8, add_one) == (2, 8)
    with pytest.raises(FenceRejected):
        in_batch(7)
    assert family.truth.read_item(f"data-{family.id}", "p")["by"] == 7
    assert family.read(gate, 8)["n"] == 1


def test_a_gate_goes_on_where_a_batch_began(family: Family) -> None:
    """An item that a batch made for its guard can be a gate's, and keeps what the batch put there."""
    container = family.other("/pk")
    batch = (contracts.Batch if family.name == "sync" else contracts.aio.Batch)(container, "p")
    family.run(batch.upsert({"id": "data", "pk": "p"}).guard(5).execute())
    gate = family.of(container, "azlatch-gate", "p")
    with pytest.raises(FenceRejected):
        family.write(gate, 4, {"n": 0})
    assert family.write(gate, 5, lambda before: {**before, "n": 1}) == (1, 5)
    assert family.read(gate, 5)["azlatch"] == {"kind": "gate"}


# -- keys and contents ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "key", "filled"),
    [
        (["/id"], "state", {}),
        (["/a/b"], 7, {"a": {"b": 7}}),
        (["/t", "/u"], ["x", True], {"t": "x", "u": True}),
        (["/pk"], None, {"pk": None}),
        (["/pk"], NonePartitionKeyValue, {}),
    ],
    ids=str,
)
def test_keys_of_every_form(paths: list[str], key: Any, filled: Item, family: Family) -> None:
    """The partition key may be left out of the content, and is put there."""
    gate = family.of(family.other(*paths), "state", key)
    assert family.write(gate, 1, {"n": 0}) == (1, 1)
    assert family.write(gate, 1, {"n": 1}) == (2, 1)
    assert family.read(gate, 2) == {"id": "state", "n": 1, **filled}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"pk": "q"}, "has 'q' at /pk"),
        ({"id": "another"}, "has the id 'another'"),
        ({"fence": 3}, "the gate's own"),
        ({"azlatch_gate": ""}, "the gate's own"),
        ({"ttl": 60}, "takes its fence with it"),
        ({"n": float("nan")}, "no JSON"),
        ({"n": {1, 2}}, "no JSON"),
        (["a"], "an item is a dict"),
        (None, "an item is a dict"),
    ],
    ids=str,
)
def test_contents_that_cannot_be(content: Any, message: str, family: Family) -> None:
    """They are refused before anything is written, and nothing is created under another key."""
    since = family.mark()
    with pytest.raises(UsageError, match=message):
        family.write(family.gate(), 1, content)
    assert {each.partition(" ")[0] for each in family.calls(since)} <= {"read"}


def test_a_coroutine_function_is_for_asyncio(family: Family) -> None:
    """The one of asyncio awaits it, the other says where to go."""

    async def change(before: Item | None) -> Item:
        await asyncio.sleep(0)
        return {"n": 1}

    if family.name == "sync":
        with pytest.raises(UsageError, match=r"azlatch\.gates\.aio"):
            family.write(family.gate(), 1, change)
    else:
        assert family.write(family.gate(), 1, change) == (1, 1)


@pytest.mark.parametrize(
    ("property_", "value"),
    [("fence", "many"), ("fence", 1.5), ("fence", None), ("azlatch_gate", "1 x"), ("azlatch_gate", 4)],
)
def test_what_was_changed_by_hand(property_: str, value: object, family: Family) -> None:
    """It lets nobody in, and the message says what to mend."""
    family.truth.create_item({"id": family.id, "pk": "p", property_: value})
    with pytest.raises(UsageError, match=f"(?s){property_}.*changed by hand"):
        family.write(family.gate(), 1, {"n": 1})
    with pytest.raises(UsageError, match="changed by hand"):
        family.read(family.gate(), 1)


def test_a_unique_key_of_another_item(family: Family) -> None:
    """It is told as what it is, on a create and on a replacement, and soon."""
    container = family.other("/pk", unique_key_policy={"uniqueKeys": [{"paths": ["/n"]}]})
    family.write(family.of(container, "one", "p"), 1, {"n": 1})
    with pytest.raises(UsageError, match="unique key"):
        family.write(family.of(container, "two", "p"), 1, {"n": 1})
    family.write(family.of(container, "two", "p"), 1, {"n": 2})
    with pytest.raises(UsageError, match="unique key"):
        family.write(family.of(container, "two", "p"), 1, {"n": 1})


def test_an_item_never_expires(family: Family) -> None:
    """A container whose items expire does not take the fence away."""
    container = family.other("/pk", default_ttl=60)
    family.write(family.of(container, "state", "p"), 5, {"n": 1})
    family.lab.clock.advance(120)
    with pytest.raises(FenceRejected):
        family.write(family.of(container, "state", "p"), 4, {"n": 2})


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("c", "state", "p"), {}, "ContainerProxy"),
        ((None, "", "p"), {}, "item_id"),
        ((None, "a/b", "p"), {}, "item_id"),
        ((None, "x" * 1024, "p"), {}, "1,023"),
        ((None, "state", "p"), {"field": "a b"}, "field"),
        ((None, "state", "p"), {"field": "azlatch_gate"}, "field"),
        ((None, "state", "p"), {"timeout": -1}, "timeout"),
    ],
    ids=str,
)
def test_gates_that_cannot_be(arguments: Any, options: Item, message: str, family: Family) -> None:
    """What is wrong is said when the gate is made."""
    container, *rest = arguments
    with pytest.raises(UsageError, match=message):
        family.of(container or family.container, *rest, **options)


def test_fences_that_an_item_cannot_hold(family: Family) -> None:
    """Two of them would be one number."""
    with pytest.raises(UsageError, match="gaps"):
        family.write(family.gate(), 2**53, {"n": 1})


def test_the_fence_is_of_no_partition_key(family: Family) -> None:
    """A field that decides where the item lies cannot change."""
    with pytest.raises(UsageError, match="partition key"):
        family.write(family.of(family.other("/fence"), "state", 1), 1, {"n": 1})


def test_another_field(family: Family) -> None:
    """A content with a property `fence` of its own finds room beside the gate's."""
    gate = family.gate(field="epoch")
    family.write(gate, 2, {"fence": "wood"})
    assert family.read(gate, 3)["fence"] == "wood"
    assert family.stored()["epoch"] == 3


def test_a_client_that_wants_no_content(lab: CosmosLab) -> None:
    """`no_response_on_write` of a client does not take away what a gate needs."""
    with CosmosClient(lab.endpoint, lab.key, no_response_on_write=True) as client:
        gate = CosmosGate(client.get_database_client("d").get_container_client("c"), "quiet", "p")
        assert gate.write(1, {"n": 0}) == (1, 1)
        assert gate.write(1, add_one) == (2, 1)
        found = gate.read(1)
        assert found is not None
        assert found["n"] == 1


def test_nothing_is_made_by_looking(family: Family) -> None:
    """A gate that was only asked leaves no item behind."""
    assert family.newest(family.gate()) is None
    assert family.history(family.gate()) == ()
    assert family.read(family.gate(), 5) is None
    assert (
        list(family.truth.query_items(f"SELECT * FROM c WHERE c.id = '{family.id}'", partition_key="p")) == []
    )


def test_the_package_has_it() -> None:
    """Under the name that the docs have, without loading asyncio."""
    assert "CosmosGate" in gates.__all__
