"""What an update raises on purpose, beside the errors of `azlatch.errors`.

::

    LatchError
    ├── ConflictNeedsDecision                 someone else changed it; a person or a rule decides  who: caller
    ├── ItemAbsent (also LookupError)         no such item under this partition key                who: caller
    ├── UpdateTimeout (also TimeoutError)     others were faster until the deadline                who: caller
    └── UpdateRefused                         the service refuses this request as it is            who: caller

In each case nothing of the update was written. Where that is not known it is `azlatch.errors.OutcomeUnknown`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from azlatch.errors import LatchError

if TYPE_CHECKING:
    from azlatch.contracts.difference import Difference


class ConflictNeedsDecision(LatchError):
    """Someone else changed the item after it was read, and no rule says what is right. Nothing was written.

    Attributes:
        base: what both sides began with.
        theirs: what is stored now.
        mine: what was to be written, without what the service sets.
        differences: each value on which they do not agree.
        conflicting: those of them that both sides changed, and not to the same.
        etag: the version of `theirs`: what a decision has to be conditional on.
        item_id: the item.
    """

    code = "conflict-needs-decision"
    who = "caller"

    def __init__(
        self,
        message: str,
        *,
        base: dict[str, Any],
        theirs: dict[str, Any],
        mine: dict[str, Any],
        differences: Sequence[Difference],
        etag: str | None = None,
        item_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.base = base
        self.theirs = theirs
        self.mine = mine
        self.differences = tuple(differences)
        self.etag = etag
        self.item_id = item_id

    @property
    def conflicting(self) -> tuple[Difference, ...]:
        """The differences that both sides made."""
        return tuple(each for each in self.differences if each.is_conflict)


class ItemAbsent(LatchError, LookupError):
    """There is no item with this id under this partition key; a wrong partition key looks the same."""

    code = "item-absent"
    who = "caller"


class UpdateTimeout(LatchError, TimeoutError):
    """The deadline came while others changed the item faster, or time ran out between two steps.

    Attributes:
        conflicts: how often someone else was first.
    """

    code = "update-timeout"
    who = "caller"

    def __init__(self, message: str, *, conflicts: int = 0) -> None:
        super().__init__(message)
        self.conflicts = conflicts


class UpdateRefused(LatchError):
    """The service refuses this request, and would again: too large, malformed, no room for the key.

    Attributes:
        status, substatus: what it answered; `contracts.classify` of `__cause__` says what that means.
    """

    code = "update-refused"
    who = "caller"

    def __init__(self, message: str, *, status: int, substatus: int) -> None:
        super().__init__(message)
        self.status = status
        self.substatus = substatus
