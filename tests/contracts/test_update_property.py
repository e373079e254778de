"""N workers, one item, bad weather and a failover: the sum is exact, and each reported outcome is true."""

from __future__ import annotations

import asyncio
import random
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient

from azlatch import contracts
from azlatch.contracts import aio
from azlatch.errors import LatchError, OutcomeUnknown
from azlatch.lab.cosmos import CosmosLab

WORKERS, EACH = 4, 10
WEATHER = (
    "drop-reply op=replace p=0.08",
    "drop-request op=replace p=0.05",
    "reset-reply op=replace p=0.03",
    "status=429/3200 op=replace p=0.05 retry-after-ms=3",
    "status=429/3200 op=read p=0.03 retry-after-ms=3",
    "status=449 op=replace p=0.05",
    "status=503 op=replace p=0.05",
)


class Account:
    """What each worker was told, and the failover after a third of it."""

    def __init__(self, lab: CosmosLab, item_id: str) -> None:
        self.lab, self.id = lab, item_id
        self.told: dict[str, Any] = {}
        self._lock = threading.Lock()
        self.amounts = {
            f"{worker}-{number}": random.Random(f"{worker}/{number}").randrange(1, 1_000)
            for worker in range(WORKERS)
            for number in range(EACH)
        }

    def add(self, name: str) -> Any:
        """The change: the amount, and the name of who added it, how often."""

        def change(found: dict[str, Any]) -> None:
            found["n"] += self.amounts[name]
            found["by"].append(name)

        return change

    def tell(self, name: str, outcome: Any) -> None:
        with self._lock:
            self.told[name] = outcome
            if len(self.told) == WORKERS * EACH // 3:
                self.lab.call(lambda: self.lab.account.admin.failover("West US"))


def rule(base: dict[str, Any], theirs: dict[str, Any], mine: dict[str, Any]) -> dict[str, Any]:
    """Adds up, and appends with repetitions, so that what is applied twice shows."""
    new = mine["by"][len(base["by"]) :]
    return {**theirs, "n": theirs["n"] + mine["n"] - base["n"], "by": theirs["by"] + new}


@pytest.fixture
def account() -> Iterator[Account]:
    with CosmosLab(regions=("East US", "West US"), throttling=False, seed=7) as lab:
        with CosmosClient(lab.endpoint, lab.key) as client:
            container = client.create_database("d").create_container("c", PartitionKey("/pk"))
            item = container.create_item({"id": uuid.uuid4().hex, "pk": "p", "n": 0, "by": []})
        for each in WEATHER:
            lab.add_rule(each)
        yield Account(lab, item["id"])


def check(account: Account) -> None:
    """Applied is in it once; refused is not in it; the sum is that of what is in it."""
    lab = account.lab
    lab.call(lab.account.admin.clear_rules)
    with CosmosClient(lab.endpoint, lab.key) as client:
        stored = client.get_database_client("d").get_container_client("c").read_item(account.id, "p")
    times = {name: stored["by"].count(name) for name in account.amounts}
    applied = [name for name, told in account.told.items() if isinstance(told, contracts.Update)]
    unknown = [name for name, told in account.told.items() if isinstance(told, OutcomeUnknown)]
    assert account.told.keys() == account.amounts.keys()
    assert [name for name in applied if times[name] != 1] == []
    assert [name for name in unknown if times[name] > 1] == []
    refused = account.told.keys() - set(applied) - set(unknown)
    assert [name for name in refused if times[name] != 0] == []
    assert stored["n"] == sum(account.amounts[name] for name in stored["by"])
    assert len(applied) >= WORKERS * EACH * 0.8
    updates = [account.told[name] for name in applied]
    assert any(each.conflicts for each in updates)
    assert any(each.throttles for each in updates)
    assert any(each.recovered for each in updates)
    rows = lab.call(lambda: lab.account.admin.ledger(0, 100_000))
    assert any((each["status"], each["substatus"]) == (403, 3) for each in rows), "nobody met the failover"


def test_threads(account: Account) -> None:
    def work(worker: int) -> None:
        with CosmosClient(account.lab.endpoint, account.lab.key) as client:
            container = client.get_database_client("d").get_container_client("c")
            for number in range(EACH):
                name = f"{worker}-{number}"
                try:
                    told: Any = contracts.update_item(
                        container, account.id, "p", account.add(name), reconcile=rule, deadline=4
                    )
                except LatchError as error:
                    told = error
                account.tell(name, told)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(WORKERS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(100)
    check(account)


def test_tasks(account: Account) -> None:
    async def work(worker: int) -> None:
        async with AsyncCosmosClient(account.lab.endpoint, account.lab.key) as client:
            container = client.get_database_client("d").get_container_client("c")
            for number in range(EACH):
                name = f"{worker}-{number}"
                try:
                    told: Any = await aio.update_item(
                        container, account.id, "p", account.add(name), reconcile=rule, deadline=4
                    )
                except LatchError as error:
                    told = error
                account.tell(name, told)

    async def main() -> None:
        await asyncio.wait_for(asyncio.gather(*(work(worker) for worker in range(WORKERS))), 100)

    asyncio.run(main())
    check(account)
