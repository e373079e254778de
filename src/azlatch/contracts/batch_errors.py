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

from azlatch.contracts.classifier import meaning_of
from azlatch.contracts.fields import operation_of
from azlatch.contracts.words import words_of
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
        kind: the answer as a word for programs, such as `stale_version`: what `classify` says of it, or
            `unreachable` where no connection was made.
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


#: What a batch says of a text of the table, as cause and cure, where it knows more than the table: what becomes
#: of the rest of it.
_WORDS: Mapping[str, tuple[str, str]] = {
    "bad_request": ("the service calls it invalid", "correct what the batch says of it"),
    **dict.fromkeys(
        ("immutable_key", "wrong_key"),
        (
            "its partition key is not the batch's",
            "a batch is for one partition key, and a key cannot be changed in place",
        ),
    ),
    **dict.fromkeys(
        ("container_changed", "name_cache"),
        ("the container was deleted and made again", "make a new container client"),
    ),
    **dict.fromkeys(
        ("forbidden", "role"),
        ("this identity may not", "give it the right to write items in this container"),
    ),
    **dict.fromkeys(
        ("write_region", "region_left"),
        ("this region does not take writes now", "send it again when the failover is done"),
    ),
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
    **dict.fromkeys(
        ("owner_missing", "owner_missing_for"),
        ("the database or the container does not exist", "create it, or correct its name"),
    ),
    "exists": (
        "the id is taken under this partition key",
        "read the item, and replace it with its etag if it is to be changed",
    ),
    **dict.fromkeys(
        ("unique_key", "unique_or_id"),
        ("another item has the same values in a unique key", "change these values"),
    ),
    "partition_moved": ("its partition was being split or moved", "send it again"),
    **dict.fromkeys(
        ("stale_version", "patch_condition"),
        (
            "the condition does not hold any more: the item was changed since it was read",
            "read it again, decide what the change means now, and build a new batch",
        ),
    ),
    **dict.fromkeys(
        ("too_large", "batch_too_large"),
        ("it is too large", "divide the batch; what is divided is not atomic any more"),
    ),
    **dict.fromkeys(
        ("throttled", "request_units"),
        (
            "the request units of its partition are used up",
            "send it again later, or raise the throughput",
        ),
    ),
    "hot_key": ("this one partition key gets more than its share", "spread the load over more key values"),
    "concurrent_write": ("another write to the same item was in progress", "send it again"),
}
#: The same where nothing was answered that is in the table.
_UNANSWERED: Mapping[str, tuple[str, str]] = {
    "unavailable": ("the service was not available", "send it again"),
    "unreachable": ("no connection could be made", "check the network, and send it again"),
}


def kind_of(status: int, substatus: int | None, operation: str) -> str:
    """An answer to an operation as a word: the one that `classify` has for it."""
    return meaning_of(status, substatus, operation_of(operation)).kind


def words_for(root: FailedOperation) -> tuple[str, str]:
    """Cause and cure, each a part of a sentence."""
    meaning = meaning_of(root.status, root.substatus, operation_of(root.operation))
    if root.kind in _UNANSWERED and meaning.kind != root.kind:
        return _UNANSWERED[root.kind]
    if meaning.text in _WORDS:
        return _WORDS[meaning.text]
    cause, cure = words_of("en").texts[meaning.text]
    return _part(cause), _part(cure)


def _part(sentences: str) -> str:
    return (sentences[0].lower() + sentences[1:]).removesuffix(".")


def failed_operation(
    answer: Mapping[str, Any], index: int | None, operation: str, item_id: str
) -> FailedOperation:
    """What a result in the answer to a batch says of one operation."""
    status = int(answer["statusCode"])
    substatus = answer.get("subStatusCode")
    number = int(substatus) if isinstance(substatus, int | str) and str(substatus).isdecimal() else None
    return FailedOperation(index, operation, item_id, status, number, kind_of(status, number or 0, operation))
