"""The lab's Cosmos DB beside `@vercel/cosmosdb-server`: point operations, start and memory, in one run.

Each server runs in its own process, over plain HTTP with connections that stay open; they take turns in every
round. The lab checks what it is asked (signatures, partition keys, sizes) and accounts for it; the peer checks
less, and loses no time over it.
"""

from __future__ import annotations

import contextlib
import http.client
import statistics
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import cosmos_load
from cosmos_load import DRIVERS, Load, Target
from table import Row, Section

# The servers are those that the SDK's own suite runs against.
sys.path.append(str(Path(__file__).resolve().parent.parent / "conformance"))
import servers
from accounts import Account

_LAB, _PEER = "the lab", servers.PEER_PACKAGE
_LOADS = [Load(operation, workers) for workers in (1, 16) for operation in ("read", "write")]


class Plan(NamedTuple):
    """How long and how often."""

    rounds: int = 5
    seconds: float = 1.0
    starts: int = 5
    items: int = 100_000


QUICK = Plan(rounds=3, seconds=0.2, starts=2, items=5_000)

_Serve = Callable[[], AbstractContextManager[tuple[Target, int]]]


def measure(plan: Plan, step: Callable[[str], None]) -> tuple[list[Section], str]:
    """The sections, and what the peer is or why it is missing; no section, and why, without the lab."""
    serves: dict[str, _Serve] = {_LAB: _lab, _PEER: _peer}
    try:
        servers.peer_command(0, tls=False)
        about = f"{servers.PEER_VERSION} on this machine"
    except servers.ServerMissing as missing:
        del serves[_PEER]
        about = f"not measured: {missing}"
    try:
        return list(_measure(plan, serves, step)), about
    except servers.ServerMissing as missing:
        return [], f"not measured: {missing}"


def _measure(plan: Plan, serves: dict[str, _Serve], step: Callable[[str], None]) -> Iterator[Section]:
    with contextlib.ExitStack() as stack:
        targets = {name: stack.enter_context(serve())[0] for name, serve in serves.items()}
        for target in targets.values():
            cosmos_load.prepare(target)
        for driver, run in DRIVERS.items():
            step(f"Cosmos DB: point operations, {driver}")
            yield _operations(plan, targets, driver, run)
    step("Cosmos DB: start and memory")
    yield from _start_and_memory(plan, serves)


def _operations(
    plan: Plan, targets: dict[str, Target], driver: str, run: Callable[[Target, Load, float], float]
) -> Section:
    section = Section(f"Cosmos DB: point operations, {driver}", ("op/s",), "operations per second", "higher", 0)
    for load in _LOADS:
        rates: dict[str, list[float]] = {name: [] for name in targets}
        for _ in range(plan.rounds):
            for name, target in targets.items():
                rates[name].append(run(target, load, plan.seconds))
        medians = {name: statistics.median(each) for name, each in rates.items()}
        for name, rate in medians.items():
            ratio = None if name == _LAB else medians[_LAB] / rate
            section.rows.append(Row(f"{load.label}: {name}", (rate,), ratio))
    return section


def _start_and_memory(plan: Plan, serves: dict[str, _Serve]) -> Iterator[Section]:
    started: dict[str, list[float]] = {name: [] for name in serves}
    for _ in range(plan.starts):
        for name, serve in serves.items():
            began = time.perf_counter()
            with serve() as (target, _):
                _ask(target)
                started[name].append(time.perf_counter() - began)
    yield Section("Cosmos DB: from start to the first answer", ("median",), "s", "lower", 2).compare(
        _LAB, [Row(name, (statistics.median(each),)) for name, each in started.items()]
    )
    if not Path("/proc/self/status").exists():
        return
    rows = []
    for name, serve in serves.items():
        with serve() as (target, pid):
            _ask(target)
            empty = _memory(pid)
            cosmos_load.prepare(target)
            cosmos_load.fill(target, plan.items)
            rows.append(
                Row(name, (_memory(pid), empty), remark=f"after {plan.items:,} items of 1 KB, and empty")
            )
    yield Section("Cosmos DB: memory", ("filled", "empty"), "MiB", "lower", 0).compare(_LAB, rows)


@contextlib.contextmanager
def _lab() -> Iterator[tuple[Target, int]]:
    with servers.lab(Account()) as served:
        yield Target(served.endpoint, served.key), served.pid


@contextlib.contextmanager
def _peer() -> Iterator[tuple[Target, int]]:
    port = servers.free_port()
    with servers.running(servers.peer_command(port, tls=False), lambda line: "ready" in line) as (pid, _):
        # Its account names an https endpoint, also over plain HTTP.
        yield Target(f"http://127.0.0.1:{port}/", servers.KEY, discover=False), pid


def _ask(target: Target) -> None:
    """Any answer will do; without a signature it may be a refusal."""
    parts = urllib.parse.urlsplit(target.endpoint)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
    finally:
        connection.close()


def _memory(pid: int) -> float:
    """Resident memory of a process and of those that it started, MiB."""
    total = 0.0
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmRSS:"):
            total += int(line.split()[1]) / 1024
    for task in Path(f"/proc/{pid}/task").iterdir():
        children = task / "children"
        if children.exists():
            total += sum(_memory(int(each)) for each in children.read_text(encoding="ascii").split())
    return total
