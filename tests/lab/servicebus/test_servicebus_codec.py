"""The lab's AMQP types: whatever is encoded decodes to the same, with its type, and the SDK reads it too."""

from __future__ import annotations

import pytest
from azure.servicebus._pyamqp._decode import decode_payload
from hypothesis import given
from hypothesis import strategies as st

from azlatch.lab.servicebus import codec
from azlatch.lab.servicebus.codec import CodecError, Described, Int, Symbol, Timestamp, UInt, ULong

SIMPLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**32 - 1).map(UInt),
    st.integers(0, 2**64 - 1).map(ULong),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    st.integers(-(2**63), 2**63 - 1).map(Timestamp),
    st.text(),
    st.text(st.characters(max_codepoint=127)).map(Symbol),
    st.binary(),
    st.uuids(),
    st.floats(allow_nan=False),
)
VALUES = st.recursive(
    SIMPLE, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)


@given(VALUES)
def test_round_trip(value: object) -> None:
    """Values and their types survive."""
    found = codec.decode(codec.encode(value))
    assert (found, type(found)) == (value, type(value))


@given(st.dictionaries(st.text(), st.integers(-(2**63), 2**63 - 1) | st.text(), max_size=5))
def test_the_sdk_reads_it(value: dict[str, object]) -> None:
    """The SDK's decoder finds the same in a section of ours."""
    message = decode_payload(memoryview(codec.encode(Described(ULong(0x77), value))))
    expected = {key.encode(): each.encode() if isinstance(each, str) else each for key, each in value.items()}
    assert message.value == expected


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    """Bytes are a value or a CodecError, never anything else."""
    try:
        codec.decode(data)
    except CodecError:
        pass


def test_limits() -> None:
    """Neither nesting nor a count that few bytes claim goes without limit."""
    with pytest.raises(CodecError, match="deeper"):
        codec.decode(b"\x00" * 1_000)
    with pytest.raises(CodecError, match="are the most"):
        codec.decode(b"\xf0\x00\x00\x00\x05\x7f\xff\xff\xff\x40")
