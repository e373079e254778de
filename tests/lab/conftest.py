"""Clients of the real SDK that never try twice, and are closed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.storage.blob import BlobClient, BlobServiceClient

_numbers = itertools.count(1)


@pytest.fixture
def service() -> Iterator[Callable[..., BlobServiceClient]]:
    """Makes clients for a connection string."""
    made: list[BlobServiceClient] = []

    def make(connection_string: str, **options: Any) -> BlobServiceClient:
        settings = {"retry_total": 0, "connection_timeout": 5, "read_timeout": 30, **options}
        made.append(BlobServiceClient.from_connection_string(connection_string, **settings))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def blob(azurite: Any, faults: Any, service: Callable[..., BlobServiceClient]) -> BlobClient:
    """A blob of the test's own, by way of the proxy; what made it is not counted."""
    container = service(faults.connection_string).create_container(f"lab-{next(_numbers)}")
    made = container.upload_blob("it", b"0123456789")
    faults.reset_counts()
    return made


@pytest.fixture
def direct(azurite: Any, blob: BlobClient, service: Callable[..., BlobServiceClient]) -> BlobClient:
    """The same blob without the proxy."""
    return service(azurite.connection_string).get_blob_client(blob.container_name, blob.blob_name)
