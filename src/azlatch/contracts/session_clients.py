"""Sessions in the requests that a service makes: hooks for httpx, an adapter for requests.

Neither library is loaded here. A session is sent to nobody but the hosts that are named: it tells what is in
the account, and a stranger's answer must not be able to say what this service has seen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from azlatch.contracts.session_context import SessionContext
from azlatch.contracts.session_edge import SessionEdge
from azlatch.contracts.session_http import HEADER
from azlatch.errors import UsageError


class _Carrier:
    def __init__(self, context: SessionContext, edge: SessionEdge, hosts: Collection[str]) -> None:
        if isinstance(hosts, str) or not hosts:
            raise UsageError("hosts: name those that the session is for, for example {'orders.internal'}")
        self._context = context
        self._edge = edge
        self._hosts = frozenset(each.lower() for each in hosts)

    def knows(self, host: str | None) -> bool:
        return (host or "").lower() in self._hosts

    def text(self) -> str | None:
        return self._edge.seal(self._context).text if len(self._context.tokens) else None

    def take(self, text: str | None) -> None:
        if text:
            self._edge.absorb(self._context, text)


def httpx_hooks(
    context: SessionContext, edge: SessionEdge, *, hosts: Collection[str]
) -> dict[str, list[Callable[[Any], None]]]:
    """`httpx.Client(event_hooks=...)`: requests to `hosts` carry the session, and it learns from their answers.

    Raises, from the request: SessionRefused, the answer's session is not taken.
    """
    carrier = _Carrier(context, edge, hosts)

    def request(request: Any) -> None:
        _put(carrier, request)

    def response(response: Any) -> None:
        if carrier.knows(response.request.url.host):
            carrier.take(response.headers.get(HEADER))

    return {"request": [request], "response": [response]}


def httpx_async_hooks(
    context: SessionContext, edge: SessionEdge, *, hosts: Collection[str]
) -> dict[str, list[Callable[[Any], Awaitable[None]]]]:
    """`httpx.AsyncClient(event_hooks=...)`: as `httpx_hooks`."""
    hooks = httpx_hooks(context, edge, hosts=hosts)

    async def request(request: Any) -> None:
        hooks["request"][0](request)

    async def response(response: Any) -> None:
        hooks["response"][0](response)

    return {"request": [request], "response": [response]}


def attach_requests(
    session: Any, context: SessionContext, edge: SessionEdge, *, hosts: Collection[str]
) -> None:
    """From now on a `requests.Session` carries the session to `hosts`, and learns from their answers.

    Raises, from the request: SessionRefused, the answer's session is not taken.
    """
    carrier = _Carrier(context, edge, hosts)
    for scheme in ("https://", "http://"):
        session.mount(scheme, _Adapter(session.get_adapter(scheme), carrier))


class _Adapter:
    """What `requests` sends through; around the one that was there before."""

    def __init__(self, inner: Any, carrier: _Carrier) -> None:
        self._inner = inner
        self._carrier = carrier

    def send(self, request: Any, *args: Any, **options: Any) -> Any:
        from urllib.parse import urlsplit

        known = self._carrier.knows(urlsplit(request.url).hostname)
        # A redirect copies the headers of the request before it, to whomever it leads.
        request.headers.pop(HEADER, None)
        text = self._carrier.text() if known else None
        if text is not None:
            request.headers[HEADER] = text
        response = self._inner.send(request, *args, **options)
        if known:
            self._carrier.take(response.headers.get(HEADER))
        return response

    def close(self) -> None:
        self._inner.close()


def _put(carrier: _Carrier, request: Any) -> None:
    # httpx copies the headers of a redirected request as well.
    if HEADER in request.headers:
        del request.headers[HEADER]
    text = carrier.text() if carrier.knows(request.url.host) else None
    if text is not None:
        request.headers[HEADER] = text
