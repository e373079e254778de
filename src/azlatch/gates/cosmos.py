"""A gate for state that lies in a Cosmos DB item: the service itself refuses the stale writer (F5).

The newest fence is in the item that is guarded. A write is conditional on the version whose fence was compared,
a read is a patch under a filter predicate on the fence: compare and write are one step of the service. The
record of the latch is another item, always. The gate of `contracts.Batch` has the same field and the same
predicate: both may be used on one item.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from azlatch.errors import UsageError
from azlatch.gates.cosmos_answer import Answer
from azlatch.gates.cosmos_gate import ItemGate
from azlatch.gates.cosmos_run import Claim, Complete, Flow, Look, Make, Put, Step
from azlatch.gates.cosmos_wire import Call, definition_of
from azlatch.gates.fence import Acceptance, FenceSource, reporting

if TYPE_CHECKING:
    from azure.cosmos import ContainerProxy

T = TypeVar("T")


class CosmosGate(ItemGate):
    """Guards one item of Cosmos DB; every other writer of it has to go through a gate, too.

    It keeps the newest fence in `field`, the last sixteen writes in `azlatch_gate`, and sets `ttl` to -1. What
    the caller gives and gets is the rest of the item: its own properties, with id and partition key.

    Args:
        container: the user's own ContainerProxy; its retries may stay as they are.
        item_id, partition_key: of the item, which need not exist.
        field: the property of the newest fence.
        timeout: seconds for a call with all its requests.

    Raises:
        UsageError: one of these cannot be.

    Source: https://learn.microsoft.com/azure/cosmos-db/partial-document-update
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

    def write(
        self,
        fence: FenceSource,
        change: Mapping[str, Any] | Callable[[dict[str, Any] | None], Mapping[str, Any]],
    ) -> Acceptance:
        """Accepts the content, or what the function makes of the present one (None where there is none).

        The function may be called more than once: for as often as another write came between. The content takes
        the place of all that is there; id and partition key may be left out.

        Raises:
            FenceRejected: a newer fence was accepted, or there is none.
            BackendError: the service failed, or others kept coming between for the whole timeout; nothing was
                written.
            OutcomeUnknown: whether it was written is not known, and the item does not tell.
            UsageError: the content cannot be written, or what the gate keeps was changed by hand.
        """
        with reporting(fence, self._name):
            return self._keep(self._drive(self._run(fence).write(change, self._kept)))

    def read(self, fence: FenceSource) -> dict[str, Any] | None:
        """The content, None where there is none; from then on an older fence can write no more.

        It is a patch, of one request: only a write is certain to meet the newest version.

        Raises:
            FenceRejected: a newer fence was accepted, or there is none.
            BackendError: the service failed.
            UsageError: what the gate keeps was changed by hand.
        """
        with reporting(fence, self._name):
            return self._shown(self._drive(self._run(fence).read()))

    @property
    def newest(self) -> int | None:
        """The newest fence accepted, as the nearest replica knows it; None before the first."""
        return self._drive(self._run(0).look()).fence

    def history(self) -> tuple[Acceptance, ...]:
        """The newest acceptances (at most 16), in their order, as the nearest replica knows them."""
        return self._drive(self._run(0).look()).history()

    # What it takes.

    def _drive(self, flow: Flow[T]) -> T:
        answer: object = None
        while True:
            try:
                step = flow.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = self._carry_out(step)

    def _carry_out(self, step: Step) -> object:
        match step:
            case Look() | Claim() | Put():
                return self._ask(step)
            case Make(change, content):
                made = change(content)
                if inspect.iscoroutine(made):
                    made.close()
                    raise UsageError("this function is a coroutine: use CosmosGate of azlatch.gates.aio")
                return made
            case Complete(body):
                definition = definition_of(self._container)
                if definition is None:
                    definition = self._container.read()["partitionKey"]
                return self._complete(body, definition)
            case _:
                time.sleep(step.seconds)
                return None

    def _ask(self, step: Look | Claim | Put) -> Answer:
        call, container, key = Call(step), self._container, self._partition_key
        try:
            if isinstance(step, Look):
                found = container.read_item(self._id, key, **call.options)
            elif isinstance(step, Claim):
                found = container.patch_item(self._id, key, step.patches, **call.options)
            elif step.etag is None:
                found = container.create_item(step.body, **call.options)
            else:
                found = container.replace_item(self._id, step.body, **call.options)
        except Exception as error:  # noqa: BLE001 - what is not about the service is raised again
            return call.failed(error)
        return call.succeeded(found)
