"""The simulator: the engine passes, its mutants do not, and a failure can be replayed."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from azlatch.backends.protocol import Granted
from azlatch.core.acquisition import Orphan
from azlatch.core.instance import Instance
from azlatch.core.record import Claim
from azlatch.testing import simulate
from azlatch.testing.mutants import MUTANTS
from azlatch.testing.scenario import PROFILES
from azlatch.testing.simulate import explain, run_many, run_seed
from azlatch.testing.simulated_store import SimulatedStore
from azlatch.testing.virtual import World
from azlatch.testing.watched import Profile

#: Every mutant is caught within so many seeds.
MUTANT_SEEDS = 1_000


@pytest.mark.timeout(300)
def test_two_thousand_worlds(capsys: pytest.CaptureFixture[str]) -> None:
    """In 2,000 worlds no promise is broken."""
    assert simulate.main(["--seeds", "2000"]) == 0, capsys.readouterr().out
    assert "no promise was broken" in capsys.readouterr().out


def caught(name: str) -> tuple[str, str]:
    bad = run_many(list(range(MUTANT_SEEDS)), name)
    return name, explain(bad[0]) if bad else ""


@pytest.mark.timeout(400)
def test_every_mutant_is_caught() -> None:
    """Each rule that is undone breaks a promise within a bounded number of worlds."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = dict(pool.map(caught, MUTANTS))
    assert [name for name, failure in found.items() if not failure] == []


def test_a_freed_nonce_is_not_settled_while_another_write_of_it_may_land() -> None:
    """A name that is free under an orphan's nonce says nothing of a write made on that very version."""
    with World(0) as world:
        process = world.process("p")
        backend, _ = SimulatedStore(world, "remote").join(process, look=1.0, namespaces=("", ""))
        settled: list[bool] = []

        def run() -> None:
            end = process.now() + 60
            backend.open(process, lambda name: None, create=True, until=end)
            holder = Instance("1" * 32, "h", 1, 0.0)
            claim = Claim("a", process.nonce(), 15.0, process.now(), process.now(), 0.0, holder, False, None)
            granted = backend.acquire(claim, end)
            assert isinstance(granted, Granted)
            backend.release(granted.grant, end)
            # Version 1 granted it, version 2 freed it.
            settled.extend(backend.settle("a", Orphan(claim.nonce, basis, 0.0), end) for basis in (1, 2))

        process.start(run)
        world.run()
    assert settled == [True, False]


def test_a_failure_in_one_kind_of_store_is_replayed_there() -> None:
    """The command that replays a world names the kind of store that was asked for."""
    found = run_seed(7, profile="lease")
    assert found.replay == "python -m azlatch.testing.simulate --seed 7 --profile lease"
    assert any(" leased " in line for line in found.schedule)


def test_a_failure_prints_seed_schedule_and_replay() -> None:
    """The text of a failure has the seed, what happened, and one command that runs that world again."""
    failure = explain(run_many(list(range(MUTANT_SEEDS)), "no-compare")[0])
    replay = re.search(
        r"replay: python (-m azlatch\.testing\.simulate --seed \d+ --mutant no-compare)$", failure
    )
    assert replay
    assert re.search(r"^\d+\.\d{4} store +a held \d+ v1", failure, re.MULTILINE)
    again = subprocess.run([sys.executable, *replay[1].split()], capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert failure.splitlines()[0].split(": ", 1)[1] in again.stdout


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", range(8))
def test_worlds_are_deterministic(seed: int, profile: Profile) -> None:
    """A seed is a world: the same schedule, event by event, every time."""
    assert run_seed(seed, profile=profile).schedule == run_seed(seed, profile=profile).schedule


@pytest.mark.parametrize("profile", PROFILES)
def test_worlds_are_not_idle(profile: Profile) -> None:
    """On every kind of store the worlds contend, lose holds and have stale writes refused."""
    results = [run_seed(seed, profile=profile) for seed in range(150)]
    assert sum(result.grants for result in results) > 500
    assert sum(result.losses for result in results) > 50
    assert sum(result.rejected for result in results) > 5
