"""What an applied batch gives back: one object for each operation, and what holds for the whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class OperationResult:
    """What became of one operation.

    Attributes:
        operation, item_id: which it was.
        status: as answered; None where the batch was applied and its answer was lost.
        item: as it is now, where the service gave it back; a deleted one is None.
        etag: its new version, or None.
        charge: request units.
    """

    operation: str
    item_id: str
    status: int | None
    item: dict[str, Any] | None
    etag: str | None
    charge: float


@dataclass(slots=True)
class BatchDiagnostics:
    """What it took.

    Attributes:
        sends: how often the batch went out, repeats by the SDK included.
        throttles: answers 429. concurrent_writes: answers 449. unknowns: sends without a telling answer.
        waited_s: seconds waited on purpose between attempts (the SDK's own waits are not in it).
        request_charge: request units of all answers.
        activity_id: of the last answer: what Microsoft's support asks for.
        session_token: of the last answer.
        session_handed_on: whether the client's own session knows of it, so that its next read sees the batch.
    """

    sends: int = 0
    throttles: int = 0
    concurrent_writes: int = 0
    unknowns: int = 0
    waited_s: float = 0.0
    request_charge: float = 0.0
    activity_id: str | None = None
    session_token: str | None = None
    session_handed_on: bool = False


@dataclass(frozen=True, slots=True)
class BatchResult:
    """A batch that was applied, all of it; a sequence of its results in the order of its operations.

    Attributes:
        results: one for each operation.
        outcome: `applied` by this call, or `applied-earlier`: by one with the same operation id, and this call
            wrote nothing.
        diagnostics: what it took.
    """

    results: tuple[OperationResult, ...]
    outcome: Literal["applied", "applied-earlier"] = "applied"
    diagnostics: BatchDiagnostics = field(default_factory=BatchDiagnostics)

    @property
    def request_charge(self) -> float:
        """Request units of all attempts."""
        return self.diagnostics.request_charge

    @property
    def session_token(self) -> str | None:
        """For reads of other clients: with it they see this batch. None where the account gives none."""
        return self.diagnostics.session_token

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[OperationResult]:
        return iter(self.results)

    def __getitem__(self, index: int) -> OperationResult:
        return self.results[index]
