"""The clock of the lab: real time that can be put forward, or a time that stands still until it is."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

#: How far a clock can be put forward, in all, seconds: ten years.
MOST_AHEAD = 10 * 366 * 86_400.0


class LabClock:
    """Seconds since the Unix epoch. Never goes back. Every method may be called from any thread.

    Args:
        manual: stand still until `advance`; else real time goes on by itself.
        start: where it begins; by default at the real time.
    """

    def __init__(self, *, manual: bool = False, start: float | None = None) -> None:
        if start is not None and not (math.isfinite(start) and start >= 0):
            raise ValueError(f"start is {start}: give it seconds since the Unix epoch, or none for now")
        self._manual = manual
        self._changed = threading.Condition()
        self._began = time.monotonic()
        self._start = time.time() if start is None else start
        self._ahead = 0.0
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_manual(self) -> bool:
        """Whether it stands still between calls of `advance`."""
        return self._manual

    def now(self) -> float:
        """The time."""
        passed = 0.0 if self._manual else time.monotonic() - self._began
        return self._start + self._ahead + passed

    def advance(self, seconds: float) -> float:
        """Puts it forward, wakes all who wait for a time, and returns the new time.

        Raises:
            ValueError: it would go back, or further than MOST_AHEAD.
        """
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"the clock cannot be put forward by {seconds} seconds: give it 0 or more")
        with self._changed:
            if self._ahead + seconds > MOST_AHEAD:
                raise ValueError(f"the clock can be put forward by {MOST_AHEAD:.0f} seconds in all, not more")
            self._ahead += seconds
            self._changed.notify_all()
            listeners = list(self._listeners)
        for listener in listeners:
            listener()
        return self.now()

    def seconds_until(self, moment: float) -> float:
        """The real seconds until a time if nobody puts the clock forward: infinite where it stands still."""
        left = max(0.0, moment - self.now())
        return math.inf if self._manual and left > 0 else left

    def wait_until(self, moment: float, timeout: float) -> bool:
        """Waits for a time; False if `timeout` real seconds pass before."""
        end = time.monotonic() + timeout
        with self._changed:
            while (left := self.seconds_until(moment)) > 0:
                most = end - time.monotonic()
                if most <= 0:
                    return False
                self._changed.wait(min(left, most))
        return True

    def listen(self, listener: Callable[[], None]) -> None:
        """Has a function called after each `advance`, in the thread that calls it. It must not wait."""
        with self._changed:
            self._listeners.append(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Ends `listen`."""
        with self._changed:
            if listener in self._listeners:
                self._listeners.remove(listener)
