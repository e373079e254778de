"""What may be stored, what is added to it, and when it is gone."""

from __future__ import annotations

import re
from typing import Any

import pytest

from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.item import (
    MOST_BYTES,
    MOST_TTL,
    SYSTEM_PROPERTIES,
    check_id,
    check_item,
    check_ttl,
    expires_at,
    new_etag,
    with_system,
)

#: The largest whole number that has a double, and the double.
LARGEST = 2**1024 - 2**970 - 1
assert float(LARGEST) < float("inf")


def nested(levels: int, kind: type = dict) -> Any:
    """An item with so many levels, itself included."""
    value: Any = {} if kind is dict else []
    for _ in range(levels - 2):
        value = {"a": value} if kind is dict else [value]
    return {"id": "1", "a": value}


@pytest.mark.parametrize(
    "document",
    [
        {"id": "1"},
        {"id": " a b.~*'%", "_etag": 5},
        {"id": "ü" * 511},
        {"id": "1", "ttl": -1},
        {"id": "1", "ttl": 1},
        {"id": "1", "ttl": MOST_TTL},
        {"id": "1", "n": LARGEST, "l": [1, None, "x"]},
        nested(128),
        nested(128, list),
    ],
)
def test_items(document: dict[str, Any]) -> None:
    """Within the limits, the limits included."""
    check_item(document, MOST_BYTES)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "a",
        5,
        {},
        {"id": None},
        {"id": ""},
        {"id": 1},
        {"id": ["a"]},
        {"id": "a/b"},
        {"id": "a\\b"},
        {"id": "?"},
        {"id": "#"},
        {"id": "a "},
        {"id": "a" * 1024},
        {"id": "ü" * 512},
        {"id": "1", "ttl": 0},
        {"id": "1", "ttl": None},
        {"id": "1", "ttl": -10},
        {"id": "1", "ttl": MOST_TTL + 1},
        {"id": "1", "ttl": True},
        {"id": "1", "ttl": 1.5},
        {"id": "1", "ttl": "10"},
        {"id": "1", "n": LARGEST + 1},
        {"id": "1", "l": [[-LARGEST - 1]]},
        nested(129),
        nested(129, list),
    ],
)
def test_refused_items(document: Any) -> None:
    """400 for each."""
    with pytest.raises(ServiceError) as refused:
        check_item(document, 10)
    assert refused.value.status == 400


def test_too_large_items() -> None:
    """413 from one byte on, before anything else is looked at."""
    for document in ({"id": "1"}, None):
        with pytest.raises(ServiceError) as refused:
            check_item(document, MOST_BYTES + 1)
        assert refused.value.status == 413


def test_what_is_checked_is_returned() -> None:
    """For the definitions of other resources."""
    assert check_id("a") == "a"
    assert check_ttl(-1, "defaultTtl") == -1
    with pytest.raises(ServiceError, match="defaultTtl"):
        check_ttl(-10, "defaultTtl")


def test_system_properties() -> None:
    """Last, in the order of the service, and never those of the caller; what came in stays as it was."""
    sent = {"_ts": 1, "id": "1", "_self": "mine", "pk": "a", "_mine": 2, "_etag": None}
    before = dict(sent)
    made = with_system(sent, "rid", "dbs/d/", '"e"', 99)
    assert list(made) == ["id", "pk", "_mine", *SYSTEM_PROPERTIES]
    assert [made[name] for name in SYSTEM_PROPERTIES] == ["rid", "dbs/d/", '"e"', "attachments/", 99]
    assert sent == before


def test_without_the_names_of_the_service() -> None:
    """The way that most items go."""
    sent = {"id": "1"}
    assert list(with_system(sent, "r", "s", "e", 1)) == ["id", *SYSTEM_PROPERTIES]
    assert sent == {"id": "1"}


def test_etags() -> None:
    """Of the form of the service, each another one, even beyond 32 bits and at the same time."""
    made = [new_etag(each, 1_700_000_000.9) for each in (0, 1, 2, 2**32, 2**32 + 1, 2**48 - 1)]
    assert len(set(made)) == 6
    assert all(re.fullmatch(r'"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{8}0000"', each) for each in made)
    assert made[1] == '"00000001-0000-0000-0000-6553f1000000"'


@pytest.mark.parametrize(
    ("item", "default", "expected"),
    [
        ({}, None, None),
        ({"ttl": 5}, None, None),
        ({}, -1, None),
        ({"ttl": 5}, -1, 105),
        ({}, 10, 110),
        ({"ttl": 5}, 10, 105),
        ({"ttl": 20}, 10, 120),
        ({"ttl": -1}, 10, None),
    ],
)
def test_expiry(item: dict[str, Any], default: int | None, expected: float | None) -> None:
    """The item goes before the container, but a container without a default keeps everything."""
    assert expected == expires_at(item, default, 100)
