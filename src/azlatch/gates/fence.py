"""What every gate asks of a fence, and what it answers: the rules F4 and F5 of the protocol, once."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from azlatch.errors import FenceRejected, UsageError

#: The most that a signed 64-bit column holds; every fence of every store is far below.
MAX_FENCE = 2**63 - 1

#: The longest wait, about 24 days: SQLite takes milliseconds in 32 bits, and makes 0 of what is longer.
MAX_TIMEOUT_S = 2_147_483

_NOTHING = object()


class HasFence(Protocol):
    """Anything with a fence, a Hold above all."""

    @property
    def fence(self) -> int | None: ...


#: What a gate takes: a fence, or what has one. None stands for a hold without a fence, and is refused.
FenceSource = int | HasFence | None


class Acceptance(NamedTuple):
    """One write that a gate accepted.

    Attributes:
        sequence: its place in the order in which the gate accepted: 1, 2, 3, …
        fence: the fence that it came with.
    """

    sequence: int
    fence: int


def fence_of(source: FenceSource) -> int:
    """The fence that is offered, as a plain int.

    Raises:
        FenceRejected: there is none, as with `fence=False` (F4).
        UsageError: not an int, a bool, negative, or more than 64 bits carry.
    """
    offered: object = source
    if source is not None and not isinstance(source, int):
        offered = getattr(source, "fence", _NOTHING)
        if offered is _NOTHING:
            raise UsageError(f"a gate takes an int fence or a hold, not {type(source).__name__}")
    if offered is None:
        raise FenceRejected(
            "the write has no fence, and a gate takes none without: connect with fence=True", offered=None
        )
    if isinstance(offered, bool) or not isinstance(offered, int):
        raise UsageError(f"a fence is an int, not {type(offered).__name__}: pass the hold or its fence")
    if not 0 <= offered <= MAX_FENCE:
        raise UsageError(f"the fence {offered} is outside 0 to {MAX_FENCE}: pass the hold's own fence")
    return int(offered)


def admits(offered: int, newest: int | None) -> bool:
    """The rule: an equal or newer fence gets in, and any where none was accepted yet (F5)."""
    return newest is None or offered >= newest


def check_fence(offered: int, newest: int | None, gate: str) -> None:
    """Returns where the gate admits the fence.

    Raises:
        FenceRejected: the gate accepted a newer one.
    """
    if not admits(offered, newest):
        raise FenceRejected(
            f"{gate} refused fence {offered}: it has accepted {newest}, so another holder came after",
            offered=offered,
            newest=newest,
        )


@contextlib.contextmanager
def reporting(source: FenceSource, gate: str) -> Iterator[None]:
    """Lets a hold whose connection keeps an audit log note there that a gate refused it."""
    try:
        yield
    except FenceRejected as refused:
        note = getattr(source, "note_rejection", None)
        if note is not None:
            note(gate, refused.newest)
        raise


def check_timeout(timeout: float) -> float:
    """The bound of a wait, in seconds.

    Raises:
        UsageError: not a number from 0 to MAX_TIMEOUT_S.
    """
    if (
        isinstance(timeout, bool)
        or not isinstance(timeout, int | float)
        or not math.isfinite(timeout)
        or not 0 <= timeout <= MAX_TIMEOUT_S
    ):
        raise UsageError(f"timeout={timeout!r} is no bound: give seconds, from 0 to {MAX_TIMEOUT_S:,}")
    return float(timeout)


def check_history(history: int) -> int:
    """How many acceptances are kept.

    Raises:
        UsageError: not an int from 1 on.
    """
    if isinstance(history, bool) or not isinstance(history, int) or history < 1:
        raise UsageError(f"history={history!r} keeps nothing to check by: give a count from 1 on")
    return history
