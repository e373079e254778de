"""The referee of a simulated world: watches M1 to M7 of the design at every step."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from azlatch.core.hold import State
from azlatch.errors import FenceRejected
from azlatch.gates.memory import MemoryGate
from azlatch.runtime.holding import Holding
from azlatch.testing.virtual import Process, World
from azlatch.testing.watched import Stored, WatchedStore, Watcher

#: Longer than any wait that a healthy world needs, seconds of virtual time.
SLACK = 1.5


class Violation(AssertionError):
    """A promise was broken; the message names it."""


@dataclass
class Believer:
    """A hold that reached its holder, and whose process it is."""

    hold: Holding
    process: Process
    #: A hidden pause came over this process since the store last confirmed the hold: its clock cannot know.
    clouded: bool = False
    ended: bool = False
    seen_lost: bool = False
    #: An operator broke it with ``now=True``, which gives up M1 for it.
    forsaken: bool = False
    #: The service forgot something of it: until its deadline there may be another holder.
    undone: bool = False

    @property
    def fence(self) -> int | None:
        return self.hold.grant.fence

    def is_of(self, stored: Stored) -> bool:
        """Whether it is this grant; a claim that was broken before it was answered may be granted anew."""
        return (self.hold.grant.nonce, self.hold.grant.fence) == (stored.nonce, stored.fence)

    def believes(self, *, though_forsaken: bool = False) -> bool:
        """Whether the holder, asked now, would say yes without asking anyone."""
        if self.forsaken and not though_forsaken:
            return False
        if self.ended or self.clouded or self.undone or not self.process.alive:
            return False
        machine = self.hold.machine
        return machine.state is State.HELD and machine.look(self.process.now()) is State.HELD


class Referee(Watcher):
    """Watches the promises of the design."""

    def __init__(self, world: World, store: WatchedStore) -> None:
        self.world = world
        self.store = store
        self.believers: dict[str, list[Believer]] = {}
        self.highest: dict[str, int] = {}
        self.gate_highest: dict[str, int] = {}
        self.gates: dict[str, MemoryGate[int]] = {}
        self.forsaken: set[tuple[str, int | None]] = set()
        self.undone: set[str] = set()
        self.seen: set[tuple[str, int]] = set()
        self.grants = 0
        self.rejected = 0
        self.losses = 0
        self.violation: Violation | None = None
        self.handed_over: set[str] = set()
        #: When a process was last stopped, frozen or killed, or the store was down.
        self.troubled_at = 0.0
        store.watcher = self

    def fail(self, text: str) -> Violation:
        """The violation, which ends the world wherever it was noticed."""
        if self.violation is None:
            self.violation = Violation(text)
        return self.violation

    def gate(self, name: str) -> MemoryGate[int]:
        return self.gates.setdefault(name, MemoryGate(0))

    def saw_hold(self, stored: Stored, patience: float) -> None:
        """M5, in the order of the store: somebody gets to hear of the hold, or it is freed."""
        if self.store.faults.only_acquires:
            self.world.after(patience, functools.partial(self.has_a_holder, stored, self.world.time))

    def saw_grant(self, stored: Stored) -> None:
        """M2, in the order of the store."""
        if stored.fence is None:
            return
        before = self.highest.get(stored.name, 0)
        if stored.fence <= before:
            raise self.fail(f"M2: {stored.name} was granted with fence {stored.fence} after {before}")
        self.highest[stored.name] = stored.fence
        self.seen.add((stored.name, stored.fence))

    def has_a_holder(self, stored: Stored, at: float) -> None:
        """M5: a hold that nobody was told of does not stand."""
        present = self.store.present(stored.name)
        if present is None or present.nonce != stored.nonce or not self.store.lives(present):
            return
        if stored.nonce in self.handed_over or self.troubled_at >= at or self.store.excuses(present, at):
            return
        raise self.fail(f"M5: {stored.name} is held under {stored.nonce[:4]}, which nobody was given")

    def granted(self, hold: Holding, process: Process) -> Believer:
        forsaken = (hold.grant.nonce, hold.grant.fence) in self.forsaken
        believer = Believer(hold, process, forsaken=forsaken, undone=hold.grant.nonce in self.undone)
        self.handed_over.add(hold.grant.nonce)
        if hold.grant.fence is not None and (hold.name, hold.grant.fence) not in self.seen:
            raise self.fail(f"M2: the store has never seen fence {hold.grant.fence} of {hold.name}")
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
        excused = believer.forsaken or believer.undone
        if believer.fence is not None and highest_before > believer.fence and not excused:
            raise self.fail(
                f"M1: ensure() of {believer.process.name} said yes with fence {believer.fence} when "
                f"{highest_before} had been granted before it was asked"
            )
        believer.clouded = False

    def write(self, believer: Believer) -> None:
        """M3: the gate never accepts an older fence after a newer one."""
        name, fence = believer.hold.name, believer.fence
        if fence is None:
            return
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

    def saw_break(self, stored: Stored, now: bool) -> None:
        """B1: whoever was broken stops by itself, a ttl later at the most."""
        believers = self.believers.get(stored.name, [])
        if now:
            self.forsaken.add((stored.nonce, stored.fence))
            for each in believers:
                each.forsaken = each.forsaken or each.is_of(stored)
        if stored.fence is None and stored.nonce not in self.handed_over:
            # Nothing was granted yet: who asks may ask again, and be granted what is free by then.
            return
        bound = stored.ttl * 1.15 + SLACK

        def stopped() -> None:
            for each in self.believers.get(stored.name, []):
                if each.is_of(stored) and each.believes(though_forsaken=True):
                    raise self.fail(
                        f"B1: a hold of {stored.name} still believes {bound:g} s after it was broken"
                    )

        self.world.after(bound, stopped)

    def saw_undone(self, name: str, nonce: str) -> None:
        """M1 is not promised to whom the service lost something, until the deadline that it had by then."""
        self.undone.add(nonce)
        for each in self.believers.get(name, []):
            each.undone = each.undone or each.hold.grant.nonce == nonce
