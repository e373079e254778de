"""What a sync and an async hold share: the machine, its lock, and what is told to whom on a loss."""

from __future__ import annotations

import logging
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from azlatch.core.hold import HoldMachine, Renew, State
from azlatch.errors import BackendError, BackendUnavailable, HoldLost, LossReason, OutcomeUnknown, UsageError

if TYPE_CHECKING:
    from azlatch.backends.protocol import Gone
    from azlatch.core.env import Signal
    from azlatch.core.record import Grant
    from azlatch.runtime.connection import Connection

logger = logging.getLogger("azlatch")

_WHY: dict[LossReason, str] = {
    "expired": "no renewal succeeded before its deadline",
    "stolen": "the store says that another grant has the name",
    "broken": "an operator broke it",
    "detached": "the link that carried it was re-opened",
    "max-hold": "it reached its max_hold",
    "owner-died": "the thread or task that held it ended without leaving it",
    "forked": "this is a forked child, and the hold is its parent's",
}


class Holding:
    """One grant of a latch, as its holder sees it. A one-shot capability: any thread may use it.

    Attributes:
        name: the latch.
        fence: the fencing token, an int that rises with every grant of the name; None with fence=False.
        holder: this instance, as text.
    """

    def __init__(self, connection: Connection, grant: Grant, machine: HoldMachine) -> None:
        self.name = grant.name
        self.fence: int | None = grant.fence if connection.fence else None
        self.machine = machine
        self.grant = grant
        self.entry_at = 0.0
        self.reference = weakref.ref(self)
        self._connection = connection
        self._env = connection.env
        self.pid = connection.pid
        self._lock = threading.Lock()
        self._owner_ended: Callable[[], bool] | None = None
        self._hooks: list[Callable[[], None]] = []
        self._lost_signal: Signal | None = None
        self._told = False
        self._forked = False
        self._disowned = False
        self._renewal_failures = 0
        self._slowest_renewal = 0.0
        self._believed_until: float | None = None

    @property
    def holder(self) -> str:
        """This instance, as text: ``host:pid``, with the platform's role where there is one."""
        return self._connection.instance.label

    @property
    def is_lost(self) -> bool:
        """Whether it is lost; checks the deadline itself, so it is true without any renewal having run."""
        return self._look() is State.LOST

    @property
    def lost_reason(self) -> LossReason | None:
        """Why it is lost, or None."""
        self._look()
        return self.machine.lost_reason

    def remaining(self) -> float:
        """Seconds for which the holder may believe that it has the latch; 0.0 once it may not."""
        if self._look() is not State.HELD:
            return 0.0
        return max(self.machine.deadline - self._env.now(), 0.0)

    def on_lost(self, callback: Callable[[LossReason], object]) -> None:
        """Calls `callback(reason)` once when the hold is lost, on a thread of its own; at once if it is."""

        def on_a_thread() -> None:
            reason = self.machine.lost_reason
            assert reason is not None
            try:
                self._env.spawn(lambda: _call_back(callback, reason), "azlatch-on-lost")
            except RuntimeError:
                logger.warning("azlatch: no thread for the on_lost callback of %r", self.name)

        self._add_hook(on_a_thread)

    def wait_lost(self, timeout: float | None = None) -> bool:
        """Waits until the hold is lost, at most `timeout` seconds; whether it is."""
        # First, so that a forked child takes no lock of its parent's.
        if self.is_lost:
            return True
        with self._lock:
            if self._lost_signal is None:
                self._lost_signal = self._env.signal()
            signal = self._lost_signal
        give_up = None if timeout is None else self._env.now() + timeout
        while not self.is_lost and self.machine.state is not State.RELEASED:
            left = self.remaining()
            if give_up is not None:
                left = min(left, give_up - self._env.now())
                if left <= 0:
                    break
            signal.wait(max(left, 0.001))
        return self.is_lost

    # -- for the drivers ---------------------------------------------------------------------------

    def _look(self) -> State:
        """The state now, checked against the deadline and the process (T2, H4)."""
        if self.pid != self._env.pid():
            self.lose_to_fork()
            return self.machine.state
        with self._lock:
            state = self.machine.look(self._env.now())
        if state is State.LOST and not self._told:
            self._tell_lost()
        return state

    def _require(self) -> Renew | None:
        """Raises HoldLost, or returns a renewal that has to succeed before the answer is yes (T3)."""
        self._require_held()
        now, wall = self._env.now(), self._env.wall()
        with self._lock:
            if self.machine.suspicious(now, wall):
                return self.machine.renew_now(now, wall)
        return None

    def _require_held(self) -> None:
        if self._look() is not State.HELD:
            raise self._lost_error()

    def _lost_error(self) -> HoldLost | UsageError:
        reason = self.machine.lost_reason
        if reason is None:
            return UsageError(f"the hold of {self.name!r} was released: acquire the latch again")
        return HoldLost(
            f"the hold of {self.name!r} is lost ({reason}): {_WHY[reason]}; stop, and write nothing more",
            reason=reason,
            name=self.name,
            fence=self.fence,
        )

    def _lose(self, reason: LossReason) -> None:
        with self._lock:
            state = self.machine.lose(reason)
        if state is State.LOST and not self._told:
            self._tell_lost()

    def lose_to_fork(self) -> None:
        """In a forked child: no lock of the parent's is taken, and the store is never called."""
        if self._forked:
            return
        self._forked = True
        self._lock = threading.Lock()
        self._told = True
        self._hooks = []
        self.machine.lose("forked")

    def _remove_hook(self, hook: Callable[[], None]) -> None:
        with self._lock:
            if hook in self._hooks:
                self._hooks.remove(hook)

    def _add_hook(self, hook: Callable[[], None]) -> None:
        self._look()
        with self._lock:
            if not self._told:
                self._hooks.append(hook)
                return
        hook()

    def _tell_lost(self) -> None:
        with self._lock:
            if self._told:
                return
            self._told = True
            hooks, self._hooks = self._hooks, []
            signal = self._lost_signal
        if signal is not None:
            signal.set()
        reason = self.machine.lost_reason
        logger.warning("azlatch: the hold of %r (fence %s) is lost: %s", self.name, self.fence, reason)
        if self._connection.recorder is not None:
            self._connection.recorder.emit("lost", reason=reason, **self.story())
        if reason == "broken":
            # The break is acknowledged, so that the name is free before the ttl (B2).
            self._connection.release_later(self.grant)
        for hook in hooks:
            hook()

    def story(self) -> dict[str, Any]:
        """What the audit says of the hold when it has ended."""
        machine = self.machine
        until = self._believed_until
        if until is None:
            # A loss that nobody saw coming ended belief at the deadline at the latest.
            until = min(self._env.now(), machine.deadline)
        return {
            "name": self.name,
            "nonce": self.grant.nonce,
            "fence": self.grant.fence,
            "until": until,
            "held_s": until - machine.granted,
            "renewals": machine.renewals,
            "renewal_failures": self._renewal_failures or None,
            "slowest_renewal_s": self._slowest_renewal or None,
        }

    def note_rejection(self, gate: str, newest: int | None) -> None:
        """A gate refused this hold: a newer one has been there. For the audit."""
        recorder = self._connection.recorder
        if recorder is not None and self.pid == self._env.pid():
            recorder.emit("rejected", name=self.name, gate=gate, fence=self.fence, newest=newest)

    def has_living_owner(self) -> bool:
        """Whether a thread or task is inside `with` and has not ended."""
        return self._owner_ended is not None and not self._owner_ended()

    def stop_believing(self) -> State:
        """The release as far as this process is concerned; returns the state before."""
        with self._lock:
            now = self._env.now()
            before = self.machine.release(now)
            if before is State.HELD:
                self._believed_until = now
        signal = self._lost_signal
        if signal is not None:
            signal.set()
        if before is State.LOST and not self._told:
            self._tell_lost()
        return before

    def owes_release(self, before: State) -> bool:
        """Whether the store has to be told of the end of a hold that was in this state before."""
        if before is State.HELD:
            return True
        reason = self.machine.lost_reason
        if before is State.LOST and not self._disowned and reason in ("expired", "max-hold", "owner-died"):
            # The body is over, and the record may still be ours: nobody needs to wait for the ttl.
            self._disowned = True
            return True
        return False

    def __del__(self) -> None:
        machine = getattr(self, "machine", None)
        if machine is None or machine.state is not State.HELD:
            return
        if self.pid == self._env.pid() and machine.look(self._env.now()) is State.HELD:
            warnings.warn(
                f"the hold of {self.name!r} was dropped without release(): it is renewed no more, and its name "
                "is free when its ttl has passed",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    # -- for the heart -----------------------------------------------------------------------------

    def tend(self) -> Renew | None:
        """The heart's look: marks a loss, or returns the renewal to send."""
        with self._lock:
            if self.machine.state is State.HELD and self._owner_ended is not None and self._owner_ended():
                self.machine.lose("owner-died")
            return self.machine.renewal_due(self._env.now(), self._env.wall())

    @property
    def owes_news(self) -> bool:
        """Whether it is lost and nobody was told yet."""
        return self.machine.state is State.LOST and not self._told

    def tell_lost(self) -> None:
        """Tells whoever wants to know of the loss; on a worker, for what they do may take its time."""
        self._tell_lost()
        if self.machine.lost_reason == "owner-died":
            self._connection.release_later(self.grant)

    def carry_out(self, renew: Renew) -> BackendError | OutcomeUnknown | None:
        """Sends the renewal and takes note of its outcome; returns the error that left it open."""
        error: BackendError | OutcomeUnknown | None = None
        gone: Gone | None = None
        try:
            if self._env.now() < renew.until:
                gone = self._connection.backend.renew(self.grant, renew.sent, renew.until)
            else:
                error = BackendUnavailable("every renewal thread was busy until this renewal was overdue")
        except (BackendError, OutcomeUnknown) as caught:
            error = caught
        except Exception as caught:
            logger.exception("azlatch: renewing %r failed in a way that nobody foresaw", self.name)
            error = BackendUnavailable(f"the store failed with {type(caught).__name__}")
        now = self._env.now()
        if gone is not None:
            self._lose(gone.reason)
            return None
        with self._lock:
            if error is None:
                self.machine.renewed(now, renew)
            else:
                self.machine.renewal_failed(now, renew, self._env.random())
            state = self.machine.state
        self._slowest_renewal = max(self._slowest_renewal, now - renew.sent)
        if error is not None:
            self._renewal_failures += 1
            logger.info("azlatch: renewing %r failed and is repeated until its deadline: %s", self.name, error)
        if state is State.LOST and not self._told:
            self._tell_lost()
        return error


def _call_back(callback: Callable[[LossReason], object], reason: LossReason) -> None:
    try:
        callback(reason)
    except Exception:
        logger.exception("azlatch: an on_lost callback failed")
