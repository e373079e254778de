"""A batch over a container of `azure.cosmos.aio`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from azlatch.contracts import batch_sdk as sdk
from azlatch.contracts.batch_answer import Answer
from azlatch.contracts.batch_driver import DrivenBatch
from azlatch.contracts.batch_result import BatchResult
from azlatch.contracts.batch_run import HandOn, Look, Send, Step, Wait


class Batch(DrivenBatch):
    """Operations on items of one partition key, applied by the service all together or not at all.

    ::

        b = aio.Batch(container, "fund-1")
        b.replace("position", position, etag=position["_etag"])
        b.create({"id": "trade-7", "fund": "fund-1", "amount": 5})
        result = await b.execute()
    """

    async def execute(self, *, deadline: float = 30.0) -> BatchResult:
        """Sends it, and returns what became of each operation once all of them were applied.

        Args:
            deadline: seconds; nothing is sent again after that. A send that is under way has until then, and at
                least half a second.

        Raises:
            BatchFailed: nothing was written; `root` is the operation that is the cause.
            BatchNotTaken: (one of these) not taken within the deadline; nothing was written.
            BatchOutcomeUnknown: all of it was written, or nothing.
            FenceRejected: the gate of `guard` has accepted a newer fence; nothing was written.
            UsageError: the service would refuse it; nothing was sent.
        """
        seconds = sdk.check_deadline(deadline)
        began = time.monotonic()
        properties = await self._describe(seconds)
        flow = self._begin(seconds, time.monotonic() - began, properties)
        step = next(flow)
        while True:
            try:
                step = flow.send(await self._carry_out(step))
            except StopIteration as end:
                result: BatchResult = end.value
                return result

    async def _describe(self, left_s: float) -> Mapping[str, Any]:
        known = sdk.known_properties(self._container)
        if known is not None:
            return known
        options = sdk.describe_options(left_s)
        try:
            return sdk.remember_properties(self._container, await self._container.read(**options))
        except Exception as error:
            raise self._not_described(sdk.answer_of_error(error)) from error

    async def _carry_out(self, step: Step) -> object:
        if isinstance(step, Send):
            return await self._send(step)
        if isinstance(step, Look):
            return await self._look(step)
        if isinstance(step, HandOn):
            return sdk.hand_on(self._container, step.headers, step.results)
        assert isinstance(step, Wait)
        await asyncio.sleep(step.seconds)
        return None

    async def _send(self, step: Send) -> Answer:
        sends = sdk.Sends(self._container, step.left_s)
        operations = [each.for_sdk() for each in step.operations]
        options = sends.options(step.left_s)
        try:
            results = await self._container.execute_item_batch(operations, self._partition_key, **options)
            return sends.answer_of(results)
        except Exception as error:  # noqa: BLE001 - raised again if it is not about the service
            return sends.answer_of_error(error)

    async def _look(self, step: Look) -> Answer:
        look = sdk.Look(self._container, step.left_s)
        options = look.options(step.session_token)
        try:
            return look.answer(await self._container.read_item(step.item_id, self._partition_key, **options))
        except Exception as error:  # noqa: BLE001 - raised again if it is not about the service
            return look.answer_of_error(error)
