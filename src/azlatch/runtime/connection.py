"""One connection to a store: what the sync and the async driver share, save for the waiting."""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import threading
import time
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING

from azlatch.backends.protocol import Backend, Broken, Granted, Held
from azlatch.core.acquisition import Acquisition, Orphan, Step, Try
from azlatch.core.contention import ContentionWindow
from azlatch.core.env import Env
from azlatch.core.hold import State
from azlatch.core.instance import Instance, role_of
from azlatch.core.record import Claim, Grant, Observation, observe
from azlatch.core.terms import Terms, terms_of
from azlatch.errors import BackendError, BackendUnavailable, LatchError, OutcomeUnknown, UsageError
from azlatch.runtime.heart import Heart
from azlatch.runtime.recorder import Recorder
from azlatch.runtime.room import Room

if TYPE_CHECKING:
    from azlatch.audit.events import Sink
    from azlatch.runtime.holding import Holding

logger = logging.getLogger("azlatch")

#: The most that opening the store may take, seconds.
OPEN_LIMIT = 10.0
#: The most that an operator's call or a read may take, seconds.
CALL_LIMIT = 10.0
#: How long leaving a connection waits for what is still to be released, seconds.
CLOSE_LIMIT = 2.0
#: Names whose last reading is remembered for R2; the least recently read one is forgotten first.
MOST_OBSERVATIONS = 10_000

#: Different ttls whose terms are remembered.
MOST_TERMS = 100

Reply = Granted | Held | BackendError | OutcomeUnknown


class Connection:
    """A backend, the instance that uses it, and its heart. Opened at the first use, not before."""

    def __init__(
        self,
        backend: Backend,
        env: Env,
        *,
        instance: Instance | None = None,
        fence: bool = True,
        audit: Sink | None = None,
        create: bool = False,
    ) -> None:
        self.backend = backend
        self.env = env
        self.fence = fence
        self.pid = 0
        self.room = Room()
        self._made_in = env.pid()
        self._given_instance = instance
        self._audit = audit
        self._create = create
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._closed = False
        self._observations: OrderedDict[str, Observation] = OrderedDict()
        self._windows: OrderedDict[str, ContentionWindow] = OrderedDict()
        self.recorder: Recorder | None = None
        self._terms: dict[float, Terms] = {}
        self._finalizer: weakref.finalize[..., Connection] | None = None

    # -- life --------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether it was closed, or the process is ending."""
        return self._closed

    @property
    def tied(self) -> bool:
        """Whether it lives and dies with this process, and not in virtual time."""
        return self in _real

    @property
    def is_open(self) -> bool:
        """Whether this process can use the store without opening it first."""
        return self.pid == self.env.pid() and not self._closed

    def open(self, until: float | None = None) -> None:
        """Opens the store if this process has not yet.

        Raises:
            UsageError: the connection was closed.
            BackendError: the store cannot be opened.
        """
        if self.is_open:
            return
        if self._closed:
            raise UsageError("this connection is closed: connect again")
        self._open(until)

    def _open(self, until: float | None) -> None:
        env = self.env
        pid = env.pid()
        if self._made_in != pid:
            self._made_in = pid
            self._leave_to_parent()
        now = env.now()
        until = now + OPEN_LIMIT if until is None else min(max(until, now + 1.0), now + OPEN_LIMIT)
        if not self._opening.acquire(timeout=max(until - now, 0.0)):
            raise BackendUnavailable("another thread is opening the store, and it does not answer")
        try:
            if self.pid == pid:
                return
            self.instance = self._given_instance or this_instance(env.nonce())
            self.backend.open(env, self.room.wake, create=self._create, until=until)
            self.heart = Heart(env, self.backend)
            if self in _real:
                # Not in virtual time: when the collector runs would be part of the schedule.
                self._finalizer = weakref.finalize(self, _collected, self.heart, self.backend, env, pid)
                self._finalizer.atexit = False
            if self._audit is not None:
                from azlatch.backends.machine import this_machine

                boot = this_machine().clock
                self.recorder = Recorder(env, self._audit, self.instance, boot, self.backend.kind)
            self.pid = pid
        finally:
            self._opening.release()

    def _leave_to_parent(self) -> None:
        """In a forked child: every lock may be held by a thread that does not exist here."""
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self.room = Room()
        if self._finalizer is not None:
            self._finalizer.detach()
        self.pid = 0
        self.recorder = None
        self.backend.forked()

    def close(self) -> None:
        """Releases every hold that is left, and lets the store go. Bounded by CLOSE_LIMIT."""
        if self._closed:
            return
        self._closed = True
        if not self.pid or self.pid != self.env.pid():
            return
        if self._finalizer is not None:
            self._finalizer.detach()
        give_up = self.env.now() + CLOSE_LIMIT
        for hold in self.heart.holds():
            self.end(hold, give_up)
        self._drain()
        self.heart.stop()
        self.backend.close()
        if self.recorder is not None:
            self.recorder.emit("close")

    def _drain(self) -> None:
        give_up = self.env.now() + CLOSE_LIMIT
        pause = self.env.signal()
        while self.heart.open_chores and self.env.now() < give_up:
            pause.wait(0.005)

    def at_exit(self) -> None:
        """The process ends: holds whose body may still run in a daemon thread are left to the ttl."""
        if self._closed or not self.pid or self.pid != self.env.pid():
            return
        self._closed = True
        give_up = self.env.now() + CLOSE_LIMIT
        left = False
        for hold in self.heart.holds():
            if hold.has_living_owner():
                left = True
            else:
                self.end(hold, give_up)
        self._drain()
        self.heart.stop()
        if left:
            # The kernel drops the liveness lock, with the last thread that believes.
            return
        self.backend.close()
        if self.recorder is not None:
            self.recorder.emit("close")

    def terms(self, ttl: float, renew_every: float | None, max_hold: float | None, heartbeat: bool) -> Terms:
        """The checked terms of a hold; those of a plain ttl are checked once.

        Raises:
            UsageError: a value that cannot work.
        """
        plain = heartbeat is True and renew_every is None and max_hold is None and type(ttl) in (int, float)
        known = self._terms.get(ttl) if plain else None
        if known is not None:
            return known
        terms = terms_of(
            ttl=ttl, limits=self.backend.limits, renew_every=renew_every, max_hold=max_hold, heartbeat=heartbeat
        )
        if plain and len(self._terms) < MOST_TERMS:
            self._terms[ttl] = terms
        return terms

    # -- one try -----------------------------------------------------------------------------------

    def claim(self, name: str, terms: Terms, step: Try, *, queue: bool) -> Claim:
        """The request for a try."""
        observation = self._observations.get(name) if self._observations else None
        return Claim(
            name,
            step.nonce,
            terms.ttl,
            step.first_sent,
            step.now,
            self.env.wall(),
            self.instance,
            queue,
            observation,
            self.fence,
        )

    def ask(self, claim: Claim, until: float) -> Reply:
        """Makes the call; the store's failures come back as a reply, anything else is raised."""
        try:
            return self.backend.acquire(claim, until)
        except (BackendError, OutcomeUnknown) as error:
            return error

    def report(self, acquisition: Acquisition, name: str, reply: Reply) -> Step:
        """Tells the machine what the store said, and remembers what R2 needs; raises what is final."""
        now = self.env.now()
        if isinstance(reply, Granted):
            self.room.note_answer(name, None)
            if self._observations:
                with self._lock:
                    self._observations.pop(name, None)
            return acquisition.granted(now, self.env.wall(), reply.grant)
        if isinstance(reply, Held):
            self.room.note_answer(name, None)
            if reply.triple is not None:
                with self._lock:
                    self._observations[name] = observe(self._observations.get(name), reply.triple, now)
                    self._observations.move_to_end(name)
                    if len(self._observations) > MOST_OBSERVATIONS:
                        self._observations.popitem(last=False)
            return acquisition.contended(now, reply.version, reply.look_in, self.env.random())
        self.room.note_answer(name, reply)
        if isinstance(reply, BackendError) and reply.who != "service":
            raise reply
        return acquisition.failed(now, reply, self.env.random())

    def count(self, name: str, missed: bool) -> None:
        """Counts one acquire for the contention alarm."""
        with self._lock:
            window = self._windows.get(name)
            if window is None:
                window = self._windows[name] = ContentionWindow()
                if len(self._windows) > MOST_OBSERVATIONS:
                    self._windows.popitem(last=False)
            change = window.add(self.env.now(), missed)
        if change == "on":
            logger.warning(
                "azlatch: %.0f %% of the acquires of %r found it held: a matter of architecture, not of "
                "patience; split the name, or let a queue deliver one at a time",
                window.contention * 100,
                name,
            )

    # -- the end of things -------------------------------------------------------------------------

    def end(self, hold: Holding, give_up: float = float("inf")) -> None:
        """Releases the hold; never raises. What the store did not confirm is repeated in the background."""
        if hold.pid != self.env.pid():
            hold.lose_to_fork()
            return
        before = hold.stop_believing()
        if hold.owes_release(before):
            until = self.env.now() + min(CALL_LIMIT, hold.machine.terms.call_limit)
            self.finish(hold, before, min(until, give_up))

    def finish(self, hold: Holding, before: State, until: float) -> None:
        """Tells the store of the end of a hold that was in the state `before`."""
        if before is State.HELD and self.recorder is not None:
            # Before the call: belief has ended, whatever becomes of the release.
            self.recorder.emit("released", **hold.story())
        try:
            self.backend.release(hold.grant, until)
        except (BackendError, OutcomeUnknown) as error:
            logger.warning("azlatch: releasing %r will be repeated in the background: %s", hold.name, error)
            self.release_later(hold.grant)
        except BaseException:
            self.release_later(hold.grant)
            raise

    def give_back(self, grant: Grant) -> None:
        """Releases a grant that nobody may use: at once, else in the background."""
        try:
            self.backend.release(grant, self.env.now() + CALL_LIMIT)
        except (BackendError, OutcomeUnknown):
            self.release_later(grant)
        if self.recorder is not None:
            self.recorder.emit("given-back", name=grant.name, nonce=grant.nonce, fence=grant.fence)

    def give_back_later(self, grant: Grant) -> None:
        """The same without waiting for the store."""
        if self.recorder is not None:
            self.recorder.emit("given-back", name=grant.name, nonce=grant.nonce, fence=grant.fence)
        self.release_later(grant)

    def break_hold(
        self, name: str, fence: int | None, reason: str, *, now: bool, until: float
    ) -> Broken | None:
        """A break that is conditional on what was seen (B1), by the caller or right here."""
        if fence is None:
            view = self.backend.read(name, until)
            if view is None or view.state == "free":
                return None
            fence = view.fence
        done = self.backend.break_hold(name, fence, self.instance.label, reason, now=now, until=until)
        if done is not None and self.recorder is not None:
            by = self.instance.label
            self.recorder.emit(
                "broken", name=name, fence=done.fence, by=by, reason=reason, now=now, free_in=done.free_in
            )
        return done

    def release_later(self, grant: Grant) -> None:
        """Releases the grant in the background, again and again until its ttl has passed."""

        def run(until: float) -> bool:
            self.backend.release(grant, until)
            return True

        self.heart.add_chore(f"releasing {grant.name!r}", run, self.env.now() + grant.ttl)

    def settle_later(self, name: str, terms: Terms, orphans: list[Orphan]) -> None:
        """Frees in the background what a call that nobody waits for any more may still bring about (R5)."""
        for orphan in orphans:
            give_up = self.env.now() + terms.ttl + terms.call_limit
            settle = functools.partial(self.backend.settle, name, orphan)
            self.heart.add_chore(f"settling {name!r}", settle, give_up)

    def leave_later(self, name: str) -> None:
        """Gives up the place in the store's line in the background, if nobody here waits by then."""

        def run(until: float) -> bool:
            if not self.room.waiting(name):
                self.backend.leave(name, until)
            return True

        self.heart.add_chore(f"leaving the line of {name!r}", run, self.env.now() + CALL_LIMIT)

    def timeout_error(self, name: str) -> LatchError | None:
        """Why those behind the front time out: None for contention, else what the front was told (M6)."""
        trouble = self.room.trouble(name)
        if trouble is None:
            return None
        error = BackendUnavailable(
            f"the store does not answer those of this process who are first in line: {trouble}"
        )
        error.__cause__ = trouble
        return error


def _collected(heart: Heart, backend: Backend, env: Env, pid: int) -> None:
    """A connection that nobody refers to any more, nor any hold of it: its threads and files go too."""

    def close() -> None:
        heart.stop()
        backend.close()

    # Not here: the collector may run in a thread that holds one of their locks.
    if env.pid() == pid:
        with contextlib.suppress(RuntimeError):
            env.spawn(close, "azlatch-collected")


def this_instance(identity: str) -> Instance:
    """This process, as stores and audits name it."""
    return Instance(identity, _host(), os.getpid(), _started(), role_of(dict(os.environ)))


def _host() -> str:
    return (os.environ.get("COMPUTERNAME") or os.uname().nodename)[:200]


def _started() -> float:
    try:
        return os.stat("/proc/self").st_ctime
    except OSError:
        return time.time() - time.process_time()


_real: weakref.WeakSet[Connection] = weakref.WeakSet()


def tie_to_process(connection: Connection) -> None:
    """What the connection holds when the process ends is released; dropped, it takes its threads along."""
    _real.add(connection)


@atexit.register
def _at_exit() -> None:
    for connection in list(_real):
        try:
            connection.at_exit()
        except Exception:
            logger.exception("azlatch: leaving the store at exit failed")
