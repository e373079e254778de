"""The lab's Cosmos DB: an account, its server, its clock, and what leads an SDK to it.

with CosmosLab() as lab, CosmosClient(lab.endpoint, lab.key) as client:
    client.create_database("orders")
    lab.clock.advance(60)
    print(lab.call(lambda: lab.account.admin.state()))
"""

from __future__ import annotations

import importlib
import os
import re
import secrets
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from azlatch.errors import BackendMisconfigured, UsageError
from azlatch.lab.cosmos import state_file, topology
from azlatch.lab.cosmos.admin import PREFIX, AdminDoor
from azlatch.lab.cosmos.auth import EMULATOR_KEY, Authority, Grant
from azlatch.lab.cosmos.clock import LabClock
from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.log_files import LogFiles
from azlatch.lab.cosmos.request_log import RequestLog
from azlatch.lab.cosmos.wire import Reply, Request

if TYPE_CHECKING:
    from azlatch.lab.cosmos.server import LabServer, Limits

_REGION = re.compile(r"[A-Za-z0-9][A-Za-z0-9 -]{0,62}")
_HOST_NAME = re.compile(r"[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63}){0,7}")
_T = TypeVar("_T")


class Engine(Protocol):
    """What an account is to what is around it. Called on the server's thread alone once it serves.

    An engine that has `dump() -> bytes` and `load(bytes)` can be kept in a file; one that has
    `grant_of(token, now)` knows resource tokens; one that has `log` tells it of its requests, and hears by
    `refused(request, error, now)` of those that may not ask; `admin` is what the admin interface calls.
    """

    endpoints: dict[str, str]
    admin: Any

    def handle(self, request: Request, now: float) -> Reply: ...
    def at(self, now: float) -> None: ...


class CosmosLab:
    """A local Cosmos DB account on the loopback interface; `start` and `stop`, or `with`. It starts once.

    It lives in a thread of this process. Every method may be called from any thread.

    Args:
        regions: their names; the first is the one that takes writes at the start. Each has a port of its own.
        consistency: the account's level: Strong, BoundedStaleness, Session, ConsistentPrefix or Eventual.
        multiple_write_regions: whether every region takes writes.
        seed: of all that is drawn.
        clock: by default one that follows real time.
        port: of the first region; by default a free one, as the others have.
        host: the account's name. All regions are then at one port, by names that begin with it, such as
            `localhost-westus`; they have to resolve. For what derives a region's endpoint from the account's.
        tls: https instead of http, with a certificate that is made at the start.
        key: the account's, Base64; by default the one that every local Cosmos DB has.
        throttling: whether request units run out.
        path: a file that is loaded at the start, if it is there, and written at the end.
        logs: a folder for the log that production has, see `azlatch.lab.cosmos.log_tables`.
        aad: accept Entra ID tokens without a check of their signature.
        admin_key: for the admin interface; by default a new one.
        limits: of the server.
        engine: makes the account; by default the lab's own, from what is above.
        options: further ones of the lab's own account.

    Raises:
        UsageError: an argument is out of its range.
    """

    def __init__(
        self,
        *,
        regions: Sequence[str] = ("East US",),
        consistency: str = "Session",
        multiple_write_regions: bool = False,
        seed: int = 0,
        clock: LabClock | None = None,
        port: int | None = None,
        host: str = "",
        tls: bool = False,
        key: str = EMULATOR_KEY,
        throttling: bool = True,
        path: str | os.PathLike[str] | None = None,
        logs: str | os.PathLike[str] | None = None,
        aad: bool = False,
        admin_key: str | None = None,
        limits: Limits | None = None,
        engine: Callable[[], Engine] | None = None,
        **options: Any,
    ) -> None:
        topology.check(regions, consistency, multiple=multiple_write_regions)
        _check(regions, port, admin_key)
        if host and not _HOST_NAME.fullmatch(host):
            raise UsageError(f"host is {host!r}: use a name such as localhost or lab.example")
        self._regions = tuple(regions)
        self._settings: dict[str, Any] = {
            "regions": self._regions,
            "consistency": consistency,
            "multiple_write_regions": multiple_write_regions,
            "seed": seed,
            "throttling": throttling,
            **options,
        }
        self.clock = clock or LabClock()
        self.key = key
        self.admin_key = admin_key or secrets.token_urlsafe(24)
        #: PEM: what a client has to trust that checks certificates; None without https, or before the start.
        self.certificate: bytes | None = None
        self._authority = Authority(key, aad=aad, tokens=self)
        self._door = AdminDoor(lambda: self.account.admin, self.clock, self.admin_key)
        self._port = port or 0
        self._host = host
        self._tls = tls
        self._path = None if path is None else os.path.abspath(path)
        self._logs = None if logs is None else os.path.abspath(logs)
        self._log: RequestLog | None = None
        self._limits = limits
        self._make = engine or self._own_engine
        self._engine: Engine | None = None
        self._server: LabServer | None = None

    # What it is.

    @property
    def account(self) -> Any:
        """The engine. Touch it by way of `call` while the lab runs. Raises UsageError before the start."""
        if self._engine is None:
            raise UsageError("the lab has no account yet: start it first")
        return self._engine

    @property
    def endpoint(self) -> str:
        """The URL of the account: the first region's. Raises UsageError before the start."""
        first = self.endpoints[self._regions[0]]
        if not self._host:
            return first
        scheme, _, rest = first.partition("://")
        return f"{scheme}://{self._host}:{rest.rpartition(':')[2]}"

    @property
    def endpoints(self) -> dict[str, str]:
        """The URL of each region. Raises UsageError before the start."""
        if self._server is None:
            raise UsageError("the lab has no endpoint yet: start it first")
        return dict(self._server.endpoints)

    @property
    def port(self) -> int:
        """The first region's. Raises UsageError before the start."""
        return int(self.endpoint.rstrip("/").rpartition(":")[2])

    @property
    def connection_string(self) -> str:
        """For `from_connection_string` of the SDK."""
        return f"AccountEndpoint={self.endpoint};AccountKey={self.key};"

    @property
    def admin_url(self) -> str:
        """Where the admin interface is, see `azlatch.lab.cosmos.admin`."""
        return self.endpoint.rstrip("/") + PREFIX

    @property
    def is_alive(self) -> bool:
        """Whether it serves."""
        return self._server is not None and self._server.is_alive

    def environment(self) -> dict[str, str]:
        """Environment variables that lead azlatch and Service Connector's users to it, and to its admin."""
        names = ("AZURE_COSMOS_CONNECTION_STRING", "AZURE_COSMOS_CONNECTIONSTRING")
        admin = {"AZLATCH_LAB_COSMOS_ADMIN": self.admin_url, "AZLATCH_LAB_COSMOS_KEY": self.admin_key}
        return dict.fromkeys(names, self.connection_string) | admin

    # Its life.

    def start(self) -> Self:
        """Makes the account and serves it.

        Raises:
            UsageError: it was started before, its port is in use, or its file is none of the lab's.
            BackendMisconfigured: a package of the extra `lab` is missing.
        """
        if self._server is not None:
            raise UsageError("the lab was started before: make another")
        server = self._make_server()
        try:
            endpoints = server.bind()
            engine = self._make()
            engine.endpoints = dict(endpoints)
            self._load(engine)
            self._open_log(engine)
            self._engine, self._server = engine, server
            server.start()
        except BaseException:
            self._engine = self._server = None
            server.stop()
            self._close_log()
            raise
        return self

    def stop(self) -> None:
        """Ends the server, closes its connections, and saves the state where there is a file for it."""
        server, engine = self._server, self._engine
        if server is None or not server.is_alive:
            self._close_log()
            return
        server.stop()
        self._close_log()
        if self._path is not None and engine is not None:
            # The thread has ended: nobody else calls the engine.
            state_file.write(self._path, _stateful(engine).dump())

    def call(self, function: Callable[[], _T], timeout: float = 60.0) -> _T:
        """Runs a function on the server's thread, between two requests: the way to touch `account`.

        For the account it is then the present, not the time of the last request.

        Raises:
            BackendUnavailable: the lab does not run, or the function was not done within `timeout` seconds.
        """
        if self._server is None:
            raise UsageError("the lab does not run: start it first")

        def in_the_present() -> _T:
            self.account.at(self.clock.now())
            return function()

        return self._server.call(in_the_present, timeout)

    def add_rule(self, text: str) -> int:
        """Puts a rule for faults in force, and gives its id.

        Raises:
            UsageError: it says nothing.
        """
        try:
            number: int = self.call(lambda: self.account.admin.add_rule(text))
        except ValueError as error:
            raise error if isinstance(error, UsageError) else UsageError(str(error)) from None
        return number

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # What the server calls.

    def _answer(self, request: Request, now: float) -> Reply:
        if request.path.startswith(PREFIX):
            self.account.at(now)
            return self._door.handle(request)
        assert self._engine is not None
        try:
            self._authority.check(request, now)
        except ServiceError as error:
            if self._log is not None:
                self._log.refused(request, error, now)
            raise
        return self._engine.handle(request, now)

    def grant_of(self, token: str, now: float) -> Grant | None:
        """What a resource token allows; called on the server's thread, as the next."""
        known = getattr(self._engine, "grant_of", None)
        grant: Grant | None = None if known is None else known(token, now)
        return grant

    def link_by_names(self, link: str) -> str:
        """A link by the names of its database and container, where there are such."""
        parts = link.split("/", 4)
        resources = getattr(self._engine, "resources", None)
        if resources is None or len(parts) < 4 or (parts[0], parts[2]) != ("dbs", "colls"):
            return link
        try:
            return "/".join([resources.container(parts[1], parts[3]).path, *parts[4:]])
        except ServiceError:
            return link

    def _own_engine(self) -> Engine:
        # It comes with all the rest of the lab: not before it is needed.
        engine: Engine = importlib.import_module("azlatch.lab.cosmos.account").Account(**self._settings)
        return engine

    def _make_server(self) -> LabServer:
        try:
            from azlatch.lab.cosmos.server import LabServer
        except ModuleNotFoundError as missing:
            if missing.name != "httptools":
                raise
            raise BackendMisconfigured("the lab needs httptools: pip install 'azlatch[lab]'") from None
        context = None
        if self._tls:
            from azlatch.lab.cosmos import certificate

            context, self.certificate = certificate.make()
        return LabServer(
            self._answer,
            self._regions,
            self.clock,
            ports=[self._port],
            host=self._host,
            tls=context,
            limits=self._limits,
        )

    def _open_log(self, engine: Any) -> None:
        if self._logs is not None:
            if not hasattr(engine, "log"):
                raise UsageError("this account keeps no log: leave logs= out")
            self._log = RequestLog(engine, LogFiles(self._logs))
            engine.log = self._log.wrote

    def _close_log(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def _load(self, engine: Engine) -> None:
        if self._path is None:
            return
        stateful = _stateful(engine)
        data = state_file.read(self._path)
        if data is None:
            return
        try:
            stateful.load(data)
        except ValueError as error:
            raise UsageError(f"the lab's file {self._path!r} cannot be loaded: {error}") from None


class _Stateful(Protocol):
    def dump(self) -> bytes: ...
    def load(self, data: bytes) -> object: ...


def _stateful(engine: Any) -> _Stateful:
    if not hasattr(engine, "dump") or not hasattr(engine, "load"):
        raise UsageError("this account cannot be kept in a file: leave path= out")
    kept: _Stateful = engine
    return kept


def _check(regions: Sequence[str], port: int | None, admin_key: str | None) -> None:
    for name in regions:
        if not _REGION.fullmatch(name):
            raise UsageError(f"region {name!r}: use up to 63 letters, digits, spaces and hyphens")
    if port is not None and not 1 <= port <= 65_535:
        raise UsageError(f"port is {port}: give it 1 to 65,535, or none for a free one")
    if admin_key is not None and not (len(admin_key) >= 8 and admin_key.isascii() and admin_key.isprintable()):
        raise UsageError("admin_key: give it 8 or more printable ASCII characters, or none for a new one")
