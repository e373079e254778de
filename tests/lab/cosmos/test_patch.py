"""Partial updates: what each operation does, and what is refused."""

from __future__ import annotations

import copy
import json
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.patch import apply, parse_body

ITEM: dict[str, Any] = {
    "id": "1",
    "pk": "a",
    "n": 3,
    "f": 0.5,
    "s": "text",
    "none": None,
    "o": {"x": 1, "deep": {"y": [1, 2]}},
    "l": [1, 2, 3],
    "ll": [{"a": 1}, [1]],
    "a/b": {"~c": 1},
    "": 0,
    "_rid": "r",
    "_self": "s",
    "_etag": "e",
    "_attachments": "attachments/",
    "_ts": 1,
}


def op(verb: str, path: str, *value: Any, **more: Any) -> dict[str, Any]:
    return {"op": verb, "path": path, **({"value": value[0]} if value else {}), **more}


def changed(*operations: Any) -> dict[str, Any]:
    """What differs afterwards: new values by name, None-like marker for names that are gone."""
    before = copy.deepcopy(ITEM)
    after = apply(ITEM, operations, partition_key=[("pk",)])
    assert before == ITEM
    gone = {name: "GONE" for name in ITEM if name not in after}
    return gone | {name: each for name, each in after.items() if name not in ITEM or each != ITEM[name]}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (op("add", "/new", 1), {"new": 1}),
        (op("add", "new", 1), {"new": 1}),
        (op("add", "/n", {"a": 1}), {"n": {"a": 1}}),
        (op("add", "/o/z", None), {"o": {"x": 1, "deep": {"y": [1, 2]}, "z": None}}),
        (op("add", "/o/deep/y/0", 0), {"o": {"x": 1, "deep": {"y": [0, 1, 2]}}}),
        (op("add", "/l/1", 9), {"l": [1, 9, 2, 3]}),
        (op("add", "/l/3", 9), {"l": [1, 2, 3, 9]}),
        (op("add", "/l/-", 9), {"l": [1, 2, 3, 9]}),
        (op("add", "/ll/0/b", 2), {"ll": [{"a": 1, "b": 2}, [1]]}),
        (op("add", "/ll/1/-", 2), {"ll": [{"a": 1}, [1, 2]]}),
        (op("add", "/a~1b/~0c", 2), {"a/b": {"~c": 2}}),
        (op("set", "/new", [1]), {"new": [1]}),
        (op("set", "/n", 4), {"n": 4}),
        (op("set", "/l/1", 9), {"l": [1, 9, 3]}),
        (op("set", "/l/3", 9), {"l": [1, 2, 3, 9]}),
        (op("set", "/l/-", 9), {"l": [1, 2, 3, 9]}),
        (op("set", "/ttl", 60), {"ttl": 60}),
        (op("replace", "/s", 1), {"s": 1}),
        (op("replace", "/none", 1), {"none": 1}),
        (op("replace", "/l/2", 9), {"l": [1, 2, 9]}),
        (op("remove", "/n"), {"n": "GONE"}),
        (op("remove", "/none"), {"none": "GONE"}),
        (op("remove", "/l/0"), {"l": [2, 3]}),
        (op("remove", "/o/deep"), {"o": {"x": 1}}),
        (op("incr", "/n", 7), {"n": 10}),
        (op("incr", "/n", -5), {"n": -2}),
        (op("incr", "/n", 0.5), {"n": 3.5}),
        (op("incr", "/f", 1), {"f": 1.5}),
        (op("incr", "/new", 4), {"new": 4}),
        (op("incr", "/o/x", 1), {"o": {"x": 2, "deep": {"y": [1, 2]}}}),
        (op("incr", "/l/0", 12), {"l": [13, 2, 3]}),
        (op("incr", "/n", 2**63 - 4), {"n": 2**63 - 1}),
        (op("move", "/moved", **{"from": "/n"}), {"moved": 3, "n": "GONE"}),
        (op("move", "/s", **{"from": "/n"}), {"s": 3, "n": "GONE"}),
        (op("move", "/o/n", **{"from": "/n"}), {"o": {"x": 1, "deep": {"y": [1, 2]}, "n": 3}, "n": "GONE"}),
        (op("move", "/l/-", **{"from": "/l/0"}), {"l": [2, 3, 1]}),
        (op("move", "/l/0", **{"from": "/l/2"}), {"l": [3, 1, 2]}),
        (op("move", "/up", **{"from": "/o/deep"}), {"o": {"x": 1}, "up": {"y": [1, 2]}}),
    ],
)
def test_operations(operation: dict[str, Any], expected: dict[str, Any]) -> None:
    """By the documentation, and nothing else changes."""
    assert expected == changed(operation)


@pytest.mark.parametrize(
    "operation",
    [
        op("add", "/x/y", 1),
        op("add", "/s/y", 1),
        op("add", "/none/y", 1),
        op("add", "/n/0", 1),
        op("add", "/l/4", 1),
        op("add", "/l/x", 1),
        op("add", "/l/-1", 1),
        op("add", "/l/01", 1),
        op("add", "/l/-/a", 1),
        op("set", "/l/4", 1),
        op("set", "/x/y", 1),
        op("replace", "/new", 1),
        op("replace", "/l/3", 1),
        op("replace", "/l/-", 1),
        op("remove", "/new"),
        op("remove", "/l/3"),
        op("remove", "/l/-"),
        op("remove", "/s/x"),
        op("incr", "/s", 1),
        op("incr", "/none", 1),
        op("incr", "/o", 1),
        op("incr", "/l/3", 1),
        op("incr", "/l/-", 1),
        op("incr", "/n", 2**63 - 3),
        op("incr", "/n", -(2**64)),
        op("incr", "/f", 10**400),
        op("move", "/x", **{"from": "/new"}),
        op("move", "/x/y", **{"from": "/n"}),
        op("move", "/o/x", **{"from": "/o"}),
        op("move", "/n", **{"from": "/n"}),
        op("move", "/l/3", **{"from": "/l/0"}),
    ],
)
def test_what_cannot_be_done(operation: dict[str, Any]) -> None:
    """400, with the number of the operation; the item stays as it was."""
    with pytest.raises(ServiceError) as refused:
        changed(op("set", "/ok", 1), operation)
    assert refused.value.status == 400
    assert "For Operation(2)" in refused.value.message


@pytest.mark.parametrize(
    "operation",
    [
        None,
        [],
        "add",
        {},
        {"path": "/a", "value": 1},
        op("copy", "/a", **{"from": "/n"}),
        op("test", "/n", 3),
        {"op": ["add"], "path": "/a", "value": 1},
        {"op": "add", "value": 1},
        op("add", "/a"),
        op("set", "/a"),
        op("replace", "/n"),
        op("incr", "/n"),
        op("incr", "/n", "1"),
        op("incr", "/n", True),
        op("incr", "/n", None),
        op("move", "/a"),
        op("move", "/a", **{"from": 5}),
        op("add", "", 1),
        op("add", "/", 1),
        op("add", "/a//b", 1),
        op("add", "/a/", 1),
        op("add", "/a~2b", 1),
        op("add", "/a~", 1),
        op("add", "/" + "a" * 10_000, 1),
        op("add", "/a" * 200, 1),
        {"op": "add", "path": 5, "value": 1},
    ],
)
def test_bad_operations(operation: Any) -> None:
    """400 with the message of the service."""
    with pytest.raises(ServiceError, match="check syntax of patch specification") as refused:
        changed(operation)
    assert refused.value.status == 400


@pytest.mark.parametrize("name", ["id", "_rid", "_self", "_etag", "_attachments", "_ts", "id/x"])
@pytest.mark.parametrize("verb", ["add", "set", "replace", "remove", "incr", "move", "move away"])
def test_system_properties(name: str, verb: str) -> None:
    """Neither they nor the id, whatever is tried."""
    operation = op(verb, f"/{name}", 1, **{"from": "/n"})
    if verb == "move away":
        operation = op("move", "/x", **{"from": f"/{name}"})
    with pytest.raises(ServiceError, match="Can't patch system property") as refused:
        changed(operation)
    assert refused.value.status == 400


@pytest.mark.parametrize("path", ["/pk", "/pk/x", "/o", "/o/deep", "/o/deep/y", "o/deep"])
def test_the_partition_key(path: str) -> None:
    """Nor what it lies in."""
    with pytest.raises(ServiceError, match="Can't patch partition key property"):
        apply(ITEM, [op("set", path, 1)], partition_key=[("pk",), ("o", "deep", "y")])
    assert apply(ITEM, [op("set", "/o/x", 2)], partition_key=[("o", "deep", "y")])["o"]["x"] == 2


def test_up_to_ten_operations() -> None:
    """One at least, ten at most."""
    ten = [op("incr", "/n", 1)] * 10
    assert apply(ITEM, ten)["n"] == 13
    with pytest.raises(ServiceError, match="exceed 10"):
        apply(ITEM, [*ten, ten[0]])
    with pytest.raises(ServiceError, match="syntax"):
        apply(ITEM, [])


def test_they_see_each_other() -> None:
    """In their order."""
    assert changed(
        op("add", "/color", "yellow"),
        op("move", "/paint", **{"from": "/color"}),
        op("set", "/new", {"a": []}),
        op("add", "/new/a/-", 1),
        op("add", "/new/a/0", 0),
        op("remove", "/l/0"),
        op("remove", "/l/0"),
    ) == {"paint": "yellow", "new": {"a": [0, 1]}, "l": [3]}


def test_what_is_not_changed_is_shared() -> None:
    """Only the way to a change is copied."""
    after = apply(ITEM, [op("set", "/o/x", 2)])
    assert after["o"] is not ITEM["o"]
    assert after["o"]["deep"] is ITEM["o"]["deep"]
    assert after["ll"] is ITEM["ll"]


def test_the_operations_are_not_changed() -> None:
    """A value that a later operation writes to, too."""
    value: dict[str, Any] = {"l": []}
    after = apply(ITEM, [op("set", "/a", value), op("set", "/b", value), op("add", "/a/l/-", 1)])
    assert value == {"l": []}
    assert (after["a"], after["b"]) == ({"l": [1]}, {"l": []})


names = st.sampled_from(["a", "b", "0", "1", "-"])
values = st.recursive(
    st.none() | st.integers(-9, 9) | st.floats(-2, 2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
paths = st.lists(names, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
operations = st.builds(
    lambda verb, path, source, value: op(verb, path, value, **{"from": source}),
    st.sampled_from(["add", "set", "replace", "remove", "incr", "move"]),
    paths,
    paths,
    values,
)


def one_at_a_time(document: dict[str, Any], steps: list[dict[str, Any]]) -> dict[str, Any]:
    return reduce(lambda so_far, step: apply(so_far, [step]), steps, document)


@given(st.dictionaries(names, values, max_size=4), st.lists(operations, min_size=1, max_size=6))
def test_together_is_one_after_the_other(document: dict[str, Any], steps: list[dict[str, Any]]) -> None:
    """All of them or an error, whichever it is; neither the item nor the operations change."""
    before = copy.deepcopy((document, steps))
    try:
        expected = one_at_a_time(document, steps)
    except ServiceError as refused:
        with pytest.raises(ServiceError) as together:
            apply(document, steps)
        assert together.value.status == refused.status == 400
    else:
        assert expected == apply(document, steps)
    assert before == (document, steps)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"operations": [{"op": "x"}]}, (None, [{"op": "x"}])),
        ({"condition": "from c where c.a = 1", "operations": []}, ("from c where c.a = 1", [])),
        ({"condition": None, "operations": [{}]}, (None, [{}])),
        ([{"op": "x"}], (None, [{"op": "x"}])),
    ],
)
def test_bodies(body: Any, expected: Any) -> None:
    """With a condition or without one."""
    assert expected == parse_body(json.dumps(body).encode())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"5",
        b"null",
        b'"a"',
        b"{}",
        b'{"operations":null}',
        b'{"operations":{}}',
        b"[1]",
        b"\xff",
        b'{"operations":["a"]}',
        b'{"condition":5,"operations":[]}',
        b"[" * 100000,
        json.dumps({"condition": "x" * 70000, "operations": []}).encode(),
    ],
)
def test_refused_bodies(body: bytes) -> None:
    """400."""
    with pytest.raises(ServiceError) as refused:
        parse_body(body)
    assert refused.value.status == 400
