"""What a simulated world needs of its store, whichever kind it is."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

from azlatch.backends.protocol import Backend
from azlatch.testing.virtual import Process, World
from azlatch.testing.way import Faults, Way

#: Records changed by compare-and-swap on one machine or behind a network, leases that the service ends, or the
#: items of a replicated database.
Profile = Literal["embedded", "remote", "lease", "item"]


class Stored(NamedTuple):
    """A grant as the store has it.

    `ttl` is how long it stands without a renewal, `member` whose it is in this store. The fence is None where
    the grant has none, or none yet.
    """

    name: str
    nonce: str
    fence: int | None
    ttl: float
    member: str


class Watcher:
    """Is told by a store what happens in it, in the store's order."""

    def saw_hold(self, stored: Stored, patience: float) -> None:
        """A hold of a name begins; if nobody is given it, it may stand for `patience` seconds."""

    def saw_grant(self, stored: Stored) -> None:
        """A grant got its fence."""

    def saw_break(self, stored: Stored, now: bool) -> None:
        """A hold was broken; with `now` M1 was given up for it."""

    def saw_undone(self, name: str, nonce: str) -> None:
        """The service forgot something that it had acknowledged to the holder of this grant."""


class WatchedStore(Protocol):
    """A store that tells a watcher what happens in it.

    Attributes:
        accidents: kinds of what befalls this kind of store alone.
        longest: the longest that a hold stands by itself, seconds.
    """

    world: World
    faults: Faults
    down_until: float
    watcher: Watcher

    @property
    def accidents(self) -> tuple[str, ...]: ...

    @property
    def longest(self) -> float: ...

    def join(self, process: Process, *, look: float, namespaces: tuple[str, str]) -> tuple[Backend, Way]:
        """A backend for the process, and the way that its calls take."""
        ...

    def present(self, name: str) -> Stored | None:
        """The hold that stands now, if it is one of azlatch's."""
        ...

    def held_since(self, name: str) -> float:
        """When that was last written."""
        ...

    def lives(self, stored: Stored) -> bool:
        """Whether the process lives that it was given to."""
        ...

    def excuses(self, stored: Stored, since: float) -> bool:
        """Whether it may stand, from `since` until now, though nobody was given it."""
        ...

    def lost(self, process: Process, *, leaves_heir: bool = False) -> None:
        """The process was killed."""
        ...

    def befall(self, kind: str, process: Process, name: str, seconds: float) -> None:
        """One of its accidents happens, to a process or a name."""
        ...

    def mend(self) -> None:
        """The end of all accidents."""
        ...
