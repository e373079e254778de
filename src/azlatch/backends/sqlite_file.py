"""Opening the embedded store: whose file it is, and above which fence this opening starts (F3).

Nothing but SQLite ever opens the file's content: closing a descriptor of our own would drop the locks that
SQLite holds on it (https://www.sqlite.org/howtocorrupt.html, 2.2). What the file is, its application_id
tells, read through a read-only connection, so that a file that is not ours stays as it is.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable
from random import random
from typing import NamedTuple, TypeVar
from urllib.parse import quote

from azlatch.backends.machine import Machine, network_file_system
from azlatch.core.env import Env
from azlatch.core.record import next_epoch
from azlatch.errors import BackendDenied, BackendMisconfigured, BackendUnavailable, OutcomeUnknown

T = TypeVar("T")

APPLICATION_ID = 0x617A6C74  # "azlt"
SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE latches (
    name TEXT PRIMARY KEY, fence INTEGER NOT NULL, nonce TEXT NOT NULL, beat INTEGER NOT NULL,
    ttl REAL NOT NULL, mode TEXT NOT NULL, state TEXT NOT NULL, version INTEGER NOT NULL,
    boot TEXT NOT NULL, time_namespace TEXT NOT NULL, beat_at REAL NOT NULL, member TEXT NOT NULL,
    holder TEXT NOT NULL, since REAL NOT NULL, note TEXT NOT NULL, previous TEXT NOT NULL,
    breaker TEXT NOT NULL, reason TEXT NOT NULL, touched REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE waiters (
    ticket INTEGER PRIMARY KEY, name TEXT NOT NULL, member TEXT NOT NULL, called_at REAL,
    UNIQUE (name, member)
);
CREATE INDEX line ON waiters (name, ticket);
CREATE TABLE store (
    id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL, boot TEXT NOT NULL, floor INTEGER NOT NULL
);
INSERT INTO store VALUES (1, 0, '', 0);
"""

_PAUSE_FIRST = 0.000_2
_PAUSE_LAST = 0.005


class Opened(NamedTuple):
    """An open store: the connection, the file's identity, and the epoch of fences."""

    db: sqlite3.Connection
    identity: tuple[int, int]
    epoch: int


def prepare(path: str) -> None:
    """Makes sure that the file is there, ours to use, and on a disk of this machine.

    Raises:
        BackendMisconfigured: a link, not a file, or on a network file system.
        BackendDenied: no right to create it, or its folder.
    """
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
    except OSError as error:
        raise BackendDenied(f"cannot create the folder {folder} of the store: {error.strerror}") from error
    kind = network_file_system(folder)
    if kind is not None:
        raise BackendMisconfigured(
            f"{folder} is on a network file system ({kind}), where SQLite's locks cannot be trusted: "
            "put the store on a local disk, or use blob: or cosmos: for several machines"
        )
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            pass
        except OSError as error:
            raise BackendDenied(f"cannot create the store {path}: {error.strerror}") from error
        found = os.lstat(path)
    except OSError as error:
        raise BackendDenied(f"cannot look at the store {path}: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        what = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "not a regular file"
        raise BackendMisconfigured(f"{path} is {what}: name the file itself")


def open_store(path: str, machine: Machine, env: Env, *, cold: bool, until: float) -> Opened:
    """Opens or creates the store, and raises the epoch where older fences may have been forgotten.

    Raises:
        BackendMisconfigured: the file is something else, damaged, or of a newer azlatch.
        BackendDenied: no right to read and write it.
        BackendUnavailable: other processes kept it locked until then.
    """
    prepare(path)
    found = os.stat(path)
    if found.st_size > 0:
        _check_foreign(path, env, until)
    db = connect(path, env, until)
    try:
        mode = retry_busy(lambda: db.execute("PRAGMA journal_mode=WAL").fetchone(), env, until, path)
        if mode is None or mode[0] != "wal":
            raise BackendMisconfigured(
                f"the file system of {path} cannot carry SQLite's write-ahead log: put it on a local disk"
            )
        _create_schema(db, path, env, until)
        epoch = _epoch(db, path, machine, env, cold=cold, until=until)
    except BaseException as error:
        db.close()
        if isinstance(error, sqlite3.Error):
            raise translate(error, path) from error
        raise
    opened = os.stat(path)
    return Opened(db, (opened.st_dev, opened.st_ino), epoch)


def connect(path: str, env: Env, until: float, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection for any thread, one at a time; in autocommit mode, waiting for nobody.

    Raises:
        BackendError: see `translate`.
    """
    uri = f"file:{quote(path)}?mode={'ro' if read_only else 'rw'}"
    db: sqlite3.Connection | None = None
    try:
        db = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
        opened = db
        retry_busy(lambda: opened.execute("PRAGMA synchronous=NORMAL"), env, until, path)
    except BaseException as error:
        if db is not None:
            db.close()
        if isinstance(error, sqlite3.Error):
            raise translate(error, path) from error
        raise
    return db


def retry_busy(call: Callable[[], T], env: Env, until: float, path: str) -> T:
    """Calls until the file is not locked by someone else; SQLite's own waiting would be coarser.

    Raises:
        BackendUnavailable: it was locked until then.
    """
    pause = _PAUSE_FIRST
    while True:
        try:
            return call()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            left = until - env.now()
            if left <= 0:
                raise translate(error, path) from error
            time.sleep(min(pause * (0.5 + random()), left))
            pause = min(pause * 1.5, _PAUSE_LAST)


def is_busy(error: sqlite3.OperationalError) -> bool:
    """Whether someone else has the lock; nothing happened then."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _check_foreign(path: str, env: Env, until: float) -> None:
    """Refuses a file that is not a latch store, without writing to it."""
    db = connect(path, env, until, read_only=True)
    try:
        _check_identity(db, path, env, until)
    except sqlite3.Error as error:
        raise translate(error, path) from error
    finally:
        db.close()


def _check_identity(db: sqlite3.Connection, path: str, env: Env, until: float) -> bool:
    """True for a store of ours, False for an empty database."""

    def look() -> tuple[int, int, int]:
        # In one transaction: someone else may be creating the store just now.
        outer = db.in_transaction
        if not outer:
            db.execute("BEGIN")
        try:
            return (
                db.execute("PRAGMA application_id").fetchone()[0],
                db.execute("PRAGMA user_version").fetchone()[0],
                db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0],
            )
        finally:
            if not outer and db.in_transaction:
                db.execute("ROLLBACK")

    application, version, objects = retry_busy(look, env, until, path)
    if application == APPLICATION_ID:
        if version > SCHEMA_VERSION:
            raise BackendMisconfigured(
                f"{path} has schema {version} and this azlatch knows {SCHEMA_VERSION}: upgrade azlatch"
            )
        return version == SCHEMA_VERSION
    if application != 0 or objects or version:
        raise BackendMisconfigured(
            f"{path} is a database of another program (application_id {application:#x}, {objects} objects); "
            "it was left as it is: name another file"
        )
    return False


def _create_schema(db: sqlite3.Connection, path: str, env: Env, until: float) -> None:
    if _check_identity(db, path, env, until):
        return
    retry_busy(lambda: db.execute("BEGIN IMMEDIATE"), env, until, path)
    try:
        if not _check_identity(db, path, env, until):
            for statement in _SCHEMA.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id={APPLICATION_ID}")
            db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _epoch(db: sqlite3.Connection, path: str, machine: Machine, env: Env, *, cold: bool, until: float) -> int:
    """The epoch to grant under, raised durably where it has to be."""
    # The only wall clock that decides anything here, and it can only raise fences.
    now_ms = int(env.wall() * 1_000)

    def read() -> tuple[int, int]:
        before, boot = db.execute("SELECT epoch, boot FROM store").fetchone()
        return int(before), next_epoch(int(before), boot, machine.boot, cold, now_ms)

    before, epoch = retry_busy(read, env, until, path)
    if epoch == before:
        return epoch
    # NORMAL may forget the last commits on a power loss; this one must not be forgotten.
    db.execute("PRAGMA synchronous=FULL")
    try:
        retry_busy(lambda: db.execute("BEGIN IMMEDIATE"), env, until, path)
        _, epoch = read()
        db.execute("UPDATE store SET epoch=?, boot=?", (epoch, machine.boot))
        db.execute("COMMIT")
        return epoch
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
        db.execute("PRAGMA synchronous=NORMAL")


def translate(
    error: sqlite3.Error, path: str, *, committing: bool = False, basis: int | None = None
) -> Exception:
    """SQLite's error as ours: the one table of this backend. Source: https://www.sqlite.org/rescode.html."""
    code = getattr(error, "sqlite_errorcode", 0)
    primary = code & 0xFF
    text = getattr(error, "sqlite_errorname", None) or str(error)
    if committing and primary in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_INTERRUPT):
        return OutcomeUnknown(f"the commit to {path} failed with {text}: it may have happened", basis=basis)
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return BackendUnavailable(
            f"another process keeps {path} locked ({text}): it is writing, or was stopped inside a write"
        )
    if primary == sqlite3.SQLITE_FULL:
        return BackendUnavailable(f"no space left for {path}: free some, or raise the file size limit")
    if primary in (
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_PROTOCOL,
    ):
        return BackendUnavailable(
            f"the disk under {path} failed with {text}: see whether it is full, read-only or damaged"
        )
    if primary in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return BackendMisconfigured(
            f"{path} is not a latch store, or is damaged ({text}); it was left as it is: name another file, or "
            "move this one away"
        )
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_CANTOPEN):
        return BackendDenied(
            f"no right to write {path} ({text}): the user that runs this needs to write the file and its folder"
        )
    return BackendUnavailable(f"SQLite failed on {path} with {text}")
