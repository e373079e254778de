"""The pytest plugin: local services, faults and latches as fixtures. pytest finds it by itself.

=========== ======== ==========================================================================================
`azurite`   session  a running `azlatch.lab.azurite.Azurite`
`faults`    function an `azlatch.lab.proxy.FaultProxy` before it, with no rule in force; use its
                     `connection_string`
`cosmos`    session  a running `azlatch.lab.cosmos.CosmosLab`, of one region and with session consistency
`latches`   function `azlatch.Latches`, in memory; or in the store that the marker ``azlatch(url=...)`` names,
                     else the ini option ``azlatch_url``
=========== ======== ==========================================================================================

Where a service cannot run (Azurite without Node.js, say), tests that want it fail with the reason; with the
environment variable AZLATCH_LAB_OPTIONAL they are skipped with it. Nothing of azlatch is loaded before a
fixture is used.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from azlatch.lab.azurite import Azurite
    from azlatch.lab.cosmos import CosmosLab
    from azlatch.lab.proxy import FaultProxy
    from azlatch.runtime.latches import Latches

#: Set to anything, it turns a lab that cannot run from a failure into a skip.
OPTIONAL = "AZLATCH_LAB_OPTIONAL"
_URL = "azlatch_url"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(_URL, "The store of the fixture `latches`.", default="memory:")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "azlatch(url): the store of the fixture `latches` for this test.")


@pytest.fixture(scope="session")
def azurite(request: pytest.FixtureRequest) -> Iterator[Azurite]:
    """A blob service for the whole run. Its data stays: let each test name its own container."""
    from azlatch.errors import BackendMisconfigured
    from azlatch.lab.azurite import Azurite

    service = Azurite()
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        # The first start ever installs, which takes its time, and says so.
        with capture.global_and_fixture_disabled() if capture is not None else contextlib.nullcontext():
            service.start()
    except BackendMisconfigured as missing:
        if os.environ.get(OPTIONAL):
            pytest.skip(str(missing))
        raise
    yield service
    service.stop()


@pytest.fixture
def faults(azurite: Azurite) -> Iterator[FaultProxy]:
    """A fault proxy before `azurite`, for this test."""
    from azlatch.lab.proxy import FaultProxy

    with FaultProxy(azurite) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def cosmos() -> Iterator[CosmosLab]:
    """A Cosmos DB account for the whole run. Its data stays: let each test name its own database."""
    from azlatch.errors import BackendMisconfigured

    try:
        from azlatch.lab.cosmos import CosmosLab

        account = CosmosLab().start()
    except BackendMisconfigured as missing:
        if os.environ.get(OPTIONAL):
            pytest.skip(str(missing))
        raise
    yield account
    account.stop()


@pytest.fixture
def latches(request: pytest.FixtureRequest) -> Iterator[Latches]:
    """Latches for this test."""
    import azlatch

    marker = request.node.get_closest_marker("azlatch")
    url = request.config.getini(_URL)
    if marker is not None:
        if marker.args or set(marker.kwargs) != {"url"}:
            raise pytest.UsageError(f"write @pytest.mark.azlatch(url=...), not {marker.args} {marker.kwargs}")
        url = marker.kwargs["url"]
    with azlatch.connect(url) as connected:
        yield connected
