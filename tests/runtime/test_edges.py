"""Interleavings that once broke a promise: late threads, closing, exits, closed loops, interrupts, forks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import azlatch
from azlatch.audit.log import FileSink
from azlatch.backends.memory import MemoryBackend, MemoryStore
from azlatch.backends.sqlite import SqliteBackend
from azlatch.core.instance import Instance
from azlatch.core.record import Claim, granted, renewed
from azlatch.runtime.env import RealEnv

PATIENCE = 20.0

pytestmark = pytest.mark.filterwarnings("ignore:the hold of:ResourceWarning")


def until(condition: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.005)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_late_thread_does_not_free_what_a_resend_has_won(lost: int) -> None:
    """M1: an async call that outlives its bound gives back its own grant, and nobody else has that nonce.

    That holds for a nonce, too, that was `lost` with an earlier call.
    """
    store = MemoryStore()
    held_up = threading.Event()

    class Late(MemoryBackend):
        calls = 0

        def acquire(self, claim: Claim, until: float) -> Any:
            self.calls += 1
            call = self.calls
            if call <= lost:
                raise azlatch.OutcomeUnknown("lost")
            reply = super().acquire(claim, until)
            if call == 1 + lost:
                # Applied; its thread is not scheduled until long after its bound.
                held_up.wait(PATIENCE)
            return reply

    async def main() -> None:
        backend = Late(store)
        latches = azlatch.aio.connect(backend=backend)
        task = asyncio.ensure_future(latches.acquire("a", ttl=6 if lost else 1.5, timeout=PATIENCE))
        while backend.calls < 2 + lost and not task.done():
            await asyncio.sleep(0.01)
        held_up.set()
        hold = await task
        await asyncio.sleep(0.3)
        await hold.ensure()
        view = await latches.inspect("a")
        assert view is not None
        assert (view.state, view.fence) == ("held", hold.fence)
        await hold.release()
        await latches.close()

    asyncio.run(main())


def test_an_async_list_bounds_each_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """M7: the bound is for what the store does, not for what the caller does between two names."""
    monkeypatch.setattr("azlatch.runtime.async_latches.CALL_LIMIT", 2.0)

    class Paged(MemoryBackend):
        def list(self, until: float) -> Any:
            for view in super().list(until):
                time.sleep(1.0)
                yield view

    async def main() -> list[str]:
        latches = azlatch.aio.connect(backend=Paged(MemoryStore()))
        for name in "ab":
            await latches.acquire(name)
        names = []
        async for view in latches.list():
            names.append(view.name)
            await asyncio.sleep(2.1)
        await latches.close()
        return names

    assert asyncio.run(main()) == ["a", "b"]


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_closing_during_an_acquire_hands_out_no_hold(driver: str) -> None:
    """M1: what is granted while the connection closes reaches nobody."""
    backend = MemoryBackend()
    latches: Any = (
        azlatch.connect(backend=backend) if driver == "sync" else azlatch.aio.connect(backend=backend)
    )
    connection = latches._connection
    connection.open()
    watch = connection.heart.watch

    def close_first(hold: Any) -> None:
        closing = threading.Thread(target=connection.close)
        closing.start()
        closing.join(PATIENCE)
        watch(hold)

    connection.heart.watch = close_first
    with pytest.raises(azlatch.UsageError, match="closed"):
        latches.acquire("a") if driver == "sync" else asyncio.run(latches.acquire("a"))


def test_a_waiter_ends_when_its_connection_is_closed(tmp_path: Path) -> None:
    """An acquire that waits while its connection is closed ends with an error, and not with a hold."""
    url = f"sqlite:///{tmp_path}/x.db"
    with azlatch.connect(url) as other:
        hold = other.acquire("a")
        latches = azlatch.connect(url)
        ended: list[BaseException] = []

        def wait() -> None:
            try:
                latches.acquire("a", timeout=PATIENCE)
            except azlatch.LatchError as error:
                ended.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: (view := other.inspect("a")) is not None and view.waiters)
        latches.close()
        hold.release()
        thread.join(PATIENCE)
    assert [type(error) for error in ended] == [azlatch.UsageError]


AT_EXIT = """
import atexit, sys, threading, time
atexit.register(lambda: time.sleep(2))  # as a flush of telemetry does
import azlatch
latches = azlatch.connect(sys.argv[1])
ready = threading.Event()
def work():
    with latches.hold("a", ttl=30) as hold:
        ready.set()
        while True:
            hold.ensure()
            print(time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
            time.sleep(0.02)
threading.Thread(target=work, daemon=True).start()
ready.wait()
"""


def test_exit_proves_no_death_while_somebody_believes(tmp_path: Path) -> None:
    """M1: a daemon thread that still believes while the process exits keeps its lock until the very end."""
    url = f"sqlite:///{tmp_path}/x.db"
    with subprocess.Popen([sys.executable, "-c", AT_EXIT, url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with azlatch.connect(url) as latches:
            hold = latches.acquire("a", timeout=PATIENCE)
            said = process.stdout.read().split()
        assert max(float(line) for line in said) <= hold.machine.granted + 0.001


def test_a_waiter_of_a_closed_loop_blocks_nobody() -> None:
    """M4: a loop that is closed with a waiter in it does not keep the place in line."""
    latches = azlatch.aio.connect("memory:")
    loop = asyncio.new_event_loop()
    hold = loop.run_until_complete(latches.acquire("a", ttl=0.5, heartbeat=False))
    task = loop.create_task(latches.acquire("a", timeout=60))
    loop.run_until_complete(asyncio.sleep(0.1))
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    # Nobody releases it, so that no wake-up finds out.
    assert asyncio.run(hold.wait_lost(PATIENCE))

    async def main() -> None:
        again = await latches.acquire("a", timeout=PATIENCE)
        await again.release()
        await latches.close()

    asyncio.run(main())
    with contextlib.suppress(BaseException):
        task.get_coro().close()  # type: ignore[union-attr]


def test_a_cancellation_that_meets_a_wake_up_is_one() -> None:
    """A waiter that is cancelled just when it is woken is cancelled, whichever comes first."""

    async def main() -> None:
        for ticks in range(8):
            latches = azlatch.aio.connect("memory:")
            hold = await latches.acquire("a")
            task = asyncio.ensure_future(latches.acquire("a", timeout=PATIENCE))
            await asyncio.sleep(0.05)
            waiter: Any = latches._connection.room._line.front("a")
            waiter._event.set()
            for _ in range(ticks):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await hold.release()
            await latches.close()

    asyncio.run(main())


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_cancelled_first_call_leaves_no_place_in_line(store: str, tmp_path: Path) -> None:
    """Cancelled while its first call is out, a waiter leaves nobody waiting for it."""
    shared = MemoryStore()

    def backend() -> Any:
        return MemoryBackend(shared) if store == "memory" else SqliteBackend(tmp_path / "x.db")

    async def main() -> None:
        one, slow = azlatch.aio.connect(backend=backend()), backend()
        acquire = slow.acquire
        slow.acquire = lambda *arguments: (time.sleep(0.1), acquire(*arguments))[1]
        other = azlatch.aio.connect(backend=slow)
        hold = await one.acquire("a")
        await other.try_acquire("b")
        task = asyncio.ensure_future(other.acquire("a", timeout=PATIENCE))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.5)
        await hold.release()
        again = await one.try_acquire("a")
        assert again is not None
        view = await one.inspect("a")
        assert view is not None
        assert view.waiters == 0
        await one.close()
        await other.close()

    asyncio.run(main())


def test_an_interrupt_while_the_heart_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heart whose start was interrupted starts at the next acquire."""
    spawn = RealEnv.spawn
    interrupted: list[str] = []

    def interrupt(self: RealEnv, run: Any, name: str) -> Any:
        if name == "azlatch-heart" and not interrupted:
            interrupted.append(name)
            raise KeyboardInterrupt
        return spawn(self, run, name)

    monkeypatch.setattr(RealEnv, "spawn", interrupt)
    with azlatch.connect("memory:") as latches:
        with pytest.raises(KeyboardInterrupt):
            latches.acquire("a")
        hold = latches.acquire("a", ttl=3)
        until(lambda: hold.machine.renewals >= 1)


INTERRUPTED = """
import signal, sys, time, azlatch
def interrupt(number, frame):
    raise KeyboardInterrupt
latches = azlatch.connect(sys.argv[1])
latches.acquire("a").release()
signal.signal(signal.SIGALRM, interrupt)
end = time.monotonic() + 4
count = 0
while time.monotonic() < end:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0002 + (count % 50) * 0.00002)
        # An interrupt that comes inside a destructor is swallowed there: the loop has an end of its own.
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            latches.try_acquire("a")
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        count += 1
time.sleep(0.2)
latches.acquire("b", timeout=5).release()
print(count)
"""


def test_interrupts_leak_no_lock(tmp_path: Path) -> None:
    """Whenever Ctrl-C comes, the store's lock is free afterwards."""
    command = [sys.executable, "-W", "ignore", "-c", INTERRUPTED, f"sqlite:///{tmp_path}/x.db"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


def test_a_forked_child_takes_no_lock_of_the_audit(tmp_path: Path) -> None:
    """H4: a child that was forked while another thread wrote an event writes its own."""
    sink = FileSink(tmp_path / "audit.jsonl")
    with sink._lock:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                with azlatch.connect("memory:", audit=sink) as latches:
                    latches.acquire("a").release()
                code = 0
            finally:
                os._exit(code)
        end = time.monotonic() + PATIENCE
        while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0 and time.monotonic() < end:
            time.sleep(0.01)
        if ended[0] == 0:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
    assert ended == (pid, 0)


def test_a_forked_child_may_ask_a_hold_that_was_locked() -> None:
    """H4: whatever a child asks of its parent's hold, it takes no lock that a thread of the parent had."""
    with azlatch.connect("memory:") as latches:
        hold = latches.acquire("a")
        with hold._lock:
            pid = os.fork()
            if pid == 0:
                told: list[str] = []
                hold.on_lost(told.append)
                os._exit(0 if hold.wait_lost(1) and hold.lost_reason == "forked" else 1)
            end = time.monotonic() + PATIENCE
            while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0 and time.monotonic() < end:
                time.sleep(0.01)
            if ended[0] == 0:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
        assert ended == (pid, 0)
        hold.release()


def test_a_late_renewal_does_not_set_the_beat_back() -> None:
    """M1: two renewals that are written in the other order leave the later beat."""
    claim = Claim("a", "n", 6.0, 0.0, 0.0, 0.0, Instance("1", "h", 1, 0.0), False, None)
    record = granted(None, claim, 0, "boot", "time", "m")
    newer = renewed(record, "n", 3.6)
    assert newer is not None
    older = renewed(newer, "n", 1.8)
    assert older is not None
    assert older.beat_at == 3.6


def test_closing_is_bounded(tmp_path: Path) -> None:
    """M7: with a store that does not answer, close() takes no longer for more holds."""
    latches = azlatch.connect(f"sqlite:///{tmp_path}/x.db")
    holds = [latches.acquire(f"n{number}", ttl=60) for number in range(20)]
    writer = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    closing = threading.Thread(target=latches.close)
    closing.start()
    # Each of the releases alone may take CALL_LIMIT, 10 s; all of them have 2 s, and the chores as long again.
    closing.join(PATIENCE)
    assert not closing.is_alive()
    assert [hold.remaining() for hold in holds] == [0.0] * 20
    writer.close()


def test_an_audit_that_hangs_stops_no_other_hold() -> None:
    """H1: the news of a loss is told on a worker, so that a sink which hangs costs others nothing."""
    release = threading.Event()

    def sink(event: Any) -> None:
        if event.kind == "lost":
            release.wait(PATIENCE)

    latches = azlatch.connect("memory:", audit=sink)
    try:
        lost = latches.acquire("a", ttl=3, max_hold=0.3)
        other = latches.acquire("b", ttl=3)
        until(lambda: other.machine.renewals >= 2)
        assert lost.machine.lost_reason == "max-hold"
    finally:
        release.set()
        latches.close()


SLOW_START = """
import fcntl, sys, time
real, calls = fcntl.flock, [0]
def flock(file, how):
    calls[0] += 1
    if calls[0] == 1:
        print("opened", flush=True)
        sys.stdin.readline()
    return real(file, how)
fcntl.flock = flock
import azlatch
hold = azlatch.connect(sys.argv[1]).acquire("a", ttl=600)
print("in", flush=True)
time.sleep(60)
"""


def test_a_member_that_is_starting_is_not_swept(tmp_path: Path) -> None:
    """R4: another opening that tidies up in between leaves the file that will prove this death."""
    url = f"sqlite:///{tmp_path}/x.db"
    azlatch.connect(url).close()
    command = [sys.executable, "-c", SLOW_START, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "opened\n"
        with azlatch.connect(url) as sweeper:
            sweeper.inspect("a")
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "in\n"
        holder.kill()
    with azlatch.connect(url) as latches:
        assert latches.acquire("a", timeout=10).remaining() > 0


def test_opening_does_not_wait_to_tidy_up(tmp_path: Path) -> None:
    """A store that cannot be written just now can be opened and read."""
    url = f"sqlite:///{tmp_path}/x.db"
    command = [
        sys.executable,
        "-c",
        "import azlatch, os, sys; azlatch.connect(sys.argv[1]).acquire('a'); os._exit(0)",
    ]
    assert subprocess.run([*command, url], check=False).returncode == 0
    with azlatch.connect(url) as first:
        first.inspect("a")
        writer = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        with azlatch.connect(url) as latches:
            assert latches.inspect("a") is not None
        writer.close()


def test_lock_shape_never_hides_the_body() -> None:
    """`with lock(name)` lets the body's exception out, also after a loss."""
    with azlatch.connect("memory:") as latches:
        lock = latches.lock("a")
        with pytest.raises(ZeroDivisionError), lock:
            assert lock._hold is not None
            lock._hold._lose("broken")
            raise ZeroDivisionError
        with pytest.raises(azlatch.HoldLost), lock:
            assert lock._hold is not None
            lock._hold._lose("broken")


def test_a_hold_that_is_over_cannot_be_entered() -> None:
    """`with hold` runs no body for a hold that was lost or released."""
    with azlatch.connect("memory:") as latches:
        hold = latches.acquire("a")
        hold._lose("broken")
        with pytest.raises(azlatch.HoldLost), hold:
            pytest.fail("the body ran")
        released = latches.acquire("b")
        released.release()
        with pytest.raises(azlatch.UsageError), released:
            pytest.fail("the body ran")


def test_waiting_for_a_loss_leaves_nothing_behind() -> None:
    """Hundreds of short waits for a loss cost no more than one."""

    async def main() -> None:
        async with azlatch.aio.connect("memory:") as latches:
            hold = await latches.acquire("a")
            for _ in range(200):
                assert not await hold.wait_lost(0.001)
            assert len(hold._hooks) == 0
            await hold.release()

    asyncio.run(main())


def test_a_loss_in_a_task_that_was_cancelled_before() -> None:
    """In cleanup code of a cancelled task, too, a lost hold is HoldLost."""

    async def main() -> None:
        latches = azlatch.aio.connect("memory:")
        seen: list[BaseException] = []

        async def work() -> None:
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                try:
                    async with latches.hold("a", ttl=0.5, heartbeat=False):
                        await asyncio.sleep(PATIENCE)
                except BaseException as error:
                    seen.append(error)
                    raise

        task = asyncio.ensure_future(work())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(azlatch.HoldLost):
            await task
        assert len(seen) == 1
        await latches.close()

    asyncio.run(main())


@pytest.mark.parametrize("text", ["\ud800", "x" * 1_001, 7, None])
def test_texts_that_no_store_keeps(text: Any) -> None:
    """Notes and reasons that cannot be kept are UsageErrors."""
    with azlatch.connect("memory:") as latches, latches.hold("a") as hold:
        with pytest.raises(azlatch.UsageError):
            hold.note(text)
        with pytest.raises(azlatch.UsageError):
            latches.break_hold("a", reason=text)


def test_opening_heeds_the_callers_patience(tmp_path: Path) -> None:
    """An async acquire of a store that cannot be opened ends as a sync one does, and in time."""
    backend = SqliteBackend(tmp_path / "x.db")
    stuck = threading.Event()
    backend.open = lambda *arguments, **named: stuck.wait(PATIENCE)  # type: ignore[method-assign, assignment]

    async def main() -> None:
        latches = azlatch.aio.connect(backend=backend)
        with pytest.raises(azlatch.BackendUnavailable):
            async with asyncio.timeout(8):
                await latches.acquire("a", timeout=1)

    try:
        asyncio.run(main())
    finally:
        stuck.set()


def test_contention_among_threads_is_counted() -> None:
    """Who waited behind another thread was contended, though the store granted at the first try."""
    events: list[Any] = []
    with azlatch.connect("memory:", audit=events.append) as latches:
        hold = latches.acquire("a")
        threads = [
            threading.Thread(target=lambda: latches.acquire("a", timeout=PATIENCE).release()) for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        until(lambda: latches._connection.room.waiting("a") == 3)
        hold.release()
        for thread in threads:
            thread.join(PATIENCE)
    misses = [event.facts["misses"] for event in events if event.kind == "granted"]
    assert len(misses) == 4
    assert misses[0] == 0
    assert min(misses[1:]) >= 1
