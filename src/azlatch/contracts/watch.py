"""What really goes over the wire for one request, seen through the hooks that azure-core has for it.

The SDK repeats requests on its own: 429 up to nine times, a write after 503, and in asyncio a write whose
answer was lost. The answers in between, with their charges, are in nothing that it returns (azure-cosmos 4.17.1
puts `x-ms-throttle-retry-count` among the headers of the response before). Two hooks per call of azure-core's
CustomHookPolicy, `raw_request_hook` and `raw_response_hook`, see each of them, and can end the call: nothing is
sent again that may have been applied, and no wait is sat out that ends after the time for the request.
They take the place of hooks that the client was made with, for these calls. What is below them, the transport,
must not repeat anything either: requests does not, aiohttp does, see `update_aio`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from azlatch.contracts.answer import Answer, Spent, is_refusal
from azlatch.contracts.sdk_waits import asks_for_regions, is_wrong_region, wait_after

_CHARGE = "x-ms-request-charge"
_SUBSTATUS = "x-ms-substatus"
_RETRY_AFTER = "x-ms-retry-after-ms"
_TOKEN = "x-ms-session-token"  # noqa: S105 - the name of a header
#: No service asks for more; what is more is no number of it.
_LONGEST_WAIT_S = 3_600.0


class Stopped(Exception):
    """The hook has ended the SDK's call, because what the SDK would do next must not happen."""


class Watch:
    """The sends and answers of one call of the SDK.

    Args:
        method: of HTTP; what the SDK sends of other kinds within the call is not counted.
        ends: when the time for the request is over, on the clock.
        container: the SDK's, whose client may have to be told to ask for its regions.
        sees_all: nothing below the hooks repeats a request, or `on_wire` is told of it.

    Attributes:
        token: the session token that the request carried, or None.
        written_etag: the version that a write made, if an answer said so.
    """

    # What they are at first is kept once: there are two of these for each update.
    _sends = 0
    _on_wire = 0
    _open = 0
    _refused = True
    _last: Answer | None = None
    _charge = 0.0
    _throttles = 0
    token: str | None = None
    written_etag: str | None = None

    def __init__(
        self,
        method: Literal["GET", "PUT"],
        ends: float,
        clock: Callable[[], float],
        container: Any = None,
        *,
        sees_all: bool = True,
    ) -> None:
        self._method = method
        self._ends = ends
        self._clock = clock
        self._container = container
        self._sees_all = sees_all

    # The hooks.

    def sending(self, request: Any) -> None:
        """A request goes out. Raises Stopped for a write of which an earlier one may have been applied."""
        sent = request.http_request
        if sent.method != self._method or "/docs/" not in sent.url:
            return
        if self._sends and self._method == "PUT" and not self.nothing_applied:
            raise Stopped
        self._sends += 1
        self._open += 1
        self.token = sent.headers.get(_TOKEN)

    def on_wire(self, method: str) -> None:
        """The transport sends. Raises Stopped for a write that it sends again by itself."""
        if method != self._method or method != "PUT":
            return
        self._on_wire += 1
        if self._on_wire > self._sends:
            raise Stopped

    def answered(self, response: Any) -> None:
        """An answer came. Raises Stopped if the SDK must not do what it does after such an answer."""
        sent, got = response.http_request, response.http_response
        if sent.method != self._method or "/docs/" not in sent.url:
            return
        status, headers = int(got.status_code), got.headers
        self._open -= 1
        self._charge += number(headers, _CHARGE)
        if status < 400:
            if self._method == "PUT":
                self.written_etag = headers.get("etag")
            return
        self._throttles += status in (429, 449)
        self._refused = self._refused and is_refusal(status)
        self._last = Answer(status, int(number(headers, _SUBSTATUS)), retry_after(headers))
        if self._method == "PUT" and not is_refusal(status):
            raise Stopped
        if stops(self._last, self._ends - self._clock(), self._container):
            raise Stopped

    # What came of it.

    @property
    def saw_it(self) -> bool:
        """Whether the client's hooks tell of requests at all."""
        return self._sends > 0

    @property
    def nothing_applied(self) -> bool:
        """Whether everything that was sent was answered, with refusals."""
        return self._open <= 0 and self._refused

    def failure(self, error: BaseException) -> Answer:
        """The answer that a failed call stands for."""
        status = getattr(error, "status_code", None)
        if isinstance(status, int) and status:
            headers = getattr(error, "headers", None) or {}
            substatus = getattr(error, "sub_status", None) or 0
            found = Answer(status, int(substatus), retry_after(headers))
        elif self._last is not None and self._open <= 0:
            # The SDK gave up, or was stopped, after an answer and before it sent anything else.
            found = self._last
        else:
            found = Answer(None)
        sure = self._sees_all and self._sends > 0 and self.nothing_applied and is_refusal(found.status)
        return found._replace(sure=sure, with_token=self.token is not None, cause=_shown(error))

    def spent(self, headers: Mapping[str, Any] | None) -> Spent:
        """What it cost; `headers` are the last answer's, for a client that knows no hooks."""
        if self._sends or headers is None:
            return Spent(self._charge, self._throttles)
        return Spent(number(headers, _CHARGE))


def stops(answer: Answer, left: float, container: Any) -> bool:
    """Whether a call has to be ended after this answer, because the SDK would wait for longer than is left."""
    status, substatus = answer.status or 0, answer.substatus
    wait = wait_after(status, substatus, answer.retry_after)
    if wait < left or (not wait and status != 429):
        return False
    return not is_wrong_region(status, substatus) or asks_for_regions(container)


def _shown(error: BaseException) -> BaseException | None:
    return None if isinstance(error, Stopped) else error


def number(headers: Mapping[str, Any], name: str) -> float:
    """A header that is a number, else 0."""
    try:
        value = float(headers.get(name) or 0)
    except (TypeError, ValueError):
        return 0.0
    return value if 0 <= value < 2**53 else 0.0


def retry_after(headers: Mapping[str, Any]) -> float | None:
    """Seconds that an answer asks to wait, or None."""
    if headers.get(_RETRY_AFTER) is None:
        return None
    return min(number(headers, _RETRY_AFTER) / 1000, _LONGEST_WAIT_S)
