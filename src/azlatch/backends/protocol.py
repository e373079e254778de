"""What a store must do to carry latches. Blocking, written once; the drivers bring threads and waiting.

Contract, checked by `azlatch.testing.contract` for every backend:

* Every method that calls the service takes `until`, on the clock of the `Env` that `open` was given, and
  returns or raises by then (plus what the platform needs to notice).
* A service that answers "no" is an answer. One that does not answer in time raises BackendUnavailable if
  nothing was sent, or if what was sent certainly did not happen; OutcomeUnknown if it may have.
* `acquire` with the same nonce again finds the grant that an earlier, unanswered one made.
* No method retries on its own past one round and one read-back, and none is called while a lock is held.
* All methods may be called from any thread at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, Protocol

from azlatch.core.acquisition import Orphan
from azlatch.core.env import Env
from azlatch.core.instance import Instance
from azlatch.core.record import Claim, Grant, Takeover, Triple
from azlatch.core.terms import Limits


class Granted(NamedTuple):
    """The claim has the name now.

    `previous_fence` is the fence of the grant before, or None where there is no record of one. `takeover`
    is the rule by which it was taken from a holder that had not released it, or None.
    """

    grant: Grant
    previous_fence: int | None
    takeover: Takeover | None = None


class Held(NamedTuple):
    """Someone else has the name, or is in line for it.

    `triple` is what a contender watches (None where the service expires the lease itself); `version` is
    the store's version of what was read; `look_in` says in how many seconds another look is worth it.
    """

    holder: Instance | None
    triple: Triple | None
    version: int
    look_in: float


class Gone(NamedTuple):
    """The grant is not the holder any more, definitely."""

    reason: Literal["broken", "stolen", "expired", "detached"]


class View(NamedTuple):
    """What `inspect` and `list` show of a name. Texts in it come from outside: escape before showing.

    `since` is wall time; `age` is seconds since the last beat and `expires_in` until a contender may take
    it, where the store can tell; `waiters` counts instances in line, where the store knows. `orphan` says
    why the store itself knows that nobody looks after the hold, or "". Without `certain` what is said of the
    holder was written beside a lease that may be a later one (L3).
    """

    name: str
    state: Literal["held", "free", "broken", "expired"]
    fence: int | None
    holder: Instance | None
    ttl: float | None
    since: float | None
    age: float | None
    expires_in: float | None
    note: str
    waiters: int | None
    breaker: str
    reason: str
    orphan: str = ""
    certain: bool = True


class Check(NamedTuple):
    """One thing that `doctor` looked at: "ok", "warn", "wrong", or "mended"; the cure is for a person."""

    what: str
    status: Literal["ok", "warn", "wrong", "mended"]
    found: str
    cure: str = ""


class Broken(NamedTuple):
    """What a break did: `fence` of the hold that was broken (None: it had none), and in how many seconds at
    the latest the name is granted again."""

    fence: int | None
    free_in: float


class Backend(Protocol):
    """A store that carries latches."""

    @property
    def kind(self) -> str:
        """The scheme of its URL: "sqlite", "blob", ..."""
        ...

    @property
    def limits(self) -> Limits:
        """The ttl that this store allows."""
        ...

    def open(self, env: Env, wake: Callable[[str], None], *, create: bool, until: float) -> None:
        """Gets ready; called once, before any other call, and again in a forked child.

        `wake(name)` may be called from any thread when a name is probably free.
        """
        ...

    def close(self) -> None:
        """Lets everything go. No call after it."""
        ...

    def acquire(self, claim: Claim, until: float) -> Granted | Held: ...

    def renew(self, grant: Grant, sent: float, until: float) -> Gone | None:
        """Raises the beat; None is yes."""
        ...

    def release(self, grant: Grant, until: float) -> None:
        """Frees the name if this grant still has it, and does nothing otherwise."""
        ...

    def settle(self, name: str, orphan: Orphan, until: float) -> bool:
        """Frees the name if the orphan's nonce has it; True once it is sure that it never will again."""
        ...

    def leave(self, name: str, until: float) -> None:
        """Gives up the place in line, if there is one."""
        ...

    def note(self, grant: Grant, text: str, until: float) -> Gone | None:
        """Stores the holder's note; None is yes."""
        ...

    def read(self, name: str, until: float) -> View | None:
        """What there is of a name, or None."""
        ...

    def list(self, until: float) -> Iterator[View]:
        """Every name that has a record, in the store's order of them, page by page."""
        ...

    def break_hold(
        self, name: str, fence: int | None, by: str, reason: str, *, now: bool, until: float
    ) -> Broken | None:
        """Ends the hold with this fence (None: the present one); None where nobody has the name.

        Raises:
            UsageError: another fence has the name by now.
        """
        ...

    def purge(self, older_than: float, until: float) -> int:
        """Removes the records of names that are free and unused for so many seconds; how many."""
        ...

    def forked(self) -> None:
        """This is a forked child: drop what belongs to the parent, without a call, without closing it."""
        ...
