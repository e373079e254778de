"""What all gates promise: the accepted fences never fall, and the proof of it can fail."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from types import ModuleType
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import azlatch
from azlatch.errors import BackendMisconfigured, BackendUnavailable, FenceRejected, UsageError
from azlatch.gates import (
    Acceptance,
    FenceSource,
    FileGate,
    MemoryGate,
    SqliteGate,
    file,
    memory,
    sql,
    sqlite_write,
)
from azlatch.gates import fence as gate_fence
from azlatch.gates.fence import MAX_FENCE

Gate = MemoryGate[str] | SqliteGate | FileGate
KINDS = ["memory", "sqlite", "file"]


def open_gate(kind: str, folder: str | Path, timeout: float = 10.0) -> Gate:
    if kind == "memory":
        return MemoryGate("", timeout=timeout)
    if kind == "sqlite":
        return SqliteGate(Path(folder, "database"), "the resource", timeout=timeout)
    return FileGate(Path(folder, "guarded"), timeout=timeout)


def offer(gate: Gate, fence: FenceSource) -> Acceptance:
    if isinstance(gate, SqliteGate):
        with gate.write(fence) as cursor:
            pass
        return cursor.acceptance
    return gate.write(fence, "content")


def check_order(history: tuple[Acceptance, ...]) -> None:
    """The checker: places without a gap, and fences that never fall (M3)."""
    assert [acceptance.sequence for acceptance in history] == list(range(1, len(history) + 1))
    fences = [acceptance.fence for acceptance in history]
    assert fences == sorted(fences)


def check_running_maximum(gate: Gate, offers: list[int]) -> None:
    """The checker: accepted is exactly what is not below anything accepted before (F5)."""
    accepted: list[Acceptance] = []
    for offered in offers:
        newest = accepted[-1].fence if accepted else None
        assert gate.newest == newest
        try:
            acceptance = offer(gate, offered)
        except FenceRejected as refused:
            assert newest is not None and offered < newest, f"{offered} was refused after {newest}"
            assert (refused.offered, refused.newest) == (offered, newest)
        else:
            assert newest is None or offered >= newest, f"{offered} was accepted after {newest}"
            accepted.append(Acceptance(len(accepted) + 1, offered))
            assert acceptance == accepted[-1]
    assert gate.history() == tuple(accepted)
    check_order(gate.history())


def check_no_fence(gate: Gate) -> None:
    """The checker: a hold without a fence does not get in (F4)."""
    with pytest.raises(FenceRejected):
        offer(gate, None)
    assert gate.newest is None


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=40)
@given(offers=st.lists(st.integers(0, 8) | st.integers(0, MAX_FENCE), max_size=12))
def test_accepted_is_the_running_maximum(kind: str, offers: list[int]) -> None:
    """Of any sequence of fences, exactly those not older than the newest accepted get in, in order."""
    with tempfile.TemporaryDirectory() as folder:
        check_running_maximum(open_gate(kind, folder), offers)


@pytest.mark.parametrize("kind", KINDS)
def test_no_fence_is_refused(kind: str, tmp_path: Path) -> None:
    """None, alone or as the fence of a hold, is FenceRejected and leaves no trace."""
    check_no_fence(open_gate(kind, tmp_path))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fence", [True, -1, 1.0, "7", MAX_FENCE + 1, object()])
def test_what_is_no_fence_is_a_usage_error(kind: str, fence: object, tmp_path: Path) -> None:
    """A bool, a negative, a float, a text, more than 64 bits, an object without a fence: refused as such."""
    gate = open_gate(kind, tmp_path)
    with pytest.raises(UsageError):
        offer(gate, fence)  # type: ignore[arg-type]
    assert gate.newest is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_hold_is_taken_for_its_fence(kind: str, tmp_path: Path) -> None:
    """A real hold can be passed as it is; the one granted before it is refused afterwards."""
    gate = open_gate(kind, tmp_path)
    with azlatch.connect("memory:") as latches:
        with latches.hold("name") as first:
            offer(gate, first)
        with latches.hold("name") as second:
            assert offer(gate, second).fence == second.fence
        with pytest.raises(FenceRejected):
            offer(gate, first)


@pytest.mark.parametrize("timeout", [None, True, -1, float("nan"), float("inf"), 1e12, "1"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_wait_has_a_bound(kind: str, timeout: object, tmp_path: Path) -> None:
    """A timeout that is no number, or longer than a gate can wait, is refused when the gate is made."""
    with pytest.raises(UsageError):
        open_gate(kind, tmp_path, timeout)  # type: ignore[arg-type]


class Mutant(NamedTuple):
    """One rule taken out of one gate."""

    kind: str
    module: ModuleType
    name: str
    replacement: Callable[..., object]


COMPARISONS = [
    Mutant("memory", gate_fence, "admits", lambda offered, newest: True),
    Mutant("memory", gate_fence, "admits", lambda offered, newest: newest is None or offered > newest),
    Mutant("file", gate_fence, "admits", lambda offered, newest: True),
    Mutant("file", gate_fence, "admits", lambda offered, newest: newest is None or offered > newest),
    Mutant("sqlite", sqlite_write, "fence_condition", lambda _: "(1 = 1)"),
    Mutant("sqlite", sqlite_write, "fence_condition", lambda _: "(azlatch_gate.fence < :fence)"),
]


@pytest.mark.parametrize("mutant", COMPARISONS, ids=lambda mutant: mutant.kind)
def test_mutant_comparison_is_caught(mutant: Mutant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the comparison, or with one that refuses equal fences, the checker fails."""
    monkeypatch.setattr(mutant.module, mutant.name, mutant.replacement)
    # The file gate's own ledger and SQLite's own key notice some mutants before the checker does.
    with pytest.raises((AssertionError, BackendMisconfigured, sqlite3.IntegrityError)):
        check_running_maximum(open_gate(mutant.kind, tmp_path), [3, 3, 5, 4, 5, 6])


@pytest.mark.parametrize(("kind", "module"), [("memory", memory), ("file", file), ("sqlite", sql)])
def test_mutant_missing_fence_is_zero_is_caught(
    kind: str, module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a missing fence taken for 0, the checker fails."""
    monkeypatch.setattr(module, "fence_of", lambda source: source or 0)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check_no_fence(open_gate(kind, tmp_path))


def race(start: Callable[..., Popen[str]], kind: str, path: Path, *mutant: str) -> None:
    """Four processes offer fences at once; checks the gate's order, the resource's, and the answers."""
    workers = [start("race", kind, path, seed, 60, *mutant) for seed in range(4)]
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    outputs: list[str] = []

    def drain(worker: Popen[str]) -> None:
        outputs.append(worker.communicate("go\n", timeout=120)[0])

    threads = [threading.Thread(target=drain, args=[worker]) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers = [json.loads(line) for output in outputs for line in output.splitlines()]
    accepted = sorted((row["sequence"], row["fence"]) for row in answers if "sequence" in row)
    check_order(tuple(Acceptance(*row) for row in accepted))
    assert len(answers) == 4 * 60
    for row in answers:
        assert row["newest"] > row["refused"] if "refused" in row else (row["before"] or 0) <= row["fence"]
    gate = FileGate(path) if kind == "file" else SqliteGate(path, "the journal")
    assert gate.history() == tuple(Acceptance(*row) for row in accepted)[-len(gate.history()) :]


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_processes_that_race_keep_the_order(
    kind: str, tmp_path: Path, start: Callable[..., Popen[str]]
) -> None:
    """Whatever four processes offer at once: one order without gaps, fences that never fall, no lost write."""
    race(start, kind, tmp_path / "resource")


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_mutant_race_without_check_is_caught(
    kind: str, tmp_path: Path, start: Callable[..., Popen[str]]
) -> None:
    """The same race without the comparison fails the same checker."""
    with pytest.raises(AssertionError):
        race(start, kind, tmp_path / "resource", "no-check")


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_a_writer_inside_keeps_others_out_with_a_bound(kind: str, tmp_path: Path) -> None:
    """While one writer is inside, another is BackendUnavailable at its own timeout, never let in."""
    gate, other = open_gate(kind, tmp_path), open_gate(kind, tmp_path, timeout=0.05)
    assert not isinstance(gate, MemoryGate)
    inside = gate.write(5) if isinstance(gate, SqliteGate) else gate.open_guarded(5)
    with inside, pytest.raises(BackendUnavailable):
        offer(other, 7)
    assert offer(other, 7) == Acceptance(2, 7)


def test_mutant_without_the_lock_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the file gate's lock off, an older content lands on a newer one, and the same test fails."""
    monkeypatch.setattr("azlatch.gates.folder._flock", lambda *_: True)
    with pytest.raises(pytest.fail.Exception):
        test_a_writer_inside_keeps_others_out_with_a_bound("file", tmp_path)
