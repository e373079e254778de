"""Histories as the engine writes them: several instances of one machine, and all that is legal."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from azlatch.audit.events import Event

TTL, LIFE = 30.0, 27.0
STEPS = (
    *("hold", "hold", "hold", "release", "release", "write", "write", "crash", "pause", "break", "break now"),
    *("break dead", "given back", "cancelled", "recovered", "dropped line of a crash", "wait"),
)


@dataclass
class Held:
    """A hold that has not said its end."""

    name: str
    instance: str
    nonce: str
    fence: int
    until: float


@dataclass
class Record:
    """What the store knows of a name."""

    fence: int | None = None
    hold: Held | None = None
    takeover: str | None = None


@dataclass
class World:
    """Writes `events`; the methods keep the rules of the engine, so that every history passes."""

    seed: int
    names: tuple[str, ...] = ("a", "b")
    events: list[Event] = field(default_factory=list)
    now: float = 1_000.0
    fence: int = 1 << 33

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.records = {name: Record() for name in self.names}
        self.orders: dict[str, int] = {}
        self.newest: dict[str, int] = {}
        self.sequences: dict[str, int] = {}
        self.living: list[str] = []
        self.nonces = 0
        for _ in range(3):
            self.start()

    def start(self) -> str:
        instance = f"{len(self.sequences):032x}"
        self.living.append(instance)
        self.add("open", instance, host="h", pid=len(self.living), store="sqlite")
        return instance

    def add(self, kind: str, instance: str, **facts: object) -> Event:
        self.now += self.rng.uniform(0.0001, 0.01)
        seq = self.sequences[instance] = self.sequences.get(instance, 0) + 1
        found = {key: value for key, value in facts.items() if value is not None}
        event = Event(kind, seq, self.now + 1e9, self.now, "boot", instance, found)
        self.events.append(event)
        return event

    def hold(self, name: str, instance: str, *, recovered: bool = False) -> Held:
        """A grant of a name that is free, or was left by its holder."""
        record = self.records[name]
        assert record.hold is None
        self.nonces += 1
        nonce = f"{self.nonces:032x}"
        self.add("request", instance, name=name, acquire=self.nonces, ttl=TTL)
        sent = self.now
        # Others who died before they could log it leave gaps.
        self.fence += self.rng.randint(1, 3)
        held = Held(name, instance, nonce, self.fence, sent + LIFE)
        self.add(
            "granted",
            instance,
            name=name,
            acquire=self.nonces,
            nonce=nonce,
            fence=self.fence,
            prev=None if recovered else record.fence,
            sent=sent,
            until=held.until,
            ttl=TTL,
            takeover=None if recovered else record.takeover,
            wait_s=0.0,
            attempts=1,
            misses=0,
        )
        self.records[name] = Record(self.fence, held)
        return held

    def end(self, held: Held, kind: str = "released", reason: str | None = None) -> None:
        self.now += self.rng.uniform(0.0001, 0.01)
        until = min(self.now, held.until)
        facts = {"name": held.name, "nonce": held.nonce, "fence": held.fence, "until": until, "held_s": 1.0}
        self.add(kind, held.instance, **facts, reason=reason)

    def release(self, held: Held) -> None:
        self.end(held)
        self.records[held.name] = Record(held.fence)

    def write(self, held: Held) -> None:
        if held.fence >= self.newest.get(held.name, 0):
            self.newest[held.name] = held.fence
            order = self.orders[held.name] = self.orders.get(held.name, 0) + 1
            facts = {"name": held.name, "gate": held.name, "order": order, "fence": held.fence}
            self.add("accepted", held.instance, **facts)

    def crash(self, instance: str) -> None:
        """kill -9: its holds have no end, and the next grants say so."""
        self.living.remove(instance)
        for name, record in self.records.items():
            if record.hold is not None and record.hold.instance == instance:
                self.records[name] = Record(record.fence, None, "holder-died")
        self.start()

    def pause(self, held: Held) -> None:
        """The holder is stopped past its ttl; somebody takes over before it wakes up and says that it lost."""
        self.now = max(self.now, held.until + TTL - LIFE + 0.01)
        others = {name: record.hold for name, record in self.records.items() if record.hold is not None}
        late = []
        for name, other in others.items():
            self.records[name] = Record(other.fence, None, "expired")
            late.append(other)
        if self.rng.random() < 0.7:
            self.hold(held.name, next(each for each in self.living if each != held.instance))
        for other in late:
            self.end(other, "lost", "expired")

    def broken(self, held: Held, *, now: bool, free_in: float) -> None:
        facts = {"name": held.name, "fence": held.fence, "by": "ops", "reason": "x", "now": now}
        self.add("broken", self.living[0], **facts, free_in=free_in)

    def step(self, what: str) -> None:
        """One of STEPS, if there is an occasion."""
        free = [name for name, record in self.records.items() if record.hold is None]
        held = [record.hold for record in self.records.values() if record.hold is not None]
        who = self.rng.choice(self.living)
        if what == "wait":
            self.now += self.rng.random()
        elif what in ("hold", "recovered") and free:
            name = self.rng.choice(free)
            clean = self.records[name].takeover is None
            self.hold(name, who, recovered=what == "recovered" and clean)
        elif what == "given back" and free:
            # A grant that came too late: nobody logged it as granted, and its fence is a gap.
            name = self.rng.choice(free)
            if self.records[name].takeover is None:
                self.fence += 1
                self.add("given-back", who, name=name, nonce=f"g{self.fence}", fence=self.fence)
                self.records[name] = Record(self.fence)
        elif what == "cancelled" and free:
            # Interrupted between its event and its return.
            one = self.hold(self.rng.choice(free), who)
            self.add("ended", who, name=one.name, acquire=self.nonces, outcome="cancelled")
            self.records[one.name] = Record(one.fence)
        if not held:
            return
        one = self.rng.choice(held)
        if what == "release":
            self.release(one)
        elif what == "write":
            self.write(one)
        elif what == "crash":
            self.crash(one.instance)
        elif what == "pause":
            self.pause(one)
        elif what == "break":
            self.broken(one, now=False, free_in=TTL)
            self.end(one, "lost", "broken")
            self.records[one.name] = Record(one.fence)
        elif what == "break now":
            self.broken(one, now=True, free_in=0.0)
            self.records[one.name] = Record(one.fence)
            self.hold(one.name, next(each for each in self.living if each != one.instance))
            self.end(one, "lost", "broken")
        elif what == "break dead":
            self.crash(one.instance)
            self.broken(one, now=False, free_in=0.0)
            self.records[one.name] = Record(one.fence)
        elif what == "dropped line of a crash":
            # Killed between the store's answer and its event: a gap in the fences, taken over by another gap.
            self.release(one)
            self.fence += 1
            self.records[one.name] = Record(self.fence, None, "holder-died")

    def go(self, steps: int) -> World:
        for _ in range(steps):
            self.step(self.rng.choice(STEPS))
        return self

    def coda(self, name: str = "a") -> tuple[Held, Held]:
        """Two plain holds of a name, by two instances, each with a write."""
        pair = []
        for instance in self.living[:2]:
            record = self.records[name]
            if record.hold is not None:
                self.release(record.hold)
            held = self.hold(name, instance)
            self.write(held)
            self.release(held)
            pair.append(held)
        return pair[0], pair[1]

    def changed(self, which: str, kinds: tuple[str, ...], **facts: object) -> list[Event]:
        """The history with other facts in the events of one hold."""
        return [
            event._replace(facts={**event.facts, **facts})
            if event.kind in kinds and event.facts.get("nonce") == which
            else event
            for event in self.events
        ]
