"""A service in a process of its own, which ends with the one that started it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h
_LAUNCH = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({_SET_DEATH_SIGNAL}, {int(signal.SIGKILL)}, 0, 0, 0)
parent, *command = sys.argv[1:]
if os.getppid() == int(parent):
    os.execv(command[0], command)
"""
#: How long the kernel may take to end a killed process, seconds.
_KILLED = 10.0


def start(
    arguments: Sequence[str], output: IO[bytes], *, env: Mapping[str, str] | None = None, cwd: str | None = None
) -> subprocess.Popen[bytes]:
    """Starts it in a process group of its own, so that Ctrl-C does not reach it.

    Its standard input is a pipe that closes when this process ends, however that happens: a service that
    watches it ends with us. On Linux the kernel kills it too, provided that the main thread started it (the
    death signal is sent when the *thread* that started it ends); that reaches a stopped service as well. The
    child asks for that itself: there may be threads here, and no Python is to run between a fork and an exec.
    """
    if sys.platform.startswith("linux") and threading.current_thread() is threading.main_thread():
        arguments = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), *arguments]
    return subprocess.Popen(
        arguments,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=env,
        cwd=cwd,
        process_group=0,
    )


def end(process: subprocess.Popen[bytes], grace: float) -> None:
    """TERM to its group, `grace` seconds, then KILL; returns when it has ended, also if it had before."""
    if process.poll() is None:
        tell(process, signal.SIGTERM)
        # A stopped process has to go on to hear of it.
        tell(process, signal.SIGCONT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    if process.poll() is None:
        tell(process, signal.SIGKILL)
        process.wait(_KILLED)
    if process.stdin is not None:
        process.stdin.close()


def tell(process: subprocess.Popen[bytes], number: int) -> None:
    """Sends a signal to its group, if it has not ended."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


def die_with_parent(parent: int) -> Callable[[], None] | None:
    """For Linux: the kernel kills the child when its parent is gone, however that happened."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl

    def die() -> None:
        prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return die
