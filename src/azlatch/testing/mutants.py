"""The engine with one rule undone at a time: what the simulator and the checker must be able to catch.

Each mutant names the rule of the protocol that it breaks. A mutant that nothing catches means that the
proof cannot fail there, and that is a defect of the proof.
"""

from __future__ import annotations

from typing import Any

from azlatch.backends import blob
from azlatch.backends.blob import BlobBackend
from azlatch.backends.blob_service import AzureBlobService, Refused
from azlatch.backends.protocol import Gone
from azlatch.core import acquisition, lease, record, terms
from azlatch.core.acquisition import Acquisition, Won
from azlatch.core.hold import HoldMachine, State
from azlatch.core.record import Record
from azlatch.errors import BackendError, BackendUnavailable
from azlatch.gates import fence as gate_fence
from azlatch.gates import sqlite_write
from azlatch.runtime import calls, connection, holding
from azlatch.testing import simulated_store
from azlatch.testing.cosmos_mutants import COSMOS_MUTANTS
from azlatch.testing.mutant import Mutant
from azlatch.testing.simulated_blob import SimulatedBlobService
from azlatch.testing.watched import Profile

_granted = Acquisition.granted
_attempt = Acquisition.attempt
_describe = BlobBackend._describe
_fence = BlobBackend._fence
_break_lease = SimulatedBlobService.break_lease
_SERVICES = (SimulatedBlobService, AzureBlobService)
_failed = Acquisition.failed
_renewed = HoldMachine.renewed
_takeover = record.takeover
_broken = record.broken
_rule_renewed = record.renewed
_next_fence = record.next_fence
_evidence_of = record.evidence_of
_probe = simulated_store.SimulatedBackend.probe


def _granted_from_reply(self: Acquisition, now: float, wall: float, grant: Any) -> Any:
    step = _granted(self, now, wall, grant)
    return step._replace(sent=now) if isinstance(step, Won) else step


def _renewed_from_reply(self: HoldMachine, now: float, renew: Any) -> State:
    return _renewed(self, now, renew._replace(sent=now))


def _contenders_ttl(found: Record, claim: Any, evidence: Any) -> Any:
    return _takeover(found._replace(ttl=claim.ttl), claim, evidence)


def _beat_not_raised(found: Record, nonce: str, sent: float) -> Record | None:
    return found._replace(version=found.version + 1) if record.is_own(found, nonce) else None


def _upsert_renewal(found: Record, nonce: str, sent: float) -> Record | None:
    return found._replace(
        nonce=nonce, state="held", beat=found.beat + 1, beat_at=sent, version=found.version + 1
    )


def _break_keeps_the_nonce(found: Record, **how: Any) -> Record:
    return _broken(found, **how)._replace(nonce=found.nonce)


def _own_by_nonce_alone(found: Record, nonce: str) -> bool:
    return found.nonce == nonce and found.state != "free"


def _break_frees_at_once(found: Record, **how: Any) -> Record:
    return _broken(found, **{**how, "now": True})


def _missing_fence_is_zero(found: Record | None, floor: int) -> int:
    return 1 if found is None else _next_fence(found, floor)


def _revived(self: HoldMachine, now: float, renew: Any) -> State:
    if self.state is State.LOST and self.lost_reason == "expired":
        self.state, self.lost_reason = State.HELD, None
    self.sent = max(self.sent, renew.sent)
    self.sent_wall = renew.sent_wall
    self._in_flight = None
    self._renew_at = self.sent + self.terms.renew_every
    self._schedule()
    return self.state


def _dead_by_pid(self: Any, member_id: str) -> record.Life:
    mine = self.store.members[self.member]
    other = self.store.members.get(member_id)
    if other is not None and other.pid_namespace != mine.pid_namespace:
        return "dead"
    return _probe(self, member_id)


def _missing_is_dead(self: Any, member_id: str) -> record.Life:
    life = _probe(self, member_id)
    return "dead" if life == "unknown" else life


def _trusts_the_heart(self: holding.Holding) -> State:
    return self.machine.state


def _unknown_is_failure(self: Acquisition, now: float, error: Any, jitter: float) -> Any:
    return _failed(self, now, BackendUnavailable(str(error)), jitter)


def _unknown_is_success(self: HoldMachine, now: float, renew: Any, jitter: float) -> State:
    return _renewed(self, now, renew)


def _any_clock(found: Record, life: record.Life, boot: str, time_namespace: str, now: float) -> record.Evidence:
    return _evidence_of(found._replace(time_namespace="x"), life, boot, "x", now)


def _same_epoch(epoch: int, boot_before: str, boot: str, cold: bool, now_ms: int) -> int:
    return epoch or now_ms


def _id_of_the_instance(self: Acquisition, now: float, wall: float) -> Any:
    step: Any = _attempt(self, now, wall)
    env: Any = getattr(self.new_nonce, "__self__")  # noqa: B009 - the nonces of a world come from its processes
    self._nonce = f"{env.pid():032x}"
    return step._replace(nonce=self._nonce)


_described_at: dict[str, float] = {}


def _describes_late(self: BlobBackend, claim: Any, *rest: Any) -> Any:
    _described_at[claim.nonce] = self._env.now()
    return _describe(self, claim, *rest)


def _granted_from_metadata(self: Acquisition, now: float, wall: float, grant: Any) -> Any:
    self._first_sent = max(self._first_sent, _described_at.pop(grant.nonce, 0.0))
    return _granted(self, now, wall, grant)


def _granted_without_metadata(
    self: BlobBackend, claim: Any, blob: str, lease: str, known: Any, now: Any, until: float
) -> Any:
    try:
        return _describe(self, claim, blob, lease, known, now, until)
    except BackendError:
        return self._granted(claim, self._fence(claim, known, now), known.fence, known.etag, known.takeover)


def _renews_any_id(self: BlobBackend, grant: Any, sent: float, until: float) -> Gone | None:
    try:
        self.service.renew(blob.blob_of(grant.name), blob.lease_of(grant.nonce), until)
    except Refused as refused:
        return Gone(self._why(grant, refused.no, until))
    return None


def _fence_without_date(previous: int | None, service_time: float | None) -> int | None:
    return 1 if previous is None else previous + 1


def _breaks_at_once(self: SimulatedBlobService, name: str, period: int | None, etag: str, until: float) -> Any:
    return _break_lease(self, name, 0, etag, until)


def _takes_any_version(service: Any) -> tuple[Any, str, Any]:
    def acquire(self: Any, name: str, lease_id: str, duration: int, etag: str | None, until: float) -> Any:
        return before(self, name, lease_id, duration, None, until)

    before = service.acquire
    return service, "acquire", acquire


def _describes_any_version(service: Any) -> tuple[Any, str, Any]:
    def describe(self: Any, name: str, table: Any, lease_id: str | None, etag: str | None, until: float) -> Any:
        return before(self, name, table, lease_id, None, until)

    before = service.describe
    return service, "describe", describe


def _same_fence(self: BlobBackend, claim: Any, known: Any, now: float | None) -> int:
    made = self._fences.get(claim.nonce)
    return made[0] if made is not None else _fence(self, claim, known, now)


def _settled_at_once(self: BlobBackend, name: str, orphan: Any, until: float) -> bool:
    self._free(name, orphan.nonce, until)
    return True


def _purges_the_young(self: BlobBackend, found: Any, older_than: float) -> bool:
    return not found.leased


LEASES: tuple[Profile, ...] = ("lease",)
RECORDS: tuple[Profile, ...] = ("embedded", "remote")

MUTANTS: dict[str, Mutant] = {
    "deadline-from-reply": Mutant(
        "T1: a deadline counts from before the request was sent",
        ((Acquisition, "granted", _granted_from_reply), (HoldMachine, "renewed", _renewed_from_reply)),
        stress="late-replies",
    ),
    "no-margin": Mutant(
        "T1: the margin covers clock-rate drift",
        ((terms, "margin_of", lambda ttl: 0.0),),
        stress="clocks",
        profiles=RECORDS,
    ),
    "deadline-unchecked": Mutant(
        "T2: every answer checks the deadline itself",
        ((holding.Holding, "_look", _trusts_the_heart),),
        stress="stops",
    ),
    "revived": Mutant(
        "T2: lost is final, whatever a later answer says", ((HoldMachine, "renewed", _revived),), stress="stops"
    ),
    "late-grant": Mutant(
        "T2: a grant that arrives past its own deadline is given back",
        ((acquisition, "too_late", lambda now, deadline: False),),
        stress="frozen-calls",
        profiles=RECORDS,
    ),
    "hidden-pause": Mutant(
        "T3: ensure() asks the store when wall time outran the clock",
        ((HoldMachine, "suspicious", lambda self, now, wall: False),),
        stress="freezes",
    ),
    "pause-in-flight": Mutant(
        "T3: a grant is given back when wall time outran the clock while it was on its way",
        ((acquisition, "paused", lambda *anything: False),),
        stress="frozen-calls",
        profiles=RECORDS,
    ),
    "no-compare": Mutant(
        "R1: a record is changed only by compare-and-swap",
        prepare=lambda store: setattr(store, "forgets_versions", True),
        profiles=RECORDS,
    ),
    "beat-not-raised": Mutant(
        "R1: every renewal raises the beat",
        ((record, "renewed", _beat_not_raised),),
        profiles=RECORDS,
    ),
    "upsert-renewal": Mutant(
        "R1: a renewal only replaces its own",
        ((record, "renewed", _upsert_renewal),),
        profiles=RECORDS,
    ),
    "contenders-ttl": Mutant(
        "R2: the record's ttl counts, not the contender's",
        ((record, "takeover", _contenders_ttl),),
        stress="clocks",
        profiles=RECORDS,
    ),
    "any-triple": Mutant(
        "R2: any other triple restarts the count",
        (
            (
                connection,
                "observe",
                lambda before, triple, after: record.Observation(
                    triple, before.first_seen if before else after
                ),
            ),
        ),
        profiles=RECORDS,
    ),
    "forgets-observations": Mutant(
        "R2: observations outlive the call that made them",
        ((connection, "MOST_OBSERVATIONS", 0),),
        profiles=RECORDS,
    ),
    "any-clock": Mutant(
        "R3: only processes of one time namespace compare clocks",
        ((record, "evidence_of", _any_clock),),
        profiles=RECORDS,
    ),
    "death-by-pid": Mutant(
        "R4: death is never told by a process id",
        ((simulated_store.SimulatedBackend, "probe", _dead_by_pid),),
        profiles=RECORDS,
    ),
    "missing-file-is-death": Mutant(
        "R4: a missing liveness file proves nothing",
        ((simulated_store.SimulatedBackend, "probe", _missing_is_dead),),
        profiles=RECORDS,
    ),
    "unknown-is-failure": Mutant(
        "R5: a lost reply is not a failure",
        ((Acquisition, "failed", _unknown_is_failure),),
        stress="lost-writes",
    ),
    "unknown-is-success": Mutant(
        "M5: a lost reply is not a success",
        ((HoldMachine, "renewal_failed", _unknown_is_success),),
        stress="lost-requests",
    ),
    "absent-is-failure": Mutant(
        "R5: a nonce that is absent may still turn up",
        ((record, "settled", lambda found, basis: True),),
        stress="lost-writes",
        profiles=RECORDS,
    ),
    "delete-on-release": Mutant(
        "R6: a release deletes no record",
        prepare=lambda store: setattr(store, "deletes_on_release", True),
        profiles=RECORDS,
    ),
    "missing-fence-is-zero": Mutant(
        "F1: no record means no knowledge, never 0",
        ((record, "next_fence", _missing_fence_is_zero),),
        profiles=RECORDS,
    ),
    "same-epoch": Mutant(
        "F3: a boot raises the epoch of fences",
        ((record, "next_epoch", _same_epoch),),
        profiles=RECORDS,
    ),
    "no-fence-check": Mutant(
        "F5: a gate refuses older fences",
        (
            (gate_fence, "admits", lambda offered, newest: True),
            (sqlite_write, "fence_condition", lambda *anything: "(1 = 1)"),
        ),
        stress="stops",
    ),
    "break-keeps-nonce": Mutant(
        "B1: a break replaces the nonce",
        ((record, "broken", _break_keeps_the_nonce), (record, "is_own", _own_by_nonce_alone)),
        stress="operators",
        profiles=RECORDS,
    ),
    "break-frees-at-once": Mutant(
        "B2: a broken name is granted only when its holder has noticed",
        ((record, "broken", _break_frees_at_once),),
        stress="operators",
        profiles=RECORDS,
    ),
    "cancelled-call-forgotten": Mutant(
        "H5: the thread of a cancelled call gives its result back",
        ((calls._Pending, "_do_undo", lambda self: None),),
        stress="cancels",
    ),
    "same-lease-id": Mutant(
        "L1: the lease id is random per grant",
        ((Acquisition, "attempt", _id_of_the_instance),),
        profiles=LEASES,
    ),
    "acquire-any-version": Mutant(
        "L1: an acquire carries If-Match of the version that its fence is computed from",
        tuple(map(_takes_any_version, _SERVICES)),
        stress="lost-writes",
        profiles=LEASES,
    ),
    "grant-any-version": Mutant(
        "L1: neither the acquire nor the metadata write carries If-Match",
        (
            *map(_takes_any_version, _SERVICES),
            *map(_describes_any_version, _SERVICES),
        ),
        stress="haste",
        profiles=LEASES,
    ),
    "stale-fence": Mutant(
        "L1: a fence is made of the version that is there",
        ((BlobBackend, "_fence", _same_fence),),
        stress="operators",
        profiles=LEASES,
    ),
    "deadline-from-metadata": Mutant(
        "L1: the deadline counts from the acquire, also when the metadata write comes later",
        ((BlobBackend, "_describe", _describes_late), (Acquisition, "granted", _granted_from_metadata)),
        stress="late-replies",
        profiles=LEASES,
    ),
    "any-lease-id": Mutant(
        "L1: a returned lease id that is not ours is a loss",
        ((BlobBackend, "renew", _renews_any_id),),
        prepare=lambda store: setattr(store.container, "renews_expired_with_any_id", True),
        stress="freezes",
        profiles=LEASES,
    ),
    "grant-without-metadata": Mutant(
        "L2: without its metadata nothing is granted",
        ((BlobBackend, "_describe", _granted_without_metadata),),
        profiles=LEASES,
    ),
    "released-and-resent": Mutant(
        "L1: a lease id is not used again once its release may be on its way",
        ((BlobBackend, "_is_spent", lambda *anything: False),),
        stress="half-grants",
        profiles=LEASES,
    ),
    "settled-at-once": Mutant(
        "R5: a request for a lease may still be on its way",
        ((BlobBackend, "settle", _settled_at_once),),
        stress="lost-writes",
        profiles=LEASES,
    ),
    "fence-without-date": Mutant(
        "F2: a first fence is made of the service's time",
        ((lease, "next_fence", _fence_without_date),),
        stress="operators",
        profiles=LEASES,
    ),
    "purge-too-soon": Mutant(
        "F2: a record is kept until time alone makes a higher fence",
        ((BlobBackend, "_is_unused", _purges_the_young),),
        stress="purges",
        profiles=LEASES,
    ),
    "lease-breaks-at-once": Mutant(
        "B2: a break leaves the lease what remains of it",
        ((SimulatedBlobService, "break_lease", _breaks_at_once),),
        stress="operators",
        profiles=LEASES,
    ),
    **COSMOS_MUTANTS,
}
