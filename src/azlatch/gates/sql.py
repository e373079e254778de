"""A gate in an SQLite database: your statements and the fence are committed in one transaction, or neither is.

For any other database, `fence_condition` makes each row of your own its gate (azlatch.gates.condition).

What a failure leaves:

* The body raises, or the process dies in it: nothing. SQLite rolls back the statements and the fence.
* The commit fails: it is read back by a random number that was written along. It happened, or it did not;
  where even that cannot be told, OutcomeUnknown.
* The power fails: a connection that the gate opened syncs every commit (``synchronous=FULL``). On one of yours
  that is your setting; below FULL the newest acceptances may be forgotten, together with what they wrote.
* A writer that is frozen inside (SIGSTOP) keeps the others out, each up to its timeout.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from typing import NoReturn
from urllib.parse import quote

from azlatch.errors import (
    BackendDenied,
    BackendMisconfigured,
    BackendUnavailable,
    LatchError,
    OutcomeUnknown,
    UsageError,
)
from azlatch.gates.condition import check_rowcount, fence_assignment, fence_condition
from azlatch.gates.fence import Acceptance, FenceSource, check_history, check_timeout, fence_of, reporting
from azlatch.gates.folder import translated
from azlatch.gates.sqlite_write import SqliteWrite, plain_cursor

__all__ = ["GateCursor", "SqliteGate", "check_rowcount", "fence_assignment", "fence_condition"]

_MAX_RESOURCE = 1_024

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DENIED = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_MISCONFIGURED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_ERROR}


class GateCursor(sqlite3.Cursor):
    """A cursor inside the gate's transaction.

    Attributes:
        acceptance: the fence and its place in the order, valid once the transaction is committed.
    """

    acceptance: Acceptance

    def executescript(self, sql_script: str, /) -> NoReturn:
        """Refused: it commits before it starts, and would run outside the gate.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            "executescript() commits the gate's transaction first: use execute() for each statement"
        )


class SqliteGate:
    """Guards one resource in a database of yours, among all processes that open it.

    Given a connection, it works in any of its transaction modes. Where a transaction is open already (always
    so with ``autocommit=False``), a write takes part in it through a savepoint: an exception undoes only what
    the body did, and the fence; the commit stays yours, and nothing is accepted before it. One thread at a
    time may use a connection, as ever. Given a path, every write opens a connection of its own, so any thread
    may write; a file that is missing is created with mode 0600.

    Args:
        database: a path, or a connection; not the embedded latch store, whose loss must not take the gate too.
        resource: what is guarded, 1 to 1,024 characters; each has a fence of its own.
        timeout: the most seconds for one wait for the database's lock; a write waits at most three
            times, to open, to enter and to commit. A given connection gets its own busy timeout back.
        history: how many of the newest acceptances are kept.
    """

    def __init__(
        self,
        database: str | os.PathLike[str] | sqlite3.Connection,
        resource: str,
        *,
        timeout: float = 10.0,
        history: int = 1_000,
    ) -> None:
        if not isinstance(resource, str) or not 0 < len(resource) <= _MAX_RESOURCE:
            raise UsageError(f"a resource is a string of 1 to {_MAX_RESOURCE:,} characters")
        if not isinstance(database, sqlite3.Connection):
            database = os.fspath(database)
            if not isinstance(database, str) or database in ("", ":memory:") or "\0" in database:
                raise UsageError(
                    f"{database!r} is no file that a gate can be in: name one, or pass a connection"
                )
            database = os.path.abspath(database)
        self._database = database
        self._resource = resource
        self._timeout = check_timeout(timeout)
        self._history = check_history(history)

    @contextlib.contextmanager
    def write(self, fence: FenceSource) -> Iterator[GateCursor]:
        """Accepts the fence and what the body writes through the cursor, in one transaction.

        Raises:
            FenceRejected: a newer fence was accepted, or there is none; the body did not run.
            UsageError: no fence; or the body ended the transaction, or wrote through the same gate: undone,
                as far as the body did not commit it.
            BackendUnavailable: the lock was not free within the timeout, or the disk failed: nothing written.
            BackendDenied: no right to write the database.
            BackendMisconfigured: damaged, no SQLite database, a link, or the latch store.
            OutcomeUnknown: the commit failed, and reading back did not settle whether it happened.
            sqlite3.IntegrityError: a deferred constraint of yours does not hold: nothing written.
        """
        offered = fence_of(fence)
        if isinstance(self._database, str):
            _create(self._database)
        with self._connected() as connection, self._patience(connection):
            with self._translated():
                write = SqliteWrite(connection, self._resource)
            try:
                with self._translated(), reporting(fence, self._resource):
                    acceptance = write.accept(offered, self._history)
                    cursor = connection.cursor(GateCursor)
                cursor.acceptance = acceptance
                yield cursor
                with self._translated():
                    write.leave(acceptance)
                    if not write.takes_part and not write.commit(acceptance):
                        raise OutcomeUnknown(f"the commit of {self._resource!r} failed, yet may have happened")
            except BaseException:
                write.undo()
                raise

    @property
    def newest(self) -> int | None:
        """The newest fence accepted, or None before the first."""
        rows = self._read("SELECT fence FROM main.azlatch_gate WHERE resource = ?")
        return rows[0][0] if rows else None

    def history(self) -> tuple[Acceptance, ...]:
        """The newest acceptances, in the order in which they happened."""
        rows = self._read(
            "SELECT sequence, fence FROM main.azlatch_gate_history WHERE resource = ? ORDER BY sequence"
        )
        return tuple(Acceptance(*row) for row in rows)

    def _read(self, query: str) -> list[tuple[int, ...]]:
        if isinstance(self._database, str) and not os.path.lexists(self._database):
            return []
        with self._connected() as connection, self._patience(connection), self._translated():
            try:
                return plain_cursor(connection).execute(query, (self._resource,)).fetchall()
            except sqlite3.OperationalError as error:
                if str(error).startswith("no such table"):
                    return []
                raise

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        if isinstance(self._database, sqlite3.Connection):
            yield self._database
            return
        with translated(self._database):
            if not stat.S_ISREG(os.lstat(self._database).st_mode):
                raise BackendMisconfigured(
                    f"{self._database} is a link or no regular file: name the database itself"
                )
        with self._translated():
            connection = sqlite3.connect(
                f"file:{quote(self._database)}?mode=rw", uri=True, isolation_level=None, timeout=self._timeout
            )
        try:
            with self._translated():
                # Some builds default to less in WAL mode; fullfsync is what a sync takes on macOS.
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA fullfsync = ON")
            yield connection
        finally:
            connection.close()

    @contextlib.contextmanager
    def _patience(self, connection: sqlite3.Connection) -> Iterator[None]:
        """SQLite's own waiting, bounded by our timeout for as long as we are here."""
        with self._translated():
            cursor = plain_cursor(connection)
            (before,) = cursor.execute("PRAGMA busy_timeout").fetchone()
            cursor.execute(f"PRAGMA busy_timeout = {int(self._timeout * 1_000)}")
        try:
            yield
        finally:
            with contextlib.suppress(sqlite3.Error):
                cursor.execute(f"PRAGMA busy_timeout = {before}")

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError:
            raise  # a deferred constraint of the user's own, found at the commit
        except sqlite3.Error as error:
            raise _error_of(error, f"the database of {self._resource!r}") from error


def _error_of(error: sqlite3.Error, database: str) -> LatchError:
    """SQLite's error as ours; nothing was written. Source: https://www.sqlite.org/rescode.html."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by the module itself: closed, or used from another thread
        return UsageError(f"{database} cannot be used: {error}")
    primary, text = code & 0xFF, error.sqlite_errorname
    if code == sqlite3.SQLITE_BUSY_SNAPSHOT:  # at once: no wait makes an old snapshot new
        return BackendUnavailable(
            f"{database} was written since your open transaction first read it ({text}): roll back, start again"
        )
    if primary in _BUSY:
        return BackendUnavailable(f"{database} was kept locked by another process for the timeout ({text})")
    if primary in _DENIED:
        return BackendDenied(f"no right to write {database} ({text}): the file and its folder need it")
    if primary in _MISCONFIGURED:
        return BackendMisconfigured(f"{database} cannot hold a gate ({text}): {error}")
    return BackendUnavailable(f"{database} failed with {text}, and nothing was written")


def _create(path: str) -> None:
    """Makes sure that the file is there, 0600 if it is new.

    A descriptor of the database itself is never closed here: that would drop the locks that SQLite holds for
    other connections of this process (https://www.sqlite.org/howtocorrupt.html, 2.2). So an empty file is
    made elsewhere, and linked into place.
    """
    if os.path.lexists(path):
        return
    with translated(path):
        descriptor, empty = tempfile.mkstemp(prefix=".azlatch-", dir=os.path.dirname(path))
        os.close(descriptor)
        try:
            with contextlib.suppress(FileExistsError):
                os.link(empty, path)
        finally:
            os.unlink(empty)
