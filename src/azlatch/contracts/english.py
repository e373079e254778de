"""English: reasons, notes and labels, beside the texts of the table."""

from __future__ import annotations

from azlatch.contracts.texts_english import TEXTS
from azlatch.contracts.words import Words

_REASONS = {
    "done": "It was done; sent again it would be done again.",
    "root": "It would fail again until the operation that is the cause has been dealt with.",
    "not_processed": "It was refused before it was carried out.",
    "refused_503": "The service answers 503 for what it did not process.",
    "same_answer": "The same request gets the same answer.",
    "ends_by_itself": "It was refused before it was carried out; what blocks it ends by itself.",
    "credentials": "The same request gets the same answer until the rights or the credential have changed.",
    "topology": "It was refused before it was carried out; it has to go to a region that takes it.",
    "caches": "What the request builds on belongs to a container that is gone.",
    "exists": "It would meet the same item again.",
    "reread": "The version it names is gone for good; only a new proposal on the new version can succeed.",
    "not_in_table": "Nobody can say before it is known what the answer means.",
    "retriable_writes": "What is stored decides: an earlier attempt may have been applied.",
    "unknown_any": "A read may be sent again. A write may have been applied: read it back first.",
    "unknown_read": "A read changes nothing: it may be sent again.",
    "unknown_create": (
        "If the create was applied, a second one gets 409 from your own item: it does no harm, but 409 then "
        "does not mean that somebody else was faster. An operation id in the item tells the two apart."
    ),
    "unknown_replace": (
        "With If-Match a second replace is harmless, and gets 412 from your own first one. Without a "
        "condition it silently overwrites what others wrote since. An operation id in the item tells own from "
        "foreign writes."
    ),
    "unknown_upsert": (
        "A second upsert silently overwrites what others wrote since, and If-Match does not keep it from "
        "making a missing item. Read it back; an operation id in the item tells own from foreign writes."
    ),
    "unknown_patch": (
        "A patch that adds (incr, or an append to a list) would be applied twice; one that only sets values "
        "would not show it. Read it back, and compare an operation id in the item."
    ),
    "unknown_delete": (
        "If the delete was applied, a second one gets 404, or deletes what somebody made under the same id "
        "since. Give it the ETag, and take 404 as done."
    ),
    "unknown_batch": (
        "A batch is applied as a whole or not at all: read one item that it writes. If that is as the batch "
        "makes it, all of it was applied; if it is as before, the batch may be sent again."
    ),
    "without_substatus": "It depends on the substatus, which is not known here.",
}
_NOTES = {
    "no_substatus": "No substatus was given, so {status}/0 is assumed. The status can also mean: {others}.",
    "unknown_substatus": "{status}/{substatus} is not in the table: this is what {status} means in general.",
    "client_made": "A substatus from 10000 on is made by a client, not by the service.",
    "substatus_alone": "{substatus} is a substatus and means nothing without its status; it can be: {others}.",
    "substatus_only_one": "{substatus} is a substatus; only one status is known with it, {code}.",
    "batch_root": (
        "Operation {index} of the batch, counted from 0, is the cause. {count} others answer 424 because of "
        "it, and nothing of the batch was applied."
    ),
    "batch_without_root": "The list has no operation that is the cause: it is not complete.",
    "batch_size": "The batch has {count} operations.",
    "own_create": (
        "It may be your own item: the SDK for Python sends a write again after 503, and the asyncio client "
        "after a lost connection."
    ),
    "own_write": (
        "The other writer may be yourself: the asyncio client sends a conditional write again after a lost "
        "connection, and the second one then meets the first. An operation id in the item tells."
    ),
    "own_delete": "After a delete whose reply was lost, this is what says that it was applied.",
    "tokens_dropped": (
        "The SDK for Python raises the same class for this as for an absent item, and forgets all session "
        "tokens of the container: its next reads ask for no session."
    ),
    "sdk_waited": "The SDK had been throttled {count} times, and had waited, before this answer.",
    "by_wording": "Told by the wording of the message alone; the numbers were not there.",
    "unknown_operation": "The operation that was named is none of those that are known; it was left out.",
}
_LABELS = {
    "kind": "kind",
    "cause": "cause",
    "who": "whose job",
    "retry": "send again",
    "next": "next step",
    "note": "note",
    "source": "source",
    "activity": "activity id",
    "operation": "operation",
    "true": "yes",
    "false": "no",
    "none": "it depends",
    "after": "after {seconds} s",
    "no_answer": "no answer",
}
_WHO = {
    "caller": "whoever wrote or runs the calling program",
    "data-model": "whoever designs the data: partition key, items",
    "capacity": "whoever provides the throughput",
    "operations": "whoever runs the account, the network and the identities",
    "service": "the service; wait, and ask its support if it lasts",
    "nobody": "nobody",
    "unknown": "not known",
}

WORDS = Words(TEXTS, _REASONS, _NOTES, _LABELS, _WHO)
