"""Who may see the page, and from where it may be used: around the application, before anything else of it.

=================== ==================================================================================
a Host header       of the loopback interface, or 403: a name that was led here by DNS is none
`/enter?key=`       gives the cookie, and leads on to an address without the key
the cookie          or 401. It is `HttpOnly` and `SameSite=Strict`, and named after the port, since
                    browsers do not tell the ports of a host apart
POST                from a page of this very origin, and with the token that its forms have, or 403:
                    other ports of the same machine are other origins, and the same "site"
=================== ==================================================================================

`Referrer-Policy` is `same-origin`, not `no-referrer`: with that, browsers say "null" for the origin of a form.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from azlatch.lab.cosmos.admin import is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from azlatch.lab.cosmos.page.render import Pages

log = logging.getLogger("azlatch.lab.cosmos")
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
#: What everybody may have: it says nothing of the lab, and a page that refuses is to be read as well.
_OPEN = "/static/"
TOKEN = "token"  # noqa: S105  the name of a field


class Guard:
    """An ASGI application that lets through to another one what may go there.

    Of a POST, that one finds the form's fields in `request.state.fields`.
    """

    def __init__(self, inside: ASGIApp, key: str, pages: Pages) -> None:
        self._inside = inside
        self._key = key
        self._pages = pages
        self._session = _derived(key, "session")
        self._token = token_of(key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                more = ((name.encode(), value.encode()) for name, value in HEADERS.items())
                message["headers"] = [*message["headers"], *(each for each in more if each[0] not in given)]
            await send(message)

        refusal = await self._refusal(request)
        try:
            await (refusal or self._inside)(scope, receive, send_with_headers)
        except Exception:
            # It is answered by then, with 500.
            log.exception("%s %.200r failed", request.method, scope["path"])

    async def _refusal(self, request: Request) -> Response | None:
        """What is answered instead; None if it may go on."""
        host = request.headers.get("host", "")
        if not is_loopback(host):
            return self._pages.problem(403, "This page answers only to the loopback interface's own names.")
        path = request.scope["path"]
        if path.startswith(_OPEN):
            return None
        if path == "/enter":
            return self._enter(request, host)
        if not _equal(request.cookies.get(_cookie(host), ""), self._session):
            return self._pages.problem(401, "Open the address that the lab printed: it has the key in it.")
        if request.method not in ("GET", "HEAD") and not await self._is_ours(request, host):
            return self._pages.problem(403, "This was not sent from a page of the lab: go back, and reload it.")
        return None

    def _enter(self, request: Request, host: str) -> Response:
        if request.method != "GET" or not _equal(request.query_params.get("key", ""), self._key):
            return self._pages.problem(
                401, "The key is missing or wrong: open the address that the lab printed."
            )
        response = RedirectResponse("/", 303)
        response.set_cookie(_cookie(host), self._session, httponly=True, samesite="strict")
        return response

    async def _is_ours(self, request: Request, host: str) -> bool:
        """Whether a browser says that it comes from here, and it has the token of our forms."""
        if request.headers.get("origin") != f"http://{host}":
            return False
        request.state.fields = fields = _fields(await request.body())
        return _equal(fields.get(TOKEN, ""), self._token)


def token_of(key: str) -> str:
    """The token that every form carries."""
    return _derived(key, "form")


def _derived(key: str, what: str) -> str:
    return hmac.new(key.encode(), what.encode(), hashlib.sha256).hexdigest()


def _fields(body: bytes) -> dict[str, str]:
    """The fields of a form; none where they are too many."""
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), max_num_fields=64))
    except ValueError:
        return {}


def _cookie(host: str) -> str:
    port = host.rpartition(":")[2]
    return f"azlatch-lab-{port if port.isdecimal() else 80}"


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
