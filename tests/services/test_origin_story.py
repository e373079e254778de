"""What the project is for: instances that read, change and upload one blob, on Azurite with the real SDK."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from azure.storage.blob import BlobServiceClient

from azlatch.lab.azurite import Azurite

PATH = Path(__file__).parents[2] / "examples" / "three_workers.py"


@pytest.fixture(scope="module")
def story() -> Iterator[ModuleType]:
    """The example, as a module."""
    spec = importlib.util.spec_from_file_location("three_workers", PATH)
    assert spec is not None and spec.loader is not None
    sys.modules["three_workers"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["three_workers"]


@pytest.fixture
def service(azurite: Azurite) -> Iterator[BlobServiceClient]:
    with BlobServiceClient.from_connection_string(azurite.connection_string) as client:
        yield client


def test_without_a_latch_updates_vanish_and_nobody_sees_an_error(
    story: ModuleType, service: BlobServiceClient, azurite: Azurite
) -> None:
    """Three instances, one work list, plain reads and uploads: some updates are gone, and no call failed."""
    result = story.run("bare", service, azurite.connection_string)
    assert result.errors == []
    assert result.deliveries > result.updates
    assert 0 < result.missing < result.updates


def test_with_a_latch_and_a_gate_none_vanishes(
    story: ModuleType, service: BlobServiceClient, azurite: Azurite
) -> None:
    """The same work list with `latches.hold` and BlobGate: every update is there."""
    result = story.run("gate", service, azurite.connection_string)
    assert (result.missing, result.errors) == (0, [])
    assert result.deliveries > result.updates


def test_an_instance_that_is_stopped_past_its_ttl(
    story: ModuleType, service: BlobServiceClient, azurite: Azurite
) -> None:
    """Two holders are stopped between reading and writing until others have taken over. Without a gate the
    update in between vanishes; the gate refuses the write, the message comes again, and nothing is missing."""
    container = "stopped"
    service.create_container(container)
    for item in ("open", "gated"):
        service.get_blob_client(container, item).upload_blob(story.with_order(None, "first"))
    late = {
        "latch": {"order": "late", "item": "open", "slow": True},
        "gate": {"order": "late", "item": "gated", "slow": True},
    }
    with story.workers(["latch", "gate", "latch", "gate"], container, azurite.connection_string) as instances:
        stopped, others = instances[:2], instances[2:]
        for worker, message in zip(stopped, late.values(), strict=True):
            worker.send(message)
            assert worker.answer() == {"read": "late"}
            worker.stop()
        started = time.monotonic()
        for worker, message in zip(others, late.values(), strict=True):
            worker.send({"order": "between", "item": message["item"]})
        for worker in others:
            assert worker.answer() == {"done": "between"}
        assert time.monotonic() - started < 40.0
        for worker in stopped:
            worker.resume()
            worker.send(None)
        assert stopped[0].answer() == {"failed": "late", "error": "HoldLost"}
        assert story.found(service, container, ["open"]) == {"first", "late"}
        assert stopped[1].answer() == {"failed": "late", "error": "FenceRejected"}
        assert story.found(service, container, ["gated"]) == {"first", "between"}
        others[1].send({"order": "late", "item": "gated"})
        assert others[1].answer() == {"done": "late"}
    assert story.found(service, container, ["gated"]) == {"first", "between", "late"}
