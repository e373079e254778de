"""What an answer of Cosmos DB to a request for one item means to a latch, in words; once, for every request.

A `Refused` is a "no": the service looked at the item and did nothing. The errors of `azlatch.errors` are the
rest. What matters of each is whether a write may have been applied:

====================== ==================================================== ======================
answer                 is                                                   of a write
====================== ==================================================== ======================
404/0, 409, 412        a "no" of the item itself                            not applied
404/1002               a replica that has not seen what this client has     (reads only)
404/1003, 404/1013     no container, or one that is being made              not applied
403/3, 403/1008        the region takes no writes (any more)                not applied
429, 449               later: no budget, or another write at this moment    not applied
408, 410, 5xx, no end  unknown                                              perhaps applied
====================== ==================================================== ======================
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Literal

from azlatch.errors import (
    BackendDenied,
    BackendMisconfigured,
    BackendThrottled,
    BackendUnavailable,
    OutcomeUnknown,
)

#: There is no such item, there is one already, it is another version or the condition does not hold.
No = Literal["absent", "exists", "changed"]

_NO: dict[int, No] = {404: "absent", 409: "exists", 412: "changed"}
#: No replica of the region that was asked has seen what the session token says that we have.
BEHIND = (404, 1002)
#: The region takes no writes, or is not the account's any more.
MOVED = ((403, 3), (403, 1008))
#: The container is being made.
_IN_THE_MAKING = (404, 1013)
_NO_CONTAINER = (404, 1003)
_REMADE = (400, 1024)
_WRONG_KEY = (400, 1001)


class Refused(Exception):
    """The service said no, and nothing happened."""

    def __init__(self, no: No) -> None:
        super().__init__(no)
        self.no: No = no


class Answered(Exception):
    """An answer that is no success. The SDK does not know this class, so it repeats nothing."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers

    @property
    def code(self) -> tuple[int, int]:
        """Status and substatus."""
        try:
            return self.status, int(self.headers.get("x-ms-substatus") or 0)
        except ValueError:
            return self.status, 0

    @property
    def is_silence(self) -> bool:
        """Whether it says nothing of what became of the request."""
        return self.status in (408, 410) or self.status >= 500


def in_words(answered: Answered, *, writes: bool) -> Exception:
    """What an answer means."""
    status, substatus = code = answered.code
    if status in _NO and (status != 404 or substatus == 0):
        return Refused(_NO[status])
    activity = str(answered.headers.get("x-ms-activity-id", ""))[:64]
    said = f"Cosmos DB answered {status}/{substatus}" + (f", activity {activity}" if activity else "")
    if code in MOVED:
        return BackendUnavailable(f"{said}: the write region is another one by now; nothing was done")
    if code == BEHIND:
        return BackendUnavailable(f"{said}: the replica that was asked is behind this client; nothing was read")
    if code == _IN_THE_MAKING:
        return BackendUnavailable(f"{said}: the container is still being made; nothing was done")
    if code == _NO_CONTAINER:
        return BackendMisconfigured(
            f"{said}: there is no such container; make it with `azlatch doctor --apply`, connect(create=True), "
            "or az cosmosdb sql container create --partition-key-path /id (roles for data cannot create "
            "containers)"
        )
    if code == _REMADE:
        return BackendMisconfigured(f"{said}: the container was deleted and made again: connect again")
    if code == _WRONG_KEY:
        return BackendMisconfigured(wrong_key(said))
    if status in (401, 403):
        return BackendDenied(
            f"{said}: the identity needs the data role Cosmos DB Built-in Data Contributor on the container, "
            "and the account's network rules must let this machine in"
        )
    if status == 429:
        return BackendThrottled(said, retry_after=_retry_after(answered.headers))
    if status == 449:
        return BackendUnavailable(f"{said}: another write of the item was going on; nothing was done")
    if answered.is_silence:
        return OutcomeUnknown(said) if writes else BackendUnavailable(said)
    return BackendMisconfigured(f"{said}: `azlatch doctor` says what is wrong with the store")


def wrong_key(said: str) -> str:
    """The text for a container that is not partitioned by the id of its items."""
    return (
        f"{said}: latches need a container whose partition key is /id; give them one of their own, with "
        "connect(create=True) or az cosmosdb sql container create --partition-key-path /id"
    )


def date_of(headers: Mapping[str, str]) -> float | None:
    """The service's own time in an answer, seconds since the Unix epoch, or None where it has none."""
    with contextlib.suppress(TypeError, ValueError):
        return parsedate_to_datetime(headers.get("Date", "")).timestamp()
    return None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    try:
        seconds = float(headers.get("x-ms-retry-after-ms", "")) / 1_000
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
