"""The drivers: loops, cancellation, threads that cannot start, weak references, counted calls."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import azlatch
from azlatch.backends.memory import MemoryBackend, MemoryStore
from azlatch.backends.sqlite import SqliteBackend
from azlatch.errors import BackendUnavailable, HeartUnavailable, OutcomeUnknown

# Tests drop holds that they are done with; what that warns of has a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore:the hold of:ResourceWarning")

PATIENCE = 20.0


class Counted:
    """A backend that counts its calls and can be told to fail, hang or lose replies."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.calls: list[str] = []
        self.script: dict[str, list[Any]] = {}

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.inner, name)
        if name not in ("acquire", "renew", "release", "settle", "leave", "note", "read"):
            return attribute

        def call(*arguments: Any, **named: Any) -> Any:
            self.calls.append(name)
            acts = self.script.get(name)
            act = acts.pop(0) if acts else None
            return act(attribute, *arguments, **named) if act is not None else attribute(*arguments, **named)

        return call


def refused(call: Any, *arguments: Any) -> Any:
    raise BackendUnavailable("refused")


def lost_reply(call: Any, *arguments: Any) -> Any:
    call(*arguments)
    raise OutcomeUnknown("the reply was lost")


def lost_request(call: Any, *arguments: Any) -> Any:
    raise OutcomeUnknown("the request was lost")


def until(condition: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.005)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def counted(store: MemoryStore) -> Counted:
    return Counted(MemoryBackend(store))


@pytest.fixture
def latches(counted: Counted) -> Iterator[azlatch.Latches]:
    with azlatch.connect(backend=counted) as latches:
        yield latches


# -- calls -----------------------------------------------------------------------------------------


def test_calls_per_pair(tmp_path: Path) -> None:
    """An uncontended acquire is one call to the store and so is a release, on the embedded store too."""
    counted = Counted(SqliteBackend(tmp_path / "x.db"))
    with azlatch.connect(backend=counted) as latches:
        latches.acquire("a").release()
        counted.calls.clear()
        for _ in range(100):
            latches.acquire("a").release()
        with latches.hold("a"):
            pass
    assert counted.calls == ["acquire", "release"] * 101


def test_one_transaction_per_call(tmp_path: Path) -> None:
    """Each of these calls is one transaction of the embedded store."""
    backend = SqliteBackend(tmp_path / "x.db")
    with azlatch.connect(backend=backend) as latches:
        latches.acquire("a").release()
        statements: list[str] = []
        assert backend._db is not None
        backend._db.set_trace_callback(statements.append)
        latches.acquire("a").release()
        backend._db.set_trace_callback(None)
    assert [each for each in statements if each.startswith(("BEGIN", "COMMIT"))] == [
        "BEGIN IMMEDIATE",
        "COMMIT",
    ] * 2


def test_any_number_of_local_waiters_cost_one_poller(
    latches: azlatch.Latches, counted: Counted, store: MemoryStore
) -> None:
    """Of a hundred threads that wait for one name, only the first asks the store."""
    with azlatch.connect(backend=MemoryBackend(store)) as other:
        hold = other.acquire("a")
        order: list[int] = []

        def wait() -> None:
            with latches.hold("a", timeout=PATIENCE) as mine:
                order.append(mine.fence or 0)

        threads = [threading.Thread(target=wait) for _ in range(100)]
        for thread in threads:
            thread.start()
        until(lambda: latches._connection.room.waiting("a") == 100)
        counted.calls.clear()
        time.sleep(0.5)
        polls = counted.calls.count("acquire")
        assert 1 <= polls <= 15
        hold.release()
        for thread in threads:
            thread.join(PATIENCE)
    assert order == sorted(order)
    assert len(order) == 100


# -- unknown outcomes ------------------------------------------------------------------------------


def test_lost_reply_of_an_acquire(latches: azlatch.Latches, counted: Counted) -> None:
    """M5: an acquire whose reply was lost reads back as its own grant: one grant, no orphan."""
    counted.script["acquire"] = [lost_reply]
    hold = latches.acquire("a", timeout=5)
    assert counted.calls.count("acquire") == 2
    view = latches.inspect("a")
    assert view is not None
    assert view.fence == hold.fence


def test_lost_reply_of_a_try_leaves_nothing(latches: azlatch.Latches, counted: Counted) -> None:
    """A one-shot whose reply was lost says that the store failed, and what it got is freed behind it."""
    counted.script["acquire"] = [lost_reply]
    with pytest.raises(BackendUnavailable):
        latches.try_acquire("a")
    until(lambda: (view := latches.inspect("a")) is not None and view.state == "free")


def test_lost_reply_of_a_release(latches: azlatch.Latches, counted: Counted) -> None:
    """A release whose reply was lost is quiet, is repeated, and frees nobody else's hold."""
    hold = latches.acquire("a")
    counted.script["release"] = [lost_reply, refused, refused]
    hold.release()
    newer = latches.acquire("a", timeout=5)
    until(lambda: latches._connection.heart.open_chores == 0)
    newer.ensure()
    view = latches.inspect("a")
    assert view is not None
    assert view.fence == newer.fence


def test_failed_releases_are_repeated(latches: azlatch.Latches, counted: Counted) -> None:
    """A release that fails three times succeeds in the background."""
    hold = latches.acquire("a", ttl=60)
    counted.script["release"] = [refused, refused, lost_request]
    hold.release()
    assert latches.acquire("a", timeout=PATIENCE).remaining() > 0


def test_failing_renewals_are_repeated(latches: azlatch.Latches, counted: Counted) -> None:
    """Failures and unknown outcomes of renewals cost nothing while one of them gets through in time."""
    counted.script["renew"] = [refused, lost_request, lost_reply]
    hold = latches.acquire("a", ttl=6.0)
    until(lambda: hold.machine.renewals >= 2)
    hold.ensure()


@pytest.mark.parametrize("error", [RuntimeError("bug"), ValueError("bug"), OSError(5, "disk")])
def test_the_heart_survives_everything(latches: azlatch.Latches, counted: Counted, error: Exception) -> None:
    """An exception that nobody foresaw neither ends the heart nor the hold."""

    def fail(*arguments: Any) -> None:
        raise error

    counted.script["renew"] = [fail, fail]
    hold = latches.acquire("a", ttl=5.0)
    until(lambda: hold.machine.renewals >= 1)
    hold.ensure()


def test_a_fast_worker_is_not_overwritten(latches: azlatch.Latches, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that ends before the clock thread has noted its next look: the worker's time stands."""
    from azlatch.runtime.heart import Heart

    real = Heart._push
    late: list[float] = []

    def slow(self: Heart, at: float | None, subject: Any, owner: Any) -> None:
        if threading.current_thread().name != "azlatch-heart" or not hasattr(owner, "machine"):
            real(self, at, subject, owner)
            return
        time.sleep(0.05)  # the worker, which has no reason to wait, is done by now
        real(self, at, subject, owner)
        late.append(owner.entry_at - owner.machine.next_look)

    monkeypatch.setattr(Heart, "_push", slow)
    hold = latches.acquire("a", ttl=2.0)
    until(lambda: hold.machine.renewals >= 2)
    assert late
    assert all(difference == 0 for difference in late)


def test_renewals_that_raise_for_a_ttl_lose_the_hold(latches: azlatch.Latches, counted: Counted) -> None:
    """When no renewal gets through, the hold is lost at its deadline and its holder told."""
    counted.script["renew"] = [refused] * 1_000
    hold = latches.acquire("a", ttl=0.6)
    assert hold.wait_lost(PATIENCE)
    assert hold.lost_reason == "expired"


def test_one_hung_call_delays_no_other_hold(latches: azlatch.Latches, counted: Counted) -> None:
    """With a renewal that hangs, that hold is lost and all others go on."""
    hung = threading.Event()
    try:
        first = latches.acquire("hung", ttl=5.0)
        counted.script["renew"] = [lambda call, *arguments: hung.wait(PATIENCE) and None]
        until(lambda: "renew" in counted.calls)
        others = [latches.acquire(f"n{n}", ttl=5.0) for n in range(50)]
        time.sleep(6.0)
        for hold in others:
            hold.ensure()
        first.ensure()  # Another thread renewed it when its own call was overdue.
    finally:
        hung.set()


def test_outage_behind_the_front(latches: azlatch.Latches, counted: Counted) -> None:
    """M6: threads that wait behind another one in an outage are told of the outage, not of contention."""
    counted.script["acquire"] = [refused] * 1_000
    errors: list[type[BaseException]] = []

    def wait() -> None:
        try:
            latches.acquire("a", timeout=0.5)
        except azlatch.LatchError as error:
            errors.append(type(error))

    threads = [threading.Thread(target=wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert errors == [BackendUnavailable] * 5


# -- threads and references ------------------------------------------------------------------------


def test_heart_that_cannot_start(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a heart nothing is held: the acquire fails, and the name is free."""
    latches = azlatch.connect(backend=counted)

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(HeartUnavailable, match="can't start new thread"):
            latches.acquire("a", ttl=60)
    hold = latches.try_acquire("a")
    assert hold is not None
    latches.close()


def test_a_dropped_hold_warns_and_is_renewed_no_more(latches: azlatch.Latches, counted: Counted) -> None:
    """H3: a bare hold lives as long as it is referenced; collected unreleased it warns and runs out."""
    hold = latches.acquire("a", ttl=0.6)
    with pytest.warns(ResourceWarning, match="without release"):
        del hold
        gc.collect()
    assert latches.acquire("a", timeout=PATIENCE).remaining() > 0


def test_renewal_ends_with_the_thread_inside(latches: azlatch.Latches) -> None:
    """H3: when the thread inside `with` has ended without leaving it, the hold is lost and the name free."""
    holds: list[Any] = []

    def enter() -> None:
        holds.append(latches.hold("a", ttl=0.6).__enter__())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert holds[0].wait_lost(PATIENCE)
    assert holds[0].lost_reason == "owner-died"
    assert latches.acquire("a", timeout=PATIENCE).remaining() > 0


def test_threads_do_not_grow_with_holds(latches: azlatch.Latches) -> None:
    """A thousand holds are renewed by a handful of threads."""
    before = threading.active_count()
    holds = [latches.acquire(f"n{n}", ttl=6.0) for n in range(1_000)]
    time.sleep(6.5)
    for hold in holds:
        hold.ensure()
    assert threading.active_count() - before <= 8


def test_a_dropped_connection_leaves_nothing_behind(tmp_path: Path) -> None:
    """Connections that are dropped without close() take their threads and files with them."""
    azlatch.connect(f"sqlite:///{tmp_path}/x.db").acquire("a").release()
    gc.collect()
    before = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        azlatch.connect(f"sqlite:///{tmp_path}/x.db").acquire("a").release()
    gc.collect()
    until(lambda: threading.active_count() <= before[0])
    until(lambda: len(os.listdir("/proc/self/fd")) <= before[1] + 2)
    assert len(list((tmp_path / "x.db-live").glob("*.live"))) <= 1


def test_the_body_wins(latches: azlatch.Latches) -> None:
    """`with` never hides the exception of the body, and raises HoldLost after a loss if there is none."""
    with pytest.raises(ZeroDivisionError), latches.hold("a", ttl=0.5, heartbeat=False) as hold:
        assert hold.wait_lost(PATIENCE)
        raise ZeroDivisionError
    with pytest.raises(azlatch.HoldLost), latches.hold("a", ttl=0.5, heartbeat=False) as hold:
        assert hold.wait_lost(PATIENCE)


def test_wall_clock_set_back(latches: azlatch.Latches, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wall clock set back or forward by an hour changes nothing but that ensure() asks once more."""
    hold = latches.acquire("a", ttl=30)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 3_600)
    hold.ensure()
    assert latches.try_acquire("a") is None
    monkeypatch.setattr(time, "time", lambda: real() + 3_600)
    hold.ensure()
    hold.ensure()
    assert hold.machine.renewals == 1
    assert latches.try_acquire("a") is None


def test_lock_shape(latches: azlatch.Latches) -> None:
    """`lock(name)` can stand where a threading.Lock is wanted."""
    lock, other = latches.lock("a"), latches.lock("a")
    assert lock.acquire()
    assert lock.locked()
    assert not other.acquire(blocking=False)
    assert not other.acquire(timeout=0.1)
    lock.release()
    with other:
        assert other.locked()
    with pytest.raises(RuntimeError):
        lock.release()
    with pytest.raises(ValueError, match="timeout"):
        lock.acquire(blocking=False, timeout=1)


# -- asyncio ---------------------------------------------------------------------------------------


def test_blocking_code_in_the_body_keeps_the_hold(store: MemoryStore) -> None:
    """A body that blocks its event loop for three ttls keeps its hold."""

    async def main() -> None:
        async with azlatch.aio.connect(backend=MemoryBackend(store)) as latches:
            async with latches.hold("a", ttl=2) as hold:
                time.sleep(3 * 2)
                await hold.ensure()
                assert hold.machine.renewals >= 3

    asyncio.run(main())


def test_released_in_another_loop(store: MemoryStore) -> None:
    """A hold is bound to no event loop."""
    latches = azlatch.aio.connect(backend=MemoryBackend(store))
    hold = asyncio.run(latches.acquire("a"))
    asyncio.run(hold.ensure())
    asyncio.run(hold.release())

    async def again() -> None:
        other = await latches.try_acquire("a")
        assert other is not None
        await latches.close()

    asyncio.run(again())


def test_a_loss_cancels_the_body(store: MemoryStore) -> None:
    """A lost hold ends the body at its next await, and HoldLost comes out of `async with`."""

    async def main() -> None:
        latches = azlatch.aio.connect(backend=MemoryBackend(store))
        with pytest.raises(azlatch.HoldLost):
            async with latches.hold("a", ttl=0.6, heartbeat=False):
                await asyncio.sleep(PATIENCE)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

        # A cancellation of somebody else's stays one.
        async def body() -> None:
            async with latches.hold("b", ttl=30):
                await asyncio.sleep(PATIENCE)

        other = asyncio.ensure_future(body())
        await asyncio.sleep(0.1)
        other.cancel()
        with pytest.raises(asyncio.CancelledError):
            await other
        assert await latches.try_acquire("b") is not None
        await latches.close()

    asyncio.run(main())


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.02, 0.03, 0.05, 0.08, 0.12])
@pytest.mark.parametrize("loop_closes", [False, True])
def test_cancellation_leaves_no_hold(store: MemoryStore, delay: float, loop_closes: bool) -> None:
    """Cancelled at any step, its loop closed or not, an acquire leaves the name free (H5)."""
    counted = Counted(MemoryBackend(store))

    def slow(call: Any, *arguments: Any) -> Any:
        time.sleep(0.02)
        reply = call(*arguments)
        time.sleep(0.02)
        return reply

    counted.script["acquire"] = [slow] * 10
    latches = azlatch.aio.connect(backend=counted)

    async def main() -> None:
        task = asyncio.ensure_future(latches.acquire("a", ttl=60))
        await asyncio.sleep(delay)
        if loop_closes and not task.done():
            return
        task.cancel()
        try:
            hold = await task
        except asyncio.CancelledError:
            return
        await hold.release()

    asyncio.run(main())
    with azlatch.connect(backend=MemoryBackend(store)) as other:
        assert other.acquire("a", timeout=5).remaining() > 0


def test_cancelled_release_still_releases(store: MemoryStore) -> None:
    """A release that is cancelled at any await goes out all the same, and once more does no harm."""
    counted = Counted(MemoryBackend(store))
    counted.script["release"] = [lambda call, *arguments: (time.sleep(0.05), call(*arguments))[1]] * 3

    async def main() -> None:
        latches = azlatch.aio.connect(backend=counted)
        hold = await latches.acquire("a", ttl=60)
        task = asyncio.ensure_future(hold.release())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert hold.remaining() == 0
        assert (await latches.acquire("a", timeout=5)).remaining() > 0
        await latches.close()

    asyncio.run(main())


def test_the_loop_is_never_blocked(store: MemoryStore) -> None:
    """While the store takes its time, the event loop goes on."""
    counted = Counted(MemoryBackend(store))
    counted.script["acquire"] = [lambda call, *arguments: (time.sleep(0.3), call(*arguments))[1]]

    async def main() -> None:
        latches = azlatch.aio.connect(backend=counted)
        task = asyncio.ensure_future(latches.acquire("a"))
        ticks = 0
        while not task.done():
            await asyncio.sleep(0.005)
            ticks += 1
        assert ticks > 20
        await (await task).release()
        await latches.close()

    asyncio.run(main())


# -- guarded ---------------------------------------------------------------------------------------


def test_guarded_hides_the_injected_hold() -> None:
    """A parameter named hold is filled in, and frameworks that read the signature do not see it."""

    @azlatch.guarded("job", url="memory:guarded-1")
    def job(timer: str, hold: azlatch.Hold) -> int | None:
        """Does it."""
        hold.ensure()
        return hold.fence

    assert str(inspect.signature(job)) == "(timer: 'str') -> 'int | None'"
    assert "hold" not in job.__annotations__
    assert job.__doc__ == "Does it."
    first = job("tick")  # type: ignore[call-arg]
    assert first is not None
    assert job("tick") > first  # type: ignore[call-arg, operator]


def test_guarded_skips_or_raises() -> None:
    """When someone else has it, the call is skipped or raises, as asked."""
    calls: list[str] = []

    @azlatch.guarded("job", url="memory:guarded-2", on_contended="skip")
    def skipping() -> str:
        calls.append("skipping")
        return "done"

    @azlatch.guarded("job", url="memory:guarded-2", timeout=0.1)
    def raising() -> None:
        calls.append("raising")

    with azlatch.connect("memory:guarded-2") as latches:
        with latches.hold("job"):
            assert skipping() is None
            with pytest.raises(azlatch.AcquireTimeout):
                raising()
        assert skipping() == "done"
    assert calls == ["skipping"]


def test_guarded_coroutines() -> None:
    """Coroutine functions stay coroutine functions, and several loops may call them."""

    @azlatch.guarded("job", url="memory:guarded-3")
    async def job(value: int, hold: Any) -> int:
        await hold.ensure()
        return value + 1

    assert inspect.iscoroutinefunction(job)
    assert asyncio.run(job(1)) == 2  # type: ignore[call-arg]
    assert asyncio.run(job(2)) == 3  # type: ignore[call-arg]


def test_guarded_connects_at_the_first_call(tmp_path: Path) -> None:
    """Decorating does no I/O: Functions import the module long before they may connect."""

    @azlatch.guarded("job", url=f"sqlite:///{tmp_path}/x.db")
    def job() -> None: ...

    assert list(tmp_path.iterdir()) == []
    job()
    assert (tmp_path / "x.db").exists()
