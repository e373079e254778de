"""What an answer to a batch proves: applied, refused by an operation, not taken, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from azlatch.contracts.batch_errors import FailedOperation, failed_operation, kind_of


@dataclass(slots=True)
class Answer:
    """What came back of one send, as a driver saw it.

    Attributes:
        status: of HTTP; None where no answer came.
        substatus: None where there was none.
        headers: names in lower case.
        results: the list in the body of a 200 or 207, else None; of a read the item is the one element.
        not_sent: it is sure that nothing reached the service.
        uncertain: an earlier send of the same request may have reached the service, and nobody knows.
        sends, throttles, charge: what the send took: times, answers 429, request units.
    """

    status: int | None = None
    substatus: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    results: list[Any] | None = None
    not_sent: bool = False
    uncertain: bool = False
    sends: int = 1
    throttles: int = 0
    charge: float = 0.0
    error: Exception | None = None

    @property
    def retry_after_s(self) -> float | None:
        """What the service asks to wait, or None."""
        for each in self.results or ():
            asked = each.get("retryAfterMilliseconds") if isinstance(each, Mapping) else None
            if isinstance(asked, int | float) and asked > 0:
                return float(asked) / 1000
        try:
            return float(self.headers["x-ms-retry-after-ms"]) / 1000
        except (KeyError, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class Applied:
    """All of it was done."""

    results: list[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was done, and the same batch would be refused again."""

    root: FailedOperation
    dependents: tuple[FailedOperation, ...] = ()


@dataclass(frozen=True, slots=True)
class NotTaken:
    """Nothing was done, and the same batch may be sent again."""

    root: FailedOperation
    dependents: tuple[FailedOperation, ...] = ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """All of it was done, or nothing."""

    why: str
    status: int | None = None


Verdict = Applied | Refused | NotTaken | Unknown

#: Refused before it was processed, for a while: whole answers by status and substatus (None: any).
_LATER = {(429, None), (449, None), (403, 3), (403, 1008), (404, 1002), (410, None), (423, None)}
#: The same for an operation of the batch.
_LATER_INSIDE = (429, 449)
#: A management operation has a lock for a while; some such answers are 412, and say nothing of a condition.
_BUSY = "busy"


def is_refusal(status: int | None) -> bool:
    """Whether an answer of this status proves that nothing was processed: 4xx, but for a timeout."""
    return status is not None and 400 <= status < 500 and status != 408


def may_come_later(status: int, substatus: int | None) -> bool:
    """Whether what was refused so is taken when it is sent again."""
    return (status, None) in _LATER or (status, substatus) in _LATER


def judge(answer: Answer, names: Sequence[tuple[int | None, str, str]]) -> Verdict:
    """What an answer proves.

    Args:
        answer: to the batch.
        names: index, operation and item id of everything that was sent, in its order.
    """
    if answer.results is not None:
        return _judge_results(answer, names)
    if answer.not_sent:
        return NotTaken(FailedOperation(None, "batch", None, 0, None, "unreachable"))
    if answer.status is None:
        return Unknown("no answer came")
    if is_refusal(answer.status):
        if answer.uncertain:
            return Unknown("the SDK may have sent it before, and that was not answered", answer.status)
        kind = kind_of(answer.status, answer.substatus, "batch")
        root = FailedOperation(None, "batch", None, answer.status, answer.substatus, kind)
        later = may_come_later(answer.status, answer.substatus) or kind == _BUSY
        return NotTaken(root) if later else Refused(root)
    if answer.status < 400:
        return Unknown("the answer has no readable results", answer.status)
    return Unknown(f"the answer {answer.status} does not say whether it was processed", answer.status)


def _judge_results(answer: Answer, names: Sequence[tuple[int | None, str, str]]) -> Verdict:
    results = answer.results or []
    if len(results) != len(names) or not all(_is_result(each) for each in results):
        return Unknown(f"{len(results)} results came for {len(names)} operations", answer.status)
    statuses = [int(each["statusCode"]) for each in results]
    if all(status < 400 for status in statuses):
        return Applied(results)
    if answer.uncertain:
        return Unknown("the SDK may have sent it before, and that was not answered", answer.status)
    failed = [
        failed_operation(each, *name)
        for each, name, status in zip(results, names, statuses, strict=True)
        if status >= 400
    ]
    # The SDK takes the last that is no 424, which is another one where a server reports several.
    root = next((each for each in failed if each.status != 424), None)
    if root is None:
        return Unknown("every operation is said to have failed because of another one", answer.status)
    if not is_refusal(root.status):
        return Unknown(f"operation {root.operation} was answered {root.status}", answer.status)
    dependents = tuple(each for each in failed if each is not root and each.status == 424)
    later = root.status in _LATER_INSIDE or root.kind == _BUSY
    return NotTaken(root, dependents) if later else Refused(root, dependents)


def _is_result(each: object) -> bool:
    return isinstance(each, Mapping) and isinstance(each.get("statusCode"), int)
