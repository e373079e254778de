"""What all requests share: the topology, the containers and their items, and what is drawn from the seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from azlatch.lab.cosmos.budget import Refusal
from azlatch.lab.cosmos.errors import ServiceError, throttled
from azlatch.lab.cosmos.item import new_etag
from azlatch.lab.cosmos.store import Store
from azlatch.lab.cosmos.topology import Topology

if TYPE_CHECKING:
    from azlatch.lab.cosmos.resources import Resources

#: The limit of a logical partition, bytes.
LARGEST_KEY = 20 * 2**30


@dataclass
class Service:
    """The state of an account that requests for items work on."""

    topology: Topology
    resources: Resources
    random: Random
    throttling: bool = True
    largest_key: int = LARGEST_KEY
    #: Bounded staleness: how many writes and how many seconds a region may be behind.
    most_behind: int = 100_000
    longest_behind: float = 300.0
    stores: dict[str, Store] = field(default_factory=dict)
    etags: int = 0

    def etag(self, now: float) -> str:
        """A new one."""
        self.etags += 1
        return new_etag(self.etags, now)

    @staticmethod
    def throttled(refusal: Refusal) -> ServiceError:
        """The error of a request for which there are no units left."""
        return throttled(refusal.retry_after_ms, refusal.substatus)
