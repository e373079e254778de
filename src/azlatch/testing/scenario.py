"""One simulated world: its plan, its cast, what happens to it, and how it ends.

All of it comes from the seed: how many processes there are, sync or async, on which kind of store, with which
faults, and what each of them does next.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from azlatch.core.acquisition import LEAST_CALL, TRY_LIMIT
from azlatch.core.hold import State
from azlatch.core.instance import Instance
from azlatch.core.record import Record
from azlatch.core.terms import margin_of
from azlatch.errors import (
    AcquireTimeout,
    BackendUnavailable,
    HeartUnavailable,
    HoldLost,
    OutcomeUnknown,
    UsageError,
)
from azlatch.runtime.async_latches import AsyncLatches
from azlatch.runtime.connection import Connection
from azlatch.runtime.latches import Latches
from azlatch.testing.referee import SLACK, Referee
from azlatch.testing.simulated_store import Faults, Profile, SimulatedBackend, SimulatedStore
from azlatch.testing.virtual import Process, World

#: What a world can be made harsher in, where most worlds would not need a rule.
Stress = Literal["late-replies", "clocks", "stops", "freezes", "lost-writes", "lost-requests", "operators"]


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

    def stress(self, kind: Stress) -> None:
        """Makes the world harsher where one rule matters; the rest of the plan stays as the seed has it."""
        if kind == "late-replies":
            self.faults = Faults(latency=self.ttl / 4)
            self.heartbeats = 0.3
        elif kind == "clocks":
            self.profile = "remote"
            self.rates = [1.0 + 0.1 * (number % 2) for number in range(self.processes)]
            self.private_clocks = [False] * self.processes
            self.faults = Faults(latency=0.001)
            self.heartbeats = 0.3
        elif kind == "stops":
            self.names = ["a"]
            self.stops = 8
        elif kind == "freezes":
            self.profile = "remote"
            self.private_clocks = [False] * self.processes
            self.names = ["a"]
            self.stops = 8
        elif kind == "operators":
            self.operators = 8
        elif kind == "lost-requests":
            self.faults = Faults(drop_request=0.5, latency=self.ttl / 50)
        elif kind == "lost-writes":
            late = 0.3 if self.profile == "remote" else 0.0
            self.faults = Faults(drop_reply=0.3, land_late=late, latency=self.ttl / 50, only_acquires=True)


def plan_of(rng: Random) -> Plan:
    profile: Profile = rng.choice(["embedded", "remote"])
    ttl = rng.choice([1.0, 3.0, 10.0, 30.0])
    troubled = rng.random() < 0.75
    share = rng.choice([0.03, 0.1, 0.25]) if troubled else 0.0
    faults = Faults(
        drop_request=share * rng.random(),
        drop_reply=share * rng.random(),
        refuse=share * rng.random(),
        land_late=share * rng.random(),
        slow=share * rng.random(),
        lost_wake=rng.choice([0.0, 0.3]),
        latency=rng.choice([0.001, 0.02, ttl / 20, ttl / 9]),
        lag=rng.choice([0.0, 0.0, ttl / 4, ttl * 1.5]) if profile == "remote" else 0.0,
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
        look=rng.choice([0.1, 0.3, 1.0]),
        operators=rng.choice([0, 0, 2, 6]),
        kinds=[rng.choice(["sync", "sync", "async"]) for _ in range(processes)],
        # Two machines' clocks differ by up to 10 %; processes of one machine share a clock.
        rates=[1.0 + rng.choice([0.0, 0.05, 0.1]) for _ in range(processes)]
        if profile == "remote"
        else [1.0] * processes,
        private_clocks=[profile == "embedded" and rng.random() < 0.2 for _ in range(processes)],
    )


class Scenario:
    """One world, from its plan to its end."""

    def __init__(self, seed: int, stress: Stress | None = None) -> None:
        self.world = World(seed)
        self.rng = self.world.rng
        self.plan = plan_of(self.rng)
        if stress is not None:
            self.plan.stress(stress)
        self.store = SimulatedStore(self.world, self.plan.profile, self.plan.faults)
        self.referee = Referee(self.world, self.store)
        self.world.on_step = self.referee.check
        self.processes: list[Process] = []
        self.latches: dict[str, Latches | AsyncLatches] = {}
        self.backends: dict[str, SimulatedBackend] = {}
        self.disturbed: dict[str, float] = {}
        self._through: set[str] = set()

    # -- the cast ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs it to the end; raises Violation."""
        plan, world = self.plan, self.world
        for number in range(plan.processes):
            self._add(f"p{number}", plan.kinds[number], plan.rates[number], plan.private_clocks[number])
        if plan.operators:
            self._add_operator()
        for _ in range(self.rng.randint(0, 4)):
            self._schedule_fault()
        for number in range(plan.stops):
            process = self.rng.choice(self.processes)
            kind = "freeze" if plan.profile == "remote" and self.rng.random() < 0.5 else "pause"
            stop = functools.partial(self._fault, kind, process, plan.ttl * 3)
            world.after((number + self.rng.random()) * plan.ttl * 2, stop)
        end = world.time + plan.rounds * (plan.ttl * 6 + 40)
        world.run(until=end, max_steps=60_000)
        self._epilogue()

    def _add(
        self, name: str, kind: str, rate: float, private_clock: bool, rounds: int | None = None
    ) -> Process:
        # Clocks of other machines and time namespaces have another zero.
        elsewhere = private_clock or self.plan.profile == "remote"
        process = self.world.process(name, rate=rate, offset=self.rng.choice([-5_000.0, 5_000.0]) * elsewhere)
        time_namespace = f"own-{name}" if private_clock else "shared"
        namespaces = (time_namespace, self.rng.choice(["pids-1", "pids-2"]))
        backend = SimulatedBackend(self.store, process, look=self.plan.look, namespaces=namespaces)
        connection = Connection(backend, process, instance=Instance(name, name, 1, 0.0))
        self.processes.append(process)
        self.backends[name] = backend
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

    # -- what a process does -----------------------------------------------------------------------

    def _terms(self) -> dict[str, Any]:
        rng, ttl = self.rng, self.plan.ttl
        return {
            "ttl": ttl if rng.random() < 0.7 else max(ttl / 2, 0.6),
            "max_hold": rng.choice([None, None, None, ttl * 1.5]),
            "heartbeat": rng.random() < self.plan.heartbeats,
        }

    def _patience(self) -> float | None:
        return self.rng.choice([0.0, 0.5, self.plan.ttl, self.plan.ttl * 4 + 10])

    @contextlib.contextmanager
    def _judge(self, process: Process, name: str, patience: float | None) -> Iterator[None]:
        """M6 and M7 of one acquire: how it may end, and when."""
        backend = self.backends[process.name]
        started, disturbed = process.now(), self.disturbed.get(process.name, 0.0)
        process.note(f"asks for {name}, patience {patience:g} s" if patience else f"tries {name}")
        try:
            yield
        except AcquireTimeout:
            if not backend.answers and backend.failures:
                raise self.referee.fail(
                    "M6: contention was reported and the store had said nothing of the kind"
                ) from None
            if started + (patience or 0.0) > process.now() + 1e-6:
                raise self.referee.fail("M7: an acquire timed out before its time") from None
        except BackendUnavailable as error:
            if (
                not (backend.failures or backend.in_flight)
                and self.disturbed.get(process.name, 0.0) == disturbed
            ):
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
            process.sleep(rng.random() * self.plan.ttl / 2)
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
            believer = self.referee.granted(hold, process, self.backends[process.name])
            try:
                with hold:
                    for _ in range(rng.randint(1, 3)):
                        process.sleep(rng.random() * self.plan.ttl * rng.choice([0.1, 1.0, 3.0]))
                        before = self.referee.highest.get(name, 0)
                        hold.ensure()
                        self.referee.ensured(believer, before)
                        process.preempt()
                        self.referee.write(believer)
            except HoldLost:
                self.referee.losses += 1
                # A holder that does not listen: the gate has to stop it.
                self.referee.write(believer)
            except (BackendUnavailable, OutcomeUnknown, UsageError):
                pass
            believer.ended = True

    def _add_operator(self) -> None:
        """Someone who breaks what is held and purges what is not."""
        process = self.world.process("ops")
        backend = SimulatedBackend(self.store, process, look=self.plan.look)
        latches = Latches(Connection(backend, process, instance=Instance("ops", "ops", 1, 0.0)))
        self.processes.append(process)
        self.backends["ops"] = backend
        process.start(lambda: self._operate(process, latches), "ops")

    def _operate(self, process: Process, latches: Latches) -> None:
        rng = self.rng
        for _ in range(self.plan.operators):
            process.sleep(rng.random() * self.plan.ttl * 2)
            record = self.store.records.get(rng.choice(self.plan.names))
            try:
                if record is None or record.state != "held" or rng.random() < 0.3:
                    latches.purge(older_than=0)
                elif latches.break_hold(record.name, reason="simulated", fence=record.fence) is not None:
                    self.referee.broke(record.name, record.nonce, record.ttl)
            except (BackendUnavailable, OutcomeUnknown, UsageError):
                continue

    async def _async_main(self, process: Process, latches: AsyncLatches, rounds: int) -> None:
        await asyncio.gather(
            *(self._async_life(process, latches, rounds) for _ in range(self.rng.randint(1, 2)))
        )

    async def _async_life(self, process: Process, latches: AsyncLatches, rounds: int) -> None:
        rng = self.rng
        for _ in range(rounds):
            await asyncio.sleep(rng.random() * self.plan.ttl / 2)
            name, patience, terms = rng.choice(self.plan.names), self._patience(), self._terms()
            task = asyncio.ensure_future(self._async_turn(process, latches, name, patience, terms))
            if rng.random() < 0.4:
                # Cancelled at some step, whichever it is.
                await asyncio.sleep(rng.random() * rng.choice([self.plan.faults.latency * 3, self.plan.ttl]))
                task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass
            except (BackendUnavailable, OutcomeUnknown, UsageError, HeartUnavailable):
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
        believer = self.referee.granted(hold, process, self.backends[process.name])
        try:
            async with hold:
                for _ in range(rng.randint(1, 3)):
                    await asyncio.sleep(rng.random() * self.plan.ttl * rng.choice([0.1, 1.0]))
                    if rng.random() < 0.2:
                        # Blocking code on the loop must not cost the hold (the heart has its own threads);
                        # it does hold up whoever else is on the loop.
                        self.disturbed[process.name] = self.world.time
                        process.sleep(rng.random() * self.plan.ttl * 2)
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
        kinds += ["freeze"] if plan.profile == "remote" else ["heir", "no-file", "power"]
        kind = rng.choice(kinds)
        self.world.after(rng.random() * plan.ttl * 5, lambda: self._fault(kind, process, length))

    def _fault(self, kind: str, process: Process, length: float) -> None:
        world, name = self.world, process.name
        if not process.alive:
            return
        process.note(f"fault: {kind} {length:g}")
        # A stopped janitor settles nothing before it goes on.
        self.referee.troubled_at = world.time + length
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
            self._members(process)[0].has_heir = bool(self._members(process))
            self._kill(process)
        elif kind == "no-file":
            for member in self._members(process):
                member.has_file = False
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
            self.store.lose_power(self.rng.random() * 2)
            # What was forgotten was never durable: the referee's memory of fences stays, the records do not.
            for number in range(2):
                self._add(f"r{number}", "sync", 1.0, False, rounds=2)

    def _members(self, process: Process) -> list[Any]:
        return [member for member in self.store.members.values() if member.process is process] or [_Nobody()]

    def _kill(self, process: Process) -> None:
        process.kill()
        for member in self.store.members.values():
            if member.process is process:
                member.alive = False

    # -- the end -----------------------------------------------------------------------------------

    def _epilogue(self) -> None:
        """The faults stop. What is still held must have a holder, and everyone gets through (M4)."""
        world, plan, store = self.world, self.plan, self.store
        store.faults = Faults(latency=0.001)
        store.down_until = 0.0
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
        longest = max((r.ttl for r in store.records.values()), default=plan.ttl)
        bound = longest * 1.1 + margin_of(longest) + plan.look * 1.5 + SLACK
        for kind in ("waits", "tries"):
            process = self.world.process(f"late-{kind}")
            backend = SimulatedBackend(store, process, look=plan.look)
            self.backends[process.name] = backend
            latches = Latches(Connection(backend, process, instance=Instance(kind, kind, 1, 0.0)))
            act = self._waits if kind == "waits" else self._tries
            process.start(functools.partial(act, process, latches, bound), kind)
            world.run(until=world.time + bound * 8 + 60, max_steps=60_000)
            if kind not in self._through:
                raise self.referee.fail(f"M4: a late contender ({kind}) did not get to its end")
            self._kill(process)

    def _no_orphans(self, stopped: float) -> None:
        """What was granted late enough for its janitor to have lived to the end of the faults is free."""
        for record in self.store.records.values():
            member = self.store.members.get(record.member)
            if record.state != "held" or member is None or not member.alive:
                continue
            live = any(
                each.hold.grant.nonce == record.nonce and each.hold.machine.state is State.HELD
                for each in self.referee.believers.get(record.name, [])
            )
            if not live and self._written(record) >= stopped - record.ttl * 0.9:
                raise self.referee.fail(
                    f"M5: {record.name} is held by nobody of the living {record.holder.label}"
                )

    def _written(self, record: Record) -> float:
        return next(at for at, each in reversed(self.store.history[record.name]) if each is not None)

    def _waits(self, process: Process, latches: Latches, bound: float) -> None:
        for name in self.plan.names:
            try:
                hold = latches.acquire(name, timeout=bound, ttl=self.plan.ttl)
            except AcquireTimeout as error:
                raise self.referee.fail(
                    f"M4: {name} was not granted within {bound:g} s of a holder's end"
                ) from error
            self.referee.granted(hold, process, self.backends[process.name])
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


class _Nobody:
    has_heir = False
