"""The container of a simulated world: the real Blob backend reaches it over a way that loses and delays.

The rules of the service are in `azlatch.testing.simulated_blob`. Here is what happens to a container beside
azlatch: metadata wiped by hand, blobs deleted by a lifecycle rule, and a foreign program that takes leases of
its own. Wiping and deleting keep two seconds' distance from a grant, for fences have one second's resolution
once the record is gone (F2).
"""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Callable, Iterator
from typing import TypeVar

from azlatch.backends.blob import BlobBackend, digest_of
from azlatch.backends.blob_service import Answer, Blob, Refused, Settings
from azlatch.core import lease as rules
from azlatch.core.terms import Limits, margin_of
from azlatch.testing.simulated_blob import SimulatedBlobs, SimulatedBlobService, StoredBlob
from azlatch.testing.virtual import Process, World
from azlatch.testing.watched import Stored, Watcher
from azlatch.testing.way import Faults, Way

T = TypeVar("T")

#: What a lease id of the foreign program begins with, so that nobody's nonce makes the same one.
_FOREIGN = "f0f0f0f0-0000-4000-8000-"
#: Seconds that a record is not wiped for after a grant (F2), and for how many of them an accident waits.
_QUIET, _PATIENCE = 2.0, 60
#: Seconds in which the janitor finds what a claim has left behind; it pauses for 5 s at most.
_SETTLED_IN = 10.0
#: Above this share of the ttl, a request takes so long that an orphan is freed by its ttl as well as by us.
_QUICK = 1 / 50


class LeaseStore:
    """A container as a watched store; see `azlatch.testing.watched.WatchedStore`."""

    accidents = ("freeze", "wipe", "lifecycle", "foreign", "foreign")

    def __init__(self, world: World, faults: Faults, *, renews_with_any_id: bool = False) -> None:
        self.world = world
        self.faults = faults
        self.down_until = 0.0
        self.watcher = Watcher()
        self.container = SimulatedBlobs(lambda: world.time, renews_expired_with_any_id=renews_with_any_id)
        self.container.on_change = self._saw
        self.service = SimulatedBlobService(self.container)
        #: The way that the requests of a nonce take.
        self.senders: dict[str, Way] = {}
        #: Whether the break that is being made right now gives up M1.
        self.breaks_now = False
        self._foreigners = 0
        self._mended = False
        self._asked_at: dict[str, float] = {}
        self._last_grant: dict[str, tuple[str, int]] = {}
        self._leased_at: dict[str, float] = {}

    # -- as a watched store --------------------------------------------------------------------------

    @property
    def longest(self) -> float:
        return max((float(blob.duration) for blob in self.container.blobs.values()), default=0.0)

    def join(self, process: Process, *, look: float, namespaces: tuple[str, str]) -> tuple[BlobBackend, Way]:
        way = Way(self, process, networked=True)
        backend = BlobBackend.from_service(lambda env: _Carried(self, way))
        # The service takes 15 s and more; holds of half the world's ttl make no other rule.
        backend.limits = Limits(1.0, 60.0)
        return backend, way

    def present(self, name: str) -> Stored | None:
        stored = self.container.blobs.get(name)
        if stored is None or self.container.state(stored) != "leased" or _is_foreign(stored.lease_id):
            return None
        return self._stored(name, stored)

    def held_since(self, name: str) -> float:
        stored = self.container.blobs[name]
        return stored.ends - stored.duration

    def lives(self, stored: Stored) -> bool:
        sender = self.senders.get(stored.nonce)
        return sender is not None and sender.process.alive

    def excuses(self, stored: Stored, since: float) -> bool:
        """It was asked for again meanwhile, or may have been asked for until a moment ago."""
        if self.held_since(stored.name) > since:
            return True
        rate = self.senders[stored.nonce].process.rate
        asked_until = self._asked_at[stored.nonce] + (stored.ttl - margin_of(stored.ttl)) / rate
        return self.world.time < asked_until + _SETTLED_IN

    def lost(self, process: Process, *, leaves_heir: bool = False) -> None:
        """Nothing here knows of processes."""

    def befall(self, kind: str, process: Process, name: str, seconds: float) -> None:
        if kind == "wipe":
            self._when_quiet(name, lambda: self.container.wipe(name), _PATIENCE)
        elif kind == "lifecycle":
            self._when_quiet(name, lambda: self._delete(name), _PATIENCE)
        elif kind == "foreign":
            self._take(name, seconds)

    def mend(self) -> None:
        """An operator breaks what the foreign program left behind."""
        self._mended = True
        for name, stored in self.container.blobs.items():
            if _is_foreign(stored.lease_id) and self.container.state(stored) in ("leased", "breaking"):
                self.service.break_lease(name, 0, stored.etag, 0.0)

    def asked(self, nonce: str, way: Way) -> None:
        """A request for a lease under this nonce goes out."""
        self.senders[nonce] = way
        self._asked_at.setdefault(nonce, self.world.time)

    # -- what is seen ----------------------------------------------------------------------------------

    def _saw(self, blob: str, what: str) -> None:
        stored = self.container.blobs.get(blob)
        lease = stored.lease_id if stored is not None else ""
        record = rules.record_of(stored.table) if stored is not None else None
        fence = record.fence if record is not None else "-"
        self.world.trace.append(
            (self.world.time, "store", "", f"{blob} {what} {fence} under {lease[:4] or '-'}")
        )
        if stored is None or _is_foreign(lease):
            return
        seen = self._stored(blob, stored) if lease else None
        if seen is None:
            return
        if what == "leased":
            self._leased_at[blob] = self.world.time
            quick = self.faults.latency <= seen.ttl * _QUICK
            self.watcher.saw_hold(seen, seen.ttl - 0.01 if quick else seen.ttl * 1.3 + 10)
        elif what == "described":
            if seen.fence is not None and self._last_grant.get(blob) != (seen.nonce, seen.fence):
                self._last_grant[blob] = seen.nonce, seen.fence
                self.watcher.saw_grant(seen)
        elif what == "broken":
            self.watcher.saw_break(seen, self.breaks_now)

    def _stored(self, name: str, stored: StoredBlob) -> Stored:
        record = rules.record_of(stored.table)
        fence = record.fence if record is not None and record.grant == digest_of(stored.lease_id) else None
        nonce = _nonce(stored.lease_id)
        return Stored(name, nonce, fence, float(stored.duration), nonce)

    # -- what happens to it ----------------------------------------------------------------------------

    def _when_quiet(self, name: str, act: Callable[[], None], tries: int) -> None:
        stored = self.container.blobs.get(name)
        if stored is None or self._mended:
            return
        leased = self.container.state(stored) in ("leased", "breaking")
        if not leased and self.world.time >= self._leased_at.get(name, 0.0) + _QUIET:
            act()
        elif tries:
            self.world.after(1.0, functools.partial(self._when_quiet, name, act, tries - 1))

    def _delete(self, name: str) -> None:
        self.service.delete(name, self.container.blobs[name].etag, 0.0)

    def _take(self, name: str, seconds: float) -> None:
        """The foreign program takes a lease; what it does not release runs out, or is broken if it cannot."""
        rng = self.world.rng
        self._foreigners += 1
        lease = f"{_FOREIGN}{self._foreigners:012x}"
        duration = -1 if rng.random() < 0.3 else rng.randint(15, 60)
        release = rng.random() < 0.5
        if self._mended:
            return
        with contextlib.suppress(Refused):
            self.service.acquire(name, lease, duration, None, 0.0)
            if release:
                self.world.after(seconds * rng.random(), lambda: self._give_back(name, lease))
            elif duration < 0:
                self.world.after(seconds, lambda: self._break(name, lease))

    def _give_back(self, name: str, lease: str) -> None:
        with contextlib.suppress(Refused):
            self.service.release(name, lease, 0.0)

    def _break(self, name: str, lease: str) -> None:
        stored = self.container.blobs.get(name)
        if stored is not None and stored.lease_id == lease:
            with contextlib.suppress(Refused):
                self.service.break_lease(name, None, stored.etag, 0.0)


class _Carried:
    """A process's requests, each over its way; keeps `azlatch.backends.blob_service.BlobService`."""

    def __init__(self, store: LeaseStore, way: Way) -> None:
        self._store = store
        self._service = store.service
        self._way = way

    def head(self, blob: str, until: float) -> Blob | None:
        found = self._call(until, lambda: self._service.head(blob, until), reads=True, acquires=True)
        self._way.answers += found is not None and found.leased
        return found

    def create(self, blob: str, table: dict[str, str], until: float, *, replace: bool = False) -> Answer:
        return self._call(
            until, lambda: self._service.create(blob, table, until, replace=replace), acquires=not replace
        )

    def acquire(self, blob: str, lease_id: str, duration: int, etag: str | None, until: float) -> Answer:
        self._store.asked(_nonce(lease_id), self._way)
        answer = self._call(
            until, lambda: self._service.acquire(blob, lease_id, duration, etag, until), acquires=True
        )
        self._way.answers += 1
        return answer

    def renew(self, blob: str, lease_id: str, until: float) -> Answer:
        return self._call(until, lambda: self._service.renew(blob, lease_id, until))

    def release(self, blob: str, lease_id: str, until: float) -> Answer:
        return self._call(until, lambda: self._service.release(blob, lease_id, until))

    def break_lease(self, blob: str, period: int | None, etag: str, until: float) -> Answer:
        def at_store() -> Answer:
            self._store.breaks_now = period == 0
            try:
                return self._service.break_lease(blob, period, etag, until)
            finally:
                self._store.breaks_now = False

        return self._call(until, at_store)

    def describe(
        self, blob: str, table: dict[str, str], lease_id: str | None, etag: str | None, until: float
    ) -> Answer:
        return self._call(
            until, lambda: self._service.describe(blob, table, lease_id, etag, until), acquires=True
        )

    def delete(self, blob: str, etag: str, until: float) -> None:
        self._call(until, lambda: self._service.delete(blob, etag, until))

    def list(self, start: str, until: float) -> Iterator[Blob]:
        return self._call(until, lambda: self._service.list(start, until), reads=True)

    def create_container(self, until: float) -> None:
        self._call(until, lambda: self._service.create_container(until))

    def settings(self, until: float) -> Settings:
        return self._call(until, lambda: self._service.settings(until), reads=True)

    def close(self) -> None:
        """Nothing is open."""

    def _call(
        self, until: float, at_store: Callable[[], T], *, reads: bool = False, acquires: bool = False
    ) -> T:
        try:
            return self._way.call(until, at_store, reads=reads, acquires=acquires)
        except Refused:
            self._way.answers += 1
            raise


def _is_foreign(lease_id: str) -> bool:
    return lease_id.startswith(_FOREIGN)


def _nonce(lease_id: str) -> str:
    return uuid.UUID(lease_id).hex
