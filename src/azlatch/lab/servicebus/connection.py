"""One connection of a client: frames in, frames out, and the links between a client and the queues."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable
from typing import Any, cast

from azlatch.lab.servicebus import management
from azlatch.lab.servicebus.broker import Broker
from azlatch.lab.servicebus.codec import (
    Array,
    CodecError,
    Described,
    Reader,
    Symbol,
    UByte,
    UInt,
    ULong,
    UShort,
    decode,
    frame,
    performative,
)
from azlatch.lab.servicebus.link import Link
from azlatch.lab.servicebus.message import Message, batch, parse
from azlatch.lab.servicebus.queue import VENDOR, Act, BrokerError

MAX_FRAME, MAX_MESSAGE, MAX_LINKS, WINDOW, CREDIT = 65_536, 1_048_576, 255, 65_535, 1_000
_SASL, _AMQP = b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x01\x00\x00"
_OPEN, _BEGIN, _ATTACH, _FLOW, _TRANSFER, _DISPOSITION, _DETACH, _END, _CLOSE = range(0x10, 0x19)
_ACCEPTED, _REJECTED, _RELEASED, _MODIFIED = range(0x24, 0x28)
_BATCH = 0x80013700
_FILTER = VENDOR + "session-filter"
_TICKS_OF_1970 = 621_355_968_000_000_000
_PATIENCE_S = 60.0
log = logging.getLogger("azlatch.lab.servicebus")


class Connection(asyncio.Protocol):
    """Speaks AMQP 1.0 with one client. What is no AMQP ends it, with the reason in its last frame."""

    def __init__(self, broker: Broker, connections: set[Connection]) -> None:
        self._broker = broker
        self._all = connections
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._max_frame = 512
        self._links: dict[tuple[int, int], Link] = {}
        self._windows: dict[int, int] = {}
        self._sent: dict[int, int] = {}
        self._received: dict[int, int] = {}
        self._is_open = False

    # The socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._all.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        self._all.discard(self)
        for link in list(self._links.values()):
            self._forget(link)
        self._transport = None
        self._broker.changed()

    def abort(self) -> None:
        """Drops the connection without a word."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        try:
            while self._transport is not None and self._one():
                pass
        except (CodecError, TypeError, ValueError, IndexError, AttributeError, KeyError) as error:
            log.info("a client is cut off: %r", error)
            self._send(0, _CLOSE, [_error("amqp:decode-error", str(error)[:200])])
            if self._transport is not None:
                self._transport.close()
                self._transport = None
        self._broker.changed()

    def _one(self) -> bool:
        """Handles what is first in the buffer, if it is whole."""
        if len(self._buffer) < 8:
            return False
        if self._buffer[:4] == b"AMQP":
            header = bytes(self._buffer[:8])
            del self._buffer[:8]
            if header not in (_SASL, _AMQP):
                raise CodecError("this is no AMQP 1.0")
            self._write(header)
            if header == _SASL:
                self._write(frame(0, performative(0x40, [Array([Symbol("ANONYMOUS")])]), 1))
            return True
        size, offset, kind, channel = struct.unpack(">IBBH", self._buffer[:8])
        if not 8 <= size <= MAX_FRAME or offset != 2 or kind > 1:
            raise CodecError(
                f"a frame of {size} bytes, offset {offset} and type {kind}: {MAX_FRAME} are the most"
            )
        if len(self._buffer) < size:
            return False
        body = bytes(self._buffer[8:size])
        del self._buffer[:size]
        if body:
            self._handle(channel, kind, body)
        return True

    def _handle(self, channel: int, kind: int, body: bytes) -> None:
        reader = Reader(body)
        found = reader.value()
        if not isinstance(found, Described) or not isinstance(found.value, list):
            raise CodecError("a frame without a performative")
        fields = [*found.value, *[None] * 14]
        if kind == 1:
            if found.descriptor == 0x41:
                self._write(frame(0, performative(0x44, [UByte(0)]), 1))
            return
        does = _HANDLERS.get(int(found.descriptor))
        if does is None or (not self._is_open and int(found.descriptor) not in (_OPEN, _CLOSE)):
            raise CodecError(f"performative {found.descriptor} is not for now")
        does(self, channel, fields, body[reader.at :])

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _send(self, channel: int, code: int, fields: list[Any], payload: bytes = b"") -> None:
        self._write(frame(channel, performative(code, fields) + payload))

    # Connection and session.

    def _on_open(self, channel: int, fields: list[Any], _: bytes) -> None:
        self._max_frame = min(fields[2] or MAX_FRAME, MAX_FRAME)
        if self._max_frame < 512:
            raise CodecError(f"max-frame-size is {fields[2]}: 512 is the least")
        self._is_open = True
        self._send(0, _OPEN, ["azlatch-lab", None, UInt(MAX_FRAME), UShort(255), UInt(240_000)])

    def _on_begin(self, channel: int, fields: list[Any], _: bytes) -> None:
        if len(self._windows) > 255:
            raise CodecError("more than 256 sessions")
        self._windows[channel], self._sent[channel], self._received[channel] = fields[2], 0, fields[1]
        window = UInt(WINDOW)
        self._send(channel, _BEGIN, [UShort(channel), UInt(0), window, window, UInt(MAX_LINKS)])

    def _on_end(self, channel: int, fields: list[Any], _: bytes) -> None:
        for link in [each for each in self._links.values() if each.channel == channel]:
            self._forget(link)
        self._windows.pop(channel, None)
        self._send(channel, _END, [])

    def _on_close(self, channel: int, fields: list[Any], _: bytes) -> None:
        self._send(0, _CLOSE, [])
        if self._transport is not None:
            self._transport.close()

    # Links.

    def _on_attach(self, channel: int, fields: list[Any], _: bytes) -> None:
        if channel not in self._windows or len(self._links) > MAX_LINKS:
            raise CodecError("a link without a session, or too many of them")
        gives = bool(fields[2])
        terminus = fields[5] if gives else fields[6]
        address = terminus.value[0]
        link = Link(channel, fields, None, address, gives)
        link.deletes = gives and fields[3] == 1
        try:
            if address != "$cbs":
                link.queue, link.is_management = self._broker.find(address)
            self._accept(link, terminus.value)
        except BrokerError as error:
            self._refuse(link, error)

    def _accept(self, link: Link, source: list[Any]) -> None:
        filters = source[7] if len(source) > 7 and isinstance(source[7], dict) else {}
        wanted = {_text(key): value for key, value in filters.items()}
        queue = link.queue
        if not link.gives or queue is None or link.is_management or not queue.has_sessions:
            if _FILTER in wanted and queue is not None:
                raise BrokerError("amqp:not-allowed", f"queue {queue.settings.name} has no sessions")
            self._attached(link)
            return
        if _FILTER not in wanted:
            raise BrokerError("amqp:not-allowed", "It is not possible to receive without a session here.")
        now = self._broker.now()
        session = queue.accept(wanted[_FILTER], link, now)
        if session is None:
            limit = {_text(key): value for key, value in (link.attach[13] or {}).items()}.get(
                VENDOR + "timeout"
            )
            link.waits_until = now + (_PATIENCE_S if limit is None else limit / 1000)
            self._links[link.channel, link.handle] = link
            return
        link.session, link.waits_until = session.id, None
        echo = [*source, *[None] * 11][:11]
        echo[7] = {Symbol(_FILTER): session.id}
        link.attach[5] = Described(ULong(0x28), echo)
        link.attach[13] = {Symbol(VENDOR + "locked-until-utc"): _TICKS_OF_1970 + round(session.until * 1e7)}
        self._attached(link)

    def _attached(self, link: Link) -> None:
        self._links[link.channel, link.handle] = link
        given = link.attach
        count = UInt(0) if link.gives else None
        fields = [given[0], UInt(link.handle), not link.gives, given[3], given[4], given[5], given[6]]
        fields += [None, None, count, ULong(MAX_MESSAGE), None, None, given[13]]
        self._send(link.channel, _ATTACH, fields)
        if not link.gives:
            self._give_credit(link)

    def _refuse(self, link: Link, error: BrokerError) -> None:
        count = UInt(0) if link.gives else None
        fields = [link.name, UInt(link.handle), not link.gives, None, None, None, None, None, None, count]
        self._send(link.channel, _ATTACH, fields)
        self.detach(link, error.condition, str(error))

    def detach(self, link: Link, condition: str, text: str) -> None:
        """Ends a link from this side."""
        self._forget(link)
        self._send(link.channel, _DETACH, [UInt(link.handle), True, _error(condition, text)])

    def _on_detach(self, channel: int, fields: list[Any], _: bytes) -> None:
        link = self._links.get((channel, fields[0]))
        if link is not None:
            self._forget(link)
            self._send(channel, _DETACH, [UInt(fields[0]), bool(fields[1])])

    def _forget(self, link: Link) -> None:
        self._links.pop((link.channel, link.handle), None)
        if link.queue is not None:
            link.queue.gone(link)

    def _give_credit(self, link: Link) -> None:
        link.credit = CREDIT
        window = UInt(WINDOW)
        head = [UInt(self._received[link.channel]), window, UInt(self._sent[link.channel]), window]
        self._send(link.channel, _FLOW, [*head, UInt(link.handle), UInt(link.count), UInt(CREDIT)])

    def _on_flow(self, channel: int, fields: list[Any], _: bytes) -> None:
        self._windows[channel] = (fields[0] or 0) + fields[1] - self._sent[channel]
        link = self._links.get((channel, fields[4]))
        if link is not None and link.gives:
            link.credit = max(0, (fields[5] or 0) + (fields[6] or 0) - link.count)
            link.drain = bool(fields[7])

    # Messages that come in.

    def _on_transfer(self, channel: int, fields: list[Any], payload: bytes) -> None:
        self._received[channel] = (self._received[channel] + 1) % 2**32
        link = self._links[channel, fields[0]]
        if len(link.payload) + len(payload) > MAX_MESSAGE:
            link.payload.clear()
            self.detach(link, "amqp:link:message-size-exceeded", f"a message has up to {MAX_MESSAGE} bytes")
            return
        link.payload += payload
        if fields[5]:
            return
        data, link.payload = bytes(link.payload), bytearray()
        link.count += 1
        link.credit -= 1
        state = self._receive(link, data, fields[3])
        # Each transfer of a message has its number; the SDK numbers messages.
        if not fields[4] and fields[1] is not None:
            self._send(channel, _DISPOSITION, [True, UInt(fields[1]), None, True, state])
        if link.credit <= CREDIT // 2:
            self._give_credit(link)

    def _receive(self, link: Link, data: bytes, kind: int | None) -> Described:
        now = self._broker.now()
        if link.queue is None or link.is_management:
            self._request(link, parse(data), now)
            return Described(ULong(_ACCEPTED), [])
        try:
            for message in batch(data) if kind == _BATCH else [parse(data)]:
                link.queue.send(message, now)
        except BrokerError as error:
            return Described(ULong(_REJECTED), [_error(error.condition, str(error))])
        return Described(ULong(_ACCEPTED), [])

    def _request(self, link: Link, request: Message, now: float) -> None:
        back = next(
            (each for each in self._links.values() if each.gives and each.address == link.address), None
        )
        if back is None:
            return
        if link.queue is None:
            self._transfer(back, management.reply(request, 202, "", None, is_cbs=True).encoded(), b"\0", True)
            return
        link.queue.at(now)
        name = request.application.get("associated-link-name")
        owner = next((each for each in self._links.values() if each.gives and each.name == _text(name)), None)
        value = decode(request.body)
        answer = management.answer(link.queue, request.application.get("operation"), value.value, owner, now)
        self._transfer(back, management.reply(request, *answer).encoded(), b"\0", True)

    # Messages that go out.

    def pump(self, now: float) -> None:
        """Delivers what can be delivered, and does what time has brought."""
        for link in list(self._links.values()):
            if link.waits_until is not None:
                self._wait_over(link, now)
            elif link.session is not None and link.queue is not None and not self._holds(link):
                self.detach(link, VENDOR + "session-lock-lost", "The session lock has expired.")
            elif link.gives and link.queue is not None and not link.is_management:
                self._deliver(link, now)

    def next_event(self) -> float:
        """When a link has waited long enough."""
        return min(
            (each.waits_until for each in self._links.values() if each.waits_until), default=float("inf")
        )

    def _holds(self, link: Link) -> bool:
        assert link.queue is not None
        assert link.session is not None
        return link.queue.sessions[link.session].owner is link

    def _wait_over(self, link: Link, now: float) -> None:
        until = link.waits_until or 0.0
        self._accept(link, link.attach[5].value)
        if link.session is None:
            link.waits_until = until
            if until <= now:
                self._refuse(link, BrokerError(VENDOR + "timeout", "No session became available in time."))

    def _deliver(self, link: Link, now: float) -> None:
        assert link.queue is not None
        while link.credit > 0 and self._windows[link.channel] > 0:
            message = link.queue.take(link, link.session, now, delete=link.deletes)
            if message is None:
                break
            tag = b"\0" * 16 if message.lock is None else message.lock.bytes_le
            if message.lock is not None:
                link.unsettled[self._sent[link.channel]] = message.lock
            self._transfer(link, message.encoded(), tag, link.deletes)
        if link.drain:
            link.drain = False
            link.count += link.credit
            link.credit = 0
            head = [
                UInt(self._received[link.channel]),
                UInt(WINDOW),
                UInt(self._sent[link.channel]),
                UInt(WINDOW),
            ]
            self._send(link.channel, _FLOW, [*head, UInt(link.handle), UInt(link.count), UInt(0), None, True])

    def _transfer(self, link: Link, data: bytes, tag: bytes, settled: bool) -> None:
        delivery, room = self._sent[link.channel], self._max_frame - 128
        link.count += 1
        link.credit -= 1
        for at in range(0, max(len(data), 1), room):
            is_first, more = at == 0, at + room < len(data)
            head = (
                [UInt(link.handle), UInt(delivery), tag, UInt(0)]
                if is_first
                else [UInt(link.handle), *[None] * 3]
            )
            self._send(link.channel, _TRANSFER, [*head, settled, more], data[at : at + room])
            self._sent[link.channel] += 1
            self._windows[link.channel] -= 1

    def _on_disposition(self, channel: int, fields: list[Any], _: bytes) -> None:
        if not fields[0]:
            return
        first, last, state = fields[1], fields[1] if fields[2] is None else fields[2], fields[4]
        for link in list(self._links.values()):
            for delivery in [each for each in link.unsettled if first <= each <= last]:
                if link.channel == channel and link.queue is not None:
                    outcome = self._settle(link, delivery, state)
                    if not fields[3]:
                        self._send(channel, _DISPOSITION, [False, UInt(delivery), None, True, outcome])

    def _settle(self, link: Link, delivery: int, state: Any) -> Described:
        assert link.queue is not None
        act, reason, text = _act(state)
        try:
            link.queue.settle(link.unsettled.pop(delivery), act, self._broker.now(), reason, text)
        except BrokerError as error:
            return Described(ULong(_REJECTED), [_error(error.condition, str(error))])
        return Described(ULong(state.descriptor), [])


def _act(state: Any) -> tuple[Act, str, str]:
    """What an outcome asks for, and a dead letter's reason and description."""
    code, fields = state.descriptor, [*state.value, None, None]
    if code == _ACCEPTED:
        return "complete", "", ""
    if code == _MODIFIED:
        return ("defer" if fields[1] else "abandon"), "", ""
    if code == _REJECTED:
        info = ([*fields[0].value, None, None, None][2] if fields[0] is not None else None) or {}
        named = {_text(key): value for key, value in info.items()}
        return "dead-letter", named.get("DeadLetterReason") or "", named.get("DeadLetterErrorDescription") or ""
    return "release", "", ""


def _error(condition: str, text: str) -> Described:
    return Described(ULong(0x1D), [Symbol(condition), text, {}])


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


_HANDLERS: dict[int, Callable[[Connection, int, list[Any], bytes], None]] = {
    _OPEN: Connection._on_open,
    _BEGIN: Connection._on_begin,
    _ATTACH: Connection._on_attach,
    _FLOW: Connection._on_flow,
    _TRANSFER: Connection._on_transfer,
    _DISPOSITION: Connection._on_disposition,
    _DETACH: Connection._on_detach,
    _END: Connection._on_end,
    _CLOSE: Connection._on_close,
}
