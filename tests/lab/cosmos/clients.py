"""A small engine in the place of the account, and raw sockets to the lab that serves it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from email.utils import formatdate
from typing import Any
from urllib.parse import quote

from azure.cosmos import auth as sdk_auth

from azlatch.lab.cosmos.auth import EMULATOR_KEY
from azlatch.lab.cosmos.wire import Reply, Request

PATIENCE = 20.0


class FakeEngine:
    """Answers with what it was asked, unless a test has put something into `then`."""

    def __init__(self) -> None:
        self.endpoints: dict[str, str] = {}
        self.requests: list[Request] = []
        self.then: Callable[[Request, float], Reply] | None = None
        self.state = b"nothing yet"
        self.tokens: dict[str, Any] = {}
        self.admin: Any = None

    def at(self, now: float) -> None:
        """Time passes."""

    def handle(self, request: Request, now: float) -> Reply:
        self.requests.append(request)
        if self.then is not None:
            return self.then(request, now)
        return Reply(
            200, {"x-seen": f"{request.method} {request.path} {request.region}"}, request.body or b"{}"
        )

    def dump(self) -> bytes:
        return self.state

    def load(self, data: bytes) -> None:
        if data == b"broken":
            raise ValueError("it is broken")
        self.state = data

    def grant_of(self, token: str, now: float) -> Any:
        return self.tokens.get(token)


def signed(verb: str, path: str, link: str, kind: str, key: str = EMULATOR_KEY, **more: str) -> dict[str, str]:
    """The headers with which the SDK's own code signs a request; `date` is another than now."""
    headers = {"x-ms-date": more.pop("date", "") or formatdate(usegmt=True), **more}

    class Client:
        master_key = key

    from azure.cosmos._base import IsNameBased

    token = sdk_auth._get_authorization_header(Client, verb, path, link, IsNameBased(link), kind, headers)
    return {**headers, "authorization": quote(token, "-_.!~*'()")}


def head(method: str, path: str, headers: dict[str, str]) -> bytes:
    """The head of a request."""
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


def item(method: str = "GET", body: bytes = b"", **headers: str) -> bytes:
    """A whole request for an item, signed."""
    path = "/dbs/d/colls/c/docs/a/"
    length = {"content-length": str(len(body))} if body else {}
    all_headers = {**signed(method.lower(), path, "dbs/d/colls/c/docs/a", "docs"), **length, **headers}
    return head(method, path, all_headers) + body


class Raw:
    """A client that is nothing but a socket."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._left = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reply(self) -> tuple[int, dict[str, str], bytes]:
        """The next reply: status, headers, body."""
        while b"\r\n\r\n" not in self._left:
            self._receive()
        top, _, self._left = self._left.partition(b"\r\n\r\n")
        first, *lines = top.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        size = int(headers.get("content-length", "0"))
        while len(self._left) < size:
            self._receive()
        body, self._left = self._left[:size], self._left[size:]
        return int(first.split()[1]), headers, body

    def rest(self) -> bytes:
        """Everything until the other side closes."""
        while piece := self.socket.recv(65_536):
            self._left += piece
        return self._left

    def is_silent(self) -> bool:
        """Whether nothing has come yet."""
        self.socket.setblocking(False)
        try:
            self._left += self.socket.recv(1)
        except BlockingIOError:
            pass
        finally:
            self.socket.settimeout(PATIENCE)
        return not self._left

    def _receive(self) -> None:
        piece = self.socket.recv(65_536)
        if not piece:
            raise EOFError(self._left)
        self._left += piece
