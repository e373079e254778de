"""Resends of the Blob backend, step by step: what lands late, what is refused, what is read back."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from azlatch.backends.blob import BlobBackend
from azlatch.backends.protocol import Granted, Held
from azlatch.core.acquisition import Orphan
from azlatch.core.instance import Instance
from azlatch.core.record import Claim
from azlatch.errors import BackendUnavailable, OutcomeUnknown
from azlatch.testing.simulated_blob import SimulatedBlobs, SimulatedBlobService
from azlatch.testing.virtual import World

SOON = 1e12


class Requests(SimulatedBlobService):
    """The service, with what happens to the next requests of a kind: each is given the request to make."""

    def __init__(self, container: SimulatedBlobs) -> None:
        super().__init__(container)
        self.planned: dict[str, list[Callable[[Callable[[], Any]], Any]]] = {}

    def plan(self, kind: str, *what: Callable[[Callable[[], Any]], Any]) -> None:
        self.planned[kind] = list(what)

    def _make(self, kind: str, *arguments: Any) -> Any:
        def request() -> Any:
            return getattr(SimulatedBlobService, kind)(self, *arguments)

        planned = self.planned.get(kind)
        return planned.pop(0)(request) if planned else request()

    def head(self, *arguments: Any) -> Any:
        return self._make("head", *arguments)

    def acquire(self, *arguments: Any) -> Any:
        return self._make("acquire", *arguments)

    def describe(self, *arguments: Any) -> Any:
        return self._make("describe", *arguments)

    def release(self, *arguments: Any) -> Any:
        return self._make("release", *arguments)


def lost(request: Callable[[], Any]) -> Any:
    """Never arrives, and nobody knows."""
    raise OutcomeUnknown("lost")


def refused(request: Callable[[], Any]) -> Any:
    raise BackendUnavailable("refused")


class Later:
    """Lands when the test says so."""

    def __call__(self, request: Callable[[], Any]) -> Any:
        self.land = request
        raise OutcomeUnknown("late")


class Lab:
    """A container, a clock, and backends of several processes."""

    def __init__(self) -> None:
        self.world = World(1)
        self.container = SimulatedBlobs(lambda: self.world.time)

    def backend(self) -> tuple[BlobBackend, Requests]:
        process = self.world.process("p")
        requests = Requests(self.container)
        backend = BlobBackend.from_service(lambda env: requests)
        backend.open(process, lambda name: None, create=False, until=SOON)
        return backend, requests

    def claim(self, nonce: str = "", *, fenced: bool = True) -> Claim:
        holder = Instance("i", "h", 1, 0.0)
        return Claim("a", nonce or uuid.uuid4().hex, 30.0, 0.0, 0.0, 0.0, holder, True, None, fenced)

    def lease_of_a(self) -> str:
        return self.container.blobs["a"].lease_id


@pytest.fixture
def lab() -> Lab:
    return Lab()


def granted(reply: Granted | Held) -> int:
    assert isinstance(reply, Granted)
    assert reply.grant.fence is not None
    return reply.grant.fence


def once(backend: BlobBackend, lab: Lab) -> int:
    """A grant and its release, so that the backend knows the version; its fence."""
    reply = backend.acquire(lab.claim(), SOON)
    assert isinstance(reply, Granted)
    backend.release(reply.grant, SOON)
    return granted(reply)


def test_a_resend_for_another_version_makes_another_fence(lab: Lab) -> None:
    """A claim that lost its lease before its metadata write is resent after another grant: the fence rises."""
    (one, requests), (other, _) = lab.backend(), lab.backend()
    claim = lab.claim()
    requests.plan("describe", lost)
    with pytest.raises(OutcomeUnknown):
        one.acquire(claim, SOON)
    lab.world.time += 31
    between = once(other, lab)
    assert granted(one.acquire(claim, SOON)) > between


def test_an_acquire_on_its_way_is_not_settled_by_a_later_answer(lab: Lab) -> None:
    """The first request for a lease is late, the second is refused: the janitor keeps looking for the first."""
    (one, requests), (other, others) = lab.backend(), lab.backend()
    once(one, lab)
    claim, late = lab.claim(), Later()
    requests.plan("acquire", late, lost)
    with pytest.raises(OutcomeUnknown):
        one.acquire(claim, SOON)
    others.plan("describe", lost)
    rival = lab.claim()
    with pytest.raises(OutcomeUnknown):
        other.acquire(rival, SOON)
    assert isinstance(one.acquire(claim, SOON), Held)
    orphan = Orphan(claim.nonce, None, 0.0)
    assert not one.settle("a", orphan, SOON)
    other.settle("a", Orphan(rival.nonce, None, 0.0), SOON)
    late.land()
    assert lab.lease_of_a() == str(uuid.UUID(claim.nonce))
    one.settle("a", orphan, SOON)
    assert lab.lease_of_a() == ""
    assert isinstance(other.acquire(lab.claim(), SOON), Granted)
    assert one.settle("a", orphan, SOON)


def test_metadata_of_a_claim_are_no_lease_of_it(lab: Lab) -> None:
    """Metadata that landed late name a claim whose lease another has by now: that is no grant (L3)."""
    (one, requests), (other, others) = lab.backend(), lab.backend()
    once(one, lab)
    claim, late = lab.claim(), Later()

    def lands_first(request: Callable[[], Any]) -> Any:
        late.land()
        raise BackendUnavailable("refused")

    requests.plan("describe", late, lands_first)
    with pytest.raises(OutcomeUnknown):
        one.acquire(claim, SOON)
    with pytest.raises(BackendUnavailable):
        one.acquire(claim, SOON)
    others.plan("describe", lost)
    with pytest.raises(OutcomeUnknown):
        other.acquire(lab.claim(), SOON)
    assert isinstance(one.acquire(claim, SOON), Held)


def test_a_refused_description_that_cannot_be_explained_leaves_no_lease(lab: Lab) -> None:
    """The metadata write is refused and the look after it fails: nothing is granted, nothing leased (L2)."""
    one, requests = lab.backend()
    once(one, lab)

    def too_late(request: Callable[[], Any]) -> Any:
        lab.container.wipe("a")
        return request()

    requests.plan("describe", too_late)
    requests.plan("head", refused)
    with pytest.raises(BackendUnavailable):
        one.acquire(lab.claim(), SOON)
    assert lab.lease_of_a() == ""


def test_a_lease_whose_release_may_be_late_is_not_taken_again(lab: Lab) -> None:
    """The release after a failed metadata write lands late: it must not end what a resend has won."""
    one, requests = lab.backend()
    once(one, lab)
    claim, late = lab.claim(), Later()
    requests.plan("describe", refused)
    requests.plan("release", late)
    with pytest.raises(OutcomeUnknown):
        one.acquire(claim, SOON)
    assert isinstance(one.acquire(claim, SOON), Held)
    late.land()
    assert isinstance(one.acquire(lab.claim(), SOON), Granted)


def test_what_lands_between_two_looks_of_the_janitor_is_freed(lab: Lab) -> None:
    """A late lease and its late metadata land while an orphan is settled: no lease is left."""
    one, requests = lab.backend()
    once(one, lab)
    claim, lease, metadata = lab.claim(), Later(), Later()

    def on_time(request: Callable[[], Any]) -> Any:
        return request()

    def after_both(request: Callable[[], Any]) -> Any:
        lease.land()
        metadata.land()
        return request()

    requests.plan("acquire", lease, on_time)
    requests.plan("describe", metadata)
    with pytest.raises(OutcomeUnknown):
        one.acquire(claim, SOON)
    requests.plan("head", after_both)
    assert not one.settle("a", Orphan(claim.nonce, None, 0.0), SOON)
    assert one.settle("a", Orphan(claim.nonce, None, 0.0), SOON)
    assert lab.lease_of_a() == ""
