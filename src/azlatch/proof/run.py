"""Runs a proof: starts the instances, does them harm, and judges what they left behind."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from azlatch.audit.events import Event
from azlatch.audit.history import Verdict, check
from azlatch.audit.log import Damage, read, rotated
from azlatch.audit.statistics import Statistics
from azlatch.errors import UsageError
from azlatch.proof.values import Accepted, Values

#: The ttl of the holds of a proof where the store takes one so short, seconds.
TTL = 1.0
#: How long a stopped holder is kept stopped, in ttls.
STOPPED = 1.8
STOPPED_LONG = 1.3
#: How long an instance works between reading and writing, at most, seconds.
THINK = 0.004
#: With fewer takeovers a run of `LONG_ENOUGH` ttls has not shown what it should; in a shorter one, which a
#: store with long leases has, as many for each ttl.
LEAST_TAKEOVERS = 20
LONG_ENOUGH = 15.0
#: Faults per second over all instances, at most, and per instance and ttl.
FAULT_RATE = 2.5
FAULT_SHARE = 0.75
#: How many instances may end otherwise than they should; with more of them the run is broken off.
MOST_CRASHES = 5
#: How long instances have to end after their time is over, seconds, with `LONGEST_HOLD` for what they have begun.
_PATIENCE = 30.0
#: The longest that an instance holds where leases are long, in ttls.
LONGEST_HOLD = 1.6

Outcome = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True)
class Plan:
    """What to prove, and where; `alone` says that nobody else uses the store.

    The first `spared` instances are stopped, but never killed. `fault_pause` is the least time from one kill or
    stop to the next, seconds. The audit log is kept in up to `audit_parts` files of `audit_bytes` and the present
    one; a part that had to go would leave the history unknown.
    """

    url: str
    folder: str
    instances: int = 16
    names: int = 8
    seconds: float = 20.0
    seed: int = 0
    protected: bool = True
    mutant: str = ""
    alone: bool = False
    ttl: float = TTL
    spared: int = 0
    fault_pause: float = 0.0
    audit_bytes: int = 50_000_000
    audit_parts: int = 5

    @property
    def stopped(self) -> float:
        """How long a stopped holder is kept stopped, seconds: past its ttl, and past its successor's grant."""
        return self.ttl * (STOPPED if self.ttl == TTL else STOPPED_LONG)

    @property
    def fault_every(self) -> float:
        """Seconds from one fault to the next; most instances are to be at work at any time."""
        return max(1 / FAULT_RATE, self.ttl / (self.instances * FAULT_SHARE), self.fault_pause)

    @property
    def least_takeovers(self) -> int:
        """How many takeovers show something, for a run of this length; 0 for a run too short to ask for any."""
        ttls = self.seconds / self.ttl
        if ttls >= LONG_ENOUGH:
            return LEAST_TAKEOVERS
        return int(ttls) if self.ttl > TTL and ttls >= 3 else 0

    def __post_init__(self) -> None:
        for name, value, most in (("instances", self.instances, 256), ("names", self.names, 10_000)):
            if not 1 <= value <= most:
                raise UsageError(f"{name} is {value}: give it 1 to {most:,}")
        if not 1 <= self.seconds <= 86_400:
            raise UsageError(f"seconds is {self.seconds:g}: give it 1 to 86,400")


@dataclass
class Fault:
    """One fault that reached an instance between its reading and its writing; it believed `until` then."""

    kind: str
    name: str
    fence: int | None
    at: float
    until: float | None = None


@dataclass
class Result:
    """What a proof found; `to_dict` is its JSON."""

    plan: Plan
    outcome: Outcome = "inconclusive"
    reasons: list[str] = field(default_factory=list)
    attempted: int = 0
    accepted: int = 0
    final_value: int = 0
    stale_writes_accepted: int = 0
    stale_writes_rejected: int = 0
    kills: int = 0
    pauses: int = 0
    takeover_s: list[float] = field(default_factory=list)
    takeovers: int = 0
    elapsed: float = 0.0
    errors: int = 0
    crashes: int = 0
    beliefs: list[tuple[str, int, float]] = field(default_factory=list)
    vain_beliefs: int = 0
    statistics: Statistics | None = None
    history: Verdict | None = None
    events: list[Event] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    @property
    def lost_updates(self) -> int:
        """Writes that were accepted and are not in the values."""
        return self.accepted - self.final_value

    def to_dict(self) -> dict[str, Any]:
        history, total = self.history, self.statistics.total if self.statistics is not None else None
        return {
            "verdict": self.outcome,
            "reasons": self.reasons,
            "protected": self.plan.protected,
            "instances": self.plan.instances,
            "names": self.plan.names,
            "seconds": self.plan.seconds,
            "seed": self.plan.seed,
            "attempted": self.attempted,
            "accepted": self.accepted,
            "final_value": self.final_value,
            "lost_updates": self.lost_updates,
            "overlaps": history.count("M1") + self.vain_beliefs if history is not None else None,
            "fence_regressions": history.count("M2") if history is not None else None,
            "stale_writes_accepted": self.stale_writes_accepted,
            "stale_writes_rejected": self.stale_writes_rejected,
            "kills": self.kills,
            "pauses": self.pauses,
            "takeovers": self.takeovers,
            "takeover_s": {
                "p50": round(statistics.median(self.takeover_s), 4) if self.takeover_s else None,
                "max": round(max(self.takeover_s), 4) if self.takeover_s else None,
            },
            "wait_s": {
                "p50": round(total.waits.quantile(0.5), 6) if total is not None else None,
                "p99": round(total.waits.quantile(0.99), 6) if total is not None else None,
            },
            "ops_per_second": round(self.accepted / self.elapsed, 1) if self.elapsed else 0.0,
            "contention": round(total.contention, 4) if total is not None else None,
            "errors": self.errors,
            "crashes": self.crashes,
        }


class Instance:
    """A worker process; its number is never used twice in a run."""

    def __init__(self, plan: Plan, number: int, until: float) -> None:
        self.number = number
        self.asked = False
        self.killed = False
        self.stopped_until: float | None = None
        self.done: dict[str, int] | None = None
        task = {
            "proof": os.getpid(),
            "url": plan.url,
            "audit": os.path.join(plan.folder, "audit.jsonl"),
            "values": os.path.join(plan.folder, "values.db"),
            "names": [f"value-{name}" for name in range(plan.names)],
            "until": until,
            "seed": f"{plan.seed}/{number}",
            "instance": f"i{number}",
            "protected": plan.protected,
            "ttl": plan.ttl,
            "think": THINK,
            "mutant": plan.mutant,
            "alone": plan.alone,
            "audit_bytes": plan.audit_bytes,
            "audit_parts": plan.audit_parts,
        }
        self.errors = open(os.path.join(plan.folder, f"stderr-{number}.txt"), "wb")  # noqa: SIM115 - closed in end()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "azlatch.proof.worker", json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            bufsize=0,  # what waits in a buffer, a select does not see
        )

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, fault: str) -> None:
        """Asks for a fault; it comes when the instance is between reading and writing."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.write(fault.encode() + b"\n")
            self.process.stdin.flush()
            self.asked = True

    def hear(self) -> dict[str, Any] | None:
        """What it says, if it has said something."""
        assert self.process.stdout is not None
        if self.process.stdout.closed or not select.select([self.process.stdout], [], [], 0)[0]:
            return None
        line = self.process.stdout.readline()
        if not line:
            return None
        said = json.loads(line)
        return said if isinstance(said, dict) else None

    def end(self) -> None:
        """Ends the process, stopped or not, by its id."""
        if self.alive:
            self.process.kill()
        self.process.wait(_PATIENCE)
        self.errors.close()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


#: What else happens in a run: called many times a second with the seconds since its start and those at work.
Attend = Callable[[float, Sequence[Instance]], None]


def run(
    plan: Plan, progress: Callable[[float, Result], None] | None = None, attend: Attend | None = None
) -> Result:
    """Runs the proof; `progress` is called several times a second with the share that is done."""
    result = Result(plan)
    rng = Random(plan.seed)
    Values(os.path.join(plan.folder, "values.db")).close()
    started = _now()
    end = started + plan.seconds
    instances = [Instance(plan, number, end) for number in range(plan.instances)]
    every = [*instances]
    next_fault = started + 1.0
    try:
        last = end + _PATIENCE + LONGEST_HOLD * plan.ttl
        while _now() < last and any(each.alive for each in instances):
            now = _now()
            for each in instances:
                _listen(each, result, now)
            if now < end - plan.ttl - plan.stopped and now >= next_fault:
                next_fault = now + plan.fault_every
                _harm(rng, instances, plan.spared)
            for index, each in enumerate(instances):
                if each.alive or each.done is not None or now >= end - 1.0:
                    continue
                each.end()
                result.crashes += not each.killed
                if result.crashes <= MOST_CRASHES:
                    # A supervisor would start another one in its place.
                    instances[index] = Instance(plan, len(every), end)
                    every.append(instances[index])
            if result.crashes > MOST_CRASHES:
                break
            if attend is not None:
                attend(now - started, instances)
            if progress is not None:
                progress(min((now - started) / plan.seconds, 1.0), result)
            time.sleep(0.02)
        for each in instances:
            _listen(each, result, _now())
            # Not broken off, so it had its time to end and to say so.
            result.crashes += result.crashes <= MOST_CRASHES and each.done is None and not each.killed
    finally:
        for each in every:
            each.end()
    result.elapsed = min(_now() - started, plan.seconds)
    _judge(result, every)
    return result


def _harm(rng: Random, instances: list[Instance], spared: int) -> None:
    free = [each for each in instances if each.alive and not each.asked and each.done is None]
    if free:
        chosen = rng.choice(free)
        chosen.ask("kill" if rng.random() < 0.5 and chosen.number >= spared else "stop")


def _listen(instance: Instance, result: Result, now: float) -> None:
    if instance.stopped_until is not None and now >= instance.stopped_until:
        instance.process.send_signal(signal.SIGCONT)
        instance.stopped_until, instance.asked = None, False
    while (said := instance.hear()) is not None:
        _take(said, instance, result, now)


def _take(said: dict[str, Any], instance: Instance, result: Result, now: float) -> None:
    if "done" in said:
        instance.done = said["done"]
        return
    if "believed" in said:
        result.beliefs.append((said["believed"], said["fence"], said["at"]))
        return
    result.faults.append(Fault(said["fault"], said["name"], said["fence"], now, said["until"]))
    if said["fault"] == "kill":
        instance.process.kill()
        instance.process.wait(_PATIENCE)
        instance.killed = True
        result.kills += 1
    else:
        # Its own SIGSTOP follows what it said at once.
        instance.stopped_until = now + result.plan.stopped
        result.pauses += 1


def _judge(result: Result, every: list[Instance]) -> None:
    plan = result.plan
    values = Values(os.path.join(plan.folder, "values.db"))
    journal = values.journal()
    result.final_value = values.total()
    values.close()
    result.accepted = sum(each.value is not None for each in journal)
    done = [each.done for each in every if each.done is not None]
    result.attempted = max(sum(each["attempted"] for each in done), result.accepted)
    result.errors = sum(each["errors"] for each in done)
    result.stale_writes_accepted = _stale(journal)
    if result.lost_updates:
        result.reasons.append(f"{result.lost_updates} updates were lost")
    if result.stale_writes_accepted:
        result.reasons.append(f"{result.stale_writes_accepted} stale writes were accepted")
    if result.crashes:
        last = _last_words(plan.folder)
        result.reasons.append(f"{result.crashes} instances did not end as they should: {last}")
    if plan.protected:
        _judge_history(result, journal)
    elif result.crashes and not result.lost_updates:
        result.outcome = "inconclusive"
    else:
        result.outcome = "fail" if result.lost_updates else "pass"


def _judge_history(result: Result, journal: list[Accepted]) -> None:
    damage: list[Damage] = []
    log = os.path.join(result.plan.folder, "audit.jsonl")
    result.events = list(read(rotated(log), damage))
    # The gates' order comes from their journal, not from what the instances lived to say of it.
    result.history = check([*result.events, *_deaths(result), *_passages(journal)], damage)
    result.statistics = Statistics.of(result.events)
    result.stale_writes_rejected = result.history.rejected
    _measure_takeovers(result)
    result.reasons.extend(f"{each.rule} {each.status}: {each.text}" for each in result.history.findings[:20])
    result.vain_beliefs = _vain_beliefs(result)
    if result.vain_beliefs:
        result.reasons.append(f"M1 fail: {result.vain_beliefs} holders believed after a newer grant")
    failed = (
        result.lost_updates
        or result.vain_beliefs
        or result.stale_writes_accepted
        or result.history.status == "fail"
    )
    if failed:
        result.outcome = "fail"
        return
    if result.history.status == "unknown" or result.crashes:
        result.outcome = "inconclusive"
    elif (least := result.plan.least_takeovers) and (
        result.takeovers < least or not result.stale_writes_rejected
    ):
        result.outcome = "inconclusive"
        result.reasons.append(
            f"{result.takeovers} takeovers and {result.stale_writes_rejected} refused stale writes are too few "
            f"to prove anything: at least {least} and 1 are wanted"
        )
    elif result.accepted == 0:
        result.outcome = "inconclusive"
        result.reasons.append("nothing was written at all")
    else:
        result.outcome = "pass"


def _vain_beliefs(result: Result) -> int:
    """How often a holder that had been stopped still believed, and a newer hold had been granted before."""
    granted: dict[str, list[Event]] = {}
    for event in result.events:
        if event.kind == "granted" and event.fence is not None:
            granted.setdefault(event.name, []).append(event)
    return sum(
        any(
            later.fence is not None and later.fence > fence and later.at < at for later in granted.get(name, [])
        )
        for name, fence, at in result.beliefs
    )


def _last_words(folder: str) -> str:
    """The last line that an instance wrote to its standard error."""
    for name in sorted(os.listdir(folder)):
        if name.startswith("stderr-"):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
            if lines:
                return f"{name}: {lines[-1]}"
    return "they said nothing"


def _deaths(result: Result) -> list[Event]:
    """How the holds of killed instances ended, as far as they did not say it: that is known here.

    The next grant need not say it: it may follow one that nobody heard of, whose reply was lost.
    """
    grants = {(event.name, event.fence): event for event in result.events if event.kind == "granted"}
    ended = {
        (event.instance, event.facts.get("nonce"))
        for event in result.events
        if event.kind in ("released", "lost")
    }
    last: dict[str, Event] = {}
    for event in result.events:
        if event.instance not in last or event.seq > last[event.instance].seq:
            last[event.instance] = event
    deaths = []
    for fault in result.faults:
        grant = grants.get((fault.name, fault.fence)) if fault.kind == "kill" else None
        if grant is None or (grant.instance, grant.facts.get("nonce")) in ended:
            continue
        before = last[grant.instance]
        at = max(fault.at, before.at)
        facts = {
            "name": fault.name,
            "nonce": grant.facts.get("nonce"),
            "fence": fault.fence,
            "reason": "owner-died",
            "until": min(fault.at, fault.until if fault.until is not None else fault.at),
        }
        wall = before.wall + at - before.at
        deaths.append(Event("lost", before.seq + 1, wall, at, before.boot, grant.instance, facts))
    return deaths


def _passages(journal: list[Accepted]) -> list[Event]:
    """The journal as a history's events, of one instance that is the gates themselves."""
    return [
        Event(
            "accepted",
            number,
            0.0,
            0.0,
            "",
            "gates",
            {"gate": each.name, "order": each.order, "fence": each.fence},
        )
        for number, each in enumerate(journal, 1)
    ]


def _stale(journal: list[Accepted]) -> int:
    """Writes with an older fence than one that their gate had accepted before."""
    newest: dict[str, int] = {}
    stale = 0
    for each in journal:
        if each.fence is None:
            continue
        stale += each.fence < newest.get(each.name, 0) and each.value is not None
        newest[each.name] = max(each.fence, newest.get(each.name, 0))
    return stale


def _measure_takeovers(result: Result) -> None:
    """From the end of the one who did not release to the grant of the next."""
    died = {(fault.name, fault.fence): fault.at for fault in result.faults if fault.kind == "kill"}
    until: dict[tuple[str, int | None], float] = {}
    for event in result.events:
        if event.kind == "lost":
            until[event.name, event.fence] = float(event.facts.get("until", event.at))
    for event in result.events:
        if event.kind != "granted" or "takeover" not in event.facts:
            continue
        result.takeovers += 1
        before = (event.name, event.facts.get("prev"))
        ended = died.get(before, until.get(before))
        if ended is not None:
            result.takeover_s.append(max(event.at - ended, 0.0))


def _now() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
