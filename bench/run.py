"""`make bench`: azlatch beside other locks, all in one run, as medians and ratios.

Beside filelock and redis-py on one machine, beside the Blob SDK's own leases on Azurite; and the lab's Cosmos
DB beside `@vercel/cosmosdb-server`; `contracts.update_item` beside the same by hand.

The contenders take turns in every round, so that a machine that slows down slows all of them. Nothing is
asserted about time: a slow machine changes the numbers, hardly the ratios.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import signal
import sqlite3
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import blobs
import contender
import cosmos
import handover
import idling
import pairs
import redis_server
import startup
import table
import updates
from contender import US
from crew import Crew
from table import Row, Section

_WAITERS = (2, 16)


@dataclass(frozen=True)
class Plan:
    """How long and how often."""

    pair_rounds: int = 7
    pair_seconds: float = 0.4
    relay_rounds: int = 3
    relay_hand_overs: int = 100
    relay_seconds: float = 4.0
    idle_rounds: int = 1
    idle_seconds: float = 5.0
    startup_runs: int = 10


_QUICK = Plan(
    pair_rounds=3,
    pair_seconds=0.1,
    relay_rounds=1,
    relay_hand_overs=30,
    relay_seconds=0.6,
    idle_seconds=0.4,
    startup_runs=3,
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench/run.py", description="azlatch beside filelock and redis-py")
    parser.add_argument("--quick", action="store_true", help="about a minute; rough numbers")
    parser.add_argument("--json", metavar="FILE", help="write the numbers to FILE, too")
    options = parser.parse_args(arguments)
    plan = _QUICK if options.quick else Plan()
    # So that what is started is ended after SIGTERM, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    progress = _Progress()
    with tempfile.TemporaryDirectory(prefix="azlatch-bench-") as folder:
        place = Path(folder).resolve()
        with redis_server.running(place) as port:
            has_redis = _has_redis(port)
            sections = _measure(plan, place, port, redis=has_redis, progress=progress)
        of_blob, azurite = blobs.measure(blobs.QUICK if options.quick else blobs.Plan(), place, progress.step)
        sections += of_blob
        of_cosmos, peer = cosmos.measure(cosmos.QUICK if options.quick else cosmos.Plan(), progress.step)
        sections += of_cosmos
        sections += updates.measure(updates.QUICK if options.quick else updates.Plan(), progress.step)
        progress.end()
    facts = {**_facts(redis=has_redis), "azurite": azurite, "@vercel/cosmosdb-server": peer}
    print("\n" + "\n".join(f"{name}: {value}" for name, value in facts.items()))
    print("\n".join(table.lines(sections)))
    if options.json:
        report = {"facts": facts, "quick": options.quick, "sections": [one.as_json() for one in sections]}
        Path(options.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


def _measure(plan: Plan, place: Path, port: int, *, redis: bool, progress: _Progress) -> list[Section]:
    sections = []
    progress.step("uncontended pairs in one process")
    specs = contender.without_waiting(redis=redis)
    rates = pairs.measure(specs, place, port, rounds=plan.pair_rounds, seconds=plan.pair_seconds)
    sections.append(
        Section("Uncontended acquire and release", ("pairs/s",), "pairs per second", "higher", 0).compare(
            US, [Row(spec.label, (rate,)) for spec, rate in zip(specs, rates, strict=True)]
        )
    )
    specs = contender.waiting(redis=redis)
    progress.step(f"starting {max(_WAITERS) + 1} processes")
    with Crew(max(_WAITERS) + 1) as crew:
        for waiters in _WAITERS:
            progress.step(f"hand-over with {waiters} waiting processes")
            overs = handover.measure(
                crew,
                waiters,
                specs,
                place,
                port,
                rounds=plan.relay_rounds,
                hand_overs=plan.relay_hand_overs,
                seconds=plan.relay_seconds,
            )
            title = f"From release to the next process's acquire, {waiters} waiting"
            sections.append(
                Section(title, ("median", "p95"), "ms", "lower", 2).compare(
                    US,
                    [
                        Row(spec.label, (over.median * 1e3, over.p95 * 1e3), remark=over.remark)
                        for spec, over in zip(specs, overs, strict=True)
                    ],
                )
            )
        for waiters in _WAITERS:
            progress.step(f"what waiting costs {waiters} processes")
            costs = idling.measure(
                crew, waiters, specs, place, port, rounds=plan.idle_rounds, seconds=plan.idle_seconds
            )
            title = f"What waiting costs each of {waiters} processes"
            sections.append(
                Section(title, ("mean", "worst"), "% of a core", "lower", 2).compare(
                    US,
                    [
                        Row(spec.label, (cost.mean * 100, cost.worst * 100))
                        for spec, cost in zip(specs, costs, strict=True)
                    ],
                )
            )
    progress.step("start of Python with and without azlatch")
    codes = [f"import {US}", f"import {US}; {US}.connect", "pass"]
    starts = startup.measure(place, codes=codes, runs=plan.startup_runs)
    added = [f"adds {(start.elapsed - starts[-1].elapsed) * 1e3:.1f} ms" for start in starts[:-1]]
    sections.append(
        Section("Start of Python", ("elapsed", "processor"), "ms", "lower", 1).compare(
            codes[0],
            [
                Row(code, (start.elapsed * 1e3, start.processor * 1e3), remark=remark)
                for code, start, remark in zip(codes, starts, [*added, ""], strict=True)
            ],
        )
    )
    return sections


def _has_redis(port: int) -> bool:
    if not port:
        print("redis-server is not installed: not measured")
        return False
    if importlib.util.find_spec("redis") is None:
        print("redis-py is not installed: not measured")
        return False
    return True


def _facts(*, redis: bool) -> dict[str, str]:
    names = {"azlatch": US, "filelock": "filelock", **({"redis-py": "redis"} if redis else {})}
    facts = {
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "load average": f"{os.getloadavg()[1]:.1f}; far above 1, other work blurs the p95",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **{name: importlib.metadata.version(package) for name, package in names.items()},
    }
    if redis:
        facts["redis-server"] = f"{redis_server.version()}; its own processor time is not counted"
    return facts


class _Progress:
    """One line per step, on stderr."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def step(self, text: str) -> None:
        print(f"[{time.monotonic() - self._started:5.1f} s] {text} ...", file=sys.stderr, flush=True)

    def end(self) -> None:
        print(f"[{time.monotonic() - self._started:5.1f} s] done", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
