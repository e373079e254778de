"""The virtual world: one thread at a time, time only when nobody can run, faults of a process."""

from __future__ import annotations

import asyncio
import functools
import threading

import pytest

from azlatch.backends.memory import MemoryBackend, MemoryStore
from azlatch.core.instance import Instance
from azlatch.runtime.connection import Connection
from azlatch.runtime.latches import Latches
from azlatch.testing.virtual import Deadlock, Process, StepsExhausted, World


def mixed(seed: int) -> list[tuple[float, str, str, str]]:
    """Threads, a loop, a pause and a kill."""
    world = World(seed)
    one, two, three = (world.process(f"p{n}", rate=1 + n / 10) for n in range(3))
    signal = one.signal()

    def threads(process: Process, number: int) -> None:
        for turn in range(4):
            process.sleep(process.random())
            process.note(f"{number}.{turn} {signal.wait(process.random())}")
            signal.set() if turn % 2 else signal.clear()

    async def tasks() -> None:
        async def task(number: int) -> None:
            await asyncio.sleep(two.random())
            two.note(f"task {number} at {two.now():.6f}")

        await asyncio.gather(*(task(n) for n in range(3)))
        two.spawn(signal.set, "helper")
        await asyncio.sleep(1)

    for process in (one, three):
        for number in range(2):
            process.start(lambda process=process, number=number: threads(process, number), f"t{number}")
    two.start(lambda: two.run_async(tasks()), "loop")
    world.after(0.3, one.pause)
    world.after(0.9, one.resume)
    world.after(1.2, three.kill)
    world.run()
    world.close()
    return world.trace


@pytest.mark.parametrize("seed", range(50))
def test_a_seed_is_a_schedule(seed: int) -> None:
    """The same seed gives the same trace, entry by entry."""
    assert mixed(seed) == mixed(seed)


def test_seeds_differ() -> None:
    """Other seeds give other schedules."""
    assert len({str(mixed(seed)) for seed in range(10)}) > 5


def test_time_passes_only_when_nobody_can_run() -> None:
    """An hour of sleep costs no real time, and the clock's rate counts."""
    world = World(1)
    process = world.process("p", rate=2.0)
    ends: list[float] = []
    process.start(lambda: (process.sleep(3600), ends.append(process.now())))
    before = process.clock()
    world.run()
    assert world.time == pytest.approx(1_000_000 + 1_800)
    assert ends[0] - before == pytest.approx(3600)
    world.close()


def test_pause_freeze_and_kill() -> None:
    """A stopped process's clock goes on, a frozen one's does not, and a killed one runs no more code."""
    world = World(1)
    stopped, frozen, killed = (world.process(name) for name in ("stopped", "frozen", "killed"))
    seen: dict[str, float] = {}
    cleaned: list[str] = []

    def life(process: Process) -> None:
        start, wall = process.now(), process.wall()
        try:
            process.sleep(10)
            seen[process.name] = process.now() - start
            seen[process.name + " wall"] = process.wall() - wall
        finally:
            process.now()
            cleaned.append(process.name)

    for process in (stopped, frozen, killed):
        process.start(lambda process=process: life(process))
    world.after(5, stopped.pause)
    world.after(25, stopped.resume)
    world.after(5, lambda: frozen.freeze(20))
    world.after(5, killed.kill)
    world.run()
    world.close()
    assert seen["stopped"] == pytest.approx(25)
    assert seen["frozen"] == pytest.approx(10)
    assert seen["frozen wall"] == pytest.approx(30)
    assert sorted(cleaned) == ["frozen", "stopped"]


def test_signals() -> None:
    """A wait ends when it is told or when its time is up, and says which."""
    world = World(1)
    process = world.process("p")
    signal = process.signal()
    said: list[bool] = []
    process.start(lambda: said.extend([signal.wait(1.0), signal.wait(5.0), signal.is_set()]))
    world.after(3, signal.set)
    world.run()
    assert said == [False, True, True]
    world.close()


def test_deadlock_and_endless_worlds_are_named() -> None:
    """A world that cannot go on says who waits, and one that never ends is stopped."""
    world = World(1)
    process = world.process("p")
    process.start(lambda: process.signal().wait(), "waiter")
    with pytest.raises(Deadlock, match="p/waiter"):
        world.run()
    world.close()
    world = World(1)
    busy = world.process("p")

    def spin() -> None:
        while True:
            busy.preempt()

    busy.start(spin)
    with pytest.raises(StepsExhausted):
        world.run(max_steps=100)
    world.close()


def test_exceptions_come_out() -> None:
    """What a started thread, a callback or the step hook raises comes out of run."""
    for where in ("thread", "callback", "step"):
        world = World(1)
        process = world.process("p")

        def fail() -> None:
            raise ZeroDivisionError

        process.start(fail if where == "thread" else functools.partial(process.sleep, 5))
        if where == "callback":
            world.after(1, fail)
        if where == "step":
            world.on_step = fail
        with pytest.raises(ZeroDivisionError):
            world.run()
        world.close()


def test_threads_are_given_back() -> None:
    """Two hundred worlds leave no more real threads behind than one needs."""
    for seed in range(3):
        mixed(seed)
    before = threading.active_count()
    for seed in range(200):
        mixed(seed)
    assert threading.active_count() <= before + 4


def test_threads_that_cannot_start() -> None:
    """The platform's limit can be played."""
    process = World(1).process("p")
    process.no_more_threads = True
    with pytest.raises(RuntimeError, match="can't start new thread"):
        process.spawn(lambda: None, "x")


def test_asyncio_in_virtual_time() -> None:
    """Timeouts, cancellation, events and calls from other threads work as in a real loop."""
    world = World(1)
    process = world.process("p")
    said: list[object] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(3600):
                await asyncio.Event().wait()
        except TimeoutError:
            said.append(round(loop.time() - 1_000_000))
        event = asyncio.Event()

        def later() -> None:
            process.sleep(5)
            loop.call_soon_threadsafe(event.set)

        process.spawn(later, "other")
        await asyncio.wait_for(event.wait(), 60)
        said.append(round(loop.time() - 1_000_000))
        task = asyncio.ensure_future(asyncio.sleep(99))
        await asyncio.sleep(0)
        task.cancel()
        said.append((await asyncio.gather(task, return_exceptions=True))[0].__class__)

    process.start(lambda: process.run_async(main()))
    world.run()
    world.close()
    assert said == [3600, 3605, asyncio.CancelledError]


@pytest.mark.parametrize(("life", "renewals"), [(12.0, 1), (8 * 60.0, 53)])
def test_long_jobs_with_a_short_ttl(life: float, renewals: int) -> None:
    """A 12-second and an 8-minute job keep their hold with a ttl of 30 s, and nobody else gets it."""
    world, store = World(3), MemoryStore()
    holder, other = world.process("holder"), world.process("other")
    calls: list[str] = []

    class Counting(MemoryBackend):
        def renew(self, *arguments: object) -> None:
            calls.append("renew")
            return super().renew(*arguments)  # type: ignore[arg-type]

    mine = Latches(Connection(Counting(store), holder, instance=Instance("1", "holder", 1, 0.0)))
    theirs = Latches(Connection(MemoryBackend(store), other, instance=Instance("2", "other", 1, 0.0)))
    got: list[float] = []

    def work() -> None:
        with mine.hold("a", ttl=30) as hold:
            holder.sleep(life)
            hold.ensure()

    def wait() -> None:
        other.sleep(1)
        with theirs.hold("a", timeout=None):
            got.append(other.now() - 1_000_000)

    holder.start(work)
    other.start(wait)
    world.run(max_steps=200_000)
    world.close()
    assert got == [pytest.approx(life, abs=0.3)]
    assert len(calls) == renewals
