"""One lab, and batches over it by both families of clients: what is true of one has to be true of the other."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient

from azlatch import contracts
from azlatch.contracts import aio
from azlatch.lab.cosmos import CosmosLab

_numbers = itertools.count(1)


class Family:
    """Batches over one container by clients of one family, used as if none were asynchronous."""

    def __init__(self, name: str, lab: CosmosLab, runner: asyncio.Runner, client: Any) -> None:
        self.name = name
        self.lab = lab
        self._runner = runner
        self._client = client
        with CosmosClient(lab.endpoint, lab.key) as maker:
            self._container = f"c{next(_numbers)}"
            maker.get_database_client("d").create_container(
                self._container, PartitionKey("/fund"), default_ttl=-1
            )
        self._truth = CosmosClient(lab.endpoint, lab.key)
        self.truth = self._truth.get_database_client("d").get_container_client(self._container)
        self.container = client.get_database_client("d").get_container_client(self._container)
        self._batch = contracts.Batch if name == "sync" else aio.Batch

    def batch(self, key: Any = "f", container: Any = None) -> Any:
        """A batch to be built."""
        return self._batch(self.container if container is None else container, key)

    def execute(self, batch: Any, **options: Any) -> Any:
        return self.run(batch.execute(**options))

    def run(self, made: Any) -> Any:
        """What a call of the SDK, or of ours, comes to."""
        return self._runner.run(made) if asyncio.iscoroutine(made) else made

    def other(self, *paths: str, **options: Any) -> Any:
        """Another container."""
        name = f"c{next(_numbers)}"
        key = PartitionKey(paths[0]) if len(paths) == 1 else PartitionKey(list(paths), kind="MultiHash")
        self._truth.get_database_client("d").create_container(name, key, **options)
        return self._client.get_database_client("d").get_container_client(name)

    def ids(self) -> set[str]:
        """All items of key "f", but azlatch's own."""
        found = self.truth.query_items("SELECT c.id FROM c WHERE NOT IS_DEFINED(c.azlatch)", partition_key="f")
        return {each["id"] for each in found}

    def rule(self, text: str) -> None:
        self.lab.add_rule(text)

    def mark(self) -> int:
        """The number of the last request."""
        rows = self.lab.call(lambda: self.lab.account.admin.ledger(0, 1_000_000))
        return int(rows[-1]["number"]) if rows else 0

    def calls(self, since: int) -> list[str]:
        """The operations on items of this container after a request."""
        rows: list[dict[str, Any]] = self.lab.call(lambda: self.lab.account.admin.ledger(since, 1_000_000))
        return [each["operation"] for each in rows if each["operation"].startswith(("docs/", "colls/"))]

    def close(self) -> None:
        self._truth.close()
        self.lab.call(self.lab.account.admin.clear_rules)


@pytest.fixture(scope="session")
def batch_lab() -> Iterator[CosmosLab]:
    with CosmosLab(throttling=False) as running:
        with CosmosClient(running.endpoint, running.key) as client:
            client.create_database("d")
        yield running


@pytest.fixture(scope="session")
def batch_clients(batch_lab: CosmosLab) -> Iterator[Callable[[str], tuple[asyncio.Runner, Any]]]:
    """A client of each family, that is kept, and the loop that the asynchronous one lives in."""
    with asyncio.Runner() as runner, CosmosClient(batch_lab.endpoint, batch_lab.key) as client:

        async def start() -> AsyncCosmosClient:
            return await AsyncCosmosClient(batch_lab.endpoint, batch_lab.key).__aenter__()

        asynchronous = runner.run(start())
        yield lambda name: (runner, client if name == "sync" else asynchronous)
        runner.run(asynchronous.close())


@pytest.fixture(params=["sync", "aio"])
def family(request: pytest.FixtureRequest, batch_lab: CosmosLab, batch_clients: Any) -> Iterator[Family]:
    made = Family(request.param, batch_lab, *batch_clients(request.param))
    yield made
    made.close()
