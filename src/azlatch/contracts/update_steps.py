"""What one update asks its driver to do, and what it ends with."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from azlatch.errors import LatchError


class Update(NamedTuple):
    """What became of an update.

    Attributes:
        outcome: `applied`: exactly once, by this call. `unchanged`: there was nothing to write.
        item: the item as it is stored; after `recovered` it may have later changes of others, too.
        etag: its version.
        attempts: requests to write.
        conflicts: how often someone else's change came first, and a rule reconciled.
        throttles: answers 429 and 449, those that the SDK dealt with by itself included.
        request_charge: request units of all requests.
        recovered: the answer to the write was lost; that it was applied is known from the item.
    """

    outcome: Literal["applied", "unchanged"]
    item: dict[str, Any]
    etag: str
    attempts: int
    conflicts: int
    throttles: int
    request_charge: float
    recovered: bool = False


class Read(NamedTuple):
    """Read the item, within `limit` seconds."""

    limit: float


class Change(NamedTuple):
    """Call the caller's change with `base`, which is a copy."""

    base: dict[str, Any]


class Replace(NamedTuple):
    """Replace the item if its version is `etag`, within `limit` seconds."""

    body: dict[str, Any]
    etag: str
    limit: float


class Wait(NamedTuple):
    """Do nothing for some time."""

    seconds: float


class Reconcile(NamedTuple):
    """Call the caller's rule; all three are copies, `mine` without what the service sets."""

    base: dict[str, Any]
    theirs: dict[str, Any]
    mine: dict[str, Any]


class Done(NamedTuple):
    """The end."""

    update: Update


class Failed(NamedTuple):
    """The end, without a result; `cause` is what the SDK raised."""

    error: LatchError
    cause: BaseException | None = None


Step = Read | Change | Replace | Wait | Reconcile | Done | Failed
