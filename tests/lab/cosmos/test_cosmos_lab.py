"""CosmosLab: what leads to it, its file, and what it refuses."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import requests
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos import exceptions as sdk
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient
from cosmos_clients import FakeEngine

from azlatch.errors import UsageError
from azlatch.lab.cosmos.clock import LabClock
from azlatch.lab.cosmos.errors import not_found
from azlatch.lab.cosmos.lab import CosmosLab
from azlatch.lab.cosmos.wire import Reply, Request, encode


def small_account(lab: CosmosLab) -> None:
    """Lets the fake engine answer for the account and its databases: what a client needs to start."""
    databases: dict[str, dict[str, str]] = {}

    def answer(request: Request, now: float) -> Reply:
        path = request.path.strip("/")
        if not path:
            places = [{"name": n, "databaseAccountEndpoint": u} for n, u in lab.account.endpoints.items()]
            body: dict[str, Any] = {"writableLocations": places[:1], "readableLocations": places}
            body |= {"userConsistencyPolicy": {"defaultConsistencyLevel": "Session"}}
            return Reply(200, {}, encode(body))
        if request.method == "POST" and path == "dbs":
            name = request.body.decode().split('"id":"')[1].split('"')[0]
            databases[name] = {"id": name}
            return Reply(201, {}, encode(databases[name]))
        if request.method == "GET" and path[4:] in databases:
            return Reply(200, {}, encode(databases[path[4:]]))
        raise not_found()

    lab.account.then = answer


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
@pytest.mark.parametrize("tls", [False, True])
def test_the_sdk_talks_to_it(tls: bool) -> None:
    """The unmodified SDK, sync, over http and https; a wrong key is its 401, an absence its 404."""
    with CosmosLab(engine=FakeEngine, regions=["East US", "West US"], tls=tls) as lab:
        small_account(lab)
        with CosmosClient.from_connection_string(lab.connection_string) as client:
            client.create_database("orders")
            assert client.get_database_client("orders").read()["id"] == "orders"
            with pytest.raises(sdk.CosmosResourceNotFoundError):
                client.get_database_client("others").read()
        with pytest.raises(sdk.CosmosHttpResponseError) as caught:
            CosmosClient(lab.endpoint, "d3Jvbmc=")
        assert caught.value.status_code == 401


def test_the_asyncio_sdk_talks_to_it() -> None:
    """The unmodified SDK, asyncio."""
    with CosmosLab(engine=FakeEngine) as lab:
        small_account(lab)

        async def work() -> str:
            async with AsyncCosmosClient(lab.endpoint, lab.key) as client:
                await client.create_database("orders")
                return (await client.get_database_client("orders").read())["id"]

        assert asyncio.run(work()) == "orders"


def test_what_leads_to_it(lab: CosmosLab) -> None:
    """Endpoint, connection string and environment agree, and name the loopback interface."""
    assert lab.endpoint == f"http://127.0.0.1:{lab.port}/"
    assert lab.connection_string == f"AccountEndpoint={lab.endpoint};AccountKey={lab.key};"
    variables = lab.environment()
    assert variables["AZURE_COSMOS_CONNECTION_STRING"] == lab.connection_string
    assert variables["AZURE_COSMOS_CONNECTIONSTRING"] == lab.connection_string
    assert variables["AZLATCH_LAB_COSMOS_ADMIN"] == f"{lab.endpoint}_azlatch/"
    assert variables["AZLATCH_LAB_COSMOS_KEY"] == lab.admin_key
    assert lab.is_alive


def test_the_state_is_kept_in_a_file(tmp_path: Path) -> None:
    """Written whole at the end, for the owner's eyes, and loaded at the next start."""
    path = tmp_path / "lab.state"
    with CosmosLab(engine=FakeEngine, path=path) as lab:
        assert lab.account.state == b"nothing yet"
        lab.call(lambda: setattr(lab.account, "state", b"something"))
        assert not path.exists()
    assert path.read_bytes() == b"something"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with CosmosLab(engine=FakeEngine, path=str(path)) as lab:
        assert lab.account.state == b"something"
    assert os.listdir(tmp_path) == ["lab.state"]


def test_files_that_are_none_of_its_own(tmp_path: Path) -> None:
    """Damaged, a link, a folder, a pipe, or nowhere: said before anything is served."""
    broken, pipe, link = tmp_path / "broken", tmp_path / "pipe", tmp_path / "link"
    broken.write_bytes(b"broken")
    os.mkfifo(pipe)
    link.symlink_to(broken)
    for path, says in (
        (broken, "cannot be loaded: it is broken"),
        (link, "cannot be read"),
        (tmp_path, "no ordinary file"),
        (pipe, "no ordinary file"),
    ):
        lab = CosmosLab(engine=FakeEngine, path=path)
        with pytest.raises(UsageError, match=says):
            lab.start()
        assert not lab.is_alive
    with pytest.raises(UsageError, match="cannot be written"):
        with CosmosLab(engine=FakeEngine, path=tmp_path / "no" / "folder"):
            pass
    assert broken.read_bytes() == b"broken"


class NoState(FakeEngine):
    dump = property()  # type: ignore[assignment]


def test_an_engine_that_cannot_be_kept(tmp_path: Path) -> None:
    """A file for an account that has no state to write is refused at the start, not at the end."""
    with pytest.raises(UsageError, match="cannot be kept"):
        CosmosLab(engine=NoState, path=tmp_path / "a").start()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"regions": []}, "regions are"),
        ({"regions": "East US"}, "regions are"),
        ({"regions": ["a", "a"]}, "regions are"),
        ({"regions": ["a\n"]}, "region 'a"),
        ({"consistency": "Strongest"}, "use one of Strong"),
        ({"port": 0}, "port is 0"),
        ({"port": 70_000}, "port is 70000"),
        ({"admin_key": "short"}, "admin_key"),
        ({"admin_key": "x" * 20 + "\n"}, "admin_key"),
    ],
)
def test_usage(options: dict[str, Any], says: str) -> None:
    """What cannot work is said at once."""
    with pytest.raises(UsageError, match=says):
        CosmosLab(engine=FakeEngine, **options)


def test_before_the_start() -> None:
    """What there is only after the start says so; stopping before it is fine."""
    lab = CosmosLab(engine=FakeEngine)
    for name in ("endpoint", "account", "port", "connection_string"):
        with pytest.raises(UsageError, match="start it first"):
            getattr(lab, name)
    with pytest.raises(UsageError, match="start it first"):
        lab.call(lambda: 1)
    lab.stop()
    assert not lab.is_alive


def test_importing_it_costs_little() -> None:
    """The package loads nothing but itself; CosmosLab comes on first touch; nothing loads an Azure package."""
    code = (
        "import sys; before = set(sys.modules); import azlatch.lab.cosmos as c\n"
        "assert not {'asyncio', 'httptools', 'msgspec', 'ssl'} & (set(sys.modules) - before)\n"
        "c.CosmosLab; from azlatch.lab.cosmos import CosmosLab\n"
        "import azlatch.lab.cosmos.server\n"
        "assert 'azure' not in sys.modules\n"
        "try:\n    c.nothing\nexcept AttributeError:\n    print('good')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("good\n", "")


def test_what_it_needs_is_named() -> None:
    """Without httptools or trustme the error names what brings them."""
    code = (
        "import sys; sys.modules['httptools'] = sys.modules['trustme'] = None\n"
        "from azlatch.errors import BackendMisconfigured\n"
        "from azlatch.lab.cosmos.lab import CosmosLab\n"
        "from azlatch.lab.cosmos import certificate\n"
        "for act in (CosmosLab().start, certificate.make):\n"
        "    try:\n        act()\n"
        "    except BackendMisconfigured as missing:\n        print(missing)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.stdout.count("pip install 'azlatch[lab]'") == 2


def test_an_operators_act_is_of_the_present_and_not_of_the_last_request() -> None:
    """What had arrived before a lag was changed has arrived: by Python and by HTTP."""
    for by_http in (False, True):
        clock = LabClock(manual=True)
        with CosmosLab(regions=("A", "B"), consistency="Eventual", clock=clock) as lab:
            lab.call(lambda: lab.account.admin.lag("A", "B", 1))
            with CosmosClient(lab.endpoint, lab.key) as client:
                container = client.create_database("d").create_container("c", PartitionKey("/pk"))
                container.create_item({"id": "a", "pk": "p"})
                clock.advance(10)
                if by_http:
                    body = {"source": "A", "target": "B", "seconds": 100}
                    headers = {"x-azlatch-key": lab.admin_key}
                    said = requests.post(f"{lab.admin_url}lag", json=body, headers=headers, timeout=10)
                    assert said.status_code == 200
                else:
                    lab.call(lambda: lab.account.admin.lag("A", "B", 100))
                clock.advance(1)
                state = lab.call(lambda: lab.account.admin.state())
                assert state["now"] == clock.now()
                assert state["containers"][0]["ranges"][0]["writes_behind"] == 0
