"""The referee of a simulated world: watches M1 to M7 of the design at every step."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from azlatch.core.hold import State
from azlatch.core.record import Record
from azlatch.errors import FenceRejected
from azlatch.gates.memory import MemoryGate
from azlatch.runtime.holding import Holding
from azlatch.testing.simulated_store import SimulatedBackend, SimulatedStore
from azlatch.testing.virtual import Process, World

#: Longer than any wait that a healthy world needs, seconds of virtual time.
SLACK = 1.5


class Violation(AssertionError):
    """A promise was broken; the message names it."""


@dataclass
class Believer:
    """A hold that reached its holder, and whose process it is."""

    hold: Holding
    process: Process
    backend: SimulatedBackend
    #: A hidden pause came over this process since the store last confirmed the hold: its clock cannot know.
    clouded: bool = False
    ended: bool = False
    seen_lost: bool = False

    def believes(self) -> bool:
        """Whether the holder, asked now, would say yes without asking anyone."""
        if self.ended or self.clouded or not self.process.alive:
            return False
        machine = self.hold.machine
        return machine.state is State.HELD and machine.look(self.process.now()) is State.HELD


class Referee:
    """Watches the promises of the design."""

    def __init__(self, world: World, store: SimulatedStore) -> None:
        self.world = world
        self.store = store
        self.believers: dict[str, list[Believer]] = {}
        self.highest: dict[str, int] = {}
        self.gate_highest: dict[str, int] = {}
        self.gates: dict[str, MemoryGate[int]] = {}
        self.breaks: list[tuple[float, str, str]] = []
        self.grants = 0
        self.rejected = 0
        self.losses = 0
        self.violation: Violation | None = None
        self.handed_over: set[str] = set()
        #: When a process was last stopped, frozen or killed, or the store was down.
        self.troubled_at = 0.0
        store.on_grant = self.saw_grant

    def fail(self, text: str) -> Violation:
        """The violation, which ends the world wherever it was noticed."""
        if self.violation is None:
            self.violation = Violation(text)
        return self.violation

    def gate(self, name: str) -> MemoryGate[int]:
        return self.gates.setdefault(name, MemoryGate(0))

    def saw_grant(self, record: Record) -> None:
        """M2, in the order of the store; and that somebody gets to hear of the grant, or it is freed (M5)."""
        if self.store.faults.only_acquires:
            self.world.after(
                record.ttl * 1.3 + 10, functools.partial(self.has_a_holder, record, self.world.time)
            )
        before = self.highest.get(record.name, 0)
        if record.fence <= before:
            raise self.fail(f"M2: {record.name} was granted with fence {record.fence} after {before}")
        self.highest[record.name] = record.fence

    def has_a_holder(self, granted: Record, at: float) -> None:
        """M5: a grant that nobody was told of does not stand."""
        present = self.store.records.get(granted.name)
        member = self.store.members.get(granted.member)
        if present is None or present.nonce != granted.nonce or present.state != "held" or member is None:
            return
        if granted.nonce in self.handed_over or not member.alive or self.troubled_at >= at:
            return
        raise self.fail(f"M5: {granted.name} is held under {granted.nonce[:4]}, which nobody was given")

    def granted(self, hold: Holding, process: Process, backend: SimulatedBackend) -> Believer:
        believer = Believer(hold, process, backend)
        self.handed_over.add(hold.grant.nonce)
        if hold.machine.look(process.now()) is not State.HELD:
            raise self.fail(f"T2: acquire() of {hold.name} returned a hold that is lost already")
        present = self.believers.setdefault(hold.name, [])
        present[:] = [each for each in present if not each.ended]
        present.append(believer)
        self.grants += 1
        process.note(
            f"granted {hold.name} {hold.grant.fence}, for {hold.machine.deadline - process.clock():.3f} s"
        )
        self.check()
        return believer

    def check(self) -> None:
        """M1, at this very moment, each holder by its own clock."""
        if self.violation is not None:
            raise self.violation
        for name, believers in self.believers.items():
            for each in believers:
                state = each.hold.machine.state
                if each.seen_lost and state is not State.LOST:
                    raise self.fail(f"T2: a lost hold of {name} in {each.process.name} is {state.value} again")
                each.seen_lost = state is State.LOST
            if len(believers) < 2:
                continue
            believing = [each for each in believers if each.believes()]
            if len(believing) > 1:
                fences = [(each.process.name, each.hold.grant.fence) for each in believing]
                raise self.fail(f"M1: {name} has {len(believing)} holders that believe: {fences}")

    def ensured(self, believer: Believer, highest_before: int) -> None:
        """What ensure() answered yes to must have been true at some moment since it was asked (T3)."""
        if highest_before > believer.hold.grant.fence:
            raise self.fail(
                f"M1: ensure() of {believer.process.name} said yes with fence {believer.hold.grant.fence} when "
                f"{highest_before} had been granted before it was asked"
            )
        believer.clouded = False

    def write(self, believer: Believer) -> None:
        """M3: the gate never accepts an older fence after a newer one."""
        name, fence = believer.hold.name, believer.hold.grant.fence
        try:
            self.gate(name).write(fence, fence)
        except FenceRejected:
            self.rejected += 1
            if fence >= self.gate_highest.get(name, 0):
                raise self.fail(f"M3: the gate of {name} refused {fence}, which is not older") from None
            return
        if fence < self.gate_highest.get(name, 0):
            raise self.fail(f"M3: the gate of {name} accepted {fence} after {self.gate_highest[name]}")
        self.gate_highest[name] = fence

    def broke(self, name: str, nonce: str, ttl: float) -> None:
        """B1: whoever was broken stops by itself, a ttl later at the most."""
        bound = ttl * 1.15 + SLACK

        def stopped() -> None:
            for each in self.believers.get(name, []):
                if each.hold.grant.nonce == nonce and each.believes():
                    raise self.fail(f"B1: a hold of {name} still believes {bound:g} s after it was broken")

        self.world.after(bound, stopped)
