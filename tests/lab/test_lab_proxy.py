"""The fault proxy, with the real SDK before real Azurite, and with plain HTTP before a stub."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from azure.core.exceptions import (
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.storage.blob import BlobClient, BlobLeaseClient

from azlatch.errors import UsageError
from azlatch.lab import proxied
from azlatch.lab.faults import Fault
from azlatch.lab.proxy import FaultProxy

PATIENCE = 30.0
ACQUIRE = {"x-ms-lease-action": "acquire"}


def state(blob: BlobClient) -> str:
    return str(blob.get_blob_properties().lease.state)


def until(condition: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.02)


# With the SDK and Azurite.


def test_without_rules_nothing_changes(faults: FaultProxy, blob: BlobClient) -> None:
    """Signed requests, large bodies both ways and leases pass; the log says what was seen."""
    large = os.urandom(9_000_000)
    blob.upload_blob(large, overwrite=True)
    assert blob.download_blob().readall() == large
    lease = BlobLeaseClient(blob)
    lease.acquire(15)
    lease.renew()
    lease.release()
    assert [faults.count(action=action) for action in ("acquire", "renew", "release", "break")] == [1, 1, 1, 0]
    assert faults.count(method="put", action="acquire", status=201) == 1
    acquired = next(each for each in faults.requests if each.action == "acquire")
    assert (acquired.path, acquired.query) == (f"/devstoreaccount1/{blob.container_name}/it", "comp=lease")
    assert (acquired.fault, acquired.service_status, acquired.forwarded) == (None, 201, True)
    assert acquired.headers["x-ms-lease-duration"] == "15"
    assert "authorization" not in acquired.headers
    assert len({each.connection for each in faults.requests}) == 1


def test_a_dropped_reply_was_applied(faults: FaultProxy, blob: BlobClient, direct: BlobClient) -> None:
    """The reply of an acquire is lost: the caller knows nothing, and the lease is taken."""
    rule = faults.add(Fault.drop_reply(), method="PUT", header=ACQUIRE, times=1)
    with pytest.raises(ServiceResponseError):
        BlobLeaseClient(blob).acquire(15)
    assert state(direct) == "leased"
    assert rule.fired == faults.count(fault="drop-reply") == 1
    (dropped,) = faults.requests
    assert (dropped.service_status, dropped.status, dropped.forwarded) == (201, None, True)


def test_a_dropped_request_was_not_applied(faults: FaultProxy, blob: BlobClient, direct: BlobClient) -> None:
    """The request of an acquire is lost: the lease is free, and the next try has it."""
    faults.add(Fault.drop_request(), header=ACQUIRE, times=1)
    with pytest.raises(ServiceResponseError):
        BlobLeaseClient(blob).acquire(15)
    assert state(direct) == "available"
    BlobLeaseClient(blob).acquire(15)
    assert state(direct) == "leased"
    assert [each.forwarded for each in faults.requests] == [False, True]


def test_a_reset(faults: FaultProxy, blob: BlobClient, direct: BlobClient) -> None:
    """A reset is one that the client sees, and the service saw nothing."""
    faults.add("reset lease=acquire times=1")
    with pytest.raises((ServiceRequestError, ServiceResponseError), match="reset"):
        BlobLeaseClient(blob).acquire(15)
    assert state(direct) == "available"


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ("status=503", 503, "ServerBusy"),
        ("status=429 retry-after=7", 429, "TooManyRequests"),
        ("status=500", 500, "InternalError"),
        ("status=403", 403, "AuthorizationFailure"),
        ("status=409 code=LeaseIdMissing", 409, "LeaseIdMissing"),
    ],
)
def test_a_status(faults: FaultProxy, blob: BlobClient, fault: str, status: int, code: str) -> None:
    """The SDK takes the answer for one of the service's, with its code; HEAD has no body."""
    faults.add(f"{fault} times=2")
    with pytest.raises(HttpResponseError) as raised:
        blob.upload_blob(b"x" * 200_000, overwrite=True)
    assert (raised.value.status_code, raised.value.error_code) == (status, code)
    assert raised.value.response is not None
    assert raised.value.response.headers.get("retry-after") == ("7" if status == 429 else None)
    with pytest.raises(HttpResponseError) as raised:
        blob.get_blob_properties()
    assert (raised.value.status_code, raised.value.error_code) == (status, code)
    assert blob.download_blob().readall() == b"0123456789"
    assert faults.count(status=status) == 2


def test_a_write_that_lands_late(
    faults: FaultProxy, blob: BlobClient, direct: BlobClient, service: Any
) -> None:
    """A delayed request is applied after the client has given up."""
    rule = faults.add(Fault.delay(1.0), header=ACQUIRE)
    hasty = service(faults.connection_string, read_timeout=0.2)
    with pytest.raises(ServiceResponseError):
        BlobLeaseClient(hasty.get_blob_client(blob.container_name, "it")).acquire(15)
    assert rule.fired == 1
    until(lambda: state(direct) == "leased")


def test_a_late_reply(faults: FaultProxy, blob: BlobClient, direct: BlobClient) -> None:
    """A delayed reply is applied at once, and answered late."""
    rule = faults.add(Fault.delay_reply(2.0), header=ACQUIRE)
    with ThreadPoolExecutor(1) as pool:
        lease = BlobLeaseClient(blob)
        acquiring = pool.submit(lease.acquire, 15)
        assert faults.wait_fired(rule)
        until(lambda: faults.requests[-1].service_status == 201)
        assert not acquiring.done()
        assert state(direct) == "leased"
        acquiring.result(PATIENCE)
    assert lease.id is not None


def test_a_black_hole_until_its_rule_is_removed(
    faults: FaultProxy, blob: BlobClient, direct: BlobClient
) -> None:
    """Nothing is answered or forwarded; removing the rule closes the connection."""
    rule = faults.add(Fault.black_hole(), header=ACQUIRE)
    with ThreadPoolExecutor(1) as pool:
        acquiring = pool.submit(BlobLeaseClient(blob).acquire, 15)
        assert faults.wait_fired(rule)
        assert state(direct) == "available"
        assert not acquiring.done()
        faults.remove(rule)
        with pytest.raises(ServiceResponseError):
            acquiring.result(PATIENCE)
    assert faults.rules == []
    BlobLeaseClient(blob).acquire(15)
    assert state(direct) == "leased"


def test_a_black_hole_for_a_time_and_for_the_impatient(
    faults: FaultProxy, blob: BlobClient, service: Any
) -> None:
    """It ends by itself after its time; a client that leaves is forgotten at once."""
    faults.add("black-hole=0.2 times=1")
    with pytest.raises(ServiceResponseError):
        blob.get_blob_properties()
    faults.add("black-hole")
    hasty = service(faults.connection_string, read_timeout=0.2)
    with pytest.raises(ServiceResponseError):
        hasty.get_blob_client(blob.container_name, "it").get_blob_properties()
    until(lambda: faults.requests[-1].ended is not None)


def test_cut_replies(faults: FaultProxy, blob: BlobClient) -> None:
    """A reply that is cut in its body is asked for again by the SDK; one cut in its head is an error."""
    rule = faults.add(Fault.truncate(4), method="GET", times=1)
    assert blob.download_blob().readall() == b"0123456789"
    assert (rule.fired, faults.count(method="GET")) == (1, 2)
    faults.reset_counts()
    faults.add(Fault.partial(8), method="GET", times=1)
    with pytest.raises(ServiceResponseError):
        blob.download_blob().readall()
    assert [each.status for each in faults.requests] == [None]
    assert blob.download_blob().readall() == b"0123456789"


def test_a_head_cut_after_the_status_line_passes_for_a_success(faults: FaultProxy, blob: BlobClient) -> None:
    """The SDK takes such a reply for a whole one: the lease is taken, and its id is None."""
    faults.add("partial=30 lease=acquire times=1")
    lease = BlobLeaseClient(blob)
    mine = lease.id
    lease.acquire(15)
    assert mine is not None
    assert lease.id is None
    assert state(blob) == "leased"
    BlobLeaseClient(blob, mine).renew()


def test_a_service_that_is_gone(blob: BlobClient) -> None:
    """A target where nobody listens is a connection that breaks, not an answer."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        with FaultProxy(f"127.0.0.1:{port}") as proxy, contextlib.closing(connect(proxy)) as client:
            with pytest.raises(OSError):
                ask(client)
            assert [(each.forwarded, each.status) for each in proxy.requests] == [(False, None)]


# With plain HTTP and a stub.


class Stub(http.server.BaseHTTPRequestHandler):
    """Answers with what it was asked, and counts its connections."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    connections: set[Any]

    def do_POST(self) -> None:
        type(self).connections.add(self.client_address)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        while "transfer-encoding" in self.headers and (size := int(self.rfile.readline(), 16)):
            body += self.rfile.read(size + 2)[:-2]
        if "transfer-encoding" in self.headers:
            self.rfile.readline()
        said = {"path": self.path, "body": len(body), "headers": dict(self.headers.items())}
        text = b"" if self.command == "HEAD" else json.dumps(said).encode()
        self.send_response(200, "Fine")
        if "chunked" in self.path:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in (text[:7], text[7:]):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        elif "until-close" in self.path:
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(text)
        else:
            self.send_header("Content-Length", str(len(text)))
            self.send_header("X-Case", "Kept")
            self.end_headers()
            self.wfile.write(text)

    do_GET = do_HEAD = do_POST

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def stub() -> Iterator[str]:
    """Host and port of a stub; its handler counts in `Stub.connections`."""
    Stub.connections = set()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(PATIENCE)


def connect(proxy: FaultProxy) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=PATIENCE)


def ask(client: http.client.HTTPConnection, path: str = "/", method: str = "GET", **options: Any) -> Any:
    """The stub's answer, as data; None for HEAD."""
    client.request(method, path, **options)
    with client.getresponse() as reply:
        text = reply.read()
        return json.loads(text) if text else None


def test_connections_are_kept(stub: str) -> None:
    """One connection of a client is one to the service, and headers pass as they are, Host included."""
    with FaultProxy(stub) as proxy, contextlib.closing(connect(proxy)) as client:
        for number in range(5):
            said = ask(
                client, f"/{number}?a=b%20c", headers={"X-Mine": "1", "Connection": "x-hop", "X-Hop": "1"}
            )
            assert said["path"] == f"/{number}?a=b%20c"
            assert (said["headers"]["Host"], said["headers"]["X-Mine"]) == (f"127.0.0.1:{proxy.port}", "1")
            assert not {"Connection", "X-Hop"} & set(said["headers"])
        assert len(Stub.connections) == 1
        assert {each.connection for each in proxy.requests} == {1}


def test_framings(stub: str) -> None:
    """Bodies of known length, chunked, and until the close; HEAD and 100-continue."""
    with FaultProxy(stub) as proxy, contextlib.closing(connect(proxy)) as client:
        assert ask(client, "/", "POST", body=b"x" * 300_000)["body"] == 300_000
        assert ask(client, "/chunked")["path"] == "/chunked"
        assert ask(client, "/until-close")["path"] == "/until-close"
        assert ask(client, "/", "HEAD") is None
        chunks = ask(client, "/", "POST", body=iter([b"a", b"bc"]))
        assert (chunks["headers"]["Transfer-Encoding"], chunks["body"]) == ("chunked", 3)
    with FaultProxy(stub) as proxy, socket.create_connection(("127.0.0.1", proxy.port), PATIENCE) as raw:
        raw.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 100")
        raw.sendall(b"ok")
        assert b" 200 Fine\r\n" in raw.recv(65_536)


def test_what_is_no_http_is_refused(stub: str) -> None:
    """Nonsense, an endless head and CONNECT get an answer and a close, and the proxy lives on."""
    with FaultProxy(stub) as proxy:
        for text, status in ((b"nonsense\r\n\r\n", b"400"), (b"GET / HTTP/1.1\r\nA: " + b"x" * 70_000, b"431")):
            with socket.create_connection(("127.0.0.1", proxy.port), PATIENCE) as raw:
                raw.sendall(text)
                assert raw.recv(100).split()[1] == status
        with socket.create_connection(("127.0.0.1", proxy.port), PATIENCE) as raw:
            raw.sendall(b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n")
            assert raw.recv(100).split()[1] == b"501"
        with contextlib.closing(connect(proxy)) as client:
            assert ask(client)["path"] == "/"


def test_a_trickle_brings_all(stub: str) -> None:
    """A slow reply comes in many pieces, and whole."""
    with FaultProxy(stub) as proxy, socket.create_connection(("127.0.0.1", proxy.port), PATIENCE) as raw:
        proxy.add("trickle=2000")
        raw.sendall(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n")
        pieces = list(iter(lambda: raw.recv(65_536), b""))
    assert len(pieces) > 2
    assert json.loads(b"".join(pieces).partition(b"\r\n\r\n")[2])["path"] == "/"


def test_the_same_seed_meets_the_same_faults(stub: str) -> None:
    """Which of many requests are refused depends on the seed alone, rule by rule."""

    def statuses(seed: int) -> list[int | None]:
        with FaultProxy(stub, seed=seed) as proxy, contextlib.closing(connect(proxy)) as client:
            proxy.add("status=503 p=0.3")
            proxy.add("status=500 p=0.3")
            for _ in range(40):
                client.request("GET", "/")
                client.getresponse().read()
            return [each.status for each in proxy.requests]

    first = statuses(1)
    assert first == statuses(1) != statuses(2)
    assert {200, 500, 503} == set(first)


def test_the_first_rule_that_fires_is_applied(stub: str) -> None:
    """Rules are asked in their order, and those after the one that fires do not count the request."""
    with FaultProxy(stub) as proxy, contextlib.closing(connect(proxy)) as client:
        first, second = proxy.add("status=503 nth=2"), proxy.add(Fault.status(500, body=b"{}"), path="^/x")
        for path in ("/x", "/x", "/x", "/"):
            ask_status(client, path)
        assert [each.status for each in proxy.requests] == [500, 503, 500, 200]
        assert (first.seen, first.fired, second.seen, second.fired) == (4, 1, 2, 2)
        proxy.clear()
        assert ask_status(client, "/x") == 200
        assert proxy.count(status=500) == 2
        proxy.reset_counts()
        assert (proxy.count(), proxy.requests) == (0, [])


def ask_status(client: http.client.HTTPConnection, path: str) -> int:
    client.request("GET", path)
    with client.getresponse() as reply:
        reply.read()
        return reply.status


def test_fifty_at_once(stub: str) -> None:
    """Concurrent clients are served side by side, and every one is counted."""
    with FaultProxy(stub) as proxy, ThreadPoolExecutor(50) as pool:
        proxy.add("status=503 times=10")

        def work(number: int) -> list[int]:
            with contextlib.closing(connect(proxy)) as client:
                return [ask_status(client, f"/{number}") for _ in range(4)]

        answered = [status for each in pool.map(work, range(50)) for status in each]
        assert (answered.count(503), answered.count(200)) == (10, 190)
        assert (proxy.count(status=503), proxy.count(status=200), proxy.count()) == (10, 190, 200)


def test_credentials_are_not_in_the_log(stub: str) -> None:
    """Neither the signature of a shared access token nor the authorization header is kept."""
    with FaultProxy(stub) as proxy, contextlib.closing(connect(proxy)) as client:
        path = "/c?sv=1&sig=canary%2B1&Sig=canary2&se=2"
        assert (
            ask(client, path, headers={"Authorization": "canary3", "x-ms-copy-source": "canary4"})["path"]
            == path
        )
        assert "canary" not in repr(proxy.requests)
        assert proxy.requests[0].query == "sv=1&sig=REDACTED&Sig=REDACTED&se=2"


def test_nothing_is_left_after_the_close(stub: str) -> None:
    """Thread, sockets and black holes end with the proxy; it can be started again."""
    before = set(os.listdir("/proc/self/fd"))
    threads = set(threading.enumerate())
    proxy = FaultProxy(stub)
    rule = proxy.add("black-hole")
    for times in (1, 2):
        with proxy, ThreadPoolExecutor(1) as pool:
            port = proxy.port
            with contextlib.closing(connect(proxy)) as client:
                asking = pool.submit(ask, client)
                assert proxy.wait_fired(rule, times)
                proxy.close()
                with pytest.raises((OSError, http.client.HTTPException)):
                    asking.result(PATIENCE)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), PATIENCE)
    # Threads of the stub serve what is open still.
    until(lambda: set(os.listdir("/proc/self/fd")) <= before)
    assert "azlatch-fault-proxy" not in {thread.name for thread in set(threading.enumerate()) - threads}


def test_limits_and_misuse(stub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many clients are closed, and what cannot work is a UsageError."""
    monkeypatch.setattr(proxied, "MOST_CLIENTS", 1)
    with FaultProxy(stub) as proxy:
        with contextlib.closing(connect(proxy)) as one, contextlib.closing(connect(proxy)) as other:
            assert ask_status(one, "/") == 200
            with pytest.raises((OSError, http.client.HTTPException)):
                ask_status(other, "/")
        with pytest.raises(UsageError, match="runs already"):
            proxy.start()
        with pytest.raises(UsageError, match="cannot listen on port"):
            FaultProxy(stub, port=proxy.port).start()
        with pytest.raises(UsageError, match="the whole rule"):
            proxy.add("reset", times=1)
        with pytest.raises(UsageError, match="no connection string"):
            _ = proxy.connection_string
    with pytest.raises(UsageError, match="no port yet"):
        _ = FaultProxy(stub).port
    for target in ("localhost", ":80", "a:b", "a:0", "a:70000"):
        with pytest.raises(UsageError, match="write HOST:PORT"):
            FaultProxy(target)
