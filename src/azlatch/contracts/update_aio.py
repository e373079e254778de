"""`contracts.aio.update_item`: asyncio."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from azlatch.contracts.update_call import Call, key_paths, prepared
from azlatch.contracts.update_errors import ConflictNeedsDecision
from azlatch.contracts.update_steps import Change, Done, Failed, Read, Reconcile, Replace, Update, Wait

if TYPE_CHECKING:
    from azure.cosmos.aio import ContainerProxy

    from azlatch.contracts.watch import Watch

    Item = dict[str, Any]


async def update_item(
    container: ContainerProxy,
    item_id: str,
    partition_key: Any,
    change: Callable[[Item], Item | Awaitable[Item | None] | None],
    *,
    reconcile: Callable[[Item, Item, Item], Item | Awaitable[Item]] | None = None,
    deadline: float = 10.0,
    based_on: Mapping[str, Any] | None = None,
) -> Update:
    """Changes one item so that nobody's change is lost, or says why not: `contracts.update_item`, awaited.

    `change` and `reconcile` may be coroutine functions. A task that is cancelled while a write is on its way
    leaves it open whether the write is applied, as every cancelled request does.

    Raises:
        ConflictNeedsDecision, ItemAbsent, BehindSession, UpdateTimeout, UpdateRefused, BackendThrottled,
        BackendUnavailable, BackendDenied, BackendMisconfigured, OutcomeUnknown, UsageError: as there.
    """
    core = prepared(item_id, change, reconcile, deadline)
    token: str | None = None
    guarded = guards_transport(container)
    step = core.start(time.monotonic(), based_on)
    while True:
        match step:
            case Read() | Replace():
                call = Call(container, core, step, token, sees_all=guarded)
                if guarded and isinstance(step, Replace):
                    call.options["middlewares"] = (once(call.watch),)
                try:
                    # The SDK's own timeouts do not cut the waits between its attempts.
                    async with asyncio.timeout(step.limit):
                        if isinstance(step, Read):
                            reply = await container.read_item(item_id, partition_key, **call.options)
                        else:
                            reply = await container.replace_item(item_id, step.body, **call.options)
                except Exception as error:  # noqa: BLE001 - what is none of the service's is raised again
                    step = call.failed(error)
                else:
                    step = call.succeeded(reply)
                token = call.token
            case Change(base):
                core.key_paths = key_paths(container)
                step = core.changed(time.monotonic(), await _result(change(base)), base)
            case Done(update):
                return update
            case Failed(error, cause):
                raise error from cause
            case Reconcile():
                assert reconcile is not None
                try:
                    proposal = await _result(reconcile(*step))
                except ConflictNeedsDecision as error:
                    raise core.decided(error) from None
                step = core.reconciled(time.monotonic(), proposal)
            case Wait(seconds):
                await asyncio.sleep(seconds)
                step = core.waited(time.monotonic())


def once(watch: Watch) -> Callable[[Any, Any], Awaitable[Any]]:
    """A middleware of aiohttp for one call: a write goes out once.

    aiohttp repeats PUT by itself if a connection that was used before breaks (`client.py`: idempotent methods),
    and with If-Match it is the second one whose answer comes: 412 for a write that was applied.
    """

    async def pass_once(request: Any, handler: Any) -> Any:
        watch.on_wire(request.method)
        return await handler(request)

    return pass_once


def guards_transport(container: Any) -> bool:
    """Whether the transport is the SDK's own, and its aiohttp takes a middleware for each request (3.12).

    If not, each refusal of a write may be that of a repetition, and the item has to tell.
    """
    try:
        transport = container.client_connection.pipeline_client._pipeline._transport
    except AttributeError:
        return False
    if type(transport).__module__ != "azure.core.pipeline.transport._aiohttp":
        return False
    # A session that someone else made may have middlewares of its own, which ours would replace.
    return _takes_middlewares() and not getattr(transport.session, "_middlewares", ())


@functools.cache
def _takes_middlewares() -> bool:
    try:
        from aiohttp import ClientSession
    except ModuleNotFoundError:
        return False
    return "middlewares" in inspect.signature(ClientSession._request).parameters


async def _result(value: Any) -> Any:
    if value is None or isinstance(value, dict):
        return value
    return await value if inspect.isawaitable(value) else value
