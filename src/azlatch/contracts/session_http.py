"""Sessions in HTTP: a header for services, a cookie for browsers, and middleware for ASGI and WSGI servers.

The middleware puts a `SessionContext` where the application finds it, and writes what it has seen onto the
response. A request with a session that is not taken is refused with status 400 and the error's code, before the
application is called, and a cookie that was the cause is removed: the next request begins a new session.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Literal

from azlatch.contracts.session_context import SessionContext
from azlatch.contracts.session_edge import SessionEdge
from azlatch.contracts.session_envelope import Sealed
from azlatch.contracts.session_errors import SessionError, SessionOversized, SessionRefused
from azlatch.errors import UsageError

HEADER = "azlatch-session"
LEFT_OUT_HEADER = "azlatch-session-left-out"
#: Browsers take a cookie of this name only if it is Secure, of this host, and for all of its paths.
COOKIE = "__Host-azlatch-session"
#: Where the application finds its context: in the ASGI scope, and in the WSGI environment.
KEY = "azlatch.session"

SameSite = Literal["Lax", "Strict", "None"]
OnRefused = Literal["refuse", "begin"]
_STATUS = "400 Bad Request"


class SessionHttp:
    """How sessions are carried by the requests and responses of one service.

    Args:
        edge: account, keys and limits.
        cookie: the cookie's name, or None for the header alone.
        same_site: of the cookie, which is always HttpOnly and Secure.
        on_refused: "refuse" answers 400; "begin" begins a new session, and `SessionContext.refused` says why:
            the guarantee is gone for this request, and the application has to look.

    Raises:
        UsageError: an argument makes no sense.
    """

    def __init__(
        self,
        edge: SessionEdge,
        *,
        cookie: str | None = COOKIE,
        same_site: SameSite = "Lax",
        on_refused: OnRefused = "refuse",
    ) -> None:
        if same_site not in ("Lax", "Strict", "None"):
            raise UsageError(f"same_site is {same_site!r}: use Lax, Strict or None")
        if on_refused not in ("refuse", "begin"):
            raise UsageError(f"on_refused is {on_refused!r}: use refuse or begin")
        if cookie is not None:
            _check_cookie(cookie)
            # Browsers drop larger ones without a word: 4,096 bytes of name, value and attributes.
            if edge.most_bytes + len(cookie) > 4_000:
                raise UsageError(
                    f"most_bytes is {edge.most_bytes}: a cookie has room for {4_000 - len(cookie)}"
                )
        self.edge = edge
        self.cookie = cookie
        self._attributes = f"; Path=/; HttpOnly; Secure; SameSite={same_site}"
        self._begins = on_refused == "begin"

    def begin(self, header: str | None, cookies: str | None) -> SessionContext:
        """The session of a request, by its two headers; what the header `azlatch-session` says comes first.

        Raises:
            SessionRefused: it is not taken, and the service refuses such requests.
        """
        try:
            return self.edge.begin(header or self._of_cookie(cookies))
        except SessionRefused as refused:
            if not self._begins:
                raise
            context = self.edge.begin()
            context.refused = refused
            return context

    def headers(self, context: SessionContext) -> list[tuple[str, str]]:
        """What a response carries of a session: nothing, if it has seen nothing."""
        sealed = self._seal(context)
        if sealed is None:
            return [] if context.refused is None else self.removal()
        found = [(HEADER, sealed.text), ("cache-control", "private")]
        if sealed.left_out:
            found.append((LEFT_OUT_HEADER, str(sealed.left_out)))
        if self.cookie is not None:
            age = f"; Max-Age={int(self.edge.max_age_s)}"
            found.append(("set-cookie", f"{self.cookie}={sealed.text}{age}{self._attributes}"))
        return found

    def removal(self) -> list[tuple[str, str]]:
        """What removes the cookie."""
        if self.cookie is None:
            return []
        return [("set-cookie", f"{self.cookie}=; Max-Age=0{self._attributes}")]

    def refusal(self, refused: SessionRefused) -> tuple[list[tuple[str, str]], bytes]:
        """Headers and body of the answer to a request whose session is not taken."""
        body = json.dumps({"error": refused.code, "who": refused.who, "message": str(refused)}).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
        return [*headers, ("cache-control", "no-store"), *self.removal()], body

    def _seal(self, context: SessionContext) -> Sealed | None:
        known = context.tokens.copy()
        if not any(each.ranges or each.left_out or each.lost for each in known.values()):
            return None
        return self.edge.seal(context)

    def _of_cookie(self, cookies: str | None) -> str | None:
        if not cookies or self.cookie is None:
            return None
        if len(cookies) > 64 * 1024:
            raise SessionOversized("the cookies have more than 64 KB")
        for each in cookies.split(";"):
            name, _, value = each.strip().partition("=")
            if name == self.cookie:
                return value.strip('"')
        return None


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]


class AsgiSessions:
    """Middleware: `scope["azlatch.session"]` is the request's context.

    The response's headers are written when the application starts its response: what it reads or writes after
    that is not in them.
    """

    def __init__(self, app: AsgiApp, http: SessionHttp) -> None:
        self._app = app
        self._http = http

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            context = self._http.begin(_one(scope, b"azlatch-session"), _one(scope, b"cookie", b"; "))
        except SessionRefused as refused:
            await self._refuse(scope, send, refused)
            return
        scope[KEY] = context

        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] in ("http.response.start", "websocket.accept"):
                more = [(k.encode(), v.encode()) for k, v in self._http.headers(context)]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        await self._app(scope, receive, sending)

    async def _refuse(self, scope: Scope, send: Send, refused: SessionRefused) -> None:
        if scope["type"] == "websocket":
            # Before it is accepted, this is answered as 403.
            await send({"type": "websocket.close", "code": 1008, "reason": refused.code})
            return
        headers, body = self._http.refusal(refused)
        encoded = [(k.encode(), v.encode()) for k, v in headers]
        await send({"type": "http.response.start", "status": 400, "headers": encoded})
        await send({"type": "http.response.body", "body": body})


class WsgiSessions:
    """Middleware: `environ["azlatch.session"]` is the request's context; otherwise as `AsgiSessions`."""

    def __init__(self, app: Callable[..., Iterable[bytes]], http: SessionHttp) -> None:
        self._app = app
        self._http = http

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            context = self._http.begin(environ.get("HTTP_AZLATCH_SESSION"), environ.get("HTTP_COOKIE"))
        except SessionRefused as refused:
            headers, body = self._http.refusal(refused)
            start_response(_STATUS, headers)
            return [body]
        environ[KEY] = context

        def starting(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            return start_response(status, [*headers, *self._http.headers(context)], *rest)

        return self._app(environ, starting)


def current(request: Mapping[str, Any]) -> SessionContext:
    """The context that the middleware put into an ASGI scope or a WSGI environment.

    Raises:
        SessionError: there is none: the middleware is not in front of the application.
    """
    found = request.get(KEY)
    if not isinstance(found, SessionContext):
        raise SessionError("there is no session: put AsgiSessions or WsgiSessions in front of the application")
    return found


def _one(scope: Scope, name: bytes, glue: bytes | None = None) -> str | None:
    """A header's value; of several, joined where that is allowed, else all of them, which no envelope is."""
    values = [value for key, value in scope.get("headers", ()) if key.lower() == name]
    return (glue or b",").join(values).decode("latin-1") if values else None


def _check_cookie(name: str) -> None:
    if (
        not name
        or not name.isascii()
        or any(each in name for each in '()<>@,;:\\"/[]?={} \t')
        or not name.isprintable()
    ):
        raise UsageError(f"cookie {name!r}: this is not the name of a cookie")
