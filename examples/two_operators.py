"""Two operators change the same item: by hand, where one of the changes is lost, and with update_item.

    python examples/two_operators.py

It starts a local Cosmos DB by itself; `pip install 'azlatch[lab,cosmos]'` brings what it needs. Both operators
read version 3 of a fund with position 100. Ana adds 5 to the position, Bruno adds 7.
"""

# ruff: noqa: T201 - a script: what it prints is its purpose

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from azure.cosmos import ContainerProxy, CosmosClient, PartitionKey

from azlatch import contracts
from azlatch.lab.cosmos import CosmosLab

Item = dict[str, Any]
AMOUNTS = {"Ana": 5, "Bruno": 7}

#: What was agreed on: positions and versions add up, and the later one is who changed it last.
RULE = contracts.numeric_delta("position", "version") | contracts.take_mine("changed_by")


def change(item: Item, operator: str, both_have_read: threading.Barrier) -> Item:
    """What an operator does, who looks at the item for a while."""
    both_have_read.wait(10)
    return {
        **item,
        "position": item["position"] + AMOUNTS[operator],
        "version": item["version"] + 1,
        "changed_by": operator,
    }


def by_hand(container: ContainerProxy, operator: str, both_have_read: threading.Barrier) -> str:
    item = container.read_item("p", "fund-1")
    container.replace_item("p", change(item, operator, both_have_read))
    return "written"


def guarded(container: ContainerProxy, operator: str, both_have_read: threading.Barrier) -> str:
    done = contracts.update_item(
        container, "p", "fund-1", lambda item: change(item, operator, both_have_read), reconcile=RULE
    )
    return f"{done.outcome} after {done.conflicts} conflicts, {done.request_charge:g} RU"


def run(lab: CosmosLab, way: Callable[[ContainerProxy, str, threading.Barrier], str]) -> int:
    """Both operators at the same time; the position that is stored in the end."""
    both_have_read = threading.Barrier(len(AMOUNTS))

    def work(operator: str) -> None:
        with CosmosClient(lab.endpoint, lab.key) as client:
            container = client.get_database_client("funds").get_container_client("positions")
            print(f"  {operator} (+{AMOUNTS[operator]}): {way(container, operator, both_have_read)}")

    with CosmosClient(lab.endpoint, lab.key) as client:
        container = client.get_database_client("funds").get_container_client("positions")
        container.upsert_item({"id": "p", "fund": "fund-1", "position": 100, "version": 3, "changed_by": "-"})
        threads = [threading.Thread(target=work, args=(operator,)) for operator in AMOUNTS]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        item = container.read_item("p", "fund-1")
    print(f"  stored: position {item['position']}, version {item['version']}, last {item['changed_by']}")
    return int(item["position"])


def main() -> None:
    with CosmosLab() as lab:
        with CosmosClient(lab.endpoint, lab.key) as client:
            client.create_database("funds").create_container("positions", PartitionKey("/fund"))
        expected = 100 + sum(AMOUNTS.values())
        print("By hand: read, change, replace")
        lost = expected - run(lab, by_hand)
        print("With contracts.update_item and a rule")
        kept = expected - run(lab, guarded)
    print(f"Lost by hand: {lost}. Lost with update_item: {kept}.")
    raise SystemExit(0 if lost and not kept else 1)


if __name__ == "__main__":
    main()
