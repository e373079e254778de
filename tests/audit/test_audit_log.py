"""The audit log: lines that are whole, private and safe, whoever writes them and whatever they hold."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import azlatch
from azlatch.audit.events import Event
from azlatch.audit.log import Damage, FileSink, LoggingSink, read, rotated, tee

texts = st.text(max_size=40) | st.text('\0\x07\x1b\n\r\x7f\x85\u2028\u202e\ud800<&"\\', max_size=20)
facts_of = st.dictionaries(
    st.text("abcdefghij_", min_size=1, max_size=12).filter(
        lambda key: key not in ("kind", "seq", "at", "boot")
    ),
    texts | st.integers(-(2**63), 2**63) | st.booleans() | st.floats(0, 1e9).map(lambda value: round(value, 6)),
    max_size=5,
)


def event(kind: str = "released", seq: int = 1, **facts: object) -> Event:
    return Event(kind, seq, 1_000.0, 10.0, "boot", "1" * 32, facts)


@settings(deadline=None)
@given(texts, texts, texts, st.integers(0, 2**53), st.floats(0, 1e9), facts_of)
def test_events_come_back(
    name: str, boot: str, instance: str, fence: int, at: float, facts: dict[str, object]
) -> None:
    """An event is one line of printable ASCII whatever it holds, and reads back as it was."""
    clock = round(at, 6)
    before = Event("granted", 3, clock, clock, boot, instance, {**facts, "name": name, "fence": fence})
    line = before.to_json()
    assert line.isascii()
    assert line.isprintable()
    assert len(line.splitlines()) == 1
    assert Event.from_json(line) == before


@settings(deadline=None)
@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")))
def test_any_other_line_is_a_value_error(line: str) -> None:
    """Whatever stands in a log, reading it never fails in another way."""
    with pytest.raises(ValueError):
        Event.from_json(line)


def test_facts_cannot_stand_in_for_the_head() -> None:
    """What an event is, and whose, is not said by its facts; what has no value is left out."""
    hostile = {"seq": 99, "v": 2, "instance": "else", "at": 1e9, "note": None, "wait_s": float("inf")}
    assert Event.from_json(event()._replace(facts=hostile).to_json()) == event()


def test_whole_names_fit() -> None:
    """A name of the greatest length is not cut."""
    name = "ü" * 1_024
    assert Event.from_json(event(name=name).to_json()).name == name


HEAD = '"kind":"x","seq":1,"wall":1,"at":1,"boot":"","instance":"i"'


@pytest.mark.parametrize(
    "line",
    [
        *("", "{}", "[]", '{"v":1}', "nonsense", '{"kind":"x","seq":"a"}', "[" * 100_000),
        "{" + HEAD.replace('"seq":1', '"seq":1e999') + "}",
        "{" + HEAD.replace('"at":1', '"at":NaN') + "}",
        "{" + HEAD.replace('"wall":1', '"wall":-Infinity') + "}",
        "{" + HEAD.replace('"wall":1', '"wall":1' + "0" * 400) + "}",
        '{"v":2,' + HEAD + "}",
    ],
)
def test_other_lines_are_no_events(line: str) -> None:
    """What is not an event is a ValueError."""
    with pytest.raises(ValueError):
        Event.from_json(line)


def test_unknown_kinds_and_facts_are_read() -> None:
    """A log of a newer version of the same format is no damage; a fact of a wrong type counts as none."""
    found = Event.from_json('{"v":1,' + HEAD + ',"new":{"a":[1]},"wait_s":"long"}')
    assert (found.kind, found.facts["new"], found.number("wait_s"), found.number("none")) == (
        "x",
        {"a": [1]},
        0,
        0,
    )
    assert Event.from_json("{" + HEAD + ',"fence":true}').fence is None


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


def test_a_pipe_in_its_place_blocks_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Only a regular file is a log; opening anything else returns at once."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        sink = FileSink(tmp_path / name)
        sink(event())
        assert sink.dropped == 1
    assert len(caplog.records) == 2


def test_what_is_no_event_is_dropped_and_not_raised(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A fact that JSON has no form for costs its event alone."""
    sink = FileSink(tmp_path / "audit.jsonl")
    sink(event(fact=object()))
    sink(event(fact=object()))
    sink(event(seq=2))
    assert sink.dropped == 2
    assert len(caplog.records) == 1
    assert [each.seq for each in read([tmp_path / "audit.jsonl"], [])] == [2]


FULL = """
import logging, resource, sys
from azlatch.audit.events import Event
from azlatch.audit.log import FileSink
logging.basicConfig(format="%(message)s")
sink = FileSink(sys.argv[1])
def write(first, last):
    for number in range(first, last):
        sink(Event("released", number, 0.0, 0.0, "", "i", {"name": "n" * 100}))
write(1, 21)
resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, resource.RLIM_INFINITY))
write(21, 61)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
write(61, 71)
print(sink.dropped)
"""


def test_a_full_disk_tears_one_line_at_most(tmp_path: Path) -> None:
    """Nothing is raised, it is said once, and what follows when there is room again can be read."""
    path = tmp_path / "audit.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    damage: list[Damage] = []
    numbers = [each.seq for each in read([path], damage)]
    assert numbers[-10:] == list(range(61, 71))
    assert numbers[:-10] == list(range(1, len(numbers) - 9))
    assert len(damage) <= 1
    assert int(done.stdout) == 70 - len(numbers)
    assert done.stderr.count("cannot be written") == 1


def test_a_line_that_an_earlier_process_tore_harms_no_other(tmp_path: Path) -> None:
    """What is appended to a torn line begins on a line of its own."""
    path = tmp_path / "audit.jsonl"
    path.write_text(event(seq=1).to_json()[:30])
    FileSink(path)(event(seq=2))
    damage: list[Damage] = []
    assert [each.seq for each in read([path], damage)] == [2]
    assert [part.line for part in damage] == [1]


def test_a_log_that_is_taken_away_is_made_again(tmp_path: Path) -> None:
    """Moved by hand, or by a tool for it: the next event opens a new file, with the folder if need be."""
    path = tmp_path / "logs" / "audit.jsonl"
    sink = FileSink(path)
    sink(event(seq=1))
    path.rename(tmp_path / "moved")
    sink(event(seq=2))
    path.unlink()
    path.parent.rmdir()
    sink(event(seq=3))
    sink.close()
    sink(event(seq=4))
    assert sink.dropped == 0
    assert [each.seq for each in read([tmp_path / "moved", path], [])] == [1, 3, 4]


def test_a_rotation_that_fails_loses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The file grows instead; it is said once."""
    path = tmp_path / "audit.jsonl"
    (tmp_path / "audit.jsonl.lock").mkdir()
    sink = FileSink(path, max_bytes=4_096)
    for number in range(1, 101):
        sink(event(seq=number))
    assert sink.dropped == 0
    assert len(list(read([path], []))) == 100
    assert [record.getMessage() for record in caplog.records if "rotated" in record.getMessage()] != []
    assert len(caplog.records) == 1


FORKED = """
import os, sys, threading
from azlatch.audit.events import Event
from azlatch.audit.log import FileSink
sink = FileSink(sys.argv[1])
def write(who, first):
    for number in range(first, first + 20):
        sink(Event("released", number, 0.0, 0.0, "", who, {}))
write("parent", 1)
sink._lock.acquire()  # as if another thread were writing
child = os.fork()
if not child:
    write("child", 1)
    os._exit(0)
sink._lock.release()
write("parent", 21)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_in_the_middle_of_a_write(tmp_path: Path) -> None:
    """The child does not wait for a thread that it does not have; both go on writing."""
    path = tmp_path / "audit.jsonl"
    done = subprocess.run([sys.executable, "-c", FORKED, str(path)], timeout=30, check=False)
    assert done.returncode == 0
    damage: list[Damage] = []
    seen = sorted((each.instance, each.seq) for each in read([path], damage))
    assert damage == []
    assert seen == [("child", seq) for seq in range(1, 21)] + [("parent", seq) for seq in range(1, 41)]


WRITER = """
import sys
from azlatch.audit.events import Event
from azlatch.audit.log import FileSink
sink = FileSink(sys.argv[1], max_bytes=int(sys.argv[3]), keep=int(sys.argv[4]))
for number in range(1, 1_001):
    sink(Event("released", number, 0.0, 0.0, "", sys.argv[2], {"name": "n" * (number % 50)}))
assert not sink.dropped
"""


def write_together(path: Path, max_bytes: int, keep: int) -> None:
    """Four processes write a thousand events each."""
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), f"i{number}", str(max_bytes), str(keep)])
        for number in range(4)
    ]
    assert [writer.wait(60) for writer in writers] == [0] * 4


@pytest.mark.parametrize(("max_bytes", "keep", "parts"), [(20_000, 50, 10), (50_000_000, 5, 1)])
def test_several_processes_lose_no_line(tmp_path: Path, max_bytes: int, keep: int, parts: int) -> None:
    """Four processes write the same log, rotated or not: every line is there once, and whole."""
    path = tmp_path / "audit.jsonl"
    write_together(path, max_bytes, keep)
    damage: list[Damage] = []
    seen = [(each.instance, each.seq) for each in read(rotated(path), damage)]
    assert damage == []
    assert len(rotated(path)) >= parts
    assert (len(rotated(path)) == 1) == (parts == 1)
    assert sorted(seen) == sorted((f"i{number}", seq) for number in range(4) for seq in range(1, 1_001))


def test_several_processes_keep_as_many_parts_as_told(tmp_path: Path) -> None:
    """With few parts to keep, the newest of them are kept; a part outgrows its size only while one is moved."""
    path = tmp_path / "audit.jsonl"
    write_together(path, 20_000, 3)
    old = rotated(path)
    old = [part for part in old if part != path]
    assert [part.name for part in old] == ["audit.jsonl.3", "audit.jsonl.2", "audit.jsonl.1"]
    assert all(20_000 <= part.stat().st_size < 200_000 for part in old)
    assert all(part.stat().st_mode & 0o777 == 0o600 for part in old)


def test_rotated_parts_are_found_in_order(tmp_path: Path) -> None:
    """By number and not by text, and nothing that only looks like one of them."""
    name = "audit[1]*.jsonl"
    for suffix in ("", ".1", ".2", ".10", ".lock", ".01", ".\u00b2", ".1.gz"):
        (tmp_path / f"{name}{suffix}").write_text("")
    found = [part.name for part in rotated(tmp_path / name)]
    assert found == [f"{name}.10", f"{name}.2", f"{name}.1", name]
    assert rotated(tmp_path / "none" / "x") == []


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
    path.write_text(f"{good}\nnonsense\n\n{good}\n\N{SNOWMAN}\n{good[:20]}", encoding="utf-8")
    damage: list[Damage] = []
    assert len(list(read([path, tmp_path / "gone"], damage))) == 2
    assert [part.line for part in damage] == [2, 5, 6, 0]
    assert "torn" in damage[2].why
    assert "cannot be read" in damage[3].why


def test_a_last_line_without_its_end_is_read_if_it_is_whole(tmp_path: Path) -> None:
    """An object that is closed is all of the event."""
    damage: list[Damage] = []
    (tmp_path / "log").write_text(event().to_json())
    assert list(read([tmp_path / "log"], damage)) == [event()]
    assert damage == []


def test_logging_levels(caplog: pytest.LogCaptureFixture) -> None:
    """Only a loss, a break and a refusal are warnings; expected contention is none."""
    with caplog.at_level(logging.INFO, "azlatch.audit"):
        for kind in ("granted", "ended", "released", "lost", "broken", "rejected"):
            LoggingSink()(event(kind, outcome="timeout"))
    levels = [record.levelname for record in caplog.records]
    assert levels == ["INFO"] * 3 + ["WARNING"] * 3
    assert {record.name for record in caplog.records} == {"azlatch.audit"}
    assert Event.from_json(caplog.records[0].getMessage()) == event("granted", outcome="timeout")
    assert caplog.records[0].azlatch_event.kind == "granted"  # type: ignore[attr-defined]


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
