"""A gate that refuses a hold leaves a line in the audit log of that hold's connection."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from azlatch.audit.events import Event
from azlatch.errors import FenceRejected
from azlatch.gates import FileGate, MemoryGate, SqliteGate, check_rowcount
from azlatch.runtime.connect import connect

Write = Callable[[Any], object]


def memory(folder: Path) -> Write:
    gate = MemoryGate(0)
    return lambda fence: gate.write(fence, 1)


def file(folder: Path) -> Write:
    gate = FileGate(folder / "file")
    return lambda fence: gate.write(fence, b"1")


def sqlite(folder: Path) -> Write:
    gate = SqliteGate(folder / "gate.db", "it")

    def write(fence: Any) -> None:
        with gate.write(fence):
            pass

    return write


def row(folder: Path) -> Write:
    newest = [0]

    def write(fence: Any) -> None:
        offered = fence if isinstance(fence, int) else fence.fence
        check_rowcount(int(offered >= newest[0]), fence, current=lambda: newest)
        newest[0] = offered

    return write


@pytest.mark.parametrize("make", [memory, file, sqlite, row])
def test_rejections_are_logged(make: Callable[[Path], Write], tmp_path: Path) -> None:
    """Once, with the gate, the fence that was offered and the newest; an accepted write leaves no line."""
    seen: list[Event] = []
    write = make(tmp_path)
    with connect("memory:", audit=seen.append) as latches, latches.hold("a") as hold:
        write(hold)
        assert hold.fence is not None
        write(hold.fence + 1)
        with pytest.raises(FenceRejected):
            write(hold)
    (event,) = [event for event in seen if event.kind == "rejected"]
    assert (event.name, event.fence, event.facts["newest"]) == ("a", hold.fence, hold.fence + 1)
    assert event.facts["gate"]


def test_without_an_audit_nothing_is_asked_of_it() -> None:
    """A fence that is a plain number, and a hold of a connection without an audit, are refused all the same."""
    gate = MemoryGate(0)
    gate.write(1 << 60, 1)
    with connect("memory:") as latches, latches.hold("a") as hold, pytest.raises(FenceRejected):
        gate.write(hold, 2)
    with pytest.raises(FenceRejected):
        gate.write(5, 2)
