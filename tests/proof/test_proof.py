"""The proof: it finds what a missing latch costs, passes the engine, and no mutant that can show."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from azlatch.audit.events import Event
from azlatch.errors import UsageError
from azlatch.proof.report import page
from azlatch.proof.run import Fault, Plan, Result
from azlatch.proof.values import Accepted

KEYS = {
    "verdict", "protected", "instances", "names", "seconds", "seed", "attempted", "accepted", "final_value",
    "lost_updates", "overlaps", "fence_regressions", "stale_writes_accepted", "stale_writes_rejected", "kills",
    "pauses", "takeovers", "takeover_s", "wait_s", "ops_per_second", "contention",
}  # fmt: skip

#: Mutants whose rule the embedded store and its gates exercise within seconds, on one machine. Of the others:
#: - death-by-pid, missing-file-is-death, no-compare, delete-on-release are changes of the simulated store;
#: - deadline-from-reply, late-grant, unknown-is-failure, unknown-is-success, absent-is-failure and
#:   cancelled-call-forgotten need replies that are late or lost, and a call to SQLite is a local one;
#: - no-margin, hidden-pause, any-clock need clocks of several machines, freezes, or time namespaces;
#: - same-epoch needs a power loss; contenders-ttl needs ttls that differ;
#: - forgets-observations is about those who try once; here everyone waits, and the boot's clock tells the age;
#: - revived and upsert-renewal need a renewal in flight at the moment of the stop, which is a matter of luck;
#: - break-keeps-nonce needs a break early in one of the few long holds: on a quiet machine a run meets one
#:   nearly always, on a busy one not (tests/audit/test_audit_history.py::test_a_break_that_stops_nobody).
SHOWN = [
    "no-fence-check",
    "beat-not-raised",
    "missing-fence-is-zero",
    "deadline-unchecked",
    "any-triple",
    "break-frees-at-once",
]


def prove(*arguments: str, folder: Path) -> tuple[int, dict[str, Any], str]:
    file = folder / "result.json"
    command = [sys.executable, "-m", "azlatch", "prove", "--json", str(file), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False, cwd=folder)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(file.read_text()), done.stdout


def test_unprotected_work_loses_updates(tmp_path: Path) -> None:
    """Without a latch the same work loses updates: exit 1."""
    code, result, output = prove(
        "--unprotected", "--seconds", "3", "--instances", "4", "--names", "2", folder=tmp_path
    )
    assert code == 1
    assert result["lost_updates"] > 0
    assert result["accepted"] - result["final_value"] == result["lost_updates"]
    assert "verdict: fail (unprotected)" in output


def test_latched_work_loses_none(tmp_path: Path) -> None:
    """With latches and gates none is lost, through kills and stops; the result has all that is promised."""
    code, result, output = prove("--seconds", "10", "--html", "report.html", folder=tmp_path)
    assert code == 0, output
    assert set(result) >= KEYS
    assert (result["verdict"], result["lost_updates"], result["overlaps"]) == ("pass", 0, 0)
    assert result["kills"] + result["pauses"] > 0
    assert result["stale_writes_rejected"] > 0
    report = (tmp_path / "report.html").read_text()
    assert "<svg" in report
    assert not re.search(r"<script|https?://", report)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", SHOWN)
def test_mutants_never_pass(mutant: str, tmp_path: Path) -> None:
    """An engine or gate with a rule undone fails, or is inconclusive.

    Whether one run of seconds meets the moment that needs the rule is chance, for breaks above all: of three
    runs, one at least.
    """
    for seed in range(3):
        arguments = ["--seconds", "16", "--seed", str(seed), "--mutant", mutant]
        code, result, output = prove(*arguments, folder=tmp_path)
        if code != 0:
            break
    assert code in (1, 3), output
    assert result["verdict"] != "pass"


@pytest.mark.parametrize(
    "values", [{"instances": 0}, {"instances": 257}, {"names": 0}, {"seconds": 0}, {"seconds": 1e9}]
)
def test_plans_are_checked(values: dict[str, Any]) -> None:
    """A plan that cannot be run is a UsageError that names the value."""
    with pytest.raises(UsageError, match=next(iter(values))):
        Plan("memory:", ".", **values)


def test_a_short_run(tmp_path: Path) -> None:
    """Eight instances for six seconds lose nothing; --keep keeps, and takes no folder that was used."""
    arguments = ["--seconds", "6", "--instances", "8", "--keep", "kept"]
    code, result, output = prove(*arguments, folder=tmp_path)
    assert code in (0, 3), output
    assert (result["lost_updates"], result["stale_writes_accepted"], result["crashes"]) == (0, 0, 0)
    assert (tmp_path / "kept" / "audit.jsonl").exists()
    command = [sys.executable, "-m", "azlatch", "prove", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == 64
    assert "not empty" in done.stderr


def test_instances_that_fail_are_no_pass(tmp_path: Path) -> None:
    """Instances that end with an error break the run off: inconclusive, with their last words."""
    code, result, output = prove("--seconds", "60", "--instances", "3", "--mutant", "nonsense", folder=tmp_path)
    assert code == 3
    assert result["crashes"] > 3
    assert "nonsense" in output


def test_a_killed_proof_leaves_nothing(tmp_path: Path) -> None:
    """kill -9 of the proof ends its instances, stopped ones too."""
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux has a parent death signal")
    folder = tmp_path / "kept"
    command = [sys.executable, "-m", "azlatch", "prove", "--instances", "4", "--keep", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as proof:
        try:
            until(
                lambda: (folder / "audit.jsonl").exists() and "granted" in (folder / "audit.jsonl").read_text()
            )
            children = Path(f"/proc/{proof.pid}/task/{proof.pid}/children").read_text().split()
        finally:
            proof.kill()
    assert children
    until(lambda: not any(is_alive(child) for child in children))


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.02)


def is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def test_too_little_is_inconclusive(tmp_path: Path) -> None:
    """A run in which too little happened proves nothing: exit 3, not 0."""
    code, result, _ = prove("--seconds", "15", "--instances", "1", folder=tmp_path)
    assert code == 3
    assert result["verdict"] == "inconclusive"


def test_the_report_escapes_what_comes_from_outside() -> None:
    """Names with markup and controls are shown as text."""
    hostile = "<script>alert(1)</script>\x1b[2J"
    result = Result(Plan("memory:", "."), reasons=[hostile])
    facts = {"name": hostile, "nonce": "n", "fence": 1, "until": 2.0}
    result.events = [
        Event("granted", 1, 0.0, 1.0, "", hostile, facts),
        Event("released", 2, 0.0, 2.0, "", hostile, facts),
    ]
    result.faults = [Fault("kill", hostile, 1, 1.5)]
    text = page(result)
    assert "<script" not in text
    assert "\x1b" not in text
    assert "&lt;script&gt;" in text
    assert text.count("<svg") == 2
    assert 'class="killed"' not in text, "it was released before its process was killed"


def test_stale_writes_are_counted() -> None:
    """A write with an older fence than its gate had accepted is stale; a reading is not a write."""
    from azlatch.proof.run import _stale

    journal = [
        Accepted("a", 5, "i", 1, 1),
        Accepted("a", 4, "i", 2, 2),
        Accepted("a", 3, "i", 3, None),
        Accepted("b", 1, "i", 1, 1),
    ]
    assert _stale(journal) == 1


def test_the_end_of_a_killed_holder_is_known() -> None:
    """A hold whose holder was killed has its end from the one that killed it, though no next grant tells it."""
    from azlatch.audit.history import check
    from azlatch.proof.run import _deaths

    def grant(instance: str, fence: int, at: float, prev: int | None) -> list[Event]:
        facts = {
            "name": "a",
            "acquire": 1,
            "nonce": f"n{fence}",
            "fence": fence,
            "prev": prev,
            "sent": at - 0.1,
        }
        return [
            Event("open", 1, at - 1, at - 1, "boot", instance, {"backend": "blob"}),
            Event("request", 2, at - 0.2, at - 0.2, "boot", instance, {"name": "a", "acquire": 1}),
            Event(
                "granted",
                3,
                at,
                at,
                "boot",
                instance,
                {**facts, "sent": at - 0.1, "until": at + 13.5, "ttl": 15.0},
            ),
        ]

    result = Result(Plan("memory:", "."))
    # Fence 2 was a grant whose reply was lost.
    result.events = [*grant("one", 1, 100.0, None), *grant("two", 3, 130.0, 2)]
    assert check(result.events, []).status == "unknown"
    result.faults = [Fault("kill", "a", 1, 105.0, 113.5)]
    (death,) = _deaths(result)
    assert (death.instance, death.seq, death.facts["until"]) == ("one", 4, 105.0)
    findings = check([*result.events, death], []).findings
    assert [finding for finding in findings if "fence 1 " in finding.text] == []
    result.faults[0].at = 140.0
    result.faults[0].until = 150.0
    assert check([*result.events, *_deaths(result)], []).status == "fail"
