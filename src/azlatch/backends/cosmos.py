"""Latches on Cosmos DB: one item a name, changed only by create, conditional replace and conditional patch.

The rules of the record are in `azlatch.core.record`; here is what they take on Cosmos DB. The compare-and-swap
is the item's ``_etag`` or a condition on its nonce, and both are evaluated where writes are made, whatever the
account's consistency is. Reads may be stale: that costs a swap that fails, and nothing else.

What the backend remembers of a name is its last version, as long as that is free: with it a grant is one
request. Without it a look comes first, and where there is no item yet, a create. A fence is made of the
service's time (F2): of the last answer's Date and the seconds since, at their slowest. The answer to the grant
has a Date too, and a fence that turns out to be older than that by more than `FRESH` is raised before anyone
hears of it. So the fences of a name rise even where the service forgot grants that it had acknowledged, in a
failover.
"""

from __future__ import annotations

import builtins
import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeVar

from azlatch.backends.cosmos_document import SLACK, beat_of, document_of, id_of, record_of, view_of
from azlatch.backends.cosmos_service import Account, Answer, CosmosService, Document
from azlatch.backends.cosmos_words import Refused
from azlatch.backends.protocol import Broken, Gone, Granted, Held, View
from azlatch.core import record as rules
from azlatch.core.acquisition import Orphan
from azlatch.core.env import Env
from azlatch.core.lease import SECOND_BITS
from azlatch.core.record import Claim, Evidence, Grant, Record, Takeover
from azlatch.core.terms import Limits, margin_of
from azlatch.errors import BackendError, BackendMisconfigured, OutcomeUnknown, UsageError

if TYPE_CHECKING:
    from azure.cosmos import CosmosClient

    from azlatch.backends.cosmos_account import CosmosAccount

logger = logging.getLogger("azlatch")

#: The most that a fence is older than the answer that granted it, seconds.
FRESH = 2.0
#: For so long after the service was heard of, its time is known well enough without asking, seconds; and how
#: much of a second on this machine's clock is a second there at the least.
MOST_SILENCE, SLOWEST = 15.0, 0.9
#: A record is not purged before the service's clocks, which differ a little, are past its fence, seconds.
PURGE_AFTER = 3.0
#: Names whose version is remembered, and claims of which is remembered what their resend needs.
MOST_KNOWN, MOST_CLAIMS = 10_000, 10_000
#: Looks at a held name: the first pause, what it grows by, and the longest, seconds.
_FIRST_LOOK, _GROWTH, _LAST_LOOK = 0.1, 1.5, 2.0
#: How often an operator's change is tried on a record that changes meanwhile.
_TRIES = 3
_PAGE = 500

_LIST = (
    "SELECT * FROM c WHERE c.azlatch = 1 AND IS_DEFINED(c.name) AND c.id > @last ORDER BY c.id "
    f"OFFSET 0 LIMIT {_PAGE}"
)
_UNUSED = (
    "SELECT c.id, c._etag, c.name FROM c WHERE c.azlatch = 1 AND c.state = 'free' AND c.fence < @fence "
    f"AND c._ts <= @before AND c.id > @last ORDER BY c.id OFFSET 0 LIMIT {_PAGE}"
)

V = TypeVar("V")


class _Known(NamedTuple):
    """A version of a name's item, and the service's time when it was seen; no record: there is no item.

    `takeover` is the rule by which it may be taken though it is not free.
    """

    record: Record | None
    etag: str
    now: float
    takeover: Takeover | None = None

    @property
    def version(self) -> int:
        return self.record.version if self.record is not None else 0

    @property
    def fence(self) -> int | None:
        return self.record.fence if self.record is not None else None


class CosmosBackend:
    """Latches in a container of an account; its partition key is /id.

    Args:
        client: a sync client. Its retries are switched off in every request of a latch.
        database: the id of the database.
        container: the id of the container.

    Raises:
        UsageError: it is an asyncio client, or its retries cannot be switched off.
    """

    kind = "cosmos"
    limits: Limits = Limits(min_ttl=1.0, max_ttl=86_400.0, requests=4)

    def __init__(self, client: CosmosClient, database: str, container: str) -> None:
        from azlatch.backends.cosmos_account import check_id
        from azlatch.backends.cosmos_client import check_client

        check_client(client)
        check_id("database", database)
        check_id("container", container)
        self._set(
            lambda env: _service(lambda: client, database, container, env, owned=False),
            rebuilt_after_fork=False,
        )

    @classmethod
    def from_connection_string(cls, connection_string: str, database: str, container: str) -> CosmosBackend:
        """The same with a client of its own.

        Raises:
            UsageError: the connection string or a name is not one.
        """
        from azlatch.backends.cosmos_account import account_of, check_id

        account = account_of(connection_string)
        return cls.in_container(account, check_id("database", database), check_id("container", container))

    @classmethod
    def in_container(cls, account: CosmosAccount, database: str, container: str) -> CosmosBackend:
        """The same in a container of an account."""
        return cls.from_service(lambda env: _service(account.client, database, container, env, owned=True))

    @classmethod
    def from_service(cls, connect: Callable[[Env], CosmosService]) -> Self:
        """The same on requests that `connect` makes when the store is opened, and again in a forked child."""
        backend = cls.__new__(cls)
        backend._set(connect, rebuilt_after_fork=True)
        return backend

    def _set(self, connect: Callable[[Env], CosmosService], *, rebuilt_after_fork: bool) -> None:
        self._connect = connect
        self._rebuilt_after_fork = rebuilt_after_fork
        self._is_parents = False
        self._service: CosmosService | None = None
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._prepared = False
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._looks: OrderedDict[str, int] = OrderedDict()
        #: Of each nonce, what a write that may still be on its way was to take.
        self._sent: OrderedDict[str, _Known] = OrderedDict()
        #: The service's time in its last answer, and this machine's when that was there.
        self._heard: tuple[float, float] | None = None

    # -- life ----------------------------------------------------------------------------------------

    def open(self, env: Env, wake: Callable[[str], None], *, create: bool, until: float) -> None:
        if self._is_parents:
            raise UsageError(
                "the client of the account was made before this process was forked, and its connections are "
                "the parent's: make a client and connect again in the child"
            )
        self._env = env
        self._service = self._connect(env)
        if create:
            self._prepare(until, create=True)

    def close(self) -> None:
        if self._service is not None:
            self._service.close()

    def forked(self) -> None:
        self._service = None
        self._is_parents = not self._rebuilt_after_fork
        self._forget()

    def _prepare(self, until: float, *, create: bool = False) -> CosmosService:
        """The requests, once it is known that the account is one that latches are safe on."""
        service = self._service
        if service is None:
            raise UsageError("the store is not open: connect first")
        if not self._prepared:
            check_account(service.prepare(until, create=create))
            self._prepared = True
        return service

    # -- grants --------------------------------------------------------------------------------------

    def acquire(self, claim: Claim, until: float) -> Granted | Held:
        self._prepare(until)
        known = self._recall(claim)
        for _ in range(2):
            if known is None:
                reply = self._look(claim, until)
                if isinstance(reply, (Granted, Held)):
                    return reply
                known = reply
            try:
                return self._take(claim, known, until)
            except Refused:
                # Another version than that one: the second round looks.
                self._drop(claim.name)
                known = None
        return self._held(claim.name, None)

    def _recall(self, claim: Claim) -> _Known | None:
        """What is remembered, if a try without a look is worth it."""
        now = self._env.now()
        with self._lock:
            known, heard = self._known.get(claim.name), self._heard
            if known is None or heard is None or claim.nonce in self._sent:
                return None
            if known.record is None or known.record.state != "free":
                return None
        date, at = heard
        silence = now - at
        return known._replace(now=date + silence * SLOWEST) if 0 <= silence <= MOST_SILENCE else None

    def _look(self, claim: Claim, until: float) -> Granted | Held | _Known:
        """Looks before a try: what to try with, or the answer already."""
        return self._judge(claim, self._read(claim.name, self._by(claim, until)), until)

    def _judge(self, claim: Claim, answer: Answer, until: float) -> Granted | Held | _Known:
        now = _service_time(answer)
        if answer.document is None:
            return _Known(None, "", now)
        record = _record(answer.document)
        if rules.is_own(record, claim.nonce):
            # An earlier send of this very claim got it, and its reply was lost (M5).
            return self._granted(claim, answer, record, until)
        known = _Known(record, answer.document["_etag"], now)
        if record.state == "free":
            return known
        if rules.watched(record, claim):
            return known._replace(takeover="observed")
        evidence, known = self._evidence(answer.document, known, self._by(claim, until))
        takeover = rules.takeover(record, claim, evidence)
        return known._replace(takeover=takeover) if takeover is not None else self._held(claim.name, record)

    def _evidence(self, document: Document, known: _Known, until: float) -> tuple[Evidence, _Known]:
        """What the clock that the service stamps this item with tells of the holder (R3).

        It is asked by a write, for only a write is stamped, and only where the answer's Date makes a result
        likely. The probe changes no word of the record, and what was read is the version that it is made on.
        """
        record, beat = known.record, beat_of(document)
        if record is None or known.now - beat <= record.ttl + SLACK:
            return rules.NO_EVIDENCE, known
        operations = [_set("quiet_since", beat), _raise("version")]
        try:
            answer = self._patch(record.name, operations, until, etag=known.etag)
        except (Refused, BackendError, OutcomeUnknown):
            return rules.NO_EVIDENCE, known
        assert answer.document is not None
        stamped = float(answer.document["_ts"])
        probed = _Known(_record(answer.document), answer.document["_etag"], _service_time(answer))
        return Evidence(age=stamped - beat - SLACK), probed

    def _take(self, claim: Claim, known: _Known, until: float) -> Granted | Held:
        """The swap: the fence rises in the write that grants (F1), and nothing is written over (R1)."""
        new = rules.granted(known.record, claim, least_fence(known.now) - 1, "", "", "")
        if known.record is None:
            # Above those of all records of the name that were purged (R5).
            new = new._replace(version=new.fence)
        alone = self._sending(claim.nonce, known)
        by = self._by(claim, until)
        try:
            if known.record is None:
                answer = self._heard_in(self._prepare(by).create(document_of(new), by))
            else:
                answer = self._heard_in(self._prepare(by).replace(document_of(new), known.etag, by))
        except OutcomeUnknown as unknown:
            return self._read_back(claim, known, str(unknown), until)
        except (Refused, BackendError):
            if alone:
                self._answered(claim.nonce)
            raise
        return self._granted(claim, answer, new, until)

    def _read_back(self, claim: Claim, known: _Known, why: str, until: float) -> Granted | Held:
        """A write without an answer: what it did is there to be read, or is not known (R5)."""
        try:
            answer = self._read(claim.name, self._by(claim, until))
        except BackendError:
            raise OutcomeUnknown(why, basis=known.version) from None
        record = _record(answer.document) if answer.document is not None else None
        if record is not None and rules.is_own(record, claim.nonce):
            return self._granted(claim, answer, record, until)
        if record is not None and rules.settled(record, known.version):
            self._answered(claim.nonce)
            return self._held(claim.name, record)
        raise OutcomeUnknown(why, basis=known.version)

    def _granted(self, claim: Claim, answer: Answer, record: Record, until: float) -> Granted | Held:
        """The grant, with a fence that is young enough (F2)."""
        now = _service_time(answer)
        if record.fence < least_fence(now - FRESH):
            lifted = self._lift(claim, record, now, until)
            if isinstance(lifted, Held):
                return lifted
            answer, record = lifted
        with self._lock:
            before = self._sent.pop(claim.nonce, None)
        self._keep(record, answer)
        grant = Grant(record.name, record.nonce, record.fence, record.ttl, record.version)
        return Granted(grant, before.fence if before else None, before.takeover if before else None)

    def _lift(self, claim: Claim, record: Record, now: float, until: float) -> tuple[Answer, Record] | Held:
        operations = [_set("fence", least_fence(now)), _raise("version")]
        condition = f"{_is_own(record.nonce)} AND c.fence = {record.fence}"
        try:
            answer = self._patch(record.name, operations, self._by(claim, until), condition=condition)
        except (BackendError, OutcomeUnknown) as error:
            # It has the name, under a fence that nobody may be told.
            raise OutcomeUnknown(
                f"the fence of {record.name!r} is open: {error}", basis=record.version
            ) from None
        except Refused:
            return self._held(claim.name, None)
        assert answer.document is not None
        return answer, _record(answer.document)

    def _held(self, name: str, record: Record | None) -> Held:
        with self._lock:
            looks = self._looks.get(name, 0)
            _put(self._looks, name, looks + 1, MOST_KNOWN)
            self._known.pop(name, None)
        pause = min(_FIRST_LOOK * _GROWTH ** min(looks, 20), _LAST_LOOK)
        if record is None or record.state == "free":
            return Held(None, None, record.version if record is not None else 0, pause)
        return Held(record.holder, record.triple, record.version, pause)

    # -- the life of a grant -----------------------------------------------------------------------------

    def renew(self, grant: Grant, sent: float, until: float) -> Gone | None:
        """A write without an answer raises the beat, or did not: the next one asks again."""
        operations = [_raise("beat"), _raise("version"), _set("quiet_since", 0)]
        return self._change(grant, operations, until)

    def note(self, grant: Grant, text: str, until: float) -> Gone | None:
        return self._change(grant, [_set("note", text), _raise("version")], until)

    def _change(self, grant: Grant, operations: builtins.list[Document], until: float) -> Gone | None:
        try:
            self._patch(grant.name, operations, until, condition=_is_own(grant.nonce), quiet=True)
        except Refused:
            return Gone(self._why(grant, until))
        return None

    def _why(self, grant: Grant, until: float) -> Literal["broken", "stolen"]:
        try:
            found = self._read(grant.name, until).document
        except BackendError:
            return "stolen"
        return rules.why_gone(record_of(found) if found is not None else None, grant.nonce)

    def release(self, grant: Grant, until: float) -> None:
        self._free(grant.name, grant.nonce, until)

    def _free(self, name: str, nonce: str, until: float) -> bool:
        """Swaps it to free under the nonce (R6), or acknowledges that it was broken (B2); whether it did.

        The condition is evaluated where writes are made, so that a replica that is behind changes nothing.
        """
        freed = [_set("state", "free"), _set("quiet_since", 0), _raise("version")]
        own = [*freed, *(_set(each, "") for each in ("note", "previous", "breaker", "reason"))]
        for operations, condition in ((own, _is_own(nonce)), (freed, _was_broken(nonce))):
            try:
                answer = self._patch(name, operations, until, condition=condition)
            except Refused as refused:
                if refused.no == "absent":
                    break
                continue
            assert answer.document is not None
            self._keep(_record(answer.document), answer)
            return True
        return False

    def settle(self, name: str, orphan: Orphan, until: float) -> bool:
        with self._lock:
            sent = self._sent.get(orphan.nonce)
        bases = [
            each for each in (orphan.basis, sent.version if sent is not None else None) if each is not None
        ]
        if not self._free(name, orphan.nonce, until) and bases:
            found = self._read(name, until).document
            record = _record(found) if found is not None else None
            if record is not None and rules.is_own(record, orphan.nonce):
                # It landed after the first of the two: the next time frees it.
                return False
            if not rules.settled(record, max(bases)):
                return False
        self._answered(orphan.nonce)
        return True

    def leave(self, name: str, until: float) -> None:
        """There is no line."""

    # -- looking and operating -------------------------------------------------------------------------

    def read(self, name: str, until: float) -> View | None:
        answer = self._read(name, until)
        if answer.document is None:
            return None
        return view_of(answer.document, _record(answer.document), answer.now)

    def list(self, until: float) -> Iterator[View]:
        """In the order of ids. The time that is left bounds each page, and not all of them."""
        for document, now in self._pages(_LIST, {}, until):
            record = record_of(document)
            if record is not None:
                yield view_of(document, record, now)

    def _pages(
        self, text: str, parameters: dict[str, object], until: float
    ) -> Iterator[tuple[Document, float | None]]:
        limit, last = until - self._env.now(), ""
        while True:
            by = self._env.now() + limit
            given = [
                {"name": f"@{name}", "value": value} for name, value in {**parameters, "last": last}.items()
            ]
            page, now = self._prepare(by).query(text, given, by)
            yield from ((document, now) for document in page)
            if len(page) < _PAGE:
                return
            last = str(page[-1]["id"])

    def break_hold(
        self, name: str, fence: int | None, by: str, reason: str, *, now: bool, until: float
    ) -> Broken | None:
        for _ in range(_TRIES):
            answer = self._read(name, until)
            record = _record(answer.document) if answer.document is not None else None
            if answer.document is None or record is None or record.state == "free":
                return None
            if fence is not None and record.fence != fence:
                raise UsageError(
                    f"{name!r} has fence {record.fence} by now, not {fence}: look again before you break it"
                )
            known = _Known(record, answer.document["_etag"], _service_time(answer))
            evidence, _ = self._evidence(answer.document, known, until)
            at_once = now or rules.aged(record, evidence)
            if record.state == "broken" and not at_once:
                passed = known.now - beat_of(answer.document)
                return Broken(record.fence, max(record.ttl + SLACK - passed, 0.0))
            new = rules.broken(
                record, nonce=self._env.nonce(), by=by, reason=reason, sent=self._env.now(), now=at_once
            )
            if self._swap_broken(record, new, until):
                return Broken(record.fence, 0.0 if at_once else record.ttl)
        raise UsageError(f"{name!r} changed hands meanwhile: look again before you break it")

    def _swap_broken(self, record: Record, new: Record, until: float) -> bool:
        """Whether it was done: on the nonce that was seen, whatever its beat is by now (B1)."""
        changed = ("nonce", "previous", "state", "breaker", "reason")
        operations = [_set(each, getattr(new, each)) for each in changed]
        operations += [_raise("beat"), _raise("version"), _set("quiet_since", 0)]
        condition = f"c.nonce = '{record.nonce}' AND c.state = '{record.state}' AND c.fence = {record.fence}"
        self._drop(record.name)
        try:
            self._patch(record.name, operations, until, condition=condition, quiet=True)
        except Refused:
            return False
        except OutcomeUnknown:
            found = self._read(record.name, until).document
            present = record_of(found) if found is not None else None
            if present is None or present.nonce != new.nonce:
                raise
        return True

    def purge(self, older_than: float, until: float) -> int:
        """Removes them one by one. The time that is left bounds each request, and not all of them."""
        removed, limit = 0, until - self._env.now()
        # An item that there is not: the answer has the service's time.
        now = _service_time(self._prepare(until).read("~", until))
        parameters: dict[str, object] = {
            "before": math.floor(now - max(older_than, PURGE_AFTER)),
            "fence": least_fence(now - PURGE_AFTER),
        }
        for document, _ in self._pages(_UNUSED, parameters, until):
            by = self._env.now() + limit
            try:
                self._prepare(by).delete(str(document["id"]), str(document["_etag"]), by)
            except Refused:
                continue
            removed += 1
            self._drop(str(document["name"]))
        return removed

    # -- requests and what is remembered -----------------------------------------------------------------

    def _read(self, name: str, until: float) -> Answer:
        return self._heard_in(self._prepare(until).read(id_of(name), until))

    def _patch(
        self,
        name: str,
        operations: builtins.list[Document],
        until: float,
        *,
        condition: str | None = None,
        etag: str | None = None,
        quiet: bool = False,
    ) -> Answer:
        if condition is not None:
            condition = f"FROM c WHERE {condition}"
        done = self._prepare(until).patch(
            id_of(name), operations, until, condition=condition, etag=etag, quiet=quiet
        )
        return self._heard_in(done)

    def _heard_in(self, answer: Answer) -> Answer:
        """Takes note of the service's time."""
        if answer.now is not None:
            with self._lock:
                self._heard = answer.now, self._env.now()
        return answer

    def _by(self, claim: Claim, until: float) -> float:
        """When a request has to be answered: each has its own bound, and all of them the caller's (T4)."""
        return min(until, self._env.now() + (claim.ttl - margin_of(claim.ttl)) / 3)

    def _keep(self, record: Record, answer: Answer) -> None:
        assert answer.document is not None
        with self._lock:
            self._looks.pop(record.name, None)
            known = _Known(record, answer.document["_etag"], 0.0)
            _put(self._known, record.name, known, MOST_KNOWN)

    def _drop(self, name: str) -> None:
        with self._lock:
            self._known.pop(name, None)

    def _sending(self, nonce: str, known: _Known) -> bool:
        """A write goes out; whether no other one of this nonce may be on its way."""
        with self._lock:
            other = self._sent.get(nonce)
            if other is None or known.version >= other.version:
                _put(self._sent, nonce, known, MOST_CLAIMS)
        return other is None

    def _answered(self, nonce: str) -> None:
        with self._lock:
            self._sent.pop(nonce, None)


def check_account(account: Account) -> None:
    """Refuses an account on which two can hold a name, and says of others when they can.

    Raises:
        BackendMisconfigured: it has several write regions.
    """
    if len(account.write_regions) > 1:
        raise BackendMisconfigured(
            f"the account takes writes in {len(account.write_regions)} regions "
            f"({', '.join(account.write_regions)}): each of them grants a name by itself, and which grant "
            "stands is decided later, so there is no latch on it. Switch multi-region writes off, or use an "
            "account with one write region for latches"
        )
    if len(account.read_regions) > 1 and account.level != "Strong":
        logger.warning(
            "azlatch: the account has %s regions with the consistency %s: a failover that was not planned can "
            "lose grants that it had acknowledged. Then two can hold a name until the deadline of the earlier "
            "one, at the most its ttl after its last renewal; fences still rise, so gates keep what they "
            "guard. With one region, or Strong consistency, nothing is lost",
            len(account.read_regions),
            account.level,
        )


def least_fence(service_time: float) -> int:
    """What no fence that is made later by the service's clock is below (F2)."""
    return math.floor(service_time) << SECOND_BITS


def _service_time(answer: Answer) -> float:
    if answer.now is None:
        raise BackendMisconfigured(
            "Cosmos DB's answers have no Date, so that a fence cannot be made: let the proxy between pass that "
            "header on"
        )
    return answer.now


def _record(document: Document) -> Record:
    record = record_of(document)
    if record is None:
        raise BackendMisconfigured(
            f"the item {str(document.get('id'))[:80]!r} is none of a latch: give latches a container of their "
            "own"
        )
    return record


def _is_own(nonce: str) -> str:
    return f"c.nonce = '{nonce}' AND c.state = 'held'"


def _was_broken(nonce: str) -> str:
    return f"c.previous = '{nonce}' AND c.state = 'broken'"


def _set(name: str, value: object) -> Document:
    return {"op": "set", "path": f"/{name}", "value": value}


def _raise(name: str) -> Document:
    return {"op": "incr", "path": f"/{name}", "value": 1}


def _service(
    client: Callable[[], CosmosClient], database: str, container: str, env: Env, *, owned: bool
) -> CosmosService:
    from azlatch.backends.cosmos_service import AzureCosmosService

    return AzureCosmosService(client, database, container, env, owned=owned)


def _put(table: OrderedDict[str, V], key: str, value: V, most: int) -> None:
    """With the lock held: remembers it, and forgets the oldest where there are too many."""
    table[key] = value
    table.move_to_end(key)
    if len(table) > most:
        table.popitem(last=False)
