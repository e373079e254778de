"""Processes that contend: started once, given one task after another.

A task runs in two steps, so that all members of it begin together: `prepare` opens what is needed, and
`perform` is called when everyone is ready. No member outlives its parent or a task's limit.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Semaphore
from types import TracebackType
from typing import Any, Protocol

_CONTEXT = multiprocessing.get_context("spawn")
_GOODBYE = 5.0


@dataclass
class Shared:
    """What the members see of one another; the numbers are guarded by the lock that is measured."""

    turns: Any
    last: Any
    #: One for each who is about to wait.
    arrived: Semaphore
    #: For each member: someone has the lock after it.
    passed_on: list[Semaphore]

    def reset(self) -> None:
        self.turns.value = 0
        self.last.value = -1
        for semaphore in (self.arrived, *self.passed_on):
            while semaphore.acquire(block=False):
                pass


class Task(Protocol):
    """What a member does; it is pickled."""

    def prepare(self, me: int, shared: Shared) -> Callable[[], Any]:
        """Returns what to do when everyone is ready; its result goes back to the parent."""
        ...


class Crew:
    """`size` processes, numbered from 0."""

    def __init__(self, size: int) -> None:
        self.shared = Shared(
            turns=_CONTEXT.RawValue("q", 0),
            last=_CONTEXT.RawValue("q", -1),
            arrived=_CONTEXT.Semaphore(0),
            passed_on=[_CONTEXT.Semaphore(0) for _ in range(size)],
        )
        self._members: list[tuple[BaseProcess, Connection]] = []
        for number in range(size):
            ours, theirs = _CONTEXT.Pipe()
            process = _CONTEXT.Process(target=_serve, args=(number, theirs, self.shared), daemon=True)
            process.start()
            theirs.close()
            self._members.append((process, ours))

    def prepare(self, task: Task, members: Sequence[int], *, limit: float) -> None:
        """Readies these members; each ends itself if the task takes longer than `limit` seconds."""
        for member in members:
            self._members[member][1].send((task, limit))
        for member in members:
            self._receive(member, limit)

    def start(self, members: Sequence[int]) -> None:
        for member in members:
            self._members[member][1].send(None)

    def results(self, members: Sequence[int], *, limit: float) -> list[Any]:
        return [self._receive(member, limit) for member in members]

    def _receive(self, member: int, limit: float) -> Any:
        process, pipe = self._members[member]
        if not pipe.poll(limit + _GOODBYE):
            raise RuntimeError(f"process {process.pid} of the bench did not answer within {limit:g} s")
        try:
            return pipe.recv()
        except EOFError:
            process.join(_GOODBYE)
            raise RuntimeError(f"process {process.pid} of the bench ended: {process.exitcode}") from None

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for _, pipe in self._members:
            pipe.close()
        for process, _ in self._members:
            process.join(_GOODBYE if error is None else 0.5)
            if process.is_alive():
                process.kill()
                process.join()


def _serve(me: int, pipe: Connection, shared: Shared) -> None:
    # Ctrl-C reaches the parent too, and the end of the pipe tells us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            task, limit = pipe.recv()
        except EOFError:
            return
        # Its default action ends the process, whatever call it is in.
        signal.setitimer(signal.ITIMER_REAL, limit)
        perform = task.prepare(me, shared)
        pipe.send(None)
        pipe.recv()
        pipe.send(perform())
        signal.setitimer(signal.ITIMER_REAL, 0)
