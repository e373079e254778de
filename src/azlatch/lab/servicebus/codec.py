"""The types of AMQP 1.0 as bytes and back, part 1 of the standard: what is decoded encodes to the same type.

Nothing that a peer sends recurses deeper than DEPTH or makes more than COUNT values out of few bytes.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

DEPTH, COUNT = 16, 65_536


class CodecError(ValueError):
    """Bytes that are no value of AMQP, or a value that AMQP has no type for."""


class UByte(int):
    """0x50."""


class UShort(int):
    """0x60."""


class UInt(int):
    """0x70."""


class ULong(int):
    """0x80."""


class Byte(int):
    """0x51."""


class Short(int):
    """0x61."""


class Int(int):
    """0x71."""


class Timestamp(int):
    """0x83, milliseconds since the Unix epoch."""


class Float(float):
    """0x72, of 32 bits."""


class Symbol(str):
    """A string of ASCII from a known domain."""

    __slots__ = ()


class Array(list[Any]):
    """Values of one type."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value that nobody here computes with (char, decimals), as its code and bytes."""

    code: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Described:
    """A value with the descriptor of its meaning."""

    descriptor: Any
    value: Any


#: Type, format; a plain int is a long and a plain float a double.
_NUMBERS: dict[int, tuple[Any, str]] = {
    0x50: (UByte, ">B"),
    0x51: (Byte, ">b"),
    0x60: (UShort, ">H"),
    0x61: (Short, ">h"),
    0x70: (UInt, ">I"),
    0x71: (Int, ">i"),
    0x72: (Float, ">f"),
    0x80: (ULong, ">Q"),
    0x81: (int, ">q"),
    0x82: (float, ">d"),
    0x83: (Timestamp, ">q"),
    0x52: (UInt, ">B"),
    0x53: (ULong, ">B"),
    0x54: (Int, ">b"),
    0x55: (int, ">b"),
}
_CONSTANTS: dict[int, Any] = {0x40: None, 0x41: True, 0x42: False, 0x43: UInt(0), 0x44: ULong(0)}
_CODES = {kind: code for code, (kind, _) in _NUMBERS.items() if code not in (0x52, 0x53, 0x54, 0x55)}
_FIXED = {0x73: 4, 0x74: 4, 0x84: 8, 0x94: 16}


class Reader:
    """Reads values from bytes, one after another."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self.at = at

    @property
    def is_done(self) -> bool:
        """Whether all was read."""
        return self.at >= len(self._data)

    def value(self, depth: int = 0) -> Any:
        """The next value. Raises CodecError."""
        return self._of(self._byte(), depth)

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self._data):
            raise CodecError(f"{size} bytes are announced at {self.at} of {len(self._data)}")
        piece = self._data[self.at : end]
        self.at = end
        return piece

    def _size(self, is_wide: int) -> int:
        return int(struct.unpack(">I", self._take(4))[0]) if is_wide else self._byte()

    def _of(self, code: int, depth: int) -> Any:
        if depth > DEPTH:
            raise CodecError(f"values are nested deeper than {DEPTH}")
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code in _NUMBERS:
            kind, form = _NUMBERS[code]
            return kind(struct.unpack(form, self._take(struct.calcsize(form)))[0])
        if code in (0xA0, 0xB0):
            return self._take(self._size(code == 0xB0))
        if code in (0xA1, 0xB1, 0xA3, 0xB3):
            return self._text(self._take(self._size(code >= 0xB0)), code)
        if code == 0x00:
            return Described(self.value(depth + 1), self.value(depth + 1))
        if code in (0x45, 0xC0, 0xD0, 0xC1, 0xD1, 0xE0, 0xF0):
            return self._compound(code, depth)
        if code == 0x56:
            return bool(self._byte())
        if code == 0x98:
            return uuid.UUID(bytes=self._take(16))
        if code in _FIXED:
            return Fixed(code, self._take(_FIXED[code]))
        raise CodecError(f"0x{code:02x} is the code of no type")

    def _text(self, data: bytes, code: int) -> str:
        try:
            return data.decode() if code & 0x0F == 1 else Symbol(data.decode("ascii"))
        except UnicodeDecodeError as error:
            raise CodecError(f"a string is not {error.encoding}") from None

    def _compound(self, code: int, depth: int) -> Any:
        if code == 0x45:
            return []
        is_wide = code in (0xD0, 0xD1, 0xF0)
        size = self._size(is_wide)
        end = self.at + size
        if end > len(self._data):
            raise CodecError(f"a compound of {size} bytes does not fit")
        count = self._size(is_wide)
        if count > COUNT:
            raise CodecError(f"a compound has {count} values: {COUNT} are the most")
        if code in (0xE0, 0xF0):
            found: Any = self._array(count, depth)
        else:
            found = [self.value(depth + 1) for _ in range(count)]
        if self.at != end:
            raise CodecError("a compound is not as long as it says")
        return _map(found) if code in (0xC1, 0xD1) else found

    def _array(self, count: int, depth: int) -> Array:
        code = self._byte()
        descriptor = None
        if code == 0x00:
            descriptor = self.value(depth + 1)
            code = self._byte()
        values = [self._of(code, depth + 1) for _ in range(count)]
        return Array(values if descriptor is None else [Described(descriptor, each) for each in values])


def _map(flat: list[Any]) -> dict[Any, Any]:
    if len(flat) % 2:
        raise CodecError("a map has a key without a value")
    try:
        return dict(zip(flat[::2], flat[1::2], strict=True))
    except TypeError:
        raise CodecError("a map has a key that is a compound") from None


def decode(data: bytes) -> Any:
    """The one value that bytes are. Raises CodecError."""
    reader = Reader(data)
    found = reader.value()
    if not reader.is_done:
        raise CodecError(f"{len(data) - reader.at} bytes follow the value")
    return found


def encode(value: Any) -> bytes:
    """A value as bytes. Raises CodecError if AMQP has no type for it."""
    if isinstance(value, ULong) and value < 256:
        # The one short form that matters: the SDK reads descriptors in no other.
        return bytes([0x53, value])
    code, data = _parts(value)
    return bytes([code]) + data


def _parts(value: Any) -> tuple[int, bytes]:
    """The code of a value's type, in its widest form, and what follows it."""
    if value is None:
        return 0x40, b""
    if isinstance(value, bool):
        return 0x56, bytes([value])
    if type(value) in _CODES:
        code = _CODES[type(value)]
        try:
            return code, struct.pack(_NUMBERS[code][1], value)
        except (struct.error, OverflowError):
            raise CodecError(f"{value} does not fit its type {type(value).__name__}") from None
    if isinstance(value, str):
        data = value.encode("ascii" if isinstance(value, Symbol) else "utf-8")
        return (0xB3 if isinstance(value, Symbol) else 0xB1), struct.pack(">I", len(data)) + data
    if isinstance(value, bytes | bytearray | memoryview):
        return 0xB0, struct.pack(">I", len(value)) + bytes(value)
    if isinstance(value, uuid.UUID):
        return 0x98, value.bytes
    if isinstance(value, Described):
        return 0x00, encode(value.descriptor) + encode(value.value)
    if isinstance(value, Fixed):
        return value.code, value.data
    return _compound_parts(value)


def _compound_parts(value: Any) -> tuple[int, bytes]:
    if isinstance(value, Array):
        parts = [_parts(each) for each in value]
        codes = {code for code, _ in parts} or {0x40}
        if len(codes) > 1:
            raise CodecError("an array has values of several types")
        return 0xF0, _sized(len(parts), bytes(codes) + b"".join(data for _, data in parts))
    if isinstance(value, dict):
        flat = [each for pair in value.items() for each in pair]
        return 0xD1, _sized(len(flat), b"".join(map(encode, flat)))
    if isinstance(value, list | tuple):
        return 0xD0, _sized(len(value), b"".join(map(encode, value)))
    raise CodecError(f"{type(value).__name__} is no type of AMQP")


def _sized(count: int, data: bytes) -> bytes:
    return struct.pack(">II", len(data) + 4, count) + data


def performative(code: int, fields: Iterable[Any]) -> bytes:
    """A described list: a performative, an outcome or a section."""
    return encode(Described(ULong(code), list(fields)))


def frame(channel: int, body: bytes, kind: int = 0) -> bytes:
    """A frame of AMQP (kind 0) or SASL (1)."""
    return struct.pack(">IBBH", len(body) + 8, 2, kind, channel) + body
