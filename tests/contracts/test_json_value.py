"""Copies of JSON values, whatever they are made of."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azlatch.contracts.json_value import MOST_LEVELS, copied, same
from azlatch.errors import UsageError

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(PLAIN, lambda each: st.lists(each) | st.dictionaries(st.text(), each), max_leaves=20)


class Text(str):
    """A text of another class, as some libraries have for names."""


def containers(value: Any) -> Iterator[int]:
    if isinstance(value, (dict, list)):
        yield id(value)
        for each in value.values() if isinstance(value, dict) else value:
            yield from containers(each)


@given(VALUES)
def test_a_copy_is_the_same_and_shares_nothing_that_can_change(value: Any) -> None:
    """As JSON it is the same text, and no dict or list is in both."""
    copy = copied(value)
    assert same(copy, value)
    assert json.dumps(copy) == json.dumps(value)
    assert not set(containers(copy)) & set(containers(value))


@pytest.mark.parametrize("mapping", [OrderedDict, MappingProxyType])
def test_other_mappings_and_tuples_become_dicts_and_lists(mapping: Any) -> None:
    """Whatever the caller has, what is stored is plain."""
    value = {"a": mapping({"b": (1, mapping({"c": 2.5}))}), Text("d"): mapping({})}
    copy = copied(value)
    assert copy == {"a": {"b": [1, {"c": 2.5}]}, "d": {}}
    assert (type(copy["a"]), type(copy["a"]["b"]), type(copy["a"]["b"][1])) == (dict, list, dict)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": {"b": [1, {"c": {1}}]}}, "a set at /a/b/1/c"),
        ({"a": 1, "b": float("nan")}, "nan at /b"),
        ({"a": {"x/y~": float("inf")}}, "inf at /a/x~1y~0"),
        ({"a": {1: "x"}}, "the name 1 at /a"),
        ({1: "x"}, "the name 1 at /:"),
        ({"a": b"x"}, "a bytes at /a"),
    ],
)
def test_what_json_does_not_have_is_named_with_its_place(value: Any, says: str) -> None:
    """The message says what it is, and where."""
    with pytest.raises(UsageError, match="^it has " + says):
        copied(value, "it")


def test_levels_are_bounded() -> None:
    """As deep as the service takes it, and no deeper."""

    def nested(levels: int) -> Any:
        value: Any = 1
        for _ in range(levels):
            value = {"a": value}
        return value

    assert copied(nested(MOST_LEVELS)) == nested(MOST_LEVELS)
    with pytest.raises(UsageError, match=f"at most {MOST_LEVELS} levels"):
        copied(nested(MOST_LEVELS + 1))
