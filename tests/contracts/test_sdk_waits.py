"""Deadlines that the SDK's own waits do not outlast: the hooks end a call before such a wait, not after it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos import _endpoint_discovery_retry_policy as wrong_region
from azure.cosmos import _service_unavailable_retry_policy as unavailable
from azure.cosmos import _timeout_failover_retry_policy as failed
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient

from azlatch import contracts
from azlatch.contracts import aio
from azlatch.contracts.batch_sdk import Sends
from azlatch.contracts.sdk_waits import asks_for_regions, wait_after
from azlatch.contracts.watch import Stopped, Watch
from azlatch.lab.cosmos import CosmosLab


def client_of(needed: object = False) -> Any:
    """A container whose client has to be told."""
    manager = SimpleNamespace(refresh_needed=needed)
    return SimpleNamespace(client_connection=SimpleNamespace(_global_endpoint_manager=manager))


def exchange(method: str, status: int, headers: dict[str, str]) -> tuple[Any, Any]:
    """A request and its answer, as azure-core's hooks get them."""
    request = SimpleNamespace(method=method, url="http://lab/dbs/d/colls/c/docs/a", headers=headers)
    answer = SimpleNamespace(status_code=status, headers=headers)
    return (
        SimpleNamespace(http_request=request),
        SimpleNamespace(http_request=request, http_response=answer),
    )


#: Method, answer, seconds that the SDK would wait for.
WAITS: list[tuple[Literal["GET", "PUT"], int, dict[str, str], float]] = [
    ("PUT", 403, {"x-ms-substatus": "3"}, 1.0),
    ("GET", 403, {"x-ms-substatus": "1008"}, 1.0),
    ("GET", 503, {}, 0.5),
    ("GET", 500, {}, 0.5),
    ("GET", 408, {}, 0.5),
    ("GET", 429, {"x-ms-retry-after-ms": "700"}, 0.7),
    ("PUT", 429, {"x-ms-retry-after-ms": "700"}, 0.7),
]


@pytest.mark.parametrize(("method", "status", "headers", "wait"), WAITS)
def test_a_wait_is_ended_if_it_would_outlast_the_time(
    method: Literal["GET", "PUT"], status: int, headers: dict[str, str], wait: float
) -> None:
    """With less than the wait left the call ends with the answer; with more the SDK goes on."""
    request, answer = exchange(method, status, headers)
    short = Watch(method, 100.0, lambda: 100.01 - wait, client_of())
    short.sending(request)
    with pytest.raises(Stopped):
        short.answered(answer)
    assert short.failure(Stopped()).status == status
    enough = Watch(method, 100.0, lambda: 99.99 - wait, client_of())
    enough.sending(request)
    enough.answered(answer)


@pytest.mark.parametrize("status", [400, 403, 404, 409, 412, 449])
def test_other_refusals_are_the_sdks(status: int) -> None:
    """It waits after none of them, so there is nothing to end, however little time is left."""
    request, answer = exchange("PUT", status, {})
    watch = Watch("PUT", 100.0, lambda: 101.0, client_of())
    watch.sending(request)
    watch.answered(answer)


def test_a_batch_is_ended_as_an_update_is() -> None:
    """A call of `execute_item_batch` with less than the SDK's second left, and one with more."""
    request, answer = exchange("POST", 403, {"x-ms-substatus": "3", "x-ms-cosmos-is-batch-request": "True"})
    container = client_of()
    short, enough = Sends(container, 0.9), Sends(container, 900.0)
    for each in (short, enough):
        each.on_request(request)
    enough.on_response(answer)
    assert container.client_connection._global_endpoint_manager.refresh_needed is False
    with pytest.raises(Stopped):
        short.on_response(answer)
    assert container.client_connection._global_endpoint_manager.refresh_needed is True
    assert (short.answer_of_error(Stopped()).status, short.answer_of_error(Stopped()).substatus) == (403, 3)


@pytest.mark.parametrize("container", [object(), client_of(needed=None), client_of(needed=lambda: True)])
def test_a_client_that_cannot_be_told_is_left_to_wait(container: Any) -> None:
    """Ended without being told, it would ask the region of before the failover again and again."""
    request, answer = exchange("PUT", 403, {"x-ms-substatus": "3"})
    watch = Watch("PUT", 100.0, lambda: 99.9, container)
    watch.sending(request)
    watch.answered(answer)


def test_the_waits_are_those_of_the_sdk_that_is_installed() -> None:
    """Read off its own policies: a version that waits longer is noticed here."""
    policy = wrong_region.EndpointDiscoveryRetryPolicy
    assert wait_after(403, 3, None) == policy.Retry_after_in_milliseconds / 1000
    manager: Any = SimpleNamespace(location_cache=SimpleNamespace(read_regional_routing_contexts=[]))
    for kind in (failed._TimeoutFailoverRetryPolicy, unavailable._ServiceUnavailableRetryPolicy):
        assert wait_after(503, 0, None) == kind(None, manager, None).retry_after_in_milliseconds / 1000


@pytest.fixture
def lab() -> Iterator[CosmosLab]:
    with CosmosLab(regions=("East US", "West US"), throttling=False) as running:
        with CosmosClient(running.endpoint, running.key) as client:
            container = client.create_database("d").create_container("c", PartitionKey("/pk"))
            container.create_item({"id": "a", "pk": "p", "n": 0})
        yield running


def one_more(item: dict[str, Any]) -> None:
    item["n"] += 1


@pytest.mark.parametrize("family", ["sync", "asyncio"])
def test_a_failover_is_found_with_less_time_than_the_sdk_waits(lab: CosmosLab, family: str) -> None:
    """The client asks for its regions at once, and the update is applied where writes are taken now."""

    def fail_over() -> None:
        lab.call(lambda: lab.account.admin.failover("West US"))

    async def asynchronous() -> Any:
        async with AsyncCosmosClient(lab.endpoint, lab.key) as client:
            container = client.get_database_client("d").get_container_client("c")
            await aio.update_item(container, "a", "p", one_more)
            fail_over()
            return await aio.update_item(container, "a", "p", one_more, deadline=1.8)

    def blocking() -> Any:
        with CosmosClient(lab.endpoint, lab.key) as client:
            container = client.get_database_client("d").get_container_client("c")
            contracts.update_item(container, "a", "p", one_more)
            fail_over()
            return contracts.update_item(container, "a", "p", one_more, deadline=1.8)

    done = blocking() if family == "sync" else asyncio.run(asynchronous())
    assert (done.outcome, done.recovered, done.item["n"]) == ("applied", False, 2)
    rows = lab.call(lambda: lab.account.admin.ledger(0, 10_000))
    assert (403, 3) in {(each["status"], each["substatus"]) for each in rows}


def test_the_sdks_clients_can_be_told(lab: CosmosLab) -> None:
    """Both families have what is set; a version that has it no more is noticed here."""

    async def asynchronous() -> bool:
        async with AsyncCosmosClient(lab.endpoint, lab.key) as client:
            return asks_for_regions(client.get_database_client("d").get_container_client("c"))

    with CosmosClient(lab.endpoint, lab.key) as client:
        assert asks_for_regions(client.get_database_client("d").get_container_client("c"))
    assert asyncio.run(asynchronous())
