"""What went through a fault proxy: a bounded log, and counters that are not bounded by it."""

from __future__ import annotations

import re
import threading
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from azlatch.lab.faults import LEASE_ACTION, Kind, Request

#: How many requests the log keeps.
MOST_REQUESTS = 10_000
#: What the log keeps of a request's headers; no credential is among them.
KEPT_HEADERS = frozenset(
    {
        "content-length",
        "content-type",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-unmodified-since",
        "range",
        "x-ms-blob-type",
        "x-ms-client-request-id",
        "x-ms-lease-action",
        "x-ms-lease-break-period",
        "x-ms-lease-duration",
        "x-ms-lease-id",
        "x-ms-proposed-lease-id",
        "x-ms-version",
    }
)
_SIGNATURE = re.compile(r"(?<![^&?])(sig=)[^&]*", re.IGNORECASE)


@dataclass(frozen=True)
class Exchange:
    """One request, and what became of it.

    Attributes:
        number: 1 for the first since the proxy was made.
        method, path: as the client sent them.
        query: without the signature of a shared access token.
        headers: those of KEPT_HEADERS, in lower case.
        connection: which of the client's connections it came on, from 1.
        fault: what the proxy did to it, or None.
        forwarded: whether the service got the whole request.
        service_status: what the service answered, or None.
        status: what the client was answered, or None: nothing, or not yet.
        began, ended: seconds on the monotonic clock; `ended` is None as long as it is at work.
    """

    number: int
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    connection: int
    began: float
    fault: Kind | None = None
    forwarded: bool = False
    service_status: int | None = None
    status: int | None = None
    ended: float | None = None

    @property
    def action(self) -> str | None:
        """The lease operation: acquire, renew, change, release, break, or None."""
        return self.headers.get(LEASE_ACTION)


_Key = tuple[str, str | None, int | None, Kind | None]


@dataclass
class Traffic:
    """The log and the counters of one proxy; safe to use from any thread."""

    _kept: dict[int, Exchange] = field(default_factory=dict)
    _order: deque[int] = field(default_factory=deque)
    _counts: Counter[_Key] = field(default_factory=Counter)
    _open: dict[int, Exchange] = field(default_factory=dict)
    _number: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, request: Request, connection: int, now: float, fault: Kind | None) -> int:
        """Notes a request and returns its number."""
        path, _, query = request.target.partition("?")
        kept = {name: value for name, value in request.headers.items() if name in KEPT_HEADERS}
        with self._lock:
            self._number += 1
            query = _SIGNATURE.sub(r"\1REDACTED", query)
            self._open[self._number] = exchange = Exchange(
                self._number, request.method, path, query, kept, connection, now, fault
            )
            self._counts[_key(exchange)] += 1
            self._keep(exchange)
            return self._number

    def note(self, number: int, **facts: object) -> None:
        """Adds to what is known of a request that is at work; said before the client can know it."""
        with self._lock:
            exchange = self._open.get(number)
            if exchange is None:
                return
            changed = replace(exchange, **facts)  # type: ignore[arg-type]  # the fields of Exchange
            if _key(exchange) != _key(changed):
                self._counts[_key(exchange)] -= 1
                self._counts[_key(changed)] += 1
            if number in self._kept:
                self._kept[number] = changed
            if changed.ended is None:
                self._open[number] = changed
            else:
                del self._open[number]

    def all(self) -> list[Exchange]:
        """The newest MOST_REQUESTS requests, oldest first."""
        with self._lock:
            return [self._kept[number] for number in self._order]

    def count(self, method: str | None, action: str | None, status: int | None, fault: str | None) -> int:
        """How many requests there were; None is any."""
        with self._lock:
            return sum(
                count
                for (its_method, its_action, its_status, its_fault), count in self._counts.items()
                if (method is None or method.upper() == its_method)
                and (action is None or action == its_action)
                and (status is None or status == its_status)
                and (fault is None or fault == its_fault)
            )

    def reset(self) -> None:
        """Forgets all; a request that is at work is forgotten too."""
        with self._lock:
            self._kept.clear()
            self._order.clear()
            self._counts.clear()
            self._open.clear()

    def _keep(self, exchange: Exchange) -> None:
        if len(self._order) == MOST_REQUESTS:
            del self._kept[self._order.popleft()]
        self._order.append(exchange.number)
        self._kept[exchange.number] = exchange


def _key(exchange: Exchange) -> _Key:
    return exchange.method, exchange.action, exchange.status, exchange.fault
