"""The Blob service in memory, with the rules of its leases and a clock that tests drive.

It keeps `azlatch.backends.blob_service.BlobService`, so that the real backend runs on it, in virtual time or
in real. It behaves as Azure documents its leases; where Azurite differs, the tests that run on both say so.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from azlatch.backends.blob_service import Answer, Blob, LeaseState, Refused, Settings
from azlatch.errors import BackendMisconfigured

#: The longest lease, and the shortest, seconds; the service takes infinite ones too, as -1.
LONGEST, SHORTEST = 60, 15


@dataclass
class StoredBlob:
    """One blob."""

    etag: str
    table: dict[str, str]
    modified: float
    lease_id: str = ""
    duration: int = 0
    #: When the lease ends by itself, or its break period does; infinite leases have none.
    ends: float = 0.0
    #: What was done to the lease last.
    done: LeaseState = "available"


@dataclass
class SimulatedBlobs:
    """A container, shared by every `SimulatedBlobService` on it."""

    now: Callable[[], float]
    exists: bool = True
    blobs: dict[str, StoredBlob] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    #: Told of every change of a blob, in their order: its name, and what was done.
    on_change: Callable[[str, str], None] = lambda blob, what: None
    #: Set by mutants: conditions that are not looked at.
    ignores_etags: bool = False
    #: As Azurite does, and Azure does not: a renewal under any id renews a lease that has expired, under its
    #: old id, and answers with that.
    renews_expired_with_any_id: bool = False
    _etags: Iterator[int] = field(default_factory=itertools.count)

    def etag(self) -> str:
        return f'"0x{next(self._etags):X}"'

    def state(self, stored: StoredBlob) -> LeaseState:
        """The state of a lease now."""
        over = stored.duration != -1 and self.now() >= stored.ends
        if stored.done == "leased" and over:
            return "expired"
        if stored.done == "breaking" and self.now() >= stored.ends:
            return "broken"
        return stored.done

    def wipe(self, blob: str) -> None:
        """As a person would: the metadata are gone, and the version is another."""
        stored = self.blobs.get(blob)
        if stored is not None:
            stored.table, stored.etag, stored.modified = {}, self.etag(), self.now()


class SimulatedBlobService:
    """The requests on a container, each one atomic."""

    def __init__(self, container: SimulatedBlobs) -> None:
        self.container = container

    def head(self, blob: str, until: float) -> Blob | None:
        with self._locked() as container:
            stored = container.blobs.get(blob)
            return self._describe(blob, stored) if stored is not None else None

    def create(self, blob: str, table: dict[str, str], until: float, *, replace: bool = False) -> Answer:
        with self._locked() as container:
            present = container.blobs.get(blob)
            if present is not None and not replace:
                raise Refused("exists", "BlobAlreadyExists")
            if present is not None and container.state(present) in ("leased", "breaking"):
                raise Refused("held", "LeaseIdMissing")
            stored = StoredBlob(container.etag(), dict(table), container.now())
            container.blobs[blob] = stored
            container.on_change(blob, "created")
            return Answer(stored.etag, self._date())

    def acquire(self, blob: str, lease_id: str, duration: int, etag: str | None, until: float) -> Answer:
        with self._locked() as container:
            stored = self._stored(blob, etag)
            state = container.state(stored)
            if state == "breaking":
                raise Refused("held", "LeaseIsBreakingAndCannotBeAcquired")
            if state == "leased" and stored.lease_id != lease_id:
                raise Refused("held", "LeaseAlreadyPresent")
            stored.lease_id, stored.duration, stored.done = lease_id, duration, "leased"
            stored.ends = container.now() + duration
            container.on_change(blob, "leased")
            return Answer(stored.etag, self._date(), lease_id)

    def renew(self, blob: str, lease_id: str, until: float) -> Answer:
        with self._locked() as container:
            stored = self._stored(blob, None)
            state = container.state(stored)
            if state == "expired" and container.renews_expired_with_any_id:
                lease_id = stored.lease_id
            if state in ("breaking", "broken") and stored.lease_id == lease_id:
                raise Refused("broken", "LeaseIsBrokenAndCannotBeRenewed")
            if state == "available" or stored.lease_id != lease_id:
                raise Refused("mismatch", "LeaseIdMismatchWithLeaseOperation")
            stored.done, stored.ends = "leased", container.now() + stored.duration
            container.on_change(blob, "renewed")
            return Answer(stored.etag, self._date(), lease_id)

    def release(self, blob: str, lease_id: str, until: float) -> Answer:
        with self._locked() as container:
            stored = self._stored(blob, None)
            if container.state(stored) == "available" or stored.lease_id != lease_id:
                raise Refused("mismatch", "LeaseIdMismatchWithLeaseOperation")
            stored.done, stored.lease_id = "available", ""
            container.on_change(blob, "released")
            return Answer(stored.etag, self._date())

    def break_lease(self, blob: str, period: int | None, etag: str, until: float) -> Answer:
        with self._locked() as container:
            stored = self._stored(blob, etag)
            state = container.state(stored)
            if state == "available":
                raise Refused("mismatch", "LeaseNotPresentWithLeaseOperation")
            left = max(stored.ends - container.now(), 0.0) if state in ("leased", "breaking") else 0.0
            if stored.duration == -1 and state == "leased":
                left = float(period or 0)
            elif period is not None:
                left = min(left, float(period))
            stored.done, stored.ends = "breaking", container.now() + left
            container.on_change(blob, "broken")
            return Answer(stored.etag, self._date(), left=left)

    def describe(
        self, blob: str, table: dict[str, str], lease_id: str | None, etag: str | None, until: float
    ) -> Answer:
        with self._locked() as container:
            stored = self._stored(blob, None)
            leased = container.state(stored) in ("leased", "breaking")
            if leased and lease_id is None:
                raise Refused("held", "LeaseIdMissing")
            if lease_id is not None and (not leased or stored.lease_id != lease_id):
                raise Refused("mismatch", "LeaseIdMismatchWithBlobOperation")
            self._stored(blob, etag)
            stored.table, stored.etag, stored.modified = dict(table), container.etag(), container.now()
            container.on_change(blob, "described")
            return Answer(stored.etag, self._date())

    def delete(self, blob: str, etag: str, until: float) -> None:
        with self._locked() as container:
            stored = self._stored(blob, etag)
            if container.state(stored) in ("leased", "breaking"):
                raise Refused("held", "LeaseIdMissing")
            del container.blobs[blob]
            container.on_change(blob, "deleted")

    def list(self, start: str, until: float) -> Iterator[Blob]:
        with self._locked() as container:
            found = [
                self._describe(blob, stored)
                for blob, stored in sorted(container.blobs.items())
                if blob.startswith(start)
            ]
        return iter(found)

    def create_container(self, until: float) -> None:
        with self.container.lock:
            self.container.exists = True

    def settings(self, until: float) -> Settings:
        with self._locked():
            return Settings("simulated", "simulated", "none", self._date(), 0, False, False, False)

    def close(self) -> None:
        """Nothing is open."""

    def _locked(self) -> _Locked:
        return _Locked(self.container)

    def _stored(self, blob: str, etag: str | None) -> StoredBlob:
        stored = self.container.blobs.get(blob)
        if stored is None:
            raise Refused("absent", "BlobNotFound")
        if etag is not None and stored.etag != etag and not self.container.ignores_etags:
            raise Refused("changed", "ConditionNotMet")
        return stored

    def _describe(self, blob: str, stored: StoredBlob) -> Blob:
        state = self.container.state(stored)
        infinite = stored.duration == -1 and state == "leased"
        return Blob(blob, stored.etag, dict(stored.table), state, infinite, stored.modified, self._date())

    def _date(self) -> float:
        """The service tells its time in whole seconds."""
        return float(int(self.container.now()))


class _Locked:
    """The container, if there is one, under its lock."""

    def __init__(self, container: SimulatedBlobs) -> None:
        self._container = container

    def __enter__(self) -> SimulatedBlobs:
        self._container.lock.acquire()
        if not self._container.exists:
            self._container.lock.release()
            raise BackendMisconfigured("there is no container")
        return self._container

    def __exit__(self, *_: object) -> None:
        self._container.lock.release()
