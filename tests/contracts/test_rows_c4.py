"""Public reports about lost updates and misread answers, rows C-4 42 to 51 of the log of them, as tests."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.cosmos import CosmosClient, PartitionKey, exceptions

from azlatch import contracts
from azlatch.errors import UsageError
from azlatch.lab.cosmos import CosmosLab

Item = dict[str, Any]


@pytest.fixture(scope="module")
def lab() -> Iterator[CosmosLab]:
    with CosmosLab(throttling=False) as running, CosmosClient(running.endpoint, running.key) as client:
        client.create_database("d").create_container("c", PartitionKey("/pk"))
        yield running


@pytest.fixture
def container(lab: CosmosLab) -> Iterator[Any]:
    with CosmosClient(lab.endpoint, lab.key) as client:
        found = client.get_database_client("d").get_container_client("c")
        found.upsert_item({"id": "p", "pk": "fund-1", "version": 3, "position": 100})
        yield found
    lab.call(lab.account.admin.clear_rules)


def add(amount: int) -> Any:
    def change(item: Item) -> None:
        item["position"] += amount
        item["version"] += 1

    return change


RULE = contracts.numeric_delta("position", "version")


def test_the_two_operators(lab: CosmosLab, container: Any) -> None:
    """Both read version 3, position 100; the second gets 412, re-reads, and the rule keeps both changes."""
    both_have_read = threading.Barrier(2)
    ends: dict[int, Any] = {}

    def operator(amount: int) -> None:
        def change(item: Item) -> None:
            assert (item["version"], item["position"]) == (3, 100)
            both_have_read.wait(10)
            add(amount)(item)

        with CosmosClient(lab.endpoint, lab.key) as client:
            mine = client.get_database_client("d").get_container_client("c")
            ends[amount] = contracts.update_item(mine, "p", "fund-1", change, reconcile=RULE)

    threads = [threading.Thread(target=operator, args=(amount,)) for amount in (5, 7)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    stored = container.read_item("p", "fund-1")
    assert (stored["position"], stored["version"]) == (112, 5)
    assert sorted(each.conflicts for each in ends.values()) == [0, 1]
    assert {each.outcome for each in ends.values()} == {"applied"}


def test_the_example_of_the_two_operators() -> None:
    """examples/two_operators.py loses a change by hand, and none with update_item."""
    script = Path(__file__).parents[2] / "examples" / "two_operators.py"
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Lost with update_item: 0." in done.stdout


def test_c4_42_a_stale_tab_does_not_overwrite_a_newer_change(container: Any) -> None:
    """Refresh, compare, overwrite; and the overwrite is itself conditional on the latest version."""
    tab = container.read_item("p", "fund-1")
    contracts.update_item(container, "p", "fund-1", add(5))
    with pytest.raises(contracts.ConflictNeedsDecision) as caught:
        contracts.update_item(container, "p", "fund-1", add(-100), based_on=tab)
    shown = caught.value
    assert [each.path for each in shown.conflicting] == ["/position"]
    contracts.update_item(container, "p", "fund-1", add(1))
    with pytest.raises(contracts.ConflictNeedsDecision):
        contracts.update_item(container, "p", "fund-1", lambda _: shown.mine, based_on=shown.theirs)
    assert container.read_item("p", "fund-1")["position"] == 106


def test_c4_42_two_editors_of_two_fields_lose_neither(container: Any) -> None:
    """The tab that was open for longer changed another field: refused, or with a rule both are there."""
    tab = container.upsert_item({"id": "two", "pk": "fund-1", "version": 1, "left": "old", "right": "old"})
    contracts.update_item(container, "two", "fund-1", lambda item: item.update(version=2, left="new"))

    def save(item: Item) -> None:
        item["right"] = "new"

    with pytest.raises(contracts.ConflictNeedsDecision) as caught:
        contracts.update_item(container, "two", "fund-1", save, based_on=tab)
    assert not caught.value.conflicting
    assert container.read_item("two", "fund-1")["right"] == "old"
    contracts.update_item(container, "two", "fund-1", save, based_on=tab, reconcile=contracts.three_way)
    stored = container.read_item("two", "fund-1")
    assert (stored["version"], stored["left"], stored["right"]) == (2, "new", "new")


def test_c4_43_an_editor_without_a_condition_loses_a_change(container: Any) -> None:
    """As Data Explorer, with the plain SDK: nobody is told. The next update_item finds the item as it is."""
    tab = container.read_item("p", "fund-1")
    contracts.update_item(container, "p", "fund-1", add(5))
    container.replace_item("p", {**tab, "position": 99})
    assert contracts.update_item(container, "p", "fund-1", add(1)).item["position"] == 100


def test_c4_44_a_conflict_is_not_a_create_that_exists(container: Any) -> None:
    """412 and 409 are two things: the SDK has two classes, and only 412 is a conflict here."""
    with pytest.raises(exceptions.CosmosResourceExistsError):
        container.create_item({"id": "p", "pk": "fund-1"})
    tab = container.read_item("p", "fund-1")
    contracts.update_item(container, "p", "fund-1", add(5))
    with pytest.raises(contracts.ConflictNeedsDecision):
        contracts.update_item(container, "p", "fund-1", add(5), based_on=tab)


def test_c4_44_a_batch_tells_the_two_apart(container: Any) -> None:
    """409 and 412 are two kinds, with two cures."""
    old = container.read_item("p", "fund-1")["_etag"]
    contracts.update_item(container, "p", "fund-1", add(5))
    body = {"id": "p", "pk": "fund-1"}
    told = []
    for batch in (
        contracts.Batch(container, "fund-1").create(body),
        contracts.Batch(container, "fund-1").replace("p", body, etag=old),
    ):
        with pytest.raises(contracts.BatchFailed) as caught:
            batch.execute()
        told.append((caught.value.root.status, caught.value.root.kind))
    assert told == [(409, "already_exists"), (412, "stale_version")]
    assert container.read_item("p", "fund-1")["position"] == 105


def test_c4_45_a_batch_without_a_version_is_refused(container: Any) -> None:
    """An etag that was asked for and is None is no write without a condition."""
    batch = contracts.Batch(container, "fund-1")
    for etag in (None, "", "*"):
        with pytest.raises(UsageError, match="guards nothing"):
            batch.replace("p", {"id": "p", "pk": "fund-1"}, etag=etag)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="guards nothing"):
            batch.delete("p", etag=etag)  # type: ignore[arg-type]
    assert len(batch) == 0


def test_c4_45_a_guard_without_a_version_is_refused(container: Any) -> None:
    """The SDK writes with `etag=None` as if no condition was meant; update_item does not write."""
    seen = {name: value for name, value in container.read_item("p", "fund-1").items() if name != "_etag"}
    with pytest.raises(UsageError, match="no _etag"):
        contracts.update_item(container, "p", "fund-1", add(5), based_on=seen)
    assert container.read_item("p", "fund-1")["position"] == 100


def test_c4_46_a_guarded_update_creates_nothing(lab: CosmosLab, container: Any) -> None:
    """An upsert with If-Match makes what is missing (201); update_item replaces, and says: absent."""
    body = {"id": "missing", "pk": "fund-1", "version": 1, "position": 0}
    made = container.upsert_item(body, etag='"x"', match_condition=MatchConditions.IfNotModified)
    assert made["id"] == "missing"
    container.delete_item("missing", "fund-1")
    with pytest.raises(contracts.ItemAbsent):
        contracts.update_item(container, "missing", "fund-1", add(5), based_on=made)
    rows = lab.call(lambda: lab.account.admin.ledger(0, 100_000))
    assert [each["operation"] for each in rows if each["name"] == "missing"][-1] == "docs/replace"


def test_c4_48_retry_with_is_not_a_conflict(lab: CosmosLab, container: Any) -> None:
    """449 `Conflicting request to resource has been attempted`: waited for; no rule is asked."""
    lab.add_rule("status=449 op=replace times=3")

    def never(base: Item, theirs: Item, mine: Item) -> Item:
        raise AssertionError("449 was taken for a conflict")

    done = contracts.update_item(container, "p", "fund-1", add(5), reconcile=never)
    assert (done.item["position"], done.conflicts, done.throttles, done.attempts) == (105, 0, 3, 4)


@pytest.mark.parametrize("fault", ["drop-reply", "reset-reply", "truncate"])
def test_c4_49_an_own_write_that_is_found_is_no_conflict(lab: CosmosLab, container: Any, fault: str) -> None:
    """The response is lost after the commit: applied by us, not by a stranger."""
    lab.add_rule(f"{fault} op=replace times=1")
    done = contracts.update_item(container, "p", "fund-1", add(5))
    assert (done.outcome, done.recovered, done.conflicts) == ("applied", True, 0)
    assert container.read_item("p", "fund-1")["position"] == 105


def test_c4_50_a_timeout_of_a_write_that_succeeded(lab: CosmosLab, container: Any) -> None:
    """The write is applied after its time was over: found in the item, and not done again."""
    lab.add_rule("delay-reply=5 op=replace times=1")
    done = contracts.update_item(container, "p", "fund-1", add(5), deadline=4.0)
    assert (done.outcome, done.recovered) == ("applied", True)
    assert container.read_item("p", "fund-1")["position"] == 105


def test_c4_51_hidden_throttling_is_reported(lab: CosmosLab, container: Any) -> None:
    """The SDK waits for 429 by itself and tells nobody: the headers that it returns do not have its count."""
    lab.add_rule("status=429/3200 op=replace retry-after-ms=1 times=4")
    item = container.read_item("p", "fund-1")
    reply = container.replace_item("p", {**item, "position": 1})
    assert reply.get_response_headers().get("x-ms-throttle-retry-count") is None
    lab.add_rule("status=429/3200 op=replace retry-after-ms=1 times=4")
    done = contracts.update_item(container, "p", "fund-1", add(5))
    assert (done.throttles, done.attempts) == (4, 1)
