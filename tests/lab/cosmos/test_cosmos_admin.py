"""The admin interface: who may use it, and that each request reaches the engine's method of that name."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests
from cosmos_clients import PATIENCE, FakeEngine, Raw, head

from azlatch.lab.cosmos.clock import LabClock
from azlatch.lab.cosmos.lab import CosmosLab


class FakeAdmin:
    """Writes down what it is called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def method(*arguments: Any) -> Any:
            self.calls.append((name, *arguments))
            return {"add_rule": 7, "rules": [{"id": 7}], "ledger": [{"n": 1}], "state": {"regions": ["a"]}}.get(
                name
            )

        return method


@pytest.fixture
def lab() -> Any:
    """A lab with a clock that stands still, and an admin that writes down."""
    clock = LabClock(manual=True, start=1_000_000_000.0)
    with CosmosLab(engine=FakeEngine, clock=clock, admin_key="the key of the test") as running:
        running.account.admin = FakeAdmin()
        yield running


def ask(lab: Any, method: str, what: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    reply = requests.request(
        method,
        lab.admin_url + what,
        data=None if body is None else body if isinstance(body, bytes) else json.dumps(body),
        headers={"x-azlatch-key": lab.admin_key, **headers},
        timeout=PATIENCE,
    )
    return reply.status_code, reply.json()


@pytest.mark.parametrize(
    ("method", "what", "body", "call", "result"),
    [
        ("GET", "rules", None, ("rules",), [{"id": 7}]),
        ("POST", "rules", {"rule": "status=503"}, ("add_rule", "status=503"), {"id": 7}),
        ("DELETE", "rules/7", None, ("remove_rule", 7), {}),
        ("DELETE", "rules", None, ("clear_rules",), {}),
        ("GET", "ledger", None, ("ledger", 0, 10_000), [{"n": 1}]),
        ("GET", "ledger?since=5&most=3", None, ("ledger", 5, 3), [{"n": 1}]),
        ("GET", "ledger?most=99999999", None, ("ledger", 0, 10_000), [{"n": 1}]),
        ("GET", "logs/TABLE?since=5&most=3", None, ("logs", "TABLE", 5, 3), {}),
        ("GET", "logs", None, ("logs", "", 0, 10_000), {}),
        ("POST", "split", {"container": "d/c", "range": "0"}, ("split", "d/c", "0"), {}),
        ("POST", "merge", {"container": "d/c", "ranges": ["1", "2"]}, ("merge", "d/c", ["1", "2"]), {}),
        ("POST", "failover", {"region": "West US"}, ("failover", "West US"), {}),
        ("POST", "offline", {"region": "West US"}, ("offline", "West US"), {}),
        ("POST", "remove-region", {"region": "West US"}, ("remove_region", "West US"), {}),
        ("POST", "add-region", {"region": "West US"}, ("add_region", "West US"), {}),
        ("POST", "lay-out", {"container": "d/c", "count": 4}, ("lay_out", "d/c", 4), {}),
        ("POST", "online", {"region": "West US"}, ("online", "West US"), {}),
        ("POST", "lag", {"source": "a", "target": "b", "seconds": 2}, ("lag", "a", "b", 2.0), {}),
        ("POST", "pause", {"source": "a", "target": "b"}, ("pause", "a", "b"), {}),
        ("POST", "resume", {"source": "a", "target": "b"}, ("resume", "a", "b"), {}),
    ],
)
def test_verbs(lab: Any, method: str, what: str, body: Any, call: Any, result: Any) -> None:
    """Each calls one method of the engine's admin and gives what it gives."""
    assert ask(lab, method, what, body) == (200, result)
    assert lab.account.admin.calls == [call]


def test_clock_and_state(lab: Any) -> None:
    """The time is read and put forward; the state has it."""
    assert ask(lab, "GET", "clock") == (200, {"now": 1e9, "manual": True})
    assert ask(lab, "POST", "clock", {"advance": 2.5}) == (200, {"now": 1e9 + 2.5})
    assert lab.clock.now() == 1e9 + 2.5
    state = {"now": 1e9 + 2.5, "manual_clock": True, "regions": ["a"]}
    assert ask(lab, "GET", "state") == (200, state)


@pytest.mark.parametrize(
    ("method", "what", "body", "status"),
    [
        ("GET", "nothing", None, 404),
        ("GET", "", None, 404),
        ("PUT", "rules", None, 405),
        ("GET", "rules/7", None, 405),
        ("POST", "split", {"container": "d/c"}, 400),
        ("POST", "split", {"container": "d/c", "range": 0}, 400),
        ("POST", "merge", {"container": "d/c", "ranges": "12"}, 400),
        ("POST", "rules", b"no JSON", 400),
        ("POST", "rules", [1], 400),
        ("POST", "rules", b"[" * 100_000, 400),
        ("POST", "clock", {"advance": -1}, 400),
        ("POST", "clock", {"advance": True}, 400),
        ("POST", "clock", {"advance": "1"}, 400),
        ("DELETE", "rules/x", None, 400),
        ("GET", "ledger?since=-1", None, 400),
        ("GET", "ledger?a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1&i=1", None, 400),
    ],
)
def test_what_makes_no_sense(lab: Any, method: str, what: str, body: Any, status: int) -> None:
    """A status and a sentence; nothing is called."""
    got, answer = ask(lab, method, what, body)
    assert (got, set(answer)) == (status, {"code", "message"})
    assert lab.account.admin.calls == []


def test_what_the_engine_refuses(lab: Any) -> None:
    """Its ValueError is the caller's 400, with its words."""

    def refuse(region: str) -> None:
        raise ValueError(f"there is no region {region!r}")

    lab.account.admin.failover = refuse
    got, answer = ask(lab, "POST", "failover", {"region": "x"})
    assert (got, answer["message"].split("\r\n")[0]) == (400, "there is no region 'x'")


@pytest.mark.parametrize("key", ["", "wrong", "the key of the tesT", "ü"])
def test_without_the_key(lab: Any, key: str) -> None:
    """401, and nothing is called."""
    headers = {"x-azlatch-key": key.encode()} if key else {"x-azlatch-key": None}
    reply = requests.get(lab.admin_url + "state", headers=headers, timeout=PATIENCE)  # type: ignore[arg-type]
    assert reply.status_code == 401
    assert lab.admin_key not in reply.text
    assert lab.account.admin.calls == []


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 403),
        ("evil.example:{port}", 403),
        ("127.0.0.1.evil.example", 403),
        ("10.0.0.1", 403),
        ("", 403),
        ("localhost:{port}", 200),
        ("127.0.0.1", 200),
        ("[::1]:{port}", 200),
    ],
)
def test_names_of_others_are_refused(lab: Any, host: str, status: int) -> None:
    """A name that DNS led here is not enough, even with the key."""
    assert ask(lab, "GET", "clock", host=host.format(port=lab.port))[0] == status


def test_the_query_of_a_request_cannot_be_forged(lab: Any) -> None:
    """What a header pretends to be the query string is not."""
    client = Raw(lab.port)
    headers = {"x-azlatch-key": lab.admin_key, "x-azlatch-query": "since=5"}
    client.send(head("GET", "/_azlatch/ledger", headers))
    assert client.reply()[0] == 200
    client.socket.close()
    assert lab.account.admin.calls == [("ledger", 0, 10_000)]


def test_the_key_is_new_each_time() -> None:
    """And long enough that nobody guesses it."""
    keys = {CosmosLab(engine=FakeEngine).admin_key for _ in range(3)}
    assert len(keys) == 3 and min(map(len, keys)) >= 32
