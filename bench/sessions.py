"""What each consistency level costs and gives, measured in the lab: a write near, and a read of it far away.

Two regions, with replication 50 ms late; reads are in the far one alone, unless it says otherwise. It prints
the table of docs/contracts/sessions.md. Request units and waiting are the lab's model, not an account's.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.exceptions import CosmosResourceNotFoundError

from azlatch import contracts
from azlatch.lab.cosmos import CosmosLab

WEST, EAST = "West US", "East US"
LAG_S = 0.05
TRIES = 100
FAR = {"excluded_locations": [WEST]}


def measure(level: str, *, with_session: bool = False, anywhere: bool = False) -> str:
    """One row."""
    writes, reads, charges, stale = [], [], [0.0, 0.0], 0
    with CosmosLab(regions=(WEST, EAST), consistency=level, throttling=False) as lab:
        here = CosmosClient(lab.endpoint, lab.key, preferred_locations=[WEST])
        there = CosmosClient(lab.endpoint, lab.key, preferred_locations=[EAST])
        with here, there:
            here.create_database("shop").create_container("orders", PartitionKey("/customer"))
            near, far = (
                each.get_database_client("shop").get_container_client("orders") for each in (here, there)
            )
            where: Any = {} if anywhere else FAR
            lab.call(lambda: lab.account.admin.lag(WEST, EAST, LAG_S))
            for number in range(-3, TRIES):
                context = contracts.SessionContext()
                writer: Any = context.track(near) if with_session else near
                reader: Any = context.track(far) if with_session else far
                body = {"id": "1", "customer": "a", "n": number, "text": "x" * 900}
                began = time.perf_counter()
                wrote = writer.upsert_item(body)
                between = time.perf_counter()
                try:
                    read = reader.read_item("1", "a", **where)
                except CosmosResourceNotFoundError:
                    read = None
                after = time.perf_counter()
                if number < 0 or read is None:
                    continue
                writes.append(between - began)
                reads.append(after - between)
                stale += read["n"] != number
                charges = [float(each.get_response_headers()["x-ms-request-charge"]) for each in (wrote, read)]
    name = f"{level}, handed over" if with_session else level
    name += ", write region allowed" if anywhere else ""
    ms = [1_000 * statistics.median(each) for each in (writes, reads)]
    return (
        f"| {name} | {100 * stale / len(reads):.0f} % | {ms[0]:.0f} ms | {ms[1]:.0f} ms "
        f"| {charges[0]:.1f} | {charges[1]:.1f} |"
    )


def main() -> None:
    """Prints the table."""
    print(
        "| level | stale reads | write | read | RU of the write | RU of the read |\n|---|---|---|---|---|---|"
    )
    for level in ("Strong", "BoundedStaleness", "Session", "Eventual"):
        print(measure(level), flush=True)
    print(measure("Session", with_session=True), flush=True)
    print(measure("Session", with_session=True, anywhere=True), flush=True)


if __name__ == "__main__":
    main()
