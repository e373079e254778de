"""Code around blob leases that is often written and does not do what it seems to; docs/wrong-code.md explains.

Each test shows what happens on Azurite with the real SDK. Where Azure is known to differ, the test says so.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import BlobClient, BlobLeaseClient, BlobServiceClient, StorageErrorCode

import azlatch
from azlatch.lab.azurite import Azurite
from azlatch.lab.faults import Fault
from azlatch.lab.proxy import FaultProxy

from .conftest import Connect

RENEW = {"x-ms-lease-action": "renew"}


@pytest.fixture
def blob(azurite: Azurite, container: str) -> Iterator[BlobClient]:
    """A blob of the test's own."""
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        service.create_container(container)
        client = service.get_blob_client(container, "data")
        client.upload_blob(b"0")
        yield client


def through(proxy: FaultProxy, blob: BlobClient, **options: object) -> BlobClient:
    """The same blob, through a proxy."""
    return BlobClient.from_connection_string(
        proxy.connection_string, blob.container_name, blob.blob_name, **options
    )


def state_of(blob: BlobClient) -> tuple[str, str | None]:
    lease = blob.get_blob_properties().lease
    return lease.state, lease.duration


def test_a_release_without_the_id_frees_nothing(blob: BlobClient) -> None:
    """A new BlobLeaseClient has a random id: its release is refused with 409, and the blob stays leased."""
    blob.acquire_lease(lease_duration=15)
    with pytest.raises(ResourceExistsError) as caught:
        BlobLeaseClient(blob).release()
    assert caught.value.status_code == 409
    assert caught.value.error_code == StorageErrorCode.LEASE_ID_MISMATCH_WITH_LEASE_OPERATION
    assert state_of(blob) == ("leased", "fixed")


def test_a_break_needs_no_id_and_the_holder_is_not_told(blob: BlobClient) -> None:
    """break_lease as a release: it ends anybody's lease at once, and the holder learns of it when it renews."""
    holder = blob.acquire_lease(lease_duration=15)
    BlobLeaseClient(blob).break_lease(lease_break_period=0)
    other = blob.acquire_lease(lease_duration=15)
    with pytest.raises(ResourceExistsError):
        holder.renew()
    other.renew()


def test_the_code_of_a_lease_that_is_held(blob: BlobClient) -> None:
    """It is LeaseAlreadyPresent; a comparison with a code that does not exist sends contention to `raise`."""
    blob.acquire_lease(lease_duration=15)
    with pytest.raises(ResourceExistsError) as caught:
        blob.acquire_lease(lease_duration=15)
    assert caught.value.error_code == "LeaseAlreadyPresent" == StorageErrorCode.LEASE_ALREADY_PRESENT
    assert "LeaseAlreadyAcquired" not in set(StorageErrorCode)


def test_an_error_code_is_a_str_or_a_member_of_an_enum(blob: BlobClient) -> None:
    """A 409 brings a plain str, a 412 an enum: both compare equal to text, and only one prints as it."""
    blob.acquire_lease(lease_duration=15)
    with pytest.raises(ResourceExistsError) as conflict:
        blob.acquire_lease(lease_duration=15)
    with pytest.raises(HttpResponseError) as condition:
        blob.upload_blob(b"1", overwrite=True)
    assert type(conflict.value.error_code) is str
    assert type(condition.value.error_code) is StorageErrorCode
    assert condition.value.error_code == "LeaseIdMissing"
    assert f"{condition.value.error_code}" == "StorageErrorCode.LEASE_ID_MISSING"


def test_a_swallowed_conflict_lets_two_in(blob: BlobClient) -> None:
    """An acquire that hides the conflict and says nothing: both callers go on as if they had the lease."""
    inside: list[str] = []

    def lock() -> None:
        try:
            blob.acquire_lease(lease_duration=15)
        except ResourceExistsError:
            pass  # "the lease is there already"

    for instance in ("one", "two"):
        lock()
        inside.append(instance)
    assert inside == ["one", "two"]


def test_an_infinite_lease_outlives_its_holder(blob: BlobClient, connect: Connect) -> None:
    """acquire_lease() without a duration is infinite: nobody else gets it until somebody breaks it."""
    blob.acquire_lease()
    assert state_of(blob) == ("leased", "infinite")
    with pytest.raises(ResourceExistsError):
        blob.acquire_lease(lease_duration=15)
    BlobLeaseClient(blob).break_lease()
    blob.acquire_lease(lease_duration=15)


def test_a_second_acquire_makes_a_lease_infinite(blob: BlobClient) -> None:
    """`lease.acquire()` to be on the safe side: the same id is let in, and the default duration is infinite."""
    lease = blob.acquire_lease(lease_duration=15)
    lease.acquire()
    assert state_of(blob) == ("leased", "infinite")


def test_exists_then_upload_lets_two_in(blob: BlobClient, azurite: Azurite) -> None:
    """Both look, both see nothing, both upload: two holders. `overwrite=False` is decided by the service."""
    clients = [
        BlobClient.from_connection_string(azurite.connection_string, blob.container_name, "lock")
        for _ in range(2)
    ]
    looked, inside = threading.Barrier(2, timeout=30), []

    def lock(number: int) -> None:
        if not clients[number].exists():
            looked.wait()  # nothing keeps two instances from being here at a time
            clients[number].upload_blob(str(number), overwrite=True)
            inside.append(number)

    threads = [threading.Thread(target=lock, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(inside) == [0, 1]
    with pytest.raises(ResourceExistsError) as caught:
        clients[0].upload_blob(b"0", overwrite=False)
    assert caught.value.error_code == StorageErrorCode.BLOB_ALREADY_EXISTS
    for client in clients:
        client.close()


def test_an_id_of_the_instance_lets_two_tasks_in(blob: BlobClient) -> None:
    """The same proposed id is the same lease: two tasks of one instance both get it, and one frees both."""
    instance = str(uuid.uuid4())
    first = blob.acquire_lease(lease_duration=15, lease_id=instance)
    second = blob.acquire_lease(lease_duration=15, lease_id=instance)
    first.release()
    with pytest.raises(ResourceExistsError):
        second.renew()
    blob.acquire_lease(lease_duration=15)


def test_a_release_of_a_lost_lease_hides_the_real_error(blob: BlobClient) -> None:
    """`finally: lease.release()` after a loss raises 409, and what went wrong is only its __context__."""

    def work() -> None:
        lease = blob.acquire_lease(lease_duration=15)
        try:
            BlobLeaseClient(blob).break_lease(lease_break_period=0)  # as if it had expired
            blob.acquire_lease(lease_duration=15)  # and another one had it now
            raise LookupError("the customer is unknown")
        finally:
            lease.release()

    with pytest.raises(ResourceExistsError) as caught:
        work()
    assert isinstance(caught.value.__context__, LookupError)


def test_leaving_a_lost_hold_hides_nothing(connect: Connect) -> None:
    """The same with a latch: the body's own error comes out, and release() of what is gone is quiet."""
    latches = connect()
    with pytest.raises(LookupError), latches.hold("job", ttl=15) as hold:
        latches.break_hold("job", reason="a test", now=True)
        raise LookupError("the customer is unknown")
    hold.release()


def test_a_second_release_is_a_value_error(blob: BlobClient) -> None:
    """release() forgets the id; the second one is a ValueError of the SDK, which no `except` expects."""
    lease = blob.acquire_lease(lease_duration=15)
    lease.release()
    assert lease.id is None
    with pytest.raises(ValueError, match="No value for given attribute"):
        lease.release()
    with pytest.raises(ValueError, match="No value for given attribute"):
        lease.renew()


class Pauses(RequestsTransport):
    """Sends requests as ever, and counts the pauses between tries instead of making them."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def sleep(self, duration: float) -> None:
        self.seconds.append(duration)


def test_one_503_with_the_default_retries_outlasts_the_lease(blob: BlobClient, faults: FaultProxy) -> None:
    """One busy answer to a renewal: the SDK pauses for 15 to 21 s, a lease of 15 s is over, and it says 200."""
    lease_id = blob.acquire_lease(lease_duration=15).id
    transport = Pauses()
    with through(faults, blob, transport=transport) as client:
        faults.add(Fault.status(503), header=RENEW, times=1)
        BlobLeaseClient(client, lease_id=lease_id).renew()
        assert faults.count(action="renew") == 2
        (pause,) = transport.seconds
        assert 15.0 <= pause <= 21.0
        faults.add(Fault.status(503), header=RENEW, times=1)
        with pytest.raises(HttpResponseError) as caught:
            BlobLeaseClient(client, lease_id=lease_id).renew(retry_total=0)
        assert caught.value.error_code == StorageErrorCode.SERVER_BUSY
        assert len(transport.seconds) == 1


def test_a_renewal_once_per_lease_comes_too_late(blob: BlobClient, faults: FaultProxy) -> None:
    """Renewed every 15 s, a lease of 15 s has ended before each renewal, and a slow moment gives it away."""
    with through(faults, blob) as client:
        holder = client.acquire_lease(lease_duration=15)
        faults.add(Fault.delay(1.0), header=RENEW, times=1)
        renewal: list[object] = []

        def renew_every_lease() -> None:
            time.sleep(15)
            try:
                holder.renew(retry_total=0)
            except HttpResponseError as error:
                renewal.append(error.error_code)

        thread = threading.Thread(target=renew_every_lease)
        thread.start()
        end = time.monotonic() + 30
        while True:
            try:
                taken = blob.acquire_lease(lease_duration=15)
                break
            except ResourceExistsError:
                assert time.monotonic() < end
                time.sleep(0.1)
        thread.join(30)
    assert renewal == [StorageErrorCode.LEASE_ID_MISMATCH_WITH_LEASE_OPERATION]
    taken.renew()


def test_such_terms_are_refused(connect: Connect) -> None:
    """`renew_every` at or above the ttl is a UsageError that names both numbers."""
    with pytest.raises(azlatch.UsageError, match=r"15.*15"):
        connect().acquire("job", ttl=15, renew_every=15)


def test_an_expired_lease_can_be_renewed(azurite: Azurite, container: str) -> None:
    """A renewal after the end succeeds if nobody came, and says nothing of the gap. If somebody wrote, it is
    refused. With a wrong id Azurite renews as well, under the old id; Azure is known to refuse that."""
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        service.create_container(container)
        untouched, written, stolen = (service.get_blob_client(container, name) for name in ("a", "b", "c"))
        leases = []
        for blob in (untouched, written, stolen):
            blob.upload_blob(b"0")
            leases.append(blob.acquire_lease(lease_duration=15))
        end = time.monotonic() + 30
        while state_of(stolen)[0] != "expired":
            assert time.monotonic() < end
            time.sleep(0.2)
        leases[0].renew()
        assert state_of(untouched) == ("leased", "fixed")
        written.upload_blob(b"by somebody else", overwrite=True)
        with pytest.raises(ResourceExistsError):
            leases[1].renew()
        wrong = BlobLeaseClient(stolen)
        wrong.renew()
        assert wrong.id == leases[2].id
