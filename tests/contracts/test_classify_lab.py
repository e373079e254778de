"""Real answers of the lab, by way of the unmodified SDK, and what `classify` makes of them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import AzureError
from azure.cosmos import CosmosClient, PartitionKey, exceptions
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient

from azlatch.contracts import Diagnosis, classify
from azlatch.lab.cosmos import CosmosLab


@pytest.fixture(scope="module")
def lab() -> Iterator[CosmosLab]:
    with CosmosLab(throttling=False) as running:
        with CosmosClient(running.endpoint, running.key) as client:
            database = client.create_database("d")
            database.create_container("c", PartitionKey("/pk"))
            policy = {"uniqueKeys": [{"paths": ["/email"]}]}
            database.create_container("unique", PartitionKey("/pk"), unique_key_policy=policy)
        yield running


@pytest.fixture
def client(lab: CosmosLab) -> Iterator[CosmosClient]:
    with CosmosClient(lab.endpoint, lab.key) as made:
        yield made
    lab.call(lab.account.admin.clear_rules)


@pytest.fixture
def container(client: CosmosClient) -> Any:
    found = client.get_database_client("d").get_container_client("c")
    found.read()
    return found


def fault(lab: CosmosLab, text: str) -> None:
    lab.call(lambda: lab.account.admin.add_rule(text))


def new(**more: Any) -> dict[str, Any]:
    return {"id": uuid.uuid4().hex, "pk": "p", "n": 0, **more}


def error_of(call: Callable[[], Any]) -> Exception:
    with pytest.raises(AzureError) as caught:
        call()
    return caught.value


def told(found: Diagnosis) -> tuple[str, str]:
    return found.code, found.kind


@pytest.mark.parametrize(
    ("answer", "operation", "code", "kind", "safe"),
    [
        ("449", "create", "449/0", "concurrent_write", True),
        ("429/3200 retry-after-ms=3", "create", "429/3200", "throttled", True),
        ("429/3214 retry-after-ms=3", "create", "429/3214", "hot_key", True),
        ("404/1002", "read", "404/1002", "behind_session", True),
        ("410/1002", "read", "410/1002", "partition_moved", True),
        ("403/1014", "create", "403/1014", "partition_full", False),
        ("408", "create", "408/0", "unknown_outcome", None),
        ("408", "read", "408/0", "no_answer", True),
        ("500", "create", "500/0", "unknown_outcome", None),
        ("413", "create", "413/0", "too_large", False),
        ("401/5006", "create", "401/5006", "denied", False),
    ],
)
def test_answers_by_rule(
    lab: CosmosLab, container: Any, answer: str, operation: Any, code: str, kind: str, safe: bool | None
) -> None:
    """An answer that the lab gives to the SDK is told by its numbers, whatever class the SDK makes of it."""
    item = container.create_item(new())
    fault(lab, f"status={answer} op={operation}")
    calls = {
        "create": lambda: container.create_item(new()),
        "read": lambda: container.read_item(item["id"], "p"),
    }
    found = classify(error_of(calls[operation]), operation=operation)
    assert (*told(found), found.safe_to_retry) == (code, kind, safe)
    if answer.startswith("429"):
        assert found.wait_s == 0.003


def test_conflicts(client: CosmosClient, container: Any) -> None:
    """What the lab finds by itself: a taken id, a stale ETag, a false condition, an absence, a unique key."""
    item = container.create_item(new())
    assert told(classify(error_of(lambda: container.create_item(item)))) == ("409/0", "already_exists")
    stale = {"etag": '"old"', "match_condition": MatchConditions.IfNotModified}
    assert told(classify(error_of(lambda: container.replace_item(item["id"], item, **stale)))) == (
        "412/0",
        "stale_version",
    )
    operations = [{"op": "incr", "path": "/n", "value": 1}]
    patch = error_of(
        lambda: container.patch_item(item["id"], "p", operations, filter_predicate="from c where c.n = 7")
    )
    assert classify(patch, operation="patch").kind == "stale_version"
    gone = error_of(lambda: container.read_item("none", "p"))
    assert (*told(classify(gone, operation="read")), classify(gone).safe_to_retry) == ("404/0", "absent", False)
    unique = client.get_database_client("d").get_container_client("unique")
    unique.create_item(new(email="a@example.com"))
    twice = error_of(lambda: unique.create_item(new(email="a@example.com")))
    assert told(classify(twice)) == ("409/3301", "unique_key")


def test_a_changed_partition_key(container: Any) -> None:
    """Replacing an item with another partition key is told as what it is (vscode-cosmosdb #358)."""
    item = container.create_item(new())
    # The SDK takes the key from the body: in a batch it is the caller's, and the two can differ.
    moved = [("replace", (item["id"], {**item, "pk": "q"}))]
    error = error_of(lambda: container.execute_item_batch(moved, "p"))
    assert told(classify(error, operation="replace")) == ("400/1001", "immutable_partition_key")


def test_a_container_that_is_missing(client: CosmosClient) -> None:
    """Database and container that do not exist are no absent items."""
    missing = client.get_database_client("d").get_container_client("missing")
    error = error_of(lambda: missing.create_item(new()))
    assert classify(error, operation="create").kind == "owner_missing"


def test_a_batch(container: Any) -> None:
    """Create, stale replace, delete: the replace is the cause, by its index (cosmos-dotnet-v3 #5545)."""
    kept, other = container.create_item(new()), container.create_item(new())
    operations = [
        ("create", (new(),)),
        ("replace", (kept["id"], kept), {"if_match_etag": '"old"'}),
        ("delete", (other["id"],)),
    ]
    error = error_of(lambda: container.execute_item_batch(operations, "p"))
    assert isinstance(error, exceptions.CosmosBatchOperationError)
    found = classify(error, operation="batch")
    assert (*told(found), found.index, found.dependents) == ("412/0", "stale_version", 1, (0, 2))
    done = container.execute_item_batch([("create", (new(),))], "p")
    assert classify(done).kind == "ok"
    assert classify(container.read_item(kept["id"], "p")).kind == "ok"


def test_a_whole_batch_that_is_throttled(lab: CosmosLab, container: Any) -> None:
    """A batch that is refused as a whole comes as the ordinary class, and is understood as well."""
    fault(lab, "status=429/3200 op=batch retry-after-ms=2")
    error = error_of(lambda: container.execute_item_batch([("create", (new(),))], "p"))
    assert not isinstance(error, exceptions.CosmosBatchOperationError)
    found = classify(error, operation="batch")
    assert (*told(found), found.wait_s, found.index) == ("429/3200", "throttled", 0.002, None)


def test_a_success(container: Any) -> None:
    """What the SDK returns is a success, and has the activity id that support asks for."""
    done = container.create_item(new(status=412, code="NotFound"))
    found = classify(done, operation="create")
    assert (found.kind, found.activity_id) == ("ok", done.get_response_headers()["x-ms-activity-id"])


def test_a_lost_reply(lab: CosmosLab, container: Any) -> None:
    """A create whose reply is lost was applied, and its outcome is called unknown."""
    item = new()
    fault(lab, "reset-reply op=create")
    found = classify(error_of(lambda: container.create_item(item)), operation="create")
    assert (found.kind, found.safe_to_retry, found.status) == ("unknown_outcome", None, None)
    assert container.read_item(item["id"], "p")["id"] == item["id"]


def test_asyncio(lab: CosmosLab) -> None:
    """The asyncio client raises the same answers, and an unknown outcome where every connection is cut."""

    async def errors() -> list[Exception]:
        caught: list[Exception] = []
        async with AsyncCosmosClient(lab.endpoint, lab.key) as made:
            container = made.get_database_client("d").get_container_client("c")
            await container.read()
            for text in ("status=449 op=create", "reset-reply op=create"):
                fault(lab, text)
                try:
                    await container.create_item(new())
                except AzureError as error:
                    caught.append(error)
                lab.call(lab.account.admin.clear_rules)
        return caught

    first, *others = asyncio.run(errors())
    assert told(classify(first)) == ("449/0", "concurrent_write")
    for error in others:
        # The write was sent again: it ends as a conflict with itself, or as no answer at all.
        found = classify(error, operation="create")
        assert found.kind in ("unknown_outcome", "already_exists")
        assert found.safe_to_retry is not True
