"""The world outside, as a protocol: clocks, randomness, threads.

Everything that waits, starts a thread or asks for the time does it through an `Env`, so that the simulator
can run the very same code in virtual time. Plain locks are used directly: nobody waits while holding one,
save a store's own, whose waits are bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class ThreadLike(Protocol):
    """A started thread."""

    def is_alive(self) -> bool: ...


class Signal(Protocol):
    """A flag that threads wait for; shaped like `threading.Event`."""

    def is_set(self) -> bool: ...
    def set(self) -> None: ...
    def clear(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool: ...


class Env(Protocol):
    """Clocks, randomness and threads."""

    def now(self) -> float:
        """Seconds on the clock that counts through suspend; deadlines live on it (PROTOCOL T1)."""
        ...

    def wall(self) -> float:
        """Seconds since the Unix epoch: for display, and for noticing a hidden pause (PROTOCOL T3)."""
        ...

    def pid(self) -> int:
        """The process id; another value than before means that this is a forked child."""
        ...

    def random(self) -> float:
        """A number in [0, 1), for jitter."""
        ...

    def nonce(self) -> str:
        """A fresh unguessable id, 32 hexadecimal digits."""
        ...

    def signal(self) -> Signal:
        """A new flag to wait for, not set."""
        ...

    def spawn(self, run: Callable[[], None], name: str) -> ThreadLike:
        """Starts a daemon thread. Raises RuntimeError where the platform cannot start one."""
        ...

    def current(self) -> ThreadLike:
        """The thread that asks."""
        ...
