"""Processes in two regions that contend for one lock in the lab's Cosmos DB, in virtual time; and their judge.

Nothing here is a socket or a clock: the lab's engine is asked by virtual threads, whose order, latencies and
fates come from the seed. Clocks are exact, no request is lost, and nobody is slow between two requests: a lock
that fails here has no excuse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from azlatch.lab.cosmos.wire import Reply
from azlatch.testing.cosmos_engine import START, Engine, document, substatus
from azlatch.testing.virtual import Process, World

WEST, EAST = "West US", "East US"
TTL_S = 10.0
PROCESSES = 4
#: A request with its answer, seconds, within a region and to the other one.
NEAR_S, FAR_S = (0.002, 0.006), (0.03, 0.06)
_BEHIND = 1002


class Weather(NamedTuple):
    """The shares of holds whose process dies, or works for longer than the ttl; others take 0.5 to 3 s."""

    dies: float
    is_slow: float


CALM, ROUGH = Weather(0.0, 0.0), Weather(0.03, 0.1)


class Lock(Protocol):
    """One process's way to lock. It blocks."""

    def try_acquire(self) -> bool:
        """Whether it believes that it has the lock now, for TTL_S seconds from before it asked."""
        ...

    def release(self) -> None:
        """Gives the lock back, or what it takes for it."""
        ...


class Link:
    """What a process sends to the lock's item, from its region: reads to its own, writes to the write region.

    It keeps a session token as the SDK does, and asks the write region where no replica near has caught up.
    """

    def __init__(self, engine: Engine, world: World, process: Process, region: str, ahead: float) -> None:
        self._engine = engine
        self._world = world
        self._region = region
        #: Of the engine's time to the world's.
        self._ahead = ahead
        self._token = ""
        self.process = process

    def ask(self, call: Callable[[Engine, dict[str, str]], Reply], *, region: str = WEST) -> Reply:
        """One request, which takes its time there and back; `call` gets the headers of the session."""
        low, high = NEAR_S if region == self._region else FAR_S
        self.process.sleep((low + (high - low) * self.process.random()) / 2)
        self._engine.tick(self._world.time + self._ahead - self._engine.now)
        headers = {"x_ms_session_token": self._token} if self._token else {}
        reply = call(self._engine, headers)
        # Of a Strong account a write is answered when all regions have it.
        waits = 0.0 if reply.ready_at is None else reply.ready_at - self._engine.now
        self.process.sleep(max(waits, 0.0) + (low + (high - low) * self.process.random()) / 2)
        self._token = reply.headers.get("x-ms-session-token", self._token)
        return reply

    def read(self) -> dict[str, Any] | None:
        """The item, or None."""

        def call(engine: Engine, headers: dict[str, str]) -> Reply:
            return engine.read("lock", "lock", region, **headers)

        region = self._region
        reply = self.ask(call, region=region)
        if reply.status == 404 and substatus(reply) == _BEHIND:
            region = WEST
            reply = self.ask(call, region=region)
        return document(reply) if reply.status == 200 else None

    def create(self, **content: Any) -> str | None:
        """The version that it has then; None where there was one."""
        reply = self.ask(lambda engine, headers: engine.create(_item(content), WEST, **headers))
        return reply.headers["etag"] if reply.status == 201 else None

    def upsert(self, **content: Any) -> str:
        """The version that it has then, whatever was there; "" where a Strong account gave up."""
        reply = self.ask(lambda engine, headers: engine.upsert(_item(content), WEST, **headers))
        return reply.headers.get("etag", "") if reply.status < 300 else ""

    def replace(self, etag: str, **content: Any) -> str | None:
        """The version that it has then; None where it was another one than `etag`."""
        given = {"if_match": etag}
        reply = self.ask(lambda engine, headers: engine.replace(_item(content), WEST, **given, **headers))
        return reply.headers["etag"] if reply.status == 200 else None

    def delete(self) -> None:
        """Whoever's it is."""
        self.ask(lambda engine, headers: engine.delete("lock", "lock", WEST, **headers))


Way = Callable[[Link], Lock]


@dataclass
class Hold:
    """A grant, as the one who got it sees it: from before it asked."""

    who: str
    asked: float
    got: float
    over: float | None = None


@dataclass
class Judge:
    """Counts grants, and those that were made while somebody else had the lock."""

    holds: list[Hold] = field(default_factory=list)
    doubles: int = 0
    #: For each death inside a hold: when the lock was to be free again.
    deaths: list[float] = field(default_factory=list)
    until: float = 0.0

    def granted(self, who: str, asked: float, now: float) -> Hold:
        """A double grant: another one lives, is inside its own ttl, and has not begun to release."""
        self.doubles += any(
            each.over is None and now < each.asked + TTL_S for each in self.holds[-50:] if each.who != who
        )
        self.holds.append(Hold(who, asked, now))
        return self.holds[-1]

    def died(self, hold: Hold, now: float) -> None:
        """Nobody is there any more to be overrun; the lock is to be free when its ttl is over."""
        hold.over = now
        self.deaths.append(hold.asked + TTL_S)

    def freed_after(self) -> list[float | None]:
        """For each death: in how many seconds after the ttl somebody had the lock; None for never."""
        found: list[float | None] = []
        for free in self.deaths:
            if free + 3 * TTL_S > self.until:
                continue
            later = [each.got - free for each in self.holds if each.got > free]
            found.append(min(later) if later else None)
        return found


def play(way: Way, level: str, lag: float, weather: Weather, seed: int, seconds: float) -> Judge:
    """So many seconds of contention; half of the processes are in each region."""
    judge = Judge()
    engine = Engine(
        regions=(WEST, EAST), consistency=level, seed=seed, container={"defaultTtl": -1}, throughput=10_000
    )
    engine.admin.lag(WEST, EAST, lag)
    engine.admin.lag(WEST, WEST, lag)
    with World(seed) as world:
        end = world.time + seconds
        ahead = START - world.time

        def start(number: int, life: int) -> None:
            process = world.process(f"p{number}.{life}")
            link = Link(engine, world, process, (WEST, EAST)[number % 2], ahead)
            process.start(lambda: contend(process, way(link), number, life))

        def contend(process: Process, lock: Lock, number: int, life: int) -> None:
            process.sleep(process.random() * 2)
            while world.time < end:
                asked = world.time
                if not lock.try_acquire():
                    process.sleep(0.2 + 0.8 * process.random())
                    continue
                hold = judge.granted(process.name, asked, world.time)
                fate = process.random()
                if fate < weather.dies:
                    process.sleep(process.random())
                    judge.died(hold, world.time)
                    world.after(2.0, lambda: start(number, life + 1))
                    process.kill()
                slow = fate < weather.dies + weather.is_slow
                process.sleep(TTL_S * (1.1 + 0.4 * process.random()) if slow else 0.5 + 2.5 * process.random())
                hold.over = world.time
                lock.release()
                process.sleep(0.1 + 0.9 * process.random())

        for number in range(PROCESSES):
            start(number, 0)
        world.run(until=end)
    judge.until = end
    return judge


def _item(content: dict[str, Any]) -> dict[str, Any]:
    return {"id": "lock", "pk": "lock", **content}
