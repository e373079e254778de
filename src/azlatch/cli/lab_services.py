"""The services of the lab as the command line sees them: all alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from azlatch.lab.azurite import Azurite
from azlatch.lab.faults import parse
from azlatch.lab.proxy import FaultProxy


class Service(Protocol):
    """A service that starts once, and is then there until `stop`, which may be called at any time."""

    name: str

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def is_alive(self) -> bool: ...
    def environment(self) -> dict[str, str]: ...


class AzuriteService:
    """Azurite; with faults, behind a proxy.

    Raises:
        UsageError: a fault says nothing.
    """

    name = "azurite"

    def __init__(self, port: int | None = None, faults: Sequence[str] = ()) -> None:
        for fault in faults:
            parse(fault)
        self._faults = faults
        # Where there is a proxy, the port that was asked for is the proxy's: it is the one that is used.
        self._azurite = Azurite(None if faults else port)
        self._proxy = FaultProxy(self._azurite, port=port) if faults else None

    def start(self) -> None:
        self._azurite.start()
        if self._proxy is not None:
            self._proxy.start()
            for fault in self._faults:
                self._proxy.add(fault)

    def stop(self) -> None:
        if self._proxy is not None:
            self._proxy.close()
        self._azurite.stop()

    def is_alive(self) -> bool:
        return self._azurite.pid is not None

    def environment(self) -> dict[str, str]:
        return self._azurite.environment(None if self._proxy is None else self._proxy.port)


class CosmosService:
    """The lab's Cosmos DB, in this process; it has rules for faults of its own.

    Args:
        page: whether it has a page for browsers, too.
        page_port: of that page; by default a free one.

    Raises:
        UsageError: an option is out of its range. A fault that says nothing is known at the start only.
    """

    name = "cosmos"

    def __init__(
        self,
        port: int | None = None,
        faults: Sequence[str] = (),
        *,
        page: bool = False,
        page_port: int | None = None,
        **options: Any,
    ) -> None:
        # Not everything that the lab needs is needed for the other services.
        from azlatch.lab.cosmos import CosmosLab
        from azlatch.lab.cosmos.page import LabPage

        self._faults = faults
        self._lab = CosmosLab(port=port, **options)
        self._page = LabPage(self._lab, port=page_port) if page else None

    def start(self) -> None:
        self._lab.start()
        for fault in self._faults:
            self._lab.add_rule(fault)
        if self._page is not None:
            self._page.start()

    def stop(self) -> None:
        if self._page is not None:
            self._page.stop()
        self._lab.stop()

    def is_alive(self) -> bool:
        return self._lab.is_alive

    def environment(self) -> dict[str, str]:
        page = {} if self._page is None else {"AZLATCH_LAB_COSMOS_PAGE": self._page.url}
        return self._lab.environment() | page


#: The services that there are: each made from a port and faults.
SERVICES: dict[str, Callable[[int | None, Sequence[str]], Service]] = {
    "azurite": AzuriteService,
    "cosmos": CosmosService,
}
