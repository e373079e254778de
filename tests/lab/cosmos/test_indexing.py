"""Which values of an item a policy indexes."""

from __future__ import annotations

from typing import Any

import pytest

from azlatch.lab.cosmos.indexing import Indexing

ITEM: dict[str, Any] = {
    "id": "1",
    "pk": "a",
    "o": {"x": 1, "y": {"z": None}},
    "l": [1, {"a": 2, "b": 3}],
    "_etag": "e",
    "_ts": 1,
}


def policy(
    included: list[str] | None = None, excluded: list[str] | None = None, mode: str = "consistent"
) -> Any:
    made: dict[str, Any] = {"indexingMode": mode}
    if included is not None:
        made["includedPaths"] = [{"path": each} for each in included]
    if excluded is not None:
        made["excludedPaths"] = [{"path": each} for each in excluded]
    return made


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, 7),
        ({}, 7),
        (policy(), 7),
        (policy(["/*"], ['/"_etag"/?']), 7),
        (policy(["/*"], ["/_etag/?"], "Consistent"), 7),
        (policy(mode="none"), 0),
        (policy(["/*"], mode="None"), 0),
        (policy([], ["/*"]), 0),
        (policy(None, ["/*"]), 0),
        (policy([], []), 0),
        (policy(["/pk/?"], ["/*"]), 1),
        (policy(["/id/?", "/o/*"], ["/*"]), 3),
        (policy(["/o/*"], ["/*", "/o/y/*"]), 1),
        (policy(["/o/y/z/?"], ["/*", "/o/*"]), 1),
        (policy(["/*"], ["/o/*"]), 5),
        (policy(["/*"], ["/o/?"]), 7),
        (policy(["/*"], ["/o/x/?"]), 6),
        (policy(["/*"], ["/l/*"]), 4),
        (policy(["/*"], ["/l/[]/a/?"]), 6),
        (policy(["/l/[]/?"], ["/*"]), 1),
        (policy(["/l/[]/*"], ["/*"]), 3),
        (policy(None, ["/o/*"]), 5),
        (policy(["/missing/*"], ["/*"]), 0),
        (policy(["/*"], ['/"o"/*']), 5),
    ],
)
def test_terms(given: Any, expected: int) -> None:
    """The most precise path counts, and what is the service's own never."""
    assert expected == Indexing(given).terms(ITEM)


@pytest.mark.parametrize(
    "given",
    [
        {"indexingMode": 5},
        {"includedPaths": "x"},
        {"includedPaths": [None, {"path": 5}, {}, {"path": ""}, {"path": "nonsense"}]},
        {"excludedPaths": {"a": 1}},
    ],
)
def test_what_is_no_policy_does_not_raise(given: Any) -> None:
    """Checking it is not this module's business."""
    assert 0 <= Indexing(given).terms(ITEM) <= 7
