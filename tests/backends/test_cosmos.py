"""The Cosmos DB backend on the lab's engine: requests counted, replies lost, clocks moved, regions lost."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from azlatch.backends import cosmos
from azlatch.backends.cosmos import CosmosBackend, check_account, least_fence
from azlatch.backends.cosmos_document import SLACK, document_of, id_of, record_of
from azlatch.backends.cosmos_service import Account
from azlatch.backends.cosmos_words import Answered, Refused, in_words
from azlatch.backends.protocol import Granted, Held
from azlatch.core.acquisition import Orphan
from azlatch.core.instance import Instance
from azlatch.core.record import Claim, Grant, granted
from azlatch.errors import (
    BackendDenied,
    BackendMisconfigured,
    BackendThrottled,
    BackendUnavailable,
    OutcomeUnknown,
    UsageError,
)
from azlatch.runtime.env import REAL
from azlatch.testing.simulated_cosmos import SimulatedCosmos, SimulatedCosmosService

HOLDER = Instance("2" * 32, "host-2", 8, 0.0, "role")
REQUESTS = ("read", "create", "replace", "patch", "delete", "query")
SOON = 1e12


class Time:
    """An Env whose clock stands still until it is moved; the service's clock goes with it, or is ahead."""

    def __init__(self) -> None:
        self.at = 50_000.0
        self.service_is_ahead = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(REAL, name)

    def now(self) -> float:
        return self.at

    def service(self) -> float:
        return self.at + self.service_is_ahead


class Scripted(SimulatedCosmosService):
    """Counts the requests; what is planned for the next of a kind is given the request to make."""

    def __init__(self, account: SimulatedCosmos, **options: Any) -> None:
        super().__init__(account, **options)
        self.calls: Counter[str] = Counter()
        self.planned: dict[str, list[Callable[[Callable[[], Any]], Any]]] = {}

    def plan(self, kind: str, *what: Callable[[Callable[[], Any]], Any]) -> None:
        self.planned[kind] = list(what)

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in REQUESTS:
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            planned = self.planned.get(name)
            return planned.pop(0)(lambda: found(*args, **kwargs)) if planned else found(*args, **kwargs)

        return call


class World:
    """An account, and any number of backends on it, each with its own client."""

    def __init__(self, **options: Any) -> None:
        self.time = Time()
        self.account = SimulatedCosmos(self.time.service, **options)

    def open(self, **options: Any) -> tuple[CosmosBackend, Scripted]:
        service = Scripted(self.account, **options)
        backend = CosmosBackend.from_service(lambda env: service)
        backend.open(self.time, lambda name: None, create=False, until=SOON)
        return backend, service

    def claim(self, name: str = "a", *, nonce: str | None = None, ttl: float = 15.0) -> Claim:
        now = self.time.at
        return Claim(name, nonce or REAL.nonce(), ttl, now, now, 0.0, HOLDER, False, None)

    def grant(self, backend: CosmosBackend, name: str = "a", **options: Any) -> Grant:
        reply = backend.acquire(self.claim(name, **options), SOON)
        assert isinstance(reply, Granted), reply
        return reply.grant

    def fence(self, backend: CosmosBackend, name: str = "a") -> int:
        fence = self.grant(backend, name).fence
        assert fence is not None
        return fence

    def item(self, name: str = "a") -> dict[str, Any]:
        return self.account.items()[id_of(name)]


def lost(request: Callable[[], Any]) -> Any:
    """Never arrives, and nobody knows."""
    raise OutcomeUnknown("lost")


def unheard(request: Callable[[], Any]) -> Any:
    """Is carried out, and nobody knows."""
    request()
    raise OutcomeUnknown("unheard")


def unavailable(request: Callable[[], Any]) -> Any:
    raise BackendUnavailable("refused")


@pytest.fixture(name="world")
def _world() -> World:
    return World()


# -- requests per operation ------------------------------------------------------------------------------


def test_requests_of_a_new_and_of_a_known_name(world: World) -> None:
    """A new name is a read, a create and a patch; a known one a replace and a patch."""
    backend, service = world.open()
    backend.release(world.grant(backend), SOON)
    assert service.calls == {"read": 1, "create": 1, "patch": 1}
    service.calls.clear()
    for _ in range(5):
        world.time.at += 2.0
        backend.release(world.grant(backend), SOON)
    assert service.calls == {"replace": 5, "patch": 5}


def test_a_name_that_nobody_spoke_of_for_long_is_looked_at_first(world: World) -> None:
    """The service's time is known for some seconds after an answer; then a read comes first."""
    backend, service = world.open()
    backend.release(world.grant(backend), SOON)
    world.time.at += cosmos.MOST_SILENCE + 1.0
    service.calls.clear()
    world.grant(backend)
    assert service.calls == {"read": 1, "replace": 1}


def test_a_held_name_is_one_read(world: World) -> None:
    """Contenders make no write while there is no sign that the holder has ended."""
    one, _ = world.open()
    other, service = world.open()
    world.grant(one)
    for _ in range(3):
        assert isinstance(other.acquire(world.claim(), SOON), Held)
    assert service.calls == {"read": 3}


# -- unknown outcomes (R5) -------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [False, True])
def test_a_lost_reply_is_read_back(world: World, known: bool) -> None:
    """An acquire that was carried out and not answered is the grant that it made."""
    backend, service = world.open()
    if known:
        backend.release(world.grant(backend), SOON)
    service.plan("replace" if known else "create", unheard)
    grant = world.grant(backend)
    assert world.item()["nonce"] == grant.nonce
    assert world.item()["fence"] == grant.fence
    assert backend.renew(grant, 0.0, SOON) is None


def test_a_lost_request_is_unknown_and_its_resend_is_one_grant(world: World) -> None:
    """Absence proves nothing; the same nonce asked again gets the name once."""
    backend, service = world.open()
    backend.release(world.grant(backend), SOON)
    claim = world.claim()
    service.plan("replace", lost)
    with pytest.raises(OutcomeUnknown) as caught:
        backend.acquire(claim, SOON)
    assert caught.value.basis == world.item()["version"]
    reply = backend.acquire(claim, SOON)
    assert isinstance(reply, Granted)
    assert reply.previous_fence is not None


def test_another_version_proves_that_a_write_failed(world: World) -> None:
    """Once a newer version without the nonce is there, an unknown write is contention."""
    one, service = world.open()
    other, _ = world.open()
    one.release(world.grant(one), SOON)

    def too_late(request: Callable[[], Any]) -> Any:
        world.grant(other)
        with pytest.raises(Refused):
            request()
        raise OutcomeUnknown("unheard")

    service.plan("replace", too_late)
    reply = one.acquire(world.claim(), SOON)
    assert isinstance(reply, Held)
    assert reply.version == world.item()["version"]


def test_what_lands_while_the_janitor_looks_is_not_settled(world: World) -> None:
    """An orphan that lands between the janitor's two requests is freed by the next look, and not forgotten."""
    backend, service = world.open()
    backend.release(world.grant(backend), SOON)
    claim = world.claim()
    late: list[Callable[[], Any]] = []

    def goes_astray(request: Callable[[], Any]) -> Any:
        late.append(request)
        raise OutcomeUnknown("astray")

    service.plan("replace", goes_astray)
    with pytest.raises(OutcomeUnknown) as caught:
        backend.acquire(claim, SOON)
    orphan = Orphan(claim.nonce, caught.value.basis, 0.0)
    assert not backend.settle("a", orphan, SOON)

    def lands_first(request: Callable[[], Any]) -> Any:
        late[0]()
        return request()

    service.plan("read", lands_first)
    assert not backend.settle("a", orphan, SOON)
    assert world.item()["state"] == "held"
    assert backend.settle("a", orphan, SOON)
    assert world.item()["state"] == "free"


def test_a_settled_nonce_never_lands(world: World) -> None:
    """Once somebody else wrote the name, an orphan is settled, and its write is refused for ever."""
    one, service = world.open()
    other, _ = world.open()
    one.release(world.grant(one), SOON)
    claim = world.claim()
    late: list[Callable[[], Any]] = []
    service.plan("replace", lambda request: (late.append(request), lost(request)))
    with pytest.raises(OutcomeUnknown) as caught:
        one.acquire(claim, SOON)
    other.release(world.grant(other), SOON)
    assert one.settle("a", Orphan(claim.nonce, caught.value.basis, 0.0), SOON)
    with pytest.raises(Refused):
        late[0]()


# -- fences (F2) -----------------------------------------------------------------------------------------


def test_a_first_fence_is_the_services_time(world: World) -> None:
    """It survives whatever was there before: no record means no knowledge."""
    backend, _ = world.open()
    assert world.fence(backend) == least_fence(world.account.time)


def test_fences_rise_over_a_deleted_item(world: World) -> None:
    """An item that was deleted by hand comes back with a higher fence, and the holder of before is gone."""
    backend, _ = world.open()
    first = world.grant(backend)
    item = world.item()
    world.time.at += 4.0
    world.account.engine.now = world.account.time
    assert world.account.engine.delete(item["id"], item["id"]).status == 204
    assert backend.renew(first, 0.0, SOON) is not None
    assert id_of("a") not in world.account.items()
    assert world.fence(backend) > (first.fence or 0)


@pytest.mark.parametrize("lifts", [True, False])
def test_fences_rise_over_a_failover_that_lost_grants(lifts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A grant from memory is younger than one that the service forgot, even where the clock here stood."""
    if not lifts:
        monkeypatch.setattr(cosmos, "FRESH", 1e9)
    world = World(regions=["East US", "West US"])
    one, service = world.open(by_region=False)
    other, _ = world.open(by_region=False)
    admin = world.account.engine.admin
    one.release(world.grant(one), SOON)
    world.time.at += 1.0
    world.account.engine.account.at(world.account.time)
    admin.pause("East US", "West US")
    # What this machine's clock does not count: it was frozen.
    world.time.service_is_ahead = 60.0
    forgotten = world.fence(other)
    world.time.service_is_ahead = 120.0
    world.account.engine.account.at(world.account.time)
    admin.offline("East US")
    assert admin.failover("West US") == 1
    service.calls.clear()
    assert (world.fence(one) > forgotten) is lifts
    assert service.calls == ({"replace": 1, "patch": 1} if lifts else {"replace": 1})


def test_a_fence_that_cannot_be_raised_is_no_grant(world: World) -> None:
    """Nobody is told of a fence that may be too old: the claim is open, and asking again settles it."""
    backend, service = world.open()
    backend.release(world.grant(backend), SOON)
    world.time.service_is_ahead = 60.0
    claim = world.claim()
    service.plan("patch", unavailable)
    with pytest.raises(OutcomeUnknown):
        backend.acquire(claim, SOON)
    reply = backend.acquire(claim, SOON)
    assert isinstance(reply, Granted)
    assert reply.grant.fence == world.item()["fence"] == least_fence(world.account.time)


def test_purge_keeps_what_is_young_or_held(world: World) -> None:
    """A record goes once the service's time is past its fence, and what is held stays."""
    backend, _ = world.open()
    first = world.grant(backend)
    world.grant(backend, "b")
    backend.release(first, SOON)
    assert backend.purge(0, SOON) == 0
    world.time.at += cosmos.PURGE_AFTER + 1.0
    assert backend.purge(60, SOON) == 0
    assert backend.purge(0, SOON) == 1
    assert list(world.account.items()) == ["b"]
    assert world.fence(backend) > (first.fence or 0)


# -- takeover by the store's clock (R3) ------------------------------------------------------------------


def test_a_one_shot_contender_gets_past_a_dead_holder(world: World) -> None:
    """Nobody has watched: one try succeeds once the ttl and the slack have passed, and not before."""
    dead, _ = world.open()
    grant = world.grant(dead)
    world.time.at += 15.0 + SLACK
    one, service = world.open()
    assert isinstance(one.acquire(world.claim(), SOON), Held)
    assert service.calls == {"read": 1}
    world.time.at += 1.0
    fresh, service = world.open()
    reply = fresh.acquire(world.claim(), SOON)
    assert isinstance(reply, Granted)
    assert (reply.takeover, reply.previous_fence) == ("expired", grant.fence)
    assert service.calls == {"read": 1, "patch": 1, "replace": 1}


def test_a_probe_is_no_beat(world: World) -> None:
    """A probe that comes too early by the item's own clock leaves the age of the last beat as it was."""
    dead, _ = world.open()
    world.grant(dead)
    beat = world.item()["_ts"]
    other, service = world.open()
    world.time.at += 10.0

    def dated_ahead(request: Callable[[], Any]) -> Any:
        answer = request()
        return answer._replace(now=answer.now + 30.0)

    service.plan("read", dated_ahead)
    assert isinstance(other.acquire(world.claim(), SOON), Held)
    assert service.calls == {"read": 1, "patch": 1}
    assert (world.item()["quiet_since"], world.item()["_ts"]) == (beat, beat + 10)
    world.time.at += 8.0
    assert isinstance(other.acquire(world.claim(), SOON), Granted)


def test_a_beat_between_the_look_and_the_probe_saves_the_holder(world: World) -> None:
    """The probe is made on the version that was seen: a renewal that comes first refuses it."""
    one, _ = world.open()
    grant = world.grant(one)
    world.time.at += 20.0
    other, service = world.open()

    def beaten(request: Callable[[], Any]) -> Any:
        assert one.renew(grant, 0.0, SOON) is None
        return request()

    service.plan("patch", beaten)
    assert isinstance(other.acquire(world.claim(), SOON), Held)
    assert one.renew(grant, 0.0, SOON) is None


def test_a_beat_between_the_probe_and_the_swap_saves_the_holder(world: World) -> None:
    """... and one that comes after it refuses the swap."""
    one, _ = world.open()
    grant = world.grant(one)
    world.time.at += 20.0
    other, service = world.open()

    def beaten(request: Callable[[], Any]) -> Any:
        assert one.renew(grant, 0.0, SOON) is None
        return request()

    service.plan("replace", beaten)
    assert isinstance(other.acquire(world.claim(), SOON), Held)
    assert world.item()["quiet_since"] == 0
    assert one.renew(grant, 0.0, SOON) is None


# -- the life of a grant ---------------------------------------------------------------------------------


def test_a_renewal_of_what_is_gone_brings_nothing_back(world: World) -> None:
    """Another holder's, a free and a missing item stay as they are."""
    one, _ = world.open()
    other, _ = world.open()
    first = world.grant(one)
    one.release(first, SOON)
    assert one.renew(first, 0.0, SOON) is not None
    assert world.item()["state"] == "free"
    second = world.grant(other)
    before = world.item()
    assert one.renew(first, 0.0, SOON) is not None
    one.release(first, SOON)
    assert world.item() == before
    assert before["nonce"] == second.nonce


def test_the_service_never_deletes_an_item(world: World) -> None:
    """Every item says so itself, whatever the container's default is."""
    backend, _ = world.open()
    grant = world.grant(backend)
    backend.renew(grant, 0.0, SOON)
    backend.release(grant, SOON)
    world.grant(backend)
    assert world.item()["ttl"] == -1


def test_a_break_hits_the_hold_whatever_its_beat(world: World) -> None:
    """A renewal between look and break does not save the hold; the ttl counts from the break."""
    one, _ = world.open()
    operator, service = world.open()
    grant = world.grant(one)
    service.plan("patch", lambda request: (one.renew(grant, 0.0, SOON), request())[1])
    broken = operator.break_hold("a", grant.fence, "me", "stuck", now=False, until=SOON)
    assert broken == (grant.fence, 15.0)
    gone = one.renew(grant, 0.0, SOON)
    assert gone is not None
    assert gone.reason == "broken"
    assert isinstance(operator.acquire(world.claim(), SOON), Held)
    one.release(grant, SOON)
    assert world.fence(operator) > (grant.fence or 0)


@pytest.mark.parametrize("fate", [lost, unheard])
def test_a_break_without_an_answer_is_read_back(world: World, fate: Callable[..., Any]) -> None:
    """It was made, and says so, or its outcome is unknown."""
    one, _ = world.open()
    operator, service = world.open()
    grant = world.grant(one)
    service.plan("patch", fate)
    if fate is lost:
        with pytest.raises(OutcomeUnknown):
            operator.break_hold("a", grant.fence, "me", "stuck", now=False, until=SOON)
    else:
        assert operator.break_hold("a", grant.fence, "me", "stuck", now=False, until=SOON)
    assert world.item()["state"] == ("held" if fate is lost else "broken")


def test_a_break_of_what_nobody_renews_frees_it(world: World) -> None:
    """By the item's own clock its ttl has passed: nobody needs to wait."""
    one, _ = world.open()
    operator, _ = world.open()
    grant = world.grant(one)
    world.time.at += 15.0 + SLACK + 2.0
    assert operator.break_hold("a", grant.fence, "me", "stuck", now=False, until=SOON) == (grant.fence, 0.0)
    assert isinstance(operator.acquire(world.claim(), SOON), Granted)


# -- what is in the way ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"nonce": "x' OR true OR c.nonce = 'x"},
        {"azlatch": 2},
        {"holder": 7},
        {"life": "soon"},
        {"state": "new"},
    ],
)
def test_a_foreign_item_is_no_latch(world: World, change: dict[str, Any]) -> None:
    """What cannot be read is misconfigured, and nothing of it gets into a condition."""
    backend, _ = world.open()
    document = {**document_of(granted(None, world.claim(), 0, "", "", "")), **change}
    world.account.engine.now = world.account.time
    world.account.engine.ok("POST", "/dbs/d/colls/c/docs/", document, {"x-ms-documentdb-partitionkey": '["a"]'})
    assert record_of(document) is None
    with pytest.raises(BackendMisconfigured, match="none of a latch"):
        backend.acquire(world.claim(), SOON)
    with pytest.raises(BackendMisconfigured):
        backend.break_hold("a", None, "me", "stuck", now=True, until=SOON)
    assert list(backend.list(SOON)) == []


def test_several_write_regions_are_refused() -> None:
    """At the first use, with the reason and the cure."""
    backend, _ = World(regions=["East US", "West US"], multiple_write_regions=True).open()
    with pytest.raises(BackendMisconfigured, match=r"2 regions \(East US, West US\).*one write region"):
        backend.read("a", SOON)


@pytest.mark.parametrize(
    ("regions", "level", "warns"), [(1, "Eventual", False), (2, "Session", True), (3, "Strong", False)]
)
def test_several_regions_below_strong_are_warned_of(
    regions: int, level: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, with the window in which two can hold a name."""
    with caplog.at_level(logging.WARNING):
        check_account(Account(("East US",), tuple(f"r{n}" for n in range(regions)), level))
    assert ("until the deadline of the earlier one" in caplog.text) is warns


@pytest.mark.parametrize(
    ("code", "of_a_write", "of_a_read"),
    [
        ((404, 0), Refused, Refused),
        ((409, 0), Refused, Refused),
        ((412, 0), Refused, Refused),
        ((404, 1002), BackendUnavailable, BackendUnavailable),
        ((404, 1003), BackendMisconfigured, BackendMisconfigured),
        ((404, 1013), BackendUnavailable, BackendUnavailable),
        ((403, 3), BackendUnavailable, BackendUnavailable),
        ((403, 1008), BackendUnavailable, BackendUnavailable),
        ((403, 5300), BackendDenied, BackendDenied),
        ((401, 0), BackendDenied, BackendDenied),
        ((400, 1001), BackendMisconfigured, BackendMisconfigured),
        ((400, 1024), BackendMisconfigured, BackendMisconfigured),
        ((413, 0), BackendMisconfigured, BackendMisconfigured),
        ((429, 3200), BackendThrottled, BackendThrottled),
        ((449, 0), BackendUnavailable, BackendUnavailable),
        ((408, 0), OutcomeUnknown, BackendUnavailable),
        ((410, 1002), OutcomeUnknown, BackendUnavailable),
        ((500, 0), OutcomeUnknown, BackendUnavailable),
        ((503, 0), OutcomeUnknown, BackendUnavailable),
    ],
)
def test_what_answers_mean(code: tuple[int, int], of_a_write: type, of_a_read: type) -> None:
    """Each answer for what it is; only where a write may have been applied is it unknown."""
    answered = Answered(code[0], {"x-ms-substatus": str(code[1]), "x-ms-retry-after-ms": "250"})
    assert type(in_words(answered, writes=True)) is of_a_write
    assert type(in_words(answered, writes=False)) is of_a_read


def test_a_throttled_answer_says_when_to_come_back() -> None:
    """In the service's own words."""
    said = in_words(Answered(429, {"x-ms-retry-after-ms": "250"}), writes=True)
    assert isinstance(said, BackendThrottled)
    assert said.retry_after == 0.25


def test_a_replica_that_is_behind_is_not_an_absence() -> None:
    """404/1002 says that nothing was read, not that there is nothing."""
    world = World(regions=["East US", "West US"])
    backend, service = world.open()
    world.grant(backend)
    service._token = "0:9#999999#0=999999#1=999999"
    with pytest.raises(BackendUnavailable, match="behind"):
        backend.acquire(world.claim(), SOON)
    assert isinstance(backend.acquire(world.claim(), SOON), Held)


def test_a_store_that_is_not_open_says_so() -> None:
    """Nothing is sent before `open`."""
    with pytest.raises(UsageError, match="not open"):
        CosmosBackend.from_service(lambda env: None).read("a", SOON)  # type: ignore[arg-type,return-value]
