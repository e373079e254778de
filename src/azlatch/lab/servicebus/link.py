"""A link: one end of a stream of messages, as the broker's side keeps it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from azlatch.lab.servicebus.queue import Queue


@dataclass(eq=False)
class Link:
    """An attached link. `gives` says whether the broker is its sender; `session` is the one that it holds."""

    channel: int
    attach: list[Any]
    queue: Queue | None
    address: str
    gives: bool
    is_management: bool = False
    deletes: bool = False
    session: str | None = None
    credit: int = 0
    count: int = 0
    drain: bool = False
    #: Until when it waits for a session; None when it is attached.
    waits_until: float | None = None
    unsettled: dict[int, uuid.UUID] = field(default_factory=dict)
    payload: bytearray = field(default_factory=bytearray)

    @property
    def name(self) -> str:
        """The name that the client gave it."""
        return str(self.attach[0])

    @property
    def handle(self) -> int:
        """Its number in both directions."""
        return int(self.attach[1])
