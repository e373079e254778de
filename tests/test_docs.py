"""The documentation: its code runs, its names exist, and nothing that users see is missing from it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import azlatch
from azlatch import errors
from azlatch.errors import LatchError

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "README.pt.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def blocks() -> list[pytest.param]:
    return [
        pytest.param(code, id=f"{page.relative_to(ROOT)}-{number}")
        for page in PAGES
        for number, code in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
    ]


@pytest.mark.parametrize("code", blocks())
@pytest.mark.filterwarnings("ignore:the hold of:ResourceWarning")
def test_code_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block of Python in the documentation runs as it stands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AZLATCH_URL", raising=False)
    monkeypatch.delenv("AZLATCH_AUDIT", raising=False)
    exec(compile(code, "<documentation>", "exec"), {"__name__": "documentation"})


def everything() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def test_public_names_are_documented() -> None:
    """Every public name, error code, loss reason and make target is in the documentation."""
    text = everything()
    codes = [getattr(azlatch, name).code for name in azlatch.__all__ if isinstance(getattr(azlatch, name), type)
             and issubclass(getattr(azlatch, name), LatchError)]  # fmt: skip
    targets = re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    reasons = errors.LossReason.__args__  # type: ignore[attr-defined]
    wanted = [*azlatch.__all__, *codes, *reasons, *(f"make {target}" for target in targets)]
    assert [each for each in wanted if each not in text] == []


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
    """A test that the track record names by path is there."""
    for path, name in re.findall(
        r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "docs/track-record.md").read_text()
    ):
        assert (ROOT / path).is_file()
        if name:
            assert f"def {name}" in (ROOT / path).read_text(encoding="utf-8")
