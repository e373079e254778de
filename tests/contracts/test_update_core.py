"""Every branch of the core of update_item, without I/O: what was reported, and the step that follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from azlatch.contracts.answer import Answer, Spent, is_refusal
from azlatch.contracts.operations import MOST, PROPERTY, Operations, hashed
from azlatch.contracts.session_errors import BehindSession
from azlatch.contracts.update import Updating
from azlatch.contracts.update_errors import (
    ConflictNeedsDecision,
    ItemAbsent,
    UpdateRefused,
    UpdateTimeout,
)
from azlatch.contracts.update_steps import Change, Done, Failed, Read, Reconcile, Replace, Step, Wait
from azlatch.errors import (
    BackendDenied,
    BackendMisconfigured,
    BackendThrottled,
    BackendUnavailable,
    LatchError,
    OutcomeUnknown,
    UsageError,
)

ME = "me000000"
ONE = Spent(1.0, 0)
LOST = Answer(None)


def item(n: int = 100, etag: str = '"3"', ring: str | None = None, **more: Any) -> dict[str, Any]:
    """An item as it is stored."""
    found = {"id": "p", "pk": "fund-1", "n": n, "_etag": etag, "_ts": 1, "_rid": "r", **more}
    return found if ring is None else {**found, PROPERTY: ring}


def entries(*pairs: tuple[str, str]) -> str:
    """The property's value for (id, etag) pairs."""
    return " ".join(f"{name}.{hashed(etag)}" for name, etag in pairs)


def make(*, rule: bool = False, deadline: float = 10.0, operation: str = ME) -> Updating:
    return Updating("p", operation=operation, deadline=deadline, random=lambda: 1.0, has_rule=rule)


def proposed(core: Updating, stored: dict[str, Any] | None = None, n: int = 105, now: float = 0.0) -> Replace:
    """The core after its read and its change: about to write."""
    assert isinstance(core.start(now), Read)
    stored = stored or item()
    step = core.read(now, stored, stored["_etag"], ONE)
    assert isinstance(step, Change)
    step = core.changed(now, {**step.base, "n": n}, step.base)
    assert isinstance(step, Replace)
    return step


def error(step: Step) -> LatchError:
    assert isinstance(step, Failed), step
    return step.error


# The straight way.


def test_read_change_replace() -> None:
    """The write is conditional on the version read, has the id with it, and nothing that the service sets."""
    core = make()
    write = proposed(core)
    assert write.etag == '"3"'
    assert write.body == {"id": "p", "pk": "fund-1", "n": 105, PROPERTY: entries((ME, '"3"'))}
    done = core.replaced(item(105, '"4"'), '"4"', Spent(10.5, 2))
    assert isinstance(done, Done)
    update = done.update
    assert (update.outcome, update.item["n"], update.etag) == ("applied", 105, '"4"')
    assert (update.attempts, update.conflicts, update.throttles, update.request_charge) == (1, 0, 2, 11.5)
    assert not update.recovered


def test_without_content_the_item_is_what_was_written() -> None:
    core = make()
    proposed(core)
    done = core.replaced(None, '"4"', ONE)
    assert isinstance(done, Done)
    assert (done.update.item["n"], done.update.item["_etag"]) == (105, '"4"')


def test_the_callers_copy_is_a_copy_without_the_list_of_operations() -> None:
    core, stored = make(), item(ring=entries(("a0000000", '"2"')), deep={"list": [1]})
    core.start(0.0)
    step = core.read(0.0, stored, '"3"', ONE)
    assert isinstance(step, Change)
    assert PROPERTY not in step.base
    step.base["deep"]["list"].append(2)
    write = core.changed(0.0, None, step.base)
    assert isinstance(write, Replace)
    assert write.body["deep"] == {"list": [1, 2]}
    assert write.body[PROPERTY] == entries(("a0000000", '"2"'), (ME, '"3"'))
    assert stored["deep"] == {"list": [1]}


@pytest.mark.parametrize("proposal", [None, item(), {"id": "p", "pk": "fund-1", "n": 100.0}])
def test_nothing_changed_is_not_written(proposal: Any) -> None:
    """Also where the change returns its input, or leaves out what the service sets; 100 and 100.0 are one."""
    core = make()
    core.start(0.0)
    step = core.read(0.0, item(), '"3"', ONE)
    assert isinstance(step, Change)
    done = core.changed(0.0, proposal, step.base)
    assert isinstance(done, Done)
    assert (done.update.outcome, done.update.attempts, done.update.etag) == ("unchanged", 0, '"3"')


def test_true_is_not_one() -> None:
    core = make()
    core.start(0.0)
    step = core.read(0.0, item(1), '"3"', ONE)
    assert isinstance(step, Change)
    assert isinstance(core.changed(0.0, {**step.base, "n": True}, step.base), Replace)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "q"}, "id"),
        ({"_etag": '"9"'}, "_etag"),
        ({"_ts": 9}, "_ts"),
        ({"pk": "fund-2"}, "partition key"),
        ({"n": float("nan")}, "no such number"),
        ({"n": {1}}, "a set at /n"),
        ({"n": {1: 2}}, "names in JSON are texts"),
    ],
)
def test_what_must_not_be_changed_is_refused_before_it_is_sent(change: dict[str, Any], words: str) -> None:
    core = make()
    core.key_paths = [["pk"]]
    core.start(0.0)
    step = core.read(0.0, item(), '"3"', ONE)
    assert isinstance(step, Change)
    with pytest.raises(UsageError, match=words):
        core.changed(0.0, {**step.base, **change}, step.base)


@pytest.mark.parametrize("proposal", ["text", [], 5])
def test_a_change_returns_an_item(proposal: Any) -> None:
    core = make()
    core.start(0.0)
    step = core.read(0.0, item(), '"3"', ONE)
    assert isinstance(step, Change)
    with pytest.raises(UsageError, match="return the item"):
        core.changed(0.0, proposal, step.base)


def test_too_deep_is_refused() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    core = make()
    core.start(0.0)
    step = core.read(0.0, item(), '"3"', ONE)
    assert isinstance(step, Change)
    with pytest.raises(UsageError, match="levels"):
        core.changed(0.0, {**step.base, "n": deep}, step.base)


@pytest.mark.parametrize("etag", [None, "", "*"])
def test_without_a_version_there_is_no_update(etag: str | None) -> None:
    """C-4 45: a guard that was asked for is never left out because the version is missing."""
    core = make()
    core.start(0.0)
    read = {name: value for name, value in item().items() if name != "_etag"}
    with pytest.raises(UsageError, match="no _etag"):
        core.read(0.0, read, etag, ONE)


def test_a_property_of_that_name_that_is_something_else_is_not_overwritten() -> None:
    core = make()
    core.start(0.0)
    with pytest.raises(UsageError, match=PROPERTY):
        core.read(0.0, item(ring="my own notes"), '"3"', ONE)


def test_based_on_saves_the_read() -> None:
    core = make()
    step = core.start(0.0, item(etag='"2"'))
    assert isinstance(step, Change)
    write = core.changed(0.0, {**step.base, "n": 1}, step.base)
    assert isinstance(write, Replace)
    assert write.etag == '"2"'
    with pytest.raises(UsageError, match="is to be updated"):
        make().start(0.0, item(id="q"))


# Conflicts.


def conflict(core: Updating, theirs: dict[str, Any]) -> Step:
    step = core.failed(0.0, Answer(412, sure=True), ONE)
    assert isinstance(step, Read)
    return core.read(0.0, theirs, theirs["_etag"], ONE)


def test_without_a_rule_a_conflict_needs_a_decision_at_once() -> None:
    core = make()
    proposed(core)
    found = error(conflict(core, item(105, '"4"', note="theirs")))
    assert isinstance(found, ConflictNeedsDecision)
    assert (found.base["n"], found.theirs["n"], found.mine["n"]) == (100, 105, 105)
    assert [each.path for each in found.differences] == ["/n", "/note"]
    assert (found.etag, found.item_id) == ('"4"', "p")
    assert found.conflicting == ()


def test_a_rule_is_asked_and_its_proposal_is_conditional_on_their_version() -> None:
    core = make(rule=True)
    proposed(core)
    asked = conflict(core, item(105, '"4"', ring=entries(("a0000000", '"3"'))))
    assert isinstance(asked, Reconcile)
    assert (asked.base["n"], asked.theirs["n"], asked.mine["n"]) == (100, 105, 105)
    assert PROPERTY not in {**asked.base, **asked.theirs, **asked.mine}
    write = core.reconciled(0.0, {**asked.theirs, "n": 110})
    assert isinstance(write, Replace)
    assert (write.etag, write.body["n"]) == ('"4"', 110)
    assert write.body[PROPERTY] == entries(("a0000000", '"3"'), (ME, '"4"'))
    done = core.replaced(item(110, '"5"'), '"5"', ONE)
    assert isinstance(done, Done)
    assert (done.update.attempts, done.update.conflicts) == (2, 1)


def test_the_next_conflict_begins_with_their_version() -> None:
    core = make(rule=True)
    proposed(core)
    first = conflict(core, item(105, '"4"'))
    assert isinstance(first, Reconcile)
    core.reconciled(0.0, {**first.theirs, "n": 110})
    second = conflict(core, item(200, '"5"'))
    assert isinstance(second, Reconcile)
    assert (second.base["n"], second.theirs["n"], second.mine["n"]) == (105, 200, 110)


def test_mine_as_it_is_may_be_proposed_and_the_condition_is_the_latest() -> None:
    """C-4 42: an overwrite that was decided on is itself conditional on the latest version."""
    core = make(rule=True)
    proposed(core)
    asked = conflict(core, item(106, '"4"'))
    assert isinstance(asked, Reconcile)
    write = core.reconciled(0.0, asked.mine)
    assert isinstance(write, Replace)
    assert write.etag == '"4"'


def test_a_rule_that_takes_theirs_writes_nothing() -> None:
    core = make(rule=True)
    proposed(core)
    asked = conflict(core, item(105, '"4"'))
    assert isinstance(asked, Reconcile)
    done = core.reconciled(0.0, asked.theirs)
    assert isinstance(done, Done)
    assert (done.update.outcome, done.update.item["n"], done.update.etag) == ("unchanged", 105, '"4"')


def test_a_rule_returns_something() -> None:
    core = make(rule=True)
    proposed(core)
    conflict(core, item(105, '"4"'))
    with pytest.raises(UsageError, match="returned nothing"):
        core.reconciled(0.0, None)


def test_a_decision_of_the_rule_is_completed() -> None:
    core = make(rule=True)
    proposed(core)
    conflict(core, item(105, '"4"'))
    bare = ConflictNeedsDecision("no", base={}, theirs={}, mine={}, differences=())
    assert (core.decided(bare).etag, bare.item_id) == ('"4"', "p")


def test_a_read_that_lags_is_no_conflict() -> None:
    """412, and the read has the old version: waits, and tries again with the same condition."""
    core = make()
    first = proposed(core)
    step = conflict(core, item())
    assert isinstance(step, Wait)
    assert core.waited(0.1) == first._replace(limit=(10 - 0.1) / 2)
    done = core.replaced(item(105, '"4"'), '"4"', ONE)
    assert isinstance(done, Done)
    assert done.update.conflicts == 0


# Throttling.


@pytest.mark.parametrize(("status", "substatus"), [(429, 3200), (429, 3214), (449, 0), (449, 5350)])
def test_throttling_waits_and_is_no_conflict(status: int, substatus: int) -> None:
    """C-4 48: 449 is no answer to a condition: the same write again, without a read."""
    core = make()
    first = proposed(core)
    step = core.failed(0.0, Answer(status, substatus, 0.5, sure=True), Spent(0.0, 1))
    assert step == Wait(pytest.approx(0.55))  # what is asked for, and up to a tenth
    assert core.waited(0.6) == first._replace(limit=(10 - 0.6) / 2)
    done = core.replaced(item(105, '"4"'), '"4"', ONE)
    assert isinstance(done, Done)
    assert (done.update.conflicts, done.update.throttles, done.update.attempts) == (0, 1, 2)


def test_without_a_time_the_waits_grow_to_a_bound() -> None:
    core = make(deadline=1_000.0)
    proposed(core)
    waits = []
    for _ in range(20):
        step = core.failed(0.0, Answer(449, sure=True), ONE)
        assert isinstance(step, Wait)
        waits.append(step.seconds)
        core.waited(0.0)
    assert waits[:3] == [0.02, 0.04, 0.08]
    assert waits[-1] == 1.0


def test_a_wait_that_ends_too_late_is_not_begun() -> None:
    core = make()
    proposed(core)
    found = error(core.failed(9.5, Answer(429, 3200, 0.5, sure=True), ONE))
    assert isinstance(found, BackendThrottled)
    assert found.retry_after == 0.5


def test_reads_are_throttled_too() -> None:
    core = make()
    core.start(0.0)
    assert isinstance(core.failed(0.0, Answer(429, 3200, 0.1), Spent(0, 1)), Wait)
    assert isinstance(core.waited(0.2), Read)


# Which answer ends how: reads, and writes that certainly were not applied.

PASSING = [
    (403, 3),
    (403, 1008),
    (404, 1002),
    (404, 1013),
    (404, 1023),
    (423, 0),
    (412, 2001),
    (429, 3200),
    (449, 0),
]
ENDS = [
    (404, 0, ItemAbsent),
    (404, 1003, BackendMisconfigured),
    (400, 0, UpdateRefused),
    (400, 1001, UsageError),
    (401, 0, BackendDenied),
    (403, 0, BackendDenied),
    (403, 5300, BackendDenied),
    (403, 1014, UpdateRefused),
    (413, 0, UpdateRefused),
]
AT_LAST = {
    404: BehindSession,
    429: BackendThrottled,
    449: BackendThrottled,
}


@pytest.mark.parametrize(
    ("status", "substatus"), [*PASSING, (408, 0), (410, 1002), (500, 0), (503, 0), (None, 0)]
)
def test_a_read_that_may_succeed_later_is_tried_until_the_deadline(status: int | None, substatus: int) -> None:
    core = make()
    core.start(0.0)
    assert isinstance(core.failed(0.0, Answer(status, substatus), ONE), Wait)
    assert isinstance(core.waited(1.0), Read)
    kind = AT_LAST.get(status or 0, BackendUnavailable) if substatus not in (1013, 1023) else BackendUnavailable
    assert type(error(core.failed(9.999, Answer(status, substatus), ONE))) is kind


@pytest.mark.parametrize(("status", "substatus"), PASSING)
def test_a_refused_write_is_sent_again_until_the_deadline(status: int, substatus: int) -> None:
    core = make()
    first = proposed(core)
    assert isinstance(core.failed(0.0, Answer(status, substatus, sure=True), ONE), Wait)
    again = core.waited(1.0)
    assert isinstance(again, Replace)
    assert (again.body, again.etag) == (first.body, first.etag)
    kind = AT_LAST.get(status, BackendUnavailable) if substatus not in (1013, 1023) else BackendUnavailable
    assert type(error(core.failed(9.999, Answer(status, substatus, sure=True), ONE))) is kind


@pytest.mark.parametrize(("status", "substatus", "kind"), ENDS)
@pytest.mark.parametrize("writing", [False, True])
def test_what_would_be_refused_again_ends_it(
    status: int, substatus: int, kind: type[LatchError], writing: bool
) -> None:
    core, cause = make(), RuntimeError()
    core.start(0.0)
    if writing:
        core = make()
        proposed(core)
    step = core.failed(0.0, Answer(status, substatus, sure=True, cause=cause), ONE)
    assert type(error(step)) is kind
    assert isinstance(step, Failed)
    assert step.cause is cause


def test_behind_the_session_is_never_absent() -> None:
    """404/1002, then 404/0 of whoever answers without a token: not known to be absent."""
    core = make()
    core.start(0.0)
    core.failed(0.0, Answer(404, 1002), ONE)
    core.waited(1.0)
    assert isinstance(core.failed(1.0, Answer(404, 0), ONE), Wait)
    assert type(error(core.failed(9.999, Answer(404, 0), ONE))) is BehindSession


def test_absent_for_a_reader_with_the_token_is_absent() -> None:
    core = make()
    core.start(0.0)
    core.failed(0.0, Answer(404, 1002), ONE)
    assert type(error(core.failed(1.0, Answer(404, 0, with_token=True), ONE))) is ItemAbsent


# Unknown outcomes.

UNKNOWN = [LOST, Answer(408), Answer(410, 1002), Answer(500), Answer(503), Answer(412), Answer(429, 3200)]


def lost(core: Updating, answer: Answer = LOST) -> None:
    """The write's answer does not come; the core goes to look."""
    step = core.failed(0.0, answer, ONE)
    if isinstance(step, Wait):
        step = core.waited(0.1)
        assert isinstance(step, Replace)
        step = core.failed(0.1, Answer(412, sure=True), ONE)
    assert isinstance(step, Read)


@pytest.mark.parametrize("answer", UNKNOWN)
def test_an_own_write_is_known_again(answer: Answer) -> None:
    """C-4 49, 50: applied although no answer, 408, or 412 after the SDK's own repetition said so."""
    core = make()
    proposed(core)
    lost(core, answer)
    done = core.read(0.0, item(105, '"4"', ring=entries((ME, '"3"'))), '"4"', ONE)
    assert isinstance(done, Done)
    assert (done.update.outcome, done.update.recovered, done.update.conflicts) == ("applied", True, 0)


@pytest.mark.parametrize("answer", [LOST, Answer(408), Answer(410, 1002), Answer(500), Answer(503)])
def test_an_unchanged_item_gets_the_same_write_again(answer: Answer) -> None:
    """Same id, same condition: a late first one makes the second a 412 that is recognised."""
    core = make()
    first = proposed(core)
    lost(core, answer)
    again = core.read(0.0, item(), '"3"', ONE)
    assert again == first
    assert isinstance(core.failed(0.0, Answer(412, sure=True), ONE), Read)
    done = core.read(0.0, item(107, '"5"', ring=entries((ME, '"3"'), ("a0000000", '"4"'))), '"5"', ONE)
    assert isinstance(done, Done)
    assert done.update.recovered


def test_the_second_look_and_later_ones_come_after_a_pause() -> None:
    core = make()
    proposed(core)
    lost(core)
    core.read(0.0, item(), '"3"', ONE)
    assert isinstance(core.failed(0.0, LOST, ONE), Wait)
    assert isinstance(core.waited(0.1), Read)


FULL = entries(*((f"b{number:07d}", f'"{number}"') for number in range(MOST)))
PROOFS: list[tuple[str, str | None, str | None, bool]] = [
    ("another used the version up", None, entries(("a0000000", '"3"')), True),
    (
        "the same, among others",
        entries(("b0000000", '"2"')),
        entries(("a0000000", '"3"'), ("c0000000", '"4"')),
        True,
    ),
    ("a stranger keeps the list", entries(("b0000000", '"2"')), entries(("b0000000", '"2"')), True),
    ("the newest of the base is there", FULL, FULL + " " + entries(("c0000000", '"90"')), True),
    ("a stranger dropped the list", entries(("b0000000", '"2"')), None, False),
    ("nobody ever had a list", None, None, False),
    ("dropped, and begun again", entries(("b0000000", '"2"')), entries(("a0000000", '"9"')), False),
    ("rolled over", FULL, entries(*((f"c{number:07d}", f'"{number + 50}"') for number in range(MOST))), False),
    ("damaged", entries(("b0000000", '"2"')), "what is this", False),
]


@pytest.mark.parametrize(
    ("base", "theirs", "proved"), [each[1:] for each in PROOFS], ids=[each[0] for each in PROOFS]
)
def test_a_conflict_after_an_unknown_outcome_has_to_be_proved(
    base: str | None, theirs: str | None, proved: bool
) -> None:
    """Otherwise nothing is claimed."""
    core = make(rule=True)
    proposed(core, item(ring=base))
    lost(core)
    step = core.read(0.0, item(150, '"9"', ring=theirs), '"9"', ONE)
    if proved:
        assert isinstance(step, Reconcile)
    else:
        assert type(error(step)) is OutcomeUnknown


@pytest.mark.parametrize("theirs", [each[2] for each in PROOFS if each[0] != "damaged"])
def test_a_refusal_that_is_sure_needs_no_proof(theirs: str | None) -> None:
    core = make(rule=True)
    proposed(core, item(ring=entries(("b0000000", '"2"'))))
    assert isinstance(conflict(core, item(150, '"9"', ring=theirs)), Reconcile)


def test_a_damaged_list_without_doubt_is_the_callers() -> None:
    core = make(rule=True)
    proposed(core)
    with pytest.raises(UsageError, match=PROPERTY):
        conflict(core, item(150, '"9"', ring="what is this"))


def test_a_deletion_after_an_unknown_outcome_is_unknown() -> None:
    core = make()
    proposed(core)
    lost(core)
    assert type(error(core.failed(0.0, Answer(404, 0), ONE))) is OutcomeUnknown


def test_a_deletion_after_a_refusal_is_an_absence() -> None:
    core = make()
    proposed(core)
    core.failed(0.0, Answer(412, sure=True), ONE)
    found = error(core.failed(0.0, Answer(404, 0), ONE))
    assert type(found) is ItemAbsent
    assert "someone deleted it" in str(found)


@pytest.mark.parametrize("answer", [LOST, Answer(503), Answer(404, 1002), Answer(429, 3200)])
def test_nobody_can_look_before_the_deadline(answer: Answer) -> None:
    core = make()
    proposed(core)
    lost(core)
    assert type(error(core.failed(9.999, answer, ONE))) is OutcomeUnknown


def test_a_proof_ends_the_doubt() -> None:
    """What was proved once is not asked again when the list has rolled over."""
    core = make(rule=True)
    proposed(core)
    lost(core)
    asked = core.read(0.0, item(150, '"9"', ring=entries(("a0000000", '"3"'))), '"9"', ONE)
    assert isinstance(asked, Reconcile)
    core.reconciled(0.0, {**asked.theirs, "n": 155})
    assert isinstance(conflict(core, item(160, '"30"', ring=FULL)), Reconcile)


# Time.


def test_each_request_gets_half_of_what_is_left() -> None:
    core = make(deadline=10.0)
    assert core.start(0.0) == Read(5.0)
    assert core.start(9.99) == Read(0.05)


@pytest.mark.parametrize(
    "late",
    [
        lambda core: core.start(10.0),
        lambda core: core.reconciled(10.0, {"id": "p", "n": 110}),
        lambda core: core.waited(10.0),
    ],
)
def test_the_deadline_ends_everything(late: Callable[[Updating], Step]) -> None:
    core = make(rule=True)
    proposed(core)
    conflict(core, item(105, '"4"'))
    found = error(late(core))
    assert type(found) is UpdateTimeout
    assert isinstance(found, TimeoutError)
    assert found.conflicts == 1


def test_the_deadline_may_come_before_the_look_back() -> None:
    core = make()
    proposed(core)
    assert type(error(core.failed(10.0, Answer(412, sure=True), ONE))) is UpdateTimeout


def test_the_deadline_may_come_before_a_rule_is_asked() -> None:
    core = make(rule=True)
    proposed(core)
    core.failed(0.0, Answer(412, sure=True), ONE)
    assert type(error(core.read(10.0, item(105, '"4"'), '"4"', ONE))) is UpdateTimeout


def test_the_deadline_after_a_wait_ends_as_what_was_waited_for() -> None:
    core = make()
    proposed(core)
    core.failed(0.0, Answer(429, 3200, 0.1, sure=True), ONE)
    assert type(error(core.waited(11.0))) is BackendThrottled


# The list of operations.


def test_the_list_is_bounded_and_the_newest_last() -> None:
    operations = Operations.of(item(ring=FULL))
    text = operations.then(ME, '"x"')
    after = Operations.of(item(ring=text))
    assert len(after.entries) == MOST
    assert (after.newest, after.has("b0000000"), after.has("b0000001")) == (ME, False, True)
    assert len(text) == 16 * MOST - 1


def test_an_empty_list_has_nothing() -> None:
    assert (Operations().newest, Operations().has(None), Operations().used_up('"3"')) == (None, False, False)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 412, 413, 423, 429, 449])
def test_refusals(status: int) -> None:
    assert is_refusal(status)


@pytest.mark.parametrize("status", [None, 200, 304, 408, 410, 500, 503])
def test_no_refusals(status: int | None) -> None:
    assert not is_refusal(status)


# A mutant that the world does not see, because all its sums are right.


def test_449_counted_as_a_conflict_is_caught() -> None:
    class Counted(Updating):
        def _write_failed(self, now: float, answer: Answer) -> Step:
            return super()._write_failed(now, answer._replace(status=412) if answer.status == 449 else answer)

    core = Counted("p", operation=ME, deadline=10.0, random=lambda: 1.0)
    proposed(core)
    assert not isinstance(core.failed(0.0, Answer(449, sure=True), ONE), Wait)
