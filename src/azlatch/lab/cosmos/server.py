"""The HTTP server of the lab: a loopback port for each region, and a thread with an event loop of its own.

The engine is called on that thread alone. Nothing that a client sends ends the server, and no trace of an
exception goes out: it becomes a 500 with an activity id, and the trace is in the log `azlatch.lab.cosmos`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from azlatch.errors import BackendUnavailable, UsageError
from azlatch.lab.cosmos.clock import LabClock
from azlatch.lab.cosmos.connection import Connection
from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.reply_head import Heads, refusal
from azlatch.lab.cosmos.wire import Reply, Request

HOST = "127.0.0.1"
log = logging.getLogger("azlatch.lab.cosmos")
T = TypeVar("T")
#: How long the thread may take to start or to end, and what is asked of it to be done, seconds.
_PATIENCE, _CALL_WITHIN = 10.0, 60.0
_SWEEP_S = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may take: bytes, real seconds, connections.

    `idle_s` is for the time between requests and for a client that does not read; `message_s` for a request to
    arrive whole; `held_s` for a reply that waits for the lab's clock, and `delay_s` for its delay: then it is
    sent.
    """

    head: int = 65_536
    body: int = 4 * 1024 * 1024
    idle_s: float = 300.0
    message_s: float = 60.0
    held_s: float = 60.0
    delay_s: float = 3_600.0
    connections: int = 2_000


class LabServer:
    """Carries requests to `handle` and its replies back; `start` and `stop` once, or `with`.

    Args:
        handle: the engine's: fast, and never waits.
        regions: a listener for each, in this order.
        clock: whose time `handle` gets.
        ports: one for each region; 0 is a free one.
        host: the account's name; its regions are then on one port, told apart by theirs: `lab-westus.example`
            is "West US" of `lab.example`, as the SDK and the service derive a region's endpoint from the
            account's. Whoever uses these names has to make them resolve. By any other name a request comes to
            no region in particular.
        tls: with what to serve https; without it, http.
    """

    def __init__(
        self,
        handle: Callable[[Request, float], Reply],
        regions: Sequence[str],
        clock: LabClock,
        *,
        ports: Sequence[int] = (),
        host: str = "",
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        if not regions or len(set(regions)) != len(regions):
            raise UsageError(f"regions are {list(regions)}: name at least one, and each once")
        self.clock = clock
        self.limits = limits or Limits()
        self.heads = Heads()
        self.connections: set[Connection] = set()
        self.endpoints: dict[str, str] = {}
        self._handle = handle
        self._ports = dict(zip(regions, [*ports, *[0] * len(regions)], strict=False))
        #: The region of each name, if they have names.
        self.hosts = {_host_of(host, each): each for each in regions} if host else {}
        self._tls = tls
        self.scheme = "http" if tls is None else "https"
        self._sockets: dict[str, socket.socket] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ending: asyncio.Event | None = None

    # Its life.

    def bind(self) -> dict[str, str]:
        """Takes the ports, and gives the URL of each region.

        Raises:
            UsageError: a port is in use or may not be used.
        """
        scheme = self.scheme
        try:
            for region, port in self._ports.items():
                self._sockets[region] = listening = _listening(port)
                bound = listening.getsockname()[1]
                if self.hosts:
                    self.endpoints = {name: f"{scheme}://{host}:{bound}/" for host, name in self.hosts.items()}
                    break
                self.endpoints[region] = f"{scheme}://{HOST}:{bound}/"
        except BaseException:
            self._close_sockets()
            raise
        return self.endpoints

    def start(self) -> None:
        """Serves, in a daemon thread. Raises as `bind`, if that has not been called."""
        if self._thread is not None:
            raise UsageError("the server runs already, or has run: make another")
        if not self._sockets:
            self.bind()
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="azlatch-lab", daemon=True)
        self._thread.start()
        try:
            started.result(_PATIENCE)
        except TimeoutError:
            raise BackendUnavailable(f"the lab's thread did not start within {_PATIENCE:g} s") from None

    def stop(self) -> None:
        """Closes every connection and port, and ends the thread; does nothing if it does not run."""
        thread, loop, ending = self._thread, self._loop, self._ending
        if thread is None or loop is None or ending is None:
            self._close_sockets()
            return
        with contextlib.suppress(RuntimeError):  # The loop has ended by itself.
            loop.call_soon_threadsafe(ending.set)
        if thread is not threading.current_thread():
            thread.join(_PATIENCE)
        if thread.is_alive():
            raise BackendUnavailable(f"the lab's thread did not end within {_PATIENCE:g} s")

    @property
    def is_alive(self) -> bool:
        """Whether it serves."""
        return self._thread is not None and self._thread.is_alive()

    def call(self, function: Callable[[], T], timeout: float = _CALL_WITHIN) -> T:
        """Runs a function on the server's thread, between two requests, and gives what it gives.

        Raises:
            BackendUnavailable: the server does not run, or the function was not done within `timeout` seconds.
        """
        if threading.current_thread() is self._thread:
            return function()
        result: Future[T] = Future()

        def run() -> None:
            if result.set_running_or_notify_cancel():
                try:
                    result.set_result(function())
                except BaseException as error:  # noqa: BLE001  it is raised where it was asked for
                    result.set_exception(error)

        if self._loop is None or not self.is_alive:
            raise BackendUnavailable("the lab does not run: start it first")
        try:
            self._loop.call_soon_threadsafe(run)
            return result.result(timeout)
        except TimeoutError:
            if not result.cancel() and result.done():
                return result.result()
            raise BackendUnavailable(f"the lab was not done within {timeout:g} s") from None
        except RuntimeError:
            if result.done() or self.is_alive:
                raise
            raise BackendUnavailable("the lab has ended") from None

    # What its connections need, on its thread.

    def answer(self, request: Request, activity: str) -> Reply:
        """What the engine answers; 500 if it fails."""
        try:
            return self._handle(request, self.clock.now())
        except ServiceError as error:
            return refusal(error, activity)
        except Exception:
            log.exception("%s %.200r failed, activity id %s", request.method, request.path, activity)
            return refusal(ServiceError(500, "The lab failed; its log says why."), activity)

    def region_of(self, host: str) -> str:
        """The region that a client means by the name that it used for the server; "" if it means none."""
        return self.hosts.get(host.rpartition(":")[0].lower() or host.lower(), "")

    def loop_time(self) -> float:
        """Real seconds, as the event loop counts them."""
        assert self._loop is not None
        return self._loop.time()

    def soon(self, callback: Callable[[], None]) -> asyncio.Handle:
        """Calls back when others had their turn."""
        assert self._loop is not None
        return self._loop.call_soon(callback)

    def later(self, seconds: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Calls back after real seconds."""
        assert self._loop is not None
        return self._loop.call_later(seconds, callback)

    # Its thread.

    def _run(self, started: Future[None]) -> None:
        try:
            # The policy of the process is the user's; the lab has a loop of a kind that it knows.
            loop = asyncio.SelectorEventLoop()
            with contextlib.closing(loop):
                self._loop = loop
                loop.set_exception_handler(_note)
                loop.run_until_complete(self._serve(started))
                loop.run_until_complete(loop.shutdown_asyncgens())
        except BaseException as error:
            # It is raised in `start`, or logged.
            if started.done():
                log.exception("the lab's thread ended")
            else:
                started.set_exception(error)
        finally:
            self._close_sockets()

    async def _serve(self, started: Future[None]) -> None:
        assert self._loop is not None
        self._ending = ending = asyncio.Event()
        servers = []
        for region, listening in self._sockets.items():
            servers.append(
                await self._loop.create_server(
                    lambda region=region: Connection(self, region),
                    sock=listening,
                    ssl=self._tls,
                    backlog=1_024,
                    # A client that says nothing holds no place.
                    ssl_handshake_timeout=None if self._tls is None else 10.0,
                    ssl_shutdown_timeout=None if self._tls is None else 1.0,
                )
            )
        self.clock.listen(self._clock_moved)
        sweeping = self._loop.create_task(self._sweep())
        started.set_result(None)
        try:
            await ending.wait()
        finally:
            self.clock.unlisten(self._clock_moved)
            # What was accepted last comes to life first: asyncio does not close it before that, nor when its
            # server is closed already.
            for listening in self._sockets.values():
                self._loop.remove_reader(listening.fileno())
            await _turns()
            for server in servers:
                server.close()
            for connection in list(self.connections):
                connection.close()
            # The sweep, and handshakes on their way: those have no connection yet.
            tasks = {sweeping, *asyncio.all_tasks()} - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), _PATIENCE / 2)
            await _turns()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            now = self.loop_time()
            for connection in list(self.connections):
                connection.sweep(now)

    def _clock_moved(self) -> None:
        with contextlib.suppress(RuntimeError):  # It has just ended.
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        for connection in list(self.connections):
            connection.look()

    def _close_sockets(self) -> None:
        for each in self._sockets.values():
            each.close()


def _host_of(account: str, region: str) -> str:
    name, dot, domain = account.lower().partition(".")
    return f"{name}-{region.lower().replace(' ', '')}{dot}{domain}"


async def _turns() -> None:
    """A few turns of the loop, in which it does what is due: an aborted connection is closed in the second."""
    for _ in range(4):
        await asyncio.sleep(0)


def _note(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What went wrong on the loop goes to the log; a client that left is no news."""
    error = context.get("exception")
    if not isinstance(error, OSError):
        log.error("%s", context.get("message"), exc_info=error)


def _listening(port: int) -> socket.socket:
    listening = socket.socket()
    try:
        # Connections that have ended and still linger do not count.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(1_024)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"port {port} is in use: stop what listens there, or choose another port"
            ) from None
        raise UsageError(f"port {port} cannot be used: {error.strerror}") from None
    return listening
