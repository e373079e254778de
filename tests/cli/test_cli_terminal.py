"""`azlatch run` on a terminal and while it waits: who gets which signal, and who has the terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

PATIENCE = 30.0


class Terminal:
    """A program on a terminal of its own, as the leader of its session."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.execve(command[0], command, environment)
        self.seen = ""

    def until(self, text: str) -> None:
        """Reads until the text was printed after what was awaited before."""
        end = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < end, f"{text!r} did not come: {self.seen!r}"
            assert self._read(0.1), f"it ended without {text!r}: {self.seen!r}"
        self.seen = self.seen.partition(text)[2]

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def end(self) -> int:
        """Reads to the end, and returns the exit code."""
        end = time.monotonic() + PATIENCE
        while self._read(0.1):
            assert time.monotonic() < end, f"it did not end: {self.seen!r}"
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self) -> None:
        try:
            if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass
        os.close(self._master)

    def _read(self, wait: float) -> bool:
        if not select.select([self._master], [], [], wait)[0]:
            return True
        try:
            piece = os.read(self._master, 4_096)
        except OSError:
            return False
        self.seen += piece.decode(errors="replace")
        return bool(piece)


@pytest.fixture
def terminal(shell: Any) -> Iterator[Callable[..., Terminal]]:
    """Starts scripts of bash with job control, where {run} stands for `azlatch run job`."""
    opened: list[Terminal] = []
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")

    def start(script: str) -> Terminal:
        run = shlex.join(shell.command("run", "job"))
        script = "set -m\n" + script.replace("{run}", run)
        opened.append(Terminal([bash, "--norc", "--noprofile", "-c", script], shell.environment))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def test_ctrl_c_and_the_terminal_comes_back(terminal: Callable[..., Terminal]) -> None:
    """Ctrl-C reaches the command once; the shell that started azlatch can read from the terminal after it."""
    child = "trap 'n=$((n+1))' INT; echo go; while [ -z \"$n\" ]; do sleep 0.05; done; sleep 0.3; exit $n"
    screen = terminal(f'{{run}} -- sh -c {shlex.quote(child)}; echo "code $?"; read line; echo "got $line"')
    screen.until("go\r\n")
    screen.type("\x03")
    screen.until("code 1\r\n")
    screen.type("a line\n")
    screen.until("got a line")
    assert screen.end() == 0


def test_a_command_may_read_the_terminal_at_once(terminal: Callable[..., Terminal]) -> None:
    """A command whose first act is to ask the terminal gets its answer, and is not left stopped."""
    screen = terminal("{run} -- sh -c 'read line; echo \"it is $line\"'")
    screen.type("here\n")
    screen.until("it is here")
    assert screen.end() == 0


def test_ctrl_z_stops_both_and_gives_the_terminal_back(terminal: Callable[..., Terminal]) -> None:
    """Ctrl-Z leads back to the shell, and fg goes on with the command."""
    child = 'echo go; read line; echo "it is $line"'
    screen = terminal(
        f'{{run}} --ttl 600 -- sh -c {shlex.quote(child)}; echo "stopped $?"\n'
        'read word; echo "in shell $word"; fg'
    )
    screen.until("go\r\n")
    screen.type("\x1a")
    screen.until("stopped 1")
    screen.type("one\n")
    screen.until("in shell one")
    screen.until("run job")
    screen.type("two\n")
    screen.until("it is two")
    assert screen.end() == 0


def test_lost_while_stopped_ends_the_command(terminal: Callable[..., Terminal]) -> None:
    """Whoever stays stopped past the ttl has lost the latch: fg ends the command with 76."""
    screen = terminal("{run} --ttl 3 -- sh -c 'echo go; sleep 60'; sleep 3.5; fg; echo \"code $?\"")
    screen.until("go\r\n")
    screen.type("\x1a")
    screen.until("code 76")
    assert screen.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_wait(shell: Any, number: signal.Signals) -> None:
    """While it waits for the latch a signal ends azlatch with 128 + n, and the command does not start."""
    holder = shell.start("run", "job", "--", "sh", "-c", "echo in; exec sleep 60")
    assert shell.line(holder) == "in"
    waiter = shell.start("run", "job", "--timeout", "60", "--", "echo", "started")
    shell.until(lambda: shell.log.read_text().count('"request"') == 2)
    waiter.send_signal(number)
    output, errors = waiter.communicate(timeout=PATIENCE)
    assert waiter.returncode == 128 + number
    assert output + errors == ""


def test_what_is_ignored_stays_ignored(shell: Any) -> None:
    """Under nohup a hangup ends neither azlatch nor the command."""
    holder = shell.start(
        "run",
        "job",
        "--",
        "sh",
        "-c",
        "echo in; sleep 0.5; kill -HUP $$; echo alive",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    assert shell.line(holder) == "in"
    holder.send_signal(signal.SIGHUP)
    assert shell.line(holder) == "alive"
    assert holder.wait(PATIENCE) == 0


def test_lost_before_the_command_ended(shell: Any) -> None:
    """If azlatch itself was stopped past the ttl, a command that ended well meanwhile still is 76."""
    holder = shell.start("run", "job", "--ttl", "1", "--", "sh", "-c", "echo $$; sleep 2.5")
    command = int(shell.line(holder))
    holder.send_signal(signal.SIGSTOP)
    # The command ends, and nobody waits for it yet.
    shell.until(lambda: not shell.alive(command))
    holder.send_signal(signal.SIGCONT)
    assert holder.wait(PATIENCE) == 76
    assert holder.stderr is not None
    assert "lost (expired)" in holder.stderr.read()


def test_a_loss_ends_what_the_command_started(shell: Any) -> None:
    """After a loss whatever of the group does not heed TERM is killed, also when the command itself is gone."""
    script = "trap '' TERM; sh -c 'echo $$; while :; do sleep 0.05; done' & trap - TERM; wait"
    holder = shell.start("run", "job", "--max-hold", "1", "--grace", "0.5", "--", "sh", "-c", script)
    grandchild = int(shell.line(holder))
    assert holder.wait(PATIENCE) == 76
    try:
        shell.until(lambda: not shell.alive(grandchild))
    finally:
        if shell.alive(grandchild):
            os.kill(grandchild, signal.SIGKILL)


def _has_pid_namespaces() -> bool:
    if not sys.platform.startswith("linux") or shutil.which("unshare") is None:
        return False
    command = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _has_pid_namespaces(), reason="needs the right to make pid namespaces")
def test_as_process_1(shell: Any) -> None:
    """As process 1 it reaps the orphans of others, passes a signal on, and has the command's exit code."""
    script = (
        "trap 'exit 5' TERM; sh -c 'sh -c \"exit 0\" & exec sh -c \"exit 0\"'; (sleep 0.1 &) ; sleep 2; "
        "grep -l 'State:.*Z' /proc/[0-9]*/status | wc -l; while :; do sleep 0.05; done"
    )
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    namespace = subprocess.Popen(
        [*unshare, *shell.command("run", "job", "--", "sh", "-c", script)],
        env=shell.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert shell.line(namespace) == "0"
        first = int(re.findall(r"\d+", _children(namespace.pid))[0])
        os.kill(first, signal.SIGTERM)
        assert namespace.wait(PATIENCE) == 5
    finally:
        namespace.kill()
        namespace.wait(PATIENCE)
        assert namespace.stdout is not None
        namespace.stdout.close()


def _children(pid: int) -> str:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return file.read()
