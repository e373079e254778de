"""What an answer means for an update: whether it passes, and which error it is if it does not."""

from __future__ import annotations

from azlatch.contracts.answer import Answer
from azlatch.contracts.session_errors import BehindSession
from azlatch.contracts.update_errors import ItemAbsent, UpdateRefused
from azlatch.errors import (
    BackendDenied,
    BackendMisconfigured,
    BackendThrottled,
    BackendUnavailable,
    LatchError,
    UsageError,
)

#: 412 with these is a lock of a management operation, not the condition of the write.
_LOCKS = (range(2001, 2022), range(2101, 2102))
#: 404 with these: it is being made, or starting.
_STARTING = frozenset({1013, 1023})
_WRONG_REGION = frozenset({3, 1008})
_BEHIND, _OWNER_MISSING, _WRONG_KEY, _KEY_FULL = 1002, 1003, 1001, 1014


def is_stale(answer: Answer) -> bool:
    """Whether the condition of the write does not hold any more."""
    return answer.status == 412 and not any(answer.substatus in lock for lock in _LOCKS)


def is_behind(answer: Answer) -> bool:
    """Whether the replica had not caught up with the session."""
    return (answer.status, answer.substatus) == (404, _BEHIND)


def is_absent(answer: Answer) -> bool:
    """Whether there was no such item where the service looked."""
    return answer.status == 404 and answer.substatus not in (_BEHIND, _OWNER_MISSING, *_STARTING)


def is_perhaps_applied(answer: Answer) -> bool:
    """Whether a write that is answered so may have been applied, or may still be."""
    status = answer.status
    return status is None or status in (408, 410) or status >= 500


def is_passing(answer: Answer) -> bool:
    """Whether the same request may succeed later."""
    status, substatus = answer.status, answer.substatus
    if is_perhaps_applied(answer) or status in (423, 429, 449) or is_behind(answer):
        return True
    if status == 404:
        return substatus in _STARTING
    if status == 412:
        return not is_stale(answer)
    return status == 403 and substatus in _WRONG_REGION


def error_of(answer: Answer, item_id: str, *, was_there: bool) -> LatchError:
    """The error for an update that ends with this answer; `was_there`: the item was read before."""
    status, substatus, name = answer.status, answer.substatus, f"item {item_id!r}"
    if is_behind(answer):
        return BehindSession(f"no replica had what this client has already seen of {name} ({answer})")
    if is_absent(answer):
        what = "is gone: someone deleted it" if was_there else "does not exist under this partition key"
        return ItemAbsent(f"{name} {what} (a wrong partition key looks the same)")
    if status == 404 and substatus == _OWNER_MISSING:
        return BackendMisconfigured(f"the database or the container of {name} does not exist ({answer})")
    if status in (429, 449):
        return BackendThrottled(f"{name}: throttled for too long ({answer})", retry_after=answer.retry_after)
    if is_passing(answer):
        return BackendUnavailable(f"{name}: {answer}")
    if (status, substatus) == (400, _WRONG_KEY):
        return UsageError(f"{name}: its partition key cannot be changed in place ({answer})")
    if status == 401 or (status == 403 and substatus != _KEY_FULL):
        return BackendDenied(f"{name}: this identity may not ({answer})")
    return UpdateRefused(
        f"{name}: the service refuses it ({answer}); see `azlatch explain {answer}`",
        status=status or 0,
        substatus=substatus,
    )
