"""What becomes of a batch that was not applied, or that may have been.

::

    BatchFailed                                    nothing was written: `root` says why         who: caller
    └── BatchNotTaken                              the service did not take it in time          who: service
    BatchOutcomeUnknown (an OutcomeUnknown)        all of it was written, or nothing            who: operator

A refused fence is `azlatch.FenceRejected`, a call that cannot work as written `azlatch.UsageError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from azlatch.errors import LatchError, OutcomeUnknown, Who

if TYPE_CHECKING:
    from azlatch.contracts.batch_result import BatchDiagnostics


@dataclass(frozen=True, slots=True)
class FailedOperation:
    """An operation of a batch and what the service said of it.

    Attributes:
        index: its place in the batch, from 0; None where the batch was refused as a whole.
        operation: `create`, `replace`, `upsert`, `patch`, `delete` or `read`; `batch` for the whole, `guard`
            and `once` for what those add.
        item_id: of the item; None for the whole.
        status, substatus: as they were answered; substatus is None where there was none.
        kind: the answer as a word for programs, such as `stale_version`.
    """

    index: int | None
    operation: str
    item_id: str | None
    status: int
    substatus: int | None
    kind: str

    @property
    def code(self) -> str:
        """`412`, or `404/1002`."""
        return f"{self.status}/{self.substatus}" if self.substatus else str(self.status)


class BatchFailed(LatchError):
    """The batch was refused, and nothing of it was written.

    Attributes:
        root: the operation that is the cause; never one that failed only because of another (424).
        dependents: the operations that failed only because of it.
        retry_after_s: where waiting helps: after how many seconds; else None.
        request_charge: request units of all attempts.
        session_token: of the last answer, or None.
        diagnostics: what it took.
    """

    code = "batch-failed"
    who: ClassVar[Who] = "caller"

    def __init__(
        self,
        message: str,
        *,
        root: FailedOperation,
        dependents: Sequence[FailedOperation] = (),
        retry_after_s: float | None = None,
        diagnostics: BatchDiagnostics | None = None,
    ) -> None:
        super().__init__(message)
        self.root = root
        self.dependents = tuple(dependents)
        self.retry_after_s = retry_after_s
        self.diagnostics = diagnostics

    @property
    def request_charge(self) -> float:
        return self.diagnostics.request_charge if self.diagnostics is not None else 0.0

    @property
    def session_token(self) -> str | None:
        return self.diagnostics.session_token if self.diagnostics is not None else None


class BatchNotTaken(BatchFailed):
    """The service did not take the batch within the deadline; nothing was written, and it may be sent again."""

    code = "batch-not-taken"
    who = "service"


class BatchOutcomeUnknown(OutcomeUnknown):
    """The batch was sent, and no answer says whether it was applied: all of it was, or nothing.

    Attributes:
        items: operation and id of each write of the batch: what to look at.
        status: what was answered, or None where nothing was.
        diagnostics: what it took.
    """

    code = "batch-outcome-unknown"
    who = "operator"

    def __init__(
        self,
        message: str,
        *,
        items: Sequence[tuple[str, str]] = (),
        status: int | None = None,
        diagnostics: BatchDiagnostics | None = None,
    ) -> None:
        super().__init__(message)
        self.items = tuple(items)
        self.status = status
        self.diagnostics = diagnostics


#: What an answer is, by status and substatus, else by status alone; the words of `azlatch explain`.
_KINDS: Mapping[tuple[int, int | None], str] = {
    (400, None): "bad_request",
    (400, 1001): "immutable_partition_key",
    (400, 1024): "container_changed",
    (401, None): "denied",
    (403, None): "denied",
    (403, 3): "wrong_region",
    (403, 1008): "wrong_region",
    (403, 1014): "partition_full",
    (404, None): "absent",
    (404, 1002): "behind_session",
    (404, 1003): "owner_missing",
    (408, None): "unknown_outcome",
    (409, None): "already_exists",
    (409, 3301): "unique_key",
    (410, None): "partition_moved",
    (412, None): "stale_version",
    (413, None): "too_large",
    (424, None): "failed_dependency",
    (429, None): "throttled",
    (429, 3214): "hot_key",
    (449, None): "concurrent_write",
    (500, None): "unknown_outcome",
    (503, None): "unavailable",
}

#: Cause and cure of each kind, for people.
_WORDS: Mapping[str, tuple[str, str]] = {
    "bad_request": ("the service calls it invalid", "correct what the batch says of it"),
    "immutable_partition_key": (
        "its partition key is not the batch's",
        "a batch is for one partition key, and a key cannot be changed in place",
    ),
    "container_changed": ("the container was deleted and made again", "make a new container client"),
    "denied": ("this identity may not", "give it the right to write items in this container"),
    "wrong_region": ("this region does not take writes now", "send it again when the failover is done"),
    "partition_full": (
        "the logical partition is full at 20 GB",
        "spread the items over more partition key values",
    ),
    "absent": (
        "there is no such item under this partition key",
        "create it, or look whether it is under another key",
    ),
    "behind_session": (
        "no replica had caught up with the session token",
        "send it again, with the same token",
    ),
    "owner_missing": ("the database or the container does not exist", "create it, or correct its name"),
    "already_exists": (
        "the id is taken under this partition key",
        "read the item, and replace it with its etag if it is to be changed",
    ),
    "unique_key": ("another item has the same values in a unique key", "change these values"),
    "partition_moved": ("its partition was being split or moved", "send it again"),
    "stale_version": (
        "the condition does not hold any more: the item was changed since it was read",
        "read it again, decide what the change means now, and build a new batch",
    ),
    "too_large": ("it is too large", "divide the batch; what is divided is not atomic any more"),
    "throttled": (
        "the request units of its partition are used up",
        "send it again later, or raise the throughput",
    ),
    "hot_key": ("this one partition key gets more than its share", "spread the load over more key values"),
    "concurrent_write": ("another write to the same item was in progress", "send it again"),
    "unavailable": ("the service was not available", "send it again"),
    "unreachable": ("no connection could be made", "check the network, and send it again"),
}


def kind_of(status: int, substatus: int | None) -> str:
    """An answer as a word; `unknown` for what is not in the table."""
    return _KINDS.get((status, substatus)) or _KINDS.get((status, None)) or "unknown"


def words_for(kind: str) -> tuple[str, str]:
    """Cause and cure of a kind, each a part of a sentence."""
    return _WORDS.get(kind, ("the service refused it", "see what its status means: azlatch explain"))


def failed_operation(
    answer: Mapping[str, Any], index: int | None, operation: str, item_id: str
) -> FailedOperation:
    """What a result in the answer to a batch says of one operation."""
    status = int(answer["statusCode"])
    substatus = answer.get("subStatusCode")
    number = int(substatus) if isinstance(substatus, int | str) and str(substatus).isdecimal() else None
    return FailedOperation(index, operation, item_id, status, number, kind_of(status, number))
