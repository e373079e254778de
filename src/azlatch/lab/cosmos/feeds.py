"""Answers of many items: read feeds, queries and the change feed, page by page.

A page of items in the order in which they were made goes on after the last one's number; a page of anything
else goes on after a count of results. Both are told to the client as an opaque continuation.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from azlatch.lab.cosmos import charges, errors
from azlatch.lab.cosmos.call import Call
from azlatch.lab.cosmos.effective_key import HIGHEST, LOWEST
from azlatch.lab.cosmos.errors import ServiceError, bad_request
from azlatch.lab.cosmos.partition import PhysicalPartition
from azlatch.lab.cosmos.transaction import Key
from azlatch.lab.cosmos.versions import Version, View
from azlatch.lab.cosmos.wire import Reply, decode, encode

#: Items of a page where the client leaves it to the service, and the most bytes of one.
PAGE = 100
LARGEST_PAGE = 4 * 2**20
_MOST_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Scope:
    """Which items are meant: the physical partitions, and in them a range of keys or a single one."""

    parts: list[PhysicalPartition]
    low: str = LOWEST
    high: str = HIGHEST
    key: Key | None = None

    def has(self, text: str, epk: str) -> bool:
        """Whether the items of a logical partition are meant."""
        return text == self.key.text if self.key is not None else self.low <= epk < self.high


def scope_of(call: Call, *, needs_one: bool) -> Scope:
    """Reads the scope from the headers: a key, the beginning of one, a range, or everything.

    Args:
        needs_one: everything is refused unless the client asked for all partitions.

    Raises:
        ServiceError: 400 as said, 410/1002 for a range that is gone.
    """
    request, store = call.request, call.store
    values = call.given_key()
    if values:
        definition = store.resource.definition
        if len(values) == len(definition.paths):
            key = Key(values, definition.text(values), definition.epk(values))
            return Scope([store.part_of(key.epk)], key=key)
        low, high = definition.prefix_range(values)
        return Scope(store.parts_in(low, high), low, high)
    low = request.header("x-ms-start-epk") or LOWEST
    high = request.header("x-ms-end-epk") or HIGHEST
    name = request.header("x-ms-documentdb-partitionkeyrangeid")
    if name:
        # "container rid,range id" is another spelling of it.
        part = store.part(name.rpartition(",")[2])
        return Scope([part], max(low, part.low), min(high, part.high))
    if (low, high) != (LOWEST, HIGHEST):
        return Scope(store.parts_in(low, high), low, high)
    if needs_one and len(store.parts) > 0 and not request.flag("x-ms-documentdb-query-enablecrosspartition"):
        raise bad_request(
            "Cross partition query is required but disabled. Please set "
            "x-ms-documentdb-query-enablecrosspartition to true, specify x-ms-documentdb-partitionkey, or "
            "revise your query to avoid this exception."
        )
    return Scope(list(store.parts))


#: Makes the results of a page of its rows; the second is how many of them were told before.
Results = Callable[["Rows", int], Iterable[Any]]


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
        #: The number of the last one that was read, and of the last one that a page has.
        self.last = after
        self.mark = after

    def versions(self) -> Iterator[Version]:
        """Those that are shown."""
        key = self._scope.key
        histories: Iterable[Any]
        if key is not None:
            logical = self._part.keys.get(key.text)
            found = logical.items.values() if logical is not None else ()
            histories = sorted((h for h in found if h.number > self._after), key=lambda h: h.number)
        else:
            histories = self._part.scan(self._after)
        for history in histories:
            if key is None and not self._scope.has(history.key.text, history.key.epk):
                continue
            version = history.show(self._view)
            if version is not None and version.lives(self._call.now):
                self.read += 1
                self.bytes += len(version.body or b"")
                self.last = history.number
                yield version

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (each.document for each in self.versions())


@dataclass(slots=True)
class Place:
    """Where a page goes on: in which part (by its lowest key), after which item or how many results."""

    low: str = LOWEST
    after: int = -1
    skip: int = 0

    @classmethod
    def of(cls, text: str) -> Place:
        """Raises ServiceError 400 for a continuation that is none of ours."""
        if not text:
            return cls()
        try:
            low, after, skip = decode(base64.urlsafe_b64decode(text.encode()))
            return cls(str(low), int(after), int(skip))
        except (ValueError, TypeError):
            raise bad_request("The continuation is not valid for this request.") from None

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(encode([self.low, self.after, self.skip])).decode()


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
    scope = scope_of(call, needs_one=False)
    return _page(call, scope, lambda rows, _: rows, streams=True)


def query(call: Call) -> Reply:
    """The results of a query over the scope."""
    from azlatch.lab.cosmos import sql

    asked, parameters = sql.request_of(call.request.body)
    scope = scope_of(call, needs_one=True)
    one = scope.key is not None or bool(call.request.header("x-ms-documentdb-partitionkeyrangeid"))
    if not one and sql.needs_plan(asked):
        raise ServiceError(
            400,
            "The provided cross partition query can not be directly served by the gateway. This is a first "
            "chance (internal) exception that all newer clients will know how to handle gracefully.",
            1004,
        )

    def results(rows: Rows, skip: int) -> Iterator[Any]:
        return itertools.islice(sql.execute(asked, parameters, rows), skip, None)

    return _page(call, scope, results, streams=sql.streams(asked))


def plan(call: Call) -> Reply:
    """How a client runs a query over several partitions."""
    from azlatch.lab.cosmos import sql

    asked, _ = sql.request_of(call.request.body)
    features = call.request.header("x-ms-cosmos-supported-query-features")
    found = sql.plan(asked, call.store.resource.definition.paths, features)
    return call.reply(200, encode(found))


def _page(call: Call, scope: Scope, results: Results, *, streams: bool) -> Reply:
    """One page: of one physical partition after the other as long as there is room in it."""
    most = page_size(call)
    place = Place.of(call.request.header("x-ms-continuation"))
    parts = [each for each in scope.parts if each.high > place.low] or scope.parts[-1:]
    documents: list[Any] = []
    tokens: list[str] = []
    following: Place | None = None
    for part in parts:
        if len(documents) >= most:
            following = Place(part.low)
            break
        resumed = place if part.low <= place.low < part.high else Place(part.low)
        call.aim(part, scope.key)
        view = call.view()
        rows = Rows(call, scope, part, view, resumed.after if streams else -1)
        room = most - len(documents)
        found, after = _take(iter(results(rows, 0 if streams else resumed.skip)), rows, room)
        documents += found
        call.pay(charges.query(rows.read, rows.bytes, len(found)))
        tokens.append(str(part.token(view)))
        if after is not None:
            skip = resumed.skip + len(found)
            following = Place(resumed.low, after) if streams else Place(resumed.low, -1, skip)
            break
    return _listed(call, documents, tokens, following)


def _take(results: Iterator[Any], rows: Rows, most: int) -> tuple[list[Any], int | None]:
    """Up to `most` results; and the number of the last item of them, if there are more."""
    found: list[Any] = []
    for each in results:
        if len(found) >= most or (found and rows.bytes > LARGEST_PAGE):
            return found, rows.mark
        found.append(each)
        rows.mark = rows.last
    return found, None


def _listed(call: Call, documents: list[Any], tokens: list[str], following: Place | None) -> Reply:
    body = {"_rid": call.store.resource.rid, "Documents": documents, "_count": len(documents)}
    reply = call.reply(200, encode(body))
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
    scope = scope_of(call, needs_one=False)
    if not scope.parts:
        raise errors.range_gone()
    part = scope.parts[0]
    call.aim(part, scope.key)
    view = call.view()
    since, moment = _since(call, part)
    rows = Rows(call, scope, part, view)
    changed = [each for each in rows.versions() if each.lsn > since and each.ts >= moment]
    changed.sort(key=lambda each: each.lsn)
    most = page_size(call)
    page = changed[:most]
    # What was written together is told together.
    page += [each for each in changed[most:] if page and each.lsn == page[-1].lsn]
    call.pay(charges.query(len(page), sum(len(each.body or b"") for each in page), len(page)))
    seen = part.token(view).global_lsn
    last = page[-1].lsn if len(page) < len(changed) else max(seen, since)
    headers_etag = f'"{last}"'
    if not page:
        return call.reply(304, b"", headers_etag, view)
    documents = [each.document | {"_lsn": each.lsn} for each in page]
    reply = _listed(call, documents, [str(part.token(view))], None)
    reply.headers["etag"] = headers_etag
    return reply


def _since(call: Call, part: PhysicalPartition) -> tuple[int, int]:
    """After which LSN, and from which second on."""
    mark = call.request.header("if-none-match").strip()
    if mark == "*":
        return part.head, 0
    if mark:
        text = mark.strip('"')
        if not text.isdecimal() or len(text) > 18:
            raise bad_request("The value of the header If-None-Match is not one that the change feed gave.")
        return int(text), 0
    since = call.request.header("if-modified-since")
    if not since:
        return 0, 0
    try:
        return 0, int(parsedate_to_datetime(since).timestamp())
    except ValueError:
        raise bad_request("The value of the header If-Modified-Since is not a date.") from None
