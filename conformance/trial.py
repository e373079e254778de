"""One file of the suite in a process of its own, with a bound: what came out of each of its tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from accounts import Account
from suite import Suite

_SUPPORT = Path(__file__).resolve().parent / "support"
#: How long one test may take, seconds.
_LONGEST_TEST = 180
#: From best to worst: a test whose end fails has failed, whatever it did before.
_RANKS = ("passed", "skipped", "failed", "error")


@dataclass
class Outcome:
    """Of one test.

    Attributes:
        test: its name, without the file and the class.
        result: "passed", "skipped", "failed" or "error" (it could not begin, not be ended, or not be finished).
        message: what it said when it did not pass.
        seconds: how long it took.
    """

    test: str
    result: str
    message: str = ""
    seconds: float = 0.0


@dataclass
class Trial:
    """Of one file. `broken` says why none of its tests could run."""

    file: str
    account: Account
    outcomes: list[Outcome] = field(default_factory=list)
    broken: str = ""
    seconds: float = 0.0

    def count(self, *results: str) -> int:
        """How many tests came out like that."""
        return sum(each.result in results for each in self.outcomes)

    @property
    def passed(self) -> int:
        """How many passed."""
        return self.count("passed")

    @property
    def total(self) -> int:
        """How many were judged; what was skipped was not."""
        return len(self.outcomes) - self.count("skipped")


def run(suite: Suite, file: str, account: Account, endpoint: str, key: str, only: str = "") -> Trial:
    """Runs the file against an account that is served at the endpoint."""
    trial = Trial(file, account)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="azlatch-conformance-") as folder:
        log = Path(folder) / "log"
        environment = {
            **os.environ,
            **account.environment,
            "ACCOUNT_HOST": endpoint,
            "ACCOUNT_KEY": key,
            "CONFORMANCE_LOG": str(log),
            "CONFORMANCE_HOST": account.host,
            "PYTHONPATH": str(_SUPPORT),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        output = Path(folder) / "output"
        how = _pytest(suite, file, environment, output, account.bound, only)
        trial.seconds = time.monotonic() - began
        _read(trial, log, how)
        if not trial.outcomes and not trial.broken:
            said = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            trial.broken = f"{how}: {' / '.join(said[-4:])}"
    return trial


def _pytest(suite: Suite, file: str, environment: dict[str, str], output: Path, bound: float, only: str) -> str:
    """How the process ended, in words."""
    command = [
        str(suite.python),
        "-m",
        "pytest",
        file,
        "-q",
        "--tb",
        "native",
        "-c",
        str(_SUPPORT / "pytest.ini"),
    ]
    command += ["--rootdir", str(suite.tests), "-p", "conformance_plugin", "-p", "no:cacheprovider"]
    command += ["--timeout", str(_LONGEST_TEST), "--timeout-method", "signal"]
    command += ["-k", only] if only else []
    with output.open("wb") as file_of_output:
        process = subprocess.Popen(
            command,
            cwd=suite.tests,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file_of_output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        try:
            process.wait(bound)
        except subprocess.TimeoutExpired:
            return f"not finished within {bound:g} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)
    return f"the process ended with {process.returncode}"


def _read(trial: Trial, log: Path, how: str) -> None:
    found: dict[str, Outcome] = {}
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else []:
        entry = json.loads(line)
        if "broken" in entry:
            trial.broken = entry["message"]
        for each in entry.get("collected", ()):
            # Until it says otherwise.
            found[each] = Outcome(_short(each), "", how)
        if "test" in entry:
            _note(found.setdefault(entry["test"], Outcome(_short(entry["test"]), "")), entry)
    for each in found.values():
        each.result = each.result or "error"
    trial.outcomes = list(found.values())


def _note(outcome: Outcome, entry: dict[str, object]) -> None:
    outcome.seconds += float(str(entry["seconds"]))
    if not outcome.result or _RANKS.index(str(entry["outcome"])) > _RANKS.index(outcome.result):
        outcome.result, outcome.message = str(entry["outcome"]), str(entry["message"])


def _short(node: str) -> str:
    return node.partition("::")[2].rpartition("::")[2] if "[" not in node else _parametrized(node)


def _parametrized(node: str) -> str:
    """A parameter may have colons, too."""
    head, bracket, rest = node.partition("[")
    return head.rpartition("::")[2] + bracket + rest
