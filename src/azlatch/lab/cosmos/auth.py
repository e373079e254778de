"""Who may ask: master keys, resource tokens, and unsigned Entra ID tokens where the lab allows them.

What is signed with a master key, after the documentation of the REST API ("Access control on Azure Cosmos DB
resources") and `azure/cosmos/auth.py` of the SDK: the verb, the kind of resource, its link, the date and an
empty line. The link is the path's where it names resources (case kept), or the last resource id alone in lower
case.
"""

from __future__ import annotations

import base64
import binascii
import calendar
import hmac
import math
import time
from collections.abc import Callable
from email.utils import formatdate, parsedate_tz
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import unquote

from azlatch.errors import UsageError
from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.route import Route, route_of
from azlatch.lab.cosmos.wire import Request, decode

#: The key that every local Cosmos DB has; it is public.
EMULATOR_KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
#: How far the date of a request may be from the time, either way, seconds.
TOLERANCE_S = 900.0
_READS = {"read", "list", "changes", "query", "plan"}
_LONGEST_TOKEN = 16_384


class Grant(Protocol):
    """What a resource token allows, at and below one resource; with key values, in that logical partition only.

    `mode` is Read or All; `resource` a link without slashes at its ends, by names or by resource ids.
    """

    @property
    def mode(self) -> str: ...
    @property
    def resource(self) -> str: ...
    @property
    def partition_key(self) -> tuple[Any, ...] | None: ...


class Tokens(Protocol):
    """What the engine knows about resource tokens."""

    def grant_of(self, token: str, now: float) -> Grant | None:
        """What a token allows at a time; None for one that is unknown or has expired."""
        ...

    def link_by_names(self, link: str) -> str:
        """A link by the names of its database and container, however it was spelled."""
        ...


class Authority:
    """Lets requests through, or says why not.

    Args:
        key: the master key, Base64.
        aad: accept Entra ID tokens whose signature nobody checks.
        tokens: what there is to know about resource tokens.
    """

    def __init__(self, key: str = EMULATOR_KEY, *, aad: bool = False, tokens: Tokens | None = None) -> None:
        try:
            self._key = base64.b64decode(key, validate=True)
        except (binascii.Error, ValueError):
            raise UsageError("the key of the lab is no Base64: leave it out for the emulator's") from None
        if not self._key:
            raise UsageError("the key of the lab is empty: leave it out for the emulator's")
        self._aad = aad
        self._tokens = tokens

    def check(self, request: Request, now: float) -> None:
        """Returns if the request is allowed at that time of the lab.

        Raises:
            ServiceError: 401, or 403 for a date or a grant that does not cover it.
        """
        header = request.header("authorization")
        if not header:
            raise _unauthorized(
                "Required Header authorization is missing. Ensure a valid Authorization token is passed."
            )
        token = _unquoted_token(header)
        if len(token) > _LONGEST_TOKEN:
            raise _unauthorized("The authorization token is too long.")
        kind, version, signature = _parts(token)
        if kind == "master" and version == "1.0":
            self._check_key(request, signature, now)
        elif kind == "resource":
            self._check_resource(request, token, now)
        elif kind == "aad":
            self._check_aad(signature, now)
        else:
            raise _unauthorized("The authorization token has a type or version that is not supported.")

    def _check_key(self, request: Request, signature: str, now: float) -> None:
        date = request.header("x-ms-date")
        payloads = _payloads(request, date)
        given = signature.encode("utf-8", "replace")
        # All are compared, so that the time tells nothing.
        matches = [
            hmac.compare_digest(base64.b64encode(hmac.digest(self._key, payload.encode(), "sha256")), given)
            for payload in payloads
        ]
        if not any(matches):
            used = payloads[0].replace("\n", "\\n")[:1_024]
            raise _unauthorized(
                "The input authorization token can't serve the request. The wrong key is being used or the "
                "expected payload is not built as per the protocol. Server used the following payload to sign: "
                f"'{used}'"
            )
        _check_date(date or request.header("date"), now)

    def _check_resource(self, request: Request, token: str, now: float) -> None:
        if self._tokens is None or (grant := self._tokens.grant_of(token, now)) is None:
            raise _unauthorized("The input authorization token is unknown, or has expired.")
        if not _covers(grant, request, self._tokens.link_by_names):
            raise ServiceError(
                403,
                "Insufficient permissions provided in the authorization header for the corresponding request. "
                "Please retry with another authorization header.",
            )

    def _check_aad(self, token: str, now: float) -> None:
        if not self._aad:
            raise _unauthorized("The lab was started without Entra ID tokens.", 5_202)
        claims = _claims(token)
        if claims is None:
            raise _unauthorized("The Entra ID token is malformed.")
        until = claims.get("exp")
        if until is not None and not (
            isinstance(until, (int, float)) and max(until, -1.0) >= min(now, time.time())
        ):
            raise _unauthorized("The Entra ID token has expired.", 5_006)


def _unauthorized(message: str, substatus: int = 0) -> ServiceError:
    return ServiceError(401, message, substatus)


def _expired(date: float, now: float) -> ServiceError:
    return ServiceError(
        403,
        "The authorization token is not valid at the current time. Please create another token and retry "
        f"(token start time: {_written(date)}, current server time: {_written(now)}).",
    )


def _written(moment: float) -> str:
    return formatdate(moment, usegmt=True)


def _unquoted_token(header: str) -> str:
    """What `unquote` gives, at a third of its time: nothing but these four is quoted in a token."""
    token = header.replace("%3D", "=").replace("%26", "&").replace("%2B", "+").replace("%2F", "/")
    return token if "%" not in token else unquote(header)


def _parts(token: str) -> tuple[str, str, str]:
    """Type, version and signature of `type=…&ver=…&sig=…`."""
    found = {}
    for part in token.split("&", 2):
        name, _, value = part.partition("=")
        found[name] = value
    if set(found) != {"type", "ver", "sig"}:
        raise _unauthorized("The input authorization header has an invalid format.")
    return found["type"], found["ver"], found["sig"]


def _payloads(request: Request, date: str) -> list[str]:
    """What may have been signed for a request: with its full name, and with its resource id."""
    path = request.path.strip("/")
    parts = path.split("/") if path else []
    if len(parts) >= 2 and parts[-2] == "operations":
        kind, link = "colls", parts[:-2]
    elif len(parts) % 2:
        kind, link = parts[-1], parts[:-1]
    else:
        kind, link = (parts[-2] if parts else ""), parts
    dates = f"{date}\n\n" if date else f"\n{request.header('date')}\n"
    verb, kind, dates = request.method.lower(), unquote(kind).lower(), dates.lower()
    links = [unquote("/".join(link))]
    if link and (kind == "offers" or (link[0] == "dbs" and _is_resource_id("".join(link[1:2])))):
        links.append(unquote(link[-1]).lower())
    return [f"{verb}\n{kind}\n{each}\n{dates}" for each in links]


def _is_resource_id(name: str) -> bool:
    """Whether a database is named by its resource id: four bytes in Base64, with `-` for `/`."""
    name = unquote(name)
    if len(name) != 8 or not name.endswith("=="):
        return False
    try:
        return len(base64.b64decode(name.replace("-", "/"), validate=True)) == 4
    except (binascii.Error, ValueError):
        return False


@lru_cache(maxsize=256)
def _read_date(text: str) -> float | None:
    """A date of HTTP as seconds since the epoch."""
    if not text.rstrip().lower().endswith(" gmt"):
        return None
    try:
        parsed = parsedate_tz(text)
        if parsed is None:
            return None
        moment = float(calendar.timegm((*parsed[:6], 0, 1, 0)))
    except (ValueError, OverflowError, TypeError):
        return None
    return moment if math.isfinite(moment) else None


def _check_date(text: str, now: float) -> None:
    date = _read_date(text[:64])
    if date is None:
        raise _unauthorized(
            "The input date header is invalid format. Please pass in RFC 1123 style date format."
        )
    # The client's clock may be the real one, or the lab's own that was put forward.
    if min(abs(date - now), abs(date - time.time())) > TOLERANCE_S:
        raise _expired(date, now)


def _covers(grant: Grant, request: Request, by_names: Callable[[str], str]) -> bool:
    """Whether the request is at or below what was granted, or reads what leads there."""
    route = route_of(request)
    if route.kind == "account":
        return True
    is_read = route.verb in _READS
    asked, granted = by_names(_link(route)).split("/"), by_names(grant.resource.strip("/")).split("/")
    # To reach an item one has to read its container, with the key's definition, and its ranges.
    above = asked[:-1] if route.kind == "pkranges" else asked
    if is_read and route.kind in ("colls", "pkranges") and len(above) == 4 and granted[:4] == above:
        return True
    if asked[: len(granted)] != granted or not (is_read or grant.mode == "All"):
        return False
    return grant.partition_key is None or _key(request) == list(grant.partition_key)


def _key(request: Request) -> Any:
    """The partition key of a request, or None."""
    try:
        return decode(request.header("x-ms-documentdb-partitionkey", "null").encode())
    except ValueError:
        return None


def _link(route: Route) -> str:
    pairs = [*route.parents, (route.kind, route.name)]
    return "/".join(each for kind, name in pairs for each in (kind, name) if each)


def _claims(token: str) -> dict[str, Any] | None:
    """What a JSON Web Token claims, or None if it is none."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        header, claims = (decode(base64.urlsafe_b64decode(each + "=" * (-len(each) % 4))) for each in parts[:2])
    except (ValueError, binascii.Error):
        return None
    return claims if isinstance(header, dict) and isinstance(claims, dict) else None
