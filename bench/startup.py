"""What importing azlatch adds to the start of Python."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

_LIMIT = 30.0


def measure(place: Path, *, runs: int) -> tuple[float, float]:
    """Seconds for `pass` and for `import azlatch`: medians of runs that alternate."""
    codes = ("pass", "import azlatch")
    spent: dict[str, list[float]] = {code: [] for code in codes}
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(place / "pycache")}
    # An installed package is compiled already; this keeps what the first run compiles.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for run in range(-1, runs):
        for code in codes:
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, timeout=_LIMIT, env=environment)
            if run >= 0:
                spent[code].append(time.perf_counter() - started)
    return statistics.median(spent["pass"]), statistics.median(spent["import azlatch"])
