"""The log that production has: which rows a request leaves, what is in them, and what its files survive."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest
import requests
from azure.core.exceptions import ServiceResponseError
from azure.cosmos import CosmosClient, PartitionKey, exceptions
from cosmos_clients import PATIENCE, FakeEngine
from hypothesis import given, settings
from hypothesis import strategies as st

from azlatch.errors import UsageError
from azlatch.lab.cosmos import log_tables
from azlatch.lab.cosmos.lab import CosmosLab
from azlatch.lab.cosmos.ledger import Row
from azlatch.lab.cosmos.log_files import LogFiles
from azlatch.lab.cosmos.log_tables import COLUMNS, CONSUMPTION, REQUESTS, STATISTICS
from azlatch.lab.cosmos.request_log import STATISTICS_EVERY_S, RequestLog
from azlatch.testing.cosmos_engine import Engine


class Kept:
    """Files that are none."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, dict[str, Any]]] = []

    def write(self, table: str, row: dict[str, Any]) -> None:
        self.rows.append((table, row))

    def close(self) -> None:
        self.write("closed", {})

    def of(self, table: str) -> list[dict[str, Any]]:
        return [row for name, row in self.rows if name == table]


def logged(engine: Engine) -> tuple[Kept, RequestLog]:
    kept = Kept()
    log = RequestLog(engine.account, kept)  # type: ignore[arg-type]
    engine.account.log = log.wrote
    return kept, log


def lines_of(folder: Path, table: str) -> list[dict[str, Any]]:
    return [json.loads(each) for each in (folder / f"{table}.jsonl").read_text().splitlines()]


def values_of(folder: Path, table: str) -> list[dict[str, str]]:
    with (folder / f"{table}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# -- through the SDK ---------------------------------------------------------------------------------------


def test_what_an_application_does_is_in_the_tables(tmp_path: Path) -> None:
    """Each request of the SDK is one row with what it cost; those for items also count for their key."""
    with CosmosLab(logs=tmp_path) as lab, CosmosClient(lab.endpoint, lab.key) as client:
        container = client.create_database("shop").create_container("orders", PartitionKey("/customer"))
        container.create_item({"id": "1", "customer": "contosø", "total": 1})
        charge = float(container.client_connection.last_response_headers["x-ms-request-charge"])
        container.read_item("1", "contosø")
        container.patch_item("1", "contosø", [{"op": "incr", "path": "/total", "value": 1}])
        with pytest.raises(exceptions.CosmosResourceNotFoundError):
            container.read_item("2", "contosø")
        list(container.query_items("SELECT * FROM c", partition_key="contosø"))
        list(container.query_items("SELECT * FROM c", enable_cross_partition_query=True))
        list(container.query_items_change_feed(start_time="Beginning"))
        container.execute_item_batch([("upsert", ({"id": "3", "customer": "contosø"},))], "contosø")
    rows = lines_of(tmp_path, REQUESTS)
    items = [
        (row["OperationName"], row["StatusCode"]) for row in rows if row["RequestResourceType"] == "Document"
    ]
    assert [each for each in items if each != ("ReadFeed", 304)] == [
        ("Create", 201),
        ("Read", 200),
        ("Patch", 200),
        ("Read", 404),
        ("Query", 200),
        ("Query", 200),
        ("ReadFeed", 200),
        ("Batch", 200),
    ]
    made = next(row for row in rows if row["OperationName"] == "Create" and row["CollectionName"])
    assert (made["RequestCharge"], made["DatabaseName"], made["CollectionName"]) == (charge, "shop", "orders")
    assert (made["AuthTokenType"], made["RegionName"]) == ("PrimaryMasterKey", "East US")
    assert made["UserAgent"].startswith("azsdk-python-cosmos")
    assert made["DurationMs"] > 0
    read = next(row for row in rows if row["OperationName"] == "Read" and row["PartitionId"])
    assert read["RequestResourceId"] == "dbs/shop/colls/orders/docs/1"
    assert {"Database", "Collection", "DatabaseAccount"} <= {row["RequestResourceType"] for row in rows}
    used = lines_of(tmp_path, CONSUMPTION)
    keyed = '["contosø"]'
    keys = [(row["OperationName"], row["PartitionKey"]) for row in used]
    assert [each for each in keys if each != ("ReadFeed", "")] == [
        ("Create", keyed),
        ("Read", keyed),
        ("Patch", keyed),
        ("Read", keyed),
        ("Query", keyed),
        ("Query", ""),
        ("Batch", keyed),
    ]
    assert {row["PartitionKeyRangeId"] for row in used} == {"0"}
    assert [(row["PartitionKey"], row["SizeKb"]) for row in lines_of(tmp_path, STATISTICS)] == [(keyed, 1)]


def test_both_files_of_a_table_say_the_same(tmp_path: Path) -> None:
    """CSV has a head and the columns in their order, whatever the values contain."""
    with CosmosLab(logs=tmp_path) as lab, CosmosClient(lab.endpoint, lab.key) as client:
        container = client.create_database("d").create_container("c", PartitionKey("/pk"))
        container.create_item({"id": "1", "pk": 'quoted, "twice"\nand broken'})
    for table, columns in COLUMNS.items():
        rows, values = lines_of(tmp_path, table), values_of(tmp_path, table)
        assert len(rows) == len(values) > 0
        assert {tuple(row) for row in rows} == {tuple(each) for each in values} == {columns}
        assert [{name: str(value) for name, value in row.items()} for row in rows] == values
        assert (tmp_path / f"{table}.csv").read_text().count("\n") == 1 + len(rows)
        assert {row["Type"] for row in rows} == {table}


def test_faults_are_told_as_the_service_would(tmp_path: Path) -> None:
    """A lost reply is a success in the log; what never arrived is not there; a refusal has its substatus."""
    with CosmosLab(logs=tmp_path) as lab, CosmosClient(lab.endpoint, lab.key) as client:
        container = client.create_database("d").create_container("c", PartitionKey("/pk"))
        for rule in ("drop-reply op=create times=1", "drop-request op=create times=1"):
            lab.add_rule(rule)
            with pytest.raises(ServiceResponseError):
                container.create_item({"id": rule.split()[0], "pk": "p"})
        lab.add_rule("status=449/7 op=create times=1")
        with pytest.raises(exceptions.CosmosHttpResponseError) as caught:
            container.create_item({"id": "x", "pk": "p"})
    rows = [row for row in lines_of(tmp_path, REQUESTS) if row["CollectionName"] == "c"]
    written = [row for row in rows if row["OperationName"] == "Create"]
    assert [(row["StatusCode"], row["SubStatusCode"]) for row in written] == [(201, 0), (449, 7)]
    # The mark of the fault is in the last digits alone, so the log and the error can be joined.
    assert caught.value.headers["x-ms-activity-id"][:18] == written[1]["ActivityId"][:18]
    assert [row["RequestCharge"] > 0 for row in written] == [True, False]
    assert len(lines_of(tmp_path, CONSUMPTION)) == 1


def test_who_may_not_ask_is_in_the_log(tmp_path: Path) -> None:
    """401, for the item that was asked for; without a log the ledger is about served requests alone."""
    with CosmosLab(logs=tmp_path) as lab:
        url = f"{lab.endpoint}dbs/d/colls/c/docs/1"
        assert requests.get(url, timeout=PATIENCE).status_code == 401
        forged = {"authorization": "type%3Daad%26ver%3D1.0%26sig%3Dx.y.z"}
        assert requests.get(url, headers=forged, timeout=PATIENCE).status_code == 401
    first, second = lines_of(tmp_path, REQUESTS)
    assert (first["StatusCode"], first["OperationName"], first["CollectionName"]) == (401, "Read", "c")
    assert (first["AuthTokenType"], second["AuthTokenType"]) == ("", "AadToken")
    assert lines_of(tmp_path, CONSUMPTION) == []


def test_the_admin_interface_gives_the_same_rows(tmp_path: Path) -> None:
    """Page by page, for as long as the ledger remembers; who asks for another table is told the known ones."""
    with CosmosLab(logs=tmp_path) as lab, CosmosClient(lab.endpoint, lab.key) as client:
        container = client.create_database("d").create_container("c", PartitionKey("/pk"))
        for number in range(5):
            container.create_item({"id": str(number), "pk": "p"})

        def get(what: str) -> Any:
            reply = requests.get(
                lab.admin_url + what, headers={"x-azlatch-key": lab.admin_key}, timeout=PATIENCE
            )
            return reply.json()

        found: list[dict[str, Any]] = []
        after = 0
        while (page := get(f"logs/{REQUESTS}?since={after}&most=2"))["next"] != after:
            after = page["next"]
            found += page["rows"]
        assert get(f"logs/{STATISTICS}")["rows"][0]["PartitionKey"] == '["p"]'
        assert "use one of CDBDataPlaneRequests" in get("logs/nonsense")["message"]
    assert found == lines_of(tmp_path, REQUESTS)


def test_without_a_log_there_is_none() -> None:
    """The ledger stays as it was, nothing is measured, and the admin interface says how to have a log."""
    with CosmosLab() as lab:
        requests.get(f"{lab.endpoint}dbs", timeout=PATIENCE)
        assert lab.call(lambda: lab.account.admin.ledger()) == []
        with pytest.raises(UsageError, match="--logs FOLDER"):
            lab.call(lambda: lab.account.admin.logs(REQUESTS))
    engine = Engine()
    engine.read("a", "p")
    assert {(row.path, row.signed, row.duration_ms) for row in engine.account.ledger.rows()} == {("", "", 0.0)}


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    """Is said at the start, and the port is free again."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be used"):
        CosmosLab(logs=tmp_path / "file").start()
    os.mkfifo(tmp_path / f"{REQUESTS}.csv")
    with pytest.raises(UsageError, match="no ordinary file"):
        CosmosLab(logs=tmp_path).start()

    class NoLog(FakeEngine):
        pass

    with pytest.raises(UsageError, match="leave logs= out"):
        CosmosLab(engine=NoLog, logs=tmp_path / "other").start()


# -- on the engine ----------------------------------------------------------------------------------------


def test_statistics_come_with_time_and_at_the_end() -> None:
    """The three largest keys of each range in each region, not with every request."""
    engine = Engine(regions=("A", "B"))
    kept, log = logged(engine)
    for number, key in enumerate("abcd"):
        engine.create({"id": "1", "pk": key, "text": "x" * 3_000 * number})
    assert kept.of(STATISTICS) == []
    engine.tick(STATISTICS_EVERY_S)
    engine.read("1", "a")
    rows = kept.of(STATISTICS)
    assert sorted((row["RegionName"], row["PartitionKey"], row["SizeKb"]) for row in rows) == [
        (region, f'["{key}"]', size) for region in "AB" for key, size in (("b", 4), ("c", 7), ("d", 10))
    ]
    engine.read("1", "a")
    assert len(kept.of(STATISTICS)) == len(rows)
    log.close()
    assert len(kept.of(STATISTICS)) == 2 * len(rows)
    assert kept.rows[-1] == ("closed", {})


def test_a_wait_for_the_other_regions_is_in_the_duration() -> None:
    """A Strong write that takes a second of the lab's time says so."""
    engine = Engine(regions=("A", "B"), consistency="Strong")
    kept, _ = logged(engine)
    engine.admin.lag("A", "B", 1.0)
    engine.create({"id": "1", "pk": "p"})
    assert kept.of(REQUESTS)[-1]["DurationMs"] >= 1_000


def test_a_range_after_a_split_is_told_by_its_new_name() -> None:
    engine = Engine()
    kept, _ = logged(engine)
    engine.create({"id": "1", "pk": "p"})
    engine.admin.split("d/c", "0")
    engine.read("1", "p")
    before, after = (row["PartitionKeyRangeId"] for row in kept.of(CONSUMPTION))
    assert before == "0"
    assert after in {part.id for part in engine.store.parts} - {"0"}


ROWS = st.builds(
    Row,
    number=st.integers(1, 10**9),
    at=st.floats(0, 1e18),
    region=st.text(max_size=5),
    operation=st.sampled_from(["docs/create", "docs/query", "docs/delete-key", "colls/read", "unknown", ""]),
    container=st.sampled_from(["", "d/c", "d"]),
    partition_key=st.text(max_size=20)
    | st.sampled_from(["[]", '["a"]', '[ "a" ]', '["\\ud800"]', "[" * 9_999]),
    range_id=st.sampled_from(["", "0", "rid==,7"]),
    name=st.text(max_size=5),
    status=st.integers(200, 599),
    substatus=st.integers(0, 9_999),
    charge=st.floats(0, 1e6),
    request_length=st.integers(0, 10**7),
    response_length=st.integers(0, 10**7),
    activity_id=st.text(max_size=40),
    fault=st.sampled_from(["", "reset p=1", "drop-request", "drop-reply", "status=429"]),
    path=st.text(max_size=40),
    signed=st.text(max_size=9) | st.sampled_from(["master", "resource", "aad"]),
)


@given(ROWS)
@settings(deadline=None)
def test_any_request_has_its_rows(row: Row) -> None:
    """Whatever clients send: one row in a table at most, with all of its columns, and a line of JSON."""
    found = list(log_tables.rows_of(row, "account"))
    tables = [table for table, _ in found]
    arrived = row.fault.partition(" ")[0] not in ("reset", "drop-request")
    assert tables.count(REQUESTS) == arrived
    assert tables.count(CONSUMPTION) == (arrived and row.operation.startswith("docs/") and row.charge > 0)
    for table, values in found:
        assert tuple(values) == COLUMNS[table]
        assert b"\n" not in log_tables.encode(values)
        assert values["TimeGenerated"][-1] == "Z"
        if table == CONSUMPTION:
            assert values["PartitionKeyRangeId"] == {"": "undefined", "0": "0", "rid==,7": "7"}[row.range_id]


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ("", ""),
        ("[]", ""),
        ("no JSON", ""),
        ('["a"]', '["a"]'),
        ('[ "a" , 1.0 ]', '["a",1.0]'),
        ('["\\u00e9"]', '["é"]'),
        ("[{}]", "[{}]"),
        ("[null]", "[null]"),
    ],
)
def test_how_a_key_is_spelled(sent: str, told: str) -> None:
    """Compact JSON, so that one key has one spelling however its clients wrote it."""
    assert log_tables.key_text(sent) == told


# -- the files --------------------------------------------------------------------------------------------


def row_of(table: str, **facts: Any) -> dict[str, Any]:
    return dict.fromkeys(COLUMNS[table], "") | facts


def test_a_later_run_goes_on_in_the_same_files(tmp_path: Path) -> None:
    """One head; and a line that was cut off spoils no other."""
    files = LogFiles(str(tmp_path))
    files.write(STATISTICS, row_of(STATISTICS, SizeKb=1))
    files.close()
    with (tmp_path / f"{STATISTICS}.jsonl").open("a") as file:
        file.write('{"cut o')
    again = LogFiles(str(tmp_path))
    again.write(STATISTICS, row_of(STATISTICS, SizeKb=2))
    again.close()
    lines = (tmp_path / f"{STATISTICS}.jsonl").read_text().splitlines()
    assert [json.loads(each)["SizeKb"] for each in (lines[0], lines[2])] == [1, 2]
    assert [each["SizeKb"] for each in values_of(tmp_path, STATISTICS)] == ["1", "2"]
    assert (tmp_path / f"{STATISTICS}.csv").stat().st_mode & 0o077 == 0


def test_files_do_not_grow_without_end(tmp_path: Path) -> None:
    """Two of the largest size at most, each with a head and whole lines."""
    files = LogFiles(str(tmp_path), most_bytes=1_200)
    for number in range(100):
        files.write(STATISTICS, row_of(STATISTICS, SizeKb=number))
    files.close()
    sizes = {each.name: each.stat().st_size for each in tmp_path.iterdir()}
    assert max(sizes.values()) <= 1_200
    assert set(sizes) >= {f"{STATISTICS}.csv", f"{STATISTICS}.csv.old", f"{STATISTICS}.jsonl.old"}
    assert values_of(tmp_path, STATISTICS)[-1]["SizeKb"] == "99"
    newest = [row["SizeKb"] for row in lines_of(tmp_path, STATISTICS)]
    assert newest == list(range(newest[0], 100))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is missing: a disk that is full")
def test_a_full_disk_ends_the_log_and_not_the_lab(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is said once; requests are answered as before."""
    with CosmosLab(logs=tmp_path) as lab, CosmosClient(lab.endpoint, lab.key) as client:
        client.create_database("before")

        def fill() -> None:
            full = os.open("/dev/full", os.O_WRONLY)
            assert lab._log is not None
            for file in lab._log._files._files:
                os.dup2(full, file._number)
            os.close(full)

        lab.call(fill)
        client.create_database("after")
        assert [each["id"] for each in client.list_databases()] == ["before", "after"]
    assert [each.message for each in caplog.records if "log of requests" in each.message] == [
        f"the log of requests has ended: {REQUESTS}: No space left on device"
    ]
