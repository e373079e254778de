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
import stat
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from azlatch.audit.events import Event, Sink
from azlatch.errors import UsageError

logger = logging.getLogger("azlatch")
events_logger = logging.getLogger("azlatch.audit")

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


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
        self._pid = 0

    def __call__(self, event: Event) -> None:
        line = event.to_json().encode("ascii") + b"\n"
        try:
            with self._lock:
                file = self._opened()
                # One call, so that the line is whole among those of other processes.
                if os.write(file, line) != len(line):
                    raise OSError("the line was written in part")
                if os.fstat(file).st_size >= self._max_bytes:
                    self._rotate()
        except OSError as error:
            self.dropped += 1
            if self.dropped == 1:
                logger.warning("azlatch: the audit log %s cannot be written: %s", self.path, error)

    def close(self) -> None:
        """Closes the file; another event opens it again."""
        with self._lock:
            self._drop()

    def _opened(self) -> int:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._file = -1
        if self._file >= 0:
            with contextlib.suppress(FileNotFoundError):
                found = os.stat(self.path)
                if (found.st_dev, found.st_ino) == self._identity:
                    return self._file
            # Another process rotated it away.
            self._drop()
        os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
        self._file = os.open(self.path, _FLAGS, 0o600)
        opened = os.fstat(self._file)
        if not stat.S_ISREG(opened.st_mode):
            self._drop()
            raise OSError("not a regular file")
        self._identity = (opened.st_dev, opened.st_ino)
        return self._file

    def _rotate(self) -> None:
        """Moves the file aside; processes that race for it agree through a lock."""
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                found = os.stat(self.path)
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
    old = [file for file in present.parent.glob(f"{present.name}.*") if file.suffix[1:].isdigit()]
    old.sort(key=lambda file: -int(file.suffix[1:]))
    return [*old, *([present] if present.exists() else [])]


def read(paths: Iterable[str | os.PathLike[str]], damage: list[Damage]) -> Iterator[Event]:
    """The events of logs, in the order of their lines; what cannot be read is added to `damage`."""
    for path in paths:
        with open(path, "rb") as file:
            for number, raw in enumerate(file, 1):
                if not raw.endswith(b"\n"):
                    damage.append(Damage(str(path), number, "the last line is torn"))
                    continue
                try:
                    yield Event.from_json(raw.decode("ascii"))
                except ValueError as error:
                    damage.append(Damage(str(path), number, f"not an event: {error}"))
