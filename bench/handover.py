"""How long it takes from the call of release to the next process's acquire, while all others wait."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from contender import Spec
from crew import Crew, Shared

#: How long each holds when all others are in line, seconds.
_HOLD = (0.005, 0.020)
#: A process comes back after a time of chance, as long as the longest default poll of all. Without it the
#: polls of all processes fall together, which is not how real processes come, and makes polling look bad.
_AWAY = 0.1
#: For how long one waits for another at most.
_ARRIVAL = 5.0
#: How much longer a run may take than planned, until its processes end themselves.
_SLACK = 30.0


@dataclass(frozen=True)
class HandOvers:
    """Of one contender, in seconds."""

    median: float
    p95: float
    count: int
    #: Pairs of holders that had the lock at the same time: none, if it is a lock.
    overlaps: int

    @property
    def remark(self) -> str:
        return f"of {self.count}{f', {self.overlaps} TIMES HELD BY TWO' if self.overlaps else ''}"


@dataclass(frozen=True)
class _Relay:
    """Holds, releases, and goes back into line when the next process has it."""

    spec: Spec
    place: Path
    redis_port: int
    name: str
    members: int
    hand_overs: int
    seconds: float

    def prepare(self, me: int, shared: Shared) -> Callable[[], list[tuple[float, float]]]:
        contender = self.spec.open(self.place, self.redis_port)
        contender.acquire(f"warm-up-{me}")
        contender.release()

        def perform() -> list[tuple[float, float]]:
            clock = time.monotonic
            luck = random.Random(f"{self.name} {me}")
            holds: list[tuple[float, float]] = []
            give_up = clock() + self.seconds
            while True:
                time.sleep(luck.uniform(0, _AWAY))
                shared.arrived.release()
                contender.acquire(self.name)
                acquired = clock()
                before = shared.last.value
                shared.turns.value += 1
                if before >= 0:
                    shared.passed_on[before].release()
                over = shared.turns.value > self.hand_overs or acquired > give_up
                if not over:
                    # The first one waits for all and counts itself, any other for the one before it.
                    for _ in range(1 if before >= 0 else self.members):
                        shared.arrived.acquire(timeout=_ARRIVAL)
                    time.sleep(luck.uniform(*_HOLD))
                shared.last.value = me
                released = clock()
                contender.release()
                if over:
                    contender.close()
                    return [*holds, (acquired, released)]
                holds.append((acquired, released))
                # Whoever takes it back at once would hand over to itself: it lets another have it first.
                shared.passed_on[me].acquire(timeout=_ARRIVAL)

        return perform


def measure(
    crew: Crew,
    waiters: int,
    specs: list[Spec],
    place: Path,
    redis_port: int,
    *,
    rounds: int,
    hand_overs: int,
    seconds: float,
) -> list[HandOvers]:
    """Of each, over rounds in which all take turns: `hand_overs` or `seconds` each, whichever ends first."""
    members = range(waiters + 1)
    gaps: list[list[float]] = [[] for _ in specs]
    for turn in range(rounds):
        for step in range(len(specs)):
            which = (turn + step) % len(specs)
            crew.shared.reset()
            name = f"relay-{waiters}-{turn}-{which}"
            relay = _Relay(specs[which], place, redis_port, name, len(members), hand_overs, seconds)
            crew.prepare(relay, members, limit=seconds + _SLACK)
            crew.start(members)
            results = crew.results(members, limit=seconds + _SLACK)
            holds = sorted(hold for result in results for hold in result)
            # Those who end the run do not hold, and so nobody waits for the ones after the first of them.
            holds = holds[: len(holds) - waiters]
            gaps[which] += [after[0] - before[1] for before, after in itertools.pairwise(holds)]
    return [_summary(series) for series in gaps]


def _summary(gaps: list[float]) -> HandOvers:
    if len(gaps) < 2:
        raise RuntimeError("too few hand-overs to say anything: give it more time")
    return HandOvers(
        median=statistics.median(gaps),
        p95=statistics.quantiles(gaps, n=20, method="inclusive")[-1],
        count=len(gaps),
        overlaps=sum(gap < 0 for gap in gaps),
    )
