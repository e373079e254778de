"""Starts `worker.py`, and ends what is left of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import azlatch

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a worker in a process group of its own; the whole group is ended with the test."""
    started: list[subprocess.Popen[str]] = []
    environment = {**os.environ, "PYTHONPATH": str(Path(azlatch.__file__).parents[1])}

    def start(*arguments: object) -> subprocess.Popen[str]:
        worker = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("worker.py")), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        started.append(worker)
        return worker

    yield start
    for worker in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.communicate(timeout=10)
