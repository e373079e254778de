"""`azlatch run`: a command that runs while a latch is held.

The command gets a process group of its own, and the terminal if there is one, so that Ctrl-C reaches it once
and Ctrl-Z stops both. Signals that azlatch gets are passed on to that group; what azlatch was told to ignore
(nohup), the command ignores too. The command inherits the liveness lock: as long as it lives, nobody takes the
latch over early. Where the platform can (Linux), the command is killed when azlatch itself is killed. There is
no shell: the arguments are the command's, untouched.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import time

import click

from azlatch.cli.app import LOST, Options, Seconds, say
from azlatch.cli.child import (
    NOT_FOUND,
    NOT_RUNNABLE,
    Ended,
    Signals,
    Terminal,
    lives,
    reap_orphans,
    signal_group,
    stopped_by_terminal,
)
from azlatch.lab.child import die_with_parent
from azlatch.runtime.connect import default_url
from azlatch.runtime.latches import Hold, Latches


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
        with Signals() as signals, options.connect() as latches:
            hold = latches.acquire(name, ttl=ttl, timeout=timeout, max_hold=max_hold)
            signals.end_the_wait = False
            try:
                return _run(latches, hold, list(arguments), options.url, grace, signals)
            finally:
                hold.release()
    except Ended as ended:
        return 128 + ended.number


def _run(
    latches: Latches, hold: Hold, arguments: list[str], url: str | None, grace: float, signals: Signals
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
            preexec_fn=die_with_parent(os.getpid()),
        )
    except FileNotFoundError:
        say(f"azlatch: {arguments[0]}: not found")
        return NOT_FOUND
    except OSError as error:
        say(f"azlatch: {arguments[0]}: {error.strerror}")
        return NOT_RUNNABLE
    finally:
        for file in inherited:
            os.close(file)
    with Terminal(child.pid) as terminal:
        ended = _wait(child, hold, signals, terminal, grace)
    if ended or hold.is_lost:
        what = "the command was ended" if ended else "the command had not noticed when it ended"
        say(f"azlatch: {hold.name!r} was lost ({hold.lost_reason}), and {what}")
        return LOST
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _wait(
    child: subprocess.Popen[bytes], hold: Hold, signals: Signals, terminal: Terminal, grace: float
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
        while child.poll() is None or (kill_at is not None and lives(child.pid)):
            if hold.is_lost and not lost:
                lost = True
                signal_group(child.pid, signal.SIGTERM)
                # A stopped command has to go on to hear of it.
                signal_group(child.pid, signal.SIGCONT)
                kill_at = time.monotonic() + grace
            if kill_at is not None and time.monotonic() >= kill_at:
                signal_group(child.pid, signal.SIGKILL)
                kill_at = None
            while signals.received:
                signal_group(child.pid, signals.received.pop(0))
            if terminal.was_given and stopped_by_terminal(child.pid):
                terminal.stop_along()
                if not hold.is_lost:
                    signal_group(child.pid, signal.SIGCONT)
                continue
            if kill_at is not None:
                # What the command left behind sends no SIGCHLD.
                wait = min(max(kill_at - time.monotonic(), 0.0), 1.0 if child.returncode is None else 0.05)
            else:
                wait = 1.0 if lost else min(max(hold.remaining(), 0.0) + 0.001, 1.0)
            for file in select.select([signals.wakeup, told.fileno()], [], [], wait)[0]:
                os.read(file, 4_096)
            if os.getpid() == 1:
                reap_orphans(child.pid)
    return lost
