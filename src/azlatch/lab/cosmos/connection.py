"""One client's connection: HTTP/1.1 in, requests to the engine one after the other, their replies out.

Requests that come before the reply to an earlier one (pipelining) wait for their turn: nothing is answered out
of order. Whatever comes in, the worst that happens is that this connection is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import httptools

from azlatch.lab.cosmos.errors import ServiceError, bad_request, too_large
from azlatch.lab.cosmos.reply_head import QUERY_HEADER, activity_of, refusal
from azlatch.lab.cosmos.wire import Reply, Request

if TYPE_CHECKING:
    from azlatch.lab.cosmos.server import LabServer

log = logging.getLogger("azlatch.lab.cosmos")

#: Requests that may wait for their turn before reading stops, and how many are answered in one go before
#: other connections have theirs.
_MOST_WAITING, _AT_ONCE = 64, 32
#: How long a client that is refused is listened to still, seconds.
_LAST_WORDS_S = 2.0
#: SO_LINGER with 0 seconds: closing then resets the connection.
_LINGER = struct.pack("ii", 1, 0)


class Connection(asyncio.Protocol):
    """The protocol of one connection; httptools calls the `on_` methods while it is fed."""

    def __init__(self, server: LabServer, region: str) -> None:
        self._server = server
        self._limits = server.limits
        self._region = region
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[tuple[Request, str, bool]] = deque()
        self._error: ServiceError | None = None
        self._ends = False  # No further request is read.
        self._is_full = False  # The client does not read what was written.
        self._reads = True
        self._turn: asyncio.Handle | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._held: tuple[Reply, Request, str, bool] | None = None
        self._hold_ends = 0.0
        self._is_delayed = False
        self._in_message = False
        self._expects = False
        self._is_refused = False
        self._begin_message()

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._deadline = self._server.loop_time() + self._limits.idle_s
        if len(self._server.connections) >= self._limits.connections:
            self._ends = True
            transport.abort()
            return
        self._server.connections.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        self._server.connections.discard(self)
        self._transport = None
        self._waiting.clear()
        self._held = None
        for each in (self._turn, self._alarm):
            if each is not None:
                each.cancel()

    def data_received(self, data: bytes) -> None:
        if self._ends:
            return
        if not self._in_message:
            self._deadline = self._server.loop_time() + self._limits.message_s
        began_before = self._in_head
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # It may ask for another protocol; it gets this one, once.
            self._ends = True
        except httptools.HttpParserError:
            self._error = self._error or bad_request("The request is not valid HTTP.")
        if self._in_head and began_before:
            self._head_fed += len(data)
            self._count_head(0)
        if self._error is not None:
            self._ends = True
        self._serve()

    def eof_received(self) -> bool:
        # What was asked before the client stopped sending is answered still; TLS cannot be closed by halves.
        self._ends = True
        if self._transport is None:
            return False
        if not self._waiting and self._held is None:
            self._transport.close()
        return self._transport.can_write_eof() and not self._transport.is_closing()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._serve()

    def sweep(self, now: float) -> None:
        """Closes it if its time is over: idle, or a request or reply that does not get on."""
        if self._transport is not None and self._held is None and now > self._deadline:
            self._transport.abort()

    def close(self) -> None:
        """Ends it at once."""
        self._ends = True
        if self._transport is not None:
            self._transport.abort()

    # The parser's side.

    def on_message_begin(self) -> None:
        self._begin_message()
        self._in_message = True
        self._in_head = True

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        # Called twenty times a request, so it calls as little as it can.
        self._head_parsed += len(name) + len(value) + 4
        if self._head_parsed > self._limits.head:
            self._count_head(0)
            return
        key, text, headers = _name(name), _text(value), self._headers
        headers[key] = f"{headers[key]},{text}" if key in headers else text

    def on_headers_complete(self) -> None:
        self._in_head = False
        length = self._headers.get("content-length", "")
        if length.isdecimal() and (len(length) > 12 or int(length) > self._limits.body):
            self._refuse_body()
        elif self._headers.get("expect", "").lower() == "100-continue" and self._error is None:
            self._expects = True
            self._invite()

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > self._limits.body:
            self._refuse_body()
        if self._error is None:
            self._body.append(body)

    def on_message_complete(self) -> None:
        self._in_message = self._expects = False
        if self._error is not None or self._ends:
            return
        keep = bool(self._parser.should_keep_alive())
        method = self._parser.get_method().decode("latin-1")
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        target, _, query = self._url.partition(b"?")
        if query or QUERY_HEADER in self._headers:
            self._headers[QUERY_HEADER] = _text(query)
        server = self._server
        region = server.region_of(self._headers.get("host", "")) if server.hosts else self._region
        request = Request(method, _path(target), self._headers, body, region)
        self._waiting.append((request, activity_of(self._headers), keep))
        if not keep:
            self._ends = True

    def _begin_message(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        # Two lower bounds of the head's size: what was parsed of it, and what came while it was incomplete.
        self._size = self._head_parsed = self._head_fed = 0
        self._in_head = False

    def _count_head(self, size: int) -> None:
        self._head_parsed += size
        if max(self._head_parsed, self._head_fed) > self._limits.head and self._error is None:
            self._error = ServiceError(431, "The headers of the request are too large.")
            self._headers = {}

    def _refuse_body(self) -> None:
        self._body = []
        self._error = self._error or too_large("The request body is too large.")

    def _invite(self) -> None:
        """Says that the body may come, once everything before it is answered."""
        if self._expects and not self._waiting and self._held is None and self._transport is not None:
            self._expects = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # The engine's side.

    def _serve(self) -> None:
        """Answers what waits, until there is nothing more, or something has to be waited for."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        left = _AT_ONCE
        while self._waiting and self._held is None and not self._is_full and self._transport is not None:
            if left == 0:
                self._turn = self._server.soon(self._serve)
                break
            left -= 1
            request, activity, keep = self._waiting.popleft()
            self._settle(self._server.answer(request, activity), request, activity, keep)
        self._after_serving()

    def _after_serving(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        is_done = not self._waiting and self._held is None
        if self._is_refused:
            return
        if is_done and self._error is not None:
            reply = refusal(self._error, activity_of({}))
            self._error = None
            self._refuse(transport, reply)
            return
        if is_done and self._ends and not self._is_full:
            transport.close()
            return
        self._invite()
        # While a reply is held it reads on, within bounds: that is how it sees that the client left.
        bodies = sum(len(each[0].body) for each in self._waiting)
        reads = len(self._waiting) < _MOST_WAITING and bodies < self._limits.body and not self._is_full
        if reads != self._reads and not self._ends:
            self._reads = reads
            (transport.resume_reading if reads else transport.pause_reading)()

    def _settle(self, reply: Reply, request: Request, activity: str, keep: bool) -> None:
        """Sends a reply, or holds it until its time has come."""
        if reply.ready_at is None and reply.delay <= 0:
            self._send(reply, request, activity, keep=keep)
            return
        self._held = (reply, request, activity, keep)
        self._hold_ends = self._server.loop_time() + self._limits.held_s
        self.look()

    def look(self) -> None:
        """Looks again whether the time of a held reply has come; after `held_s` real seconds it has."""
        if self._held is None or self._is_delayed:
            return
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        reply = self._held[0]
        left = 0.0 if reply.ready_at is None else self._server.clock.seconds_until(reply.ready_at)
        left = min(left, self._hold_ends - self._server.loop_time())
        if left > 0:
            self._alarm = self._server.later(left, self.look)
        elif reply.delay > 0:
            # The lab's clock is done with; what is left are real seconds.
            self._is_delayed = True
            self._alarm = self._server.later(min(reply.delay, self._limits.delay_s), self._release)
        else:
            self._release()

    def _release(self) -> None:
        if self._held is not None:
            held, self._held, self._alarm, self._is_delayed = self._held, None, None, False
            reply, request, activity, keep = held
            self._send(reply, request, activity, keep=keep)
            self._turn = self._server.soon(self._serve)

    def _send(self, reply: Reply, request: Request, activity: str, *, keep: bool) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._deadline = self._server.loop_time() + self._limits.idle_s
        if reply.fate == "reset":
            self._reset(transport)
            return
        if reply.fate == "drop":
            self._end(transport)
            return
        if reply.status < 300:
            host = request.headers.get("host", "")
            reply.headers["content-location"] = f"{self._server.scheme}://{host}{request.path}"
        head, body = self._server.heads.render(
            reply, request.method, activity, self._server.clock.now(), keep=keep
        )
        if reply.fate == "truncate":
            # Where there is no body, the head ends in the middle: a whole reply would not be cut.
            transport.write(head + body[: len(body) // 2] if body else head[: len(head) // 2])
            self._end(transport)
            return
        transport.write(head + body if body else head)
        if not keep:
            self._end(transport)

    def _refuse(self, transport: asyncio.Transport, reply: Reply) -> None:
        """Sends the last reply, and for a while reads on: closing with bytes unread would reset the connection,
        and the client might never see the reply."""
        head, body = self._server.heads.render(reply, "", "", self._server.clock.now(), keep=False)
        transport.write(head + body)
        self._waiting.clear()
        if not transport.can_write_eof():
            transport.close()
            return
        transport.write_eof()
        if not self._reads:
            self._reads = True
            transport.resume_reading()
        self._is_refused = True
        self._alarm = self._server.later(_LAST_WORDS_S, transport.abort)

    def _end(self, transport: asyncio.Transport) -> None:
        self._ends = True
        self._waiting.clear()
        transport.close()

    def _reset(self, transport: asyncio.Transport) -> None:
        """RST instead of a close that says goodbye."""
        self._ends = True
        self._waiting.clear()
        raw: Any = transport.get_extra_info("socket")
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        transport.abort()


@lru_cache(maxsize=256)
def _name(name: bytes) -> str:
    """A header's name in lower case; clients send the same ones again and again."""
    return name.decode("latin-1").lower()


def _text(value: bytes) -> str:
    """A header's value: UTF-8, or else Latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _path(target: bytes) -> str:
    """The path of a request's target, as it was sent."""
    path = _text(target)
    if path.startswith("/") or "://" not in path:
        return path
    # A client that takes this for a proxy sends the whole URL (RFC 9112, 3.2.2).
    return "/" + path.split("://", 1)[1].partition("/")[2]
