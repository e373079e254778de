"""What the two drivers share: the steps of a call of `execute`, made ready."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Generator, Mapping
from typing import Any

from azlatch.contracts import batch_sdk as sdk
from azlatch.contracts.batch import BatchBuilder
from azlatch.contracts.batch_answer import Answer, NotTaken, Refused, judge
from azlatch.contracts.batch_errors import BatchFailed, BatchNotTaken, BatchOutcomeUnknown, words_for
from azlatch.contracts.batch_plan import Plan
from azlatch.contracts.batch_result import BatchResult
from azlatch.contracts.batch_run import Run, Step
from azlatch.errors import LatchError, UsageError
from azlatch.gates.fence import reporting

#: What may mean that what is known of the container is not so any more.
_OTHER_CONTAINER = ("container_changed", "owner_missing", "bad_request", "immutable_partition_key")


class DrivenBatch(BatchBuilder):
    """A batch that a driver can carry out."""

    def _begin(
        self, deadline: float, spent: float, properties: Mapping[str, Any]
    ) -> Generator[Step, Any, BatchResult]:
        """The steps of one call of `execute`, of whose time some is spent."""
        if self._spent:
            raise UsageError(f"the batch {self._spent}: build another one")
        plan = Plan(
            self._operations,
            self._guard,
            self._once,
            self._partition_key,
            properties,
            run=uuid.uuid4().hex,
            deadline_s=deadline,
            escaped=sdk.escapes(self._container),
        )
        return self._watched(Run(plan, max(0.0, deadline - spent), time.monotonic, random.random))

    def _watched(self, run: Run) -> Generator[Step, Any, BatchResult]:
        """The same steps; what they end in decides whether the batch may be executed again."""
        source = self._guard.source if self._guard is not None else None
        writes = self._guard is not None or any(each.writes for each in self._operations)
        # Until it is known what became of it, also where an interrupt or a cancellation ends this call.
        self._spent = "may have been applied" if writes and self._once is None else ""
        try:
            with reporting(source, f"the gate {self._guard.item_id if self._guard else ''!r}"):
                result = yield from run.flow()
        except BatchOutcomeUnknown:
            raise
        except LatchError as failed:
            self._spent = ""
            self._look_again(failed)
            raise
        self._spent = "was applied"
        return result

    def _look_again(self, failed: LatchError) -> None:
        """Forgets what was read of the container where it may be another one now."""
        if isinstance(failed, BatchFailed) and failed.root.kind in _OTHER_CONTAINER:
            sdk.forget_properties(self._container)

    def _not_described(self, answer: Answer) -> BatchFailed:
        """The error where the container could not be read, before anything was sent."""
        verdict = judge(answer, [])
        if not isinstance(verdict, Refused | NotTaken):
            verdict = judge(Answer(503, not_sent=True), [])
        assert isinstance(verdict, Refused | NotTaken)
        kind = BatchFailed if isinstance(verdict, Refused) else BatchNotTaken
        cause, cure = words_for(verdict.root)
        return kind(
            f"the container could not be read ({verdict.root.code} {verdict.root.kind}): {cause}. Nothing was "
            f"sent. Cure: {cure}",
            root=verdict.root,
            retry_after_s=answer.retry_after_s,
        )
