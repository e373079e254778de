"""The effective partition key: the point between "" and "FF" at which a logical partition lies.

Three ways of hashing, as the SDKs for Python, Java and Rust do it (`partition_key.py` of azure-cosmos 4.17.1,
`PartitionKeyInternal` of azure-cosmos for Java), with the same test vectors:

- Hash, version 2: MurmurHash3 x64 128 over all components, the bytes reversed, the two highest bits cleared.
- MultiHash: every component hashed like that by itself, the results one after the other. So the keys of a
  prefix are one range.
- Hash, version 1: MurmurHash3 x86 32 over all components, then that hash and the components in an
  order-preserving encoding. Strings count to their 100th UTF-16 unit.

azure-cosmos 4.17.1 differs from the service, and from this module, in four ways, all of them version 1 only:
an `int` below 0 or above 2**32 - 1 is cut to 32 bits before it is hashed (the `float` is not), a null leaves
no byte in the second part, the hex digits are in lower case, and strings are cut after 100 code points
instead of UTF-16 units.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, Final

import mmh3


class Undefined(Enum):
    """The type of `UNDEFINED`, which has that one value."""

    UNDEFINED = "undefined"

    def __repr__(self) -> str:
        return "UNDEFINED"


#: A component for which the item has no value; null is a value.
UNDEFINED: Final = Undefined.UNDEFINED

#: How many keys of one string are remembered.
_MOST_REMEMBERED = 65_536
#: Longer strings are hashed each time, so that what is remembered stays below 64 MB.
_LONGEST_REMEMBERED = 256
#: Version 1 hashes a string up to here, and writes one byte more of it in UTF-8 if it is longer.
_LONGEST_IN_V1 = 100

_DOUBLE = struct.Struct("<d")
_UNSIGNED = struct.Struct("<Q")
_HIGHEST_BIT = 1 << 63
_64_BITS = (1 << 64) - 1


def effective_key(values: Sequence[Any], *, version: int, kind: str) -> str:
    """The effective partition key of the components, in upper hex; "" for none.

    Args:
        values: str, bool, None, int, float or `UNDEFINED` each; numbers count as doubles.
        version: 1 or 2; MultiHash has no version 1.
        kind: `Hash` or `MultiHash`.

    Raises:
        TypeError: a component is of another type.
        OverflowError: an int is beyond the doubles.
    """
    if not values:
        return ""
    if kind == "MultiHash":
        return "".join([_of_one(each) for each in values])
    if version == 1:
        return _version_1(values)
    if len(values) == 1:
        return _of_one(values[0])
    return _hashed(b"".join([_for_hashing(each, b"\xff") for each in values]))


def prefix_range(values: Sequence[Any], *, version: int = 2, kind: str = "MultiHash") -> tuple[str, str]:
    """The range, without its upper end, of all keys that begin with these components.

    No component at all is the whole container, "" to "FF". For anything but MultiHash a prefix is no range.

    Raises:
        ValueError: the kind is not MultiHash.
    """
    if kind != "MultiHash":
        raise ValueError("only the keys of a MultiHash container that share a prefix are one range")
    low = effective_key(values, version=version, kind=kind)
    return low, low + "FF"


def _of_one(value: Any) -> str:
    if type(value) is str and len(value) <= _LONGEST_REMEMBERED:
        return _of_string(value)
    return _hashed(_for_hashing(value, b"\xff"))


@lru_cache(_MOST_REMEMBERED)
def _of_string(value: str) -> str:
    return _hashed(_for_hashing(value, b"\xff"))


def _hashed(data: bytes) -> str:
    number = int.from_bytes(mmh3.mmh3_x64_128_digest(data), "little")
    return f"{number & (1 << 126) - 1:032X}"


def _for_hashing(value: Any, after_string: bytes) -> bytes:
    if isinstance(value, str):
        return b"\x08" + _utf8(value) + after_string
    if value is UNDEFINED:
        return b"\x00"
    if value is None:
        return b"\x01"
    if value is False:
        return b"\x02"
    if value is True:
        return b"\x03"
    if isinstance(value, (int, float)):
        return b"\x05" + _DOUBLE.pack(float(value))
    raise TypeError(f"a {type(value).__name__} cannot be part of a partition key")


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _version_1(values: Sequence[Any]) -> str:
    cut = [_cut(each) if isinstance(each, str) else each for each in values]
    hashed = mmh3.mmh3_32_uintdigest(b"".join([_for_hashing(each, b"\x00") for each in cut]))
    return (_ordered_number(hashed) + b"".join([_ordered(each) for each in cut])).hex().upper()


def _cut(text: str) -> str:
    if len(text) * 2 <= _LONGEST_IN_V1:
        return text
    units = text.encode("utf-16-le", "surrogatepass")[: _LONGEST_IN_V1 * 2]
    # The half of a pair that a cut leaves is written as .NET and Java write it: as what cannot be encoded.
    return units.decode("utf-16-le", "replace")


def _ordered(value: Any) -> bytes:
    """One component so that bytes compare as the values do."""
    if isinstance(value, str):
        data = _utf8(value)
        short = len(data) <= _LONGEST_IN_V1
        # No byte of UTF-8 is 0xFF.
        shifted = bytes([each + 1 for each in data[: _LONGEST_IN_V1 + 1]])
        return b"\x08" + shifted + (b"\x00" if short else b"")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _ordered_number(value)
    return _for_hashing(value, b"")


def _ordered_number(value: float) -> bytes:
    bits: int = _UNSIGNED.unpack(_DOUBLE.pack(float(value)))[0]
    bits = bits ^ _HIGHEST_BIT if bits < _HIGHEST_BIT else -bits & _64_BITS
    # Eight bits, then seven a byte with a "more follows" bit below them; trailing zeros are left away.
    written = bytearray([0x05, bits >> 56])
    rest = bits << 8 & _64_BITS
    if not rest:
        written.append(0)
    while rest:
        written.append(rest >> 56 | 0x01)
        rest = rest << 7 & _64_BITS
    written[-1] &= 0xFE
    return bytes(written)
