"""A blob account for tests: Azurite, or the live one that AZLATCH_TEST_BLOB_CONNECTION_STRING names."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator

import pytest

from azlatch.backends.blob import BlobBackend
from azlatch.lab.azurite import Azurite
from azlatch.lab.proxy import FaultProxy
from azlatch.runtime.connection import Connection
from azlatch.runtime.env import REAL
from azlatch.runtime.latches import Latches

LIVE = "AZLATCH_TEST_BLOB_CONNECTION_STRING"

_numbers = itertools.count(1)

Connect = Callable[..., Latches]


@pytest.fixture
def container() -> str:
    """The name of a container of the test's own."""
    return f"t{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def connect(azurite: Azurite, container: str) -> Iterator[Connect]:
    """Connects to the test's own container, straight or `through` a proxy; closed at the end."""
    opened: list[Latches] = []

    def make(through: FaultProxy | None = None, **options: object) -> Latches:
        text = through.connection_string if through is not None else azurite.connection_string
        backend = BlobBackend.from_connection_string(text, container)
        opened.append(Latches(Connection(backend, REAL, create=True, **options)))  # type: ignore[arg-type]
        opened[-1]._connection.open()
        return opened[-1]

    yield make
    for latches in opened:
        latches.close()


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Waits for it, with a bound."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.02)
