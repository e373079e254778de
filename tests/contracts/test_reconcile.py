"""The ready rules, and the differences that they and people decide on."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azlatch import contracts
from azlatch.contracts import (
    MISSING,
    ConflictNeedsDecision,
    append_to_set,
    differences,
    numeric_delta,
    take_mine,
    three_way,
)
from azlatch.contracts.json_value import same
from azlatch.errors import UsageError

Item = dict[str, Any]
Rule = Callable[[Item, Item, Item], Item]


def of(**values: Any) -> Item:
    return {"id": "p", **values}


MERGES: list[tuple[str, Rule, Item, Item, Item, Item]] = [
    ("only mine changed", three_way, of(a=1), of(a=1), of(a=2), of(a=2)),
    ("only theirs changed", three_way, of(a=1), of(a=2), of(a=1), of(a=2)),
    ("different fields", three_way, of(a=1, b=1), of(a=2, b=1), of(a=1, b=2), of(a=2, b=2)),
    ("the same change", three_way, of(a=1), of(a=2), of(a=2), of(a=2)),
    ("both added the same", three_way, of(), of(a=[1]), of(a=[1]), of(a=[1])),
    ("mine added", three_way, of(), of(), of(a=None), of(a=None)),
    ("theirs added", three_way, of(), of(a=None), of(), of(a=None)),
    ("mine removed", three_way, of(a=1), of(a=1), of(), of()),
    ("both removed", three_way, of(a=1), of(), of(), of()),
    ("inside an object", three_way, of(o={"a": 1, "b": 1}), of(o={"a": 2, "b": 1}), of(o={"a": 1, "b": 2}),
     of(o={"a": 2, "b": 2})),
    ("both made an object", three_way, of(), of(o={"a": 1}), of(o={"a": 1}), of(o={"a": 1})),
    ("what the service sets is theirs", three_way, of(_etag="1", a=1), of(_etag="2", a=1), of(a=2),
     of(_etag="2", a=2)),
    ("delta", numeric_delta("n"), of(n=100), of(n=105), of(n=103), of(n=108)),
    ("delta, to the same", numeric_delta("n"), of(n=100), of(n=105), of(n=105), of(n=110)),
    ("delta, only mine", numeric_delta("n"), of(n=100), of(n=100), of(n=105), of(n=105)),
    ("delta of a new field", numeric_delta("n"), of(), of(n=5), of(n=3), of(n=8)),
    ("delta in decimal", numeric_delta("n"), of(n=0.1), of(n=0.3), of(n=0.2), of(n=0.4)),
    ("delta by a pointer", numeric_delta("/o/n"), of(o={"n": 1}), of(o={"n": 2}), of(o={"n": 3}),
     of(o={"n": 4})),
    ("delta of a name with a slash", numeric_delta("a/b"), of(**{"a/b": 1}), of(**{"a/b": 2}), of(**{"a/b": 3}),
     of(**{"a/b": 4})),
    ("set", append_to_set("t"), of(t=["a"]), of(t=["a", "b"]), of(t=["a", "c"]), of(t=["a", "b", "c"])),
    ("set, both the same", append_to_set("t"), of(t=[]), of(t=["b"]), of(t=["b"]), of(t=["b"])),
    ("set of objects", append_to_set("t"), of(t=[]), of(t=[{"x": 1}]), of(t=[{"x": 1.0}, {"x": 2}]),
     of(t=[{"x": 1}, {"x": 2}])),
    ("set that is new", append_to_set("t"), of(), of(t=[1]), of(t=[2]), of(t=[1, 2])),
    ("set, they took out", append_to_set("t"), of(t=[1, 2]), of(t=[2]), of(t=[1, 2, 3]), of(t=[2, 3])),
    ("mine", take_mine("at"), of(at=1), of(at=2), of(at=3), of(at=3)),
    ("mine removed it", take_mine("at"), of(at=1), of(at=2), of(), of()),
    ("joined", numeric_delta("n") | append_to_set("t") | take_mine("at"),
     of(n=1, t=[], at=1, x=1), of(n=2, t=[1], at=2, x=9), of(n=3, t=[2], at=3, x=1),
     of(n=4, t=[1, 2], at=3, x=9)),
    ("joined with three_way", three_way | numeric_delta("n"), of(n=1, x=1), of(n=2, x=1), of(n=3, x=2),
     of(n=4, x=2)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "base", "theirs", "mine", "merged"), [m[1:] for m in MERGES], ids=[m[0] for m in MERGES]
)
def test_merges(rule: Rule, base: Item, theirs: Item, mine: Item, merged: Item) -> None:
    """And leaves the three as they were."""
    before = copy.deepcopy((base, theirs, mine))
    found = rule(base, theirs, mine)
    assert same(found, merged), found
    assert (base, theirs, mine) == before


DECISIONS: list[tuple[str, Rule, Item, Item, Item, list[str]]] = [
    ("both changed", three_way, of(a=1, b=1), of(a=2, b=5), of(a=3, b=1), ["/a"]),
    ("one of them removed", three_way, of(a=1), of(), of(a=2), ["/a"]),
    ("both added", three_way, of(), of(a=1), of(a=2), ["/a"]),
    ("true and 1", three_way, of(), of(a=True), of(a=1), ["/a"]),
    ("inside an object", three_way, of(o={"a": 1}), of(o={"a": 2}), of(o={"a": 3}), ["/o/a"]),
    ("an object and none", three_way, of(o={"a": 1}), of(o=2), of(o={"a": 3}), ["/o"]),
    ("lists", three_way, of(t=[]), of(t=[1]), of(t=[2]), ["/t"]),
    ("two fields", three_way, of(a=1, b=1), of(a=2, b=2), of(a=3, b=3), ["/a", "/b"]),
    ("no rule for this field", numeric_delta("n"), of(n=1, a=1), of(n=2, a=2), of(n=3, a=3), ["/a"]),
    ("delta of a text", numeric_delta("n"), of(n=1), of(n="2"), of(n=3), ["/n"]),
    ("delta of a truth", numeric_delta("n"), of(n=1), of(n=True), of(n=3), ["/n"]),
    ("delta of what they removed", numeric_delta("n"), of(n=1), of(), of(n=3), ["/n"]),
    ("delta above what is exact", numeric_delta("n"), of(n=0), of(n=2**53), of(n=1), ["/n"]),
    ("set, mine took out", append_to_set("t"), of(t=[1]), of(t=[1, 2]), of(t=[]), ["/t"]),
    ("set of no list", append_to_set("t"), of(t=[1]), of(t="x"), of(t=[1, 2]), ["/t"]),
]


@pytest.mark.parametrize(
    ("rule", "base", "theirs", "mine", "paths"), [m[1:] for m in DECISIONS], ids=[m[0] for m in DECISIONS]
)
def test_what_needs_a_decision(rule: Rule, base: Item, theirs: Item, mine: Item, paths: list[str]) -> None:
    """The message names the fields, and the error has all three."""
    with pytest.raises(ConflictNeedsDecision) as caught:
        rule(base, theirs, mine)
    assert (caught.value.base, caught.value.theirs, caught.value.mine) == (base, theirs, mine)
    assert set(paths) <= {each.path for each in caught.value.conflicting}
    assert re.findall(r"/[\w/]+", str(caught.value)) == paths


def test_a_field_is_named_once() -> None:
    with pytest.raises(UsageError, match="/n"):
        numeric_delta("n") | take_mine("n")


@pytest.mark.parametrize("rule", [numeric_delta, append_to_set, take_mine])
@pytest.mark.parametrize("fields", [(), ("",), ("/",), (1,)])
def test_a_rule_names_a_field(rule: Callable[..., Any], fields: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError, match="name at least one"):
        rule(*fields)


def test_a_rule_is_joined_to_a_rule_only() -> None:
    with pytest.raises(TypeError):
        three_way | len


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab~/"), inner, max_size=3),
    max_leaves=6,
)
ITEMS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@settings(deadline=None)
@given(ITEMS, ITEMS)
def test_who_changed_nothing_gets_the_others_version(base: Item, other: Item) -> None:
    assert same(three_way(base, other, base), other)
    assert same(three_way(base, base, other), other)
    assert same(three_way(base, other, other), other)


@settings(deadline=None)
@given(ITEMS, ITEMS, ITEMS)
def test_a_merge_does_not_depend_on_the_side(base: Item, one: Item, two: Item) -> None:
    """And a decision is needed exactly where the differences show a conflict."""
    found = differences(base, one, two)
    try:
        merged = three_way(base, one, two)
    except ConflictNeedsDecision as error:
        assert error.conflicting
        with pytest.raises(ConflictNeedsDecision):
            three_way(base, two, one)
    else:
        assert not [each for each in found if each.is_conflict]
        assert same(merged, three_way(base, two, one))


@settings(deadline=None)
@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.integers(-1000, 1000))
def test_deltas_add_up(start: int, theirs: int, mine: int) -> None:
    merged = numeric_delta("n")({"n": start}, {"n": start + theirs}, {"n": start + mine})
    assert merged == {"n": start + theirs + mine}


def test_differences() -> None:
    """Each with its path, its three values and whose it is; nothing of what the service sets."""
    base = {"id": "p", "_etag": "1", "n": 1, "o": {"a/b": 1, "t": [1]}, "gone": 1}
    theirs = {"id": "p", "_etag": "2", "n": 2, "o": {"a/b": 2, "t": [1]}, "gone": 1}
    mine = {"id": "p", "_etag": "1", "n": 3, "o": {"a/b": 1, "t": [1, 2]}}
    found = differences(base, theirs, mine)
    assert [
        (each.path, each.base, each.theirs, each.mine, each.changed_by, each.is_conflict) for each in found
    ] == [
        ("/gone", 1, 1, MISSING, "mine", False),
        ("/n", 1, 2, 3, "both", True),
        ("/o/a~1b", 1, 2, 1, "theirs", False),
        ("/o/t", [1], [1], [1, 2], "mine", False),
    ]
    assert str(found[1]) == "/n: 1 -> theirs 2, mine 3"


def test_missing_is_itself() -> None:
    """However it is copied; it is not null, and it is false."""
    assert copy.deepcopy(MISSING) is copy.copy(MISSING) is pickle.loads(pickle.dumps(MISSING)) is MISSING
    assert not MISSING
    assert repr(MISSING) == "MISSING"
    assert not same(MISSING, None)


def test_public_names() -> None:
    """Every name of the package is there, and its asyncio part has the verbs that talk to the service."""
    assert all(hasattr(contracts, name) for name in contracts.__all__)
    assert set(contracts.__all__) <= set(dir(contracts))
    assert all(hasattr(contracts.aio, name) for name in contracts.aio.__all__)
    assert set(contracts.aio.__all__) <= set(dir(contracts.aio))
    for module in (contracts, contracts.aio):
        with pytest.raises(AttributeError, match="no attribute"):
            module.nothing  # noqa: B018
