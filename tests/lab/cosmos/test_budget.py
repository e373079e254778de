"""Request units: who is let in, and whether the wait that is told is true."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azlatch.lab.cosmos.budget import KEY_SPENT, PARTITION_SPENT, Budget, Refusal, partitions_for, share

starts = st.sampled_from([0.0, 12.5, 1_760_000_000.123])
rates = st.floats(1, 20_000)
costs = st.floats(0, 50_000)


def spend(budget: Budget, now: float, units: float, key: str | None = None) -> None:
    assert budget.admit(now, key) is None
    budget.charge(now, units, key)


def greedy(budget: Budget, start: float, seconds: int, units: float, per_second: int = 100) -> float:
    """What someone gets who never stops asking."""
    got = 0.0
    for step in range(seconds * per_second):
        now = start + step / per_second
        while budget.admit(now) is None:
            budget.charge(now, units)
            got += units
    return got


def test_a_second_of_the_rate_is_there_at_once() -> None:
    """Then no more, until something came in."""
    budget = Budget(100, 0, burst=False)
    for _ in range(10):
        spend(budget, 0, 10)
    assert budget.admit(0) == Refusal(PARTITION_SPENT, 1)
    spend(budget, 0.05, 5)
    assert budget.admit(0.05) is not None


def test_a_large_charge_is_owed() -> None:
    """It was let in for 1, cost 500, and the rest is waited for."""
    budget = Budget(100, 0, burst=False)
    spend(budget, 0, 500)
    refused = budget.admit(0)
    assert refused == Refusal(PARTITION_SPENT, 4001)
    assert budget.admit(3.9) is not None
    assert budget.admit(4.001) is None


def test_the_rate_is_kept() -> None:
    """Over a minute, whoever asks gets the rate and the first second, and at most one charge more."""
    got = greedy(Budget(400, 0, burst=False), 0, 60, 7)
    assert 400 * 60 <= got <= 400 * 61 + 7


@given(rates, rates, starts, st.booleans(), st.lists(st.tuples(st.floats(0, 400), costs), max_size=8))
def test_the_wait_is_honest(
    rate: float, key_rate: float, start: float, burst: bool, steps: list[tuple[float, float]]
) -> None:
    """A request after exactly that long is let in, whatever went before."""
    now = start
    budget = Budget(rate, now, burst=burst, key_rate=key_rate)
    for pause, units in steps:
        now += pause
        refused = budget.admit(now, "k")
        if refused:
            assert refused.retry_after_ms >= 1
            now += refused.retry_after_ms / 1000
            assert budget.admit(now, "k") is None
        budget.charge(now, units, "k")


@given(st.floats(1, 5_000), st.floats(2, 5_000), st.booleans())
def test_the_wait_is_not_much_too_long(rate: float, units: float, burst: bool) -> None:
    """Two milliseconds before it, nobody is let in."""
    budget = Budget(rate, 0, burst=burst, key_rate=math.inf)
    budget.charge(50, rate + units)
    refused = budget.admit(50)
    if refused and refused.retry_after_ms > 2:
        assert budget.admit(50 + (refused.retry_after_ms - 2) / 1000) is not None


@given(
    st.floats(1, 5_000),
    st.booleans(),
    st.floats(0, 20_000),
    st.floats(0, 200),
    st.lists(st.floats(0.01, 30), min_size=1, max_size=20),
)
def test_the_time_passes_the_same_in_one_step_or_many(
    rate: float, burst: bool, units: float, idle: float, steps: list[float]
) -> None:
    """Who only asks changes nothing."""
    one, many = Budget(rate, 0, burst=burst), Budget(rate, 0, burst=burst)
    for each in (one, many):
        each.charge(idle, units)
    now = idle
    for step in steps:
        now += step
        many.admit(now)
    assert math.isclose(one.banked(now), many.banked(now), rel_tol=1e-6, abs_tol=1e-3)
    first, second = one.admit(now), many.admit(now)
    assert (first is None) == (second is None) or abs(one._level) < 1e-3
    if first and second:
        assert abs(first.retry_after_ms - second.retry_after_ms) <= 1


def test_what_idles_is_banked_up_to_five_minutes() -> None:
    """And no more; without burst nothing is."""
    for burst, expected in [(True, 300 * 400), (False, 0)]:
        budget = Budget(400, 0, burst=burst)
        assert budget.banked(100) == (100 * 400 if burst else 0)
        assert budget.banked(10_000) == expected


def test_the_bank_is_spent_at_3000_a_second() -> None:
    """Until it is empty; then the rate is all there is."""
    budget = Budget(400, 0, burst=True)
    got = greedy(budget, 100, 10, 1)
    assert 3_000 * 10 <= got <= 3_000 * 10 + 400 + 1
    # 40,000 were banked, and 26,000 of them are spent: the rest lasts for 5.4 seconds.
    got = greedy(budget, 110, 20, 1)
    assert math.isclose(got, 14_000 + 400 * 20, abs_tol=500)


@pytest.mark.parametrize("rate", [3_000, 10_000])
def test_no_burst_from_3000_on(rate: float) -> None:
    """Such partitions have none."""
    budget = Budget(rate, 0, burst=True)
    assert budget.banked(600) == 0
    assert greedy(budget, 600, 2, 10) <= rate * 3 + 10


def test_a_logical_key_has_its_own_limit() -> None:
    """Another key, and a request without one, are let in all the same."""
    budget = Budget(10_000, 0, burst=False, key_rate=100)
    spend(budget, 0, 150, "hot")
    assert budget.admit(0, "hot") == Refusal(KEY_SPENT, 501)
    assert budget.admit(0, "cold") is None
    assert budget.admit(0) is None
    assert budget.admit(0.501, "hot") is None


def test_the_longer_wait_tells_the_reason() -> None:
    """Both are spent."""
    budget = Budget(100, 0, burst=False, key_rate=50)
    spend(budget, 0, 200, "a")
    assert budget.admit(0, "a") == Refusal(KEY_SPENT, 3001)
    assert budget.admit(0, "b") == Refusal(PARTITION_SPENT, 1001)
    other = Budget(100, 0, burst=False, key_rate=1_000)
    spend(other, 0, 2_000, "a")
    assert other.admit(0, "a") == Refusal(PARTITION_SPENT, 19_001)


def test_memory_for_keys_is_bounded() -> None:
    """And the hot key is not the one that is forgotten."""
    budget = Budget(math.inf, 0, burst=False, key_rate=10)
    for each in range(10_000):
        budget.charge(0, 1, f"k{each}")
        budget.charge(0, 1, "hot")
    assert len(budget._full_at) <= 4_096
    refused = budget.admit(0, "hot")
    assert refused is not None and refused.substatus == KEY_SPENT


def test_no_limit_at_all() -> None:
    """Nothing is refused, but it is counted."""
    budget = Budget(math.inf, 0, burst=True, key_rate=math.inf)
    for each in range(100):
        assert budget.admit(each / 1000, "k") is None
        budget.charge(each / 1000, 1e9, "k")
    assert budget.banked(50) == 0
    assert budget.seconds(1)[0].requests == 100


@pytest.mark.parametrize("rate", [0, -1, math.nan])
def test_rates_are_above_zero(rate: float) -> None:
    """Else a wait would never end."""
    with pytest.raises(ValueError, match="above zero"):
        Budget(rate, 0, burst=False)
    with pytest.raises(ValueError, match="above zero"):
        Budget(1, 0, burst=False, key_rate=rate)
    with pytest.raises(ValueError, match="above zero"):
        Budget(1, 0, burst=False).set_rate(1, rate)
    with pytest.raises(ValueError, match="above zero"):
        Budget(1, 0, burst=False).set_key_rate(1, rate)


def test_another_rate() -> None:
    """What is owed stays owed and is waited for at the new rate; a lower rate shrinks the bucket and the
    bank.
    """
    budget = Budget(100, 0, burst=False)
    spend(budget, 0, 300)
    budget.set_rate(0, 1_000)
    assert budget.admit(0) == Refusal(PARTITION_SPENT, 201)
    banked = Budget(1_000, 0, burst=True)
    assert banked.banked(300) == 300_000
    banked.set_rate(300, 400)
    assert banked.banked(300) == 120_000
    assert banked._level == 400
    banked.set_rate(300, 5_000)
    assert banked.banked(300) == 0


def test_to_no_limit_and_back() -> None:
    """A full bucket, either way."""
    budget = Budget(100, 0, burst=False)
    budget.charge(0, 10_000)
    budget.set_rate(1, math.inf)
    assert budget.admit(1) is None
    budget.set_rate(2, 100)
    spend(budget, 2, 100)
    assert budget.admit(2) is not None


def test_another_limit_for_keys() -> None:
    """It holds at once."""
    budget = Budget(10_000, 0, burst=False)
    spend(budget, 0, 500, "k")
    budget.set_key_rate(0, 100)
    spend(budget, 0, 100, "k")
    assert budget.admit(0, "k") == Refusal(KEY_SPENT, 1)


def test_a_clock_that_goes_back() -> None:
    """Gives nothing and takes nothing."""
    budget = Budget(100, 10, burst=False)
    spend(budget, 10, 150)
    assert budget.admit(5) == budget.admit(10) == Refusal(PARTITION_SPENT, 501)


def test_what_is_counted() -> None:
    """Requests, refusals and units of each second."""
    budget = Budget(100, 0, burst=False)
    spend(budget, 0.2, 60)
    spend(budget, 0.2, 60)
    assert budget.admit(0.3) is not None
    spend(budget, 1.5, 1)
    assert [(each.at, each.units, each.requests, each.throttled, each.rate) for each in budget.seconds(2)] == [
        (0, 120, 3, 1, 100),
        (1, 1, 1, 0, 100),
    ]


@pytest.mark.parametrize(
    ("throughput", "existing", "expected"),
    [
        (400, 0, 1),
        (10_000, 0, 1),
        (10_100, 0, 2),
        (12_001, 0, 3),
        (60_000, 0, 10),
        (400, 3, 3),
        (30_000, 3, 3),
        (30_001, 3, 4),
        (100_000, 1, 10),
    ],
)
def test_physical_partitions(throughput: float, existing: int, expected: int) -> None:
    """A new container by 6,000, a larger throughput by 10,000; never fewer by a smaller one."""
    assert expected == partitions_for(throughput, existing)


def test_all_shares_are_the_same() -> None:
    """Before and after a split and a merge they add up to the whole."""
    assert share(10_000, 3) * 3 == pytest.approx(10_000)
    assert share(400, 1) == 400
