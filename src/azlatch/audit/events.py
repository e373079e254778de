"""What happened to a latch, as one event: the raw material of the audit log and of a history."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

Kind = Literal["granted", "contended", "failed", "timeout", "released", "lost", "given-back", "broken"]


class Event(NamedTuple):
    """One event of one instance.

    `at` is the instance's own clock and `wall` the time for people, both in seconds; `sequence` counts the
    instance's events from 1 without a gap. `previous_fence` is the fence of the grant before, where the
    store told. `seconds` is how long it took: the wait of a grant, the life of a hold.
    """

    kind: Kind
    at: float
    wall: float
    sequence: int
    instance: str
    name: str
    nonce: str = ""
    fence: int | None = None
    previous_fence: int | None = None
    seconds: float | None = None
    reason: str = ""


class Sink(Protocol):
    """Takes events, one at a time, from any thread; whatever it raises is logged and goes no further."""

    def __call__(self, event: Event) -> object: ...
