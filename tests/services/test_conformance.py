"""`make conformance` in its short form: four files of the SDK's own suite against the lab's Cosmos DB."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

_RUN = Path(__file__).resolve().parents[2] / "conformance" / "run.py"
_FILES = ("transactional_batch", "ttl", "partition_key", "session")


@pytest.mark.timeout(400)
def test_four_files_of_the_sdks_own_suite() -> None:
    """The first run fetches the suite and makes the environment that it runs in."""
    command = [sys.executable, str(_RUN), "--files", *_FILES, "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^total 28/28 in 4 files", done.stdout, re.MULTILINE), done.stdout
