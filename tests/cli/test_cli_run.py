"""`azlatch run`: exit codes, arguments, signals, losses."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -TERM $$"], 128 + 15),
        (["sh", "-c", "kill -KILL $$"], 128 + 9),
        (["/nonexistent/command"], 127),
        (["/etc/passwd"], 126),
    ],
)
def test_exit_codes(shell: Any, command: list[str], code: int) -> None:
    """The child's code, 128 + n for a signal, 126 and 127 as a shell has them."""
    shell("run", "job", "--", *command, code=code)
    assert shell("list").stdout == ""


def test_arguments_are_untouched(shell: Any) -> None:
    """No shell, no expansion, no option of azlatch among the command's own."""
    given = ["a b", "*", "$HOME", "--ttl", "9", "--", "", '"', "-h", "ü"]
    code = "import sys, json; print(json.dumps(sys.argv[1:]))"
    done = shell("run", "job", "--", sys.executable, "-c", code, *given)
    import json

    assert json.loads(done.stdout) == given


def test_environment(shell: Any) -> None:
    """The child knows the name, the fence and the store."""
    done = shell("run", "a b", "--", "sh", "-c", 'echo "$AZLATCH_NAME $AZLATCH_FENCE $AZLATCH_URL"')
    assert done.stdout.startswith("a b ")
    assert int(done.stdout.split()[2]) > 1 << 50
    assert str(shell.store) in done.stdout


def test_never_two_at_once(shell: Any) -> None:
    """Of two that run the same name, one waits for the other."""
    work = f"test ! -e {shell.folder}/in || exit 9; touch {shell.folder}/in; sleep 0.5; rm {shell.folder}/in"
    both = [shell.start("run", "job", "--ttl", "5", "--", "sh", "-c", work) for _ in range(2)]
    assert [process.wait(30) for process in both] == [0, 0]


def test_not_acquired_is_75_and_wrong_input_64(shell: Any) -> None:
    """Contention, wrong input and an unusable store have codes of their own."""
    holder = shell.start("run", "job", "--", "sh", "-c", "echo in; sleep 60")
    assert shell.line(holder) == "in"
    assert "held by someone else" in shell("run", "job", "--timeout", "0.3", "--", "true", code=75).stderr
    shell("run", "job", "--timeout", "0", "--", "true", code=75)
    shell("run", "", "--", "true", code=64)
    shell("run", "job", "--ttl", "0", "--", "true", code=64)
    shell("run", "job", "--ttl", "x", "--", "true", code=64)
    shell("run", "job", code=64)
    shell("nonsense", code=64)
    (shell.folder / "garbage").write_text("garbage" * 100)
    done = shell("--url", f"sqlite:///{shell.folder}/garbage", "run", "job", "--", "true", code=69)
    assert "not a latch store" in done.stderr


def test_break_ends_the_child(shell: Any) -> None:
    """A broken hold ends the command with TERM; exit 76."""
    holder = shell.start(
        "run",
        "job",
        "--ttl",
        "1",
        "--",
        "sh",
        "-c",
        "trap 'echo term; exit 0' TERM; echo in; while :; do sleep 0.1; done",
    )
    assert shell.line(holder) == "in"
    shell("break", "job", "--reason", "a test")
    assert shell.line(holder) == "term"
    assert holder.wait(30) == 76


def test_a_child_that_ignores_term_is_killed(shell: Any) -> None:
    """After the grace comes KILL."""
    holder = shell.start(
        "run",
        "job",
        "--ttl",
        "1",
        "--grace",
        "0.3",
        "--",
        "sh",
        "-c",
        "trap '' TERM; echo in; while :; do sleep 0.1; done",
    )
    assert shell.line(holder) == "in"
    shell("break", "job", "--reason", "a test")
    assert holder.wait(30) == 76


def test_max_hold_ends_the_child(shell: Any) -> None:
    """A command that takes longer than --max-hold is ended with 76."""
    shell("run", "job", "--max-hold", "0.5", "--", "sleep", "60", code=76)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_whole_group_once(shell: Any, number: signal.Signals) -> None:
    """A signal to azlatch is passed on to the command and to what it started, once."""
    name = number.name.removeprefix("SIG")
    grandchild = f"sh -c 'trap \"echo grandchild\" {name}; echo ready; while :; do sleep 0.05; done'"
    trap = f"trap 'echo child; sleep 0.3; kill -9 $!; exit 5' {name}"
    script = f"{trap}; {grandchild} & while :; do sleep 0.05; done"
    holder = shell.start("run", "job", "--", "sh", "-c", script)
    assert shell.line(holder) == "ready"
    holder.send_signal(number)
    output, _ = holder.communicate(timeout=30)
    assert sorted(output.split()) == ["child", "grandchild"]
    assert holder.returncode == 5


def test_ctrl_c_reaches_the_child_once(shell: Any) -> None:
    """On a terminal Ctrl-C goes to the command alone, and the terminal comes back."""
    script = "trap 'echo interrupted' INT; echo in; for i in 1 2 3 4 5 6 7 8; do sleep 0.1; done; echo out"
    pid, terminal = pty.fork()
    if pid == 0:
        arguments = shell.command("run", "job", "--", "sh", "-c", script)
        os.execve(arguments[0], arguments, shell.environment)
    seen = b""
    end = time.monotonic() + 30
    sent = False
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                break
            if not piece:
                break
            seen += piece
        if b"in\r\n" in seen and not sent:
            os.write(terminal, b"\x03")
            sent = True
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert seen.count(b"interrupted") == 1
    assert b"out" in seen


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has a parent death signal")
def test_killed_run_takes_its_command_along(shell: Any) -> None:
    """kill -9 of azlatch ends the command too, and the latch is free at once."""
    holder = shell.start("run", "job", "--ttl", "600", "--", "sh", "-c", "echo $$; exec sleep 60")
    command = int(shell.line(holder))
    holder.kill()
    holder.wait(30)
    shell.until(lambda: not shell.alive(command))
    shell("run", "job", "--timeout", "10", "--", "true")


def test_as_long_as_something_lives_only_the_ttl_frees_it(shell: Any) -> None:
    """What the command started holds its lock: the latch is granted when the ttl has passed, not before."""
    script = "sleep 60 & echo $!; wait"
    holder = shell.start("run", "job", "--ttl", "4", "--", "sh", "-c", script)
    survivor = int(shell.line(holder))
    try:
        holder.kill()
        holder.wait(30)
        assert shell.alive(survivor)
        shell("run", "job", "--timeout", "0", "--", "true", code=75)
        shell("run", "job", "--timeout", "20", "--", "true")
        assert shell.alive(survivor)
    finally:
        os.kill(survivor, signal.SIGKILL)
