"""Gates for asyncio, over the asyncio clients of the SDKs."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from azlatch.gates.cosmos_answer import Answer
from azlatch.gates.cosmos_gate import ItemGate
from azlatch.gates.cosmos_run import Claim, Complete, Flow, Look, Make, Put, Step
from azlatch.gates.cosmos_wire import Call, definition_of
from azlatch.gates.fence import Acceptance, FenceSource, reporting

if TYPE_CHECKING:
    from azure.cosmos.aio import ContainerProxy

T = TypeVar("T")

__all__ = ["CosmosGate"]


class CosmosGate(ItemGate):
    """`azlatch.gates.CosmosGate`, awaited, over a ContainerProxy of `azure.cosmos.aio`.

    A task that is cancelled while a write is on its way leaves it open whether the write is accepted, as every
    cancelled request does.
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            container: ContainerProxy,
            item_id: str,
            partition_key: Any,
            *,
            field: str = "fence",
            timeout: float = 30.0,
        ) -> None: ...

    async def write(
        self,
        fence: FenceSource,
        change: Mapping[str, Any]
        | Callable[[dict[str, Any] | None], Mapping[str, Any] | Awaitable[Mapping[str, Any]]],
    ) -> Acceptance:
        """Accepts the content, or what the function (a coroutine function, too) makes of the present one.

        Raises:
            FenceRejected, BackendError, OutcomeUnknown, UsageError: as `azlatch.gates.CosmosGate.write`.
        """
        with reporting(fence, self._name):
            return self._keep(await self._drive(self._run(fence).write(change, self._kept)))

    async def read(self, fence: FenceSource) -> dict[str, Any] | None:
        """The content, None where there is none; from then on an older fence can write no more.

        Raises:
            FenceRejected, BackendError, UsageError: as `azlatch.gates.CosmosGate.read`.
        """
        with reporting(fence, self._name):
            return self._shown(await self._drive(self._run(fence).read()))

    async def newest(self) -> int | None:
        """The newest fence accepted, as the nearest replica knows it; None before the first."""
        return (await self._drive(self._run(0).look())).fence

    async def history(self) -> tuple[Acceptance, ...]:
        """The newest acceptances (at most 16), in their order, as the nearest replica knows them."""
        return (await self._drive(self._run(0).look())).history()

    # What it takes.

    async def _drive(self, flow: Flow[T]) -> T:
        answer: object = None
        while True:
            try:
                step = flow.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = await self._carry_out(step)

    async def _carry_out(self, step: Step) -> object:
        match step:
            case Look() | Claim() | Put():
                return await self._ask(step)
            case Make(change, content):
                made = change(content)
                return await made if inspect.isawaitable(made) else made
            case Complete(body):
                definition = definition_of(self._container)
                if definition is None:
                    definition = (await self._container.read())["partitionKey"]
                return self._complete(body, definition)
            case _:
                await asyncio.sleep(step.seconds)
                return None

    async def _ask(self, step: Look | Claim | Put) -> Answer:
        guarded = _takes_a_middleware(self._container)
        call, container, key = Call(step, sees_all=guarded), self._container, self._partition_key
        if guarded:
            call.options["middlewares"] = (_counting(call),)
        try:
            # The SDK's own timeouts do not cut the waits between its attempts.
            async with asyncio.timeout(step.limit):
                if isinstance(step, Look):
                    found = await container.read_item(self._id, key, **call.options)
                elif isinstance(step, Claim):
                    found = await container.patch_item(self._id, key, step.patches, **call.options)
                elif step.etag is None:
                    found = await container.create_item(step.body, **call.options)
                else:
                    found = await container.replace_item(self._id, step.body, **call.options)
        except Exception as error:  # noqa: BLE001 - what is not about the service is raised again
            return call.failed(error)
        return call.succeeded(found)


def _counting(call: Call) -> Callable[[Any, Any], Awaitable[Any]]:
    """A middleware of aiohttp for one call, which sees what aiohttp sends by itself, too."""

    async def count(request: Any, handler: Any) -> Any:
        call.on_wire(request.method)
        return await handler(request)

    return count


def _takes_a_middleware(container: Any) -> bool:
    """Whether the transport is the SDK's own, and its aiohttp has middlewares (3.12); else nothing is sure."""
    try:
        transport = container.client_connection.pipeline_client._pipeline._transport
    except AttributeError:
        return False
    if type(transport).__module__ != "azure.core.pipeline.transport._aiohttp":
        return False
    # A session that someone else made may have middlewares of its own, which ours would replace.
    return _has_middlewares() and not getattr(transport.session, "_middlewares", ())


@functools.cache
def _has_middlewares() -> bool:
    try:
        from aiohttp import ClientSession
    except ModuleNotFoundError:
        return False
    return "middlewares" in inspect.signature(ClientSession._request).parameters
