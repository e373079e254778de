"""`azlatch run`: a command that runs while a latch is held.

The command gets a process group of its own, and the terminal if there is one, so that Ctrl-C reaches it once.
Signals that azlatch gets are passed on to that group. The command inherits the liveness lock: as long as it
lives, nobody takes the latch over early. Where the platform can (Linux), the command is killed when azlatch
itself is killed. There is no shell: the arguments are the command's, untouched.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import click

from azlatch.cli.app import LOST, Options, say
from azlatch.runtime.latches import Hold, Latches

_FORWARDED = [
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH")
    if hasattr(signal, name)
]
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
    "--grace", type=float, default=10.0, show_default=True, help="Seconds between TERM and KILL after a loss."
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
    with options.connect() as latches:
        hold = latches.acquire(name, ttl=ttl, timeout=timeout, max_hold=max_hold)
        try:
            return _run(latches, hold, list(arguments), options.url, grace)
        finally:
            hold.release()


def _run(latches: Latches, hold: Hold, arguments: list[str], url: str | None, grace: float) -> int:
    environment = {**os.environ, "AZLATCH_NAME": hold.name, "AZLATCH_FENCE": str(hold.fence)}
    if url is not None:
        environment["AZLATCH_URL"] = url
    liveness = getattr(latches._connection.backend, "liveness_fileno", None)
    # A duplicate shares the lock; the original is closed in the fork, before the command is there.
    inherited = [os.dup(liveness())] if liveness is not None else []
    with _signals() as (wakeup, received):
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
        with _terminal(child.pid):
            lost = _wait(child, hold, wakeup, received, grace)
    if lost:
        say(f"azlatch: {hold.name!r} was lost ({hold.lost_reason}), and the command was ended")
        return LOST
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _wait(child: subprocess.Popen[bytes], hold: Hold, wakeup: int, received: list[int], grace: float) -> bool:
    """Waits for the command's end, passing signals on; whether a loss of the hold ended it."""
    told = os.pipe()
    hold.on_lost(lambda reason: os.write(told[1], b"!"))
    killed_at: float | None = None
    lost = False
    try:
        while child.poll() is None:
            if hold.is_lost and not lost:
                lost = True
                _signal_group(child.pid, signal.SIGTERM)
                # A stopped command has to go on to hear of it.
                _signal_group(child.pid, signal.SIGCONT)
                killed_at = time.monotonic() + grace
            if killed_at is not None and time.monotonic() >= killed_at:
                _signal_group(child.pid, signal.SIGKILL)
                killed_at = None
            while received:
                _signal_group(child.pid, received.pop(0))
            left = 1.0 if killed_at is None else max(killed_at - time.monotonic(), 0.0)
            wait = min(left, 1.0) if lost else min(left, max(hold.remaining(), 0.0) + 0.001, 1.0)
            for file in select.select([wakeup, told[0]], [], [], wait)[0]:
                os.read(file, 4_096)
            if os.getpid() == 1:
                _reap_orphans(child.pid)
    finally:
        for file in told:
            os.close(file)
    return lost


@contextlib.contextmanager
def _signals() -> Iterator[tuple[int, list[int]]]:
    """Collects signals instead of dying of them; the descriptor wakes a select."""
    received: list[int] = []
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)

    def collect(number: int, frame: object) -> None:
        if number != signal.SIGCHLD:
            received.append(number)

    before = {number: signal.signal(number, collect) for number in [*_FORWARDED, signal.SIGCHLD]}
    woken = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader, received
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)


@contextlib.contextmanager
def _terminal(group: int) -> Iterator[None]:
    """Gives the terminal to the command, if azlatch has it, and takes it back."""
    try:
        mine = os.tcgetpgrp(0)
    except OSError:
        yield
        return
    if mine != os.getpgrp():
        yield
        return
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        with contextlib.suppress(OSError):
            os.tcsetpgrp(0, group)
        yield
        with contextlib.suppress(OSError):
            os.tcsetpgrp(0, mine)
    finally:
        signal.signal(signal.SIGTTOU, before)


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
