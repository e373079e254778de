"""Read, change, replace with If-Match: one update of one item, as a pure machine.

The driver carries out the one step that comes back and reports what happened; each report returns the next::

    start ──▶ Read ──▶ Change ──same as before──▶ Done(unchanged)
                         └──▶ Replace ──written──▶ Done(applied)
                               │ ├──429, 449, 403/3 …──▶ Wait ──▶ Replace, the same
                               │ └──412, or nobody knows──▶ Read ┬─our id is in it──▶ Done(applied)
                               │                                 ├─unchanged──▶ Replace, the same
                               │                                 ├─changed, and certainly without ours──▶
                               │                                 │    Reconcile ──▶ Replace, on that version
                               └──refused──▶ Failed              └─changed, and nothing proved──▶ Failed

One id stands for the whole update, whatever is sent for it: whichever of its writes lands, it lands once, and
the item says so. Every Replace has a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from azlatch.contracts.answer import Answer, Spent
from azlatch.contracts.difference import SYSTEM_PROPERTIES, differences
from azlatch.contracts.json_value import copied, same
from azlatch.contracts.operations import PROPERTY, Operations
from azlatch.contracts.refusal import (
    error_of,
    is_absent,
    is_behind,
    is_passing,
    is_perhaps_applied,
    is_stale,
)
from azlatch.contracts.session_errors import BehindSession
from azlatch.contracts.update_errors import ConflictNeedsDecision, UpdateTimeout
from azlatch.contracts.update_steps import (
    Change,
    Done,
    Failed,
    Read,
    Reconcile,
    Replace,
    Step,
    Update,
    Wait,
)
from azlatch.errors import LatchError, OutcomeUnknown, UsageError

#: The shortest time that a request is given, seconds.
LEAST_REQUEST = 0.05
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0
_NOT_OWN = (*sorted(SYSTEM_PROPERTIES), PROPERTY)


class _Doubt(NamedTuple):
    """A write that may have landed or may still land: its condition, and the newest id that it began with."""

    etag: str
    newest: str | None


class Updating:
    """One update, from its first read to its end.

    Args:
        item_id: the item's.
        operation: the id of this update; nobody else's.
        deadline: when it has to be over, on the caller's clock.
        random: numbers from 0 to 1, for jitter.
        has_rule: whether there is someone to ask about conflicts.
    """

    # What is the same for all at first is kept once.

    #: The paths of the partition key, each as its names; the driver sets it once it knows them.
    key_paths: Sequence[Sequence[str]] = ()
    _etag = ""
    _operations = Operations()
    _proposal: dict[str, Any] | None = None
    _refused = False
    _writing = False
    _was_behind = False
    _streak = 0
    _attempts = 0
    _conflicts = 0
    _charge = 0.0
    _throttles = 0
    _last: tuple[LatchError, BaseException | None] | None = None

    def __init__(
        self,
        item_id: str,
        *,
        operation: str,
        deadline: float,
        random: Callable[[], float],
        has_rule: bool = False,
    ) -> None:
        self._id = item_id
        self._operation = operation
        self._deadline = deadline
        self._random = random
        self._has_rule = has_rule
        self._stored: dict[str, Any] = {}
        self._theirs: dict[str, Any] = {}
        self._doubts: list[_Doubt] = []

    # What the driver reports.

    def start(self, now: float, based_on: Mapping[str, Any] | None = None) -> Step:
        """The beginning: with a version that was read before, or without."""
        if based_on is None:
            return self._read(now)
        return self._begin(copied(based_on, "based_on"), None)

    def read(self, now: float, item: Mapping[str, Any], etag: str | None, spent: Spent) -> Step:
        """The item was read."""
        self._pay(spent)
        found = dict(item)
        return self._begin(found, etag) if self._proposal is None else self._read_back(now, found, etag)

    def changed(self, now: float, proposal: Any, given: dict[str, Any]) -> Step:
        """The caller's change returned `proposal`; `given` is the copy that it got, as it left it."""
        wanted = given if proposal is None else proposal
        self._proposal = self._checked(wanted, (self._stored,), "the change")
        return self._propose(now)

    def reconciled(self, now: float, proposal: Any) -> Step:
        """The caller's rule returned the next proposal."""
        if proposal is None:
            raise UsageError("the rule returned nothing: return a proposal, or raise ConflictNeedsDecision")
        self._proposal = self._checked(proposal, (self._theirs, self._stored), "the rule")
        self._stored, self._theirs = self._theirs, {}
        self._etag = self._stored["_etag"]
        self._operations = Operations.of(self._stored)
        return self._propose(now)

    def replaced(self, item: Mapping[str, Any] | None, etag: str | None, spent: Spent) -> Step:
        """The write was answered with success; without `item` where the client asks for no content."""
        self._pay(spent)
        stored = dict(item) if item else self._body()
        return self._applied(stored, etag or str(stored.get("_etag", "")), recovered=False)

    def failed(self, now: float, answer: Answer, spent: Spent) -> Step:
        """The request failed."""
        self._pay(spent)
        if self._writing:
            return self._write_failed(now, answer)
        return self._read_failed(now, answer)

    def waited(self, now: float) -> Step:
        """The time to wait is over."""
        if now >= self._deadline:
            return self._out_of_time()
        return self._replace(now) if self._writing else self._read(now)

    # Reading.

    def _read(self, now: float) -> Step:
        if now >= self._deadline:
            return self._out_of_time()
        self._writing = False
        return Read(self._limit(now))

    def _begin(self, item: dict[str, Any], etag: str | None) -> Step:
        etag = etag or item.get("_etag")
        if not isinstance(etag, str) or not etag or etag == "*":
            # Without a version there would be no condition, and the update would overwrite whatever comes.
            raise UsageError(f"item {self._id!r} has no _etag: read it whole, with point reads or SELECT *")
        if item.get("id") != self._id:
            raise UsageError(f"this is item {item.get('id')!r}, and {self._id!r} is to be updated")
        item["_etag"] = etag
        self._stored, self._etag = item, etag
        self._operations = Operations.of(item)
        self._streak = 0
        return Change(_visible(item))

    def _read_back(self, now: float, theirs: dict[str, Any], etag: str | None) -> Step:
        etag = etag or theirs.get("_etag")
        try:
            operations = Operations.of(theirs)
        except UsageError:
            if self._doubts:
                return self._unknown("the item's list of operations is damaged")
            raise
        if operations.has(self._operation):
            return self._applied(theirs, str(etag), recovered=True)
        if etag == self._etag:
            if not self._refused:
                # The same once more: same id, same condition, so that at most one of the two can land.
                return self._replace(now)
            # The write was told that this version is over: what answers the reads lags. The next write tells.
            self._writing = True
            return self._pause(now, BehindSession(f"reads of item {self._id!r} lag behind its writes"))
        if not isinstance(etag, str):
            raise UsageError(f"item {self._id!r} has no _etag")
        for doubt in self._doubts:
            if not operations.used_up(doubt.etag) and not operations.has(doubt.newest):
                return self._unknown("the item does not tell any more whether this update is in it")
        self._doubts.clear()
        theirs["_etag"] = etag
        return self._conflict(now, theirs)

    def _read_failed(self, now: float, answer: Answer) -> Step:
        if is_absent(answer) and self._was_behind and not answer.with_token:
            # The SDK has dropped the token: whoever answers now has not necessarily caught up.
            answer = answer._replace(substatus=1002)
        self._was_behind = self._was_behind or is_behind(answer)
        if is_passing(answer):
            return self._pause(now, self._error(answer), answer)
        return self._fail(self._error(answer), answer.cause)

    # Writing.

    def _propose(self, now: float) -> Step:
        assert self._proposal is not None
        before = _own(self._stored)
        # What is not equal in Python is not the same in JSON either; it is told sooner.
        if self._proposal == before and same(self._proposal, before):
            return Done(self._update("unchanged", self._stored, self._etag))
        self._streak = 0
        return self._replace(now)

    def _replace(self, now: float) -> Step:
        if now >= self._deadline:
            return self._out_of_time()
        self._writing, self._refused = True, False
        self._attempts += 1
        return Replace(self._body(), self._etag, self._limit(now))

    def _write_failed(self, now: float, answer: Answer) -> Step:
        if not answer.sure:
            self._doubts.append(_Doubt(self._etag, self._operations.newest))
        if is_stale(answer):
            self._refused = True
            return self._read(now)
        error = self._error(answer)
        if is_perhaps_applied(answer):
            self._last = (error, answer.cause)
            self._streak += 1
            self._writing = False
            return self._read(now) if self._streak < 2 else self._pause(now, error, answer)
        if is_passing(answer):
            return self._pause(now, error, answer)
        return self._fail(error, answer.cause)

    def _conflict(self, now: float, theirs: dict[str, Any]) -> Step:
        assert self._proposal is not None
        self._conflicts += 1
        base, mine = _visible(self._stored), copied(self._proposal)
        if not self._has_rule:
            return Failed(self.undecided(_visible(theirs), base, mine))
        if now >= self._deadline:
            return self._out_of_time()
        self._theirs = theirs
        return Reconcile(base, _visible(theirs), mine)

    def undecided(
        self, theirs: dict[str, Any], base: dict[str, Any], mine: dict[str, Any]
    ) -> ConflictNeedsDecision:
        """What is raised where there is no rule."""
        found = differences(base, theirs, mine)
        clashing = [each for each in found if each.is_conflict]
        what = ", ".join(each.path for each in (clashing or found)[:5]) or "only what the service sets"
        return ConflictNeedsDecision(
            f"item {self._id!r} was changed by someone else after it was read ({what}): nothing was written; "
            "compare base, theirs and mine, or give update_item a rule",
            base=base,
            theirs=theirs,
            mine=mine,
            differences=found,
            etag=theirs.get("_etag"),
            item_id=self._id,
        )

    def decided(self, error: ConflictNeedsDecision) -> ConflictNeedsDecision:
        """The rule's own refusal, with what only the machine knows."""
        error.etag = error.etag or self._theirs.get("_etag")
        error.item_id = error.item_id or self._id
        return error

    # What is written.

    def _body(self) -> dict[str, Any]:
        assert self._proposal is not None
        return {**self._proposal, PROPERTY: self._operations.then(self._operation, self._etag)}

    def _checked(self, proposal: Any, versions: Sequence[Mapping[str, Any]], whose: str) -> dict[str, Any]:
        """The item to write, without what the service and update_item put into it."""
        if type(proposal) is not dict and not isinstance(proposal, Mapping):
            raise UsageError(f"{whose} returned a {type(proposal).__name__}: return the item as a dict")
        wanted: dict[str, Any] = copied(proposal, f"the item that {whose} returned")
        if wanted.get("id") != self._id:
            raise UsageError(
                f"{whose} made the id {wanted.get('id')!r} of {self._id!r}: an id cannot be changed"
            )
        stored = versions[0]
        for name in _NOT_OWN:
            value = wanted.pop(name, _NOTHING)
            if value is _NOTHING or value is stored.get(name) or name == PROPERTY:
                continue
            if not any(same(value, each.get(name)) for each in versions):
                raise UsageError(f"{whose} changed {name}, which the service alone sets")
        for path in self.key_paths:
            if not same(_at(wanted, path), _at(stored, path)):
                raise UsageError(
                    f"{whose} changed /{'/'.join(path)}, which is the partition key: it cannot be changed in "
                    "place; create the item under the new key, then delete the old one"
                )
        return wanted

    # Ends and pauses.

    def _applied(self, stored: dict[str, Any], etag: str, *, recovered: bool) -> Step:
        stored["_etag"] = etag
        return Done(self._update("applied", stored, etag, recovered=recovered))

    def _update(
        self,
        outcome: Literal["applied", "unchanged"],
        item: dict[str, Any],
        etag: str,
        *,
        recovered: bool = False,
    ) -> Update:
        return Update(
            outcome, item, etag, self._attempts, self._conflicts, self._throttles, self._charge, recovered
        )

    def _pay(self, spent: Spent) -> None:
        self._charge += spent.charge
        self._throttles += spent.throttles

    def _limit(self, now: float) -> float:
        """Half of what is left, so that a request that hangs leaves time to find out what became of it."""
        return max((self._deadline - now) / 2, LEAST_REQUEST)

    def _pause(self, now: float, error: LatchError, answer: Answer | None = None) -> Step:
        """Waits, or ends at once with `error` if the wait would be over too late."""
        cause = answer.cause if answer else None
        self._last = (error, cause)
        spread = 0.5 + self._random() / 2
        seconds = min(_FIRST_PAUSE * 2 ** min(self._streak, 10), _LONGEST_PAUSE) * spread
        if answer is not None and answer.retry_after is not None:
            # What is asked for, and a little more: not everybody comes back at the same moment.
            seconds = answer.retry_after * (1 + self._random() / 10)
        self._streak += 1
        if now + seconds >= self._deadline:
            return self._fail(error, cause)
        return Wait(seconds)

    def _out_of_time(self) -> Step:
        if self._last is not None and self._streak:
            return self._fail(*self._last)
        tries = f"{self._attempts} writes, {self._conflicts} conflicts"
        return self._fail(
            UpdateTimeout(
                f"item {self._id!r} was not updated before the deadline ({tries})", conflicts=self._conflicts
            ),
            None,
        )

    def _fail(self, error: LatchError, cause: BaseException | None) -> Step:
        if self._doubts:
            return self._unknown(str(error), cause)
        return Failed(error, cause)

    def _unknown(self, why: str, cause: BaseException | None = None) -> Step:
        error = OutcomeUnknown(
            f"the update of item {self._id!r} may or may not have been applied: {why}; "
            f"its id is {self._operation}, see the item's {PROPERTY}"
        )
        return Failed(error, cause or (self._last[1] if self._last else None))

    def _error(self, answer: Answer) -> LatchError:
        return error_of(answer, self._id, was_there=self._proposal is not None)


def _own(item: Mapping[str, Any]) -> dict[str, Any]:
    """The item without what the service and update_item put into it; its values are shared."""
    own = dict(item)
    for name in _NOT_OWN:
        own.pop(name, None)
    return own


def _visible(item: Mapping[str, Any]) -> dict[str, Any]:
    """A copy for the caller: without the list of operations, which is nobody else's to change."""
    found: dict[str, Any] = copied(item)
    found.pop(PROPERTY, None)
    return found


def _at(item: Any, path: Sequence[str]) -> Any:
    for name in path:
        item = item.get(name, _NOTHING) if isinstance(item, dict) else _NOTHING
    return item


_NOTHING = object()
