"""The connections of a fault proxy: HTTP/1.1 in and out, parsed by h11, on the proxy's own event loop.

A client's connection has at most one connection to the service, and one request at work. Bodies are passed on
piece by piece. How long an answer may take is the client's business: the proxy waits until the client
leaves, or it is closed itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import itertools
import math
import socket
import struct
import threading
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import h11

from azlatch.lab.faults import Fault, Request, Rule

if TYPE_CHECKING:
    from azlatch.lab.proxy import FaultProxy

#: How many clients may be connected; more are closed at once.
MOST_CLIENTS = 1_000
_T = TypeVar("_T")
_PIECE = 65_536
#: How large the head of a request or an answer may be, bytes.
_LARGEST_HEAD = 65_536
#: How long a connection to the service may take, seconds.
_CONNECT_WITHIN = 10.0
#: After so many idle seconds a connection to the service is not used again: the service may be about to close
#: it (Node does after 5 s), and a request that meets the close is lost.
_MOST_IDLE = 1.0
#: How long the service may take to read a piece of a body, seconds.
_READ_WITHIN = 60.0
#: How long the answer is waited for when the client has gone, seconds.
_LATE_ANSWER_WITHIN = 60.0
#: In how many pieces a second a trickle comes.
_TRICKLE_PIECES = 20
#: Belong to one connection (RFC 9110, 7.6.1), or were answered by the proxy (Expect).
_OF_A_CONNECTION = {b"connection", b"keep-alive", b"proxy-connection", b"te", b"upgrade", b"expect"}


async def serve(
    proxy: FaultProxy, listening: socket.socket, started: threading.Event, ending: asyncio.Event
) -> None:
    """Serves until `ending` is set, then closes everything."""
    loop = asyncio.get_running_loop()
    clients: set[asyncio.Task[None]] = set()
    numbers = itertools.count(1)

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gone: asyncio.Event) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(clients) >= MOST_CLIENTS:
            writer.transport.abort()
            return
        clients.add(task)
        try:
            await _Client(proxy, reader, writer, gone, next(numbers)).run()
            writer.close()
        except (OSError, h11.ProtocolError):
            writer.close()
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            clients.discard(task)

    transports: set[asyncio.BaseTransport] = set()
    server = await loop.create_server(lambda: _Protocol(client, transports), sock=listening)
    started.set()
    await ending.wait()
    server.close()
    for task in clients:
        task.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    for transport in list(transports):
        # Closed by its task, it may still have had something to send; or its task had not begun.
        assert isinstance(transport, asyncio.WriteTransport)
        transport.abort()
    # One more turn of the loop, in which the aborted connections are closed.
    await asyncio.sleep(0)


class _Protocol(asyncio.StreamReaderProtocol):
    """A stream that tells at once when the client has gone."""

    def __init__(self, serve: Any, transports: set[asyncio.BaseTransport]) -> None:
        self.gone = asyncio.Event()
        self._open = transports
        super().__init__(asyncio.StreamReader(), lambda reader, writer: serve(reader, writer, self.gone))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._mine = transport
        self._open.add(transport)
        super().connection_made(transport)

    def eof_received(self) -> bool | None:
        self.gone.set()
        return super().eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self.gone.set()
        self._open.discard(self._mine)
        super().connection_lost(error)


class _Gone(Exception):
    """The client left before it was answered."""


class _Peer:
    """One side's connection: h11's state machine and the stream."""

    def __init__(self, role: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.http = h11.Connection(role, max_incomplete_event_size=_LARGEST_HEAD)
        self.reader, self.writer = reader, writer

    async def next(self) -> Any:
        """The next event of h11."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            if self.http.they_are_waiting_for_100_continue:
                await self.write(self.http.send(h11.InformationalResponse(status_code=100, headers=[])))
            self.http.receive_data(await self.reader.read(_PIECE))
        return event

    async def write(self, data: bytes | None) -> None:
        if data:
            self.writer.write(data)
            await self.writer.drain()

    def is_done(self) -> bool:
        """Whether both messages are complete and another may follow; prepares for it."""
        if self.http.our_state is h11.DONE and self.http.their_state is h11.DONE:
            self.http.start_next_cycle()
            return True
        return False


class _Client:
    """A client's connection, from its first request to its last."""

    def __init__(
        self,
        proxy: FaultProxy,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        gone: asyncio.Event,
        number: int,
    ) -> None:
        self._proxy = proxy
        self._client = _Peer(h11.SERVER, reader, writer)
        self._gone = gone
        self._number = number
        self._service: _Peer | None = None
        self._idle_since = 0.0

    async def run(self) -> None:
        try:
            while await self._one():
                pass
        except _Gone:
            pass
        except asyncio.CancelledError:
            if self._service is not None:
                self._service.writer.transport.abort()
            raise
        except h11.RemoteProtocolError as error:
            if self._client.http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                await self._answer(Fault.status(error.error_status_hint, body=b""), "")
        finally:
            self._leave_service()

    async def _one(self) -> bool:
        """One request; whether another may follow."""
        event = await self._client.next()
        if not isinstance(event, h11.Request):
            return False
        request = _seen(event)
        number, rule = self._proxy._begin(request, self._number)
        try:
            return await self._meet(event, request, rule, number)
        finally:
            self._note(number, ended=time.monotonic())

    async def _meet(self, event: h11.Request, request: Request, rule: Rule | None, number: int) -> bool:
        """Gives a request what its rule says, or lets it pass."""
        fault = None if rule is None else rule.fault
        kind = None if fault is None else fault.kind
        if event.method == b"CONNECT":
            fault, kind = Fault.status(501, body=b""), "status"
        if fault is not None and kind == "status":
            await self._body_of_the_request(None)
            self._note(number, status=int(fault.value or 0))
            await self._answer(fault, request.method)
            return self._client.is_done()
        if kind == "reset":
            self._reset()
            return False
        if kind == "drop-request":
            await self._body_of_the_request(None)
            return False
        if fault is not None and rule is not None and kind == "black-hole":
            limit = math.inf if fault.value is None else fault.value
            released = self._proxy._release_of(rule)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if limit == math.inf else limit):
                    await self._unless_gone(released.wait())
            return False
        if fault is not None and kind == "delay":
            # Whether the client is still there does not matter: what it sent is under way.
            await asyncio.sleep(fault.value or 0.0)
        return await self._forward(event, fault, number)

    async def _forward(self, event: h11.Request, fault: Fault | None, number: int) -> bool:
        kind = None if fault is None else fault.kind
        try:
            service = await self._reach_service()
        except OSError:
            # Nobody there: what comes closest to a refused connection.
            self._reset()
            return False
        try:
            # A service that has enough may answer and close before it has read everything.
            with contextlib.suppress(ConnectionError):
                await service.write(service.http.send(_forwardable(event, self._proxy.target)))
                await self._body_of_the_request(service)
                self._note(number, forwarded=True)
            reply = await self._reply(service, is_late=kind == "delay")
        except (OSError, h11.ProtocolError):
            return False
        if reply is None:
            return False
        self._note(number, service_status=reply.status_code)
        if kind == "drop-reply" or self._gone.is_set():
            async with asyncio.timeout(_LATE_ANSWER_WITHIN):
                while not isinstance(await service.next(), (h11.EndOfMessage, h11.ConnectionClosed)):
                    pass
            return False
        if fault is not None and kind == "delay-reply":
            await self._unless_gone(asyncio.sleep(fault.value or 0.0))
        return await self._pass_on(service, reply, fault, number)

    async def _pass_on(self, service: _Peer, reply: h11.Response, fault: Fault | None, number: int) -> bool:
        """The answer, to the client; whether another request may follow."""
        kind, value = (None, 0.0) if fault is None else (fault.kind, fault.value or 0.0)
        head = self._client.http.send(
            h11.Response(status_code=reply.status_code, reason=reply.reason, headers=_kept(reply))
        )
        assert head is not None
        if kind == "partial":
            await self._client.write(head[: int(value)])
            return False
        self._note(number, status=reply.status_code)
        rate = value if kind == "trickle" else None
        left = value if kind == "truncate" else math.inf
        await self._send(head, rate)
        while isinstance(event := await self._unless_gone(service.next()), h11.Data):
            if len(event.data) > left:
                await self._send(self._client.http.send(h11.Data(data=bytes(event.data)[: int(left)])), rate)
                return False
            left -= len(event.data)
            await self._send(self._client.http.send(h11.Data(data=event.data)), rate)
        if not isinstance(event, h11.EndOfMessage) or kind == "truncate":
            return False
        # Before the client can know that it may send another.
        if service.is_done():
            self._idle_since = time.monotonic()
        else:
            self._leave_service()
        await self._send(self._client.http.send(h11.EndOfMessage()), rate)
        return self._client.is_done()

    async def _answer(self, fault: Fault, method: str) -> None:
        """An answer of the proxy's own."""
        status = int(fault.value or 0)
        body = b"" if method == "HEAD" or status in (204, 304) else fault.body
        headers = [*fault.headers]
        if not any(name.lower() == "content-length" for name, _ in headers):
            headers.append(("content-length", str(len(body))))
        client = self._client.http
        reply = client.send(h11.Response(status_code=status, reason=_reason(status), headers=headers)) or b""
        reply += client.send(h11.Data(data=body)) or b""
        await self._client.write(reply + (client.send(h11.EndOfMessage()) or b""))

    async def _body_of_the_request(self, service: _Peer | None) -> None:
        """Passes the body on, piece by piece, or reads it and drops it."""
        while not isinstance(event := await self._client.next(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                raise _Gone
            if service is not None:
                async with asyncio.timeout(_READ_WITHIN):
                    await service.write(service.http.send(h11.Data(data=event.data)))
        if service is not None:
            await service.write(service.http.send(h11.EndOfMessage()))

    async def _reply(self, service: _Peer, *, is_late: bool) -> h11.Response | None:
        """The head of the answer, or None if the service closed without one."""

        async def head() -> h11.Response | None:
            while isinstance(event := await service.next(), h11.InformationalResponse):
                pass
            return event if isinstance(event, h11.Response) else None

        if not is_late:
            return await self._unless_gone(head())
        async with asyncio.timeout(_LATE_ANSWER_WITHIN):
            return await head()

    async def _reach_service(self) -> _Peer:
        service = self._service
        if service is not None and (
            service.reader.at_eof() or time.monotonic() - self._idle_since > _MOST_IDLE
        ):
            self._leave_service()
            service = None
        if service is None:
            async with asyncio.timeout(_CONNECT_WITHIN):
                reader, writer = await asyncio.open_connection(*self._proxy.target)
            self._service = service = _Peer(h11.CLIENT, reader, writer)
        return service

    def _leave_service(self) -> None:
        service, self._service = self._service, None
        if service is not None:
            service.writer.close()

    async def _unless_gone(self, work: Coroutine[Any, Any, _T]) -> _T:
        """What the work gives; raises _Gone, and cancels it, as soon as the client has left."""
        working = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise _Gone
            return working.result()
        finally:
            for task in (working, leaving):
                task.cancel()

    async def _send(self, data: bytes | None, rate: float | None) -> None:
        """To the client, at `rate` bytes a second."""
        if not data or rate is None:
            await self._client.write(data)
            return
        size = max(1, int(rate / _TRICKLE_PIECES))
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            await self._client.write(piece)
            await self._unless_gone(asyncio.sleep(len(piece) / rate))

    def _reset(self) -> None:
        """RST instead of a close that says goodbye."""
        writer = self._client.writer
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    def _note(self, number: int, **facts: object) -> None:
        self._proxy._traffic.note(number, **facts)


def _reason(status: int) -> bytes:
    try:
        return http.HTTPStatus(status).phrase.encode("ascii")
    except ValueError:
        return b"Injected"


def _seen(event: h11.Request) -> Request:
    headers: dict[str, str] = {}
    for name, value in event.headers:
        text = name.decode("ascii")
        # A header that is there more than once is one list (RFC 9110, 5.3).
        headers[text] = (
            f"{headers[text]}, {value.decode('latin-1')}" if text in headers else value.decode("latin-1")
        )
    return Request(event.method.decode("ascii"), event.target.decode("latin-1"), headers)


def _forwardable(event: h11.Request, target: tuple[str, int]) -> h11.Request:
    headers = _kept(event)
    if not any(name.lower() == b"host" for name, _ in headers):
        headers.insert(0, (b"Host", f"{target[0]}:{target[1]}".encode("ascii")))
    return h11.Request(method=event.method, target=event.target, headers=headers)


def _kept(event: h11.Request | h11.Response) -> list[tuple[bytes, bytes]]:
    """The headers as they were written, without those of the connection."""
    named = {
        each.strip().lower()
        for name, value in event.headers
        if name == b"connection"
        for each in value.split(b",")
    }
    dropped = _OF_A_CONNECTION | named
    return [(name, value) for name, value in event.headers.raw_items() if name.lower() not in dropped]
