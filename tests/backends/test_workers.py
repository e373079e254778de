"""The threads that make the calls: as many as there are calls at a time, and none is ever forgotten."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from azlatch.backends.bounded import Bounded
from azlatch.backends.workers import Workers
from azlatch.core.env import ThreadLike
from azlatch.runtime.env import REAL, RealEnv


class _NoThreads(RealEnv):
    """Counts the threads that it is asked for and starts none: so each is on its way for ever."""

    def __init__(self) -> None:
        self.asked = 0

    def spawn(self, run: Callable[[], None], name: str) -> ThreadLike:
        self.asked += 1
        return threading.current_thread()


def test_a_job_for_which_a_thread_is_on_its_way_gets_no_second_one() -> None:
    env = _NoThreads()
    workers = Workers(env, "test-coming", quota=5, cap=10)
    for count in range(1, 4):
        workers.submit(REAL.now() + 10, lambda: None)
        workers.replace_stuck()
        assert env.asked == count


def test_one_call_at_a_time_takes_a_few_threads() -> None:
    calls = Bounded(REAL, "test-calls")
    for _ in range(300):
        calls.call(lambda: None, REAL.now() + 10, writes=False)
    assert calls.threads < 8
    calls.stop()


def test_every_job_is_done_and_no_more_threads_than_the_quota() -> None:
    workers = Workers(REAL, "test-jobs", quota=5, cap=10)
    done = threading.Semaphore(0)

    def submit() -> None:
        for turn in range(200):
            workers.submit(REAL.now() + 10, done.release)
            workers.replace_stuck()
            if turn % 20 == 0:
                time.sleep(0.001)

    callers = [threading.Thread(target=submit) for _ in range(8)]
    for each in callers:
        each.start()
    for each in callers:
        each.join(30)
    for _ in range(8 * 200):
        assert done.acquire(timeout=10)
    assert workers.threads <= 5
    # And again when all of them are idle, one at a time.
    for _ in range(50):
        workers.submit(REAL.now() + 10, done.release)
        assert done.acquire(timeout=10)
    workers.stop()


def test_a_stuck_thread_is_replaced_beyond_the_quota() -> None:
    workers = Workers(REAL, "test-stuck", quota=2, cap=4)
    stuck, done = threading.Event(), threading.Semaphore(0)
    for _ in range(2):
        workers.submit(REAL.now() - 1, lambda: stuck.wait(30))
    workers.submit(REAL.now() + 10, done.release)
    workers.replace_stuck()
    assert done.acquire(timeout=10)
    stuck.set()
    workers.stop()


class _LastThread(RealEnv):
    """Starts one thread; instead of another one, `meanwhile` happens and the system has none left."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] | None = None

    def spawn(self, run: Callable[[], None], name: str) -> ThreadLike:
        if self.meanwhile is None:
            return super().spawn(run, name)
        meanwhile, self.meanwhile = self.meanwhile, None
        meanwhile()
        raise RuntimeError("can't start new thread")


def test_a_job_that_counted_on_a_thread_that_did_not_start_is_done_by_an_idle_one() -> None:
    env = _LastThread()
    workers = Workers(env, "test-last", quota=4, cap=4)
    go, first, second, third = (threading.Event() for _ in range(4))

    def long() -> None:
        go.wait(10)
        first.set()

    def meanwhile() -> None:
        go.set()
        assert first.wait(10)
        assert second.wait(10)
        while not workers._idle:
            time.sleep(0.001)
        workers.submit(REAL.now() + 10, third.set)

    workers.submit(REAL.now() + 10, long)
    while not workers._busy:
        time.sleep(0.001)
    env.meanwhile = meanwhile
    workers.submit(REAL.now() + 10, second.set)
    assert third.wait(2)
    workers.stop()


class _Quiet(RealEnv):
    """What ends a thread is not shown."""

    def spawn(self, run: Callable[[], None], name: str) -> ThreadLike:
        def quiet() -> None:
            with contextlib.suppress(SystemExit):
                run()

        return super().spawn(quiet, name)


def test_a_thread_that_a_job_ends_is_no_thread_any_more() -> None:
    """What is no Exception ends the thread; it does not use up the quota."""
    workers = Workers(_Quiet(), "test-exit", quota=2, cap=2)

    def leave() -> None:
        raise SystemExit

    for _ in range(4):
        workers.submit(REAL.now() + 10, leave)
    done = threading.Event()
    give_up = time.monotonic() + 5
    while workers.threads and time.monotonic() < give_up:
        workers.replace_stuck()
        time.sleep(0.01)
    workers.submit(REAL.now() + 10, done.set)
    workers.replace_stuck()
    assert done.wait(2)
    workers.stop()
