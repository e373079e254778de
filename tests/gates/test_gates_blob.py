"""The gate around a blob, on real Azurite and through lost replies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import BlobClient, ContainerClient, ContentSettings

from azlatch.errors import BackendUnavailable, FenceRejected, OutcomeUnknown, UsageError
from azlatch.gates import BlobGate
from azlatch.gates.blob import _Seen
from azlatch.lab.azurite import Azurite
from azlatch.lab.faults import Fault
from azlatch.lab.proxy import FaultProxy

_numbers = itertools.count(1)


@pytest.fixture(name="blob")
def _blob(faults: FaultProxy) -> Iterator[BlobClient]:
    """A blob that is not there yet, by way of the proxy."""
    name = f"gates-{next(_numbers)}"
    with ContainerClient.from_connection_string(faults.connection_string, name) as container:
        container.create_container()
        yield container.get_blob_client("state")


def test_older_fences_are_refused(blob: BlobClient) -> None:
    """Equal is accepted, older is not, by whichever client; the order is counted (F5, M3)."""
    gate, other = BlobGate(blob), BlobGate(blob)
    assert gate.newest is None
    assert gate.read(4) is None
    assert gate.write(5, b"a") == (1, 5)
    assert other.write(5, "b") == (2, 5)
    assert gate.write(7, lambda before: (before or b"") + b"c") == (3, 7)
    with pytest.raises(FenceRejected) as refused:
        other.write(6, b"z")
    assert (refused.value.offered, refused.value.newest) == (6, 7)
    with pytest.raises(FenceRejected):
        gate.write(None, b"z")
    assert gate.read(7) == b"bc"


def test_a_reader_shows_its_fence(blob: BlobClient) -> None:
    """Once a newer holder has read, an older one writes no more; an older reader is refused too."""
    gate = BlobGate(blob)
    gate.write(1, b"a")
    assert gate.read(3) == b"a"
    assert gate.newest == 3
    for late in (lambda: gate.write(2, b"z"), lambda: gate.read(2)):
        with pytest.raises(FenceRejected):
            late()
    assert gate.read(3) == b"a"


def test_content_settings_stay(blob: BlobClient) -> None:
    """What else belongs to the blob survives a write."""
    settings = ContentSettings(content_type="application/json", cache_control="no-store")
    blob.upload_blob(b"{}", metadata={"Owner": "shop"}, content_settings=settings)
    gate = BlobGate(blob)
    for fence in (1, 2):
        gate.write(fence, b"[%d]" % fence)
    found = blob.get_blob_properties()
    assert found.metadata["Owner"] == "shop"
    assert found.content_settings.content_type == "application/json"
    assert found.content_settings.cache_control == "no-store"
    assert blob.download_blob().readall() == b"[2]"


def test_of_two_writers_one_comes_first(blob: BlobClient) -> None:
    """A write between reading and writing is noticed: the function runs again on what is there now."""
    gate = BlobGate(blob)
    gate.write(1, b"0")
    seen: list[bytes | None] = []

    def change(before: bytes | None) -> bytes:
        seen.append(before)
        if len(seen) == 1:
            BlobGate(blob).write(1, b"5")
        return b"%d" % (int(before or b"0") + 1)

    assert gate.write(1, change).sequence == 3
    assert seen == [b"0", b"5"]
    assert gate.read(1) == b"6"


def test_a_newer_holder_in_between(blob: BlobClient) -> None:
    """If that write has a newer fence, this one is refused, and nothing of it happened."""
    gate = BlobGate(blob)
    gate.write(1, b"0")

    def change(before: bytes | None) -> bytes:
        BlobGate(blob).write(2, b"newer")
        return b"older"

    with pytest.raises(FenceRejected):
        gate.write(1, change)
    assert gate.read(2) == b"newer"


@pytest.mark.parametrize("fault", [Fault.drop_reply(), Fault.drop_request(), Fault.status(500)])
def test_a_write_whose_reply_is_lost(fault: Fault, blob: BlobClient, faults: FaultProxy) -> None:
    """It is resolved by reading back: written once, whatever became of the first request (M5)."""
    gate = BlobGate(blob)
    gate.write(1, b"0")
    faults.add(fault, method="PUT", times=1)
    assert gate.write(1, lambda before: (before or b"") + b"1") == (2, 1)
    assert gate.read(1) == b"01"


class _Between(BlobGate):
    """Something happens before its second look."""

    def __init__(self, blob: BlobClient, between: Callable[[], object]) -> None:
        super().__init__(blob)
        self._between = between
        self._looks = 0

    def _look(self) -> _Seen:
        self._looks += 1
        if self._looks == 2:
            self._between()
        return super()._look()


@pytest.mark.parametrize("newer", [1, 2])
def test_a_lost_reply_and_another_write(newer: int, blob: BlobClient, faults: FaultProxy) -> None:
    """What was written over before it could be read back is unknown: not refused, and not done again (M5)."""
    BlobGate(blob).write(1, b"0")
    faults.add(Fault.drop_reply(), method="PUT", times=1)

    def append(before: bytes | None) -> bytes:
        return (before or b"") + b"1"

    gate = _Between(blob, lambda: BlobGate(blob).write(newer, lambda before: (before or b"") + b"2"))
    with pytest.raises(OutcomeUnknown):
        gate.write(1, append)
    assert BlobGate(blob).read(2) == b"012"


def test_a_lost_request_and_a_newer_reader(blob: BlobClient, faults: FaultProxy) -> None:
    """A look of a newer holder is no write: then it is certain that nothing was written."""
    BlobGate(blob).write(1, b"0")
    faults.add(Fault.drop_request(), method="PUT", times=1)
    with pytest.raises(FenceRejected):
        _Between(blob, lambda: BlobGate(blob).read(2)).write(1, b"1")
    assert BlobGate(blob).read(2) == b"0"


def test_a_service_that_is_not_there(azurite: Azurite) -> None:
    """An outage is one, within the bound of the gate."""
    text = azurite.connection_string_at(9)
    with BlobClient.from_connection_string(text, "gates", "state") as blob:
        with pytest.raises(BackendUnavailable):
            BlobGate(blob, timeout=2).write(1, b"")


def test_metadata_that_were_changed_by_hand(blob: BlobClient) -> None:
    """A fence that is no number lets nobody in, and says what to mend."""
    blob.upload_blob(b"", metadata={"azlatch_gate_fence": "many"})
    with pytest.raises(UsageError, match="azlatch_gate_fence"):
        BlobGate(blob).write(1, b"")


def test_nothing_is_made_by_looking(blob: BlobClient) -> None:
    """A gate that was only asked leaves no blob behind."""
    assert BlobGate(blob).newest is None
    with pytest.raises(ResourceNotFoundError):
        blob.get_blob_properties()
