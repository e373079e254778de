"""What ttl to choose, from what was measured."""

from __future__ import annotations

import math

from azlatch.core.terms import Limits, margin_of

#: How many renewals may fail in a row, each as slow as the slowest seen, before the hold is lost.
_SPARE_RENEWALS = 3


def ttl_without_heartbeat(longest_hold: float, limits: Limits) -> float:
    """The longest known hold + 20 %, and its margin; seconds, whole, within the store's limits."""
    return _within(longest_hold * 1.2, limits)


def ttl_with_heartbeat(slowest_renewal: float, limits: Limits, *, longest_pause: float = 0.0) -> float:
    """Long enough for three renewals as slow as the slowest seen, and the longest pause of the process.

    How long the work takes does not matter with a heartbeat. A shorter ttl frees the name of a crashed
    holder sooner; a longer one costs fewer calls and survives longer stalls.
    """
    return _within(max(_SPARE_RENEWALS * slowest_renewal, slowest_renewal + longest_pause) * 1.2, limits)


def _within(life: float, limits: Limits) -> float:
    ttl = math.ceil(max(life / 0.9, life + 0.2))
    while ttl - margin_of(ttl) < life:
        ttl += 1
    return min(max(float(ttl), limits.min_ttl), limits.max_ttl)
