"""The waits of the SDK that no time limit cuts short, and what a hook has to do before it ends one.

azure-cosmos 4.17.1 looks at its `timeout` before and after it waits for its next attempt (`_retry_utility.py`),
and waits in between whatever is left. A hook sees the answer before that, and can end the call there. Nothing
is lost where the wait would outlast the time for the request: the attempt after it is never made.
"""

from __future__ import annotations

from typing import Any

#: `_endpoint_discovery_retry_policy.py`: for a region that does not take the request any more.
_WRONG_REGION_S = 1.0
#: `_timeout_failover_retry_policy.py` and `_service_unavailable_retry_policy.py`.
_FAILED_S = 0.5


def is_wrong_region(status: int, substatus: int) -> bool:
    """Whether the answer says that another region has to be asked."""
    return status == 403 and substatus in (3, 1008)


def wait_after(status: int, substatus: int, retry_after: float | None) -> float:
    """Seconds that the SDK may wait after this answer."""
    if status == 429:
        return retry_after or 0.0
    if is_wrong_region(status, substatus):
        return _WRONG_REGION_S
    return _FAILED_S if status == 408 or status >= 500 else 0.0


def asks_for_regions(container: Any) -> bool:
    """Makes the client ask for the account's regions before its next request; False where it cannot be told.

    The SDK does that itself, after the hooks and before it waits. Who ends the call has to do it instead, or
    the client would write to the region of before the failover for minutes.
    """
    manager: Any = getattr(getattr(container, "client_connection", None), "_global_endpoint_manager", None)
    if not isinstance(getattr(manager, "refresh_needed", None), bool):
        return False
    manager.refresh_needed = True
    return True
