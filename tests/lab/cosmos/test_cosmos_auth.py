"""Who is let in: vectors are signed with the SDK's own code."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote

import pytest
import requests
from azure.cosmos import _base
from cosmos_clients import PATIENCE, FakeEngine, signed

from azlatch.errors import UsageError
from azlatch.lab.cosmos.auth import EMULATOR_KEY, Authority
from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.lab import CosmosLab
from azlatch.lab.cosmos.wire import Request

NOW = time.time()
OTHER_KEY = base64.b64encode(b"another key").decode()

#: As `_cosmos_client_connection.py` makes them: verb, link of the resource, kind that is appended for feeds,
#: kind that is signed.
REQUESTS = [
    ("get", "dbs/d", "", "dbs"),
    ("get", "dbs/d/colls/C/docs/Some Id", "", "docs"),
    ("put", "dbs/d/colls/C/docs/a%2Fb+ü", "", "docs"),
    ("delete", "dbs/d/colls/C/docs/a?b#c", "", "docs"),
    ("post", "dbs/d/colls/C", "docs", "docs"),
    ("get", "dbs/d/colls/C", "docs", "docs"),
    ("get", "dbs/d/colls/C", "pkranges", "pkranges"),
    ("post", "dbs/D", "colls", "colls"),
    ("patch", "dbs/d/colls/C/docs/a", "", "docs"),
    ("post", "dbs/d/colls/C/sprocs/run it", "", "sprocs"),
    ("get", "dbs/d/users/u/permissions/p", "", "permissions"),
    ("get", "dbs/d/clientencryptionkeys/k", "", "clientencryptionkeys"),
    # By resource ids; the link is then the last of them in lower case.
    ("get", "dbs/Sl8fAA==/colls/Sl8fALN4sw4=/docs/Sl8fALN4sw4BAAAAAAAAAA==", "", "docs"),
    ("get", "dbs/Sl8fAA==/colls/Sl8fALN4sw4=", "docs", "docs"),
    ("get", "dbs/Sl8fAA==", "", "dbs"),
    ("put", "offers/W2Ck", "", "offers"),
    # A name that reads as a resource id is taken for one by the SDK.
    ("get", "dbs/Abcdef==/colls/Orders/docs/One", "", "docs"),
    ("get", "dbs/Database/colls/Orders/docs/One", "", "docs"),
]


def request(verb: str, link: str, feed: str, kind: str, **options: Any) -> Request:
    """The request that the SDK would send."""
    path = _base.GetPathFromLink(link, feed) if feed else _base.GetPathFromLink(link)
    resource = _base.GetResourceIdOrFullNameFromLink(link)
    return Request(verb.upper(), path, signed(verb, path, resource, kind, **options))


def refused(authority: Authority, asked: Request, now: float = NOW) -> tuple[int, int, str]:
    with pytest.raises(ServiceError) as caught:
        authority.check(asked, now)
    return caught.value.status, caught.value.substatus, caught.value.message


@pytest.mark.parametrize(("verb", "link", "feed", "kind"), REQUESTS)
def test_what_the_sdk_signs_is_accepted(verb: str, link: str, feed: str, kind: str) -> None:
    """Right as it is; wrong with another key, another verb or another resource."""
    asked = request(verb, link, feed, kind)
    authority = Authority()
    authority.check(asked, NOW)
    assert refused(Authority(OTHER_KEY), asked)[0] == 401
    other = {"get": "POST", "post": "GET"}.get(verb, "GET")
    assert refused(authority, Request(other, asked.path, asked.headers))[0] == 401
    elsewhere = request(verb, link.rpartition("/")[0] + "/Other", feed, kind)
    assert refused(authority, Request(asked.method, elsewhere.path, asked.headers))[0] == 401


def test_account_and_lists_at_the_top() -> None:
    """`GET /` is signed with nothing, lists of the account with their kind alone."""
    Authority().check(Request("GET", "/", signed("get", "", "", "")), NOW)
    for kind in ("dbs", "offers"):
        Authority().check(Request("GET", f"/{kind}/", signed("get", "", "", kind)), NOW)
    assert refused(Authority(), Request("GET", "/dbs/", signed("get", "", "", "offers")))[0] == 401


def test_delete_by_partition_key_is_signed_as_its_container() -> None:
    """The SDK signs the operation with kind `colls` and the container's link."""
    path = "/dbs/d/colls/c/operations/partitionkeydelete/"
    kind = _base._internal_resourcetype("partitionKey")
    Authority().check(Request("POST", path, signed("post", path, "dbs/d/colls/c", kind)), NOW)


def test_the_payload_is_told_to_who_signed_another() -> None:
    """A wrong signature is met with what should have been signed."""
    asked = request("get", "dbs/d/colls/C/docs/a", "", "docs", key=OTHER_KEY)
    status, _, message = refused(Authority(), asked)
    assert status == 401
    assert "'get\\ndocs\\ndbs/d/colls/C/docs/a\\n" in message
    assert EMULATOR_KEY not in message


@pytest.mark.parametrize("offset", [-100_000.0, 100_000.0])
def test_dates_are_compared_with_the_lab_and_with_real_time(offset: float) -> None:
    """15 minutes either way of one of the clocks; further off is 403, as with the service."""
    late = request("get", "dbs/d", "", "dbs", date=formatdate(NOW + offset, usegmt=True))
    status, _, message = refused(Authority(), late)
    assert (status, "not valid at the current time" in message) == (403, True)
    Authority().check(late, NOW + offset)
    Authority().check(request("get", "dbs/d", "", "dbs"), NOW + 1e6)


@pytest.mark.parametrize(
    "date", ["", "yesterday", "Thu, 01 Jan 1970 00:00:00 PDT", "x" * 500, "Thu, 99 Xyz 0000 99:99:99 GMT"]
)
def test_dates_that_are_none(date: str) -> None:
    """401, whatever was signed."""
    headers = signed("get", "", "dbs/d", "dbs", date=date or "none")
    if not date:
        headers = signed("get", "", "dbs/d", "dbs", **{"x-ms-date": ""})
    headers["x-ms-date"] = date or headers["x-ms-date"]
    assert refused(Authority(), Request("GET", "/dbs/d", headers))[0] == 401


@pytest.mark.parametrize(
    "header",
    [
        "",
        "nonsense",
        "type=master",
        "type=master&ver=1.0",
        "type=master&ver=2.0&sig=a",
        "type=other&ver=1.0&sig=a",
        "type%3Dmaster%26ver%3D1.0%26sig%3D",
        "type=master&ver=1.0&sig=ü",
        "type=master&ver=1.0&sig=" + "a" * 20_000,
        "%" * 100,
        "type=aad&ver=1.0&sig=a.b.c",
        "type=resource&ver=1&sig=a",
    ],
)
def test_headers_that_let_nobody_in(header: str) -> None:
    """401 for whatever is no token."""
    headers = {"authorization": header, "x-ms-date": formatdate(usegmt=True)}
    assert refused(Authority(), Request("GET", "/dbs/d", headers))[0] == 401


def token(claims: object, head: object = "default") -> str:
    parts = [{"alg": "RS256", "typ": "JWT"} if head == "default" else head, claims]
    coded = [base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts]
    return "type=aad&ver=1.0&sig=" + ".".join([*coded, "c2ln"])


def test_entra_tokens() -> None:
    """Only where they are allowed; a token that has expired or is none is not."""

    def asked(text: str) -> Request:
        return Request("GET", "/dbs/d", {"authorization": text})

    allowing = Authority(aad=True)
    allowing.check(asked(token({"exp": NOW + 60})), NOW)
    allowing.check(asked(token({"sub": "me"})), NOW)
    assert refused(Authority(), asked(token({"exp": NOW + 60})))[:2] == (401, 5202)
    assert refused(allowing, asked(token({"exp": NOW - 60})))[:2] == (401, 5006)
    for wrong in (
        token([1]),
        token({}, 7),
        token({"exp": "never"}),
        "type=aad&ver=1.0&sig=a.b",
        token({})[:-9],
    ):
        assert refused(allowing, asked(wrong))[0] == 401


@dataclass
class Granted:
    mode: str
    resource: str
    partition_key: tuple[Any, ...] | None = None


@dataclass
class Tokens:
    """One token is known; the container `c` of `d` has resource ids, too."""

    granted: Any
    seen: list[tuple[str, float]] = field(default_factory=list)

    def grant_of(self, token: str, now: float) -> Any:
        self.seen.append((token, now))
        return self.granted

    def link_by_names(self, link: str) -> str:
        return link.replace("dbs/Sl8fAA==/colls/Sl8fALN4sw4=", "dbs/d/colls/c")


HEADER = {"authorization": "type%3Dresource%26ver%3D1%26sig%3Dabc%3D%3D%3B"}


@pytest.mark.parametrize("resource", ["dbs/d/colls/c", "/dbs/d/colls/c/", "dbs/Sl8fAA==/colls/Sl8fALN4sw4="])
@pytest.mark.parametrize(
    ("method", "path", "reads", "writes"),
    [
        ("GET", "/", True, True),
        ("GET", "/dbs/d/colls/c/docs/a/", True, True),
        ("GET", "/dbs/Sl8fAA==/colls/Sl8fALN4sw4=/docs/a/", True, True),
        ("GET", "/dbs/d/colls/c/", True, True),
        ("GET", "/dbs/d/colls/c/pkranges/", True, True),
        ("PUT", "/dbs/d/colls/c/docs/a/", False, True),
        ("DELETE", "/dbs/d/colls/c/", False, True),
        ("GET", "/dbs/d/colls/other/docs/a/", False, False),
        ("GET", "/dbs/d/colls/cc/", False, False),
        ("GET", "/dbs/d/colls/", False, False),
        ("GET", "/dbs/", False, False),
        ("POST", "/dbs/d/colls/", False, False),
    ],
)
def test_resource_tokens(method: str, path: str, reads: bool, writes: bool, resource: str) -> None:
    """A grant covers its resource and what is below, to read or to write; 403 for the rest."""
    asked = Request(method, path, HEADER)
    for mode, wanted in (("Read", reads), ("All", writes)):
        authority = Authority(tokens=Tokens(Granted(mode, resource)))
        if wanted:
            authority.check(asked, NOW)
        else:
            assert refused(authority, asked)[0] == 403


def test_a_grant_for_an_item_lets_its_container_be_read() -> None:
    """Without the definition of its key no client could ask for the item; its neighbours stay closed."""
    authority = Authority(tokens=Tokens(Granted("All", "dbs/d/colls/c/docs/a")))
    for path in ("/dbs/d/colls/c", "/dbs/d/colls/c/pkranges", "/dbs/d/colls/c/docs/a"):
        authority.check(Request("GET", path, HEADER), NOW)
    for method, path in (
        ("GET", "/dbs/d/colls/c/docs/b"),
        ("GET", "/dbs/d/colls/c/docs"),
        ("GET", "/dbs/d"),
        ("DELETE", "/dbs/d/colls/c"),
    ):
        assert refused(authority, Request(method, path, HEADER))[0] == 403


@pytest.mark.parametrize(
    ("key", "covered"), [('["a"]', True), ('["b"]', False), ('["a","b"]', False), ("[", False), (None, False)]
)
def test_a_grant_for_one_logical_partition(key: str | None, covered: bool) -> None:
    """With key values it covers requests with those alone."""
    authority = Authority(tokens=Tokens(Granted("All", "dbs/d/colls/c", ("a",))))
    header = HEADER if key is None else {**HEADER, "x-ms-documentdb-partitionkey": key}
    asked = Request("PUT", "/dbs/d/colls/c/docs/x", header)
    if covered:
        authority.check(asked, NOW)
    else:
        assert refused(authority, asked)[0] == 403


def test_resource_tokens_that_the_engine_does_not_know() -> None:
    """It is asked with the whole token, decoded, and the time; None is 401."""
    tokens = Tokens(None)
    asked = Request("PUT", "/dbs/d", {"authorization": "type%3Dresource%26ver%3D1%26sig%3Da%26b"})
    assert refused(Authority(tokens=tokens), asked)[0] == 401
    assert refused(Authority(), asked)[0] == 401
    assert tokens.seen == [("type=resource&ver=1&sig=a&b", NOW)]


@pytest.mark.parametrize("key", ["", "no Base64!", "abc"])
def test_keys_that_are_none(key: str) -> None:
    """Said before anything is started."""
    with pytest.raises(UsageError, match="key"):
        CosmosLab(engine=FakeEngine, key=key)


@pytest.mark.parametrize("quoted", ["", "=&", "=&+/", "=&+/temr"])
@pytest.mark.parametrize("lower", [False, True])
def test_a_token_may_be_quoted_in_any_way(quoted: str, lower: bool) -> None:
    """Not at all, as the SDK does it, wholly, and with digits of either case."""
    headers = signed("get", "/dbs/d", "dbs/d", "dbs")
    token = unquote(headers["authorization"])
    form = "%{:02x}" if lower else "%{:02X}"
    headers["authorization"] = "".join(form.format(ord(each)) if each in quoted else each for each in token)
    Authority().check(Request("GET", "/dbs/d", headers), NOW)
    # Quoted twice it is another one.
    headers["authorization"] = token.replace("=", "%253D")
    assert refused(Authority(), Request("GET", "/dbs/d", headers))[0] == 401


def test_by_way_of_the_server(lab: CosmosLab) -> None:
    """401 in the service's form reaches a client, and the engine hears nothing of it."""
    reply = requests.get(f"{lab.endpoint}dbs/d", timeout=PATIENCE)
    assert (reply.status_code, reply.json()["code"]) == (401, "Unauthorized")
    assert reply.headers["x-ms-activity-id"] in reply.json()["message"]
    assert lab.account.requests == []
    lab.account.tokens["type=resource&ver=1&sig=mine"] = Granted("Read", "dbs/d")
    headers = {"authorization": "type%3Dresource%26ver%3D1%26sig%3Dmine"}
    assert requests.get(f"{lab.endpoint}dbs/d", headers=headers, timeout=PATIENCE).status_code == 200
