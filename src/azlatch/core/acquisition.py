"""Getting a grant: tries, waits, unknown outcomes and the end of patience, as a pure machine.

The driver starts it, carries out the one step that comes back, and reports what happened; each report
returns the next step::

    start ──▶ Try ──granted in time──▶ Won
               │ ├──granted too late──▶ GiveBack ──▶ (as contended)
               │ ├──held by another───▶ Pause ──woken, or time──▶ Try
               │ ├──store failed──────▶ Pause ──time──▶ Try
               │ └──outcome unknown───▶ Pause ──time──▶ Try, with the same nonce
               └──patience ends───────▶ Lapsed

A resend after an unknown outcome carries the same nonce and counts its deadline from the first send, so
whichever of the two happened is the same grant (R5). A definite answer ends that nonce; the next try
gets a fresh one. A nonce that could not be settled ends up in `orphans`: the driver hands those to the
janitor, which keeps looking and frees what turns up late.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from azlatch.core.record import Grant
from azlatch.core.terms import Terms, paused
from azlatch.errors import BackendError, BackendThrottled, BackendUnavailable, LatchError, OutcomeUnknown

#: The most that the only call of a one-shot try may take, seconds.
TRY_LIMIT = 4.5
#: What a last call gets when patience has less left, seconds; a call that is given nothing is no try.
LEAST_CALL = 0.5

_FIRST_RETRY = 0.05
_LAST_RETRY = 2.0


class Try(NamedTuple):
    """Ask the store. `first_sent` is when this nonce was first sent, `now` or earlier."""

    nonce: str
    first_sent: float
    now: float
    until: float


class Pause(NamedTuple):
    """Wait for a wake-up, but no longer than `until`; a retry after a failure heeds no wake-up."""

    until: float
    wakeable: bool


class GiveBack(NamedTuple):
    """Release a grant that nobody may use."""

    grant: Grant


class Won(NamedTuple):
    """Granted; `sent` and `sent_wall` are the clocks before the request went out."""

    grant: Grant
    sent: float
    sent_wall: float


class Lapsed(NamedTuple):
    """Patience ended: `error` is None for contention, else why the store gave no answer."""

    error: LatchError | None


class Orphan(NamedTuple):
    """A nonce that may hold the name, now or later, although nobody waits for it any more.

    `basis` is the version that its write was conditional on, or None where that is not known: once a
    newer version is seen without the nonce, the write can never land.
    """

    nonce: str
    basis: int | None
    sent: float


Step = Try | Pause | GiveBack | Won | Lapsed


@dataclass(slots=True)
class Acquisition:
    """One acquire of one caller, from its first try to its end.

    Attributes:
        give_up: when patience ends, on the caller's clock, or None.
        one_shot: exactly one try, however it ends.
        attempts: tries made.
        misses: tries that found the name held.
        failures: tries that the store did not answer, or not definitely.
        slowest: seconds that the longest call took.
        orphans: nonces that the janitor has to settle; the driver takes them after every step, so that
            a waiter does not wait for what it left behind itself.
    """

    terms: Terms
    give_up: float | None
    one_shot: bool
    new_nonce: Callable[[], str]
    attempts: int = 0
    misses: int = 0
    failures: int = 0
    slowest: float = 0.0
    orphans: list[Orphan] = field(default_factory=list)
    _nonce: str = ""
    _first_sent: float = 0.0
    _sent: float = 0.0
    _first_wall: float = 0.0
    _unsettled: Orphan | None = None
    _in_flight: bool = False
    _streak: int = 0
    _error: LatchError | None = None

    def attempt(self, now: float, wall: float) -> Step:
        """The start, and the end of every pause."""
        self._drop_late(now)
        if self._unsettled is None:
            self._nonce = self.new_nonce()
            self._first_sent = now
            self._first_wall = wall
        self._in_flight = True
        self._sent = now
        self.attempts += 1
        return Try(self._nonce, self._first_sent, now, self._call_ends(now))

    def granted(self, now: float, wall: float, grant: Grant) -> Step:
        """The store granted this nonce, with this try or with an earlier one of the same nonce.

        Until the driver has handed the hold over, `abandon` still makes an orphan of it.
        """
        self._unsettled = None
        self.slowest = max(self.slowest, now - self._sent)
        frozen = paused(self._first_sent, self._first_wall, now, wall, self.terms.margin)
        if frozen or too_late(now, self.terms.deadline(self._first_sent)):
            return GiveBack(grant)
        return Won(grant, self._first_sent, self._first_wall)

    def gave_back(self, now: float) -> Step:
        """The grant that came too late is released, or the janitor sees to it: it is as if none came."""
        self._in_flight = False
        self.failures += 1
        self._error = BackendUnavailable(
            f"the store granted the latch later than the {self.terms.life:g} s that ttl={self.terms.ttl:g} "
            "leaves, or this machine was frozen meanwhile; the grant was given back: raise the ttl, or see why "
            "the store is slow"
        )
        return self._wait(now, now + _FIRST_RETRY, wakeable=False)

    def contended(self, now: float, version: int, look_in: float, jitter: float) -> Step:
        """Someone else holds it, says the record at `version`; look again in about `look_in` seconds."""
        self._in_flight = False
        self.slowest = max(self.slowest, now - self._sent)
        pending, self._unsettled = self._unsettled, None
        if pending is not None and (pending.basis is None or version <= pending.basis):
            # The earlier write may still land on the version that stands.
            self.orphans.append(pending)
        self._error = None
        self._streak = 0
        self.misses += 1
        return self._wait(now, now + look_in * (0.75 + jitter / 2), wakeable=True)

    def failed(self, now: float, error: BackendError | OutcomeUnknown, jitter: float) -> Step:
        """The store failed. After OutcomeUnknown the same nonce goes out again, while it is of use."""
        self._in_flight = False
        self.slowest = max(self.slowest, now - self._sent)
        self.failures += 1
        self._error = error
        if isinstance(error, OutcomeUnknown):
            self._unsettled = Orphan(self._nonce, error.basis, self._first_sent)
        backoff = min(_FIRST_RETRY * 2**self._streak, _LAST_RETRY)
        self._streak = min(self._streak + 1, 10)
        delay = backoff * (0.5 + jitter / 2)
        if isinstance(error, BackendThrottled) and error.retry_after is not None:
            delay = max(delay, error.retry_after)
        self._drop_late(now + delay)
        return self._wait(now, now + delay, wakeable=False)

    def take_orphans(self) -> list[Orphan]:
        """The orphans since the last time."""
        orphans, self.orphans = self.orphans, []
        return orphans

    def disown(self) -> None:
        """Somebody else gives back what the present nonce still brings: it is not sent again."""
        if self._unsettled is not None:
            self.orphans.append(self._unsettled)
            self._unsettled = None

    def abandon(self) -> list[Orphan]:
        """The caller goes, cancelled or not: what is not settled becomes an orphan. Returns those left."""
        if self._in_flight:
            self._in_flight = False
            self._unsettled = Orphan(self._nonce, None, self._first_sent)
        if self._unsettled is not None:
            self.orphans.append(self._unsettled)
            self._unsettled = None
        return self.take_orphans()

    def _wait(self, now: float, look: float, *, wakeable: bool) -> Step:
        if self.one_shot or (self.give_up is not None and now >= self.give_up):
            error = self._error
            if isinstance(error, OutcomeUnknown):
                error = _unsettled(error)
            return Lapsed(error)
        if self.give_up is not None:
            # The last look is at the very end: a name that was freed in the last moment is not missed.
            look = min(look, self.give_up)
        return Pause(look, wakeable)

    def _drop_late(self, next_sent: float) -> None:
        """A nonce that could only be granted too late is not sent again."""
        if self._unsettled is not None and too_late(next_sent, self.terms.deadline(self._first_sent)):
            self.orphans.append(self._unsettled)
            self._unsettled = None

    def _call_ends(self, now: float) -> float:
        most = min(now + self.terms.acquire_limit, self.terms.deadline(self._first_sent))
        if self.one_shot:
            return min(most, now + TRY_LIMIT)
        if self.give_up is None:
            return most
        return min(most, max(self.give_up, now + LEAST_CALL))


def too_late(now: float, deadline: float) -> bool:
    """Whether a grant that arrives now is past its own deadline (T2)."""
    return now >= deadline


def _unsettled(error: OutcomeUnknown) -> BackendUnavailable:
    unavailable = BackendUnavailable(
        f"the store did not say whether it granted the latch: {error}; nothing is held, and what turns up "
        "late is released in the background"
    )
    unavailable.__cause__ = error
    return unavailable
