"""The request units of one physical partition: so many a second, a reserve for bursts, a limit for each key.

The model (learn.microsoft.com, "Burst capacity", "Service quotas"): units flow in evenly, up to one second's
worth; a request is let in as long as any are left, and its charge may leave a debt. What is not used is banked,
up to 300 seconds' worth, and the bank pays at most 3,000 units a second, only where the partition has less than
that. One logical key gets at most 10,000 units a second. Never compared with a live account.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from dataclasses import dataclass

#: Seconds of throughput that can be banked, and how much of it can be spent in a second.
BANKED_SECONDS = 300
BURST_RATE = 3_000.0
#: The most that one logical key gets in a second.
KEY_RATE = 10_000.0
#: Keys whose use is remembered, and seconds of use.
_MOST_KEYS = 1_000
_REMEMBERED = 600
_OVER_BUDGET = 3_200
_HOT_KEY = 3_214


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused, and after how many milliseconds it would not be, if nobody else came."""

    substatus: int
    retry_after_ms: int


@dataclass(slots=True)
class Second:
    """What happened in one second."""

    at: int
    units: float = 0.0
    requests: int = 0
    refused: int = 0


class _Bucket:
    """Units that flow in at a rate, up to one second's worth."""

    __slots__ = ("at", "left", "rate")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self.left = rate
        self.at = now

    def fill(self, now: float) -> float:
        """Lets flow in what has come since, and returns what did not fit."""
        self.left += max(now - self.at, 0.0) * self.rate
        self.at = max(now, self.at)
        over = max(self.left - self.rate, 0.0)
        self.left -= over
        return over

    def wait(self) -> float:
        """Seconds until something is left."""
        return 0.0 if self.left > 0 else (-self.left + 1e-6) / self.rate


class Budget:
    """What a physical partition may spend.

    Args:
        rate: request units a second.
        now: seconds, on the clock of the lab.
        burst: whether what is not used is banked. The bank is full at the beginning.
    """

    def __init__(self, rate: float, now: float, *, burst: bool = True, key_rate: float = KEY_RATE) -> None:
        self._bucket = _Bucket(rate, now)
        self._burst = burst
        self._bank = rate * BANKED_SECONDS
        self._second = math.floor(now)
        self._spent_of_bank = 0.0
        self._key_rate = key_rate
        self._keys: OrderedDict[str, _Bucket] = OrderedDict()
        self._seconds: deque[Second] = deque(maxlen=_REMEMBERED)

    @property
    def rate(self) -> float:
        """Request units a second."""
        return self._bucket.rate

    def set_rate(self, rate: float, now: float) -> None:
        """From now on it is another."""
        self._fill(now)
        self._bucket.rate = rate
        self._bucket.left = min(self._bucket.left, rate)
        self._bank = min(self._bank, rate * BANKED_SECONDS)

    def admit(self, now: float, key: str | None = None) -> Refusal | None:
        """None if a request is let in, else why not."""
        self._fill(now)
        second = self._this(now)
        if self._bucket.left <= 0 and not self._reserve():
            second.refused += 1
            wait = self._bucket.wait()
            if self._bursts and self._bank > 0:
                wait = min(wait, self._second + 1 - now)
            return Refusal(_OVER_BUDGET, _milliseconds(wait))
        bucket = self._keys.get(key) if key is not None else None
        if bucket is not None:
            bucket.fill(now)
            if bucket.left <= 0:
                second.refused += 1
                return Refusal(_HOT_KEY, _milliseconds(bucket.wait()))
        return None

    def charge(self, now: float, units: float, key: str | None = None) -> None:
        """Takes units for a request that was let in."""
        self._fill(now)
        second = self._this(now)
        second.units += units
        second.requests += 1
        of_bank = min(max(units - max(self._bucket.left, 0.0), 0.0), self._reserve())
        self._bank -= of_bank
        self._spent_of_bank += of_bank
        self._bucket.left -= units - of_bank
        if key is None:
            return
        bucket = self._keys.get(key)
        if bucket is None:
            bucket = self._keys[key] = _Bucket(self._key_rate, now)
            if len(self._keys) > _MOST_KEYS:
                self._keys.popitem(last=False)
        bucket.fill(now)
        bucket.left -= units
        self._keys.move_to_end(key)

    def seconds(self) -> list[Second]:
        """What happened in the last ten minutes, second by second; seconds without a request are left out."""
        return list(self._seconds)

    @property
    def _bursts(self) -> bool:
        return self._burst and self._bucket.rate < BURST_RATE

    def _reserve(self) -> float:
        """What the bank still gives in this second: with the partition's own units no more than BURST_RATE."""
        if not self._bursts:
            return 0.0
        return max(min(self._bank, BURST_RATE - self._bucket.rate - self._spent_of_bank), 0.0)

    def _fill(self, now: float) -> None:
        over = self._bucket.fill(now)
        self._bank = min(self._bank + over, self._bucket.rate * BANKED_SECONDS)
        second = math.floor(now)
        if second != self._second:
            self._second, self._spent_of_bank = second, 0.0

    def _this(self, now: float) -> Second:
        at = math.floor(now)
        if not self._seconds or self._seconds[-1].at != at:
            self._seconds.append(Second(at))
        return self._seconds[-1]


def _milliseconds(seconds: float) -> int:
    return max(math.ceil(seconds * 1000), 1)
