"""What docs/contracts/wrong-code.md says of code in the wild, tried on the lab with the unmodified SDK."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.cosmos import CosmosClient, PartitionKey, exceptions

from azlatch.lab.cosmos import CosmosLab


@pytest.fixture
def lab() -> Iterator[CosmosLab]:
    with CosmosLab() as running:
        yield running


@pytest.fixture
def container(lab: CosmosLab) -> Iterator[Any]:
    with CosmosClient(lab.endpoint, lab.key) as client:
        yield client.create_database("d").create_container("c", PartitionKey("/pk"), default_ttl=-1)


def _lock(owner: str, **more: Any) -> dict[str, Any]:
    return {"id": "lock", "pk": "lock", "owner": owner, **more}


@pytest.mark.parametrize("argument", ["condition", "if_match_etag"])
def test_a_condition_that_the_sdk_does_not_have_writes_nothing(container: Any, argument: str) -> None:
    container.create_item(_lock("B"))
    with pytest.raises(TypeError):
        container.upsert_item(_lock("A"), **{argument: "from c where c.owner = 'A'"})
    assert container.read_item("lock", "lock")["owner"] == "B"


def test_an_etag_alone_is_refused_by_the_sdk(container: Any) -> None:
    with pytest.raises(ValueError, match="match_condition"):
        container.upsert_item(_lock("A"), etag='"1"')


def test_an_upsert_as_renewal_brings_a_lost_lock_back(container: Any) -> None:
    mine = container.create_item(_lock("A"))
    container.delete_item("lock", "lock")
    condition = {"etag": mine["_etag"], "match_condition": MatchConditions.IfNotModified}
    assert container.upsert_item(_lock("A"), **condition)["owner"] == "A"
    container.delete_item("lock", "lock")
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        container.replace_item("lock", _lock("A"), **condition)


def test_a_delete_without_a_condition_ends_somebody_elses_lock(container: Any) -> None:
    mine = container.create_item(_lock("A"))
    container.replace_item("lock", _lock("B"))
    condition = {"etag": mine["_etag"], "match_condition": MatchConditions.IfNotModified}
    with pytest.raises(exceptions.CosmosAccessConditionFailedError):
        container.delete_item("lock", "lock", **condition)
    container.delete_item("lock", "lock")
    # A third one gets in, while B works.
    assert container.create_item(_lock("C"))["owner"] == "C"


def test_read_then_upsert_loses_updates_and_nothing_says_so(lab: CosmosLab, container: Any) -> None:
    container.create_item({"id": "stock", "pk": "p", "n": 1_000})
    together = threading.Barrier(4)

    def sell() -> None:
        with CosmosClient(lab.endpoint, lab.key) as client:
            mine = client.get_database_client("d").get_container_client("c")
            for _ in range(20):
                together.wait(30)
                item = mine.read_item("stock", "p")
                item["n"] -= 1
                together.wait(30)
                mine.upsert_item(item)

    threads = [threading.Thread(target=sell) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    # 80 were sold.
    assert container.read_item("stock", "p")["n"] > 1_000 - 80


def test_the_expiry_that_the_service_ignores(lab: CosmosLab, container: Any) -> None:
    container.create_item(_lock("dead", _ttl=5))
    container.create_item({**_lock("dead", ttl=5), "id": "right"})
    lab.clock.advance(3_600)
    assert container.read_item("lock", "lock")["owner"] == "dead"
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        container.read_item("right", "lock")
