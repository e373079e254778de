"""The blob service of Azurite, Microsoft's local Azure Storage, as a process of this one's own."""

from __future__ import annotations

import contextlib
import errno
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from types import TracebackType
from typing import IO, Self

from azlatch.backends.storage_account import EMULATOR as ACCOUNT
from azlatch.backends.storage_account import EMULATOR_KEY as KEY
from azlatch.errors import BackendMisconfigured, BackendUnavailable, UsageError
from azlatch.lab import child, npm

VERSION = "3.37.0"
HOST = "127.0.0.1"
#: How long it may take until it answers, and until it has ended by itself, seconds.
READY_WITHIN, END_WITHIN = 60.0, 5.0
_LISTENS = b"successfully listens on"


class Azurite:
    """A blob service on the loopback interface; `start` and `stop`, or `with`.

    It keeps everything in memory, unless `location` names a folder. It ends with the process that started it.
    Used from one thread at a time.

    Args:
        port: a fixed port; by default a free one is chosen, once, and kept over restarts.
        location: a folder that keeps the data over restarts.
        log: a file that Azurite's own output is appended to, requests included.
    """

    def __init__(
        self,
        port: int | None = None,
        location: str | os.PathLike[str] | None = None,
        log: str | os.PathLike[str] | None = None,
    ) -> None:
        if port is not None and not 1 <= port <= 65_535:
            raise UsageError(f"port is {port}: give it 1 to 65,535, or none for a free one")
        self._fixed = self._port = port
        self._location = None if location is None else os.path.abspath(location)
        self._log = None if log is None else os.path.abspath(log)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """Where it listens. Raises UsageError before the first start, unless it is fixed."""
        if self._port is None:
            raise UsageError("Azurite has no port yet: start it first, or give it port=")
        return self._port

    @property
    def pid(self) -> int | None:
        """The process, or None when it does not run."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    @property
    def endpoint(self) -> str:
        """The URL of the blob service's account."""
        return endpoint(self.port)

    @property
    def connection_string(self) -> str:
        """For `from_connection_string` of the SDKs."""
        return connection_string(self.port)

    def connection_string_at(self, port: int) -> str:
        """The same account by another loopback port, such as that of a FaultProxy."""
        return connection_string(port)

    def environment(self, port: int | None = None) -> dict[str, str]:
        """Environment variables that hand the connection string to azlatch, Service Connector and Functions."""
        value = connection_string(self.port if port is None else port)
        names = ("AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGEBLOB_CONNECTIONSTRING", "AzureWebJobsStorage")
        return dict.fromkeys(names, value)

    def start(self) -> Self:
        """Starts it and returns when it answers; the first time ever it is installed, see `npm.install`.

        Raises:
            UsageError: it runs already, or its fixed port is in use.
            BackendMisconfigured: Node.js is missing, or Azurite could not be installed.
            BackendUnavailable: it ended, or did not answer within READY_WITHIN seconds; with its last words.
        """
        if self.pid is not None:
            raise UsageError(f"Azurite runs already, on port {self.port}")
        folder = install()
        node = npm.find_node()
        for attempt in (1, 2, 3):
            chosen = self._port if self._port is not None else _free_port()
            _try(chosen)
            try:
                self._start(node.program, folder, chosen)
            except _PortTaken as taken:
                # Between choosing a free port and using it, somebody else had it.
                if self._port is not None or attempt == 3:
                    raise _in_use(chosen) from taken
                continue
            self._port = chosen
            break
        return self

    def stop(self) -> None:
        """Ends it, if it runs: TERM, END_WITHIN seconds, KILL. What it had in memory is gone."""
        process, self._process = self._process, None
        if process is not None:
            child.end(process, END_WITHIN)

    def restart(self) -> None:
        """Stops it and starts it on the same port. Raises as `start`."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Stops the process in its tracks (SIGSTOP): connections are accepted, and nothing is answered."""
        child.tell(self._running(), signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on after `pause`; it then answers what has piled up."""
        child.tell(self._running(), signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise UsageError("Azurite does not run: start it first")
        return self._process

    def _start(self, node: str, folder: str, port: int) -> None:
        guard = os.path.join(os.path.dirname(os.path.abspath(__file__)), "end_with_parent.cjs")
        main = os.path.join(folder, "node_modules", "azurite", "dist", "src", "blob", "main.js")
        if not os.path.exists(main):
            raise BackendMisconfigured(f"{folder} is damaged: remove it, and it is installed anew")
        arguments = [node, "--require", guard, main, "--blobHost", HOST, "--blobPort", str(port)]
        arguments += ["--disableTelemetry", "--skipApiVersionCheck"]
        arguments += ["--inMemoryPersistence"] if self._location is None else ["--location", self._location]
        arguments += ["--silent"] if self._log is None else []
        with contextlib.ExitStack() as stack:
            output = stack.enter_context(
                tempfile.TemporaryFile() if self._log is None else open(self._log, "a+b")  # noqa: SIM115
            )
            began = output.seek(0, os.SEEK_END)
            # A folder of its own: what it might write where it stands is written nowhere.
            process = child.start(arguments, output, cwd=folder if self._location is None else None)
            try:
                _wait_until_ready(process, output, began, port)
            except BaseException:
                child.end(process, 0.0)
                raise
        self._process = process


def install() -> str:
    """Installs Azurite if it is not there yet, and returns its folder. Raises as `npm.install`."""
    return npm.install("azurite", VERSION)


class _PortTaken(Exception):
    """Somebody else listens on the port."""


def endpoint(port: int) -> str:
    """The URL of the development account at a loopback port."""
    return f"http://{HOST}:{port}/{ACCOUNT}"


def connection_string(port: int) -> str:
    """The connection string of the development account at a loopback port."""
    account = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY}"
    return f"{account};BlobEndpoint={endpoint(port)};"


def _wait_until_ready(process: subprocess.Popen[bytes], output: IO[bytes], began: int, port: int) -> None:
    end = time.monotonic() + READY_WITHIN
    while True:
        said = os.pread(output.fileno(), 65_536, began)
        if process.poll() is not None:
            if b"EADDRINUSE" in said:
                raise _PortTaken
            how = f"ended with {process.returncode} instead of starting"
            raise BackendUnavailable(f"Azurite {how}: {_last_words(said)}")
        # Its word first: what answers at the port could be somebody else.
        if _LISTENS in said and _answers(port):
            return
        if time.monotonic() >= end:
            raise BackendUnavailable(f"Azurite did not answer within {READY_WITHIN:g} s: {_last_words(said)}")
        time.sleep(0.05)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status >= 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _last_words(said: bytes) -> str:
    return " / ".join(said.decode(errors="replace").strip().splitlines()[-5:]) or "it said nothing"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _try(port: int) -> None:
    """Raises UsageError if nobody may listen there now."""
    with socket.socket() as probe:
        # Connections that have ended and still linger do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise _in_use(port) from None
            raise UsageError(f"port {port} cannot be used: {error.strerror}") from None


def _in_use(port: int) -> UsageError:
    return UsageError(f"port {port} is in use: stop what listens there, or choose another port")


def _main() -> int:
    """Installs it and nothing else: python -m azlatch.lab.azurite."""
    try:
        install()
    except BackendMisconfigured as error:
        sys.stderr.write(f"azlatch: {error}\n")
        return 69
    return 0


if __name__ == "__main__":
    sys.exit(_main())
