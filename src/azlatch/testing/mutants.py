"""The engine with one rule undone at a time: what the simulator and the checker must be able to catch.

Each mutant names the rule of the protocol that it breaks. A mutant that nothing catches means that the
proof cannot fail there, and that is a defect of the proof.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from azlatch.core import acquisition, record, terms
from azlatch.core.acquisition import Acquisition, Won
from azlatch.core.hold import HoldMachine, State
from azlatch.core.record import Record
from azlatch.errors import BackendUnavailable
from azlatch.gates import fence as gate_fence
from azlatch.gates import sqlite_write
from azlatch.runtime import calls, connection, holding
from azlatch.testing import simulated_store
from azlatch.testing.scenario import Stress

if TYPE_CHECKING:
    from azlatch.testing.simulated_store import SimulatedStore


@dataclass(frozen=True)
class Mutant:
    """One rule undone.

    Attributes:
        rule: the rule of PROTOCOL.md.
        patches: (object, attribute, replacement).
        prepare: what has to be changed in the simulated store.
        stress: what the worlds are made harsher in, where most worlds would not need the rule.
    """

    rule: str
    patches: tuple[tuple[Any, str, Any], ...] = ()
    prepare: Callable[[SimulatedStore], None] = lambda store: None
    stress: Stress | None = None

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """The engine is the mutant inside `with`."""
        with contextlib.ExitStack() as stack:
            for target, name, replacement in self.patches:
                stack.enter_context(patch.object(target, name, replacement))
            yield


_granted = Acquisition.granted
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


MUTANTS: dict[str, Mutant] = {
    "deadline-from-reply": Mutant(
        "T1: a deadline counts from before the request was sent",
        ((Acquisition, "granted", _granted_from_reply), (HoldMachine, "renewed", _renewed_from_reply)),
        stress="late-replies",
    ),
    "no-margin": Mutant(
        "T1: the margin covers clock-rate drift", ((terms, "margin_of", lambda ttl: 0.0),), stress="clocks"
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
        stress="late-replies",
    ),
    "hidden-pause": Mutant(
        "T3: ensure() asks the store when wall time outran the clock",
        ((HoldMachine, "suspicious", lambda self, now, wall: False),),
        stress="freezes",
    ),
    "pause-in-flight": Mutant(
        "T3: a grant is given back when wall time outran the clock while it was on its way",
        ((acquisition, "paused", lambda *anything: False),),
        stress="freezes",
    ),
    "no-compare": Mutant(
        "R1: a record is changed only by compare-and-swap",
        prepare=lambda store: setattr(store, "forgets_versions", True),
    ),
    "beat-not-raised": Mutant("R1: every renewal raises the beat", ((record, "renewed", _beat_not_raised),)),
    "upsert-renewal": Mutant("R1: a renewal only replaces its own", ((record, "renewed", _upsert_renewal),)),
    "contenders-ttl": Mutant(
        "R2: the record's ttl counts, not the contender's",
        ((record, "takeover", _contenders_ttl),),
        stress="clocks",
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
    ),
    "forgets-observations": Mutant(
        "R2: observations outlive the call that made them",
        ((connection, "MOST_OBSERVATIONS", 0),),
    ),
    "any-clock": Mutant(
        "R3: only processes of one time namespace compare clocks", ((record, "evidence_of", _any_clock),)
    ),
    "death-by-pid": Mutant(
        "R4: death is never told by a process id", ((simulated_store.SimulatedBackend, "probe", _dead_by_pid),)
    ),
    "missing-file-is-death": Mutant(
        "R4: a missing liveness file proves nothing",
        ((simulated_store.SimulatedBackend, "probe", _missing_is_dead),),
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
    ),
    "delete-on-release": Mutant(
        "R6: a release deletes no record",
        prepare=lambda store: setattr(store, "deletes_on_release", True),
    ),
    "missing-fence-is-zero": Mutant(
        "F1: no record means no knowledge, never 0", ((record, "next_fence", _missing_fence_is_zero),)
    ),
    "same-epoch": Mutant("F3: a boot raises the epoch of fences", ((record, "next_epoch", _same_epoch),)),
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
    ),
    "break-frees-at-once": Mutant(
        "B2: a broken name is granted only when its holder has noticed",
        ((record, "broken", _break_frees_at_once),),
        stress="operators",
    ),
    "cancelled-call-forgotten": Mutant(
        "H5: the thread of a cancelled call gives its result back",
        ((calls._Pending, "_do_undo", lambda self: None),),
        stress="lost-writes",
    ),
}
