"""The headers with which the service answers for resources that are no items."""

from __future__ import annotations

import math
from email.utils import formatdate
from typing import Any

from azlatch.lab.cosmos.resource_tree import ContainerResource, Resource
from azlatch.lab.cosmos.wire import Reply, Request, encode

#: What the SDK takes for a resource of the account's own partition (`IsMasterResource`). The session token of
#: an answer about anything else it stores, as the token of the container's data: those answers carry none.
_MASTER = frozenset(("dbs", "colls", "users", "permissions", "offers"))
#: Request units, an estimate: what the REST reference shows for such requests.
READ_CHARGE = 1.0
QUERY_CHARGE = 2.28
WRITE_CHARGE = 4.95
_DATABASE_QUOTA = "databases=1000;collections=5000;users=500000;permissions=2000000;"
#: What one physical partition holds: RU/s, and KB.
_RANGE_THROUGHPUT = 10_000
_RANGE_KB = 50 * 1024 * 1024


def headers_of(kind: str, owner: Resource | None, lsn: int, charge: float) -> dict[str, str]:
    """What every answer about a kind of resource with that owner carries."""
    headers = {"x-ms-request-charge": f"{charge:g}", "lsn": str(lsn), "x-ms-schemaversion": "1.18"}
    if kind in _MASTER:
        headers["x-ms-session-token"] = f"0:-1#{lsn}"
    if owner is not None:
        headers["x-ms-alt-content-path"] = owner.content_path
        headers["x-ms-content-path"] = owner.rid
    return headers


def one(status: int, resource: Resource, body: dict[str, Any], lsn: int, charge: float) -> Reply:
    """An answer with one resource; with status 304 without it."""
    headers = headers_of(resource.kind, resource.parent, lsn, charge)
    headers["etag"] = resource.etag
    headers["last-modified"] = formatdate(resource.body["_ts"], usegmt=True)
    return Reply(status, headers, b"" if status == 304 else encode(body))


def feed(
    name: str, kind: str, owner: Resource | None, page: tuple[list[Any], str], lsn: int, charge: float
) -> Reply:
    """An answer with one page of a feed, and the continuation of the next."""
    found, more = page
    headers = headers_of(kind, owner, lsn, charge)
    headers["x-ms-item-count"] = str(len(found))
    if more:
        headers["x-ms-continuation"] = more
    return Reply(200, headers, encode({"_rid": owner.rid if owner else "", name: found, "_count": len(found)}))


def database_quota(databases: int, containers: int, users: int, permissions: int) -> dict[str, str]:
    """How many of what there may be, and are, in a database."""
    usage = f"databases={databases};collections={containers};users={users};permissions={permissions};"
    return {"x-ms-resource-quota": _DATABASE_QUOTA, "x-ms-resource-usage": usage}


def container_quota(
    container: ContainerResource, size: tuple[int, int], most: dict[str, int]
) -> dict[str, str]:
    """How much there may be, and is, in a container of that size (documents, KB)."""
    documents, kilobytes = size
    room = _RANGE_KB * max(1, math.ceil(container.throughput / _RANGE_THROUGHPUT))
    used = {each: len(container.shelves[each]) for each in most}
    return {
        "x-ms-resource-quota": _scripts(most)
        + f"documentsSize={room};documentsCount=-1;collectionSize={room};",
        "x-ms-resource-usage": _scripts(used)
        + f"documentsSize={kilobytes};documentsCount={documents};collectionSize={kilobytes};",
        # The lab indexes at once, so that an index is never on its way.
        "x-ms-documentdb-collection-index-transformation-progress": "100",
    }


def statistics(size: tuple[int, int]) -> list[dict[str, Any]]:
    """The statistics of a container, as of one range: how its data is spread is not known here."""
    return [{"id": "0", "sizeInKB": size[1], "documentCount": size[0], "sampledDistinctPartitionKeyCount": 0}]


def wants_quota(request: Request) -> bool:
    """Whether a request asks how full a container is."""
    return request.flag("x-ms-documentdb-populatequotainfo")


def _scripts(counts: dict[str, int]) -> str:
    return f"functions={counts['udfs']};storedProcedures={counts['sprocs']};triggers={counts['triggers']};"
