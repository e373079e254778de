"""What a request costs, in request units: an estimate, by one model with every constant's source beside it.

The service does not publish how it charges. What is public:

- "Request units" and "Key-value cost" in the documentation: a point read costs 1 RU at 1 KB and 10 RU at 100
  KB, an insert without indexing 5 and 50. Between the two points that is the square root of the size, and so
  it is here.
- "Consistency levels": reads and queries cost twice as much at Strong and Bounded Staleness.
- The documentation: a replace costs about twice an insert.
- `ru_model.rs`, the in-memory emulator in azure_data_cosmos_driver (Rust): 0.3 RU for each indexed property.
- The documentation and Microsoft's own rules for agents: 2 to 3 RU for each physical partition that a query
  visits.
- Issue threads: requests that fail cost something, too; one 429 shows 0.38 RU.

Where nothing is public, the constant says "assumed". `Prefer: return=minimal` changes no price. Use the
figures to see which design costs more, and where budgets run out, not to foresee a bill.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

#: A point read of 1 KB or less.
READ = 1.0
#: An insert of 1 KB or less without indexing.
CREATE = 5.0
#: A replace, by an insert of the same size.
REPLACE_FACTOR = 2.0
#: Each value that is indexed.
INDEXED = 0.3
#: Each physical partition that a query visits: the middle of 2 to 3.
QUERY_PARTITION = 2.5
#: Each item that a query looks at. Assumed.
QUERY_ITEM = 0.02
#: Each KB of the items that a query looks at. Assumed.
QUERY_KB = 0.03
#: A page of a change feed, or of a list of other resources, even with nothing on it. Assumed: a small read.
FEED_PAGE = 1.0
#: A request that is refused before anything was read. Assumed: a small read.
REFUSED = 1.0
#: A 429.
THROTTLED = 0.38

#: The levels at which reads cost twice as much.
_DOUBLED = frozenset(["strong", "boundedstaleness"])


def read(size: int, consistency: str = "Session") -> float:
    """Of a point read.

    Args:
        size: of the item, bytes.
        consistency: the level that the read has, as the header spells it.
    """
    return _rounded(READ * _by_size(size) * _by_level(consistency))


def create(size: int, indexed: int) -> float:
    """Of an insert: by the size, and by how many of its values are indexed."""
    return _rounded(CREATE * _by_size(size) + INDEXED * indexed)


def replace(before: int, after: int, indexed: int) -> float:
    """Of a replace, a patch or an upsert that met an item; by the larger one of the sizes.

    A patch "is normalized like other operations": its documentation says not to expect that it is cheaper.
    """
    return _rounded(CREATE * REPLACE_FACTOR * _by_size(max(before, after)) + INDEXED * indexed)


def delete(size: int, indexed: int) -> float:
    """Of a delete. Assumed: what the insert cost."""
    return create(size, indexed)


def query(partitions: int, visited: int, visited_bytes: int, consistency: str = "Session") -> float:
    """Of one page of a query.

    Args:
        partitions: physical partitions that it visited.
        visited: items that it looked at, whether they were in the result or not.
        visited_bytes: their size together.
        consistency: as for `read`.
    """
    units = QUERY_PARTITION * partitions + QUERY_ITEM * visited + QUERY_KB * visited_bytes / 1024
    return _rounded(units * _by_level(consistency))


def feed(count: int, size: int, consistency: str = "Session") -> float:
    """Of one page of a change feed or a list, by the items on it and their size together, as a query reads
    them.
    """
    return _rounded((FEED_PAGE + QUERY_ITEM * count + QUERY_KB * size / 1024) * _by_level(consistency))


def failed(status: int, size: int = 0, consistency: str = "Session") -> float:
    """Of a request that was not carried out.

    One that met an item it could not go on with (304, 409, 412, 449) costs the read of it; an operation of a
    batch that was not tried (424) costs nothing of its own.

    Args:
        status: of the answer.
        size: of the item that it met, bytes.
        consistency: as for `read`; it counts for 304 and 404 alone.
    """
    if status == 429:
        return THROTTLED
    if status == 424:
        return 0.0
    if status in (304, 404):
        return read(size, consistency)
    return read(size) if status in (409, 412, 449) else REFUSED


def batch(charges: Iterable[float]) -> float:
    """Of a transactional batch: its operations together."""
    return _rounded(sum(charges))


def _by_size(size: int) -> float:
    return math.sqrt(max(size, 1024) / 1024)


def _by_level(consistency: str) -> float:
    return 2.0 if consistency.lower() in _DOUBLED else 1.0


def _rounded(units: float) -> float:
    return round(units, 2)
