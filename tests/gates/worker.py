"""A process of its own for the gate tests: it races, stays inside a gate, or is killed at every step in turn.

::

    worker.py race KIND PATH SEED COUNT [no-check]     offers fences, prints what was accepted
    worker.py inside KIND PATH FENCE                   enters, says so, leaves at a line on stdin
    worker.py command PATH FENCE                       runs a command in the gate, which ends at such a line
    worker.py crash FOLDER OLD|FRESH [data-first]      writes again and again, killed one step later each time
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from azlatch.errors import FenceRejected
from azlatch.gates import FileGate, SqliteGate, file, folder, sqlite_write
from azlatch.gates import fence as gate_fence
from azlatch.gates.folder import Folder
from azlatch.gates.ledger import Ledger

#: Every call that changes something on the disk, or could be the last one before a crash.
STEPS = {"close", "dup", "fchmod", "fchown", "fsync", "fstat", "open", "replace", "stat", "unlink", "write"}


@contextlib.contextmanager
def entered(kind: str, path: str, fence: int) -> Iterator[tuple[int, int, int | None]]:
    """Inside the gate: the sequence, the fence, and the fence that the resource itself carried before."""
    if kind == "file":
        with FileGate(path, timeout=60).open_guarded(fence) as guarded:
            found = Path(path).read_text() if os.path.exists(path) else ""
            guarded.write(str(fence).encode())
            yield (*guarded.acceptance, int(found) if found else None)
    else:
        with SqliteGate(path, "the journal", timeout=60).write(fence) as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS journal (place INTEGER PRIMARY KEY, fence INTEGER)")
            (before,) = cursor.execute("SELECT max(fence) FROM journal").fetchone()
            cursor.execute("INSERT INTO journal (fence) VALUES (?)", (fence,))
            yield (*cursor.acceptance, before)


def race(kind: str, path: str, seed: str, count: str, *mutant: str) -> None:
    if mutant:
        gate_fence.admits = lambda *_: True
        sqlite_write.fence_condition = lambda *_: "(1 = 1)"  # type: ignore[attr-defined]
    chance = random.Random(int(seed))
    print("ready", flush=True)
    sys.stdin.readline()
    for round_ in range(int(count)):
        offered = round_ + chance.randrange(10)
        try:
            with entered(kind, path, offered) as (sequence, fence, before):
                pass
        except FenceRejected as refused:
            print(json.dumps({"refused": refused.offered, "newest": refused.newest}), flush=True)
        else:
            print(json.dumps({"sequence": sequence, "fence": fence, "before": before}), flush=True)


def inside(kind: str, path: str, fence: str) -> None:
    with entered(kind, path, int(fence)):
        print("inside", flush=True)
        sys.stdin.readline()
    print("left", flush=True)


def command(path: str, fence: str) -> None:
    waits = "import sys; print('inside', flush=True); sys.stdin.readline()"
    sys.exit(FileGate(path).run(int(fence), [sys.executable, "-c", waits]))


class KillingOs:
    """The module os, until the process is killed just before its nth step."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        return self._step(found) if name in STEPS else found

    def _step(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **named)

        return step


class DataFirst(FileGate):
    """A mutant: the content is replaced before the ledger knows of its fence."""

    def _store(self, folder: Folder, lock: int, ledger: Ledger) -> None:
        folder.replace(f"{self._name}.gate.data", self._name)
        super()._store(folder, lock, ledger)
        os.close(folder.create(f"{self._name}.gate.data", None))


def crash(into: str, start: str, *mutant: str) -> None:
    gate_class = DataFirst if mutant else FileGate
    for steps in range(1_000):
        place = Path(into, str(steps))
        place.mkdir()
        path = place / "guarded"
        if start == "OLD":
            FileGate(path).write(5, "old")
        child = os.fork()
        if child == 0:
            folder.os = file.os = KillingOs(steps)  # type: ignore[assignment,attr-defined]
            gate_class(path).write(9, "new")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            print(steps, flush=True)
            return


if __name__ == "__main__":
    modes: dict[str, Callable[..., None]] = {"race": race, "inside": inside, "command": command, "crash": crash}
    modes[sys.argv[1]](*sys.argv[2:])
