"""The life of one hold, from its grant to its release or loss, as a pure machine.

::

    HELD ──release()──▶ RELEASED            belief ends before the call goes out
      └──any LossReason──▶ LOST             final, whatever a later answer says (T2)

Every method takes `now` from the hold's own clock. Nothing here reads a clock, so a hold that was paused
is lost at its next look, before any renewal had a chance to run.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from azlatch.core.terms import Terms, paused
from azlatch.errors import LossReason

# A failed renewal is repeated soon, faster at first, and never in a tight loop.
_FIRST_RETRY = 0.05
_LAST_RETRY = 2.0


class State(Enum):
    """Where a hold stands."""

    HELD = "held"
    LOST = "lost"
    RELEASED = "released"


class Renew(NamedTuple):
    """A renewal to send: `sent` and `sent_wall` are the clocks before it goes out."""

    sent: float
    sent_wall: float
    until: float


@dataclass(slots=True)
class HoldMachine:
    """The state of one hold; changed by the methods below and by nothing else.

    Attributes:
        terms: what was agreed.
        granted: the holder's clock before the request of the grant was sent.
        sent: the same for the last successful request; the deadline counts from it (T1).
        sent_wall: wall time at that moment, to notice a pause that no clock counted (T3).
        lost_reason: why, once it is lost.
        renewals: successful renewals.
        next_look: when the heart has to look again, on the holder's clock.
    """

    terms: Terms
    granted: float
    sent: float
    sent_wall: float
    state: State = State.HELD
    lost_reason: LossReason | None = None
    renewals: int = 0
    next_look: float = 0.0
    _in_flight: Renew | None = None
    _failures: int = 0
    _renew_at: float = 0.0

    def __post_init__(self) -> None:
        self._renew_at = self.sent + self.terms.renew_every
        self._schedule()

    @property
    def deadline(self) -> float:
        """When belief ends, on the holder's clock."""
        deadline = self.terms.deadline(self.sent)
        if self.terms.max_hold is not None:
            return min(deadline, self.granted + self.terms.max_hold)
        return deadline

    def remaining(self, now: float) -> float:
        """Seconds for which the holder may still believe; 0.0 once it may not."""
        self.look(now)
        return self.deadline - now if self.state is State.HELD else 0.0

    def look(self, now: float) -> State:
        """Checks the deadline; every answer about the hold starts here (T2)."""
        if self.state is State.HELD and now >= self.deadline:
            cap = self.terms.max_hold
            self.lose("max-hold" if cap is not None and now >= self.granted + cap else "expired")
        return self.state

    def suspicious(self, now: float, wall: float) -> bool:
        """Whether wall time outran the clock by more than the margin since the last success (T3)."""
        return paused(self.sent, self.sent_wall, now, wall, self.terms.margin)

    def renewal_due(self, now: float, wall: float) -> Renew | None:
        """The heart's look: what to send now, if anything."""
        if self.look(now) is not State.HELD:
            return None
        if self._in_flight is not None and now >= self._in_flight.until:
            # Its call is over-due: whatever it will say, the next one does not wait for it.
            self._in_flight = None
        if self._in_flight is None and self.terms.heartbeat and now >= self._renew_at:
            return self.renew_now(now, wall)
        self._schedule()
        return None

    def renew_now(self, now: float, wall: float) -> Renew:
        """A renewal regardless of the schedule; a call takes what the deadline leaves, at most (T4)."""
        until = min(self.terms.deadline(self.sent), now + self.terms.call_limit)
        renew = Renew(now, wall, until)
        self._in_flight = renew
        self._schedule()
        return renew

    def renewed(self, now: float, renew: Renew) -> State:
        """The store said yes; a yes that comes after the deadline changes nothing (T2)."""
        if self._in_flight is renew:
            self._in_flight = None
        if self.look(now) is State.HELD and renew.sent > self.sent:
            self.sent = renew.sent
            self.sent_wall = renew.sent_wall
            self._renew_at = max(self.sent + self.terms.renew_every, now)
            self._failures = 0
            self.renewals += 1
            self._schedule()
        return self.state

    def renewal_failed(self, now: float, renew: Renew, jitter: float) -> State:
        """No answer, or an unknown one: neither a success nor a loss; tried again until the deadline."""
        if self._in_flight is renew:
            self._in_flight = None
        delay = min(_FIRST_RETRY * 2**self._failures, _LAST_RETRY, self.terms.renew_every / 2)
        self._failures = min(self._failures + 1, 10)
        self._renew_at = now + delay * (0.5 + jitter / 2)
        self._schedule()
        return self.look(now)

    def lose(self, reason: LossReason) -> State:
        """The hold ended without its release. The first reason stands; a released hold cannot be lost."""
        if self.state is State.HELD:
            self.state = State.LOST
            self.lost_reason = reason
        return self.state

    def release(self, now: float) -> State:
        """The holder is done. Belief ends here, before any call; returns the state before."""
        before = self.look(now)
        if before is State.HELD:
            self.state = State.RELEASED
        return before

    def _schedule(self) -> None:
        next_look = self.deadline
        if self._in_flight is not None:
            next_look = min(next_look, self._in_flight.until)
        elif self.terms.heartbeat:
            next_look = min(next_look, self._renew_at)
        self.next_look = next_look
