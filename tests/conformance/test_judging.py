"""The verdict of `make conformance`: bad if a test fails unlisted, or a listed one passes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

_FOLDER = Path(__file__).resolve().parents[2] / "conformance"
_MODULES = ("accounts", "expectations", "peer", "report", "suite", "trial")


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Its modules are no package, and are forgotten again: their names are not ours alone."""
    monkeypatch.syspath_prepend(str(_FOLDER))
    for name in _MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    loaded = importlib.import_module("expectations")
    for name in _MODULES:
        if name in sys.modules:
            monkeypatch.setitem(sys.modules, name, sys.modules[name])
    return loaded


def _trial(harness: ModuleType, **results: str):
    trial = sys.modules["trial"]
    account = sys.modules["accounts"].Account()
    # Two underscores stand for a parameter.
    names = [test.replace("__", "[") + "]" * ("__" in test) for test in results]
    outcomes = [trial.Outcome(name, result) for name, result in zip(names, results.values(), strict=True)]
    return trial.Trial("test_crud.py", account, outcomes)


def test_everything_as_listed_is_good(harness):
    """A listed failure is counted by its reason; a skipped test is nothing."""
    trial = _trial(
        harness, test_a="passed", test_b="failed", test_c="skipped", test_d__1="error", test_d__2="failed"
    )
    verdict = harness.judge(trial, {"test_crud.py": {"why": ["test_b", "test_d"]}})
    assert verdict.good
    assert verdict.reasons == {"why": 3}
    assert (trial.passed, trial.total) == (1, 4)


def test_an_unlisted_failure_is_told(harness):
    """Also if it could not begin."""
    verdict = harness.judge(_trial(harness, test_a="failed", test_b="error", test_c="passed"), {})
    assert [each.partition(":")[0] for each in verdict.unexpected] == ["test_a", "test_b"]
    assert not verdict.good


def test_a_listed_test_that_passes_is_told(harness):
    """So that the list stays true."""
    verdict = harness.judge(_trial(harness, test_a="passed"), {"test_crud.py": {"why": ["test_a"]}})
    assert verdict.repaired == ["test_a (why)"]


def test_a_listed_test_that_is_not_there_is_told(harness):
    """Unless only a part of the file ran."""
    expected = {"test_crud.py": {"why": ["test_gone"]}}
    assert not harness.judge(_trial(harness, test_a="passed"), expected).good
    assert harness.judge(_trial(harness, test_a="passed"), expected, whole=False).good


def test_a_star_stands_for_parameters(harness):
    """And brackets for themselves."""
    trial = _trial(harness, test_a__read_1="failed", test_a__write_1="passed")
    verdict = harness.judge(trial, {"test_crud.py": {"why": ["test_a[read*]"]}})
    assert verdict.good


def test_a_file_that_cannot_run_is_told(harness):
    """It has no test that could fail."""
    trial = _trial(harness)
    trial.broken = "no server"
    assert not harness.judge(trial, {}).good


def test_the_list_is_well_formed(harness):
    """The one that is used."""
    assert all(file.endswith(".py") for file in harness.load())


@pytest.mark.parametrize(
    "text", ['[crud]\n"why" = ["test_a"]', '[test_crud]\n"why" = "test_a"', '["test_a"]\nwhy = [1]']
)
def test_a_malformed_list_is_refused(harness, tmp_path, text):
    """With the name of what is wrong."""
    path = tmp_path / "expected.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"expected\.toml"):
        harness.load(path)


@pytest.mark.usefixtures("harness")
def test_a_twin_has_the_account_of_its_file_unless_it_is_named_itself():
    """Of the files about automatic failover, one counts three regions and its twin two."""
    accounts = importlib.import_module("accounts")
    assert accounts.account_of("test_session_async.py") is accounts.account_of("test_session.py")
    name = "test_per_partition_automatic_failover"
    counts = [len(accounts.account_of(each).regions) for each in (f"{name}.py", f"{name}_async.py")]
    assert counts == [3, 2]
    assert accounts.named(f"{name}_async.py")
    assert not accounts.named("test_of_nothing.py")
