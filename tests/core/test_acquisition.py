"""The machine of one acquire: unknown outcomes, late grants, and what is left for the janitor."""

from __future__ import annotations

from itertools import count

import pytest

from azlatch.core.acquisition import Acquisition, GiveBack, Lapsed, Pause, Try, Won
from azlatch.core.record import Grant
from azlatch.core.terms import Limits, terms_of
from azlatch.errors import BackendThrottled, BackendUnavailable, OutcomeUnknown

GRANT = Grant("a", "n", 1, 30.0, 1)


def acquisition(give_up: float | None = 100.0, one_shot: bool = False) -> Acquisition:
    numbers = count(1)
    terms = terms_of(ttl=30.0, limits=Limits(0.5, 3_600))
    return Acquisition(terms, give_up, one_shot, lambda: f"n{next(numbers)}")


def test_an_unknown_outcome_is_asked_for_again_with_the_same_nonce() -> None:
    """R5: the resend carries the nonce of the first send, and the deadline counts from that one."""
    machine = acquisition()
    first = machine.attempt(0.0, 0.0)
    assert isinstance(first, Try)
    assert isinstance(machine.failed(5.0, OutcomeUnknown("?", basis=3), 0.5), Pause)
    second = machine.attempt(6.0, 6.0)
    assert isinstance(second, Try)
    assert (second.nonce, second.first_sent) == (first.nonce, 0.0)
    won = machine.granted(7.0, 7.0, GRANT)
    assert isinstance(won, Won)
    assert won.sent == 0.0


def test_a_resend_takes_what_its_deadline_leaves() -> None:
    """T4: a resend's call ends when its grant would be too late, and after that the nonce is the janitor's."""
    machine = acquisition()
    machine.attempt(0.0, 0.0)
    machine.failed(9.0, OutcomeUnknown("?", basis=3), 0.5)
    second = machine.attempt(20.0, 20.0)
    assert isinstance(second, Try)
    assert (second.nonce, second.until) == ("n1", machine.terms.deadline(0.0))
    machine.failed(27.0, BackendUnavailable("x"), 0.5)
    assert [orphan.nonce for orphan in machine.take_orphans()] == ["n1"]
    third = machine.attempt(28.0, 28.0)
    assert isinstance(third, Try)
    assert third.nonce == "n2"


def test_a_definite_answer_ends_the_nonce() -> None:
    """After contention or a definite failure the next try has a fresh nonce."""
    machine = acquisition()
    first = machine.attempt(0.0, 0.0)
    machine.contended(1.0, 4, 0.1, 0.5)
    second = machine.attempt(2.0, 2.0)
    machine.failed(3.0, BackendUnavailable("x"), 0.5)
    third = machine.attempt(4.0, 4.0)
    assert len({step.nonce for step in (first, second, third) if isinstance(step, Try)}) == 3


@pytest.mark.parametrize(("version", "orphaned"), [(3, True), (4, False)])
def test_an_unknown_write_can_land_while_its_version_stands(version: int, orphaned: bool) -> None:
    """R5: contention at the version that the write was conditional on does not prove that it failed."""
    machine = acquisition()
    machine.attempt(0.0, 0.0)
    machine.failed(1.0, OutcomeUnknown("?", basis=3), 0.5)
    machine.attempt(2.0, 2.0)
    machine.contended(3.0, version, 0.1, 0.5)
    assert [orphan.nonce for orphan in machine.abandon()] == (["n1"] if orphaned else [])


def test_a_late_grant_is_given_back() -> None:
    """T2: a grant that arrives past its own deadline is nobody's."""
    machine = acquisition()
    machine.attempt(0.0, 0.0)
    assert isinstance(machine.granted(27.0, 27.0, GRANT), GiveBack)
    assert isinstance(machine.gave_back(27.1), Pause)


def test_a_grant_over_a_hidden_pause_is_given_back() -> None:
    """T3: a grant whose request was sent before the machine was frozen is nobody's, whatever its clock says."""
    machine = acquisition()
    machine.attempt(0.0, 1_000.0)
    assert isinstance(machine.granted(0.1, 1_060.0, GRANT), GiveBack)
    # The wall clock set back is no pause.
    other = acquisition()
    other.attempt(0.0, 1_000.0)
    assert isinstance(other.granted(0.1, 900.0, GRANT), Won)


def test_a_cancelled_try_leaves_an_orphan() -> None:
    """Whoever goes while a call is out leaves its nonce to the janitor, granted or not."""
    machine = acquisition()
    machine.attempt(0.0, 0.0)
    assert [orphan.nonce for orphan in machine.abandon()] == ["n1"]
    assert machine.abandon() == []
    won = acquisition()
    won.attempt(0.0, 0.0)
    won.granted(0.1, 0.1, GRANT)
    assert [orphan.nonce for orphan in won.abandon()] == ["n1"]


def test_a_useless_nonce_is_orphaned_and_replaced() -> None:
    """Once its deadline has passed, an unknown nonce is left to the janitor and a new one is tried."""
    machine = acquisition()
    machine.attempt(0.0, 0.0)
    machine.failed(27.0, OutcomeUnknown("?"), 0.5)
    step = machine.attempt(28.0, 28.0)
    assert isinstance(step, Try)
    assert (step.nonce, step.first_sent) == ("n2", 28.0)
    assert [orphan.nonce for orphan in machine.orphans] == ["n1"]


def test_contention_and_outage_end_differently() -> None:
    """M6: the end of patience tells what the store last said."""
    machine = acquisition(give_up=10.0)
    machine.attempt(0.0, 0.0)
    assert machine.contended(10.0, 1, 0.1, 0.5) == Lapsed(None)
    machine = acquisition(give_up=10.0)
    machine.attempt(0.0, 0.0)
    error = BackendUnavailable("down")
    assert machine.failed(10.0, error, 0.5) == Lapsed(error)
    machine = acquisition(give_up=10.0)
    machine.attempt(0.0, 0.0)
    lapsed = machine.failed(10.0, OutcomeUnknown("?"), 0.5)
    assert isinstance(lapsed, Lapsed)
    assert isinstance(lapsed.error, BackendUnavailable)


def test_the_last_look_is_at_the_very_end() -> None:
    """A pause never goes past the end of patience, and there is one more try at it."""
    machine = acquisition(give_up=10.0)
    machine.attempt(0.0, 0.0)
    assert machine.contended(9.0, 1, 5.0, 0.5) == Pause(10.0, wakeable=True)
    assert isinstance(machine.attempt(10.0, 10.0), Try)


def test_one_shot_is_one_try() -> None:
    """A one-shot never pauses, and its only call is bounded under five seconds (M7)."""
    machine = acquisition(give_up=0.0, one_shot=True)
    step = machine.attempt(0.0, 0.0)
    assert isinstance(step, Try)
    assert step.until == 4.5
    assert machine.contended(0.1, 1, 0.1, 0.5) == Lapsed(None)


def test_throttling_is_heeded() -> None:
    """The store's own wait is the least that is waited."""
    machine = acquisition()
    machine.attempt(0.0, 0.0)
    pause = machine.failed(1.0, BackendThrottled("429", retry_after=7.0), 0.5)
    assert pause == Pause(8.0, wakeable=False)
