"""The lab's Service Bus: a broker, its port, its clock, and what leads an SDK to it."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar

from azlatch.errors import BackendUnavailable, UsageError
from azlatch.lab.cosmos.clock import LabClock
from azlatch.lab.servicebus.broker import Broker
from azlatch.lab.servicebus.connection import Connection
from azlatch.lab.servicebus.queue import QueueSettings

HOST = "127.0.0.1"
_PATIENCE_S = 10.0
_T = TypeVar("_T")


class ServiceBusLab:
    """A local Service Bus namespace; `start` and `stop`, or `with`. It starts once.

    It lives in a thread of this process. Every method may be called from any thread.

    Args:
        queues: what there is; by default one with sessions, `latches`.
        seed: of lock tokens.
        clock: by default one that follows real time.
        port: by default a free one.

    Raises:
        UsageError: an argument is out of its range.
    """

    def __init__(
        self,
        queues: Sequence[QueueSettings] = (QueueSettings("latches", session=True),),
        *,
        seed: int = 0,
        clock: LabClock | None = None,
        port: int | None = None,
    ) -> None:
        if port is not None and not 1 <= port <= 65_535:
            raise UsageError(f"port is {port}: give it 1 to 65,535, or none for a free one")
        self.clock = clock or LabClock()
        self.broker = Broker(queues, seed, self.clock.now)
        self.port = port or 0
        self._connections: set[Connection] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ending: asyncio.Event | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_pumping = False

    @property
    def connection_string(self) -> str:
        """For `ServiceBusClient.from_connection_string`."""
        key = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE"
        return f"Endpoint=sb://{HOST}:{self.port};{key};UseDevelopmentEmulator=true;"

    def environment(self) -> dict[str, str]:
        """Environment variables that lead azlatch and Service Connector's users to it."""
        names = ("AZURE_SERVICEBUS_CONNECTION_STRING", "AZURE_SERVICEBUS_CONNECTIONSTRING")
        return dict.fromkeys(names, self.connection_string)

    @property
    def is_alive(self) -> bool:
        """Whether it serves."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> Self:
        """Serves. Raises UsageError if it was started before, or its port is in use."""
        if self._thread is not None:
            raise UsageError("the lab was started before: make another")
        listening = socket.socket()
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((HOST, self.port))
        except OSError as error:
            listening.close()
            raise UsageError(f"port {self.port} cannot be used: {error.strerror}; choose another") from None
        self.port = listening.getsockname()[1]
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(listening, started), daemon=True)
        self._thread.start()
        started.result(_PATIENCE_S)
        return self

    def stop(self) -> None:
        """Closes every connection and the port, and ends the thread."""
        if self._thread is None or self._loop is None or self._ending is None:
            return
        with contextlib.suppress(RuntimeError):  # The loop has ended by itself.
            self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            raise BackendUnavailable(f"the lab's thread did not end within {_PATIENCE_S:g} s")

    def call(self, function: Callable[[], _T], timeout: float = 60.0) -> _T:
        """Runs a function on the lab's thread: the way to touch `broker` while it serves.

        Raises:
            BackendUnavailable: the lab does not run, or was not done within `timeout` seconds.
        """
        if self._loop is None or not self.is_alive:
            raise BackendUnavailable("the lab does not run: start it first")
        result: Future[_T] = Future()

        def run() -> None:
            try:
                result.set_result(function())
            except BaseException as error:  # noqa: BLE001  it is raised where it was asked for
                result.set_exception(error)
            self._pump()

        self._loop.call_soon_threadsafe(run)
        try:
            return result.result(timeout)
        except TimeoutError:
            raise BackendUnavailable(f"the lab was not done within {timeout:g} s") from None

    def drop_connections(self) -> int:
        """Drops every connection without a word, and says how many there were."""

        def drop() -> int:
            dropped = list(self._connections)
            for each in dropped:
                each.abort()
            return len(dropped)

        return self.call(drop)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, listening: socket.socket, started: Future[None]) -> None:
        try:
            loop = asyncio.SelectorEventLoop()
            with contextlib.closing(loop):
                self._loop = loop
                loop.run_until_complete(self._serve(listening, started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)
        finally:
            listening.close()

    async def _serve(self, listening: socket.socket, started: Future[None]) -> None:
        loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()

        def changed() -> None:
            loop.call_soon(self._pump)

        self.broker.changed = changed
        server = await loop.create_server(lambda: Connection(self.broker, self._connections), sock=listening)
        self.clock.listen(self._moved)
        started.set_result(None)
        try:
            await self._ending.wait()
        finally:
            self.clock.unlisten(self._moved)
            server.close()
            for each in list(self._connections):
                each.abort()
            if self._timer is not None:
                self._timer.cancel()
            for _ in range(4):
                await asyncio.sleep(0)

    def _moved(self) -> None:
        with contextlib.suppress(RuntimeError):  # It has just ended.
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._pump)

    def _pump(self) -> None:
        """Does what is due, delivers, and comes back when something is due again."""
        assert self._loop is not None
        now = self.clock.now()
        for queue in self.broker.queues.values():
            queue.at(now)
        for connection in list(self._connections):
            connection.pump(now)
        moments = [each.next_event() for each in self.broker.queues.values()]
        moments += [each.next_event() for each in self._connections]
        left = self.clock.seconds_until(min(moments, default=math.inf))
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if math.isinf(left) else self._loop.call_later(left + 0.001, self._pump)
