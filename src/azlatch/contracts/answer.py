"""What came of one request, in the words of the core: no SDK, no transport."""

from __future__ import annotations

from typing import NamedTuple

#: Statuses after which a write is certainly not applied: all of 4xx but a timeout and a moved partition.
_PERHAPS = frozenset({408, 410})


def is_refusal(status: int | None) -> bool:
    """Whether a write that was answered so is certainly not applied."""
    return status is not None and 400 <= status < 500 and status not in _PERHAPS


class Spent(NamedTuple):
    """What a request cost, with whatever the SDK did on its own within it.

    Attributes:
        charge: request units.
        throttles: answers 429 and 449.
    """

    charge: float = 0.0
    throttles: int = 0


class Answer(NamedTuple):
    """A request that failed.

    Attributes:
        status: of HTTP, or None where no answer came.
        substatus: 0 where there is none.
        retry_after: seconds that the service asks to wait, or None.
        sure: of a write: certainly nothing was applied. It is not where a request went out and no answer came,
            also not where the SDK sent it again and the second one was refused.
        with_token: the request carried a session token: an absence is none of a replica that lags.
        cause: what the SDK raised.
    """

    status: int | None
    substatus: int = 0
    retry_after: float | None = None
    sure: bool = False
    with_token: bool = False
    cause: BaseException | None = None

    def __str__(self) -> str:
        if self.status is None:
            return f"no answer ({type(self.cause).__name__})" if self.cause else "no answer"
        return f"{self.status}/{self.substatus}"
