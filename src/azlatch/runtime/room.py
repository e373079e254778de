"""Where the waiters of one process wait: for their turn, and for a wake-up from the store."""

from __future__ import annotations

import threading
from typing import Protocol

from azlatch.core.env import Env, Signal
from azlatch.core.line import Line
from azlatch.errors import BackendUnavailable, LatchError


class Waiting(Protocol):
    """A waiter of either driver; `tell` may be called from any thread, and raises if nobody listens."""

    name: str

    def tell(self) -> None: ...
    def is_gone(self) -> bool: ...


class Waiter:
    """A thread that waits."""

    __slots__ = ("_env", "_signal", "_told", "name")

    def __init__(self, env: Env, name: str) -> None:
        self.name = name
        self._env = env
        self._told = False
        # Made at the first wait: most acquires never wait.
        self._signal: Signal | None = None

    def is_gone(self) -> bool:
        return False

    def tell(self) -> None:
        self._told = True
        signal = self._signal
        if signal is not None:
            signal.set()

    def wait(self, until: float | None) -> bool:
        """Waits to be told, until then at most; whether it was. May return early for no reason."""
        signal = self._signal
        if signal is None:
            signal = self._signal = self._env.signal()
        if not self._told:
            signal.wait(None if until is None else max(until - self._env.now(), 0.0))
        signal.clear()
        told, self._told = self._told, False
        return told


class Room:
    """One line per name, and what the store last answered to the front of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line: Line[Waiting] = Line()
        self._answers: dict[str, LatchError | None] = {}

    def join(self, waiter: Waiting) -> bool:
        """Takes a place at the end; True if it is the front."""
        with self._lock:
            self._line.join(waiter.name, waiter)
        return self.is_front(waiter)

    def is_front(self, waiter: Waiting) -> bool:
        with self._lock:
            while (front := self._line.front(waiter.name)) is not None and front.is_gone():
                self._line.leave(waiter.name, front)
            return self._line.front(waiter.name) is waiter

    def leave(self, waiter: Waiting) -> bool:
        """Gives the place up and tells the next; True if nobody of this process waits any more."""
        with self._lock:
            after = self._line.leave(waiter.name, waiter)
            empty = self._line.waiting(waiter.name) == 0
            if empty:
                self._answers.pop(waiter.name, None)
        if after is not None:
            self._tell(after)
        return empty

    def wake(self, name: str) -> None:
        """The store says that the name is probably free; called from any thread."""
        with self._lock:
            front = self._line.front(name)
        if front is not None:
            self._tell(front)

    def waiting(self, name: str) -> int:
        with self._lock:
            return self._line.waiting(name)

    def note_answer(self, name: str, trouble: LatchError | None) -> None:
        """What the front got; those behind it ask nobody, and must tell an outage from contention (M6)."""
        with self._lock:
            if self._line.waiting(name):
                self._answers[name] = trouble

    def trouble(self, name: str) -> LatchError | None:
        """Why those behind the front have no answer, or None: the store said that the name is held."""
        with self._lock:
            if name in self._answers:
                return self._answers[name]
        return BackendUnavailable("it has not answered them yet")

    def _tell(self, waiter: Waiting) -> None:
        try:
            waiter.tell()
        except RuntimeError:
            # Its event loop is closed: it will never leave by itself, and the line must go on.
            self.leave(waiter)
