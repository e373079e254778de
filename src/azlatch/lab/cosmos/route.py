"""What a request is for: the resource that its path names, and what is to be done with it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from urllib.parse import unquote

from azlatch.lab.cosmos.errors import ServiceError, bad_request
from azlatch.lab.cosmos.wire import Request

Verb = Literal[
    "create",
    "upsert",
    "read",
    "replace",
    "patch",
    "delete",
    "list",
    "changes",
    "query",
    "plan",
    "batch",
    "delete-key",
    "execute",
]

#: The kinds of resource, each with the kinds that may be its parent; "" is the account.
PARENTS: dict[str, tuple[str, ...]] = {
    "dbs": ("",),
    "offers": ("",),
    "colls": ("dbs",),
    "users": ("dbs",),
    "clientencryptionkeys": ("dbs",),
    "permissions": ("users",),
    "docs": ("colls",),
    "pkranges": ("colls",),
    "sprocs": ("colls",),
    "triggers": ("colls",),
    "udfs": ("colls",),
    "conflicts": ("colls",),
    "partitionkeydelete": ("operations",),
    "operations": ("colls",),
}

#: Longest path that is looked at, characters.
_MOST_PATH = 8_192


@dataclass(frozen=True, slots=True)
class Route:
    """A verb for a resource of a kind, by way of the parents that the path names.

    `parents` are pairs of kind and name from the account down; `name` is "" where all of the kind are meant.
    Each name is decoded, and may be the resource id (`_rid`) as well as the name.
    """

    verb: Verb
    kind: str
    parents: tuple[tuple[str, str], ...] = ()
    name: str = ""

    def parent(self, kind: str) -> str:
        """The name of the parent of a kind, "" if there is none."""
        for each, name in self.parents:
            if each == kind:
                return name
        return ""


def route_of(request: Request) -> Route:
    """Reads the path, the method and the headers that change what they mean.

    Raises:
        ServiceError: 400 or 404 for a path that names nothing, 405 for a method that it does not have.
    """
    path = request.path.strip("/")
    if len(path) > _MOST_PATH:
        raise bad_request("The request path is too long.")
    if not path:
        if request.method != "GET":
            raise ServiceError(405, "The account can only be read.")
        return Route("read", "account")
    # Of most paths the last name alone is new.
    name = ""
    if path.count("/") % 2:
        path, _, name = path.rpartition("/")
    parents, kind = _place(path)
    name = unquote(name)
    if kind == "operations":
        if name != "partitionkeydelete" or request.method != "POST":
            raise ServiceError(404, "There is no such operation at this path.")
        return Route("delete-key", "docs", parents)
    return Route(_verb(request, kind, name), kind, parents, name)


@lru_cache(maxsize=1_024)
def _place(path: str) -> tuple[tuple[tuple[str, str], ...], str]:
    """The parents that a path names which ends with a kind, and that kind."""
    *above, kind = [unquote(each) for each in path.split("/")]
    parents = tuple(zip(above[::2], above[1::2], strict=True))
    before = ""
    for each, name in parents:
        _check_place(each, before)
        if each == "operations":
            raise ServiceError(404, "There is no such operation at this path.")
        if not name:
            raise ServiceError(404, "A name is missing in the request path.")
        before = each
    _check_place(kind, before)
    return parents, kind


def _check_place(kind: str, parent: str) -> None:
    if parent not in PARENTS.get(kind, ()):
        raise ServiceError(404, "There is no such resource type at this path.")


def _verb(request: Request, kind: str, name: str) -> Verb:
    method = request.method
    if not name:
        if method == "GET":
            return "changes" if request.header("a-im") else "list"
        if method == "POST":
            return _posted(request, kind)
    elif method == "GET":
        return "read"
    elif method == "PUT":
        return "replace"
    elif method == "PATCH" and kind in ("docs", "colls"):
        return "patch"
    elif method == "DELETE":
        return "delete"
    elif method == "POST" and kind == "sprocs":
        return "execute"
    raise ServiceError(405, f"{method[:20]} is not possible here.")


def _posted(request: Request, kind: str) -> Verb:
    if request.flag("x-ms-cosmos-is-query-plan-request"):
        return "plan"
    if request.flag("x-ms-documentdb-isquery") or "query+json" in request.header("content-type"):
        return "query"
    if kind == "docs" and request.flag("x-ms-cosmos-is-batch-request"):
        return "batch"
    return "upsert" if request.flag("x-ms-documentdb-is-upsert") else "create"
