"""The contract suite on every backend and driver, and the check that no pair is missing."""

from __future__ import annotations

import pkgutil
import time
from pathlib import Path

import pytest

import azlatch.backends
from azlatch.backends.blob import BlobBackend
from azlatch.backends.cosmos import CosmosBackend
from azlatch.backends.memory import MemoryBackend, MemoryStore
from azlatch.backends.sqlite import SqliteBackend
from azlatch.core.terms import Limits
from azlatch.testing.contract import DRIVERS, LatchContract
from azlatch.testing.simulated_blob import SimulatedBlobs, SimulatedBlobService
from azlatch.testing.simulated_cosmos import SimulatedCosmos, SimulatedCosmosService

#: Modules of azlatch.backends that are no store: what stores are made of.
PARTS = {
    *("bounded", "liveness", "machine", "protocol", "wakes", "workers"),
    *("blob_doctor", "blob_service", "sqlite_doctor", "sqlite_file", "storage_account"),
    *("cosmos_account", "cosmos_client", "cosmos_document", "cosmos_service", "cosmos_words"),
}


class TestMemorySync(LatchContract):
    driver = "sync"
    store = "memory"

    @pytest.fixture(autouse=True)
    def _store(self) -> None:
        self.shared = MemoryStore()

    def new_backend(self) -> MemoryBackend:
        return MemoryBackend(self.shared)


class TestMemoryAsync(TestMemorySync):
    driver = "async"


class TestSqliteSync(LatchContract):
    driver = "sync"
    store = "sqlite"

    @pytest.fixture(autouse=True)
    def _path(self, tmp_path: Path) -> None:
        self.path = tmp_path / "latches.db"

    def new_backend(self) -> SqliteBackend:
        return SqliteBackend(self.path)


class TestSqliteAsync(TestSqliteSync):
    driver = "async"


class TestBlobRulesSync(LatchContract):
    """The Blob backend on the service's rules in memory, with leases that are shorter than the service's."""

    driver = "sync"
    store = "blob"
    ttl = 1.0

    @pytest.fixture(autouse=True)
    def _container(self) -> None:
        self.container = SimulatedBlobs(time.time)

    def new_backend(self) -> BlobBackend:
        backend = BlobBackend.from_service(lambda env: SimulatedBlobService(self.container))
        backend.limits = Limits(self.ttl, 60.0)
        return backend


class TestBlobRulesAsync(TestBlobRulesSync):
    driver = "async"


class TestCosmosRulesSync(LatchContract):
    """The Cosmos DB backend on the lab's engine, without a socket."""

    driver = "sync"
    store = "cosmos"
    ttl = 1.0

    @pytest.fixture(autouse=True)
    def _account(self) -> None:
        self.account = SimulatedCosmos(time.time)

    def new_backend(self) -> CosmosBackend:
        return CosmosBackend.from_service(lambda env: SimulatedCosmosService(self.account))


class TestCosmosRulesAsync(TestCosmosRulesSync):
    driver = "async"


def test_no_pair_is_missing() -> None:
    """Every module of azlatch.backends that is a store has the contract on every driver."""
    stores = {module.name for module in pkgutil.iter_modules(azlatch.backends.__path__)} - PARTS
    expected = {(store, driver) for store in stores for driver in DRIVERS}
    covered = {
        (case.store, case.driver)
        for case in globals().values()
        if isinstance(case, type) and issubclass(case, LatchContract) and case is not LatchContract
    }
    assert covered == expected
