"""A reply as bytes of HTTP/1.1, with the headers that the service sends with each."""

from __future__ import annotations

import http
import uuid
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any

from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.wire import Reply, encode

#: What `server` says.
SERVER = "azlatch-lab"
#: Where the query string of a request is put: the service's own interface has none, so a path is all it needs.
QUERY_HEADER = "x-azlatch-query"
#: Statuses whose replies have no body, whatever the engine gives (RFC 9110, 6.4.1).
_BODYLESS = {204, 304}
_VERSION = "2020-07-15"
_FIXED = (
    f"server: {SERVER}\r\nx-ms-version: {_VERSION}\r\n"
    f"x-ms-gatewayversion: {SERVER}\r\nx-ms-serviceversion: {SERVER}\r\n"
).encode()
#: Set here, or of the connection alone: the engine does not decide about them.
_OURS = {"content-length", "connection", "transfer-encoding", "keep-alive", "date", "server"}
_REASONS = {int(status): status.phrase for status in http.HTTPStatus} | {
    424: "Failed Dependency",
    449: "Retry With",
}
_BREAKS = dict.fromkeys(range(32)) | {127: None}


class Heads:
    """Makes heads; the date is written once a second."""

    def __init__(self) -> None:
        self._second = -1
        self._date = b""

    def render(
        self, reply: Reply, method: str, activity: str, now: float, *, keep: bool
    ) -> tuple[bytes, bytes]:
        """The head and the body of a reply to a request with that method and activity id."""
        status = reply.status
        headers = reply.headers
        body = b"" if status in _BODYLESS else reply.body
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}"]
        # All at once, since hardly ever one of them has to be mended.
        are_lines = "".join(headers.values()).isprintable()
        for name, value in headers.items():
            if name.lower() not in _OURS:
                lines.append(f"{name}: {value if are_lines else _one_line(value)}")
        if "x-ms-activity-id" not in headers:
            lines.append(f"x-ms-activity-id: {activity}")
        if status not in _BODYLESS:
            lines.append(f"content-length: {len(body)}")
            if "content-type" not in headers:
                lines.append("content-type: application/json")
        if not keep:
            lines.append("connection: close")
        lines.append("")
        head = "\r\n".join(lines).encode("utf-8", "backslashreplace")
        return b"%b%b%b\r\n" % (head, _FIXED, self._date_at(now)), b"" if method == "HEAD" else body

    def _date_at(self, now: float) -> bytes:
        second = int(now)
        if second != self._second:
            self._second = second
            self._date = f"date: {formatdate(second, usegmt=True)}\r\n".encode()
        return self._date


def activity_of(headers: Mapping[str, str]) -> str:
    """The activity id of a request: the client's own if it is a UUID, else a new one."""
    given = headers.get("x-ms-activity-id", "")
    if len(given) == 36 and given.isascii() and given.replace("-", "").isalnum():
        return given
    return str(uuid.uuid4())


def refusal(error: ServiceError, activity: str) -> Reply:
    """The reply that tells an error, in the service's form."""
    text = f"{error.message}\r\nActivityId: {activity}, {SERVER}"
    headers = {"x-ms-activity-id": activity, "x-ms-substatus": str(error.substatus), **error.headers}
    return Reply(error.status, headers, encode({"code": error.code, "message": text}))


def json_reply(status: int, value: Any) -> Reply:
    """A value as JSON."""
    return Reply(status, {"content-type": "application/json"}, encode(value))


def _one_line(value: str) -> str:
    """A header's value without what would end its line."""
    return value if value.isprintable() else value.translate(_BREAKS)
