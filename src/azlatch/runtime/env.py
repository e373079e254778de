"""The machine's own clocks and threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from random import random

from azlatch.core.env import Env, Signal, ThreadLike

__all__ = ["REAL", "Env", "RealEnv", "Signal", "ThreadLike"]

# CLOCK_BOOTTIME counts through a suspend, CLOCK_MONOTONIC does not everywhere (PROTOCOL T1).
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class RealEnv:
    """The machine's own clocks and threads."""

    __slots__ = ()

    def now(self) -> float:
        return time.clock_gettime(_CLOCK)

    def wall(self) -> float:
        return time.time()

    def pid(self) -> int:
        return os.getpid()

    def random(self) -> float:
        return random()

    def nonce(self) -> str:
        return os.urandom(16).hex()

    def signal(self) -> Signal:
        return threading.Event()

    def spawn(self, run: Callable[[], None], name: str) -> ThreadLike:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def current(self) -> ThreadLike:
        return threading.current_thread()


REAL = RealEnv()
