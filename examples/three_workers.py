"""Three workers, one work list, and blobs that they read, change and upload: without a latch, and with one.

    azlatch lab exec azurite -- python examples/three_workers.py

Each worker is a process of its own, with the Azure SDK as it is. Messages are delivered at least once: every
fifth one twice, and one that was not confirmed again. A message adds an order to the blob of its item, once.
"""

# ruff: noqa: T201, S603 - a script: what it prints is its purpose, and it starts itself

from __future__ import annotations

import json
import os
import random
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from azure.storage.blob import BlobClient, BlobServiceClient

import azlatch
from azlatch.gates import BlobGate

CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"
WORKERS, ITEMS, MESSAGES = 3, 4, 90
WAYS = {
    "bare": "read, change, upload",
    "latch": "the same while holding a latch",
    "gate": "with a latch, through a gate",
}
PATIENCE = 60.0


# -- a worker ----------------------------------------------------------------------------------------


def with_order(content: bytes | None, order: str) -> bytes:
    """The change: the order is in it once, however often its message comes."""
    item = json.loads(content or '{"orders": []}')
    if order not in item["orders"]:
        item["orders"].append(order)
    return json.dumps(item).encode()


def think(message: dict[str, Any]) -> None:
    """What the worker does between reading and writing; a test can make it last until a line comes."""
    if message.get("slow"):
        print(json.dumps({"read": message["order"]}), flush=True)
        sys.stdin.readline()
    time.sleep(0.005)


def bare(blob: BlobClient, message: dict[str, Any]) -> None:
    content = blob.download_blob().readall()
    think(message)
    blob.upload_blob(with_order(content, message["order"]), overwrite=True)


def latch(blob: BlobClient, message: dict[str, Any], latches: azlatch.Latches) -> None:
    with latches.hold(message["item"], ttl=15, timeout=PATIENCE):
        bare(blob, message)


def gate(blob: BlobClient, message: dict[str, Any], latches: azlatch.Latches) -> None:
    guarded = BlobGate(blob)
    with latches.hold(message["item"], ttl=15, timeout=PATIENCE) as hold:
        content = guarded.read(hold)
        think(message)
        guarded.write(hold, with_order(content, message["order"]))


def work(way: str, container: str) -> None:
    """Takes messages from stdin, and says for each whether it is done."""
    service = BlobServiceClient.from_connection_string(os.environ[CONNECTION])
    latches = azlatch.connect(f"blob://{service.account_name}/{container}-latches", create=True)
    with service, latches:
        for line in iter(sys.stdin.readline, ""):
            message = json.loads(line)
            blob = service.get_blob_client(container, message["item"])
            try:
                if way == "bare":
                    bare(blob, message)
                else:
                    (latch if way == "latch" else gate)(blob, message, latches)
            except Exception as error:  # noqa: BLE001 - whatever it is, the message comes again
                print(json.dumps({"failed": message["order"], "error": type(error).__name__}), flush=True)
            else:
                print(json.dumps({"done": message["order"]}), flush=True)


# -- the work list -----------------------------------------------------------------------------------


class Worker:
    """One instance, spoken to line by line."""

    def __init__(self, way: str, container: str, connection_string: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, way, container],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, CONNECTION: connection_string},
        )

    def send(self, message: dict[str, Any] | None) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n" if message is None else json.dumps(message) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """What it says next, within a bound."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(PATIENCE):
                raise TimeoutError(f"the worker said nothing for {PATIENCE:g} s")
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def stop(self) -> None:
        """As a debugger, a full machine or a frozen virtual machine would."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self.resume()
        self.process.kill()
        self.process.communicate()


@contextmanager
def workers(ways: list[str], container: str, connection_string: str) -> Iterator[list[Worker]]:
    """Worker processes, ended at the end."""
    started = [Worker(way, container, connection_string) for way in ways]
    try:
        yield started
    finally:
        for worker in started:
            worker.end()


class Result(NamedTuple):
    """What came of a work list."""

    updates: int
    missing: int
    deliveries: int
    errors: list[str]
    seconds: float


def run(way: str, service: BlobServiceClient, connection_string: str, seed: int = 1) -> Result:
    """Has three workers do the whole list, and counts whose order is in no blob."""
    chance = random.Random(seed)
    container = f"{way}-{os.urandom(4).hex()}"
    service.create_container(container)
    items = [f"item-{number}" for number in range(ITEMS)]
    for item in items:
        service.get_blob_client(container, item).upload_blob(with_order(None, "first"))
    orders = {f"order-{number}": chance.choice(items) for number in range(MESSAGES)}
    messages = [{"order": order, "item": item} for order, item in orders.items()]
    waiting: deque[dict[str, Any]] = deque()
    for number, message in enumerate(messages):
        waiting.extend([message] * (2 if number % 5 == 0 else 1))
    deliveries, errors = 0, []
    started = time.monotonic()
    with (
        workers([way] * WORKERS, container, connection_string) as instances,
        selectors.DefaultSelector() as selector,
    ):
        busy = 0
        for worker in instances:
            assert worker.process.stdout is not None
            selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
            worker.send(waiting.popleft())
            busy += 1
            deliveries += 1
        while busy:
            if not (ready := selector.select(PATIENCE)):
                raise TimeoutError(f"no worker said anything for {PATIENCE:g} s")
            for key, _ in ready:
                answer = key.data.answer()
                busy -= 1
                if "error" in answer:
                    errors.append(answer["error"])
                    if len(errors) > MESSAGES:
                        raise RuntimeError(f"nothing but errors: {errors[-3:]}")
                    waiting.append({"order": answer["failed"], "item": orders[answer["failed"]]})
                if waiting:
                    key.data.send(waiting.popleft())
                    busy += 1
                    deliveries += 1
    return Result(
        MESSAGES,
        len(set(orders) - found(service, container, items)),
        deliveries,
        errors,
        time.monotonic() - started,
    )


def found(service: BlobServiceClient, container: str, items: list[str]) -> set[str]:
    """The orders that are in the blobs."""
    contents = [service.get_blob_client(container, item).download_blob().readall() for item in items]
    return {order for content in contents for order in json.loads(content)["orders"]}


def main() -> None:
    text = os.environ[CONNECTION]
    with BlobServiceClient.from_connection_string(text) as service:
        for way, words in WAYS.items():
            result = run(way, service, text)
            print(
                f"{words}: {result.missing} of {result.updates} updates missing, {len(result.errors)} errors, "
                f"{result.deliveries} deliveries in {result.seconds:.1f} s"
            )


if __name__ == "__main__":
    work(*sys.argv[1:]) if len(sys.argv) > 1 else main()
