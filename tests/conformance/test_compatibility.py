"""COMPATIBILITY.md says what this version of the lab answers."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

_FOLDER = Path(__file__).resolve().parents[2] / "conformance"


def test_the_file_is_what_the_lab_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(_FOLDER))
    for name in ("compatibility", "behaviours"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    compatibility = importlib.import_module("compatibility")
    for name in ("compatibility", "behaviours"):
        monkeypatch.setitem(sys.modules, name, sys.modules[name])
    monkeypatch.delenv(compatibility.LIVE, raising=False)
    made = compatibility.FILE.read_text(encoding="utf-8")
    assert compatibility.main(["--check"]) == 0, "run: python conformance/compatibility.py"
    assert capsys.readouterr().out
    # No answer is an accident of the lab itself.
    rows = [line for line in made.splitlines() if line.startswith("| ")]
    assert len(rows) == len(sys.modules["behaviours"].ALL) + 1
    assert not any("NOT OFFERED" in each for each in rows)


@pytest.mark.skipif(
    not os.environ.get("AZLATCH_TEST_COSMOS_CONNECTION_STRING"),
    reason="AZLATCH_TEST_COSMOS_CONNECTION_STRING is not set: no live account to compare with",
)
def test_a_live_account_answers_as_the_lab_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(_FOLDER))
    compatibility = importlib.import_module("compatibility")
    with compatibility.place(os.environ[compatibility.LIVE]) as there:
        live = compatibility.observed(there)
    with compatibility.CosmosLab() as lab, compatibility.place(lab.connection_string) as here:
        mine = compatibility.observed(here)
    assert mine == live
