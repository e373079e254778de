"""A message: its sections as they came, and what the broker adds to them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from azlatch.lab.servicebus.codec import CodecError, Described, Reader, Symbol, Timestamp, UInt, ULong, encode

_HEADER, _DELIVERY, _ANNOTATIONS, _PROPERTIES, _APPLICATION = 0x70, 0x71, 0x72, 0x73, 0x74
_SECTIONS = range(0x70, 0x79)
ACTIVE, DEFERRED, SCHEDULED = 0, 1, 2


@dataclass(eq=False, slots=True)
class Message:
    """One message in a queue. `lock` is None while it may be delivered; times are of the lab's clock."""

    header: list[Any] = field(default_factory=list)
    annotations: dict[Any, Any] = field(default_factory=dict)
    properties: list[Any] = field(default_factory=list)
    application: dict[Any, Any] = field(default_factory=dict)
    body: bytes = b""
    sequence: int = 0
    enqueued: float = 0.0
    state: int = ACTIVE
    delivery_count: int = 0
    lock: uuid.UUID | None = None
    locked_until: float = 0.0
    owner: object = None

    @property
    def id(self) -> Any:
        """The message id, None if it has none."""
        return self.properties[0] if self.properties else None

    @property
    def session(self) -> str | None:
        """The id of its session."""
        return self.properties[10] if len(self.properties) > 10 else None

    @property
    def ttl(self) -> float | None:
        """How long it lives, seconds; None for ever."""
        given = self.header[2] if len(self.header) > 2 else None
        return None if given is None else given / 1000

    @property
    def scheduled(self) -> float | None:
        """When it is to be enqueued."""
        given = self.annotations.get("x-opt-scheduled-enqueue-time")
        return None if given is None else given / 1000

    def encoded(self) -> bytes:
        """The message as a receiver gets it."""
        header = [*self.header, *[None] * 5][:5]
        header[4] = UInt(self.delivery_count)
        notes = {
            **self.annotations,
            Symbol("x-opt-sequence-number"): self.sequence,
            Symbol("x-opt-enqueued-time"): Timestamp(round(self.enqueued * 1000)),
            Symbol("x-opt-message-state"): self.state,
        }
        if self.lock is not None:
            notes[Symbol("x-opt-locked-until")] = Timestamp(round(self.locked_until * 1000))
        parts = [(_HEADER, header), (_ANNOTATIONS, notes)]
        parts += [(_PROPERTIES, self.properties)] if self.properties else []
        parts += [(_APPLICATION, self.application)] if self.application else []
        return b"".join(encode(Described(ULong(code), value)) for code, value in parts) + self.body


def parse(data: bytes) -> Message:
    """The message that bytes are. Raises CodecError."""
    message, reader, body = Message(), Reader(data), b""
    while not reader.is_done:
        begin = reader.at
        section = reader.value()
        if not isinstance(section, Described) or section.descriptor not in _SECTIONS:
            raise CodecError("a message has something that is no section")
        code, value = section.descriptor, section.value
        if code in (_HEADER, _PROPERTIES) and isinstance(value, list):
            setattr(message, "header" if code == _HEADER else "properties", value)
        elif code in (_ANNOTATIONS, _APPLICATION) and isinstance(value, dict):
            setattr(message, "annotations" if code == _ANNOTATIONS else "application", value)
        elif code >= 0x75:
            body += data[begin : reader.at]
        elif code != _DELIVERY:
            raise CodecError(f"section 0x{code:02x} is of a wrong type")
    message.body = body
    _check(message)
    return message


def _check(message: Message) -> None:
    for name, value, kind in (
        ("session id", message.session, str),
        ("ttl", message.header[2] if len(message.header) > 2 else None, int),
        ("scheduled time", message.annotations.get("x-opt-scheduled-enqueue-time"), int),
    ):
        if value is not None and not isinstance(value, kind):
            raise CodecError(f"the {name} is of a wrong type")


def batch(data: bytes) -> list[Message]:
    """The messages of a batch (format 0x80013700): each is the data of one section. Raises CodecError."""
    reader, found = Reader(data), []
    while not reader.is_done:
        section = reader.value()
        if isinstance(section, Described) and section.descriptor == 0x75:
            if not isinstance(section.value, bytes):
                raise CodecError("a batch has data of a wrong type")
            found.append(parse(section.value))
    return found
