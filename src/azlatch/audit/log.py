"""Where events go: a file that several processes share, the standard library's logging, or both.

The file takes one line per event, written whole by one system call, so that processes that append to the
same file never mix their lines. It is not synchronised to the disk with every event: a power loss may cost
the last ones, and a history then says *unknown*.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import stat
import threading
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from azlatch.audit.events import Event, Sink
from azlatch.errors import UsageError

logger = logging.getLogger("azlatch")
events_logger = logging.getLogger("azlatch.audit")

# Readable too, for its last byte; and so that a pipe in its place blocks nobody.
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NUMBER = re.compile("[1-9][0-9]{0,8}")


class FileSink:
    """Appends events to a file of this user alone; rotates it at `max_bytes` and keeps `keep` old ones.

    It never raises into the work that it watches: what cannot be written is counted in `dropped`, and said
    once through logging.
    """

    def __init__(self, path: str | os.PathLike[str], *, max_bytes: int = 50_000_000, keep: int = 5) -> None:
        if max_bytes < 4_096 or keep < 1:
            raise UsageError(f"max_bytes={max_bytes}, keep={keep}: give at least 4,096 bytes and one old file")
        self.path = os.path.abspath(os.fspath(path))
        self.dropped = 0
        self._max_bytes = max_bytes
        self._keep = keep
        self._lock = threading.Lock()
        self._file = -1
        self._identity = (0, 0)
        self._rotation_failed = False
        _sinks.add(self)

    def __call__(self, event: Event) -> None:
        with self._lock:
            try:
                line = event.to_json().encode("ascii") + b"\n"
                file = self._opened()
                # One call, so that the line is whole among those of other processes.
                if os.write(file, line) != len(line):
                    # Opened again it gets a line end, so that this line alone is torn.
                    self._drop()
                    raise OSError("the line was written in part")
            except (OSError, TypeError, ValueError, RecursionError) as error:
                self.dropped += 1
                if self.dropped == 1:
                    logger.warning("azlatch: the audit log %s cannot be written: %s", self.path, error)
                return
            try:
                if os.fstat(file).st_size >= self._max_bytes:
                    self._rotate()
            except BlockingIOError:
                pass  # another process is at it; until it is done the file grows a little more
            except OSError as error:
                # The line is there all the same; the file grows until a rotation succeeds.
                if not self._rotation_failed:
                    self._rotation_failed = True
                    logger.warning("azlatch: the audit log %s cannot be rotated: %s", self.path, error)

    def close(self) -> None:
        """Closes the file; another event opens it again."""
        with self._lock:
            self._drop()

    def _forked(self) -> None:
        """In a forked child: the lock and the file may be in the hands of a thread that is not here."""
        self._lock = threading.Lock()
        self._file = -1

    def _opened(self) -> int:
        if self._file >= 0:
            with contextlib.suppress(FileNotFoundError):
                found = os.lstat(self.path)
                if (found.st_dev, found.st_ino) == self._identity:
                    return self._file
            # Another process rotated it away.
            self._drop()
        os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
        file = os.open(self.path, _FLAGS, 0o600)
        try:
            opened = os.fstat(file)
            if not stat.S_ISREG(opened.st_mode):
                raise OSError("not a regular file")
            if opened.st_size and os.pread(file, 1, opened.st_size - 1) != b"\n":
                # A torn line, of a full disk or a power loss: what follows must not become a part of it.
                os.write(file, b"\n")
        except BaseException:
            os.close(file)
            raise
        self._identity = (opened.st_dev, opened.st_ino)
        self._file = file
        return file

    def _rotate(self) -> None:
        """Moves the file aside; processes that race for it agree through a lock."""
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            # Without waiting: whoever has it may have been stopped.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                found = os.lstat(self.path)
            except FileNotFoundError:
                return  # another process has just moved it, and nobody has opened a new one yet
            if (found.st_dev, found.st_ino) == self._identity:
                for number in range(self._keep - 1, 0, -1):
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(f"{self.path}.{number}", f"{self.path}.{number + 1}")
                os.replace(self.path, f"{self.path}.1")
        finally:
            os.close(lock)
            self._drop()

    def _drop(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


_sinks: weakref.WeakSet[FileSink] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for sink in list(_sinks):
        sink._forked()


os.register_at_fork(after_in_child=_after_fork_in_child)


class LoggingSink:
    """Hands events to the logger ``azlatch.audit``: a loss as a warning, expected contention never as one."""

    def __call__(self, event: Event) -> None:
        level = logging.WARNING if event.kind in ("lost", "broken", "rejected") else logging.INFO
        if events_logger.isEnabledFor(level):
            events_logger.log(level, "%s", event.to_json(), extra={"azlatch_event": event})


def tee(*sinks: Sink) -> Sink:
    """One sink that feeds several; a failure of one does not keep the event from the others."""

    def feed(event: Event) -> None:
        for sink in sinks:
            try:
                sink(event)
            except Exception:
                logger.exception("azlatch: an audit sink failed")

    return feed


class Damage(NamedTuple):
    """A part of a log that could not be read."""

    path: str
    line: int
    why: str


def rotated(path: str | os.PathLike[str]) -> list[Path]:
    """The file and those that were rotated from it, oldest first."""
    present = Path(path)
    names = os.listdir(present.parent) if present.parent.is_dir() else []
    start = f"{present.name}."
    numbered = [name for name in names if name.startswith(start) and _NUMBER.fullmatch(name[len(start) :])]
    old = [present.parent / name for name in numbered]
    old.sort(key=lambda file: -int(file.suffix[1:]))
    return [*old, *([present] if present.exists() else [])]


def read(paths: Iterable[str | os.PathLike[str]], damage: list[Damage]) -> Iterator[Event]:
    """The events of logs, in the order of their lines; what cannot be read is added to `damage`."""
    for path in paths:
        try:
            file = open(path, "rb")  # noqa: SIM115 - closed below
        except OSError as error:
            # Rotated away, perhaps, since its name was looked up.
            damage.append(Damage(str(path), 0, f"cannot be read: {error.strerror}"))
            continue
        with file:
            for number, raw in enumerate(file, 1):
                if not raw.strip():
                    continue
                try:
                    event = Event.from_json(raw.decode("ascii"))
                except ValueError as error:
                    why = f"not an event: {error}" if raw.endswith(b"\n") else "the last line is torn"
                    damage.append(Damage(str(path), number, why))
                else:
                    yield event
