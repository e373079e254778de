"""A lab with a small engine, and raw sockets to it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from azlatch.lab.cosmos.lab import CosmosLab

# Tests are no package: what they share is loaded by its place, once, and found by its name from then on.
_spec = importlib.util.spec_from_file_location("cosmos_clients", Path(__file__).with_name("clients.py"))
assert _spec is not None and _spec.loader is not None
_clients: Any = importlib.util.module_from_spec(_spec)
sys.modules["cosmos_clients"] = _clients
_spec.loader.exec_module(_clients)


@pytest.fixture
def lab() -> Iterator[CosmosLab]:
    """A lab whose account is a FakeEngine."""
    with CosmosLab(engine=_clients.FakeEngine) as running:
        yield running


@pytest.fixture
def raw(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes sockets to a port, by default that of `lab`."""
    made: list[Any] = []

    def make(port: int = 0) -> Any:
        made.append(_clients.Raw(port or request.getfixturevalue("lab").port))
        return made[-1]

    yield make
    for each in made:
        each.socket.close()
