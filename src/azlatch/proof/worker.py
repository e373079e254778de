"""One instance of a proof: reads a value, thinks, and writes it back, again and again.

Started by `azlatch.proof.run` with a JSON description on its command line. Between reading and writing it
asks its standard input whether a fault is due to it; then it says so on its standard output and waits there,
to be stopped or killed by a real signal.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from random import Random
from typing import Any

import azlatch
from azlatch.audit.log import FileSink
from azlatch.proof.values import Values
from azlatch.runtime.latches import Hold, Latches

#: The share of changes that take longer than the ttl, so that only renewals keep the hold ...
_LONG = 0.02
#: ... that are followed by a purge of unused names, where the store is the proof's own, and by a break.
_PURGE, _BREAK = 0.02, 0.02

#: How long a worker that is to be killed waits for it, seconds.
_LAST_WAIT = 20.0
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h


class Worker:
    """The work of one instance."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._task = task
        self._rng = Random(task["seed"])
        self._values = Values(task["values"])
        self._names: list[str] = task["names"]
        self._ttl = float(task["ttl"])
        # A long lease of one who was killed keeps a name for long; meanwhile there are others.
        self._patience = 10.0 if self._ttl < 5 else 3.0
        # Of the run, whenever this process came to start: on a busy machine that takes its time.
        self._end = float(task["until"])
        self.counts = {"attempted": 0, "accepted": 0, "rejected": 0, "lost": 0, "errors": 0}

    def run(self) -> None:
        """Works until the time is over."""
        if not self._task["protected"]:
            while self._on():
                self._unprotected()
            return
        audit = FileSink(
            self._task["audit"], max_bytes=self._task["audit_bytes"], keep=self._task["audit_parts"]
        )
        with azlatch.connect(self._task["url"], audit=audit) as latches:
            while self._on():
                self._protected(latches)
                self._operate(latches)

    def _on(self) -> bool:
        return time.clock_gettime(time.CLOCK_BOOTTIME) < self._end

    def _unprotected(self) -> None:
        name = self._rng.choice(self._names)
        value = self._values.read(name)
        self.counts["attempted"] += 1
        self._think(name, None)
        self._values.write_unguarded(name, value + 1, self._task["instance"])
        self.counts["accepted"] += 1

    def _protected(self, latches: Latches) -> None:
        name = self._rng.choice(self._names)
        with contextlib.suppress(azlatch.HoldLost):
            try:
                hold = latches.acquire(name, ttl=self._ttl, timeout=self._patience)
            except azlatch.AcquireTimeout:
                return
            except azlatch.BackendError as error:
                self._count(error)
                return
            try:
                with hold:
                    self._change(latches, hold, name)
            except (azlatch.BackendError, azlatch.OutcomeUnknown) as error:
                # Of ensure(), where it has to ask the store.
                self._count(error)

    def _count(self, error: azlatch.LatchError) -> None:
        self.counts["errors"] += 1
        sys.stderr.write(f"{type(error).__name__}: {error}\n")

    def _operate(self, latches: Latches) -> None:
        """What operators do meanwhile."""
        chance = self._rng.random()
        try:
            if chance < _BREAK:
                # What has been held the longest is what an operator would break.
                held = [view for view in latches.list() if view.state == "held" and view.since is not None]
                for view in sorted(held, key=lambda view: view.since or 0.0)[:1]:
                    latches.break_hold(view.name, reason="a proof", fence=view.fence)
            elif chance < _BREAK + _PURGE and self._task["alone"]:
                latches.purge(older_than=0)
        except (azlatch.BackendError, azlatch.OutcomeUnknown, azlatch.UsageError):
            self.counts["errors"] += 1

    def _change(self, latches: Latches, hold: Hold, name: str) -> None:
        assert hold.fence is not None
        who = self._task["instance"]
        try:
            value = self._values.read_guarded(name, hold.fence, who)
            self.counts["attempted"] += 1
            hold.ensure()
            # The gap that no latch can close: whoever is stopped here writes when it wakes up.
            if self._think(name, hold):
                self._say_belief(hold)
            self._values.write_guarded(name, value + 1, hold.fence, who)
        except azlatch.FenceRejected as refused:
            self.counts["rejected"] += 1
            recorder = latches._connection.recorder
            assert recorder is not None
            recorder.emit("rejected", name=name, gate=name, fence=hold.fence, newest=refused.newest)
            return
        self.counts["accepted"] += 1

    def _say_belief(self, hold: Hold) -> None:
        """After a stop: if the hold is believed in, when it was, for the judge to compare with later grants."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        if not hold.is_lost:
            _say(believed=hold.name, fence=hold.fence, at=now)

    def _think(self, name: str, hold: Hold | None) -> bool:
        """The work between reading and writing, where a fault may be due; whether it was stopped there."""
        long = hold is not None and self._rng.random() < _LONG
        time.sleep(
            self._rng.uniform(1.2, 3.0 if self._ttl < 5 else 1.6) * self._ttl
            if long
            else self._rng.uniform(0.0, self._task["think"])
        )
        if not select.select([sys.stdin], [], [], 0)[0]:
            return False
        fault = sys.stdin.readline().strip()
        if not fault:
            return False
        fence, until = (hold.fence, hold.machine.deadline) if hold is not None else (None, None)
        _say(fault=fault, name=name, fence=fence, until=until)
        if fault == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            time.sleep(_LAST_WAIT)
        return True


def _say(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def _die_with_the_proof(proof: int) -> None:
    """For Linux: an instance that is stopped when its proof is killed would stay for ever."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != proof:
            sys.exit(1)


def main() -> None:
    """The command line: one JSON object."""
    task = json.loads(sys.argv[1])
    _die_with_the_proof(task["proof"])
    with contextlib.ExitStack() as stack:
        if task.get("mutant"):
            from azlatch.testing.mutants import MUTANTS

            stack.enter_context(MUTANTS[task["mutant"]].applied())
        worker = Worker(task)
        worker.run()
        _say(done=worker.counts)


if __name__ == "__main__":
    main()
