"""Permissions: what a user may do with one resource, and the resource token that says so."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from azlatch.lab.cosmos.errors import bad_request, exists
from azlatch.lab.cosmos.field import as_list, as_text
from azlatch.lab.cosmos.resource_tree import Resource, Shelf
from azlatch.lab.cosmos.route import Route
from azlatch.lab.cosmos.wire import Request, decode, encode

#: How long a resource token is good for, seconds, if the request does not say; and the most that it may say.
USUAL_TOKEN_LIFE = 3_600
_MOST_TOKEN_LIFE = 18_000
_LEAST_TOKEN_LIFE = 10
_MOST_LINK = 2_048
_MOST_TOKEN = 200
_READS = frozenset(("read", "list", "query", "changes", "plan"))


@dataclass(frozen=True, slots=True)
class Grant:
    """What a resource token lets its bearer do, with that resource and what is below it.

    With partition key values only in that logical partition.
    """

    mode: Literal["Read", "All"]
    #: By names or resource ids, without slashes at its ends.
    resource: str
    partition_key: tuple[Any, ...] | None


def permission_of(body: dict[str, Any]) -> dict[str, Any]:
    """What a permission is made of, without its id and its token.

    The resource need not exist: the service takes any link.

    Raises:
        ServiceError: 400 for a mode, a link or a partition key that is none.
    """
    # Given back as it was sent: the SDK's constants are in lower case, the documentation's are not.
    mode = as_text(body.get("permissionMode"))
    if mode.lower() not in ("read", "all"):
        raise bad_request("The permission mode is 'Read' or 'All'.")
    link = as_text(body.get("resource"))
    parts = link.strip("/").split("/")
    if len(link) > _MOST_LINK or parts[0] != "dbs" or len(parts) % 2 or not all(parts):
        raise bad_request("The resource of a permission is the link of a resource below a database.")
    content: dict[str, Any] = {"permissionMode": mode, "resource": link}
    if body.get("resourcePartitionKey") is not None:
        key = as_list(body["resourcePartitionKey"])
        if any(isinstance(each, dict | list) and each != {} for each in key):
            raise bad_request("The partition key of a permission is an array of scalars.")
        content["resourcePartitionKey"] = key
    return content


def token_life_of(request: Request) -> int:
    """For how long a token is asked for, seconds.

    Raises:
        ServiceError: 400 for less than 10 seconds or more than five hours.
    """
    text = request.header("x-ms-documentdb-expiry-seconds")
    if not text:
        return USUAL_TOKEN_LIFE
    seconds = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not _LEAST_TOKEN_LIFE <= seconds <= _MOST_TOKEN_LIFE:
        raise bad_request(
            f"The header x-ms-documentdb-expiry-seconds is from {_LEAST_TOKEN_LIFE} to {_MOST_TOKEN_LIFE}."
        )
    return seconds


def token_of(account: str, rid: str, expires: int) -> str:
    """A resource token in the form of the service, for the permission with that resource id.

    It is signed with the name of the account: who knows how can forge one. The server is a lab, whose key is
    public, and the same run gives the same tokens.
    """
    return f"type=resource&ver=1&sig={_signature(account, rid, expires)};{rid}.{expires};"


def permission_rid_of(account: str, token: str, now: float) -> str | None:
    """The resource id in a token (decoded from its header) that is genuine and still good."""
    head, _, rest = token[:_MOST_TOKEN].partition(";")
    rid, _, expires = rest.removesuffix(";").rpartition(".")
    if not (expires.isascii() and expires.isdigit()) or len(expires) > 12 or int(expires) <= now:
        return None
    good = f"type=resource&ver=1&sig={_signature(account, rid, int(expires))}"
    return rid if hmac.compare_digest(head.encode(), good.encode()) else None


def _signature(account: str, rid: str, expires: int) -> str:
    return base64.b64encode(hmac.digest(account.encode(), encode([rid, expires]), "sha256")).decode()


def grant_of_body(body: dict[str, Any]) -> Grant:
    """What the token of a permission grants."""
    key = body.get("resourcePartitionKey")
    mode: Literal["Read", "All"] = "All" if body["permissionMode"].lower() == "all" else "Read"
    return Grant(mode, body["resource"].strip("/"), None if key is None else tuple(key))


def allows(grant: Grant, granted: list[str], asked: list[str], route: Route, request: Request) -> bool:
    """Whether a grant covers a request: at or below what was granted, or a read of what leads there.

    Args:
        granted: the segments of the grant's resource, with resource ids where there are any.
        asked: those of the request, in the same way.
        route: of the request.
    """
    reads = route.verb in _READS
    if asked[: len(granted)] == granted:
        return (reads or grant.mode == "All") and (route.kind != "docs" or _has_key(grant, request))
    # To reach an item one has to read its container, with the key's definition, and its ranges.
    return reads and route.kind in ("colls", "pkranges") and len(granted) > 4 and asked[:4] == granted[:4]


def _has_key(grant: Grant, request: Request) -> bool:
    if grant.partition_key is None:
        return True
    try:
        given = decode(request.header("x-ms-documentdb-partitionkey").encode())
    except ValueError:
        return False
    return isinstance(given, list) and _typed(given) == _typed(grant.partition_key)


def _typed(values: Iterable[Any]) -> list[tuple[bool, Any]]:
    """Values that are equal only as JSON's are: in Python True is 1."""
    return [(isinstance(each, bool), each) for each in values]


def check_single(shelf: Shelf[Resource], content: dict[str, Any], own: Resource | None) -> None:
    """Refuses (409) a second permission of a user for the same resource and partition key."""
    wanted = content["resource"].strip("/"), content.get("resourcePartitionKey")
    for each in shelf:
        theirs = each.body["resource"].strip("/"), each.body.get("resourcePartitionKey")
        if each is not own and theirs == wanted:
            raise exists("The user has a permission for this resource already.")
