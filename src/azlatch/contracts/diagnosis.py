"""What an answer of Cosmos DB means: one frozen object, for programs and for people."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

#: What an answer is, as a word that programs can rely on.
Kind = Literal[
    "absent",  # there is no such item in that logical partition
    "already_exists",  # id and partition key are taken
    "bad_request",  # it can never succeed as it is written
    "batch_failed",  # look at the operations of the batch
    "behind_session",  # the replica has not caught up with the session token
    "busy",  # a management operation runs
    "concurrent_write",  # the service met another write to the same item; no ETag is involved
    "container_changed",  # the container was deleted and made again
    "denied",  # this identity, key or network may not
    "failed_dependency",  # another operation of the transaction is the cause
    "hash_collision",  # two partition keys of one id have the same hash
    "hot_key",  # one logical partition key gets more than its share
    "immutable_partition_key",  # the partition key of an item cannot be changed in place
    "misconfigured",  # the account, the container or the client is set up wrongly
    "no_answer",  # a read was not answered; nothing was to be changed
    "not_modified",  # nothing new
    "not_ready",  # it is being made, or is starting
    "ok",  # it was done
    "owner_missing",  # the database or the container does not exist
    "partition_full",  # the logical partition holds 20 GB
    "partition_moved",  # a split, a merge or a move of the physical partition
    "quota",  # a limit of the account or the database
    "query_not_servable",  # the gateway cannot run this query as a whole
    "stale_version",  # the condition of the write does not hold any more
    "throttled",  # too many request units for now
    "too_large",  # the item, the request or the batch
    "unavailable",  # the service did not process it
    "unique_key",  # another item has the same values in a unique key
    "unknown",  # not in the table
    "unknown_outcome",  # a write that may or may not have been applied
    "wrong_region",  # this region does not take it now
]

#: Whose job it is to act.
Who = Literal["caller", "data-model", "capacity", "operations", "service", "nobody", "unknown"]

#: The operations that refine a diagnosis.
Operation = Literal["read", "create", "replace", "upsert", "patch", "delete", "batch", "query"]
OPERATIONS: tuple[Operation, ...] = ("read", "create", "replace", "upsert", "patch", "delete", "batch", "query")

Language = Literal["en", "pt"]
LANGUAGES: tuple[Language, ...] = ("en", "pt")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What an answer means, whose job it is, and whether the same request may be sent again.

    Its texts come from tables alone: nothing that the answer said is repeated, but numbers and the activity id.

    Attributes:
        status: of HTTP, or None where no answer came, or none could be read.
        substatus: what tells answers of one status apart, or None where it is not known.
        name: the service's or the SDK's name for it; may be empty.
        kind: the word for programs.
        cause: what happened.
        who: whose job it is to act.
        safe_to_retry: True: the same request may be sent again, after `wait_s`. False: it must not, or it would
            be in vain. None: it depends, and `retry` says on what.
        retry: the reason for `safe_to_retry`.
        wait_s: seconds to wait before that: what the answer asks for, else a value to start with and to
            increase; None where waiting is of no use.
        next_step: what to do.
        source: where the meaning is documented.
        operation: what the request was, where that is known.
        index: which operation of the batch this is about, from 0, or None.
        dependents: the operations of the batch that failed only because of it.
        activity_id: what Microsoft's support asks for, or None.
        notes: what else to know of this answer.
    """

    status: int | None
    substatus: int | None
    name: str
    kind: Kind
    cause: str
    who: Who
    safe_to_retry: bool | None
    retry: str
    wait_s: float | None
    next_step: str
    source: str
    operation: Operation | None = None
    index: int | None = None
    dependents: tuple[int, ...] = ()
    activity_id: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """`404/1002`, `404` where no substatus is known, or the name of what came instead of an answer."""
        if self.status is None:
            return self.name or "-"
        return str(self.status) if self.substatus is None else f"{self.status}/{self.substatus}"

    def to_json(self) -> dict[str, Any]:
        """Every attribute, of types that JSON has."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}
