"""The lab's HTTP server: what comes in, how it is answered, and that nothing ends it."""

from __future__ import annotations

import gc
import json
import logging
import random
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import requests
from cosmos_clients import PATIENCE, FakeEngine, Raw, head, item, signed

from azlatch.errors import BackendUnavailable, UsageError
from azlatch.lab.cosmos.clock import LabClock
from azlatch.lab.cosmos.lab import CosmosLab
from azlatch.lab.cosmos.server import LabServer, Limits
from azlatch.lab.cosmos.wire import Reply


def works(raw: Callable[..., Raw]) -> bool:
    """Whether the server answers a new client."""
    client = raw()
    client.send(item())
    return client.reply()[0] == 200


def test_a_request_and_its_reply(lab: CosmosLab, raw: Any) -> None:
    """Method, path as it was sent, region and body reach the engine; the reply has the common headers."""
    client = raw()
    path = "/dbs/d%20x/colls/c%2Bc/docs/a%25b/"
    link = "dbs/d x/colls/c+c/docs/a%b"
    activity = "01234567-89ab-cdef-0123-456789abcdef"
    headers = signed("put", path, link, "docs", **{"x-ms-activity-id": activity})
    client.send(head("PUT", path, {**headers, "content-length": "9"}) + b'{"a":"b"}')
    status, got, body = client.reply()
    assert (status, body) == (200, b'{"a":"b"}')
    assert got["x-seen"] == f"PUT {path} East US"
    assert got["x-ms-activity-id"] == activity
    assert got["content-type"] == "application/json"
    assert {"server", "date", "x-ms-version", "x-ms-gatewayversion", "x-ms-serviceversion"} <= set(got)


def test_keep_alive_and_pipelining(lab: CosmosLab, raw: Any) -> None:
    """A hundred requests in one piece are answered in their order, on one connection."""
    client = raw()
    client.send(b"".join(item("PUT", b'"%d"' % number) for number in range(100)))
    assert [client.reply()[2] for _ in range(100)] == [b'"%d"' % number for number in range(100)]


def test_a_request_byte_by_byte(lab: CosmosLab, raw: Any) -> None:
    """Where a request is cut does not matter."""
    client = raw()
    for byte in item("PUT", b'{"a": 1}'):
        client.send(bytes([byte]))
    assert client.reply()[2] == b'{"a": 1}'


def test_chunked_and_expect(lab: CosmosLab, raw: Any) -> None:
    """A chunked body arrives whole; who asks whether it may send is told so."""
    client = raw()
    client.send(item("PUT", **{"transfer-encoding": "chunked", "expect": "100-continue"}))
    assert client.reply()[0] == 100
    client.send(b"3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n")
    assert client.reply()[2] == b"[1,2]"


def test_head_and_bodyless(lab: CosmosLab, raw: Any) -> None:
    """HEAD gets the head alone, 304 and 204 have no body, and the connection goes on."""
    client = raw()
    client.send(item("HEAD"))
    status, headers, _ = head_of(client)
    assert (status, headers["content-length"]) == (200, "2")
    lab.account.then = lambda request, now: Reply(304, {}, b"not sent")
    client.send(item() + item())
    assert [head_of(client)[0], head_of(client)[0]] == [304, 304]
    assert client.is_silent()


def head_of(client: Raw) -> tuple[int, dict[str, str], bytes]:
    """A reply of which only the head comes."""
    text = b""
    while not text.endswith(b"\r\n\r\n"):
        text += client.socket.recv(1)
    first, *lines = text.decode().strip().split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), b""


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nbad header\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\nlong: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"x" * 400_000, 431),
        (b"GET / HTTP/1.1\r\nhost: a\r\n" + b"a: b\r\n" * 20_000, 431),
        (b"PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 5000000\r\n\r\n" + b"x" * 100_000, 413),
        (b"PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999999999999\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n" + b"80000\r\n" + b"x" * 0x80000, 0),
        (b"PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n", 400),
    ],
)
def test_what_is_refused(lab: CosmosLab, raw: Any, sent: bytes, status: int) -> None:
    """What is no HTTP, or too much of it, gets a status in the service's form, and a close."""
    client = raw()
    if status == 0:
        # A chunked body without an end: refused as soon as there is too much of it.
        sent, status = sent + (b"\r\n80000\r\n" + b"x" * 0x80000) * 8, 413
    client.send(sent)
    got, headers, body = client.reply()
    assert (got, headers["connection"]) == (status, "close")
    assert set(json.loads(body)) == {"code", "message"}
    assert client.rest() == b""
    assert lab.account.requests == []
    assert works(raw)


def test_a_head_that_is_just_small_enough(lab: CosmosLab, raw: Any) -> None:
    """60 KiB of headers pass, in one piece or in many: they are counted once."""
    sent = item(long="x" * 20_000, longer="y" * 40_000)
    for size in (len(sent), 1_000):
        client = raw()
        for start in range(0, len(sent), size):
            client.send(sent[start : start + size])
        assert client.reply()[0] == 200


def test_requests_before_a_bad_one_are_answered(lab: CosmosLab, raw: Any) -> None:
    """What came before the nonsense is answered first."""
    client = raw()
    client.send(item() + item() + b"nonsense\r\n\r\n")
    assert [client.reply()[0] for _ in range(3)] == [200, 200, 400]


def test_random_bytes_never_end_it(lab: CosmosLab, raw: Any, caplog: Any) -> None:
    """Random bytes, and requests with random damage: each gets an answer or a close, and nothing is logged."""
    dice = random.Random(7)
    whole = item("PUT", b'{"a": "b"}', expect="100-continue")
    for number in range(300):
        if number % 3 == 0:
            sent = dice.randbytes(dice.randrange(1, 2_000))
        else:
            damaged = bytearray(whole * dice.choice([1, 1, 3]))
            for _ in range(dice.randrange(1, 6)):
                damaged[dice.randrange(len(damaged))] = dice.randrange(256)
            sent = bytes(damaged[: dice.randrange(1, len(damaged) + 1)])
        client = raw()
        try:
            client.send(sent)
            client.socket.shutdown(1)
            client.rest()
        except ConnectionError:
            pass
        client.socket.close()
    assert works(raw)
    assert caplog.records == []


def test_upgrade_and_connect(lab: CosmosLab, raw: Any) -> None:
    """Who asks for another protocol is answered in this one."""
    client = raw()
    client.send(item(upgrade="h2c", connection="upgrade"))
    assert client.reply()[0] == 200
    client = raw()
    client.send(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nhost: a\r\n\r\n")
    assert client.reply()[0] == 401
    assert works(raw)


def test_an_engine_that_fails(lab: CosmosLab, raw: Any, caplog: Any) -> None:
    """500 with an activity id; the trace goes to the log and never to the client."""

    def fail(request: Any, now: float) -> Reply:
        raise RuntimeError("secret of the engine")

    lab.account.then = fail
    client = raw()
    client.send(item())
    status, headers, body = client.reply()
    assert status == 500
    assert b"secret" not in body and b"Traceback" not in body
    assert headers["x-ms-activity-id"] in body.decode()
    assert headers["x-ms-activity-id"] in caplog.text and "secret of the engine" in caplog.text
    lab.account.then = None
    client.send(item())
    assert client.reply()[0] == 200


def test_headers_of_the_engine_cannot_end_a_line(lab: CosmosLab, raw: Any) -> None:
    """A value with line breaks stays one header."""
    lab.account.then = lambda request, now: Reply(200, {"x-a": "b\r\nx-evil: 1\r\n\r\nbody", "x-ü": "é"}, b"{}")
    client = raw()
    client.send(item())
    _, headers, body = client.reply()
    assert "x-evil" not in headers
    assert (headers["x-a"], headers["x-ü"], body) == ("bx-evil: 1body", "é", b"{}")


@pytest.mark.parametrize(("fate", "left"), [("drop", b""), ("reset", None), ("truncate", b'{"a":')])
def test_fates(lab: CosmosLab, raw: Any, fate: Any, left: bytes | None) -> None:
    """Dropped: a close without a byte. Reset: RST. Truncated: a whole head, half the body, a close."""
    lab.account.then = lambda request, now: Reply(200, {}, b'{"a":"b"}'[:10], fate=fate)
    client = raw()
    client.send(item())
    if left is None:
        with pytest.raises(ConnectionResetError):
            client.rest()
    else:
        got = client.rest()
        assert got.partition(b"\r\n\r\n")[2] == left[:4]
        assert (b"content-length: 9" in got) == (fate == "truncate")
    url = f"{lab.endpoint}dbs/d/colls/c/docs/a/"
    headers = signed("get", "", "dbs/d/colls/c/docs/a", "docs")
    with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
        requests.get(url, headers=headers, timeout=PATIENCE)
    lab.account.then = None
    assert requests.get(url, headers=headers, timeout=PATIENCE).status_code == 200


def test_a_reply_without_a_body_is_truncated_in_its_head(lab: CosmosLab, raw: Any) -> None:
    """Truncation never passes for a whole reply."""
    lab.account.then = lambda request, now: Reply(204, {}, fate="truncate")
    client = raw()
    client.send(item())
    got = client.rest()
    assert got.startswith(b"HTTP/1.1 204") and b"\r\n\r\n" not in got


def test_replies_wait_for_the_clock(raw: Any) -> None:
    """A reply with a time of its own is held until the clock is put forward to it; others pass it by."""
    clock = LabClock(manual=True, start=1_000_000_000.0)
    with CosmosLab(engine=FakeEngine, clock=clock) as lab:
        date = signed("get", "", "dbs/d/colls/c/docs/a", "docs")
        lab.account.then = lambda request, now: Reply(
            200, {}, b"%d" % now, ready_at=now + 10 if request.method == "GET" else None
        )
        slow, fast = raw(lab.port), raw(lab.port)
        slow.send(item() + item("PUT", b"{}"))
        fast.send(item("PUT", b"{}"))
        assert fast.reply()[2] == b"1000000000"
        clock.advance(9)
        fast.send(item("PUT", b"{}"))
        assert fast.reply()[2] == b"1000000009"
        assert slow.is_silent()
        clock.advance(1)
        assert slow.reply()[2] == b"1000000000"
        assert slow.reply()[2] == b"1000000010"
        assert date


def test_a_held_reply_has_a_bound(raw: Any) -> None:
    """A clock that nobody puts forward holds a reply for `held_s` real seconds, and a delay is as bounded."""
    clock = LabClock(manual=True)
    with CosmosLab(engine=FakeEngine, clock=clock, limits=Limits(held_s=0.2, delay_s=0.2)) as lab:
        lab.account.then = lambda request, now: Reply(200, {}, b"late", ready_at=now + 1e6, delay=1e6)
        client = raw(lab.port)
        client.send(item())
        assert client.reply()[2] == b"late"


def test_a_delay_is_not_of_the_labs_clock(raw: Any) -> None:
    """Putting the clock forward does not shorten a delay: that is in real seconds."""
    clock = LabClock(manual=True)
    with CosmosLab(engine=FakeEngine, clock=clock) as lab:
        lab.account.then = lambda request, now: Reply(200, {}, b"late", ready_at=now + 1, delay=3_600)
        client = raw(lab.port)
        client.send(item())
        until(lambda: len(lab.account.requests) == 1)
        for _ in range(3):
            clock.advance(10_000)
            # What the clock has set off is over when this has run.
            lab.call(lambda: None)
        assert client.is_silent()
        lab.account.then = lambda request, now: Reply(200, {}, b"soon", ready_at=now - 1, delay=0.01)
        other = raw(lab.port)
        other.send(item() + item())
        assert [other.reply()[2], other.reply()[2]] == [b"soon", b"soon"]


def test_a_client_that_leaves_while_it_waits(raw: Any) -> None:
    """Its held reply is forgotten."""
    clock = LabClock(manual=True)
    with CosmosLab(engine=FakeEngine, clock=clock) as lab:
        lab.account.then = lambda request, now: Reply(200, {}, b"late", ready_at=now + 1)
        client = raw(lab.port)
        client.send(item())
        until(lambda: len(lab.account.requests) == 1)
        client.socket.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # Linger 0: it resets.
        client.socket.close()
        assert lab._server is not None
        server = lab._server
        until(lambda: not server.connections)
        clock.advance(1)
        assert lab.call(lambda: 1) == 1


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.01)


def test_idle_and_slow_clients_are_closed(raw: Any) -> None:
    """Who says nothing, or takes too long for a request, loses the connection."""
    with CosmosLab(engine=FakeEngine, limits=Limits(idle_s=0.1, message_s=0.1)) as lab:
        idle, slow = raw(lab.port), raw(lab.port)
        slow.send(b"GET / HTTP/1.1\r\n")
        for client in (idle, slow):
            try:
                assert client.rest() == b""
            except ConnectionResetError:
                pass


def test_too_many_connections(raw: Any) -> None:
    """More clients than there are places are closed at once; one that leaves makes room."""
    with CosmosLab(engine=FakeEngine, limits=Limits(connections=2)) as lab:
        clients = [raw(lab.port) for _ in range(2)]
        for client in clients:
            client.send(item())
            assert client.reply()[0] == 200
        with pytest.raises((EOFError, ConnectionError)):
            third = raw(lab.port)
            third.send(item())
            third.reply()
        clients[0].socket.close()
        server = lab._server
        assert server is not None
        until(lambda: len(server.connections) == 1)
        fourth = raw(lab.port)
        fourth.send(item())
        assert fourth.reply()[0] == 200


def test_a_client_that_does_not_read(lab: CosmosLab, raw: Any) -> None:
    """The server stops reading from it instead of keeping replies without end, and serves others."""
    lab.account.then = lambda request, now: Reply(200, {}, b"x" * 1_000_000)
    client = raw()
    client.send(item() * 200)
    until(lambda: len(lab.account.requests) > 2)
    lab.call(lambda: None)
    assert works(raw)
    assert len(lab.account.requests) < 100
    for _ in range(200):
        assert len(client.reply()[2]) == 1_000_000


def test_regions_have_ports_and_the_engine_knows_them(raw: Any) -> None:
    """A listener for each region; the first can have a fixed port; the engine is told all of them."""
    with CosmosLab(engine=FakeEngine, regions=["East US", "West US"]) as lab:
        assert list(lab.account.endpoints) == ["East US", "West US"]
        for region, url in lab.endpoints.items():
            client = raw(int(url.rstrip("/").rpartition(":")[2]))
            client.send(item())
            assert client.reply()[1]["x-seen"].endswith(region)
        port = lab.port
        with pytest.raises(UsageError, match=f"port {port} is in use"):
            CosmosLab(engine=FakeEngine, port=port).start()
    with CosmosLab(engine=FakeEngine, port=port) as again:
        assert again.port == port


def test_https() -> None:
    """With tls a client that trusts the lab's certificate gets through, and one that does not does not."""
    with CosmosLab(engine=FakeEngine, tls=True) as lab:
        assert lab.endpoint.startswith("https://") and lab.certificate is not None
        import ssl
        import urllib.request

        request = urllib.request.Request(
            f"{lab.endpoint}dbs/d/colls/c/docs/a/", headers=signed("get", "", "dbs/d/colls/c/docs/a", "docs")
        )
        trusting = ssl.create_default_context(cadata=lab.certificate.decode())
        with urllib.request.urlopen(request, timeout=PATIENCE, context=trusting) as reply:
            assert reply.status == 200
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(request, timeout=PATIENCE, context=ssl.create_default_context())


@pytest.mark.parametrize("tls", [False, True])
def test_it_stops_with_everything_open(tls: bool) -> None:
    """Idle, half-way, silent and waiting clients do not keep it, and nothing is left behind."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clock = LabClock(manual=True)
        before = threading.enumerate()
        with CosmosLab(engine=FakeEngine, clock=clock, tls=tls) as lab:
            lab.account.then = lambda request, now: Reply(200, ready_at=now + 1)
            clients = [Raw(lab.port) for _ in range(3)]
            clients[0].send(b"GET / HTT")
            clients[1].send(item())
            if not tls:
                until(lambda: len(lab.account.requests) == 1)
        assert not lab.is_alive
        left = [each for each in threading.enumerate() if each not in before]
        assert [each for each in left if each.name == "azlatch-lab"] == []
        for client in clients:
            client.socket.close()
        gc.collect()
        lab.stop()
        with pytest.raises(UsageError, match="was started before"):
            lab.start()


def test_calls_run_on_its_thread(lab: CosmosLab) -> None:
    """`call` gives what the function gives or raises, is bounded, and says when there is nobody to call."""
    assert lab.call(lambda: threading.current_thread().name) == "azlatch-lab"
    assert lab.call(lambda: lab.call(lambda: 7)) == 7
    with pytest.raises(ZeroDivisionError):
        lab.call(lambda: 1 // 0)
    release = threading.Event()
    with pytest.raises(BackendUnavailable, match="not done within"):
        lab.call(lambda: release.wait(PATIENCE), timeout=0.05)
    release.set()
    lab.stop()
    with pytest.raises(BackendUnavailable):
        lab.call(lambda: 1)


def test_the_server_says_what_it_cannot_do() -> None:
    """No region, or one twice; stopping what never ran is fine."""
    for regions in ([], ["a", "a"]):
        with pytest.raises(UsageError, match="regions"):
            LabServer(lambda request, now: Reply(200), regions, LabClock())
    LabServer(lambda request, now: Reply(200), ["a"], LabClock()).stop()
    logging.getLogger("azlatch.lab.cosmos")
