"""The machine of one hold: deadlines, renewals, losses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azlatch.core.hold import HoldMachine, State
from azlatch.core.terms import Limits, terms_of

LIMITS = Limits(0.5, 86_400)


def machine(now: float = 100.0, **values: object) -> HoldMachine:
    terms = terms_of(**{"ttl": 30.0, "limits": LIMITS, **values})  # type: ignore[arg-type]
    return HoldMachine(terms, now, now, 1_000.0)


def test_deadline_counts_from_before_the_request() -> None:
    """T1: a reply that takes long shortens the hold, it does not lengthen it."""
    hold = machine()
    renew = hold.renewal_due(109.0, 1_009.0)
    assert renew is not None
    hold.renewed(117.0, renew)
    assert hold.deadline == 109.0 + 27.0


def test_lost_is_final() -> None:
    """T2: a yes that arrives after the deadline does not revive the hold."""
    hold = machine()
    renew = hold.renewal_due(109.0, 1_009.0)
    assert renew is not None
    assert hold.renewed(127.0, renew) is State.LOST
    assert hold.lost_reason == "expired"
    assert hold.remaining(127.0) == 0.0


def test_a_call_takes_what_the_deadline_leaves() -> None:
    """T4: a renewal is bounded by a third of the life, and by the deadline."""
    hold = machine()
    renew = hold.renewal_due(110.0, 1_010.0)
    assert renew is not None
    assert renew.until == 119.0
    hold.renewal_failed(119.0, renew, 0.5)
    late = hold.renewal_due(121.0, 1_021.0)
    assert late is not None
    assert late.until == 127.0


def test_an_overdue_call_does_not_stop_the_next() -> None:
    """A renewal that never returns is followed by another, and its own late answer still counts."""
    hold = machine()
    first = hold.renewal_due(109.0, 1_009.0)
    assert first is not None
    assert hold.next_look == first.until
    second = hold.renewal_due(first.until, 1_018.0)
    assert second is not None
    assert second.sent > first.sent
    hold.renewed(119.0, first)
    assert hold.deadline == first.sent + 27.0


def test_failed_renewals_speed_up_with_a_floor() -> None:
    """Retries come soon, then slower, and never in a tight loop."""
    hold = machine()
    now, pauses = 109.0, []
    while (renew := hold.renewal_due(now, now + 900)) is not None and now < 120:
        hold.renewal_failed(now, renew, 0.0)
        pauses.append(hold.next_look - now)
        now = hold.next_look
    assert min(pauses) >= 0.02
    assert len(pauses) > 8


def test_a_hidden_pause_is_suspicious() -> None:
    """T3: wall time that outran the clock by more than the margin since the last success is suspicious."""
    hold = machine()
    assert not hold.suspicious(105.0, 1_005.0)
    assert not hold.suspicious(105.0, 1_008.0)
    assert hold.suspicious(105.0, 1_008.1)
    # The wall clock set back an hour is not.
    assert not hold.suspicious(105.0, 1_005.0 - 3_600)


def test_max_hold_has_its_own_reason() -> None:
    """The cap counts from the grant, however often it was renewed."""
    hold = machine(max_hold=40.0)
    for now in (109.0, 118.0, 127.0, 136.0):
        renew = hold.renewal_due(now, now + 900)
        assert renew is not None
        hold.renewed(now, renew)
    assert hold.look(139.9) is State.HELD
    assert hold.look(140.0) is State.LOST
    assert hold.lost_reason == "max-hold"


def test_release_ends_belief_at_once() -> None:
    """After a release nothing makes the hold believe again, and it cannot be lost."""
    hold = machine()
    assert hold.release(101.0) is State.HELD
    assert hold.remaining(101.0) == 0.0
    assert hold.lose("stolen") is State.RELEASED


@pytest.mark.parametrize("life", [12.0, 8 * 60.0])
def test_long_jobs_keep_their_hold(life: float) -> None:
    """A 12-second and an 8-minute job with the same ttl keep their hold; the calls are counted."""
    hold = machine(now=0.0)
    now = 0.0
    while now < life:
        renew = hold.renewal_due(now, now)
        if renew is not None:
            hold.renewed(now + 0.01, renew)
        now = min(hold.next_look, life)
    assert hold.look(life) is State.HELD
    assert hold.renewals == int(life // 9)


@given(
    st.lists(st.tuples(st.sampled_from(["look", "renew", "ok", "fail", "lose"]), st.floats(0, 5)), max_size=60)
)
def test_belief_never_outlives_the_last_success(steps: list[tuple[str, float]]) -> None:
    """Whatever happens, remaining() > 0 only within ttl - margin of a request that succeeded."""
    hold, now, successes, flying = machine(now=0.0), 0.0, [0.0], None
    for what, pause in steps:
        now += pause
        if what == "renew":
            flying = hold.renewal_due(now, now) or flying
        elif what == "ok" and flying is not None:
            if hold.renewed(now, flying) is State.HELD:
                successes.append(flying.sent)
            flying = None
        elif what == "fail" and flying is not None:
            hold.renewal_failed(now, flying, 0.5)
            flying = None
        elif what == "lose":
            hold.lose("broken")
        if hold.remaining(now) > 0:
            assert now < max(successes) + 27.0
            assert hold.lost_reason is None
        assert (hold.state is State.LOST) == (hold.lost_reason is not None)
