"""What an operator does to the lab: faults, splits, failovers, lag, and a look at it all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azlatch.errors import UsageError
from azlatch.lab.cosmos import request_log
from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.store import Store

if TYPE_CHECKING:
    from azlatch.lab.cosmos.account import Account


class AdminActs:
    """The operator's acts. Each raises UsageError for what there is not."""

    def __init__(self, account: Account) -> None:
        self._account = account

    # -- faults --------------------------------------------------------------------------------------

    def add_rule(self, text: str) -> int:
        """Puts a fault in force (see `azlatch.lab.cosmos.faults`) and returns its number."""
        return self._account.rules.add(text)

    def remove_rule(self, number: int) -> None:
        """Takes one out of force."""
        self._account.rules.remove(number)

    def clear_rules(self) -> None:
        """Takes all out of force."""
        self._account.rules.clear()

    def rules(self) -> list[dict[str, Any]]:
        """Those in force, with how often each matched and was applied."""
        return [
            {"id": each.id, "rule": each.text, "seen": each.seen, "fired": each.fired}
            for each in self._account.rules.all
        ]

    # -- partitions ----------------------------------------------------------------------------------

    def split(self, container: str, range_id: str) -> list[str]:
        """Splits a physical partition in two; returns the ids of the new ones."""
        return self._store(container).split(range_id, self._account.now)

    def merge(self, container: str, range_ids: list[str]) -> str:
        """Merges neighbouring physical partitions; returns the id of the new one."""
        return self._store(container).merge(range_ids, self._account.now)

    def lay_out(self, container: str, count: int) -> None:
        """Gives an empty container `count` equal physical partitions."""
        store = self._store(container)
        if any(each.keys for each in store.parts):
            raise UsageError(f"{container} has items: only an empty container is laid out anew")
        if not 1 <= count <= 1_000:
            raise UsageError(f"{count} ranges: give it 1 to 1,000")
        store.lay_out(count, self._account.now)

    def _store(self, container: str) -> Store:
        database, slash, name = container.partition("/")
        if not slash:
            raise UsageError(f"{container!r} is not DATABASE/CONTAINER")
        try:
            resource = self._account.resources.container(database, name)
        except ServiceError:
            raise UsageError(f"there is no container {container!r}") from None
        return self._account.service.stores[resource.rid]

    # -- regions -------------------------------------------------------------------------------------

    def lag(self, source: str, target: str, seconds: float) -> None:
        """What is written in `source` is in `target` after that many seconds; see `Topology.set_lag`."""
        self._account.topology.set_lag(source, target, seconds)

    def pause(self, source: str, target: str) -> None:
        """Holds up what goes from one region to another."""
        self._account.topology.set_paused(source, target, paused=True)

    def resume(self, source: str, target: str) -> None:
        """Lets it go on."""
        self._account.topology.set_paused(source, target, paused=False)

    def offline(self, region: str) -> None:
        """A region stops to answer."""
        self._account.topology.set_online(region, online=False)

    def online(self, region: str) -> None:
        """A region answers again, and catches up: with Strong before it does."""
        self._account.topology.set_online(region, online=True)
        self._catch_up(region)

    def remove_region(self, region: str) -> None:
        """The account gives a region up; its endpoint answers 403/1008."""
        self._account.topology.set_member(region, member=False)

    def add_region(self, region: str) -> None:
        """The account has a region again; with Strong it catches up before."""
        self._account.topology.set_member(region, member=True)
        self._catch_up(region)

    def _catch_up(self, name: str) -> None:
        topology = self._account.topology
        if topology.level == "Strong":
            for store in self._account.service.stores.values():
                for part in store.parts:
                    part.catch_up(topology.region(name))

    def failover(self, region: str) -> int:
        """Another region takes the writes; returns how many writes are lost.

        If the write region answers, it is a planned failover: the other one catches up first and nothing is
        lost. If it does not, what the other one has not seen is lost, unless consistency is Strong, where
        nothing was acknowledged that is not everywhere.
        """
        account = self._account
        topology = account.topology
        target = topology.region(region)
        if topology.multiple:
            raise UsageError("all regions take writes: there is nothing to fail over")
        if not (target.online and target.member):
            raise UsageError(f"{target.name} does not answer: bring it online first")
        if target is topology.write:
            return 0
        lost = 0
        for store in account.service.stores.values():
            for part in store.parts:
                if not topology.write.online:
                    lost += part.truncate(target, account.now)
                part.fail_over(target, account.now)
        topology.set_write(target)
        return lost

    # -- looking -------------------------------------------------------------------------------------

    def ledger(self, since: int = 0, most: int = 1_000) -> list[dict[str, Any]]:
        """The requests after the one with that number."""
        return self._account.ledger.table(since, most)

    def logs(self, table: str, since: int = 0, most: int = 1_000) -> dict[str, Any]:
        """Rows of one of the tables that production has, see `azlatch.lab.cosmos.log_tables`."""
        return request_log.page(self._account, table, since, most)

    def state(self) -> dict[str, Any]:
        """Regions, containers and ranges with their load."""
        account = self._account
        topology = account.topology
        return {
            "account": account.name,
            "now": account.now,
            "consistency": topology.level,
            "multiple_write_regions": topology.multiple,
            "regions": [
                {
                    "name": each.name,
                    "online": each.online,
                    "member": each.member,
                    "writes": topology.writes_here(each),
                }
                for each in topology.regions
            ],
            "containers": [_container(store, account.now) for store in account.service.stores.values()],
            "rules": self.rules(),
            "requests": len(account.ledger),
        }


def _container(store: Store, now: float) -> dict[str, Any]:
    resource = store.resource
    ranges = []
    for part in store.parts:
        count, age = part.staleness(now)
        ranges.append(
            {
                "id": part.id,
                "low": part.low,
                "high": part.high,
                "items": part.count,
                "bytes": part.size,
                "lsn": part.head,
                "writes_behind": count,
                "seconds_behind": age,
                "units_per_second": store.budgets[part.id].rate,
            }
        )
    return {"path": resource.path, "rid": resource.rid, "throughput": resource.throughput, "ranges": ranges}
