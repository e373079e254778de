"""What happened to a latch at a time, in words: contention, slow store, outage, loss, break or race."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from azlatch.audit.events import Event
from azlatch.audit.statistics import SLOW_CALL

What = Literal["contention", "timeout", "slow store", "outage", "loss", "break", "race", "held", "nothing"]

#: Events this far from the time asked for are looked at, seconds.
WINDOW = 60.0


class Explanation(NamedTuple):
    """One thing that happened, most telling first."""

    what: What
    words: str
    events: tuple[Event, ...]


def why(events: Iterable[Event], name: str, at: float, *, window: float = WINDOW) -> list[Explanation]:
    """Explains what happened to `name` around `at` (seconds since the Unix epoch).

    Args:
        events: of all instances.
        name: the latch.
        at: when, wall time.
        window: seconds before and after that are looked at.
    """
    near = sorted(
        (event for event in events if event.name == name and _touches(event, at, window)),
        key=lambda event: event.wall,
    )
    found = [explanation for event in near if (explanation := _explain(event)) is not None]
    if not found:
        return [_quiet(name, window, near)]
    order: tuple[What, ...] = (
        "race",
        "loss",
        "break",
        "outage",
        "slow store",
        "timeout",
        "contention",
        "held",
        "nothing",
    )
    return sorted(found, key=lambda each: (order.index(each.what), abs(each.events[0].wall - at)))


def _quiet(name: str, window: float, near: list[Event]) -> Explanation:
    """What there is to say where nothing went wrong."""
    holders = tuple(event for event in near if event.kind == "granted")
    if holders:
        last = holders[-1]
        words = f"{name} was granted to {last.instance[:8]} with fence {last.fence}; nobody had to wait"
        return Explanation("held", words, holders)
    if near:
        words = f"nothing is known to have gone wrong with {name} within {window:g} s of that time"
        return Explanation("nothing", words, tuple(near))
    return Explanation("nothing", f"no event of {name} is within {window:g} s of that time", ())


def _touches(event: Event, at: float, window: float) -> bool:
    began = event.wall - (event.number("wait_s") or event.number("held_s"))
    return began - window <= at <= event.wall + window


def _explain(event: Event) -> Explanation | None:
    facts, who = event.facts, event.instance[:8]
    if event.kind == "rejected":
        words = (
            f"race: the gate {facts.get('gate')} refused a write with fence {event.fence}, because fence "
            f"{facts.get('newest')} had written: a holder that had lost the latch went on writing"
        )
        return Explanation("race", words, (event,))
    if event.kind == "lost":
        held = event.number("held_s")
        words = f"loss: instance {who} lost fence {event.fence} ({facts.get('reason')}) after {held:.3f} s"
        return Explanation("loss", words, (event,))
    if event.kind == "broken":
        words = f"break: {facts.get('by')} broke fence {event.fence}: {facts.get('reason')}"
        return Explanation("break", words, (event,))
    if event.kind not in ("granted", "ended"):
        return None
    wait, slowest, failures = event.number("wait_s"), event.number("slowest_s"), int(event.number("failures"))
    outcome = facts.get("outcome", "granted")
    if failures or outcome in ("unavailable", "throttled"):
        words = f"outage: {failures} calls of instance {who} failed within {wait:.3f} s ({outcome})"
        return Explanation("outage", words, (event,))
    if outcome in ("denied", "misconfigured", "error"):
        words = f"outage: the store was of no use to instance {who} ({outcome})"
        return Explanation("outage", words, (event,))
    if slowest > SLOW_CALL:
        words = f"slow store: a call of instance {who} took {slowest:.3f} s ({outcome})"
        return Explanation("slow store", words, (event,))
    if outcome == "timeout":
        holder = facts.get("holder") or "someone else"
        words = f"timeout: instance {who} waited {wait:.3f} s in vain; held by {holder}"
        return Explanation("timeout", words, (event,))
    if event.number("misses") or outcome == "contended":
        words = f"contention: instance {who} found it held, and waited {wait:.3f} s ({outcome})"
        return Explanation("contention", words, (event,))
    return None
