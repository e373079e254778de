"""Daemon threads that make the store's calls: earliest deadline first, bounded, and never stuck for good.

Not an executor: `ThreadPoolExecutor` refuses work once the main thread has ended, while holds of other
threads still have to be renewed.
"""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable

from azlatch.core.env import Env, Signal

logger = logging.getLogger("azlatch")

#: How long an idle thread stays, seconds; the first one stays for ever.
_IDLE = 30.0
#: A job that runs this much longer than its deadline has a stuck thread, and that thread is replaced.
_GRACE = 0.25


class Job:
    """One call to make: `run` is called once, on some worker, unless it is dropped before."""

    __slots__ = ("deadline", "dropped", "run", "started")

    def __init__(self, deadline: float, run: Callable[[], None]) -> None:
        self.deadline = deadline
        self.run = run
        self.started = False
        self.dropped = False


class Workers:
    """Up to `quota` threads, and up to `cap` while some of them are stuck in calls that are overdue."""

    def __init__(self, env: Env, name: str, *, quota: int, cap: int) -> None:
        self._env = env
        self._name = name
        self._quota = quota
        self._cap = cap
        self._lock = threading.Lock()
        self._jobs: list[tuple[float, int, Job]] = []
        self._idle: list[Signal] = []
        self._busy: dict[int, Job] = {}
        self._threads = 0
        #: Threads on their way to a job, woken or started: as many jobs need no other one.
        self._coming = 0
        self._sequence = 0
        self._stopped = False

    @property
    def threads(self) -> int:
        """Threads alive now, stuck ones included."""
        return self._threads

    @property
    def overdue(self) -> int:
        """Threads whose call should have returned by now."""
        late = self._env.now() - _GRACE
        with self._lock:
            return sum(job.deadline < late for job in self._busy.values())

    def start(self) -> None:
        """Makes sure that there is a thread. Raises RuntimeError where none can be started."""
        with self._lock:
            if self._threads:
                return
            self._threads += 1
            self._coming += 1
        self._spawn()

    def submit(self, deadline: float, run: Callable[[], None]) -> Job:
        """Queues a call that has to be made before `deadline`, on the clock of the Env."""
        job = Job(deadline, run)
        with self._lock:
            self._sequence += 1
            heapq.heappush(self._jobs, (deadline, self._sequence, job))
            grow = self._wake_one()
        if grow:
            self._try_spawn()
        return job

    def drop(self, job: Job) -> bool:
        """Takes a job back; True if it had not started, and now never will."""
        with self._lock:
            if job.started:
                return False
            job.dropped = True
            return True

    def replace_stuck(self) -> None:
        """Adds a thread where jobs wait and too many threads are stuck; called now and then."""
        with self._lock:
            grow = self._wake_one()
        if grow:
            self._try_spawn()

    def stop(self) -> None:
        """Lets the idle threads end; the jobs that are queued are still done."""
        with self._lock:
            self._stopped = True
            idle, self._idle = self._idle, []
            self._coming += len(idle)
        for signal in idle:
            signal.set()

    def _wake_one(self) -> bool:
        """With the lock held: wakes an idle thread, or says whether one should be added.

        A job for which a thread is on its way needs no second one: two threads that wake for each job cost
        more than the job.
        """
        if len(self._jobs) <= self._coming:
            return False
        if self._idle:
            self._coming += 1
            self._idle.pop().set()
            return False
        late = self._env.now() - _GRACE
        stuck = sum(job.deadline < late for job in self._busy.values())
        if self._threads - stuck < self._quota and self._threads < self._cap:
            self._threads += 1
            self._coming += 1
            return True
        return False

    def _try_spawn(self) -> None:
        try:
            self._spawn()
        except RuntimeError:
            logger.warning("azlatch cannot start another %s thread; the present ones carry on", self._name)

    def _spawn(self) -> None:
        try:
            self._env.spawn(self._work, self._name)
        except BaseException:
            with self._lock:
                self._threads -= 1
                self._coming -= 1
                if self._idle:
                    # A job may have counted on this thread.
                    self._wake_one()
            raise

    def _work(self) -> None:
        signal = self._env.signal()
        me = id(signal)
        came = True
        while True:
            with self._lock:
                self._coming -= came
                job = self._next()
                if job is None:
                    if self._stopped:
                        self._threads -= 1
                        return
                    signal.clear()
                    self._idle.append(signal)
                    idle_for = _IDLE if self._threads > 1 else None
                else:
                    self._busy[me] = job
            came = job is None
            if job is None:
                if not signal.wait(idle_for) and self._retire(signal):
                    return
                continue
            try:
                job.run()
            except Exception:
                logger.exception("azlatch: a background call failed in a way that nobody foresaw")
            except BaseException:
                with self._lock:
                    self._threads -= 1
                raise
            finally:
                with self._lock:
                    del self._busy[me]
            # Nothing of the job outlives it: it may hold the last reference to a Hold.
            job = None

    def _next(self) -> Job | None:
        while self._jobs:
            job = heapq.heappop(self._jobs)[2]
            if not job.dropped:
                job.started = True
                return job
        return None

    def _retire(self, signal: Signal) -> bool:
        with self._lock:
            if signal not in self._idle:
                return False
            self._idle.remove(signal)
            if self._threads <= 1:
                self._coming += 1
                return False
            self._threads -= 1
            return True
