"""The command line as a real process, on a store and an audit log of the test's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 30.0


class Shell:
    """Runs `azlatch` and keeps what it started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "latches.db"
        self.log = folder / "audit.jsonl"
        self.environment = {
            **os.environ,
            "AZLATCH_URL": f"sqlite:///{self.store}",
            "AZLATCH_AUDIT": str(self.log),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self._started: list[subprocess.Popen[str]] = []

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "azlatch", *arguments]

    def __call__(
        self, *arguments: str, code: int | None = 0, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Runs it to its end; no traceback ever comes out."""
        done = subprocess.run(
            self.command(*arguments),
            capture_output=True,
            text=True,
            env={**self.environment, **options.pop("env", {})},
            timeout=PATIENCE * 2,
            check=False,
            **options,
        )
        assert "Traceback" not in done.stderr
        if code is not None:
            assert done.returncode == code, done.stderr + done.stdout
        return done

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            **options,
        )
        self._started.append(process)
        return process

    def line(self, process: subprocess.Popen[str]) -> str:
        """The next line that it prints."""
        assert process.stdout is not None
        return process.stdout.readline().rstrip("\n")

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "the condition did not come true in time"
            time.sleep(0.02)

    @staticmethod
    def alive(pid: int) -> bool:
        """Whether a process runs; one that ended and nobody waited for does not."""
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
        except FileNotFoundError:
            return False
        return state not in "ZX"

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE)
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    started = Shell(tmp_path)
    yield started
    started.end()
