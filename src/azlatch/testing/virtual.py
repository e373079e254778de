"""Real code, threads and asyncio alike, in virtual time and in an order that one seed decides.

A `World` runs any number of virtual threads, of which exactly one runs at a time: each sits on a real
thread of its own and is handed the baton. Time passes only when nobody can run. Whoever asks for the time,
waits or starts a thread does so through its `Process`, which is an `azlatch.core.env.Env`; there the next
to run is drawn from the seed. Locks of `threading` are not virtual: code under test must not wait, sleep or
call a store while it holds one, so a real lock is never contended here and needs no virtual twin.

A process can be stopped, resumed, suspended, killed, and frozen without its clock noticing. A killed process
runs no more code: when its world is closed its threads are unwound with `Killed`, and every call that they
make to the world on the way raises `Killed` again, so nothing of it has an effect.

::

    with World(seed=7) as world:
        process = world.process("p0")
        process.start(lambda: process.sleep(3600), "main")
        world.run()          # returns at once; world.time has moved by an hour

What is not virtual: real threads that code starts behind the back of its `Env` (they cannot wait here),
`asyncio.run` (use `Process.run_async`), and `threading.local`, which belongs to the carrying thread. A process
of the machine that is pinned to one core switches about twice as fast: the threads never run at once anyway.
"""

from __future__ import annotations

import _thread
import asyncio
import functools
import heapq
import os
from asyncio import base_events
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextvars import Context
from random import Random
from types import TracebackType
from typing import Any, Self
from weakref import WeakValueDictionary

_START = 1_000_000.0
_WALL = 1_700_000_000.0
#: Two times closer than this are the same: what a float of this size can tell apart.
_TICK = 1e-8


class Killed(BaseException):
    """Unwinds a virtual thread whose process is dead, or whose world is closed."""


class Deadlock(RuntimeError):
    """Nobody can run, and no time will change that; the message lists who waits."""


class StepsExhausted(RuntimeError):
    """The world took more steps than it was allowed."""


class VirtualThread:
    """A thread of a process of the world; shaped like `threading.Thread` as far as `Env` needs."""

    __slots__ = (
        "carrier",
        "done",
        "killed",
        "loop",
        "main",
        "may_fail",
        "name",
        "process",
        "run",
        "turn",
        "waits",
        "woken",
    )

    def __init__(
        self, process: Process, run: Callable[[], object], name: str, *, main: bool, may_fail: bool
    ) -> None:
        self.process = process
        self.run = run
        self.name = name
        self.main = main
        self.may_fail = may_fail
        self.done = False
        self.killed = False
        self.woken = False
        self.waits = False
        #: Counts its waits, so that a timer of an earlier one does not end a later one.
        self.turn = 0
        self.carrier: _Carrier | None = None
        self.loop: VirtualLoop | None = None

    def is_alive(self) -> bool:
        return not self.done and not self.process.dead

    def __str__(self) -> str:
        return f"{self.process.name}/{self.name}"


class _Carrier:
    """A real thread that carries one virtual thread after another, in this world and the next."""

    __slots__ = ("baton", "ident", "work")

    def __init__(self) -> None:
        self.baton = _thread.allocate_lock()
        self.baton.acquire()
        self.work: Callable[[], None] | None = None
        self.ident = _thread.start_new_thread(self._carry, ())

    def _carry(self) -> None:
        while True:
            self.baton.acquire()
            work, self.work = self.work, None
            assert work is not None
            work()
            del work


_carriers: list[_Carrier] = []
# The threads of a parent do not exist in its forked child.
os.register_at_fork(after_in_child=_carriers.clear)


class World:
    """Virtual time, a seed, and the processes that live in it.

    Attributes:
        time: true virtual time, seconds.
        rng: the source of every choice.
        trace: (time, process, thread, text) of every note.
        errors: exceptions that do not come out of `run`: of threads that may fail or are dead, those after the
            first, and what nobody asked a task for.
        on_step: called between any two steps; what it raises comes out of `run`.
    """

    def __init__(self, seed: int) -> None:
        self.time = _START
        self.rng = Random(seed)
        self.trace: list[tuple[float, str, str, str]] = []
        self.errors: list[BaseException] = []
        self.on_step: Callable[[], None] | None = None
        self.current: VirtualThread | None = None
        self.steps = 0
        self._ready: list[VirtualThread] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        # A dict for its order: the threads that have not ended, as they were started.
        self._threads: dict[VirtualThread, None] = {}
        self._mains = 0
        self._pids = 100
        self._baton = _thread.allocate_lock()
        self._baton.acquire()
        self._until: float | None = None
        self._step_limit = 0
        self._timer_limit = 0
        #: Whether a virtual thread has the baton, not the caller of `run`.
        self._out = False
        self._failure: BaseException | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def process(self, name: str, *, rate: float = 1.0, offset: float = 0.0) -> Process:
        """A new process; its clock starts at true time plus `offset` and runs `rate` times as fast."""
        self._pids += 1
        return Process(self, name, self._pids, rate, offset)

    def at(self, time: float, call: Callable[[], None]) -> None:
        """Calls it at that time, between two steps; it must not wait."""
        _check(self)
        self._set(time, call)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Calls it so many seconds of true time from now."""
        self.at(self.time + seconds, call)

    def note(self, text: str) -> None:
        """Adds a line to the trace, in the name of the thread that runs, if one does."""
        thread = _check(self)
        who = ("", "") if thread is None else (thread.process.name, thread.name)
        self.trace.append((self.time, *who, text))

    def run(self, until: float | None = None, *, max_steps: int = 1_000_000) -> None:
        """Runs to that time, or without one until every thread that was `start`ed has ended.

        Raises:
            Deadlock: no time is given, some of them are alive, and nobody can ever run.
            StepsExhausted: more than `max_steps` were taken, or more callbacks than that with no step between.
            RuntimeError: the world is closed.
            BaseException: what a thread that may not fail, a callback or `on_step` raised.
        """
        if self._closed:
            raise RuntimeError("the world is closed")
        self._until = until
        self._step_limit = self.steps + max_steps
        self._timer_limit = max_steps
        following = self._next()
        if following is not None:
            self._out = True
            self._hand_to(following)
            try:
                self._baton.acquire()
            except BaseException as error:  # Ctrl-C: the baton comes home at the next scheduling point
                self._failure = self._failure or error
                self._baton.acquire(timeout=-1 if self._out else 0.1)
        self.current = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            try:
                raise failure
            finally:
                del failure
        if until is not None:
            self.time = max(self.time, until)
        elif self._mains:
            waiting = [
                f"{each} (stopped)" if each.process.halted else str(each)
                for each in self._threads
                if each.is_alive()
            ]
            raise Deadlock(f"nobody can run and no timer is set; waiting: {', '.join(waiting)}")

    def close(self) -> None:
        """Ends every thread that is left, and gives the real threads back."""
        self._closed = True
        left = list(self._threads)
        for thread in left:
            thread.killed = True
            if thread.loop is not None:
                thread.loop.silence()
        for thread in left:
            if thread.carrier is None:
                thread.done = True
                continue
            self.current = thread
            thread.carrier.baton.release()
            self._baton.acquire()
        self.current = None
        self._threads.clear()
        self._timers.clear()
        self._ready.clear()
        self.on_step = None

    # -- the scheduler -----------------------------------------------------------------------------

    def _set(self, time: float, call: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._timers, (time, self._sequence, call))

    def _add(self, thread: VirtualThread) -> None:
        self._threads[thread] = None
        self._mains += thread.main
        self._make_ready(thread)

    def _make_ready(self, thread: VirtualThread) -> None:
        process = thread.process
        if process.dead:
            return
        (process.parked if process.halted else self._ready).append(thread)

    def _next(self) -> VirtualThread | None:
        """Who runs next; time passes here. None gives the baton back to `run`."""
        self.current = None
        ready, timers = self._ready, self._timers
        fired = 0
        try:
            while self._failure is None:
                if self.on_step is not None:
                    self.on_step()
                if self._until is None and not self._mains:
                    return None
                if ready:
                    self.steps += 1
                    if self.steps > self._step_limit:
                        busy = ", ".join(sorted({str(each) for each in ready}))
                        raise StepsExhausted(f"too many steps were taken by {self.time}; ready: {busy}")
                    at = int(self.rng.random() * len(ready)) if len(ready) > 1 else 0
                    thread = ready[at]
                    ready[at] = ready[-1]
                    ready.pop()
                    return thread
                if not timers or (self._until is not None and timers[0][0] > self._until):
                    return None
                fired += 1
                if fired > self._timer_limit:
                    raise StepsExhausted(f"too many callbacks were called by {self.time}, and no thread ran")
                at_time, _, call = heapq.heappop(timers)
                self.time = max(self.time, at_time)
                call()
        except BaseException as error:
            self._failure = error
        return None

    def _hand_to(self, thread: VirtualThread) -> None:
        self.current = thread
        carrier = thread.carrier
        if carrier is None:
            carrier = thread.carrier = _carriers.pop() if _carriers else _Carrier()
            carrier.work = lambda: self._live(thread)
        carrier.baton.release()

    def _live(self, thread: VirtualThread) -> None:
        """On a carrier: the whole life of a virtual thread."""
        try:
            if not thread.killed:
                # What it leaves in context variables is not for the next one on this carrier.
                Context().run(thread.run)
        except Killed:
            pass
        except BaseException as error:
            if thread.may_fail or not thread.is_alive() or thread.killed or self._failure is not None:
                self.errors.append(error)
            else:
                self._failure = error
        thread.done = True
        del self._threads[thread]
        self._mains -= thread.main
        # What it ran may refer to half the world; the carrier outlives both.
        thread.run = _nothing
        carrier, thread.carrier = thread.carrier, None
        following = None if self._closed else self._next()
        assert carrier is not None
        _carriers.append(carrier)
        if following is None:
            self._come_home()
        else:
            self._hand_to(following)

    def _come_home(self) -> None:
        self._out = False
        self._baton.release()

    def _block(self, thread: VirtualThread, clock_deadline: float | None) -> bool:
        """Waits until someone makes it ready or its process's clock says so; whether it was someone."""
        thread.turn += 1
        thread.woken = False
        thread.waits = True
        if clock_deadline is not None:
            self._set_timer(thread, thread.turn, clock_deadline)
        self._yield(thread)
        thread.waits = False
        return thread.woken

    def _yield(self, thread: VirtualThread) -> None:
        following = self._next()
        if following is not thread:
            baton = thread.carrier.baton  # type: ignore[union-attr]
            if following is None:
                self._come_home()
            else:
                self._hand_to(following)
            baton.acquire()
        self.current = thread
        if thread.killed or thread.process.dead:
            raise Killed

    def _set_timer(self, thread: VirtualThread, turn: int, clock_deadline: float) -> None:
        process = thread.process

        def due() -> None:
            if thread.turn != turn or not thread.waits or thread.done or process.dead:
                return
            if process.clock() < clock_deadline - _TICK:
                # The clock stood still in between.
                self._set_timer(thread, turn, clock_deadline)
                return
            thread.waits = False
            self._make_ready(thread)

        left = max(clock_deadline - process.clock(), _TICK)
        start = max(self.time, process.frozen_until)
        self._set(start + left / process.rate, due)

    def _wake(self, thread: VirtualThread) -> None:
        if thread.waits and not thread.done:
            thread.waits = False
            thread.woken = True
            self._make_ready(thread)


class VirtualSignal:
    """A `threading.Event` of the world."""

    __slots__ = ("_set", "_waiting", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._set = False
        self._waiting: list[VirtualThread] = []

    def is_set(self) -> bool:
        _check(self._world)
        return self._set

    def set(self) -> None:
        _check(self._world)
        self._set = True
        waiting, self._waiting = self._waiting, []
        for thread in waiting:
            self._world._wake(thread)

    def clear(self) -> None:
        _check(self._world)
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        thread = _caller(self._world)
        if self._set:
            thread.process.preempt()
            return True
        self._waiting.append(thread)
        deadline = None if timeout is None else thread.process.clock() + timeout
        try:
            return self._world._block(thread, deadline) or self._set
        finally:
            if thread in self._waiting:
                self._waiting.remove(thread)


class Process:
    """A process of the world: the `Env` of the code that runs in it.

    Attributes:
        dead: it was killed.
        parked: threads that could run if it were not stopped.
        frozen_until: the true time at which a hidden pause ends.
        wall_shift: what its wall clock is off by, seconds.
        no_more_threads: `spawn` fails as it does at a platform's limit.
    """

    def __init__(self, world: World, name: str, pid: int, rate: float, offset: float) -> None:
        self.name = name
        self.rate = rate
        self.dead = False
        self.parked: list[VirtualThread] = []
        self.frozen_until = 0.0
        self.wall_shift = 0.0
        self.no_more_threads = False
        self._world = world
        self._pid = pid
        self._rng = Random(world.rng.random())
        self._stopped = False
        self._suspensions = 0
        self._frozen_at: float | None = None
        self._base = world.time
        self._clock_base = world.time + offset

    @property
    def alive(self) -> bool:
        return not self.dead

    @property
    def halted(self) -> bool:
        """Whether it is stopped, suspended or frozen."""
        return self._stopped or self._frozen_at is not None or self._suspensions > 0

    # -- as an Env ---------------------------------------------------------------------------------

    def clock(self) -> float:
        """Its clock, for anyone who asks."""
        true = self._world.time if self._frozen_at is None else self._frozen_at
        return self._clock_base + self.rate * (true - self._base)

    def now(self) -> float:
        _check(self._world)
        return self.clock()

    def wall(self) -> float:
        _check(self._world)
        return _WALL + self._world.time - _START + self.wall_shift

    def pid(self) -> int:
        _check(self._world)
        return self._pid

    def random(self) -> float:
        _check(self._world)
        return self._rng.random()

    def nonce(self) -> str:
        _check(self._world)
        return f"{self._rng.getrandbits(128):032x}"

    def signal(self) -> VirtualSignal:
        _check(self._world)
        return VirtualSignal(self._world)

    def spawn(self, run: Callable[[], None], name: str, *, may_fail: bool = False) -> VirtualThread:
        """Starts a thread that `World.run` does not wait for; its exception comes out all the same."""
        if self.no_more_threads:
            _check(self._world)
            raise RuntimeError("can't start new thread")
        return self._thread(run, name, main=False, may_fail=may_fail)

    def current(self) -> VirtualThread:
        thread = _check(self._world)
        if thread is None:
            raise RuntimeError("no virtual thread is running")
        return thread

    # -- for scenarios -----------------------------------------------------------------------------

    def start(self, run: Callable[[], object], name: str = "main", *, may_fail: bool = False) -> VirtualThread:
        """Starts a thread that `World.run` waits for, and whose exception it raises unless it may fail."""
        return self._thread(run, name, main=True, may_fail=may_fail)

    def _thread(self, run: Callable[[], object], name: str, *, main: bool, may_fail: bool) -> VirtualThread:
        _check(self._world)
        # A thread of a dead process never runs, so nobody waits for it.
        thread = VirtualThread(self, run, name, main=main and not self.dead, may_fail=may_fail)
        self._world._add(thread)
        return thread

    def sleep(self, seconds: float) -> None:
        """The thread that asks sleeps so long on its own process's clock."""
        thread = _caller(self._world)
        if seconds <= 0:
            self.preempt()
        else:
            self._world._block(thread, thread.process.clock() + seconds)

    def preempt(self) -> None:
        """Lets others run; no time passes."""
        thread = _caller(self._world)
        self._world._make_ready(thread)
        self._world._yield(thread)

    def run_async(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """As `asyncio.run`, on this virtual thread and in virtual time."""
        try:
            thread = _caller(self._world)
        except BaseException:
            coroutine.close()
            raise
        loop = thread.loop = VirtualLoop(self)
        try:
            try:
                return loop.run_until_complete(coroutine)
            finally:
                loop.wind_up()
        except Killed:
            loop.bury()
            raise
        finally:
            thread.loop = None
            loop.close()

    def note(self, text: str) -> None:
        """Adds a line to the world's trace, in the name of this process."""
        thread = _check(self._world)
        self._world.trace.append((self._world.time, self.name, thread.name if thread is not None else "", text))

    # -- faults ------------------------------------------------------------------------------------

    def pause(self) -> None:
        """SIGSTOP: no thread of it runs; its clock goes on, and timers that come due fire after `resume`."""
        _check(self._world)
        self._stopped = True
        self._park()

    def resume(self) -> None:
        """SIGCONT."""
        _check(self._world)
        self._stopped = False
        self._unpark()

    def suspend(self, seconds: float) -> None:
        """The machine sleeps so long of true time: a pause that its clock counts and SIGCONT does not end."""
        _check(self._world)
        self._suspensions += 1

        def wake() -> None:
            self._suspensions -= 1
            self._unpark()

        self._world._set(self._world.time + seconds, wake)
        self._park()

    def freeze(self, seconds: float) -> None:
        """A pause that its own clock does not count, though wall time does; one within another is ignored."""
        world = self._world
        _check(world)
        if self.dead or self._frozen_at is not None:
            return
        self._frozen_at = world.time
        self.frozen_until = world.time + seconds

        def thaw() -> None:
            assert self._frozen_at is not None
            self._base += world.time - self._frozen_at
            self._frozen_at = None
            self._unpark()

        world._set(self.frozen_until, thaw)
        self._park()

    def kill(self) -> None:
        """SIGKILL: nothing of it runs any more."""
        world = self._world
        _check(world)
        self.dead = True
        self.parked.clear()
        world._ready[:] = [thread for thread in world._ready if thread.process is not self]
        for thread in world._threads:
            if thread.process is not self:
                continue
            if thread.loop is not None:
                thread.loop.silence()
            if thread.main:
                thread.main = False
                world._mains -= 1
        if world.current is not None and world.current.process is self:
            raise Killed

    def _park(self) -> None:
        world = self._world
        mine = [thread for thread in world._ready if thread.process is self]
        if mine:
            world._ready[:] = [thread for thread in world._ready if thread.process is not self]
            self.parked.extend(mine)
        if world.current is not None and world.current.process is self:
            # Who stops itself goes no step further.
            self.preempt()

    def _unpark(self) -> None:
        if self.halted or self.dead:
            return
        parked, self.parked = self.parked, []
        self._world._ready.extend(parked)


class _Task(asyncio.Task[Any]):
    """A task whose place in a set does not depend on its address: asyncio's task groups keep theirs in sets."""

    def __init__(self, coroutine: Any, number: int, **named: Any) -> None:
        self.number = number
        super().__init__(coroutine, **named)

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(base_events.BaseEventLoop):
    """An asyncio event loop in virtual time: no sockets, no files; its executor is virtual threads."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process
        self._signal = VirtualSignal(process._world)
        self._selector: VirtualLoop | None = self
        self._names = 0
        self._left: list[_Task] = []
        self._generators: WeakValueDictionary[int, AsyncGenerator[Any, Any]] = WeakValueDictionary()
        self._clock_resolution = 0.0
        self.set_task_factory(self._make_task)
        self.set_exception_handler(functools.partial(_hear, process))

    def time(self) -> float:
        return self._process.now()

    def select(self, timeout: float | None) -> list[object]:
        """Waits in virtual time; called by the event loop's own machinery."""
        if timeout is not None and timeout <= 0 and (self._ready or self._stopping):  # type: ignore[attr-defined]
            self._process.preempt()
        elif timeout is not None:
            # Virtual time does not pass by itself: a timer that is due this very moment takes a tick.
            self._signal.wait(max(timeout, _TICK))
        else:
            self._signal.wait(timeout)
        self._signal.clear()
        return []

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Runs it on a virtual thread of the process."""
        if executor is not None:
            raise NotImplementedError("the threads of an executor are real; pass None for virtual ones")
        future = self.create_future()

        def work() -> None:
            settle: Callable[[Any], None]
            try:
                settle, outcome = future.set_result, func(*args)
            except Killed:
                raise
            except BaseException as error:
                settle, outcome = future.set_exception, error
            if not self.is_closed():
                self.call_soon_threadsafe(lambda: None if future.done() else settle(outcome))

        self._names += 1
        self._process.spawn(work, f"executor-{self._names}")
        return future

    def wind_up(self) -> None:
        """Cancels the tasks and closes the generators that are left, in the order in which they were made."""
        tasks = self._tasks()
        for task in tasks:
            task.cancel()
        if tasks:
            self.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                self.call_exception_handler(
                    {"message": "a task failed in its cancellation", "exception": error}
                )
        for _, generator in sorted(self._generators.items()):
            self.run_until_complete(generator.aclose())

    def silence(self) -> None:
        """Calls nothing any more, not even what is due: `Killed` ends the task it comes up in, not the loop."""
        # Kept until they are buried: a task that nobody refers to would be collected with its coroutine open.
        self._left = self._tasks()
        for handle in self._ready:  # type: ignore[attr-defined]
            handle._cancelled = True

    def bury(self) -> None:
        """Ends the coroutines of a killed process here and now, not whenever they are collected."""
        tasks = self._tasks()
        self._left.clear()
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            try:
                task.get_coro().close()
            except BaseException:  # whatever it says: its process is dead
                continue

    def close(self) -> None:
        super().close()
        # Nothing refers to itself any more, so the loop goes with its last user.
        self._selector = None
        self.set_task_factory(None)

    def _tasks(self) -> list[_Task]:
        return sorted(
            (task for task in asyncio.all_tasks(self) if isinstance(task, _Task)), key=lambda task: task.number
        )

    def _asyncgen_firstiter_hook(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._names += 1
        self._generators[self._names] = generator

    def _asyncgen_finalizer_hook(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not (self._process.dead or self._process._world._closed):
            super()._asyncgen_finalizer_hook(generator)  # type: ignore[misc]

    def _process_events(self, events: list[object]) -> None:
        pass

    def _write_to_self(self) -> None:
        self._signal.set()

    def _make_task(self, loop: Any, coroutine: Any, **named: Any) -> asyncio.Task[Any]:
        # asyncio numbers its tasks through the whole process; here a name must not depend on other worlds.
        self._names += 1
        named["name"] = named.get("name") or f"task-{self._names:06d}"
        return _Task(coroutine, self._names, loop=loop, **named)


def _hear(process: Process, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio would log; of a dead process nobody hears."""
    error = context.get("exception") or RuntimeError(context["message"])
    if not (process.dead or process._world._closed or isinstance(error, Killed)):
        process._world.errors.append(error)


def _check(world: World) -> VirtualThread | None:
    """The thread that asks, if it may still ask."""
    thread = world.current
    if thread is not None and (thread.killed or thread.process.dead):
        raise Killed
    return thread


def _caller(world: World) -> VirtualThread:
    """The virtual thread that asks; nobody else can wait."""
    thread = _check(world)
    if thread is None or thread.carrier is None or thread.carrier.ident != _thread.get_ident():
        raise RuntimeError("only virtual threads of the world can wait in it")
    return thread


def _nothing() -> None:
    pass


def _measure() -> None:
    """Prints how fast this machine switches, on all cores and on one."""
    import time

    def sleeps(process: Process, turns: int) -> None:
        for _ in range(turns):
            process.sleep(process.random())

    def run_worlds(count: int, threads: int, turns: int) -> tuple[float, int]:
        started, steps = time.perf_counter(), 0
        for seed in range(count):
            with World(seed) as world:
                for _ in range(4):
                    process = world.process("p")
                    for _ in range(threads):
                        process.start(functools.partial(sleeps, process, turns))
                world.run()
                steps += world.steps
        return time.perf_counter() - started, steps

    def print_rate(where: str) -> None:
        took, steps = run_worlds(1, 2, 5_000)
        print(f"{where}: {steps / took:,.0f} switches/s, {took / steps * 1e6:.1f} µs each", end="; ")
        took, steps = run_worlds(100, 4, 25)
        print(f"{took * 10:.1f} ms a world of 16 threads and {steps // 100} switches")

    print_rate("all cores")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        # A real thread keeps the cores it was started with.
        _carriers.clear()
        print_rate("one core")


if __name__ == "__main__":
    _measure()
