"""Reading one's own writes through a real load balancer: HAProxy in front of two processes, on the lab.

The measured form: AZLATCH_SESSION_TRIES=1000 pytest -s tests/services/test_session_balancer.py
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from azure.cosmos import CosmosClient, PartitionKey

from azlatch.lab.cosmos import CosmosLab

WEST, EAST = "West US", "East US"
#: Seconds from a write in WEST to its being in EAST.
LAG_S = 0.05
TRIES = int(os.environ.get("AZLATCH_SESSION_TRIES", "60"))
HEADER = "azlatch-session"

HAPROXY = """
global
    maxconn 100
defaults
    mode http
    timeout connect 10s
    timeout client 60s
    timeout server 60s
frontend front
    bind 127.0.0.1:{front}
    default_backend instances
backend instances
    balance roundrobin
    option http-server-close
    server one 127.0.0.1:{one}
    server two 127.0.0.1:{two}
"""

pytestmark = [
    pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is missing: apt-get install haproxy"),
    pytest.mark.timeout(120 + TRIES),
]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def ended(process: subprocess.Popen[bytes]) -> None:
    """Ends one that was started here, and waits for it."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(20)


class Shop:
    """The application as its users see it."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.lab = stack.enter_context(CosmosLab(regions=(WEST, EAST), throttling=False))
        with CosmosClient(self.lab.endpoint, self.lab.key) as client:
            client.create_database("shop").create_container("orders", PartitionKey("/customer"))
        self.admin("lag", WEST, EAST, LAG_S)
        front, one, two = (free_port() for _ in range(3))
        for number, port, region in (("1", one, WEST), ("2", two, EAST)):
            app = Path(__file__).with_name("session_app.py")
            start = [sys.executable, str(app), number, str(port), self.lab.endpoints[region], self.lab.key]
            stack.callback(ended, subprocess.Popen(start))
        settings = folder / "haproxy.cfg"
        settings.write_text(HAPROXY.format(front=front, one=one, two=two))
        stack.callback(ended, subprocess.Popen(["haproxy", "-db", "-f", str(settings)]))
        self._front = front
        for port in (one, two, front):
            self._wait_for(port)

    def admin(self, verb: str, *rest: Any) -> Any:
        return self.lab.call(lambda: getattr(self.lab.account.admin, verb)(*rest))

    def ask(
        self, method: str, path: str, session: str | None = None, port: int = 0
    ) -> tuple[int, Any, str | None]:
        """Status, body and session of an answer."""
        connection = HTTPConnection("127.0.0.1", port or self._front, timeout=60)
        try:
            connection.request(method, path, headers={HEADER: session} if session else {})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read()), answer.headers.get(HEADER)
        finally:
            connection.close()

    def _wait_for(self, port: int) -> None:
        end = time.monotonic() + 60
        while True:
            try:
                if self.ask("GET", "/health", port=port)[0] == 200:
                    return
            except (OSError, ValueError):
                pass
            assert time.monotonic() < end, "an instance did not start in time"
            time.sleep(0.05)

    def tries(self, count: int, *, with_session: bool) -> dict[str, int]:
        """A write and a read after it, `count` times: how many reads were stale, and through which way."""
        found = {"stale": 0, "fresh": 0, "behind": 0, "other instance": 0}
        session = None
        for number in range(count):
            if number % 2:
                # So that the read is sometimes on the instance of the write, and sometimes not.
                self.ask("GET", "/health")
            order = f"/orders/{number % 5}"
            status, written, session = self.ask("PUT", f"{order}?n={number}", session if with_session else None)
            assert status == 200
            if number % 3 == 0:
                self.ask("GET", "/health")
            status, read, later = self.ask("GET", order, session if with_session else None)
            session = later or session
            found["other instance"] += written["instance"] != read["instance"]
            if status == 503:
                found["behind"] += 1
            else:
                found["fresh" if read.get("n") == number else "stale"] += 1
        return found


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with ExitStack() as stack:
        yield Shop(stack, tmp_path)


def test_row_38_reads_after_writes_through_a_load_balancer(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the session a share of reads after writes is stale; with it none is, in as many tries."""
    began = time.monotonic()
    without = shop.tries(TRIES, with_session=False)
    between = time.monotonic()
    with_it = shop.tries(TRIES, with_session=True)
    after = time.monotonic()
    with capsys.disabled():
        for name, found, seconds in (("without", without, between - began), ("with", with_it, after - between)):
            share = 100 * found["stale"] / TRIES
            print(f"\n{name} the session: {found}, {share:.1f} % stale, {1000 * seconds / TRIES:.1f} ms a try")
    assert without["stale"] > TRIES // 20
    assert (with_it["stale"], with_it["behind"], with_it["fresh"]) == (0, 0, TRIES)
    assert with_it["other instance"] > TRIES // 10


def test_after_a_failover_with_losses_the_loss_is_explicit(shop: Shop) -> None:
    """The write that was lost is not shown as an older state: the answer is 503 and behind-session."""
    session = shop.ask("PUT", "/orders/1?n=1")[2]
    while shop.ask("GET", "/orders/1", session)[1]["instance"] != "2":
        pass
    shop.admin("pause", WEST, EAST)
    status, _, session = shop.ask("PUT", "/orders/1?n=2", session)
    assert status == 200
    shop.admin("offline", WEST)
    assert shop.admin("failover", EAST) == 1
    answers = [shop.ask("GET", "/orders/1", session)[:2] for _ in range(2)]
    assert all(status == 503 and said["error"] == "behind-session" for status, said in answers), answers
    # Who gives the session up sees what there is: the state before the write that was acknowledged.
    assert {shop.ask("GET", "/orders/1")[1]["n"] for _ in range(2)} == {1}
