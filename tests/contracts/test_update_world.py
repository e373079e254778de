"""The core of update_item in a world without I/O: lost answers, late writes, strangers; and mutants of it.

A world is drawn from a number. Workers add known amounts to one item through the real core, step by step in any
order; the service loses answers before and after it has applied a write, applies one later than it says, and
refuses for a while. What is checked: each reported outcome is true, and the sum is that of what was applied.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from azlatch.contracts.answer import Answer, Spent
from azlatch.contracts.operations import PROPERTY, Operations
from azlatch.contracts.reconcile import numeric_delta
from azlatch.contracts.update import Updating
from azlatch.contracts.update_errors import ConflictNeedsDecision
from azlatch.contracts.update_steps import (
    Change,
    Done,
    Failed,
    Read,
    Reconcile,
    Replace,
    Step,
    Wait,
)
from azlatch.errors import OutcomeUnknown

SPENT = Spent(1.0, 0)
UPDATES = 12


class Service:
    """One item, and what goes wrong with writes to it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.version = 0
        self.item: dict[str, Any] = {"id": "p", "n": 0}
        self.landed: Counter[str] = Counter()
        self.late: list[Replace] = []
        self.stranger_drops = chance.random() < 0.3
        self.bad = chance.choice([0.0, 0.2, 0.6])

    @property
    def etag(self) -> str:
        return f'"{self.version}"'

    def land(self, write: Replace) -> bool:
        """Applies a write if its condition holds; without one, always."""
        if write.etag and write.etag != self.etag:
            return False
        self.version += 1
        self.item = dict(write.body)
        newest = Operations.of(self.item).newest
        assert newest
        self.landed[newest] += 1
        return True

    def replace(self, write: Replace) -> Answer | None:
        """Success, or an answer."""
        if self.chance.random() >= self.bad:
            return None if self.land(write) else Answer(412, sure=True)
        how = self.chance.choice(["lost", "dropped", "late", "429", "449", "503", "repeated", "410"])
        if how in ("429", "449"):
            return Answer(int(how), 0, 0.01, sure=True)
        if how == "repeated":
            # Below the hooks: the first was applied, the second is refused.
            self.land(write)
            return Answer(412, sure=False)
        if how == "lost" or (how == "503" and self.chance.random() < 0.5):
            self.land(write)
        elif how == "late":
            self.late.append(write)
        return Answer(int(how) if how in ("503", "410") else None)

    def meanwhile(self) -> None:
        """What happens at any time: a late write lands, or a stranger writes."""
        if self.late and self.chance.random() < 0.3:
            self.land(self.late.pop(self.chance.randrange(len(self.late))))
        if self.chance.random() < 0.02:
            self.version += 1
            self.item = {**self.item, "by": self.version}
            if self.stranger_drops:
                self.item.pop(PROPERTY, None)


def worker(core: Updating, service: Service, clock: list[float], amount: int) -> Iterator[None]:
    """A driver that yields between two steps; returns how it ended."""
    step: Step = core.start(clock[0])
    while True:
        yield
        clock[0] += 0.001
        now = clock[0]
        match step:
            case Read():
                if service.chance.random() < service.bad / 4:
                    step = core.failed(now, Answer(503), SPENT)
                else:
                    step = core.read(now, {**service.item, "_etag": service.etag}, service.etag, SPENT)
            case Replace():
                answer = service.replace(step)
                if answer is None:
                    step = core.replaced({**service.item, "_etag": service.etag}, service.etag, SPENT)
                else:
                    step = core.failed(now, answer, SPENT)
            case Change(base):
                base["n"] += amount
                step = core.changed(now, None, base)
            case Reconcile():
                try:
                    step = core.reconciled(now, numeric_delta("n")(*step))
                except ConflictNeedsDecision as error:
                    step = Failed(error)
            case Wait(seconds):
                clock[0] = max(clock[0], now + seconds / 10)
                step = core.waited(clock[0])
            case Done() | Failed():
                return step


def live(seed: int, make: Callable[..., Updating] = Updating) -> list[Step]:
    """One world to its end; AssertionError if something that was reported is not so."""
    chance = random.Random(seed)
    service, clock = Service(chance), [0.0]
    running: dict[str, Any] = {}
    amounts = {f"op{number:06d}": number + 1 for number in range(UPDATES)}
    for name, amount in amounts.items():
        core = make(
            "p", operation=name, deadline=chance.choice([0.2, 5.0]), random=chance.random, has_rule=True
        )
        running[name] = worker(core, service, clock, amount)
    ends: dict[str, Step] = {}
    while running:
        name = chance.choice(list(running))
        service.meanwhile()
        try:
            next(running[name])
        except StopIteration as end:
            ends[name] = end.value
            del running[name]
    while service.late:
        service.land(service.late.pop())
    for name, end in ends.items():
        count = service.landed[name]
        if isinstance(end, Done):
            assert (end.update.outcome, count) == ("applied", 1), (seed, name, count)
        elif isinstance(end, Failed) and isinstance(end.error, OutcomeUnknown):
            assert count <= 1, (seed, name, count)
        else:
            assert count == 0, (seed, name, end, count)
    assert set(service.landed) <= set(amounts), seed
    assert service.item["n"] == sum(amounts[name] for name in service.landed), seed
    return list(ends.values())


def test_every_outcome_is_true_and_the_sum_is_exact() -> None:
    """In 400 worlds, with each kind of end among them."""
    ends = [end for seed in range(400) for end in live(seed)]
    applied = [end.update for end in ends if isinstance(end, Done)]
    failed = [end.error for end in ends if isinstance(end, Failed)]
    assert any(each.recovered for each in applied)
    assert any(each.conflicts > 1 for each in applied)
    assert any(isinstance(each, OutcomeUnknown) for each in failed)
    assert any(not isinstance(each, OutcomeUnknown) for each in failed)
    assert len(applied) > 2_000


class ConditionDropped(Updating):
    """Each write overwrites whatever is there."""

    def _replace(self, now: float) -> Step:
        step = super()._replace(now)
        return step._replace(etag="") if isinstance(step, Replace) else step


class OperationNotLookedFor(Updating):
    """What is in the item is taken for a stranger's."""

    def _read_back(self, now: float, theirs: dict[str, Any], etag: str | None) -> Step:
        mine, self._operation = self._operation, "nobody's"
        step = super()._read_back(now, theirs, etag)
        self._operation = mine
        return step._replace(body=self._body()) if isinstance(step, Replace) else step


class FreshIdForEachSend(Updating):
    """A second send of the same write has an id of its own."""

    def _replace(self, now: float) -> Step:
        if self._attempts:
            self._operation = f"{self._attempts:02d}{self._operation[2:]}"
        return super()._replace(now)


class DoubtsForgotten(Updating):
    """A write without an answer is taken for one that was refused."""

    def _write_failed(self, now: float, answer: Answer) -> Step:
        return super()._write_failed(now, answer._replace(sure=True))


class UnknownIsSuccess(Updating):
    """A write without an answer is taken for one that was applied."""

    def _write_failed(self, now: float, answer: Answer) -> Step:
        if answer.status is None:
            return self._applied(self._body(), '"?"', recovered=False)
        return super()._write_failed(now, answer)


class NothingHasToBeProved(Updating):
    """What the item does not tell any more is taken for not applied."""

    def _unknown(self, why: str, cause: BaseException | None = None) -> Step:
        if "does not tell" in why:
            self._doubts.clear()
            return self._read(0.0)
        return super()._unknown(why, cause)


@pytest.mark.parametrize(
    "mutant",
    [
        ConditionDropped,
        OperationNotLookedFor,
        FreshIdForEachSend,
        DoubtsForgotten,
        UnknownIsSuccess,
        NothingHasToBeProved,
    ],
)
def test_a_mutant_is_caught(mutant: type[Updating]) -> None:
    """Some world shows what is wrong with it."""
    with pytest.raises(AssertionError):
        for seed in range(400):
            live(seed, mutant)
