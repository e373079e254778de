"""The entities of a namespace, and what an address means."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from azlatch.errors import UsageError
from azlatch.lab.servicebus.queue import BrokerError, Queue, QueueSettings

MANAGEMENT = "/$management"
_DEAD = re.compile(r"/\$deadletterqueue$", re.IGNORECASE)


class Broker:
    """All queues, their time, and who is to be told that something may be deliverable.

    Args:
        queues: what there is.
        seed: of lock tokens.
        clock: gives the time.
    """

    def __init__(self, queues: Sequence[QueueSettings], seed: int, clock: Callable[[], float]) -> None:
        names = [each.name.lower() for each in queues]
        if not names or len(set(names)) != len(names):
            raise UsageError(f"queues are {names}: name at least one, and each once")
        random = Random(seed)
        self.queues = {each.name.lower(): Queue(each, random) for each in queues}
        self.now = clock
        self.changed: Callable[[], None] = lambda: None

    def find(self, address: Any) -> tuple[Queue, bool]:
        """The queue of an address, and whether its management is meant. Raises BrokerError."""
        if not isinstance(address, str):
            raise BrokerError("amqp:not-found", "the address is no text")
        path = re.sub(r"^amqps?://[^/]*/", "", address)
        is_management = path.endswith(MANAGEMENT)
        path = path.removesuffix(MANAGEMENT)
        name = _DEAD.sub("", path)
        queue = self.queues.get(name.lower())
        if queue is None:
            raise BrokerError("amqp:not-found", f"The messaging entity {name!r} could not be found.")
        dead = queue.dead if name != path else None
        return dead or queue, is_management
