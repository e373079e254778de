"""How a gate around one Cosmos DB item reads and writes. Pure: drivers do what it yields, and report.

::

    Look ──▶ Make ──▶ Put ──done──▶ accepted
              ▲        ├──429, 449, 403/3 …──▶ Wait ──▶ Put, the same
              │        ├──412, 409: another was first──▶ Look ──▶ (the fence is compared again)
              └────────┴──nobody knows, or the look is behind──▶ Claim ──▶ (ours is in it: accepted)

A Put is conditional on the version whose fence was compared, so the service compares and writes in one step. A
Claim is a patch that the service takes if no newer fence is stored: it notes the fence and gives the item back
as the write region has it. It is harmless to send twice, no replica that lags can answer it, and as it makes
another version, no earlier Put can be applied after it: what it shows of that one is final.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple, TypeVar

from azlatch.errors import BackendUnavailable, FenceRejected, LatchError, OutcomeUnknown
from azlatch.gates.cosmos_answer import Answer, error_of, kind_of
from azlatch.gates.cosmos_fence import fence_patch, fence_predicate
from azlatch.gates.cosmos_record import PROPERTY, Record, Seen
from azlatch.gates.fence import Acceptance, check_fence

#: The shortest time that a request is given, seconds.
LEAST_REQUEST = 0.05
_SHORTEST_WAIT, _LONGEST_WAIT = 0.02, 1.0
#: How often an item may be there for a create and not there for the claim after it: someone may delete it.
_MOST_COLLISIONS = 3

Change = Mapping[str, Any] | Callable[[dict[str, Any] | None], Any]


class Look(NamedTuple):
    """Read the item, by whatever replica. Wants an Answer."""

    limit: float


class Claim(NamedTuple):
    """Patch the item under a filter predicate. Wants an Answer with the item."""

    patches: list[dict[str, Any]]
    predicate: str
    limit: float


class Put(NamedTuple):
    """Replace the version `etag`, or create the item where that is None. Wants an Answer with the item."""

    body: dict[str, Any]
    etag: str | None
    limit: float


class Make(NamedTuple):
    """Call the caller's function with the present content, a copy. Wants what it returns."""

    change: Callable[[dict[str, Any] | None], Any]
    content: dict[str, Any] | None


class Complete(NamedTuple):
    """Give a new item the partition key, and check it. Wants the item."""

    body: dict[str, Any]


class Wait(NamedTuple):
    """Wait for so many seconds. Wants None."""

    seconds: float


Step = Look | Claim | Put | Make | Complete | Wait
T = TypeVar("T")
Flow = Generator[Step, Any, T]


class Accepted(NamedTuple):
    """A write that is in the item, and the item after it, where that is known."""

    acceptance: Acceptance
    seen: Seen | None


class _Doubt(NamedTuple):
    """A Put that may have been applied, or may still be: what it was conditional on, and why nobody knows."""

    basis: Seen
    answer: Answer


class Run:
    """One call of a gate.

    Args:
        record: how the gate writes itself.
        gate: the gate in words.
        field: where the fence stands.
        offered: the fence that came.
        write: the id of this write; nobody else's.
        timeout: seconds for all of it.
        clock: seconds, as of a monotonic clock.
        draw: numbers from 0 to 1, for jitter.
    """

    def __init__(
        self,
        record: Record,
        gate: str,
        field: str,
        offered: int,
        write: str,
        *,
        timeout: float,
        clock: Callable[[], float],
        draw: Callable[[], float],
    ) -> None:
        self._record = record
        self._gate = gate
        self._field = field
        self._offered = offered
        self._write = write
        self._clock = clock
        self._draw = draw
        self._timeout = timeout
        self._give_up = clock() + timeout
        self._streak = 0
        self._collisions = 0
        self._doubt: _Doubt | None = None

    # What a gate does.

    def write(self, change: Change, start: Seen | None) -> Flow[Accepted]:
        """Writes; `start` is what the last call left, to be tried first.

        Raises:
            FenceRejected, BackendError, OutcomeUnknown, UsageError: as `CosmosGate.write`.
        """
        seen = start if start is not None else (yield from self.look())
        while True:
            check_fence(self._offered, seen.fence, self._gate)
            content = change
            if callable(content):
                content = yield Make(content, copy.deepcopy(seen.content))
            body = self._record.body(content, seen, self._offered, self._write)
            ended = yield from self._put((yield Complete(body)), seen)
            if isinstance(ended, Accepted):
                return ended
            seen = ended

    def read(self) -> Flow[Seen]:
        """Takes the fence, and gives the item as it is from then on for older ones.

        Raises:
            FenceRejected, BackendError, UsageError: as `CosmosGate.read`.
        """
        found = yield from self._claim()
        check_fence(self._offered, found.fence, self._gate)
        return found

    # Requests.

    def _put(self, body: dict[str, Any], basis: Seen) -> Flow[Accepted | Seen]:
        """Sends it until it is accepted, or until it is known on what to write instead."""
        while True:
            answer: Answer = yield Put(body, basis.etag, self._limit())
            kind = kind_of(answer)
            if kind == "done":
                assert answer.item is not None
                accepted = Acceptance(basis.order + 1, self._offered)
                return Accepted(accepted, self._record.seen(answer.item, answer.etag) if answer.item else None)
            if not answer.sure:
                self._doubt = _Doubt(basis, answer)
                yield from self._pause(error_of(answer, self._gate), answer)
                return (yield from self._settle())
            if kind == "refused" or (kind == "exists" and basis.etag is not None):
                raise self._fail(error_of(answer, self._gate), answer)
            if kind != "later":
                return (yield from self._after_another(basis, answer))
            yield from self._pause(error_of(answer, self._gate), answer)

    def _after_another(self, basis: Seen, answer: Answer) -> Flow[Accepted | Seen]:
        """What to write on, after the service said that the version is another one."""
        if self._doubt is None:
            found = yield from self.look()
            if found.etag is not None and found.etag != basis.etag:
                yield from self._pause(
                    BackendUnavailable(
                        f"others wrote to {self._gate} for {self._timeout:g} s, each time before this one"
                    ),
                    None,
                )
                return found
        # The look was of a replica that is behind, or something of ours is on its way: only a write tells.
        found_or_ours = yield from self._settle()
        if isinstance(found_or_ours, Seen) and found_or_ours.etag is None and kind_of(answer) == "exists":
            # It is not there, and it cannot be made: another item has what has to be unique.
            self._collisions += 1
            if self._collisions == _MOST_COLLISIONS:
                raise self._fail(error_of(answer, self._gate), answer)
            yield from self._pause(error_of(answer, self._gate), answer)
        return found_or_ours

    def look(self) -> Flow[Seen]:
        """The item as some replica has it."""
        answer: Answer = yield Look(self._limit())
        kind = kind_of(answer)
        if kind == "done":
            assert answer.item is not None
            return self._record.seen(answer.item, answer.etag)
        if kind == "absent":
            return Seen()
        if kind != "later":
            yield from self._passing(answer)
        return (yield from self._claim())

    def _claim(self) -> Flow[Seen]:
        """The item as the write region has it; older fences are out from then on, and earlier writes, too."""
        patches = fence_patch(self._field, self._offered)
        predicate = fence_predicate(self._field, self._offered)
        while True:
            answer: Answer = yield Claim(patches, predicate, self._limit())
            kind = kind_of(answer)
            if kind == "done" and answer.item:
                return self._record.seen(answer.item, answer.etag)
            if kind == "absent":
                return Seen()
            if kind == "stale":
                return (yield from self._newer())
            yield from self._passing(answer)

    def _newer(self) -> Flow[Seen]:
        """The item with the newer fence, because of which a claim was refused.

        Raises:
            FenceRejected: what can be read is older than that, and nothing depends on it.
        """
        while True:
            answer: Answer = yield Look(self._limit())
            kind = kind_of(answer)
            if kind == "done":
                assert answer.item is not None
                found = self._record.seen(answer.item, answer.etag)
                if found.fence is not None and found.fence > self._offered:
                    return found
            refused = FenceRejected(
                f"{self._gate} refused fence {self._offered}: it has accepted a newer one, so another holder "
                "came after",
                offered=self._offered,
            )
            if self._doubt is None:
                raise refused
            yield from self._pause(refused, answer)

    def _settle(self) -> Flow[Accepted | Seen]:
        """What became of a Put that nobody knows of, or what to write on.

        Raises:
            OutcomeUnknown: the item does not tell.
        """
        found = yield from self._claim()
        doubt = self._doubt
        if doubt is None:
            return found
        if found.etag is None:
            if doubt.basis.etag is None:
                # It may still come. Of all our creates one alone can succeed, and the next one tells.
                return found
            raise self._unknown("the item was deleted since")
        number = doubt.basis.order + 1
        written = found.write_of(number)
        if written == self._write:
            return Accepted(Acceptance(number, self._offered), None)
        if written is None and found.order != doubt.basis.order:
            raise self._unknown("the item does not tell any more")
        self._doubt = None
        return found

    # Ends and pauses.

    def _limit(self) -> float:
        """Half of what is left, so that a request that hangs leaves time to find out what became of it."""
        return max((self._give_up - self._clock()) / 2, LEAST_REQUEST)

    def _passing(self, answer: Answer) -> Flow[None]:
        """Waits after a request that may be sent again."""
        error = error_of(answer, self._gate)
        if kind_of(answer) not in ("later", "unknown", "done"):
            raise self._fail(error, answer)
        yield from self._pause(error, answer)

    def _pause(self, error: LatchError, answer: Answer | None) -> Flow[None]:
        """Waits, or ends with `error` where the wait would be over too late."""
        seconds = min(_SHORTEST_WAIT * 2 ** min(self._streak, 10), _LONGEST_WAIT) * (0.5 + self._draw() / 2)
        if answer is not None and answer.retry_after is not None:
            # What is asked for, and a little more: not everybody comes back at the same moment.
            seconds = answer.retry_after * (1 + self._draw() / 10)
        self._streak += 1
        if self._clock() + seconds >= self._give_up:
            raise self._fail(error, answer)
        yield Wait(seconds)

    def _fail(self, error: LatchError, answer: Answer | None) -> LatchError:
        if self._doubt is not None:
            return self._unknown(str(error))
        error.__cause__ = answer.cause if answer is not None else None
        return error

    def _unknown(self, why: str) -> OutcomeUnknown:
        assert self._doubt is not None
        error = OutcomeUnknown(
            f"whether {self._gate} accepted a write is unknown ({self._doubt.answer}): {why}. Its id is "
            f"{self._write}, see {PROPERTY!r} of the item"
        )
        error.__cause__ = self._doubt.answer.cause
        return error
