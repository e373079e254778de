"""The virtual world: one thread at a time, time only when nobody can run, faults of a process."""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import functools
import gc
import itertools
import os
import signal as signals
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator

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


def test_a_schedule_does_not_depend_on_hashes() -> None:
    """Another hash seed, in another interpreter, gives the same traces."""
    said = {
        subprocess.run(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert said == {"\n".join(str(mixed(seed)) for seed in range(10)) + "\n"}


def test_tasks_of_a_group_are_cancelled_in_a_fixed_order() -> None:
    """asyncio keeps a group's tasks, and those that are left at the end, in sets; their order is the same."""

    def orders(junk: int) -> list[int]:
        ballast = [object() for _ in range(junk)]
        ended: list[int] = []
        kept: list[asyncio.Task[None]] = []

        async def one(number: int) -> None:
            try:
                await asyncio.sleep(9)
            finally:
                ended.append(number)

        async def main() -> None:
            kept.extend(asyncio.create_task(one(10 + n), name="same") for n in range(6))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1), asyncio.TaskGroup() as group:
                    for number in range(6):
                        group.create_task(one(number))

        with World(1) as world:
            process = world.process("p")
            process.start(lambda: process.run_async(main()))
            world.run()
        assert len(ballast) == junk
        return ended

    first = orders(0)
    assert sorted(first) == [*range(6), *range(10, 16)]
    assert all(orders(turn * 7) == first for turn in range(100))


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


def test_a_freeze_within_a_freeze_is_ignored() -> None:
    """A hidden pause that begins within another changes nothing; one after it counts."""
    with World(1) as world:
        process = world.process("p")
        ends: list[float] = []
        process.start(lambda: (process.sleep(2), ends.append(world.time), ends.append(process.now())))
        world.after(1, lambda: process.freeze(10))
        world.after(5, lambda: process.freeze(20))
        world.after(11.5, lambda: process.freeze(3))
        world.run()
    assert ends == [pytest.approx(1_000_015, abs=1e-6), pytest.approx(1_000_002, abs=1e-6)]


def test_suspend_and_pause_are_apart() -> None:
    """A suspend lasts its time whatever SIGCONT says, the clock counts it, and late timers fire at its end."""
    with World(1) as world:
        process = world.process("p", rate=2.0)
        start = process.clock()
        ends: list[float] = []
        process.start(lambda: (process.sleep(4), ends.append(world.time), ends.append(process.now() - start)))
        world.after(1, lambda: process.suspend(9))
        world.after(3, process.pause)
        world.after(4, process.resume)
        world.run()
    assert ends == [pytest.approx(1_000_010, abs=1e-6), pytest.approx(20, abs=1e-6)]


@pytest.mark.parametrize("how", ["pause", "suspend", "freeze"])
def test_who_stops_itself_goes_no_step_further(how: str) -> None:
    """A process that stops itself does nothing until it is resumed."""
    with World(1) as world:
        process = world.process("p")
        at: list[float] = []

        def life() -> None:
            world.after(5, process.resume)
            process.pause() if how == "pause" else getattr(process, how)(5)
            at.append(world.time)

        process.start(life)
        world.run()
    assert at == [1_000_005]


@pytest.mark.parametrize("by", ["itself", "another"])
def test_the_dead_have_no_effect(by: str) -> None:
    """Whatever the finally blocks of a killed process ask of the world raises Killed and does nothing."""
    world = World(1)
    killed, other = world.process("killed"), world.process("other")
    signal, calls = other.signal(), []
    asked: dict[str, str] = {}

    def call() -> None:
        calls.append(world.time)

    acts = {
        "note": lambda: killed.note("x"),
        "world note": lambda: world.note("x"),
        "after": lambda: world.after(0, call),
        "set": signal.set,
        "is_set": signal.is_set,
        "wait": lambda: signal.wait(1),
        "sleep": lambda: killed.sleep(1),
        "preempt": killed.preempt,
        "spawn": lambda: other.spawn(call, "x"),
        "start": lambda: other.start(call),
        "kill": other.kill,
        "pause": other.pause,
        "freeze": lambda: other.freeze(1),
        "suspend": lambda: other.suspend(1),
        "now": killed.now,
        "wall": killed.wall,
        "pid": killed.pid,
        "random": killed.random,
        "nonce": killed.nonce,
        "signal": killed.signal,
        "current": killed.current,
        "run_async": lambda: killed.run_async(asyncio.sleep(1)),
    }

    def life() -> None:
        try:
            killed.kill() if by == "itself" else killed.sleep(9)
        finally:
            for name, act in acts.items():
                try:
                    act()
                    asked[name] = "done"
                except BaseException as error:
                    asked[name] = type(error).__name__

    killed.start(life)
    other.start(lambda: other.sleep(5))
    world.after(1, killed.kill)
    world.run()
    world.close()
    assert asked == dict.fromkeys(acts, "Killed")
    assert (world.trace, calls, signal.is_set(), other.alive) == ([], [], False, True)
    assert world.time == pytest.approx(1_000_005, abs=1e-6)


def test_a_killed_loop_is_silent() -> None:
    """A loop dies with its process: its tasks' finally blocks have no effect and nothing is reported."""
    with World(1) as world:
        process = world.process("p")
        ended: list[str] = []

        async def one(number: int) -> None:
            try:
                await asyncio.sleep(9)
            finally:
                ended.append(f"unwound {number}")
                process.note("from the grave")

        async def main() -> None:
            await asyncio.gather(*(one(number) for number in range(3)))

        process.start(lambda: process.run_async(main()))
        world.after(1, process.kill)
        world.run(until=world.time + 20)
        assert ended == []
    assert sorted(ended) == ["unwound 0", "unwound 1", "unwound 2"]
    assert (world.trace, world.errors) == ([], [])


@pytest.mark.parametrize("how", ["itself", "while it blocks", "world closed"])
def test_a_killed_loop_calls_nothing_more(how: str) -> None:
    """What was due in a loop together with the task that gets `Killed` is not called."""
    with World(1) as world:
        process = world.process("p")
        called: list[str] = []

        async def main() -> None:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(1)
            loop.call_soon(process.kill if how == "itself" else lambda: process.sleep(9))
            loop.call_soon(called.append, "callback")
            never_begun = loop.create_task(asyncio.sleep(0))
            never_begun.add_done_callback(lambda task: called.append("task"))
            del never_begun
            await asyncio.sleep(0)
            called.append("main")

        process.start(lambda: process.run_async(main()))
        if how == "while it blocks":
            world.after(5, process.kill)
        world.run(until=world.time + 8)
    gc.collect()
    assert called == []
    assert (world.trace, world.errors) == ([], [])


def test_generators_of_a_killed_loop_are_silent() -> None:
    """An async generator that its process left open is dropped, and nobody complains."""
    with World(1) as world:
        process = world.process("p")

        async def numbers() -> AsyncIterator[int]:
            try:
                while True:
                    yield 1
            finally:
                process.note("from the grave")

        async def main() -> None:
            async for _ in numbers():
                await asyncio.sleep(1)

        process.start(lambda: process.run_async(main()))
        world.after(3, process.kill)
        world.run(until=world.time + 20)
    gc.collect()
    assert (world.trace, world.errors) == ([], [])


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
    paused = world.process("q")
    paused.start(functools.partial(paused.sleep, 1), "sleeper")
    paused.spawn(lambda: paused.signal().wait(), "helper")
    world.after(0.5, paused.pause)
    with pytest.raises(Deadlock, match=r"waiting: q/sleeper \(stopped\), q/helper \(stopped\)"):
        world.run()
    world.close()
    world = World(1)
    busy = world.process("p")

    def spin() -> None:
        while True:
            busy.preempt()

    busy.start(spin)
    with pytest.raises(StepsExhausted, match="p/main"):
        world.run(max_steps=100)
    world.close()
    with pytest.raises(RuntimeError, match="closed"):
        world.run()


def test_callbacks_without_end_are_stopped() -> None:
    """A callback that sets itself again for ever, while no thread can run, ends the world too."""
    with World(1) as world:
        process = world.process("p")
        process.start(lambda: process.signal().wait())

        def again() -> None:
            world.after(1, again)

        again()
        with pytest.raises(StepsExhausted, match="no thread ran"):
            world.run(max_steps=100)


def test_an_interrupt_ends_a_run() -> None:
    """Ctrl-C comes out of run, and the world can be closed afterwards."""
    with World(1) as world:
        process = world.process("p")
        main = threading.main_thread().ident
        assert main is not None

        def life() -> None:
            for turn in itertools.count():
                # A signal in the instant before the main thread waits is not noticed; press again, then.
                if turn % 100_000 == 0:
                    signals.pthread_kill(main, signals.SIGINT)
                process.preempt()

        process.start(life)
        # Shells start background jobs with SIGINT ignored.
        before = signals.signal(signals.SIGINT, signals.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                world.run(max_steps=10_000_000)
        finally:
            signals.signal(signals.SIGINT, before)


def test_real_threads_cannot_wait() -> None:
    """A thread that is not of the world is refused where it would wait."""
    with World(1) as world:
        process = world.process("p")
        with pytest.raises(RuntimeError, match="only virtual threads"):
            process.sleep(1)
        refused: list[str] = []

        def intruder() -> None:
            try:
                process.preempt()
            except RuntimeError as error:
                refused.append(str(error))

        def life() -> None:
            thread = threading.Thread(target=intruder)
            thread.start()
            thread.join()

        process.start(life)
        world.run()
    assert refused == ["only virtual threads of the world can wait in it"]


def test_failures_of_helpers_come_out() -> None:
    """A thread that code spawns fails loudly as well, unless it may; errors after the first are kept."""

    def fail() -> None:
        raise ZeroDivisionError

    for may_fail in (False, True):
        with World(1) as world:
            process = world.process("p")
            process.spawn(fail, "helper", may_fail=may_fail)
            process.start(fail, may_fail=True)
            process.start(functools.partial(process.sleep, 5))
            if may_fail:
                world.run()
            else:
                with pytest.raises(ZeroDivisionError):
                    world.run()
                assert len(world.errors) <= 1
                continue
        assert [type(error) for error in world.errors] == [ZeroDivisionError] * 2


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
    """Two hundred worlds leave no more real threads behind than one needs, killed and left ones included."""
    for seed in range(3):
        mixed(seed)
    # Not threading.active_count(), which does not see the carriers.
    before = _thread._count()
    for seed in range(200):
        mixed(seed)
        with World(seed) as world:
            process = world.process("p")
            process.spawn(lambda process=process: process.signal().wait(), "left")
            world.run()
    assert _thread._count() <= before


def test_nothing_is_left_for_the_collector() -> None:
    """A closed world, its processes and its loop go with their last user, without a garbage collection."""

    def live() -> list[weakref.ref[object]]:
        with World(1) as world:
            process = world.process("p")
            loops: list[weakref.ref[object]] = []

            async def main() -> None:
                loops.append(weakref.ref(asyncio.get_running_loop()))
                await asyncio.gather(asyncio.sleep(1), asyncio.sleep(2))

            process.start(lambda: process.run_async(main()))
            process.spawn(lambda: process.signal().wait(5), "left")
            world.run()
        return [weakref.ref(world), weakref.ref(process), *loops]

    gc.collect()
    gc.disable()
    try:
        assert [each() for each in live()] == [None, None, None]
    finally:
        gc.enable()


def test_context_variables_do_not_leak() -> None:
    """A virtual thread begins with an empty context, whoever had its carrier before."""
    variable = contextvars.ContextVar("variable", default="unset")
    seen: list[str] = []
    for seed in range(3):
        with World(seed) as world:
            world.process("p").start(lambda: (seen.append(variable.get()), variable.set("set")))
            world.run()
    assert seen == ["unset"] * 3


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


def test_an_executor_of_virtual_threads() -> None:
    """to_thread runs on a virtual thread, in virtual time; a pool of real threads is refused."""
    with World(1) as world:
        process = world.process("p")
        said: list[object] = []

        def work(text: str) -> str:
            process.sleep(60)
            return text + process.current().name

        async def main() -> None:
            said.append(await asyncio.to_thread(work, "on "))
            with pytest.raises(ZeroDivisionError):
                await asyncio.to_thread(lambda: 1 // 0)
            with pytest.raises(NotImplementedError):
                asyncio.get_running_loop().run_in_executor(object(), work, "x")  # type: ignore[arg-type]

        process.start(lambda: process.run_async(main()))
        world.run()
    assert said == ["on executor-2"]
    assert world.time == pytest.approx(1_000_060, abs=1e-6)


def test_a_loop_is_wound_up() -> None:
    """At its end a loop cancels what is left, closes generators, and keeps errors that nobody asked for."""
    with World(1) as world:
        process = world.process("p")
        ended: list[str] = []
        kept: list[object] = []

        async def numbers() -> AsyncIterator[int]:
            try:
                yield 1
                yield 2
            finally:
                await asyncio.sleep(0)
                ended.append("generator")

        async def left() -> None:
            try:
                await asyncio.sleep(99)
            finally:
                ended.append("task")

        async def bad() -> None:
            raise ZeroDivisionError

        async def main() -> str:
            generator = numbers()
            kept.extend([generator, asyncio.create_task(left())])
            asyncio.create_task(bad())  # noqa: RUF006
            assert await anext(generator) == 1
            await asyncio.sleep(1)
            return "result"

        process.start(lambda: ended.append(process.run_async(main())))
        world.run()
    assert ended == ["task", "generator", "result"]
    assert [type(error) for error in world.errors] == [ZeroDivisionError]


def test_a_note_says_who() -> None:
    """A note has the time, the process and the thread; a callback's has neither of the two."""
    with World(1) as world:
        process = world.process("p")
        process.start(lambda: world.note("mine"), "t")
        world.after(1, lambda: world.note("nobody's"))
        world.run(until=world.time + 2)
    assert world.trace == [(1_000_000.0, "p", "t", "mine"), (1_000_001.0, "", "", "nobody's")]


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


if __name__ == "__main__":
    print("\n".join(str(mixed(seed)) for seed in range(10)))
