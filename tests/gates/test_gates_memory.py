"""The memory gate: a value, its function, its threads."""

from __future__ import annotations

import contextlib
import random
import threading

import pytest

from azlatch.errors import BackendUnavailable, FenceRejected, UsageError
from azlatch.gates import Acceptance, MemoryGate


def test_a_function_makes_the_new_value_of_the_old() -> None:
    """Compare, read and write are one step: the function sees what it replaces."""
    gate = MemoryGate(10)
    assert gate.write(1, lambda value: value + 1) == Acceptance(1, 1)
    assert gate.write(2, 5) == Acceptance(2, 2)
    assert (gate.value, gate.newest, gate.accepted) == (5, 2, (1, 2))


def test_a_refused_function_is_not_called() -> None:
    """An older fence has no effect at all."""
    gate = MemoryGate(0)
    gate.write(5, 1)
    with pytest.raises(FenceRejected):
        gate.write(4, lambda value: pytest.fail("called"))
    assert (gate.value, gate.rejected) == (1, 1)


def test_a_function_that_raises_accepts_nothing() -> None:
    """Neither the value nor the fence moves."""
    gate = MemoryGate(0)

    def fail(_: int) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        gate.write(9, fail)
    assert (gate.value, gate.newest) == (0, None)
    assert gate.write(1, 1) == Acceptance(1, 1)


def test_a_function_cannot_write_to_its_own_gate() -> None:
    """A write within a write would let an older value follow a newer one; it is a UsageError."""
    gate = MemoryGate(0)
    with pytest.raises(UsageError):
        gate.write(5, lambda _: gate.write(7, 1).fence)
    assert gate.newest is None


def test_the_history_is_bounded() -> None:
    """Only the newest acceptances are kept, with their places."""
    gate = MemoryGate(0, history=2)
    for fence in (1, 2, 3):
        gate.write(fence, fence)
    assert gate.history() == (Acceptance(2, 2), Acceptance(3, 3))
    with pytest.raises(UsageError):
        MemoryGate(0, history=0)


def test_threads_that_race_keep_the_order() -> None:
    """Eight threads: the fences never fall, and every accepted function counted exactly once."""
    gate = MemoryGate(0, history=10_000)

    def offer(seed: int) -> None:
        chance = random.Random(seed)
        for round_ in range(300):
            with contextlib.suppress(FenceRejected):
                gate.write(round_ + chance.randrange(20), lambda value: value + 1)

    threads = [threading.Thread(target=offer, args=[seed]) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(gate.accepted) == sorted(gate.accepted)
    assert gate.value == len(gate.accepted) == gate.history()[-1].sequence == 8 * 300 - gate.rejected


def test_a_writer_that_stays_inside_blocks_others_to_their_bound() -> None:
    """Another thread gets BackendUnavailable at the timeout."""
    gate = MemoryGate(0, timeout=0.05)
    entered, leave = threading.Event(), threading.Event()

    def stay(value: int) -> int:
        entered.set()
        leave.wait(10)
        return value + 1

    thread = threading.Thread(target=gate.write, args=[1, stay])
    thread.start()
    try:
        assert entered.wait(10)
        with pytest.raises(BackendUnavailable):
            gate.write(2, 2)
    finally:
        leave.set()
        thread.join()
    assert gate.write(2, 2) == Acceptance(2, 2)
