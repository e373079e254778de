"""The sync driver: latches for threads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from azlatch.backends.protocol import Broken, Granted, View
from azlatch.core.acquisition import Acquisition, GiveBack, Pause, Try, Won
from azlatch.core.hold import HoldMachine, State
from azlatch.core.names import check_name
from azlatch.core.terms import Terms, seconds, timeout_of
from azlatch.errors import AcquireTimeout, LatchError, UsageError
from azlatch.runtime.connection import CALL_LIMIT
from azlatch.runtime.functions import check_function
from azlatch.runtime.holding import Holding
from azlatch.runtime.recorder import Account
from azlatch.runtime.room import Waiter

if TYPE_CHECKING:
    from azlatch.runtime.connection import Connection

P = ParamSpec("P")
R = TypeVar("R")

MAX_NOTE = 1_000


class Hold(Holding):
    """A granted latch. Works in `with`: leaving it releases, and raises HoldLost after a loss."""

    def ensure(self) -> None:
        """Returns only if the latch is still this holder's, by its own deadline.

        Where the machine may have been frozen without its clocks moving, the store is asked first.

        Raises:
            HoldLost: it is lost, with `.reason`.
            BackendError: the store has to confirm it after such a freeze, and does not answer.
            UsageError: it was released.
        """
        renew = self._require()
        if renew is not None:
            error = self.carry_out(renew)
            self._require_held()
            if error is not None:
                raise error

    def note(self, text: str) -> None:
        """Stores a text that `inspect` shows, at most 1,000 characters.

        Raises:
            HoldLost: it is lost.
            UsageError: too long.
            BackendError: the store does not take it.
        """
        check_note(text)
        self._require_held()
        gone = self._connection.backend.note(self.grant, text, self._env.now() + self.machine.terms.call_limit)
        if gone is not None:
            self._lose(gone.reason)
            self._require_held()

    def release(self) -> None:
        """Gives the latch up. May be repeated; never raises for a hold that is already gone."""
        self._connection.end(self)

    def __enter__(self) -> Hold:
        self._require_held()
        thread = self._env.current()
        self._owner_ended = lambda: not thread.is_alive()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._owner_ended = None
        lost = self._look() is State.LOST
        self.release()
        if error is None and (lost or self.machine.state is State.LOST):
            raise self._lost_error()

    def __repr__(self) -> str:
        return f"<Hold {self.name!r} fence={self.fence} {self.machine.state.value}>"


class Latches:
    """Latches in one store, for threads. Made by `azlatch.connect`; it does no I/O before the first use."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._env = connection.env

    # -- taking ------------------------------------------------------------------------------------

    def acquire(
        self,
        name: str,
        *,
        ttl: float = 30,
        timeout: float | None = 60,
        renew_every: float | None = None,
        max_hold: float | None = None,
        heartbeat: bool = True,
    ) -> Hold:
        """Takes the latch, waiting for it up to `timeout` seconds.

        Args:
            name: 1 to 1,024 characters, none of them a control character.
            ttl: seconds that the grant lives without a renewal.
            timeout: seconds to wait; 0 is one try; None waits for ever.
            renew_every: seconds between renewals; by default a third of what ttl leaves after its margin.
            max_hold: seconds after which the hold is lost whatever happens, or None.
            heartbeat: whether it is renewed in the background for as long as the Hold is referenced.

        Raises:
            AcquireTimeout: someone else had it all the time.
            BackendError: the store failed, or did not answer; BackendUnavailable is never contention.
            HeartUnavailable: no thread for the renewals can be started.
            UsageError: a value that cannot work.
        """
        check_name(name)
        terms = self._connection.terms(ttl, renew_every, max_hold, heartbeat)
        patience = timeout_of(timeout)
        hold = self._acquire(name, terms, patience, one_shot=patience == 0)
        if isinstance(hold, Hold):
            return hold
        raise hold

    def try_acquire(
        self,
        name: str,
        *,
        ttl: float = 30,
        renew_every: float | None = None,
        max_hold: float | None = None,
        heartbeat: bool = True,
    ) -> Hold | None:
        """Takes the latch with one round of calls, or returns None: someone else has it.

        Raises:
            BackendError: the store failed, or did not answer.
            HeartUnavailable: no thread for the renewals can be started.
            UsageError: a value that cannot work.
        """
        check_name(name)
        terms = self._connection.terms(ttl, renew_every, max_hold, heartbeat)
        hold = self._acquire(name, terms, 0.0, one_shot=True)
        return hold if isinstance(hold, Hold) else None

    def hold(
        self,
        name: str,
        *,
        ttl: float = 30,
        timeout: float | None = 60,
        renew_every: float | None = None,
        max_hold: float | None = None,
        heartbeat: bool = True,
    ) -> HoldContext:
        """The context manager: takes the latch on entering and releases it on leaving. See `acquire`."""
        return HoldContext(
            lambda: self.acquire(
                name, ttl=ttl, timeout=timeout, renew_every=renew_every, max_hold=max_hold, heartbeat=heartbeat
            )
        )

    def guarded(
        self, name: str, *, ttl: float = 30, timeout: float | None = 60, max_hold: float | None = None
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """The decorator: every call of the function runs while holding the latch. See `acquire`.

        Raises:
            UsageError: it is a coroutine function or a generator, whose body runs after the call.
        """

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            check_function(function, awaited=False)

            @functools.wraps(function)
            def call(*args: P.args, **kwargs: P.kwargs) -> R:
                with self.hold(name, ttl=ttl, timeout=timeout, max_hold=max_hold):
                    return function(*args, **kwargs)

            return call

        return decorate

    def lock(self, name: str, *, ttl: float = 30) -> LatchLock:
        """An object with the shape of `threading.Lock`, for libraries that want one."""
        return LatchLock(self, check_name(name), ttl)

    def _acquire(self, name: str, terms: Terms, patience: float | None, *, one_shot: bool) -> Hold | LatchError:
        """The hold, or the AcquireTimeout; everything else is raised."""
        connection, env = self._connection, self._env
        started = env.now()
        give_up = None if patience is None else started + patience
        connection.open(give_up)
        connection.heart.start()
        acquisition = Acquisition(terms, give_up, one_shot, env.nonce)
        account = Account(connection.recorder, name, terms, patience, one_shot=one_shot, now=started)
        waiter = None
        won = False
        failure: BaseException | None = None
        try:
            if not one_shot:
                waiter = Waiter(env, name)
                front = connection.room.join(waiter)
                account.queued = not front
                while not front:
                    waiter.wait(give_up)
                    front = connection.room.is_front(waiter)
                    if not front and give_up is not None and env.now() >= give_up:
                        connection.count(name, missed=True)
                        trouble = connection.timeout_error(name)
                        if trouble is not None:
                            raise trouble
                        return timed_out(connection, name, started, "others of this process are before it")
            step = acquisition.attempt(env.now(), env.wall())
            while True:
                if isinstance(step, Try):
                    reply = connection.ask(connection.claim(name, terms, step, queue=not one_shot), step.until)
                    step = connection.report(acquisition, name, reply)
                    if acquisition.orphans:
                        connection.settle_later(name, terms, acquisition.take_orphans())
                    account.holder = holder_of(reply) or account.holder
                    if isinstance(reply, Granted):
                        account.reply = reply
                elif isinstance(step, Won):
                    connection.count(name, missed=account.queued or acquisition.misses > 0)
                    hold = Hold(
                        connection, step.grant, HoldMachine(terms, step.sent, step.sent, step.sent_wall)
                    )
                    account.granted(hold, acquisition, env.now())
                    connection.heart.watch(hold)
                    if connection.closed:
                        hold.stop_believing()
                        raise UsageError("this connection was closed meanwhile: connect again")
                    won = True
                    return hold
                elif isinstance(step, Pause):
                    assert waiter is not None
                    told = waiter.wait(step.until)
                    while not (told and step.wakeable) and env.now() < step.until:
                        told = waiter.wait(step.until)
                    step = acquisition.attempt(env.now(), env.wall())
                elif isinstance(step, GiveBack):
                    connection.give_back_later(step.grant)
                    step = acquisition.gave_back(env.now())
                else:
                    connection.count(name, missed=account.queued or acquisition.misses > 0)
                    if step.error is not None:
                        raise step.error
                    return timed_out(connection, name, started, account.holder)
        except BaseException as caught:
            failure = caught
            raise
        finally:
            if not won:
                account.ended(failure, acquisition, env.now())
                connection.settle_later(name, terms, acquisition.abandon())
            if waiter is not None:
                alone = connection.room.leave(waiter)
                if alone and not won:
                    connection.leave_later(name)

    # -- looking and operating ---------------------------------------------------------------------

    def inspect(self, name: str) -> View | None:
        """What the store knows of the name, or None. Texts in it come from outside: escape before showing.

        Raises:
            BackendError: the store failed.
        """
        check_name(name)
        return self._connection.backend.read(name, self._until())

    def list(self) -> Iterator[View]:
        """Every name that has a record, held or not, in the order of names.

        Raises:
            BackendError: the store failed.
        """
        return self._connection.backend.list(self._until())

    def break_hold(
        self, name: str, *, reason: str, fence: int | None = None, now: bool = False
    ) -> Broken | None:
        """Ends someone's hold, as an operator. None where nobody has the name.

        The holder is told at its next look. The name is granted again when the holder has noticed, or a ttl
        after the break; with `now=True` at once, and then only gates protect what the old holder still writes.

        Args:
            reason: why; it is recorded.
            fence: the fence that the operator saw, so that a newer hold is not broken by mistake.

        Raises:
            UsageError: no reason given, or another fence has the name by now.
            BackendError: the store failed.
        """
        check_name(name)
        check_reason(reason)
        until = self._until()
        return self._connection.break_hold(name, fence, reason, now=now, until=until)

    def purge(self, *, older_than: float) -> int:
        """Removes the records of names unused for `older_than` seconds; how many. Fences go on rising.

        Raises:
            UsageError: negative or not a number.
            BackendError: the store failed.
        """
        if seconds("older_than", older_than) < 0:
            raise UsageError(f"older_than is {older_than:g} s: give it 0 or more")
        return self._connection.backend.purge(older_than, self._until())

    def _until(self) -> float:
        self._connection.open()
        return self._env.now() + CALL_LIMIT

    # -- life --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Releases every hold that is left and lets the store go."""
        self._connection.close()

    def __enter__(self) -> Latches:
        self._connection.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class HoldContext:
    """What `latches.hold(...)` returns; may be entered again after it was left."""

    __slots__ = ("_acquire", "_hold")

    def __init__(self, acquire: Callable[[], Hold]) -> None:
        self._acquire = acquire
        self._hold: Hold | None = None

    def __enter__(self) -> Hold:
        if self._hold is not None:
            raise UsageError("this hold is entered already: call latches.hold(...) for each `with`")
        hold = self._acquire()
        entered = hold.__enter__()
        self._hold = hold
        return entered

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        hold, self._hold = self._hold, None
        assert hold is not None
        hold.__exit__(kind, error, traceback)


class LatchLock:
    """A latch with the shape of `threading.Lock`: any thread may release it."""

    def __init__(self, latches: Latches, name: str, ttl: float) -> None:
        self._latches = latches
        self._name = name
        self._ttl = ttl
        self._hold: Hold | None = None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As `threading.Lock.acquire`: False where it is held by another for so long.

        Raises:
            BackendError: the store failed.
        """
        if not blocking and timeout != -1:
            raise ValueError("can't specify a timeout for a non-blocking call")
        patience = None if blocking and timeout == -1 else (timeout if blocking else 0)
        try:
            hold = self._latches.acquire(self._name, ttl=self._ttl, timeout=patience)
        except AcquireTimeout:
            return False
        self._hold = hold
        return True

    def release(self) -> None:
        """Releases it.

        Raises:
            RuntimeError: it is not held.
            HoldLost: it was lost before.
        """
        hold, self._hold = self._hold, None
        if hold is None:
            raise RuntimeError("release unlocked lock")
        hold.__exit__(None, None, None)

    def locked(self) -> bool:
        """Whether this object holds it."""
        return self._hold is not None and self._hold.remaining() > 0

    __enter__ = acquire

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.__exit__(kind, error, traceback)
        elif error is None:
            raise RuntimeError("release unlocked lock")


def check_note(text: str, what: str = "a note") -> None:
    """Raises UsageError for what is not a text of at most 1,000 characters, lone surrogates apart."""
    if not isinstance(text, str) or len(text) > MAX_NOTE:
        raise UsageError(f"{what} is a text of at most {MAX_NOTE:,} characters: shorten it")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise UsageError(f"{what} has a lone surrogate in it, which no store can keep: remove it")


def check_reason(reason: str) -> None:
    """Raises UsageError for a break without a reason."""
    check_note(reason, "a reason")
    if not reason.strip():
        raise UsageError("a break needs a reason: say why, it is recorded")


def holder_of(reply: object) -> str | None:
    holder = getattr(reply, "holder", None)
    return holder.label if holder is not None else None


def timed_out(connection: Connection, name: str, started: float, holder: str | None) -> AcquireTimeout:
    waited = connection.env.now() - started
    who = f"; held by {holder}" if holder else ""
    return AcquireTimeout(
        f"{name!r} was held by someone else for the whole timeout of {waited:.3g} s{who}",
        name=name,
        waited=waited,
        holder=holder,
    )
