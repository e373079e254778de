"""The Blob latch through faults: real Azurite, the real SDK, and a proxy that loses, delays and refuses."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import pytest

from azlatch.audit.log import FileSink, read
from azlatch.audit.statistics import Statistics
from azlatch.errors import AcquireTimeout, BackendError, BackendUnavailable, HoldLost
from azlatch.lab.azurite import Azurite
from azlatch.lab.faults import Fault
from azlatch.lab.proxy import FaultProxy
from azlatch.runtime.latches import Latches

from .conftest import Connect, until

ACQUIRE = {"x-ms-lease-action": "acquire"}
RENEW = {"x-ms-lease-action": "renew"}
RELEASE = {"x-ms-lease-action": "release"}


def test_lost_replies(
    connect: Connect, faults: FaultProxy, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """An acquire and a release whose replies are lost: one grant, no orphan, and nothing said about it."""
    latches, other = connect(faults), connect()
    latches.acquire("a").release()
    faults.reset_counts()
    faults.add(Fault.drop_reply(), method="PUT", header=ACQUIRE, times=1)
    faults.add(Fault.drop_reply(), method="PUT", header=RELEASE, times=1)
    faults.add(Fault.drop_reply(), method="PUT", path="comp=metadata", times=1)
    with caplog.at_level(logging.INFO):
        hold = latches.acquire("a", timeout=20)
        hold.ensure()
        view = other.inspect("a")
        assert view is not None
        assert (view.state, view.fence) == ("held", hold.fence)
        assert other.try_acquire("a") is None
        hold.release()
    assert faults.count(fault="drop-reply") == 3
    view = other.inspect("a")
    assert view is not None
    assert view.state == "free"
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    newer = other.acquire("a", timeout=0)
    assert newer.fence is not None
    assert hold.fence is not None
    assert newer.fence > hold.fence
    newer.release()


@pytest.mark.parametrize("verb", [ACQUIRE, {}])
def test_a_try_whose_reply_is_lost_leaves_nothing(
    verb: dict[str, str], connect: Connect, faults: FaultProxy
) -> None:
    """One shot, every reply lost: unavailable, and the name is soon free for others, long before a ttl."""
    latches, other = connect(faults), connect()
    latches.acquire("a").release()
    rule = faults.add(Fault.drop_reply(), method="PUT", header=verb)
    with pytest.raises(BackendUnavailable):
        latches.try_acquire("a")
    faults.remove(rule)
    other.acquire("a", timeout=10).release()


@pytest.mark.timeout(180)
def test_a_slow_store(connect: Connect, faults: FaultProxy, tmp_path: Path) -> None:
    """Every request takes 5 s: a ttl of 30 works, renewals hold, and statistics say slow store, not outage."""
    log = tmp_path / "audit.jsonl"
    latches = connect(faults, audit=FileSink(log))
    latches.inspect("nothing")
    faults.add(Fault.delay(5.0))
    hold = latches.acquire("a", ttl=30, timeout=60)
    end = time.monotonic() + 33
    while time.monotonic() < end:
        hold.ensure()
        time.sleep(0.5)
    assert hold.machine.renewals >= 2
    hold.release()
    statistics = Statistics.of(list(read([log], [])))
    assert statistics.total.slow >= 1
    assert statistics.total.outages == 0


@pytest.mark.timeout(180)
def test_a_renewal_that_hangs(connect: Connect, faults: FaultProxy) -> None:
    """A renewal hangs for 40 s on a lease of 15 s: lost at its deadline, the body is told, others live on."""
    latches = connect(faults)
    others = [latches.acquire(f"other-{number}", ttl=15) for number in range(8)]
    told: list[tuple[str, float]] = []
    hold = latches.acquire("a", ttl=15)
    hold.on_lost(lambda reason: told.append((reason, time.monotonic())))
    faults.add(Fault.black_hole(40), method="PUT", path="/a[?]", header=RENEW)
    deadline = time.monotonic() + hold.remaining()
    assert hold.wait_lost(30)
    assert abs(time.monotonic() - deadline) < 2.0
    assert hold.lost_reason == "expired"
    until(lambda: bool(told), 5)
    with pytest.raises(HoldLost):
        hold.ensure()
    until(lambda: time.monotonic() > deadline + 4, 10)
    for other in others:
        other.ensure()
        assert other.machine.renewals >= 2
        other.release()
    hold.release()


def test_refusals_in_bursts(connect: Connect, faults: FaultProxy) -> None:
    """503 and 403, three times each, in the life of a hold: it lives (facts of webjobs 665 and 2435)."""
    latches = connect(faults)
    hold = latches.acquire("a", ttl=15)
    faults.add(Fault.status(503), header=RENEW, times=3)
    faults.add(Fault.status(403), header=RENEW, times=2)
    until(lambda: hold.machine.renewals >= 2, 40)
    hold.ensure()
    hold.release()


@pytest.mark.timeout(180)
def test_the_service_ends_and_comes_back(connect: Connect, azurite: Azurite, tmp_path: Path) -> None:
    """Stopped: tries and acquires fail within their bounds, holders lose in time. Started: work goes on."""
    own = Azurite(location=tmp_path / "data")
    own.start()
    try:
        from azlatch.backends.blob import BlobBackend
        from azlatch.runtime.connection import Connection
        from azlatch.runtime.env import REAL

        backend = BlobBackend.from_connection_string(own.connection_string, "latches")
        latches = Latches(Connection(backend, REAL, create=True))
        hold = latches.acquire("held", ttl=15)
        own.stop()
        started = time.monotonic()
        with pytest.raises(BackendUnavailable):
            latches.try_acquire("a")
        assert time.monotonic() - started < 5.0
        started = time.monotonic()
        with pytest.raises(BackendUnavailable):
            latches.acquire("a", timeout=10)
        assert time.monotonic() - started < 11.5
        assert hold.wait_lost(15)
        assert hold.lost_reason == "expired"
        own.start()
        again = latches.acquire("a", timeout=30)
        again.ensure()
        after = latches.acquire("held", ttl=15, timeout=30)
        assert after.fence is not None
        assert hold.fence is not None
        assert after.fence > hold.fence
        again.release()
        after.release()
        latches.close()
    finally:
        own.stop()


@pytest.mark.timeout(180)
def test_a_service_that_does_not_answer(connect: Connect, faults: FaultProxy) -> None:
    """A black hole is an outage within the bounds, and never contention (M6, M7)."""
    latches = connect(faults)
    latches.acquire("a").release()
    hole = faults.add(Fault.black_hole())
    started = time.monotonic()
    with pytest.raises(BackendUnavailable):
        latches.try_acquire("a")
    assert time.monotonic() - started < 5.0
    started = time.monotonic()
    with pytest.raises(BackendUnavailable):
        latches.acquire("a", timeout=6)
    assert time.monotonic() - started < 7.5
    faults.remove(hole)
    latches.acquire("a", timeout=30).release()


@pytest.mark.parametrize("fault", [Fault.trickle(20), Fault.truncate(5), Fault.partial(30), Fault.reset()])
def test_replies_in_pieces(fault: Fault, connect: Connect, faults: FaultProxy) -> None:
    """A reply that trickles, is cut or never comes whole is bounded, and the next one is believed again."""
    latches = connect(faults)
    latches.acquire("a").release()
    rule = faults.add(fault)
    started = time.monotonic()
    try:
        hold = latches.try_acquire("a")
    except BackendError:
        hold = None
    assert time.monotonic() - started < 5.5
    faults.remove(rule)
    if hold is not None:
        hold.release()
    latches.acquire("a", timeout=30).release()


@pytest.mark.timeout(240)
def test_contenders_make_few_failed_requests(connect: Connect, faults: FaultProxy) -> None:
    """Sixteen contenders for a name: at most one 409 for each grant, counted at the proxy."""
    seconds = 60.0
    end = time.monotonic() + seconds
    grants: list[int | None] = []
    instances = [connect(faults) for _ in range(16)]
    instances[0].acquire("a").release()
    faults.reset_counts()

    def contend(latches: Latches) -> None:
        while time.monotonic() < end:
            try:
                with latches.hold("a", timeout=max(end - time.monotonic(), 0.1)) as hold:
                    grants.append(hold.fence)
                    time.sleep(0.01)
            except AcquireTimeout:
                return

    threads = [threading.Thread(target=contend, args=(latches,)) for latches in instances]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds * 4)
    assert not any(thread.is_alive() for thread in threads)
    assert len(grants) > 16
    assert grants == sorted(set(grants), key=lambda fence: fence or 0)
    assert faults.count(status=409) + faults.count(status=412) <= len(grants)


@pytest.mark.timeout(120)
def test_a_hundred_waiters_are_one_poller(connect: Connect, faults: FaultProxy) -> None:
    """Any number of waiters of one process cost the requests of one."""
    holder, latches = connect(), connect(faults)
    hold = holder.acquire("a", ttl=60)
    done: list[int | None] = []

    def wait() -> None:
        with latches.hold("a", timeout=60) as mine:
            done.append(mine.fence)

    threads = [threading.Thread(target=wait) for _ in range(100)]
    for thread in threads:
        thread.start()
    time.sleep(2.0)
    faults.reset_counts()
    time.sleep(6.0)
    looks = faults.count()
    assert 1 <= looks <= 12
    hold.release()
    for thread in threads:
        thread.join(60)
    assert len(set(done)) == 100
    assert faults.count(status=409) == 0


@pytest.mark.timeout(300)
def test_a_thousand_holds(connect: Connect, faults: FaultProxy) -> None:
    """One process, a thousand holds: bounded threads; one renewal that hangs delays none of the others."""
    latches = connect(faults)
    before = threading.active_count()
    holds = [latches.acquire(f"h{number}", ttl=60, timeout=60) for number in range(1_000)]
    faults.add(Fault.black_hole(120), path="/h500[?]", header=RENEW)
    lowest = 60.0
    end = time.monotonic() + 45
    while time.monotonic() < end:
        lowest = min(lowest, min(hold.remaining() for hold in holds if hold.name != "h500"))
        assert threading.active_count() - before < 150
        time.sleep(1)
    assert lowest > 0
    for hold in holds:
        if hold.name != "h500":
            hold.ensure()
    assert latches._connection.heart.threads <= 33
    latches.close()
