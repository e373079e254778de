"""How a batch is carried through: what to send next, given what came back. Pure: drivers do what it yields.

What is refused while it may come later (429, 449, 403/3, 404/1002, 410) is sent again within the deadline. What
has no telling answer is sent again only with `once`, whose marker proves whether it had been applied; and if
such a batch is refused in the end, the marker is taken first, so that no late send of it can be applied then.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from azlatch.contracts.batch import Operation
from azlatch.contracts.batch_answer import Answer, Applied, NotTaken, Refused, Unknown, judge
from azlatch.contracts.batch_errors import (
    BatchFailed,
    BatchNotTaken,
    BatchOutcomeUnknown,
    FailedOperation,
    words_for,
)
from azlatch.contracts.batch_plan import VOID, Plan
from azlatch.contracts.batch_result import BatchDiagnostics, BatchResult, OperationResult
from azlatch.errors import FenceRejected
from azlatch.gates.cosmos_fence import stored_fence

_NOTHING = "Nothing of the batch was written."
#: Waits between attempts, where the answer names none: doubled up to the longest.
SHORTEST_WAIT_S, LONGEST_WAIT_S = 0.02, 1.0
#: What is said of a marker that is there where it should not be, or is another one than was thought.
_OTHERWISE_THERE = ("absent", "already_exists", "stale_version")


@dataclass(frozen=True, slots=True)
class Send:
    """Send this batch; whatever it waits for, not longer than `left_s`. Wants an Answer."""

    operations: list[Operation]
    left_s: float


@dataclass(frozen=True, slots=True)
class Look:
    """Read this item, by a replica that has seen `session_token`. Wants an Answer."""

    item_id: str
    session_token: str | None
    left_s: float


@dataclass(frozen=True, slots=True)
class HandOn:
    """Tell the client's session of these headers. Wants a bool: whether it knows now."""

    headers: Mapping[str, str]
    results: list[Any]


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for so many seconds. Wants None."""

    seconds: float


Step = Send | Look | HandOn | Wait
Flow = Generator[Step, Any, Any]


class Run:
    """One call of `execute`.

    Args:
        plan: what is sent.
        deadline_s: after which nothing is sent again.
        clock: seconds, as of a monotonic clock.
        draw: a random number from 0 to 1, for each wait.
    """

    def __init__(
        self, plan: Plan, deadline_s: float, clock: Callable[[], float], draw: Callable[[], float]
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._draw = draw
        self._give_up = clock() + deadline_s
        self._pauses = 0
        self._token: str | None = None
        self._error: Exception | None = None
        #: Why a send of it may yet turn up, or None.
        self._unknown: Unknown | None = None
        self.diagnostics = BatchDiagnostics()

    def flow(self) -> Generator[Step, Any, BatchResult]:
        """Yields steps and takes their answers, until it returns the result.

        Raises:
            BatchFailed, BatchNotTaken, BatchOutcomeUnknown, FenceRejected, UsageError: as `execute`.
        """
        while True:
            answer = yield from self._send(self._plan.sent())
            verdict = judge(answer, self._plan.names())
            if isinstance(verdict, Applied):
                return self._result(verdict)
            if isinstance(verdict, Unknown) and not self._plan.only_reads:
                self._unknown = verdict
                self.diagnostics.unknowns += 1
                if self._plan.once is None:
                    raise self._outcome_unknown()
            if isinstance(verdict, Refused):
                ended = yield from self._refused(verdict)
                if ended is not None:
                    return ended
            else:
                yield from self._pause(verdict, answer)

    # -- refusals --------------------------------------------------------------------------------------

    def _refused(self, verdict: Refused) -> Generator[Step, Any, BatchResult | None]:
        """What a refusal leads to: an earlier result, an error, or None: send again."""
        root = verdict.root
        if root.operation == "once" and root.kind in _OTHERWISE_THERE:
            return (yield from self._marker_is_there())
        if root.operation == "guard" and root.kind in ("absent", "already_exists"):
            # The first use of a gate: of several, one creates it, and the others meet its fence.
            self._plan.gate_exists = root.kind == "already_exists"
            yield from self._pause(verdict, None)
            return None
        if self._unknown is not None:
            said = self._error
            earlier = yield from self._close()
            if earlier is not None:
                return earlier
            self._error = said
        if root.operation == "guard" and root.kind == "stale_version":
            yield from self._fence_rejected(root)
        raise self._failed(verdict)

    def _marker_is_there(self) -> Generator[Step, Any, BatchResult | None]:
        """The marker of `once` was in the way: what it says decides."""
        marker = yield from self._look_at_marker()
        if marker is None or self._plan.state_of(marker) == VOID:
            self._plan.void_etag = None if marker is None else str(marker.get("_etag"))
            yield from self._pause(Unknown("the marker was in the way, and says nothing"), None)
            return None
        own = self._plan.is_own(marker)
        results = tuple(
            OperationResult(each.name, each.item_id, None, None, None, 0.0) for each in self._plan.operations
        )
        return BatchResult(results, "applied" if own else "applied-earlier", self.diagnostics)

    def _look_at_marker(self) -> Generator[Step, Any, Mapping[str, Any] | None]:
        assert self._plan.once is not None
        while True:
            answer = yield from self._look(self._plan.once.item_id)
            if answer.results:
                found: Mapping[str, Any] = answer.results[0]
                return found
            if answer.status == 404 and answer.substatus != 1002:
                return None
            yield from self._pause(Unknown("the marker could not be read", answer.status), answer)

    def _close(self) -> Generator[Step, Any, BatchResult | None]:
        """Takes the marker, so that an earlier send cannot be applied any more; its result if it has been."""
        while True:
            answer = yield from self._send([self._plan.marker("void")])
            assert self._plan.once is not None
            verdict = judge(answer, [(None, "once", self._plan.once.item_id)])
            if isinstance(verdict, Applied):
                self._unknown = None
                return None
            if isinstance(verdict, Refused):
                if verdict.root.operation != "once" or verdict.root.kind not in _OTHERWISE_THERE:
                    raise self._outcome_unknown()
                marker = yield from self._look_at_marker()
                if marker is not None and self._plan.state_of(marker) != VOID:
                    return (yield from self._marker_is_there())
                if marker is not None and self._plan.is_own(marker):
                    self._unknown = None
                    return None
                self._plan.void_etag = None if marker is None else str(marker.get("_etag"))
            yield from self._pause(verdict, answer)

    def _fence_rejected(self, root: FailedOperation) -> Flow:
        """Raises FenceRejected with the newest fence, where the gate can be read."""
        guard = self._plan.guard
        assert guard is not None
        newest: int | None = None
        answer = yield from self._look(guard.item_id)
        if answer.results:
            found = stored_fence(answer.results[0], guard.field, f"the gate {guard.item_id!r}")
            newest = found if found is not None and found > guard.fence else None
        raise FenceRejected(
            f"the gate {guard.item_id!r} refused fence {guard.fence}: it has accepted "
            f"{'a newer one' if newest is None else newest}, so another holder came after. Nothing of the "
            "batch was written. Cure: stop, and take the latch again before anything else is done",
            offered=guard.fence,
            newest=newest,
        ) from self._failed(Refused(root))

    # -- errors ----------------------------------------------------------------------------------------

    def _failed(self, verdict: Refused | NotTaken, retry_after_s: float | None = None) -> BatchFailed:
        root = verdict.root
        cause, cure = words_for(root)
        for_good = isinstance(verdict, Refused)
        code = f"{root.code} {root.kind}" if root.status else root.kind
        became = "was refused" if for_good else "was not taken in time"
        text = f"{self._in_words(root)} {became}: {code}: {cause}. {_NOTHING} Cure: {cure}"
        if retry_after_s is not None:
            text += f"; retry after {retry_after_s * 1000:.0f} ms"
        error = (BatchFailed if for_good else BatchNotTaken)(
            text,
            root=root,
            dependents=verdict.dependents,
            retry_after_s=retry_after_s,
            diagnostics=self.diagnostics,
        )
        error.__cause__ = self._error
        return error

    def _in_words(self, root: FailedOperation) -> str:
        if root.index is not None:
            count = len(self._plan.operations)
            return f"operation {root.index + 1} of {count} ({root.operation} {root.item_id!r:.200})"
        return "the batch" if root.item_id is None else f"the item {root.item_id!r:.200} of {root.operation}"

    def _outcome_unknown(self) -> BatchOutcomeUnknown:
        assert self._unknown is not None
        writes = self._plan.writes
        shown = ", ".join(f"{name} {item_id!r:.60}" for name, item_id in writes[:5])
        more = f" and {len(writes) - 5} more" if len(writes) > 5 else ""
        if self._plan.once is None:
            cure = f"Look at its items ({shown}{more}), or let once(operation_id) make it safe to send again"
        else:
            cure = (
                f"Execute it again with the operation id {self._plan.once.operation_id!r}: it is applied once"
            )
        error = BatchOutcomeUnknown(
            f"whether the batch was applied is not known: {self._unknown.why}. All of it was, or nothing. "
            f"{cure}",
            items=writes,
            status=self._unknown.status,
            diagnostics=self.diagnostics,
        )
        error.__cause__ = self._error
        return error

    # -- steps -----------------------------------------------------------------------------------------

    def _send(self, operations: list[Operation]) -> Generator[Step, Any, Answer]:
        answer: Answer = yield Send(operations, max(0.0, self._give_up - self._clock()))
        self._note(answer)
        if answer.results is not None:
            # Of a refused one, too: who reads again after a 412 has to see what it was refused for.
            self.diagnostics.session_handed_on = yield HandOn(answer.headers, answer.results)
        return answer

    def _look(self, item_id: str) -> Generator[Step, Any, Answer]:
        answer: Answer = yield Look(item_id, self._token, max(0.0, self._give_up - self._clock()))
        self.diagnostics.request_charge += answer.charge
        if answer.results:
            # Who reads it has seen the whole batch, and the SDK keeps the tokens of reads itself.
            self._keep(answer)
            self.diagnostics.session_handed_on = self._token is not None
        return answer

    def _note(self, answer: Answer) -> None:
        self._error = answer.error
        seen = self.diagnostics
        seen.sends += answer.sends
        seen.throttles += answer.throttles
        seen.request_charge += answer.charge
        seen.activity_id = answer.headers.get("x-ms-activity-id") or seen.activity_id
        self._keep(answer)

    def _keep(self, answer: Answer) -> None:
        self._token = answer.headers.get("x-ms-session-token") or self._token
        self.diagnostics.session_token = self._token

    def _pause(self, verdict: Unknown | NotTaken | Refused | Applied, answer: Answer | None) -> Flow:
        """Waits before the next attempt, or raises where that would be after the deadline."""
        asked = answer.retry_after_s if answer is not None else None
        if isinstance(verdict, NotTaken):
            self.diagnostics.concurrent_writes += verdict.root.status == 449
            # Those that the SDK saw itself are counted already.
            inside = answer is not None and answer.results is not None
            self.diagnostics.throttles += verdict.root.status == 429 and inside
        backoff = min(LONGEST_WAIT_S, SHORTEST_WAIT_S * 2**self._pauses) * (0.5 + self._draw() / 2)
        seconds = max(asked or 0.0, backoff)
        self._pauses = min(self._pauses + 1, 16)
        if self._clock() + seconds > self._give_up:
            raise self._too_late(verdict, asked)
        self.diagnostics.waited_s += seconds
        yield Wait(seconds)

    def _too_late(self, verdict: Unknown | NotTaken | Refused | Applied, asked: float | None) -> Exception:
        if self._unknown is None and isinstance(verdict, NotTaken):
            return self._failed(verdict, asked)
        if self._unknown is None and isinstance(verdict, Refused):
            return self._failed(verdict)
        if self._unknown is None:
            self._unknown = verdict if isinstance(verdict, Unknown) else Unknown("the deadline passed")
        if self._plan.only_reads:
            root = FailedOperation(None, "batch", None, self._unknown.status or 0, None, "unavailable")
            return self._failed(NotTaken(root))
        return self._outcome_unknown()

    def _result(self, verdict: Applied) -> BatchResult:
        pairs = zip(self._plan.names(), verdict.results, strict=True)
        results = tuple(
            _of_one(name, item_id, each) for (index, name, item_id), each in pairs if index is not None
        )
        return BatchResult(results, "applied", self.diagnostics)


def _of_one(name: str, item_id: str, answer: Mapping[str, Any]) -> OperationResult:
    body, etag, charge = answer.get("resourceBody"), answer.get("eTag"), answer.get("requestCharge")
    return OperationResult(
        name,
        item_id,
        int(answer["statusCode"]),
        dict(body) if isinstance(body, Mapping) else None,
        etag if isinstance(etag, str) else None,
        float(charge) if isinstance(charge, int | float) else 0.0,
    )
