"""The last ten minutes, second by second."""

from __future__ import annotations

from random import Random

from azlatch.lab.cosmos.usage import KEPT_S, Usage


def test_seconds_are_counted_apart() -> None:
    """Those without a request are not there."""
    usage = Usage()
    for now in (10.0, 10.999, 12.5):
        second = usage.second(now, 400)
        second.requests += 1
        second.units += 2.5
    assert [(each.at, each.requests, each.units, each.rate) for each in usage.seconds(13)] == [
        (10, 2, 5.0, 400),
        (12, 1, 2.5, 400),
    ]


def test_only_the_last_ones_are_kept() -> None:
    """In order, across the end of the ring, and none that is too old by the time of asking."""
    usage = Usage()
    for now in range(1000):
        usage.second(now, 1).requests += 1
    assert [each.at for each in usage.seconds(999)] == list(range(1000 - KEPT_S, 1000))
    assert [each.at for each in usage.seconds(1500)] == list(range(1500 - KEPT_S + 1, 1000))
    assert usage.seconds(5000) == []


def test_a_place_is_taken_over_clean() -> None:
    """The second 600 later begins at zero."""
    usage = Usage()
    usage.second(5, 1).throttled += 3
    assert usage.second(5 + KEPT_S, 2).throttled == 0


def test_recent_seconds_are_the_last_of_all() -> None:
    """Whatever the ring has in it, across its end and after a long rest, in order."""
    random = Random(11)
    usage, now = Usage(), 0.0
    for _ in range(3_000):
        now += random.choice([0.1, 0.7, 1.0, 3.0, 40.0, 700.0])
        usage.second(now, 1).requests += 1
        within = random.choice([1, 10, 60, KEPT_S, 5 * KEPT_S])
        wanted = [each for each in usage.seconds(now) if each.at > int(now) - within]
        assert usage.recent(now, within) == wanted
