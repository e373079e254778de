"""Real code, threads and asyncio alike, in virtual time and in an order that one seed decides.

A `World` runs any number of virtual threads, of which exactly one runs at a time: each sits on a real
thread of its own and is handed the baton. Time passes only when nobody can run. Whoever asks for the time,
waits or starts a thread does so through its `Process`, which is an `azlatch.core.env.Env`; there the next
to run is drawn from the seed. Locks of `threading` are not virtual: code under test must not wait, sleep or
call a store while it holds one.

A process can be stopped, resumed, killed and frozen without its clock noticing. A killed process runs no
more code: when its world is closed its threads are unwound with `Killed`, and every call that they make to
the world on the way raises `Killed` again, so nothing of it has an effect.

::

    world = World(seed=7)
    process = world.process("p0")
    process.start(lambda: process.sleep(3600), "main")
    world.run()          # returns at once; world.time has moved by an hour
    world.close()
"""

from __future__ import annotations

import _thread
import asyncio
import heapq
import os
from asyncio import base_events
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

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

    __slots__ = ("carrier", "done", "killed", "main", "name", "process", "run", "turn", "waits", "woken")

    def __init__(self, process: Process, run: Callable[[], object], name: str, main: bool) -> None:
        self.process = process
        self.run = run
        self.name = name
        self.main = main
        self.done = False
        self.killed = False
        self.woken = False
        self.waits = False
        #: Counts its waits, so that a timer of an earlier one does not end a later one.
        self.turn = 0
        self.carrier: _Carrier | None = None

    def is_alive(self) -> bool:
        return not self.done and not self.process.dead


class _Carrier:
    """A real thread that carries one virtual thread after another, in this world and the next."""

    __slots__ = ("baton", "work")

    def __init__(self) -> None:
        self.baton = _thread.allocate_lock()
        self.baton.acquire()
        self.work: Callable[[], None] | None = None
        _thread.start_new_thread(self._carry, ())

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
        trace: (time, process, thread, text) of every `Process.note`.
        errors: exceptions that ended threads nobody waits for.
        on_step: called before every step; what it raises comes out of `run`.
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
        self._threads: list[VirtualThread] = []
        self._mains = 0
        self._pids = 100
        self._baton = _thread.allocate_lock()
        self._baton.acquire()
        self._until: float | None = None
        self._step_limit = 0
        self._failure: BaseException | None = None
        self._closed = False

    def process(self, name: str, *, rate: float = 1.0, offset: float = 0.0) -> Process:
        """A new process; its clock starts at true time plus `offset` and runs `rate` times as fast."""
        self._pids += 1
        return Process(self, name, self._pids, rate, offset)

    def at(self, time: float, call: Callable[[], None]) -> None:
        """Calls it at that time, between two steps; it must not wait."""
        self._sequence += 1
        heapq.heappush(self._timers, (time, self._sequence, call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Calls it so many seconds of true time from now."""
        self.at(self.time + seconds, call)

    def run(self, until: float | None = None, *, max_steps: int = 1_000_000) -> None:
        """Runs to that time, or without one until every thread that was `start`ed has ended.

        Raises:
            Deadlock: no time is given, some of them are alive, and nobody can ever run.
            StepsExhausted: more than `max_steps` were taken.
            BaseException: what such a thread, a callback or `on_step` raised.
        """
        self._until = until
        self._step_limit = self.steps + max_steps
        following = self._next()
        if following is not None:
            self._hand_to(following)
            self._baton.acquire()
        self.current = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if until is not None:
            self.time = max(self.time, until)
        elif self._mains:
            waiting = [
                f"{each.process.name}/{each.name}" for each in self._threads if each.main and each.is_alive()
            ]
            if waiting:
                raise Deadlock(f"nobody can run and no timer is set; waiting: {', '.join(waiting)}")

    def close(self) -> None:
        """Ends every thread that is left, and gives the real threads back."""
        self._closed = True
        for thread in self._threads:
            thread.killed = True
        for thread in self._threads:
            if thread.done:
                continue
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

    def _add(self, thread: VirtualThread) -> None:
        self._threads.append(thread)
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
        try:
            while self._failure is None:
                if self.on_step is not None:
                    self.on_step()
                if self._until is None and not self._mains:
                    return None
                if ready:
                    self.steps += 1
                    if self.steps > self._step_limit:
                        busy = ", ".join(sorted({f"{each.process.name}/{each.name}" for each in ready}))
                        raise StepsExhausted(f"too many steps were taken by {self.time}; ready: {busy}")
                    at = int(self.rng.random() * len(ready)) if len(ready) > 1 else 0
                    thread = ready[at]
                    ready[at] = ready[-1]
                    ready.pop()
                    return thread
                if not timers or (self._until is not None and timers[0][0] > self._until):
                    return None
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
                thread.run()
        except Killed:
            pass
        except BaseException as error:
            if thread.main and self._failure is None:
                self._failure = error
            else:
                self.errors.append(error)
        thread.done = True
        self._mains -= thread.main
        # What it ran may refer to half the world; the carrier outlives both.
        thread.run = _nothing
        carrier, thread.carrier = thread.carrier, None
        following = None if self._closed else self._next()
        assert carrier is not None
        _carriers.append(carrier)
        if following is None:
            self._baton.release()
        else:
            self._hand_to(following)

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
                self._baton.release()
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
        self.at(start + left / process.rate, due)

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
        thread = _check(self._world)
        assert thread is not None, "only virtual threads can wait"
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
        self._frozen_at: float | None = None
        self._base = world.time
        self._clock_base = world.time + offset

    @property
    def alive(self) -> bool:
        return not self.dead

    @property
    def halted(self) -> bool:
        """Whether it is stopped or frozen."""
        return self._stopped or self._frozen_at is not None

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
        return self._pid

    def random(self) -> float:
        return self._rng.random()

    def nonce(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"

    def signal(self) -> VirtualSignal:
        return VirtualSignal(self._world)

    def spawn(self, run: Callable[[], None], name: str) -> VirtualThread:
        _check(self._world)
        if self.no_more_threads:
            raise RuntimeError("can't start new thread")
        return self._thread(run, name, main=False)

    def current(self) -> VirtualThread:
        thread = self._world.current
        assert thread is not None
        return thread

    # -- for scenarios -----------------------------------------------------------------------------

    def start(self, run: Callable[[], object], name: str = "main") -> VirtualThread:
        """Starts a thread that `World.run` waits for, and whose exception it raises."""
        return self._thread(run, name, main=True)

    def _thread(self, run: Callable[[], object], name: str, *, main: bool) -> VirtualThread:
        thread = VirtualThread(self, run, name, main)
        self._world._add(thread)
        return thread

    def sleep(self, seconds: float) -> None:
        """Sleeps so long on its own clock."""
        thread = _check(self._world)
        assert thread is not None, "only virtual threads can sleep"
        if seconds <= 0:
            self.preempt()
        else:
            self._world._block(thread, self.clock() + seconds)

    def preempt(self) -> None:
        """Lets others run; no time passes."""
        thread = _check(self._world)
        assert thread is not None, "only virtual threads can be preempted"
        self._world._make_ready(thread)
        self._world._yield(thread)

    def run_async(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """As `asyncio.run`, on this virtual thread and in virtual time."""
        loop = VirtualLoop(self)
        try:
            try:
                return loop.run_until_complete(coroutine)
            finally:
                left = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
                if left:
                    for task in left:
                        task.cancel()
                    loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        except Killed:
            _bury(loop)
            raise
        finally:
            loop.close()

    def note(self, text: str) -> None:
        """Adds a line to the world's trace."""
        thread = self._world.current
        self._world.trace.append((self._world.time, self.name, thread.name if thread is not None else "", text))

    # -- faults ------------------------------------------------------------------------------------

    def pause(self) -> None:
        """SIGSTOP: no thread of it runs; its clock goes on."""
        self._stopped = True
        self._park()

    def resume(self) -> None:
        """SIGCONT."""
        self._stopped = False
        self._unpark()

    def freeze(self, seconds: float) -> None:
        """A pause that its own clock does not count, though wall time does."""
        world = self._world
        if self.dead or self._frozen_at is not None:
            return
        self._frozen_at = world.time
        self.frozen_until = world.time + seconds
        self._park()

        def thaw() -> None:
            assert self._frozen_at is not None
            self._base += world.time - self._frozen_at
            self._frozen_at = None
            self._unpark()

        world.at(self.frozen_until, thaw)
        if world.current is not None and world.current.process is self:
            self.preempt()

    def kill(self) -> None:
        """SIGKILL: nothing of it runs any more."""
        self.dead = True
        world = self._world
        self.parked.clear()
        world._ready[:] = [thread for thread in world._ready if thread.process is not self]
        world._mains -= sum(
            thread.main and not thread.done for thread in world._threads if thread.process is self
        )
        for thread in world._threads:
            if thread.process is self and thread.main and not thread.done:
                thread.main = False
        if world.current is not None and world.current.process is self:
            raise Killed

    def _park(self) -> None:
        world = self._world
        mine = [thread for thread in world._ready if thread.process is self]
        if mine:
            world._ready[:] = [thread for thread in world._ready if thread.process is not self]
            self.parked.extend(mine)

    def _unpark(self) -> None:
        if self.halted or self.dead:
            return
        parked, self.parked = self.parked, []
        self._world._ready.extend(parked)


class VirtualLoop(base_events.BaseEventLoop):
    """An asyncio event loop in virtual time: no sockets, no files."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process
        self._signal = process.signal()
        self._selector = self
        self._names = 0
        self._clock_resolution = 0.0
        self.set_task_factory(self._make_task)
        # What happens to a task whose process dies is nobody's to hear of.
        self.set_exception_handler(lambda loop, context: None)

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

    def _process_events(self, events: list[object]) -> None:
        pass

    def _write_to_self(self) -> None:
        self._signal.set()

    def _make_task(self, loop: Any, coroutine: Any, **named: Any) -> asyncio.Task[Any]:
        # asyncio numbers its tasks through the whole process; here a name must not depend on other worlds.
        self._names += 1
        named.setdefault("name", None)
        named["name"] = named["name"] or f"task-{self._names:06d}"
        return asyncio.Task(coroutine, loop=loop, **named)


def _bury(loop: VirtualLoop) -> None:
    """Ends the coroutines of a killed process here and now, not whenever they are collected."""
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        try:
            task.get_coro().close()
        except BaseException:  # whatever it says: its process is dead
            continue


def _check(world: World) -> VirtualThread | None:
    """The thread that asks, if it may still ask."""
    thread = world.current
    if thread is not None and (thread.killed or thread.process.dead):
        raise Killed
    return thread


def _nothing() -> None:
    pass


def _measure() -> None:
    """Prints how many switches a second this machine makes."""
    import time

    world = World(0)
    for number in range(8):
        process = world.process(f"p{number}")
        process.start(lambda process=process: [process.sleep(1.0) for _ in range(5_000)])  # type: ignore[misc]
    started = time.perf_counter()
    world.run()
    took = time.perf_counter() - started
    print(f"{world.steps / took:,.0f} switches/s, {took / world.steps * 1e6:.1f} µs each")
    world.close()


if __name__ == "__main__":
    _measure()
