"""A conditional-write store in virtual time that loses, delays and reorders what goes through it.

It runs the record protocol of `azlatch.core.record`, as the real stores do, over a table that lives in the
simulated world. Two profiles:

* ``embedded`` behaves as the SQLite store: every call is one transaction, holders on the same machine can
  be proved dead, clocks can be compared unless a process lives in a time namespace of its own.
* ``remote`` behaves as a store behind a network: a read and a conditional write are two calls, reads may be
  stale, and a write may land after its caller has given up. Only watching tells that a holder is gone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from azlatch.backends.protocol import Broken, Gone, Granted, Held, View
from azlatch.core import record as rules
from azlatch.core.acquisition import Orphan
from azlatch.core.env import Env
from azlatch.core.record import Claim, Evidence, Grant, Record
from azlatch.core.terms import Limits
from azlatch.errors import UsageError
from azlatch.testing.watched import Profile, Stored, Watcher
from azlatch.testing.way import Faults, Way

if TYPE_CHECKING:
    from azlatch.testing.virtual import Process, World


@dataclass
class Member:
    """What the simulated machine knows of a process that uses the store."""

    process: Process
    boot: str
    time_namespace: str
    pid_namespace: str
    has_file: bool = True
    alive: bool = True
    has_heir: bool = False


@dataclass
class SimulatedStore:
    """The table, and everything that can happen to it."""

    world: World
    profile: Profile
    faults: Faults = field(default_factory=Faults)
    records: dict[str, Record] = field(default_factory=dict)
    history: dict[str, list[tuple[float, Record | None]]] = field(default_factory=dict)
    backends: list[SimulatedBackend] = field(default_factory=list)
    members: dict[str, Member] = field(default_factory=dict)
    waiters: dict[str, list[SimulatedBackend]] = field(default_factory=dict)
    boot: str = "boot-1"
    epoch: int = 0
    epoch_boot: str = ""
    floor: int = 0
    down_until: float = 0.0
    #: Whether wall clocks start at nothing, as on a machine whose battery is empty.
    clock_lost: bool = False
    #: Set by mutants: a store that does what the protocol forbids.
    forgets_versions: bool = False
    deletes_on_release: bool = False
    watcher: Watcher = field(default_factory=Watcher)

    def write(self, old: Record | None, new: Record) -> bool:
        """The compare-and-swap: on what was read, as an entity tag would have it, or on there being nothing."""
        if not self.forgets_versions and self.records.get(new.name) != old:
            return False
        self.put(new.name, new)
        granted = new.state == "held" and (old is None or old.nonce != new.nonce)
        self.world.trace.append(
            (
                self.world.time,
                "store",
                "",
                f"{new.name} {new.state} {new.fence} v{new.version} {new.nonce[:4]} {new.holder.host}",
            )
        )
        if granted:
            stored = _stored(new)
            self.watcher.saw_hold(stored, new.ttl * 1.3 + 10)
            self.watcher.saw_grant(stored)
        if new.state == "free":
            if self.deletes_on_release:
                self.put(new.name, None)
            self.wake(new.name)
        return True

    def put(self, name: str, record: Record | None) -> None:
        if record is None:
            self.records.pop(name, None)
        else:
            self.records[name] = record
        self.history.setdefault(name, []).append((self.world.time, record))

    def read(self, name: str, lag: float) -> Record | None:
        """The record as it was up to `lag` seconds ago."""
        if lag <= 0:
            return self.records.get(name)
        then = self.world.time - lag
        seen: Record | None = None
        for at, record in reversed(self.history.get(name, [])):
            seen = record
            if at <= then:
                return seen
        return None if self.history.get(name) else self.records.get(name)

    def wake(self, name: str) -> None:
        for backend in self.waiters.pop(name, []):
            if self.world.rng.random() >= self.faults.lost_wake:
                self.world.after(
                    self.faults.latency * self.world.rng.random(), functools.partial(backend.wake_up, name)
                )

    # -- as a watched store --------------------------------------------------------------------------

    @property
    def accidents(self) -> tuple[str, ...]:
        return ("freeze",) if self.profile == "remote" else ("heir", "no-file", "power")

    @property
    def longest(self) -> float:
        return max((record.ttl for record in self.records.values()), default=0.0)

    def join(
        self, process: Process, *, look: float, namespaces: tuple[str, str]
    ) -> tuple[SimulatedBackend, Way]:
        backend = SimulatedBackend(self, process, look=look, namespaces=namespaces)
        return backend, backend.way

    def present(self, name: str) -> Stored | None:
        record = self.records.get(name)
        return _stored(record) if record is not None and record.state == "held" else None

    def held_since(self, name: str) -> float:
        return next(at for at, each in reversed(self.history[name]) if each is not None)

    def lives(self, stored: Stored) -> bool:
        member = self.members.get(stored.member)
        return member is not None and member.alive

    def excuses(self, stored: Stored, since: float) -> bool:
        return False

    def lost(self, process: Process, *, leaves_heir: bool = False) -> None:
        for member in self._members(process):
            member.alive = False
            member.has_heir = member.has_heir or leaves_heir

    def befall(self, kind: str, process: Process, name: str, seconds: float) -> None:
        if kind == "no-file":
            for member in self._members(process):
                member.has_file = False
        elif kind == "power":
            self.lose_power(seconds)

    def mend(self) -> None:
        """Nothing goes on by itself."""

    def _members(self, process: Process) -> list[Member]:
        return [member for member in self.members.values() if member.process is process]

    # -- its machine -----------------------------------------------------------------------------------

    def lose_power(self, seconds: float) -> None:
        """Forgets the commits of the last seconds, and boots again: nobody of before lives."""
        then = self.world.time - seconds
        for name, versions in self.history.items():
            kept = [(at, record) for at, record in versions if at <= then]
            last = kept[-1][1] if kept else None
            self.history[name] = kept
            if last is None:
                self.records.pop(name, None)
            else:
                self.records[name] = last
        self.boot += "'"
        self.clock_lost = self.world.rng.random() < 0.5
        for member in self.members.values():
            member.alive = False


class SimulatedBackend:
    """One process's way to the store; keeps the contract of `azlatch.backends.protocol.Backend`."""

    kind = "simulated"
    limits = Limits(min_ttl=0.5, max_ttl=86_400.0)

    def __init__(
        self,
        store: SimulatedStore,
        process: Process,
        *,
        look: float,
        namespaces: tuple[str, str] = ("shared", "pids-1"),
    ) -> None:
        self.namespaces = namespaces
        self.store = store
        self.process = process
        self.look = look
        self.way = Way(store, process, networked=store.profile == "remote")
        self._wake: Callable[[str], None] = lambda name: None

    def open(self, env: Env, wake: Callable[[str], None], *, create: bool, until: float) -> None:
        store = self.store
        self._wake = wake
        self.member = env.nonce()
        cold = not any(member.alive for member in store.members.values())
        store.epoch = rules.next_epoch(store.epoch, store.epoch_boot, store.boot, cold, self._clock_ms())
        store.epoch_boot = store.boot
        self.epoch = store.epoch
        store.backends.append(self)
        store.members[self.member] = Member(self.process, store.boot, *self.namespaces)

    def _clock_ms(self) -> int:
        """Wall time, wherever that clock works: after a power loss it may not."""
        return 0 if self.store.clock_lost else int(self.process.wall() * 1_000)

    def close(self) -> None:
        store = self.store
        if not any(r.member == self.member and r.state != "free" for r in store.records.values()):
            store.members[self.member].has_file = False
        store.members[self.member].alive = False

    def wake_up(self, name: str) -> None:
        if self.store.members[self.member].alive:
            self._wake(name)

    # -- the latch ---------------------------------------------------------------------------------

    def acquire(self, claim: Claim, until: float) -> Granted | Held:
        if self.store.profile == "embedded":
            at_store = functools.partial(self._claim_present, claim)
            return self.way.call(until, at_store, acquires=True)
        record = self._read(claim.name, until)
        held = self._decide(claim, record)
        if held is not None:
            return self._contended(claim, held)
        basis = record.version if record is not None else 0
        return self.way.call(until, lambda: self._claim(claim, record), basis=basis, acquires=True)

    def _decide(self, claim: Claim, record: Record | None) -> Held | None:
        """Held if the record, as read, cannot be taken; None where a write is worth it."""
        if record is None or record.state == "free" or rules.is_own(record, claim.nonce):
            return None
        if rules.takeover(record, claim, self._evidence(record, claim.now)) is not None:
            return None
        return Held(record.holder, record.triple, record.version, self.look)

    def _claim_present(self, claim: Claim) -> Granted | Held:
        return self._claim(claim, self.store.records.get(claim.name))

    def _claim(self, claim: Claim, record: Record | None) -> Granted | Held:
        """At the store: the claim against what was read."""
        if record is not None and rules.is_own(record, claim.nonce):
            return Granted(rules_grant(record), None)
        held = self._decide(claim, record)
        if held is not None:
            return self._contended(claim, held)
        floor = max(rules.epoch_floor(self.epoch), self.store.floor if record is None else 0)
        member = self.store.members[self.member]
        boot, namespace = (member.boot, member.time_namespace) if self.store.profile == "embedded" else ("", "")
        new = rules.granted(record, claim, floor, boot, namespace, self.member)
        if not self.store.write(record, new):
            present = self.store.records.get(claim.name)
            if present is not None and rules.is_own(present, claim.nonce):
                return Granted(rules_grant(present), None)
            triple = present.triple if present is not None else None
            version = present.version if present is not None else 0
            return self._contended(claim, Held(None, triple, version, self.look))
        self.way.answers += 1
        return Granted(rules_grant(new), record.fence if record is not None else None)

    def _contended(self, claim: Claim, held: Held) -> Held:
        self.way.answers += 1
        if claim.queue and self not in self.store.waiters.setdefault(claim.name, []):
            self.store.waiters[claim.name].append(self)
        return held

    def renew(self, grant: Grant, sent: float, until: float) -> Gone | None:
        return self._change(grant, until, lambda record: rules.renewed(record, grant.nonce, sent))

    def note(self, grant: Grant, text: str, until: float) -> Gone | None:
        return self._change(grant, until, lambda record: rules.noted(record, grant.nonce, text))

    def _change(self, grant: Grant, until: float, rule: Callable[[Record], Record | None]) -> Gone | None:
        def at_store() -> Gone | None:
            record = self.store.records.get(grant.name)
            new = rule(record) if record is not None else None
            if new is None:
                return Gone(rules.why_gone(record, grant.nonce))
            self.store.write(record, new)
            return None

        return self.way.call(until, at_store)

    def release(self, grant: Grant, until: float) -> None:
        self.way.call(until, lambda: self._free(grant.name, grant.nonce))

    def settle(self, name: str, orphan: Orphan, until: float) -> bool:
        def at_store() -> bool:
            record = self.store.records.get(name)
            if record is not None and rules.is_own(record, orphan.nonce):
                self._free(name, orphan.nonce)
                return True
            # A local transaction is over when its call has returned; a remote write may be on its way.
            return self.store.profile == "embedded" or rules.settled(record, orphan.basis)

        return self.way.call(until, at_store)

    def _free(self, name: str, nonce: str) -> None:
        record = self.store.records.get(name)
        new = rules.released(record, nonce) if record is not None else None
        if new is not None:
            self.store.write(record, new)

    def leave(self, name: str, until: float) -> None:
        line = self.store.waiters.get(name, [])
        if self in line:
            line.remove(self)

    # -- operators ---------------------------------------------------------------------------------

    def read(self, name: str, until: float) -> View | None:
        record = self.way.call(until, lambda: self.store.records.get(name))
        return _view(record) if record is not None else None

    def list(self, until: float) -> Iterator[View]:
        return iter([_view(record) for _, record in sorted(self.store.records.items())])

    def break_hold(
        self, name: str, fence: int | None, by: str, reason: str, *, now: bool, until: float
    ) -> Broken | None:
        def at_store() -> Broken | None:
            record = self.store.records.get(name)
            if record is None or record.state == "free":
                return None
            if record.fence != fence:
                raise UsageError("another fence")
            clock = self.process.now()
            new = rules.broken(record, nonce=self.process.nonce(), by=by, reason=reason, sent=clock, now=now)
            member = self.store.members[self.member]
            if self.store.profile == "embedded":
                new = new._replace(boot=member.boot, time_namespace=member.time_namespace)
            self.store.write(record, new)
            self.store.watcher.saw_break(_stored(record), now)
            return Broken(record.fence, 0.0 if now else record.ttl)

        return self.way.call(until, at_store)

    def purge(self, older_than: float, until: float) -> int:
        def at_store() -> int:
            free = [record for record in self.store.records.values() if record.state == "free"]
            for record in free:
                self.store.floor = max(self.store.floor, record.fence)
                self.store.put(record.name, None)
            return len(free)

        return self.way.call(until, at_store)

    def forked(self) -> None:
        raise NotImplementedError("forks are shown with real processes")

    # -- evidence ----------------------------------------------------------------------------------

    def _evidence(self, record: Record, now: float) -> Evidence:
        if self.store.profile == "remote":
            return rules.NO_EVIDENCE
        member = self.store.members[self.member]
        return rules.evidence_of(record, self.probe(record.member), member.boot, member.time_namespace, now)

    def probe(self, member_id: str) -> rules.Life:
        """What the holder's liveness lock says."""
        member = self.store.members.get(member_id)
        if member is None or not member.has_file:
            return "unknown"
        return "alive" if member.alive or member.has_heir else "dead"

    def _read(self, name: str, until: float) -> Record | None:
        lag = self.store.faults.lag * self.store.world.rng.random()
        return self.way.call(until, lambda: self.store.read(name, lag), reads=True)


def _stored(record: Record) -> Stored:
    return Stored(record.name, record.nonce, record.fence, record.ttl, record.member)


def rules_grant(record: Record) -> Grant:
    return Grant(record.name, record.nonce, record.fence, record.ttl, record.version)


def _view(record: Record) -> View:
    return View(
        record.name,
        record.state,
        record.fence,
        record.holder,
        record.ttl,
        record.since,
        None,
        None,
        record.note,
        None,
        record.breaker,
        record.reason,
    )
