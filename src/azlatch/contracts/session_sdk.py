"""What a session needs of the SDK: to merge tokens, to compare feed ranges, and what its errors say.

Nothing of the SDK is loaded before it is used. Its functions are called by way of `ContainerProxy`, without a
container: they do not look at it, and a test says when one begins to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, cast

from azlatch.contracts.session import Scope
from azlatch.errors import BackendMisconfigured

TOKEN_HEADER = "x-ms-session-token"  # noqa: S105 - the name of a header
#: With any token: whether two feed ranges overlap is asked by merging one.
_ANY = "0:1#1"
_SELF = re.compile(r"dbs/[^/]+/colls/([^/]+)/")
_PATH = re.compile(r'/(?:"([^"]*)"|([^/"]+))')


@cache
def _proxy() -> Any:
    try:
        from azure.cosmos import ContainerProxy
    except ModuleNotFoundError:
        raise BackendMisconfigured("sessions need azure-cosmos: pip install 'azlatch[cosmos]'") from None
    return ContainerProxy


def scope_of(feed_range: Mapping[str, Any]) -> Scope:
    """A feed range as text."""
    return json.dumps(feed_range, sort_keys=True, separators=(",", ":"))


def merge(one: str, other: str) -> str:
    """The SDK's merge of two tokens of one physical partition."""
    whole = {"Range": {"min": "", "max": "FF", "isMinInclusive": True, "isMaxInclusive": False}}
    return cast("str", _proxy().get_latest_session_token(None, [(whole, one), (whole, other)], whole))


def overlap(one: Scope, other: Scope) -> bool:
    """Whether two feed ranges have something in common, by the SDK's rules; yes where it cannot read one."""
    return _overlap(one, other) or not (_overlap(one, one) and _overlap(other, other))


@lru_cache(maxsize=8_192)
def _overlap(one: Scope, other: Scope) -> bool:
    try:
        _proxy().get_latest_session_token(None, [(json.loads(one), _ANY)], json.loads(other))
    except ValueError:
        return False
    return True


def hull(scopes: Sequence[Scope], feed_ranges: Iterable[Mapping[str, Any]]) -> Scope | None:
    """The physical partition that all scopes are in, or None if there is none."""
    inner = [json.loads(each) for each in scopes]
    for outer in feed_ranges:
        if all(_proxy().is_feed_range_subset(None, outer, each) for each in inner):
            return scope_of(outer)
    return None


def account_of(container: Any) -> str:
    """The account of a container, by the host and port of its endpoint."""
    from urllib.parse import urlsplit

    return urlsplit(str(container.client_connection.url_connection)).netloc.lower().removesuffix(":443")


def level_of(account: Any) -> str:
    """The default level of an account, as the SDK describes it; "" where it does not."""
    return str((account.ConsistencyPolicy or {}).get("defaultConsistencyLevel", ""))


def link_of(container: Any) -> str:
    """What a container is called within its account."""
    return str(container.container_link).strip("/")


def rid_of(body: Any) -> str | None:
    """The id of the container that an answer's item is in, where it says so."""
    if isinstance(body, Mapping):
        found = _SELF.match(str(body.get("_self", "")))
        return found[1] if found else None
    if isinstance(body, list):
        results = (each.get("resourceBody") for each in body[:100] if isinstance(each, Mapping))
        return next((rid for each in results if (rid := rid_of(each))), None)
    return None


def key_in(body: Mapping[str, Any], properties: Mapping[str, Any]) -> Any:
    """The partition key of an item, as `read_item` wants it.

    Raises:
        LookupError: a part of a hierarchical key is missing, or the definition is of an unknown kind.
    """
    paths = properties["partitionKey"]["paths"]
    parts = [_value_at(body, path) for path in paths]
    if len(parts) > 1:
        if any(not found for found, _ in parts):
            raise LookupError("a part of the partition key is missing")
        return [value for _, value in parts]
    if not parts[0][0]:
        from azure.cosmos.partition_key import NonePartitionKeyValue

        return NonePartitionKeyValue
    return parts[0][1]


def _value_at(body: Any, path: str) -> tuple[bool, Any]:
    for quoted, plain in _PATH.findall(path):
        if not isinstance(body, Mapping) or (quoted or plain) not in body:
            return False, None
        body = body[quoted or plain]
    return True, body


def chain(error: BaseException) -> Iterator[BaseException]:
    """An error, and those that it was raised in the handling of."""
    seen: BaseException | None = error
    for _ in range(8):
        if seen is None:
            return
        yield seen
        seen = seen.__cause__ or seen.__context__


def is_behind(error: BaseException) -> bool:
    """Whether an error is a 404/1002.

    The sync client may raise KeyError in its place, while it drops the tokens that it does not have.
    """
    for each in chain(error):
        if getattr(each, "status_code", None) is not None:
            return (getattr(each, "status_code", None), getattr(each, "sub_status", None)) == (404, 1002)
        if not isinstance(each, KeyError):
            return False
    return False


def token_in(error: BaseException) -> str:
    """The session token that a refused request came back with: of 404, 409, 412 and failed batches."""
    headers: Any = getattr(error, "headers", None)
    refused = getattr(error, "status_code", None) in (404, 409, 412) or hasattr(error, "operation_responses")
    return str(headers.get(TOKEN_HEADER) or "") if refused and hasattr(headers, "get") else ""
