"""The history checker: true histories pass, false ones fail, incomplete ones are unknown."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import azlatch
from azlatch.audit import history
from azlatch.audit.events import Event
from azlatch.audit.history import check
from azlatch.audit.log import Damage, read
from azlatch.audit.statistics import Histogram, Statistics
from azlatch.audit.why import why


class Log:
    """A history that is written as true ones are."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.events: list[Event] = []
        self.now = 100.0
        self.fence = 1 << 33
        self.last: dict[str, int] = {}
        self.orders: dict[str, int] = {}
        self.sequences: dict[str, int] = {}
        self.instances = [f"{n}" * 32 for n in range(3)]
        for instance in self.instances:
            self.add("open", instance, host="h", pid=1, store="sqlite")

    def add(self, kind: str, instance: str, **facts: object) -> Event:
        self.sequences[instance] = self.sequences.get(instance, 0) + 1
        self.now += self.rng.random() / 100
        event = Event(kind, self.sequences[instance], self.now + 1e9, self.now, "boot", instance, facts)
        self.events.append(event)
        return event

    def hold(self, name: str, instance: str, *, end: str = "released", takeover: str | None = None) -> None:
        sent = self.now
        self.fence += self.rng.randint(1, 3)
        nonce = f"{self.fence:x}"
        facts: dict[str, object] = {"name": name, "acquire": 1, "nonce": nonce, "fence": self.fence}
        if name in self.last:
            facts["prev"] = self.last[name]
        if takeover is not None:
            facts["takeover"] = takeover
        self.last[name] = self.fence
        self.add(
            "granted",
            instance,
            **facts,
            sent=sent,
            until=self.now + 27,
            ttl=30,
            wait_s=0.0,
            attempts=1,
            misses=0,
        )
        for _ in range(self.rng.randint(0, 2)):
            self.orders[name] = self.orders.get(name, 0) + 1
            self.add("accepted", instance, name=name, gate=name, order=self.orders[name], fence=self.fence)
        if end in ("released", "lost"):
            self.now += 0.01
            self.add(
                end,
                instance,
                name=name,
                nonce=nonce,
                fence=self.fence,
                until=self.now,
                held_s=0.1,
                reason="expired",
            )


def true_history(seed: int) -> Log:
    log = Log(seed)
    takeover = dict.fromkeys("ab", "")
    for _ in range(log.rng.randint(4, 25)):
        name = log.rng.choice("ab")
        end = log.rng.choice(["released", "released", "lost"])
        log.hold(name, log.rng.choice(log.instances[:2]), end=end, takeover=takeover[name] or None)
        takeover[name] = "expired" if end == "lost" else ""
    log.hold("a", log.instances[2], end="crash")
    log.hold("a", log.instances[0], takeover="holder-died")
    return log


def changed(log: Log, index: int, **facts: object) -> list[Event]:
    events = list(log.events)
    events[index] = events[index]._replace(facts={**events[index].facts, **facts})
    return events


def indices(log: Log, kind: str, name: str = "a") -> list[int]:
    return [index for index, event in enumerate(log.events) if event.kind == kind and event.name == name]


seeds = st.integers(0, 10_000)


@given(seeds)
def test_true_histories_pass(seed: int) -> None:
    """A history as the engine writes it passes, in whatever order its lines are read."""
    log = true_history(seed)
    assert check(log.events).status == "pass", check(log.events).findings
    shuffled = list(log.events)
    random.Random(seed).shuffle(shuffled)
    assert check(shuffled).status == "pass"


@given(seeds)
def test_a_fence_granted_twice_fails(seed: int) -> None:
    """M2: the same fence for two grants of a name."""
    log = true_history(seed)
    one, other = indices(log, "granted")[-2:]
    assert check(changed(log, other, fence=log.events[one].fence)).status == "fail"


@given(seeds)
def test_a_forked_chain_fails(seed: int) -> None:
    """M2: two grants that both follow the same one."""
    log = true_history(seed)
    log.hold("a", log.instances[0])
    one, other = indices(log, "granted")[-2:]
    assert check(changed(log, other, prev=log.events[one].facts["prev"])).status == "fail"


@given(seeds)
def test_a_fence_that_fell_fails(seed: int) -> None:
    """M2: a later grant with a lower fence."""
    log = true_history(seed)
    last = indices(log, "granted")[-1]
    assert check(changed(log, last, fence=1)).status == "fail"


@given(seeds)
def test_overlapping_belief_fails(seed: int) -> None:
    """M1: a holder that believed past the next grant."""
    log = true_history(seed)
    log.hold("a", log.instances[0])
    log.hold("a", log.instances[1])
    ends = indices(log, "released")
    assert check(changed(log, ends[-2], until=log.now + 5)).status == "fail"


@given(seeds)
def test_a_gate_that_went_back_fails(seed: int) -> None:
    """M3: an older fence accepted after a newer one."""
    log = true_history(seed)
    for _ in range(2):
        log.orders["a"] = log.orders.get("a", 0) + 1
        log.add("accepted", log.instances[0], name="a", gate="a", order=log.orders["a"], fence=log.fence)
    last = indices(log, "accepted")[-1]
    assert check(changed(log, last, fence=1)).status == "fail"


@given(seeds, st.integers(0, 10_000))
def test_a_missing_line_never_passes(seed: int, which: int) -> None:
    """With any one line gone, but the last of its instance, nothing is proved."""
    log = true_history(seed)
    last = {event.instance: index for index, event in enumerate(log.events)}
    index = which % len(log.events)
    if index not in last.values():
        assert check(log.events[:index] + log.events[index + 1 :]).status in ("unknown", "fail")


def test_damage_is_unknown_and_failure_outweighs_it() -> None:
    """A torn part is unknown, and a failure is a failure all the same."""
    log, damage = true_history(1), [Damage("x", 1, "torn")]
    assert check(log.events, damage).status == "unknown"
    last = indices(log, "granted")[-1]
    assert check(changed(log, last, fence=1), damage).status == "fail"


def test_a_crash_of_the_checker_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checker that fails has proved nothing."""
    monkeypatch.setattr(history, "_check_chain", lambda *arguments: 1 / 0)
    assert check(true_history(1).events).status == "unknown"


def test_a_silent_holder_that_lives_is_unknown() -> None:
    """A hold without an end whose instance goes on speaking may still believe."""
    log = true_history(2)
    log.hold("b", log.instances[0], end="never")
    log.hold("b", log.instances[1], takeover="expired")
    log.add("request", log.instances[0], name="c")
    assert check(log.events).status == "unknown"


def test_two_boots_need_a_skew() -> None:
    """Across boots order by clocks is unknown, unless the user vouches for them."""
    log = true_history(3)
    log.now += 100
    log.hold("b", log.instances[0])
    events = [
        event._replace(boot="other", at=event.at + 5e6, facts={**event.facts, "until": event.at + 5e6})
        if event.instance == log.instances[0] and event.kind != "accepted"
        else event
        for event in log.events
    ]
    assert check(events).status == "unknown"
    assert check(events, max_skew=0.001).status in ("pass", "unknown")


def test_a_break_that_gives_up_m1_is_counted() -> None:
    """`break --now` is no failure of the engine, and it is not hidden."""
    log = true_history(4)
    log.hold("b", log.instances[0])
    log.add("broken", log.instances[2], name="b", fence=log.fence, now=True, by="ops", reason="x")
    broken = indices(log, "released", "b")[-1]
    log.hold("b", log.instances[1])
    verdict = check(changed(log, broken, until=log.now + 1))
    assert verdict.breaks_now == 1
    assert verdict.status != "fail"


def test_a_hundred_thousand_events(capsys: pytest.CaptureFixture[str]) -> None:
    """Large histories are checked in near-linear time; the time is printed, not judged."""
    log = Log(0)
    while len(log.events) < 100_000:
        log.hold(f"n{len(log.events) % 50}", log.instances[0])
    started = time.perf_counter()
    assert check(log.events).status == "pass"
    print(f"{len(log.events):,} events in {time.perf_counter() - started:.2f} s")


KILLED = """
import sys, time, azlatch
latches = azlatch.connect(sys.argv[1], audit=sys.argv[2])
hold = latches.acquire("a", ttl=600)
print("in", flush=True)
time.sleep(60)
"""


def test_a_real_history_with_a_kill_passes(tmp_path: Path) -> None:
    """kill -9 of a holder: its successor took over, and the history says so."""
    url, log = f"sqlite:///{tmp_path}/x.db", str(tmp_path / "audit.jsonl")
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, url, log], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "in\n"
        holder.kill()
    with azlatch.connect(url, audit=log) as latches:
        latches.acquire("a", timeout=10).release()
    events = list(read([log], []))
    assert check(events).status == "pass"
    assert [event.facts.get("takeover") for event in events if event.kind == "granted"] == [None, "holder-died"]


def test_statistics() -> None:
    """A blocked acquire that succeeds is contended; slow, outage, timeout and loss are counted apart."""
    log = Log(0)
    base: dict[str, object] = {"name": "a", "nonce": "1", "wait_s": 0.2, "attempts": 3, "slowest_s": 0.1}
    for _ in range(20):
        log.add("granted", log.instances[0], **base, misses=0, failures=0)
    log.add("granted", log.instances[0], **base, misses=2, failures=0)
    log.add("granted", log.instances[0], **{**base, "slowest_s": 5.0}, misses=0, failures=0)
    log.add("ended", log.instances[1], **base, outcome="timeout", misses=3, failures=0)
    log.add("ended", log.instances[1], **base, outcome="unavailable", misses=0, failures=3)
    log.add(
        "lost",
        log.instances[0],
        name="a",
        nonce="1",
        reason="expired",
        held_s=9.0,
        renewals=3,
        slowest_renewal_s=0.5,
    )
    one = Statistics.of(log.events).latches["a"]
    assert (one.attempts, one.first_misses, one.timeouts, one.slow, one.outages) == (24, 2, 1, 1, 1)
    assert one.losses == {"expired": 1}
    assert one.alarm is None
    assert one.ttl_without_heartbeat == pytest.approx(12.0, abs=1)
    for _ in range(4):
        log.add("ended", log.instances[1], **base, outcome="timeout", misses=3, failures=0)
    alarm = Statistics.of(log.events).latches["a"].alarm
    assert alarm is not None
    assert all(word in alarm for word in ("a:", "architecture", "h:1 (22)", "Split", "queue"))


@given(st.lists(st.floats(0.001, 1_000), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_quantiles_are_within_a_bucket(values: list[float], share: float) -> None:
    """The histogram's quantile is the exact one, up to a quarter."""
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact = sorted(values)[max(int(share * len(values) + 0.999999) - 1, 0)]
    assert exact <= histogram.quantile(share) * 1.0001 <= exact * 1.26


@pytest.mark.parametrize(
    ("kind", "facts", "word"),
    [
        ("rejected", {"gate": "g", "fence": 1, "newest": 2}, "race"),
        ("lost", {"reason": "expired", "held_s": 1.0, "fence": 1}, "loss"),
        ("broken", {"by": "ops", "reason": "x", "fence": 1}, "break"),
        ("ended", {"outcome": "unavailable", "failures": 3, "wait_s": 1.0}, "outage"),
        ("granted", {"failures": 0, "slowest_s": 5.0, "wait_s": 5.0}, "slow store"),
        ("ended", {"outcome": "timeout", "misses": 3, "wait_s": 1.0}, "timeout"),
        ("granted", {"misses": 2, "wait_s": 1.0}, "contention"),
        ("granted", {"misses": 0, "wait_s": 0.0, "fence": 1}, "held"),
    ],
)
def test_why(kind: str, facts: dict[str, object], word: str) -> None:
    """Each kind of trouble has its own word, with the event that says so."""
    log = Log(0)
    event = log.add(kind, log.instances[0], name="a", **facts)
    found = why(log.events, "a", event.wall + 10)
    assert found[0].what == word
    assert event in found[0].events
    assert why(log.events, "a", event.wall + 10_000)[0].what == "nothing"
    assert why(log.events, "b", event.wall)[0].what == "nothing"
