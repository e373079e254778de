"""What the runtime tells the audit: one recorder per connection, one account per acquire."""

from __future__ import annotations

import itertools
import logging
import threading
from typing import TYPE_CHECKING, Any

from azlatch.errors import (
    AcquireTimeout,
    BackendDenied,
    BackendMisconfigured,
    BackendThrottled,
    BackendUnavailable,
    OutcomeUnknown,
)

if TYPE_CHECKING:
    from azlatch.audit.events import Kind, Sink
    from azlatch.backends.protocol import Granted
    from azlatch.core.acquisition import Acquisition
    from azlatch.core.env import Env
    from azlatch.core.instance import Instance
    from azlatch.core.terms import Terms
    from azlatch.runtime.holding import Holding

logger = logging.getLogger("azlatch")


class Recorder:
    """Numbers the events of one instance without a gap, and hands them to a sink, in that order."""

    def __init__(self, env: Env, sink: Sink, instance: Instance, boot: str, store: str) -> None:
        # Here, and not above: who has no audit does not pay for json.
        from azlatch.audit.events import Event

        self._event = Event
        self._env = env
        self._sink = sink
        self._instance = instance.id
        self._boot = boot
        self._lock = threading.Lock()
        self._sequence = itertools.count(1)
        self.acquires = itertools.count(1)
        self.emit("open", host=instance.host, pid=instance.pid, role=instance.role or None, store=store)

    def emit(self, kind: Kind, **facts: Any) -> None:
        """Never raises: what watches must not break what is watched."""
        try:
            with self._lock:
                event = self._event(
                    kind,
                    next(self._sequence),
                    self._env.wall(),
                    self._env.now(),
                    self._boot,
                    self._instance,
                    facts,
                )
                self._sink(event)
        except Exception:
            logger.exception("azlatch: the audit failed")


class Account:
    """One acquire, from its request to a grant or its end."""

    __slots__ = ("_id", "_name", "_one_shot", "_recorder", "_started", "_ttl", "holder", "queued", "reply")

    def __init__(
        self,
        recorder: Recorder | None,
        name: str,
        terms: Terms,
        patience: float | None,
        *,
        one_shot: bool,
        now: float,
    ) -> None:
        self._recorder = recorder
        self._name = name
        self._one_shot = one_shot
        self._started = now
        self._ttl = terms.ttl
        #: Who had the name, as the store last said.
        self.holder: str | None = None
        self.reply: Granted | None = None
        #: Whether it had to wait behind others of its process: that is contention before the store is asked.
        self.queued = False
        if recorder is not None:
            self._id = next(recorder.acquires)
            recorder.emit("request", name=name, acquire=self._id, ttl=terms.ttl, timeout=patience)

    def granted(self, hold: Holding, acquisition: Acquisition, now: float) -> None:
        """Told before the hold reaches its holder."""
        if self._recorder is None:
            return
        grant, reply = hold.grant, self.reply
        self._recorder.emit(
            "granted",
            name=self._name,
            acquire=self._id,
            nonce=grant.nonce,
            fence=grant.fence,
            prev=reply.previous_fence if reply is not None else None,
            sent=hold.machine.granted,
            until=hold.machine.deadline,
            ttl=self._ttl,
            takeover=reply.takeover if reply is not None else None,
            **self._counts(acquisition, now),
        )

    def ended(self, error: BaseException | None, acquisition: Acquisition, now: float) -> None:
        """The acquire brought no hold."""
        if self._recorder is None:
            return
        outcome = self._outcome(error)
        counts = self._counts(acquisition, now)
        self._recorder.emit(
            "ended", name=self._name, acquire=self._id, outcome=outcome, holder=self.holder, **counts
        )

    def _counts(self, acquisition: Acquisition, now: float) -> dict[str, Any]:
        return {
            "wait_s": now - self._started,
            "attempts": acquisition.attempts,
            "misses": acquisition.misses + self.queued,
            "failures": acquisition.failures,
            "slowest_s": acquisition.slowest,
        }

    def _outcome(self, error: BaseException | None) -> str:
        if error is None or isinstance(error, AcquireTimeout):
            return "contended" if self._one_shot else "timeout"
        for kind, outcome in _OUTCOMES:
            if isinstance(error, kind):
                return outcome
        # KeyboardInterrupt, CancelledError and their like are no errors; their base tells them apart.
        return "error" if isinstance(error, Exception) else "cancelled"


_OUTCOMES: tuple[tuple[type[Exception], str], ...] = (
    (BackendThrottled, "throttled"),
    (BackendDenied, "denied"),
    (BackendMisconfigured, "misconfigured"),
    (BackendUnavailable, "unavailable"),
    (OutcomeUnknown, "unavailable"),
)
