"""What the lab remembers of each request: what was asked, what it cost and what came of it."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

#: Requests that are remembered, and how many characters of what their clients sent.
MOST = 50_000
MOST_CHARACTERS = 32 * 2**20


class Row(NamedTuple):
    """One request."""

    number: int
    at: float
    region: str
    operation: str
    container: str
    partition_key: str
    range_id: str
    name: str
    status: int
    substatus: int
    charge: float
    request_length: int
    response_length: int
    activity_id: str
    #: The fault that it was given, as its rule is written.
    fault: str = ""
    user_agent: str = ""
    #: What only the log of requests wants, and empty without one: the path as it was sent, with what it was
    #: signed, and how long the answer took, the wait for the lab's clock included.
    path: str = ""
    signed: str = ""
    duration_ms: float = 0.0


class Ledger:
    """The last requests, numbered from 1."""

    def __init__(self) -> None:
        self._rows: deque[Row] = deque()
        self._characters = 0
        self._numbers = itertools.count(1)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, **facts: Any) -> Row:
        """Remembers one, and forgets the oldest where there are too many."""
        row = Row(next(self._numbers), **facts)
        self._rows.append(row)
        self._characters += _length(row)
        while len(self._rows) > MOST or self._characters > MOST_CHARACTERS:
            self._characters -= _length(self._rows.popleft())
        return row

    def rows(self, since: int = 0, most: int = MOST) -> list[Row]:
        """Those with a higher number than `since`, the oldest first."""
        found = (each for each in self._rows if each.number > since)
        return list(itertools.islice(found, most))

    def latest(self, most: int, wanted: Callable[[Row], bool] | None = None, look_at: int = MOST) -> list[Row]:
        """The newest ones, the newest first, of the last `look_at`: those that are wanted, or any."""
        newest = itertools.islice(reversed(self._rows), look_at)
        return list(itertools.islice(newest if wanted is None else filter(wanted, newest), most))

    def table(self, since: int, most: int) -> list[dict[str, Any]]:
        """The same as plain objects."""
        return [each._asdict() for each in self.rows(since, most)]


def _length(row: Row) -> int:
    """The characters of what has no bound of its own but that of a request's head."""
    size = len(row.partition_key) + len(row.name) + len(row.activity_id) + len(row.range_id)
    return size + len(row.user_agent) + len(row.path)
