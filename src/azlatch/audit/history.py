"""Whether a history can be true: M1, M2 and M3, checked from the audit log alone.

Three-valued. *fail*: two events contradict a promise. *unknown*: a part is missing, torn or cannot be
ordered, so that nothing is proved. *pass*: everything is there and agrees. A failure outweighs what is
unknown, and a crash of the checker is unknown, never a pass.

What it can conclude, and from what:

* M2: per latch, every fence once, each grant's `prev` below its fence, no two grants with one `prev`, and no
  grant that was asked for after a higher fence had been granted. Gaps in fences are legal.
* M3: per gate, in the order in which it accepted, fences never fall. A gap in that order is unknown.
* M1: within one boot, by its one clock: a belief that lasted past the next grant. Across boots only where the
  grant says that its holder's boot was over; else unknown, or by wall clocks with the `max_skew` that the
  user vouches for. A break with `now` gives up M1 for the hold it broke, and is counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from azlatch.audit.events import Event
from azlatch.audit.log import Damage

Status = Literal["pass", "fail", "unknown"]


class Finding(NamedTuple):
    """One thing that is wrong, or that cannot be told; `events` are those that say so."""

    status: Literal["fail", "unknown"]
    rule: str
    name: str
    text: str
    events: tuple[Event, ...] = ()


@dataclass
class Verdict:
    """What a history proves."""

    status: Status = "pass"
    findings: list[Finding] = field(default_factory=list)
    grants: int = 0
    accepted: int = 0
    rejected: int = 0
    instances: int = 0
    breaks_now: int = 0

    def add(self, finding: Finding) -> None:
        self.findings.append(finding)
        if finding.status == "fail" or self.status == "pass":
            self.status = finding.status

    def count(self, rule: str, status: str = "fail") -> int:
        """How many findings of a rule there are."""
        return sum(finding.rule == rule and finding.status == status for finding in self.findings)


class _Hold(NamedTuple):
    granted: Event
    end: Event | None

    @property
    def fence(self) -> int:
        return self.granted.fence or 0


def check(events: Iterable[Event], damage: Sequence[Damage] = (), *, max_skew: float | None = None) -> Verdict:
    """The verdict on a history, in any order of its events.

    Args:
        events: of all instances and gates.
        damage: the parts of the log that could not be read.
        max_skew: seconds that the wall clocks of any two machines differed by at most, if the user knows.
    """
    verdict = Verdict()
    try:
        _check(list(events), damage, max_skew, verdict)
    except Exception as error:  # noqa: BLE001 - a checker that crashed has proved nothing
        verdict.add(Finding("unknown", "checker", "", f"the checker failed: {type(error).__name__}: {error}"))
    return verdict


def _check(events: list[Event], damage: Sequence[Damage], max_skew: float | None, verdict: Verdict) -> None:
    for part in damage:
        verdict.add(Finding("unknown", "log", "", f"{part.path}:{part.line}: {part.why}"))
    last_seen = _check_sequences(events, verdict)
    verdict.instances = len(last_seen)
    grants: dict[str, list[Event]] = defaultdict(list)
    ends: dict[tuple[str, str], Event] = {}
    gates: dict[str, list[Event]] = defaultdict(list)
    broken_now: set[tuple[str, int | None]] = set()
    for event in events:
        if event.kind == "granted":
            grants[event.name].append(event)
        elif event.kind in ("released", "lost"):
            ends[event.name, str(event.facts.get("nonce"))] = event
        elif event.kind == "accepted":
            gates[str(event.facts.get("gate"))].append(event)
        elif event.kind == "rejected":
            verdict.rejected += 1
        elif event.kind == "broken" and event.facts.get("now"):
            broken_now.add((event.name, event.fence))
    verdict.breaks_now = len(broken_now)
    for name, found in sorted(grants.items()):
        verdict.grants += len(found)
        found.sort(key=lambda event: event.fence or 0)
        _check_chain(name, found, verdict)
        holds = [_Hold(grant, ends.get((name, str(grant.facts.get("nonce"))))) for grant in found]
        _check_beliefs(name, holds, last_seen, broken_now, max_skew, verdict)
    for gate, found in sorted(gates.items()):
        verdict.accepted += len(found)
        _check_gate(gate, found, verdict)


def _check_sequences(events: list[Event], verdict: Verdict) -> dict[str, Event]:
    """Every instance's events, from 1 without a gap; returns the last one of each."""
    by_instance: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_instance[event.instance].append(event)
    for instance, found in by_instance.items():
        found.sort(key=lambda event: event.seq)
        expected = 1
        for event in found:
            if event.seq != expected:
                what = (
                    "is there twice" if event.seq < expected else f"follows {expected - 1}: a part is missing"
                )
                text = f"event {event.seq} of instance {instance[:8]} {what}"
                verdict.add(Finding("unknown", "log", event.name, text, (event,)))
            expected = event.seq + 1
    return {instance: found[-1] for instance, found in by_instance.items()}


def _check_chain(name: str, grants: list[Event], verdict: Verdict) -> None:
    """M2: one rising chain, that never forks and never goes back in time."""
    by_prev: dict[int, Event] = {}
    latest_request: dict[str, Event] = {}
    before: Event | None = None
    for grant in grants:
        if grant.fence is None:
            verdict.add(Finding("unknown", "M2", name, "a grant without a fence", (grant,)))
            continue
        if before is not None and before.fence == grant.fence:
            verdict.add(Finding("fail", "M2", name, f"fence {grant.fence} was granted twice", (before, grant)))
        prev = grant.facts.get("prev")
        if isinstance(prev, int):
            if prev >= grant.fence:
                text = f"fence {grant.fence} was granted after {prev}"
                verdict.add(Finding("fail", "M2", name, text, (grant,)))
            other = by_prev.setdefault(prev, grant)
            if other is not grant:
                text = f"fences {other.fence} and {grant.fence} both follow {prev}: the chain is forked"
                verdict.add(Finding("fail", "M2", name, text, (other, grant)))
        later = latest_request.get(grant.boot)
        if later is not None and grant.boot and _sent(later) > grant.at:
            text = f"fence {later.fence} was asked for after the higher {grant.fence} had been granted"
            verdict.add(Finding("fail", "M2", name, text, (grant, later)))
        if later is None or _sent(grant) > _sent(later):
            latest_request[grant.boot] = grant
        before = grant


def _check_beliefs(
    name: str,
    holds: list[_Hold],
    last_seen: dict[str, Event],
    broken_now: set[tuple[str, int | None]],
    max_skew: float | None,
    verdict: Verdict,
) -> None:
    """M1: nobody believes past the next grant. Holds come in the order of their fences."""
    # Of the holds before, the one that believed longest decides; one per boot, for each boot has its clock.
    longest: dict[str, _Hold] = {}
    before: _Hold | None = None
    for hold in holds:
        grant = hold.granted
        rival = longest.get(grant.boot)
        if rival is not None and rival.end is not None and _until(rival) > grant.at and grant.boot:
            text = (
                f"the holder of fence {rival.fence} believed for {_until(rival) - grant.at:.3f} s after fence "
                f"{hold.fence} had been granted"
            )
            verdict.add(Finding("fail", "M1", name, text, (rival.granted, rival.end, grant)))
        if before is not None:
            doubt = _doubt(before, hold, last_seen, max_skew)
            if doubt is not None:
                verdict.add(Finding(doubt[0], "M1", name, doubt[1], (before.granted, grant)))
        if (name, hold.fence) in broken_now:
            before = None
            continue
        if hold.end is not None and (rival is None or _until(hold) > _until(rival)):
            longest[grant.boot] = hold
        before = hold


def _doubt(
    before: _Hold, after: _Hold, last_seen: dict[str, Event], max_skew: float | None
) -> tuple[Literal["fail", "unknown"], str] | None:
    """What keeps M1 from being proved between two grants that follow each other, or None."""
    one, two = before.granted, after.granted
    takeover = two.facts.get("takeover")
    if before.end is None:
        last = last_seen[one.instance]
        if takeover in ("holder-died", "rebooted"):
            return None
        ended = last.kind != "close" and (last.boot != two.boot or last.at <= two.at)
        if takeover in ("expired", "observed") and ended:
            # The instance says nothing any more, and its ttl had passed by the rule that took it over.
            return None
        return "unknown", f"nothing tells when the hold with fence {before.fence} ended"
    if one.boot == two.boot != "" or takeover == "rebooted":
        return None
    if max_skew is None:
        return (
            "unknown",
            f"fences {before.fence} and {after.fence} are of two clocks: state --max-skew to compare",
        )
    overlap = _wall_until(before) - two.wall
    if overlap > max_skew:
        return "fail", f"the holder of {before.fence} believed {overlap:.3f} s past the grant of {after.fence}"
    if overlap > -max_skew:
        return "unknown", f"fences {before.fence} and {after.fence} are closer than the clocks' {max_skew:g} s"
    return None


def _check_gate(gate: str, accepted: list[Event], verdict: Verdict) -> None:
    """M3: in the gate's own order, fences never fall."""
    accepted.sort(key=lambda event: int(event.facts.get("order", 0)))
    newest: Event | None = None
    expected: int | None = None
    for event in accepted:
        order = int(event.facts.get("order", 0))
        if expected is not None and order != expected:
            status: Literal["fail", "unknown"] = "fail" if order < expected else "unknown"
            text = f"gate {gate} accepted number {order} where {expected} was due"
            verdict.add(Finding(status, "M3", event.name, text, (event,)))
        expected = order + 1
        if newest is not None and (event.fence or 0) < (newest.fence or 0):
            text = f"gate {gate} accepted fence {event.fence} after {newest.fence}"
            verdict.add(Finding("fail", "M3", event.name, text, (newest, event)))
        else:
            newest = event


def _sent(grant: Event) -> float:
    return float(grant.facts.get("sent", grant.at))


def _until(hold: _Hold) -> float:
    assert hold.end is not None
    return float(hold.end.facts.get("until", hold.end.at))


def _wall_until(hold: _Hold) -> float:
    assert hold.end is not None
    return hold.end.wall + _until(hold) - hold.end.at
