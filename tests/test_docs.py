"""The documentation: its code runs, its names exist, and nothing that users see is missing from it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import azlatch
from azlatch import aio, contracts, errors, gates
from azlatch.errors import LatchError
from azlatch.testing.mutants import MUTANTS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "README.pt.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)

#: Above a block that wants Azurite: AZURE_STORAGE_CONNECTION_STRING is set for it.
AZURITE = "<!-- azurite -->\n"
#: Above a block that cannot run here, and how many such blocks there may be.
NOT_RUN = "<!-- not run -->\n"
MOST_NOT_RUN = 2


def blocks() -> list[pytest.param]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for number, block in enumerate(BLOCK.finditer(text)):
            if not text[: block.start()].endswith(NOT_RUN):
                wants_azurite = text[: block.start()].endswith(AZURITE)
                found.append(pytest.param(block[1], wants_azurite, id=f"{page.relative_to(ROOT)}-{number}"))
    return found


@pytest.mark.parametrize(("code", "wants_azurite"), blocks())
@pytest.mark.filterwarnings("ignore:the hold of:ResourceWarning")
def test_code_runs(
    code: str,
    wants_azurite: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Every block of Python in the documentation runs as it stands."""
    if wants_azurite:
        text = request.getfixturevalue("azurite").connection_string
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AZLATCH_URL", raising=False)
    monkeypatch.delenv("AZLATCH_AUDIT", raising=False)
    exec(compile(code, "<documentation>", "exec"), {"__name__": "documentation"})


def test_few_blocks_do_not_run() -> None:
    """Hardly any block is exempt from running, and every exemption stands above a block."""
    text = everything()
    assert text.count(NOT_RUN) == text.count(f"{NOT_RUN}```python\n") <= MOST_NOT_RUN


def everything() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def test_public_names_are_documented() -> None:
    """Every public name, error code, loss reason and make target is in the documentation."""
    text = everything()
    codes = [getattr(azlatch, name).code for name in azlatch.__all__ if isinstance(getattr(azlatch, name), type)
             and issubclass(getattr(azlatch, name), LatchError)]  # fmt: skip
    targets = re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    reasons = errors.LossReason.__args__  # type: ignore[attr-defined]
    names = [*azlatch.__all__, *aio.__all__, *gates.__all__, *contracts.__all__]
    wanted = [*names, *codes, *reasons, *(f"make {target}" for target in targets)]
    assert [each for each in wanted if each not in text] == []


def test_errors_are_documented_with_code_and_who() -> None:
    """The reference has a row for every error, with the code and the `who` that it has."""
    page = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+)(?: \(\w+\))? \| `([\w-]+)` \| (\w+) \|", page, re.MULTILINE)
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, LatchError)]
    assert sorted((kind.__name__, kind.code, kind.who) for kind in kinds) == sorted(rows)


def test_verbs_are_documented() -> None:
    """The reference has every public verb and property of what users hold in their hands."""
    text = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
    holding = {"name", "fence", "holder", "is_lost", "lost_reason", "remaining", "on_lost", "wait_lost"}
    verbs = {
        name
        for kind in (azlatch.Latches, azlatch.Hold, aio.AsyncLatches, aio.AsyncHold)
        for name in vars(kind)
        if not name.startswith("_")
    }
    assert [name for name in sorted(verbs | holding) if f"`{name}" not in text] == []


def test_mutants_are_documented() -> None:
    """The page on testing lists every mutant, and none that is gone."""
    page = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
    listed = re.search(r"^`deadline-from-reply`.*?\.", page, re.MULTILINE | re.DOTALL)
    assert listed
    assert sorted(MUTANTS) == sorted(re.findall(r"`([\w-]+)`", listed[0]))


def test_the_example_of_the_contract_suite_passes(tmp_path: Path) -> None:
    """The test file that the page on testing shows is one that pytest collects, and that passes."""
    page = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
    code = next(block for block in BLOCK.findall(page) if "LatchContract" in block)
    (tmp_path / "test_mine.py").write_text(code, encoding="utf-8")
    chosen = "test_one_holder or test_inspect or test_list"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, "test_mine.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout


def test_the_example_shows_what_a_latch_is_for() -> None:
    """examples/demo.py loses additions without a latch, and none with one."""
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), "--seconds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed:" in done.stdout


def test_both_readmes_say_the_same() -> None:
    """The Portuguese README has the code and the headings of the English one."""
    english, portuguese = (ROOT / name for name in ("README.md", "README.pt.md"))
    one, other = english.read_text(encoding="utf-8"), portuguese.read_text(encoding="utf-8")
    strip = re.compile(r"\s*#.*")
    assert [strip.sub("", code) for code in BLOCK.findall(one)] == [
        strip.sub("", code) for code in BLOCK.findall(other)
    ]
    assert len(re.findall(r"^#+ ", one, re.MULTILINE)) == len(re.findall(r"^#+ ", other, re.MULTILINE))


def test_links_lead_somewhere() -> None:
    """Every relative link of the documentation has a target."""
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_track_record_names_tests_that_exist() -> None:
    """Every row of the track record names a test by path, and it is there."""
    page = (ROOT / "docs/track-record.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!symptom|---).*$", page, re.MULTILINE)
    assert rows
    for row in rows:
        tests = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", row)
        assert tests, row
        for path, name in tests:
            assert (ROOT / path).is_file(), path
            assert f"def {name}" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{name}"
