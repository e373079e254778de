"""The log that production has: requests as rows of Azure Monitor's tables for Cosmos DB. No I/O.

The tables and their columns are those of the Azure Monitor reference. The service's quirks are kept:

- A read over several keys (a query, a feed, a change feed without a key) has an empty `PartitionKey`.
- `CDBPartitionKeyRUConsumption` has only what cost request units, and `undefined` where no range is known.
- `CDBPartitionKeyStatistics` has the largest keys alone, now and then, in each region.
- A request that never arrived is not there, and one whose reply was lost is there as what it came to.

What the lab cannot know (who is billed, roles, the tenant) is empty or zero. The reference has no list of the
values of `AuthTokenType` and `KeyType`; those here are the lab's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from azlatch.lab.cosmos.ledger import Row
from azlatch.lab.cosmos.wire import decode, encode

if TYPE_CHECKING:
    from azlatch.lab.cosmos.store import Store

REQUESTS = "CDBDataPlaneRequests"
CONSUMPTION = "CDBPartitionKeyRUConsumption"
STATISTICS = "CDBPartitionKeyStatistics"

#: Of each physical partition, so many keys are in the statistics: the largest.
LARGEST_KEYS = 3

_COMMON = (
    "_BilledSize",
    "_IsBillable",
    "_ResourceId",
    "SourceSystem",
    "_SubscriptionId",
    "TenantId",
    "TimeGenerated",
    "Type",
)
#: The columns of each table, in their order in a file.
COLUMNS: dict[str, tuple[str, ...]] = {
    REQUESTS: (
        "AadAppliedRoleAssignmentId",
        "AadPrincipalId",
        "AccountName",
        "ActivityId",
        "AuthTokenType",
        "ClientIpAddress",
        "CollectionName",
        "ConnectionMode",
        "DatabaseName",
        "DurationMs",
        "KeyType",
        "OperationName",
        "PartitionId",
        "RegionName",
        "RequestCharge",
        "RequestLength",
        "RequestResourceId",
        "RequestResourceType",
        "ResourceTokenPermissionId",
        "ResourceTokenPermissionMode",
        "ResourceTokenUserRid",
        "ResponseLength",
        "StatusCode",
        "SubStatusCode",
        "UserAgent",
        *_COMMON,
    ),
    CONSUMPTION: (
        "AccountName",
        "ActivityId",
        "CollectionName",
        "DatabaseName",
        "OperationName",
        "PartitionKey",
        "PartitionKeyRangeId",
        "RegionName",
        "RequestCharge",
        *_COMMON,
    ),
    STATISTICS: (
        "AccountName",
        "CollectionName",
        "DatabaseName",
        "PartitionKey",
        "RegionName",
        "SizeKb",
        *_COMMON,
    ),
}

#: What the service calls our verbs and kinds of resource.
_OPERATIONS = {
    "create": "Create",
    "upsert": "Upsert",
    "read": "Read",
    "replace": "Replace",
    "patch": "Patch",
    "delete": "Delete",
    "list": "ReadFeed",
    "changes": "ReadFeed",
    "query": "Query",
    "plan": "QueryPlan",
    "batch": "Batch",
    "delete-key": "Delete",
    "execute": "ExecuteJavaScript",
}
_RESOURCES = {
    "account": "DatabaseAccount",
    "dbs": "Database",
    "colls": "Collection",
    "docs": "Document",
    "pkranges": "PartitionKeyRange",
    "offers": "Offer",
    "users": "User",
    "permissions": "Permission",
    "clientencryptionkeys": "ClientEncryptionKey",
    "sprocs": "StoredProcedure",
    "triggers": "Trigger",
    "udfs": "UserDefinedFunction",
    "conflicts": "Conflict",
}
_SIGNED = {"master": "PrimaryMasterKey", "resource": "ResourceToken", "aad": "AadToken"}
#: Faults with which a request does not get as far as the service.
_NOT_ARRIVED = {"drop-request", "reset"}


def rows_of(row: Row, account: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What one request is in the log: tables, each with a row for it."""
    if row.fault.split(" ", 1)[0] in _NOT_ARRIVED:
        return
    yield REQUESTS, _request(row, account)
    if row.operation.startswith("docs/") and row.charge > 0:
        yield CONSUMPTION, _consumption(row, account)


def table_of(table: str, rows: Iterable[Row], account: str) -> list[dict[str, Any]]:
    """One table for many requests."""
    return [found for row in rows for name, found in rows_of(row, account) if name == table]


def statistics(
    stores: Iterable[Store], regions: Iterable[str], account: str, now: float
) -> list[dict[str, Any]]:
    """The sizes of the largest keys of each physical partition, once for each region."""
    places = list(regions)
    found = []
    for store in stores:
        database, container = _names(store.resource.path.removeprefix("dbs/").replace("/colls/", "/", 1))
        for part in store.parts:
            for key in nlargest(LARGEST_KEYS, part.keys.values(), key=lambda each: each.size):
                facts = {
                    "CollectionName": container,
                    "DatabaseName": database,
                    "PartitionKey": key_text(key.text),
                    "SizeKb": -(-key.size // 1024),
                }
                found += [_row(STATISTICS, account, now, RegionName=region, **facts) for region in places]
    return found


def key_text(text: str) -> str:
    """A partition key as the log spells it: compact JSON; empty where none was named, or no valid one."""
    try:
        values = decode(text.encode()) if text else []
        return encode(values).decode() if values else ""
    except ValueError:
        return ""


def time_text(moment: float) -> str:
    """Seconds since 1970 in the spelling of `TimeGenerated`."""
    try:
        at = datetime.fromtimestamp(moment, UTC)
    except (ValueError, OverflowError, OSError):
        # A lab's clock can be put forward beyond what a calendar has.
        at = datetime.max.replace(tzinfo=UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _request(row: Row, account: str) -> dict[str, Any]:
    kind, verb = _kind_and_verb(row)
    database, container = _names(row.container)
    return _row(
        REQUESTS,
        account,
        row.at,
        ActivityId=row.activity_id,
        AuthTokenType=_SIGNED.get(row.signed, ""),
        ClientIpAddress="127.0.0.1",
        CollectionName=container,
        ConnectionMode="Gateway",
        DatabaseName=database,
        DurationMs=round(row.duration_ms, 3),
        KeyType=_SIGNED["master"] if row.signed == "master" else "",
        OperationName=_OPERATIONS.get(verb, verb),
        PartitionId=_range(row),
        RegionName=row.region,
        RequestCharge=row.charge,
        RequestLength=float(row.request_length),
        RequestResourceId=row.path,
        RequestResourceType="PartitionKey" if verb == "delete-key" else _RESOURCES.get(kind, kind),
        ResponseLength=float(row.response_length),
        StatusCode=row.status,
        SubStatusCode=row.substatus,
        UserAgent=row.user_agent,
    )


def _consumption(row: Row, account: str) -> dict[str, Any]:
    database, container = _names(row.container)
    verb = _kind_and_verb(row)[1]
    return _row(
        CONSUMPTION,
        account,
        row.at,
        ActivityId=row.activity_id,
        CollectionName=container,
        DatabaseName=database,
        OperationName=_OPERATIONS.get(verb, verb),
        PartitionKey=key_text(row.partition_key),
        PartitionKeyRangeId=_range(row) or "undefined",
        RegionName=row.region,
        RequestCharge=row.charge,
    )


def _row(table: str, account: str, now: float, **facts: Any) -> dict[str, Any]:
    """All columns of a table, those empty of which nothing is said."""
    known = {
        "AccountName": account,
        "_BilledSize": 0.0,
        "_IsBillable": "false",
        "_ResourceId": f"/providers/microsoft.documentdb/databaseaccounts/{account}",
        "SourceSystem": "azlatch-lab",
        "TenantId": "00000000-0000-0000-0000-000000000000",
        "TimeGenerated": time_text(now),
        "Type": table,
        **facts,
    }
    return {column: known.get(column, "") for column in COLUMNS[table]}


def _kind_and_verb(row: Row) -> tuple[str, str]:
    kind, _, verb = row.operation.partition("/")
    return kind, verb


def _names(place: str) -> tuple[str, str]:
    database, _, container = place.partition("/")
    return database, container


def _range(row: Row) -> str:
    # Clients may name a range with its container: "rid,range".
    return row.range_id.rpartition(",")[2]
