"""Waking the waiters of other processes on this machine, through named pipes.

Every member that waits has a pipe; whoever frees a name writes the name's key into the pipe of the first
in line. A wake-up is a hint and nothing else: one that is lost costs a poll, one too many costs a look.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable

from azlatch.backends.liveness import Liveness, is_member
from azlatch.core.env import Env

_KEY = 16
_STOP = b"stop".ljust(_KEY)


def key_of(name: str) -> bytes:
    """Sixteen characters for a name of any length, so that one write to a pipe is atomic."""
    return hashlib.blake2b(name.encode(), digest_size=_KEY // 2).hexdigest().encode()


class Wakes:
    """This member's pipe and the thread that reads it, both made at the first wait."""

    def __init__(self, env: Env, liveness: Liveness, wake: Callable[[str], None]) -> None:
        self._env = env
        self._liveness = liveness
        self._wake = wake
        self._lock = threading.Lock()
        self._names: dict[bytes, str] = {}
        self._started = False
        self._pipe = -1

    def expect(self, name: str) -> None:
        """From now on a wake-up for the name is passed on. Without pipes, polling is left: no error."""
        with self._lock:
            self._names[key_of(name)] = name
            if self._started:
                return
            self._started = True
            path = self._liveness.path(self._liveness.member, "wake")
            try:
                os.mkfifo(path, 0o600)
                # Opened for both ends, so that reading blocks also while nobody writes.
                self._pipe = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                self._env.spawn(lambda: self._listen(self._pipe), "azlatch-wakes")
            except (OSError, RuntimeError):
                self._close()

    def expect_no_more(self, name: str) -> None:
        with self._lock:
            self._names.pop(key_of(name), None)

    def send(self, member: str, name: str) -> None:
        """Tells a member that the name is probably free."""
        if member == self._liveness.member:
            self._wake(name)
            return
        if not is_member(member):
            return
        with contextlib.suppress(OSError):
            pipe = os.open(
                self._liveness.path(member, "wake"), os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            )
            try:
                os.write(pipe, key_of(name))
            finally:
                os.close(pipe)

    def stop(self) -> None:
        with self._lock:
            self._names.clear()
            if self._pipe >= 0:
                with contextlib.suppress(OSError):
                    os.write(self._pipe, _STOP)
            self._pipe = -1

    def drop(self) -> None:
        """In a forked child: the pipe and its reader belong to the parent."""
        self._lock = threading.Lock()
        self._names = {}
        self._started = False
        self._close()

    def _close(self) -> None:
        if self._pipe >= 0:
            with contextlib.suppress(OSError):
                os.close(self._pipe)
        self._pipe = -1

    def _listen(self, pipe: int) -> None:
        while True:
            try:
                message = os.read(pipe, 256 * _KEY)
            except OSError:
                return
            keys = {message[at : at + _KEY] for at in range(0, len(message), _KEY)}
            if _STOP in keys:
                with contextlib.suppress(OSError):
                    os.close(pipe)
                return
            for key in sorted(keys):
                with self._lock:
                    name = self._names.get(key)
                if name is not None:
                    self._wake(name)
