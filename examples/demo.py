"""Processes that add one to a number in a file, first without a latch, then with one: what is lost.

``python examples/demo.py`` takes about ten seconds and leaves nothing behind. It exits with 1 if the latched
run lost an addition, and with 3 if the run without a latch lost none: then it has shown nothing.
"""
# ruff: noqa: T201 - it is a script, and what it prints is its purpose

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from typing import NamedTuple

import azlatch
from azlatch.gates import FileGate

#: Seconds for all processes to start, or to hand in their count.
PATIENCE = 30.0


class Outcome(NamedTuple):
    """What a run added, and what the file says."""

    added: int
    found: int

    @property
    def lost(self) -> int:
        return self.added - self.found


def add_unprotected(path: str) -> None:
    """Reads, and writes back one more. The write itself is whole: what is lost is lost between the two."""
    value = read(path)
    draft = f"{path}.{os.getpid()}"
    with open(draft, "w", encoding="ascii") as file:
        file.write(str(value + 1))
    os.replace(draft, path)


def add_latched(latches: azlatch.Latches, path: str) -> None:
    """The same while holding the latch, through a gate that refuses a holder who came back too late."""
    with latches.hold("counter", timeout=PATIENCE) as hold, FileGate(path).open_guarded(hold) as file:
        file.write(str(read(path) + 1).encode("ascii"))


def read(path: str) -> int:
    with open(path, encoding="ascii") as file:
        return int(file.read())


def work(folder: str, seconds: float, latched: bool, start: Barrier, counts: Queue[int]) -> None:
    """One process: adds as often as it can, and says how often that was."""
    path = os.path.join(folder, "counter")
    added = 0
    with azlatch.connect(f"sqlite:///{folder}/latches.db") as latches:
        start.wait(PATIENCE)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if latched:
                add_latched(latches, path)
            else:
                add_unprotected(path)
            added += 1
    counts.put(added)


def run(processes: int, seconds: float, *, latched: bool) -> Outcome:
    """Starts the processes on a new counter and adds up what they did."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="azlatch-example-") as folder:
        path = os.path.join(folder, "counter")
        with open(path, "w", encoding="ascii") as file:
            file.write("0")
        start, counts = context.Barrier(processes), context.Queue()
        workers = [
            context.Process(target=work, args=(folder, seconds, latched, start, counts), daemon=True)
            for _ in range(processes)
        ]
        for worker in workers:
            worker.start()
        # Raises queue.Empty if a process failed: then nothing is said of the others.
        added = sum(counts.get(timeout=seconds + 2 * PATIENCE) for _ in workers)
        for worker in workers:
            worker.join(PATIENCE)
        return Outcome(added, read(path))


def main(arguments: list[str] | None = None) -> int:
    """Runs both and compares; 0 if only the run without a latch lost additions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=4, help="processes that add (default 4)")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each run takes (default 3)")
    options = parser.parse_args(arguments)
    print(f"1 of 2: {options.processes} processes without a latch ...", flush=True)
    without = run(options.processes, options.seconds, latched=False)
    print(f"2 of 2: {options.processes} processes with a latch and a gate ...", flush=True)
    with_latch = run(options.processes, options.seconds, latched=True)
    print(f"\n{'':<16}{'added':>10}{'in the file':>14}{'lost':>10}")
    for label, outcome in (("without a latch", without), ("with a latch", with_latch)):
        print(f"{label:<16}{outcome.added:>10,}{outcome.found:>14,}{outcome.lost:>10,}")
    if with_latch.lost or not with_latch.added:
        print("\nFAILED: the latched run lost additions, or made none")
        return 1
    if not without.lost:
        print("\nInconclusive: the run without a latch lost nothing, so nothing was shown")
        return 3
    print(f"\nPassed: {without.lost:,} additions lost without a latch, none of {with_latch.added:,} with one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
