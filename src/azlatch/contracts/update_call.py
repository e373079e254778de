"""One request of an update, in the words of the SDK: what both drivers share."""

from __future__ import annotations

import functools
import math
import os
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from azlatch.contracts.operations import word
from azlatch.contracts.update import Updating
from azlatch.contracts.update_steps import Read, Replace, Step
from azlatch.contracts.watch import Stopped, Watch
from azlatch.errors import UsageError

#: Longer is no request of a program any more.
LONGEST_DEADLINE = 3_600.0

Item = dict[str, Any]


class Call:
    """One step that goes to the service.

    Attributes:
        options: keywords for the SDK's method, beside its arguments.
        token: a session token that the request is to carry, for reads after 404/1002: the SDK drops its own.
        watch: what sees the request on its way.
    """

    def __init__(
        self,
        container: Any,
        core: Updating,
        step: Read | Replace,
        token: str | None,
        *,
        sees_all: bool = True,
    ) -> None:
        self._core = core
        self._step = step
        method: Literal["GET", "PUT"] = "PUT" if isinstance(step, Replace) else "GET"
        self.watch = Watch(method, time.monotonic() + step.limit, time.monotonic, container, sees_all=sees_all)
        self.token = token
        self.options: dict[str, Any] = {
            # `timeout` alone is looked at between the SDK's attempts, `read_timeout` alone within each.
            "timeout": step.limit,
            "read_timeout": step.limit,
            # Else azure-core sends a write again below the hooks when its answer was lost (asyncio).
            "retry_connect": 0,
            # And waits between reads, for seconds, whatever is left.
            "retry_read": 0,
            "raw_request_hook": self.watch.sending,
            "raw_response_hook": self.watch.answered,
        }
        if isinstance(step, Replace):
            self.options["etag"] = step.etag
            self.options["match_condition"] = _if_not_modified()
        elif token is not None:
            self.options["session_token"] = token

    def succeeded(self, reply: Any) -> Step:
        """The next step after the SDK's answer."""
        etag = reply.get("_etag") if reply else None
        # The SDK copies all headers each time that it is asked, so only where nothing else has what is needed.
        headers = {} if etag and self.watch.saw_it else _headers_of(reply)
        spent, etag = self.watch.spent(headers), etag or headers.get("etag")
        if isinstance(self._step, Replace):
            return self._core.replaced(reply, etag, spent)
        return self._core.read(time.monotonic(), reply, etag, spent)

    def failed(self, error: Exception) -> Step:
        """The next step after an error of the SDK or the network; every other error is raised again."""
        watch = self.watch
        if isinstance(self._step, Replace) and watch.written_etag:
            # Only the time was over, or the content could not be read: that it was applied has been said.
            return self._core.replaced(None, watch.written_etag, watch.spent(None))
        if not _is_of_the_service(error):
            if isinstance(self._step, Replace):
                error.add_note("azlatch: raised while a conditional write was sent; it may have been applied")
            raise error
        answer = watch.failure(error)
        if (answer.status, answer.substatus) == (404, 1002):
            self.token = watch.token or self.token
        return self._core.failed(time.monotonic(), answer, watch.spent(getattr(error, "headers", None) or {}))


def prepared(
    item_id: str, change: Callable[..., Any], reconcile: Callable[..., Any] | None, deadline: float
) -> Updating:
    """The machine for one update.

    Raises:
        UsageError: an argument is out of its range.
    """
    if not isinstance(item_id, str) or not item_id:
        raise UsageError(f"item_id is {item_id!r}: give it the item's id")
    if not callable(change) or not (reconcile is None or callable(reconcile)):
        raise UsageError("change and reconcile have to be functions")
    if isinstance(deadline, bool) or not isinstance(deadline, (int, float)) or not math.isfinite(deadline):
        raise UsageError(f"deadline is {deadline!r}: give it seconds")
    if not 0 < deadline <= LONGEST_DEADLINE:
        raise UsageError(
            f"deadline is {deadline:g}: give it more than 0 and at most {LONGEST_DEADLINE:g} seconds"
        )
    return Updating(
        item_id,
        # Six random bytes: an item tells sixteen of them apart.
        operation=word(os.urandom(6)),
        deadline=time.monotonic() + deadline,
        random=random.random,
        has_rule=reconcile is not None,
    )


def key_paths(container: Any) -> tuple[tuple[str, ...], ...]:
    """The paths of the partition key, from what the SDK keeps of the container; nothing if it keeps nothing.

    Without them the service refuses what is not to be changed, after it was sent.
    """
    try:
        kept: Mapping[str, Any] = container.client_connection._container_properties_cache
        paths = kept[container.container_link]["partitionKey"]["paths"]
        return _taken_apart(tuple(paths))
    except (AttributeError, KeyError, TypeError):
        return ()


@functools.lru_cache(maxsize=64)
def _taken_apart(paths: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(name.strip('"') for name in path.strip("/").split("/")) for path in paths)


@functools.cache
def _if_not_modified() -> Any:
    from azure.core import MatchConditions

    return MatchConditions.IfNotModified


def _headers_of(reply: Any) -> Mapping[str, Any]:
    return reply.get_response_headers() if hasattr(reply, "get_response_headers") else {}


def _is_of_the_service(error: Exception) -> bool:
    if isinstance(error, (Stopped, OSError)) or isinstance(getattr(error, "status_code", None), int):
        return True
    from azure.core.exceptions import AzureError

    return isinstance(error, AzureError)
