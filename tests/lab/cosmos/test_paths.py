"""Paths as the SDK takes them apart."""

from __future__ import annotations

import pytest
from azure.cosmos._base import ParsePaths
from hypothesis import given
from hypothesis import strategies as st

from azlatch.lab.cosmos.effective_key import UNDEFINED
from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.paths import parts_of, value_at


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/pk", ("pk",)),
        ("/address/city", ("address", "city")),
        ("/ spaced /x", ("spaced", "x")),
        ('/"level\' 1*()"/"le/vel2"', ("level' 1*()", "le/vel2")),
        ("/'level\" 1*()'/'le/vel2'", ('level" 1*()', "le/vel2")),
        (r'/"a\"b"/c', (r"a\"b", "c")),
        ("/pk/", ("pk",)),
        ("/Größe", ("Größe",)),
    ],
)
def test_parts(path: str, expected: tuple[str, ...]) -> None:
    """Quotes hold a slash, a backslash holds a quote."""
    assert expected == parts_of(path)


@pytest.mark.parametrize(
    "path", ["", "pk", "/", "//", "/a//b", '/"a', "/'a/b", '/"a"b', "/ /a", "/" + "x" * 1023]
)
def test_no_paths(path: str) -> None:
    """They are refused with 400."""
    with pytest.raises(ServiceError) as refused:
        parts_of(path)
    assert refused.value.status == 400


@given(st.lists(st.text("ab/\\\"' *", min_size=1, max_size=6), min_size=1, max_size=4).map("/".join))
def test_what_is_taken_is_read_as_the_sdk_reads_it(text: str) -> None:
    """The SDK routes by its own reading of the path, so a reading that differs would lose items."""
    try:
        parts = parts_of("/" + text)
    except ServiceError:
        return
    assert ParsePaths(["/" + text]) == list(parts)


def test_values() -> None:
    """Absent, through a scalar or through an array: all the same nothing; null is a value."""
    document = {"a": {"b": 1, "n": None}, "l": [{"b": 1}], "s": "text"}
    assert value_at(document, ("a", "b")) == 1
    assert value_at(document, ("a", "n")) is None
    for parts in [("x",), ("a", "x"), ("l", "b"), ("l", "0"), ("s", "b"), ("a", "b", "c")]:
        assert value_at(document, parts) is UNDEFINED
