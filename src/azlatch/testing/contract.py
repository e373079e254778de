"""The contract of a backend, as a pytest suite that anyone can run on a backend of their own.

Subclass both `LatchContract` classes' entry points, once per driver::

    class TestMyStoreSync(LatchContract):
        driver = "sync"
        def new_backend(self): return MyBackend(self.shared)

    class TestMyStoreAsync(TestMyStoreSync):
        driver = "async"

`new_backend` is called several times within a test, and every backend that it returns during one test must
see the same names. Every test is one property, written once: the async driver is driven from a loop in a
thread of its own. Times are real; `ttl` is the shortest ttl that the store takes, at least.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, ClassVar, Literal

import pytest

from azlatch.backends.protocol import Backend, Granted, Held
from azlatch.core.acquisition import Orphan
from azlatch.core.instance import Instance
from azlatch.core.record import Claim, Grant
from azlatch.errors import AcquireTimeout, HoldLost, UsageError
from azlatch.runtime.async_latches import AsyncLatches
from azlatch.runtime.connection import Connection
from azlatch.runtime.env import REAL
from azlatch.runtime.latches import Latches

DRIVERS = ("sync", "async")

#: The bound of every wait of the suite, seconds; reached only by a test that fails.
PATIENCE = 30.0


class LoopThread:
    """An event loop in a thread, so that sync test bodies can drive async code."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="contract-loop", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE * 2)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        self.loop.close()


class _AwaitedHold:
    """An AsyncHold with the verbs of a Hold."""

    def __init__(self, hold: Any, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._hold = hold
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hold, name)

    def ensure(self) -> None:
        self._run(self._hold.ensure())

    def note(self, text: str) -> None:
        self._run(self._hold.note(text))

    def release(self) -> None:
        self._run(self._hold.release())

    def wait_lost(self, timeout: float | None = None) -> bool:
        return bool(self._run(self._hold.wait_lost(timeout)))


class _AwaitedLatches:
    """AsyncLatches with the verbs of Latches."""

    def __init__(self, latches: AsyncLatches, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._latches = latches
        self._run = run

    def acquire(self, name: str, **terms: Any) -> Any:
        return _AwaitedHold(self._run(self._latches.acquire(name, **terms)), self._run)

    def try_acquire(self, name: str, **terms: Any) -> Any:
        hold = self._run(self._latches.try_acquire(name, **terms))
        return hold if hold is None else _AwaitedHold(hold, self._run)

    @contextlib.contextmanager
    def hold(self, name: str, **terms: Any) -> Iterator[Any]:
        hold = self.acquire(name, **terms)
        try:
            yield hold
        finally:
            hold.release()

    def inspect(self, name: str) -> Any:
        return self._run(self._latches.inspect(name))

    def list(self) -> Any:
        async def collect() -> Any:
            return [view async for view in self._latches.list()]

        return iter(self._run(collect()))

    def break_hold(self, name: str, **how: Any) -> Any:
        return self._run(self._latches.break_hold(name, **how))

    def purge(self, *, older_than: float) -> Any:
        return self._run(self._latches.purge(older_than=older_than))

    def close(self) -> None:
        self._run(self._latches.close())


class _KeptLatches:
    """Latches that keep every hold referenced until they are closed: a test may drop its own."""

    def __init__(self, latches: Any) -> None:
        self._latches = latches
        self._holds: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._latches, name)

    def acquire(self, name: str, **terms: Any) -> Any:
        hold = self._latches.acquire(name, **terms)
        self._holds.append(hold)
        return hold

    def try_acquire(self, name: str, **terms: Any) -> Any:
        hold = self._latches.try_acquire(name, **terms)
        self._holds.append(hold)
        return hold

    def close(self) -> None:
        self._latches.close()
        self._holds.clear()


class LatchContract:
    """What every latch promises, whatever its store and driver."""

    driver: ClassVar[Literal["sync", "async"]]
    #: The shortest ttl of the store, seconds.
    ttl: ClassVar[float] = 0.6
    #: Whether a break, a list and a purge exist on this store.
    operators: ClassVar[bool] = True

    def new_backend(self) -> Backend:
        """Another backend on the store of this test."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _connections(self) -> Iterator[None]:
        self._opened: list[Any] = []
        self._loop = LoopThread() if self.driver == "async" else None
        yield
        for latches in self._opened:
            latches.close()
        if self._loop is not None:
            self._loop.stop()

    def connect(self, **options: Any) -> Any:
        """Another instance on the store of this test, with the verbs of Latches."""
        connection = Connection(self.new_backend(), REAL, create=True, **options)
        latches: Any
        if self._loop is None:
            latches = Latches(connection)
        else:
            latches = _AwaitedLatches(AsyncLatches(connection), self._loop.run)
        kept = _KeptLatches(latches)
        self._opened.append(kept)
        return kept

    # -- mutual exclusion and fences ---------------------------------------------------------------

    def test_one_holder(self) -> None:
        """While one instance holds a name, nobody else gets it (M1)."""
        one, other = self.connect(), self.connect()
        hold = one.acquire("a", ttl=30)
        assert other.try_acquire("a") is None
        assert one.try_acquire("a") is None
        hold.ensure()
        hold.release()
        again = other.try_acquire("a")
        assert again is not None
        again.ensure()

    def test_names_are_independent(self) -> None:
        """Holding one name says nothing about another."""
        latches = self.connect()
        assert latches.acquire("a").remaining() > 0
        assert latches.acquire("b").remaining() > 0

    @pytest.mark.parametrize(
        "name", ["a b/c?d#e%2F", "ÄÖ-日本", "A", "a", "..", "x" * 1024, "'; DROP TABLE latches --"]
    )
    def test_any_name(self, name: str) -> None:
        """Every allowed name works and is shown as it was given."""
        latches = self.connect()
        hold = latches.acquire(name)
        view = latches.inspect(name)
        assert view is not None
        assert (view.name, view.state) == (name, "held")
        hold.release()

    def test_similar_names_never_meet(self) -> None:
        """Names that differ in case, form or escapes are different latches."""
        latches = self.connect()
        names = ["é", "e\u0301", "E", "e", "%65", "_65", "a" * 300, "a" * 301, "a" * 299 + "b"]
        holds = [latches.try_acquire(name) for name in names]
        assert all(hold is not None for hold in holds)

    def test_fences_rise(self) -> None:
        """Every grant has a higher fence than the one before, whoever takes it (M2)."""
        one, other = self.connect(), self.connect()
        fences = []
        for latches in (one, other, one, one, other):
            hold = latches.acquire("a", timeout=PATIENCE)
            fences.append(hold.fence)
            hold.release()
        assert fences == sorted(set(fences))

    def test_no_fence_on_request(self) -> None:
        """With fence=False a hold carries None (F4)."""
        assert self.connect(fence=False).acquire("a").fence is None

    # -- waiting -----------------------------------------------------------------------------------

    def test_timeout_is_contention(self) -> None:
        """Waiting in vain ends in AcquireTimeout, not before its time (M6, M7)."""
        one, other = self.connect(), self.connect()
        hold = one.acquire("a")
        started = time.monotonic()
        with pytest.raises(AcquireTimeout) as caught:
            other.acquire("a", timeout=0.3)
        assert time.monotonic() - started >= 0.3
        assert caught.value.name == "a"
        assert hold.remaining() > 0

    def test_one_try(self) -> None:
        """timeout=0 is one try."""
        one, other = self.connect(), self.connect()
        hold = one.acquire("a")
        with pytest.raises(AcquireTimeout):
            other.acquire("a", timeout=0)
        hold.release()
        assert other.acquire("a", timeout=0).remaining() > 0

    def test_waiters_all_get_it(self) -> None:
        """Waiters of several instances get the name one after the other, and each of them gets it."""
        instances = [self.connect() for _ in range(3)]
        held: list[int] = []
        inside = threading.Semaphore(1)

        def work(latches: Any) -> None:
            for _ in range(3):
                with latches.hold("a", ttl=30, timeout=PATIENCE * 2) as hold:
                    assert inside.acquire(blocking=False)
                    held.append(hold.fence)
                    time.sleep(0.002)
                    inside.release()

        self._all(*(lambda latches=latches: work(latches) for latches in instances for _ in range(2)))
        assert held == sorted(set(held))
        assert len(held) == 18

    # -- the life of a hold ------------------------------------------------------------------------

    def test_heartbeat_keeps_it(self) -> None:
        """A hold outlives its ttl many times over while it is renewed."""
        one, other = self.connect(), self.connect()
        ttl = max(self.ttl, 3.0)
        hold = one.acquire("a", ttl=ttl)
        end = time.monotonic() + 2 * ttl
        while time.monotonic() < end:
            assert other.try_acquire("a") is None
            time.sleep(ttl / 10)
        hold.ensure()

    def test_without_heartbeat_it_is_lost(self) -> None:
        """An unrenewed hold is lost before anyone else can have it, and stays lost (M1, T2)."""
        one, other = self.connect(), self.connect()
        hold = one.acquire("a", ttl=self.ttl, heartbeat=False)
        taken = other.acquire("a", timeout=self.ttl * 3 + PATIENCE)
        assert hold.is_lost
        assert hold.lost_reason == "expired"
        with pytest.raises(HoldLost) as caught:
            hold.ensure()
        assert caught.value.reason == "expired"
        assert taken.fence > hold.fence
        hold.release()
        taken.ensure()

    def test_max_hold(self) -> None:
        """A hold that reaches its cap is lost with that reason, whatever its heartbeat."""
        hold = self.connect().acquire("a", ttl=self.ttl, max_hold=self.ttl / 2)
        assert hold.wait_lost(PATIENCE)
        assert hold.lost_reason == "max-hold"

    def test_on_lost(self) -> None:
        """The callback is called once, with the reason, also for a hold that is lost already."""
        hold = self.connect().acquire("a", ttl=self.ttl, heartbeat=False)
        told: list[str] = []
        hold.on_lost(told.append)
        assert hold.wait_lost(PATIENCE)
        hold.on_lost(told.append)
        self._until(lambda: len(told) == 2)
        assert told == ["expired", "expired"]

    def test_release_is_idempotent(self) -> None:
        """A second release does nothing, to a newer hold least of all (R6)."""
        one, other = self.connect(), self.connect()
        hold = one.acquire("a")
        hold.release()
        newer = other.acquire("a", timeout=PATIENCE)
        hold.release()
        newer.ensure()
        assert one.try_acquire("a") is None
        assert not hold.is_lost

    def test_any_thread_releases(self) -> None:
        """The hold is the capability: another thread may release it."""
        latches = self.connect()
        hold = latches.acquire("a")
        thread = threading.Thread(target=hold.release)
        thread.start()
        thread.join(PATIENCE)
        assert latches.try_acquire("a") is not None

    def test_close_releases(self) -> None:
        """What an instance holds is free once its connection is closed, and no more is granted to it."""
        one, other = self.connect(), self.connect()
        hold = one.acquire("a")
        one.close()
        assert hold.remaining() == 0.0
        assert other.acquire("a", timeout=PATIENCE).remaining() > 0
        with pytest.raises(UsageError):
            one.acquire("b")

    # -- operators ---------------------------------------------------------------------------------

    def test_inspect(self) -> None:
        """Who holds it, under which fence, with which note; and nothing of an unknown name."""
        latches = self.connect(instance=Instance("1" * 32, "host-1", 7, 0.0, "site"))
        assert latches.inspect("a") is None
        hold = latches.acquire("a", ttl=30)
        hold.note("page 7 of 9")
        view = latches.inspect("a")
        assert (view.state, view.fence, view.holder.label, view.ttl, view.note) == (
            "held",
            hold.fence,
            "site@host-1:7",
            30,
            "page 7 of 9",
        )
        hold.release()
        assert latches.inspect("a").state == "free"

    def test_list(self) -> None:
        """Every name with a record is listed once, in order."""
        self._needs_operators()
        latches = self.connect()
        for number in range(7):
            latches.acquire(f"n{number}").release()
        hold = latches.acquire("m")
        names = [view.name for view in latches.list()]
        assert names == ["m", *(f"n{number}" for number in range(7))]
        hold.release()

    def test_break_stops_the_holder(self) -> None:
        """A broken hold is lost with that reason, and the next grant has a higher fence (B1, B2)."""
        self._needs_operators()
        one, other = self.connect(), self.connect()
        hold = one.acquire("a", ttl=max(self.ttl, 5.0))
        broken = other.break_hold("a", reason="stuck", fence=hold.fence)
        assert broken.fence == hold.fence
        assert hold.wait_lost(PATIENCE)
        assert hold.lost_reason == "broken"
        assert other.acquire("a", timeout=PATIENCE).fence > hold.fence

    def test_break_waits_for_the_holder(self) -> None:
        """After a break the name is not granted while the holder may still believe (B2, M1)."""
        self._needs_operators()
        one, other = self.connect(), self.connect()
        hold = one.acquire("a", ttl=30, renew_every=12)
        other.break_hold("a", reason="stuck")
        assert hold.remaining() > 0
        assert other.try_acquire("a") is None

    def test_break_now(self) -> None:
        """`now` frees the name at once; the old holder learns of it, and its fence is older."""
        self._needs_operators()
        one, other = self.connect(), self.connect()
        hold = one.acquire("a", ttl=max(self.ttl, 5.0))
        other.break_hold("a", reason="stuck", now=True)
        newer = other.acquire("a", timeout=PATIENCE)
        assert newer.fence > hold.fence
        assert hold.wait_lost(PATIENCE)
        assert hold.lost_reason == "broken"
        hold.release()
        newer.ensure()

    def test_break_is_conditional(self) -> None:
        """A break with the fence of an earlier hold does not hit a later one (B1)."""
        self._needs_operators()
        latches = self.connect()
        first = latches.acquire("a")
        first.release()
        second = latches.acquire("a")
        with pytest.raises(UsageError):
            latches.break_hold("a", reason="stuck", fence=first.fence)
        second.ensure()
        second.release()
        assert latches.break_hold("a", reason="stuck") is None

    def test_purge_keeps_fences_rising(self) -> None:
        """A purged name starts above every fence it had, and held names stay (M2)."""
        self._needs_operators()
        latches = self.connect()
        first = latches.acquire("a")
        first.release()
        kept = latches.acquire("b")
        # A store that makes fences of its clock keeps a record until that has gone on.
        self._until(lambda: latches.purge(older_than=0) >= 1)
        assert latches.inspect("a") is None
        assert latches.acquire("a").fence > first.fence
        kept.ensure()

    # -- the protocol of the backend itself --------------------------------------------------------

    def test_same_nonce_same_grant(self) -> None:
        """A resend of one request finds the grant that the first one made, with the same fence (R5)."""
        with self._raw() as backend:
            claim = self._claim("a")
            first = backend.acquire(claim, self._soon())
            second = backend.acquire(claim, self._soon())
            assert isinstance(first, Granted)
            assert isinstance(second, Granted)
            assert first.grant.fence == second.grant.fence

    def test_another_nonce_is_contention(self) -> None:
        """Another request of the same instance is another contender."""
        with self._raw() as backend:
            assert isinstance(backend.acquire(self._claim("a"), self._soon()), Granted)
            assert isinstance(backend.acquire(self._claim("a"), self._soon()), Held)

    def test_settle(self) -> None:
        """Settling a nonce frees what it got, and leaves what others got alone (R5)."""
        with self._raw() as backend:
            claim = self._claim("a")
            granted = backend.acquire(claim, self._soon())
            assert isinstance(granted, Granted)
            backend.settle("a", Orphan("0" * 32, None, 0.0), self._soon())
            assert backend.renew(granted.grant, REAL.now(), self._soon()) is None
            assert backend.settle("a", Orphan(claim.nonce, None, claim.sent), self._soon())
            assert backend.renew(granted.grant, REAL.now(), self._soon()) is not None
            assert isinstance(backend.acquire(self._claim("a"), self._soon()), Granted)

    def test_a_late_release_does_nothing(self) -> None:
        """A release that arrives after the next grant leaves that one alone (R6)."""
        with self._raw() as backend:
            first = self._granted(backend, "a")
            backend.release(first, self._soon())
            second = self._granted(backend, "a")
            backend.release(first, self._soon())
            assert backend.renew(second, REAL.now(), self._soon()) is None

    def test_renewal_never_resurrects(self) -> None:
        """A renewal of a grant that is gone says so, and changes nothing (R1)."""
        with self._raw() as backend:
            first = self._granted(backend, "a")
            backend.release(first, self._soon())
            gone = backend.renew(first, REAL.now(), self._soon())
            assert gone is not None
            assert isinstance(backend.acquire(self._claim("a"), self._soon()), Granted)

    # -- what the tests are made of -------------------------------------------------------------------

    def _needs_operators(self) -> None:
        if not self.operators:
            pytest.skip("this store has no operator's verbs")

    @contextlib.contextmanager
    def _raw(self) -> Iterator[Backend]:
        backend = self.new_backend()
        backend.open(REAL, lambda name: None, create=True, until=self._soon())
        try:
            yield backend
        finally:
            backend.close()

    def _soon(self) -> float:
        return REAL.now() + PATIENCE

    def _claim(self, name: str) -> Claim:
        now = REAL.now()
        holder = Instance("2" * 32, "host-2", 8, 0.0)
        return Claim(name, REAL.nonce(), max(self.ttl, 15.0), now, now, REAL.wall(), holder, False, None)

    def _granted(self, backend: Backend, name: str) -> Grant:
        reply = backend.acquire(self._claim(name), self._soon())
        assert isinstance(reply, Granted)
        return reply.grant

    def _until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "the condition did not come true in time"
            time.sleep(0.005)

    def _all(self, *works: Callable[[], None]) -> None:
        failures: list[BaseException] = []

        def run(work: Callable[[], None]) -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE * 3)
        assert not any(thread.is_alive() for thread in threads)
        if failures:
            raise failures[0]
