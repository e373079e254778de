"""Who may see the page, and who may change something with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from cosmos_clients import PATIENCE, Raw

from azlatch.errors import UsageError
from azlatch.lab.cosmos import CosmosLab
from azlatch.lab.cosmos.page import LabPage, asgi
from azlatch.lab.cosmos.wire import Request

PAGES = [
    "",
    "container?path=shop/orders",
    "items?path=shop/orders",
    "faults",
    "requests",
    "item?path=a/b&number=1",
]


@pytest.fixture
def lab() -> Iterator[CosmosLab]:
    """A lab that has a rule, to see whether it is told."""
    with CosmosLab() as running:
        running.add_rule("status=503 name=the-secret-of-the-test")
        yield running


@pytest.fixture
def page(lab: CosmosLab) -> Iterator[LabPage]:
    with LabPage(lab) as running:
        yield running


@pytest.fixture
def browser(page: LabPage) -> Iterator[requests.Session]:
    """A client that opened the address that is printed, and has the cookie."""
    with requests.Session() as session:
        assert session.get(page.url, timeout=PATIENCE).status_code == 200
        yield session


def token(browser: requests.Session, page: LabPage) -> str:
    """The token of the forms."""
    text = browser.get(f"{page.address}faults", timeout=PATIENCE).text
    (found,) = set(re.findall(r'name="token" value="([0-9a-f]{64})"', text))
    return found


def origin(page: LabPage) -> str:
    return page.address.rstrip("/")


def rules(lab: CosmosLab) -> list[str]:
    return [each["rule"] for each in lab.call(lambda: lab.account.admin.rules())]


def test_the_address_gives_a_cookie_and_leads_on_without_the_key(page: LabPage, lab: CosmosLab) -> None:
    """The cookie is for HTTP alone, for this site alone, named after the port, and none of the keys."""
    reply = requests.get(page.url, timeout=PATIENCE, allow_redirects=False)
    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    cookie = reply.headers["set-cookie"]
    key = urlsplit(page.url).query.removeprefix("key=")
    assert cookie.startswith(f"azlatch-lab-{urlsplit(page.url).port}=")
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
    assert not {key, lab.admin_key, lab.key} & set(re.split(r"[=;]", cookie))
    assert len(key) >= 32
    assert key != lab.admin_key
    with LabPage(lab) as other:
        assert other.url.partition("key=")[2] != key


@pytest.mark.parametrize("what", [*PAGES, "enter", "enter?key=", "enter?key=wrong", "faults/add", "nothing"])
def test_without_the_cookie_nothing_is_told(page: LabPage, what: str) -> None:
    """401, with a cookie of somebody else, too; what says so knows nothing of the lab."""
    cookie = f"azlatch-lab-{urlsplit(page.address).port}=" + "0" * 64
    for method in ("GET", "POST", "DELETE"):
        for headers in ({}, {"cookie": cookie}):
            reply = requests.request(method, page.address + what, headers=headers, timeout=PATIENCE)
            assert reply.status_code == 401
            assert "the-secret-of-the-test" not in reply.text
            assert "set-cookie" not in reply.headers


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("127.0.0.9:{port}", 401),  # another name, so another cookie jar: the page asks for the key
        ("localhost:{port}", 401),
        ("[::1]:{port}", 401),
        ("lab.example:{port}", 403),
        ("127.0.0.1.lab.example:{port}", 403),
        ("localhost.lab.example", 403),
        ("192.168.0.1:{port}", 403),
        ("", 403),
    ],
)
def test_names_of_others_are_refused(
    page: LabPage, browser: requests.Session, raw: Any, host: str, status: int
) -> None:
    """A name that DNS led to the loopback interface is refused, with the cookie, for static files, too."""
    port = urlsplit(page.address).port
    cookie = "; ".join(f"{each.name}={each.value}" for each in browser.cookies)
    for path in ("/faults", "/static/page.css"):
        client: Raw = raw(port)
        mine = cookie if "127.0.0.1:" in host else ""
        client.send(f"GET {path} HTTP/1.1\r\nhost: {host.format(port=port)}\r\ncookie: {mine}\r\n\r\n".encode())
        seen, _, body = client.reply()
        assert seen == (200 if status == 401 and path.startswith("/static") else status)
        assert (b"the-secret-of-the-test" in body) == (status == 200 and path == "/faults")


def test_a_form_of_the_page_works(page: LabPage, lab: CosmosLab, browser: requests.Session) -> None:
    """A rule is added and removed, and the browser is led to the rules."""
    given = {"token": token(browser, page), "rule": "reset op=read"}
    headers = {"origin": origin(page)}
    reply = browser.post(
        f"{page.address}faults/add", data=given, headers=headers, timeout=PATIENCE, allow_redirects=False
    )
    assert (reply.status_code, reply.headers["location"]) == (303, "/faults")
    assert rules(lab)[1:] == ["reset op=read"]
    given = {"token": given["token"], "id": "1"}
    browser.post(f"{page.address}faults/remove", data=given, headers=headers, timeout=PATIENCE)
    assert rules(lab) == ["reset op=read"]
    given = {"token": given["token"], "all": "1"}
    browser.post(f"{page.address}faults/remove", data=given, headers=headers, timeout=PATIENCE)
    assert rules(lab) == []


@pytest.mark.parametrize(
    ("headers", "given"),
    [
        ({}, {}),
        ({"origin": "http://lab.example"}, {}),
        ({"origin": "null"}, {}),
        ({"origin": "http://127.0.0.1:1"}, {}),
        ({"origin": "https://{host}"}, {}),
        ({"origin": "http://{host}"}, {"token": ""}),
        ({"origin": "http://{host}"}, {"token": "0" * 64}),
        ({"origin": "http://{host}"}, {"token": None}),
    ],
)
@pytest.mark.parametrize("act", ["add", "remove"])
def test_what_comes_from_elsewhere_changes_nothing(
    page: LabPage,
    lab: CosmosLab,
    browser: requests.Session,
    act: str,
    headers: dict[str, str],
    given: dict[str, Any],
) -> None:
    """With the cookie, which browsers send along: another origin, another port, none, or no token."""
    host = origin(page).removeprefix("http://")
    fields = {"token": token(browser, page), "rule": "reset", "id": "1", "all": "1", **given}
    named = {name: value.format(host=host) for name, value in headers.items()}
    reply = browser.post(f"{page.address}faults/{act}", data=fields, headers=named, timeout=PATIENCE)
    assert reply.status_code == 403
    assert rules(lab) == ["status=503 name=the-secret-of-the-test"]


def test_looking_changes_nothing(page: LabPage, lab: CosmosLab, browser: requests.Session) -> None:
    """What changes something wants a POST."""
    for act in ("add?rule=reset", "remove?id=1", "remove?all=1"):
        assert browser.get(f"{page.address}faults/{act}", timeout=PATIENCE).status_code == 405
    assert len(rules(lab)) == 1


def test_every_answer_has_its_headers(page: LabPage, browser: requests.Session) -> None:
    """Pages, files, refusals, redirects and failures: no script but ours, in no frame, kept nowhere."""
    asked = [
        *PAGES,
        "static/page.js",
        "static/nothing",
        "nothing",
        "enter?key=wrong",
        "items?path=shop/orders&after=x",
    ]
    replies = [browser.get(page.address + each, timeout=PATIENCE) for each in asked]
    replies.append(requests.get(page.address, timeout=PATIENCE))
    replies.append(browser.post(f"{page.address}faults/add", timeout=PATIENCE))
    replies.append(requests.get(page.url, timeout=PATIENCE, allow_redirects=False))
    replies.append(requests.get(page.address, headers={"host": "lab.example"}, timeout=PATIENCE))
    assert {each.status_code for each in replies} == {200, 303, 401, 403, 404}
    for reply in replies:
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert not re.search(r"unsafe|\*|https?:|data:", policy)
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cache-control"] == "no-store"
        # With "no-referrer" browsers would not say where a form comes from.
        assert reply.headers["referrer-policy"] == "same-origin"
        if "text/html" in reply.headers.get("content-type", ""):
            assert not re.search(r"<style|<script(?! src=\"/static/page.js\")|\son\w+=|\sstyle=", reply.text)


def test_a_failure_is_told_without_its_trace(
    page: LabPage, browser: requests.Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """500 and a page that says so; the trace is in the log, and the next request is answered."""
    from azlatch.lab.cosmos.page import looking

    def fails(_: Any) -> Any:
        raise RuntimeError("the reason that nobody is to see")

    with monkeypatch.context() as broken:
        broken.setattr(looking, "regions", fails)
        reply = browser.get(page.address, timeout=PATIENCE)
    assert reply.status_code == 500
    assert "content-security-policy" in reply.headers
    assert "nobody is to see" not in reply.text
    assert "Traceback" not in reply.text
    assert "nobody is to see" in caplog.text
    assert browser.get(page.address, timeout=PATIENCE).status_code == 200


def test_when_the_lab_has_ended(lab: CosmosLab, page: LabPage, browser: requests.Session) -> None:
    """503 and a word about it, for as long as the page is there."""
    lab.stop()
    for what in PAGES:
        reply = browser.get(page.address + what, timeout=PATIENCE)
        assert (reply.status_code, "does not run" in reply.text or "has ended" in reply.text) == (503, True)


def test_its_life() -> None:
    """It starts once, says what is wrong with a port, stops twice, and has no address before it starts."""
    lab = CosmosLab()
    with pytest.raises(UsageError, match="0: give it 1 to 65,535"):
        LabPage(lab, port=0)
    page = LabPage(lab)
    assert page.is_alive is False
    page.stop()
    for name in ("address", "url"):
        with pytest.raises(UsageError, match="start it first"):
            getattr(page, name)
    with page:
        assert page.is_alive is True
        with pytest.raises(UsageError, match="make another"):
            page.start()
        port = urlsplit(page.address).port
        with pytest.raises(UsageError, match=f"port {port} is in use"):
            LabPage(lab, port=port).start()
        # The lab has not been started.
        assert requests.get(page.url, timeout=PATIENCE).status_code == 503
    page.stop()
    assert page.is_alive is False


def test_an_application_that_waits_is_told_apart() -> None:
    """What is served is run in one go: something that would have to wait is an error, not a hang."""

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        class Never:
            def __await__(self) -> Any:
                yield

        await Never()

    async def silent(scope: Any, receive: Any, send: Any) -> None:
        assert await receive() == {"type": "http.request", "body": b"x", "more_body": False}

    request = Request("POST", "/here", {"x-azlatch-query": "a=1"}, b"x")
    with pytest.raises(RuntimeError, match="waits for something, POST '/here'"):
        asgi.answer(waits, request)
    with pytest.raises(RuntimeError, match="answers nothing"):
        asgi.answer(silent, request)
