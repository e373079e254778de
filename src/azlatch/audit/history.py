"""Whether a history can be true: M1, M2, M3 and B1, checked from the audit log alone.

Three-valued. *fail*: two events contradict a promise. *unknown*: a part is missing, torn or cannot be
ordered, so that nothing is proved. *pass*: everything is there and agrees. A failure outweighs what is
unknown, and a crash of the checker is unknown, never a pass. A line that was read twice is one event.

What it can conclude, and from what:

* M2: per latch, every fence once, each grant's `prev` below its fence and not below an earlier grant, no two
  grants with one `prev`, and no grant that was asked for after a higher fence had been granted. Gaps in
  fences are legal. An embedded store that forgot grants with a power loss forks the chain from one boot to
  the next without a fence coming twice: that is unknown.
* M3: per gate, in the order in which it accepted, fences never fall. A gap in that order is unknown.
* M1: within one boot, by its one clock: a belief that lasted past the next grant. Across boots only where the
  grant says that its holder was dead or its boot over; else unknown, or by wall clocks with the `max_skew`
  that the user vouches for. A hold without an end is over only if the next grant names it as the one before,
  says by which rule it was taken over, and its instance has said nothing since. A break with `now` gives up
  M1 for the hold it broke, and is counted. Of a grant that reached nobody, nobody believed anything.
* B1: within one boot: the holder of a hold that was broken believed for no longer than its ttl after that.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from azlatch.audit.events import Event
from azlatch.audit.log import Damage

Status = Literal["pass", "fail", "unknown"]

#: A latch and a nonce, or a latch and a fence.
_Key = tuple[str, str | int]


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

    def fail(self, rule: str, name: str, text: str, *events: Event) -> None:
        self.add(Finding("fail", rule, name, text, events))

    def doubt(self, rule: str, name: str, text: str, *events: Event) -> None:
        self.add(Finding("unknown", rule, name, text, events))

    def count(self, rule: str, status: str = "fail") -> int:
        """How many findings of a rule there are."""
        return sum(finding.rule == rule and finding.status == status for finding in self.findings)


class _Hold(NamedTuple):
    """A grant that says all that is needed. `until` is when belief ended, None where nothing tells."""

    granted: Event
    fence: int
    prev: int | None
    sent: float
    end: Event | None
    until: float | None
    reached: bool


class _Instance(NamedTuple):
    """The last thing that an instance said, `close` apart; the embedded store forgets with the power."""

    last: Event
    embedded: bool


@dataclass
class _Case:
    """All events, by what they are about."""

    max_skew: float | None
    verdict: Verdict
    instances: dict[str, _Instance] = field(default_factory=dict)
    grants: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    ends: dict[_Key, Event] = field(default_factory=dict)
    given_back: set[_Key] = field(default_factory=set)
    in_vain: dict[tuple[str, object], int] = field(default_factory=dict)
    breaks: dict[_Key, list[Event]] = field(default_factory=lambda: defaultdict(list))
    gates: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))


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
        verdict.doubt("checker", "", f"the checker failed: {type(error).__name__}: {error}")
    return verdict


def _check(events: list[Event], damage: Sequence[Damage], max_skew: float | None, verdict: Verdict) -> None:
    for part in damage:
        verdict.doubt("log", "", f"{part.path}:{part.line}: {part.why}")
    if not events:
        verdict.doubt("log", "", "there is no event: nothing is proved")
    case = _Case(max_skew, verdict)
    _sort(_check_sequences(events, case), case)
    for name, grants in sorted(case.grants.items()):
        verdict.grants += len(grants)
        holds = _holds(name, grants, case)
        _check_chain(name, holds, case)
        _check_beliefs(name, holds, case)
    for gate, accepted in sorted(case.gates.items()):
        verdict.accepted += len(accepted)
        _check_gate(gate, accepted, verdict)


def _check_sequences(events: list[Event], case: _Case) -> list[Event]:
    """Every instance's events, from 1 without a gap and on one clock; returns them, each of them once."""
    by_instance: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_instance[event.instance].append(event)
    distinct: list[Event] = []
    for instance, found in by_instance.items():
        found.sort(key=lambda event: event.seq)
        before: Event | None = None
        last, embedded = found[0], False
        for event in found:
            if event == before:
                continue
            distinct.append(event)
            expected = before.seq + 1 if before is not None else 1
            who = f"event {event.seq} of instance {instance[:8]}"
            if event.seq != expected:
                missing = f"follows {expected - 1}: a part is missing"
                what = "is there twice" if event.seq < expected else missing
                case.verdict.doubt("log", event.name, f"{who} {what}", event)
            if before is not None and (event.boot != before.boot or event.at < before.at):
                text = f"{who} has another clock, or it went back"
                case.verdict.doubt("log", event.name, text, before, event)
            if event.kind != "close":
                last = event
            embedded |= event.kind == "open" and event.facts.get("store") == "sqlite"
            before = event
        case.instances[instance] = _Instance(last, embedded)
    case.verdict.instances = len(case.instances)
    return distinct


def _sort(events: list[Event], case: _Case) -> None:
    for event in events:
        key = event.name, str(event.facts.get("nonce"))
        if event.kind == "granted":
            case.grants[event.name].append(event)
        elif event.kind in ("released", "lost"):
            other = case.ends.get(key)
            if _number(event, "until") is None:
                case.verdict.doubt("log", event.name, "a hold ended, and its event does not say when", event)
            elif other is None or (_number(other, "until") or 0.0) < (_number(event, "until") or 0.0):
                case.ends[key] = event
        elif event.kind == "given-back":
            case.given_back.add(key)
        elif event.kind == "ended":
            case.in_vain[event.instance, event.facts.get("acquire")] = event.seq
        elif event.kind == "broken" and event.fence is not None:
            case.breaks[event.name, event.fence].append(event)
        elif event.kind == "accepted":
            case.gates[str(event.facts.get("gate", ""))].append(event)
        elif event.kind == "rejected":
            case.verdict.rejected += 1
    case.verdict.breaks_now = sum(any(map(_is_now, found)) for found in case.breaks.values())


def _holds(name: str, grants: list[Event], case: _Case) -> list[_Hold]:
    """The grants of a latch in the order of their fences; those that do not say what is needed are left out."""
    holds: list[_Hold] = []
    nonces: dict[str, Event] = {}
    for grant in grants:
        fence, nonce, sent = grant.fence, grant.facts.get("nonce"), _number(grant, "sent")
        if fence is None or not nonce or not isinstance(nonce, str) or sent is None:
            case.verdict.doubt("log", name, "a grant without its fence, nonce or time of request", grant)
            continue
        other = nonces.setdefault(nonce, grant)
        if other is not grant:
            case.verdict.doubt("log", name, f"fences {other.fence} and {fence} have one nonce", other, grant)
        end = case.ends.get((name, nonce))
        if end is not None and end.instance != grant.instance:
            text = f"fence {fence} was granted to one instance, and another says how it ended"
            case.verdict.doubt("log", name, text, grant, end)
            end = None
        given_back = (name, nonce) in case.given_back
        in_vain = case.in_vain.get((grant.instance, grant.facts.get("acquire", nonce)), 0) > grant.seq
        prev = grant.facts.get("prev")
        holds.append(
            _Hold(
                grant,
                fence,
                prev if isinstance(prev, int) else None,
                sent,
                end,
                _number(end, "until") if end is not None else None,
                end is not None or not (given_back or in_vain),
            )
        )
    holds.sort(key=lambda hold: hold.fence)
    return holds


def _check_chain(name: str, holds: list[_Hold], case: _Case) -> None:
    """M2: one rising chain, that never forks and never goes back in time."""
    by_prev: dict[int, _Hold] = {}
    latest: dict[str, _Hold] = {}
    latest_wall: _Hold | None = None
    before: _Hold | None = None
    verdict = case.verdict
    for hold in holds:
        grant, fence = hold.granted, hold.fence
        if before is not None and before.fence == fence:
            verdict.fail("M2", name, f"fence {fence} was granted twice", before.granted, grant)
        if hold.prev is not None:
            if hold.prev >= fence:
                verdict.fail("M2", name, f"fence {fence} was granted after {hold.prev}", grant)
            other = by_prev.setdefault(hold.prev, hold)
            if other is hold and before is not None and hold.prev < before.fence < fence:
                # Whoever granted this one had not heard of the one before.
                other = before
            if other is not hold:
                _add_fork(name, other, hold, case)
        later = latest.get(_clock(grant))
        if later is not None and later.sent > grant.at:
            text = f"fence {later.fence} was asked for after the higher {fence} had been granted"
            verdict.fail("M2", name, text, grant, later.granted)
        elif (
            latest_wall is not None
            and case.max_skew is not None
            and _sent_wall(latest_wall) - grant.wall > case.max_skew
        ):
            text = f"fence {latest_wall.fence} was asked for after the higher {fence}, by the wall clocks"
            verdict.fail("M2", name, text, grant, latest_wall.granted)
        if later is None or hold.sent > later.sent:
            latest[_clock(grant)] = hold
        if latest_wall is None or _sent_wall(hold) > _sent_wall(latest_wall):
            latest_wall = hold
        before = hold


def _add_fork(name: str, one: _Hold, other: _Hold, case: _Case) -> None:
    text = f"fence {other.fence} follows {other.prev} and knows nothing of {one.fence}: the chain is forked"
    embedded = all(case.instances[hold.granted.instance].embedded for hold in (one, other))
    if embedded and "" != one.granted.boot != other.granted.boot != "":
        # Fences rose all the same, and whoever had the one that is forgotten went down with the machine.
        case.verdict.doubt("M2", name, f"{text} from one boot to the next", one.granted, other.granted)
    else:
        case.verdict.fail("M2", name, text, one.granted, other.granted)


def _check_beliefs(name: str, holds: list[_Hold], case: _Case) -> None:
    """M1: nobody believes past the next grant. Holds come in the order of their fences."""
    # Of the holds before, the one that believed longest decides; one per clock.
    longest: dict[str, tuple[float, _Hold]] = {}
    before: _Hold | None = None
    for hold in holds:
        grant = hold.granted
        until, rival = longest.get(_clock(grant), (0.0, hold))
        if rival is not hold and until > grant.at:
            text = (
                f"the holder of fence {rival.fence} believed for {until - grant.at:.3f} s after fence "
                f"{hold.fence} had been granted"
            )
            events = [event for event in (rival.granted, rival.end, grant) if event is not None]
            case.verdict.fail("M1", name, text, *events)
        if before is not None:
            doubt = _doubt(name, before, hold, case)
            if doubt is not None:
                case.verdict.add(Finding(doubt[0], "M1", name, doubt[1], (before.granted, grant)))
        if not hold.reached:
            # Nobody believed; but an earlier one whose end is known is still to be compared with the next.
            before = before if before is not None and before.until is not None else None
            continue
        breaks = case.breaks.get((name, hold.fence), [])
        _check_breaks(name, hold, breaks, case)
        if any(map(_is_now, breaks)):
            before = None
            continue
        # Where the break itself is not in the log, nothing tells whether it gave up M1.
        if hold.until is not None and (breaks or not _was_broken(hold)):
            longest[_clock(grant)] = max(
                longest.get(_clock(grant), (hold.until, hold)), (hold.until, hold), key=lambda each: each[0]
            )
        before = hold


def _check_breaks(name: str, hold: _Hold, breaks: list[Event], case: _Case) -> None:
    """B1: whoever was broken cannot renew any more, so that belief ends within a ttl."""
    ttl = _number(hold.granted, "ttl")
    for event in breaks:
        if hold.until is None or ttl is None or _clock(event) != _clock(hold.granted):
            continue
        if hold.until > event.at + ttl:
            text = (
                f"fence {hold.fence} was broken, and its holder believed for {hold.until - event.at:.3f} s more"
            )
            case.verdict.fail("B1", name, text, hold.granted, event)
            return


def _doubt(
    name: str, before: _Hold, after: _Hold, case: _Case
) -> tuple[Literal["fail", "unknown"], str] | None:
    """What keeps M1 from being proved between two grants that follow each other, or None."""
    one, two = before.granted, after.granted
    # A rule by which another one than `before` was taken over says nothing of `before`.
    rule = two.facts.get("takeover") if after.prev == before.fence else None
    if rule == "rebooted" and "" != one.boot == two.boot:
        return "unknown", f"fence {after.fence} says that another boot had fence {before.fence}: it is the same"
    breaks = case.breaks.get((name, before.fence), [])
    if before.until is None:
        at_once = any(_number(each, "free_in") == 0.0 for each in breaks)
        if rule is None and at_once:
            # The store freed it with the break, for its holder was dead or its ttl had passed.
            rule = "broken"
        return _doubt_of_silence(before, after, rule, case)
    if _clock(one) == _clock(two):
        if not breaks and _was_broken(before) and before.until > two.at:
            text = (
                f"the holder of fence {before.fence} was broken and believed past fence {after.fence}; the "
                "break is not in the log: it may have been one that gives up M1"
            )
            return "unknown", text
        return None
    if rule in ("rebooted", "holder-died"):
        return None
    if case.max_skew is None:
        return (
            "unknown",
            f"fences {before.fence} and {after.fence} are of two clocks: state --max-skew to compare",
        )
    assert before.end is not None
    overlap = before.end.wall + before.until - before.end.at - two.wall
    if overlap > case.max_skew:
        return "fail", f"the holder of {before.fence} believed {overlap:.3f} s past the grant of {after.fence}"
    if overlap > -case.max_skew:
        return (
            "unknown",
            f"fences {before.fence} and {after.fence} are closer than the clocks' {case.max_skew:g} s",
        )
    return None


def _doubt_of_silence(
    before: _Hold, after: _Hold, rule: object, case: _Case
) -> tuple[Literal["fail", "unknown"], str] | None:
    """The same where no event tells the end of the earlier hold."""
    one, two = before.granted, after.granted
    if rule not in ("holder-died", "rebooted", "expired", "observed", "broken"):
        return "unknown", f"nothing tells when the hold with fence {before.fence} ended"
    last = case.instances[one.instance].last
    if _clock(last) == _clock(two):
        if last.at > two.at:
            text = (
                f"fence {before.fence} was taken over ({rule}), and its instance went on without an end of it"
            )
            return "unknown", text
        deadline = _number(one, "until")
        if rule in ("expired", "observed") and deadline is not None and two.at < deadline:
            return "unknown", f"fence {before.fence} was taken over ({rule}) before its deadline"
    elif rule in ("expired", "observed", "broken") and (
        case.max_skew is None or last.wall - two.wall > -case.max_skew
    ):
        text = f"nothing tells whether the holder of fence {before.fence} was silent before fence {after.fence}"
        return "unknown", text
    return None


def _check_gate(gate: str, accepted: list[Event], verdict: Verdict) -> None:
    """M3: in the gate's own order, fences never fall."""
    ordered: list[tuple[int, Event]] = []
    for event in accepted:
        order = event.facts.get("order")
        if isinstance(order, int) and gate:
            ordered.append((order, event))
        else:
            verdict.doubt("M3", event.name, f"gate {gate} accepted a write and does not say when", event)
    ordered.sort(key=lambda pair: pair[0])
    newest: Event | None = None
    expected: int | None = None
    for order, event in ordered:
        if expected is not None and order != expected:
            status: Literal["fail", "unknown"] = "fail" if order < expected else "unknown"
            text = f"gate {gate} accepted number {order} where {expected} was due"
            verdict.add(Finding(status, "M3", event.name, text, (event,)))
        expected = order + 1
        if event.fence is None:
            verdict.fail("M3", event.name, f"gate {gate} accepted a write without a fence", event)
        elif newest is not None and newest.fence is not None and event.fence < newest.fence:
            text = f"gate {gate} accepted fence {event.fence} after {newest.fence}"
            verdict.fail("M3", event.name, text, newest, event)
        else:
            newest = event


def _number(event: Event, key: str) -> float | None:
    value = event.facts.get(key)
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None  # type: ignore[arg-type]


def _clock(event: Event) -> str:
    """Which clock its `at` is of: its boot's, or where that is not known its instance's own."""
    return event.boot or f"instance {event.instance}"


def _sent_wall(hold: _Hold) -> float:
    return hold.granted.wall - (hold.granted.at - hold.sent)


def _is_now(event: Event) -> bool:
    return bool(event.facts.get("now"))


def _was_broken(hold: _Hold) -> bool:
    return hold.end is not None and hold.end.facts.get("reason") == "broken"
