"""The contract suite on the real Azurite, or on the live account that is named.

What Azurite 3.37.0 does otherwise than Azure says of itself, and what that hides from these tests:

* It renews an expired lease for any lease id, with 200, and gives it back under the old id. A test that a stale
  renewal is refused would pass for the wrong reason; the backend compares the id that comes back.
* Its clock is this machine's: a Date that differs from front end to front end is not seen here.
* It has neither roles nor network rules, no lifecycle rules, no immutability and no hierarchical namespace.
* Its ETags change with metadata and content, as Azure's do, and lease operations leave them alone, as there.
"""

from __future__ import annotations

import itertools
import os

import pytest

from azlatch.backends.blob import BlobBackend
from azlatch.lab.azurite import Azurite
from azlatch.testing.contract import LatchContract

LIVE = "AZLATCH_TEST_BLOB_CONNECTION_STRING"

_numbers = itertools.count(1)


class TestAzuriteSync(LatchContract):
    driver = "sync"
    ttl = 15.0

    @pytest.fixture(autouse=True)
    def _container(self, azurite: Azurite) -> None:
        self.container = f"contract-{os.getpid()}-{next(_numbers)}"
        self.account = os.environ.get(LIVE) or azurite.connection_string

    def new_backend(self) -> BlobBackend:
        return BlobBackend.from_connection_string(self.account, self.container)


class TestAzuriteAsync(TestAzuriteSync):
    driver = "async"
