"""What a log adds up to, and what it says of a moment."""

from __future__ import annotations

import math
import threading
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import azlatch
from azlatch.audit.events import Event
from azlatch.audit.statistics import Histogram, LatchStatistics, Statistics
from azlatch.audit.why import What, why


def events(*described: tuple[str, dict[str, object]], name: str = "a") -> list[Event]:
    """Events of one instance, a second apart."""
    head = Event("open", 1, 0.0, 0.0, "b", "i" * 32, {"host": "h", "pid": 7, "store": "sqlite"})
    return [
        head,
        *(
            Event(kind, number, float(number), float(number), "b", "i" * 32, {"name": name, **facts})
            for number, (kind, facts) in enumerate(described, 2)
        ),
    ]


def one(*described: tuple[str, dict[str, object]]) -> LatchStatistics:
    return Statistics.of(events(*described)).latches["a"]


GRANTED = (
    "granted",
    {"nonce": "1", "wait_s": 0.1, "attempts": 1, "misses": 0, "failures": 0, "slowest_s": 0.1},
)
BLOCKED = ("granted", {**GRANTED[1], "attempts": 3, "misses": 2})
TIMEOUT = ("ended", {"outcome": "timeout", "wait_s": 9.0, "attempts": 4, "misses": 4, "failures": 0})


def test_a_blocked_acquire_that_succeeds_is_contended() -> None:
    """It counts as a first miss, and not as a timeout."""
    found = one(GRANTED, BLOCKED)
    assert (found.attempts, found.grants, found.first_misses, found.timeouts) == (2, 2, 1, 0)
    assert found.contention == 0.5


def test_who_waits_behind_others_of_its_process_is_contended() -> None:
    """A timeout and a single try that found it held are misses, also of those who never came to ask."""
    behind = ("ended", {"outcome": "timeout", "wait_s": 1.0, "attempts": 0, "misses": 0, "failures": 0})
    tried = ("ended", {"outcome": "contended", "attempts": 1, "misses": 1})
    found = one(behind, tried, GRANTED)
    assert (found.attempts, found.first_misses, found.timeouts) == (3, 2, 1)
    assert found.timeout_share == pytest.approx(1 / 3)


def test_those_behind_in_a_real_process_count() -> None:
    """Two threads of one process that wait in vain for a third are two timeouts and two misses."""
    seen: list[Event] = []

    def wait() -> None:
        with pytest.raises(azlatch.AcquireTimeout):
            latches.acquire("a", timeout=0.2)

    with azlatch.connect("memory:", audit=seen.append) as latches, latches.hold("a"):
        waiters = [threading.Thread(target=wait) for _ in range(2)]
        for waiter in waiters:
            waiter.start()
        for waiter in waiters:
            waiter.join()
    found = Statistics.of(seen).latches["a"]
    assert (found.attempts, found.first_misses, found.timeouts, found.outages) == (3, 2, 2, 0)


def test_a_slow_store_is_no_outage() -> None:
    """A call that is answered late is slow; one that fails, or is refused for now, is an outage."""
    slow = ("granted", {**GRANTED[1], "slowest_s": 5.0})
    survived = ("granted", {**GRANTED[1], "slowest_s": 5.0, "failures": 2})
    down = ("ended", {"outcome": "unavailable", "failures": 3, "slowest_s": 10.0})
    throttled = ("ended", {"outcome": "throttled", "failures": 0})
    denied = ("ended", {"outcome": "denied", "failures": 0})
    found = one(slow, survived, down, throttled, denied)
    assert (found.slow, found.outages, found.errors, found.first_misses) == (1, 3, 3, 0)


def test_losses_breaks_renewals_and_refusals() -> None:
    """Each is counted where it belongs; what is missing counts as nothing."""
    found = one(
        GRANTED,
        ("lost", {"nonce": "1", "reason": "expired", "held_s": 9.0, "renewals": 3, "slowest_renewal_s": 0.5}),
        GRANTED,
        ("released", {"nonce": "1", "held_s": 2.0, "renewals": None, "renewal_failures": None}),
        ("broken", {"by": "ops"}),
        ("rejected", {"fence": 1}),
        ("lost", {"nonce": "1", "reason": "stolen", "held_s": "x", "slowest_renewal_s": None}),
    )
    assert found.losses == {"expired": 1, "stolen": 1}
    assert (found.breaks, found.rejected, found.renewals, found.slowest_renewal) == (1, 1, 3, 0.5)
    assert found.holds.maximum == 9.0


def test_events_as_a_sink_gets_them() -> None:
    """Facts that are None, which a file does not have, make no difference."""
    seen: list[Event] = []
    with azlatch.connect("memory:", audit=seen.append) as latches:
        latches.acquire("a").release()
    assert Statistics.of(seen).to_dict(1e10)["total"]["grants"] == 1


def test_advised_ttls() -> None:
    """Without heartbeat the longest hold and 20 %, and its margin; with one, three of the slowest renewals."""
    assert one(GRANTED).ttl_without_heartbeat is None
    assert one(GRANTED).ttl_with_heartbeat is None
    facts = {"nonce": "1", "held_s": 100.0, "renewals": 9, "slowest_renewal_s": 2.0}
    found = one(GRANTED, ("released", facts))
    without, with_one = found.ttl_without_heartbeat, found.ttl_with_heartbeat
    assert without is not None
    assert with_one is not None
    assert without * 0.9 >= 120.0 > (without - 1) * 0.9
    assert with_one - max(with_one * 0.1, 0.2) >= 7.2
    assert with_one < 10


def test_the_alarm_needs_a_sample_and_more_than_ten_percent() -> None:
    """19 attempts say nothing, 10 % is not above 10 %."""
    assert one(*[BLOCKED] * 19).alarm is None
    assert one(*[BLOCKED] * 20).alarm is not None
    assert one(*[GRANTED] * 18, *[BLOCKED] * 2).alarm is None
    assert one(*[GRANTED] * 17, *[BLOCKED] * 3).alarm is not None
    assert one(*[GRANTED] * 17, *[TIMEOUT] * 3).alarm is not None


def test_the_alarm_says_what_to_do() -> None:
    """That it is a matter of architecture, of which name, who holds it most, and both ways out."""
    statistics = Statistics.of(events(*[BLOCKED] * 30, name="invoice/42"))
    (alarm,) = statistics.alarms
    for words in ("invoice/42", "100%", "architecture problem", "h:7 (30)", "Split the name", "queue"):
        assert words in alarm
    assert statistics.to_dict()["alarms"] == [alarm]


def test_the_oldest_hold() -> None:
    """Of the holds that are open; a newer grant of a name ends what a holder that died has left open."""
    died = ("granted", {**GRANTED[1], "nonce": "1"})
    taken = ("granted", {**GRANTED[1], "nonce": "2"})
    assert one(died, taken).to_dict(10.0)["oldest_hold_s"] == 7.0
    assert one(died, taken, ("released", {"nonce": "2"})).to_dict(10.0)["oldest_hold_s"] is None
    assert one(died, ("given-back", {"nonce": "1"})).to_dict(10.0)["oldest_hold_s"] is None
    other = [event for event in events(died, taken, ("released", {"nonce": "2"})) if event.kind != "open"]
    turned = Statistics.of([other[1], other[2], other[0]])
    assert turned.total.to_dict(10.0)["oldest_hold_s"] is None


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 1_000), min_size=1, max_size=300),
    st.floats(0.01, 1.0) | st.sampled_from([0.5, 0.9, 0.99, 1.0]),
)
def test_quantiles_are_within_a_bucket(values: list[float], share: float) -> None:
    """The exact quantile is never above what the histogram says, and at most a bucket below."""
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact = sorted(values)[math.ceil(share * len(values) * (1 - 1e-12)) - 1]
    found = histogram.quantile(share)
    assert exact <= found * (1 + 1e-9)
    assert found <= max(exact * 1.25, 0.001) * (1 + 1e-9)
    assert histogram.to_dict()["max"] == round(max(values), 6)


def test_an_empty_histogram() -> None:
    """No duration has no quantile."""
    assert Histogram().to_dict() == {"count": 0, "p50": 0.0, "p99": 0.0, "max": 0.0}


WORDS: list[tuple[str, dict[str, object], What, str]] = [
    ("rejected", {"gate": "g", "fence": 1, "newest": 2}, "race", "refused a write with fence 1"),
    ("lost", {"reason": "expired", "held_s": 1.0, "fence": 1}, "loss", "lost fence 1 (expired)"),
    ("broken", {"by": "ops", "reason": "stuck", "fence": 1}, "break", "ops broke fence 1: stuck"),
    ("ended", {"outcome": "unavailable", "failures": 3, "wait_s": 1.0}, "outage", "3 calls"),
    ("ended", {"outcome": "timeout", "failures": 1, "misses": 2}, "outage", "1 calls"),
    ("ended", {"outcome": "denied", "failures": 0}, "outage", "of no use to instance iiiiiiii (denied)"),
    ("granted", {"failures": 0, "slowest_s": 5.0, "wait_s": 5.0}, "slow store", "took 5.000 s"),
    ("ended", {"outcome": "timeout", "misses": 3, "holder": "h:9"}, "timeout", "held by h:9"),
    ("granted", {"misses": 2, "wait_s": 1.0}, "contention", "waited 1.000 s"),
    ("ended", {"outcome": "contended", "misses": 1}, "contention", "found it held"),
    ("granted", {"misses": 0, "wait_s": 0.0, "fence": 1}, "held", "nobody had to wait"),
    ("request", {}, "nothing", "nothing is known to have gone wrong"),
]


@pytest.mark.parametrize(("kind", "facts", "word", "words"), WORDS)
def test_why(kind: str, facts: dict[str, object], word: str, words: str) -> None:
    """Each kind of trouble has its own word, with the event that says so."""
    found = events((kind, facts))
    explanations = why(found, "a", 10.0)
    assert [each.what for each in explanations] == [word]
    assert words in explanations[0].words
    assert explanations[0].events == (found[-1],)


def test_why_has_a_test_for_every_word() -> None:
    """No word is left out above."""
    assert {word for _, _, word, _ in WORDS} == set(get_args(What))


def test_why_looks_at_one_name_and_one_time() -> None:
    """Other names, and what is further away than the window, are nothing; a long wait reaches far back."""
    found = events(("ended", {"outcome": "timeout", "misses": 1, "wait_s": 0.5}))
    assert why(found, "b", 2.0)[0].what == "nothing"
    assert why(found, "a", 63.0)[0] == ("nothing", "no event of a is within 60 s of that time", ())
    assert why(found, "a", 62.0)[0].what == "timeout"
    long = events(("ended", {"outcome": "timeout", "misses": 1, "wait_s": 500.0}))
    assert why(long, "a", -300.0, window=1.0)[0].what == "timeout"


def test_the_most_telling_comes_first() -> None:
    """A race before a loss, a loss before a timeout, and what is nearer before what is not."""
    found = events(
        TIMEOUT, ("lost", {"reason": "expired", "fence": 1}), ("rejected", {"fence": 1, "newest": 2}), TIMEOUT
    )
    explanations = why(found, "a", 5.0)
    assert [each.what for each in explanations] == ["race", "loss", "timeout", "timeout"]
    assert explanations[2].events == (found[-1],)
