"""The Blob backend on the service's rules in memory: requests counted, replies lost, conditions refused."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from azlatch.backends.blob import BlobBackend, blob_of, digest_of, lease_of
from azlatch.backends.blob_service import Answer, Refused
from azlatch.backends.protocol import Granted, Held
from azlatch.core.acquisition import Orphan
from azlatch.core.instance import Instance
from azlatch.core.lease import MOST_TEXT, SECOND_BITS, Record, blank, next_fence, record_of
from azlatch.core.record import Claim, Grant
from azlatch.errors import (
    BackendMisconfigured,
    BackendThrottled,
    BackendUnavailable,
    OutcomeUnknown,
    UsageError,
)
from azlatch.runtime.connection import Connection
from azlatch.runtime.env import REAL
from azlatch.runtime.latches import Latches
from azlatch.testing.simulated_blob import SimulatedBlobs, SimulatedBlobService

HOLDER = Instance("2" * 32, "host-2", 8, 0.0, "role")
Fault = Callable[[], None]


class Scripted(SimulatedBlobService):
    """Counts the requests; a fault is raised before or after the one that it is set for."""

    def __init__(self, container: SimulatedBlobs) -> None:
        super().__init__(container)
        self.calls: Counter[str] = Counter()
        self.before: dict[str, list[Exception]] = {}
        self.after: dict[str, list[Exception]] = {}
        self.meanwhile: dict[str, Callable[[], object]] = {}

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        verbs = ("head", "create", "acquire", "renew", "release", "break_lease", "describe", "delete")
        if name not in verbs:
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            if name in self.meanwhile:
                self.meanwhile.pop(name)()
            if self.before.get(name):
                raise self.before[name].pop(0)
            value = found(*args, **kwargs)
            if self.after.get(name):
                raise self.after[name].pop(0)
            return value

        return call


class Clock:
    """The service's clock."""

    def __init__(self) -> None:
        self.at = 1_800_000_000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock()


@pytest.fixture(name="container")
def _container(clock: Clock) -> SimulatedBlobs:
    return SimulatedBlobs(clock)


@pytest.fixture(name="service")
def _service(container: SimulatedBlobs) -> Scripted:
    return Scripted(container)


@pytest.fixture(name="backend")
def _backend(service: Scripted) -> Iterator[BlobBackend]:
    backend = BlobBackend.from_service(lambda env: service)
    backend.open(REAL, lambda name: None, create=False, until=soon())
    yield backend
    backend.close()


def soon() -> float:
    return REAL.now() + 30.0


def claim(name: str = "a", *, nonce: str | None = None, fenced: bool = True) -> Claim:
    now = REAL.now()
    return Claim(name, nonce or REAL.nonce(), 15.0, now, now, REAL.wall(), HOLDER, False, None, fenced)


def granted(backend: BlobBackend, asked: Claim | None = None) -> Grant:
    reply = backend.acquire(asked or claim(), soon())
    assert isinstance(reply, Granted)
    return reply.grant


def lost() -> OutcomeUnknown:
    return OutcomeUnknown("the reply was lost")


# -- requests per operation ----------------------------------------------------------------------------


@pytest.mark.parametrize(("fenced", "most"), [(True, 3), (False, 2)])
def test_requests_of_a_known_name(fenced: bool, most: int, service: Scripted) -> None:
    """Acquire and release of a known name are three requests, or two without a fence."""
    latches = Latches(Connection(BlobBackend.from_service(lambda env: service), REAL, fence=fenced))
    latches.acquire("a").release()
    service.calls.clear()
    for _ in range(5):
        latches.acquire("a").release()
    assert sum(service.calls.values()) == 5 * most
    latches.close()


def test_requests_of_a_new_name(backend: BlobBackend, service: Scripted) -> None:
    """The first grant of all looks, makes the blob, leases it and describes it."""
    granted(backend)
    assert service.calls == {"head": 1, "create": 1, "acquire": 1, "describe": 1}


def test_waiters_look_first(backend: BlobBackend, service: Scripted, container: SimulatedBlobs) -> None:
    """A waiter makes one failed request at most; after that it only looks until it may try."""
    other = BlobBackend.from_service(lambda env: SimulatedBlobService(container))
    other.open(REAL, lambda name: None, create=False, until=soon())
    mine = granted(backend)
    backend.release(mine, soon())
    theirs = granted(other)
    service.calls.clear()
    pauses = []
    for _ in range(6):
        reply = backend.acquire(claim(), soon())
        assert isinstance(reply, Held)
        pauses.append(reply.look_in)
    assert service.calls["acquire"] <= 1
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[-1] <= 2.0
    other.release(theirs, soon())
    assert isinstance(backend.acquire(claim(), soon()), Granted)


def test_the_holder_is_named(backend: BlobBackend, container: SimulatedBlobs) -> None:
    """Who waits is told who holds it; of an infinite lease, which azlatch never takes, nobody knows."""
    granted(backend)
    reply = backend.acquire(claim(), soon())
    assert isinstance(reply, Held)
    assert reply.holder == HOLDER
    container.blobs[blob_of("a")].duration = -1
    reply = backend.acquire(claim(), soon())
    assert isinstance(reply, Held)
    assert reply.holder is None


# -- replies that are lost (M5, L1, L2) -------------------------------------------------------------------


def test_a_lost_reply_to_the_acquire(backend: BlobBackend, service: Scripted) -> None:
    """It is asked again with the same id, and is the same lease."""
    service.after["acquire"] = [lost()]
    grant = granted(backend)
    assert backend.renew(grant, REAL.now(), soon()) is None


def test_two_lost_replies_to_the_acquire(backend: BlobBackend, service: Scripted) -> None:
    """Then the outcome is unknown, and the next send of the same claim finds its own lease."""
    asked = claim()
    service.after["acquire"] = [lost(), lost()]
    with pytest.raises(OutcomeUnknown):
        backend.acquire(asked, soon())
    assert isinstance(backend.acquire(claim(), soon()), Held)
    assert backend.renew(granted(backend, asked), REAL.now(), soon()) is None


@pytest.mark.parametrize("applied", [True, False])
def test_a_lost_reply_to_the_description(
    applied: bool, backend: BlobBackend, service: Scripted, container: SimulatedBlobs, clock: Clock
) -> None:
    """Whether it was written or not, the next send gets one grant, under the fence of the first (L1)."""
    asked = claim()
    (service.after if applied else service.before)["describe"] = [lost()]
    with pytest.raises(OutcomeUnknown):
        backend.acquire(asked, soon())
    clock.at += 5
    grant = granted(backend, asked)
    assert grant.fence == 1_800_000_000 << SECOND_BITS
    found = record_of(container.blobs[blob_of("a")].table)
    assert found is not None
    assert (found.fence, found.grant) == (grant.fence, digest_of(lease_of(asked.nonce)))


def test_a_description_that_fails_grants_nothing(backend: BlobBackend, service: Scripted) -> None:
    """The lease goes back, and the next contender has the name at once (L2)."""
    service.before["describe"] = [BackendThrottled("later")]
    with pytest.raises(BackendThrottled):
        backend.acquire(claim(), soon())
    assert service.calls["release"] == 1
    granted(backend)


def test_a_lease_that_cannot_go_back_is_open(backend: BlobBackend, service: Scripted) -> None:
    """If nothing confirms that the lease is free, the claim is unknown, and its janitor frees it."""
    asked = claim()
    service.before["describe"] = [BackendThrottled("later")]
    service.before["release"] = [BackendUnavailable("down")]
    with pytest.raises(OutcomeUnknown):
        backend.acquire(asked, soon())
    assert isinstance(backend.acquire(claim(), soon()), Held)
    backend.settle("a", Orphan(asked.nonce, None, asked.sent), soon())
    granted(backend)


def test_a_blob_that_is_deleted_in_the_middle(backend: BlobBackend, service: Scripted) -> None:
    """Between lease and description: nothing is granted, and it is no contention."""
    service.meanwhile["describe"] = lambda: service.container.blobs.clear()
    with pytest.raises(BackendUnavailable, match="deleted"):
        backend.acquire(claim(), soon())
    granted(backend)


def test_a_lost_reply_to_a_release(
    backend: BlobBackend, service: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """It is confirmed by asking again, quietly; and a newer hold is not touched by it."""
    grant = granted(backend)
    service.after["release"] = [lost()]
    with caplog.at_level(logging.INFO):
        backend.release(grant, soon())
    assert caplog.records == []
    newer = granted(backend)
    backend.release(grant, soon())
    assert backend.renew(newer, REAL.now(), soon()) is None


def test_a_late_acquire_finds_another_version(
    backend: BlobBackend, service: Scripted, container: SimulatedBlobs
) -> None:
    """A request that lands late was made for a version that is gone: it takes nothing (L1, R5)."""
    asked = claim()
    first = granted(backend)
    backend.release(first, soon())
    etag = container.blobs[blob_of("a")].etag
    service.before["acquire"] = [lost(), lost()]
    with pytest.raises(OutcomeUnknown):
        backend.acquire(asked, soon())
    orphan = Orphan(asked.nonce, None, asked.sent)
    assert not backend.settle("a", orphan, soon())
    second = granted(backend)
    backend.release(second, soon())
    with pytest.raises(Refused) as refused:
        SimulatedBlobService(container).acquire(blob_of("a"), lease_of(asked.nonce), 15, etag, soon())
    assert refused.value.no == "changed"
    assert backend.settle("a", orphan, soon())


def test_another_lease_id_is_a_loss(backend: BlobBackend, service: Scripted, monkeypatch: Any) -> None:
    """An answer with an id that is not ours is no grant and no renewal, whatever its status (L1)."""
    grant = granted(backend)
    foreign = Answer('"1"', None, lease_of("f" * 32))
    monkeypatch.setattr(SimulatedBlobService, "renew", lambda *_: foreign)
    gone = backend.renew(grant, REAL.now(), soon())
    assert gone is not None
    assert gone.reason == "stolen"
    backend.release(grant, soon())
    monkeypatch.setattr(SimulatedBlobService, "acquire", lambda *_: foreign)
    assert isinstance(backend.acquire(claim(), soon()), Held)


# -- fences (F1, F2) --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("previous", "now", "fence"),
    [
        (None, 100.9, 100 << 20),
        (None, None, None),
        (7, None, 8),
        (7, 100.0, 100 << 20),
        ((100 << 20) + 5, 100.0, (100 << 20) + 6),
        (101 << 20, 100.0, (101 << 20) + 1),
    ],
)
def test_fences(previous: int | None, now: float | None, fence: int | None) -> None:
    """The one before and one, or the service's time, whichever is more; nothing is made of nothing."""
    assert next_fence(previous, now) == fence


@pytest.mark.parametrize("happens", ["purged", "wiped", "deleted"])
def test_fences_rise_past_a_record_that_is_gone(
    happens: str, backend: BlobBackend, container: SimulatedBlobs, clock: Clock
) -> None:
    """Whoever removed the record, the next fence is higher (M2)."""
    first = granted(backend)
    backend.release(first, soon())
    clock.at += 3
    if happens == "purged":
        assert backend.purge(0, soon()) == 1
    elif happens == "wiped":
        container.wipe(blob_of("a"))
    else:
        del container.blobs[blob_of("a")]
    second = granted(backend)
    assert first.fence is not None
    assert second.fence is not None
    assert second.fence > first.fence


def test_a_purge_waits_for_the_clock(backend: BlobBackend, clock: Clock) -> None:
    """A record whose fence is of this very second stays: time alone would make the same fence again."""
    backend.release(granted(backend), soon())
    assert backend.purge(0, soon()) == 0
    clock.at += 3
    assert backend.purge(0, soon()) == 1


def test_a_purge_takes_nothing_that_is_used(
    backend: BlobBackend, container: SimulatedBlobs, service: Scripted, clock: Clock
) -> None:
    """Not what is held, not what another program made, not what was granted since it was listed."""
    held = granted(backend, claim("held"))
    backend.release(granted(backend, claim("free")), soon())
    SimulatedBlobService(container).create("foreign", {}, soon())
    clock.at += 10
    service.meanwhile["delete"] = lambda: granted(backend, claim("free"))
    assert backend.purge(0, soon()) == 0
    assert set(container.blobs) == {"held", "free", "foreign"}
    assert held.fence is not None


def test_a_purge_leaves_what_was_not_released(
    backend: BlobBackend, container: SimulatedBlobs, clock: Clock
) -> None:
    """The record of a hold that only expired stays until the next grant has said how it ended."""
    dead = granted(backend)
    clock.at += 100
    assert backend.purge(0, soon()) == 0
    other = BlobBackend.from_service(lambda env: SimulatedBlobService(container))
    other.open(REAL, lambda name: None, create=False, until=soon())
    reply = other.acquire(claim(), soon())
    other.close()
    assert isinstance(reply, Granted)
    assert (reply.previous_fence, reply.takeover) == (dead.fence, "expired")


def test_a_purge_takes_what_was_left_long_ago(backend: BlobBackend, clock: Clock) -> None:
    """Names of holders that died do not pile up: an hour later nobody needs to know how the hold ended."""
    dead = granted(backend)
    clock.at += 3_700
    assert backend.purge(0, soon()) == 1
    newer = granted(backend)
    assert (newer.fence or 0) > (dead.fence or 0)


def test_two_instances_never_make_one_fence(backend: BlobBackend, container: SimulatedBlobs) -> None:
    """What one remembers of a name is a version: an acquire on an older one is refused, and looks again."""
    other = BlobBackend.from_service(lambda env: SimulatedBlobService(container))
    other.open(REAL, lambda name: None, create=False, until=soon())
    fences = []
    for _ in range(3):
        for each in (backend, other):
            grant = granted(each)
            fences.append(grant.fence)
            each.release(grant, soon())
    assert fences == sorted(set(fences), key=lambda fence: fence or 0)


def test_no_date_no_first_fence(backend: BlobBackend, monkeypatch: Any) -> None:
    """F1: without a record and without the service's time there is no knowledge, and no 0."""
    monkeypatch.setattr(SimulatedBlobService, "_date", lambda self: None)
    with pytest.raises(BackendMisconfigured, match="Date"):
        backend.acquire(claim(), soon())
    # And the lease that was taken for it went back: whoever mends the proxy does not meet "held".
    view = backend.read("a", soon())
    assert view is not None
    assert view.state == "free"


# -- what lies beside the lease (L2, L3) --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "\N{GRINNING FACE}" * 1_024, "%" * 1_024, "  x  ", "é\u202e", "="])
def test_records_fit(name: str) -> None:
    """Every name, with the longest texts beside it, fits into the metadata of a blob, and comes back."""
    holder = Instance("1" * 32, "\N{GRINNING FACE}" * 200, 2**22, 1.8e9, "ä" * 200)
    record = Record(name, 2**53, "0" * 32, 30.0, 1.8e9, holder, "\N{GRINNING FACE}" * 5_000)
    table = record.to_table()
    text = "".join(f"{key}{value}" for key, value in table.items())
    assert len(text) < 8_000
    assert text.isascii()
    assert text.isprintable()
    assert " " not in text
    again = record_of(table)
    assert again is not None
    assert again.name == name
    assert again.fence == 2**53
    assert holder.host.startswith(again.holder.host)
    assert len(again.note.encode()) * 3 <= MOST_TEXT


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"v":1}', '{"v":2}', "[" * 5_000, '{"v":1,"fence":1e999}', blank("a")["azlatch"]],
)
def test_damaged_records_are_unknown(text: str, backend: BlobBackend, container: SimulatedBlobs) -> None:
    """Metadata that a person changed say nothing, and are in nobody's way (L3)."""
    backend.release(granted(backend), soon())
    stored = container.blobs[blob_of("a")]
    stored.table, stored.etag = {"azlatch": text}, container.etag()
    view = backend.read("a", soon())
    assert view is not None
    assert (view.state, view.fence, view.holder) == ("free", None, None)
    granted(backend)


def test_a_foreign_lease(backend: BlobBackend, container: SimulatedBlobs) -> None:
    """Another program's lease, on a blob with any name, is seen, named an orphan if infinite, and broken."""
    service = SimulatedBlobService(container)
    service.create("locks/host", {}, soon())
    service.acquire("locks/host", lease_of("9" * 32), -1, None, soon())
    (view,) = backend.list(soon())
    assert (view.name, view.state, view.holder, view.certain) == ("locks/host", "held", None, False)
    assert "infinite" in view.orphan
    assert backend.read("locks/host", soon()) == view
    broken = backend.break_hold("locks/host", None, "ops", "47 hours", now=False, until=soon())
    assert broken is not None
    assert (broken.fence, broken.free_in) == (None, 0.0)
    assert backend.break_hold("locks/host", None, "ops", "again", now=False, until=soon()) is None


def test_who_did_not_release_is_said(backend: BlobBackend, clock: Clock) -> None:
    """A grant says that the holder before it had not released: by expiry, and after a break too."""
    first = granted(backend)
    assert isinstance(backend.acquire(claim(), soon()), Held)
    clock.at += 15
    reply = backend.acquire(claim(), soon())
    assert isinstance(reply, Granted)
    assert (reply.takeover, reply.previous_fence) == ("expired", first.fence)
    backend.break_hold("a", reply.grant.fence, "ops", "stuck", now=False, until=soon())
    clock.at += 15
    reply = backend.acquire(claim(), soon())
    assert isinstance(reply, Granted)
    assert reply.takeover == "expired"
    backend.release(reply.grant, soon())
    reply = backend.acquire(claim(), soon())
    assert isinstance(reply, Granted)
    assert reply.takeover is None


# -- breaks (B1, B2) ------------------------------------------------------------------------------------------


def test_a_break_leaves_the_rest_of_the_lease(backend: BlobBackend, clock: Clock) -> None:
    """The name is granted again when what remains of the lease is over; who and why is told (B1, B2)."""
    grant = granted(backend)
    clock.at += 5
    broken = backend.break_hold("a", grant.fence, "ops", "stuck", now=False, until=soon())
    assert broken is not None
    assert broken.free_in == 10.0
    view = backend.read("a", soon())
    assert view is not None
    assert (view.state, view.breaker, view.reason) == ("broken", "ops", "stuck")
    assert isinstance(backend.acquire(claim(), soon()), Held)
    gone = backend.renew(grant, REAL.now(), soon())
    assert gone is not None
    assert gone.reason == "broken"
    clock.at += 10
    newer = granted(backend)
    view = backend.read("a", soon())
    assert view is not None
    assert (view.state, view.breaker) == ("held", "")
    assert backend.renew(newer, REAL.now(), soon()) is None


def test_a_break_of_what_was_granted_meanwhile(backend: BlobBackend, service: Scripted, clock: Clock) -> None:
    """The break is of the version that was seen; a newer grant is not hit by it (B1)."""
    old = granted(backend)
    clock.at += 20

    def another() -> None:
        granted(backend)

    service.meanwhile["break_lease"] = another
    with pytest.raises(UsageError, match="granted to another"):
        backend.break_hold("a", old.fence, "ops", "stuck", now=True, until=soon())
    assert isinstance(backend.acquire(claim(), soon()), Held)


def test_a_lost_reply_to_a_break(backend: BlobBackend, service: Scripted) -> None:
    """Whether it was broken is read back."""
    grant = granted(backend)
    service.after["break_lease"] = [lost()]
    broken = backend.break_hold("a", grant.fence, "ops", "stuck", now=False, until=soon())
    assert broken is not None
    assert broken.free_in > 0
    other = granted(backend, claim("b"))
    service.before["break_lease"] = [lost()]
    with pytest.raises(OutcomeUnknown):
        backend.break_hold("b", other.fence, "ops", "stuck", now=False, until=soon())


def test_a_break_whose_reason_cannot_be_kept(backend: BlobBackend, container: SimulatedBlobs) -> None:
    """Another program's lease of the blob that says why keeps no operator from breaking the hold."""
    grant = granted(backend)
    SimulatedBlobService(container).create("a~broken", {}, soon())
    SimulatedBlobService(container).acquire("a~broken", lease_of("1" * 32), 60, None, soon())
    broken = backend.break_hold("a", grant.fence, "op", "stuck", now=True, until=soon())
    assert broken is not None
    gone = backend.renew(grant, 0.0, soon())
    assert gone is not None
    assert gone.reason == "broken"


def test_a_holder_that_was_broken_at_once_is_told_so(backend: BlobBackend) -> None:
    """Also where another has the name already and the service only says that the lease is another's."""
    grant = granted(backend)
    backend.break_hold("a", grant.fence, "ops", "stuck", now=True, until=soon())
    granted(backend)
    gone = backend.renew(grant, REAL.now(), soon())
    assert gone is not None
    assert gone.reason == "broken"


# -- notes, forks, unfenced -----------------------------------------------------------------------------------


def test_notes(backend: BlobBackend, container: SimulatedBlobs) -> None:
    """A note is one request, costs nothing later, and says when the hold is gone."""
    grant = granted(backend)
    assert backend.note(grant, "page 7", soon()) is None
    view = backend.read("a", soon())
    assert view is not None
    assert (view.note, view.fence) == ("page 7", grant.fence)
    backend.release(grant, soon())
    newer = granted(backend)
    assert backend.note(grant, "late", soon()) is not None
    assert newer.fence == (grant.fence or 0) + 1


def test_without_a_fence(backend: BlobBackend) -> None:
    """Nothing is written, so there is nothing to note it in, and nothing that says who holds it."""
    grant = granted(backend, claim(fenced=False))
    assert grant.fence is None
    with pytest.raises(UsageError, match="fence=True"):
        backend.note(grant, "x", soon())
    view = backend.read("a", soon())
    assert view is not None
    assert (view.state, view.holder, view.certain) == ("held", None, False)


@pytest.mark.parametrize("step", ["create", "head", "acquire"])
def test_a_doctor_that_gets_no_answer_says_so(step: str, backend: BlobBackend, service: Scripted) -> None:
    """A lost reply is a finding, not the end of the report."""
    if step == "head":
        service.create("azlatch-doctor~probe", {}, soon())
    service.after[step] = [lost() if step != "head" else BackendUnavailable("later")]
    checks = {check.what: check.status for check in backend.doctor(apply=False)}
    assert (checks["rights"], checks["clock"]) == ("wrong", "warn")


def test_a_given_client_is_the_parents() -> None:
    """A forked child does not use connections that it shares with its parent."""
    from azure.storage.blob import ContainerClient

    with ContainerClient("https://a.blob.core.windows.net", "c", credential="sig=x") as client:
        backend = BlobBackend(client)
        backend.forked()
        with pytest.raises(UsageError, match="in the child"):
            backend.open(REAL, lambda name: None, create=False, until=soon())


def test_clients_that_cannot_be_safe() -> None:
    """H2: an asyncio client and a retry policy of the user's own are refused by their names."""
    from azure.core.pipeline.policies import RetryPolicy
    from azure.storage.blob import ContainerClient
    from azure.storage.blob.aio import ContainerClient as AsyncClient

    url = "https://a.blob.core.windows.net"
    with pytest.raises(UsageError, match=r"azure\.storage\.blob\.aio"):
        BlobBackend(AsyncClient(url, "c", credential="sig=x", transport=object()))  # type: ignore[arg-type]
    with (
        ContainerClient(url, "c", credential="sig=x", retry_policy=RetryPolicy()) as client,
        pytest.raises(UsageError, match="RetryPolicy"),
    ):
        BlobBackend(client)
