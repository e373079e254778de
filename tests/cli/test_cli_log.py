"""What the log tells at the command line: the alarm, a moment in words, and logs that somebody touched."""

from __future__ import annotations

import json
import re
import signal
import time
from typing import Any

import pytest

import azlatch


def why(shell: Any, name: str = "job") -> list[str]:
    """What `audit why` finds around now, most telling first."""
    output = shell("audit", "why", name, "--at", str(time.time()), "--json").stdout
    return [json.loads(line)["what"] for line in output.splitlines()]


def test_alarm_under_contention(shell: Any) -> None:
    """Above 10 % of first attempts the alarm names the latch, its busiest holder, and what to do."""
    url = shell.environment["AZLATCH_URL"]
    with (
        azlatch.connect(url, audit=str(shell.log)) as one,
        azlatch.connect(url, audit=str(shell.log)) as other,
        one.hold("busy"),
    ):
        assert [other.try_acquire("busy") for _ in range(60)] == [None] * 60
    shell("run", "calm", "--", "true")
    output = shell("stats").stdout
    alarm = next(line for line in output.splitlines() if line.startswith("ALARM") and "busy" in line)
    assert "architecture problem" in alarm
    assert "Split the name" in alarm
    assert "queue" in alarm
    assert "calm:" not in output
    facts = json.loads(shell("stats", "--json").stdout)
    assert facts["total"]["attempts"] == 62


def test_why_tells_contention_timeout_loss_and_break_apart(shell: Any) -> None:
    """Each is named for what it was, and the most telling stands first."""
    shell("run", "calm", "--", "true")
    assert why(shell, "calm") == ["held"]
    holder = shell.start("run", "job", "--ttl", "30", "--", "sh", "-c", "echo in; exec sleep 60")
    assert shell.line(holder) == "in"
    shell("run", "job", "--timeout", "0.3", "--", "true", code=75)
    assert why(shell)[0] == "timeout"
    waiter = shell.start("run", "job", "--timeout", "30", "--", "true")
    shell.until(lambda: shell.log.read_text().count('"request"') == 4)
    time.sleep(0.3)  # it has to have found the latch held, which the log tells only later
    holder.send_signal(signal.SIGTERM)
    assert waiter.wait(30) == 0
    assert {"timeout", "contention"} == set(why(shell)) - {"held"}
    shell("run", "job", "--max-hold", "0.3", "--", "sleep", "60", code=76)
    assert why(shell)[0] == "loss"
    broken = shell.start("run", "other", "--ttl", "1", "--", "sh", "-c", "echo in; exec sleep 60")
    assert shell.line(broken) == "in"
    shell("break", "other", "--reason", "stuck in a test")
    assert broken.wait(30) == 76
    assert {"loss", "break"} <= set(why(shell, "other"))
    words = shell("audit", "why", "other", "--at", str(time.time())).stdout
    assert "stuck in a test" in words
    shell("audit", "check")


@pytest.mark.parametrize("at", ["0001-01-01", "9999-12-31T23:59:59", "1e300", "nan", "-inf", "noon", ""])
def test_times_that_are_none_are_usage_or_unknown(shell: Any, at: str) -> None:
    """A time that no clock shows is refused or leads to nothing; never a fault of the program."""
    shell("run", "job", "--", "true")
    assert shell("audit", "why", "job", "--at", at, code=None).returncode in (3, 64)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda line: line.replace('"until":', '"until":9'), 1),
        (lambda line: line[: len(line) // 2], 3),
        (lambda line: line.rstrip("\n") + " trailing\n", 3),
        (lambda line: '{"kind":"granted"}\n', 3),
        (lambda line: "", 3),
        (lambda line: "\x00\xff\n", 3),
    ],
    ids=["a longer belief", "cut", "trailing", "no event", "gone", "noise"],
)
def test_a_changed_line_does_not_pass(shell: Any, change: Any, code: int) -> None:
    """Whoever changes or removes the line of a release gets a fail or an unknown, never a pass."""
    for _ in range(3):
        shell("run", "job", "--", "true")
    shell("audit", "check")
    lines = shell.log.read_text().splitlines(keepends=True)
    index = next(number for number, line in enumerate(lines) if '"released"' in line)
    lines[index] = change(lines[index])
    shell.log.write_text("".join(lines), encoding="latin-1")
    verdict = json.loads(shell("audit", "check", "--json", code=code).stdout)
    assert verdict["verdict"] == {1: "fail", 3: "unknown"}[code]
    assert verdict["findings"]
    shell("stats")


def test_without_a_log(shell: Any) -> None:
    """Where there is no log, stats and audit say where they looked: exit 64."""
    for command in (["stats"], ["audit", "check"], ["audit", "why", "job", "--at", "0"]):
        assert str(shell.log) in shell(*command, code=64).stderr


def test_a_log_that_cannot_be_written_stops_nobody(shell: Any) -> None:
    """The audit is told to be missing; the work goes on."""
    done = shell("--audit", str(shell.folder), "run", "job", "--", "echo", "worked")
    assert done.stdout == "worked\n"
    assert re.search("audit log .* cannot be written", done.stderr)
