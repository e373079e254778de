"""The control plane through the unmodified SDK: its requests, handed over without a socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.pipeline.transport import HttpRequest, HttpResponse, HttpTransport
from azure.cosmos import (
    ContainerProxy,
    CosmosClient,
    DatabaseProxy,
    PartitionKey,
    ThroughputProperties,
    exceptions,
)

from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.resource_tree import ContainerResource
from azlatch.lab.cosmos.resources import Resources
from azlatch.lab.cosmos.route import route_of
from azlatch.lab.cosmos.wire import Reply, Request

URL = "http://localhost:8081"
#: The public key of Microsoft's emulator.
KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
ACCOUNT = {
    "id": "lab",
    "writableLocations": [{"name": "here", "databaseAccountEndpoint": URL}],
    "readableLocations": [{"name": "here", "databaseAccountEndpoint": URL}],
    "enableMultipleWriteLocations": False,
    "userConsistencyPolicy": {"defaultConsistencyLevel": "Session"},
    "userReplicationPolicy": {},
    "queryEngineConfiguration": "{}",
}


class NoData:
    """A data plane with nothing in it."""

    def container_made(self, container: ContainerResource, now: float) -> None: ...

    def container_changed(self, container: ContainerResource, now: float) -> None: ...

    def container_deleted(self, container: ContainerResource) -> None: ...

    def size_of(self, container: ContainerResource) -> tuple[int, int]:
        return 0, 0


class Answer(HttpResponse):
    """A reply as azure-core wants one."""

    def __init__(self, request: HttpRequest, reply: Reply) -> None:
        super().__init__(request, None)
        self.status_code = reply.status
        self.reason = ""
        self.headers = {"content-type": "application/json", **reply.headers}
        self.content_type = "application/json"
        self._body = reply.body

    def body(self) -> bytes:
        return self._body


class InProcess(HttpTransport[HttpRequest, HttpResponse]):
    """Hands each request of the SDK to the control plane."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self.now = 1_700_000_000.0

    def open(self) -> None: ...

    def close(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def send(self, request: HttpRequest, **_: Any) -> HttpResponse:
        self.now += 1
        body = request.body if isinstance(request.body, bytes) else (request.body or "").encode()
        headers = {name.lower(): str(value) for name, value in request.headers.items()}
        asked = Request(request.method, request.url.removeprefix(URL), headers, body)
        return Answer(request, self._reply(asked))

    def _reply(self, request: Request) -> Reply:
        try:
            route = route_of(request)
            if route.kind == "account":
                return Reply(200, {}, json.dumps(ACCOUNT).encode())
            return self.resources.handle(route, request, self.now)
        except ServiceError as error:
            headers = {**error.headers, "x-ms-substatus": str(error.substatus)}
            body = {"code": error.code, "message": error.message}
            return Reply(error.status, headers, json.dumps(body).encode())


@pytest.fixture
def resources() -> Resources:
    return Resources("lab", NoData())


@pytest.fixture
def client(resources: Resources) -> Iterator[CosmosClient]:
    with CosmosClient(URL, KEY, transport=InProcess(resources)) as made:
        yield made


@pytest.fixture
def database(client: CosmosClient) -> DatabaseProxy:
    return client.create_database("d")


PK = PartitionKey("/pk")


def test_databases(client: CosmosClient) -> None:
    """Created, found by query, read, deleted."""
    made = client.create_database(" leading space ü", offer_throughput=1000)
    client.create_database("other")
    found = list(
        client.query_databases("SELECT * FROM root r WHERE r.id=@id", [{"name": "@id", "value": made.id}])
    )
    assert [each["id"] for each in found] == [made.id]
    assert {each["id"] for each in client.list_databases(max_item_count=1)} == {made.id, "other"}
    assert made.get_throughput().offer_throughput == 1000
    assert made.replace_throughput(2000).offer_throughput == 2000
    assert (
        client.create_database_if_not_exists(made.id, offer_throughput=6000).get_throughput().offer_throughput
        == 2000
    )
    with pytest.raises(exceptions.CosmosResourceExistsError):
        client.create_database("other")
    client.delete_database(made)
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        made.read()


def test_containers(database: DatabaseProxy, client: CosmosClient) -> None:
    """Created with policies, listed, queried, replaced, deleted."""
    made = database.create_container(
        "c",
        PK,
        indexing_policy={"indexingMode": "consistent"},
        default_ttl=10,
        computed_properties=[{"name": "low", "query": "SELECT VALUE LOWER(c.a) FROM c"}],
        offer_throughput=10100,
    )
    body = made.read(populate_quota_info=True, populate_partition_key_range_statistics=True)
    assert dict(PK) == body["partitionKey"]
    assert body["defaultTtl"] == 10
    assert body["statistics"]
    assert "x-ms-resource-usage" in client.client_connection.last_response_headers
    assert made.get_throughput().offer_throughput == 10100
    replaced = database.replace_container(made, PK, default_ttl=20)
    body = replaced.read()
    assert body["defaultTtl"] == 20
    assert "computedProperties" not in body
    hierarchical = PartitionKey(["/a", "/b", "/c"])
    assert database.create_container_if_not_exists("h", hierarchical).read()["partitionKey"] == dict(
        hierarchical
    )
    assert [each["id"] for each in database.query_containers("SELECT * FROM r WHERE r.id='h'")] == ["h"]
    assert [each["id"] for each in database.list_containers(max_item_count=1)] == ["c", "h"]
    with pytest.raises(exceptions.CosmosHttpResponseError, match="cannot be changed"):
        database.replace_container(made, PartitionKey("/other"))
    database.delete_container("c")
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        made.read()


def scale(container: ContainerProxy) -> tuple[Any, Any]:
    throughput = container.get_throughput()
    return throughput.auto_scale_max_throughput, throughput.auto_scale_increment_percent


def test_throughput(database: DatabaseProxy) -> None:
    """Autoscale and manual, as the SDK reads and writes them."""
    wanted = ThroughputProperties(auto_scale_max_throughput=5000, auto_scale_increment_percent=2)
    made = database.create_container("c", PK, offer_throughput=wanted)
    assert scale(made) == (5000, 2)
    wanted = ThroughputProperties(auto_scale_max_throughput=7000, auto_scale_increment_percent=20)
    made.replace_throughput(wanted)
    assert scale(made) == (7000, 20)
    manual = database.create_container("m", PK)
    assert manual.replace_throughput(ThroughputProperties(offer_throughput=500)).offer_throughput == 500
    with pytest.raises(exceptions.CosmosHttpResponseError, match="between"):
        manual.replace_throughput(450)


def test_a_container_made_again_has_its_own_throughput(database: DatabaseProxy, client: CosmosClient) -> None:
    """The SDK, whose cache has the old link, gets no offer for it, reads the container and asks again."""
    cache = client.client_connection._container_properties_cache
    database.create_container("c", PK, offer_throughput=600)
    stale = dict(cache)
    database.delete_container("c")
    made = database.create_container("c", PK, offer_throughput=800)
    cache.clear()
    cache.update(stale)
    assert made.get_throughput().offer_throughput == 800


def test_users_and_permissions(database: DatabaseProxy, resources: Resources) -> None:
    """Created, upserted, renamed, listed, queried; tokens come with every permission."""
    container = database.create_container("c", PK)
    user = database.create_user({"id": "u"})
    database.upsert_user({"id": "u"})
    permission = {
        "id": "p",
        "permissionMode": "Read",
        "resource": container.container_link,
        "resourcePartitionKey": [1],
    }
    made = user.create_permission(permission)
    grant = resources.grant_of(made.properties["_token"], 1_700_000_100.0)
    assert grant is not None
    assert (grant.mode, grant.resource, grant.partition_key) == ("Read", "dbs/d/colls/c", (1,))
    changed = user.upsert_permission({**permission, "permissionMode": "All"})
    assert changed.permission_mode == "All"
    renamed = user.replace_permission("p", {**made.properties, "id": "q"})
    assert renamed.id == user.get_permission("q").id == "q"
    assert [each["id"] for each in user.query_permissions("SELECT * FROM root r WHERE r.id='q'")] == ["q"]
    assert all("_token" in each for each in user.list_permissions())
    assert database.replace_user("u", {**user.read(), "id": "w"}).id == "w"
    assert [each["id"] for each in database.list_users()] == ["w"]
    database.get_user_client("w").delete_permission("q")
    database.delete_user("w")
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        database.get_user_client("w").read()


def test_scripts_and_conflicts(database: DatabaseProxy) -> None:
    """Kept with `serverScript` as the SDK sends it; executing is an honest 400; conflicts are none."""
    container = database.create_container("c", PK)
    scripts = container.scripts
    sproc = scripts.create_stored_procedure({"id": "sample sproc", "serverScript": "function() {var x = 10;}"})
    assert sproc["body"] == "function() {var x = 10;}"
    sproc["body"] = "function() {}"
    assert scripts.replace_stored_procedure("sample sproc", sproc)["body"] == "function() {}"
    with pytest.raises(exceptions.CosmosHttpResponseError, match="no JavaScript"):
        scripts.execute_stored_procedure("sample sproc", partition_key="x")
    trigger = {"id": "t", "serverScript": "f", "triggerType": "Pre", "triggerOperation": "All"}
    assert scripts.create_trigger(trigger)["triggerType"] == "Pre"
    assert scripts.create_user_defined_function({"id": "u", "body": "f"})["body"] == "f"
    query = "SELECT * FROM root r WHERE r.id=@id"
    assert list(scripts.query_triggers(query, parameters=[{"name": "@id", "value": "t"}]))
    assert [each["id"] for each in scripts.list_user_defined_functions()] == ["u"]
    scripts.delete_trigger("t")
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        scripts.get_trigger("t")
    assert list(container.list_conflicts()) == []
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        container.get_conflict("x", "x")
