"""Request units: what an operation costs. An estimate, made of published constants; see each of them.

The service computes charges from things that it does not publish. What is known: a point read of 1 KB costs 1
and of 100 KB costs 10, an insert of 1 KB without indexing about 5 and of 100 KB about 50 (learn.microsoft.com,
"Request units" and "key-value cost"), which is the square root of the size; a replace about twice an insert;
reads at Strong and BoundedStaleness twice as much; a query 2 to 3 for each physical partition that it visits.
A live account charged 5.71 for a small insert (Azure/azure-sdk-for-rust, in-memory-emulator-spec.md).
Never compared with a live account by this project.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_READ = 1.0
_INSERT = 5.0
#: For each property that is indexed: 5.71 is an insert with three of them.
_INDEXED = 0.24
#: Properties beyond which nothing more is charged.
_MOST_INDEXED = 500
_REPLACE = 2.0
_DELETE = 1.0
_PATCH = 2.0
#: For each physical partition that a query visits; for each document that is loaded and each KB of them.
_QUERY = 2.3
_LOADED = 0.025
_QUERIED_KB = 0.02
#: What was not carried out.
_FAILED = {
    304: 1.0,
    400: 1.0,
    403: 1.0,
    404: 1.0,
    409: 1.24,
    412: 1.24,
    413: 1.0,
    424: 0.0,
    429: 0.38,
    449: 1.24,
}


def _size(size: int) -> float:
    """How much more than 1 KB it costs, bytes."""
    return max(1.0, math.sqrt(size / 1024))


def read(size: int, level: str) -> float:
    """A point read of a document of `size` bytes."""
    return round(_READ * _size(size) * (2 if level in ("Strong", "BoundedStaleness") else 1), 2)


def create(size: int, indexed: int) -> float:
    """An insert of a document with `indexed` properties in the index."""
    return round(_INSERT * _size(size) + _INDEXED * min(indexed, _MOST_INDEXED), 2)


def replace(size: int, indexed: int) -> float:
    """A replacement."""
    return round(_REPLACE * create(size, indexed), 2)


def upsert(size: int, indexed: int) -> float:
    """An upsert, whichever it was: the service looks first in both cases."""
    return round(create(size, indexed) * _REPLACE, 2)


def patch(size: int, indexed: int) -> float:
    """A patch: a replacement at the server."""
    return round(_PATCH * create(size, indexed), 2)


def delete(size: int, indexed: int) -> float:
    """A deletion."""
    return round(_DELETE * create(size, indexed), 2)


def query(loaded: int, size: int, results: int) -> float:
    """A page of a query over one physical partition that loaded documents of `size` bytes in all."""
    return round(_QUERY + _LOADED * max(loaded, results) + _QUERIED_KB * size / 1024, 2)


def failed(status: int) -> float:
    """A request that was not carried out."""
    return _FAILED.get(status, 1.0)


def indexed_paths(document: Mapping[str, Any], policy: Mapping[str, Any]) -> int:
    """How many properties of a document the container's policy puts into the index."""
    if policy.get("indexingMode", "consistent").lower() == "none":
        return 0
    excluded = [str(each.get("path", "")) for each in policy.get("excludedPaths", ()) if isinstance(each, dict)]
    included = [str(each.get("path", "")) for each in policy.get("includedPaths", ()) if isinstance(each, dict)]
    everything = "/*" not in excluded
    if everything and len(excluded) <= 1:
        return _leaves(document)
    count = 0
    for name, value in document.items():
        here = f"/{name}/"
        inside = any(path.startswith(here) for path in included)
        outside = any(path.startswith(here) for path in excluded)
        if inside or (everything and not outside):
            count += _leaves(value)
    return count


def _leaves(value: Any) -> int:
    """The values in it that are no object and no array, as far as they are charged."""
    count, waiting = 0, [value]
    while waiting and count < _MOST_INDEXED:
        each = waiting.pop()
        if isinstance(each, Mapping):
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each[:_MOST_INDEXED])
        else:
            count += 1
    return count
