"""The log's files: FOLDER/TABLE.jsonl and FOLDER/TABLE.csv, to which rows are appended.

Each row is one write of one whole line: nothing is kept in memory, and a lab that is killed leaves whole lines.
"""

from __future__ import annotations

import csv
import io
import logging
import os
import stat
from collections.abc import Mapping
from typing import Any

from azlatch.errors import UsageError
from azlatch.lab.cosmos.log_tables import COLUMNS
from azlatch.lab.cosmos.wire import encode

#: A file that would be larger begins anew; what it was until then is beside it, with `.old` after its name.
MOST_BYTES = 2**30

logger = logging.getLogger("azlatch.lab.cosmos")


class LogFiles:
    """The files of all tables in one folder, which is made if it is missing.

    A disk that cannot be written to ends the log, not the lab: it is said once, in `azlatch.lab.cosmos`.

    Raises:
        UsageError: the folder or a file in it cannot be written to.
    """

    def __init__(self, folder: str, most_bytes: int = MOST_BYTES) -> None:
        self._files: list[_File] = []
        self._by_table: dict[str, tuple[_File, _File]] = {}
        self._text = io.StringIO()
        self._csv = csv.writer(self._text, lineterminator="\n")
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            for table, columns in COLUMNS.items():
                lines = self._opened(os.path.join(folder, f"{table}.jsonl"), b"", most_bytes)
                head = self._line(columns)
                self._by_table[table] = (
                    lines,
                    self._opened(os.path.join(folder, f"{table}.csv"), head, most_bytes),
                )
        except OSError as error:
            self.close()
            raise UsageError(f"the folder {folder!r} for logs cannot be used: {error.strerror}") from None
        except UsageError:
            self.close()
            raise

    def write(self, table: str, row: Mapping[str, Any]) -> None:
        """Appends a row that has all columns of its table, in their order."""
        if not self._by_table:
            return
        lines, values = self._by_table[table]
        try:
            lines.append(encode(row) + b"\n")
            values.append(self._line(row.values()))
        except OSError as error:
            logger.error("the log of requests has ended: %s: %s", table, error.strerror)
            self.close()

    def close(self) -> None:
        """Closes the files; what is written from then on is dropped."""
        for each in self._files:
            each.close()
        self._files, self._by_table = [], {}

    def _opened(self, path: str, head: bytes, most_bytes: int) -> _File:
        self._files.append(_File(path, head, most_bytes))
        return self._files[-1]

    def _line(self, values: Any) -> bytes:
        self._text.seek(0)
        self._text.truncate()
        self._csv.writerow(values)
        return self._text.getvalue().encode()


class _File:
    """One file: a head, and lines after it."""

    def __init__(self, path: str, head: bytes, most_bytes: int) -> None:
        self._path = path
        self._head = head
        self._most = most_bytes
        self._size = 0
        self._number = -1
        self._open()

    def append(self, line: bytes) -> None:
        """Adds a line. Raises OSError."""
        if self._size + len(line) > self._most and self._size > len(self._head):
            self.close()
            os.replace(self._path, f"{self._path}.old")
            self._open()
        self._write(line)

    def close(self) -> None:
        """Does nothing the second time."""
        if self._number >= 0:
            os.close(self._number)
            self._number = -1

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._number = os.open(self._path, flags, 0o600)
        found = os.fstat(self._number)
        if not stat.S_ISREG(found.st_mode):
            self.close()
            raise UsageError(f"{self._path!r} is no ordinary file: move it, or name another folder for logs")
        self._size = found.st_size
        if not self._size:
            self._write(self._head)
        elif os.pread(self._number, 1, self._size - 1) != b"\n":
            # The disk was full in the middle of a line: the next one is not to be lost with it.
            self._write(b"\n")

    def _write(self, line: bytes) -> None:
        written = os.write(self._number, line) if line else 0
        self._size += written
        if written < len(line):
            raise OSError(0, "the disk is full", self._path)
