"""The record protocol: who may change what, and what proves that a holder is gone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azlatch.core import record as rules
from azlatch.core.contention import ContentionWindow
from azlatch.core.instance import Instance, role_of, scales_out
from azlatch.core.line import Line
from azlatch.core.record import Claim, Evidence, Observation, Record

HOLDER = Instance("1" * 32, "host", 1, 0.0)


def claim(
    now: float = 0.0, nonce: str = "n", ttl: float = 30.0, observation: Observation | None = None
) -> Claim:
    return Claim("a", nonce, ttl, now, now, 1_000.0, HOLDER, False, observation)


def held(fence: int = 5, nonce: str = "h", ttl: float = 30.0, **fields: object) -> Record:
    record = rules.granted(None, claim(0.0, nonce, ttl), fence - 1, "boot", "time", "member")
    return record._replace(**fields)  # type: ignore[arg-type]


def test_fences_rise_with_or_without_a_record() -> None:
    """F1: a missing record means no knowledge, and the floor stands in for it."""
    assert rules.next_fence(None, 41) == 42
    assert rules.next_fence(held(5), 0) == 6
    assert rules.next_fence(held(5), 41) == 42


def test_watching_takes_the_records_ttl() -> None:
    """R2: the same triple twice, the record's own ttl apart, whatever the contender's ttl is."""
    record = held(ttl=30.0)
    seen = Observation(record.triple, 100.0)
    assert rules.takeover(record, claim(129.9, ttl=1.0, observation=seen), rules.NO_EVIDENCE) is None
    assert rules.takeover(record, claim(130.0, ttl=90.0, observation=seen), rules.NO_EVIDENCE) == "observed"


@pytest.mark.parametrize("change", [{"beat": 7}, {"beat": -1}, {"nonce": "other"}, {"fence": 4}])
def test_any_other_triple_restarts_the_count(change: dict[str, object]) -> None:
    """R2: a change of any part, to a lower beat too, means that someone is alive."""
    record = held()
    seen = Observation(record.triple, 100.0)
    other = record._replace(**change)  # type: ignore[arg-type]
    assert rules.takeover(other, claim(500.0, observation=seen), rules.NO_EVIDENCE) is None
    assert rules.observe(seen, other.triple, 500.0) == Observation(other.triple, 500.0)
    assert rules.observe(seen, record.triple, 500.0) == seen


@pytest.mark.parametrize(
    ("life", "boot", "namespace", "now", "expected"),
    [
        ("dead", "boot", "time", 1.0, Evidence(gone="holder-died")),
        ("dead", "", "", 1.0, Evidence(gone="holder-died")),
        ("alive", "boot", "time", 31.0, Evidence(age=31.0)),
        ("unknown", "boot", "time", 31.0, Evidence(age=31.0)),
        ("unknown", "boot-2", "time", 1.0, Evidence(gone="rebooted")),
        ("alive", "boot-2", "time", 1.0, Evidence()),
        ("unknown", "", "time", 31.0, Evidence()),
        ("unknown", "boot", "other", 31.0, Evidence()),
        ("unknown", "boot", "", 31.0, Evidence()),
        ("unknown", "boot", "time", -1.0, Evidence()),
    ],
)
def test_evidence(life: rules.Life, boot: str, namespace: str, now: float, expected: Evidence) -> None:
    """R3, R4: one clock, one boot and a held lock decide; any doubt proves nothing."""
    assert rules.evidence_of(held(), life, boot, namespace, now) == expected


def test_a_renewal_only_replaces_its_own() -> None:
    """R1: with another nonce there, free or broken, a renewal changes nothing."""
    record = held()
    assert rules.renewed(record, "h", 9.0) == record._replace(beat=1, beat_at=9.0, version=2)
    assert rules.renewed(record, "other", 9.0) is None
    assert rules.renewed(record._replace(state="free"), "h", 9.0) is None


def test_a_break_stops_the_holder_and_waits_for_it() -> None:
    """B1, B2: the nonce is replaced, who and why recorded, and only its holder frees it early."""
    record = rules.broken(held(), nonce="b", by="ops", reason="stuck", sent=50.0, now=False)
    assert (record.state, record.previous, record.breaker, record.reason) == ("broken", "h", "ops", "stuck")
    assert rules.renewed(record, "h", 51.0) is None
    assert rules.why_gone(record, "h") == "broken"
    assert rules.why_gone(record, "x") == "stolen"
    assert rules.takeover(record, claim(79.0), Evidence(age=29.0)) is None
    assert rules.takeover(record, claim(81.0), Evidence(age=31.0)) == "expired"
    assert rules.released(record, "x") is None
    acknowledged = rules.released(record, "h")
    assert acknowledged is not None
    assert acknowledged.state == "free"
    # Its holder is still told that it was broken when someone else has the name.
    assert rules.why_gone(rules.granted(acknowledged, claim(90.0), 0, "boot", "time", "m"), "h") == "broken"


@given(
    st.integers(0, 9),
    st.sampled_from(["", "b1", "b2"]),
    st.sampled_from(["", "b1", "b2"]),
    st.booleans(),
    st.integers(0, 12),
)
def test_epochs_rise_unless_nothing_can_be_forgotten(
    epoch: int, before: str, boot: str, cold: bool, least: int
) -> None:
    """F3: the epoch stays only within one known boot while someone else has the store open."""
    after = rules.next_epoch(epoch, before, boot, cold, least)
    if before == boot != "" and not cold:
        assert after == epoch
    else:
        assert after > epoch
        assert after >= least
    if before != boot:
        # Four million fences: more than a power loss can have forgotten.
        assert rules.epoch_floor(after) - rules.epoch_floor(epoch) >= 4_000_000


@pytest.mark.parametrize(("version", "basis", "settled"), [(3, 3, False), (4, 3, True), (9, None, False)])
def test_absence_proves_failure_only_with_a_newer_version(
    version: int, basis: int | None, settled: bool
) -> None:
    """R5: a write that was conditional on an older version can never land."""
    assert rules.settled(held(version=version), basis) is settled
    assert rules.settled(None, basis) is False


@given(st.lists(st.sampled_from(["join", "leave"]), max_size=40))
def test_line_is_first_come_first_served(acts: list[str]) -> None:
    """The front is always the one who came first of those who are there."""
    line: Line[object] = Line()
    model: list[object] = []
    for number, act in enumerate(acts):
        if act == "join":
            waiter = object()
            assert line.join("a", waiter) == (not model)
            model.append(waiter)
        elif model:
            leaving = model[number % len(model)]
            was_front = leaving is model[0]
            model.remove(leaving)
            assert line.leave("a", leaving) is (model[0] if was_front and model else None)
        assert line.front("a") is (model[0] if model else None)
        assert line.waiting("a") == len(model)


def test_contention_alarm_has_a_sample_and_hysteresis() -> None:
    """The alarm needs 20 attempts, goes on above 10 % and off below 5 %, each told once."""
    window = ContentionWindow()
    assert [window.add(float(n), True) for n in range(19)] == [None] * 19
    assert window.add(19.0, True) == "on"
    changes = [window.add(20.0 + n / 10, False) for n in range(2_000)]
    assert [change for change in changes if change] == ["off"]


def test_contention_window_slides() -> None:
    """What is older than the window does not count."""
    window = ContentionWindow(span=10.0, slots=10)
    for n in range(50):
        window.add(float(n), True)
    assert window.attempts <= 12
    window.add(1_000.0, False)
    assert (window.attempts, window.misses, window.contention) == (1, 0, 0.0)


@pytest.mark.parametrize(
    ("environment", "role", "platform"),
    [
        ({}, "", None),
        ({"WEBSITE_SITE_NAME": "shop", "WEBSITE_INSTANCE_ID": "0123456789ab"}, "shop/01234567", "App Service"),
        ({"WEBSITE_SITE_NAME": "f", "FUNCTIONS_WORKER_RUNTIME": "python"}, "f", "Azure Functions"),
        ({"CONTAINER_APP_NAME": "x", "CONTAINER_APP_REPLICA_NAME": "x-7"}, "x-7", "Container Apps"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "pod-1"}, "pod-1", "Kubernetes"),
        ({"HOSTNAME": "laptop"}, "", None),
    ],
)
def test_roles(environment: dict[str, str], role: str, platform: str | None) -> None:
    """The platform's own name of the instance is part of who holds a latch."""
    assert role_of(environment) == role
    assert scales_out(environment) == platform
