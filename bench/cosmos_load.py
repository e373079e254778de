"""Point reads and writes on a Cosmos DB: through the SDK, blocking and on asyncio, and by hand.

Every driver does one operation over and over, from so many workers, for so many seconds, and gives operations
per second. Writes are upserts of a few items each, so that no server grows while it is measured.
"""

from __future__ import annotations

import asyncio
import base64
import email.utils
import hashlib
import hmac
import json
import logging
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from azure.cosmos import ContainerProxy, CosmosClient, PartitionKey
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient

# A client that is closed while it looks after its endpoints says so at length.
logging.getLogger("azure.cosmos").setLevel(logging.CRITICAL)
logging.getLogger("azure_cosmos").setLevel(logging.CRITICAL)

DATABASE, CONTAINER = "bench", "items"
#: An item that was written before, for reads.
_READ = "read"
_ITEMS_EACH = 16
#: So that an item has about a kilobyte, as JSON.
_FILLING = "x" * 900


class Target(NamedTuple):
    """A server.

    Attributes:
        discover: whether the endpoint that its account names can be used; else it is used as it is given.
    """

    endpoint: str
    key: str
    discover: bool = True

    def client(self) -> CosmosClient:
        """A blocking client."""
        return CosmosClient(self.endpoint, self.key, enable_endpoint_discovery=self.discover)


class Load(NamedTuple):
    """What is done: `operation` is "read" or "write"."""

    operation: str
    workers: int

    @property
    def label(self) -> str:
        """For the table."""
        return f"{self.operation}, {self.workers} worker{'s' if self.workers > 1 else ''}"


def item(name: str) -> dict[str, Any]:
    """About a kilobyte."""
    return {"id": name, "pk": name, "filling": _FILLING}


def prepare(target: Target) -> None:
    """Makes the container, and the item that is read."""
    with target.client() as client:
        database = client.create_database_if_not_exists(DATABASE)
        container = database.create_container_if_not_exists(
            CONTAINER, PartitionKey("/pk"), offer_throughput=400
        )
        container.upsert_item(item(_READ))


def blocking(target: Target, load: Load, seconds: float) -> float:
    """Through the blocking SDK, one client for all threads."""
    with target.client() as client:
        container = client.get_database_client(DATABASE).get_container_client(CONTAINER)
        _once(container, load, 0, 0)
        counts = [0] * load.workers
        ready = threading.Barrier(load.workers + 1)
        end = [0.0]

        def work(worker: int) -> None:
            ready.wait()
            while time.perf_counter() < end[0]:
                _once(container, load, worker, counts[worker])
                counts[worker] += 1

        threads = [threading.Thread(target=work, args=(each,)) for each in range(load.workers)]
        for thread in threads:
            thread.start()
        began = time.perf_counter()
        end[0] = began + seconds
        ready.wait()
        for thread in threads:
            thread.join()
        return sum(counts) / (time.perf_counter() - began)


def _once(container: ContainerProxy, load: Load, worker: int, number: int) -> None:
    if load.operation == "read":
        container.read_item(_READ, _READ)
    else:
        container.upsert_item(item(_name(worker, number)))


def asynchronous(target: Target, load: Load, seconds: float) -> float:
    """Through the SDK on asyncio, one client for all tasks."""
    return asyncio.run(_asynchronous(target, load, seconds))


async def _asynchronous(target: Target, load: Load, seconds: float) -> float:
    async with AsyncCosmosClient(
        target.endpoint, target.key, enable_endpoint_discovery=target.discover
    ) as client:
        container = client.get_database_client(DATABASE).get_container_client(CONTAINER)

        async def once(worker: int, number: int) -> None:
            if load.operation == "read":
                await container.read_item(_READ, _READ)
            else:
                await container.upsert_item(item(_name(worker, number)))

        await once(0, 0)
        began = time.perf_counter()
        end = began + seconds

        async def work(worker: int) -> int:
            done = 0
            while time.perf_counter() < end:
                await once(worker, done)
                done += 1
            return done

        counts = await asyncio.gather(*(work(each) for each in range(load.workers)))
        return sum(counts) / (time.perf_counter() - began)


def by_hand(target: Target, load: Load, seconds: float) -> float:
    """Requests that were made and signed beforehand, on connections that stay open: what the server can do."""
    return asyncio.run(_by_hand(target, load, seconds))


async def _by_hand(target: Target, load: Load, seconds: float) -> float:
    connections = [await _open(target) for _ in range(load.workers)]
    requests = [list(_requests(target, load, each)) for each in range(load.workers)]
    began = time.perf_counter()
    end = began + seconds

    async def work(worker: int) -> int:
        done = 0
        while time.perf_counter() < end:
            await _exchange(connections[worker], requests[worker][done % len(requests[worker])])
            done += 1
        return done

    counts = await asyncio.gather(*(work(each) for each in range(load.workers)))
    elapsed = time.perf_counter() - began
    for _, writer in connections:
        writer.close()
    return sum(counts) / elapsed


def fill(target: Target, items: int, workers: int = 16) -> None:
    """Writes so many items of a kilobyte, by hand."""
    asyncio.run(_fill(target, items, workers))


async def _fill(target: Target, items: int, workers: int) -> None:
    async def work(worker: int) -> None:
        connection = await _open(target)
        for number in range(worker, items, workers):
            await _exchange(connection, _write(target, f"filled-{number}"))
        connection[1].close()

    await asyncio.gather(*(work(each) for each in range(workers)))


_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _open(target: Target) -> _Connection:
    parts = urllib.parse.urlsplit(target.endpoint)
    return await asyncio.open_connection(parts.hostname, parts.port)


async def _exchange(connection: _Connection, request: bytes) -> None:
    reader, writer = connection
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
        raise RuntimeError(f"the answer is {head[:300]!r}")
    at = head.lower().index(b"content-length:") + 15
    await reader.readexactly(int(head[at : head.index(b"\r\n", at)]))


def _requests(target: Target, load: Load, worker: int) -> Iterator[bytes]:
    if load.operation == "read":
        yield _request(target, "GET", f"dbs/{DATABASE}/colls/{CONTAINER}/docs/{_READ}", _READ)
    else:
        for number in range(_ITEMS_EACH):
            yield _write(target, _name(worker, number))


def _write(target: Target, name: str) -> bytes:
    body = json.dumps(item(name), separators=(",", ":")).encode()
    return _request(target, "POST", f"dbs/{DATABASE}/colls/{CONTAINER}", name, body)


def _request(target: Target, method: str, link: str, key: str, body: bytes = b"") -> bytes:
    """`link` is what is signed: the resource itself, or its parent when something is made in it."""
    date = email.utils.formatdate(usegmt=True)
    text = f"{method.lower()}\ndocs\n{link}\n{date.lower()}\n\n"
    digest = hmac.digest(base64.b64decode(target.key), text.encode(), hashlib.sha256)
    signature = urllib.parse.quote(f"type=master&ver=1.0&sig={base64.b64encode(digest).decode()}", safe="")
    headers = {
        "host": urllib.parse.urlsplit(target.endpoint).netloc,
        "authorization": signature,
        "x-ms-date": date,
        "x-ms-version": "2020-07-15",
        "x-ms-documentdb-partitionkey": json.dumps([key]),
        "accept": "application/json",
    }
    if method == "POST":
        link += "/docs"
        headers |= {"content-type": "application/json", "x-ms-documentdb-is-upsert": "True"}
        headers["content-length"] = str(len(body))
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} /{link}/ HTTP/1.1\r\n{head}\r\n".encode() + body


def _name(worker: int, number: int) -> str:
    return f"written-{worker}-{number % _ITEMS_EACH}"


#: Each way to ask, with what the table calls it.
DRIVERS: dict[str, Callable[[Target, Load, float], float]] = {
    "the blocking SDK": blocking,
    "the SDK on asyncio": asynchronous,
    "by hand": by_hand,
}
