"""`azlatch lab`: what it prints, runs, ends, and says when it cannot."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 60.0
NAMES = ["AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGEBLOB_CONNECTIONSTRING", "AzureWebJobsStorage"]


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `azlatch lab ...`, and ends what is left of it."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "azlatch", "lab", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `azlatch lab ...` to its end; no traceback ever comes out."""
    command = [sys.executable, "-m", "azlatch", "lab", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert "Traceback" not in done.stderr
    return done


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def status(url: str, method: str = "GET", **headers: str) -> int:
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def endpoint(connection_string: str) -> str:
    return dict(part.split("=", 1) for part in connection_string.split(";") if part)["BlobEndpoint"]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.02)


def refuses(url: str) -> bool:
    try:
        status(url)
    except OSError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_azurite_serves_until_it_is_ended(start: Any, number: signal.Signals) -> None:
    """Variables as lines; the service answers; TERM and INT end it with 0, and nothing is left."""
    process = start("azurite")
    variables = dict(line(process).split("=", 1) for _ in NAMES)
    assert list(variables) == NAMES
    url = endpoint(variables[NAMES[0]])
    assert status(f"{url}?comp=list") == 403
    process.send_signal(number)
    assert process.wait(PATIENCE) == 0
    assert refuses(url)


def test_json_port_and_faults(start: Any) -> None:
    """--json is one line; with --fault the port that was asked for is the proxy's."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = start("azurite", "--json", "--port", str(port), "--fault", "status=418 times=1")
    variables = json.loads(line(process))
    assert list(variables) == NAMES
    url = endpoint(variables[NAMES[0]])
    assert f":{port}/" in url
    assert [status(f"{url}?comp=list") for _ in range(2)] == [418, 403]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("import sys; sys.exit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + 9),
        (
            (
                "import os; from azure.storage.blob import ContainerClient as C\n"
                "with C.from_connection_string(os.environ['AZURE_STORAGE_CONNECTION_STRING'], 'abc') as c:\n"
                "    c.create_container(); print(c.get_container_properties().name)"
            ),
            0,
        ),
    ],
)
def test_exec_ends_with_the_command(script: str, code: int) -> None:
    """The command has the variables, and its exit code is that of exec."""
    done = run("exec", "azurite", "--", sys.executable, "-c", script)
    assert done.returncode == code, done.stderr
    assert done.stdout == ("abc\n" if code == 0 else "")


def test_exec_of_what_cannot_run(tmp_path: Path) -> None:
    """127 not found, 126 not runnable."""
    assert run("exec", "azurite", "--", "/nonexistent/command").returncode == 127
    (tmp_path / "text").write_text("text")
    assert run("exec", "azurite", "--", str(tmp_path / "text")).returncode == 126


def test_exec_passes_signals_on_and_takes_all_along(start: Any) -> None:
    """A signal goes to the command; when exec is killed, the command and the service end too."""
    script = "trap 'exit 5' TERM; echo $AZURE_STORAGE_CONNECTION_STRING; while :; do sleep 0.05; done"
    process = start("exec", "azurite", "--", "sh", "-c", script)
    url = endpoint(line(process))
    process.terminate()
    assert process.wait(PATIENCE) == 5
    assert refuses(url)
    if not sys.platform.startswith("linux"):
        return
    process = start("exec", "azurite", "--", "sh", "-c", script.replace("echo", "echo $$ "))
    pid, _, connection_string = line(process).partition(" ")
    url = endpoint(connection_string.strip())
    process.kill()
    until(lambda: refuses(url))
    until(lambda: not os.path.exists(f"/proc/{pid}") or "(sh) Z" in Path(f"/proc/{pid}/stat").read_text())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nonsense"], "there is no service 'nonsense' in the lab: use azurite"),
        (["exec", "azurite,nonsense", "--", "true"], "there is no service 'nonsense'"),
        (["exec", "azurite,azurite", "--", "true"], "name one of them twice"),
        (["exec", "azurite", "--fault", "explode", "--", "true"], "'explode' is no fault"),
        (["exec", "azurite"], "CMD"),
        (["azurite", "--port", "0"], "1<=x<=65535"),
        (["proxy", "--target", "nowhere"], "write HOST:PORT"),
    ],
)
def test_usage(arguments: list[str], says: str) -> None:
    """What cannot work is said, with 64, and nothing is started."""
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (64, "")
    assert says in done.stderr


def test_proxy_obeys_lines(start: Any, azurite: Any) -> None:
    """The proxy alone: its rules are changed and shown while it runs."""
    process = start("proxy", "--target", f"127.0.0.1:{azurite.port}", "--fault", "status=418 times=1")
    url = f"{line(process)}/devstoreaccount1?comp=list"
    assert [status(url), status(url)] == [418, 403]
    for text in ("add status=503 method=GET", "explode", "add explode", "", "show"):
        process.stdin.write(text + "\n")
    process.stdin.flush()
    assert line(process) == "status=418 times=1  # matched 2, applied 1"
    assert line(process) == "status=503 method=GET  # matched 0, applied 0"
    assert line(process) == "# 2 requests"
    assert status(url) == 503
    process.stdin.write("clear\nshow\n")
    process.stdin.flush()
    assert line(process) == "# 3 requests"
    process.terminate()
    assert process.wait(PATIENCE) == 0
    said = process.stderr.read()
    assert "'explode' is unknown: write add RULE, clear or show" in said
    assert "'explode' is no fault" in said


def test_proxy_without_a_standard_input() -> None:
    """With standard input closed there are no lines to obey, and it serves all the same."""
    script = f'exec "{sys.executable}" -m azlatch lab proxy --target 127.0.0.1:9 <&-'
    process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert line(process).startswith("http://127.0.0.1:")
        time.sleep(1.5)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert (process.returncode, errors) == (0, "")
