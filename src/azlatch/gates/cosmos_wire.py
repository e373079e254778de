"""One request of a gate in the words of the SDK: what both drivers share.

The SDK sends again on its own: 429 up to nine times, a write after 503, in asyncio one whose answer was lost;
and aiohttp a PUT whose connection broke. All of it is harmless to a gate, which reads back what it cannot know.
It has to be counted only, so that a write whose last answer is a refusal is not taken for one that was never
applied. Two hooks of azure-core (`raw_request_hook`, `raw_response_hook`) see each request that the SDK sends,
and a middleware of aiohttp what is below them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal

from azlatch.backends.blob_service import only_if
from azlatch.errors import BackendMisconfigured, UsageError
from azlatch.gates.cosmos_answer import Answer, is_refusal
from azlatch.gates.cosmos_run import Claim, Look, Put

_LONGEST_WAIT_S = 3_600.0
_METHODS: dict[type, Literal["GET", "PATCH"]] = {Look: "GET", Claim: "PATCH"}


class Stopped(Exception):
    """The SDK was about to wait for longer than the request may take."""


class Call:
    """One request, with whatever the SDK sends for it.

    Args:
        step: what is asked for.
        sees_all: nothing below the hooks sends again, or `on_wire` is told of it.

    Attributes:
        options: keywords for the SDK's method, beside its arguments.
    """

    def __init__(self, step: Look | Claim | Put, *, sees_all: bool = True) -> None:
        self._ends = time.monotonic() + step.limit
        self._method = _METHODS.get(type(step)) or (
            "POST" if isinstance(step, Put) and not step.etag else "PUT"
        )
        self._sees_all = sees_all
        self._sends = 0
        self._on_wire = 0
        self._answers = 0
        self._refusals = 0
        self._last: Answer | None = None
        self.options: dict[str, Any] = {
            # `timeout` alone is looked at between the SDK's attempts, `read_timeout` alone within each.
            "timeout": step.limit,
            "read_timeout": step.limit,
            "availability_strategy": False,
            # Else azure-core sends again below the hooks (asyncio).
            "retry_connect": 0,
            "retry_read": 0,
            "raw_request_hook": self.sending,
            "raw_response_hook": self.answered,
        }
        if isinstance(step, Look):
            return
        self.options["no_response"] = False
        if isinstance(step, Claim):
            self.options["filter_predicate"] = step.predicate
        elif step.etag is not None:
            self.options |= only_if(step.etag)

    # What sees it.

    def sending(self, request: Any) -> None:
        """A request goes out."""
        if self._is_ours(request.http_request):
            self._sends += 1

    def on_wire(self, method: str) -> None:
        """The transport sends."""
        self._on_wire += method == self._method

    def answered(self, response: Any) -> None:
        """An answer came. Raises Stopped where the SDK would wait for too long."""
        if not self._is_ours(response.http_request):
            return
        http = response.http_response
        status, headers = int(http.status_code), http.headers
        self._answers += 1
        if status < 400:
            return
        self._refusals += is_refusal(status)
        self._last = Answer(None, None, status, _substatus(headers), _retry_after(headers))
        if status == 429 and time.monotonic() + (self._last.retry_after or 0.0) >= self._ends:
            raise Stopped

    def _is_ours(self, request: Any) -> bool:
        return bool(request.method == self._method) and "/docs" in request.url

    # What came of it.

    def succeeded(self, item: Any) -> Answer:
        """The answer where the SDK's method returned."""
        headers = item.get_response_headers() if hasattr(item, "get_response_headers") else {}
        return Answer(dict(item or {}), headers.get("etag"), 200)

    def failed(self, error: Exception) -> Answer:
        """The answer where it raised. What is not about the service is raised again."""
        if not _is_of_the_service(error):
            if self._sends and self._method != "GET":
                error.add_note("azlatch: raised while a conditional write was sent; it may have been applied")
            raise error
        status = getattr(error, "status_code", None)
        if isinstance(status, int) and status:
            headers = getattr(error, "headers", None) or {}
            found = Answer(
                None, None, status, int(getattr(error, "sub_status", None) or 0), _retry_after(headers)
            )
        elif self._last is not None and self._answers == self._sends:
            # The SDK gave up, or was stopped, after an answer and before it sent anything else.
            found = self._last
        else:
            found = Answer()
        cause = None if isinstance(error, Stopped) else error
        return found._replace(sure=self._all_refused and is_refusal(found.status), cause=cause)

    @property
    def _all_refused(self) -> bool:
        sent = max(self._sends, self._on_wire)
        return self._sees_all and 0 < sent == self._refusals


def definition_of(container: Any) -> Mapping[str, Any] | None:
    """The container's partition key as the SDK keeps it after a first request; None where it does not."""
    try:
        kept: Mapping[str, Any] = container.client_connection._container_properties_cache
        found: Mapping[str, Any] = kept[container.container_link]["partitionKey"]
    except (AttributeError, KeyError, TypeError):
        return None
    return found


def check_account(container: Any, gate: str) -> None:
    """Refuses an account whose conditions guard nothing.

    Raises:
        BackendMisconfigured: several regions take writes.
    """
    try:
        cache = container.client_connection._global_endpoint_manager.location_cache
        regions = [str(each) for each in cache.account_write_locations]
    except (AttributeError, TypeError):
        return
    if len(regions) > 1:
        raise BackendMisconfigured(
            f"{gate} is in an account with {len(regions)} write regions ({', '.join(regions)}): each of them "
            "takes a conditional write by itself, and the last one wins, so an older fence could overwrite a "
            "newer one. Use an account with one write region"
        )


def check_container(container: Any) -> None:
    """Raises UsageError for what is no ContainerProxy."""
    wanted = ("read_item", "create_item", "replace_item", "patch_item")
    if not all(callable(getattr(container, each, None)) for each in wanted):
        raise UsageError(
            f"a gate is around an item of a ContainerProxy of azure-cosmos, not of a {type(container).__name__}"
        )


def _is_of_the_service(error: Exception) -> bool:
    if isinstance(error, Stopped | OSError) or isinstance(getattr(error, "status_code", None), int):
        return True
    return any(kind.__name__ == "AzureError" for kind in type(error).__mro__)


def _substatus(headers: Mapping[str, Any]) -> int:
    return int(_number(headers.get("x-ms-substatus")))


def _retry_after(headers: Mapping[str, Any]) -> float | None:
    said = headers.get("x-ms-retry-after-ms")
    return None if said is None else min(_number(said) / 1000, _LONGEST_WAIT_S)


def _number(text: Any) -> float:
    try:
        value = float(text or 0)
    except (TypeError, ValueError):
        return 0.0
    return value if 0 <= value < 2**53 else 0.0
