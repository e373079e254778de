"""An ASGI application answers a request of the lab's own server, which has bounds for everything a client does.

The application is run to its end in one go: it has its whole request, and nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any
from urllib.parse import unquote

from azlatch.lab.cosmos.reply_head import QUERY_HEADER
from azlatch.lab.cosmos.wire import Reply, Request

Message = MutableMapping[str, Any]
Application = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Coroutine[Any, Any, None],
]


def answer(application: Application, request: Request) -> Reply:
    """What an application answers.

    Raises:
        RuntimeError: it waits for something, or answers nothing.
    """
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": request.body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    running = application(_scope(request), receive, send)
    try:
        running.send(None)
    except StopIteration:
        return _reply(sent)
    running.close()
    raise RuntimeError(f"the page waits for something, {request.method} {request.path[:200]!r}")


def _scope(request: Request) -> dict[str, Any]:
    path = request.path.encode("utf-8", "replace")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(request.path, errors="replace"),
        "raw_path": path,
        "root_path": "",
        "query_string": request.header(QUERY_HEADER).encode("utf-8", "replace"),
        "headers": [
            (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
            for name, value in request.headers.items()
            if name != QUERY_HEADER
        ],
        "client": None,
        "server": None,
    }


def _reply(sent: list[Message]) -> Reply:
    if not sent or sent[0]["type"] != "http.response.start":
        raise RuntimeError("the page answers nothing")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in sent[0].get("headers", [])}
    return Reply(sent[0]["status"], headers, b"".join(each.get("body", b"") for each in sent[1:]))
