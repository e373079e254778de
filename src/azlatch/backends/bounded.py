"""Calls that are bounded as a whole: name resolution, a token, a slow trickle of a reply included (H2).

An SDK bounds single reads of a socket, not a call. So each call runs on a thread, and its caller waits no
longer than it said. A call that does not return keeps its thread until it does; there is a cap on those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from azlatch.backends.workers import Workers
from azlatch.core.env import Env
from azlatch.errors import BackendUnavailable, OutcomeUnknown

T = TypeVar("T")

#: Calls at a time, and the most threads while some are stuck in calls that are overdue.
QUOTA, CAP = 64, 128
#: How much longer than its bound a call is waited for: its own timeout comes first and says more, seconds.
_GRACE = 0.1


class Bounded:
    """Makes calls on threads of its own."""

    def __init__(self, env: Env, name: str) -> None:
        self._env = env
        self._workers = Workers(env, name, quota=QUOTA, cap=CAP)

    @property
    def threads(self) -> int:
        """Threads alive now, stuck ones included."""
        return self._workers.threads

    def call(self, run: Callable[[], T], until: float, *, writes: bool) -> T:
        """What `run` returns or raises, by `until` on the clock of the Env.

        Raises:
            BackendUnavailable: there was no time or no thread, or nothing was written and nothing came back.
            OutcomeUnknown: it `writes`, and it had not returned in time.
        """
        left = until - self._env.now()
        if left <= 0:
            raise BackendUnavailable("no time was left to ask the store: give the call more")
        ended = self._env.signal()
        results: list[T] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(run())
            except BaseException as error:  # noqa: BLE001 - raised again, where the caller waits
                errors.append(error)
            ended.set()

        job = self._workers.submit(until, work)
        self._workers.replace_stuck()
        ended.wait(left + _GRACE)
        if results:
            return results[0]
        if errors:
            raise errors.pop()
        if self._workers.drop(job):
            raise BackendUnavailable(f"no thread was free for {left:.1f} s: the calls before it do not return")
        message = f"the store did not answer within {left:.1f} s"
        raise OutcomeUnknown(message) if writes else BackendUnavailable(message)

    def stop(self) -> None:
        """Lets the idle threads end."""
        self._workers.stop()
