"""The contract suite on Cosmos DB: the lab over its sockets, through the SDK.

What the lab does not show of Azure: a Date that differs from front end to front end, and the clocks of an
account's machines, which differ a little; here both are this machine's.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from azlatch.backends.cosmos import CosmosBackend
from azlatch.lab.cosmos import CosmosLab
from azlatch.testing.contract import LatchContract

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def account() -> Iterator[CosmosLab]:
    """One account for all; each test has a container of its own."""
    with CosmosLab(throttling=False) as lab:
        yield lab


class TestCosmosLabSync(LatchContract):
    driver = "sync"
    ttl = 1.0

    @pytest.fixture(autouse=True)
    def _container(self, account: CosmosLab) -> None:
        self.lab = account
        self.container = f"contract-{next(_numbers)}"

    def new_backend(self) -> CosmosBackend:
        return CosmosBackend.from_connection_string(self.lab.connection_string, "latches", self.container)


class TestCosmosLabAsync(TestCosmosLabSync):
    driver = "async"
