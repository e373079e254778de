"""What happened to a latch, as one event: a line of the audit log, and the raw material of a history.

One JSON object a line. Every event has ``v`` (1), ``kind``, ``seq`` (the instance's events, from 1 without a
gap), ``wall`` (seconds since the Unix epoch, for people), ``at`` (the instance's own clock, which counts
through suspend), ``boot`` (which boot of which kernel that clock belongs to, "" where unknown) and
``instance``. The rest depends on the kind:

============ ==========================================================================================
open         first event of an instance: host, pid, role, store
request      an acquire begins: name, acquire (its id within the instance), ttl, timeout
granted      name, acquire, nonce, fence, prev (fence of the grant before, where the store told), sent
             (the clock before the request: belief counts from it), until (its deadline), ttl, wait_s,
             attempts, misses, failures, slowest_s (the longest call), takeover (by which rule it was taken
             from a holder that had not released it)
ended        an acquire ended without a hold: name, acquire, outcome, wait_s, attempts, misses, failures,
             slowest_s, holder; the outcome is contended (one try), timeout, unavailable, throttled,
             denied, misconfigured, cancelled or error
lost         a hold ended without its release: name, nonce, fence, reason, until (when belief ended), held_s,
             renewals, renewal_failures, slowest_renewal_s
released     the same without a reason
given-back   a grant that reached nobody and was released: name, nonce, fence
broken       an operator broke a hold: name, fence, by, reason, now, free_in (in how many seconds at the latest
             the name is granted again: 0 without `now` where the holder was dead or its ttl had passed)
accepted     a gate accepted a write: gate, order (its own count), fence
rejected     a gate refused one: gate, fence, newest
close        last event of an instance that ended cleanly
============ ==========================================================================================

Readers ignore keys and kinds that they do not know.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

Kind = Literal[
    "open",
    "request",
    "granted",
    "ended",
    "lost",
    "released",
    "given-back",
    "broken",
    "accepted",
    "rejected",
    "close",
]

VERSION = 1
#: A text of an event is cut here; names fit whole.
MAX_TEXT = 1_024


class Event(NamedTuple):
    """One event of one instance; what depends on its kind is in `facts`."""

    kind: str
    seq: int
    wall: float
    at: float
    boot: str
    instance: str
    facts: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The latch, or "" for an event of no latch."""
        return str(self.facts.get("name", ""))

    @property
    def fence(self) -> int | None:
        """The fencing token, or None."""
        fence = self.facts.get("fence")
        return fence if isinstance(fence, int) and not isinstance(fence, bool) else None

    def number(self, key: str) -> float:
        """A fact that is a number; 0.0 where it is missing, or something else."""
        value = self.facts.get(key)
        return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0

    def to_json(self) -> str:
        """One line, ASCII only: control characters and all else that a terminal might obey are escaped."""
        head: dict[str, Any] = {
            "v": VERSION,
            "kind": self.kind,
            "seq": self.seq,
            "wall": round(self.wall, 6),
            "at": round(self.at, 6),
            "boot": self.boot,
            "instance": self.instance,
        }
        facts = {
            key: cut
            for key, value in self.facts.items()
            if key not in head and (cut := _cut(value)) is not None
        }
        # DEL is ASCII, and the only control character that JSON leaves as it is.
        return json.dumps({**head, **facts}, separators=(",", ":")).replace("\x7f", "\\u007f")

    @classmethod
    def from_json(cls, line: str) -> Event:
        """Reads a line.

        Raises:
            ValueError: it is not an event.
        """
        try:
            found = json.loads(line)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        if not isinstance(found, dict):
            raise ValueError("not an object")
        version = found.pop("v", VERSION)
        if version != VERSION:
            raise ValueError(f"version {str(version)[:20]} is not known")
        try:
            event = cls(
                str(found.pop("kind")),
                int(found.pop("seq")),
                float(found.pop("wall")),
                float(found.pop("at")),
                str(found.pop("boot")),
                str(found.pop("instance")),
                found,
            )
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"an event without {error}") from error
        if not math.isfinite(event.wall) or not math.isfinite(event.at):
            raise ValueError("an event without a time")
        return event


class Sink(Protocol):
    """Takes events, one at a time, from any thread; what it raises is logged and goes no further."""

    def __call__(self, event: Event) -> object: ...


def _cut(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value[:MAX_TEXT] if isinstance(value, str) else value
