"""The guarded values of a proof: one counter per name, and a journal of all that their gates accepted.

An SQLite file apart from the latch store. A write is one transaction: the gate's check, the value and the
journal's line, so that what the journal says is what happened, in the order in which it happened.

A reader shows its fence too. If it did not, an older holder could still write between its reading and its
writing: the gate would not know of the newer fence yet, would be right to accept, and the update would be lost.
"""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

from azlatch.gates.sql import SqliteGate

_SCHEMA = """
CREATE TABLE IF NOT EXISTS counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS journal (
    number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, fence INTEGER, instance TEXT NOT NULL,
    place INTEGER, value INTEGER
);
"""


class Accepted(NamedTuple):
    """One passage through a gate; `order` is its place in that gate's order, `value` None for a reading."""

    name: str
    fence: int | None
    instance: str
    order: int | None
    value: int | None


class Values:
    """The values of a file, for one thread."""

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")  # a proof is about order, not about power
        for statement in _SCHEMA.split(";"):
            self._db.execute(statement)
        self._gates: dict[str, SqliteGate] = {}

    def read(self, name: str) -> int:
        row = self._db.execute("SELECT value FROM counter WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row is not None else 0

    def read_guarded(self, name: str, fence: int, instance: str) -> int:
        """Reads, and lets the gate know of the fence: from here on older ones are refused.

        Raises:
            FenceRejected: the gate has accepted a newer fence.
        """
        with self._gate(name).write(fence) as cursor:
            value = self.read(name)
            self._note(cursor, name, fence, instance, cursor.acceptance.sequence, None)
        return value

    def write_guarded(self, name: str, value: int, fence: int, instance: str) -> int:
        """Writes if the gate accepts the fence; returns the place in the gate's order.

        Raises:
            FenceRejected: the gate has accepted a newer fence.
        """
        with self._gate(name).write(fence) as cursor:
            self._put(cursor, name, value)
            self._note(cursor, name, fence, instance, cursor.acceptance.sequence, value)
        return int(cursor.acceptance.sequence)

    def write_unguarded(self, name: str, value: int, instance: str) -> None:
        """Writes, whatever happened since the value was read."""
        self._db.execute("BEGIN IMMEDIATE")
        self._put(self._db, name, value)
        self._note(self._db, name, None, instance, None, value)
        self._db.execute("COMMIT")

    def total(self) -> int:
        """The sum over the values."""
        return int(self._db.execute("SELECT coalesce(sum(value), 0) FROM counter").fetchone()[0])

    def journal(self) -> list[Accepted]:
        """All that was accepted, in order."""
        rows = self._db.execute("SELECT name, fence, instance, place, value FROM journal ORDER BY number")
        return [Accepted(*row) for row in rows.fetchall()]

    def close(self) -> None:
        self._db.close()

    def _gate(self, name: str) -> SqliteGate:
        gate = self._gates.get(name)
        if gate is None:
            gate = self._gates[name] = SqliteGate(self._db, name, timeout=30, history=1)
        return gate

    def _put(self, cursor: Any, name: str, value: int) -> None:
        cursor.execute(
            "INSERT INTO counter VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, value),
        )

    def _note(
        self, cursor: Any, name: str, fence: int | None, instance: str, place: int | None, value: int | None
    ) -> None:
        cursor.execute(
            "INSERT INTO journal (name, fence, instance, place, value) VALUES (?, ?, ?, ?, ?)",
            (name, fence, instance, place, value),
        )
