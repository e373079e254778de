"""What `make conformance` prints."""

from __future__ import annotations

import collections
from collections.abc import Iterable

import peer
from accounts import CLIENT_ONLY, NOT_SERVED, subject
from expectations import Verdict
from trial import Trial

#: Tests of one file that are told singly.
_MOST_TOLD = 20


def line(trial: Trial, verdict: Verdict | None) -> str:
    """`test_file passed/total`, beside the peer's figures, and what is not as listed."""
    text = f"{trial.file:<58} {trial.passed:>4}/{trial.total:<4}"
    if trial.file in peer.FIGURES:
        passed, total = peer.FIGURES[trial.file]
        text += f"  peer {passed}/{total}"
    notes = [f"{trial.seconds:.0f} s"]
    if skipped := trial.count("skipped"):
        notes.append(f"{skipped} skipped")
    if verdict is not None:
        notes += [f"{count} expected: {reason}" for reason, count in verdict.reasons.items()]
        notes += [f"{len(verdict.unexpected)} UNEXPECTED"] if verdict.unexpected else []
        notes += [f"{len(verdict.repaired)} REPAIRED"] if verdict.repaired else []
    if trial.broken:
        notes.append(f"BROKEN: {trial.broken.strip().splitlines()[-1][:200]}")
    return f"{text}  ({'; '.join(notes)})"


def failures(trial: Trial, verdict: Verdict | None) -> Iterable[str]:
    """The tests that are not as listed; all that failed where nothing is listed."""
    if verdict is None:
        for each in trial.outcomes:
            if each.result in ("failed", "error"):
                yield f"    {each.result} {each.test}: {_first(each.message)}"
        return
    lines = [f"    not expected: {each[:300]}" for each in verdict.unexpected]
    lines += [f"    passes, though listed: {each[:300]}" for each in verdict.repaired]
    yield from lines[:_MOST_TOLD]
    if len(lines) > _MOST_TOLD:
        yield f"    ... and {len(lines) - _MOST_TOLD} more; --json has all of them"


def summary(trials: list[Trial], verdicts: list[Verdict], not_run: list[str]) -> Iterable[str]:
    """The totals, the reasons, what did not run, and the verdict, which comes last."""
    passed, total = sum(each.passed for each in trials), sum(each.total for each in trials)
    yield ""
    theirs, first = "/".join(map(str, peer.TOTAL)), "/".join(map(str, peer.FIRST_LOOK))
    yield (
        f"total {passed}/{total} in {len(trials)} files "
        f"(peer {theirs} in {len(peer.FIGURES)} files, {first} in the 34 of a first look)"
    )
    yield from _side_by_side(trials)
    reasons: collections.Counter[str] = collections.Counter()
    for verdict in verdicts:
        reasons.update(verdict.reasons)
    yield from (f"  {count} expected to fail: {reason}" for reason, count in reasons.most_common())
    yield from _not_run(not_run)


def _side_by_side(trials: list[Trial]) -> Iterable[str]:
    """Over the files whose figures are known of both."""
    both = [each for each in trials if each.file in peer.FIGURES]
    if both:
        ours = f"{sum(each.passed for each in both)}/{sum(each.total for each in both)}"
        figures = [peer.FIGURES[each.file] for each in both]
        theirs = f"{sum(each[0] for each in figures)}/{sum(each[1] for each in figures)}"
        yield f"  in {len(both)} of these files {peer.PEER} was measured, too: {ours} here, {theirs} there"


def _not_run(files: list[str]) -> Iterable[str]:
    grouped: dict[str, list[str]] = {}
    for file in files:
        name = subject(file)
        why = NOT_SERVED.get(name) or ("asks nothing of a server" if name in CLIENT_ONLY else "not chosen")
        grouped.setdefault(why, []).append(file)
    for why, names in grouped.items():
        yield f"  not run, {why}: {len(names)} files" + (f" ({', '.join(names)})" if len(names) <= 8 else "")


def verdict_line(verdicts: list[Verdict]) -> str:
    """The last line."""
    unexpected = sum(len(each.unexpected) for each in verdicts)
    repaired = sum(len(each.repaired) for each in verdicts)
    if not unexpected and not repaired:
        return "conformance: as expected"
    return f"conformance: NOT as expected: {unexpected} fail unlisted, {repaired} listed ones do not fail"


def _first(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:250] if lines else ""
