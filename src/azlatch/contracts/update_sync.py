"""`contracts.update_item`: threads."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from azlatch.contracts.update_call import Call, key_paths, prepared
from azlatch.contracts.update_errors import ConflictNeedsDecision
from azlatch.contracts.update_steps import Change, Done, Failed, Read, Reconcile, Replace, Update, Wait
from azlatch.errors import UsageError

if TYPE_CHECKING:
    from azure.cosmos import ContainerProxy

    Item = dict[str, Any]


def update_item(
    container: ContainerProxy,
    item_id: str,
    partition_key: Any,
    change: Callable[[Item], Item | None],
    *,
    reconcile: Callable[[Item, Item, Item], Item] | None = None,
    deadline: float = 10.0,
    based_on: Mapping[str, Any] | None = None,
) -> Update:
    """Changes one item so that nobody's change is lost, or says why not.

    The item is read, `change` is called once with a copy, and the result is written on the condition that the
    item is still the one that was read. The update writes its id into the item's property `azlatch_ops`, and
    knows from that whether a write whose answer was lost was applied.

    Args:
        container: the SDK's own; its session, retries and regions are used.
        change: returns the changed item, or changes its copy and returns None. It is never called again.
        reconcile: called with `(base, theirs, mine)` when someone else was first; returns what to propose
            instead of `mine`, or raises ConflictNeedsDecision. `three_way`, `numeric_delta` and
            `append_to_set` are ready ones. Without a rule each conflict needs a decision.
        deadline: seconds for all of it. What `change` and `reconcile` take is counted, and not cut short.
        based_on: the item as it was read before, for example what a user has seen: saves the read, and whoever
            changed it since is noticed.

    Returns:
        What became of it; `applied` means exactly once.

    Raises:
        ConflictNeedsDecision: someone else changed it, and there is no rule, or the rule says so.
        ItemAbsent: there is no such item under this key.
        BehindSession: no replica had what this client has already seen, until the deadline.
        UpdateTimeout: the deadline came while others were faster.
        UpdateRefused, BackendThrottled, BackendUnavailable, BackendDenied, BackendMisconfigured: the service
            does not do it. In all these cases nothing was written.
        OutcomeUnknown: a write may or may not have been applied, and the item does not tell.
        UsageError: the id, the partition key or a system property was changed, or an argument makes no sense.
    """
    core = prepared(item_id, change, reconcile, deadline)
    token: str | None = None
    step = core.start(time.monotonic(), based_on)
    while True:
        match step:
            case Read() | Replace():
                call = Call(container, core, step, token)
                try:
                    if isinstance(step, Read):
                        reply = container.read_item(item_id, partition_key, **call.options)
                    else:
                        reply = container.replace_item(item_id, step.body, **call.options)
                except Exception as error:  # noqa: BLE001 - what is none of the service's is raised again
                    step = call.failed(error)
                else:
                    step = call.succeeded(reply)
                token = call.token
            case Change(base):
                core.key_paths = key_paths(container)
                step = core.changed(time.monotonic(), _plain(change(base)), base)
            case Done(update):
                return update
            case Failed(error, cause):
                raise error from cause
            case Reconcile():
                assert reconcile is not None
                try:
                    proposal = reconcile(*step)
                except ConflictNeedsDecision as error:
                    raise core.decided(error) from None
                step = core.reconciled(time.monotonic(), _plain(proposal))
            case Wait(seconds):
                time.sleep(seconds)
                step = core.waited(time.monotonic())


def _plain(result: Any) -> Any:
    if result is not None and inspect.iscoroutine(result):
        result.close()
        raise UsageError("this function is a coroutine: use update_item of azlatch.contracts.aio")
    return result
