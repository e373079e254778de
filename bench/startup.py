"""What importing azlatch adds to the start of Python."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

_LIMIT = 30.0


class Start(NamedTuple):
    """Seconds from the start of Python to its end; on a busy machine, `processor` is the one to look at."""

    elapsed: float
    processor: float


def measure(place: Path, *, codes: list[str], runs: int) -> list[Start]:
    """Of each code: medians of runs that alternate."""
    starts: dict[str, list[Start]] = {code: [] for code in codes}
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(place / "pycache")}
    # An installed package is compiled already; this keeps what the first run compiles.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for run in range(-1, runs):
        for code in codes:
            start = _run(code, environment)
            if run >= 0:
                starts[code].append(start)
    return [Start(*map(statistics.median, zip(*starts[code], strict=True))) for code in codes]


def _run(code: str, environment: dict[str, str]) -> Start:
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)
    # Not `wait(timeout=...)`: it looks at growing intervals, and would find the end late.
    watchdog = threading.Timer(_LIMIT, process.kill)
    watchdog.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        watchdog.cancel()
    if process.returncode:
        raise RuntimeError(f"python -c {code!r} ended with {process.returncode}")
    return Start(elapsed, usage.ru_utime + usage.ru_stime)
