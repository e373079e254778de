"""The heart: renews every hold of one connection, from threads of its own (H1).

One thread only looks at the clock; it never calls the store, so that a hung call delays no other hold.
Calls go to `Workers`, earliest deadline first. Releases that have to be repeated, and nonces that may
still turn up, are chores: they have their own workers, so that a storm of renewals does not hold them up.
"""

from __future__ import annotations

import heapq
import logging
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from azlatch.backends.workers import Workers
from azlatch.core.env import Env
from azlatch.core.hold import Renew, State
from azlatch.errors import BackendError, HeartUnavailable, OutcomeUnknown

if TYPE_CHECKING:
    from azlatch.backends.protocol import Backend
    from azlatch.runtime.holding import Holding

logger = logging.getLogger("azlatch")

RENEWAL_THREADS = 4
CHORE_THREADS = 2
#: The most threads of each kind, stuck ones included.
MOST_THREADS = 16

#: A worker that tells of a loss for longer than this is replaced, seconds.
NEWS_LIMIT = 1.0

_CHORE_FIRST = 0.05
_CHORE_LAST = 5.0
#: The most that one call of a chore may take, seconds.
CHORE_CALL = 5.0


class Chore:
    """Something to bring to an end in the background: `run(until)` returns True when it is done."""

    __slots__ = ("entry_at", "give_up", "pause", "run", "what")

    def __init__(self, what: str, run: Callable[[float], bool], give_up: float) -> None:
        self.what = what
        self.run = run
        self.give_up = give_up
        self.pause = _CHORE_FIRST
        self.entry_at = 0.0


class _Entry(NamedTuple):
    at: float
    sequence: int
    subject: weakref.ref[Holding] | Chore


class Heart:
    """Keeps the holds of one connection alive for as long as they are referenced."""

    def __init__(self, env: Env, backend: Backend) -> None:
        self._env = env
        self._backend = backend
        self._renewals = Workers(env, "azlatch-renewals", quota=RENEWAL_THREADS, cap=MOST_THREADS)
        self._chores = Workers(env, "azlatch-chores", quota=CHORE_THREADS, cap=MOST_THREADS)
        self._lock = threading.Lock()
        self._entries: list[_Entry] = []
        self._sequence = 0
        self._compact_at = 1024
        self._wakes_at = float("inf")
        self._signal = env.signal()
        self._started = False
        self._stopped = False
        self._open_chores = 0
        self._due: list[_Entry] = []

    @property
    def threads(self) -> int:
        """Threads of this heart that are alive, stuck ones included."""
        return self._renewals.threads + self._chores.threads + self._started

    def start(self) -> None:
        """Starts beating; before a grant is asked for, so that none goes without.

        Raises:
            HeartUnavailable: no thread can be started.
        """
        if self._started:
            return
        with self._lock:
            if self._started:
                return
            self._started = True
        try:
            self._renewals.start()
            self._env.spawn(self._beat, "azlatch-heart")
        except RuntimeError as error:
            self._started = False
            raise HeartUnavailable(
                f"no thread can be started to renew holds ({error}): raise the thread limit, or acquire with "
                "heartbeat=False and a ttl longer than the work"
            ) from error
        except BaseException:
            self._started = False
            raise

    def watch(self, hold: Holding) -> None:
        """Looks after the hold from now on; it is referenced weakly."""
        self._push(None, hold.reference, hold)

    def add_chore(self, what: str, run: Callable[[float], bool], give_up: float) -> None:
        """Repeats `run(until)` with growing pauses until it returns True or `give_up` has passed."""
        chore = Chore(what, run, give_up)
        with self._lock:
            self._open_chores += 1
        try:
            self.start()
        except HeartUnavailable:
            logger.warning("azlatch: %s cannot be repeated in the background; its ttl will end it", what)
            return
        self._push(self._env.now(), chore, chore)

    @property
    def open_chores(self) -> int:
        """Chores that are not done yet."""
        return self._open_chores

    def stop(self) -> None:
        """Stops beating; chores that are queued are still tried once."""
        with self._lock:
            self._stopped = True
        self._renewals.stop()
        self._chores.stop()
        self._signal.set()

    def holds(self) -> list[Holding]:
        """Every hold that is watched and still referenced."""
        with self._lock:
            subjects = [
                entry.subject for entry in (*self._entries, *self._due) if not isinstance(entry.subject, Chore)
            ]
        found = {id(hold): hold for hold in (subject() for subject in subjects) if hold is not None}
        return [hold for hold in found.values() if hold.machine.state is State.HELD]

    # -- the clock thread --------------------------------------------------------------------------

    def _push(self, at: float | None, subject: weakref.ref[Holding] | Chore, owner: Holding | Chore) -> None:
        with self._lock:
            if not isinstance(owner, Chore):
                # Read here and not before: of two threads that push, the later one must know what the
                # earlier one's renewal changed, or its entry puts off the next look.
                at = owner.machine.next_look
            assert at is not None
            self._sequence += 1
            owner.entry_at = at
            heapq.heappush(self._entries, _Entry(at, self._sequence, subject))
            if len(self._entries) > self._compact_at:
                self._compact()
            sooner = at < self._wakes_at
            if sooner:
                self._wakes_at = at
        if sooner:
            self._signal.set()

    def _compact(self) -> None:
        """With the lock held: drops the entries of holds that ended, which are most after a burst."""
        self._entries = [entry for entry in self._entries if _is_current(entry)]
        heapq.heapify(self._entries)
        self._compact_at = max(1024, 2 * len(self._entries))

    def _beat(self) -> None:
        while True:
            due: list[_Entry] = []
            wait: float | None = None
            with self._lock:
                if self._stopped:
                    return
                now = self._env.now()
                while self._entries and self._entries[0].at <= now:
                    due.append(heapq.heappop(self._entries))
                self._due = due
                if due:
                    # Nobody needs to wake a heart that is awake.
                    self._wakes_at = float("-inf")
                else:
                    self._signal.clear()
                    self._wakes_at = self._entries[0].at if self._entries else float("inf")
                    wait = self._wakes_at - now if self._entries else None
            for entry in due:
                self._tend(entry)
            if not due:
                self._signal.wait(wait)

    def _tend(self, entry: _Entry) -> None:
        subject = entry.subject
        if isinstance(subject, Chore):
            self._chores.submit(self._env.now() + CHORE_CALL, lambda: self._do(subject))
            self._chores.replace_stuck()
            return
        hold = subject()
        if hold is None or hold.entry_at != entry.at:
            return
        try:
            renew = hold.tend()
        except Exception:
            logger.exception("azlatch: looking after %r failed in a way that nobody foresaw", hold.name)
            return
        if renew is not None:
            reference = hold.reference
            self._renewals.submit(renew.until, lambda: self._renew(reference, renew))
            self._renewals.replace_stuck()
        elif hold.owes_news:
            # Not here: an audit that hangs must not stop the clock of the others.
            self._renewals.submit(self._env.now() + NEWS_LIMIT, hold.tell_lost)
            self._renewals.replace_stuck()
        self.watch_again(hold)

    def watch_again(self, hold: Holding) -> None:
        if hold.machine.state is State.HELD:
            self._push(None, hold.reference, hold)

    # -- on a worker -------------------------------------------------------------------------------

    def _renew(self, reference: weakref.ref[Holding], renew: Renew) -> None:
        hold = reference()
        if hold is None:
            return
        hold.carry_out(renew)
        self.watch_again(hold)

    def _do(self, chore: Chore) -> None:
        now = self._env.now()
        done = False
        try:
            done = chore.run(now + CHORE_CALL)
        except (BackendError, OutcomeUnknown) as error:
            logger.debug("azlatch: %s failed and will be repeated: %s", chore.what, error)
        except Exception:
            logger.exception("azlatch: %s failed in a way that nobody foresaw", chore.what)
        now = self._env.now()
        if done or now >= chore.give_up or self._stopped:
            with self._lock:
                self._open_chores -= 1
            return
        pause = chore.pause * (0.75 + self._env.random() / 2)
        chore.pause = min(chore.pause * 2, _CHORE_LAST)
        self._push(min(now + pause, chore.give_up), chore, chore)


def _is_current(entry: _Entry) -> bool:
    if isinstance(entry.subject, Chore):
        return True
    hold = entry.subject()
    return hold is not None and hold.entry_at == entry.at and hold.machine.state is State.HELD
