"""Unique keys: who may have which values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.unique_keys import UniqueIndex, UniqueKeyPolicy


def policy(*constraints: list[str]) -> UniqueKeyPolicy:
    return UniqueKeyPolicy.of({"uniqueKeys": [{"paths": each} for each in constraints]})


EMAIL = policy(["/email"])
NAMES = policy(["/name/first", "/name/last"], ["/email"])


def conflicts(made: UniqueKeyPolicy, one: dict[str, Any], other: dict[str, Any]) -> bool:
    index = UniqueIndex(len(made.paths))
    index.add(made.keys_of(one), "1")
    try:
        index.add(made.keys_of(other), "2")
    except ServiceError as refused:
        assert (refused.status, refused.substatus) == (409, 3301)
        return True
    return False


def test_a_policy_comes_back_as_it_was() -> None:
    """With all its paths."""
    json = {"uniqueKeys": [{"paths": ["/name/first", "/name/last"]}, {"paths": ["/email"]}]}
    assert UniqueKeyPolicy.of(json).to_json() == json


@pytest.mark.parametrize("json", [None, {}, {"uniqueKeys": []}])
def test_no_constraints(json: Any) -> None:
    """Everything is allowed."""
    made = UniqueKeyPolicy.of(json)
    assert made.to_json() == {"uniqueKeys": []}
    assert not conflicts(made, {"a": 1}, {"a": 1})


@pytest.mark.parametrize(
    "json",
    [
        [],
        "x",
        {"uniqueKeys": None},
        {"uniqueKeys": {}},
        {"uniqueKeys": [None]},
        {"uniqueKeys": [{}]},
        {"uniqueKeys": [{"paths": []}]},
        {"uniqueKeys": [{"paths": "/a"}]},
        {"uniqueKeys": [{"paths": [1]}]},
        {"uniqueKeys": [{"paths": ["a"]}]},
        {"uniqueKeys": [{"paths": ["/a", "/a"]}]},
        {"uniqueKeys": [{"paths": ["/a"]}, {"paths": ["/a"]}]},
        {"uniqueKeys": [{"paths": ["/a", "/b"]}, {"paths": ["/b", "/a"]}]},
        {"uniqueKeys": [{"paths": [f"/a{each}" for each in range(17)]}]},
        {"uniqueKeys": [{"paths": [f"/a{each}"]} for each in range(11)]},
    ],
)
def test_refused_policies(json: Any) -> None:
    """400 for each."""
    with pytest.raises(ServiceError) as refused:
        UniqueKeyPolicy.of(json)
    assert refused.value.status == 400


def test_the_limits_are_allowed() -> None:
    """10 constraints, 16 paths."""
    assert len(policy(*[[f"/a{each}"] for each in range(10)]).paths) == 10
    assert len(policy([f"/a{each}" for each in range(16)]).paths[0]) == 16


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a", "A", False),
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (1, "1", False),
        (None, None, True),
        ("", None, False),
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1}, True),
        ({"a": 1}, {"a": True}, False),
        ([1, 2], [2, 1], False),
        ([], {}, False),
        ([], None, False),
    ],
)
def test_values(one: Any, other: Any, expected: bool) -> None:
    """By type and value; numbers as doubles."""
    assert expected == conflicts(EMAIL, {"email": one}, {"email": other})


def test_one_item_may_lack_the_value() -> None:
    """The second one conflicts; null is the same as nothing."""
    assert conflicts(EMAIL, {}, {})
    assert conflicts(EMAIL, {}, {"email": None})
    assert not conflicts(EMAIL, {}, {"email": "a"})


def test_all_paths_of_a_constraint_count_together() -> None:
    """And any constraint is enough for a conflict."""
    one = {"name": {"first": "Ada", "last": "L"}, "email": "1"}
    assert not conflicts(NAMES, one, {"name": {"first": "Ada", "last": "M"}, "email": "2"})
    assert conflicts(NAMES, one, {"name": {"first": "Ada", "last": "L"}, "email": "2"})
    assert conflicts(NAMES, one, {"name": {"first": "Bob"}, "email": "1"})


def test_an_item_may_keep_its_values() -> None:
    """It conflicts with others only."""
    index = UniqueIndex(1)
    keys = EMAIL.keys_of({"email": "a"})
    index.add(keys, "1")
    index.check(keys, "1")
    index.replace(keys, keys, "1")
    with pytest.raises(ServiceError):
        index.check(keys, "2")


def test_values_are_free_again() -> None:
    """After a delete, or a replace by others; but nobody takes away what is another's."""
    index = UniqueIndex(1)
    first, second = EMAIL.keys_of({"email": "a"}), EMAIL.keys_of({"email": "b"})
    index.add(first, "1")
    index.remove(first, "2")
    with pytest.raises(ServiceError):
        index.add(first, "2")
    index.replace(first, second, "1")
    index.add(first, "2")
    index.remove(second, "1")
    assert len(index) == 1


def test_a_conflict_changes_nothing() -> None:
    """Not even for the constraints before it."""
    index = UniqueIndex(2)
    index.add(NAMES.keys_of({"name": {"first": "A"}, "email": "1"}), "1")
    mine = NAMES.keys_of({"name": {"first": "B"}, "email": "2"})
    index.add(mine, "2")
    wanted = NAMES.keys_of({"name": {"first": "C"}, "email": "1"})
    with pytest.raises(ServiceError):
        index.replace(mine, wanted, "2")
    with pytest.raises(ServiceError):
        index.add(wanted, "3")
    index.check(NAMES.keys_of({"name": {"first": "C"}, "email": "3"}), "3")
    with pytest.raises(ServiceError):
        index.check(mine, "3")
    assert len(index) == 4


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "remove"]), st.sampled_from("123"), st.sampled_from([None, 1, "a"]))
    )
)
def test_no_two_items_ever_have_one_value(steps: list[tuple[str, str, Any]]) -> None:
    """Against a plain dictionary of items."""
    index, known = UniqueIndex(1), dict[str, Any]()
    for verb, owner, value in steps:
        keys = EMAIL.keys_of({"email": value})
        if verb == "remove":
            if owner in known:
                index.remove(EMAIL.keys_of({"email": known.pop(owner)}), owner)
            continue
        taken = any(has == value for other, has in known.items() if other != owner)
        before = EMAIL.keys_of({"email": known[owner]}) if owner in known else None
        try:
            if before is None:
                index.add(keys, owner)
            else:
                index.replace(before, keys, owner)
        except ServiceError:
            assert taken
        else:
            assert not taken
            known[owner] = value
        assert len(index) == len(known)
