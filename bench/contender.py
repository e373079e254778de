"""What is compared: each takes and frees a lock of a given name, in its own way of everyday use."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import filelock

import azlatch

US = "azlatch"
BLOB_CONTAINER = "bench"


class Contender(Protocol):
    """One open connection of one process; holds at most one lock at a time."""

    def acquire(self, name: str) -> None: ...

    def release(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Spec:
    """A contender that is not open yet; goes to other processes."""

    label: str
    kind: str
    #: Seconds between tries, or None for the default of the library.
    poll: float | None = None

    def open(self, place: Path, redis_port: int) -> Contender:
        if self.kind == "azlatch":
            return _Azlatch(place)
        if self.kind == "azlatch-try":
            return _AzlatchTry(place)
        if self.kind in ("blob", "blob-plain"):
            return _Blob(fence=self.kind == "blob")
        if self.kind == "blob-raw":
            return _RawBlob(self.poll)
        if self.kind == "blob-raw-described":
            return _DescribedRawBlob(self.poll)
        if self.kind == "redis":
            return _Redis(redis_port, self.poll)
        if self.kind == "sqlite":
            return _BareSqlite(place)
        return _FileLock(place, self.kind, self.poll)


_REDIS = [
    Spec("redis-py Lock", "redis"),
    Spec("redis-py Lock, sleep 1 ms", "redis", 0.001),
]
_WAITERS = [
    Spec(US, "azlatch"),
    Spec("FileLock", "FileLock"),
    Spec("FileLock, poll 1 ms", "FileLock", 0.001),
    Spec("SoftFileLease", "SoftFileLease"),
]


def without_waiting(*, redis: bool) -> list[Spec]:
    """Those whose uncontended rate is measured; how often they poll makes no difference to it."""
    specs = [spec for spec in waiting(redis=redis) if spec.poll is None]
    return [specs[0], Spec(f"{US}, try_acquire", "azlatch-try"), *specs[1:], Spec("bare SQLite", "sqlite")]


def waiting(*, redis: bool) -> list[Spec]:
    """Those that can wait for one another."""
    return [*_WAITERS, *(_REDIS if redis else [])]


class _Azlatch:
    def __init__(self, place: Path) -> None:
        # The contention here is on purpose, and what the alarm says of it would be between the numbers.
        logging.getLogger("azlatch").setLevel(logging.ERROR)
        self._latches = azlatch.connect(f"sqlite:///{place / 'azlatch.db'}")

    def acquire(self, name: str) -> None:
        self._hold = self._latches.acquire(name, ttl=30, timeout=None)

    def release(self) -> None:
        self._hold.release()

    def close(self) -> None:
        self._latches.close()


class _AzlatchTry(_Azlatch):
    def acquire(self, name: str) -> None:
        hold = self._latches.try_acquire(name, ttl=30)
        if hold is None:
            raise RuntimeError(f"{name!r} is held by someone else, and nobody else is there")
        self._hold = hold


class _Blob(_Azlatch):
    """The account is that of AZURE_STORAGE_CONNECTION_STRING."""

    def __init__(self, *, fence: bool) -> None:
        logging.getLogger("azlatch").setLevel(logging.ERROR)
        self._latches = azlatch.connect(f"blob://devstoreaccount1/{BLOB_CONTAINER}", fence=fence)


class _RawBlob:
    """The SDK's lease with a new id for each pair and a default client, and a loop where it has to wait."""

    def __init__(self, poll: float | None) -> None:
        from azure.storage.blob import ContainerClient

        account = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
        self._container = ContainerClient.from_connection_string(account, BLOB_CONTAINER)
        self._poll = poll
        self._blobs: dict[str, Any] = {}

    def acquire(self, name: str) -> None:
        from azure.core.exceptions import ResourceExistsError
        from azure.storage.blob import BlobLeaseClient

        blob = self._blobs.get(name)
        if blob is None:
            blob = self._blobs[name] = self._container.get_blob_client(f"raw-{name}")
            with contextlib.suppress(ResourceExistsError):
                blob.upload_blob(b"")
        while True:
            lease = BlobLeaseClient(blob)
            try:
                lease.acquire(lease_duration=30)
            except ResourceExistsError:
                if self._poll is None:
                    raise
                time.sleep(self._poll)
            else:
                self._lease = lease
                return

    def release(self) -> None:
        self._lease.release()

    def close(self) -> None:
        self._container.close()


class _DescribedRawBlob(_RawBlob):
    """... and one write of metadata under the lease, which is what a fence takes."""

    def acquire(self, name: str) -> None:
        super().acquire(name)
        self._blobs[name].set_blob_metadata({"fence": "1", "holder": "x" * 120}, lease=self._lease)


class _FileLock:
    """Keeps its lock object, which is quicker than a new one for each pair."""

    def __init__(self, place: Path, kind: str, poll: float | None) -> None:
        self._place = place
        self._kind = kind
        self._poll = poll
        self._locks: dict[str, filelock.BaseFileLock] = {}

    def acquire(self, name: str) -> None:
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = self._make(str(self._place / f"{self._kind}-{name}"))
        self._held = lock
        lock.acquire()

    def _make(self, path: str) -> filelock.BaseFileLock:
        poll: dict[str, Any] = {} if self._poll is None else {"poll_interval": self._poll}
        if self._kind == "SoftFileLease":
            return filelock.SoftFileLease(path, lease_duration=30, **poll)
        return filelock.FileLock(path, **poll)

    def release(self) -> None:
        self._held.release()

    def close(self) -> None:
        pass


class _Redis:
    """A new lock object for each pair, as `with client.lock(name)` makes it."""

    def __init__(self, port: int, poll: float | None) -> None:
        import redis

        self._client = redis.Redis(host="127.0.0.1", port=port)
        self._options: dict[str, Any] = {} if poll is None else {"sleep": poll}

    def acquire(self, name: str) -> None:
        self._lock = self._client.lock(name, timeout=30, **self._options)
        if not self._lock.acquire():
            raise RuntimeError("redis-py gave up although it may wait for ever")

    def release(self) -> None:
        self._lock.release()

    def close(self) -> None:
        self._client.close()


class _BareSqlite:
    """The ceiling: two transactions of one statement each, with nothing around them."""

    def __init__(self, place: Path) -> None:
        self._db = sqlite3.connect(place / "bare.db", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS locks (name TEXT PRIMARY KEY, fence INTEGER, held INTEGER)"
        )

    def acquire(self, name: str) -> None:
        self._name = name
        self._db.execute("BEGIN IMMEDIATE")
        update = "UPDATE locks SET held = 1, fence = fence + 1 WHERE name = ?"
        changed = self._db.execute(update, (name,)).rowcount
        if not changed:
            self._db.execute("INSERT INTO locks VALUES (?, 1, 1)", (name,))
        self._db.execute("COMMIT")

    def release(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("UPDATE locks SET held = 0 WHERE name = ?", (self._name,))
        self._db.execute("COMMIT")

    def close(self) -> None:
        self._db.close()
