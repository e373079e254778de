"""A redis-server of our own on a free loopback port, where one is installed."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

_START_LIMIT = 5.0


@contextlib.contextmanager
def running(place: Path) -> Iterator[int]:
    """Runs a server that stores nothing, and gives its port; 0 where none is installed."""
    program = shutil.which("redis-server")
    if program is None:
        yield 0
        return
    port = _free_port()
    stores_nothing = ["--save", "", "--appendonly", "no", "--dir", str(place)]
    options = ["--bind", "127.0.0.1", "--port", str(port), *stores_nothing]
    server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(server, port)
        yield port
    finally:
        server.terminate()
        try:
            server.wait(_START_LIMIT)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def version() -> str:
    """What `redis-server --version` says, shortened to the number."""
    words = subprocess.run(
        ["redis-server", "--version"], capture_output=True, text=True, timeout=_START_LIMIT, check=True
    ).stdout.split()
    return next((word[2:] for word in words if word.startswith("v=")), "of unknown version")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(server: subprocess.Popen[bytes], port: int) -> None:
    give_up = time.monotonic() + _START_LIMIT
    while time.monotonic() < give_up and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as probe:
            probe.sendall(b"PING\r\n")
            if probe.recv(16).startswith(b"+PONG"):
                return
        time.sleep(0.02)
    raise RuntimeError(f"redis-server did not answer on port {port} within {_START_LIMIT:g} s")
