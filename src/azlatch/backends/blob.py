"""Latches on Azure Blob leases: one empty blob a name, and the service ends the lease itself.

A grant is a lease whose id is made of the grant's nonce (L1), and one write of metadata under it that
carries the fence, the holder and a digest of the lease id (L2). The acquire is conditional on the version
that the fence before was read from, so that no two grants can make the same fence of it. What the backend
remembers of a name is its version alone: with it, a pair of acquire and release is three requests, or two
with ``fence=False``, and without it a look comes first. Where the name was contended a moment ago the look
comes first too: a waiter that only looks makes no failed request.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from azlatch.backends.blob_service import Blob, BlobService, No, Refused
from azlatch.backends.protocol import Broken, Check, Gone, Granted, Held, View
from azlatch.core import lease as rules
from azlatch.core.acquisition import Orphan
from azlatch.core.env import Env
from azlatch.core.names import store_id
from azlatch.core.record import Claim, Grant, Takeover
from azlatch.core.terms import Limits, margin_of
from azlatch.errors import BackendError, BackendMisconfigured, BackendUnavailable, OutcomeUnknown, UsageError

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

    from azlatch.backends.storage_account import StorageAccount

#: The longest id that a name is stored under, characters; the service takes 1,024.
_MOST_ID = 1_000
#: Marks the blob beside a latch's own that says who broke it and why; it occurs in no id.
_BREAKS = "~broken"
#: Names whose version is remembered.
MOST_KNOWN = 10_000
#: Claims of which is remembered what a resend, a note or the janitor needs.
_MOST_CLAIMS = 2_000
#: For so long after a name was found held, a look comes before every try, seconds.
CONTENDED_FOR = 10.0
#: Looks at a held name: the first pause, what it grows by, and the longest, seconds.
_FIRST_LOOK, _GROWTH, _LAST_LOOK = 0.1, 1.5, 2.0
#: A record is not purged before the service's clocks, which differ a little, are past its fence, seconds.
PURGE_AFTER = 2.0
#: ... nor so soon where its holder never released it.
LEFT_FOR = 3_600.0


class _Known(NamedTuple):
    """What is remembered of a name: its version, and the fence in it (None: there is none)."""

    etag: str
    fence: int | None
    takeover: Takeover | None = None


_NOTHING = _Known("", None)


class BlobBackend:
    """Latches in a container of a storage account.

    Args:
        container: a sync client of the container. Its retries are switched off in every request of a latch.

    Raises:
        UsageError: it is an asyncio client, or has a retry policy that cannot be switched off.
    """

    kind = "blob"
    limits: Limits = Limits(min_ttl=15.0, max_ttl=60.0, requests=4)

    def __init__(self, container: ContainerClient) -> None:
        from azlatch.backends.blob_service import check_client

        check_client(container)
        self._set(lambda env: _service(container, env, owned=False), rebuilt_after_fork=False)

    @classmethod
    def from_connection_string(cls, connection_string: str, container: str) -> BlobBackend:
        """The same with a client of its own.

        Raises:
            UsageError: the connection string or the container's name is not one.
        """
        from azlatch.backends.storage_account import account_of, check_container

        return cls.in_container(account_of(connection_string), check_container(container))

    @classmethod
    def in_container(cls, account: StorageAccount, container: str) -> BlobBackend:
        """The same in a container of an account."""
        return cls.from_service(lambda env: _service(account.container(container), env, owned=True))

    @classmethod
    def from_service(cls, connect: Callable[[Env], BlobService]) -> BlobBackend:
        """The same on requests that `connect` makes when the store is opened, and again in a forked child."""
        backend = cls.__new__(cls)
        backend._set(connect, rebuilt_after_fork=True)
        return backend

    def _set(self, connect: Callable[[Env], BlobService], *, rebuilt_after_fork: bool) -> None:
        self._connect = connect
        self._rebuilt_after_fork = rebuilt_after_fork
        self._is_parents = False
        self._service: BlobService | None = None
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._contended: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._fences: OrderedDict[str, tuple[int, _Known]] = OrderedDict()
        #: Nonces whose lease went back: a release that is on its way would end a lease that they took again.
        self._spent: OrderedDict[str, bool] = OrderedDict()
        #: Of each claim that may have a lease without having been granted, what it was tried with last.
        self._open: OrderedDict[str, _Known] = OrderedDict()
        #: Of each nonce, the versions for which a request for a lease may be on its way.
        self._unanswered: OrderedDict[str, tuple[_Known, ...]] = OrderedDict()
        self._records: OrderedDict[str, rules.Record] = OrderedDict()

    # -- life ----------------------------------------------------------------------------------------

    def open(self, env: Env, wake: Callable[[str], None], *, create: bool, until: float) -> None:
        if self._is_parents:
            raise UsageError(
                "the client of the container was made before this process was forked, and its connections are "
                "the parent's: make a client and connect again in the child"
            )
        self._env = env
        self._service = self._connect(env)
        if create:
            self._service.create_container(until)

    def close(self) -> None:
        if self._service is not None:
            self._service.close()

    def forked(self) -> None:
        self._service = None
        self._is_parents = not self._rebuilt_after_fork
        self._forget()

    @property
    def service(self) -> BlobService:
        """The requests; there are some once the store is open."""
        if self._service is None:
            raise UsageError("the store is not open: connect first")
        return self._service

    # -- grants --------------------------------------------------------------------------------------

    def acquire(self, claim: Claim, until: float) -> Granted | Held:
        if self._is_spent(claim.nonce):
            return self._held(claim, None, None)
        with self._lock:
            record = self._records.get(claim.nonce)
            _, before = self._fences.get(claim.nonce, (0, _NOTHING))
        if record is not None and self._has_lease(claim, until):
            # Granted before, and asked again by one who has not heard of it.
            return Granted(Grant(claim.name, claim.nonce, record.fence, claim.ttl, 0), before.fence)
        blob, lease_id = blob_of(claim.name), lease_of(claim.nonce)
        known = self._recall(claim)
        for _ in range(2):
            if known is None:
                reply = self._look(claim, until)
                if isinstance(reply, (Granted, Held)):
                    return reply
                known = reply
            try:
                return self._take(claim, blob, lease_id, known, until)
            except Refused as refused:
                self._drop(claim.name)
                if refused.no == "held":
                    return self._seen(claim, until)
                # Another version than the one remembered, or none at all: the second round looks.
                known = None
        return self._held(claim, None, None)

    def _by(self, claim: Claim, until: float) -> float:
        """When a request has to be answered: each has its own bound, and all of them the caller's (T4)."""
        return min(until, self._env.now() + (claim.ttl - margin_of(claim.ttl)) / 3)

    def _recall(self, claim: Claim) -> _Known | None:
        """What is remembered, if a try without a look is worth it."""
        with self._lock:
            tried = self._open.get(claim.nonce)
            if tried is not None:
                # A look would not tell whose lease it is as long as it is not described.
                return tried
            known = self._known.get(claim.name)
            until, _ = self._contended.get(claim.name, (0.0, 0))
        if self._env.now() < until:
            return None
        return known

    def _look(self, claim: Claim, until: float) -> Granted | Held | _Known:
        """Looks before a try: what to try with, or the answer already."""
        found = self.service.head(blob_of(claim.name), self._by(claim, until))
        if found is None:
            return self._create(claim, until)
        return self._judge(claim, found, until)

    def _judge(self, claim: Claim, found: Blob, until: float) -> Granted | Held | _Known:
        if found.size:
            raise BackendMisconfigured(
                f"the blob of {claim.name!r} has content, so it is no latch: give latches a container of their "
                "own"
            )
        record = rules.record_of(found.table)
        if found.leased:
            mine = record is not None and record.grant == digest_of(lease_of(claim.nonce))
            if record is not None and mine and found.lease == "leased" and self._has_lease(claim, until):
                # An earlier send of this very claim got it, and its reply was lost (M5).
                with self._lock:
                    _, before = self._fences.get(claim.nonce, (0, _NOTHING))
                return self._granted(claim, record.fence, before.fence, found.etag, before.takeover)
            return self._held(claim, found, record)
        # Broken and not released by its holder: what was left of the lease is over.
        takeover: Takeover | None = "expired" if found.lease in ("expired", "broken") else None
        return _Known(found.etag, record.fence if record is not None else None, takeover)

    def _has_lease(self, claim: Claim, until: float) -> bool:
        """Whether the lease is this claim's too: its metadata may be older than the lease (L3)."""
        lease_id = lease_of(claim.nonce)
        try:
            answer = self.service.renew(blob_of(claim.name), lease_id, self._by(claim, until))
            return answer.lease_id == lease_id
        except Refused:
            return False

    def _create(self, claim: Claim, until: float) -> Granted | Held | _Known:
        try:
            made = self.service.create(blob_of(claim.name), rules.blank(claim.name), self._by(claim, until))
        except Refused as refused:
            if refused.no != "exists":
                raise
            found = self.service.head(blob_of(claim.name), self._by(claim, until))
            return self._judge(claim, found, until) if found is not None else self._held(claim, None, None)
        return _Known(made.etag, None)

    def _seen(self, claim: Claim, until: float) -> Granted | Held:
        """The try was refused because the name is held: by whom, or by this claim itself?"""
        try:
            found = self.service.head(blob_of(claim.name), self._by(claim, until))
        except BackendError:
            return self._held(claim, None, None)
        reply = self._judge(claim, found, until) if found is not None else None
        return reply if isinstance(reply, (Granted, Held)) else self._held(claim, found, None)

    def _take(self, claim: Claim, blob: str, lease_id: str, known: _Known, until: float) -> Granted | Held:
        etag = known.etag if claim.fenced else None
        made_for = known if claim.fenced else _NOTHING
        alone = self._sending(claim.nonce, made_for)
        with self._lock:
            _put(self._open, claim.nonce, known, _MOST_CLAIMS)
        duration = math.ceil(claim.ttl)
        try:
            answer = self.service.acquire(blob, lease_id, duration, etag, self._by(claim, until))
        except OutcomeUnknown as unknown:
            alone = False
            # Asked again with the same id it is the same lease, whether the first one came through or not.
            try:
                answer = self.service.acquire(blob, lease_id, duration, etag, self._by(claim, until))
            except (Refused, BackendError):
                # That says nothing of the first one, which may still be on its way.
                raise unknown from None
        except (Refused, BackendError):
            if alone:
                self._answered(claim.nonce, made_for)
                self._conclude(claim)
            raise
        if alone:
            self._answered(claim.nonce, made_for)
        if answer.lease_id != lease_id:
            self._conclude(claim)
            return self._held(claim, None, None)
        if not claim.fenced:
            return self._granted(claim, None, None, known.etag, known.takeover)
        return self._describe(claim, blob, lease_id, known, answer.now, until)

    def _describe(
        self, claim: Claim, blob: str, lease_id: str, known: _Known, now: float | None, until: float
    ) -> Granted | Held:
        """Fence and holder in one write under the lease; without it nothing was granted (L2)."""
        try:
            fence = self._fence(claim, known, now)
            record = rules.Record(claim.name, fence, digest_of(lease_id), claim.ttl, claim.wall, claim.holder)
            etag = self.service.describe(
                blob, record.to_table(), lease_id, known.etag, self._by(claim, until)
            ).etag
        except Refused as refused:
            # Perhaps because an earlier send of it was carried out after all.
            try:
                found = self.service.head(blob, self._by(claim, until))
                reply = self._judge(claim, found, until) if found is not None else None
            except BackendError:
                self._let_go(claim, blob, lease_id, until)
                raise
            if isinstance(reply, Granted):
                return reply
            self._let_go(claim, blob, lease_id, until)
            if refused.no == "absent":
                raise BackendUnavailable(
                    f"the blob of {claim.name!r} was deleted while it was being acquired; nothing is held"
                ) from None
            return self._held(claim, None, None)
        except BackendError:
            self._let_go(claim, blob, lease_id, until)
            raise
        self._keep(claim.nonce, record)
        return self._granted(claim, fence, known.fence, etag, known.takeover)

    def _fence(self, claim: Claim, known: _Known, now: float | None) -> int:
        """The same for every send of one claim that is for one version (L1).

        If the version is another by now, the sends before can write nothing any more, and their fence may be
        older than the one that is there.
        """
        with self._lock:
            made = self._fences.get(claim.nonce)
        if made is not None and made[1].etag == known.etag:
            return made[0]
        fence = rules.next_fence(known.fence, now)
        if fence is None:
            raise BackendMisconfigured(
                "the Blob service's answers have no Date, so that a first fence cannot be made: let the proxy "
                "between pass that header on"
            )
        with self._lock:
            _put(self._fences, claim.nonce, (fence, known), _MOST_CLAIMS)
        return fence

    def _let_go(self, claim: Claim, blob: str, lease_id: str, until: float) -> None:
        """Nothing was granted, so the lease goes back; if that cannot be confirmed, the claim is open."""
        with self._lock:
            _put(self._spent, claim.nonce, True, _MOST_CLAIMS)
        try:
            self.service.release(blob, lease_id, self._by(claim, until))
        except Refused:
            pass
        except BackendError as error:
            raise OutcomeUnknown(f"the lease of {claim.name!r} could not be given back: {error}") from None
        self._conclude(claim)

    def _is_spent(self, nonce: str) -> bool:
        """Whether its lease went back, so that it must not take it again."""
        with self._lock:
            return nonce in self._spent

    def _granted(
        self, claim: Claim, fence: int | None, previous: int | None, etag: str, takeover: Takeover | None
    ) -> Granted:
        self._conclude(claim)
        with self._lock:
            if claim.fenced:
                # The grant made another version: what is still out finds none of those that it was made for.
                self._unanswered.pop(claim.nonce, None)
            _put(self._known, claim.name, _Known(etag, fence if fence is not None else previous), MOST_KNOWN)
            until, _ = self._contended.get(claim.name, (0.0, 0))
            if until:
                self._contended[claim.name] = (until, 0)
        return Granted(Grant(claim.name, claim.nonce, fence, claim.ttl, 0), previous, takeover)

    def _held(self, claim: Claim, found: Blob | None, record: rules.Record | None) -> Held:
        now = self._env.now()
        with self._lock:
            _, looks = self._contended.get(claim.name, (0.0, 0))
            _put(self._contended, claim.name, (now + CONTENDED_FOR, looks + 1), MOST_KNOWN)
        pause = min(_FIRST_LOOK * _GROWTH ** min(looks, 20), _LAST_LOOK)
        holder = record.holder if record is not None and found is not None and not found.infinite else None
        return Held(holder, None, 0, pause)

    def renew(self, grant: Grant, sent: float, until: float) -> Gone | None:
        lease_id = lease_of(grant.nonce)
        try:
            answer = self.service.renew(blob_of(grant.name), lease_id, until)
        except Refused as refused:
            return Gone(self._why(grant, refused.no, until))
        return None if answer.lease_id == lease_id else Gone("stolen")

    def _why(self, grant: Grant, no: No, until: float) -> Literal["broken", "stolen"]:
        if no == "broken":
            return "broken"
        try:
            breaks = self.service.head(blob_of(grant.name) + _BREAKS, until)
        except (BackendError, OutcomeUnknown):
            return "stolen"
        told = rules.break_of(breaks.table) if breaks is not None else None
        return "broken" if told is not None and told.fence == grant.fence else "stolen"

    def release(self, grant: Grant, until: float) -> None:
        """An answer of any kind means that this grant does not have it any more (B.5: 404 and 409 too)."""
        self._free(grant.name, grant.nonce, until)
        with self._lock:
            self._records.pop(grant.nonce, None)

    def _free(self, name: str, nonce: str, until: float) -> None:
        blob, lease_id = blob_of(name), lease_of(nonce)
        try:
            self.service.release(blob, lease_id, until)
        except OutcomeUnknown:
            # The second answer tells what became of the first request: a refusal means that it was done.
            try:
                self.service.release(blob, lease_id, until)
            except Refused:
                return
        except Refused:
            return

    def settle(self, name: str, orphan: Orphan, until: float) -> bool:
        with self._lock:
            made_for = self._unanswered.get(orphan.nonce, ())
            self._records.pop(orphan.nonce, None)
        self._free(name, orphan.nonce, until)
        if not made_for:
            return True
        if _NOTHING in made_for:
            return False
        found = self.service.head(blob_of(name), until)
        if found is not None and any(known.etag == found.etag for known in made_for):
            # The request that is still out may yet find the version that it was made for.
            return False
        record = rules.record_of(found.table) if found is not None and found.leased else None
        if record is not None and record.grant == digest_of(lease_of(orphan.nonce)):
            # It landed, and its metadata too, since the lease went back.
            return False
        with self._lock:
            self._unanswered.pop(orphan.nonce, None)
        return True

    def leave(self, name: str, until: float) -> None:
        """There is no line."""

    def note(self, grant: Grant, text: str, until: float) -> Gone | None:
        blob, lease_id = blob_of(grant.name), lease_of(grant.nonce)
        with self._lock:
            record = self._records.get(grant.nonce)
        if record is None:
            found = self.service.head(blob, until)
            record = rules.record_of(found.table) if found is not None else None
            if record is None or record.grant != digest_of(lease_id):
                if grant.fence is not None:
                    return Gone("stolen")
                raise UsageError("a hold without a fence has no record that could carry a note: use fence=True")
        record = record._replace(note=text)
        try:
            etag = self.service.describe(blob, record.to_table(), lease_id, None, until).etag
        except Refused as refused:
            return Gone(self._why(grant, refused.no, until))
        self._keep(grant.nonce, record)
        with self._lock:
            _put(self._known, grant.name, _Known(etag, record.fence), MOST_KNOWN)
        return None

    # -- looking and operating -------------------------------------------------------------------------

    def read(self, name: str, until: float) -> View | None:
        found = self._find(name, until)
        if found is None:
            return None
        breaks = self.service.head(found.name + _BREAKS, until) if found.lease != "leased" else None
        return view_of(found, breaks, name)

    def _find(self, name: str, until: float) -> Blob | None:
        """The latch's blob, else one that another program made under the very name."""
        found = self.service.head(blob_of(name), until)
        if found is None and name != blob_of(name) and len(name) <= 1_024 and _BREAKS not in name:
            found = self.service.head(name, until)
        return found

    def doctor(self, *, apply: bool) -> list[Check]:
        """What `azlatch doctor` finds of this store."""
        from azlatch.backends.blob_doctor import examine

        return examine(self.service, self._env)

    def list(self, until: float) -> Iterator[View]:
        """In the order of ids. The time that is left bounds each page, and not all of them."""
        for found in self.service.list("", until):
            if found.name.endswith(_BREAKS):
                continue
            if rules.is_ours(found.table) or found.leased:
                yield view_of(found, None, None)

    def break_hold(
        self, name: str, fence: int | None, by: str, reason: str, *, now: bool, until: float
    ) -> Broken | None:
        found = self._find(name, until)
        if found is None or found.lease in ("available", "broken"):
            return None
        record = rules.record_of(found.table)
        present = record.fence if record is not None else None
        if fence is not None and fence != present:
            raise UsageError(
                f"{name!r} has fence {present} by now, not {fence}: look again before you break it"
            )
        table = rules.Break(present, by, reason).to_table()
        # First, so that a holder that is told no can read why; it is broken as well where another program
        # keeps that from being written.
        with contextlib.suppress(Refused):
            self.service.create(found.name + _BREAKS, table, until, replace=True)
        try:
            answer = self.service.break_lease(found.name, 0 if now else None, found.etag, until)
        except Refused as refused:
            if refused.no == "changed":
                raise UsageError(
                    f"{name!r} was granted to another meanwhile: look again before you break it"
                ) from None
            return None
        except OutcomeUnknown:
            after = self._find(name, until)
            if after is None or after.lease not in ("breaking", "broken"):
                raise
            left = record.ttl if record is not None and after.lease == "breaking" else 0.0
            return Broken(present, left)
        return Broken(present, answer.left)

    def purge(self, older_than: float, until: float) -> int:
        """Removes them one by one. The time that is left bounds each request, and not all of them."""
        removed = 0
        limit = until - self._env.now()
        for found in self.service.list("", until):
            if self._is_unused(found, older_than):
                try:
                    self.service.delete(found.name, found.etag, self._env.now() + limit)
                except Refused:
                    continue
                removed += not found.name.endswith(_BREAKS)
                with self._lock:
                    self._known.clear()
        return removed

    def _is_unused(self, found: Blob, older_than: float) -> bool:
        """Whether it is azlatch's own, free, and so old that the time alone makes a higher fence (F2).

        What was not released stays for an hour at least: the next grant says of it how it ended.
        """
        ours = rules.is_ours(found.table)
        if found.now is None or found.leased or not ours or found.size:
            return False
        age = found.now - found.modified
        record = rules.record_of(found.table)
        passed = record is None or record.fence < math.floor(found.now - PURGE_AFTER) << rules.SECOND_BITS
        least = PURGE_AFTER if found.lease == "available" else LEFT_FOR
        return age >= max(older_than, least) and passed

    # -- what is remembered ----------------------------------------------------------------------------

    def _drop(self, name: str) -> None:
        with self._lock:
            self._known.pop(name, None)

    def _keep(self, nonce: str, record: rules.Record) -> None:
        with self._lock:
            _put(self._records, nonce, record, _MOST_CLAIMS)

    def _conclude(self, claim: Claim) -> None:
        """It has no lease, or a grant."""
        with self._lock:
            self._open.pop(claim.nonce, None)

    def _sending(self, nonce: str, known: _Known) -> bool:
        """A request for a lease of this version goes out; whether no other such one may be on its way."""
        with self._lock:
            made_for = self._unanswered.get(nonce, ())
            others = tuple(each for each in made_for if each.etag != known.etag)
            _put(self._unanswered, nonce, (*others, known), _MOST_CLAIMS)
        return len(others) == len(made_for)

    def _answered(self, nonce: str, known: _Known) -> None:
        with self._lock:
            left = tuple(each for each in self._unanswered.pop(nonce, ()) if each.etag != known.etag)
            if left:
                self._unanswered[nonce] = left


V = TypeVar("V")


def blob_of(name: str) -> str:
    """The blob of a latch."""
    return store_id(name, limit=_MOST_ID)


def lease_of(nonce: str) -> str:
    """The lease id of a grant: the nonce in the form that the service gives back."""
    return str(uuid.UUID(nonce))


def digest_of(lease_id: str) -> str:
    """What the metadata say of a lease id, which is a capability and stays secret."""
    return hashlib.sha256(lease_id.encode()).hexdigest()[:32]


def view_of(found: Blob, breaks: Blob | None, name: str | None) -> View:
    """What there is to show of a blob. Its metadata may be older than its lease (L3)."""
    record = rules.record_of(found.table)
    held = found.lease in ("leased", "breaking")
    # azlatch takes no infinite lease: whoever has this one, it is not who the metadata say.
    known = record if not found.infinite else None
    told = rules.break_of(breaks.table) if breaks is not None else None
    if told is not None and told.fence != (record.fence if record is not None else None):
        told = None  # of an earlier hold
    state: Literal["held", "free", "broken", "expired"] = "free"
    if found.lease in ("breaking", "broken"):
        state = "broken"
    elif found.lease in ("leased", "expired"):
        state = "held" if held else "expired"
    return View(
        name=name or (record.name if record is not None else rules.name_in(found.table) or found.name),
        state=state,
        fence=record.fence if record is not None else None,
        holder=known.holder if known is not None and state != "free" else None,
        ttl=known.ttl if known is not None else None,
        since=known.since if known is not None and state != "free" else None,
        age=None,
        expires_in=None,
        note=known.note if known is not None else "",
        waiters=None,
        breaker=told.breaker if told is not None else "",
        reason=told.reason if told is not None else "",
        orphan="an infinite lease, which azlatch never takes" if found.infinite and held else "",
        certain=not held,
    )


def _service(container: ContainerClient, env: Env, *, owned: bool) -> BlobService:
    from azlatch.backends.blob_service import AzureBlobService

    return AzureBlobService(container, env, owned=owned)


def _put(table: OrderedDict[str, V], key: str, value: V, most: int) -> None:
    """With the lock held: remembers it, and forgets the oldest where there are too many."""
    table[key] = value
    table.move_to_end(key)
    if len(table) > most:
        table.popitem(last=False)
