"""A proxy between an SDK and a service over HTTP/1.1 that does, request by request, what production may do.

    with Azurite() as azurite, FaultProxy(azurite) as proxy:
        client = BlobServiceClient.from_connection_string(proxy.connection_string)
        proxy.add(Fault.drop_reply(), method="PUT", header={"x-ms-lease-action": "acquire"}, times=1)

Rules are asked in the order in which they were added; the first that fires is applied, and those after it do
not see the request. A request is never sent to the service twice. Headers pass as they are, Host included, save
those that belong to one connection: signatures stay valid.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

from azlatch.errors import BackendMisconfigured, BackendUnavailable, UsageError
from azlatch.lab.faults import Fault, Request, Rule, parse
from azlatch.lab.traffic import Exchange, Traffic

HOST = "127.0.0.1"
#: How long the proxy's thread may take to start or to end, seconds.
_PATIENCE = 10.0


class Service(Protocol):
    """A service of the lab that a proxy can stand before."""

    @property
    def port(self) -> int: ...
    def connection_string_at(self, port: int) -> str: ...


class FaultProxy:
    """The proxy, on a loopback port and in a thread of its own; `start` and `close`, or `with`.

    Every method may be called from any thread.

    Args:
        target: the service behind it: an Azurite, or `HOST:PORT`.
        port: a fixed port; by default a free one.
        seed: of all that is drawn. The same seed, rules and order of requests meet the same faults.
    """

    def __init__(self, target: str | Service, *, port: int | None = None, seed: int = 0) -> None:
        self._service = None if isinstance(target, str) else target
        self._target = _address(target) if isinstance(target, str) else None
        self._seed = seed
        self._fixed = port
        self._socket: socket.socket | None = None
        self._port: int | None = None
        self._rules: list[Rule] = []
        self._added = 0
        self._lock = threading.Condition()
        self._traffic = Traffic()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._released: dict[Rule, asyncio.Event] = {}
        self._started = threading.Event()

    # What it is.

    @property
    def target(self) -> tuple[str, int]:
        """Host and port of the service; asked anew for each connection."""
        if self._target is not None:
            return self._target
        assert self._service is not None
        return HOST, self._service.port

    @property
    def port(self) -> int:
        """Where it listens. Raises UsageError before the start."""
        if self._port is None:
            raise UsageError("the proxy has no port yet: start it first")
        return self._port

    @property
    def endpoint(self) -> str:
        """The URL that takes the place of the service's, without a path."""
        return f"http://{HOST}:{self.port}"

    @property
    def connection_string(self) -> str:
        """The service's, by way of this proxy. Raises UsageError where the target is a mere `HOST:PORT`."""
        if self._service is None:
            raise UsageError(
                "a proxy before HOST:PORT knows no connection string: give it the Azurite as target"
            )
        return self._service.connection_string_at(self.port)

    # What it does to whom.

    def add(
        self,
        fault: Fault | str,
        *,
        method: str | None = None,
        path: str | None = None,
        header: Mapping[str, str] | None = None,
        after: int = 0,
        nth: int | None = None,
        every: int | None = None,
        p: float | None = None,
        times: int | None = None,
    ) -> Rule:
        """Puts a rule in force, behind those that are; see `azlatch.lab.faults.Rule` for what narrows it.

        A text such as ``drop-reply lease=acquire times=1`` is a whole rule and takes no more arguments.

        Raises:
            UsageError: a value is out of its range.
        """
        narrowed = (method, path, header, nth, every, p, times) != (None,) * 7 or after != 0
        if isinstance(fault, str):
            if narrowed:
                raise UsageError(
                    f"rule {fault!r}: a text is the whole rule: write what narrows it into the text"
                )
            rule = parse(fault)
        else:
            rule = Rule(fault, method, path, dict(header or {}), after, nth, every, p, times)
        with self._lock:
            rule.seed(f"{self._seed}:{self._added}")
            self._added += 1
            self._rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Ends a rule, if it is in force; what it holds in a black hole is closed."""
        with self._lock:
            if rule in self._rules:
                self._rules.remove(rule)
            rule.removed = True
        self._release([rule])

    def clear(self) -> None:
        """Ends all rules."""
        with self._lock:
            ended, self._rules = self._rules, []
            for rule in ended:
                rule.removed = True
        self._release(ended)

    @property
    def rules(self) -> list[Rule]:
        """The rules in force, in their order."""
        with self._lock:
            return list(self._rules)

    def wait_fired(self, rule: Rule, times: int = 1, timeout: float = 10.0) -> bool:
        """Waits until a rule was applied this often; False if `timeout` seconds pass before."""
        with self._lock:
            return self._lock.wait_for(lambda: rule.fired >= times, timeout)

    # What was seen.

    @property
    def requests(self) -> list[Exchange]:
        """The newest requests, oldest first; see `azlatch.lab.traffic`."""
        return self._traffic.all()

    def count(
        self,
        *,
        method: str | None = None,
        action: str | None = None,
        status: int | None = None,
        fault: str | None = None,
    ) -> int:
        """How many requests there were of this method, lease action, status answered and kind of fault."""
        return self._traffic.count(method, action, status, fault)

    def reset_counts(self) -> None:
        """Forgets the requests so far, in the log and in the counters. Rules keep theirs."""
        self._traffic.reset()

    # Its life.

    def start(self) -> Self:
        """Listens.

        Raises:
            UsageError: it runs already, or its fixed port is in use.
            BackendMisconfigured: the package h11 is missing.
        """
        try:
            from azlatch.lab.proxied import MOST_CLIENTS, serve
        except ModuleNotFoundError as missing:
            if missing.name != "h11":
                raise
            raise BackendMisconfigured("the fault proxy needs h11: pip install 'azlatch[lab]'") from None
        if self._thread is not None:
            raise UsageError(f"the proxy runs already, on port {self.port}")
        # With the protocol named, asyncio turns Nagle's algorithm off for what is accepted.
        listening = socket.socket(proto=socket.IPPROTO_TCP)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((HOST, self._fixed or 0))
            listening.listen(MOST_CLIENTS)
        except (OSError, OverflowError) as error:
            listening.close()
            raise UsageError(f"the proxy cannot listen on port {self._fixed or 0}: {error}") from None
        self._port = listening.getsockname()[1]
        self._started.clear()

        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self._ending = asyncio.Event()
            await serve(self, listening, self._started, self._ending)

        self._thread = threading.Thread(
            target=lambda: asyncio.run(main()), name="azlatch-fault-proxy", daemon=True
        )
        self._thread.start()
        if not self._started.wait(_PATIENCE):
            raise BackendUnavailable(f"the proxy did not start within {_PATIENCE:g} s")
        return self

    def close(self) -> None:
        """Closes all connections at once and ends the thread. Does nothing if it does not run."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        loop, ending = self._loop, self._ending
        assert loop is not None
        assert ending is not None
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(ending.set)
        thread.join(_PATIENCE)
        with self._lock:
            # They belong to the loop that has ended.
            self._released.clear()
        if thread.is_alive():
            raise BackendUnavailable(f"the proxy did not end within {_PATIENCE:g} s")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # For the connections, on the proxy's own thread.

    def _begin(self, request: Request, connection: int) -> tuple[int, Rule | None]:
        """Counts a request and chooses the rule for it, if any."""
        with self._lock:
            rule = next((rule for rule in self._rules if rule.fires(request)), None)
            fault = None if rule is None else rule.fault.kind
            number = self._traffic.begin(request, connection, time.monotonic(), fault)
            self._lock.notify_all()
            return number, rule

    def _release_of(self, rule: Rule) -> asyncio.Event:
        """What is set when the rule is removed."""
        with self._lock:
            if not rule.removed:
                return self._released.setdefault(rule, asyncio.Event())
        event = asyncio.Event()
        event.set()
        return event

    def _release(self, rules: list[Rule]) -> None:
        with self._lock:
            events = [self._released.pop(rule) for rule in rules if rule in self._released]
        if events and self._loop is not None:
            for event in events:
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(event.set)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65_535:
        raise UsageError(f"target {text!r} is no address: write HOST:PORT, such as 127.0.0.1:10000")
    return host.strip("[]"), int(port)
