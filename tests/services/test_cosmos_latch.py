"""The Cosmos DB latch through the unmodified SDK, against the lab: requests, faults, regions, clients."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.cosmos import CosmosClient, aio
from azure.cosmos._retry_utility import ConnectionRetryPolicy

import azlatch
from azlatch.backends.cosmos import CosmosBackend
from azlatch.backends.cosmos_service import AzureCosmosService
from azlatch.errors import BackendDenied, BackendMisconfigured, BackendUnavailable, UsageError
from azlatch.lab.cosmos import CosmosLab
from azlatch.runtime.env import REAL

_numbers = itertools.count(1)

Connect = Callable[..., azlatch.Latches]


@pytest.fixture(name="lab")
def _lab() -> Iterator[CosmosLab]:
    with CosmosLab(throttling=False) as lab:
        yield lab


@pytest.fixture(name="connect")
def _connect(lab: CosmosLab) -> Iterator[Connect]:
    """Connects to one container of the account; closed at the end."""
    opened: list[azlatch.Latches] = []

    def make(backend: CosmosBackend | None = None, *, at: CosmosLab = lab, **options: Any) -> azlatch.Latches:
        backend = backend or CosmosBackend.from_connection_string(at.connection_string, "d", "latches")
        opened.append(azlatch.connect(backend=backend, **{"create": True, **options}))
        return opened[-1].__enter__()

    yield make
    for latches in opened:
        latches.close()


def requests(lab: CosmosLab, since: int = 0) -> list[str]:
    """The requests for items, in the words of the lab's ledger."""
    rows = lab.call(lambda: lab.account.ledger.rows(since))
    return [row.operation.removeprefix("docs/") for row in rows if row.operation.startswith("docs/")]


def last(lab: CosmosLab) -> int:
    return int(lab.call(lambda: lab.account.ledger.rows()[-1].number))


def item(lab: CosmosLab) -> dict[str, Any]:
    with CosmosClient(lab.endpoint, lab.key) as client:
        container = client.get_database_client("d").get_container_client("latches")
        return dict(container.read_item("a", "a"))


def test_requests_of_a_new_and_of_a_known_name(lab: CosmosLab, connect: Connect) -> None:
    """On the wire: 2 + 1 for a new name, 1 + 1 for a known one."""
    latches = connect()
    latches.acquire("a").release()
    assert requests(lab) == ["read", "create", "patch"]
    number = last(lab)
    latches.acquire("a").release()
    assert requests(lab, number) == ["replace", "patch"]


@pytest.mark.parametrize("kind", ["create", "replace", "patch"])
@pytest.mark.parametrize(
    "fault",
    [
        *(
            "status=429 retry-after-ms=10",
            "status=449",
            "status=408",
            "status=410/1002",
            "status=500",
            "status=503",
        ),
        *("status=403/3", "drop-request", "reset", "drop-reply", "reset-reply", "truncate"),
    ],
)
def test_each_fault_once(kind: str, fault: str, lab: CosmosLab, connect: Connect) -> None:
    """Whatever becomes of one write: one holder, and a release that is done."""
    latches, other = connect(), connect()
    if kind != "create":
        latches.acquire("a").release()
    rule = lab.add_rule(f"{fault} op={kind} times=1")
    with latches.hold("a", timeout=30) as hold:
        hold.ensure()
        assert other.try_acquire("a") is None
        assert item(lab)["fence"] == hold.fence
    until_free(other)
    assert [each["fired"] for each in lab.call(lab.account.admin.rules) if each["id"] == rule] == [1]


def until_free(latches: azlatch.Latches) -> None:
    latches.acquire("a", timeout=30).release()


@pytest.fixture(name="regions", scope="module")
def _regions() -> Iterator[CosmosLab]:
    """An account with two regions: there the SDK has somewhere to go on its own."""
    with CosmosLab(throttling=False, regions=["East US", "West US"]) as lab:
        backend = CosmosBackend.from_connection_string(lab.connection_string, "d", "latches")
        with azlatch.connect(backend=backend, create=True) as latches:
            latches.acquire("a").release()
        yield lab


@pytest.mark.parametrize("fault", ["429", "449", "408", "503", "404/1002", "403/3", "410/1002", "500", "reset"])
@pytest.mark.parametrize("kind", ["read", "create", "replace", "patch", "delete"])
def test_the_sdk_repeats_nothing(fault: str, kind: str, regions: CosmosLab) -> None:
    """One request is one request, also of a client that was handed in with all its retries on."""
    with CosmosClient(regions.endpoint, regions.key) as client:
        service = AzureCosmosService(lambda: client, "d", "latches", REAL, owned=False)
        service.prepare(REAL.now() + 20, create=False)
        until = REAL.now() + 20
        made: dict[str, Callable[[], object]] = {
            "read": lambda: service.read("a", until),
            "create": lambda: service.create({"id": "b"}, until),
            "replace": lambda: service.replace({"id": "a"}, "x", until),
            "patch": lambda: service.patch("a", [{"op": "set", "path": "/note", "value": ""}], until),
            "delete": lambda: service.delete("a", "x", until),
        }
        number = last(regions)
        rule = regions.add_rule(f"{'reset' if fault == 'reset' else 'status=' + fault} op={kind}")
        with pytest.raises(azlatch.LatchError):
            made[kind]()
        regions.call(lambda: regions.account.admin.remove_rule(rule))
        service.close()
    assert requests(regions, number) == [kind]


def test_a_replica_that_is_behind_is_asked_again(lab: CosmosLab, connect: Connect) -> None:
    """404/1002 is no absence: no create follows it."""
    latches = connect()
    latches.acquire("a").release()
    other = connect()
    number = last(lab)
    lab.add_rule("status=404/1002 op=read times=2")
    other.acquire("a", timeout=20).release()
    assert requests(lab, number) == ["read", "read", "read", "replace", "patch"]


def test_a_black_hole_is_bounded(lab: CosmosLab, connect: Connect) -> None:
    """A try that is never answered ends with its bound, as unavailable, and leaves nothing behind."""
    latches = connect()
    latches.acquire("a").release()
    rule = lab.add_rule("delay=600")
    with pytest.raises(BackendUnavailable):
        latches.try_acquire("a", ttl=2)
    lab.call(lambda: lab.account.admin.remove_rule(rule))
    connect().acquire("a", timeout=30).release()


# -- regions ---------------------------------------------------------------------------------------------


def test_reads_go_where_writes_go(connect: Connect) -> None:
    """Whatever region the client prefers: a replica elsewhere knows less."""
    with CosmosLab(throttling=False, regions=["East US", "West US"]) as lab:
        client = CosmosClient(lab.endpoint, lab.key, preferred_locations=["West US", "East US"])
        latches = connect(CosmosBackend(client, "d", "latches"))
        with latches.hold("a"):
            latches.inspect("a")
            list(latches.list())
        rows = lab.call(lambda: lab.account.ledger.rows())
        assert {row.region for row in rows if row.operation.startswith("docs/")} == {"East US"}
        latches.close()
        client.close()


@pytest.mark.parametrize("planned", [True, False])
def test_a_failover_of_the_write_region(
    planned: bool, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """The latch finds the new write region by itself, holds go on or are told, and fences rise."""
    with CosmosLab(throttling=False, regions=["East US", "West US"]) as lab, caplog.at_level(logging.WARNING):
        latches = connect(at=lab)
        assert "until the deadline of the earlier one" in caplog.text
        hold = latches.acquire("a", ttl=6)
        kept = latches.acquire("b", ttl=30)
        kept.release()
        if not planned:
            lab.call(lambda: lab.account.admin.offline("East US"))
        lab.call(lambda: lab.account.admin.failover("West US"))
        number = last(lab)
        again = latches.acquire("b", timeout=20)
        assert (again.fence or 0) > (kept.fence or 0)
        while "patch" not in requests(lab, number):
            assert not hold.wait_lost(0.05)
        hold.ensure()
        hold.release()
        again.release()
        rows = lab.call(lambda: lab.account.ledger.rows(number))
        assert {row.region for row in rows if row.status < 300 and row.operation != "docs/read"} >= {"West US"}
        latches.close()


def test_several_write_regions_are_refused(connect: Connect) -> None:
    """At the first use, with the reason and the cure."""
    with CosmosLab(throttling=False, regions=["East US", "West US"], multiple_write_regions=True) as lab:
        with pytest.raises(BackendMisconfigured, match="takes writes in 2 regions"):
            connect(at=lab)


# -- the container and the client ------------------------------------------------------------------------


def test_a_missing_container_says_what_to_do(lab: CosmosLab, connect: Connect) -> None:
    """It is not made unless that is asked for."""
    with pytest.raises(BackendMisconfigured, match=r"no container 'latches'.*roles for data cannot"):
        connect(create=False).acquire("a")


def test_a_role_for_data_cannot_create(lab: CosmosLab, connect: Connect) -> None:
    """It is told so, and by what command it is done."""
    lab.add_rule("status=403/5300 op=container nth=2")
    with pytest.raises(BackendDenied, match=r"Roles for data never may.*az cosmosdb sql container create"):
        connect()


def test_a_container_with_another_key_is_refused(lab: CosmosLab, connect: Connect) -> None:
    """Latches need /id."""
    with CosmosClient(lab.endpoint, lab.key) as client:
        client.create_database("d").create_container("latches", {"paths": ["/pk"], "kind": "Hash"})
    with pytest.raises(BackendMisconfigured, match=r"partitioned by /pk: latches need.*/id"):
        connect()


def test_a_containers_time_to_live_does_not_reach_a_latch(lab: CosmosLab, connect: Connect) -> None:
    """Items say themselves that they are not to be deleted."""
    with CosmosClient(lab.endpoint, lab.key) as client:
        client.create_database("d").create_container(
            "latches", {"paths": ["/id"], "kind": "Hash"}, default_ttl=5
        )
    latches = connect()
    hold = latches.acquire("a", ttl=30)
    hold.note("still here")
    lab.clock.advance(3_600)
    assert item(lab)["note"] == "still here"
    hold.release()


def test_clients_that_a_latch_cannot_use_are_refused(lab: CosmosLab) -> None:
    """By name, with what to do instead."""
    with pytest.raises(UsageError, match=r"azure\.cosmos\.aio.*pass the sync client"):
        CosmosBackend(aio.CosmosClient(lab.endpoint, lab.key), "d", "c")  # type: ignore[arg-type]
    with CosmosClient(lab.endpoint, lab.key, retry_write=3) as client:
        with pytest.raises(UsageError, match="retry_write=3"):
            CosmosBackend(client, "d", "c")

    class Mine(ConnectionRetryPolicy):
        pass

    with pytest.warns(DeprecationWarning, match="connection_retry_policy"):
        client = CosmosClient(lab.endpoint, lab.key, connection_retry_policy=Mine())
    with client, pytest.raises(UsageError, match=r"Mine, which cannot be switched off"):
        CosmosBackend(client, "d", "c")


def test_by_url(lab: CosmosLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection string leads to the local account, and the URL to the container in it."""
    monkeypatch.setenv("AZURE_COSMOS_CONNECTION_STRING", lab.connection_string)
    with azlatch.connect("cosmos://localhost/azlatch/latches", create=True) as latches:
        with latches.hold("a", timeout=0) as hold:
            assert hold.fence
            assert [view.state for view in latches.list()] == ["held"]


def test_many_pages(lab: CosmosLab, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list goes on after a page, in the order of ids, over several physical partitions."""
    from azlatch.backends import cosmos

    monkeypatch.setattr(cosmos, "_PAGE", 7)
    monkeypatch.setattr(cosmos, "_LIST", cosmos._LIST.replace("LIMIT 500", "LIMIT 7"))
    latches = connect()
    lab.call(lambda: lab.account.admin.lay_out("d/latches", 3))
    names = [f"n{number:02}" for number in range(20)]
    for name in reversed(names):
        latches.acquire(name).release()
    assert [view.name for view in latches.list()] == names
