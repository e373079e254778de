"""The page's server: a loopback port and a thread, both its own."""

from __future__ import annotations

import importlib.util
import secrets
from types import TracebackType
from typing import TYPE_CHECKING, Self

from azlatch.errors import BackendMisconfigured, UsageError
from azlatch.lab.cosmos.clock import LabClock
from azlatch.lab.cosmos.wire import Reply, Request

if TYPE_CHECKING:
    from azlatch.lab.cosmos.lab import CosmosLab
    from azlatch.lab.cosmos.page.asgi import Application
    from azlatch.lab.cosmos.server import LabServer

_NEEDED = ("starlette", "jinja2")
#: What it is called in the table of the server's ports.
_NAME = "page"


class LabPage:
    """The page of a lab; `start` and `stop`, or `with`. It starts once, before or after the lab does.

    Args:
        lab: what it shows.
        port: of the loopback interface; by default a free one.
    """

    def __init__(self, lab: CosmosLab, *, port: int | None = None) -> None:
        if port is not None and not 1 <= port <= 65_535:
            raise UsageError(f"the page's port is {port}: give it 1 to 65,535, or none for a free one")
        self._lab = lab
        self._port = port or 0
        self._key = secrets.token_urlsafe(24)
        self._server: LabServer | None = None
        self._application: Application | None = None

    @property
    def address(self) -> str:
        """Where it is. Raises UsageError before the start."""
        if self._server is None:
            raise UsageError("the page has no address yet: start it first")
        return self._server.endpoints[_NAME]

    @property
    def url(self) -> str:
        """The address to open in a browser, with the key. Raises UsageError before the start."""
        return f"{self.address}enter?key={self._key}"

    @property
    def is_alive(self) -> bool:
        """Whether it serves."""
        return self._server is not None and self._server.is_alive

    def start(self) -> Self:
        """Serves it.

        Raises:
            UsageError: it was started before, or its port is in use.
            BackendMisconfigured: a package of the extra `lab` is missing.
        """
        if self._server is not None:
            raise UsageError("the page was started before: make another")
        missing = [each for each in _NEEDED if importlib.util.find_spec(each) is None]
        if missing:
            raise BackendMisconfigured(f"the lab's page needs {missing[0]}: pip install 'azlatch[lab]'")
        from azlatch.lab.cosmos.server import LabServer, Limits

        limits = Limits(head=32_768, body=65_536, idle_s=60.0, message_s=10.0, connections=100)
        server = LabServer(self._answer, [_NAME], LabClock(), ports=[self._port], limits=limits)
        server.start()
        self._server = server
        return self

    def stop(self) -> None:
        """Ends it; does nothing if it does not run."""
        if self._server is not None:
            self._server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _answer(self, request: Request, _: float) -> Reply:
        # What makes pages is loaded when somebody looks: most runs of a lab are never looked at.
        from azlatch.lab.cosmos.page import app, asgi

        if self._application is None:
            self._application = app.application(self._lab, self._key)
        return asgi.answer(self._application, request)
