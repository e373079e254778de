"""The file gate: whole files, any crash, any failing step, and nobody's link."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azlatch.errors import (
    BackendDenied,
    BackendError,
    BackendMisconfigured,
    BackendUnavailable,
    FenceRejected,
    LatchError,
    OutcomeUnknown,
    UsageError,
)
from azlatch.gates import Acceptance, FileGate, file, folder
from azlatch.gates.ledger import KEPT, Ledger, decode

Start = Callable[..., "Popen[str]"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "guarded"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_write_replaces_the_whole_file(path: Path) -> None:
    """Bytes as they are, text as UTF-8; nothing is left beside the file but its ledger and its lock."""
    gate = FileGate(path)
    assert gate.write(5, b"a longer text") == Acceptance(1, 5)
    assert gate.write(5, "é") == Acceptance(2, 5)
    assert path.read_bytes() == "é".encode()
    assert sorted(os.listdir(path.parent)) == ["guarded", "guarded.fence", "guarded.gate"]
    assert gate.history() == (Acceptance(1, 5), Acceptance(2, 5))


def test_files_are_private_and_an_existing_mode_is_kept(path: Path) -> None:
    """New files are 0600; a guarded file that exists keeps its mode, whatever the umask."""
    FileGate(path).write(1, "")
    assert [mode(path.with_name(name)) for name in sorted(os.listdir(path.parent))] == [0o600] * 3
    path.chmod(0o666)
    FileGate(path).write(1, "")
    assert mode(path) == 0o666


def test_a_reader_sees_the_old_file_until_the_end(path: Path) -> None:
    """Inside the block the path has the old content; a file that the reader has open stays whole."""
    gate = FileGate(path)
    gate.write(1, "old")
    with path.open() as reader, gate.open_guarded(2) as guarded:
        guarded.write(b"new")
        guarded.flush()
        assert path.read_text() == "old"
        guarded.close()
    assert (path.read_text(), guarded.acceptance) == ("new", Acceptance(2, 2))
    assert reader.closed


def test_a_body_that_raises_accepts_nothing(path: Path) -> None:
    """Neither the content nor the fence moves, and no file is left."""
    gate = FileGate(path)
    gate.write(1, "old")
    with pytest.raises(KeyboardInterrupt), gate.open_guarded(9) as guarded:
        guarded.write(b"new")
        raise KeyboardInterrupt
    assert (path.read_text(), gate.newest, len(os.listdir(path.parent))) == ("old", 1, 3)


def test_an_older_fence_touches_nothing(path: Path) -> None:
    """After a refusal every file is as it was, to the byte and the inode."""
    gate = FileGate(path)
    gate.write(5, "content")

    def state() -> list[tuple[str, int, bytes]]:
        return [
            (found.name, found.stat().st_ino, found.read_bytes()) for found in sorted(path.parent.iterdir())
        ]

    before = state()
    with pytest.raises(FenceRejected) as caught:
        gate.write(4, "older")
    assert (caught.value.offered, caught.value.newest, state()) == (4, 5, before)


@pytest.mark.parametrize("data", [None, 7, ["a"]])
def test_what_is_no_content_is_a_usage_error(path: Path, data: Any) -> None:
    """It is refused before the gate is entered."""
    with pytest.raises(UsageError):
        FileGate(path).write(1, data)
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("name", ["", "/", "folder/", "folder/..", "a\0b", b"bytes"])
def test_what_names_no_file_is_a_usage_error(name: Any) -> None:
    """A folder, a NUL or bytes cannot be guarded."""
    with pytest.raises(UsageError):
        FileGate(name)


def test_the_history_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger keeps the newest acceptances only, so it does not grow."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    for _ in range(KEPT + 5):
        FileGate(path).write(7, "")
    history = FileGate(path).history()
    assert (len(history), history[-1]) == (KEPT, Acceptance(KEPT + 5, 7))


def test_a_missing_folder_is_misconfigured(tmp_path: Path) -> None:
    """The gate makes no folder: nobody knows whose it would be."""
    with pytest.raises(BackendMisconfigured):
        FileGate(tmp_path / "none" / "guarded").write(1, "")


@pytest.mark.parametrize("suffix", ["", ".fence", ".gate"])
@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_nothing_but_files_is_used(path: Path, suffix: str, kind: str) -> None:
    """A link, a FIFO or a folder in the place of any of the three files is BackendMisconfigured, at once."""
    place = path.with_name("guarded" + suffix)
    target = path.with_name("target")
    target.write_text("untouched")
    if kind == "link":
        place.symlink_to(target)
    elif kind == "fifo":
        os.mkfifo(place)
    else:
        place.mkdir()
    with pytest.raises(BackendMisconfigured):
        FileGate(path).write(1, "content")
    assert target.read_text() == "untouched"


@pytest.mark.parametrize("suffix", [".gate.data", ".gate.fence"])
def test_a_link_in_the_place_of_a_new_file_is_not_followed(path: Path, suffix: str) -> None:
    """It is removed, as the rest of a crash would be, and its target stays."""
    target = path.with_name("target")
    target.write_text("untouched")
    path.with_name("guarded" + suffix).symlink_to(target)
    FileGate(path).write(1, "content")
    assert (target.read_text(), path.read_text(), path.is_symlink()) == ("untouched", "content", False)


@pytest.mark.parametrize(
    "damage", ["", "{}", "0", '{"azlatch_gate":1,"accepted":[]}\n', "cut", "digit", "long"]
)
def test_a_damaged_ledger_is_an_error_and_never_nothing(path: Path, damage: str) -> None:
    """An empty, a cut, an edited or an overlong ledger is BackendMisconfigured, and the file stays as it is."""
    gate = FileGate(path)
    gate.write(77, "content")
    ledger = path.with_name("guarded.fence")
    raw = ledger.read_text()
    damaged = {"cut": raw[:-2], "digit": raw.replace("77", "76", 1), "long": raw + " " * 20_000}.get(
        damage, damage
    )
    ledger.write_text(damaged)
    for use in (lambda: gate.write(99, "new"), gate.history, lambda: gate.newest):
        with pytest.raises(BackendMisconfigured, match="newest fence is unknown"):
            use()
    assert (path.read_text(), ledger.read_text()) == ("content", damaged)


def test_a_ledger_that_is_gone_is_an_error_and_never_nothing(path: Path) -> None:
    """A gate that had a ledger does not start anew without it; with its lock file gone too, it does."""
    gate = FileGate(path)
    gate.write(7, "content")
    path.with_name("guarded.fence").unlink()
    with pytest.raises(BackendMisconfigured):
        gate.write(9, "new")
    path.with_name("guarded.gate").unlink()
    assert gate.write(1, "new") == Acceptance(1, 1)


@given(
    st.binary(max_size=80) | st.just(Ledger().with_next(5).encode()), st.integers(0, 200), st.binary(max_size=3)
)
@settings(max_examples=300)
def test_decoding_believes_only_what_was_encoded(raw: bytes, place: int, insert: bytes) -> None:
    """Any bytes are either an error of ours or a ledger that encodes to exactly those bytes."""
    raw = raw[:place] + insert + raw[place + len(insert) :]
    with contextlib.suppress(BackendMisconfigured):
        assert decode(raw, "path").encode() == raw


def test_decoding_refuses_a_ledger_that_contradicts_itself() -> None:
    """Falling fences, gaps, bools and a newer format are refused even with a digest that fits."""
    for rows in (
        [(1, 5), (2, 4)],
        [(1, 5), (3, 6)],
        [(0, 5)],
        [(1, -1)],
        [(1, True)],
        [(1.0, 5)],
        [(1, 2, 3)],
        [],
    ):
        with pytest.raises(BackendMisconfigured):
            decode(Ledger(tuple(rows)).encode(), "path")  # type: ignore[arg-type]


# Crashes


def check_crash(place: Path, old: str | None) -> tuple[str | None, int | None]:
    """The checker: whatever a crash left, an older fence stays out, and the same or a newer gets in."""
    path = place / "guarded"
    gate = FileGate(path)
    content = path.read_text() if path.exists() else None
    newest = gate.newest
    assert content in (old, "new") and newest in (5 if old else None, 9)
    assert content != "new" or newest == 9, "the new content stands under an older fence"
    if newest == 9:
        with pytest.raises(FenceRejected):
            gate.write(7, "older")
        assert (path.read_text() if path.exists() else None) == content
    assert gate.write(9, "again").sequence == len(gate.history())
    assert (path.read_text(), gate.newest, len(os.listdir(place))) == ("again", 9, 3)
    return content, newest


def check_every_crash(start: Start, into: Path, old: str | None, *mutant: str) -> None:
    worker = start("crash", into, "OLD" if old else "FRESH", *mutant)
    steps = int(worker.communicate(timeout=120)[0])
    states = {check_crash(into / str(step), old) for step in range(steps + 1)}
    # None of the three was missed: nothing happened, accepted but not written, done.
    assert states == {(old, 5 if old else None), (old, 9), ("new", 9)}


@pytest.mark.parametrize("old", ["old", None], ids=["used", "new"])
def test_killed_before_every_step(start: Start, tmp_path: Path, old: str | None) -> None:
    """A real process is killed before every system call in turn: no older fence gets in, nothing is stuck."""
    check_every_crash(start, tmp_path, old)


def test_mutant_data_first_is_caught(start: Start, tmp_path: Path) -> None:
    """With the content replaced before the ledger, the same check fails."""
    with pytest.raises(AssertionError, match="under an older fence"):
        check_every_crash(start, tmp_path, "old", "data-first")


class FailingOs:
    """The module os, whose nth step fails with EIO, before or after it really happened."""

    def __init__(self, step: int, steps: set[str], *, happens: bool) -> None:
        self.left, self.steps, self.happens = step, steps, happens
        self.failed = ""

    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        return self._step(name, found) if name in self.steps else found

    def _step(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left != -1:
                return function(*arguments, **named)
            self.failed = name
            if self.happens:
                function(*arguments, **named)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        return step


@pytest.mark.parametrize(
    ("steps", "happens"),
    [
        ({"open", "stat", "fstat", "fchmod", "unlink", "write"}, False),
        ({"fsync"}, False),
        ({"fsync"}, True),
        ({"replace"}, False),
        ({"replace"}, True),
    ],
    ids=lambda value: "-".join(sorted(value)) if isinstance(value, set) else str(value),
)
def test_every_failing_step_is_told_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: set[str], happens: bool
) -> None:
    """EIO at every step in turn: "not written" is true, success is true, and all else is called unknown."""
    for step in range(200):
        place = tmp_path / str(step)
        place.mkdir()
        path = place / "guarded"
        FileGate(path).write(5, "old")
        failing = FailingOs(step, steps, happens=happens)
        outcome: type[LatchError] | None = None
        with monkeypatch.context() as patch:
            patch.setattr(folder, "os", failing)
            patch.setattr(file, "os", failing)
            try:
                FileGate(path).write(9, "new")
            except LatchError as error:
                outcome = type(error)
        assert outcome in (None, BackendUnavailable, OutcomeUnknown)
        if outcome is not OutcomeUnknown:
            assert path.read_text() == ("new" if outcome is None else "old")
        check_crash(place, "old")
        if not failing.failed:
            assert step > 0
            return
    pytest.fail("it never came through")


def test_a_rename_that_failed_is_read_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It happened: success. It did not: an error. Neither the one file nor the other there: unknown (M5)."""
    gate = FileGate(path)
    gate.write(1, "old")
    replace = os.replace

    def failing(source: str, target: str, **folders: int) -> None:
        if target == "guarded":
            act(source, target, **folders)
            raise OSError(errno.EIO, "no answer")
        replace(source, target, **folders)

    def lose(source: str, target: str, **folders: int) -> None:
        os.unlink(source, dir_fd=folders["src_dir_fd"])

    monkeypatch.setattr(os, "replace", failing)
    act: Callable[..., None] = replace
    assert gate.write(2, "new").fence == 2
    act = lambda *_, **__: None  # noqa: E731  # the three of them side by side
    with pytest.raises(BackendError):
        gate.write(3, "newer")
    assert (path.read_text(), gate.newest) == ("new", 3)
    act = lose
    with pytest.raises(OutcomeUnknown):
        gate.write(4, "newest")


def test_a_full_disk_is_unavailable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No space for the new content: BackendUnavailable, and nothing was accepted."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BackendUnavailable, match="No space left"):
        FileGate(path).write(1, "content")
    assert not path.exists() and FileGate(path).newest is None


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.EACCES, BackendDenied),
        (errno.EROFS, BackendDenied),
        (errno.ENOLCK, BackendMisconfigured),
        (errno.ELOOP, BackendMisconfigured),
        (errno.EDQUOT, BackendUnavailable),
    ],
)
def test_whose_job_an_error_is(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, expected: type[BackendError]
) -> None:
    """A missing right is the operator's, a place that cannot serve too, a failing disk the service's."""

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(expected) as caught:
        FileGate(path).write(1, "content")
    assert isinstance(caught.value.__cause__, OSError)


# Other processes


def test_a_killed_writer_leaves_nothing(path: Path, start: Start) -> None:
    """kill -9 inside the gate: it is open at once, the old content stands, and nothing was accepted."""
    gate = FileGate(path, timeout=0)
    gate.write(3, "3")
    worker = start("inside", "file", path, 9)
    assert worker.stdout is not None and worker.stdout.readline() == "inside\n"
    worker.send_signal(signal.SIGKILL)
    worker.wait(10)
    assert (gate.newest, path.read_text()) == (3, "3")
    assert gate.write(4, "4") == Acceptance(2, 4)
    assert len(os.listdir(path.parent)) == 3


def test_a_stopped_writer_blocks_to_the_bound_only(path: Path, start: Start) -> None:
    """SIGSTOP inside the gate: others get BackendUnavailable at their timeout; continued, it is accepted."""
    worker = start("inside", "file", path, 9)
    assert worker.stdout is not None and worker.stdout.readline() == "inside\n"
    worker.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(BackendUnavailable):
        FileGate(path, timeout=0.2).write(10, "10")
    assert 0.2 <= time.monotonic() - began < 5
    worker.send_signal(signal.SIGCONT)
    assert worker.communicate("go\n", timeout=10)[0] == "left\n"
    with pytest.raises(FenceRejected):
        FileGate(path).write(8, "8")
    assert path.read_text() == "9"


def test_a_lock_file_that_was_replaced_is_not_trusted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who locked a file that meanwhile lost its name is alone in there, and tries again with the new one."""
    gate = FileGate(path)
    gate.write(1, "old")
    lock, spare = path.with_name("guarded.gate"), path.with_name("spare")
    flock = folder._flock
    replaced: list[bool] = []

    def replace_once(descriptor: int, full: str) -> bool:
        if not replaced:
            shutil.copy(lock, spare)
            os.replace(spare, lock)
        replaced.append(os.fstat(descriptor).st_ino == lock.stat().st_ino)
        return flock(descriptor, full)

    monkeypatch.setattr(folder, "_flock", replace_once)
    gate.write(2, "new")
    assert replaced == [False, True]


def test_a_command_runs_only_with_a_fence_that_is_not_older(path: Path) -> None:
    """The fence is accepted before the command starts, and the exit code is the command's."""
    gate = FileGate(path)
    assert (
        gate.run(5, [sys.executable, "-c", f"open({str(path)!r}, 'w').write('done'); raise SystemExit(3)"]) == 3
    )
    assert (path.read_text(), gate.newest) == ("done", 5)
    with pytest.raises(FenceRejected):
        gate.run(4, [sys.executable, "-c", f"open({str(path)!r}, 'w').write('older')"])
    assert path.read_text() == "done"
    with pytest.raises(FileNotFoundError):
        gate.run(6, ["/no/such/command"])
    assert gate.newest == 6


def test_a_command_has_the_limit_that_was_set(path: Path) -> None:
    """At the limit the command is killed, and the gate is open again."""
    with pytest.raises(TimeoutExpired):
        FileGate(path).run(5, [sys.executable, "-c", "import time; time.sleep(60)"], limit=0.2)
    assert FileGate(path, timeout=0).write(5, "").fence == 5


def test_a_command_outlives_its_gate_process_and_keeps_it_closed(path: Path, start: Start) -> None:
    """kill -9 of the process that runs the command: the gate stays closed until the command itself ended."""
    worker = start("command", path, 5)
    assert worker.stdout is not None and worker.stdout.readline() == "inside\n"
    worker.send_signal(signal.SIGKILL)
    worker.wait(10)
    with pytest.raises(BackendUnavailable):
        FileGate(path, timeout=0.1).write(6, "6")
    assert worker.stdin is not None
    worker.stdin.close()
    assert FileGate(path, timeout=10).write(6, "6") == Acceptance(2, 6)
    worker.stdin = None
