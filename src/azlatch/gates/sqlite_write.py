"""One gated write in one SQLite transaction: compare and store, make sure of it, commit, or take it back."""

from __future__ import annotations

import contextlib
import secrets
import sqlite3

from azlatch.errors import BackendMisconfigured, UsageError
from azlatch.gates.condition import check_rowcount, fence_assignment, fence_condition
from azlatch.gates.fence import Acceptance

#: What the embedded latch store calls its file; gate state stands elsewhere (F5).
LATCH_STORE = 0x617A6C74

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


class SqliteWrite:
    """One write of one resource, from its BEGIN or SAVEPOINT to the end. Raises what SQLite raises.

    Attributes:
        takes_part: it is part of a transaction that was open before, whose commit is not ours.
    """

    def __init__(self, connection: sqlite3.Connection, resource: str) -> None:
        self.takes_part = connection.in_transaction
        self._connection = connection
        self._execute = plain_cursor(connection).execute
        self._resource = resource
        # Written along, so that a commit without an answer can be told from somebody else's (M5).
        self._nonce = secrets.randbits(62)
        # Gone when the body ends the transaction, which is how that is noticed.
        self._savepoint = f"azlatch_{self._nonce:x}"
        self._begun = False

    def accept(self, offered: int, history: int) -> Acceptance:
        """Begins; compares and stores the fence in one statement; keeps so many acceptances.

        Raises:
            FenceRejected: a newer fence is stored.
            BackendMisconfigured: the database is a latch store.
        """
        if not self.takes_part:
            self._execute("BEGIN IMMEDIATE")
        self._begun = True
        self._execute(f"SAVEPOINT {self._savepoint}")
        if self._execute("PRAGMA main.application_id").fetchone()[0] == LATCH_STORE:
            raise BackendMisconfigured("this is the file of a latch store: keep the gate in your own database")
        for statement in _SCHEMA:
            self._execute(statement)
        stored = self._execute(
            "INSERT INTO main.azlatch_gate VALUES (:resource, :fence, 1) ON CONFLICT (resource) DO UPDATE SET "
            f"{fence_assignment()}, accepted = accepted + 1 WHERE {fence_condition('azlatch_gate.fence')}",
            {"resource": self._resource, "fence": offered},
        )
        check_rowcount(stored.rowcount, offered, current=self._stored)
        _, sequence = self._stored() or (offered, 1)
        self._execute(
            "INSERT INTO main.azlatch_gate_history VALUES (?, ?, ?, ?)",
            (self._resource, sequence, offered, self._nonce),
        )
        self._execute(
            "DELETE FROM main.azlatch_gate_history WHERE resource = ? AND sequence <= ?",
            (self._resource, sequence - history),
        )
        return Acceptance(sequence, offered)

    def leave(self, acceptance: Acceptance) -> None:
        """Makes sure, after the body, that what is to be committed is what was accepted.

        Raises:
            UsageError: the body ended the transaction, or wrote through the same gate.
        """
        try:
            same = self._stored() == (acceptance.fence, acceptance.sequence)
            if same:
                self._execute(f"RELEASE {self._savepoint}")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise
            raise UsageError(
                "the body ended the gate's transaction: leave COMMIT and ROLLBACK to it"
            ) from error
        if not same:
            raise UsageError(
                "the body wrote through the gate it is inside of, or undid it: one write at a time"
            )

    def commit(self, acceptance: Acceptance) -> bool | None:
        """Commits. True: it happened, though SQLite said otherwise or nothing; None: nobody can tell.

        Raises:
            sqlite3.Error: it did not happen.
        """
        try:
            self._execute("COMMIT")
        except sqlite3.Error:
            # Still open means readers in the way, or a deferred constraint; if not, SQLite rolled back, or not.
            if self._connection.in_transaction:
                raise
            happened = self._read_back(acceptance)
            if happened is False:
                raise
            return happened
        return True

    def undo(self) -> None:
        """Takes back the body and the fence; what was open before stays open."""
        if not self._begun:
            return
        with contextlib.suppress(sqlite3.Error):
            if self.takes_part:
                self._execute(f"ROLLBACK TO {self._savepoint}")
                self._execute(f"RELEASE {self._savepoint}")
            elif self._connection.in_transaction:
                self._execute("ROLLBACK")

    def _read_back(self, acceptance: Acceptance) -> bool | None:
        try:
            row = self._execute(
                "SELECT nonce FROM main.azlatch_gate_history WHERE resource = ? AND sequence = ?",
                (self._resource, acceptance.sequence),
            ).fetchone()
            if row is not None:
                return bool(row[0] == self._nonce)
            stored = self._stored()
        except sqlite3.OperationalError as error:
            return False if str(error).startswith("no such table") else None
        except sqlite3.Error:
            return None
        # A counter beyond ours, and our place in the history already dropped: nobody knows whose it was.
        return False if stored is None or stored[1] < acceptance.sequence else None

    def _stored(self) -> tuple[int, int] | None:
        query = "SELECT fence, accepted FROM main.azlatch_gate WHERE resource = ?"
        row: tuple[int, int] | None = self._execute(query, (self._resource,)).fetchone()
        return row


def plain_cursor(connection: sqlite3.Connection) -> sqlite3.Cursor:
    """A cursor whose rows are tuples, whatever the connection's row factory makes of them."""
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor
