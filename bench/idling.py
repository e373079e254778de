"""What waiting costs: the processor time of processes that wait while one holder holds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from contender import Spec
from crew import Crew, Shared

_SLACK = 30.0


@dataclass(frozen=True)
class Idling:
    """Shares of one core, per waiting process."""

    mean: float
    worst: float


@dataclass(frozen=True)
class _Hold:
    spec: Spec
    place: Path
    redis_port: int
    name: str
    seconds: float

    def prepare(self, me: int, shared: Shared) -> Callable[[], None]:
        del me, shared
        contender = self.spec.open(self.place, self.redis_port)
        contender.acquire(self.name)

        def perform() -> None:
            time.sleep(self.seconds)
            contender.release()
            contender.close()

        return perform


@dataclass(frozen=True)
class _Wait:
    spec: Spec
    place: Path
    redis_port: int
    name: str

    def prepare(self, me: int, shared: Shared) -> Callable[[], float]:
        del shared
        contender = self.spec.open(self.place, self.redis_port)
        contender.acquire(f"warm-up-{me}")
        contender.release()

        def perform() -> float:
            started, busy = time.monotonic(), time.process_time()
            contender.acquire(self.name)
            share = (time.process_time() - busy) / (time.monotonic() - started)
            contender.release()
            contender.close()
            return share

        return perform


def measure(
    crew: Crew, waiters: int, specs: list[Spec], place: Path, redis_port: int, *, rounds: int, seconds: float
) -> list[Idling]:
    """Of each: the mean over the waiters, and the median of it over the rounds."""
    holder, others = [0], range(1, waiters + 1)
    limit = seconds + _SLACK
    shares: list[list[list[float]]] = [[] for _ in specs]
    for turn in range(rounds):
        for step in range(len(specs)):
            which = (turn + step) % len(specs)
            spec, name = specs[which], f"idle-{waiters}-{turn}-{which}"
            crew.prepare(_Hold(spec, place, redis_port, name, seconds), holder, limit=limit)
            crew.prepare(_Wait(spec, place, redis_port, name), others, limit=limit)
            crew.start(others)
            crew.start(holder)
            shares[which].append(crew.results(others, limit=limit))
            crew.results(holder, limit=limit)
    return [
        Idling(
            mean=statistics.median(statistics.fmean(one) for one in series),
            worst=max(max(one) for one in series),
        )
        for series in shares
    ]
