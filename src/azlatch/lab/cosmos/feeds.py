"""Answers of many items: read feeds, queries and the change feed, page by page.

A page of items in the order in which they were made goes on after the last one's number; a page of anything
else goes on after a count of results. Both are told to the client as an opaque continuation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any

from azlatch.lab.cosmos import charges, errors, query_metrics, sql
from azlatch.lab.cosmos.call import Call
from azlatch.lab.cosmos.errors import ServiceError, bad_request
from azlatch.lab.cosmos.partition import PhysicalPartition
from azlatch.lab.cosmos.partition_key import PartitionKeyDefinition
from azlatch.lab.cosmos.places import Place, Places
from azlatch.lab.cosmos.query_metrics import Work
from azlatch.lab.cosmos.store import HIGHEST, LOWEST
from azlatch.lab.cosmos.transaction import Key
from azlatch.lab.cosmos.versions import History, Version, View
from azlatch.lab.cosmos.wire import Reply, encode

#: Items of a page where the client leaves it to the service, and the most bytes of one.
PAGE = 100
LARGEST_PAGE = 4 * 2**20
_MOST_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Scope:
    """Which items are meant: the physical partitions, in them a range of keys, and some or all ids.

    `keys` are the only logical partitions that can matter, None where that is not known; likewise `names`.
    """

    parts: list[PhysicalPartition]
    low: str = LOWEST
    high: str = HIGHEST
    key: Key | None = None
    keys: frozenset[str] | None = None
    names: frozenset[str] | None = None


def scope_of(call: Call, *, asked: Asked | None = None) -> Scope:
    """Reads the scope from the headers: a key, the beginning of one, a range, or everything.

    Args:
        asked: the query, which may say itself which keys it is about. Everything is refused for a query
            unless the client asked for all partitions.

    Raises:
        ServiceError: 400 as said, 410/1002 for a range that is gone.
    """
    request, store = call.request, call.store
    definition = store.resource.definition
    values = call.given_key()
    known = asked.keys(definition) if asked is not None else None
    names = asked.names() if asked is not None else None
    keys = frozenset(definition.text(each) for each in known) if known is not None else None
    if values is not None and (values or definition.system_key):
        if len(values) == len(definition.paths) or definition.system_key:
            key = Key(values, definition.text(values), definition.epk(values))
            return Scope([store.part_of(key.epk)], key=key, keys=frozenset([key.text]), names=names)
        low, high = definition.epk_range(values)
        return Scope(store.parts_in(low, high), low, high, keys=keys, names=names)
    low = request.header("x-ms-start-epk") or LOWEST
    high = request.header("x-ms-end-epk") or HIGHEST
    name = request.header("x-ms-documentdb-partitionkeyrangeid")
    if name:
        # "container rid,range id" is another spelling of it.
        part = store.part(name.rpartition(",")[2])
        return Scope([part], max(low, part.low), min(high, part.high), keys=keys, names=names)
    if (low, high) != (LOWEST, HIGHEST):
        return Scope(store.parts_in(low, high), low, high, keys=keys, names=names)
    if asked is None or request.flag("x-ms-documentdb-query-enablecrosspartition"):
        return Scope(list(store.parts), keys=keys, names=names)
    if known is not None and len(known) == 1:
        key = Key(known[0], definition.text(known[0]), definition.epk(known[0]))
        return Scope([store.part_of(key.epk)], key=key, keys=keys, names=names)
    raise errors.crosses_partitions()


@dataclass(frozen=True, slots=True)
class Asked:
    """A query with its parameters."""

    query: sql.Query
    parameters: Mapping[str, Any]

    @classmethod
    def of(cls, body: bytes) -> Asked:
        """Raises ServiceError 400 for a body that is none."""
        return cls(*sql.request_of(body))

    def keys(self, definition: PartitionKeyDefinition) -> list[tuple[Any, ...]] | None:
        """The partition keys that its results can have, None where that is not provable."""
        found = sql.key_values(self.query, definition.paths, self.parameters)
        if found is None:
            return None
        try:
            return [definition.values_of_header(encode(list(each)).decode()) for each in found]
        except (ServiceError, TypeError):
            # Values that no item has as its key: nothing is proved by them.
            return None

    def names(self) -> frozenset[str] | None:
        """The ids that its results can have, None where that is not provable."""
        return sql.point_values(self.query, "id", self.parameters)


class Rows:
    """The documents of a part of a scope, counted as they are read."""

    def __init__(self, call: Call, scope: Scope, part: PhysicalPartition, view: View, after: int = -1) -> None:
        self._call = call
        self._scope = scope
        self._part = part
        self._view = view
        self._after = after
        self.read = 0
        self.bytes = 0
        #: The number of the last one.
        self.last = after

    def versions(self) -> Iterator[Version]:
        """Those that are shown."""
        for history in self._histories():
            version = history.show(self._view)
            if version is not None and version.lives(self._call.now):
                self.read += 1
                self.bytes += len(version.body or b"")
                self.last = history.number
                yield version

    def _histories(self) -> Iterator[History]:
        """Those that come into question, in the order of their numbers."""
        scope, names = self._scope, self._scope.names
        if scope.keys is None:
            for each in self._part.scan(self._after):
                if scope.low <= each.key.epk < scope.high and (names is None or each.id in names):
                    yield each
            return
        logical = [self._part.keys[text] for text in scope.keys if text in self._part.keys]
        found: list[History] = []
        for key in logical:
            if scope.low <= key.epk < scope.high:
                if names is None:
                    found.extend(key.items.values())
                else:
                    found.extend(key.items[name] for name in names if name in key.items)
        found.sort(key=lambda each: each.number)
        yield from (each for each in found if each.number > self._after)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (each.read() for each in self.versions())


def page_size(call: Call) -> int:
    """How many results a page has at most.

    Raises:
        ServiceError: 400 for a size that is no number, or 0.
    """
    text = call.request.header("x-ms-max-item-count")
    try:
        size = int(text or -1)
    except ValueError:
        raise bad_request("The value of the header x-ms-max-item-count is not a number.") from None
    if size == 0 or size < -1:
        raise bad_request("The value of the header x-ms-max-item-count is out of range: -1, or 1 and more.")
    return PAGE if size == -1 else min(size, _MOST_PAGE)


def read_feed(call: Call) -> Reply:
    """All items of the scope, in the order in which they were made."""
    return _page(call, scope_of(call), Asked(sql.parse("SELECT * FROM c"), {}))


def query(call: Call) -> Reply:
    """The results of a query over the scope."""
    asked = Asked.of(call.request.body)
    scope = scope_of(call, asked=asked)
    one = scope.key is not None or bool(call.request.header("x-ms-documentdb-partitionkeyrangeid"))
    if not one and sql.needs_plan(asked.query):
        raise ServiceError(
            400,
            "The provided cross partition query can not be directly served by the gateway. This is a first "
            "chance (internal) exception that all newer clients will know how to handle gracefully.",
            1004,
        )
    return _page(call, scope, asked)


def plan(call: Call) -> Reply:
    """How a client runs a query over several partitions."""
    asked = Asked.of(call.request.body)
    definition = call.store.resource.definition
    features = call.request.header("x-ms-cosmos-supported-query-features")

    def range_of(values: Sequence[Any]) -> dict[str, Any]:
        low, high = definition.epk_range(
            definition.values_of_header(encode(list(values)).decode(), prefix=True)
        )
        return {"min": low, "max": high, "isMinInclusive": True, "isMaxInclusive": False}

    found = sql.plan(asked.query, definition.paths, features, parameters=asked.parameters, range_of=range_of)
    return call.reply(200, encode(found))


def _page(call: Call, scope: Scope, asked: Asked) -> Reply:
    """One page, of one physical partition: the gateway asks one after the other.

    So a page can be empty, and have a continuation all the same: clients have to go on.
    """
    streams = sql.streams(asked.query)
    places = Places.of(call.request.header("x-ms-continuation"))
    parts = [each for each in scope.parts if each.high > places.start] or scope.parts[-1:]
    if not parts:
        return _listed(call, [], [], None)
    part = parts[0]
    resumed = places.in_part(part, streams=streams)
    call.aim(part, scope.key)
    view = call.view()
    within_scope = replace(scope, low=max(scope.low, resumed.low), high=min(scope.high, resumed.high))
    rows = Rows(call, within_scope, part, view, resumed.after)
    results = sql.execute(asked.query, asked.parameters, rows, now=call.now)
    for _ in itertools.islice(results, resumed.skip):
        pass
    documents, after, within = _take(results, rows, page_size(call))
    call.pay(charges.query(1, rows.read, rows.bytes, call.level))
    following: Places | None = None
    if after is not None:
        # Not all was told: it goes on in the middle of what the last item led to.
        skip = within if streams else resumed.skip + len(documents)
        place = Place(resumed.low, resumed.high, after - 1 if streams else -1, skip)
        following = places.begin_at(resumed.low, place)
    elif resumed.high < part.high and scope.key is None:
        following = places.begin_at(resumed.high)
    elif len(parts) > 1:
        following = places.begin_at(parts[1].low)
    reply = _listed(call, documents, [str(part.token(view))], following)
    work = Work(rows.read, rows.bytes, len(documents), sum(map(len, documents)))
    _tell_work(call, scope, asked, work, reply)
    return reply


def _tell_work(call: Call, scope: Scope, asked: Asked, work: Work, reply: Reply) -> None:
    """The headers about the work, if they are asked for."""
    if call.request.flag("x-ms-documentdb-populatequerymetrics"):
        reply.headers[query_metrics.METRICS_HEADER] = query_metrics.metrics(asked.query, work)
    if call.request.flag("x-ms-cosmos-populateindexmetrics"):
        paths = call.store.resource.definition.paths if scope.key is not None else ()
        reply.headers[query_metrics.INDEX_HEADER] = query_metrics.utilization(
            asked.query, paths, call.store.indexing
        )


def _take(results: sql.Execution, rows: Rows, most: int) -> tuple[list[bytes], int | None, int]:
    """Up to `most` results as JSON; if there are more, the number of the last item and how many it led to."""
    found: list[bytes] = []
    size = 0
    last, within = rows.last, 0
    for each in results:
        if len(found) >= most or size >= LARGEST_PAGE:
            return found, last, within
        found.append(encode(each))
        size += len(found[-1])
        last, within = rows.last, results.within
    return found, None, 0


def _listed(call: Call, documents: list[bytes], tokens: list[str], following: Places | None) -> Reply:
    rid = encode(call.store.resource.rid)
    body = b'{"_rid":%b,"Documents":[%b],"_count":%d}' % (rid, b",".join(documents), len(documents))
    reply = call.reply(200, body)
    reply.headers["x-ms-session-token"] = ",".join(tokens)
    reply.headers["x-ms-item-count"] = str(len(documents))
    if following is not None:
        reply.headers["x-ms-continuation"] = str(following)
    return reply


# -- the change feed -------------------------------------------------------------------------------------


def changes(call: Call) -> Reply:
    """The items that were written after an LSN, as they are now, in the order of their LSNs.

    Only one physical partition is read: the client goes from one to the next.
    """
    if call.request.header("a-im").lower() not in ("incremental feed", "incrementalfeed"):
        raise bad_request("Only the incremental feed (the latest version of each item) is offered.")
    scope = scope_of(call)
    if not scope.parts:
        raise errors.range_gone()
    part = scope.parts[0]
    call.aim(part, scope.key)
    view = call.view()
    since, moment = _since(call, part)
    complete = part.replication.complete(view)
    until = part.head if complete is None else complete
    most = page_size(call)
    page: list[Version] = []
    size, last = 0, max(until, since)
    for each in _changed(call, scope, part, view, since):
        if each.lsn > until:
            # Something before it is on its way here still.
            break
        # What was written together is told together.
        if (len(page) >= most or size > LARGEST_PAGE) and each.lsn != page[-1].lsn:
            last = page[-1].lsn
            break
        if each.ts >= moment:
            page.append(each)
            size += len(each.body or b"")
    call.pay(charges.feed(len(page), size, call.level))
    headers_etag = f'"{last}"' if part.version == 1 else f'"{part.version}:{last}"'
    if not page:
        return call.reply(304, b"", headers_etag, view)
    documents = [encode(each.read() | {"_lsn": each.lsn}) for each in page]
    reply = _listed(call, documents, [str(part.token(view))], None)
    reply.headers["etag"] = headers_etag
    return reply


def _changed(call: Call, scope: Scope, part: PhysicalPartition, view: View, since: int) -> Iterator[Version]:
    """The items of the scope that were written after an LSN, in the order of their LSNs."""
    if scope.keys is not None:
        found = [each for each in Rows(call, scope, part, view).versions() if each.lsn > since]
        yield from sorted(found, key=lambda each: each.lsn)
        return
    for lsn, history in part.written(since):
        version = history.show(view)
        is_in = version is not None and scope.low <= history.key.epk < scope.high
        if version is not None and is_in and version.lsn == lsn and version.lives(call.now):
            yield version


def _since(call: Call, part: PhysicalPartition) -> tuple[int, int]:
    """After which LSN, and from which second on."""
    mark = call.request.header("if-none-match").strip()
    if mark == "*":
        return part.head, 0
    if mark:
        # With the version of the log, where it is not the first one.
        version, _, lsn = mark.strip('"').rpartition(":")
        if not all(each.isdecimal() and len(each) <= 18 for each in (version or "1", lsn)):
            raise bad_request("The value of the header If-None-Match is not one that the change feed gave.")
        return part.resumed(int(version or 1), int(lsn)), 0
    since = call.request.header("if-modified-since")
    if not since:
        return 0, 0
    try:
        return 0, int(parsedate_to_datetime(since).timestamp())
    except (ValueError, OverflowError, OSError):
        raise bad_request("The value of the header If-Modified-Since is not a date.") from None
