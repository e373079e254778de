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
@pytest.mark.parametrize(("mutant", "seconds"), [("no-fence-check", 40), ("grant-any-version", 15)])
def test_a_broken_rule_fails_it(
    mutant: str, seconds: int, azurite: Azurite, container: str, tmp_path: Path
) -> None:
    """A gate that looks at no fence, and grants that are conditional on no version: fail."""
    code, result, output = prove(
        azurite.connection_string, container, tmp_path, "--seconds", str(seconds), "--mutant", mutant
    )
    assert (code, result["verdict"]) == (1, "fail"), output
