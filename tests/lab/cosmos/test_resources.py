"""The control plane without HTTP: what is made, found, changed, refused and kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.permissions import Grant
from azlatch.lab.cosmos.resource_tree import ContainerResource
from azlatch.lab.cosmos.resources import Resources
from azlatch.lab.cosmos.route import route_of
from azlatch.lab.cosmos.wire import Reply, Request

KEY = {"paths": ["/pk"], "kind": "Hash", "version": 2}
START = 1_700_000_000.0


class DataPlane:
    """Writes down what it is told; a container has the size that was set."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.sizes: dict[str, tuple[int, int]] = {}

    def container_made(self, container: ContainerResource, now: float) -> None:
        assert now >= START
        self.told.append(("made", container.path))

    def container_changed(self, container: ContainerResource, now: float) -> None:
        assert now >= START
        self.told.append(("changed", container.path))

    def container_deleted(self, container: ContainerResource) -> None:
        self.told.append(("deleted", container.path))

    def size_of(self, container: ContainerResource) -> tuple[int, int]:
        return self.sizes.get(container.rid, (0, 0))


class Plane:
    """An account of which requests ask as the SDK would."""

    def __init__(self) -> None:
        self.data = DataPlane()
        self.resources = Resources("lab", self.data)
        self.now = START

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = Request(method, quote(path), names, raw)
        self.now += 1
        return self.resources.handle(route_of(request), request, self.now)

    def body(self, *args: Any, **headers: str) -> Any:
        return json.loads(self(*args, **headers).body)

    def fails(self, *args: Any, **headers: str) -> tuple[int, int]:
        with pytest.raises(ServiceError) as caught:
            self(*args, **headers)
        return caught.value.status, caught.value.substatus

    def query(self, path: str, text: str, /, *parameters: Any, **headers: str) -> Any:
        names = [{"name": f"@p{at}", "value": each} for at, each in enumerate(parameters)]
        content = {"x_ms_documentdb_isquery": "True", "content_type": "application/query+json"}
        return self("POST", path, {"query": text, "parameters": names}, **content, **headers)

    def offer(self, link: str) -> Any:
        found = self.query("/offers", "SELECT * FROM root r WHERE r.resource=@p0", link)
        return json.loads(found.body)["Offers"]


@pytest.fixture
def plane() -> Plane:
    return Plane()


@pytest.fixture
def ready(plane: Plane) -> Plane:
    """With a database d and a container c in it."""
    plane("POST", "/dbs", {"id": "d"})
    plane("POST", "/dbs/d/colls", {"id": "c", "partitionKey": KEY})
    return plane


def test_a_database_lives(plane: Plane) -> None:
    """It is made, read, listed and deleted, and its system properties have the service's form."""
    reply = plane("POST", "/dbs", {"id": "d"})
    made = json.loads(reply.body)
    assert (reply.status, made["id"], made["_colls"], made["_users"]) == (201, "d", "colls/", "users/")
    assert made["_self"] == f"dbs/{made['_rid']}/"
    assert made["_ts"] == int(plane.now)
    assert reply.headers["etag"] == made["_etag"]
    assert "collections=0" in reply.headers["x-ms-resource-usage"]
    assert plane.body("GET", "/dbs/d/") == made
    assert plane.body("GET", "/dbs/") == {"_rid": "", "Databases": [made], "_count": 1}
    assert plane("DELETE", "/dbs/d/").status == 204
    assert plane.fails("GET", "/dbs/d/") == (404, 0)


def test_a_container_lives(ready: Plane) -> None:
    """Its body has what was sent and the service's defaults; the data plane is told of every change."""
    body = ready.body("GET", "/dbs/d/colls/c")
    container = ready.resources.container("d", "c")
    database = ready.resources.database("d")
    assert body["_self"] == container.self_link == f"dbs/{database.rid}/colls/{container.rid}/"
    assert body["partitionKey"] == KEY == container.definition.to_json()
    assert {each: body[each] for each in ("_docs", "_sprocs", "_triggers", "_udfs", "_conflicts")} == {
        "_docs": "docs/",
        "_sprocs": "sprocs/",
        "_triggers": "triggers/",
        "_udfs": "udfs/",
        "_conflicts": "conflicts/",
    }
    assert body["conflictResolutionPolicy"]["conflictResolutionPath"] == "/_ts"
    assert body["geospatialConfig"] == {"type": "Geography"}
    assert (container.throughput, container.shares_database, container.autoscale) == (400, False, False)
    replaced = ready("PUT", "/dbs/d/colls/c", {"id": "c", "partitionKey": KEY, "defaultTtl": 60})
    assert (replaced.status, container.default_ttl, container.etag) == (200, 60, replaced.headers["etag"])
    assert json.loads(replaced.body)["_rid"] == body["_rid"]
    ready("DELETE", "/dbs/d/colls/c")
    path = "dbs/d/colls/c"
    assert ready.data.told == [("made", path), ("changed", path), ("deleted", path)]


def test_paths_by_name_and_by_resource_id_are_the_same(ready: Plane) -> None:
    """Each step of a path may be a name or a `_rid`, also mixed."""
    body = ready.body("GET", "/dbs/d/colls/c")
    _, database, _, container = body["_self"].strip("/").split("/")
    for first in ("d", database):
        for second in ("c", container):
            assert ready.body("GET", f"/dbs/{first}/colls/{second}/") == body
            assert ready.resources.container(first, second).rid == container


@pytest.mark.parametrize(
    "name", [" leading", "ünïcode 名前 😀", "Case", "case", "a b+c%20", "x" * 255, "AAAAAQ=="]
)
def test_any_legal_name_is_found_again(plane: Plane, name: str) -> None:
    """Names are compared exactly, and their content path is a header."""
    plane("POST", "/dbs", {"id": name})
    reply = plane("POST", f"/dbs/{name}/colls", {"id": name, "partitionKey": KEY})
    assert plane.body("GET", f"/dbs/{name}/colls/{name}")["id"] == name
    assert plane.resources.container(name, name).name == name
    reply.headers["x-ms-alt-content-path"].encode("ascii")
    assert plane.fails("GET", f"/dbs/{name}/colls/{name.swapcase()}x") == (404, 0)


@pytest.mark.parametrize(
    "name", ["", "a/b", "a\\b", "a?b", "a#b", "end ", "end\n", "x" * 256, "é" * 128, 5, None]
)
def test_an_illegal_name_is_refused(plane: Plane, name: Any) -> None:
    """The rules for an id, at every kind that has one."""
    assert plane.fails("POST", "/dbs", {"id": name}) == (400, 0)
    plane("POST", "/dbs", {"id": "d"})
    assert plane.fails("POST", "/dbs/d/colls", {"id": name, "partitionKey": KEY}) == (400, 0)
    assert plane.fails("POST", "/dbs/d/users", {"id": name}) == (400, 0)


def test_a_taken_name_is_a_conflict_and_a_missing_owner_is_told_from_a_missing_thing(ready: Plane) -> None:
    """409, 404/0 and 404/1003."""
    assert ready.fails("POST", "/dbs", {"id": "d"}) == (409, 0)
    assert ready.fails("POST", "/dbs/d/colls", {"id": "c", "partitionKey": KEY}) == (409, 0)
    assert ready.fails("GET", "/dbs/no") == (404, 0)
    assert ready.fails("GET", "/dbs/d/colls/no") == (404, 0)
    assert ready.fails("GET", "/dbs/no/colls/c") == (404, 1003)
    assert ready.fails("GET", "/dbs/d/colls/no/sprocs/s") == (404, 1003)
    for database, container in (("no", "c"), ("d", "no")):
        with pytest.raises(ServiceError) as caught:
            ready.resources.container(database, container)
        assert (caught.value.status, caught.value.substatus) == (404, 1003)


def test_conditions_hold_or_the_answer_says_so(ready: Plane) -> None:
    """If-Match on replace and delete, If-None-Match on read."""
    etag = ready("GET", "/dbs/d/colls/c").headers["etag"]
    unchanged = ready("GET", "/dbs/d/colls/c", if_none_match=etag)
    assert (unchanged.status, unchanged.body) == (304, b"")
    new = {"id": "c", "partitionKey": KEY, "defaultTtl": 5}
    assert ready.fails("PUT", "/dbs/d/colls/c", new, if_match='"old"') == (412, 0)
    assert ready("PUT", "/dbs/d/colls/c", new, if_match=etag).status == 200
    assert ready("GET", "/dbs/d/colls/c", if_none_match=etag).status == 200
    assert ready.fails("DELETE", "/dbs/d/colls/c", if_match=etag) == (412, 0)
    assert ready.fails("DELETE", "/dbs/d", if_match=etag) == (412, 0)
    assert ready("DELETE", "/dbs/d", if_match="*").status == 204


def test_deleting_a_database_ends_all_that_is_in_it(ready: Plane) -> None:
    """Containers, with the data plane told, their offers and the database's."""
    ready("POST", "/dbs", {"id": "shared"}, x_ms_offer_throughput="1000")
    ready("POST", "/dbs/shared/colls", {"id": "one", "partitionKey": KEY})
    ready("POST", "/dbs/shared/colls", {"id": "two", "partitionKey": KEY}, x_ms_offer_throughput="500")
    assert ready.body("GET", "/offers")["_count"] == 3
    ready("DELETE", "/dbs/shared")
    assert ready.data.told[-2:] == [("deleted", "dbs/shared/colls/one"), ("deleted", "dbs/shared/colls/two")]
    assert ready.body("GET", "/offers")["_count"] == 1


def test_a_container_made_again_is_another(ready: Plane) -> None:
    """Same name, another resource id; what names the old id is refused with 1024 below it."""
    old = ready.resources.container("d", "c").rid
    ready("DELETE", "/dbs/d/colls/c")
    ready("POST", "/dbs/d/colls", {"id": "c", "partitionKey": KEY})
    new = ready.resources.container("d", "c").rid
    assert old != new
    assert ready.fails("GET", "/dbs/d/colls/c/sprocs", x_ms_cosmos_intended_collection_rid=old) == (400, 1024)
    assert ready("GET", "/dbs/d/colls/c/sprocs", x_ms_cosmos_intended_collection_rid=new).status == 200


def test_a_feed_comes_in_pages_that_nothing_moves(ready: Plane) -> None:
    """Every container once, although one is deleted and one is made between two pages."""
    for at in range(7):
        ready("POST", "/dbs/d/colls", {"id": f"c{at}", "partitionKey": KEY})
    seen: list[str] = []
    more: dict[str, str] = {}
    while True:
        reply = ready("GET", "/dbs/d/colls", x_ms_max_item_count="3", **more)
        page = json.loads(reply.body)["DocumentCollections"]
        assert reply.headers["x-ms-item-count"] == str(len(page))
        seen += [each["id"] for each in page]
        if "x-ms-continuation" not in reply.headers:
            break
        more = {"x_ms_continuation": reply.headers["x-ms-continuation"]}
        if len(seen) == 3:
            ready("DELETE", "/dbs/d/colls/c0")
            ready("POST", "/dbs/d/colls", {"id": "late", "partitionKey": KEY})
    assert seen == ["c", "c0", "c1", "c2", "c3", "c4", "c5", "c6", "late"]


def test_a_feed_answers_queries(ready: Plane) -> None:
    """With parameters, in pages, over any kind."""
    for at in range(5):
        ready("POST", "/dbs/d/colls", {"id": f"c{at}", "partitionKey": KEY})
    found = ready.query("/dbs/d/colls", "SELECT * FROM root r WHERE r.id=@p0", "c3")
    assert [each["id"] for each in json.loads(found.body)["DocumentCollections"]] == ["c3"]
    first = ready.query("/dbs/d/colls", "SELECT VALUE r.id FROM r ORDER BY r.id DESC", x_ms_max_item_count="4")
    assert json.loads(first.body)["DocumentCollections"] == ["c4", "c3", "c2", "c1"]
    more = first.headers["x-ms-continuation"]
    rest = ready.query(
        "/dbs/d/colls",
        "SELECT VALUE r.id FROM r ORDER BY r.id DESC",
        x_ms_max_item_count="4",
        x_ms_continuation=more,
    )
    assert json.loads(rest.body)["DocumentCollections"] == ["c0", "c"]
    assert "x-ms-continuation" not in rest.headers
    assert json.loads(ready.query("/dbs", "SELECT * FROM root r WHERE r.id='no'").body)["Databases"] == []


@pytest.mark.parametrize(
    "headers",
    [
        {"x_ms_max_item_count": "0"},
        {"x_ms_max_item_count": "-2"},
        {"x_ms_max_item_count": "many"},
        {"x_ms_max_item_count": "9" * 5000},
        {"x_ms_continuation": "Q1"},
        {"x_ms_continuation": "N" + "9" * 5000},
        {"x_ms_continuation": "N²"},
    ],
)
def test_a_page_that_is_none_is_refused(ready: Plane, headers: dict[str, str]) -> None:
    """Sizes and continuations from outside never reach the feed."""
    assert ready.fails("GET", "/dbs/d/colls", **headers) == (400, 0)


def test_session_tokens_are_only_on_what_the_sdk_keeps_out_of_a_containers(ready: Plane) -> None:
    """The SDK would store the token of a script's answer as one of the container's data."""
    assert "x-ms-session-token" in ready("GET", "/dbs/d/colls/c").headers
    made = ready("POST", "/dbs/d/colls/c/sprocs", {"id": "s", "body": "function () {}"})
    assert "x-ms-session-token" not in made.headers
    assert made.headers["x-ms-alt-content-path"] == "dbs/d/colls/c"
    assert made.headers["x-ms-content-path"] == ready.resources.container("d", "c").rid


def test_quota_and_statistics_are_there_when_asked_for(ready: Plane) -> None:
    """How full a container is comes from the data plane."""
    assert "x-ms-resource-usage" not in ready("GET", "/dbs/d/colls/c").headers
    ready.data.sizes[ready.resources.container("d", "c").rid] = (12, 34)
    ready("POST", "/dbs/d/colls/c/udfs", {"id": "u", "body": "function () {}"})
    reply = ready("GET", "/dbs/d/colls/c", x_ms_documentdb_populatequotainfo="True")
    usage = dict(each.split("=") for each in reply.headers["x-ms-resource-usage"].strip(";").split(";"))
    assert (usage["documentsCount"], usage["documentsSize"], usage["functions"]) == ("12", "34", "1")
    assert reply.headers["x-ms-documentdb-collection-index-transformation-progress"] == "100"
    body = ready.body("GET", "/dbs/d/colls/c", x_ms_documentdb_populatepartitionstatistics="True")
    assert (body["statistics"][0]["documentCount"], body["statistics"][0]["sizeInKB"]) == (12, 34)
    assert "statistics" not in ready.body("GET", "/dbs/d/colls/c")


# Throughput


def test_manual_and_autoscale_throughput_are_kept(plane: Plane) -> None:
    """An offer has what was asked for; a shared database's goes to its containers."""
    autoscale = json.dumps(
        {"maxThroughput": 7000, "autoUpgradePolicy": {"throughputPolicy": {"incrementPercent": 3}}}
    )
    database = plane.body("POST", "/dbs", {"id": "d"}, x_ms_cosmos_offer_autopilot_settings=autoscale)
    (offer,) = plane.offer(database["_self"])
    assert offer["content"]["offerThroughput"] == 700
    assert offer["content"]["offerAutopilotSettings"] == json.loads(autoscale)
    assert (offer["offerResourceId"], offer["id"]) == (database["_rid"], offer["_rid"])
    assert offer["_self"] == f"offers/{offer['id']}/"
    made = plane.body("POST", "/dbs/d/colls", {"id": "shares", "partitionKey": KEY})
    shares = plane.resources.container("d", "shares")
    assert (shares.throughput, shares.shares_database, shares.autoscale) == (7000, True, True)
    assert plane.offer(made["_self"]) == []
    made = plane.body("POST", "/dbs/d/colls", {"id": "own", "partitionKey": KEY}, x_ms_offer_throughput="500")
    own = plane.resources.container("d", "own")
    assert (own.throughput, own.shares_database, own.autoscale) == (500, False, False)
    assert plane.offer(made["_self"])[0]["content"]["offerThroughput"] == 500
    offer["content"]["offerAutopilotSettings"]["maxThroughput"] = 9000
    plane.data.told.clear()
    plane("PUT", f"/{offer['_self']}", offer)
    assert (shares.throughput, own.throughput, plane.data.told) == (9000, 500, [("changed", shares.path)])


@pytest.mark.parametrize(
    "headers",
    [
        {"x_ms_offer_throughput": "300"},
        {"x_ms_offer_throughput": "450"},
        {"x_ms_offer_throughput": "1000100"},
        {"x_ms_offer_throughput": "many"},
        {"x_ms_offer_throughput": "9" * 5000},
        {"x_ms_cosmos_offer_autopilot_settings": '{"maxThroughput": 900}'},
        {"x_ms_cosmos_offer_autopilot_settings": '{"maxThroughput": 1500}'},
        {"x_ms_cosmos_offer_autopilot_settings": '{"maxThroughput": "lots"}'},
        {"x_ms_cosmos_offer_autopilot_settings": "{"},
        {"x_ms_cosmos_offer_autopilot_settings": '{"maxThroughput": 1000}', "x_ms_offer_throughput": "400"},
    ],
)
def test_throughput_out_of_range_makes_nothing(ready: Plane, headers: dict[str, str]) -> None:
    """400, and neither a database nor a container nor an offer is left behind."""
    assert ready.fails("POST", "/dbs", {"id": "other"}, **headers) == (400, 0)
    assert ready.fails("POST", "/dbs/d/colls", {"id": "other", "partitionKey": KEY}, **headers) == (400, 0)
    assert ready.fails("GET", "/dbs/other") == (404, 0)
    assert ready.fails("GET", "/dbs/d/colls/other") == (404, 0)
    assert ready.body("GET", "/offers")["_count"] == 1


def test_the_refusal_of_too_little_says_how_little_is_possible(plane: Plane) -> None:
    """The sentence that the SDK's own test looks for."""
    with pytest.raises(ServiceError, match="throughput -200 is less than required minimum throughput 1000"):
        plane("POST", "/dbs", {"id": "d"}, x_ms_cosmos_offer_autopilot_settings='{"maxThroughput": -200}')


def test_an_offer_is_replaced_and_migrated(ready: Plane) -> None:
    """Manual to autoscale and back by header, values checked; a container is told of each change."""
    container = ready.resources.container("d", "c")
    (offer,) = ready.offer(container.self_link)
    path = f"/{offer['_self']}"
    offer["content"]["offerThroughput"] = 2500
    reply = ready("PUT", path, offer)
    assert (reply.status, container.throughput) == (200, 2500)
    assert ready.fails("PUT", path, offer | {"content": {"offerThroughput": 2550}}) == (400, 0)
    assert ready.fails("PUT", path, offer | {"content": {}}) == (400, 0)
    assert ready.fails("PUT", path, offer | {"content": {"offerAutopilotSettings": {}}}) == (400, 0)
    assert ready.fails("PUT", path, offer, if_match='"old"') == (412, 0)
    scaled = ready.body("PUT", path, offer, x_ms_cosmos_migrate_offer_to_autopilot="true")
    assert scaled["content"]["offerAutopilotSettings"]["maxThroughput"] == 3000
    assert (container.throughput, container.autoscale) == (3000, True)
    scaled["content"]["offerThroughput"] = 400
    assert ready.fails("PUT", path, scaled) == (400, 0)
    back = ready.body("PUT", path, scaled, x_ms_cosmos_migrate_offer_to_manual_throughput="true")
    assert (back["content"]["offerThroughput"], container.autoscale) == (3000, False)
    assert ready.data.told.count(("changed", container.path)) == 3
    assert ready.fails("GET", "/offers/AAAA") == (404, 0)
    assert ready.fails("DELETE", path) == (405, 0)


def test_throughput_cannot_fall_below_what_the_container_needs(ready: Plane) -> None:
    """A hundredth of the most that it had, and 1 RU/s for each GB; the answer says which."""
    container = ready.resources.container("d", "c")
    (offer,) = ready.offer(container.self_link)
    path = f"/{offer['_self']}"
    assert ready("GET", path).headers["x-ms-cosmos-min-throughput"] == "400"
    offer["content"]["offerThroughput"] = 100_000
    assert ready("PUT", path, offer).headers["x-ms-cosmos-min-throughput"] == "1000"
    offer["content"]["offerThroughput"] = 900
    assert ready.fails("PUT", path, offer) == (400, 0)
    ready.data.sizes[container.rid] = (1, 1_200 * 1024 * 1024)
    assert ready("GET", path).headers["x-ms-cosmos-min-throughput"] == "1200"


# Users, permissions, scripts and keys


def test_a_user_lives_and_may_be_renamed(ready: Plane) -> None:
    """Create, upsert, replace with another id, delete with its permissions."""
    user = ready.body("POST", "/dbs/d/users", {"id": "u"})
    assert user["_permissions"] == "permissions/"
    upserted = ready("POST", "/dbs/d/users", {"id": "u"}, x_ms_documentdb_is_upsert="True")
    assert (upserted.status, json.loads(upserted.body)["_rid"]) == (200, user["_rid"])
    assert ready("POST", "/dbs/d/users", {"id": "v"}, x_ms_documentdb_is_upsert="True").status == 201
    assert ready.fails("PUT", "/dbs/d/users/u", {"id": "v"}) == (409, 0)
    assert ready.body("PUT", "/dbs/d/users/u", {"id": "w"})["_rid"] == user["_rid"]
    assert ready.fails("GET", "/dbs/d/users/u") == (404, 0)
    assert [each["id"] for each in ready.body("GET", "/dbs/d/users")["Users"]] == ["w", "v"]
    found = ready.query("/dbs/d/users", "SELECT * FROM root r WHERE r.id=@p0", "w")
    assert json.loads(found.body)["_count"] == 1


def test_a_permission_gives_a_token_that_says_what_it_grants(ready: Plane) -> None:
    """Until it expires, is changed or is deleted; a forged one grants nothing."""
    ready("POST", "/dbs/d/users", {"id": "u"})
    definition = {
        "id": "p",
        "permissionMode": "Read",
        "resource": "/dbs/d/colls/c/",
        "resourcePartitionKey": ["x"],
    }
    path = "/dbs/d/users/u/permissions"
    made = ready.body("POST", path, definition, x_ms_documentdb_expiry_seconds="100")
    token = made["_token"]
    grant_of: Callable[[str, float], Grant | None] = ready.resources.grant_of
    assert grant_of(token, ready.now) == Grant("Read", "dbs/d/colls/c", ("x",))
    assert grant_of(token, ready.now + 99) is not None
    assert grant_of(token, ready.now + 101) is None
    later = token.replace(f".{int(ready.now) + 100};", f".{int(ready.now) + 999};")
    assert later != token
    for forged in ("", "type=resource&ver=1&sig=x;;", token[:-2], later, token * 1000, "é" + token, "a;b.²;"):
        assert grant_of(forged, ready.now) is None, forged
    ready("PUT", f"{path}/p", {**definition, "permissionMode": "All"})
    assert grant_of(token, ready.now) == Grant("All", "dbs/d/colls/c", ("x",))
    listed = ready.body("GET", path)["Permissions"][0]["_token"]
    assert grant_of(listed, ready.now + 3000) is not None
    ready("DELETE", f"{path}/p")
    assert grant_of(token, ready.now) is None
    assert grant_of(listed, ready.now) is None


@pytest.mark.parametrize(
    ("mode", "resource", "key", "method", "path", "header", "allowed"),
    [
        ("Read", "dbs/d/colls/c", None, "GET", "dbs/d/colls/c", "", True),
        ("Read", "dbs/d/colls/c", None, "GET", "dbs/d/colls/c/docs/i", "", True),
        ("Read", "dbs/d/colls/c", None, "GET", "dbs/d/colls/c/docs", "", True),
        ("Read", "dbs/d/colls/c", None, "POST", "dbs/d/colls/c/docs", "", False),
        ("Read", "dbs/d/colls/c", None, "DELETE", "dbs/d/colls/c", "", False),
        ("Read", "dbs/d/colls/c", None, "GET", "dbs/d/colls/other/docs/i", "", False),
        ("Read", "dbs/d/colls/c", None, "GET", "dbs/d", "", False),
        ("Read", "dbs/d/colls/c", None, "GET", "", "", True),
        ("all", "dbs/d/colls/c", None, "DELETE", "dbs/d/colls/c/docs/i", "", True),
        ("all", "dbs/d/colls/c", None, "POST", "dbs/d/colls", "", False),
        ("all", "dbs/d/colls/c", [1], "POST", "dbs/d/colls/c/docs", "[1]", True),
        ("all", "dbs/d/colls/c", [1], "POST", "dbs/d/colls/c/docs", "[1.0]", True),
        ("all", "dbs/d/colls/c", [1], "POST", "dbs/d/colls/c/docs", "[true]", False),
        ("all", "dbs/d/colls/c", [1], "POST", "dbs/d/colls/c/docs", "[2]", False),
        ("all", "dbs/d/colls/c", [1], "GET", "dbs/d/colls/c/docs", "", False),
        ("all", "dbs/d/colls/c", [1], "GET", "dbs/d/colls/c/docs", "{", False),
        ("all", "dbs/d/colls/c", [1], "GET", "dbs/d/colls/c", "", True),
        ("all", "dbs/d/colls/c/docs/i", None, "DELETE", "dbs/d/colls/c/docs/i", "", True),
        ("all", "dbs/d/colls/c/docs/i", None, "GET", "dbs/d/colls/c/docs/j", "", False),
        ("all", "dbs/d/colls/c/docs/i", None, "GET", "dbs/d/colls/c/pkranges", "", True),
        ("all", "dbs/d/colls/c/docs/i", None, "GET", "dbs/d/colls/c", "", True),
        ("all", "dbs/d/colls/c/docs/i", None, "DELETE", "dbs/d/colls/c", "", False),
        ("all", "dbs/d/colls/c/docs/i", None, "GET", "dbs/d/colls/c/docs", "", False),
        ("all", "dbs/no/colls/c", None, "GET", "dbs/d/colls/c", "", False),
    ],
)
def test_a_grant_covers_what_is_at_and_below_it(
    ready: Plane, mode: str, resource: str, key: Any, method: str, path: str, header: str, allowed: bool
) -> None:
    """By names and by resource ids alike, on either side."""
    ready("POST", "/dbs/d/users", {"id": "u"})
    container = ready.resources.container("d", "c")
    for by_id in (False, True):
        link = resource.replace("dbs/d/", f"dbs/{container.database.rid}/") if by_id else resource
        permission = {"id": "p", "permissionMode": mode, "resource": link, "resourcePartitionKey": key}
        made = ready.body("POST", "/dbs/d/users/u/permissions", permission)
        grant = ready.resources.grant_of(made["_token"], ready.now)
        assert grant is not None
        for asked in (path, path.replace("dbs/d/colls/c", container.self_link.strip("/"))):
            headers = {"x-ms-documentdb-partitionkey": header}
            request = Request(method, f"/{asked}", headers)
            assert ready.resources.allows(grant, route_of(request), request) is allowed, (link, asked)
        ready("DELETE", "/dbs/d/users/u/permissions/p")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("permissionMode", "Write"),
        ("permissionMode", None),
        ("resource", ""),
        ("resource", "colls/c"),
        ("resource", "dbs//colls"),
        ("resource", "dbs/" + "x" * 3000),
        ("resourcePartitionKey", "x"),
        ("resourcePartitionKey", [["x"]]),
    ],
)
def test_a_permission_that_is_none_is_refused(ready: Plane, field: str, value: Any) -> None:
    """400, and the same resource for one user twice is 409."""
    ready("POST", "/dbs/d/users", {"id": "u"})
    good = {"id": "p", "permissionMode": "All", "resource": "dbs/d/colls/c"}
    path = "/dbs/d/users/u/permissions"
    assert ready.fails("POST", path, good | {field: value}) == (400, 0)
    assert ready.fails("POST", path, good, x_ms_documentdb_expiry_seconds="18001") == (400, 0)
    ready("POST", path, good | {"id": "first"})
    assert ready.fails("POST", path, good) == (409, 0)


@pytest.mark.parametrize(
    ("kind", "feed", "more"),
    [
        ("sprocs", "StoredProcedures", {}),
        ("udfs", "UserDefinedFunctions", {}),
        ("triggers", "Triggers", {"triggerType": "pre", "triggerOperation": "all"}),
    ],
)
def test_scripts_are_kept(ready: Plane, kind: str, feed: str, more: dict[str, str]) -> None:
    """Made, read, queried, replaced and deleted, with links in the service's form."""
    path, definition = f"/dbs/d/colls/c/{kind}", {"id": "s", "body": "function () {}", **more}
    made = ready.body("POST", path, definition)
    assert definition.items() <= made.items()
    assert made["_self"] == f"{ready.resources.container('d', 'c').self_link}{kind}/{made['_rid']}/"
    assert ready.fails("POST", path, definition) == (409, 0)
    assert ready.fails("POST", path, {**definition, "id": "t", "body": None}) == (400, 0)
    changed = ready.body("PUT", f"{path}/s", {**definition, "body": "function () { return 1; }"})
    assert changed["body"] == "function () { return 1; }"
    found = ready.query(path, "SELECT * FROM root r WHERE r.id=@p0", "s")
    assert json.loads(found.body)[feed] == [changed]
    assert ready("DELETE", f"{path}/s").status == 204
    assert ready.fails("GET", f"{path}/s") == (404, 0)


def test_executing_a_stored_procedure_says_that_there_is_no_javascript(ready: Plane) -> None:
    """400 with the reason; a missing procedure is a 404 as ever."""
    ready("POST", "/dbs/d/colls/c/sprocs", {"id": "s", "body": "function () {}"})
    with pytest.raises(ServiceError, match="runs no JavaScript") as caught:
        ready("POST", "/dbs/d/colls/c/sprocs/s", [])
    assert caught.value.status == 400
    assert ready.fails("POST", "/dbs/d/colls/c/sprocs/no", []) == (404, 0)


def test_encryption_keys_are_kept_and_conflicts_are_none(ready: Plane) -> None:
    """Keys are stored as sent; the feed of conflicts is empty."""
    key = {
        "id": "k",
        "encryptionAlgorithm": "AEAD_AES_256_CBC_HMAC_SHA256",
        "wrappedDataEncryptionKey": "AA==",
        "keyWrapMetadata": {"type": "custom", "name": "n", "value": "v", "algorithm": "RSA-OAEP"},
    }
    made = ready.body("POST", "/dbs/d/clientencryptionkeys", key)
    assert key.items() <= made.items()
    assert ready.body("GET", "/dbs/d/clientencryptionkeys")["ClientEncryptionKeys"] == [made]
    path = "/dbs/d/colls/c/conflicts"
    assert ready.body("GET", path)["Conflicts"] == []
    assert (
        json.loads(
            ready.query(path, "SELECT * FROM c", x_ms_documentdb_query_enablecrosspartition="True").body
        )["Conflicts"]
        == []
    )
    assert ready.fails("GET", f"{path}/x") == (404, 0)
    assert ready.fails("DELETE", f"{path}/x") == (404, 0)


# Bounds and bad input


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b"null", b'"x"', b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(ready: Plane, body: bytes) -> None:
    """400 wherever a body is expected."""
    for method, path in (
        ("POST", "/dbs"),
        ("POST", "/dbs/d/colls"),
        ("PUT", "/dbs/d/colls/c"),
        ("POST", "/dbs/d/users"),
        ("POST", "/dbs/d/colls/c/triggers"),
        ("PUT", f"/{ready.offer(ready.resources.container('d', 'c').self_link)[0]['_self']}"),
    ):
        assert ready.fails(method, path, body) == (400, 0), (method, path)


def test_everything_has_a_bound(ready: Plane) -> None:
    """The size and the depth of a definition, the number of scripts."""
    big = {"id": "s", "body": "x" * 300_000}
    assert ready.fails("POST", "/dbs/d/colls/c/sprocs", big) == (413, 0)
    deep: Any = {}
    for _ in range(100):
        deep = {"a": deep}
    assert ready.fails("POST", "/dbs", {"id": "deep", "more": deep}) == (400, 0)
    trigger = {"body": "f", "triggerType": "Pre", "triggerOperation": "All"}
    for at in range(25):
        ready("POST", "/dbs/d/colls/c/triggers", {"id": str(at), **trigger})
    assert ready.fails("POST", "/dbs/d/colls/c/triggers", {"id": "x", **trigger}) == (403, 1005)


def test_an_account_holds_so_many_resources_and_no_more(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is deleted, with all that is in it, makes room again."""
    monkeypatch.setattr("azlatch.lab.cosmos.resources.MOST_RESOURCES", 3)
    plane("POST", "/dbs", {"id": "d"})
    plane("POST", "/dbs/d/colls", {"id": "c", "partitionKey": KEY})
    plane("POST", "/dbs/d/colls/c/udfs", {"id": "u", "body": "f"})
    assert plane.fails("POST", "/dbs", {"id": "e"}) == (403, 1005)
    plane("DELETE", "/dbs/d")
    for name in "abc":
        plane("POST", "/dbs", {"id": name})
    assert plane.fails("POST", "/dbs", {"id": "e"}) == (403, 1005)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/dbs/d", 405),
        ("PATCH", "/dbs/d/colls/c", 400),
        ("PUT", "/dbs/d/colls/c/conflicts/x", 405),
        ("POST", "/offers", 405),
    ],
)
def test_what_a_kind_cannot_do_is_refused(ready: Plane, method: str, path: str, status: int) -> None:
    """No verb falls through."""
    with pytest.raises(ServiceError) as caught:
        ready(method, path, {"id": "d"})
    assert caught.value.status in (status, 404)


def test_upsert_of_a_container_is_refused(ready: Plane) -> None:
    """The service has it for users, permissions and scripts only."""
    again = {"id": "c", "partitionKey": KEY}
    assert ready.fails("POST", "/dbs/d/colls", again, x_ms_documentdb_is_upsert="true") == (400, 0)


# State


def test_the_state_comes_back_whole(ready: Plane) -> None:
    """Every body, link, ETag, offer and token is the same after dump, JSON and load; numbers go on."""
    ready("POST", "/dbs", {"id": "shared"}, x_ms_cosmos_offer_autopilot_settings='{"maxThroughput": 4000}')
    ready("POST", "/dbs/shared/colls", {"id": "s", "partitionKey": KEY, "defaultTtl": 9})
    ready("POST", "/dbs/d/users", {"id": "u"})
    permission = {"id": "p", "permissionMode": "All", "resource": "dbs/d/colls/c"}
    token = ready.body("POST", "/dbs/d/users/u/permissions", permission)["_token"]
    ready("POST", "/dbs/d/colls/c/sprocs", {"id": "f", "body": "function () {}"})
    state = json.loads(json.dumps(ready.resources.dump()))
    other = Plane()
    other.now = ready.now
    other.resources.load(state)
    assert other.resources.dump() == ready.resources.dump()
    assert other.data.told == []
    for path in (
        "/dbs",
        "/dbs/d/colls",
        "/dbs/shared/colls",
        "/offers",
        "/dbs/d/colls/c/sprocs",
        "/dbs/d/users",
    ):
        assert other("GET", path) == ready("GET", path)
    assert other.resources.grant_of(token, other.now) == Grant("All", "dbs/d/colls/c", None)
    shares = other.resources.container("shared", "s")
    assert (shares.throughput, shares.shares_database, shares.default_ttl) == (4000, True, 9)
    assert other.body("POST", "/dbs", {"id": "new"}) == ready.body("POST", "/dbs", {"id": "new"})


@pytest.mark.parametrize("state", [None, [], {}, {"databases": [{}], "offers": [], "lsn": 0, "number": 0}, "x"])
def test_a_state_that_is_none_changes_nothing(ready: Plane, state: Any) -> None:
    """ValueError, and all is as it was."""
    before = ready.resources.dump()
    with pytest.raises(ValueError, match="state"):
        ready.resources.load(state)
    assert ready.resources.dump() == before
