"""The way from a simulated process to a simulated store: one request and its reply, either of which may fail.

What a store does and what it says belong to the store; what is lost, late, slow or refused on the way is here,
once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from azlatch.backends.blob_service import Refused
from azlatch.errors import BackendThrottled, BackendUnavailable, OutcomeUnknown, UsageError

if TYPE_CHECKING:
    from azlatch.testing.virtual import Process, World

T = TypeVar("T")

Fault = Literal["none", "drop-request", "drop-reply", "refuse", "land-late", "slow", "throttle"]


@dataclass
class Faults:
    """How often what goes wrong, as shares of all calls; seconds for the rest."""

    drop_request: float = 0.0
    drop_reply: float = 0.0
    refuse: float = 0.0
    land_late: float = 0.0
    slow: float = 0.0
    throttle: float = 0.0
    lost_wake: float = 0.0
    #: When a late write lands: at the least and at the most so many times what its caller waits.
    lateness: tuple[float, float] = (0.0, 2.0)
    latency: float = 0.01
    lag: float = 0.0
    #: Whether only acquires are hit, so that what is left to the janitor must come to an end.
    only_acquires: bool = False


class FarEnd(Protocol):
    """What a way leads to."""

    world: World
    faults: Faults
    down_until: float


class Way:
    """One process's way to a store.

    Attributes:
        answers: what the store itself said of a latch, for the checks of outcomes.
        failures: calls that the way did something to.
        in_flight: calls that have not returned.
        distance: how many times the latency of the world it takes.
    """

    def __init__(self, end: FarEnd, process: Process, *, networked: bool) -> None:
        self.end = end
        self.process = process
        self.networked = networked
        self.answers = 0
        self.failures = 0
        self.in_flight = 0
        self.distance = 1.0

    def call(
        self,
        until: float,
        at_store: Callable[[], T],
        *,
        reads: bool = False,
        basis: int | None = None,
        acquires: bool = False,
    ) -> T:
        """One request and its reply, either of which may be lost, late or refused.

        Raises:
            BackendUnavailable: nothing happened, or nothing but reading did.
            OutcomeUnknown: something may have been written.
        """
        self.in_flight += 1
        try:
            return self._carry(until, at_store, reads, basis, acquires)
        finally:
            self.in_flight -= 1

    def _carry(
        self, until: float, at_store: Callable[[], T], reads: bool, basis: int | None, acquires: bool
    ) -> T:
        process, rng, faults = self.process, self.end.world.rng, self.end.faults
        if self.networked and process.now() >= until:
            self.failures += 1
            raise BackendUnavailable("simulated: no time was left")
        fault: Fault = "none" if faults.only_acquires and not acquires else self._fault(reads)
        if fault != "none":
            process.note(f"a call: {fault}")
        there = faults.latency * self.distance * rng.random()
        back = faults.latency * self.distance * rng.random()
        if fault == "slow":
            self.failures += 1
            there += (until - process.now()) * rng.random() * 1.2
        if process.now() + there >= until and fault not in ("refuse", "land-late"):
            fault = "drop-request"
        if fault == "refuse":
            process.sleep(min(there, max(until - process.now(), 0.0)))
            self.failures += 1
            raise BackendUnavailable("simulated: refused before anything happened")
        if fault == "drop-request":
            self._wait_in_vain(until)
            raise self._unknown(reads, basis)
        if fault == "land-late":
            # The write lands on its own, whenever; its caller hears nothing of it.
            after = there + (until - process.now()) * rng.uniform(*faults.lateness)
            self.end.world.after(after, lambda: _land(at_store))
            self._wait_in_vain(until)
            raise self._unknown(reads, basis)
        process.sleep(there)
        if self.end.world.time < self.end.down_until:
            # Someone is frozen inside a write: nothing is sent until that is over, or the time is.
            self._wait_in_vain(until)
            raise BackendUnavailable("simulated: the store did not answer")
        said = self._throttle() if fault == "throttle" else _outcome(at_store)
        if process.now() + back >= until:
            fault = "drop-reply"
        if fault == "drop-reply":
            if self.networked:
                self._wait_in_vain(until)
            else:
                self.failures += 1
            raise self._unknown(reads, basis)
        process.sleep(back)
        return said()

    def _throttle(self) -> Callable[[], T]:
        self.failures += 1
        return _refuse(BackendThrottled("simulated: later", retry_after=self.end.world.rng.choice([None, 1.0])))

    def _fault(self, reads: bool) -> Fault:
        faults = self.end.faults
        kinds: list[tuple[Fault, float]] = [
            ("drop-request", faults.drop_request),
            ("drop-reply", faults.drop_reply),
            ("refuse", faults.refuse),
            ("slow", faults.slow),
            ("throttle", faults.throttle),
        ]
        if self.networked and not reads:
            kinds.append(("land-late", faults.land_late))
        chance = self.end.world.rng.random()
        for kind, share in kinds:
            if chance < share:
                return kind
            chance -= share
        return "none"

    def _wait_in_vain(self, until: float) -> None:
        self.failures += 1
        self.process.sleep(max(until - self.process.now(), 0.0))

    def _unknown(self, reads: bool, basis: int | None) -> BackendUnavailable | OutcomeUnknown:
        if reads:
            return BackendUnavailable("simulated: a read without a reply")
        return OutcomeUnknown("simulated: a write without a reply", basis=basis)


def _outcome(at_store: Callable[[], T]) -> Callable[[], T]:
    """What the store said, a "no" included, to be told once its reply has come."""
    try:
        value = at_store()
    except (Refused, UsageError) as no:
        return _refuse(no)
    return lambda: value


def _refuse(error: Exception) -> Callable[[], Any]:
    def refuse() -> Any:
        raise error

    return refuse


def _land(at_store: Callable[[], T]) -> None:
    """It happens, or is refused, and nobody hears of either."""
    _outcome(at_store)
