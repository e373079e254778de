"""The servers that the suite runs against: the lab, `@vercel/cosmosdb-server`, or one that runs already."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, NamedTuple

from accounts import EMULATOR, Account
from azlatch.errors import LatchError
from azlatch.lab import child, npm

#: How the lab is started, before its options.
LAB_COMMAND = [sys.executable, "-m", "azlatch.cli", "lab", "cosmos"]
#: The key that every emulator has; it is no secret.
KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
EMULATOR_PORT = 8081
PEER_PACKAGE, PEER_VERSION = "@vercel/cosmosdb-server", "1.0.1"
_HOST = "127.0.0.1"
_READY_WITHIN, _END_WITHIN = 30.0, 5.0
#: Both of its servers; over plain HTTP its answers keep connections alive only when told to.
_PEER_LAUNCH = (
    "const s = require(process.argv[1]);"
    "const o = {keepAlive: true};"
    "(process.argv[3] === 'https' ? s.createHttpsServer(o) : s.createHttpServer(o))"
    f".listen(Number(process.argv[2]), '{_HOST}', () => console.log('ready'));"
)


class ServerMissing(Exception):
    """A server that cannot be used here; the message says why."""


class Served(NamedTuple):
    """Where an account is served, and by which process; 0 where that is not ours."""

    endpoint: str
    key: str
    pid: int = 0


#: Serves an account until it is left.
Serve = Callable[[Account], AbstractContextManager[Served]]


def chosen(name: str) -> Serve:
    """By its name, `lab` or `vercel`, or by the URL of one that runs."""
    if name == "lab":
        return lab
    if name == "vercel":
        return vercel
    if not name.startswith(("http://", "https://")):
        raise ServerMissing(f"there is no server {name!r}: lab, vercel, or a URL")
    return lambda _: contextlib.nullcontext(Served(name, os.environ.get("ACCOUNT_KEY", KEY)))


@contextlib.contextmanager
def lab(account: Account) -> Iterator[Served]:
    """The lab, by its command line, as anybody would start it."""
    port = _port(account)
    command = [*LAB_COMMAND, "--json", "--port", str(port)]
    for region in account.regions:
        command += ["--region", region]
    command += ["--consistency", account.consistency, "--no-throttling"]
    command += ["--multi-write"] if account.multi_write else []
    command += ["--host", account.host] if account.host else []
    command += ["--aad"] if account.aad else []
    command += ["--tls"] if account.fixed else []
    command += ["--fault", f"delay={account.latency:g}"] if account.latency else []
    with running(command, _first_json) as (pid, line):
        variables = json.loads(line)
        text = next(str(value) for value in variables.values() if str(value).startswith("AccountEndpoint="))
        parts = dict(each.split("=", 1) for each in text.strip(";").split(";"))
        # By this name the suite knows that it is on this machine.
        endpoint = EMULATOR if account.fixed else parts["AccountEndpoint"].replace(_HOST, "localhost")
        yield Served(endpoint, parts["AccountKey"], pid)


@contextlib.contextmanager
def vercel(account: Account) -> Iterator[Served]:
    """`@vercel/cosmosdb-server` with its own certificate: over plain HTTP it still names an https endpoint."""
    port = _port(account)
    with running(peer_command(port, tls=True), lambda line: "ready" in line) as (pid, _):
        yield Served(EMULATOR if account.fixed else f"https://localhost:{port}/", KEY, pid)


def peer_command(port: int, *, tls: bool) -> list[str]:
    """The command line of `@vercel/cosmosdb-server`, which is installed the first time.

    Raises:
        ServerMissing: there is no Node.js, or it cannot be installed.
    """
    try:
        node = npm.find_node()
        folder = npm.install(PEER_PACKAGE, PEER_VERSION)
    except LatchError as error:
        raise ServerMissing(str(error)) from None
    package = os.path.join(folder, "node_modules", *PEER_PACKAGE.split("/"))
    return [node.program, "-e", _PEER_LAUNCH, package, str(port), "https" if tls else "http"]


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def emulator_port_is_free() -> bool:
    """Whether EMULATOR can be served here."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, EMULATOR_PORT))
        except OSError:
            return False
    return True


def _port(account: Account) -> int:
    if not account.fixed:
        return free_port()
    # The server before it may be a moment in closing.
    end = time.monotonic() + _END_WITHIN
    while not emulator_port_is_free():
        if time.monotonic() > end:
            raise ServerMissing(f"port {EMULATOR_PORT} is in use, and the file names it itself")
        time.sleep(0.1)
    return EMULATOR_PORT


@contextlib.contextmanager
def running(command: list[str], ready: Callable[[str], bool]) -> Iterator[tuple[int, str]]:
    """Runs a server, and gives its process and the line that says that it is ready."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            process_group=0,
            cwd=Path(tempfile.gettempdir()),
        )
        try:
            yield process.pid, _ready_line(process, errors, ready)
        finally:
            child.end(process, _END_WITHIN)
            if process.stdout is not None:
                process.stdout.close()


def _ready_line(process: subprocess.Popen[bytes], errors: IO[bytes], ready: Callable[[str], bool]) -> str:
    if process.stdout is None:
        raise ServerMissing("it has no output")
    end = time.monotonic() + _READY_WITHIN
    while time.monotonic() < end:
        if not select.select([process.stdout], [], [], 0.2)[0]:
            continue
        line = process.stdout.readline()
        if not line:
            process.wait(_END_WITHIN)
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip().splitlines()[-3:]
            raise ServerMissing(f"it ended with {process.returncode}: {' / '.join(said)}")
        if ready(text := line.decode(errors="replace")):
            return text
    raise ServerMissing(f"it was not ready within {_READY_WITHIN:g} s")


def _first_json(line: str) -> bool:
    return line.startswith("{")
