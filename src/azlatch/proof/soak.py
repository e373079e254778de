"""The proof for hours, on Blob leases in Azurite, in bad weather: ``make soak HOURS=2``.

16 processes work through a fault proxy. Replies are lost before and after the request was carried out, requests
and replies are late, everything is swallowed for seconds, the service is busy, holders are killed and stopped, and
Azurite itself is away for longer than a lease lives and comes back with its data. Some of the processes are never
killed: they have to stay as large as they are.

It passes if the proof passes, enough happened, and nothing grew; see `azlatch.proof.growth`. Linux only.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import resource
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import azlatch
from azlatch.audit.log import rotated
from azlatch.errors import LatchError
from azlatch.lab.azurite import END_WITHIN, VERSION, Azurite
from azlatch.lab.faults import Rule
from azlatch.lab.proxy import FaultProxy
from azlatch.proof.growth import ALLOWED, Allowance, Curve, quarters
from azlatch.proof.run import Instance, Plan, Result, run

INSTANCES, SPARED, NAMES = 16, 6, 64
CONTAINER = "soak"
#: The shortest lease that Blob has, seconds.
TTL = 15.0
#: Seconds from one kill or stop to the next: most instances are at work at any time.
FAULT_PAUSE = 2.0
#: A run shorter than this cannot have an outage and end well, seconds.
SHORTEST = 120.0
#: With fewer grants per second on average nothing was shown.
LEAST_GRANTS = 1.0
#: The proxy remembers its newest requests, so this process grows for the first minutes; seconds.
PARENT_WARM = 1_200.0
#: As for the instances, but that the proxy has two descriptors for each connection of each of them.
PARENT_ALLOWED = {**ALLOWED, "descriptors": Allowance(0.10, 8.0 * INSTANCES)}
#: What may be written to the audit log per second, bytes: a multiple of what is, so that no part has to go.
_AUDIT_RATE, _AUDIT_PART = 200_000, 50_000_000
_SAY_EVERY = 30.0
#: Readings per process, at most.
_READINGS = 360
#: So long before the end the weather clears up, so that the instances end in time, seconds.
_CLEAR = 25.0

#: All the time, by chance per request.
ALWAYS = (
    "drop-reply p=0.01",
    "drop-request p=0.01",
    "reset p=0.003",
    "partial=20 p=0.003",
    "delay=0.4 p=0.02",
    "delay-reply=1.5 p=0.01",
)
OUTAGE = 20.0


@dataclass
class Spell:
    """Weather that comes, stays for `lasts` seconds, and goes; two of them never come together."""

    kind: str
    every: float
    lasts: float
    next: float = 0.0
    times: int = 0


@dataclass
class Weather:
    """What befalls the service while the instances work; called by the run, on its thread."""

    azurite: Azurite
    proxy: FaultProxy
    rng: Random
    until: float
    fired: Counter[str] = field(default_factory=Counter)
    slow_stops: int = 0
    _present: tuple[Spell, float, Rule | None] | None = None

    def __post_init__(self) -> None:
        outages = min(max(self.until / 3, 45.0), 600.0)
        self.spells = [
            Spell("black-hole", 35.0, 5.0),
            Spell("busy", 25.0, 3.0),
            Spell("outage", outages, OUTAGE, next=outages * 0.6),
        ]
        self._always = [self.proxy.add(rule) for rule in ALWAYS]
        for spell in self.spells:
            spell.next = spell.next or self.rng.uniform(0.3, 1.3) * spell.every

    def pass_by(self, now: float) -> None:
        """Begins what is due and ends what is over."""
        if self._present is not None:
            spell, end, rule = self._present
            if now < end:
                return
            self._present = None
            if rule is None:
                self.azurite.start()
            else:
                self.proxy.remove(rule)
                self.fired[spell.kind] += rule.fired
            spell.next = now + self.rng.uniform(0.7, 1.3) * spell.every
            return
        due = [spell for spell in self.spells if now >= spell.next]
        if due and now + due[0].lasts < self.until:
            self._begin(due[0], now)

    def end(self) -> None:
        """Clears up."""
        if self._present is not None and self._present[2] is None:
            self.azurite.start()
        self._present = None
        self.fired.update({str(rule).split()[0]: rule.fired for rule in self._always})
        self.proxy.clear()

    def _begin(self, spell: Spell, now: float) -> None:
        rule: Rule | None = None
        if spell.kind == "outage":
            began = time.monotonic()
            self.azurite.stop()
            # Then it was killed, and may have lost what it had not written yet.
            self.slow_stops += time.monotonic() - began >= END_WITHIN
        elif spell.kind == "busy":
            rule = self.proxy.add("status=503 code=ServerBusy retry-after=1 p=0.7")
        else:
            rule = self.proxy.add("black-hole")
        spell.times += 1
        self._present = spell, now + spell.lasts, rule


@dataclass
class Soak:
    """What was found: the proof's result, and what the processes used."""

    result: Result
    curves: list[Curve]
    parent: Curve
    weather: Weather
    audit_mb: float = 0.0
    audit_parts: int = 0
    disk_mb: float = 0.0
    judge_mb: float = 0.0
    reasons: list[str] = field(default_factory=list)

    @property
    def grants(self) -> int:
        return self.result.history.grants if self.result.history is not None else 0

    def judge(self) -> bool:
        """Whether it passes; the reasons say why not."""
        plan, result = self.result.plan, self.result
        self.reasons = list(result.reasons)
        if result.outcome != "pass":
            self.reasons.insert(0, f"the proof is {result.outcome}")
        if self.grants < LEAST_GRANTS * plan.seconds:
            self.reasons.append(
                f"{self.grants} grants are too few: {LEAST_GRANTS * plan.seconds:.0f} are wanted"
            )
        if self.weather.slow_stops:
            self.reasons.append(
                f"Azurite had to be killed {self.weather.slow_stops} times: its data may be old"
            )
        for spell in self.weather.spells:
            if not spell.times:
                self.reasons.append(f"no {spell.kind} came: run it for longer")
        if len(self.curves) < SPARED:
            self.reasons.append(f"{len(self.curves)} instances lived through, {SPARED} are wanted")
        for curve in self.curves:
            self.reasons.extend(curve.growth())
        warm = plan.seconds >= PARENT_WARM
        self.reasons.extend(
            self.parent.growth(
                {name: each for name, each in PARENT_ALLOWED.items() if warm or name != "rss_mb"}
            )
        )
        return not self.reasons


def main(arguments: list[str] | None = None) -> int:
    """0 if it passes, 1 if not, 69 where it cannot run."""
    parser = argparse.ArgumentParser(prog="python -m azlatch.proof.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0, help="how long (default 2; 0.05 is 3 minutes)")
    parser.add_argument("--seed", type=int, default=0, help="of all choices")
    parser.add_argument("--report", metavar="PATH", help="write PATH.json and PATH.md")
    parser.add_argument("--keep", metavar="FOLDER", help="an empty folder that keeps values, log and output")
    options = parser.parse_args(arguments)
    seconds = options.hours * 3600
    if not SHORTEST <= seconds <= 86_400:
        parser.error(f"--hours is {options.hours:g}: give it {SHORTEST / 3600:.3f} to 24")
    # So that Azurite and the folder go after SIGTERM, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with tempfile.TemporaryDirectory(prefix="azlatch-soak-") as temporary:
            soak = measure(seconds, options.seed, os.path.abspath(options.keep or temporary))
    except LatchError as error:
        print(f"azlatch: {error}", file=sys.stderr)
        return 69
    passed = soak.judge()
    facts = describe(soak, passed)
    text = page(facts)
    if options.report:
        base = options.report.removesuffix(".md").removesuffix(".json")
        os.makedirs(os.path.dirname(os.path.abspath(base)), exist_ok=True)
        for name, content in ((f"{base}.json", json.dumps(facts, indent=1) + "\n"), (f"{base}.md", text)):
            with open(name, "w", encoding="utf-8") as file:
                file.write(content)
    print(text)
    print(_last_line(facts))
    return 0 if passed else 1


def measure(seconds: float, seed: int, folder: str) -> Soak:
    """Runs it in `folder`. Raises as `Azurite.start` where there is no Azurite."""
    os.makedirs(folder, 0o700, exist_ok=True)
    plan = Plan(
        f"blob://devstoreaccount1/{CONTAINER}",
        folder,
        INSTANCES,
        NAMES,
        seconds,
        seed,
        alone=True,
        ttl=TTL,
        spared=SPARED,
        fault_pause=FAULT_PAUSE,
        audit_bytes=_AUDIT_PART,
        audit_parts=int(seconds * _AUDIT_RATE / _AUDIT_PART) + 2,
    )
    with (
        Azurite(location=os.path.join(folder, "azurite")) as azurite,
        FaultProxy(azurite, seed=seed) as proxy,
    ):
        # For the instances, which inherit it.
        os.environ.update(azurite.environment(proxy.port))
        with azlatch.connect(plan.url, create=True) as latches:
            latches.inspect("made")
        weather = Weather(azurite, proxy, Random(f"weather {seed}"), seconds - _CLEAR)
        watch = _Watch(seconds, weather)
        try:
            result = run(plan, watch.say, watch.attend)
        finally:
            weather.end()
    log = rotated(os.path.join(folder, "audit.jsonl"))
    return Soak(
        result,
        watch.long_lived(),
        watch.parent,
        weather,
        sum(file.stat().st_size for file in log) / 1e6,
        len(log),
        _size(folder) / 1e6,
        _peak_mb(),
    )


class _Watch:
    """Reads the processes, moves the weather on, and says how it goes."""

    def __init__(self, seconds: float, weather: Weather) -> None:
        self._seconds = seconds
        self._weather = weather
        self._every = max(1.0, seconds / _READINGS)
        self._next_reading, self._next_word = 0.0, _SAY_EVERY
        self._curves: dict[int, Curve] = {}
        self.parent = Curve("this process, with proxy and judge", os.getpid())

    def attend(self, now: float, instances: Sequence[Instance]) -> None:
        self._weather.pass_by(now)
        if now < self._next_reading or now > self._seconds:
            return
        self._next_reading = now + self._every
        self.parent.take(now)
        for each in instances:
            if each.number < SPARED and each.alive:
                self._curves.setdefault(each.number, Curve(f"instance {each.number}", each.process.pid)).take(
                    now
                )

    def say(self, share: float, result: Result) -> None:
        now = share * self._seconds
        if now < self._next_word:
            return
        self._next_word += _SAY_EVERY
        rss = [curve.readings[-1].rss_mb for curve in self._curves.values() if curve.readings]
        spells = ", ".join(f"{spell.times} {spell.kind}" for spell in self._weather.spells)
        print(
            f"soak: {now:,.0f} of {self._seconds:,.0f} s; {result.kills} killed, {result.pauses} stopped, "
            f"{result.crashes} crashed; {spells}; {statistics.median(rss) if rss else 0:.0f} MB an instance",
            file=sys.stderr,
            flush=True,
        )

    def long_lived(self) -> list[Curve]:
        """Of the spared instances that were there to the end."""
        return [curve for _, curve in sorted(self._curves.items())]


def describe(soak: Soak, passed: bool) -> dict[str, Any]:
    """The report as JSON."""
    proof = soak.result.to_dict()
    packages = ("azure-storage-blob", "azure-core", "requests")
    return {
        "verdict": "pass" if passed else "fail",
        "reasons": soak.reasons,
        "seconds": soak.result.plan.seconds,
        "seed": soak.result.plan.seed,
        "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "cores": os.cpu_count(),
            "load_average": [round(each, 2) for each in os.getloadavg()],
        },
        "versions": {
            "azlatch": azlatch.__version__,
            "python": platform.python_version(),
            "azurite": VERSION,
            **{name: importlib.metadata.version(name) for name in packages},
        },
        "grants": soak.grants,
        "events": len(soak.result.events),
        "audit_mb": round(soak.audit_mb, 1),
        "audit_parts": soak.audit_parts,
        "disk_mb": round(soak.disk_mb, 1),
        "peak_mb_of_this_process_with_the_judge": round(soak.judge_mb),
        "weather": {
            "spells": {spell.kind: spell.times for spell in soak.weather.spells},
            "requests": dict(sorted(soak.weather.fired.items())),
        },
        "proof": {key: value for key, value in proof.items() if key not in ("seconds", "seed", "reasons")},
        "allowed": {name: f"{each.share:.0%} + {each.constant:g}" for name, each in ALLOWED.items()},
        "curves": [
            {"label": curve.label, "readings": [list(each) for each in curve.readings]}
            for curve in [*soak.curves, soak.parent]
        ],
        "quarters": {
            curve.label: {name: [round(each, 1) for each in quarters(curve.series(name))] for name in ALLOWED}
            for curve in [*soak.curves, soak.parent]
        },
    }


def page(facts: dict[str, Any]) -> str:
    """The report as Markdown."""
    shown = {
        "machine": f"{facts['machine']['cores']} cores, {facts['machine']['system']}",
        "load average at the end": ", ".join(map(str, facts["machine"]["load_average"])),
        "versions": ", ".join(f"{name} {version}" for name, version in facts["versions"].items()),
        "seconds": f"{facts['seconds']:,.0f}",
        "seed": facts["seed"],
        "grants": f"{facts['grants']:,}",
        "audit log": f"{facts['events']:,} events, {facts['audit_mb']:,} MB in {facts['audit_parts']} files",
        "disk": f"{facts['disk_mb']:,} MB",
        "memory of the parent with the judge": f"{facts['peak_mb_of_this_process_with_the_judge']:,} MB",
        "weather": _listed(facts["weather"]["spells"]),
        "requests that met a fault": _listed(facts["weather"]["requests"]),
        **{
            key.replace("_", " "): _listed(value) if isinstance(value, dict) else value
            for key, value in facts["proof"].items()
            if key not in ("verdict", "protected")
        },
    }
    lines = [
        f"# Soak on Blob leases: {facts['verdict']}",
        "",
        f"`make soak HOURS={facts['seconds'] / 3600:g} SEED={facts['seed']}`, ended {facts['ended']}.",
        "",
        *(f"- {reason}" for reason in facts["reasons"]),
        *([""] if facts["reasons"] else []),
        "| what | value |",
        "|---|---|",
        *(f"| {key} | {value} |" for key, value in shown.items()),
        "",
        "Medians of the four quarters. Allowed from the second to the last: "
        + ", ".join(f"{name} {each}" for name, each in facts["allowed"].items())
        + f". Of this process the memory counts in runs of {PARENT_WARM / 60:g} minutes and more.",
        "",
        "| process | RSS, MB | threads | descriptors |",
        "|---|---|---|---|",
    ]
    for label, measures in facts["quarters"].items():
        cells = (", ".join(f"{each:g}" for each in measures[name]) for name in ALLOWED)
        lines.append(f"| {label} | {' | '.join(cells)} |")
    lines += [
        "",
        "RSS over time, MB:",
        "",
        "| process | " + " | ".join(f"{part}/12" for part in range(1, 13)) + " |",
    ]
    lines.append("|---|" + "---|" * 12)
    for curve in facts["curves"]:
        lines.append(f"| {curve['label']} | " + " | ".join(_twelfths(curve["readings"])) + " |")
    return "\n".join(lines) + "\n"


def _twelfths(readings: list[list[float]]) -> list[str]:
    if len(readings) < 12:
        return ["-"] * 12
    return [f"{readings[(part * len(readings)) // 12 - 1][1]:.0f}" for part in range(1, 13)]


def _listed(facts: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in facts.items())


def _last_line(facts: dict[str, Any]) -> str:
    proof = facts["proof"]
    return (
        f"soak: {facts['verdict'].upper()} after {facts['seconds']:,.0f} s: {facts['grants']:,} grants, "
        f"{proof['takeovers']} takeovers, {proof['lost_updates']} lost updates, {proof['overlaps']} overlaps, "
        f"{proof['stale_writes_accepted']} stale writes accepted, {proof['crashes']} crashes"
    )


def _size(folder: str) -> int:
    return sum(os.lstat(os.path.join(at, name)).st_size for at, _, names in os.walk(folder) for name in names)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
