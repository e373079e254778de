"""A gate in an SQLite database: your statements and the fence are committed in one transaction, or neither is.

What a failure leaves:

* The body raises, or the process dies in it: nothing. SQLite rolls back the statements and the fence.
* The commit fails: it is read back by a random number that was written along. It happened, or it did not;
  where even that cannot be told, OutcomeUnknown.
* A writer that is frozen inside (SIGSTOP) keeps the others out, each up to its timeout.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from typing import NoReturn

from azlatch.errors import (
    BackendDenied,
    BackendMisconfigured,
    BackendUnavailable,
    LatchError,
    OutcomeUnknown,
    UsageError,
)
from azlatch.gates.fence import Acceptance, FenceSource, check_history, check_timeout, fence_of
from azlatch.gates.sql import check_rowcount, fence_assignment, fence_condition

#: What the embedded latch store calls its file; gate state stands elsewhere (F5).
_LATCH_STORE = 0x617A6C74

_MAX_RESOURCE = 1_024

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS main.azlatch_gate (
        resource TEXT NOT NULL PRIMARY KEY,
        fence INTEGER NOT NULL CHECK (typeof(fence) = 'integer' AND fence >= 0),
        accepted INTEGER NOT NULL CHECK (typeof(accepted) = 'integer' AND accepted >= 1)
    )""",
    """CREATE TABLE IF NOT EXISTS main.azlatch_gate_history (
        resource TEXT NOT NULL, sequence INTEGER NOT NULL, fence INTEGER NOT NULL, nonce INTEGER NOT NULL,
        PRIMARY KEY (resource, sequence)
    ) WITHOUT ROWID""",
)


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
        raise UsageError("executescript() commits the gate's transaction first: use execute() for each statement")


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
        timeout: seconds to wait for the database's lock, and once more for readers at the commit. The
            connection's own busy timeout is back in place afterwards.
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
                raise UsageError(f"{database!r} is no file that a gate can be in: name one, or pass a connection")
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
            UsageError: no fence; or the body ended the transaction, or wrote through the same gate. Then
                what it wrote after that is undone, as far as the body did not commit it.
            BackendUnavailable: the lock was not free within the timeout, or the disk failed: nothing written.
            BackendDenied: no right to write the database.
            BackendMisconfigured: damaged, no SQLite database, a link, or the latch store.
            OutcomeUnknown: the commit failed, and reading back did not settle whether it happened.
        """
        offered = fence_of(fence)
        with self._connected(create=True) as connection, self._patience(connection):
            write = _Write(connection, self._resource, secrets.randbits(62))
            with self._translated():
                write.begin()
            try:
                with self._translated():
                    acceptance = write.accept(offered, self._history)
                    cursor = connection.cursor(GateCursor)
                cursor.acceptance = acceptance
                yield cursor
                with self._translated():
                    write.leave(acceptance)
            except BaseException:
                write.undo()
                raise
            if not write.takes_part:
                self._commit(write, acceptance)

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

    def _commit(self, write: _Write, acceptance: Acceptance) -> None:
        try:
            write.execute("COMMIT")
        except sqlite3.Error as error:
            if write.connection.in_transaction:  # readers in the way, or a deferred constraint: nothing happened
                write.undo()
                if isinstance(error, sqlite3.IntegrityError):
                    raise
                raise self._error(error) from error
            try:
                happened = write.happened(acceptance)
            except sqlite3.Error:
                happened = None
            if happened is None:
                raise OutcomeUnknown(f"the commit of {self._resource!r} failed, and it may have happened") from error
            if not happened:
                raise self._error(error) from error

    def _read(self, query: str) -> list[tuple[int, ...]]:
        if isinstance(self._database, str) and not os.path.lexists(self._database):
            return []
        with self._connected(create=False) as connection, self._patience(connection), self._translated():
            try:
                return _plain(connection).execute(query, (self._resource,)).fetchall()
            except sqlite3.OperationalError as error:
                if str(error).startswith("no such table"):
                    return []
                raise

    @contextlib.contextmanager
    def _connected(self, *, create: bool) -> Iterator[sqlite3.Connection]:
        if isinstance(self._database, sqlite3.Connection):
            yield self._database
            return
        if create:
            _create(self._database)
        with self._translated():
            connection = sqlite3.connect(self._database, isolation_level=None)
        try:
            yield connection
        finally:
            connection.close()

    @contextlib.contextmanager
    def _patience(self, connection: sqlite3.Connection) -> Iterator[None]:
        """SQLite's own waiting, bounded by our timeout for as long as we are here."""
        with self._translated():
            cursor = _plain(connection)
            (before,) = cursor.execute("PRAGMA busy_timeout").fetchone()
            cursor.execute(f"PRAGMA busy_timeout = {int(self._timeout * 1_000)}")
        try:
            with self._translated():
                (application,) = cursor.execute("PRAGMA main.application_id").fetchone()
            if application == _LATCH_STORE:
                raise BackendMisconfigured("this is the file of a latch store: keep the gate in your own database")
            yield
        finally:
            with contextlib.suppress(sqlite3.Error):
                cursor.execute(f"PRAGMA busy_timeout = {before}")

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(error) from error

    def _error(self, error: sqlite3.Error) -> LatchError:
        """SQLite's error as ours; nothing was written. Source: https://www.sqlite.org/rescode.html."""
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:  # raised by the module itself: closed, or used from another thread
            return UsageError(f"the gate's connection cannot be used: {error}")
        primary, text = code & 0xFF, error.sqlite_errorname
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return BackendUnavailable(
                f"the database of {self._resource!r} was locked by another writer for {self._timeout:g} s ({text})"
            )
        if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
            return BackendDenied(f"no right to write the database of {self._resource!r} ({text})")
        if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_ERROR):
            return BackendMisconfigured(f"the database of {self._resource!r} cannot hold a gate ({text}): {error}")
        return BackendUnavailable(f"the database of {self._resource!r} failed with {text}; nothing was written")


class _Write:
    """One write of one resource, from its BEGIN or SAVEPOINT to the end."""

    def __init__(self, connection: sqlite3.Connection, resource: str, nonce: int) -> None:
        self.connection = connection
        self.takes_part = connection.in_transaction
        self.execute = _plain(connection).execute
        self._resource = resource
        self._nonce = nonce
        self._savepoint = f"azlatch_{nonce:x}"

    def begin(self) -> None:
        if not self.takes_part:
            self.execute("BEGIN IMMEDIATE")
        # Gone when the body ends the transaction, which is how that is noticed.
        self.execute(f"SAVEPOINT {self._savepoint}")

    def accept(self, offered: int, history: int) -> Acceptance:
        """Compares and stores the fence in one statement."""
        for statement in _SCHEMA:
            self.execute(statement)
        parameters = {"resource": self._resource, "fence": offered}
        stored = self.execute(
            "INSERT INTO main.azlatch_gate VALUES (:resource, :fence, 1) ON CONFLICT (resource) DO UPDATE SET "
            f"{fence_assignment()}, accepted = accepted + 1 WHERE {fence_condition('azlatch_gate.fence')}",
            parameters,
        )
        check_rowcount(stored.rowcount, offered, current=self._row)
        (_, sequence) = self._row() or (0, 0)
        acceptance = Acceptance(sequence, offered)
        self.execute(
            "INSERT INTO main.azlatch_gate_history VALUES (?, ?, ?, ?)",
            (self._resource, sequence, offered, self._nonce),
        )
        self.execute(
            "DELETE FROM main.azlatch_gate_history WHERE resource = ? AND sequence <= ?",
            (self._resource, sequence - history),
        )
        return acceptance

    def leave(self, acceptance: Acceptance) -> None:
        """Makes sure that what is about to be committed is what was accepted."""
        if self._row() != (acceptance.fence, acceptance.sequence):
            raise UsageError("the body wrote through the gate that it is inside of, or changed the gate's table")
        try:
            self.execute(f"RELEASE {self._savepoint}")
        except sqlite3.OperationalError as error:
            raise UsageError(
                "the body ended the gate's transaction: what it wrote up to there stands as it ended it"
            ) from error

    def undo(self) -> None:
        """Takes back the body and the fence; what was open before stays open."""
        with contextlib.suppress(sqlite3.Error):
            if self.takes_part:
                self.execute(f"ROLLBACK TO {self._savepoint}")
                self.execute(f"RELEASE {self._savepoint}")
            elif self.connection.in_transaction:
                self.execute("ROLLBACK")

    def happened(self, acceptance: Acceptance) -> bool | None:
        """Whether the commit happened; None where a bounded history has forgotten it."""
        row = self.execute(
            "SELECT nonce FROM main.azlatch_gate_history WHERE resource = ? AND sequence = ?",
            (self._resource, acceptance.sequence),
        ).fetchone()
        if row is not None:
            return bool(row[0] == self._nonce)
        present = self._row()
        return False if present is None or present[1] < acceptance.sequence else None

    def _row(self) -> tuple[int, int] | None:
        query = "SELECT fence, accepted FROM main.azlatch_gate WHERE resource = ?"
        row: tuple[int, int] | None = self.execute(query, (self._resource,)).fetchone()
        return row


def _plain(connection: sqlite3.Connection) -> sqlite3.Cursor:
    """A cursor whose rows are tuples, whatever the connection's row factory makes of them."""
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor


def _create(path: str) -> None:
    """Makes sure that the file is there, 0600 if it is new, and no link.

    A descriptor of the database itself is never closed here: that would drop the locks that SQLite holds for
    other connections of this process (https://www.sqlite.org/howtocorrupt.html, 2.2). So an empty file is
    made elsewhere, and linked into place.
    """
    try:
        if not os.path.lexists(path):
            descriptor, empty = tempfile.mkstemp(prefix=".azlatch-", dir=os.path.dirname(path))
            os.close(descriptor)
            try:
                with contextlib.suppress(FileExistsError):
                    os.link(empty, path)
            finally:
                os.unlink(empty)
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise BackendMisconfigured(f"{path} is a link or no regular file: name the database itself")
    except OSError as error:
        raise BackendDenied(f"cannot create the database {path}: {error.strerror}") from error
