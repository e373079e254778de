"""The SDK's own test suite: downloaded once, unpacked, with an environment of its own to run in.

The suite is inside the source distribution only. It has its own environment because pytest-asyncio would change
how our own tests run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from azlatch.lab import npm

VERSION = "4.17.1"
_HERE = Path(__file__).resolve().parent
_CONSTRAINTS = _HERE.parent / "constraints-dev.txt"
#: Beyond the SDK itself; what development pins already is pinned by its constraints.
_PACKAGES = (
    f"azure-cosmos[aio]=={VERSION}",
    "azure-identity",
    "packaging",
    "pytest",
    "pytest-asyncio==1.5.0",
    "pytest-timeout",
    "requests",
    "urllib3",
)
_LONGEST_STEP = 600.0


class SuiteMissing(Exception):
    """It could not be brought here; the message says why."""


@dataclass(frozen=True)
class Suite:
    """Where it is.

    Attributes:
        tests: the folder of its tests.
        python: the interpreter of its environment.
    """

    tests: Path
    python: Path

    def files(self) -> list[str]:
        """The names of its files."""
        return sorted(each.name for each in self.tests.glob("test_*.py") if each.name != "test_config.py")


def bring() -> Suite:
    """The suite, which is downloaded the first time.

    Raises:
        SuiteMissing: it is not there, and cannot be brought.
    """
    place = Path(npm.home()) / f"azure-cosmos-{VERSION}-suite"
    place.mkdir(parents=True, exist_ok=True)
    tests, environment = place / "tests", place / "venv"
    if not tests.is_dir():
        _say(f"downloading the tests of azure-cosmos {VERSION}, once")
        _unpack(_download(place), tests)
    if not (environment / ".ready").exists():
        _say("making the environment that they run in, once")
        _make(environment)
    return Suite(tests, environment / "bin" / "python")


def _download(place: Path) -> Path:
    with tempfile.TemporaryDirectory(dir=place) as folder:
        _pip(
            Path(sys.executable),
            "download",
            *("--no-binary", "azure-cosmos", "--no-deps", "--dest", folder),
            f"azure-cosmos=={VERSION}",
        )
        found = list(Path(folder).glob("azure*cosmos-*.tar.gz"))
        if len(found) != 1:
            raise SuiteMissing(f"pip brought {len(found)} source distributions of azure-cosmos {VERSION}")
        kept = place / found[0].name
        found[0].rename(kept)
    return kept


def _unpack(archive: Path, tests: Path) -> None:
    """Only the tests, moved into place whole."""
    with tempfile.TemporaryDirectory(dir=tests.parent) as folder:
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        found = [each for each in Path(folder).glob("*/tests") if each.is_dir()]
        if len(found) != 1:
            raise SuiteMissing(f"{archive.name} has no tests")
        found[0].rename(tests)


def _make(environment: Path) -> None:
    shutil.rmtree(environment, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(environment)])
    _pip(environment / "bin" / "python", "install", "--constraint", str(_CONSTRAINTS), *_PACKAGES)
    (environment / ".ready").touch()


def _pip(python: Path, *arguments: str) -> None:
    _run([str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments])


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_LONGEST_STEP,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PIP_NO_INPUT": "1"},
        )
    except subprocess.TimeoutExpired:
        raise SuiteMissing(f"{command[1:4]} took longer than {_LONGEST_STEP:g} s") from None
    if done.returncode:
        said = " / ".join(done.stderr.strip().splitlines()[-3:])
        raise SuiteMissing(f"{' '.join(command[1:5])} ended with {done.returncode}: {said}")


def _say(text: str) -> None:
    sys.stderr.write(f"conformance: {text}\n")
