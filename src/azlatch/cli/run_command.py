"""`azlatch run`: a command that runs while a latch is held.

The command gets a process group of its own, and the terminal if there is one, so that Ctrl-C reaches it once
and Ctrl-Z stops both. Signals that azlatch gets are passed on to that group; what azlatch was told to ignore
(nohup), the command ignores too. The command inherits the liveness lock: as long as it lives, nobody takes the
latch over early. Where the platform can (Linux), the command is killed when azlatch itself is killed. There is
no shell: the arguments are the command's, untouched.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import click

from azlatch.cli.app import LOST, Options, Seconds, say
from azlatch.runtime.connect import default_url
from azlatch.runtime.latches import Hold, Latches

_FORWARDED = [
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH")
    if hasattr(signal, name)
]
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_TERMINAL_STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_NOT_FOUND, _NOT_RUNNABLE = 127, 126
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h


@click.command("run", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.option(
    "--ttl", type=float, default=30.0, show_default=True, help="Seconds that the grant lives unrenewed."
)
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds to wait; 0 is one try.")
@click.option("--max-hold", type=float, help="Seconds after which the command is ended, whatever it does.")
@click.option(
    "--grace",
    type=Seconds(),
    default=10.0,
    show_default=True,
    help="Seconds between TERM and KILL after a loss.",
)
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD…")
@click.pass_obj
def command(
    options: Options,
    name: str,
    ttl: float,
    timeout: float,
    max_hold: float | None,
    grace: float,
    arguments: tuple[str, ...],
) -> int:
    """Run CMD while holding NAME.

    The child gets AZLATCH_NAME, AZLATCH_FENCE and AZLATCH_URL. Exit: the child's code; 126 or 127 if it
    cannot be run or found; 128 + n if signal n ended it; 75 not acquired in time; 76 lost.
    """
    try:
        with _Signals() as signals, options.connect() as latches:
            hold = latches.acquire(name, ttl=ttl, timeout=timeout, max_hold=max_hold)
            signals.end_the_wait = False
            try:
                return _run(latches, hold, list(arguments), options.url, grace, signals)
            finally:
                hold.release()
    except _Ended as ended:
        return 128 + ended.number


def _run(
    latches: Latches, hold: Hold, arguments: list[str], url: str | None, grace: float, signals: _Signals
) -> int:
    environment = {
        **os.environ,
        "AZLATCH_NAME": hold.name,
        "AZLATCH_FENCE": str(hold.fence),
        "AZLATCH_URL": url or default_url(dict(os.environ)),
    }
    liveness = getattr(latches._connection.backend, "liveness_fileno", None)
    # A duplicate shares the lock; the original is closed in the fork, before the command is there.
    inherited = [os.dup(liveness())] if liveness is not None else []
    try:
        child = subprocess.Popen(
            arguments,
            env=environment,
            pass_fds=inherited,
            process_group=0,
            preexec_fn=_die_with(os.getpid()),
        )
    except FileNotFoundError:
        say(f"azlatch: {arguments[0]}: not found")
        return _NOT_FOUND
    except OSError as error:
        say(f"azlatch: {arguments[0]}: {error.strerror}")
        return _NOT_RUNNABLE
    finally:
        for file in inherited:
            os.close(file)
    with _Terminal(child.pid) as terminal:
        ended = _wait(child, hold, signals, terminal, grace)
    if ended or hold.is_lost:
        what = "the command was ended" if ended else "the command had not noticed when it ended"
        say(f"azlatch: {hold.name!r} was lost ({hold.lost_reason}), and {what}")
        return LOST
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _wait(
    child: subprocess.Popen[bytes], hold: Hold, signals: _Signals, terminal: _Terminal, grace: float
) -> bool:
    """Waits for the command's end, passing signals on; whether a loss of the hold ended it."""
    kill_at: float | None = None
    lost = False
    told, teller = socket.socketpair()

    def tell(reason: str) -> None:
        # A closed socket has no descriptor that could be somebody else's by now.
        with contextlib.suppress(OSError):
            teller.send(b"!")

    with told, teller:
        hold.on_lost(tell)
        # After a loss it is over when nothing of the group is left, not just the command itself.
        while child.poll() is None or (kill_at is not None and _lives(child.pid)):
            if hold.is_lost and not lost:
                lost = True
                _signal_group(child.pid, signal.SIGTERM)
                # A stopped command has to go on to hear of it.
                _signal_group(child.pid, signal.SIGCONT)
                kill_at = time.monotonic() + grace
            if kill_at is not None and time.monotonic() >= kill_at:
                _signal_group(child.pid, signal.SIGKILL)
                kill_at = None
            while signals.received:
                _signal_group(child.pid, signals.received.pop(0))
            if terminal.was_given and _stopped_by_terminal(child.pid):
                terminal.stop_along()
                if not hold.is_lost:
                    _signal_group(child.pid, signal.SIGCONT)
                continue
            if kill_at is not None:
                # What the command left behind sends no SIGCHLD.
                wait = min(max(kill_at - time.monotonic(), 0.0), 1.0 if child.returncode is None else 0.05)
            else:
                wait = 1.0 if lost else min(max(hold.remaining(), 0.0) + 0.001, 1.0)
            for file in select.select([signals.wakeup, told.fileno()], [], [], wait)[0]:
                os.read(file, 4_096)
            if os.getpid() == 1:
                _reap_orphans(child.pid)
    return lost


class _Ended(BaseException):
    """A signal ended the wait for the latch."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Signals:
    """Collects signals instead of dying of them.

    Attributes:
        received: what is to be passed on.
        wakeup: a descriptor that wakes a select.
        end_the_wait: whether a signal that asks to end raises _Ended; there is nobody yet to pass it on to.
    """

    def __init__(self) -> None:
        self.received: list[int] = []
        self.end_the_wait = True
        self.wakeup = self._writer = self._woken = -1
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
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
            raise _Ended(number)
        if number != signal.SIGCHLD:
            self.received.append(number)


class _Terminal:
    """Gives the terminal to the command, if azlatch has it, and takes it back."""

    def __init__(self, group: int) -> None:
        self._group = group
        self._mine = os.getpgrp()
        self._ttou: Any = None
        self.was_given = False

    def __enter__(self) -> _Terminal:
        if not self._is_mine():
            return self
        self._ttou = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        self.was_given = True
        self._give(self._group)
        # It may have asked for the terminal before it had it, and been stopped for that.
        _signal_group(self._group, signal.SIGCONT)
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


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _stopped_by_terminal(child: int) -> bool:
    try:
        found = os.waitid(os.P_PID, child, os.WSTOPPED | os.WNOHANG)
    except ChildProcessError:
        return False
    return found is not None and found.si_status in _TERMINAL_STOPS


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _reap_orphans(child: int) -> None:
    """As process 1 of a container: the children of others end up here, and nobody else waits for them."""
    with contextlib.suppress(ChildProcessError):
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid == child:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)


def _die_with(parent: int) -> Callable[[], None] | None:
    """For Linux: the kernel kills the command when azlatch is gone, however that happened."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl

    def die_with() -> None:
        prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return die_with
