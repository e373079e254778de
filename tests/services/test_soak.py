"""The soak in its three-minute form."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from azlatch.lab.azurite import Azurite


@pytest.mark.timeout(300)
def test_three_minutes_in_bad_weather(azurite: Azurite, tmp_path: Path) -> None:
    """16 processes on a Blob latch lose nothing in bad weather, and those that live through it do not grow."""
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux has /proc, which tells what a process uses")
    report = tmp_path / "soak"
    # Kept, so that what a failure found can be looked into.
    kept = ["--report", str(report), "--keep", str(tmp_path / "kept")]
    command = [sys.executable, "-m", "azlatch.proof.soak", "--hours", "0.05", *kept]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("soak: PASS")
    facts = json.loads(report.with_suffix(".json").read_text())
    assert facts["verdict"] == "pass"
    assert min(facts["weather"]["spells"].values()) >= 1
    assert min(facts["weather"]["requests"].values()) >= 1
    assert len(facts["curves"]) == 7
    assert re.search(r"soak: \d+ of 180 s", done.stderr)
    assert report.with_suffix(".md").read_text().startswith("# Soak on Blob leases: pass")


def test_too_short_a_run_is_refused() -> None:
    """A run without time for an outage is refused with the bounds."""
    command = [sys.executable, "-m", "azlatch.proof.soak", "--hours", "0.01"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "give it 0.033 to 24" in done.stderr
