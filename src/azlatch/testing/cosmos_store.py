"""The Cosmos DB account of a simulated world: the real backend, the lab's engine, a way that loses and delays.

Here is what happens to an account beside azlatch: replicas and regions that lag, failovers that lose what was
acknowledged, items deleted by hand. The last two keep some seconds' distance from a grant, for fences have one
second's resolution where the record is gone (F2). Whoever had something of a failover's losses may go on to
believe for as long as its deadline says: of those the world says so to the referee.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from azlatch.backends.cosmos import FRESH, CosmosBackend, least_fence
from azlatch.backends.cosmos_document import record_of
from azlatch.backends.protocol import Broken, Granted, Held
from azlatch.core.record import Claim, Grant, Record
from azlatch.lab.cosmos.wire import Reply, Request
from azlatch.testing.simulated_cosmos import Carry, SimulatedCosmos, SimulatedCosmosService
from azlatch.testing.virtual import Process, World
from azlatch.testing.watched import Stored, Watcher
from azlatch.testing.way import Faults, Way

#: Seconds that a name is left alone after a grant (F2), and for how many of them an accident waits.
_QUIET, _PATIENCE = 4.0, 60
#: Seconds in which the janitor finds what a claim has left behind; it pauses for 5 s at most.
_SETTLED_IN = 10.0
_REGIONS = ("East US", "West US")
_LEVELS = ("Session", "Session", "BoundedStaleness", "ConsistentPrefix", "Eventual")


class CosmosStore:
    """An account as a watched store; see `azlatch.testing.watched.WatchedStore`."""

    accidents = ("freeze", "delete", "failover", "failover")

    def __init__(self, world: World, faults: Faults) -> None:
        self.world = world
        self.faults = faults
        self.down_until = 0.0
        self.watcher = Watcher()
        self._by_region = world.rng.random() < 0.7
        two = world.rng.random() < 0.6
        self.cosmos = SimulatedCosmos(
            lambda: world.time,
            regions=_REGIONS if two else _REGIONS[:1],
            consistency=world.rng.choice(_LEVELS),
            seed=world.rng.randrange(2**32),
        )
        self.cosmos.on_request = self._saw
        self.processes: dict[str, Process] = {}
        self._seen: dict[str, Record] = {}
        self._changed_at: dict[str, float] = {}
        self._granted_at: dict[str, float] = {}
        #: Nonces of which a failover has lost something.
        self._undone: set[str] = set()
        #: Of each nonce, a grant whose fence is too old to be told.
        self._untold: dict[str, Record] = {}
        self._breaks_now = False
        self._mended = False
        self._lags(faults.lag)

    def _lags(self, seconds: float) -> None:
        """Late replicas in a region, and the way from one region to another."""
        account, rng = self.cosmos.engine.account, self.world.rng
        account.at(self.cosmos.time)
        for source in account.regions:
            for target in account.regions:
                # Within a region a janitor has to see in time what it looks for.
                most = seconds / 6 if source == target else seconds
                account.admin.lag(source, target, most * rng.random())

    # -- as a watched store --------------------------------------------------------------------------

    @property
    def longest(self) -> float:
        return max((record.ttl for record in self._seen.values()), default=0.0)

    def join(self, process: Process, *, look: float, namespaces: tuple[str, str]) -> tuple[_Backend, Way]:
        way = Way(self, process, networked=True)
        self.processes[process.name] = process
        backend = _Backend.from_service(
            lambda env: SimulatedCosmosService(self.cosmos, carry, by_region=self._by_region)
        )
        backend.told = self._told
        carry = self._carry(way, backend)
        return backend, way

    def _carry(self, way: Way, backend: _Backend) -> Carry:
        def carry(until: float, at_store: Callable[[], Reply], reads: bool, acquires: bool) -> Reply:
            breaks_now = backend.breaks_now

            def there() -> Reply:
                self._breaks_now = breaks_now
                try:
                    return at_store()
                finally:
                    self._breaks_now = False

            reply = way.call(until, there, reads=reads, acquires=acquires)
            told = reply.status < 300 or reply.status in (404, 409, 412)
            if told and reply.headers.get("x-ms-substatus", "0") == "0":
                way.answers += 1
            else:
                way.failures += 1
            return reply

        return carry

    def present(self, name: str) -> Stored | None:
        record = self._seen.get(name)
        return _stored(record) if record is not None and record.state == "held" else None

    def held_since(self, name: str) -> float:
        return self._changed_at[name]

    def lives(self, stored: Stored) -> bool:
        return self.processes[stored.member].alive and stored.nonce not in self._undone

    def excuses(self, stored: Stored, since: float) -> bool:
        return False

    def lost(self, process: Process, *, leaves_heir: bool = False) -> None:
        """Nothing here knows of processes."""

    def befall(self, kind: str, process: Process, name: str, seconds: float) -> None:
        if kind == "delete":
            self._when_quiet((name,), lambda: self._delete(name), _PATIENCE)
        elif kind == "failover" and len(self.cosmos.engine.account.regions) > 1:
            self._when_quiet(tuple(self._seen), self._fail_over, _PATIENCE, held=True)

    def mend(self) -> None:
        """Nothing goes on by itself; lag is over."""
        self._mended = True
        self._lags(0.0)

    # -- what is seen ----------------------------------------------------------------------------------

    def _saw(self, request: Request, reply: Reply) -> None:
        if request.method != "GET" and reply.status < 300:
            self._compare()

    def _compare(self) -> None:
        """Finds what a write has changed, and tells the watcher."""
        found: dict[str, Record] = {}
        for document in self.cosmos.items().values():
            record = record_of(document)
            assert record is not None, document
            found[record.name] = record
        for name in {*found, *self._seen}:
            before, after = self._seen.get(name), found.get(name)
            if before != after:
                self._changed(name, before, after)
        self._seen = found

    def _changed(self, name: str, before: Record | None, after: Record | None) -> None:
        said = (
            f"{after.state} {after.fence} v{after.version} {after.nonce[:4]} {after.holder.host}"
            if after
            else "-"
        )
        self.world.trace.append((self.world.time, "store", "", f"{name} {said}"))
        is_new = after is not None and (before is None or before.nonce != after.nonce)
        if (
            after is None
            or is_new
            or before is None
            or (before.state, before.beat) != (after.state, after.beat)
        ):
            self._changed_at[name] = self.world.time
        if after is not None and after.state == "held":
            if is_new:
                self._granted_at[name] = self.world.time
                self.watcher.saw_hold(_stored(after), after.ttl * 1.3 + _SETTLED_IN)
            if is_new or (before is not None and before.fence != after.fence):
                self._saw_fence(after)
        elif is_new and before is not None and before.state == "held":
            self.watcher.saw_break(_stored(before), self._breaks_now)

    def _saw_fence(self, record: Record) -> None:
        """A fence that is not young enough counts once anyone is told of it: before that it is raised."""
        since = self.cosmos.time - (self.world.time - self._granted_at[record.name])
        if record.fence >= least_fence(int(since) - FRESH):
            self.watcher.saw_grant(_stored(record))
        else:
            self._untold[record.nonce] = record

    def _told(self, grant: Grant) -> None:
        record = self._untold.pop(grant.nonce, None)
        if record is not None and record.fence == grant.fence:
            self.watcher.saw_grant(_stored(record))

    # -- what happens to it ----------------------------------------------------------------------------

    def _when_quiet(
        self, names: tuple[str, ...], act: Callable[[], None], tries: int, *, held: bool = False
    ) -> None:
        """Does it once no grant is younger than some seconds, and nobody has the names unless that may be."""
        if self._mended:
            return
        young = any(self.world.time < self._granted_at.get(name, 0.0) + _QUIET for name in names)
        taken = not held and any(self._seen[name].state != "free" for name in names if name in self._seen)
        if not young and not taken:
            act()
        elif tries:
            again = functools.partial(self._when_quiet, names, act, tries - 1, held=held)
            self.world.after(1.0, again)

    def _delete(self, name: str) -> None:
        record = self._seen.get(name)
        if record is not None:
            self.cosmos.engine.now = self.cosmos.time
            reply = self.cosmos.engine.delete(name, name)
            assert reply.status == 204, reply
            self._compare()

    def _fail_over(self) -> None:
        """The write region is lost, and with it what the other one has not seen."""
        account = self.cosmos.engine.account
        account.at(self.cosmos.time)
        old = account.topology.write.name
        new = next(each for each in _REGIONS if each != old)
        if not account.topology.region(new).online:
            return
        account.admin.offline(old)
        lost = account.admin.failover(new)
        self.world.trace.append((self.world.time, "store", "", f"failover to {new}, {lost} writes lost"))
        found = {record.name: record for each in self.cosmos.items().values() if (record := record_of(each))}
        for name in {*found, *self._seen}:
            before, after = self._seen.get(name), found.get(name)
            if before != after:
                for record in (before, after):
                    if record is not None:
                        self._undone |= {record.nonce, record.previous} - {""}
                        self.watcher.saw_undone(name, record.nonce)
                        self.watcher.saw_undone(name, record.previous)
                self._changed_at[name] = self.world.time
        self._seen = found
        self.world.after(5.0, lambda: account.admin.online(old))


class _Backend(CosmosBackend):
    """The real one; it only says what it tells of grants, and which of its breaks give up M1."""

    breaks_now = False
    told: Callable[[Grant], None]

    def acquire(self, claim: Claim, until: float) -> Granted | Held:
        reply = super().acquire(claim, until)
        if isinstance(reply, Granted):
            self.told(reply.grant)
        return reply

    def break_hold(self, *arguments: Any, now: bool, **named: Any) -> Broken | None:
        self.breaks_now = now
        try:
            return super().break_hold(*arguments, now=now, **named)
        finally:
            self.breaks_now = False


def _stored(record: Record) -> Stored:
    return Stored(record.name, record.nonce, record.fence, record.ttl, record.holder.host)
