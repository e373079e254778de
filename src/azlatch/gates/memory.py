"""A gate around one value in this process: an older fence never gets in after a newer one (M3)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from azlatch.errors import BackendUnavailable, FenceRejected, UsageError
from azlatch.gates.fence import (
    Acceptance,
    FenceSource,
    check_fence,
    check_history,
    check_timeout,
    fence_of,
    reporting,
)

T = TypeVar("T")

_GATE = "the memory gate"


class MemoryGate(Generic[T]):
    """Guards one value among the threads of one process; compare and write are one step under a lock.

    A forked child has a copy of its own, which guards nothing for the parent.

    Args:
        value: what it guards before the first write; left out, None.
        timeout: seconds to wait for the writer that is inside.
        history: how many of the newest acceptances are kept.
    """

    def __init__(
        self,
        value: T = None,  # type: ignore[assignment]  # who leaves it out has a T that may be None
        *,
        timeout: float = 10.0,
        history: int = 1_000,
    ) -> None:
        self._value = value
        self._timeout = check_timeout(timeout)
        self._lock = threading.RLock()
        self._inside = False
        self._rejected = 0
        self._accepted: deque[Acceptance] = deque(maxlen=check_history(history))

    def write(self, fence: FenceSource, change: T | Callable[[T], T]) -> Acceptance:
        """Accepts the value, or what the function makes of the present one; if that raises, nothing happened.

        Raises:
            FenceRejected: a newer fence was accepted, or there is none.
            UsageError: no fence; or `change` writes to the gate that it is inside of.
            BackendUnavailable: another writer was inside for the whole timeout.
        """
        offered = fence_of(fence)
        if not self._lock.acquire(timeout=self._timeout):
            raise BackendUnavailable(f"another thread was inside {_GATE} for {self._timeout:g} s")
        try:
            if self._inside:
                raise UsageError(
                    f"the function writes to {_GATE} that it is inside of: return the value instead"
                )
            try:
                with reporting(fence, _GATE):
                    check_fence(offered, self.newest, _GATE)
            except FenceRejected:
                self._rejected += 1
                raise
            self._inside = True
            try:
                value = change(self._value) if callable(change) else change
            finally:
                self._inside = False
            acceptance = Acceptance(self._accepted[-1].sequence + 1 if self._accepted else 1, offered)
            self._value = value
            self._accepted.append(acceptance)
            return acceptance
        finally:
            self._lock.release()

    @property
    def value(self) -> T:
        """What was written last."""
        return self._value

    @property
    def newest(self) -> int | None:
        """The newest fence accepted, or None before the first."""
        accepted = self._accepted
        return accepted[-1].fence if accepted else None

    @property
    def accepted(self) -> tuple[int, ...]:
        """The fences of `history`, alone."""
        return tuple(acceptance.fence for acceptance in self.history())

    @property
    def rejected(self) -> int:
        """How many writes were refused because a newer fence had been accepted."""
        return self._rejected

    def history(self) -> tuple[Acceptance, ...]:
        """The newest acceptances, in the order in which they happened."""
        with self._lock:
            return tuple(self._accepted)
