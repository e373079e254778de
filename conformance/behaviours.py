"""What a Cosmos DB answers in situations that matter: each is tried through the SDK, and what came is noted.

An observation is what a program could build on: a status with its substatus, or a fact. No behaviour knows
which service it runs on.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from azure.core import MatchConditions
from azure.cosmos import ContainerProxy, DatabaseProxy, PartitionKey, exceptions


class Behaviour(NamedTuple):
    """One situation: what part of the service it is of, and the question in words."""

    part: str
    question: str
    observe: Callable[[Place], str]


class Place:
    """Where behaviours are tried: a database and a container of their own."""

    def __init__(self, database: DatabaseProxy, container: ContainerProxy) -> None:
        self.database = database
        self.container = container

    def item(self, pk: Any = "p", **more: Any) -> dict[str, Any]:
        """A new item, not stored yet."""
        return {"id": uuid.uuid4().hex, "pk": pk, **more}

    def stored(self, pk: Any = "p", **more: Any) -> dict[str, Any]:
        """A new item that is stored."""
        return dict(self.container.create_item(self.item(pk, **more)))

    def temporary(self, **settings: Any) -> ContainerProxy:
        """Another container, for what one cannot be changed into."""
        key = settings.pop("partition_key", PartitionKey("/pk"))
        return self.database.create_container(uuid.uuid4().hex, key, **settings)


ALL: list[Behaviour] = []


def _of(part: str, question: str) -> Callable[[Callable[[Place], str]], Callable[[Place], str]]:
    def add(observe: Callable[[Place], str]) -> Callable[[Place], str]:
        ALL.append(Behaviour(part, question, observe))
        return observe

    return add


def _answer(call: Callable[[], Any], good: str = "done") -> str:
    """Status and substatus where it was refused."""
    try:
        call()
    except exceptions.CosmosBatchOperationError as error:
        return " ".join(str(each.get("statusCode")) for each in error.operation_responses)
    except exceptions.CosmosHttpResponseError as error:
        return f"{error.status_code}/{error.sub_status or 0}"
    return good


_IF_MATCH = MatchConditions.IfNotModified


@_of("items", "create of an id that is taken in its logical partition")
def _(place: Place) -> str:
    item = place.stored()
    return _answer(lambda: place.container.create_item({"id": item["id"], "pk": "p"}))


@_of("items", "the same id under another partition key value")
def _(place: Place) -> str:
    item = place.stored()
    return _answer(lambda: place.container.create_item({"id": item["id"], "pk": "q"}), "another item")


@_of("items", "read of an item under the wrong partition key value")
def _(place: Place) -> str:
    item = place.stored()
    return _answer(lambda: place.container.read_item(item["id"], "wrong"))


@_of("items", "replace with a stale ETag")
def _(place: Place) -> str:
    old = place.stored()
    place.container.replace_item(old["id"], {**old, "n": 1})
    return _answer(
        lambda: place.container.replace_item(
            old["id"], {**old, "n": 2}, etag=old["_etag"], match_condition=_IF_MATCH
        )
    )


@_of("items", "upsert with If-Match on an item that does not exist")
def _(place: Place) -> str:
    return _answer(
        lambda: place.container.upsert_item(place.item(), etag='"none"', match_condition=_IF_MATCH), "created"
    )


@_of("items", "replace that changes the partition key value")
def _(place: Place) -> str:
    item = place.stored()
    return _answer(lambda: place.container.replace_item(item["id"], {"id": item["id"], "pk": "q"}))


@_of("items", "replace with another id in the body")
def _(place: Place) -> str:
    item, name = place.stored(), uuid.uuid4().hex
    place.container.replace_item(item["id"], {"id": name, "pk": "p"})
    return _answer(lambda: place.container.read_item(item["id"], "p"), "a second item")


@_of("items", "an item of more than 2 MB")
def _(place: Place) -> str:
    return _answer(lambda: place.container.create_item(place.item(text="x" * (2 * 2**20))))


@_of("items", "ttl 0 in an item")
def _(place: Place) -> str:
    return _answer(lambda: place.container.create_item(place.item(ttl=0)))


@_of("items", "a read with the ETag that it has, in If-None-Match")
def _(place: Place) -> str:
    item = place.stored()
    found = place.container.read_item(
        item["id"], "p", etag=item["_etag"], match_condition=MatchConditions.IfModified
    )
    return "304, an empty answer" if not found else "the item"


@_of("patch", "a condition that does not hold")
def _(place: Place) -> str:
    item = place.stored(n=1)
    steps = [{"op": "incr", "path": "/n", "value": 1}]
    return _answer(
        lambda: place.container.patch_item(item["id"], "p", steps, filter_predicate="from c where c.n = 2")
    )


@_of("patch", "replace of a property that is not there")
def _(place: Place) -> str:
    item = place.stored()
    return _answer(
        lambda: place.container.patch_item(item["id"], "p", [{"op": "replace", "path": "/x", "value": 1}])
    )


@_of("patch", "incr of a property that is not there")
def _(place: Place) -> str:
    item = place.stored()
    return _answer(
        lambda: place.container.patch_item(item["id"], "p", [{"op": "incr", "path": "/x", "value": 1}]),
        "it is made",
    )


@_of("patch", "eleven operations")
def _(place: Place) -> str:
    item = place.stored()
    steps = [{"op": "set", "path": f"/x{each}", "value": 1} for each in range(11)]
    return _answer(lambda: place.container.patch_item(item["id"], "p", steps))


@_of("batch", "a stale replace between two creates")
def _(place: Place) -> str:
    old = place.stored()
    place.container.replace_item(old["id"], {**old, "n": 1})
    operations = [
        ("create", (place.item(),)),
        ("replace", (old["id"], {"id": old["id"], "pk": "p"}), {"if_match_etag": old["_etag"]}),
        ("create", (place.item(),)),
    ]
    return _answer(lambda: place.container.execute_item_batch(operations, "p"))


@_of("batch", "what the items are after a batch that failed")
def _(place: Place) -> str:
    item = place.stored(n=1)
    operations = [("replace", (item["id"], {"id": item["id"], "pk": "p", "n": 2})), ("delete", ("none",))]
    _answer(lambda: place.container.execute_item_batch(operations, "p"))
    return "unchanged" if place.container.read_item(item["id"], "p")["n"] == 1 else "changed"


@_of("batch", "101 operations")
def _(place: Place) -> str:
    operations = [("upsert", (place.item(),)) for _ in range(101)]
    return _answer(lambda: place.container.execute_item_batch(operations, "p"))


@_of("batch", "an operation for another partition key value")
def _(place: Place) -> str:
    operations = [("create", (place.item(),)), ("create", (place.item("q"),))]
    return _answer(lambda: place.container.execute_item_batch(operations, "p"))


@_of("containers", "two items with the same values under a unique key")
def _(place: Place) -> str:
    container = place.temporary(unique_key_policy={"uniqueKeys": [{"paths": ["/email"]}]})
    container.create_item(place.item(email="x"))
    return _answer(lambda: container.create_item(place.item(email="x")))


@_of("containers", "change of the partition key of a container")
def _(place: Place) -> str:
    container = place.temporary()
    return _answer(lambda: place.database.replace_container(container, PartitionKey("/other")))


@_of("containers", "a default time to live of 0")
def _(place: Place) -> str:
    return _answer(lambda: place.temporary(default_ttl=0))


@_of("containers", "a container that exists already")
def _(place: Place) -> str:
    return _answer(lambda: place.database.create_container(place.container.id, PartitionKey("/pk")))


@_of("containers", "an item of a container that does not exist")
def _(place: Place) -> str:
    missing = place.database.get_container_client("none")
    return _answer(lambda: missing.read_item("a", "p"))


@_of("containers", "four levels of partition key")
def _(place: Place) -> str:
    key = PartitionKey(path=["/a", "/b", "/c", "/d"], kind="MultiHash")
    return _answer(lambda: place.temporary(partition_key=key))


@_of("queries", "a query without a key and without leave to cross partitions")
def _(place: Place) -> str:
    return _answer(lambda: list(place.container.query_items("SELECT * FROM c WHERE c.n = 1")))


@_of("queries", "SQL that is none")
def _(place: Place) -> str:
    return _answer(lambda: list(place.container.query_items("SELEKT 1", enable_cross_partition_query=True)))


@_of("queries", "ORDER BY over several types")
def _(place: Place) -> str:
    for value in ("text", 1, None, True, [1], {"a": 1}):
        place.stored("order", v=value)
    found = place.container.query_items("SELECT VALUE c.v FROM c ORDER BY c.v", partition_key="order")
    return ", ".join(type(each).__name__ for each in found)


@_of("queries", "0.1 + 0.2 and integer division")
def _(place: Place) -> str:
    place.stored("numbers")
    found = place.container.query_items("SELECT VALUE [0.1 + 0.2, 7 / 2] FROM c", partition_key="numbers")
    return str(next(iter(found)))


@_of("sessions", "a session token of a future that has not come")
def _(place: Place) -> str:
    item = place.stored()
    told = place.container.client_connection.last_response_headers["x-ms-session-token"]
    range_id, _, rest = told.partition(":")
    version, lsn, *others = rest.split("#")
    future = f"{range_id}:" + "#".join([version, str(int(lsn) + 1_000_000), *others])
    return _answer(lambda: place.container.read_item(item["id"], "p", session_token=future))


@_of("sessions", "whether each write has a session token of its own")
def _(place: Place) -> str:
    place.stored()
    first = place.container.client_connection.last_response_headers["x-ms-session-token"]
    place.stored()
    return (
        "yes"
        if place.container.client_connection.last_response_headers["x-ms-session-token"] != first
        else "no"
    )


@_of("throughput", "400 RU/s less one")
def _(place: Place) -> str:
    return _answer(lambda: place.temporary(offer_throughput=399))


@_of("throughput", "what a point read of 1 KB costs")
def _(place: Place) -> str:
    item = place.stored(text="x" * 700)
    place.container.read_item(item["id"], "p")
    return place.container.client_connection.last_response_headers["x-ms-request-charge"] + " RU"
