"""One request for items on its way through the engine: where it goes, and what its reply says of that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from azlatch.lab.cosmos import session_token
from azlatch.lab.cosmos.consistency import level_of, token_for, view_for
from azlatch.lab.cosmos.errors import ServiceError, bad_request
from azlatch.lab.cosmos.partition import PhysicalPartition
from azlatch.lab.cosmos.route import Route
from azlatch.lab.cosmos.service import Service
from azlatch.lab.cosmos.session_token import SessionToken
from azlatch.lab.cosmos.store import Store
from azlatch.lab.cosmos.topology import Level, Region
from azlatch.lab.cosmos.transaction import Key
from azlatch.lab.cosmos.versions import View
from azlatch.lab.cosmos.wire import Reply, Request

#: Longest wait for a write to be in all regions, as the service's own limit for one operation, seconds.
LONGEST_OPERATION = 5.0
_KEY_HEADER = "x-ms-documentdb-partitionkey"


@dataclass(slots=True)
class Call:
    """A request for the items of one container."""

    service: Service
    request: Request
    route: Route
    store: Store
    region: Region
    now: float
    level: Level
    tokens: dict[str, SessionToken] = field(default_factory=dict)
    #: What was charged so far, and where.
    charge: float = 0.0
    part: PhysicalPartition | None = None
    key: Key | None = None
    #: What was seen of it: what an error tells, too.
    seen: View = None

    @classmethod
    def of(cls, service: Service, request: Request, route: Route, region: Region, now: float) -> Call:
        """Finds the container, and checks what the headers say of the whole request."""
        resource = service.resources.container(route.parent("dbs"), route.parent("colls"))
        store = service.stores[resource.rid]
        store.check_rid(request.header("x-ms-cosmos-intended-collection-rid"))
        level = level_of(request.header("x-ms-consistency-level"), service.topology.level)
        tokens = session_token.parse_header(request.header("x-ms-session-token"))
        return cls(service, request, route, store, region, now, level, tokens)

    # -- where it goes -------------------------------------------------------------------------------

    def given_key(self) -> tuple[Any, ...] | None:
        """The partition key in the header, None without one."""
        text = self.request.header(_KEY_HEADER)
        return self.store.resource.definition.values_of_header(text, prefix=self.is_feed) if text else None

    @property
    def is_feed(self) -> bool:
        """Whether it is for many items, and the beginning of a partition key is enough."""
        return self.route.verb in ("list", "changes", "query", "plan")

    def whole_key(self) -> Key:
        """The partition key in the header, which has to be a whole one.

        Raises:
            ServiceError: 400 without it, 400/1001 where parts are missing.
        """
        values = self.given_key()
        if values is None:
            raise bad_request("PartitionKey value must be supplied for this operation.")
        definition = self.store.resource.definition
        key = Key(values, definition.text(values), definition.epk(values))
        self.aim(self.store.part_of(key.epk), key)
        return key

    def aim(self, part: PhysicalPartition, key: Key | None) -> None:
        """It is for a physical partition, and a key in it. Raises 429 where there is no budget for it."""
        self.part, self.key = part, key
        self.seen = part.view(self.region, late=True, now=self.now)
        if self.service.throttling:
            text = key.text if key is not None else None
            refusal = self.store.budgets[part.id].admit(self.now, text)
            if refusal is not None:
                raise self.service.throttled(refusal)

    def view(self) -> View:
        """What the replica shows that answers. Raises 404/1002 where none has what was seen before."""
        part = self._aimed()
        token = token_for(self.tokens, part)
        self.seen = view_for(part, self.region, self.level, token, self.service.random, self.now)
        return self.seen

    def view_of_writer(self) -> View:
        """What the write region knows, which decides of a write.

        Raises:
            ServiceError: 403/3 where this region takes no writes, 429/3074 where others are too far behind.
        """
        part = self._aimed()
        topology = self.service.topology
        if not topology.writes_here(self.region):
            raise ServiceError(403, "The requested operation cannot be performed at this region", 3)
        if topology.level == "BoundedStaleness" and not part.is_even:
            count, age = part.staleness(self.now)
            if count >= self.service.most_behind or age >= self.service.longest_behind:
                raise ServiceError(
                    429,
                    "A region is further behind than bounded staleness allows.",
                    3074,
                    {"x-ms-retry-after-ms": "100"},
                )
        self.seen = part.view(self.region, late=False, now=self.now) if topology.multiple else None
        return self.seen

    def _aimed(self) -> PhysicalPartition:
        if self.part is None:
            raise bad_request("The request names no partition.")
        return self.part

    # -- what is said of it --------------------------------------------------------------------------

    def pay(self, units: float) -> None:
        """Takes request units from the budget of the partition; where they are not limited, counts them."""
        self.charge += units
        budget = self.store.budgets.get(self.part.id) if self.part is not None else None
        if budget is None:
            return
        if self.service.throttling:
            budget.charge(self.now, units, self.key.text if self.key is not None else None)
        else:
            budget.note(self.now, units)

    def facts(self, view: View = None) -> dict[str, str]:
        """The headers that every answer about items has."""
        resource = self.store.resource
        headers = {
            "x-ms-request-charge": f"{self.charge:g}",
            "x-ms-alt-content-path": resource.path,
            "x-ms-content-path": resource.rid,
        }
        if self.part is not None:
            token = self.part.token(view)
            headers |= {
                "x-ms-session-token": str(token),
                "x-ms-documentdb-partitionkeyrangeid": self.part.id,
                "lsn": str(token.global_lsn),
                "x-ms-global-committed-lsn": str(self._committed()),
                "x-ms-number-of-read-regions": str(len(self.service.topology.present) - 1),
            }
        return headers

    def _committed(self) -> int:
        part = self._aimed()
        committed = part.replication.committed()
        return part.head if committed is None else min(committed.values())

    def reply(self, status: int, body: bytes, etag: str = "", view: View = None) -> Reply:
        """An answer; without its body where the client wants as little as possible of a write."""
        headers = self.facts(view)
        if etag:
            headers["etag"] = etag
        if self.route.verb not in ("read", "list", "query", "changes", "plan") and (
            self.request.header("prefer").lower() == "return=minimal"
        ):
            body = b""
        return Reply(status, headers, body)
