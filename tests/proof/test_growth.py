"""The rule that says whether a process stays as large as it is."""

from __future__ import annotations

import os
import sys
from random import Random

import pytest

from azlatch.proof.growth import ALLOWED, LEAST_READINGS, Curve, Reading, grown, quarters, read

MEMORY = ALLOWED["rss_mb"]


@pytest.mark.parametrize("seed", range(50))
def test_noise_is_no_growth(seed: int) -> None:
    """A series that stays where it is, with noise, peaks and a warm-up, is flat."""
    rng = Random(seed)
    series = [60 + rng.gauss(0, 3) + (40 if rng.random() < 0.1 else 0) for _ in range(180)]
    warm_up = [30 + each / 2 for each in range(30)]
    assert grown(warm_up + series, MEMORY) == ""


@pytest.mark.parametrize("seed", range(50))
def test_growth_is_found(seed: int) -> None:
    """A leak is found under the same noise: 30 MB over the run on 60 MB."""
    rng = Random(seed)
    series = [60 + 30 * each / 180 + rng.gauss(0, 3) for each in range(180)]
    assert grown(series, MEMORY).startswith("grew from ")


def test_the_edge() -> None:
    """Ten percent and 5 MB above the second quarter are allowed, and no more."""
    size = LEAST_READINGS
    assert grown([0.0] * size + [100.0] * 2 * size + [115.0] * size, MEMORY) == ""
    assert "115.0 is allowed" in grown([0.0] * size + [100.0] * 2 * size + [115.2] * size, MEMORY)


def test_threads_and_descriptors_too() -> None:
    """Whatever of the three grows is named, with the process."""
    readings = [Reading(at, 50.0, 5 + at // 4, 20 + at // 2) for at in range(100)]
    found = Curve("instance 3", 1, readings).growth()
    assert [line.split()[:3] for line in found] == [
        ["instance", "3:", "threads"],
        ["instance", "3:", "descriptors"],
    ]


def test_too_few_readings_show_nothing() -> None:
    """What was hardly read is not flat: the rule says so instead of passing."""
    assert quarters([1.0] * 19) == []
    assert "shows nothing" in grown([1.0] * 19, MEMORY)


def test_this_process_can_be_read() -> None:
    """Memory, threads and descriptors of a process that is there; None of one that is not."""
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux has /proc")
    before = read(os.getpid(), 1.0)
    with open(os.devnull) as _:
        after = read(os.getpid(), 2.0)
    assert before is not None
    assert after is not None
    assert before.rss_mb > 5
    assert before.threads >= 1
    assert after.descriptors == before.descriptors + 1
    assert read(2**22 + 1, 0.0) is None
