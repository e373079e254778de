"""Who of one process is next: first come, first served, and only the first one asks the store.

Any number of waiters for one name in one process thus costs the store one poller. Not thread-safe: the
runtime guards it with its own lock.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

W = TypeVar("W")


class Line(Generic[W]):
    """Waiters per name, told apart by identity."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[str, deque[W]] = {}

    def join(self, name: str, waiter: W) -> bool:
        """Takes a place at the end; True if that is the front."""
        line = self._lines.get(name)
        if line is None:
            self._lines[name] = deque((waiter,))
            return True
        line.append(waiter)
        return False

    def leave(self, name: str, waiter: W) -> W | None:
        """Gives the place up, from wherever it is; returns the one who is the front now instead."""
        line = self._lines.get(name)
        if line is None or waiter not in line:
            return None
        was_front = line[0] is waiter
        line.remove(waiter)
        if not line:
            del self._lines[name]
            return None
        return line[0] if was_front else None

    def front(self, name: str) -> W | None:
        """The waiter at the front, or None."""
        line = self._lines.get(name)
        return line[0] if line else None

    def waiting(self, name: str) -> int:
        """How many wait for the name, the front included."""
        return len(self._lines.get(name, ()))
