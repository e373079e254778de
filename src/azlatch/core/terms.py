"""The terms of a hold: how long it lives, when it is renewed, how long a call may take.

Checked once, across all fields, with messages that name both numbers. Rules T1 and T4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from azlatch.errors import UsageError


@dataclass(frozen=True, slots=True)
class Limits:
    """What a store allows, in seconds; and how many requests, one after the other, an acquire may take."""

    min_ttl: float
    max_ttl: float
    requests: int = 1


@dataclass(frozen=True, slots=True)
class Terms:
    """The checked terms of one hold; all in seconds.

    Attributes:
        ttl: how long the store keeps a grant that is not renewed.
        margin: what is taken off the ttl for safety: clock-rate drift, and time to act.
        renew_every: from one successful renewal to the next.
        max_hold: the most that a hold may last, or None.
        heartbeat: whether the heart renews at all.
        requests: how many requests, one after the other, an acquire may take at this store.
    """

    ttl: float
    margin: float
    renew_every: float
    max_hold: float | None
    heartbeat: bool
    requests: int = 1

    @property
    def life(self) -> float:
        """How long the holder believes after a request was sent: ttl - margin."""
        return self.ttl - self.margin

    @property
    def call_limit(self) -> float:
        """The most that one request may take (T4)."""
        return self.life / 3

    @property
    def acquire_limit(self) -> float:
        """The most that the requests of one try may take together: never more than a grant would live."""
        return min(self.call_limit * self.requests, self.life)

    def deadline(self, sent: float) -> float:
        """When belief ends, counted from *before* the last successful request was sent (T1)."""
        return sent + self.life


def paused(sent: float, sent_wall: float, now: float, wall: float, margin: float) -> bool:
    """Whether wall time outran the clock by more than the margin since something was sent (T3).

    Then the machine may have been frozen without its clocks moving, and a deadline on that clock says nothing.
    """
    return (wall - sent_wall) - (now - sent) > margin


def margin_of(ttl: float) -> float:
    """The safety margin of a ttl: max(10 % of it, 0.2 s) (T1)."""
    return max(0.1 * ttl, 0.2)


def terms_of(
    *,
    ttl: float,
    limits: Limits,
    renew_every: float | None = None,
    max_hold: float | None = None,
    heartbeat: bool = True,
) -> Terms:
    """Checks the caller's numbers against each other and the store's limits.

    Raises:
        UsageError: a number is not one, is out of the store's limits, or two of them do not fit together.
    """
    ttl = seconds("ttl", ttl)
    if not limits.min_ttl <= ttl <= limits.max_ttl:
        raise UsageError(
            f"ttl is {ttl:g} s and this store takes {limits.min_ttl:g} to {limits.max_ttl:g} s: "
            "choose a ttl in that range; work that takes longer is kept alive by the heartbeat"
        )
    margin = margin_of(ttl)
    most = (ttl - margin) / 2
    if renew_every is None:
        renew_every = (ttl - margin) / 3
    else:
        renew_every = seconds("renew_every", renew_every)
        if not 0 < renew_every < most:
            raise UsageError(
                f"renew_every is {renew_every:g} s and must be above 0 and under {most:g} s, half of what "
                f"ttl={ttl:g} leaves after its margin of {margin:g} s, so that one failed renewal can be "
                "repeated: lower renew_every or raise ttl"
            )
    if max_hold is not None:
        max_hold = seconds("max_hold", max_hold)
        if max_hold <= 0:
            raise UsageError(f"max_hold is {max_hold:g} s: give it seconds above 0, or None for no cap")
    return Terms(ttl, margin, renew_every, max_hold, heartbeat, limits.requests)


def timeout_of(timeout: float | None) -> float | None:
    """Checks how long an acquire may wait, in seconds; None waits for ever, 0 is one try.

    Raises:
        UsageError: negative, NaN or not a number.
    """
    if timeout is None:
        return None
    timeout = seconds("timeout", timeout, infinite=True)
    if timeout < 0:
        raise UsageError(
            f"timeout is {timeout:g} s: give it 0 for one try, seconds above 0, or None to wait for ever"
        )
    return None if math.isinf(timeout) else timeout


def seconds(field: str, value: object, *, infinite: bool = False) -> float:
    """Returns `value` as a finite number of seconds.

    Raises:
        UsageError: it is not a number, or NaN, or infinite where that is not allowed.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f"{field} is {value!r}: give it a number of seconds")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if math.isnan(number) or (math.isinf(number) and not infinite):
        raise UsageError(f"{field} is {value!r}: give it a finite number of seconds")
    return number
