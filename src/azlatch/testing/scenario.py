"""One simulated world: its plan, its cast, what happens to it, and how it ends.

All of it comes from the seed: how many processes there are, sync or async, on which kind of store, with which
faults, and what each of them does next.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from azlatch.core.acquisition import LEAST_CALL, TRY_LIMIT
from azlatch.core.hold import State
from azlatch.core.instance import Instance
from azlatch.core.terms import margin_of
from azlatch.errors import (
    AcquireTimeout,
    BackendError,
    HeartUnavailable,
    HoldLost,
    OutcomeUnknown,
    UsageError,
)
from azlatch.runtime.async_latches import AsyncLatches
from azlatch.runtime.connection import Connection
from azlatch.runtime.latches import Latches
from azlatch.testing.cosmos_store import CosmosStore
from azlatch.testing.lease_store import LeaseStore
from azlatch.testing.referee import SLACK, Referee
from azlatch.testing.simulated_store import SimulatedStore
from azlatch.testing.virtual import Process, World
from azlatch.testing.watched import Profile, WatchedStore
from azlatch.testing.way import Faults, Way

#: What a world can be made harsher in, where most worlds would not need a rule.
Stress = Literal[
    "late-replies",
    "clocks",
    "stops",
    "freezes",
    "lost-writes",
    "lost-requests",
    "operators",
    "purges",
    "haste",
    "half-grants",
    "frozen-calls",
    "cancels",
]


@dataclass
class Plan:
    """What a world is made of; all of it comes from the seed."""

    profile: Profile
    ttl: float
    processes: int
    names: list[str]
    rounds: int
    faults: Faults
    look: float
    kinds: list[str]
    rates: list[float]
    private_clocks: list[bool]
    #: The share of holds that are renewed, and how many times a process is stopped for three ttls.
    heartbeats: float = 0.85
    stops: int = 0
    operators: int = 0
    #: How long an operator waits between two acts at the most, seconds; 0.0 for two ttls.
    operators_pause: float = 0.0
    #: The share of turns of an asyncio process that are cancelled at some step.
    cancels: float = 0.4
    #: How long holders work and pause, as a share of what they usually do.
    pace: float = 1.0
    #: How far from the store each process is, as a share of the latency of the world; all the same if empty.
    distances: list[float] = field(default_factory=list)
    fenced: bool = True
    #: Whether the service renews an expired lease under any id, as Azurite does.
    renews_with_any_id: bool = False

    @property
    def one_machine(self) -> bool:
        """Whether its processes share a machine, with one clock."""
        return self.profile == "embedded"

    def stress(self, kind: Stress) -> None:
        """Makes the world harsher where one rule matters; the rest of the plan stays as the seed has it."""
        if kind == "late-replies":
            self.faults = Faults(latency=self.ttl / 4)
            self.heartbeats = 0.3
            if self.profile == "lease":
                # A grant takes two requests; who waits is nearer than who holds.
                self.ttl, self.names, self.heartbeats, self.fenced = 60.0, ["a"], 0.0, True
                self.faults = Faults(latency=self.ttl / 12)
                self.rates = [0.91] * self.processes
                self.distances = [0.01 if number % 2 else 1.0 for number in range(self.processes)]
        elif kind == "clocks":
            slow, fast = (0.91, 1.0) if self.profile == "lease" else (1.0, 1.1)
            self.profile = self.profile if self.profile in ("lease", "item") else "remote"
            self.rates = [fast if number % 2 else slow for number in range(self.processes)]
            self.private_clocks = [False] * self.processes
            self.faults = Faults(latency=0.001)
            self.heartbeats = 0.3
        elif kind == "stops":
            self.names = ["a"]
            self.stops = 8
        elif kind == "freezes":
            self.profile = self.profile if self.profile in ("lease", "item") else "remote"
            self.private_clocks = [False] * self.processes
            self.names = ["a"]
            self.stops = 8
            self.heartbeats = 0.2 if self.profile == "lease" else self.heartbeats
        elif kind == "operators":
            self.operators = 8
        elif kind == "purges":
            self.names = ["a"]
            self.operators = 500
            self.operators_pause = 0.4
            self.faults = Faults(latency=0.01)
        elif kind == "frozen-calls":
            self.profile, self.names, self.stops, self.rounds = "remote", ["a"], 16, 10
            self.private_clocks = [False] * self.processes
            self.faults = Faults(latency=self.ttl / 8)
        elif kind == "cancels":
            self.kinds = ["async"] * self.processes
            self.faults = Faults(latency=self.ttl / 20, only_acquires=True)
            self.cancels, self.rounds = 1.0, self.rounds * 4
        elif kind == "haste":
            self.names, self.pace, self.rounds, self.look = ["a"], 0.01, 20, 0.1
            self.faults = Faults(slow=0.1, latency=0.02)
        elif kind == "half-grants":
            self.ttl, self.names, self.pace, self.rounds = 60.0, ["a"], 0.05, 6
            self.faults = Faults(refuse=0.3, land_late=0.3, lateness=(1.0, 1.05), latency=0.5)
        elif kind == "lost-requests":
            self.faults = Faults(drop_request=0.5, latency=self.ttl / 50)
        elif kind == "lost-writes":
            late = 0.0 if self.profile == "embedded" else 0.3
            self.faults = Faults(drop_reply=0.3, land_late=late, latency=self.ttl / 50, only_acquires=True)


#: How often each kind of store is drawn.
PROFILES: tuple[Profile, ...] = ("embedded", "remote", "lease", "item")
#: Ttls of the holds of a world, seconds: a lease takes 15 at the least, and the database tells whole seconds.
_TTLS: dict[Profile, list[float]] = {
    "embedded": [1.0, 3.0, 10.0, 30.0],
    "remote": [1.0, 3.0, 10.0, 30.0],
    "lease": [15.0, 30.0, 60.0],
    "item": [3.0, 10.0, 30.0],
}


def plan_of(rng: Random, profiles: tuple[Profile, ...] = PROFILES) -> Plan:
    profile = rng.choice(profiles)
    ttl = rng.choice(_TTLS[profile])
    troubled = rng.random() < 0.75
    share = rng.choice([0.03, 0.1, 0.25]) if troubled else 0.0
    faults = Faults(
        drop_request=share * rng.random(),
        drop_reply=share * rng.random(),
        refuse=share * rng.random(),
        land_late=share * rng.random(),
        slow=share * rng.random(),
        throttle=share * rng.random() if profile in ("lease", "item") else 0.0,
        lost_wake=rng.choice([0.0, 0.3]),
        latency=rng.choice([0.001, 0.02, ttl / 20, ttl / 9]),
        lag=rng.choice([0.0, 0.0, ttl / 4, ttl * 1.5]) if profile in ("remote", "item") else 0.0,
        only_acquires=rng.random() < 0.3,
    )
    processes = rng.randint(2, 4)
    return Plan(
        profile=profile,
        ttl=ttl,
        processes=processes,
        names=["a", "b"][: rng.randint(1, 2)],
        rounds=rng.randint(2, 4),
        faults=faults,
        # Where the backend says when a contender looks: every two seconds in the end.
        look=2.0 if profile in ("lease", "item") else rng.choice([0.1, 0.3, 1.0]),
        operators=rng.choice([0, 0, 2, 6]),
        kinds=[rng.choice(["sync", "sync", "async"]) for _ in range(processes)],
        rates=[rng.choice(_RATES[profile]) for _ in range(processes)],
        private_clocks=[profile == "embedded" and rng.random() < 0.2 for _ in range(processes)],
        fenced=profile != "lease" or rng.random() < 0.8,
        renews_with_any_id=profile == "lease" and rng.random() < 0.2,
    )


#: Two machines' clocks differ by up to 10 %; processes of one machine share a clock. Behind a lease the other
#: clock is the service's, which is true time.
_RATES: dict[Profile, list[float]] = {
    "embedded": [1.0],
    "remote": [1.0, 1.05, 1.1],
    "lease": [0.91, 1.0, 1.1],
    "item": [1.0, 1.05, 1.1],
}


class Scenario:
    """One world, from its plan to its end."""

    def __init__(
        self, seed: int, stress: Stress | None = None, profiles: tuple[Profile, ...] = PROFILES
    ) -> None:
        self.world = World(seed)
        self.rng = self.world.rng
        plan = self.plan = plan_of(self.rng, profiles)
        if stress is not None:
            plan.stress(stress)
        self.store: WatchedStore
        if plan.profile == "lease":
            self.store = LeaseStore(self.world, plan.faults, renews_with_any_id=plan.renews_with_any_id)
        elif plan.profile == "item":
            self.store = CosmosStore(self.world, plan.faults)
        else:
            self.store = SimulatedStore(self.world, plan.profile, plan.faults)
        self.referee = Referee(self.world, self.store)
        self.world.on_step = self.referee.check
        self.processes: list[Process] = []
        self.latches: dict[str, Latches | AsyncLatches] = {}
        self.ways: dict[str, Way] = {}
        self.disturbed: dict[str, float] = {}
        self._through: set[str] = set()

    # -- the cast ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs it to the end; raises Violation."""
        plan, world = self.plan, self.world
        for number in range(plan.processes):
            self._add(f"p{number}", plan.kinds[number], plan.rates[number], plan.private_clocks[number])
            if plan.distances:
                self.ways[f"p{number}"].distance = plan.distances[number]
        if plan.operators:
            self._add_operator()
        for _ in range(self.rng.randint(0, 4)):
            self._schedule_fault()
        for number in range(plan.stops):
            process = self.rng.choice(self.processes)
            kind = "freeze" if "freeze" in self.store.accidents and self.rng.random() < 0.5 else "pause"
            stop = functools.partial(self._fault, kind, process, plan.ttl * 3)
            world.after((number + self.rng.random()) * plan.ttl * 2, stop)
        end = world.time + plan.rounds * (plan.ttl * 6 + 40)
        world.run(until=end, max_steps=60_000)
        self._epilogue()

    def _add(
        self, name: str, kind: str, rate: float, private_clock: bool, rounds: int | None = None
    ) -> Process:
        # Clocks of other machines and time namespaces have another zero.
        elsewhere = private_clock or not self.plan.one_machine
        process = self.world.process(name, rate=rate, offset=self.rng.choice([-5_000.0, 5_000.0]) * elsewhere)
        time_namespace = f"own-{name}" if private_clock else "shared"
        namespaces = (time_namespace, self.rng.choice(["pids-1", "pids-2"]))
        connection = self._connect(process, namespaces)
        self.processes.append(process)
        rounds = self.plan.rounds if rounds is None else rounds
        if kind == "sync":
            latches = Latches(connection)
            self.latches[name] = latches
            for thread in range(self.rng.randint(1, 2)):
                process.start(lambda: self._sync_life(process, latches, rounds), f"{name}.{thread}")
        else:
            awaited = AsyncLatches(connection)
            self.latches[name] = awaited
            process.start(lambda: process.run_async(self._async_main(process, awaited, rounds)), f"{name}.loop")
        return process

    def _connect(self, process: Process, namespaces: tuple[str, str] = ("shared", "pids-1")) -> Connection:
        name = process.name
        backend, self.ways[name] = self.store.join(process, look=self.plan.look, namespaces=namespaces)
        return Connection(backend, process, instance=Instance(name, name, 1, 0.0), fence=self.plan.fenced)

    # -- what a process does -----------------------------------------------------------------------

    def _terms(self) -> dict[str, Any]:
        rng, ttl = self.rng, self.plan.ttl
        return {
            "ttl": ttl if rng.random() < 0.7 else max(ttl / 2, 0.6),
            "max_hold": rng.choice([None, None, None, ttl * 1.5]),
            "heartbeat": rng.random() < self.plan.heartbeats,
        }

    def _work(self) -> float:
        return self.rng.random() * self.plan.ttl * self.plan.pace

    def _patience(self) -> float | None:
        return self.rng.choice([0.0, 0.5, self.plan.ttl, self.plan.ttl * 4 + 10])

    @contextlib.contextmanager
    def _judge(self, process: Process, name: str, patience: float | None) -> Iterator[None]:
        """M6 and M7 of one acquire: how it may end, and when."""
        way = self.ways[process.name]
        started, disturbed = process.now(), self.disturbed.get(process.name, 0.0)
        process.note(f"asks for {name}, patience {patience:g} s" if patience else f"tries {name}")
        try:
            yield
        except AcquireTimeout:
            if not way.answers and way.failures:
                raise self.referee.fail(
                    "M6: contention was reported and the store had said nothing of the kind"
                ) from None
            if started + (patience or 0.0) > process.now() + 1e-6:
                raise self.referee.fail("M7: an acquire timed out before its time") from None
        except BackendError as error:
            if not (way.failures or way.in_flight) and self.disturbed.get(process.name, 0.0) == disturbed:
                raise self.referee.fail(
                    f"M6: an outage was reported and the store had answered everything: {error}"
                ) from error
        took = process.now() - started
        bound = TRY_LIMIT if not patience else patience + LEAST_CALL
        if took > bound + SLACK and self.disturbed.get(process.name, 0.0) == disturbed:
            raise self.referee.fail(
                f"M7: an acquire of {name} by {process.name} with a bound of {bound:g} s took {took:g} s"
            )

    def _sync_life(self, process: Process, latches: Latches, rounds: int) -> None:
        rng = self.rng
        for _ in range(rounds):
            process.sleep(self._work() / 2)
            name, patience, terms = rng.choice(self.plan.names), self._patience(), self._terms()
            hold = None
            with self._judge(process, name, patience):
                try:
                    hold = (
                        latches.try_acquire(name, **terms)
                        if not patience
                        else latches.acquire(name, timeout=patience, **terms)
                    )
                except HeartUnavailable:
                    continue
            if hold is None:
                continue
            believer = self.referee.granted(hold, process)
            try:
                with hold:
                    for _ in range(rng.randint(1, 3)):
                        process.sleep(
                            rng.random() * self.plan.ttl * self.plan.pace * rng.choice([0.1, 1.0, 3.0])
                        )
                        before = self.referee.highest.get(name, 0)
                        hold.ensure()
                        self.referee.ensured(believer, before)
                        process.preempt()
                        self.referee.write(believer)
            except HoldLost:
                self.referee.losses += 1
                # A holder that does not listen: the gate has to stop it.
                self.referee.write(believer)
            except (BackendError, OutcomeUnknown, UsageError):
                pass
            believer.ended = True

    def _add_operator(self) -> None:
        """Someone who breaks what is held and purges what is not."""
        process = self.world.process("ops")
        latches = Latches(self._connect(process))
        self.processes.append(process)
        process.start(lambda: self._operate(process, latches), "ops")

    def _operate(self, process: Process, latches: Latches) -> None:
        rng = self.rng
        for _ in range(self.plan.operators):
            process.sleep(rng.random() * (self.plan.operators_pause or self.plan.ttl * 2))
            seen = self.store.present(rng.choice(self.plan.names))
            try:
                if seen is None or self.plan.operators_pause or rng.random() < 0.3:
                    latches.purge(older_than=0)
                else:
                    now = self.plan.profile in ("lease", "item") and rng.random() < 0.3
                    latches.break_hold(seen.name, reason="simulated", fence=seen.fence, now=now)
            except (BackendError, OutcomeUnknown, UsageError):
                continue

    async def _async_main(self, process: Process, latches: AsyncLatches, rounds: int) -> None:
        await asyncio.gather(
            *(self._async_life(process, latches, rounds) for _ in range(self.rng.randint(1, 2)))
        )

    async def _async_life(self, process: Process, latches: AsyncLatches, rounds: int) -> None:
        rng = self.rng
        for _ in range(rounds):
            await asyncio.sleep(self._work() / 2)
            name, patience, terms = rng.choice(self.plan.names), self._patience(), self._terms()
            task = asyncio.ensure_future(self._async_turn(process, latches, name, patience, terms))
            if rng.random() < self.plan.cancels:
                # Cancelled at some step, whichever it is.
                await asyncio.sleep(rng.random() * rng.choice([self.plan.faults.latency * 3, self.plan.ttl]))
                task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass
            except (BackendError, OutcomeUnknown, UsageError, HeartUnavailable):
                pass

    async def _async_turn(
        self, process: Process, latches: AsyncLatches, name: str, patience: float | None, terms: dict[str, Any]
    ) -> None:
        rng = self.rng
        hold = None
        with self._judge(process, name, patience):
            hold = await (
                latches.try_acquire(name, **terms)
                if not patience
                else latches.acquire(name, timeout=patience, **terms)
            )
        if hold is None:
            return
        believer = self.referee.granted(hold, process)
        try:
            async with hold:
                for _ in range(rng.randint(1, 3)):
                    await asyncio.sleep(self._work() * rng.choice([0.1, 1.0]))
                    if rng.random() < 0.2:
                        # Blocking code on the loop must not cost the hold (the heart has its own threads);
                        # it does hold up whoever else is on the loop.
                        self.disturbed[process.name] = self.world.time
                        length = rng.random() * self.plan.ttl * 2
                        self._trouble(length / process.rate)
                        process.sleep(length)
                        self.disturbed[process.name] = self.world.time
                    before = self.referee.highest.get(name, 0)
                    await hold.ensure()
                    self.referee.ensured(believer, before)
                    self.referee.write(believer)
        except HoldLost:
            self.referee.losses += 1
            self.referee.write(believer)
        finally:
            believer.ended = True

    # -- what happens to a process -----------------------------------------------------------------

    def _schedule_fault(self) -> None:
        rng, plan = self.rng, self.plan
        process = rng.choice(self.processes)
        length = plan.ttl * rng.choice([0.5, 1.2, 3.0])
        kinds = ["pause", "pause", "kill", "down", "hang"]
        kinds += self.store.accidents
        kind = rng.choice(kinds)
        self.world.after(rng.random() * plan.ttl * 5, lambda: self._fault(kind, process, length))

    def _fault(self, kind: str, process: Process, length: float) -> None:
        world, name = self.world, process.name
        if not process.alive:
            return
        process.note(f"fault: {kind} {length:g}")
        self._trouble(length)
        if kind == "pause":
            self.disturbed[name] = world.time
            process.pause()

            def resume() -> None:
                self.disturbed[name] = world.time
                process.resume()

            world.after(length, resume)
        elif kind == "freeze":
            self.disturbed[name] = world.time
            for believers in self.referee.believers.values():
                for each in believers:
                    each.clouded = each.clouded or each.process is process
            process.freeze(length)
        elif kind == "kill":
            self._kill(process)
        elif kind == "heir":
            self._kill(process, leaves_heir=True)
        elif kind == "down":
            self.store.down_until = max(self.store.down_until, world.time + length)
        elif kind == "hang":
            faults = self.store.faults
            before, faults.slow = faults.slow, 0.9
            world.after(length, lambda: setattr(faults, "slow", before))
        elif kind == "power":
            for other in self.processes:
                if other.alive:
                    self._kill(other)
            self.store.befall(kind, process, "", self.rng.random() * 2)
            # What was forgotten was never durable: the referee's memory of fences stays, the records do not.
            for number in range(2):
                self._add(f"r{number}", "sync", 1.0, False, rounds=2)
        else:
            self.store.befall(kind, process, self.rng.choice(self.plan.names), length)

    def _trouble(self, length: float) -> None:
        """A janitor that is stopped, or whose news wait on a loop, settles nothing before that goes on."""
        self.referee.troubled_at = max(self.referee.troubled_at, self.world.time + length)

    def _kill(self, process: Process, *, leaves_heir: bool = False) -> None:
        process.kill()
        self.store.lost(process, leaves_heir=leaves_heir)

    # -- the end -----------------------------------------------------------------------------------

    def _epilogue(self) -> None:
        """The faults stop. What is still held must have a holder, and everyone gets through (M4)."""
        world, plan, store = self.world, self.plan, self.store
        store.faults = Faults(latency=0.001)
        store.down_until = 0.0
        store.mend()
        stopped = world.time
        for process in self.processes:
            if process.alive:
                process.resume()
        # Bodies end, and chores settle what they know of: a pause of theirs is 5 s at most.
        world.run(until=world.time + plan.ttl * 12 + 60, max_steps=60_000)
        self._no_orphans(stopped)
        for process in self.processes:
            if process.alive:
                self._kill(process)
        longest = max(store.longest, plan.ttl)
        bound = longest * 1.1 + margin_of(longest) + plan.look * 1.5 + SLACK
        for kind in ("waits", "tries"):
            process = self.world.process(f"late-{kind}")
            latches = Latches(self._connect(process))
            act = self._waits if kind == "waits" else self._tries
            process.start(functools.partial(act, process, latches, bound), kind)
            world.run(until=world.time + bound * 8 + 60, max_steps=60_000)
            if kind not in self._through:
                raise self.referee.fail(f"M4: a late contender ({kind}) did not get to its end")
            self._kill(process)

    def _no_orphans(self, stopped: float) -> None:
        """What was granted late enough for its janitor to have lived to the end of the faults is free."""
        for name in self.plan.names:
            stored = self.store.present(name)
            if stored is None or not self.store.lives(stored):
                continue
            live = any(
                each.hold.grant.nonce == stored.nonce and each.hold.machine.state is State.HELD
                for each in self.referee.believers.get(name, [])
            )
            if not live and self.store.held_since(name) >= stopped - stored.ttl * 0.9:
                raise self.referee.fail(f"M5: {name} is held under {stored.nonce[:4]} by nobody of the living")

    def _waits(self, process: Process, latches: Latches, bound: float) -> None:
        for name in self.plan.names:
            try:
                hold = latches.acquire(name, timeout=bound, ttl=self.plan.ttl)
            except AcquireTimeout as error:
                raise self.referee.fail(
                    f"M4: {name} was not granted within {bound:g} s of a holder's end"
                ) from error
            self.referee.granted(hold, process)
        self._through.add(process.name.removeprefix("late-"))

    def _tries(self, process: Process, latches: Latches, bound: float) -> None:
        """One-shot contenders get through too: here one that tries now and then, and never waits."""
        for name in self.plan.names:
            end = process.now() + bound * 2 + 10
            pause = self.plan.ttl / 3 if self.plan.profile == "remote" else bound
            while (hold := latches.try_acquire(name, ttl=self.plan.ttl)) is None:
                if process.now() > end:
                    raise self.referee.fail(f"M4: one-shot contenders never got {name}")
                process.sleep(pause)
            del hold
        self._through.add(process.name.removeprefix("late-"))
