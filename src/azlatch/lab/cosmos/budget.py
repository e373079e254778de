"""The request units that one physical partition may spend, and when to come back if they are spent.

A bucket of one second is refilled at the rate. A request is let in while something is in it, and what it
cost, which is known only afterwards, is taken out, even below zero: so one expensive request keeps the next
ones out for longer.

Burst capacity, by the documentation: what idles is banked, up to 300 seconds of the rate, and is spent at up
to 3,000 RU/s in all; partitions at 3,000 RU/s or more have none.

A logical key has a limit of its own, 10,000 RU/s by the documentation. A request that only it keeps out is
told so by another substatus.

The model is one of averages: the service's own windows are not documented.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

from azlatch.lab.cosmos.usage import Second, Usage

#: The most that a physical partition, and a logical key, can spend; RU/s.
MOST_RATE = 10_000.0
#: What a new container with more than one physical partition gets for each, manual throughput; RU/s.
NEW_PARTITION_RATE = 6_000.0
#: Up to where banked units are spent, and below which they are banked; RU/s.
BURST_RATE = 3_000.0
#: How much is banked at most, seconds of the rate.
BURST_S = 300.0

#: Substatus of a 429: the units of the physical partition, or of the logical key, are spent.
PARTITION_SPENT = 3200
KEY_SPENT = 3214

#: Logical keys whose use is remembered; beyond, the one that was used longest ago is forgotten, as if it had
#: idled.
_MOST_KEYS = 4_096
#: Milliseconds by which a wait is longer than it must be, so that rounding of a clock cannot make it too short.
_SAFE_MS = 0.01


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is not let in: the substatus of its 429, and after how long it would be."""

    substatus: int
    retry_after_ms: int


class Budget:
    """The units of one physical partition.

    Args:
        rate: RU/s; infinite for no limit.
        now: the time, seconds on any clock that all calls share. A time before the last one counts as the
        last one. burst: whether what idles is banked. key_rate: the limit of one logical key, RU/s; infinite
        for none.

    Raises:
        ValueError: a rate is not above zero.
    """

    def __init__(self, rate: float, now: float, *, burst: bool, key_rate: float = MOST_RATE) -> None:
        self._check(rate)
        self._check(key_rate)
        self.burst = burst
        self._rate = rate
        self._key_rate = key_rate
        self._level = rate
        self._bank = 0.0
        self._at = now
        #: By key, when its bucket would be full again.
        self._full_at: OrderedDict[str, float] = OrderedDict()
        self._usage = Usage()

    @property
    def rate(self) -> float:
        """RU/s."""
        return self._rate

    @property
    def key_rate(self) -> float:
        """RU/s of one logical key."""
        return self._key_rate

    def banked(self, now: float) -> float:
        """The units in the burst bank."""
        self._advance(now)
        return self._bank

    def admit(self, now: float, key: str | None = None) -> Refusal | None:
        """None if a request is let in, else why not and until when.

        The wait is honest: a request after exactly that long is let in, if no other one was meanwhile.

        Args:
            key: the logical key, as one text; None for a request that is for no single one.
        """
        self._advance(now)
        second = self._usage.second(self._at, self._rate)
        second.requests += 1
        of_partition = self._wait()
        of_key = self._key_wait(key)
        if of_partition is None and of_key is None:
            return None
        second.throttled += 1
        wait = max(of_partition or 0.0, of_key or 0.0)
        by_key = of_key is not None and (of_partition is None or of_key > of_partition)
        return Refusal(KEY_SPENT if by_key else PARTITION_SPENT, math.floor(wait * 1000 + _SAFE_MS) + 1)

    def charge(self, now: float, units: float, key: str | None = None) -> None:
        """Takes out what a request cost, let in or not."""
        self._advance(now)
        self._usage.second(self._at, self._rate).units += units
        if self._rate != math.inf:
            self._level -= units
        if key is not None and self._key_rate != math.inf:
            full_at = max(self._full_at.pop(key, self._at), self._at)
            self._full_at[key] = full_at + units / self._key_rate
            if len(self._full_at) > _MOST_KEYS:
                self._full_at.popitem(last=False)

    def note(self, now: float, units: float) -> None:
        """Counts a request and what it cost, where neither is limited."""
        second = self._usage.second(now, self._rate)
        second.requests += 1
        second.units += units

    def set_rate(self, now: float, rate: float) -> None:
        """Another rate from now on; what is owed stays owed.

        Raises:
            ValueError: it is not above zero.
        """
        self._check(rate)
        self._advance(now)
        if math.inf in (rate, self._rate):
            self._level = rate
        self._rate = rate
        self._level = min(self._level, rate)
        self._bank = min(self._bank, BURST_S * rate) if self._bursts() else 0.0

    def set_key_rate(self, now: float, key_rate: float) -> None:
        """Another limit for each logical key from now on; all of them begin as if they had idled.

        Raises:
            ValueError: it is not above zero.
        """
        self._check(key_rate)
        self._advance(now)
        self._key_rate = key_rate
        self._full_at.clear()

    def seconds(self, now: float) -> list[Second]:
        """What was used in the last 600 seconds, second by second, oldest first."""
        return self._usage.seconds(now)

    def recent(self, now: float, within: int) -> list[Second]:
        """The same of the last `within` seconds: what is cheap to ask often."""
        return self._usage.recent(now, within)

    def _advance(self, now: float) -> None:
        """Fills the bucket; the same whether it is done in one step or in many."""
        passed = now - self._at
        if passed <= 0:
            return
        self._at = now
        if self._rate == math.inf:
            return
        level = self._level + self._rate * passed
        bursts = self._bursts()
        if level > self._rate:
            if bursts:
                self._bank = min(self._bank + level - self._rate, BURST_S * self._rate)
            level = self._rate
        elif bursts:
            drawn = min(self._bank, (BURST_RATE - self._rate) * passed, self._rate - level)
            self._bank -= drawn
            level += drawn
        self._level = level

    def _bursts(self) -> bool:
        return self.burst and self._rate < BURST_RATE

    def _wait(self) -> float | None:
        """How long until something is in the bucket; None if there is."""
        owed = -self._level
        if owed < 0:
            return None
        if self._bursts() and self._bank > 0:
            lasts = self._bank / (BURST_RATE - self._rate)
            if owed < BURST_RATE * lasts:
                return owed / BURST_RATE
            return lasts + (owed - BURST_RATE * lasts) / self._rate
        return owed / self._rate

    def _key_wait(self, key: str | None) -> float | None:
        if key is None:
            return None
        full_at = self._full_at.get(key)
        # The bucket is of one second: it is empty if it takes that long to fill it.
        wait = None if full_at is None else full_at - 1.0 - self._at
        return wait if wait is not None and wait >= 0 else None

    @staticmethod
    def _check(rate: float) -> None:
        if not rate > 0:
            raise ValueError(f"a rate is above zero, not {rate}")


def share(throughput: float, ranges: int) -> float:
    """What each physical partition gets of a container's throughput: all the same, however large their ranges
    are.
    """
    return throughput / ranges


def partitions_for(throughput: float, existing: int = 0) -> int:
    """How many physical partitions a container has at a throughput.

    Args:
        throughput: RU/s.
        existing: how many it has already; they only become more by this. 0 for a new container, which gets
        one for up to
            10,000 RU/s and else one for each 6,000.
    """
    if throughput <= MOST_RATE * max(existing, 1):
        return max(existing, 1)
    return math.ceil(throughput / (MOST_RATE if existing else NEW_PARTITION_RATE))
