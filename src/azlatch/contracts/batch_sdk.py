"""The SDK as a batch meets it: its sends are counted, its own repeats stopped, its errors become answers.

`execute_item_batch` sends again without being asked: asyncio after a connection that closed before the answer,
sync and asyncio after a 503, both up to 120 times after 403/3. What is refused for sure may be sent again;
after anything else a repeat would meet its own first write. The hooks of azure-core (`raw_request_hook`,
`raw_response_hook`) stand below all but one of these repeats: they see each request as it goes out, and stop
those. That one, azure-core's own for connections, is off by `retry_connect=0` and `retry_read=0`. They also end
a call that would wait until after the deadline.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Mapping
from typing import Any

from azlatch.contracts import answer as single
from azlatch.contracts.batch_answer import Answer, is_refusal
from azlatch.contracts.watch import Stopped, Watch, retry_after, stops
from azlatch.errors import UsageError

#: The longest deadline, seconds.
MOST_DEADLINE_S = 3_600.0
_SHORTEST_READ_S = 0.5
_BATCH_HEADER = "x-ms-cosmos-is-batch-request"
#: Errors of the transports for a connection that never was.
_NO_CONNECTION = {
    "ClientConnectorError",
    "ConnectTimeout",
    "ConnectTimeoutError",
    "ConnectionTimeoutError",
    "NameResolutionError",
    "NewConnectionError",
}
_NO_CONNECTION_DEPTH = 8


class Sends:
    """What goes out for one call of `execute_item_batch`, and what comes back."""

    def __init__(self, container: Any, left_s: float) -> None:
        self._container = container
        self._give_up = time.monotonic() + left_s
        self.count = 0
        self.throttles = 0
        self.charge = 0.0
        self.status: int | None = None
        self.substatus: int | None = None
        self.headers: dict[str, str] = {}

    def on_request(self, request: Any) -> None:
        """Counts a send, or stops it."""
        if not _is_batch(request.http_request):
            return
        if self.count and (not is_refusal(self.status) or time.monotonic() >= self._give_up):
            raise Stopped
        self.count += 1
        self.status = self.substatus = None
        self.headers = {}

    def on_response(self, response: Any) -> None:
        """Notes an answer; stops what would be sent again too late."""
        if not _is_batch(response.http_request):
            return
        http = response.http_response
        self.headers = lowered(http.headers)
        self.status = int(http.status_code)
        self.substatus = _number(self.headers.get("x-ms-substatus"))
        self.charge += _charge(self.headers)
        self.throttles += self.status == 429
        answer = single.Answer(self.status, self.substatus or 0, retry_after(self.headers))
        if self.status >= 400 and stops(answer, self._give_up - time.monotonic(), self._container):
            raise Stopped

    def options(self, left_s: float) -> dict[str, Any]:
        """What to call `execute_item_batch` with."""
        return {
            "raw_request_hook": self.on_request,
            "raw_response_hook": self.on_response,
            "availability_strategy": False,
            **_bounds(left_s),
        }

    def answer(self, **facts: Any) -> Answer:
        """An answer with what was counted."""
        counted = {"sends": max(self.count, 1), "throttles": self.throttles, "charge": self.charge}
        return Answer(**{**counted, "headers": self.headers, "status": self.status, **facts})

    def answer_of(self, results: Any) -> Answer:
        """What a call that returned says."""
        headers = lowered(_headers_of(results)) or self.headers
        status = self.status or 200
        charge = self.charge or _charge(headers)
        return self.answer(
            results=list(results), headers=headers, status=status, charge=charge, **self._doubt()
        )

    def answer_of_error(self, error: Exception) -> Answer:
        """What a call that raised says; raises it again where it is none about the service."""
        if isinstance(error, Stopped):
            return self.answer(substatus=self.substatus)
        responses = getattr(error, "operation_responses", None)
        if isinstance(responses, list):
            headers = lowered(getattr(error, "headers", None)) or self.headers
            return self.answer(
                results=responses, headers=headers, status=self.status or 207, error=error, **self._doubt()
            )
        status = getattr(error, "status_code", None)
        if isinstance(status, int) and not isinstance(status, bool):
            headers = lowered(_error_headers(error)) or self.headers
            substatus = getattr(error, "sub_status", None)
            return self.answer(
                status=status,
                substatus=substatus if isinstance(substatus, int) else _number(headers.get("x-ms-substatus")),
                headers=headers,
                error=error,
                charge=self.charge or _charge(headers),
                **self._doubt(),
            )
        if never_connected(error) and self.count <= 1:
            return self.answer(status=None, not_sent=True, error=error)
        if not self.count and not _is_azure(error):
            raise error
        return self.answer(substatus=self.substatus, error=error)

    def _doubt(self) -> dict[str, Any]:
        # Without the hooks nobody knows how often it was sent: then a 409 or 412 may be our own first write.
        return {"uncertain": self.count == 0}


class Look:
    """One read of an item, and what it says."""

    def __init__(self, container: Any, left_s: float) -> None:
        self._left_s = left_s
        self._watch = Watch("GET", time.monotonic() + left_s, time.monotonic, container)

    def options(self, session_token: str | None) -> dict[str, Any]:
        """What to call `read_item` with."""
        options = {
            "raw_request_hook": self._watch.sending,
            "raw_response_hook": self._watch.answered,
            **_bounds(self._left_s),
        }
        return {**options, "session_token": session_token} if session_token else options

    def answer(self, item: Any) -> Answer:
        """What it says if it returned."""
        headers = lowered(_headers_of(item))
        return Answer(200, None, headers, [dict(item)], charge=_charge(headers))

    def answer_of_error(self, error: Exception) -> Answer:
        """What it says if it raised; raises it again where it is none about the service."""
        if isinstance(error, Stopped):
            found = self._watch.failure(error)
            return Answer(found.status, found.substatus)
        return answer_of_error(error)


def describe_options(left_s: float) -> dict[str, Any]:
    """What to call `read` of the container with."""
    bounds = _bounds(left_s)
    return {"timeout": bounds["read_timeout"], **bounds}


def answer_of_error(error: Exception) -> Answer:
    """What a read that raised says; raises it again where it is none about the service."""
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        if not _is_azure(error):
            raise error
        return Answer(error=error)
    headers = lowered(_error_headers(error))
    substatus = getattr(error, "sub_status", None)
    return Answer(status, substatus if isinstance(substatus, int) else None, headers, error=error)


def _bounds(left_s: float) -> dict[str, Any]:
    return {
        "read_timeout": max(_SHORTEST_READ_S, min(left_s, 65.0)),
        # Else azure-core sends again below the hooks, and waits for seconds before it does.
        "retry_connect": 0,
        "retry_read": 0,
    }


# -- the container -----------------------------------------------------------------------------------------

_properties: weakref.WeakKeyDictionary[Any, Mapping[str, Any]] = weakref.WeakKeyDictionary()


def known_properties(container: Any) -> Mapping[str, Any] | None:
    """What is known of a container, by its client object."""
    return _properties.get(container)


def remember_properties(container: Any, properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Keeps what does not change while a container lives; its time to live is as it was read first."""
    kept = {
        name: properties.get(name)
        for name in ("partitionKey", "defaultTtl", "uniqueKeyPolicy", "_self", "_rid")
    }
    _properties[container] = kept
    return kept


def forget_properties(container: Any) -> None:
    """For a container that is another one now."""
    _properties.pop(container, None)


def escapes(container: Any) -> bool:
    """Whether the SDK writes other characters than ASCII as escapes in this client's batches."""
    connection = getattr(container, "client_connection", None)
    return not getattr(connection, "_enable_compact_utf8_item_writes", False)


def hand_on(container: Any, headers: Mapping[str, str], results: list[Any]) -> bool:
    """Tells the client's own session of a batch, which the SDK does not; whether it took it.

    `update_session` of the client is what the SDK calls after each single write. It is no public function:
    where it is missing, or not as it was, nothing is told, and `session_token` is the way.
    """
    connection = getattr(container, "client_connection", None)
    session = getattr(connection, "session", None)
    update = getattr(session, "update_session", None)
    link = _self_link(container, results)
    if not callable(update) or not link or not headers.get("x-ms-session-token"):
        return False
    told = dict(headers)
    told.setdefault("x-ms-alt-content-path", str(getattr(container, "container_link", "")).strip("/"))
    try:
        update(connection, {"_self": link}, told)
    except Exception:  # noqa: BLE001 - an inner part of the SDK; the batch is applied, whatever it says
        return False
    return True


def _self_link(container: Any, results: list[Any]) -> str:
    """The container by its resource id, from a result, else as it was read."""
    for each in results:
        body = each.get("resourceBody", each) if isinstance(each, Mapping) else None
        link = body.get("_self") if isinstance(body, Mapping) else None
        if isinstance(link, str) and link.count("/") >= 4:
            return link
    return str((known_properties(container) or {}).get("_self") or "")


# -- small things ------------------------------------------------------------------------------------------


def check_deadline(deadline: object) -> float:
    """Seconds for all attempts together.

    Raises:
        UsageError: no number from 0 to an hour.
    """
    if isinstance(deadline, bool) or not isinstance(deadline, int | float) or not math.isfinite(deadline):
        raise UsageError(f"deadline={deadline!r}: give seconds")
    if not 0 <= deadline <= MOST_DEADLINE_S:
        raise UsageError(f"deadline={deadline!r}: give seconds, from 0 to {MOST_DEADLINE_S:,.0f}")
    return float(deadline)


def never_connected(error: Exception) -> bool:
    """Whether an error of a transport says that there was no connection to send anything on."""
    seen: list[object] = [error]
    for _ in range(_NO_CONNECTION_DEPTH):
        inner = seen[-1]
        if any(kind.__name__ in _NO_CONNECTION for kind in type(inner).__mro__):
            return True
        arguments = getattr(inner, "args", ())
        following = (
            getattr(inner, "inner_exception", None),
            getattr(inner, "__cause__", None),
            getattr(inner, "reason", None),
            arguments[0] if arguments else None,
        )
        found = next((each for each in following if isinstance(each, BaseException) and each not in seen), None)
        if found is None:
            return False
        seen.append(found)
    return False


def lowered(headers: Any) -> dict[str, str]:
    """Headers by their names in lower case."""
    if not isinstance(headers, Mapping) and not hasattr(headers, "items"):
        return {}
    return {str(name).lower(): str(value) for name, value in headers.items()}


def _headers_of(result: Any) -> Any:
    get = getattr(result, "get_response_headers", None)
    return get() if callable(get) else None


def _error_headers(error: Exception) -> Any:
    headers = getattr(error, "headers", None)
    return headers or getattr(getattr(error, "response", None), "headers", None)


def _is_batch(http: Any) -> bool:
    return str(http.headers.get(_BATCH_HEADER, "")).lower() == "true"


def _is_azure(error: Exception) -> bool:
    return any(kind.__name__ == "AzureError" for kind in type(error).__mro__)


def _number(text: str | None) -> int | None:
    try:
        return int(float(text)) if text is not None else None
    except ValueError:
        return None


def _charge(headers: Mapping[str, str]) -> float:
    try:
        return float(headers.get("x-ms-request-charge", 0.0))
    except ValueError:
        return 0.0
