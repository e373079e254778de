"""The tests of the suite that are known to fail against the lab, each with its reason; and what differs."""

from __future__ import annotations

import fnmatch
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from trial import Trial

_FILE = Path(__file__).resolve().parent / "expected.toml"


@dataclass
class Verdict:
    """Of one file.

    Attributes:
        unexpected: tests that failed and are not listed.
        repaired: listed tests that passed.
        reasons: of those that failed as listed, how many by reason.
    """

    unexpected: list[str] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Whether everything came out as listed."""
        return not (self.unexpected or self.repaired)


#: By file, by reason: patterns of test names.
Expected = dict[str, dict[str, list[str]]]


def load(path: Path = _FILE) -> Expected:
    """The list.

    Raises:
        ValueError: it is not of the form `[file] "reason" = ["test", ...]`.
    """
    loaded = tomllib.loads(path.read_text(encoding="utf-8"))
    for file, reasons in loaded.items():
        if not file.startswith("test_") or not isinstance(reasons, dict):
            raise ValueError(f"{path.name}: {file} is no file of the suite")
        for reason, tests in reasons.items():
            if not isinstance(tests, list) or not all(isinstance(each, str) for each in tests):
                raise ValueError(f"{path.name}: {file}, {reason!r}: a list of test names is needed")
    return loaded


def judge(trial: Trial, expected: Expected, *, whole: bool = True) -> Verdict:
    """What differs from the list. `whole`: all tests of the file ran, so a listed one must be among them."""
    verdict = Verdict()
    listed = expected.get(trial.file, {})
    if trial.broken:
        verdict.unexpected.append(f"{trial.file}: {trial.broken}")
    met: set[str] = set()
    for outcome in trial.outcomes:
        found = _find(outcome.test, listed)
        if found is not None:
            met.add(found[1])
        if outcome.result == "passed" and found is not None:
            verdict.repaired.append(f"{outcome.test} ({found[0]})")
        elif outcome.result in ("failed", "error"):
            if found is None:
                verdict.unexpected.append(f"{outcome.test}: {outcome.message.strip().splitlines()[:1]}")
            else:
                verdict.reasons[found[0]] = verdict.reasons.get(found[0], 0) + 1
    if whole and not trial.broken:
        patterns = [(each, reason) for reason, tests in listed.items() for each in tests]
        verdict.repaired += [
            f"{each} ({reason}): there is no such test" for each, reason in patterns if each not in met
        ]
    return verdict


def _find(test: str, listed: dict[str, list[str]]) -> tuple[str, str] | None:
    """The reason and the pattern of a test; a name without parameters stands for all of them."""
    for reason, patterns in listed.items():
        for pattern in patterns:
            if test == pattern or test.partition("[")[0] == pattern:
                return reason, pattern
            # Brackets are no sets of characters here.
            if "*" in pattern and fnmatch.fnmatchcase(test, pattern.replace("[", "[[]")):
                return reason, pattern
    return None
