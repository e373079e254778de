"""Public reports about stand-ins for the service, rows C-2 26 and C-3 41: the lab answers as it does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from azure.cosmos import CosmosClient, PartitionKey, exceptions

from azlatch.lab.cosmos import CosmosLab

Item = dict[str, Any]
_numbers = itertools.count(1)
TOKEN = "x-ms-session-token"


@pytest.fixture(scope="module")
def lab() -> Iterator[CosmosLab]:
    with CosmosLab(throttling=False) as running:
        yield running


@pytest.fixture
def container(lab: CosmosLab) -> Iterator[Any]:
    with CosmosClient(lab.endpoint, lab.key) as client:
        database = client.create_database_if_not_exists("d")
        found = database.create_container(f"c{next(_numbers)}", PartitionKey("/pk"))
        found.create_item({"id": "a", "pk": "p", "n": 1})
        yield found


def stored(container: Any) -> dict[str, int]:
    return {each["id"]: each["n"] for each in container.read_all_items()}


BODY = {"id": "a", "pk": "p", "n": 2}
#: Each operation that takes a condition, as the SDK takes it.
CONDITIONAL: list[tuple[Any, ...]] = [
    ("replace", ("a", BODY)),
    ("upsert", (BODY,)),
    ("patch", ("a", [{"op": "set", "path": "/n", "value": 2}])),
    ("delete", ("a",)),
]


@pytest.mark.parametrize(("operation", "arguments"), CONDITIONAL, ids=[each[0] for each in CONDITIONAL])
def test_c2_26_if_match_is_honoured_by_each_operation_of_a_batch(
    container: Any, operation: str, arguments: Any
) -> None:
    """Row 26: with an old version the batch is refused as a whole, with the stored one it is applied."""
    old = container.read_item("a", "p")["_etag"]
    container.replace_item("a", {"id": "a", "pk": "p", "n": 1})
    with pytest.raises(exceptions.CosmosBatchOperationError) as caught:
        container.execute_item_batch(
            [
                ("create", ({"id": "b", "pk": "p", "n": 0},)),
                (operation, arguments, {"if_match_etag": old}),
            ],
            "p",
        )
    assert [each["statusCode"] for each in caught.value.operation_responses] == [424, 412]
    assert stored(container) == {"a": 1}
    now = container.read_item("a", "p")["_etag"]
    container.execute_item_batch([(operation, arguments, {"if_match_etag": now})], "p")
    assert stored(container) == ({} if operation == "delete" else {"a": 2})


def numbered(count: int, **more: Any) -> list[Any]:
    return [("upsert", ({"id": str(number), "pk": "p", "n": 0, **more},)) for number in range(count)]


@pytest.mark.parametrize(
    ("operations", "status"),
    [
        (numbered(101), 400),
        (numbered(3, text="x" * 800_000), 413),
        ([*numbered(1), ("create", ({"id": "b", "pk": "q", "n": 0},))], 400),
    ],
    ids=["count", "size", "key"],
)
def test_c2_26_the_limits_of_a_batch_are_the_services_too(
    container: Any, operations: list[Any], status: int
) -> None:
    """Row 26: who sends it without `Batch` is refused by the lab, and nothing is written."""
    with pytest.raises((exceptions.CosmosHttpResponseError, exceptions.CosmosBatchOperationError)) as caught:
        container.execute_item_batch(operations, "p")
    assert caught.value.status_code == status
    assert stored(container) == {"a": 1}


def test_c2_26_a_batch_of_a_hundred_is_taken(container: Any) -> None:
    """Row 26: neither 403 nor 500 for what is within the limits."""
    results = container.execute_item_batch(numbered(100), "p")
    assert {each["statusCode"] for each in results} == {201}
    assert len(stored(container)) == 101


def position(token: str) -> int:
    """The global sequence number in a token of one range."""
    return int(token.split(":", 1)[1].split("#")[1])


def test_c3_41_the_token_moves_with_each_write(container: Any) -> None:
    """Row 41: create, replace, patch, upsert and delete each bring a newer one; a read brings the newest."""

    def told(answer: Any) -> int:
        return position(answer.get_response_headers()[TOKEN])

    seen = [told(container.create_item({"id": "b", "pk": "p"}))]
    seen.append(told(container.replace_item("b", {"id": "b", "pk": "p", "n": 1})))
    seen.append(told(container.patch_item("b", "p", [{"op": "set", "path": "/n", "value": 2}])))
    seen.append(told(container.upsert_item({"id": "b", "pk": "p", "n": 3})))
    deleted: list[Any] = []
    container.delete_item("b", "p", response_hook=lambda headers, _: deleted.append(headers))
    seen.append(position(deleted[0][TOKEN]))
    assert seen == sorted(set(seen))
    assert told(container.read_item("a", "p")) == seen[-1]


def test_c3_41_a_query_is_told_how_far_it_has_seen(container: Any) -> None:
    """Row 41: its token is not that of an empty partition."""
    wrote = container.upsert_item({"id": "b", "pk": "p"}).get_response_headers()[TOKEN]
    told: list[Any] = []
    query = container.query_items(
        "SELECT c.id FROM c", partition_key="p", response_hook=lambda headers, _: told.append(headers)
    )
    assert len(list(query)) == 2
    assert position(told[-1][TOKEN]) == position(wrote)


@pytest.mark.parametrize("token", ["invalid", "0", "0:x", "0:-1#x", "0:1#2#3"])
def test_c3_41_what_is_no_token_is_not_taken(container: Any, token: str) -> None:
    """Row 41: 400, in place of an answer as if there were none."""
    with pytest.raises(exceptions.CosmosHttpResponseError) as caught:
        container.read_item("a", "p", session_token=token)
    assert caught.value.status_code == 400


def test_c3_41_a_token_of_the_future_is_no_absence_and_no_answer(container: Any) -> None:
    """Row 41: what no replica has seen is 404/1002, not the item as it is."""
    now = container.read_item("a", "p").get_response_headers()[TOKEN]
    future = now.replace(f"#{position(now)}", f"#{position(now) + 1_000_000}")
    assert future != now
    with pytest.raises(exceptions.CosmosHttpResponseError) as caught:
        container.read_item("a", "p", session_token=future)
    assert (caught.value.status_code, caught.value.sub_status) == (404, 1002)
