"""The file gate and the power: what a disk may have kept, for every moment at which it can fail."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from azlatch.gates import FileGate, file, folder
from azlatch.gates.ledger import decode

#: What stands under a name: the bytes, and whether they were synced before they got it.
Kept = dict[str, tuple[bytes, bool]]


class RecordingOs:
    """The module os, writing down renames and folder syncs, and which content was synced."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.synced: dict[int, bytes] = {}
        self.steps: list[tuple[str, bytes, bool] | None] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, descriptor: int) -> None:
        found = Path(f"/proc/self/fd/{descriptor}").resolve()
        if found == self.place:
            self.steps.append(None)
        else:
            self.synced[os.fstat(descriptor).st_ino] = found.read_bytes()
        os.fsync(descriptor)

    def replace(self, source: str, target: str, **folders: int) -> None:
        moved = self.place / source
        content = moved.read_bytes()
        self.steps.append((target, content, self.synced.get(moved.stat().st_ino) == content))
        os.replace(source, target, **folders)


def disks(recorded: RecordingOs, before: Kept) -> Iterator[Kept]:
    """Every disk that a power loss can leave: of the renames since the last folder sync, any may be lost."""
    for moment in range(len(recorded.steps) + 1):
        done = recorded.steps[:moment]
        syncs = [place for place, step in enumerate(done) if step is None]
        sure = syncs[-1] if syncs else 0
        pending = [step for step in done[sure:] if step is not None]
        for kept in itertools.product([True, False], repeat=len(pending)):
            disk = dict(before)
            for step in [*(step for step in done[:sure] if step), *itertools.compress(pending, kept)]:
                disk[step[0]] = step[1:]
            yield disk


def check_power(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker: no disk has the new content under an older fence, or a file whose content is not there."""
    path = place / "guarded"
    FileGate(path).write(5, "old")
    names = ("guarded", "guarded.fence")
    before: Kept = {name: ((place / name).read_bytes(), True) for name in names}
    recorded = RecordingOs(place.resolve())
    monkeypatch.setattr(folder, "os", recorded)
    monkeypatch.setattr(file, "os", recorded)
    FileGate(path).write(9, "new")
    seen = set()
    for disk in disks(recorded, before):
        assert all(synced for _, synced in disk.values()), "a name stands for content that was not synced"
        content, fence = disk["guarded"][0], decode(disk["guarded.fence"][0], "path").newest
        assert (content, fence) != (b"new", 5), "the new content stands under an older fence"
        seen.add((content, fence))
    assert seen == {(b"old", 5), (b"old", 9), (b"new", 9)}


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc/self/fd of Linux")


@needs_proc
def test_a_power_loss_never_leaves_an_older_fence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the disk lost of what was not synced, the ledger is never behind the content."""
    check_power(tmp_path, monkeypatch)


@needs_proc
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_mutant_without_sync_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """With the files or the folder not synced, the same check fails."""
    if kind == "file":
        monkeypatch.setattr(file, "sync", lambda _: None)
    else:
        monkeypatch.setattr(folder, "sync", lambda _: None)
    with pytest.raises(AssertionError, match="not synced" if kind == "file" else "under an older fence"):
        check_power(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("number", "outcome"), [(None, "full"), (errno.ENOTSUP, "plain"), (errno.EIO, "error")], ids=str
)
def test_the_full_sync_of_macos_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int | None, outcome: str
) -> None:
    """Where there is one it is used; a file system without it gets fsync; a failure is a failure."""
    calls: list[str] = []

    def full_sync(descriptor: int, command: int) -> None:
        assert command == 51
        if number is not None:
            raise OSError(number, os.strerror(number))
        calls.append("full")

    plain: Callable[[int], None] = lambda _: calls.append("plain")  # noqa: E731  # next to the other
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", full_sync)
    monkeypatch.setattr(os, "fsync", plain)
    try:
        folder.sync(0)
    except OSError as error:
        assert error.errno == number
        calls.append("error")
    assert calls == [outcome]
