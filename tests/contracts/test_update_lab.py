"""update_item over the unmodified SDK, sync and asyncio, in the lab: what goes wrong, and what is reported."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient

from azlatch import contracts
from azlatch.contracts import aio
from azlatch.contracts.operations import PROPERTY
from azlatch.errors import (
    BackendDenied,
    BackendMisconfigured,
    BackendThrottled,
    BackendUnavailable,
    LatchError,
    OutcomeUnknown,
    UsageError,
)
from azlatch.lab.cosmos import CosmosLab

Item = dict[str, Any]


@pytest.fixture(scope="module")
def lab() -> Iterator[CosmosLab]:
    with CosmosLab(throttling=False) as running, CosmosClient(running.endpoint, running.key) as client:
        client.create_database("d").create_container("c", PartitionKey("/pk"))
        yield running


@pytest.fixture
def container(lab: CosmosLab) -> Iterator[Any]:
    with CosmosClient(lab.endpoint, lab.key) as client:
        yield client.get_database_client("d").get_container_client("c")
    lab.call(lab.account.admin.clear_rules)


class Caller:
    """update_item of one of the two families, with a client of its own that has been used before."""

    def __init__(self, lab: CosmosLab, container: Any, family: str) -> None:
        self.lab, self.container, self.family = lab, container, family
        self.item = container.create_item({"id": uuid.uuid4().hex, "pk": "p", "n": 100})
        self.id: str = self.item["id"]
        self.since = 0

    def __call__(self, change: Callable[[Item], Any], *faults: str, key: str = "p", **options: Any) -> Any:
        options.setdefault("deadline", 8.0)
        if self.family == "sync":
            return self._sync(change, faults, key, options)
        return asyncio.run(self._async(change, faults, key, options))

    def _sync(self, change: Callable[[Item], Any], faults: tuple[str, ...], key: str, options: Item) -> Any:
        self.container.read_item(self.id, "p")
        self._begin(faults)
        return contracts.update_item(self.container, self.id, key, change, **options)

    async def _async(
        self, change: Callable[[Item], Any], faults: tuple[str, ...], key: str, options: Item
    ) -> Any:
        async with AsyncCosmosClient(self.lab.endpoint, self.lab.key) as client:
            mine = client.get_database_client("d").get_container_client("c")
            await mine.read_item(self.id, "p")
            self._begin(faults)
            return await aio.update_item(mine, self.id, key, change, **options)

    def _begin(self, faults: tuple[str, ...]) -> None:
        self.since = int(self.lab.call(lambda: self.lab.account.admin.ledger(0, 100_000))[-1]["number"])
        for each in faults:
            self.lab.add_rule(each)

    def requests(self) -> list[str]:
        """What came to the service since the call began, for items."""
        rows = self.lab.call(lambda: self.lab.account.admin.ledger(self.since, 10_000))
        rows = [each for each in rows if each["operation"].startswith("docs/")]
        return [f"{each['operation'].removeprefix('docs/')} {each['status']}" for each in rows]

    def stored(self) -> Item:
        found: Item = self.container.read_item(self.id, "p")
        return found


@pytest.fixture(params=["sync", "asyncio"])
def update(request: pytest.FixtureRequest, lab: CosmosLab, container: Any) -> Caller:
    return Caller(lab, container, request.param)


def add_five(found: Item) -> None:
    found["n"] += 5


def test_an_update_costs_a_read_and_a_replace(update: Caller) -> None:
    """The same requests as by hand, and their charges; the item is the one that is stored."""
    done = update(add_five)
    assert update.requests() == ["read 200", "replace 200"]
    rows = update.lab.call(lambda: update.lab.account.admin.ledger(update.since, 100))
    assert done.request_charge == pytest.approx(sum(each["charge"] for each in rows if each["name"]))
    assert (done.outcome, done.attempts, done.conflicts, done.throttles) == ("applied", 1, 0, 0)
    stored = update.stored()
    assert (done.item, done.etag) == (dict(stored), stored["_etag"])


def test_nothing_changed_is_a_read(update: Caller) -> None:
    assert update(lambda found: found).outcome == "unchanged"
    assert update.requests() == ["read 200"]


def test_by_hand_it_is_the_same_requests(lab: CosmosLab, container: Any) -> None:
    item = container.create_item({"id": uuid.uuid4().hex, "pk": "p", "n": 100})
    by_hand = Caller(lab, container, "sync")
    by_hand._begin(())
    found = container.read_item(item["id"], "p")
    container.replace_item(
        item["id"], {**found, "n": 105}, etag=found["_etag"], match_condition=MatchConditions.IfNotModified
    )
    assert by_hand.requests() == ["read 200", "replace 200"]


#: Faults of one write: what the service gets, and what is reported.
ONCE: list[tuple[str, list[str], dict[str, Any]]] = [
    ("drop-request op=replace", ["read 200", "replace 503", "read 200", "replace 200"], {"attempts": 2}),
    ("reset op=replace", ["read 200", "replace 503", "read 200", "replace 200"], {"attempts": 2}),
    ("drop-reply op=replace", ["read 200", "replace 200", "read 200"], {"recovered": True}),
    ("reset-reply op=replace", ["read 200", "replace 200", "read 200"], {"recovered": True}),
    ("truncate op=replace", ["read 200", "replace 200", "read 200"], {"recovered": True}),
    ("status=503 op=replace", ["read 200", "replace 503", "read 200", "replace 200"], {"attempts": 2}),
    ("status=500 op=replace", ["read 200", "replace 500", "read 200", "replace 200"], {"attempts": 2}),
    ("status=408 op=replace", ["read 200", "replace 408", "read 200", "replace 200"], {"attempts": 2}),
    ("status=410/1002 op=replace", ["read 200", "replace 410", "read 200", "replace 200"], {"attempts": 2}),
    ("status=449 op=replace", ["read 200", "replace 449", "replace 200"], {"attempts": 2, "throttles": 1}),
    (
        "status=429/3200 op=replace retry-after-ms=5",
        ["read 200", "replace 429", "replace 200"],
        {"throttles": 1},
    ),
    ("status=429/3200 op=read retry-after-ms=5", ["read 429", "read 200", "replace 200"], {"throttles": 1}),
    ("status=404/1002 op=read", ["read 404", "read 200", "replace 200"], {}),
    ("status=503 op=read", ["read 503", "read 200", "replace 200"], {}),
    ("status=412 op=replace", ["read 200", "replace 412", "read 200", "replace 200"], {"attempts": 2}),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("fault", "requests", "reported"), ONCE, ids=[each[0] for each in ONCE])
def test_a_fault_that_passes(update: Caller, fault: str, requests: list[str], reported: dict[str, Any]) -> None:
    """Applied exactly once, without the SDK's own repetitions of writes, and counted as what it was."""
    done = update(add_five, f"{fault} times=1")
    assert [each for each in update.requests() if each.startswith("re")] == requests
    wanted = {
        "outcome": "applied",
        "attempts": 1,
        "conflicts": 0,
        "throttles": 0,
        "recovered": False,
    } | reported
    assert {name: getattr(done, name) for name in wanted} == wanted
    assert done.item["n"] == update.stored()["n"] == 105


#: Faults that stay: the end, and whether anything was written.
FOR_EVER: list[tuple[str, type[LatchError], int]] = [
    ("status=429/3200 op=replace retry-after-ms=400", BackendThrottled, 100),
    ("status=449 op=replace", BackendThrottled, 100),
    ("status=503 op=replace", OutcomeUnknown, 100),
    ("drop-request op=replace", OutcomeUnknown, 100),
    ("status=412 op=replace", contracts.BehindSession, 100),
    ("status=404/1002 op=read", contracts.BehindSession, 100),
    ("status=408 op=read", BackendUnavailable, 100),
    ("status=413 op=replace", contracts.UpdateRefused, 100),
    ("status=403/1014 op=replace", contracts.UpdateRefused, 100),
    ("status=401 op=replace", BackendDenied, 100),
    ("status=403 op=read", BackendDenied, 100),
    ("status=404/1003 op=read", BackendMisconfigured, 100),
]


@pytest.mark.parametrize(("fault", "kind", "stored"), FOR_EVER, ids=[each[0] for each in FOR_EVER])
def test_a_fault_that_stays(update: Caller, fault: str, kind: type[LatchError], stored: int) -> None:
    """Ends by the deadline, as what it is; the SDK's error is the cause where there was one."""
    started = time.monotonic()
    with pytest.raises(kind) as caught:
        update(add_five, fault, deadline=0.6)
    assert type(caught.value) is kind
    # Not to show speed: the SDK alone takes 30 seconds for the first, and for ever for others.
    assert time.monotonic() - started < 6
    update.lab.call(update.lab.account.admin.clear_rules)
    assert update.stored()["n"] == stored


def test_the_reply_of_each_write_is_lost(update: Caller) -> None:
    done = update(add_five, "drop-reply op=replace")
    assert (done.recovered, done.item["n"]) == (True, 105)


@pytest.mark.parametrize("fault", ["delay-reply=5 op=replace times=1", "delay=5 op=replace times=1"])
def test_a_write_that_hangs_leaves_time_to_look(update: Caller, fault: str) -> None:
    """It gets half of the time; then the item tells, for which two seconds are enough on a busy machine."""
    done = update(add_five, fault, deadline=4.0)
    assert done.outcome == "applied"
    assert update.stored()["n"] == 105


def test_absent(update: Caller) -> None:
    """Under another key, too: the two look the same, and the message says so."""
    with pytest.raises(contracts.ItemAbsent, match="wrong partition key looks the same") as caught:
        update(add_five, key="q")
    assert isinstance(caught.value, LookupError)
    assert getattr(caught.value.__cause__, "status_code", None) == 404


def test_a_partition_key_is_not_changed(update: Caller) -> None:
    """Refused before anything is sent, by what the SDK keeps of the container."""
    with pytest.raises(UsageError, match="partition key"):
        update(lambda found: {**found, "pk": "q"})
    assert update.requests() == ["read 200"]


def test_change_is_called_once(update: Caller) -> None:
    """A change that is not deterministic is not asked again, whatever is sent again."""
    drawn: list[str] = []

    def draw(found: Item) -> None:
        drawn.append(uuid.uuid4().hex)
        found["drawn"] = drawn[-1]

    done = update(draw, "status=503 op=replace times=3", "status=449 op=replace times=2")
    assert [done.item["drawn"]] == drawn


def test_the_list_of_operations_grows_to_its_bound(update: Caller) -> None:
    for _ in range(3):
        update(add_five)
    assert len(update.stored()[PROPERTY].split()) == 3


def test_a_bad_argument(update: Caller) -> None:
    for deadline in (0, -1, float("nan"), float("inf"), 4_000, "5", True, None):
        with pytest.raises(UsageError, match="deadline"):
            update(add_five, deadline=deadline)
    with pytest.raises(UsageError, match="functions"):
        update(None)
    with pytest.raises(UsageError, match="functions"):
        update(add_five, reconcile="three_way")


def test_an_error_of_the_change_is_the_callers(update: Caller) -> None:
    with pytest.raises(ZeroDivisionError):
        update(lambda found: 1 // 0)
    assert update.requests() == ["read 200"]


def test_based_on_what_a_user_has_seen(update: Caller) -> None:
    """Without a read; and whoever changed it since is noticed."""
    seen = update.stored()
    assert update(add_five, based_on=seen).item["n"] == 105
    assert update.requests() == ["replace 200"]
    with pytest.raises(contracts.ConflictNeedsDecision) as caught:
        update(lambda found: {**found, "n": 7}, based_on=seen)
    assert (caught.value.base["n"], caught.value.theirs["n"], caught.value.mine["n"]) == (100, 105, 7)


def test_a_client_without_content_on_writes(lab: CosmosLab, container: Any) -> None:
    """The item is what was written, with its new version."""
    item = container.create_item({"id": uuid.uuid4().hex, "pk": "p", "n": 100})
    with CosmosClient(lab.endpoint, lab.key, no_response_on_write=True) as client:
        mine = client.get_database_client("d").get_container_client("c")
        done = contracts.update_item(mine, item["id"], "p", add_five)
    stored = container.read_item(item["id"], "p")
    assert (done.item["n"], done.etag, done.item["_etag"]) == (105, stored["_etag"], stored["_etag"])


def test_asyncio_takes_coroutine_functions(lab: CosmosLab, container: Any) -> None:
    item = container.create_item({"id": uuid.uuid4().hex, "pk": "p", "n": 100})

    async def change(found: Item) -> Item:
        await asyncio.sleep(0)
        container.replace_item(item["id"], {**found, "n": found["n"] + 1})
        return {**found, "n": found["n"] + 5}

    async def rule(base: Item, theirs: Item, mine: Item) -> Item:
        await asyncio.sleep(0)
        return {**theirs, "n": theirs["n"] + mine["n"] - base["n"]}

    async def main() -> Any:
        async with AsyncCosmosClient(lab.endpoint, lab.key) as client:
            mine = client.get_database_client("d").get_container_client("c")
            return await aio.update_item(mine, item["id"], "p", change, reconcile=rule)

    done = asyncio.run(main())
    assert (done.item["n"], done.conflicts) == (106, 1)


def test_sync_refuses_coroutine_functions(container: Any) -> None:
    item = container.create_item({"id": uuid.uuid4().hex, "pk": "p", "n": 100})

    async def change(found: Item) -> Item:
        return found

    with pytest.raises(UsageError, match=r"contracts\.aio"):
        contracts.update_item(container, item["id"], "p", change)


class Wrapped:
    """A container that passes on what it knows, and hides all else: no hooks come through."""

    def __init__(self, container: Any) -> None:
        self._container = container

    def read_item(self, item: str, partition_key: str, **options: Any) -> Any:
        return self._container.read_item(item, partition_key)

    def replace_item(self, item: str, body: Item, **options: Any) -> Any:
        kept = {name: options[name] for name in ("etag", "match_condition")}
        return self._container.replace_item(item, body, **kept)


@pytest.mark.parametrize(
    "fault", ["status=503 op=replace times=1", "drop-reply op=replace times=1", "status=449 op=replace times=1"]
)
def test_without_hooks_the_item_still_tells(lab: CosmosLab, container: Any, fault: str) -> None:
    """What the SDK does on its own is then not seen, and not trusted: each refusal is in doubt."""
    item = container.create_item({"id": uuid.uuid4().hex, "pk": "p", "n": 100})
    lab.add_rule(fault)
    done = contracts.update_item(Wrapped(container), item["id"], "p", add_five)  # type: ignore[arg-type]
    assert done.outcome == "applied"
    assert done.request_charge > 0
    assert container.read_item(item["id"], "p")["n"] == 105
