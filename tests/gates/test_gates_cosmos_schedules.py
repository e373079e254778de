"""The gate around a Cosmos DB item under schedules drawn from seeds: the real flow on the lab's engine.

No sockets and no clock: the scheduler takes one step of one writer after the other. Requests and replies are
lost, requests land long after their writer gave up on them, the SDK sends some twice, and looks are answered by
a region that is hours behind.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from azlatch.errors import BackendError, FenceRejected, LatchError, OutcomeUnknown
from azlatch.gates import cosmos_run
from azlatch.gates.cosmos_answer import Answer
from azlatch.gates.cosmos_record import Record, Seen
from azlatch.gates.cosmos_run import Accepted, Claim, Complete, Look, Make, Put, Run, Wait
from azlatch.lab.cosmos.wire import Reply
from azlatch.testing.cosmos_engine import Engine, document, substatus

FAR = "East US"
FAULTS = ("none", "none", "none", "drop-request", "drop-reply", "late", "twice", "later")


@dataclass
class World:
    """One item, those who write to it, and what really was written, in its order."""

    seed: int
    random: random.Random = field(init=False)
    engine: Engine = field(init=False)
    #: What the service took: the fence, and the id of the write, or None for a claim.
    taken: list[tuple[int, str | None]] = field(default_factory=list)
    late: list[Callable[[], object]] = field(default_factory=list)
    #: Undone by mutants.
    conditional: bool = True
    predicates: bool = True

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.engine = Engine(regions=("West US", FAR), consistency="Eventual", seed=self.seed)
        self.engine.admin.lag("West US", FAR, self.random.choice([0.0, 1.0, 3_600.0]))

    def look(self) -> Answer:
        return answer(self.engine.read("item", "p", region=self.random.choice(["West US", FAR])))

    def claim(self, step: Claim, fence: int) -> Answer:
        reply = self.engine.patch("item", "p", step.patches, step.predicate if self.predicates else "")
        if reply.status == 200:
            self.taken.append((fence, None))
        return answer(reply)

    def put(self, step: Put, fence: int, write: str) -> Answer:
        body = {**step.body, "pk": "p"}
        if not self.conditional:
            reply = self.engine.upsert(body)
        elif step.etag is None:
            reply = self.engine.create(body)
        else:
            reply = self.engine.replace(body, if_match=step.etag)
        if reply.status in (200, 201):
            self.taken.append((fence, write))
        return answer(reply)

    def ask(self, step: Look | Claim | Put, run: Run) -> Answer:
        """One request, and what goes wrong with it."""

        def send() -> Answer:
            if isinstance(step, Look):
                return self.look()
            if isinstance(step, Claim):
                return self.claim(step, run._offered)
            return self.put(step, run._offered, run._write)

        fault = self.random.choice(FAULTS)
        if fault == "none" or isinstance(step, Look):
            return send()
        if fault == "later":
            return Answer(status=449, sure=True)
        if fault == "late":
            self.late.append(send)
        elif fault == "drop-reply":
            send()
        elif fault == "twice":
            send()
            return send()._replace(sure=False)
        return Answer()


def answer(reply: Reply) -> Answer:
    """As a driver would put it."""
    if reply.status < 300:
        return Answer(document(reply), reply.headers.get("etag"), reply.status)
    return Answer(status=reply.status, substatus=substatus(reply), sure=True)


class Writer:
    """One call of a gate, step by step."""

    def __init__(self, world: World, write: str, fence: int) -> None:
        self._world = world
        self.write, self.fence = write, fence
        self._steps = 0
        self._run = Run(
            Record("item", "fence", "the gate"),
            "the gate",
            "fence",
            fence,
            write,
            timeout=world.random.choice([5, 25, 100]),
            clock=lambda: float(self._steps),
            draw=world.random.random,
        )
        self._flow = self._run.write(self._change, None)
        self._answer: object = None
        self.end: Accepted | LatchError | None = None

    def _change(self, before: dict[str, Any] | None) -> dict[str, Any]:
        return {"log": [*(before or {"log": []})["log"], self.write]}

    def step(self) -> None:
        self._steps += 1
        try:
            step = self._flow.send(self._answer)
        except StopIteration as stop:
            self.end = stop.value
        except LatchError as error:
            self.end = error
        else:
            self._answer = self._do(step)

    def _do(self, step: cosmos_run.Step) -> object:
        match step:
            case Make(change, content):
                return change(content)
            case Complete(body):
                return body
            case Wait(seconds):
                self._world.engine.tick(seconds)
                return None
            case _:
                return self._world.ask(step, self._run)


def play(world: World) -> list[Writer]:
    """Some writers with fences that grow, and some with older ones, all at once; then what is late lands."""
    draw = world.random
    writers = [Writer(world, f"w{number:07d}", draw.randint(1, 1 + number // 2)) for number in range(6)]
    waiting = list(writers)
    while waiting:
        if world.late and draw.random() < 0.1:
            world.late.pop(draw.randrange(len(world.late)))()
        writer = draw.choice(waiting[:3])
        writer.step()
        if writer.end is not None:
            waiting.remove(writer)
    while world.late:
        world.late.pop(draw.randrange(len(world.late)))()
    return writers


def judge(world: World, writers: list[Writer]) -> Counter[str]:
    """What has to hold of every schedule."""
    fences = [fence for fence, _ in world.taken]
    assert fences == sorted(fences), f"seed {world.seed}: an older fence was taken after a newer one"
    written = [write for _, write in world.taken if write is not None]
    assert len(written) == len(set(written)), f"seed {world.seed}: a write was applied twice"
    stored = document(world.engine.read("item", "p")) if written else {"log": []}
    assert stored["log"] == written, f"seed {world.seed}: a write was lost, or is there without its order"
    seen: Counter[str] = Counter()
    for each in writers:
        seen[type(each.end).__name__] += 1
        if isinstance(each.end, Accepted):
            place = each.end.acceptance.sequence - 1
            assert written[place : place + 1] == [each.write], f"seed {world.seed}: accepted, and not there"
        elif isinstance(each.end, FenceRejected | BackendError):
            assert each.write not in written, f"seed {world.seed}: refused, and there"
        else:
            assert isinstance(each.end, OutcomeUnknown), repr(each.end)
    return seen


def test_no_schedule_breaks_it() -> None:
    """Fences never fall, each write is applied once or not at all, and what is said of it is true (M3, M5)."""
    seen: Counter[str] = Counter()
    for seed in range(300):
        world = World(seed)
        seen += judge(world, play(world))
    # Each of the ends was reached, most of all that of success.
    assert {"Accepted", "FenceRejected", "OutcomeUnknown"} <= set(seen), seen
    assert seen["Accepted"] > 700, seen
    assert seen["OutcomeUnknown"] < 450, seen


def _no_fence_check(world: World, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cosmos_run, "check_fence", lambda *_: None)


def _no_condition(world: World, patch: pytest.MonkeyPatch) -> None:
    world.conditional = False


def _no_predicate(world: World, patch: pytest.MonkeyPatch) -> None:
    world.predicates = False


def _unknown_is_failure(world: World, patch: pytest.MonkeyPatch) -> None:
    def settle(run: Run) -> Iterator[Any]:
        run._doubt = None
        return (yield from run._claim())

    patch.setattr(Run, "_settle", settle)


def _unknown_is_success(world: World, patch: pytest.MonkeyPatch) -> None:
    def settle(run: Run) -> Iterator[Any]:
        found: Seen = yield from run._claim()
        return Accepted(cosmos_run.Acceptance(max(found.order, 1), run._offered), None)

    patch.setattr(Run, "_settle", settle)


def _a_look_is_proof(world: World, patch: pytest.MonkeyPatch) -> None:
    def claim(run: Run) -> Iterator[Any]:
        return (yield from run.look())

    patch.setattr(Run, "_claim", claim)


def _a_doubt_is_forgotten(world: World, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Run, "_fail", lambda run, error, answer: error)


MUTANTS = [
    _no_fence_check,
    _no_condition,
    _no_predicate,
    _unknown_is_failure,
    _unknown_is_success,
    _a_look_is_proof,
    _a_doubt_is_forgotten,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.__name__.strip("_"))
def test_each_rule_is_needed(
    mutant: Callable[[World, pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any one of them some schedule breaks it: the judge can fail."""
    for seed in range(300):
        world = World(seed)
        mutant(world, monkeypatch)
        try:
            judge(world, play(world))
        except AssertionError:
            return
    raise AssertionError("nobody noticed")
