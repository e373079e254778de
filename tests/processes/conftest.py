"""Real processes for tests: started, spoken to line by line with a bound, and ended by their id."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 30.0

_PRELUDE = """
import json, os, sys, threading, time
import azlatch

def say(**facts):
    print(json.dumps(facts), flush=True)

def hear():
    return sys.stdin.readline().strip()
"""


class Child:
    """A Python process that says JSON lines and hears words."""

    def __init__(self, code: str, *arguments: str, **options: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PRELUDE + textwrap.dedent(code), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **options.pop("env", {})},
            **options,
        )
        self._buffer = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    def hear(self, timeout: float = PATIENCE) -> Any:
        """The next thing that it says."""
        assert self.process.stdout is not None
        end = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            left = end - time.monotonic()
            ready = select.select([self.process.stdout], [], [], max(left, 0))[0]
            assert ready, f"the child said nothing for {timeout} s"
            piece = os.read(self.process.stdout.fileno(), 65536)
            assert piece, f"the child ended with {self.process.wait(PATIENCE)} instead of saying something"
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def say(self, word: str = "go") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word.encode() + b"\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        """SIGSTOP, and wait until it has stopped."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def end(self) -> int:
        """Waits for its end."""
        return self.process.wait(PATIENCE)


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Starts children, and ends whatever is left of them."""
    children: list[Child] = []

    def start(code: str, *arguments: object, **options: Any) -> Child:
        child = Child(code, *(str(argument) for argument in arguments), **options)
        children.append(child)
        return child

    yield start
    for child in children:
        if child.process.poll() is None:
            child.process.kill()
        child.process.wait(PATIENCE)
        for stream in (child.process.stdin, child.process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """An embedded store of this test's own."""
    return f"sqlite:///{tmp_path}/latches.db"
