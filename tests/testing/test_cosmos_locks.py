"""The experiment on locks with Cosmos DB: its page says what it says, and its judge can acquit and convict."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/experiments/cosmos-locks.md"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The processes and their judge, which are no part of the package."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    yield importlib.import_module("lock_world")
    sys.modules.pop("lock_world", None)


class CompareAndSwap:
    """The control: every change is conditional on the version that was read; a release ends its own alone."""

    def __init__(self, link: Any) -> None:
        self.link = link
        self.version: str | None = None

    def try_acquire(self) -> bool:
        now = self.link.process.wall()
        found = self.link.read()
        if found is not None and found["expires"] > self.link.process.wall():
            return False
        content = {"owner": self.link.process.name, "expires": now + 10.0}
        self.version = self.take(found, content)
        return self.version is not None

    def take(self, found: dict[str, Any] | None, content: dict[str, Any]) -> str | None:
        if found is None:
            return self.link.create(**content)
        return self.link.replace(found["_etag"], **content)

    def release(self) -> None:
        assert self.version is not None
        self.link.replace(self.version, owner="", expires=0.0)


class Unconditional(CompareAndSwap):
    """The control without its condition."""

    def take(self, found: dict[str, Any] | None, content: dict[str, Any]) -> str | None:
        return self.link.upsert(**content)


class UnconditionalRelease(CompareAndSwap):
    """The control with a release that ends whoever's lock is there."""

    def release(self) -> None:
        self.link.delete()


def _doubles(world: Any, way: Any, weather: Any, level: str, lag: float) -> tuple[int, int, list[Any]]:
    judged = [world.play(way, level, lag, weather, seed, 150.0) for seed in range(5)]
    freed = [each for judge in judged for each in judge.freed_after()]
    return sum(len(each.holds) for each in judged), sum(each.doubles for each in judged), freed


@pytest.mark.parametrize("level", ["Strong", "Session", "ConsistentPrefix", "Eventual"])
def test_compare_and_swap_lets_nobody_in_twice(world: Any, level: str) -> None:
    """On the same seeds, in both weathers: what is counted is the way, not the world."""
    for weather in (world.CALM, world.ROUGH):
        for lag in (0.05, 2.0):
            grants, doubles, freed = _doubles(world, CompareAndSwap, weather, level, lag)
            assert grants > 100
            assert doubles == 0
            assert None not in freed


def test_consistent_prefix_is_eventual_for_one_item(world: Any) -> None:
    """The table has one row for both."""
    one, other = (
        _doubles(world, Unconditional, world.ROUGH, each, 2.0) for each in ("ConsistentPrefix", "Eventual")
    )
    assert one == other


def test_each_condition_is_needed(world: Any) -> None:
    """Without the one on taking, or the one on releasing, there are double grants."""
    assert _doubles(world, Unconditional, world.CALM, "Strong", 0.05)[1] > 0
    assert _doubles(world, UnconditionalRelease, world.CALM, "Strong", 0.05)[1] == 0
    assert _doubles(world, UnconditionalRelease, world.ROUGH, "Strong", 0.05)[1] > 0


def test_the_page_has_the_table_that_a_run_gives() -> None:
    """The same numbers, on whatever machine, with whatever order of sets."""
    environment = {**os.environ, "PYTHONHASHSEED": "random"}
    command = [sys.executable, str(ROOT / "bench/cosmos_locks.py")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=110, check=True, env=environment)
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition("<!-- the table: bench/cosmos_locks.py --write -->\n")[2]
    assert said.stdout == table.partition("<!-- end of the table -->\n")[0]


def test_no_part_of_it_is_in_the_package() -> None:
    """Nobody imports a lock that does not lock by mistake."""
    names = ("lock_ways", "lock_world", "ReadThenUpsert", "CreateThatExpires")
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert not any(name in text for name in names), file
