"""The unmodified SDK against the lab: what it does with each fault, sync and asyncio, and what it leaves to us.

The rows are those that were measured with azure-cosmos 4.17.1 before there was a lab; it has to reproduce them.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import ServiceResponseError
from azure.cosmos import CosmosClient, PartitionKey, exceptions
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient

from azlatch.lab.cosmos import CosmosLab


@pytest.fixture(scope="module")
def lab() -> Iterator[CosmosLab]:
    with CosmosLab(throttling=False) as running:
        with CosmosClient(running.endpoint, running.key) as client:
            client.create_database("d").create_container("c", PartitionKey("/pk"))
        yield running


@pytest.fixture
def container(lab: CosmosLab) -> Iterator[Any]:
    with CosmosClient(lab.endpoint, lab.key) as client:
        found = client.get_database_client("d").get_container_client("c")
        found.read()
        yield found
    lab.call(lab.account.admin.clear_rules)


def _rule(lab: CosmosLab, text: str) -> None:
    lab.call(lambda: lab.account.admin.add_rule(text))


def _requests(lab: CosmosLab, operation: str, since: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = lab.call(lambda: lab.account.admin.ledger(since, 10_000))
    return [each for each in rows if each["operation"] == f"docs/{operation}"]


def _last(lab: CosmosLab) -> int:
    rows = lab.call(lambda: lab.account.admin.ledger(0, 100_000))
    return int(rows[-1]["number"]) if rows else 0


def _new() -> dict[str, Any]:
    return {"id": uuid.uuid4().hex, "pk": "p", "n": 0}


_NOT_FOUND, _HTTP = exceptions.CosmosResourceNotFoundError, exceptions.CosmosHttpResponseError
#: A fault that stays, and how often the SDK asks before it gives up: reads and creates.
_ATTEMPTS = [
    ("429/3200 retry-after-ms=2", 10, 10, _HTTP),
    ("449", 1, 1, _HTTP),
    ("412", 1, 1, exceptions.CosmosAccessConditionFailedError),
    ("409", 1, 1, exceptions.CosmosResourceExistsError),
    ("408", 2, 1, _HTTP),
    ("500", 2, 1, _HTTP),
    ("503", 2, 2, _HTTP),
    ("404/1002", 2, 2, _NOT_FOUND),
    ("404/0", 1, 1, _NOT_FOUND),
    ("410/1002", 1, 1, _HTTP),
    ("403/1014", 1, 1, _HTTP),
]


@pytest.mark.parametrize(("fault", "reads", "creates", "error"), _ATTEMPTS, ids=[each[0] for each in _ATTEMPTS])
def test_how_often_the_sdk_asks(
    lab: CosmosLab, container: Any, fault: str, reads: int, creates: int, error: type[Exception]
) -> None:
    item = container.create_item(_new())
    _rule(lab, f"status={fault}")
    since = _last(lab)
    with pytest.raises(error):
        container.read_item(item["id"], "p")
    assert len(_requests(lab, "read", since)) == reads
    with pytest.raises(error):
        container.create_item(_new())
    assert len(_requests(lab, "create", since)) == creates


def test_a_fault_is_told_by_its_activity_id_and_in_the_ledger(lab: CosmosLab, container: Any) -> None:
    _rule(lab, "status=449 op=read times=1")
    since = _last(lab)
    with pytest.raises(_HTTP) as caught:
        container.read_item("any", "p")
    assert "-fa17-" in caught.value.headers["x-ms-activity-id"]
    assert [each["fault"] for each in _requests(lab, "read", since)] == ["status=449 op=read times=1"]


def test_the_sync_client_does_not_know_and_does_not_repeat(lab: CosmosLab, container: Any) -> None:
    item = container.create_item(_new())
    _rule(lab, "drop-reply op=patch times=1")
    since = _last(lab)
    with pytest.raises(ServiceResponseError):
        container.patch_item(item["id"], "p", [{"op": "incr", "path": "/n", "value": 1}])
    assert len(_requests(lab, "patch", since)) == 1
    assert container.read_item(item["id"], "p")["n"] == 1


def test_the_asyncio_client_writes_twice_when_the_reply_is_lost(lab: CosmosLab, container: Any) -> None:
    """A hazard of the SDK (azure/core/pipeline/transport/_aiohttp.py): the lab shows it."""
    item = container.create_item(_new())
    _rule(lab, "drop-reply op=patch times=1")

    async def increment() -> None:
        async with AsyncCosmosClient(lab.endpoint, lab.key) as client:
            mine = client.get_database_client("d").get_container_client("c")
            await mine.patch_item(item["id"], "p", [{"op": "incr", "path": "/n", "value": 1}])

    asyncio.run(increment())
    assert container.read_item(item["id"], "p")["n"] == 2


@pytest.mark.parametrize("fault", ["truncate op=read", "reset op=read", "drop-request op=read"])
def test_reads_survive_one_broken_answer(lab: CosmosLab, container: Any, fault: str) -> None:
    item = container.create_item(_new())
    _rule(lab, f"{fault} times=1")
    try:
        assert container.read_item(item["id"], "p")["n"] == 0
    except ServiceResponseError:
        assert fault.startswith("truncate")
    assert container.read_item(item["id"], "p")["n"] == 0


def test_a_batch_hands_on_no_session_token(container: Any) -> None:
    """A hazard of the SDK: the next read of the same client asks for less than the batch wrote."""
    sent: list[str] = []

    def look(request: Any) -> None:
        sent.append(request.http_request.headers["x-ms-session-token"])

    def last() -> str:
        return str(container.client_connection.last_response_headers["x-ms-session-token"])

    container.create_item(_new())
    before, item = last(), _new()
    container.execute_item_batch([("create", (item,))], "p")
    told = last()
    container.read_item(item["id"], "p", raw_request_hook=look)
    container.read_item(item["id"], "p", session_token=told, raw_request_hook=look)
    assert told != before
    assert sent == [before, told]


def test_upsert_with_if_match_creates_and_create_ignores_conditions(container: Any) -> None:
    made = container.upsert_item(_new(), etag='"none"', match_condition=MatchConditions.IfNotModified)
    assert container.read_item(made["id"], "p")["n"] == 0


@pytest.mark.parametrize("drop", [False, True], ids=["clean", "dropped replies"])
def test_conditional_increments_by_eight_workers_are_all_there(
    lab: CosmosLab, container: Any, drop: bool
) -> None:
    """They end at exactly 320; those whose reply is lost are told by what was written, not guessed."""
    item = container.create_item({**_new(), "done": {}})
    if drop:
        _rule(lab, "drop-reply op=replace p=0.1")
        _rule(lab, "drop-request op=replace p=0.05")

    def work(worker: int) -> None:
        with CosmosClient(lab.endpoint, lab.key) as client:
            mine = client.get_database_client("d").get_container_client("c")
            for number in range(40):
                _increment(mine, item["id"], worker, number)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(100)
    assert container.read_item(item["id"], "p")["n"] == 320


def _increment(container: Any, name: str, worker: int, number: int) -> None:
    """One increment: the last one of each worker is written down in the item, so that it can tell."""
    while True:
        found = container.read_item(name, "p")
        if found["done"].get(str(worker)) == number:
            return
        changed = {**found, "n": found["n"] + 1, "done": {**found["done"], str(worker): number}}
        try:
            container.replace_item(
                name, changed, etag=found["_etag"], match_condition=MatchConditions.IfNotModified
            )
        except exceptions.CosmosAccessConditionFailedError:
            continue
        except ServiceResponseError:
            # Unknown: the next look says whether it is there.
            continue
        return
