"""The proof on Blob: real processes, kills, pauses and faults on Azurite; and engines that must not pass it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from azlatch.lab.azurite import Azurite
from azlatch.lab.faults import Fault
from azlatch.lab.proxy import FaultProxy


def prove(
    connection_string: str, container: str, folder: Path, *arguments: str
) -> tuple[int, dict[str, Any], str]:
    file = folder / "result.json"
    url = f"blob://devstoreaccount1/{container}"
    command = [sys.executable, "-m", "azlatch", "--url", url, "prove", "--json", str(file), *arguments]
    done = subprocess.run(
        command,
        env={**os.environ, "AZURE_STORAGE_CONNECTION_STRING": connection_string},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
        cwd=folder,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(file.read_text()), done.stdout


@pytest.mark.timeout(240)
def test_it_passes_through_faults(faults: FaultProxy, container: str, tmp_path: Path) -> None:
    """Sixteen instances for a minute; replies dropped, requests dropped, black holes of 5 s, bursts of 503."""
    faults.add(Fault.drop_reply(), method="PUT", p=0.01)
    faults.add(Fault.drop_request(), p=0.005)
    faults.add(Fault.black_hole(5), p=0.003)
    faults.add(Fault.status(503), p=0.01)
    code, result, output = prove(
        faults.connection_string, container, tmp_path, "--instances", "16", "--seconds", "60"
    )
    assert code == 0, output
    assert (result["verdict"], result["lost_updates"], result["overlaps"]) == ("pass", 0, 0)
    assert result["kills"] >= 3
    assert result["pauses"] >= 3
    assert result["stale_writes_rejected"] > 0
    assert faults.count(fault="drop-reply") > 0
    assert faults.count(fault="black-hole") > 0
    assert faults.count(fault="status") > 0


@pytest.mark.timeout(240)
def test_a_gate_without_the_fence_fails_it(azurite: Azurite, container: str, tmp_path: Path) -> None:
    """A gate that looks at no fence accepts stale writes: fail."""
    code, result, output = prove(
        azurite.connection_string, container, tmp_path, "--seconds", "60", "--mutant", "no-fence-check"
    )
    assert (code, result["verdict"]) == (1, "fail"), output


@pytest.mark.timeout(300)
def test_grants_on_any_version_fail_it(faults: FaultProxy, container: str, tmp_path: Path) -> None:
    """Grants that are conditional on no version repeat fences: fail.

    Some acquires are held up on their way, so that a grant comes between a look and the acquire that follows
    from it: on a machine of any speed. Of three runs one at least: a machine that stands still shows nothing.
    """
    faults.add("delay=1.5 lease=acquire p=0.4")
    options = ("--instances", "6", "--names", "2", "--seconds", "40", "--mutant", "grant-any-version")
    for seed in range(3):
        code, result, output = prove(
            faults.connection_string, container, tmp_path, *options, "--seed", str(seed)
        )
        if code == 1:
            break
    assert (code, result["verdict"]) == (1, "fail"), output
    assert result["fence_regressions"] > 0
