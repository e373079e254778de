"""The audit log: lines that are whole, private and safe, whoever writes them and whatever they hold."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import azlatch
from azlatch.audit.events import Event
from azlatch.audit.log import Damage, FileSink, LoggingSink, read, rotated, tee

texts = st.text(max_size=40)


def event(kind: str = "released", seq: int = 1, **facts: object) -> Event:
    return Event(kind, seq, 1_000.0, 10.0, "boot", "1" * 32, facts)


@given(texts, texts, st.integers(0, 2**53), st.floats(0, 1e9))
def test_events_come_back(name: str, note: str, fence: int, at: float) -> None:
    """An event is one line of ASCII whatever it holds, and reads back as it was."""
    before = Event(
        "granted", 3, round(at, 6), round(at, 6), "b", "i", {"name": name, "note": note, "fence": fence}
    )
    line = before.to_json()
    assert line.isascii()
    assert line.isprintable()
    assert Event.from_json(line) == before


def test_whole_names_fit() -> None:
    """A name of the greatest length is not cut."""
    name = "ü" * 1_024
    assert Event.from_json(event(name=name).to_json()).name == name


@pytest.mark.parametrize("line", ["", "{}", "[]", '{"v":1}', "nonsense", '{"kind":"x","seq":"a"}'])
def test_other_lines_are_no_events(line: str) -> None:
    """What is not an event is a ValueError."""
    with pytest.raises(ValueError):
        Event.from_json(line)


def test_the_file_is_private_and_no_link_is_followed(tmp_path: Path) -> None:
    """The log is its user's alone, and a link in its place is refused without disturbing the work."""
    sink = FileSink(tmp_path / "a" / "audit.jsonl")
    sink(event())
    assert (tmp_path / "a" / "audit.jsonl").stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "target")
    refused = FileSink(tmp_path / "link")
    refused(event())
    assert refused.dropped == 1
    assert not (tmp_path / "target").exists()


def test_what_cannot_be_written_is_counted_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A log that cannot be written never breaks what it watches."""
    (tmp_path / "file").write_text("")
    sink = FileSink(tmp_path / "file" / "audit.jsonl")
    with azlatch.connect("memory:", audit=sink) as latches:
        latches.acquire("a").release()
    assert sink.dropped >= 4
    assert len([record for record in caplog.records if "audit log" in record.message]) == 1


WRITER = """
import sys
from azlatch.audit.events import Event
from azlatch.audit.log import FileSink
sink = FileSink(sys.argv[1], max_bytes=20_000, keep=50)
for number in range(1, 1_001):
    sink(Event("released", number, 0.0, 0.0, "", sys.argv[2], {"name": "n" * (number % 50)}))
assert not sink.dropped
"""


def test_several_processes_lose_no_line(tmp_path: Path) -> None:
    """Four processes write and rotate the same log: every line is there once, and whole."""
    path = tmp_path / "audit.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), f"i{number}"]) for number in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    damage: list[Damage] = []
    seen = [(each.instance, each.seq) for each in read(rotated(path), damage)]
    assert damage == []
    assert len(rotated(path)) > 5
    assert sorted(seen) == sorted((f"i{number}", seq) for number in range(4) for seq in range(1, 1_001))


def test_old_parts_go(tmp_path: Path) -> None:
    """Only so many rotated parts are kept, and they are read oldest first."""
    sink = FileSink(tmp_path / "audit.jsonl", max_bytes=4_096, keep=2)
    for number in range(1, 400):
        sink(event(seq=number))
    parts = rotated(tmp_path / "audit.jsonl")
    assert len(parts) <= 3
    numbers = [each.seq for each in read(parts, [])]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 399


def test_torn_and_broken_lines_are_reported(tmp_path: Path) -> None:
    """A torn last line is read past, a broken one in the middle is not passed over in silence."""
    path = tmp_path / "audit.jsonl"
    good = event().to_json()
    path.write_text(f"{good}\nnonsense\n{good}\n{good[:20]}")
    damage: list[Damage] = []
    assert len(list(read([path], damage))) == 2
    assert [part.line for part in damage] == [2, 4]


def test_logging_levels(caplog: pytest.LogCaptureFixture) -> None:
    """Only a loss, a break and a refusal are warnings; expected contention is none."""
    with caplog.at_level(logging.INFO, "azlatch.audit"):
        for kind in ("granted", "ended", "released", "lost", "broken", "rejected"):
            LoggingSink()(event(kind, outcome="timeout"))
    levels = [record.levelname for record in caplog.records]
    assert levels == ["INFO"] * 3 + ["WARNING"] * 3


def test_one_sink_does_not_stop_the_other() -> None:
    """With several sinks a failing one costs the others nothing."""
    seen: list[Event] = []

    def fail(each: Event) -> None:
        raise ZeroDivisionError

    tee(fail, seen.append)(event())
    assert len(seen) == 1


def test_every_step_of_a_hold_is_logged(tmp_path: Path) -> None:
    """Requests, grants, contention, losses and releases are there, numbered without a gap, secrets are not."""
    path = tmp_path / "audit.jsonl"
    with azlatch.connect("memory:", audit=path) as latches:
        with latches.hold("a"):
            assert latches.try_acquire("a") is None
        hold = latches.acquire("b", ttl=0.5, heartbeat=False)
        assert hold.wait_lost(10)
        kept = latches.acquire("c")
        latches.break_hold("c", reason="why", now=True)
        kept.release()
    events = list(read([path], []))
    assert [each.seq for each in events] == list(range(1, len(events) + 1))
    kinds = [each.kind for each in events]
    assert kinds[0] == "open"
    assert kinds[-1] == "close"
    assert {"request", "granted", "ended", "released", "lost", "broken"} <= set(kinds)
    granted = next(each for each in events if each.kind == "granted")
    assert {"acquire", "nonce", "fence", "sent", "until", "wait_s", "attempts"} <= set(granted.facts)
    assert os.stat(path).st_mode & 0o077 == 0
