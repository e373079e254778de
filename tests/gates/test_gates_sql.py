"""The SQLite gate: one transaction, on any connection, and what every failure leaves."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from subprocess import Popen
from typing import Any, Self

import pytest

from azlatch.backends import sqlite_file
from azlatch.errors import (
    BackendDenied,
    BackendMisconfigured,
    BackendUnavailable,
    FenceRejected,
    OutcomeUnknown,
    UsageError,
)
from azlatch.gates import Acceptance, SqliteGate, sqlite_write

MODES: dict[str, dict[str, Any]] = {
    "autocommit": {"isolation_level": None},
    "deferred": {"isolation_level": ""},
    "immediate": {"isolation_level": "IMMEDIATE"},
    "exclusive": {"isolation_level": "EXCLUSIVE"},
}
if sys.version_info >= (3, 12):
    MODES["autocommit=True"] = {"autocommit": True}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with a table of the user's own, in WAL mode as most are."""
    path = tmp_path / "database"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE journal (fence INTEGER)")
    return path


@pytest.fixture(params=MODES)
def connection(request: pytest.FixtureRequest, path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of the user's own, in every transaction mode."""
    with closing(sqlite3.connect(path, **MODES[request.param])) as connection:
        yield connection


def journal(path: Path) -> list[int]:
    """What is committed, as another connection sees it."""
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT fence FROM journal ORDER BY rowid")]


def write(gate: SqliteGate, fence: int) -> Acceptance:
    with gate.write(fence) as cursor:
        cursor.execute("INSERT INTO journal VALUES (?)", (fence,))
    return cursor.acceptance


def test_body_and_fence_are_committed_together(connection: sqlite3.Connection, path: Path) -> None:
    """After the block another connection sees both, in every mode, and no transaction is left open."""
    assert write(SqliteGate(connection, "r"), 7) == Acceptance(1, 7)
    assert not connection.in_transaction
    assert (journal(path), SqliteGate(path, "r").history()) == ([7], (Acceptance(1, 7),))


def test_a_body_that_raises_undoes_both(connection: sqlite3.Connection, path: Path) -> None:
    """An exception passes through, and neither the statements nor the fence stay."""
    gate = SqliteGate(connection, "r")
    write(gate, 3)
    with pytest.raises(KeyboardInterrupt), gate.write(9) as cursor:
        cursor.execute("INSERT INTO journal VALUES (9)")
        raise KeyboardInterrupt
    assert (journal(path), gate.newest, connection.in_transaction) == ([3], 3, False)
    assert write(gate, 4) == Acceptance(2, 4)


def test_an_older_fence_does_not_reach_the_body(connection: sqlite3.Connection) -> None:
    """FenceRejected comes before the body, says what is newest, and leaves no transaction open."""
    gate = SqliteGate(connection, "r")
    write(gate, 3)
    with pytest.raises(FenceRejected) as caught, gate.write(2):
        pytest.fail("entered")
    assert (caught.value.offered, caught.value.newest, connection.in_transaction) == (2, 3, False)


def test_an_open_transaction_is_taken_part_in(connection: sqlite3.Connection, path: Path) -> None:
    """Inside the user's transaction the commit is the user's, and undoes or keeps the fence with the rest."""
    gate, seen = SqliteGate(connection, "r"), SqliteGate(path, "r")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO journal VALUES (1)")
    write(gate, 7)
    with pytest.raises(ZeroDivisionError), gate.write(9) as cursor:
        cursor.execute("INSERT INTO journal VALUES (9)")
        raise ZeroDivisionError
    assert (gate.newest, seen.newest, connection.in_transaction) == (7, None, True)
    connection.execute("COMMIT")
    assert (journal(path), seen.newest) == ([1, 7], 7)
    connection.execute("BEGIN")
    write(gate, 8)
    connection.execute("ROLLBACK")
    assert (journal(path), seen.newest) == ([1, 7], 7)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs sqlite3.connect(autocommit=False) of Python 3.12")
def test_autocommit_false_is_an_open_transaction(path: Path) -> None:
    """In the mode of PEP 249 the gate takes part, and commit() accepts."""
    with closing(sqlite3.connect(path, autocommit=False)) as connection:  # type: ignore[call-overload,unused-ignore]
        write(SqliteGate(connection, "r"), 7)
        assert SqliteGate(path, "r").newest is None
        connection.commit()
        assert (journal(path), SqliteGate(path, "r").newest) == ([7], 7)


def test_two_resources_in_one_transaction(path: Path) -> None:
    """A write of one gate may enclose that of another; each resource has its own fence."""
    with closing(sqlite3.connect(path)) as connection:
        left, right = SqliteGate(connection, "left"), SqliteGate(connection, "right")
        with left.write(5), right.write(2):
            pass
        assert (left.newest, right.newest) == (5, 2)
        with pytest.raises(FenceRejected), left.write(6), right.write(1):
            pass
        assert (left.newest, right.newest) == (5, 2)


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK"])
def test_a_body_that_ends_the_transaction_is_told(
    connection: sqlite3.Connection, path: Path, statement: str
) -> None:
    """What the body committed itself stays with its fence; what came after is undone; it is a UsageError."""
    gate = SqliteGate(connection, "r")
    with pytest.raises(UsageError), gate.write(5) as cursor:
        cursor.execute("INSERT INTO journal VALUES (5)")
        cursor.execute(statement)
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO journal VALUES (6)")
    assert not connection.in_transaction
    assert (journal(path), gate.newest) == (([5], 5) if statement == "COMMIT" else ([], None))


def test_a_body_cannot_run_a_script(connection: sqlite3.Connection, path: Path) -> None:
    """executescript() would commit first, so it is refused before it does anything."""
    with pytest.raises(UsageError), SqliteGate(connection, "r").write(5) as cursor:
        cursor.executescript("INSERT INTO journal VALUES (5)")
    assert journal(path) == []


def test_a_body_cannot_write_through_its_own_gate(connection: sqlite3.Connection) -> None:
    """A newer write inside an older one would let the older go on after it; all of it is undone."""
    gate = SqliteGate(connection, "r")
    with pytest.raises(UsageError), gate.write(5):
        write(gate, 7)
    assert gate.newest is None


def test_rows_and_timeouts_stay_the_users_own(path: Path) -> None:
    """A row factory serves the body and not the gate; the busy timeout is put back."""
    with closing(sqlite3.connect(path, timeout=1.5)) as connection:
        connection.row_factory = lambda cursor, row: {"row": row}
        gate = SqliteGate(connection, "r", timeout=3)
        with gate.write(5) as cursor:
            assert cursor.execute("SELECT 1").fetchone() == {"row": (1,)}
        assert gate.history() == (Acceptance(1, 5),)
        assert connection.execute("PRAGMA busy_timeout").fetchone() == {"row": (1500,)}


def test_the_history_is_bounded(path: Path) -> None:
    """Only the newest acceptances are kept, with their places."""
    gate = SqliteGate(path, "r", history=2)
    for fence in (1, 2, 2):
        write(gate, fence)
    assert gate.history() == (Acceptance(2, 2), Acceptance(3, 2))


def test_reading_creates_nothing(tmp_path: Path) -> None:
    """`newest` and `history` of a gate that nobody used make no file and no table."""
    gate = SqliteGate(tmp_path / "none", "r")
    assert (gate.newest, gate.history(), os.listdir(tmp_path)) == (None, (), [])
    with closing(sqlite3.connect(":memory:")) as connection:
        assert SqliteGate(connection, "r").newest is None
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


def test_a_new_database_is_private_and_no_link_is_followed(tmp_path: Path) -> None:
    """A missing file is made with mode 0600 and nothing beside it; a link is BackendMisconfigured."""
    with SqliteGate(tmp_path / "new", "r").write(1):
        pass
    assert stat.S_IMODE(os.stat(tmp_path / "new").st_mode) == 0o600
    assert os.listdir(tmp_path) == ["new"]
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BackendMisconfigured), SqliteGate(tmp_path / "link", "r").write(1):
        pass
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "elsewhere").symlink_to(tmp_path / "new")
    with pytest.raises(BackendMisconfigured):
        SqliteGate(tmp_path / "elsewhere", "r").history()


def test_a_missing_folder_is_misconfigured(tmp_path: Path) -> None:
    """The gate makes no folder, and says so as the file gate does."""
    with pytest.raises(BackendMisconfigured), SqliteGate(tmp_path / "none" / "database", "r").write(1):
        pass


def test_a_connection_of_the_gates_own_syncs_every_commit(path: Path) -> None:
    """synchronous=FULL, and the full sync of macOS, whatever the build defaults to."""
    with SqliteGate(path, "r").write(1) as cursor:
        assert cursor.execute("PRAGMA synchronous").fetchone() == (2,)
        assert cursor.execute("PRAGMA fullfsync").fetchone() == (1,)


def test_a_transaction_that_read_before_a_newer_write_is_told_so(path: Path) -> None:
    """An old snapshot accepts nothing, a newer fence neither; the message says to start again."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM journal").fetchall()
        write(SqliteGate(path, "r"), 5)
        with pytest.raises(BackendUnavailable, match="roll back"):
            write(SqliteGate(connection, "r"), 6)
        connection.execute("ROLLBACK")
        assert write(SqliteGate(connection, "r"), 6) == Acceptance(2, 6)
    assert journal(path) == [5, 6]


def test_threads_share_a_gate_with_a_path(path: Path) -> None:
    """Every write has a connection of its own, so one gate serves many threads, without losing a write."""
    gate = SqliteGate(path, "r")
    threads = [threading.Thread(target=write, args=[gate, 5]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [acceptance.sequence for acceptance in gate.history()] == list(range(1, 9))
    assert journal(path) == [5] * 8


@pytest.mark.parametrize("database", ["", ":memory:", "a\0b", b"bytes"])
def test_a_place_that_forgets_is_a_usage_error(database: Any) -> None:
    """Where every connection would be a new database, no gate can stand."""
    with pytest.raises(UsageError):
        SqliteGate(database, "r")


@pytest.mark.parametrize("resource", ["", "x" * 1_025, 7])
def test_a_resource_is_a_text(resource: Any) -> None:
    """1 to 1,024 characters."""
    with pytest.raises(UsageError):
        SqliteGate("file", resource)


def test_the_latch_store_is_no_place_for_a_gate(path: Path) -> None:
    """Gate state never stands in the latch's own file (F5)."""
    assert sqlite_write.LATCH_STORE == sqlite_file.APPLICATION_ID
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {sqlite_file.APPLICATION_ID}")
    with pytest.raises(BackendMisconfigured), SqliteGate(path, "r").write(1):
        pass
    assert SqliteGate(path, "r").newest is None


def test_what_is_no_database_is_misconfigured(tmp_path: Path) -> None:
    """A text file, or a table of that name with other columns, is refused and left as it is."""
    (tmp_path / "text").write_text("not a database, " * 100)
    with pytest.raises(BackendMisconfigured), SqliteGate(tmp_path / "text", "r").write(1):
        pass
    with closing(sqlite3.connect(tmp_path / "other")) as connection:
        connection.execute("CREATE TABLE azlatch_gate (something)")
        with pytest.raises(BackendMisconfigured), SqliteGate(connection, "r").write(1):
            pass


def test_a_database_that_cannot_be_written_is_denied(path: Path) -> None:
    """A read-only connection is BackendDenied; a closed one, or another thread's, is a UsageError."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        with pytest.raises(BackendDenied), SqliteGate(connection, "r").write(1):
            pass
        errors: list[Exception] = []

        def elsewhere() -> None:
            with pytest.raises(UsageError) as caught, SqliteGate(connection, "r").write(1):
                pass
            errors.append(caught.value)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert errors
    with pytest.raises(UsageError), SqliteGate(connection, "r").write(1):
        pass


def test_a_deferred_constraint_undoes_both(path: Path) -> None:
    """A foreign key that does not hold at the commit is the user's own error, and nothing stays."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("CREATE TABLE p (id INTEGER PRIMARY KEY)")
        connection.execute("CREATE TABLE c (p REFERENCES p DEFERRABLE INITIALLY DEFERRED)")
        gate = SqliteGate(connection, "r")
        with pytest.raises(sqlite3.IntegrityError), gate.write(5) as cursor:
            cursor.execute("INSERT INTO c VALUES (1)")
        assert (gate.newest, connection.in_transaction) == (None, False)


def test_a_reader_in_the_way_of_the_commit_is_unavailable(tmp_path: Path) -> None:
    """Without WAL a reader can block a commit: known not to have happened, and said so within the bound."""
    path = tmp_path / "rollback-journal"
    gate = SqliteGate(path, "r", timeout=0.05)
    with gate.write(3):
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM azlatch_gate").fetchall()
        with pytest.raises(BackendUnavailable), gate.write(5):
            pass
    assert gate.newest == 3


def test_an_exclusive_lock_is_waited_for_to_the_bound(tmp_path: Path) -> None:
    """Opening and reading keep to the timeout too, not to the five seconds of the module."""
    path = tmp_path / "rollback-journal"
    gate = SqliteGate(path, "r", timeout=0.05)
    with gate.write(3):
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        with pytest.raises(BackendUnavailable), gate.write(5):
            pass
        with pytest.raises(BackendUnavailable):
            gate.history()
        assert time.monotonic() - began < 4
    assert gate.newest == 3


class Failing(sqlite3.Connection):
    """A connection whose COMMIT answers with an I/O error, after a rollback or after it really happened."""

    happens = True
    reads_back = True
    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def cursor(self, factory: Any = None) -> Any:
        return super().cursor(factory or FailingCursor)


class FailingCursor(sqlite3.Cursor):
    def execute(self, sql: str, *arguments: Any) -> Self:
        connection = self.connection
        assert isinstance(connection, Failing)
        if sql != "COMMIT":
            if "nonce FROM" in sql and not connection.reads_back:
                raise failure()
            return super().execute(sql, *arguments)
        super().execute("COMMIT" if connection.happens else "ROLLBACK")
        connection.meanwhile()
        raise failure()


def failure() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_IOERR, "SQLITE_IOERR"
    return error


@pytest.fixture
def failing(path: Path) -> Iterator[Failing]:
    """A connection whose commits fail."""
    with closing(sqlite3.connect(path, factory=Failing)) as connection:
        yield connection


@pytest.mark.parametrize("before", [True, False], ids=["used", "new"])
def test_a_commit_without_an_answer_is_read_back(failing: Failing, path: Path, before: bool) -> None:
    """It happened: success. It did not: BackendUnavailable. Never by what the error said (M5)."""
    if before:
        write(SqliteGate(path, "r"), 3)
    gate = SqliteGate(failing, "r")
    failing.happens = False
    with pytest.raises(BackendUnavailable):
        write(gate, 7)
    assert SqliteGate(path, "r").newest == (3 if before else None)
    failing.happens = True
    assert write(gate, 7).fence == 7
    assert journal(path)[-1] == 7


@pytest.mark.parametrize("happens", [True, False])
def test_a_commit_is_told_from_another_of_the_same_fence(failing: Failing, path: Path, happens: bool) -> None:
    """Another process may take the same place with the same fence in between: the nonce tells them apart."""
    failing.happens = happens
    failing.meanwhile = lambda: write(SqliteGate(path, "r"), 7)
    if happens:
        assert write(SqliteGate(failing, "r"), 7) == Acceptance(1, 7)
    else:
        with pytest.raises(BackendUnavailable):
            write(SqliteGate(failing, "r"), 7)
    assert len(journal(path)) == 1 + happens


@pytest.mark.parametrize("happens", [True, False])
def test_a_commit_that_cannot_be_read_back_is_unknown(failing: Failing, path: Path, happens: bool) -> None:
    """No answer to the question either, or a history that has dropped the place: OutcomeUnknown."""
    failing.happens, failing.reads_back = happens, False
    with pytest.raises(OutcomeUnknown):
        write(SqliteGate(failing, "r"), 7)
    failing.reads_back = True
    other = SqliteGate(path, "r", history=1)
    failing.meanwhile = lambda: [write(other, 8), write(other, 8)]
    with pytest.raises(OutcomeUnknown):
        write(SqliteGate(failing, "r", history=1), 7)


def test_a_killed_writer_leaves_nothing(path: Path, start: Callable[..., Popen[str]]) -> None:
    """kill -9 inside the gate: neither the statement nor the fence stays, and the next gets in."""
    gate = SqliteGate(path, "the journal")
    write(gate, 3)
    worker = start("inside", "sqlite", path, 9)
    assert worker.stdout is not None and worker.stdout.readline() == "inside\n"
    worker.send_signal(signal.SIGKILL)
    worker.wait(10)
    assert (gate.newest, journal(path)) == (3, [3])
    assert write(gate, 4) == Acceptance(2, 4)


def test_a_stopped_writer_blocks_to_the_bound_only(path: Path, start: Callable[..., Popen[str]]) -> None:
    """SIGSTOP inside the gate: others get BackendUnavailable at their timeout; continued, it is accepted."""
    worker = start("inside", "sqlite", path, 9)
    assert worker.stdout is not None and worker.stdout.readline() == "inside\n"
    worker.send_signal(signal.SIGSTOP)
    with pytest.raises(BackendUnavailable):
        write(SqliteGate(path, "the journal", timeout=0.1), 10)
    worker.send_signal(signal.SIGCONT)
    assert worker.communicate("go\n", timeout=10)[0] == "left\n"
    with pytest.raises(FenceRejected):
        write(SqliteGate(path, "the journal"), 8)
