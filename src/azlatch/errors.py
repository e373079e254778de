"""Every error that azlatch raises on purpose, and whose job each one is.

::

    LatchError
    ├── UsageError (also ValueError)          the call cannot work as written            who: caller
    ├── AcquireTimeout (also TimeoutError)    someone else held it for the whole timeout who: caller
    ├── HoldLost                              the hold ended without its release         who: caller
    ├── FenceRejected                         a gate saw a newer fence                   who: caller
    ├── HeartUnavailable                      no thread could be started to renew holds  who: operator
    ├── OutcomeUnknown                        a write may or may not have happened       who: operator
    └── BackendError                          the store, not the latch                   who: service
        ├── BackendUnavailable                it does not answer, or not in time         who: service
        ├── BackendThrottled                  it answers "later"                         who: service
        ├── BackendDenied                     it answers "not you"                       who: operator
        └── BackendMisconfigured              it cannot serve latches as it is set up    who: operator

``code`` is a stable, machine-readable word; ``who`` says whose job it is to fix it: ``caller``,
``operator``, ``service`` or ``us``. Contention (AcquireTimeout) and an outage (BackendUnavailable) are
never mixed. No message, ``__cause__`` text included, carries a key, a token or a connection string.
"""

from __future__ import annotations

from typing import ClassVar, Literal

Who = Literal["caller", "operator", "service", "us"]

#: Why a hold ended without its release.
LossReason = Literal[
    "expired",  # the deadline passed without a successful renewal
    "stolen",  # the store says that another grant took the name
    "broken",  # an operator broke it
    "detached",  # the link that carried the grant was re-opened
    "max-hold",  # the hold reached the caller's max_hold
    "owner-died",  # the thread or task inside `with` ended without leaving it
    "forked",  # this is a forked child; the hold belongs to the parent
]


class LatchError(Exception):
    """Base of every azlatch error."""

    code: ClassVar[str] = "latch-error"
    who: ClassVar[Who] = "us"


class UsageError(LatchError, ValueError):
    """The call cannot work as written; the message names the value, the limit and the cure."""

    code = "usage"
    who = "caller"


class AcquireTimeout(LatchError, TimeoutError):
    """Someone else held the latch for the whole timeout. The store answered: this is contention.

    Attributes:
        name: the latch.
        waited: seconds waited.
        holder: what the store last said of the holder, or None.
    """

    code = "acquire-timeout"
    who = "caller"

    def __init__(self, message: str, *, name: str = "", waited: float = 0.0, holder: str | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.waited = waited
        self.holder = holder


class HoldLost(LatchError):
    """The hold ended without its release; whatever it guarded may be someone else's by now.

    Attributes:
        reason: one of LossReason.
        name: the latch.
        fence: the fencing token of the hold that was lost, or None.
    """

    code = "hold-lost"
    who = "caller"

    def __init__(self, message: str, *, reason: LossReason, name: str = "", fence: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.name = name
        self.fence = fence


class FenceRejected(LatchError):
    """A gate refused a write: it has accepted a newer fence than the one offered.

    Attributes:
        offered: the fence of the refused write, or None where the hold has none.
        newest: the newest fence that the gate has accepted, or None where it cannot tell.
    """

    code = "fence-rejected"
    who = "caller"

    def __init__(self, message: str, *, offered: int | None, newest: int | None = None) -> None:
        super().__init__(message)
        self.offered = offered
        self.newest = newest


class HeartUnavailable(LatchError):
    """No thread could be started to renew holds with; nothing is held."""

    code = "heart-unavailable"
    who = "operator"


class OutcomeUnknown(LatchError):
    """A write was sent and its reply never came: it may or may not have happened.

    Raised only where reading back could not settle it within the caller's bound.

    Attributes:
        basis: the version that the write was conditional on, or None where that is not known.
    """

    code = "outcome-unknown"
    who = "operator"

    def __init__(self, message: str, *, basis: int | None = None) -> None:
        super().__init__(message)
        self.basis = basis


class BackendError(LatchError):
    """The store failed; nothing is said about who holds what."""

    code = "backend"
    who: ClassVar[Who] = "service"


class BackendUnavailable(BackendError):
    """The store does not answer, or not within the time that was left. Never raised for contention."""

    code = "backend-unavailable"
    who = "service"


class BackendThrottled(BackendError):
    """The store refused for now, because of load.

    Attributes:
        retry_after: seconds after which the store wants to be asked again, or None.
    """

    code = "backend-throttled"
    who = "service"

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class BackendDenied(BackendError):
    """The store refused this identity; the message names the right that is missing."""

    code = "backend-denied"
    who = "operator"


class BackendMisconfigured(BackendError):
    """The store cannot serve latches the way it is set up; the message says what to run."""

    code = "backend-misconfigured"
    who = "operator"
