"""The lab's clock."""

from __future__ import annotations

import math
import threading
import time

import pytest

from azlatch.lab.cosmos.clock import MOST_AHEAD, LabClock


def test_it_follows_real_time_and_can_be_put_forward() -> None:
    """Real time goes on by itself, on top of what was added."""
    clock = LabClock()
    assert abs(clock.now() - time.time()) < 5
    before = clock.now()
    assert clock.advance(1_000) >= before + 1_000
    assert clock.now() <= clock.now()
    assert 0 < clock.seconds_until(clock.now() + 50) <= 50
    assert clock.seconds_until(before) == 0
    assert not clock.is_manual


def test_a_manual_clock_stands_still() -> None:
    """It has the time that it was given, to the bit, until it is put forward."""
    clock = LabClock(manual=True, start=5.0)
    assert (clock.now(), clock.is_manual) == (5.0, True)
    assert clock.advance(0.25) == clock.now() == 5.25
    assert clock.seconds_until(5.25) == 0
    assert clock.seconds_until(6) == math.inf


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf, MOST_AHEAD + 1])
def test_it_never_goes_back_nor_too_far(seconds: float) -> None:
    """What cannot be is refused and changes nothing."""
    clock = LabClock(manual=True, start=5.0)
    with pytest.raises(ValueError, match="the clock can"):
        clock.advance(seconds)
    assert clock.now() == 5.0


@pytest.mark.parametrize("start", [-1.0, math.nan, math.inf])
def test_a_start_that_is_none(start: float) -> None:
    """Said at once."""
    with pytest.raises(ValueError, match="start is"):
        LabClock(start=start)


def test_who_waits_is_woken() -> None:
    """`wait_until` ends when the clock is put forward far enough, or at its bound; listeners are told."""
    clock = LabClock(manual=True, start=0.0)
    woken: list[bool] = []
    told: list[float] = []
    listener = lambda: told.append(clock.now())  # noqa: E731
    clock.listen(listener)
    thread = threading.Thread(target=lambda: woken.append(clock.wait_until(10, timeout=20)))
    thread.start()
    clock.advance(4)
    assert woken == []
    clock.advance(6)
    thread.join(20)
    assert woken == [True]
    assert told == [4.0, 10.0]
    clock.unlisten(listener)
    clock.unlisten(listener)
    assert not clock.wait_until(11, timeout=0.01)
    clock.advance(1)
    assert told == [4.0, 10.0]
    assert clock.wait_until(11, timeout=0)
