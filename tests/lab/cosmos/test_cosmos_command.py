"""`azlatch lab cosmos`, `lab exec` with several services, and the fixture `cosmos`."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from azure.cosmos import CosmosClient
from cosmos_clients import PATIENCE, signed

from azlatch.cli.lab_services import SERVICES

NAMES = [
    "AZURE_COSMOS_CONNECTION_STRING",
    "AZURE_COSMOS_CONNECTIONSTRING",
    "AZLATCH_LAB_COSMOS_ADMIN",
    "AZLATCH_LAB_COSMOS_KEY",
    "AZLATCH_LAB_COSMOS_PAGE",
]


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `azlatch lab ...`, and ends what is left of it."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "azlatch", "lab", *arguments]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `azlatch lab ...` to its end; no traceback ever comes out."""
    command = [sys.executable, "-m", "azlatch", "lab", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    return done


def variables_of(process: subprocess.Popen[str]) -> dict[str, str]:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def account(connection_string: str) -> dict[str, Any]:
    """What `GET /` answers."""
    url = connection_string.split(";")[0].removeprefix("AccountEndpoint=")
    reply = requests.get(url, headers=signed("get", "", "", ""), timeout=PATIENCE, verify=False)
    assert reply.status_code == 200
    return reply.json()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_ended(start: Any, number: signal.Signals) -> None:
    """Variables as lines; the SDK gets through; TERM and INT end it with 0 and without a word."""
    process = start("cosmos")
    variables = dict(process.stdout.readline().rstrip("\n").split("=", 1) for _ in NAMES)
    assert list(variables) == NAMES
    with CosmosClient.from_connection_string(variables[NAMES[0]]) as client:
        client.create_database("orders")
        assert [each["id"] for each in client.list_databases()] == ["orders"]
    process.send_signal(number)
    assert process.wait(PATIENCE) == 0
    assert process.stderr.read() == ""


def test_options(start: Any) -> None:
    """Regions, their order, the level and several write regions are those of the account that is served."""
    given = ["--region", "West US", "--region", "East US", "--consistency", "Strong", "--seed", "7", "--json"]
    seen = account(variables_of(start("cosmos", *given))[NAMES[0]])
    assert [each["name"] for each in seen["readableLocations"]] == ["West US", "East US"]
    assert [each["name"] for each in seen["writableLocations"]] == ["West US"]
    assert seen["userConsistencyPolicy"]["defaultConsistencyLevel"] == "Strong"
    given = ["--region", "West US", "--region", "East US", "--multi-write", "--no-throttling", "--json"]
    seen = account(variables_of(start("cosmos", *given))[NAMES[0]])
    assert len(seen["writableLocations"]) == 2


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_https(start: Any) -> None:
    """--tls is https all through: what the account says of itself, too."""
    variables = variables_of(start("cosmos", "--tls", "--json"))
    assert variables[NAMES[0]].startswith("AccountEndpoint=https://127.0.0.1:")
    location = account(variables[NAMES[0]])["writableLocations"][0]
    assert location["databaseAccountEndpoint"].startswith("https://127.0.0.1:")


def test_faults_and_admin(start: Any) -> None:
    """--fault is a rule of the account; the admin interface shows it, takes another, and ends both."""
    variables = variables_of(start("cosmos", "--json", "--fault", "status=503 op=create"))
    url, headers = variables["AZLATCH_LAB_COSMOS_ADMIN"], {"x-azlatch-key": variables["AZLATCH_LAB_COSMOS_KEY"]}

    def rules() -> list[str]:
        reply = requests.get(f"{url}rules", headers=headers, timeout=PATIENCE)
        return [each["rule"] for each in reply.json()]

    assert rules() == ["status=503 op=create"]
    body = json.dumps({"rule": "delay=1 op=read"})
    assert requests.post(f"{url}rules", headers=headers, data=body, timeout=PATIENCE).status_code == 200
    assert len(rules()) == 2
    assert requests.delete(f"{url}rules", headers=headers, timeout=PATIENCE).status_code == 200
    assert rules() == []
    wrong = requests.post(f"{url}rules", headers=headers, data='{"rule": "explode"}', timeout=PATIENCE)
    assert (wrong.status_code, "explode" in wrong.text) == (400, True)


def test_the_page(start: Any) -> None:
    """The address that is printed opens it; it is at the port that was asked for, and `exec` has none."""
    port = free_port()
    variables = variables_of(start("cosmos", "--json", "--page-port", str(port)))
    address = variables["AZLATCH_LAB_COSMOS_PAGE"]
    assert address.startswith(f"http://127.0.0.1:{port}/enter?key=")
    with requests.Session() as browser:
        reply = browser.get(address, timeout=PATIENCE)
        assert (reply.status_code, reply.url) == (200, f"http://127.0.0.1:{port}/")
        assert "No container has been made yet." in reply.text
    done = run("cosmos", "--page-port", str(port))
    assert (done.returncode, done.stdout) == (64, "")
    assert f"port {port} is in use" in done.stderr
    script = "import os; print('AZLATCH_LAB_COSMOS_PAGE' in os.environ)"
    assert run("exec", "cosmos", "--", sys.executable, "-c", script).stdout == "False\n"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_the_file(start: Any, tmp_path: Path) -> None:
    """--file keeps what was stored from one run to the next."""
    path = str(tmp_path / "lab.state")
    process = start("cosmos", "--json", "--file", path)
    with CosmosClient.from_connection_string(variables_of(process)[NAMES[0]]) as client:
        client.create_database("orders")
    process.terminate()
    assert process.wait(PATIENCE) == 0
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    again = variables_of(start("cosmos", "--json", "--file", path))
    with CosmosClient.from_connection_string(again[NAMES[0]]) as client:
        assert [each["id"] for each in client.list_databases()] == ["orders"]


def test_exec_with_one_and_with_several() -> None:
    """The command has the variables of all services, and its exit code is that of exec."""
    script = (
        "import os, sys; from azure.cosmos import CosmosClient as C\n"
        "with C.from_connection_string(os.environ['AZURE_COSMOS_CONNECTION_STRING']) as c:\n"
        "    print(c.create_database('a').id, 'AZURE_STORAGE_CONNECTION_STRING' in os.environ)\n"
        "sys.exit(7)"
    )
    for names, other in (("cosmos", "False"), ("azurite,cosmos", "True")):
        done = run("exec", names, "--", sys.executable, "-c", script)
        assert (done.returncode, done.stdout) == (7, f"a {other}\n"), done.stderr


def test_the_logs(start: Any, tmp_path: Path) -> None:
    """--logs has whole lines at any time, also if the lab is killed; exec has it, too."""
    process = start("cosmos", "--json", "--logs", str(tmp_path / "one"))
    account(variables_of(process)[NAMES[0]])
    process.kill()
    process.wait(PATIENCE)
    script = (
        "import os; from azure.cosmos import CosmosClient as C\n"
        "with C.from_connection_string(os.environ['AZURE_COSMOS_CONNECTION_STRING']): pass"
    )
    arguments = ["--logs", str(tmp_path / "two"), "--", sys.executable, "-c", script]
    assert run("exec", "cosmos", *arguments).returncode == 0
    for folder in ("one", "two"):
        text = (tmp_path / folder / "CDBDataPlaneRequests.jsonl").read_text()
        assert text.endswith("\n")
        assert {json.loads(each)["RequestResourceType"] for each in text.splitlines()} == {"DatabaseAccount"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["cosmos", "--consistency", "Strongest"], "use one of Strong"),
        (["cosmos", "--region", "a", "--region", "a"], "each once"),
        (["cosmos", "--port", "0"], "1<=x<=65535"),
        (["cosmos", "--fault", "explode"], "explode"),
        (["cosmos", "--file", "/"], "no ordinary file"),
        (["nonsense"], "use azurite, cosmos"),
        (["exec", "cosmos,azurite", "--port", "10000", "--", "true"], "one service alone"),
        (["exec", "cosmos,azurite", "--fault", "reset", "--", "true"], "one service alone"),
        (["exec", "cosmos,cosmos", "--", "true"], "name one of them twice"),
        (["exec", "azurite", "--logs", "/tmp", "--", "true"], "only cosmos keeps a log"),
        (["cosmos", "--logs", "/dev/null"], "cannot be used"),
    ],
)
def test_usage(arguments: list[str], says: str) -> None:
    """What cannot work is said, with 64, and nothing is printed for a shell to use."""
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (64, "")
    assert says in done.stderr


def test_a_port_in_use(start: Any) -> None:
    """Said with the port."""
    port = variables_of(start("cosmos", "--json"))[NAMES[0]].split(":")[2].split("/")[0]
    done = run("cosmos", "--port", port)
    assert (done.returncode, done.stdout) == (64, "")
    assert f"port {port} is in use" in done.stderr


def test_the_services_are_all_alike() -> None:
    """Each is made from a port and faults, may be stopped before it starts, and says its name."""
    for name, make in SERVICES.items():
        service = make(None, ())
        assert (service.name, service.is_alive()) == (name, False)
        service.stop()


PLUGIN = """
from azure.cosmos import CosmosClient

def test_one(cosmos):
    with CosmosClient(cosmos.endpoint, cosmos.key) as client:
        client.create_database("one")

def test_two(cosmos):
    with CosmosClient.from_connection_string(cosmos.connection_string) as client:
        assert [each["id"] for each in client.list_databases()] == ["one"]
"""


def plugin_run(folder: Path, text: str, **environment: str) -> str:
    """What a run of pytest says, with warnings as errors."""
    (folder / "test_it.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        # It loads Hypothesis for its closing words, and CPython 3.11 may not parse beside another thread.
        "-p",
        "no:hypothesispytest",
        "-W",
        "error",
        "test_it.py",
    ]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout


def test_the_fixture(tmp_path: Path) -> None:
    """One account for the run, which the SDK uses as it is."""
    assert "2 passed" in plugin_run(tmp_path, PLUGIN)


def test_the_fixture_without_the_extra(tmp_path: Path) -> None:
    """What is missing fails a test with the command that brings it, or skips it where that is wanted."""
    (tmp_path / "conftest.py").write_text("import sys\nsys.modules['msgspec'] = None\n")
    said = plugin_run(tmp_path, PLUGIN)
    assert "2 errors" in said and "pip install 'azlatch[lab]'" in said
    said = plugin_run(tmp_path, PLUGIN, AZLATCH_LAB_OPTIONAL="1")
    assert "2 skipped" in said and "pip install 'azlatch[lab]'" in said
