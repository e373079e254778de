"""What an audit log adds up to: attempts, contention, outages, waits and holds, and what to do about them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from azlatch.audit.events import Event
from azlatch.core import advice
from azlatch.core.contention import ALARM_ON, LEAST_ATTEMPTS
from azlatch.core.terms import Limits

#: A call that takes longer than this is slow, seconds; one that fails is an outage.
SLOW_CALL = 1.0
#: What advised ttls are kept within where no store says otherwise, seconds.
ADVICE_LIMITS = Limits(1.0, 86_400.0)

_FAILED = ("unavailable", "throttled", "denied", "misconfigured", "error")


class Histogram:
    """Counts of durations in buckets that grow by a quarter, from a millisecond up; exact maximum."""

    __slots__ = ("_buckets", "count", "maximum")

    _FIRST = 0.001
    _GROWTH = 1.25

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count = 0
        self.maximum = 0.0

    def add(self, seconds: float) -> None:
        bucket, edge = 0, self._FIRST
        while seconds > edge:
            bucket += 1
            edge *= self._GROWTH
        self._buckets[bucket] += 1
        self.count += 1
        self.maximum = max(self.maximum, seconds)

    def quantile(self, share: float) -> float:
        """The upper edge of the bucket in which that share of all is reached, seconds; 0.0 without any."""
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= share * self.count * (1 - 1e-12):
                return min(self._FIRST * self._GROWTH**bucket, self.maximum)
        return 0.0

    def to_dict(self) -> dict[str, float]:
        return {
            "count": self.count,
            "p50": round(self.quantile(0.5), 6),
            "p99": round(self.quantile(0.99), 6),
            "max": round(self.maximum, 6),
        }


@dataclass
class LatchStatistics:
    """One latch, or all of them.

    `contention` is first-attempt misses / attempts: a blocked acquire that succeeds in the end was contended
    all the same. Timeouts stand beside it.
    """

    name: str
    attempts: int = 0
    first_misses: int = 0
    grants: int = 0
    timeouts: int = 0
    slow: int = 0
    outages: int = 0
    errors: int = 0
    losses: Counter[str] = field(default_factory=Counter)
    breaks: int = 0
    rejected: int = 0
    renewals: int = 0
    renewal_failures: int = 0
    slowest_renewal: float = 0.0
    waits: Histogram = field(default_factory=Histogram)
    holds: Histogram = field(default_factory=Histogram)
    holders: Counter[str] = field(default_factory=Counter)
    open_since: dict[str, float] = field(default_factory=dict)
    newest: dict[str, tuple[float, str]] = field(default_factory=dict)

    @property
    def contention(self) -> float:
        return self.first_misses / self.attempts if self.attempts else 0.0

    @property
    def timeout_share(self) -> float:
        return self.timeouts / self.attempts if self.attempts else 0.0

    @property
    def alarm(self) -> str | None:
        """What to do about contention, or None: it is low, or the sample is small."""
        if self.attempts < LEAST_ATTEMPTS or self.contention <= ALARM_ON:
            return None
        busiest = ", ".join(f"{who} ({count})" for who, count in self.holders.most_common(3)) or "unknown"
        return (
            f"{self.name}: {self.contention:.0%} of {self.attempts} acquires found it held. This is an "
            f"architecture problem, not one of longer timeouts. Busiest holders: {busiest}. Split the name, so "
            "that work that does not conflict does not wait, or let a queue deliver one message at a time."
        )

    def to_dict(self, now: float | None = None) -> dict[str, Any]:
        oldest = min(self.open_since.values(), default=None)
        return {
            "name": self.name,
            "attempts": self.attempts,
            "first_attempt_misses": self.first_misses,
            "grants": self.grants,
            "contention": round(self.contention, 4),
            "timeouts": self.timeouts,
            "timeout_share": round(self.timeout_share, 4),
            "slow_store": self.slow,
            "outages": self.outages,
            "errors": self.errors,
            "losses": dict(self.losses),
            "breaks": self.breaks,
            "rejected_writes": self.rejected,
            "renewals": self.renewals,
            "renewal_failures": self.renewal_failures,
            "wait_s": self.waits.to_dict(),
            "hold_s": self.holds.to_dict(),
            "oldest_hold_s": round(now - oldest, 3) if now is not None and oldest is not None else None,
            "busiest_holders": dict(self.holders.most_common(3)),
            "advised_ttl_with_heartbeat_s": self.ttl_with_heartbeat,
            "advised_ttl_without_heartbeat_s": self.ttl_without_heartbeat,
            "alarm": self.alarm,
        }

    @property
    def ttl_with_heartbeat(self) -> float | None:
        """From measured renewals, seconds; None without any."""
        return advice.ttl_with_heartbeat(self.slowest_renewal, ADVICE_LIMITS) if self.renewals else None

    @property
    def ttl_without_heartbeat(self) -> float | None:
        """The longest known hold + 20 % and its margin, seconds; None without any."""
        return advice.ttl_without_heartbeat(self.holds.maximum, ADVICE_LIMITS) if self.holds.count else None


@dataclass
class Statistics:
    """All latches of a log, and their total."""

    total: LatchStatistics
    latches: dict[str, LatchStatistics]

    @classmethod
    def of(cls, events: Iterable[Event]) -> Statistics:
        """Adds up events, in any order that keeps each instance's own."""
        total, latches = LatchStatistics("all latches"), dict[str, LatchStatistics]()
        hosts: dict[str, str] = {}
        for event in events:
            if event.kind == "open":
                hosts[event.instance] = f"{event.facts.get('host', '?')}:{event.facts.get('pid', '?')}"
            elif event.name:
                one = latches.setdefault(event.name, LatchStatistics(event.name))
                for each in (one, total):
                    _add(each, event, hosts.get(event.instance, event.instance[:8]))
        return cls(total, latches)

    @property
    def alarms(self) -> list[str]:
        """The alarms of single latches, the busiest first."""
        worst = sorted(self.latches.values(), key=lambda each: -each.first_misses)
        return [each.alarm for each in worst if each.alarm is not None]

    def to_dict(self, now: float | None = None) -> dict[str, Any]:
        return {
            "total": self.total.to_dict(now),
            "latches": [each.to_dict(now) for _, each in sorted(self.latches.items())],
            "alarms": self.alarms,
        }


def _add(one: LatchStatistics, event: Event, who: str) -> None:
    facts = event.facts
    if event.kind in ("granted", "ended"):
        one.attempts += 1
        # Who waited behind others of its process never asked: that is a miss as well.
        outcome = facts.get("outcome")
        one.first_misses += event.number("misses") > 0 or outcome in ("timeout", "contended")
        one.waits.add(event.number("wait_s"))
        failed = event.number("failures") > 0 or outcome in ("unavailable", "throttled")
        one.outages += failed
        one.slow += event.number("slowest_s") > SLOW_CALL and not failed
        one.timeouts += outcome == "timeout"
        one.errors += outcome in _FAILED
    if event.kind == "granted":
        one.grants += 1
        one.holders[who] += 1
        _open(one, event)
    elif event.kind in ("released", "lost"):
        one.open_since.pop(str(facts.get("nonce")), None)
        one.holds.add(event.number("held_s"))
        one.renewals += int(event.number("renewals"))
        one.renewal_failures += int(event.number("renewal_failures"))
        one.slowest_renewal = max(one.slowest_renewal, event.number("slowest_renewal_s"))
        if event.kind == "lost":
            one.losses[str(facts.get("reason"))] += 1
    elif event.kind == "given-back":
        one.open_since.pop(str(facts.get("nonce")), None)
    elif event.kind == "broken":
        one.breaks += 1
    elif event.kind == "rejected":
        one.rejected += 1


def _open(one: LatchStatistics, event: Event) -> None:
    """A name has one hold at a time: a newer grant ends what a holder that died has left open."""
    nonce = str(event.facts.get("nonce"))
    before, other = one.newest.get(event.name, (-math.inf, ""))
    if event.wall >= before:
        one.open_since.pop(other, None)
        one.newest[event.name] = event.wall, nonce
        one.open_since[nonce] = event.wall
