"""The child processes of commands: signals that are passed on, the terminal, and an end together."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any

_FORWARDED = [
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH")
    if hasattr(signal, name)
]
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_TERMINAL_STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
NOT_FOUND, NOT_RUNNABLE = 127, 126


class Ended(BaseException):
    """A signal came before there was a command that it could be passed on to."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Signals:
    """Collects signals instead of dying of them.

    Attributes:
        received: what is to be passed on.
        wakeup: a descriptor that wakes a select.
        end_the_wait: whether a signal that asks to end raises Ended; there is nobody yet to pass it on to.
    """

    def __init__(self) -> None:
        self.received: list[int] = []
        self.end_the_wait = True
        self.wakeup = self._writer = self._woken = -1
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        self.wakeup, self._writer = os.pipe()
        os.set_blocking(self.wakeup, False)
        os.set_blocking(self._writer, False)
        for number in [*_FORWARDED, signal.SIGCHLD]:
            if number == signal.SIGCHLD or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._collect)
        self._woken = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        self.end_the_wait = False
        signal.set_wakeup_fd(self._woken)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self.wakeup)
        os.close(self._writer)

    def _collect(self, number: int, frame: object) -> None:
        if self.end_the_wait and number in _ENDING:
            self.end_the_wait = False
            raise Ended(number)
        if number != signal.SIGCHLD:
            self.received.append(number)


class Terminal:
    """Gives the terminal to the command, if azlatch has it, and takes it back."""

    def __init__(self, group: int) -> None:
        self._group = group
        self._mine = os.getpgrp()
        self._ttou: Any = None
        self.was_given = False

    def __enter__(self) -> Terminal:
        if not self._is_mine():
            return self
        self._ttou = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        self.was_given = True
        self._give(self._group)
        # It may have asked for the terminal before it had it, and been stopped for that.
        signal_group(self._group, signal.SIGCONT)
        return self

    def __exit__(self, *_: object) -> None:
        if self.was_given:
            self._give(self._mine)
            signal.signal(signal.SIGTTOU, self._ttou)

    def stop_along(self) -> None:
        """The terminal stopped the command (Ctrl-Z): stops azlatch's own group, until it is continued."""
        self._give(self._mine)
        os.killpg(self._mine, signal.SIGTSTP)
        if self._is_mine():
            self._give(self._group)

    def _is_mine(self) -> bool:
        try:
            return os.tcgetpgrp(0) == self._mine
        except OSError:
            return False

    def _give(self, group: int) -> None:
        with contextlib.suppress(OSError):
            os.tcsetpgrp(0, group)


def lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def stopped_by_terminal(child: int) -> bool:
    try:
        found = os.waitid(os.P_PID, child, os.WSTOPPED | os.WNOHANG)
    except ChildProcessError:
        return False
    return found is not None and found.si_status in _TERMINAL_STOPS


def signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def reap_orphans(child: int) -> None:
    """As process 1 of a container: the children of others end up here, and nobody else waits for them."""
    with contextlib.suppress(ChildProcessError):
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid == child:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)
