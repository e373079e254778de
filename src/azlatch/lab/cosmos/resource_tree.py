"""What an account holds besides items: an object for each resource, found by its name or by its resource id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from azlatch.lab.cosmos import resource_id
from azlatch.lab.cosmos.errors import precondition
from azlatch.lab.cosmos.partition_key import PartitionKeyDefinition
from azlatch.lab.cosmos.wire import Request

#: By kind, what the body says of the feeds below it.
_LINKS: dict[str, tuple[str, ...]] = {
    "dbs": ("colls", "users"),
    "colls": ("docs", "sprocs", "triggers", "udfs", "conflicts"),
    "users": ("permissions",),
}
#: By kind, the kinds that this part of the server keeps below it.
BELOW: dict[str, tuple[str, ...]] = {
    "dbs": ("colls", "users", "clientencryptionkeys"),
    "colls": ("sprocs", "triggers", "udfs"),
    "users": ("permissions",),
}


class Resource:
    """One resource: what it is called, where it is, and its body as the service returns it."""

    __slots__ = ("body", "etag", "kind", "name", "number", "parent", "rid", "self_link", "shelves")

    def __init__(self, kind: str, number: int, parent: Resource | None, name: str) -> None:
        self.kind = kind
        self.number = number
        self.rid = rid_of(kind, number, parent)
        self.parent = parent
        self.name = name
        self.self_link: str = f"{parent.self_link if parent else ''}{kind}/{self.rid}/"
        self.etag = ""
        self.body: dict[str, Any] = {}
        self.shelves: dict[str, Shelf[Any]] = {each: Shelf() for each in BELOW.get(kind, ())}

    def write(self, content: dict[str, Any], lsn: int, now: float) -> None:
        """Gives it new content, and with that a new ETag."""
        stamp = int(now)
        system = {"_rid": self.rid, "_self": self.self_link, "_etag": etag_of(lsn, stamp)}
        links = {f"_{each}": f"{each}/" for each in _LINKS.get(self.kind, ())}
        self.take({"id": self.name, **content, **system, **links, "_ts": stamp})

    def take(self, body: dict[str, Any]) -> None:
        """Takes a whole body, as it was before."""
        self.body = body
        self.etag = body["_etag"]

    @property
    def content_path(self) -> str:
        """The path by names, in ASCII as a header takes it: what is not ASCII is percent-encoded."""
        return f"{self.parent.content_path + '/' if self.parent else ''}{self.kind}/{header_safe(self.name)}"

    def find(self, kind: str, name_or_rid: str) -> Resource | None:
        """What is directly below it, if it is there."""
        shelf: Shelf[Resource] | None = self.shelves.get(kind)
        return shelf.get(name_or_rid) if shelf is not None else None


ResourceType = TypeVar("ResourceType", bound=Resource)


class Shelf(Generic[ResourceType]):
    """All resources of one kind with one parent, in the order of their making."""

    __slots__ = ("_by_name", "_by_rid")

    def __init__(self) -> None:
        self._by_name: dict[str, ResourceType] = {}
        self._by_rid: dict[str, ResourceType] = {}

    def get(self, name_or_rid: str) -> ResourceType | None:
        """By its name, else by its resource id."""
        return self._by_name.get(name_or_rid) or self._by_rid.get(name_or_rid)

    def has(self, name: str) -> bool:
        """Whether the name is taken."""
        return name in self._by_name

    def add(self, resource: ResourceType) -> None:
        """Puts it at the end."""
        self._by_name[resource.name] = resource
        self._by_rid[resource.rid] = resource

    def remove(self, resource: ResourceType) -> None:
        """Takes it out."""
        del self._by_name[resource.name]
        del self._by_rid[resource.rid]

    def rename(self, resource: ResourceType, name: str) -> None:
        """Calls it something else; it keeps its place."""
        del self._by_name[resource.name]
        resource.name = name
        self._by_name[name] = resource

    def __len__(self) -> int:
        return len(self._by_rid)

    def __iter__(self) -> Iterator[ResourceType]:
        return iter(self._by_rid.values())


class DatabaseResource(Resource):
    """A database. `throughput` is what its containers share, in RU/s, or None if it has none of its own."""

    __slots__ = ("containers", "throughput")

    def __init__(self, number: int, name: str) -> None:
        super().__init__("dbs", number, None, name)
        self.containers: Shelf[ContainerResource] = self.shelves["colls"]
        self.throughput: int | None = None


class ContainerResource(Resource):
    """A container. `throughput` is what its ranges share now, in RU/s; of autoscale the maximum."""

    __slots__ = (
        "autoscale",
        "database",
        "default_ttl",
        "definition",
        "indexing_policy",
        "path",
        "shares_database",
        "throughput",
    )

    def __init__(
        self, number: int, database: DatabaseResource, name: str, definition: PartitionKeyDefinition
    ) -> None:
        super().__init__("colls", number, database, name)
        self.database = database
        self.definition = definition
        self.path = self.content_path
        self.default_ttl: int | None = None
        self.indexing_policy: dict[str, Any] = {}
        self.throughput = 0
        self.autoscale = False
        self.shares_database = False

    def take(self, body: dict[str, Any]) -> None:
        """Takes a whole body, and what the definition in it says."""
        super().take(body)
        self.default_ttl = body.get("defaultTtl")
        self.indexing_policy = body["indexingPolicy"]


def etag_of(lsn: int, stamp: int) -> str:
    """An ETag in the form of the service; no two writes have the same."""
    return f'"{lsn & 0xFFFFFFFF:08x}-{lsn >> 32 & 0xFFFF:04x}-0000-0000-{stamp & 0xFFFFFFFF:08x}0000"'


def header_safe(name: str) -> str:
    """A name for a header: printable ASCII stays as it is, all else is percent-encoded.

    The SDK compares it with the decoded path of its requests, so that a space must stay a space.
    """
    return "".join(each if " " <= each <= "~" else quote(each, safe="") for each in name)


def rid_of(kind: str, number: int, parent: Resource | None) -> str:
    """The resource id of the resource of that kind, with a number that no other of the account has."""
    if parent is None:
        return resource_id.offer_id(number) if kind == "offers" else resource_id.database_id(number)
    if kind == "colls":
        return resource_id.container_id(parent.rid, number)
    if kind in ("users", "clientencryptionkeys"):
        # A key has one more byte on the service; the SDK never takes such an id apart.
        return resource_id.user_id(parent.rid, number)
    if kind == "permissions":
        return resource_id.permission_id(parent.rid, number)
    return resource_id.child_id(parent.rid, kind, number)


def check_match(resource: Resource, request: Request) -> None:
    """Refuses a change whose If-Match is not what the resource is now: 412."""
    wanted = request.header("if-match")
    if wanted and wanted not in ("*", resource.etag):
        raise precondition()
