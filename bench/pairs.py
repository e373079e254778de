"""How many uncontended pairs of acquire and release one process makes in a second."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from contender import Contender, Spec

_BATCH = 20


def measure(specs: list[Spec], place: Path, redis_port: int, *, rounds: int, seconds: float) -> list[float]:
    """Pairs per second of each: the median over rounds in which all take turns."""
    contenders = [spec.open(place, redis_port) for spec in specs]
    try:
        for contender in contenders:
            _run(contender, seconds / 5)
        rates: list[list[float]] = [[] for _ in specs]
        for turn in range(rounds):
            # Another one begins each time, so that none is always after the same one.
            for step in range(len(specs)):
                which = (turn + step) % len(specs)
                rates[which].append(_run(contenders[which], seconds))
    finally:
        for contender in contenders:
            contender.close()
    return [statistics.median(series) for series in rates]


def _run(contender: Contender, seconds: float) -> float:
    acquire, release, clock = contender.acquire, contender.release, time.perf_counter
    started = clock()
    pairs = 0
    while True:
        for _ in range(_BATCH):
            acquire("pair")
            release()
        pairs += _BATCH
        spent = clock() - started
        if spent >= seconds:
            return pairs / spent
