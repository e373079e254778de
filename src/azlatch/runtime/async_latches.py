"""The asyncio driver: the same core and the same blocking backends; all waiting is done on the loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from azlatch.backends.protocol import Broken, Granted, Held, View
from azlatch.core.acquisition import Acquisition, GiveBack, Orphan, Pause, Try, Won
from azlatch.core.hold import HoldMachine, State
from azlatch.core.names import check_name
from azlatch.core.terms import Terms, seconds, timeout_of
from azlatch.errors import BackendError, BackendUnavailable, LatchError, OutcomeUnknown, UsageError
from azlatch.runtime.calls import Calls
from azlatch.runtime.connection import CALL_LIMIT, OPEN_LIMIT, Reply
from azlatch.runtime.holding import Holding
from azlatch.runtime.latches import check_note, check_reason, holder_of, timed_out
from azlatch.runtime.recorder import Account

if TYPE_CHECKING:
    from azlatch.core.record import Claim
    from azlatch.runtime.connection import Connection

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class AsyncHold(Holding):
    """A granted latch. Works in `async with`, where a loss cancels the body. Bound to no event loop."""

    _calls: Calls

    async def ensure(self) -> None:
        """Returns only if the latch is still this holder's, by its own deadline.

        Where the machine may have been frozen without its clocks moving, the store is asked first.

        Raises:
            HoldLost: it is lost, with `.reason`.
            BackendError: the store has to confirm it after such a freeze, and does not answer.
            UsageError: it was released.
        """
        renew = self._require()
        if renew is not None:
            error: BackendError | OutcomeUnknown | None
            try:
                error = await self._calls.make(lambda: self.carry_out(renew), renew.until)
            except (BackendError, OutcomeUnknown) as late:
                error = late
            self._require_held()
            if error is not None:
                raise error

    async def note(self, text: str) -> None:
        """Stores a text that `inspect` shows, at most 1,000 characters.

        Raises:
            HoldLost: it is lost.
            UsageError: too long.
            BackendError: the store does not take it.
        """
        check_note(text)
        self._require_held()
        until = self._env.now() + self.machine.terms.call_limit
        backend = self._connection.backend
        gone = await self._calls.make(lambda: backend.note(self.grant, text, until), until)
        if gone is not None:
            self._lose(gone.reason)
            self._require_held()

    async def wait_lost(self, timeout: float | None = None) -> bool:  # type: ignore[override]
        """Waits until the hold is lost, at most `timeout` seconds; whether it is."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits on it
                loop.call_soon_threadsafe(ended.set)

        self._add_hook(tell)
        give_up = None if timeout is None else self._env.now() + timeout
        try:
            while not self.is_lost and self.machine.state is not State.RELEASED:
                left = self.remaining()
                if give_up is not None:
                    left = min(left, give_up - self._env.now())
                    if left <= 0:
                        break
                # A release tells nobody: the wait looks again now and then.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(min(left, 1.0), 0.001)):
                        await ended.wait()
        finally:
            self._remove_hook(tell)
        return self.is_lost

    async def release(self) -> None:
        """Gives the latch up. May be repeated; never raises for a hold that is already gone.

        Cancelled or not, the release goes out: it is carried on in a thread.
        """
        connection = self._connection
        if self.pid != self._env.pid():
            self.lose_to_fork()
            return
        before = self.stop_believing()
        if not self.owes_release(before):
            return
        until = self._env.now() + min(CALL_LIMIT, self.machine.terms.call_limit)
        try:
            await self._calls.make(lambda: connection.finish(self, before, until), until)
        except (BackendError, OutcomeUnknown):
            connection.release_later(self.grant)
        except BaseException:
            # The call may not have started: whoever repeats it finds nothing to do if it had.
            connection.release_later(self.grant)
            raise

    async def __aenter__(self) -> AsyncHold:
        self._require_held()
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        self._owner_ended = task.done
        self._body = _Body(task, loop)
        self._add_hook(self._body.cancel_from_any_thread)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._owner_ended = None
        lost = self._look() is State.LOST
        cancelled_by_us = self._body.leave(error)
        await self.release()
        if (error is None and (lost or self.machine.state is State.LOST)) or cancelled_by_us:
            raise self._lost_error() from error

    def __repr__(self) -> str:
        return f"<AsyncHold {self.name!r} fence={self.fence} {self.machine.state.value}>"


class _Body:
    """The task inside `async with`, and whether it was this hold's loss that cancelled it."""

    def __init__(self, task: asyncio.Task[object], loop: asyncio.AbstractEventLoop) -> None:
        self._task = task
        self._loop = loop
        self._inside = True
        self._cancelled = False
        self._before = task.cancelling()

    def cancel_from_any_thread(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:
            return  # The loop is closed, and with it the body.

    def _cancel(self) -> None:
        if self._inside and not self._task.done():
            self._cancelled = True
            self._task.cancel()

    def leave(self, error: BaseException | None) -> bool:
        """The body is left; True if its CancelledError is ours and nobody else's."""
        self._inside = False
        if not self._cancelled:
            return False
        return self._task.uncancel() <= self._before and isinstance(error, asyncio.CancelledError)


class _AsyncWaiter:
    """A task that waits."""

    __slots__ = ("_event", "_loop", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def is_gone(self) -> bool:
        return self._loop.is_closed()

    def tell(self) -> None:
        self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, seconds: float | None) -> bool:
        """Waits to be told, at most so long; whether it was."""
        try:
            async with asyncio.timeout(seconds):  # not wait_for: before 3.12 it swallows a cancellation
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class AsyncLatches:
    """Latches in one store, for asyncio. Made by `azlatch.aio.connect`; no I/O before the first use."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._env = connection.env
        self._calls = Calls(connection.env)
        if connection.tied:
            weakref.finalize(self, self._calls.stop).atexit = False
        self._calls_pid = connection.env.pid()

    # -- taking ------------------------------------------------------------------------------------

    async def acquire(
        self,
        name: str,
        *,
        ttl: float = 30,
        timeout: float | None = 60,
        renew_every: float | None = None,
        max_hold: float | None = None,
        heartbeat: bool = True,
    ) -> AsyncHold:
        """Takes the latch, waiting for it up to `timeout` seconds. Cancelling it leaves no hold behind.

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
        hold = await self._acquire(name, terms, patience, one_shot=patience == 0)
        if isinstance(hold, AsyncHold):
            return hold
        raise hold

    async def try_acquire(
        self,
        name: str,
        *,
        ttl: float = 30,
        renew_every: float | None = None,
        max_hold: float | None = None,
        heartbeat: bool = True,
    ) -> AsyncHold | None:
        """Takes the latch with one round of calls, or returns None: someone else has it.

        Raises:
            BackendError: the store failed, or did not answer.
            HeartUnavailable: no thread for the renewals can be started.
            UsageError: a value that cannot work.
        """
        check_name(name)
        terms = self._connection.terms(ttl, renew_every, max_hold, heartbeat)
        hold = await self._acquire(name, terms, 0.0, one_shot=True)
        return hold if isinstance(hold, AsyncHold) else None

    def hold(
        self,
        name: str,
        *,
        ttl: float = 30,
        timeout: float | None = 60,
        renew_every: float | None = None,
        max_hold: float | None = None,
        heartbeat: bool = True,
    ) -> AsyncHoldContext:
        """The async context manager: takes the latch on entering and releases it on leaving."""
        return AsyncHoldContext(
            lambda: self.acquire(
                name, ttl=ttl, timeout=timeout, renew_every=renew_every, max_hold=max_hold, heartbeat=heartbeat
            )
        )

    def guarded(
        self, name: str, *, ttl: float = 30, timeout: float | None = 60, max_hold: float | None = None
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Awaitable[R]]]:
        """The decorator for coroutine functions: every call runs while holding the latch."""

        def decorate(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
            @functools.wraps(function)
            async def call(*args: P.args, **kwargs: P.kwargs) -> R:
                async with self.hold(name, ttl=ttl, timeout=timeout, max_hold=max_hold):
                    return await function(*args, **kwargs)

            return call

        return decorate

    async def _acquire(
        self, name: str, terms: Terms, patience: float | None, *, one_shot: bool
    ) -> AsyncHold | LatchError:
        connection, env = self._connection, self._env
        started = env.now()
        give_up = None if patience is None else started + patience
        await self._open(give_up)
        connection.heart.start()
        acquisition = Acquisition(terms, give_up, one_shot, env.nonce)
        account = Account(connection.recorder, name, terms, patience, one_shot=one_shot, now=started)
        waiter = None
        won = False
        failure: BaseException | None = None
        try:
            if not one_shot:
                waiter = _AsyncWaiter(name)
                front = connection.room.join(waiter)
                account.queued = not front
                while not front:
                    await waiter.wait(1.0 if give_up is None else max(min(give_up - env.now(), 1.0), 0.0))
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
                    claim = connection.claim(name, terms, step, queue=not one_shot)
                    reply = await self._ask(claim, acquisition, step.until)
                    step = connection.report(acquisition, name, reply)
                    if acquisition.orphans:
                        connection.settle_later(name, terms, acquisition.take_orphans())
                    account.holder = holder_of(reply) or account.holder
                    if isinstance(reply, Granted):
                        account.reply = reply
                elif isinstance(step, Won):
                    connection.count(name, missed=account.queued or acquisition.misses > 0)
                    hold = AsyncHold(
                        connection, step.grant, HoldMachine(terms, step.sent, step.sent, step.sent_wall)
                    )
                    hold._calls = self._calls
                    account.granted(hold, acquisition, env.now())
                    connection.heart.watch(hold)
                    if connection.closed:
                        hold.stop_believing()
                        raise UsageError("this connection was closed meanwhile: connect again")
                    won = True
                    return hold
                elif isinstance(step, Pause):
                    assert waiter is not None
                    told = await waiter.wait(max(step.until - env.now(), 0.0))
                    while not (told and step.wakeable) and env.now() < step.until:
                        told = await waiter.wait(max(step.until - env.now(), 0.0))
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

    async def _ask(self, claim: Claim, acquisition: Acquisition, until: float) -> Reply:
        """One try on a thread. If the caller is cancelled, the thread itself gives a grant back."""
        connection = self._connection

        def give_back(reply: Reply) -> None:
            if isinstance(reply, Granted):
                connection.give_back(reply.grant)
            elif isinstance(reply, Held) and claim.queue:
                connection.leave_later(claim.name)
            elif isinstance(reply, OutcomeUnknown):
                orphan = Orphan(claim.nonce, reply.basis, claim.sent)
                connection.settle_later(claim.name, acquisition.terms, [orphan])

        try:
            return await self._calls.make(lambda: connection.ask(claim, until), until, give_back)
        except OutcomeUnknown:
            # The thread gives back what it still brings: nobody may send this nonce again, not even where an
            # earlier call of it is open.
            acquisition.disown()
            return BackendUnavailable("the store did not answer in time")
        except BackendError as error:
            return error

    # -- looking and operating ---------------------------------------------------------------------

    async def inspect(self, name: str) -> View | None:
        """What the store knows of the name, or None. Texts in it come from outside: escape before showing."""
        check_name(name)
        until = await self._until()
        return await self._calls.make(lambda: self._connection.backend.read(name, until), until)

    async def list(self) -> AsyncIterator[View]:
        """Every name that has a record, held or not, in the order of names."""
        until = await self._until()
        views = await self._calls.make(lambda: self._connection.backend.list(until), until)
        end = object()
        while True:
            # From here on, and not from the start: the caller may take its time between two names.
            until = self._env.now() + CALL_LIMIT
            view = await self._calls.make(lambda: next(views, end), until)
            if not isinstance(view, View):
                return
            yield view

    async def break_hold(
        self, name: str, *, reason: str, fence: int | None = None, now: bool = False
    ) -> Broken | None:
        """Ends someone's hold, as an operator; see `Latches.break_hold`."""
        check_name(name)
        check_reason(reason)
        until = await self._until()
        return await self._calls.make(
            lambda: self._connection.break_hold(name, fence, reason, now=now, until=until), until
        )

    async def purge(self, *, older_than: float) -> int:
        """Removes the records of names unused for `older_than` seconds; how many. Fences go on rising."""
        if seconds("older_than", older_than) < 0:
            raise UsageError(f"older_than is {older_than:g} s: give it 0 or more")
        until = await self._until()
        return await self._calls.make(lambda: self._connection.backend.purge(older_than, until), until)

    async def _until(self) -> float:
        await self._open(None)
        return self._env.now() + CALL_LIMIT

    async def _open(self, give_up: float | None) -> None:
        connection = self._connection
        if self._calls_pid != self._env.pid():
            self._calls = Calls(self._env)
            self._calls_pid = self._env.pid()
        if not connection.is_open:
            now = self._env.now()
            until = now + OPEN_LIMIT if give_up is None else min(max(give_up, now + 1.0), now + OPEN_LIMIT)
            try:
                await self._calls.make(lambda: connection.open(until), until)
            except OutcomeUnknown as late:
                # Opening grants nothing: however it ends, the next call finds it so.
                raise BackendUnavailable("the store could not be opened in time") from late

    # -- life --------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Releases every hold that is left and lets the store go."""
        await self._calls.make(self._connection.close, self._env.now() + CALL_LIMIT)
        self._calls.stop()

    async def __aenter__(self) -> AsyncLatches:
        await self._open(None)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncHoldContext:
    """What `latches.hold(...)` returns; may be entered again after it was left."""

    __slots__ = ("_acquire", "_hold")

    def __init__(self, acquire: Callable[[], Awaitable[AsyncHold]]) -> None:
        self._acquire = acquire
        self._hold: AsyncHold | None = None

    async def __aenter__(self) -> AsyncHold:
        if self._hold is not None:
            raise UsageError("this hold is entered already: call latches.hold(...) for each `async with`")
        hold = await self._acquire()
        entered = await hold.__aenter__()
        self._hold = hold
        return entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        hold, self._hold = self._hold, None
        assert hold is not None
        await hold.__aexit__(kind, error, traceback)
