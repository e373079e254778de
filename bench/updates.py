"""What `contracts.update_item` costs beside the same update by hand: a read, and a replace with If-Match.

All go to one lab in a process of its own, through one client, and take turns. update_item writes its operations
into the item: once the update by hand has an item without them, and once one that is as large. By itself, as
`python bench/updates.py 3`, it measures that often.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from azure.core import MatchConditions
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient

import cosmos_load
import table
from azlatch import contracts
from azlatch.contracts import aio
from table import Row, Section

# The lab is started as the SDK's own suite starts it.
sys.path.append(str(Path(__file__).resolve().parent.parent / "conformance"))
import servers
from accounts import Account

_CONTAINER, _KEY = "updates", "p"
_OURS, _BY_HAND, _AS_LARGE = "update_item", "read and replace by hand", "the same, with an item as large"
#: By the ids of their items.
_LABELS = {"ours": _OURS, "by-hand": _BY_HAND, "as-large": _AS_LARGE}
#: What an item tells of that has been updated for some time.
_OPERATIONS = " ".join(f"{number:08d}.abcdef" for number in range(16))
_WARM_UP = 30


class Plan(NamedTuple):
    """How often."""

    rounds: int = 15
    updates: int = 60


QUICK = Plan(rounds=5, updates=20)


class Cost(NamedTuple):
    """Of one update, milliseconds: from the call to its return, and of the calling thread's processor."""

    elapsed: float
    processor: float


def measure(plan: Plan, step: Callable[[str], None]) -> list[Section]:
    """The sections; none without the lab."""
    try:
        with servers.lab(Account()) as served:
            return list(_measure(plan, served, step))
    except servers.ServerMissing:
        return []


def _measure(plan: Plan, served: servers.Served, step: Callable[[str], None]) -> Iterator[Section]:
    with CosmosClient(served.endpoint, served.key) as client:
        database = client.create_database_if_not_exists(cosmos_load.DATABASE)
        container = database.create_container_if_not_exists(_CONTAINER, PartitionKey("/pk"))
        for item_id in _LABELS:
            container.upsert_item(_item(item_id))
        step("Cosmos DB: update_item beside an update by hand, blocking")
        yield _section("blocking", blocking(plan, container))
    step("Cosmos DB: update_item beside an update by hand, asyncio")
    yield _section("asyncio", asyncio.run(asynchronous(plan, served)))


def blocking(plan: Plan, container: Any) -> dict[str, Cost]:
    """Through the blocking SDK, by the ids of the items."""

    def ours(item_id: str) -> None:
        contracts.update_item(container, item_id, _KEY, _one_more)

    def by_hand(item_id: str) -> None:
        found = container.read_item(item_id, _KEY)
        _one_more(found)
        container.replace_item(
            item_id, found, etag=found["_etag"], match_condition=MatchConditions.IfNotModified
        )

    taken = _Taken()
    for number, item_id in _turns(plan):
        update = ours if item_id == "ours" else by_hand
        elapsed, processor = time.perf_counter(), time.thread_time()
        update(item_id)
        taken.add(number, item_id, time.perf_counter() - elapsed, time.thread_time() - processor)
    return taken.medians()


async def asynchronous(plan: Plan, served: servers.Served) -> dict[str, Cost]:
    """Through the SDK on asyncio, by the ids of the items."""
    async with AsyncCosmosClient(served.endpoint, served.key) as client:
        container = client.get_database_client(cosmos_load.DATABASE).get_container_client(_CONTAINER)

        async def ours(item_id: str) -> None:
            await aio.update_item(container, item_id, _KEY, _one_more)

        async def by_hand(item_id: str) -> None:
            found = await container.read_item(item_id, _KEY)
            _one_more(found)
            await container.replace_item(
                item_id, found, etag=found["_etag"], match_condition=MatchConditions.IfNotModified
            )

        taken = _Taken()
        for number, item_id in _turns(plan):
            update: Callable[[str], Awaitable[None]] = ours if item_id == "ours" else by_hand
            elapsed, processor = time.perf_counter(), time.thread_time()
            await update(item_id)
            taken.add(number, item_id, time.perf_counter() - elapsed, time.thread_time() - processor)
        return taken.medians()


def _turns(plan: Plan) -> Iterator[tuple[int, str]]:
    """Which update is next; another one begins each time, so that none is always after the same one."""
    ids = list(_LABELS)
    for number in range(-_WARM_UP, plan.rounds * plan.updates):
        for step in range(len(ids)):
            yield number, ids[(number + step) % len(ids)]


class _Taken:
    """What each update took."""

    def __init__(self) -> None:
        self._series: dict[str, list[Cost]] = {item_id: [] for item_id in _LABELS}

    def add(self, number: int, item_id: str, elapsed: float, processor: float) -> None:
        """One more, unless it was for warming up."""
        if number >= 0:
            self._series[item_id].append(Cost(elapsed * 1e3, processor * 1e3))

    def medians(self) -> dict[str, Cost]:
        """By the ids of the items."""
        return {
            item_id: Cost(*(statistics.median(column) for column in zip(*series, strict=True)))
            for item_id, series in self._series.items()
        }


def _section(driver: str, costs: dict[str, Cost]) -> Section:
    ours = costs["ours"]
    rows = [
        Row(label, tuple(costs[item_id]), remark=_remark(ours, costs[item_id]) if label != _OURS else "")
        for item_id, label in _LABELS.items()
    ]
    title = f"Cosmos DB: an update of one item, {driver}"
    return Section(title, ("elapsed", "processor"), "ms, medians", "lower", 3).compare(_OURS, rows)


def _remark(ours: Cost, theirs: Cost) -> str:
    share = 100 * (ours.elapsed / theirs.elapsed - 1)
    return f"{_OURS} adds {share:.1f} %, and {1e3 * (ours.processor - theirs.processor):.0f} us of processor"


def _item(item_id: str) -> dict[str, Any]:
    """About a kilobyte, in some twenty fields."""
    item = {"id": item_id, "pk": _KEY, "n": 0, "text": "x" * 600}
    item |= {f"field{number}": number for number in range(20)}
    return item if item_id == "by-hand" else {**item, "azlatch_ops": _OPERATIONS}


def _one_more(item: dict[str, Any]) -> None:
    item["n"] += 1


def _told(text: str) -> None:
    print(text, "...", file=sys.stderr, flush=True)


if __name__ == "__main__":
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
        print("\n".join(table.lines(measure(Plan(), _told))), flush=True)
