"""What a container's partition key takes, and what it refuses as the service does."""

from __future__ import annotations

from typing import Any

import pytest
from azure.cosmos.partition_key import PartitionKey
from hypothesis import given
from hypothesis import strategies as st

from azlatch.lab.cosmos.effective_key import UNDEFINED
from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.partition_key import PartitionKeyDefinition

V1 = PartitionKeyDefinition.of({"paths": ["/pk"], "kind": "Hash", "version": 1})
V2 = PartitionKeyDefinition.of({"paths": ["/pk"], "kind": "Hash", "version": 2})
LEVELS = PartitionKeyDefinition.of({"paths": ["/state", "/city", "/zip"], "kind": "MultiHash", "version": 2})
SYSTEM = PartitionKeyDefinition.of(
    {"paths": ["/_partitionKey"], "kind": "Hash", "version": 2, "systemKey": True}
)

scalars = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    st.integers(-(2**63), 2**64),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
)


def refusal(call: Any, *given: Any, **named: Any) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        call(*given, **named)
    return caught.value


@pytest.mark.parametrize(
    "definition",
    [
        PartitionKey("/pk"),
        PartitionKey("/a/b", version=1),
        PartitionKey(["/a", "/b"]),
        PartitionKey(["/a", "/b", "/c"]),
        {"paths": ["/_partitionKey"], "kind": "Hash", "version": 2, "systemKey": True},
    ],
)
def test_a_definition_comes_back_as_it_was(definition: Any) -> None:
    """The SDK's own tests compare them whole."""
    assert PartitionKeyDefinition.of(definition).to_json() == definition


@pytest.mark.parametrize(
    ("given", "kind", "version"),
    [
        ({"paths": ["/a"]}, "Hash", 1),
        ({"paths": ["/a"], "kind": "Hash"}, "Hash", 1),
        ({"paths": ["/a"], "kind": "MultiHash"}, "MultiHash", 2),
    ],
)
def test_defaults(given: Any, kind: str, version: int) -> None:
    """A missing version is 1, but MultiHash has only version 2."""
    made = PartitionKeyDefinition.of(given)
    assert (kind, version) == (made.kind, made.version)


@pytest.mark.parametrize(
    "definition",
    [
        None,
        [],
        "/pk",
        {},
        {"paths": "/pk"},
        {"paths": []},
        {"paths": [1]},
        {"paths": ["pk"]},
        {"paths": ["/"]},
        {"paths": ["/a"], "kind": "Range"},
        {"paths": ["/a"], "kind": ["Hash"]},
        {"paths": ["/a"], "version": 3},
        {"paths": ["/a"], "version": True},
        {"paths": ["/a"], "version": "2"},
        {"paths": ["/a"], "kind": "MultiHash", "version": 1},
        {"paths": ["/a", "/a"], "kind": "MultiHash"},
        {"paths": ["/a", '/"a"'], "kind": "MultiHash"},
        {"paths": ["/a"], "systemKey": "yes"},
    ],
)
def test_refused_definitions(definition: Any) -> None:
    """400, whatever it is."""
    assert refusal(PartitionKeyDefinition.of, definition).status == 400


@pytest.mark.parametrize("kind", ["Hash", "MultiHash"])
def test_too_many_paths(kind: str) -> None:
    """The message that the SDK's own tests look for."""
    refused = refusal(
        PartitionKeyDefinition.of, {"paths": ["/a", "/b", "/c", "/d"], "kind": kind, "version": 2}
    )
    assert refused.status == 400
    assert "Too many partition key paths" in refused.message


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"pk": "a"}, ("a",)),
        ({"pk": None}, (None,)),
        ({"pk": True}, (True,)),
        ({"pk": 5}, (5.0,)),
        ({"pk": ""}, ("",)),
        ({}, (UNDEFINED,)),
        ({"pk": {"a": 1}}, (UNDEFINED,)),
    ],
)
def test_values_of_a_document(document: dict[str, Any], expected: tuple[Any, ...]) -> None:
    """Absent and null differ; an object counts as absent, as the SDK takes it to."""
    assert expected == V2.values_of(document)


@pytest.mark.parametrize("value", [["a"], [], 10**400])
def test_refused_values_of_a_document(value: Any) -> None:
    """An array, or a number that no double comes near."""
    assert refusal(V2.values_of, {"pk": value}).status == 400


def test_nested_and_quoted_paths() -> None:
    """The way that the SDK goes, too."""
    made = PartitionKeyDefinition.of({"paths": ['/"level\' 1*()"/"le/vel2"']})
    assert made.values_of({"level' 1*()": {"le/vel2": "val1"}}) == ("val1",)
    assert made.values_of({"level' 1*()": "x"}) == (UNDEFINED,)


def test_a_system_key_knows_no_value() -> None:
    """An item without it lies at the lowest key, and its header is []."""
    assert SYSTEM.values_of({"id": "1"}) == ()
    assert SYSTEM.values_of_header("[]") == ()
    assert SYSTEM.epk(()) == ""
    assert SYSTEM.epk_range(()) == ("", "00")
    assert SYSTEM.values_of({"_partitionKey": "a"}) == ("a",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('["a"]', ("a",)),
        (' [ "a" ] ', ("a",)),
        ("[null]", (None,)),
        ("[{}]", (UNDEFINED,)),
        ("[]", ()),
        ("[false]", (False,)),
        ("[1]", (1.0,)),
        ("[1e3]", (1000.0,)),
        ('["\\u00fc"]', ("ü",)),
    ],
)
def test_headers(text: str, expected: tuple[Any, ...]) -> None:
    """A JSON array of scalars."""
    assert expected == V2.values_of_header(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        '"a"',
        "{}",
        "null",
        "[",
        '["a"',
        "['a']",
        '[["a"]]',
        "[[]]",
        '[{"a":1}]',
        "[NaN]",
        "[1e999]",
        "[" * 5000,
        '["' + "a" * 70_000 + '"]',
        "[" + "9" * 400 + "]",
    ],
)
def test_refused_headers(text: str) -> None:
    """400 for everything else."""
    assert refusal(V2.values_of_header, text).status == 400


def test_the_number_of_components() -> None:
    """Fewer than levels only for a query; more never. Both have the substatus of a mismatch."""
    assert LEVELS.values_of_header('["CA","Ojai","1"]') == ("CA", "Ojai", "1")
    assert LEVELS.values_of_header('["CA"]', prefix=True) == ("CA",)
    assert LEVELS.values_of_header("[[]]", prefix=True) == ()
    for text in ['["CA"]', '["CA","Ojai"]', '["a","b","c","d"]']:
        refused = refusal(LEVELS.values_of_header, text)
        assert (refused.status, refused.substatus) == (400, 1001)
    assert refusal(LEVELS.values_of_header, '["a","b","c","d"]', prefix=True).substatus == 1001
    assert refusal(V2.values_of_header, '["a","b"]', prefix=True).substatus == 1001


def test_lengths() -> None:
    """In bytes, wherever the value comes from; version 1 hashes less of it, and takes as much."""
    most = 2048
    for definition in (V1, V2):
        assert definition.values_of({"pk": "a" * most}) == ("a" * most,)
        assert refusal(definition.values_of, {"pk": "a" * (most + 1)}).status == 400
        assert refusal(definition.values_of, {"pk": "ü" * (most // 2 + 1)}).status == 400
        assert refusal(definition.values_of_header, f'["{"a" * (most + 1)}"]').status == 400


def test_a_match_is_by_type_and_value() -> None:
    """true is not 1, null is not absent; 5 is 5.0."""
    assert V2.check_match((5.0,), {"pk": 5}) == (5.0,)
    assert V2.check_match((UNDEFINED,), {}) == (UNDEFINED,)
    wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (("a",), {"pk": "b"}),
        ((1.0,), {"pk": True}),
        ((True,), {"pk": 1}),
        (("1",), {"pk": 1}),
        ((None,), {}),
        ((UNDEFINED,), {"pk": None}),
        ((), {"pk": "a"}),
    ]
    for header, document in wrong:
        refused = refusal(V2.check_match, header, document)
        assert (refused.status, refused.substatus) == (400, 1001)
        assert (
            refused.message
            == "PartitionKey extracted from document doesn't match the one specified in the header"
        )


def test_null_for_a_level_that_is_absent_does_not_match() -> None:
    """What the SDK sends for an incomplete hierarchical key, and what its tests expect of it."""
    header = LEVELS.values_of_header('["CA","Ojai",null]')
    assert refusal(LEVELS.check_match, header, {"state": "CA", "city": "Ojai"}).substatus == 1001


@given(scalars)
def test_a_document_matches_its_own_header(value: Any) -> None:
    """However the number is written, both ways lead to one partition."""
    values = V2.values_of({"pk": value})
    text = V2.text(values)
    assert V2.values_of_header(text) == values
    assert V2.check_match(V2.values_of_header(text), {"pk": value}) == values
    assert V2.text(V2.values_of_header(text)) == text


@given(scalars, scalars)
def test_one_text_is_one_key(one: Any, other: Any) -> None:
    """Two partitions have one text exactly if they have one effective key."""
    first, second = V2.values_of({"pk": one}), V2.values_of({"pk": other})
    assert (V2.text(first) == V2.text(second)) == (V2.epk(first) == V2.epk(second))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((5.0,), "[5]"),
        ((0.5,), "[0.5]"),
        ((UNDEFINED,), "[{}]"),
        ((None,), "[null]"),
        (("ü",), '["ü"]'),
        ((), "[]"),
    ],
)
def test_text(values: tuple[Any, ...], expected: str) -> None:
    """As the header has it."""
    assert expected == V2.text(values)


def test_both_zeros_are_one() -> None:
    """They are equal numbers."""
    assert V2.text(V2.values_of({"pk": -0.0})) == V2.text(V2.values_of({"pk": 0})) == "[0]"
    assert V2.epk(V2.values_of({"pk": -0.0})) == V2.epk((0.0,))


def test_ranges() -> None:
    """All, a prefix, one key."""
    assert V2.epk_range(()) == ("", "FF")
    key = V2.epk(("a",))
    assert V2.epk_range(("a",)) == (key, key + "00")
    low, high = LEVELS.epk_range(("CA",))
    assert (low, high) == (LEVELS.epk(("CA",)), LEVELS.epk(("CA",)) + "FF")
    assert low <= LEVELS.epk(("CA", "Ojai", "1")) < high
