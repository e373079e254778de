"""Blocking calls of the store from an event loop, such that a cancelled one leaves nothing behind (H5)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from azlatch.backends.workers import Workers
from azlatch.core.env import Env
from azlatch.errors import BackendUnavailable, OutcomeUnknown

logger = logging.getLogger("azlatch")

T = TypeVar("T")

CALL_THREADS = 8
MOST_CALL_THREADS = 32
#: How much longer than its bound a call is waited for before it is given up, seconds.
_GRACE = 0.5


class Calls:
    """Makes calls on threads of its own: the loop's default executor may be full, or gone."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._workers = Workers(env, "azlatch-calls", quota=CALL_THREADS, cap=MOST_CALL_THREADS)

    @property
    def threads(self) -> int:
        return self._workers.threads

    async def make(self, call: Callable[[], T], until: float, undo: Callable[[T], None] | None = None) -> T:
        """Awaits the call. If the caller goes first, whatever it still returns is given to `undo`.

        `undo` runs on the thread of the call, or on another one, never on the loop: the loop may be closed.

        Raises:
            BackendUnavailable: no thread was free until then, and nothing was sent.
            OutcomeUnknown: it was sent and did not return in time.
        """
        loop = asyncio.get_running_loop()
        pending = _Pending(call, undo, loop)
        job = self._workers.submit(until, pending.run)
        self._workers.replace_stuck()
        left = max(until - self._env.now(), 0.0) + _GRACE
        timer = loop.call_later(left, pending.give_up)
        try:
            await pending.done
        except BaseException:
            self._workers.drop(job)
            late = pending.abandon()
            if late is not None:
                self._workers.submit(until, late)
            raise
        finally:
            timer.cancel()
        if pending.timed_out:
            if self._workers.drop(job):
                pending.abandon()
                raise BackendUnavailable(
                    "no thread was free to make the call: the calls before it do not return"
                )
            late = pending.abandon()
            if late is not None:
                self._workers.submit(until, late)
            raise OutcomeUnknown("the call did not return in time: it may have happened")
        return pending.result()

    def stop(self) -> None:
        self._workers.stop()


class _Pending(Generic[T]):
    """One call and the race between its end and its caller's."""

    def __init__(
        self, call: Callable[[], T], undo: Callable[[T], None] | None, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.done: asyncio.Future[None] = loop.create_future()
        self.timed_out = False
        self._call = call
        self._undo = undo
        self._loop = loop
        self._lock = threading.Lock()
        self._value: T | None = None
        self._error: BaseException | None = None
        self._finished = False
        self._abandoned = False

    def run(self) -> None:
        """On a worker."""
        value: T | None = None
        error: BaseException | None = None
        try:
            value = self._call()
        except BaseException as caught:  # noqa: BLE001 - it is raised again, where the caller waits
            error = caught
        with self._lock:
            self._value, self._error = value, error
            self._finished = True
            abandoned = self._abandoned
        if not abandoned:
            try:
                self._loop.call_soon_threadsafe(self._resolve)
                return
            except RuntimeError:
                # The loop is closed: its caller will never see the result.
                with self._lock:
                    if self._abandoned:
                        return
                    self._abandoned = True
        self._do_undo()

    def give_up(self) -> None:
        """On the loop, when the time has passed."""
        self.timed_out = not self.done.done()
        self._resolve()

    def abandon(self) -> Callable[[], None] | None:
        """The caller goes; returns what has to be done on a thread if the call had ended already."""
        with self._lock:
            if self._abandoned:
                return None
            self._abandoned = True
            return self._do_undo if self._finished else None

    def result(self) -> T:
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None
        return self._value  # type: ignore[return-value]

    def _resolve(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _do_undo(self) -> None:
        if self._undo is None or self._error is not None:
            return
        try:
            self._undo(self._value)  # type: ignore[arg-type]
        except Exception:
            logger.exception("azlatch: giving back the result of a cancelled call failed")
