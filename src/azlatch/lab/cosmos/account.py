"""The engine: an account that answers requests. No socket, no thread and no clock of its own.

`Account.handle` is to be called on one thread, with times that never go back.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any
from urllib.parse import unquote

from azlatch.lab.cosmos import feeds, points, state
from azlatch.lab.cosmos.admin_acts import AdminActs
from azlatch.lab.cosmos.call import Call
from azlatch.lab.cosmos.errors import ServiceError, behind_session, not_found
from azlatch.lab.cosmos.faults import Facts, Rule, Rules
from azlatch.lab.cosmos.ledger import Ledger, Row
from azlatch.lab.cosmos.permissions import Grant
from azlatch.lab.cosmos.resource_tree import ContainerResource
from azlatch.lab.cosmos.resources import Resources
from azlatch.lab.cosmos.route import Route, route_of
from azlatch.lab.cosmos.service import LARGEST_KEY, Service
from azlatch.lab.cosmos.store import Store
from azlatch.lab.cosmos.topology import Region, Topology
from azlatch.lab.cosmos.wire import Reply, Request, encode

logger = logging.getLogger("azlatch.lab.cosmos")

_NOTHING: dict[str, Any] = {}
_WRITES = ("create", "upsert", "replace", "patch", "delete", "batch", "delete-key", "execute")


class Account:
    """A Cosmos DB account.

    Args:
        name: of the account.
        regions: the regions, the first takes the writes.
        consistency: the account's level; requests may ask for a weaker one.
        multiple_write_regions: whether all regions take writes; the last writer wins.
        seed: of everything that is drawn.
        throttling: whether request units are limited, not only counted.
        burst: whether a partition may spend what it did not use before.
        largest_key: limit of a logical partition, bytes.
        most_behind, longest_behind: of BoundedStaleness, writes and seconds.
    """

    def __init__(
        self,
        name: str = "localhost",
        *,
        regions: Sequence[str] = ("East US",),
        consistency: str = "Session",
        multiple_write_regions: bool = False,
        seed: int = 0,
        throttling: bool = True,
        burst: bool = True,
        largest_key: int = LARGEST_KEY,
        most_behind: int = 100_000,
        longest_behind: float = 300.0,
    ) -> None:
        self.name = name
        self._burst = burst
        self._now = 0.0
        self._topology = Topology(
            regions, consistency, multiple=multiple_write_regions, before_change=self._advance_all
        )
        self._random = Random(seed)
        self._resources = Resources(name, self)
        self.service = Service(
            self._topology,
            self._resources,
            Random(f"{seed}/draws"),
            throttling,
            largest_key,
            most_behind,
            longest_behind,
        )
        self.ledger = Ledger()
        #: Is told of each request; None as long as no log is kept.
        self.log: Callable[[Row], None] | None = None
        self._began = 0.0
        self.rules = Rules(seed)
        self.admin = AdminActs(self)
        #: Where each region is served, by its name.
        self.endpoints: dict[str, str] = {}

    @property
    def regions(self) -> list[str]:
        """The names of the regions."""
        return [each.name for each in self._topology.regions]

    @property
    def topology(self) -> Topology:
        """The regions and their links."""
        return self._topology

    @property
    def resources(self) -> Resources:
        """Databases, containers and what else is no item."""
        return self._resources

    @property
    def now(self) -> float:
        """The time of the last request, or of what the operator did last."""
        return self._now

    def at(self, now: float) -> None:
        """Lets time pass."""
        self._now = max(self._now, now)

    # -- requests ------------------------------------------------------------------------------------

    def handle(self, request: Request, now: float) -> Reply:
        """Answers one request at a time."""
        self.at(now)
        if self.log is not None:
            self._began = time.perf_counter()
        activity = request.header("x-ms-activity-id") or f"{self._random.getrandbits(128):032x}"
        region = self._region_of(request)
        facts, call, route = Facts("unknown", region=region.name, kind=""), None, None
        rule: Rule | None = None
        try:
            route = route_of(request)
            facts = self._facts(route, request, region)
            rule = self.rules.choose(facts) if self.rules.all else None
            if rule is not None:
                early = _before(rule)
                if early is not None:
                    reply = early
                    self._write_down(request, route, facts, None, reply, activity, rule)
                    return self._marked(reply, rule, activity)
            self._check_region(region)
            if route.kind == "docs":
                call = Call.of(self.service, request, route, region, self._now)
                reply = self._items(call)
            else:
                reply = self._others(route, request, region)
        except ServiceError as error:
            reply = self._failed(error, call, activity)
        except points.Late as late:
            reply = self._failed(late.error, call, activity)
            reply.ready_at = late.ready_at
        reply.headers.setdefault("x-ms-activity-id", activity)
        self._write_down(request, route, facts, call, reply, activity, rule)
        if rule is not None:
            _after(rule, reply)
            return self._marked(reply, rule, activity)
        return reply

    def refused(self, request: Request, error: ServiceError, now: float) -> None:
        """Writes down a request that was refused before it came here: who asked may not."""
        self.at(now)
        self._began = time.perf_counter()
        region, route = self._region_of(request), None
        facts = Facts("unknown", region=region.name, kind="")
        with contextlib.suppress(ServiceError):
            route = route_of(request)
            facts = self._facts(route, request, region)
        reply = Reply(error.status, {"x-ms-substatus": str(error.substatus)})
        self._write_down(request, route, facts, None, reply, request.header("x-ms-activity-id"), None)

    def _items(self, call: Call) -> Reply:
        verb = call.route.verb
        if verb == "batch":
            return points.batch(call)
        if verb == "delete-key":
            return points.delete_key(call)
        if verb == "query":
            return feeds.query(call)
        if verb == "plan":
            return feeds.plan(call)
        if verb == "list":
            return feeds.read_feed(call)
        if verb == "changes":
            return feeds.changes(call)
        return points.point(call)

    def _others(self, route: Route, request: Request, region: Region) -> Reply:
        if route.kind == "account":
            return Reply(200, {"x-ms-max-media-storage-usage-mb": "10240"}, encode(self.description()))
        if route.kind == "pkranges":
            return self._ranges(route, request)
        if route.verb in _WRITES and not self._topology.writes_here(region):
            raise ServiceError(403, "The requested operation cannot be performed at this region", 3)
        return self._resources.handle(route, request, self._now)

    def _region_of(self, request: Request) -> Region:
        return self._topology.region(request.region) if request.region else self._topology.write

    def _check_region(self, region: Region) -> None:
        if not region.member:
            raise ServiceError(403, "The database account does not have this region.", 1008)
        if not region.online:
            raise ServiceError(503, "The region does not answer.", 9002)

    def _facts(self, route: Route, request: Request, region: Region) -> Facts:
        database, container = route.parent("dbs"), route.parent("colls")
        key = request.header("x-ms-documentdb-partitionkey")
        place = f"{database}/{container}" if container else ""
        name = request.header("x-ms-documentdb-partitionkeyrangeid")
        if key and self.rules.all and route.kind == "docs":
            name = self._range_of(route, key) or name
        return Facts(route.verb, place, key, name, region.name, route.name, route.kind)

    def _range_of(self, route: Route, key: str) -> str:
        try:
            container = self._resources.container(route.parent("dbs"), route.parent("colls"))
            values = container.definition.values_of_header(key)
            return self.service.stores[container.rid].part_of(container.definition.epk(values)).id
        except ServiceError:
            return ""

    def _failed(self, error: ServiceError, call: Call | None, activity: str) -> Reply:
        message = f"Message: {error.message}\r\nActivityId: {activity}, Microsoft.Azure.Documents.Common/2.14.0"
        headers = {"x-ms-substatus": str(error.substatus), "x-ms-request-charge": "0", **error.headers}
        if call is not None:
            headers = {**call.facts(call.seen), **error.headers, "x-ms-substatus": str(error.substatus)}
            if error.status == 404 and error.substatus == behind_session().substatus:
                headers.pop("x-ms-session-token", None)
        return Reply(error.status, headers, encode({"code": error.code, "message": message}))

    def _marked(self, reply: Reply, rule: Rule, activity: str) -> Reply:
        """An injected fault is told by the activity id: its last digits are the number of the rule."""
        mark = f"{activity[:18]}-fa17-{rule.id:012d}" if len(activity) >= 18 else f"fa17-{rule.id:012d}"
        reply.headers["x-ms-activity-id"] = mark
        return reply

    def _write_down(
        self,
        request: Request,
        route: Route | None,
        facts: Facts,
        call: Call | None,
        reply: Reply,
        activity: str,
        rule: Rule | None,
    ) -> None:
        log = self.log
        row = self.ledger.add(
            at=self._now,
            region=facts.region,
            operation=f"{facts.kind}/{facts.op}" if route is not None else "unknown",
            container=facts.container,
            partition_key=facts.key,
            range_id=call.part.id if call is not None and call.part is not None else facts.range,
            name=facts.name,
            status=reply.status,
            substatus=int(reply.headers.get("x-ms-substatus", "0")),
            charge=float(reply.headers.get("x-ms-request-charge", "0")),
            request_length=len(request.body),
            response_length=len(reply.body),
            activity_id=activity,
            fault=rule.text if rule is not None else "",
            user_agent=request.header("user-agent")[:200],
            **(_NOTHING if log is None else self._for_the_log(request, reply)),
        )
        if log is not None:
            log(row)

    def _for_the_log(self, request: Request, reply: Reply) -> dict[str, Any]:
        """What is not worth the time where nobody keeps a log."""
        waits = 0.0 if reply.ready_at is None else max(0.0, reply.ready_at - self._now)
        return {
            "path": request.path.strip("/"),
            "signed": unquote(request.header("authorization")[:64]).partition("&")[0].removeprefix("type="),
            "duration_ms": (time.perf_counter() - self._began + waits) * 1_000,
        }

    # -- what is kept --------------------------------------------------------------------------------

    def dump(self) -> bytes:
        """The state, see `azlatch.lab.cosmos.state`."""
        return state.dump(self)

    def load(self, data: bytes) -> None:
        """Takes a state that was dumped. Raises ValueError where it is none."""
        state.load(self, data)

    # -- what is told of the account -----------------------------------------------------------------

    def description(self) -> dict[str, Any]:
        """The account as ``GET /`` tells it."""
        topology = self._topology
        present = [each for each in topology.regions if each.member and (each.online or each is topology.write)]
        first = sorted(present, key=lambda each: each is not topology.write)
        places = [
            {"name": each.name, "databaseAccountEndpoint": self.endpoints.get(each.name, "")} for each in first
        ]
        policy = {
            "defaultConsistencyLevel": topology.level,
            "maxStalenessPrefix": self.service.most_behind,
            "maxIntervalInSeconds": int(self.service.longest_behind),
        }
        return {
            "_self": "",
            "id": self.name,
            "_rid": f"{self.name}.documents.azure.com",
            "media": "//media/",
            "addresses": "//addresses/",
            "_dbs": "//dbs/",
            "writableLocations": places if topology.multiple else places[:1],
            "readableLocations": places,
            "enableMultipleWriteLocations": topology.multiple,
            "enablePerPartitionFailoverBehavior": False,
            "continuousBackupEnabled": False,
            "userReplicationPolicy": {
                "asyncReplication": False,
                "minReplicaSetSize": 3,
                "maxReplicasetSize": 4,
            },
            "userConsistencyPolicy": policy,
            "systemReplicationPolicy": {"minReplicaSetSize": 3, "maxReplicasetSize": 4},
            "readPolicy": {"primaryReadCoefficient": 1, "secondaryReadCoefficient": 1},
            "queryEngineConfiguration": _QUERY_ENGINE,
        }

    def _ranges(self, route: Route, request: Request) -> Reply:
        resource = self._resources.container(route.parent("dbs"), route.parent("colls"))
        if route.verb not in ("list", "changes") or route.name:
            raise not_found()
        store = self.service.stores[resource.rid]
        etag = f'"{store.version}"'
        headers = {
            "etag": etag,
            "x-ms-request-charge": "1",
            "x-ms-alt-content-path": resource.path,
            "x-ms-content-path": resource.rid,
        }
        if request.header("if-none-match") == etag:
            return Reply(304, headers)
        ranges = store.ranges(request.header("if-none-match"))
        body = {"_rid": resource.rid, "PartitionKeyRanges": ranges, "_count": len(ranges)}
        return Reply(200, {**headers, "x-ms-item-count": str(len(ranges))}, encode(body))

    def grant_of(self, token: str, now: float) -> Grant | None:
        """What a resource token allows."""
        return self._resources.grant_of(token, now)

    # -- what happens to containers ------------------------------------------------------------------

    def container_made(self, container: ContainerResource, now: float) -> None:
        """There are items from now on."""
        self.service.stores[container.rid] = Store(container, self._topology, burst=self._burst, now=now)

    def container_changed(self, container: ContainerResource, now: float) -> None:
        """Its definition or its throughput is another."""
        self.service.stores[container.rid].resized(now)

    def container_deleted(self, container: ContainerResource) -> None:
        """Its items are gone."""
        self.service.stores.pop(container.rid, None)

    def size_of(self, container: ContainerResource) -> tuple[int, int]:
        """Items, and KB."""
        parts = self.service.stores[container.rid].parts
        return sum(each.count for each in parts), sum(each.size for each in parts) // 1024

    def _advance_all(self) -> None:
        for store in self.service.stores.values():
            for part in store.parts:
                part.advance(self._now)


def _before(rule: Rule) -> Reply | None:
    """What is answered instead, where the fault comes before the request is carried out."""
    if rule.kind == "status":
        error = ServiceError(rule.status, "Injected fault.", rule.substatus)
        headers = {"x-ms-substatus": str(rule.substatus), "x-ms-request-charge": "0"}
        if rule.retry_after_ms is not None:
            headers["x-ms-retry-after-ms"] = str(rule.retry_after_ms)
        return Reply(rule.status, headers, encode({"code": error.code, "message": f"Message: {error.message}"}))
    if rule.kind == "drop-request":
        return Reply(503, fate="drop")
    if rule.kind == "reset":
        return Reply(503, fate="reset")
    return None


def _after(rule: Rule, reply: Reply) -> None:
    """Does to a reply what the fault does to it."""
    if rule.kind in ("delay", "delay-reply"):
        reply.delay += rule.seconds
    elif rule.kind == "drop-reply":
        reply.fate = "drop"
    elif rule.kind == "reset-reply":
        reply.fate = "reset"
    elif rule.kind == "truncate":
        reply.fate = "truncate"


#: What clients read of the query engine, as JSON in a string.
_QUERY_ENGINE = (
    '{"maxSqlQueryInputLength":524288,"maxJoinsPerSqlQuery":10,"maxLogicalAndPerSqlQuery":2000,'
    '"maxLogicalOrPerSqlQuery":2000,"maxUdfRefPerSqlQuery":10,"maxInExpressionItemsCount":16000,'
    '"queryMaxGroupByTableCellCount":500000,"queryMaxInMemorySortDocumentCount":500,'
    '"maxQueryRequestTimeoutFraction":0.9,"sqlAllowNonFiniteNumbers":false,"sqlAllowAggregateFunctions":true,'
    '"sqlAllowSubQuery":true,"sqlAllowScalarSubQuery":true,"allowNewKeywords":true,"sqlAllowLike":true,'
    '"sqlAllowGroupByClause":true,"maxSpatialQueryCells":12,"spatialMaxGeometryPointCount":256,'
    '"sqlDisableOptimizationFlags":0,"sqlEnableParameterExpansionCheck":true}'
)
