"""Whether processes stay as large as they are: memory, threads and descriptors from /proc, over time.

The rule: of what a process used, the median of the last quarter of a run is at most a share and a constant above
the median of the second quarter. The first quarter is for warming up, and medians leave peaks alone.
"""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
#: Readings that a quarter needs at least; with fewer nothing is shown.
LEAST_READINGS = 5


class Reading(NamedTuple):
    """What a process used at a time, in seconds since the start."""

    at: float
    rss_mb: float
    threads: int
    descriptors: int


class Allowance(NamedTuple):
    """How much more is no growth: a share of what it was, and a constant."""

    share: float
    constant: float


#: Per measure, for processes that do the same work all the time.
ALLOWED: dict[str, Allowance] = {
    "rss_mb": Allowance(0.10, 5.0),
    "threads": Allowance(0.10, 8.0),
    "descriptors": Allowance(0.10, 8.0),
}


@dataclass
class Curve:
    """The readings of one process."""

    label: str
    pid: int
    readings: list[Reading] = field(default_factory=list)

    def take(self, at: float) -> None:
        """Reads once more, if the process is there."""
        reading = read(self.pid, at)
        if reading is not None:
            self.readings.append(reading)

    def series(self, measure: str) -> list[float]:
        return [float(getattr(reading, measure)) for reading in self.readings]

    def growth(self, allowed: Mapping[str, Allowance] = ALLOWED) -> list[str]:
        """What grew, in words; nothing where all of it is flat."""
        found = []
        for measure, allowance in allowed.items():
            why = grown(self.series(measure), allowance)
            if why:
                found.append(f"{self.label}: {measure} {why}")
        return found


def quarters(series: Sequence[float]) -> list[float]:
    """The medians of the four quarters; none where there are too few readings."""
    size = len(series) // 4
    if size < LEAST_READINGS:
        return []
    return [statistics.median(series[size * part : size * (part + 1)]) for part in range(4)]


def grown(series: Sequence[float], allowance: Allowance) -> str:
    """Why this is growth, or nothing; too few readings are no evidence that it is flat."""
    medians = quarters(series)
    if not medians:
        return f"was read {len(series)} times, which shows nothing: {4 * LEAST_READINGS} are wanted"
    before, after = medians[1], medians[3]
    most = before * (1 + allowance.share) + allowance.constant
    if after <= most:
        return ""
    return (
        f"grew from {before:g} to {after:g}, medians of the second and the last quarter; {most:.1f} is allowed"
    )


def read(pid: int, at: float) -> Reading | None:
    """What the process uses now, or None if it is gone. Linux only."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The name of the program, in parentheses, may have spaces.
            words = file.read().rpartition(")")[2].split()
        if words[0] in "ZX":
            return None
        rss_mb = round(int(words[21]) * _PAGE_MB, 2)
        return Reading(round(at, 1), rss_mb, int(words[17]), len(os.listdir(f"/proc/{pid}/fd")))
    return None
