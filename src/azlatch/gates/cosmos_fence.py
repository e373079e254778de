"""The fence as a Cosmos DB item keeps it, and the one condition under which the service lets a write in.

The same for a gate around one item and for the gate in a batch, so that both respect one another on one item.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from azlatch.errors import UsageError
from azlatch.gates.fence import FenceSource, fence_of

#: JSON of Cosmos has doubles: beyond this, two fences could be one.
MOST_FENCE = 2**53 - 1
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_TAKEN = ("id", "ttl", "_ts", "_etag")


def cosmos_fence_of(source: FenceSource) -> int:
    """The fence that is offered, as a number that an item can hold.

    Raises:
        FenceRejected: there is none, as with `fence=False` (F4).
        UsageError: it is no fence, or too large.
    """
    fence = fence_of(source)
    if fence > MOST_FENCE:
        raise UsageError(
            f"the fence {fence} is more than {MOST_FENCE}, from where the numbers of Cosmos DB have gaps: "
            "use the hold's own fence"
        )
    return fence


def fence_predicate(field: str, fence: int) -> str:
    """The filter predicate of a patch that an item takes from this fence: none is stored, or none newer."""
    held = f'c["{field}"]'
    return f"from c where NOT IS_DEFINED({held}) OR {held} <= {fence}"


def fence_patch(field: str, fence: int) -> list[dict[str, Any]]:
    """The steps of that patch: the fence is noted."""
    return [{"op": "set", "path": f"/{field}", "value": fence}]


def stored_fence(item: Mapping[str, Any], field: str, gate: str) -> int | None:
    """The newest fence that an item tells of; None where none has written to it yet.

    Raises:
        UsageError: what stands there is no fence.
    """
    if field not in item:
        return None
    found = item[field]
    if isinstance(found, bool) or not isinstance(found, int | float) or found != int(found) or found < 0:
        raise UsageError(
            f"{gate} holds {found!r:.100} in {field!r}, which is no fence: it was changed by hand. Nothing was "
            "written"
        )
    return int(found)


def check_field(field: object) -> str:
    """The name of a property that stands at the top of an item.

    Raises:
        UsageError: it is none that needs no quoting.
    """
    if not isinstance(field, str) or not _FIELD.fullmatch(field) or field in _TAKEN:
        raise UsageError(
            f"field={field!r:.100}: use a plain name of letters, digits and _, other than id and ttl"
        )
    return field
