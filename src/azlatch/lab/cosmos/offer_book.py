"""All offers of an account: whose they are, and what a change of one means for the containers that share it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.offers import LEAST_MANUAL, Offer, Throughput, replacement_of, share
from azlatch.lab.cosmos.resource_tree import ContainerResource, DatabaseResource, Resource, Shelf
from azlatch.lab.cosmos.wire import Request


class _Hooks(Protocol):
    def container_changed(self, container: ContainerResource, now: float) -> None: ...

    def size_of(self, container: ContainerResource) -> tuple[int, int]: ...


class OfferBook:
    """The offers of an account. A container has one, or shares that of its database."""

    def __init__(self, hooks: _Hooks) -> None:
        self._hooks = hooks
        self._shelf: Shelf[Offer] = Shelf()
        self._by_owner: dict[str, Offer] = {}

    def get(self, rid: str) -> Offer | None:
        """By the offer's own id."""
        return self._shelf.get(rid)

    def __iter__(self) -> Iterator[Offer]:
        return iter(self._shelf)

    def provision(
        self,
        owner: DatabaseResource | ContainerResource,
        throughput: Throughput | None,
        number: int,
        lsn: int,
        now: float,
    ) -> None:
        """Gives a new database or container what it asked for; else a container shares, or has the least."""
        if throughput is None and isinstance(owner, ContainerResource):
            shared = self._by_owner.get(owner.database.rid)
            if shared is not None:
                share(owner, shared, own=False)
                return
            throughput = (LEAST_MANUAL, False, None)
        if throughput is None:
            return
        offer = Offer(number, owner)
        offer.set(throughput, lsn, now)
        self._add(offer)
        self._apply(offer)

    def replace(self, offer: Offer, body: dict[str, Any], request: Request, lsn: int, now: float) -> None:
        """Changes an offer, and tells the containers that have their throughput from it.

        Raises:
            ServiceError: 400 for a change that is none, or a value out of range.
        """
        offer.set(replacement_of(offer, body, request, self.least(offer)), lsn, now)
        for each in self._apply(offer):
            self._hooks.container_changed(each, now)

    def least(self, offer: Offer) -> int:
        """The least throughput that it can be changed to, RU/s."""
        return offer.least(sum(self._hooks.size_of(each)[1] for each in self._served(offer)))

    def drop(self, owner: Resource) -> None:
        """Forgets the offer of what is gone, if it had one."""
        offer = self._by_owner.pop(owner.rid, None)
        if offer is not None:
            self._shelf.remove(offer)

    def dump(self) -> Any:
        """All of it, as JSON."""
        return [
            {
                "number": each.number,
                "owner": each.owner.self_link,
                "body": each.body,
                "throughput": each.throughput,
                "autoscale": each.autoscale,
                "upgrade": each.upgrade,
                "highest": each.highest,
            }
            for each in self._shelf
        ]

    def load(self, state: Any, databases: Shelf[DatabaseResource]) -> None:
        """Takes what `dump` gave, of those databases."""
        for each in state:
            parts = each["owner"].strip("/").split("/")
            owner: Any = databases.get(parts[1])
            if len(parts) > 2:
                owner = owner.containers.get(parts[3])
            offer = Offer(each["number"], owner)
            offer.restore(each)
            self._add(offer)
        for offer in self._shelf:
            self._apply(offer)
        for database in databases:
            if any(not container.throughput for container in database.containers):
                raise ServiceError(400, "A container has no throughput.")

    def _add(self, offer: Offer) -> None:
        self._shelf.add(offer)
        self._by_owner[offer.owner.rid] = offer

    def _served(self, offer: Offer) -> list[ContainerResource]:
        if isinstance(offer.owner, ContainerResource):
            return [offer.owner]
        return [each for each in offer.owner.containers if each.rid not in self._by_owner]

    def _apply(self, offer: Offer) -> list[ContainerResource]:
        owner = offer.owner
        if isinstance(owner, DatabaseResource):
            owner.throughput = offer.throughput
        served = self._served(offer)
        for each in served:
            share(each, offer, own=each is owner)
        return served
