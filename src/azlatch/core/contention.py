"""Contention of a latch over a sliding window, and the alarm on it.

Contention is first-attempt misses / attempts: a blocked acquire that succeeds in the end was still
contended. The alarm has a minimum sample and hysteresis, so that it neither fires on three tries nor
flaps around its threshold.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

#: The alarm goes on above this share of first-attempt misses ...
ALARM_ON = 0.10
#: ... and off again below this one.
ALARM_OFF = 0.05
#: No verdict with fewer attempts than this in the window.
LEAST_ATTEMPTS = 20

Change = Literal["on", "off"]


class ContentionWindow:
    """Attempts of the last `span` seconds, in `slots` counts, so that its size does not grow with load."""

    __slots__ = ("_slot", "_slots", "_span", "alarm", "attempts", "misses")

    def __init__(self, span: float = 300.0, slots: int = 30) -> None:
        self._slot = span / slots
        self._span = span
        self._slots: deque[list[float]] = deque()
        self.attempts = 0
        self.misses = 0
        self.alarm = False

    @property
    def contention(self) -> float:
        """First-attempt misses / attempts within the window; 0.0 without attempts."""
        return self.misses / self.attempts if self.attempts else 0.0

    def add(self, now: float, missed: bool) -> Change | None:
        """Counts one acquire and whether its first attempt missed; returns a change of the alarm."""
        slots = self._slots
        if slots and now - slots[-1][0] < self._slot:
            slots[-1][1] += 1
            slots[-1][2] += missed
        else:
            slots.append([now, 1, missed])
        self.attempts += 1
        self.misses += missed
        while now - slots[0][0] > self._span:
            _, attempts, misses = slots.popleft()
            self.attempts -= int(attempts)
            self.misses -= int(misses)
        if self.attempts < LEAST_ATTEMPTS:
            return None
        if not self.alarm and self.contention > ALARM_ON:
            self.alarm = True
            return "on"
        if self.alarm and self.contention < ALARM_OFF:
            self.alarm = False
            return "off"
        return None
