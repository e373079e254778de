"""Sessions in HTTP headers, cookies and messages, and what carries them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
import requests

from azlatch import contracts
from azlatch.contracts.session_http import COOKIE, HEADER, KEY, LEFT_OUT_HEADER, current
from azlatch.contracts.session_message import PROPERTY
from azlatch.errors import UsageError

LINK = "dbs/shop/colls/orders"
NOW = 1_000_000.0


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


def edge(clock: Callable[[], float] = lambda: NOW, **options: Any) -> contracts.SessionEdge:
    key = contracts.SessionKey("k1", b"k" * 32)
    return contracts.SessionEdge([key], **{"account": "contoso", "clock": clock, **options})


def seen(count: int = 1) -> contracts.SessionContext:
    context = contracts.SessionContext("contoso")
    for number in range(count):
        context.tokens.learn(LINK, f"{number}:1#5#1=5", None)
    return context


def wsgi_app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answers with what its session needs, and sees something more of its path's range."""
    tokens = current(environ).tokens
    said = tokens.needed(LINK, None)
    tokens.learn(LINK, f"{environ['PATH_INFO'].strip('/')}:1#9#1=9", None)
    start_response("200 OK", [("content-type", "text/plain")])
    return [said.encode()]


def call_wsgi(http: contracts.SessionHttp, **environ: str) -> tuple[str, dict[str, str], bytes]:
    answered: list[Any] = []
    app = contracts.WsgiSessions(wsgi_app, http)
    body = b"".join(app({"PATH_INFO": "/7", **environ}, lambda *rest: answered.append(rest)))
    status, headers = answered[0][:2]
    return status, {name.lower(): value for name, value in headers}, body


async def call_asgi(
    http: contracts.SessionHttp, *headers: tuple[bytes, bytes], kind: str = "http"
) -> list[dict[str, Any]]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        tokens = current(scope).tokens
        said = tokens.needed(LINK, None)
        tokens.learn(LINK, "7:1#9#1=9", None)
        if kind == "websocket":
            await send({"type": "websocket.accept", "headers": []})
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": said.encode()})

    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(dict(message))

    async def receive() -> Any:
        raise AssertionError("nothing is read of the request")

    await contracts.AsgiSessions(app, http)({"type": kind, "headers": headers}, receive, send)
    return sent


def test_wsgi_hands_a_session_from_response_to_request() -> None:
    http = contracts.SessionHttp(edge())
    status, headers, body = call_wsgi(http)
    assert (status, body) == ("200 OK", b"")
    for environ in (
        {"HTTP_AZLATCH_SESSION": headers[HEADER]},
        {"HTTP_COOKIE": f"a=b; {COOKIE}={headers[HEADER]}"},
    ):
        assert call_wsgi(http, **environ)[2] == b"7:1#9#1=9"


def test_the_cookie_has_all_its_attributes() -> None:
    _, headers, _ = call_wsgi(contracts.SessionHttp(edge(max_age_s=600), same_site="Strict"))
    value, *attributes = headers["set-cookie"].split("; ")
    assert value == f"{COOKIE}={headers[HEADER]}"
    assert attributes == ["Max-Age=600", "Path=/", "HttpOnly", "Secure", "SameSite=Strict"]
    assert headers["cache-control"] == "private"
    assert len(headers["set-cookie"]) <= 4_096


def test_a_service_without_cookies() -> None:
    http = contracts.SessionHttp(edge(), cookie=None)
    _, headers, _ = call_wsgi(http)
    assert "set-cookie" not in headers
    assert call_wsgi(http, HTTP_COOKIE=f"{COOKIE}={headers[HEADER]}")[2] == b""


def test_asgi_does_the_same() -> None:
    http = contracts.SessionHttp(edge())
    start, body = asyncio.run(call_asgi(http))
    headers = dict(start["headers"])
    assert (headers[b"a"], body["body"]) == (b"b", b"")
    envelope = headers[b"azlatch-session"]
    assert asyncio.run(call_asgi(http, (b"azlatch-session", envelope)))[1]["body"] == b"7:1#9#1=9"
    cookies = ((b"cookie", b"a=b"), (b"cookie", COOKIE.encode() + b"=" + envelope))
    assert asyncio.run(call_asgi(http, *cookies))[1]["body"] == b"7:1#9#1=9"
    (accept,) = asyncio.run(call_asgi(http, kind="websocket"))
    assert b"azlatch-session" in dict(accept["headers"])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("nonsense", "session-damaged"),
        ("v1.k9." + "A" * 20 + "." + "B" * 43, "session-key-unknown"),
        ("x" * 5_000, "session-oversized"),
    ],
)
def test_a_session_that_is_not_taken_is_refused_before_the_application(text: str, code: str) -> None:
    """400, the error's code, and the cookie is removed, in WSGI and ASGI."""
    http = contracts.SessionHttp(edge())
    status, headers, body = call_wsgi(http, HTTP_AZLATCH_SESSION=text)
    assert status.startswith("400")
    assert code.encode() in body
    assert text.encode() not in body
    assert headers["set-cookie"].startswith(f"{COOKIE}=; Max-Age=0; Path=/; HttpOnly; Secure")
    start, answer = asyncio.run(call_asgi(http, (b"azlatch-session", text.encode())))
    assert (start["status"], answer["body"]) == (400, body)
    (closed,) = asyncio.run(call_asgi(http, (b"azlatch-session", text.encode()), kind="websocket"))
    assert (closed["type"], closed["reason"]) == ("websocket.close", code)


def test_two_headers_are_no_envelope() -> None:
    envelope = edge().seal(seen()).text.encode()
    twice = ((b"azlatch-session", envelope), (b"azlatch-session", envelope))
    start, _ = asyncio.run(call_asgi(contracts.SessionHttp(edge()), *twice))
    assert start["status"] == 400


def test_a_service_may_begin_anew_and_is_told() -> None:
    """on_refused="begin": never silently, the context says why."""
    http = contracts.SessionHttp(edge(), on_refused="begin")
    context = http.begin("nonsense", None)
    assert isinstance(context.refused, contracts.SessionDamaged)
    assert len(context.tokens) == 0
    assert http.headers(context) == http.removal()


def test_expiry_is_that_of_the_edge() -> None:
    clock = Clock()
    here = edge(clock, max_age_s=60)
    text = here.seal(seen()).text
    clock.now += 60
    assert len(here.begin(text).tokens) == 1
    clock.now += 1
    with pytest.raises(contracts.SessionExpired):
        here.begin(text)


def test_foreign_accounts_and_containers_are_refused() -> None:
    text = edge().seal(seen()).text
    with pytest.raises(contracts.SessionForeign):
        edge(account="fabrikam").begin(text)
    with pytest.raises(contracts.SessionForeign):
        edge(containers=["dbs/shop/colls/others"]).begin(text)
    with pytest.raises(contracts.SessionForeign):
        edge(account="fabrikam").seal(seen())


def test_what_has_no_room_is_said() -> None:
    """In a header and in the envelope: the next instance refuses reads that may need what is missing."""
    http = contracts.SessionHttp(edge())
    context = seen(2_000)
    headers = dict(http.headers(context))
    assert int(headers[LEFT_OUT_HEADER]) > 1_000
    after = http.begin(headers[HEADER], None)
    assert after.left_out == int(headers[LEFT_OUT_HEADER])
    with pytest.raises(contracts.SessionIncomplete):
        after.tokens.needed(LINK, None)


@pytest.mark.parametrize(
    "bad",
    [{"same_site": "lax"}, {"on_refused": "ignore"}, {"cookie": "a b"}, {"cookie": "a=b"}, {"cookie": ""}],
)
def test_settings_that_make_no_sense(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        contracts.SessionHttp(edge(), **bad)
    with pytest.raises(UsageError, match="a cookie has room"):
        contracts.SessionHttp(edge(most_bytes=8_000))
    assert contracts.SessionHttp(edge(most_bytes=8_000), cookie=None)


def test_a_missing_middleware_is_said() -> None:
    with pytest.raises(contracts.SessionError, match="in front of the application"):
        current({KEY: None})


# -- what a service sends --------------------------------------------------------------------------------------


class Quiet(WSGIRequestHandler):
    def log_message(self, *rest: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    """The small application on a socket."""
    app: Any = contracts.WsgiSessions(wsgi_app, contracts.SessionHttp(edge()))
    running = make_server("127.0.0.1", 0, app, handler_class=Quiet)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    thread.join(20)
    running.server_close()


def test_requests_carries_a_session_to_the_hosts_that_are_named(server: str) -> None:
    """With the real library, over a socket."""
    context = contracts.SessionContext("contoso")
    with requests.Session() as client:
        contracts.attach_requests(client, context, edge(), hosts={"127.0.0.1"})
        assert client.get(f"{server}/3", timeout=20).text == ""
        assert client.get(f"{server}/4", timeout=20).text == "3:1#9#1=9"
        assert context.tokens.needed(LINK, None) == "3:1#9#1=9,4:1#9#1=9"
        localhost = server.replace("127.0.0.1", "localhost")
        assert client.get(f"{localhost}/5", timeout=20, headers={HEADER: "mine"}).text == ""
    assert "5:" not in context.tokens.needed(LINK, None)


def test_requests_refuses_an_answer_with_a_damaged_session(server: str) -> None:
    other = contracts.SessionEdge([contracts.SessionKey("k1", b"z" * 32)], account="contoso")
    with requests.Session() as client:
        contracts.attach_requests(client, contracts.SessionContext("contoso"), other, hosts=["127.0.0.1"])
        with pytest.raises(contracts.SessionDamaged):
            client.get(f"{server}/3", timeout=20)


def test_httpx_hooks_carry_a_session_to_the_hosts_that_are_named() -> None:
    """By the attributes that httpx documents for event hooks; the next test takes the library where it is."""
    here, there = seen(), contracts.SessionContext("contoso")
    hooks = contracts.httpx_hooks(there, edge(), hosts={"Orders.internal"})
    ours = SimpleNamespace(url=SimpleNamespace(host="orders.internal"), headers={})
    hooks["request"][0](ours)
    assert ours.headers == {}
    answer = SimpleNamespace(request=ours, headers={HEADER: edge().seal(here).text})
    hooks["response"][0](answer)
    assert there.tokens.needed(LINK, None) == "0:1#5#1=5"
    asyncio.run(contracts.httpx_async_hooks(there, edge(), hosts={"orders.internal"})["request"][0](ours))
    assert len(edge().begin(ours.headers[HEADER]).tokens) == 1
    strange = SimpleNamespace(
        url=SimpleNamespace(host="evil.example"), headers={HEADER: "copied by a redirect"}
    )
    hooks["request"][0](strange)
    assert strange.headers == {}
    hooks["response"][0](SimpleNamespace(request=strange, headers={HEADER: "nonsense"}))


def test_httpx_itself() -> None:
    httpx = pytest.importorskip("httpx", reason="httpx is not installed")
    context = seen()

    def answer(request: Any) -> Any:
        text = request.headers.get(HEADER)
        return httpx.Response(200, headers={HEADER: edge().seal(seen(2)).text}, text="yes" if text else "no")

    hooks = contracts.httpx_hooks(context, edge(), hosts={"orders.internal"})
    with httpx.Client(event_hooks=hooks, transport=httpx.MockTransport(answer)) as client:
        assert client.get("http://orders.internal/").text == "yes"
        assert client.get("http://evil.example/").text == "no"
    assert len(context.tokens) == 2


@pytest.mark.parametrize("hosts", [(), "orders.internal"])
def test_hosts_have_to_be_named(hosts: Any) -> None:
    with pytest.raises(UsageError, match="hosts"):
        contracts.httpx_hooks(seen(), edge(), hosts=hosts)


# -- messages --------------------------------------------------------------------------------------------------


def test_a_message_carries_a_session() -> None:
    """The receiver's SDK hands names and texts over as bytes."""
    message = SimpleNamespace(application_properties=None)
    assert contracts.put_session(message, seen(), edge()) == 0
    received = {key.encode(): value.encode() for key, value in message.application_properties.items()}
    for properties in (message.application_properties, received):
        found = contracts.take_session(SimpleNamespace(application_properties=properties), edge())
        assert found.tokens.needed(LINK, None) == "0:1#5#1=5"


def test_a_message_without_a_session_begins_one() -> None:
    message = SimpleNamespace(application_properties={b"other": 1})
    assert len(contracts.take_session(message, edge()).tokens) == 0
    contracts.put_session(message, contracts.SessionContext(), edge())
    assert message.application_properties == {b"other": 1}


def test_a_message_that_is_not_taken() -> None:
    for value in (5, "nonsense", b"\xff\xfe"):
        with pytest.raises(contracts.SessionDamaged):
            contracts.take_session(SimpleNamespace(application_properties={PROPERTY: value}), edge())


def test_a_message_says_what_had_no_room() -> None:
    message = SimpleNamespace(application_properties={"kept": True})
    left_out = contracts.put_session(message, seen(2_000), edge())
    assert contracts.take_session(message, edge()).left_out == left_out > 0
    assert message.application_properties["kept"] is True
