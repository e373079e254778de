"""The history checker: true histories pass, false ones fail, incomplete ones are unknown."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import azlatch
from azlatch.audit import history
from azlatch.audit.events import Event
from azlatch.audit.history import Verdict, check
from azlatch.audit.log import Damage, read, rotated


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit_world", Path(__file__).with_name("world.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["audit_world"] = module
    spec.loader.exec_module(module)
    return module


_world = _load()
World, TTL = _world.World, _world.TTL
cases = settings(deadline=None, max_examples=60)
seeds = st.integers(0, 100_000)
ENDS = ("released", "lost")


def status(verdict: Verdict, rule: str | None = None) -> str:
    """The verdict, which a finding of the rule has to back."""
    if rule is not None and verdict.status != "pass":
        assert verdict.count(rule, verdict.status), verdict.findings
    return verdict.status


# -- what is true passes -------------------------------------------------------------------------------


@cases
@given(seeds, st.integers(0, 60))
def test_true_histories_pass(seed: int, steps: int) -> None:
    """What the engine may write passes: crashes, pauses, breaks, gaps, grants that reached nobody."""
    world = World(seed).go(steps)
    verdict = check(world.events)
    assert verdict.status == "pass", verdict.findings


@cases
@given(seeds)
def test_the_order_of_the_lines_does_not_matter(seed: int) -> None:
    """Logs of several machines are read one after the other, and some of them twice."""
    world = World(seed).go(40)
    events = [*world.events, *world.events[:10]]
    random.Random(seed).shuffle(events)
    verdict = check(events)
    assert verdict.status == "pass", verdict.findings
    assert verdict.grants == sum(event.kind == "granted" for event in world.events)


def test_the_counts() -> None:
    """The verdict counts grants, writes, refusals, instances and breaks that gave up M1."""
    world = World(1)
    world.coda()
    world.add("rejected", world.living[0], name="a", gate="a", fence=1, newest=2)
    world.hold("b", world.living[0])
    world.step("break now")
    verdict = check(world.events)
    assert verdict.status == "pass"
    assert (verdict.grants, verdict.accepted, verdict.rejected) == (4, 2, 1)
    assert (verdict.instances, verdict.breaks_now) == (3, 1)


def test_a_hold_that_is_still_open_is_no_doubt() -> None:
    """The last grant of a name needs no end."""
    world = World(2)
    world.coda()
    world.hold("a", world.living[0])
    assert check(world.events).status == "pass"


# -- what is false fails -------------------------------------------------------------------------------


@cases
@given(seeds)
def test_a_fence_granted_twice_fails(seed: int) -> None:
    """M2: the same fence for two grants of a name."""
    world = World(seed).go(20)
    one, other = world.coda()
    assert status(check(world.changed(other.nonce, ("granted",), fence=one.fence)), "M2") == "fail"


@cases
@given(seeds, st.integers(0, 20))
def test_a_forked_chain_fails(seed: int, further: int) -> None:
    """M2: a grant that follows an older one than the grant before it; with the same `prev` or a lower one."""
    world = World(seed).go(20)
    one, other = world.coda()
    prev = next(event for event in world.events if event.facts.get("nonce") == one.nonce).facts.get("prev", 1)
    assert status(check(world.changed(other.nonce, ("granted",), prev=prev - further)), "M2") == "fail"


@cases
@given(seeds)
def test_a_fence_that_fell_fails(seed: int) -> None:
    """M2: a later grant with a lower fence, with and without the `prev` that gives it away."""
    world = World(seed).go(20)
    _, other = world.coda()
    assert status(check(world.changed(other.nonce, ("granted",), fence=1)), "M2") == "fail"
    assert status(check(world.changed(other.nonce, ("granted",), fence=1, prev=None)), "M2") == "fail"


@cases
@given(seeds, st.floats(0.001, 100))
def test_overlapping_belief_fails(seed: int, longer: float) -> None:
    """M1: a holder that believed past the next grant, however short and however the hold ended."""
    world = World(seed).go(20)
    one, other = world.coda()
    granted = next(e for e in world.events if e.kind == "granted" and e.facts["nonce"] == other.nonce)
    assert status(check(world.changed(one.nonce, ENDS, until=granted.at + longer)), "M1") == "fail"


def test_overlap_with_a_later_grant_than_the_next_fails() -> None:
    """M1: the one that believes longest is compared with every grant after it."""
    world = World(3)
    one, _ = world.coda()
    world.coda()
    assert check(world.changed(one.nonce, ENDS, until=world.now)).count("M1") == 3


@cases
@given(seeds)
def test_a_gate_that_went_back_fails(seed: int) -> None:
    """M3: any two writes with different fences, in the other order."""
    world = World(seed).go(20)
    one, other = world.coda()
    orders = {e.fence: e.facts["order"] for e in world.events if e.kind == "accepted" and e.name == "a"}
    swapped = {orders[one.fence]: orders[other.fence], orders[other.fence]: orders[one.fence]}
    events = [
        event._replace(facts={**event.facts, "order": swapped.get(event.facts["order"], event.facts["order"])})
        if event.kind == "accepted" and event.name == "a"
        else event
        for event in world.events
    ]
    assert status(check(events), "M3") == "fail"


def test_a_write_without_a_fence_fails() -> None:
    """M3: a gate lets nobody in without a fence, and counts every write once."""
    world = World(4)
    _, other = world.coda()
    world.add("accepted", world.living[0], name="a", gate="a", order=3)
    assert status(check(world.events), "M3") == "fail"
    world.events[-1] = world.events[-1]._replace(facts={"gate": "a", "order": 2, "fence": other.fence})
    assert status(check(world.events), "M3") == "fail"


def test_a_break_without_now_gives_nothing_up() -> None:
    """M1 holds for a hold that is broken without `now`."""
    world = World(5)
    held = world.hold("a", world.living[0])
    world.broken(held, now=False, free_in=30.0)
    world.records["a"].hold = None
    world.hold("a", world.living[1])
    world.end(held, "lost", "broken")
    assert status(check(world.events), "M1") == "fail"


@pytest.mark.parametrize(("after", "expected"), [(TTL - 1, "pass"), (TTL + 1, "fail")])
def test_a_break_that_stops_nobody(after: float, expected: str) -> None:
    """B1: a holder that was broken believes for a ttl at the most: a renewal after the break must not count."""
    world = World(6)
    held = world.hold("a", world.living[0])
    world.broken(held, now=False, free_in=TTL)
    world.now += after
    held.until = world.now + 1.0
    world.end(held)
    assert check(world.events).status == expected


# -- what is not complete is unknown -------------------------------------------------------------------


@cases
@given(seeds, seeds)
def test_a_missing_line_never_passes(seed: int, which: int) -> None:
    """With any one line gone, but the last of its instance, nothing is proved."""
    world = World(seed).go(30)
    last = {event.instance: index for index, event in enumerate(world.events)}
    index = which % len(world.events)
    if index not in last.values():
        assert check(world.events[:index] + world.events[index + 1 :]).status in ("unknown", "fail")


def test_damage_is_unknown_and_failure_outweighs_it() -> None:
    """A torn part is unknown, no event at all is unknown, and a failure is a failure all the same."""
    world, damage = World(1), [Damage("x", 1, "torn")]
    _, other = world.coda()
    assert check([]).status == "unknown"
    assert check(world.events, damage).status == "unknown"
    assert check(world.changed(other.nonce, ("granted",), fence=1), damage).status == "fail"


def test_a_crash_of_the_checker_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checker that fails has proved nothing."""
    monkeypatch.setattr(history, "_check_chain", lambda *arguments: 1 / 0)
    world = World(1)
    world.coda()
    assert status(check(world.events), "checker") == "unknown"


@pytest.mark.parametrize("fact", ["fence", "nonce", "sent"])
@pytest.mark.parametrize("value", [None, "x", True, float("nan"), []])
def test_a_grant_that_does_not_say_enough_is_unknown(fact: str, value: object) -> None:
    """A fact that is missing, or is not what it should be, is never taken for a good one."""
    world = World(1)
    _, other = world.coda()
    if (fact, value) != ("nonce", "x"):
        assert check(world.changed(other.nonce, ("granted",), **{fact: value})).status == "unknown"


@pytest.mark.parametrize("until", [None, "x", float("inf"), float("nan")])
def test_an_end_that_does_not_say_when_is_unknown(until: object) -> None:
    """Not even infinity ends a belief."""
    world = World(1)
    one, _ = world.coda()
    assert check(world.changed(one.nonce, ENDS, until=until)).status == "unknown"


def test_an_end_by_another_instance_is_unknown() -> None:
    """Only the holder knows when its belief ended."""
    world = World(1)
    one, _ = world.coda()
    events = [
        event._replace(facts={**event.facts, "nonce": "else"})
        if event.kind in ENDS and event.fence == one.fence
        else event
        for event in world.events
    ]
    assert check(events).status == "unknown"
    world.add("released", world.living[2], name="a", nonce=one.nonce, fence=one.fence, until=1.0)
    other = next(event for event in events if event.facts.get("nonce") == "else")
    assert check([*(e for e in world.events if e.seq != other.seq or e.instance != other.instance)]).status == (
        "unknown"
    )


def silent(rule: str | None, **more: object) -> tuple[World, Event, Event]:  # type: ignore[valid-type]
    """A hold without an end, and the next grant that took it over by that rule."""
    world = World(6)
    held = world.hold("b", world.living[0])
    world.now += 31
    world.records["b"].hold, world.records["b"].takeover = None, rule
    world.hold("b", world.living[1])
    one, two = [event for event in world.events if event.kind == "granted"]
    assert one.fence == held.fence
    return world, one, two


@pytest.mark.parametrize("rule", ["holder-died", "expired", "observed"])
def test_a_silent_holder(rule: str) -> None:
    """A hold without an end is over by the rule that took it over, unless its instance goes on speaking."""
    world, _, _ = silent(rule)
    assert check(world.events).status == "pass"
    world.add("request", world.living[0], name="c")
    assert status(check(world.events), "M1") == "unknown"


@pytest.mark.parametrize("rule", ["holder-died", "expired", "observed"])
def test_a_rule_is_about_the_grant_before_it_alone(rule: str) -> None:
    """With a grant in between that is in no log, nothing tells what became of the one before."""
    world, one, two = silent(rule)
    index = world.events.index(two)
    for prev in ((one.fence or 0) + 1, None):
        world.events[index] = two._replace(facts={**two.facts, "fence": (one.fence or 0) + 2, "prev": prev})
        assert status(check(world.events), "M1") == "unknown"


def test_expired_before_its_deadline_is_unknown() -> None:
    """Whoever was taken over as expired, was so by its own clock too."""
    world, one, two = silent("expired")
    index = world.events.index(one)
    world.events[index] = one._replace(facts={**one.facts, "until": two.at + 1})
    assert status(check(world.events), "M1") == "unknown"


def test_no_rule_is_no_end() -> None:
    """A grant that says nothing of a takeover does not end a hold that says no end itself."""
    assert status(check(silent(None)[0].events), "M1") == "unknown"


def test_a_close_after_the_takeover_is_no_sign_of_life() -> None:
    """The store is let go before the last event is written: a death that was proved stays one."""
    world, _, _ = silent("holder-died")
    world.add("close", world.living[0])
    assert check(world.events).status == "pass"


@pytest.mark.parametrize(("free_in", "expected"), [(0.0, "pass"), (30.0, "unknown"), (None, "unknown")])
def test_a_break_of_a_dead_holder(free_in: float | None, expected: str) -> None:
    """A break frees at once who is dead or past its ttl, and its event says so; else it ends nothing."""
    world = World(7)
    held = world.hold("b", world.living[0])
    world.crash(world.living[0])
    facts = {"name": "b", "fence": held.fence, "by": "ops", "reason": "x", "now": False}
    world.add("broken", world.living[0], **facts, free_in=free_in)
    world.records["b"].takeover = None
    world.hold("b", world.living[1])
    assert check(world.events).status == expected


def test_a_break_that_is_not_in_the_log_is_unknown() -> None:
    """A holder that was broken and overlaps: whether M1 was given up is what the missing event would tell."""
    world = World(8)
    held = world.hold("b", world.living[0])
    world.records["b"].hold = None
    world.hold("b", world.living[1])
    world.end(held, "lost", "broken")
    assert status(check(world.events), "M1") == "unknown"


def test_one_nonce_for_two_grants_is_unknown() -> None:
    """Then nothing tells which of them an end belongs to."""
    world = World(9)
    one, other = world.coda()
    assert check(world.changed(other.nonce, ("granted",), nonce=one.nonce)).status == "unknown"


def test_a_clock_that_went_back_is_unknown() -> None:
    """An instance has one clock, which never falls."""
    world = World(10)
    world.coda()
    last = world.events[-1]
    assert check([*world.events[:-1], last._replace(at=last.at - 100)]).status == "unknown"
    assert check([*world.events[:-1], last._replace(boot="other")]).status == "unknown"


def test_a_gap_in_a_gates_order_is_unknown() -> None:
    """M3 is proved for a whole order alone."""
    world = World(11)
    world.coda()
    world.add("accepted", world.living[0], name="a", gate="a", order=4, fence=world.fence)
    assert status(check(world.events), "M3") == "unknown"


# -- several clocks ------------------------------------------------------------------------------------


def apart(takeover: str | None = None, *, walls: float = 0.0, store: str = "cosmos") -> list[Event]:
    """Two holds of a name by instances of two boots; `walls` is how far the second wall clock is ahead."""
    world = World(12)
    world.coda()
    second = world.living[1]
    events = []
    for event in world.events:
        facts = {key: value for key, value in event.facts.items() if key != "store"}
        if event.kind == "open":
            facts["store"] = store
        if event.instance == second:
            for clock in ("until", "sent"):
                if clock in facts:
                    facts[clock] = facts[clock] + 5e6
            if event.kind == "granted" and takeover is not None:
                facts["takeover"] = takeover
            events.append(event._replace(boot="other", at=event.at + 5e6, wall=event.wall + walls, facts=facts))
        else:
            events.append(event._replace(facts=facts))
    return events


def test_two_boots_need_a_skew() -> None:
    """Across boots the order is unknown, unless the user vouches for the walls or a boot is over."""
    assert status(check(apart()), "M1") == "unknown"
    assert check(apart(walls=10), max_skew=1).status == "pass"
    assert check(apart(walls=0), max_skew=1).status == "unknown"
    assert status(check(apart(walls=-10), max_skew=1), "M1") == "fail"
    assert check(apart("rebooted")).status == "pass"
    assert check(apart("holder-died")).status == "pass"
    assert check(apart("expired")).status == "unknown"


def test_the_same_boot_is_not_over() -> None:
    """A takeover from another boot, of a holder with the very same, is no proof."""
    world, _, _ = silent("rebooted")
    assert status(check(world.events), "M1") == "unknown"


def test_a_crash_on_another_machine_needs_a_skew() -> None:
    """Silence is silence before the takeover only by a clock that both share, or that the user vouches for."""
    events = [
        event
        for event in apart("observed", walls=10)
        if not (event.kind == "released" and event.boot == "boot")
    ]
    numbered = [
        event._replace(seq=sum(e.instance == event.instance for e in events[:index]) + 1)
        for index, event in enumerate(events)
    ]
    assert check(numbered).status == "unknown"
    assert check(numbered, max_skew=1).status == "pass"


def test_without_a_boot_an_instance_has_its_own_clock() -> None:
    """Where the boot is not known, one instance's events are compared with one another, and with no other."""
    world = World(13)
    for _ in range(2):
        held = world.hold("a", world.living[0])
        world.release(held)
    events = [event._replace(boot="") for event in world.events]
    assert check(events).status == "pass"
    end = next(index for index, event in enumerate(events) if event.kind == "released")
    events[end] = events[end]._replace(facts={**events[end].facts, "until": world.now})
    assert status(check(events), "M1") == "fail"
    world.coda("b")
    assert check([event._replace(boot="") for event in world.events]).status == "unknown"


@pytest.mark.parametrize(("store", "expected"), [("sqlite", "unknown"), ("cosmos", "fail")])
def test_a_chain_that_forks_with_a_boot(store: str, expected: str) -> None:
    """An embedded store may forget with the power; fences rise all the same. Any other store must not."""
    events = apart("rebooted", store=store)
    one, other = [index for index, event in enumerate(events) if event.kind == "granted"]
    for index in (one, other):
        events[index] = events[index]._replace(facts={**events[index].facts, "prev": 5})
    assert status(check(events), "M2") == expected


def test_a_regression_by_the_walls_fails() -> None:
    """M2 across machines: a lower fence that was asked for long after the higher one was granted."""
    assert check(apart(walls=10), max_skew=1).count("M2") == 0
    assert check(apart(walls=-100), max_skew=1).count("M2") == 1
    assert check(apart(walls=-100), max_skew=1000).count("M2") == 0


# -- size, and the real thing --------------------------------------------------------------------------


def test_a_hundred_thousand_events(capsys: pytest.CaptureFixture[str]) -> None:
    """Large histories are checked in near-linear time; the time is printed, not judged."""
    world = World(0, names=tuple(f"n{number}" for number in range(50)))
    while len(world.events) < 100_000:
        world.go(1_000)
    started = time.perf_counter()
    assert check(world.events).status == "pass"
    with capsys.disabled():
        print(f" {len(world.events):,} events in {time.perf_counter() - started:.2f} s ", end="")


WORKER = """
import sys, time, azlatch
url, log, killed = sys.argv[1], sys.argv[2], sys.argv[3] == "killed"
with azlatch.connect(url, audit=log) as latches:
    for number in range(20):
        with latches.hold("a", ttl=600, timeout=60):
            if killed and number == 5:
                print("in", flush=True)
                time.sleep(60)
"""


def test_a_real_history_with_a_kill_passes(tmp_path: Path) -> None:
    """Several processes, one killed with -9 while it holds: the history passes and tells the takeover."""
    url, log = f"sqlite:///{tmp_path}/x.db", str(tmp_path / "audit.jsonl")

    def start(kind: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", WORKER, url, log, kind]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    with start("killed") as doomed, start("-") as one, start("-") as other:
        assert doomed.stdout is not None
        assert doomed.stdout.readline() == "in\n"
        doomed.kill()
        assert (one.wait(60), other.wait(60)) == (0, 0)
    with azlatch.connect(url, audit=log) as latches:
        latches.acquire("a", timeout=10).release()
    damage: list[Damage] = []
    events = list(read(rotated(log), damage))
    verdict = check(events, damage)
    assert verdict.status == "pass", verdict.findings
    assert (verdict.instances, verdict.grants) == (4, 47)
    takeovers = [event.facts["takeover"] for event in events if "takeover" in event.facts]
    assert takeovers == ["holder-died"]
