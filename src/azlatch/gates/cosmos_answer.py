"""What an answer of Cosmos DB means to a gate: for a write above all whether it may have been applied."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from azlatch.errors import (
    BackendDenied,
    BackendMisconfigured,
    BackendThrottled,
    BackendUnavailable,
    LatchError,
    UsageError,
)

#: done; there is no such item; the condition does not hold; there is such an item; the same request may succeed
#: later and was not carried out; it may have been; it never will be.
Kind = Literal["done", "absent", "stale", "exists", "later", "unknown", "refused"]

#: 412 with these is a lock of a management operation, not the condition of the write.
_LOCKS = (range(2001, 2022), range(2101, 2102))
#: 404 with these: a replica that has not caught up; a container that is being made, or starting.
_NOT_YET = frozenset({1002, 1013, 1023})
_OWNER_MISSING = 1003
_WRONG_REGION = frozenset({3, 1008})


class Answer(NamedTuple):
    """What came of one request.

    Attributes:
        item: where it succeeded.
        etag: its version, where the headers say so.
        status: of HTTP; None where no answer came.
        substatus: 0 where there is none.
        retry_after: seconds that the service asks to wait, or None.
        sure: of a write: every request that went out for it was answered, with refusals.
        cause: what the SDK raised.
    """

    item: dict[str, Any] | None = None
    etag: str | None = None
    status: int | None = None
    substatus: int = 0
    retry_after: float | None = None
    sure: bool = False
    cause: BaseException | None = None

    def __str__(self) -> str:
        if self.status is None:
            return f"no answer ({type(self.cause).__name__})" if self.cause else "no answer"
        return f"{self.status}/{self.substatus}"


def is_refusal(status: int | None) -> bool:
    """Whether a write that was answered so is certainly not applied: 4xx, but for 408 and 410."""
    return status is not None and 400 <= status < 500 and status not in (408, 410)


def kind_of(answer: Answer) -> Kind:
    """What an answer comes to."""
    status, substatus = answer.status, answer.substatus
    if answer.item is not None:
        return "done"
    if not is_refusal(status):
        return "unknown"
    if status == 404:
        return "later" if substatus in _NOT_YET else "refused" if substatus == _OWNER_MISSING else "absent"
    if status == 409:
        return "exists"
    if status == 412:
        return "later" if any(substatus in lock for lock in _LOCKS) else "stale"
    if status in (423, 429, 449) or (status == 403 and substatus in _WRONG_REGION):
        return "later"
    return "refused"


def error_of(answer: Answer, gate: str) -> LatchError:
    """The error for a request that ended so, and was not applied."""
    status, kind = answer.status, kind_of(answer)
    if status in (429, 449):
        return BackendThrottled(f"{gate}: throttled for too long ({answer})", retry_after=answer.retry_after)
    if kind in ("later", "unknown"):
        return BackendUnavailable(f"{gate}: the service did not take it in time ({answer})")
    if status == 404:
        return BackendMisconfigured(f"{gate}: the database or the container does not exist ({answer})")
    if status in (401, 403):
        return BackendDenied(f"{gate}: this identity may not ({answer}), see `azlatch explain {answer}`")
    if status == 409:
        return UsageError(f"{gate}: another item has the same values in a unique key ({answer})")
    return UsageError(f"{gate}: the service refuses the item ({answer}), see `azlatch explain {answer}`")
