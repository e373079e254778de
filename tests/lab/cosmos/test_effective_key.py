"""Effective partition keys: the public vectors, and equality with the SDK where the SDK is right."""

from __future__ import annotations

from typing import Any

import pytest
from azure.cosmos.partition_key import NonePartitionKeyValue, PartitionKey
from hypothesis import given
from hypothesis import strategies as st

from azlatch.lab.cosmos.effective_key import UNDEFINED, effective_key, prefix_range

VERSION_2 = [
    ([""], "32E9366E637A71B4E710384B2F4970A0"),
    (["partitionKey"], "013AEFCF77FA271571CF665A58C933F1"),
    (["redmond"], "22E342F38A486A088463DFF7838A5963"),
    ([None], "378867E4430E67857ACE5C908374FE16"),
    ([True], "0E711127C5B5A8E4726AC6DD306A3E59"),
    ([False], "2FE1BE91E90A3439635E0E9E37361EF2"),
    ([5.0], "19C08621B135968252FB34B4CF66F811"),
    ([5.123124190509124], "0EF2E2D82460884AF0F6440BE4F726A8"),
    ([-128], "01DAEDABF913540367FE219B2AD06148"),
    ([127], "0C507ACAC853ECA7977BF4CEFB562A25"),
    ([UNDEFINED], "11622DAA78F835834610ABE56EFF5CB5"),
    (["a" * 1024], "332BDF5512AE49615F32C7D98C2DB86C"),
    ([5.0, "redmond", True, None], "3032DECBE2AB1768D8E0AEDEA35881DF"),
]
VERSION_1 = [
    ([-128.0], "05C1D73349F54C053FA0"),
    ([127.0], "05C1DD539DDFCC05C05FE0"),
    ([True], "05C1D7C5A903D803"),
    ([None], "05C1ED45D7475601"),
]

strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60)
components = st.one_of(strings, numbers, st.booleans(), st.none(), st.just(UNDEFINED))


def of_the_sdk(values: list[Any], kind: str, version: int) -> str:
    spelt = [NonePartitionKeyValue if each is UNDEFINED else each for each in values]
    return str(PartitionKey._get_hashed_partition_key_string(spelt, kind, version))


@pytest.mark.parametrize(("values", "expected"), VERSION_2)
def test_version_2_vectors(values: list[Any], expected: str) -> None:
    """The vectors that the SDKs for Rust and Java test with."""
    assert expected == effective_key(values, version=2, kind="Hash")


@pytest.mark.parametrize(("values", "expected"), VERSION_1)
def test_version_1_vectors(values: list[Any], expected: str) -> None:
    """Those of version 1, null with its byte and a negative number included."""
    assert expected == effective_key(values, version=1, kind="Hash")


def test_multi_hash_is_one_hash_a_level() -> None:
    """The levels one after the other, each as if it were alone."""
    levels = [expected for values, expected in VERSION_2 if len(values) == 1][:3]
    assert "".join(levels) == effective_key(["", "partitionKey", "redmond"], version=2, kind="MultiHash")


@given(st.lists(components, min_size=1, max_size=4))
def test_version_2_equals_the_sdk(values: list[Any]) -> None:
    """For every list of components."""
    assert of_the_sdk(values, "Hash", 2) == effective_key(values, version=2, kind="Hash")


@given(st.lists(components, min_size=1, max_size=3))
def test_multi_hash_equals_the_sdk(values: list[Any]) -> None:
    """For one to three levels."""
    assert of_the_sdk(values, "MultiHash", 2) == effective_key(values, version=2, kind="MultiHash")


@given(
    st.lists(
        st.one_of(
            st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=300),
            st.floats(allow_nan=False, allow_infinity=False),
            st.integers(0, 2**32 - 1),
            st.booleans(),
            st.just(UNDEFINED),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_version_1_equals_the_sdk_where_it_is_right(values: list[Any]) -> None:
    """All but null, whole numbers beyond 32 bits and characters beyond 16."""
    assert of_the_sdk(values, "Hash", 1).upper() == effective_key(values, version=1, kind="Hash")


@pytest.mark.parametrize("value", [-1, 2**32, -128])
def test_version_1_does_not_cut_whole_numbers(value: int) -> None:
    """An int hashes as its double; the SDK cuts it to 32 bits."""
    ours = effective_key([value], version=1, kind="Hash")
    assert effective_key([float(value)], version=1, kind="Hash") == ours
    assert of_the_sdk([value], "Hash", 1).upper() != ours


def test_version_1_cuts_strings_at_100_units() -> None:
    """What follows the 100th UTF-16 unit does not count; the 100th does."""

    def key(text: str) -> str:
        return effective_key([text], version=1, kind="Hash")

    assert key("a" * 100) == key("a" * 100 + "b")
    assert key("a" * 99) != key("a" * 100)
    assert key("\U0001f600" * 50) == key("\U0001f600" * 51)
    assert key("a" + "\U0001f600" * 50) == key("a" + "\U0001f600" * 60)


def test_no_component_is_the_lowest_key() -> None:
    """What a container with a system key sends for an item without a value."""
    assert effective_key([], version=2, kind="Hash") == ""


@given(st.lists(components, min_size=3, max_size=3), st.integers(0, 2))
def test_a_prefix_holds_its_keys(values: list[Any], count: int) -> None:
    """Every key with the prefix lies in its range, and the ranges of two prefixes do not meet."""
    low, high = prefix_range(values[:count])
    assert low <= effective_key(values, version=2, kind="MultiHash") < high


def test_only_multi_hash_has_prefixes() -> None:
    """Elsewhere all components are hashed together."""
    with pytest.raises(ValueError, match="MultiHash"):
        prefix_range(["a"], kind="Hash")


@pytest.mark.parametrize("value", [[], {}, b"a", object()])
@pytest.mark.parametrize("version", [1, 2])
def test_other_types_are_refused(value: Any, version: int) -> None:
    """A component is a scalar."""
    with pytest.raises(TypeError, match="partition key"):
        effective_key([value], version=version, kind="Hash")


@given(components)
def test_it_is_upper_hex_below_the_end(value: Any) -> None:
    """32 digits, the first of them 0 to 3."""
    key = effective_key([value], version=2, kind="Hash")
    assert len(key) == 32
    assert key == key.upper()
    assert "0" <= key[0] <= "3"
