"""What operators do with latches on Blob, by the command line and on real Azurite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import BlobClient, ContainerClient

from azlatch.lab.azurite import Azurite

from .conftest import Connect

pytestmark = pytest.mark.timeout(180)


class Shell:
    """Runs `azlatch` on the test's container."""

    def __init__(self, azurite: Azurite, container: str, folder: Path) -> None:
        self._url = f"blob://devstoreaccount1/{container}"
        self._environment = {
            **os.environ,
            "AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string,
            "AZLATCH_AUDIT": str(folder / "audit.jsonl"),
        }

    def __call__(
        self, *arguments: str, code: int = 0, url: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "azlatch", "--url", url or self._url, *arguments]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert "Traceback" not in done.stderr
        assert done.returncode == code, done.stderr
        return done

    def lines(self, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self(*arguments, "--json", code=code).stdout.splitlines()]


@pytest.fixture
def shell(azurite: Azurite, container: str, tmp_path: Path) -> Shell:
    return Shell(azurite, container, tmp_path)


@pytest.fixture
def client(azurite: Azurite, container: str) -> Any:
    with ContainerClient.from_connection_string(azurite.connection_string, container) as made:
        yield made


def foreign(client: ContainerClient, name: str, seconds: int) -> BlobClient:
    """A lease that another program took and left, on a blob of its own."""
    blob = client.upload_blob(name, b"theirs")
    blob.acquire_lease(seconds)
    return blob


def test_a_container_that_is_missing(shell: Shell) -> None:
    """69, with what to run; the doctor makes it, and then all is well."""
    said = shell("list", code=69).stderr
    assert "azlatch doctor --apply" in said
    assert [line["status"] for line in shell.lines("doctor", code=1)] == ["wrong"]
    checks = {line["what"]: line["status"] for line in shell.lines("doctor", "--apply")}
    assert checks["container"] == checks["rights"] == checks["clock"] == checks["immutability"] == "ok"
    assert checks["lifecycle rules"] == "warn"
    assert shell.lines("list", "--all") == []


def test_list_inspect_and_break(connect: Connect, shell: Shell) -> None:
    """Who holds what, and an operator's release by the rules: the holder is told, and the fence rises."""
    latches = connect()
    hold = latches.acquire("invoice/42", ttl=15)
    hold.note("page 7")
    (view,) = shell.lines("list")
    assert (view["name"], view["state"], view["fence"], view["note"]) == (
        "invoice/42",
        "held",
        hold.fence,
        "page 7",
    )
    assert "as recorded" in shell("inspect", "invoice/42").stdout
    shell("break", "invoice/42", "--reason", "stuck")
    assert hold.wait_lost(20)
    assert hold.lost_reason == "broken"
    said = shell("inspect", "invoice/42").stdout
    assert "stuck" in said
    newer = latches.acquire("invoice/42", timeout=30)
    assert newer.fence is not None
    assert hold.fence is not None
    assert newer.fence > hold.fence
    newer.release()


def test_run(shell: Shell, connect: Connect) -> None:
    """A command under a latch on Blob: one at a time; 75 for the other; the fence reaches the command."""
    connect()
    done = shell("run", "job", "--ttl", "15", "--", "sh", "-c", "echo $AZLATCH_FENCE")
    assert int(done.stdout) > 1 << 50
    latches = connect()
    with latches.hold("job"):
        shell("run", "job", "--timeout", "0", "--", "true", code=75)


def test_the_lock_that_stood_for_47_hours(connect: Connect, shell: Shell, client: ContainerClient) -> None:
    """An infinite lease of another program is seen, named, and freed; leases of the living stay."""
    latches = connect()
    hold = latches.acquire("alive")
    foreign(client, "locks/host", -1)
    (orphan,) = shell.lines("reap", code=1)
    assert (orphan["name"], orphan["holder"], orphan["done"]) == ("locks/host", None, "found")
    assert "infinite" in orphan["why"]
    (freed,) = shell.lines("reap", "--apply")
    assert freed["done"] == "freed"
    client.get_blob_client("locks/host").acquire_lease(15).release()
    assert shell.lines("reap") == []
    hold.ensure()
    hold.release()


def test_over_age_leases_are_watched(connect: Connect, shell: Shell, client: ContainerClient) -> None:
    """The age of a lease is nowhere written: one look says so, and --every watches."""
    connect()
    blob = foreign(client, "theirs", 60)
    assert "--every" in shell("reap", "--max-age", "1").stderr
    environment = shell._environment
    command = [sys.executable, "-m", "azlatch", "--url", shell._url, "reap", "--max-age", "2", "--every", "1"]
    process = subprocess.Popen(
        [*command, "--apply", "--json"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()
        watchdog.cancel()
    assert told["name"] == "theirs"
    assert "held for" in told["why"]
    assert blob.get_blob_properties().lease.state in ("breaking", "broken")


def test_a_break_without_metadata(connect: Connect, shell: Shell, client: ContainerClient) -> None:
    """A foreign lease without a record is broken by its blob's name, at once or when it has run out."""
    connect()
    blob = foreign(client, "Some/Blob.lock", 60)
    assert shell("inspect", "Some/Blob.lock").stdout.count("unknown") == 1
    shell("break", "Some/Blob.lock", "--reason", "x", "--now")
    blob.acquire_lease(15).release()


def test_purge(connect: Connect, shell: Shell, client: ContainerClient) -> None:
    """Free records that are old enough go; held ones, other programs' blobs and younger ones stay."""
    latches = connect()
    for name in ("a", "b", "c"):
        latches.acquire(name).release()
    held = latches.acquire("held")
    client.upload_blob("theirs", b"")
    shell("purge", "--older-than", "3600")
    assert len(list(client.list_blobs())) == 5
    time.sleep(3)
    shell("purge", "--older-than", "0")
    assert sorted(blob.name for blob in client.list_blobs()) == ["held", "theirs"]
    held.ensure()
    held.release()


def test_ten_thousand_latches(connect: Connect, shell: Shell, client: ContainerClient) -> None:
    """They are listed page by page, each once."""
    from concurrent.futures import ThreadPoolExecutor

    latches = connect()
    with latches.hold("n0"):
        found = latches.inspect("n0")
    assert found is not None
    table = client.get_blob_client("n0").get_blob_properties().metadata

    def make(number: int) -> None:
        client.upload_blob(f"n{number}", b"", metadata=table)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(1, 10_001)))
    assert sum(1 for _ in latches.list()) == 10_001


@pytest.mark.parametrize(
    "url", ["blob://devstoreaccount1", "blob://other/latches", "blob://x/latches?sig=SECRET"]
)
def test_urls_that_cannot_work(url: str, shell: Shell) -> None:
    """64, and no secret is repeated."""
    done = shell("list", url=url, code=64)
    assert "SECRET" not in done.stderr
