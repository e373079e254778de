"""The prices: at the points that are public, and how they grow between them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azlatch.lab.cosmos import charges
from azlatch.lab.cosmos.indexing import Indexing

KB = 1024
sizes = st.integers(0, 2 * KB * KB)


@pytest.mark.parametrize(("size", "expected"), [(0, 1), (100, 1), (KB, 1), (4 * KB, 2), (100 * KB, 10)])
def test_reads(size: int, expected: float) -> None:
    """1 RU at 1 KB, 10 at 100 KB, by the documentation."""
    assert expected == charges.read(size)


@pytest.mark.parametrize("level", ["Strong", "strong", "BoundedStaleness"])
def test_reads_of_the_strong_levels(level: str) -> None:
    """Twice as much; so are queries and feeds."""
    assert charges.read(KB, level) == 2 * charges.read(KB)
    assert charges.query(1, 2, 2 * KB, level) == 2 * charges.query(1, 2, 2 * KB)
    assert charges.feed(2, 2 * KB, level) == 2 * charges.feed(2, 2 * KB)
    assert charges.failed(404, consistency=level) == 2


@pytest.mark.parametrize("level", ["Session", "Eventual", "ConsistentPrefix", ""])
def test_reads_of_the_other_levels(level: str) -> None:
    """Once."""
    assert charges.read(KB, level) == 1


@pytest.mark.parametrize(("size", "expected"), [(KB, 5), (100 * KB, 50)])
def test_inserts_without_indexing(size: int, expected: float) -> None:
    """5 RU at 1 KB, 50 at 100 KB, by the documentation; a replace twice that."""
    assert expected == charges.create(size, 0)
    assert 2 * expected == charges.replace(size, size, 0)


def test_an_ordinary_insert() -> None:
    """A small item with the default policy costs 5.something; indexing nothing makes it cheaper."""
    item = {"id": "1", "pk": "a", "value": 5}
    indexed = charges.create(60, Indexing().terms(item))
    bare = charges.create(60, Indexing({"indexingMode": "none"}).terms(item))
    assert bare < indexed < 6
    assert indexed == 5.9


def test_a_replace_costs_by_the_larger_item() -> None:
    """Whether it grows or shrinks."""
    assert charges.replace(KB, 100 * KB, 0) == charges.replace(100 * KB, KB, 0) == 100


def test_queries() -> None:
    """Each physical partition costs, whether something is in it or not; so does each item that is looked at."""
    assert charges.query(1, 0, 0) == 2.5
    assert charges.query(10, 0, 0) == 25
    assert charges.query(1, 100, 100 * KB) == pytest.approx(2.5 + 5)
    assert charges.feed(0, 0) == 1


@pytest.mark.parametrize(
    ("status", "size", "expected"),
    [
        (400, 0, 1),
        (404, 0, 1),
        (409, 4 * KB, 2),
        (412, 4 * KB, 2),
        (449, 0, 1),
        (304, 4 * KB, 2),
        (413, 3_000_000, 1),
        (424, KB, 0),
        (429, KB, 0.38),
    ],
)
def test_failures_cost_too(status: int, size: int, expected: float) -> None:
    """Except what was not tried."""
    assert expected == charges.failed(status, size)


def test_a_batch_is_its_operations() -> None:
    """With two decimals, whatever the sum of floats says."""
    assert charges.batch([0.1, 0.2, 5.9]) == 6.2
    assert charges.batch([]) == 0


@given(sizes, sizes, st.integers(0, 1000))
def test_more_never_costs_less(one: int, other: int, indexed: int) -> None:
    """For sizes and for values; and a write costs more than a read."""
    small, large = sorted((one, other))
    assert charges.read(small) <= charges.read(large)
    assert charges.create(small, indexed) <= charges.create(large, indexed)
    assert charges.create(small, indexed) < charges.create(small, indexed + 1)
    assert charges.read(large) < charges.create(large, indexed) < charges.replace(large, small, indexed)


@given(sizes, st.integers(0, 1000))
def test_two_decimals(size: int, indexed: int) -> None:
    """As the service writes them."""
    for units in (charges.read(size), charges.create(size, indexed), charges.query(3, indexed, size)):
        assert math.isclose(units * 100, round(units * 100), abs_tol=1e-6)
