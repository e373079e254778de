"""One row of the table of answers, and the form in which rows that share all but their name are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from azlatch.contracts.diagnosis import Kind, Who

#: Whether the same request may be sent again. `reads`: reads may, writes have to look first. `look`: whatever
#: it was, what is stored decides.
Retry = Literal["yes", "no", "reads", "look"]
#: What such an answer is about: requests for items, management operations, the client itself.
Plane = Literal["data", "management", "client"]
#: Status and substatus. `(0, n)`: no answer came. `(None, n)`: a substatus whose status is not documented.
#: `(status, None)`: what is known of a status where the substatus is not in the table.
Key = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of one answer.

    Attributes:
        name: the service's or an SDK's name for it.
        reason: which text gives the reason for `retry`.
        text: which text gives cause and next step.
        source: keys of `sources.SOURCES`, separated by spaces.
        wait_s: seconds to begin with where the answer names no time.
    """

    name: str
    kind: Kind
    who: Who
    retry: Retry
    reason: str
    text: str
    source: str
    wait_s: float | None = None
    plane: Plane = "data"


def same(
    kind: Kind,
    who: Who,
    retry: Retry,
    reason: str,
    text: str,
    source: str,
    names: Mapping[Key, str],
    *,
    wait_s: float | None = None,
    plane: Plane = "data",
) -> dict[Key, Row]:
    """Rows that differ in their names alone."""
    return {
        key: Row(name, kind, who, retry, reason, text, source, wait_s, plane) for key, name in names.items()
    }


def table(*parts: Mapping[Key, Row]) -> dict[Key, Row]:
    """All rows, each key once."""
    found: dict[Key, Row] = {}
    for part in parts:
        twice = found.keys() & part.keys()
        assert not twice, twice
        found.update(part)
    return found
