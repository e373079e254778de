"""Latches in a container that somebody keeps data in, on Azurite."""

from __future__ import annotations

import time

import pytest
from azure.storage.blob import BlobServiceClient

from azlatch.errors import BackendMisconfigured
from azlatch.lab.azurite import Azurite

from .conftest import Connect, until


@pytest.mark.parametrize("fence", [True, False])
def test_a_blob_with_content_is_no_latch(
    fence: bool, connect: Connect, azurite: Azurite, container: str
) -> None:
    """A name whose blob has content is refused, and the blob keeps its metadata and can be written."""
    latches = connect(fence=fence)
    latches.acquire("other").release()
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        blob = service.get_blob_client(container, "item-7")
        blob.upload_blob(b"precious", metadata={"owner": "sales"})
        with pytest.raises(BackendMisconfigured, match="container of their own"):
            latches.acquire("item-7", timeout=5)
        assert latches.inspect("other") is not None
        found = blob.get_blob_properties()
        assert (found.size, found.metadata, found.lease.state) == (8, {"owner": "sales"}, "available")


def test_purge_leaves_blobs_with_content(connect: Connect, azurite: Azurite, container: str) -> None:
    """What was written over the record of a latch, with its metadata, is somebody's data by now."""
    latches = connect()
    latches.acquire("item-7").release()
    latches.acquire("other").release()
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        blob = service.get_blob_client(container, "item-7")
        blob.upload_blob(b"precious", overwrite=True, metadata=blob.get_blob_properties().metadata)
        written = time.monotonic()
        until(lambda: time.monotonic() > written + 3.5)
        assert latches.purge(older_than=1) == 1
        assert blob.download_blob().readall() == b"precious"
