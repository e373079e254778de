"""The control plane: all resources of an account but its items, and what requests do with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from azlatch.lab.cosmos import resource_reply as replies
from azlatch.lab.cosmos import resource_state
from azlatch.lab.cosmos.container_definition import check_replacement, partition_key_of
from azlatch.lab.cosmos.errors import (
    ServiceError,
    bad_request,
    crosses_partitions,
    exists,
    not_found,
    owner_not_found,
    too_large,
)
from azlatch.lab.cosmos.feed import page_of, query_of
from azlatch.lab.cosmos.field import as_id, body_of
from azlatch.lab.cosmos.offer_book import OfferBook
from azlatch.lab.cosmos.offers import throughput_of_headers
from azlatch.lab.cosmos.permissions import (
    Grant,
    allows,
    check_single,
    grant_of_body,
    permission_rid_of,
    token_life_of,
    token_of,
)
from azlatch.lab.cosmos.resource_id import parent_of
from azlatch.lab.cosmos.resource_kinds import KINDS, MOST_RESOURCES
from azlatch.lab.cosmos.resource_tree import ContainerResource, DatabaseResource, Resource, Shelf, check_match
from azlatch.lab.cosmos.route import Route
from azlatch.lab.cosmos.wire import Reply, Request

__all__ = ["ContainerResource", "DatabaseResource", "Grant", "Hooks", "Resources"]

#: Largest body of a request for such a resource, bytes.
_MOST_BODY = 262_144
#: More numbers than that a resource id of an offer does not hold.
_MOST_NUMBER = 2**24 - 1
_NO_JAVASCRIPT = (
    "This lab runs no JavaScript: stored procedures, triggers and functions are kept, not executed."
)
_RID_MISMATCH = "The container was deleted and made again: its resource id is not the one of the request."


class Hooks(Protocol):
    """What the data plane is told, and asked."""

    def container_made(self, container: ContainerResource, now: float) -> None:
        """There is a new container."""

    def container_changed(self, container: ContainerResource, now: float) -> None:
        """Its definition or its throughput changed."""

    def container_deleted(self, container: ContainerResource) -> None:
        """It is gone, and its data with it."""

    def size_of(self, container: ContainerResource) -> tuple[int, int]:
        """How many documents it has, and how many KB."""
        ...


class Resources:
    """Databases, containers, offers, users, permissions, scripts and keys of one account."""

    def __init__(self, account_name: str, hooks: Hooks) -> None:
        self._account = account_name
        self._hooks = hooks
        self._databases: Shelf[DatabaseResource] = Shelf()
        self._offers = OfferBook(hooks)
        self._lsn = 0
        self._number = 0
        self._count = 0

    # What the data plane asks

    def database(self, name_or_rid: str) -> DatabaseResource:
        """A database.

        Raises:
            ServiceError: 404.
        """
        database = self._databases.get(name_or_rid)
        if database is None:
            raise not_found()
        return database

    def container(self, database: str, name_or_rid: str) -> ContainerResource:
        """A container, as the owner of what a request is for.

        Raises:
            ServiceError: 404/1003.
        """
        found = self._databases.get(database)
        container = found.containers.get(name_or_rid) if found is not None else None
        if container is None:
            raise owner_not_found()
        return container

    def databases(self) -> list[DatabaseResource]:
        """All databases, in the order of their making."""
        return list(self._databases)

    def grant_of(self, token: str, now: float) -> Grant | None:
        """What a resource token, decoded from its header, grants; None if it is not ours or no longer good.

        A permission that is replaced or deleted takes effect on the tokens that are out.
        """
        rid = permission_rid_of(self._account, token, now)
        if rid is None:
            return None
        database = self._databases.get(parent_of(parent_of(rid)))
        user = database.find("users", parent_of(rid)) if database is not None else None
        permission = user.find("permissions", rid) if user is not None else None
        return grant_of_body(permission.body) if permission is not None and permission.rid == rid else None

    def allows(self, grant: Grant, route: Route, request: Request) -> bool:
        """Whether the bearer of a grant may do what is asked.

        Names and resource ids of databases and containers are the same to it.
        """
        if route.kind == "account":
            return True
        pairs = [*route.parents, (route.kind, route.name)]
        asked = [each for pair in pairs for each in pair if each]
        granted = grant.resource.split("/")
        return allows(grant, self._by_rids(granted), self._by_rids(asked), route, request)

    def _by_rids(self, segments: list[str]) -> list[str]:
        """The segments of a link with resource ids for the names that are known."""
        path = self._path(list(zip(segments[::2], segments[1::2], strict=False)))
        known = list(segments)
        for at, resource in enumerate(path):
            known[2 * at + 1] = segments[2 * at + 1] if resource is None else resource.rid
        return known

    def _path(self, pairs: Sequence[tuple[str, str]]) -> list[Resource | None]:
        """What each pair of kind and name leads to from the account down; None where it leads nowhere."""
        path: list[Resource | None] = []
        for kind, name in pairs:
            parent = path[-1] if path else None
            path.append(parent.find(kind, name) if parent else None if path else self._databases.get(name))
        return path

    # Requests

    def handle(self, route: Route, request: Request, now: float) -> Reply:
        """Carries out a request for any kind but the account, items and partition key ranges.

        Raises:
            ServiceError: what the service answers instead.
        """
        if len(request.body) > _MOST_BODY:
            raise too_large()
        if route.kind == "offers":
            return self._offer(route, request, now)
        if route.kind == "permissions":
            token_life_of(request)  # refused before anything is changed
        owner = self._owner(route)
        self._check_intended(owner, request)
        if route.kind == "conflicts":
            return self._conflict(route, request, owner)
        match route.verb:
            case "create" | "upsert":
                return self._create(route, request, owner, now)
            case "read":
                return self._read(route, request, owner, now)
            case "replace":
                return self._replace(self._found(route, owner), request, now)
            case "delete":
                return self._delete(self._found(route, owner), request)
            case "list" | "query":
                return self._feed(route, request, owner, now)
            case "execute":
                self._found(route, owner)
                raise bad_request(_NO_JAVASCRIPT)
        raise bad_request(f"{route.verb} is not possible for this kind of resource.")

    def _owner(self, route: Route) -> Resource | None:
        path = self._path(route.parents)
        if None in path:
            raise owner_not_found()
        return path[-1] if path else None

    def _shelf(self, kind: str, owner: Resource | None) -> Shelf[Any]:
        return self._databases if owner is None else owner.shelves[kind]

    def _found(self, route: Route, owner: Resource | None) -> Resource:
        found: Resource | None = self._shelf(route.kind, owner).get(route.name)
        if found is None:
            raise not_found()
        return found

    def _create(self, route: Route, request: Request, owner: Resource | None, now: float) -> Reply:
        kind, shelf = KINDS[route.kind], self._shelf(route.kind, owner)
        body = body_of(request)
        name = as_id(body.get("id"))
        if route.verb == "upsert":
            if not kind.upserted:
                raise bad_request("Upsert is not possible for this kind of resource.")
            present: Resource | None = shelf.get(name)
            if present is not None and present.name == name:
                return self._replace(present, request, now)
        content = kind.content_of(body)
        throughput = throughput_of_headers(request) if route.kind in ("dbs", "colls") else None
        if shelf.has(name):
            raise exists()
        if len(shelf) >= kind.most or self._count >= MOST_RESOURCES or self._number >= _MOST_NUMBER - 1:
            raise ServiceError(403, "There are as many resources of this kind as there may be.", 1005)
        if route.kind == "permissions":
            check_single(shelf, content, None)
        resource = self._made(route.kind, owner, name, content)
        resource.write(content, self._next_lsn(), now)
        shelf.add(resource)
        self._count += 1
        if isinstance(resource, DatabaseResource | ContainerResource):
            self._offers.provision(resource, throughput, self._next_number(), self._next_lsn(), now)
        if isinstance(resource, ContainerResource):
            self._hooks.container_made(resource, now)
        return self._one(201, resource, request, now, replies.WRITE_CHARGE)

    def _made(self, kind: str, owner: Resource | None, name: str, content: dict[str, Any]) -> Resource:
        number = self._next_number()
        if kind == "dbs":
            return DatabaseResource(number, name)
        if isinstance(owner, DatabaseResource) and kind == "colls":
            return ContainerResource(number, owner, name, partition_key_of(content["partitionKey"]))
        return Resource(kind, number, owner, name)

    def _read(self, route: Route, request: Request, owner: Resource | None, now: float) -> Reply:
        resource = self._found(route, owner)
        unchanged = request.header("if-none-match") in (resource.etag, "*")
        return self._one(304 if unchanged else 200, resource, request, now, replies.READ_CHARGE)

    def _replace(self, resource: Resource, request: Request, now: float) -> Reply:
        kind = KINDS[resource.kind]
        if not kind.replaced:
            raise ServiceError(405, "This kind of resource cannot be replaced.")
        check_match(resource, request)
        body = body_of(request)
        name, content = as_id(body.get("id")), kind.content_of(body)
        shelf = self._shelf(resource.kind, resource.parent)
        if name != resource.name and not kind.renamed:
            raise bad_request("The id in the body is not the one of the resource, and it cannot be changed.")
        if name != resource.name and shelf.has(name):
            raise exists()
        if isinstance(resource, ContainerResource):
            check_replacement(resource.body, content)
        if resource.kind == "permissions":
            check_single(shelf, content, resource)
        if name != resource.name:
            shelf.rename(resource, name)
        resource.write(content, self._next_lsn(), now)
        if isinstance(resource, ContainerResource):
            self._hooks.container_changed(resource, now)
        return self._one(200, resource, request, now, replies.WRITE_CHARGE)

    def _delete(self, resource: Resource, request: Request) -> Reply:
        check_match(resource, request)
        self._shelf(resource.kind, resource.parent).remove(resource)
        self._forget(resource)
        headers = replies.headers_of(resource.kind, resource.parent, self._next_lsn(), replies.WRITE_CHARGE)
        return Reply(204, headers)

    def _forget(self, resource: Resource) -> None:
        """Ends what is below a resource that was taken out, and what belongs to it."""
        self._count -= 1
        for shelf in resource.shelves.values():
            for each in shelf:
                self._forget(each)
        self._offers.drop(resource)
        if isinstance(resource, ContainerResource):
            self._hooks.container_deleted(resource)

    def _feed(self, route: Route, request: Request, owner: Resource | None, now: float) -> Reply:
        def show(resource: Resource) -> dict[str, Any]:
            return self._shown(resource, request, now)

        queried = route.verb == "query"
        page = (query_of if queried else page_of)(self._shelf(route.kind, owner), request, show)
        charge = replies.QUERY_CHARGE if queried else replies.READ_CHARGE
        return replies.feed(KINDS[route.kind].feed, route.kind, owner, page, self._lsn, charge)

    def _conflict(self, route: Route, request: Request, owner: Resource | None) -> Reply:
        """Conflicts arise from writes in several regions; this part of the server has none to show."""
        if route.verb == "query" and not (
            request.header("x-ms-documentdb-partitionkey")
            or request.flag("x-ms-documentdb-query-enablecrosspartition")
        ):
            raise crosses_partitions()
        if route.verb in ("list", "query"):
            page = (query_of if route.verb == "query" else page_of)((), request, _body)
            return replies.feed("Conflicts", route.kind, owner, page, self._lsn, replies.READ_CHARGE)
        if route.verb in ("read", "delete"):
            raise not_found()
        raise ServiceError(405, "Conflicts can be read and deleted.")

    def _offer(self, route: Route, request: Request, now: float) -> Reply:
        if route.verb in ("list", "query"):
            page = (query_of if route.verb == "query" else page_of)(self._offers, request, _body)
            return replies.feed("Offers", "offers", None, page, self._lsn, replies.QUERY_CHARGE)
        offer = self._offers.get(route.name)
        if offer is None:
            raise not_found()
        charge = replies.READ_CHARGE
        if route.verb == "replace":
            check_match(offer, request)
            self._offers.replace(offer, body_of(request), request, self._next_lsn(), now)
            charge = replies.WRITE_CHARGE
        elif route.verb != "read":
            raise ServiceError(405, "Offers can be read and replaced.")
        unchanged = route.verb == "read" and request.header("if-none-match") in (offer.etag, "*")
        reply = replies.one(304 if unchanged else 200, offer, offer.body, self._lsn, charge)
        reply.headers["x-ms-cosmos-min-throughput"] = str(self._offers.least(offer))
        reply.headers["x-ms-offer-replace-pending"] = "False"
        return reply

    # Answers

    def _one(self, status: int, resource: Resource, request: Request, now: float, charge: float) -> Reply:
        reply = replies.one(status, resource, self._shown(resource, request, now), self._lsn, charge)
        if isinstance(resource, DatabaseResource):
            users: Shelf[Resource] = resource.shelves["users"]
            permissions = sum(len(each.shelves["permissions"]) for each in users)
            reply.headers |= replies.database_quota(
                len(self._databases), len(resource.containers), len(users), permissions
            )
        if isinstance(resource, ContainerResource) and replies.wants_quota(request):
            most = {each: KINDS[each].most for each in resource.shelves}
            reply.headers |= replies.container_quota(resource, self._hooks.size_of(resource), most)
        return reply

    def _shown(self, resource: Resource, request: Request, now: float) -> dict[str, Any]:
        if resource.kind == "permissions":
            expires = int(now) + token_life_of(request)
            return {**resource.body, "_token": token_of(self._account, resource.rid, expires)}
        if isinstance(resource, ContainerResource) and request.flag(
            "x-ms-documentdb-populatepartitionstatistics"
        ):
            return {**resource.body, "statistics": replies.statistics(self._hooks.size_of(resource))}
        return resource.body

    def _check_intended(self, owner: Resource | None, request: Request) -> None:
        intended = request.header("x-ms-cosmos-intended-collection-rid")
        if intended and isinstance(owner, ContainerResource) and owner.rid != intended:
            raise bad_request(_RID_MISMATCH, 1024)

    # State

    def dump(self) -> Any:
        """All of it, as JSON."""
        return {
            "lsn": self._lsn,
            "number": self._number,
            "databases": [resource_state.dumped(each) for each in self._databases],
            "offers": self._offers.dump(),
        }

    def load(self, state: Any) -> None:
        """Takes what `dump` gave, instead of all that there is. The data plane is not told.

        Raises:
            ValueError: it is nothing that `dump` gave.
        """
        databases: Shelf[DatabaseResource] = Shelf()
        offers = OfferBook(self._hooks)
        try:
            for each in state["databases"]:
                databases.add(resource_state.database_of(each))
            offers.load(state["offers"], databases)
            self._lsn, self._number = int(state["lsn"]), int(state["number"])
        except (KeyError, TypeError, AttributeError, ServiceError) as error:
            raise ValueError("it is not the state of an account") from error
        self._databases, self._offers = databases, offers
        self._count = sum(resource_state.size_of(each) for each in databases)

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _next_lsn(self) -> int:
        self._lsn += 1
        return self._lsn


def _body(resource: Resource) -> dict[str, Any]:
    return resource.body
