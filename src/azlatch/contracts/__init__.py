"""Data contracts for Cosmos DB: what an answer means, and what may be done about it.

The four promises that teams confuse each have their own part here. This package is cheap to import: a part is
loaded when it is first touched, and none of them loads the SDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from azlatch.contracts.batch_errors import BatchFailed, BatchNotTaken, BatchOutcomeUnknown, FailedOperation
    from azlatch.contracts.batch_result import BatchResult, OperationResult
    from azlatch.contracts.batch_sync import Batch
    from azlatch.contracts.classifier import classify
    from azlatch.contracts.diagnosis import Diagnosis
    from azlatch.contracts.difference import MISSING, Difference, differences
    from azlatch.contracts.reconcile import append_to_set, numeric_delta, take_mine, three_way
    from azlatch.contracts.update_errors import (
        BehindSession,
        ConflictNeedsDecision,
        ItemAbsent,
        UpdateRefused,
        UpdateTimeout,
    )
    from azlatch.contracts.update_steps import Update
    from azlatch.contracts.update_sync import update_item

__all__ = [
    "MISSING",
    "Batch",
    "BatchFailed",
    "BatchNotTaken",
    "BatchOutcomeUnknown",
    "BatchResult",
    "BehindSession",
    "ConflictNeedsDecision",
    "Diagnosis",
    "Difference",
    "FailedOperation",
    "ItemAbsent",
    "OperationResult",
    "Update",
    "UpdateRefused",
    "UpdateTimeout",
    "append_to_set",
    "classify",
    "differences",
    "numeric_delta",
    "take_mine",
    "three_way",
    "update_item",
]

#: Where each public name is; it is loaded when it is first touched.
_LATER = {
    "MISSING": "azlatch.contracts.difference",
    "Batch": "azlatch.contracts.batch_sync",
    "BatchFailed": "azlatch.contracts.batch_errors",
    "BatchNotTaken": "azlatch.contracts.batch_errors",
    "BatchOutcomeUnknown": "azlatch.contracts.batch_errors",
    "BatchResult": "azlatch.contracts.batch_result",
    "BehindSession": "azlatch.contracts.update_errors",
    "ConflictNeedsDecision": "azlatch.contracts.update_errors",
    "Diagnosis": "azlatch.contracts.diagnosis",
    "Difference": "azlatch.contracts.difference",
    "FailedOperation": "azlatch.contracts.batch_errors",
    "ItemAbsent": "azlatch.contracts.update_errors",
    "OperationResult": "azlatch.contracts.batch_result",
    "Update": "azlatch.contracts.update_steps",
    "UpdateRefused": "azlatch.contracts.update_errors",
    "UpdateTimeout": "azlatch.contracts.update_errors",
    "append_to_set": "azlatch.contracts.reconcile",
    "classify": "azlatch.contracts.classifier",
    "differences": "azlatch.contracts.difference",
    "numeric_delta": "azlatch.contracts.reconcile",
    "take_mine": "azlatch.contracts.reconcile",
    "three_way": "azlatch.contracts.reconcile",
    "update_item": "azlatch.contracts.update_sync",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name == "aio":
        # asyncio costs more than all the rest: who does not use it does not pay for it.
        return importlib.import_module("azlatch.contracts.aio")
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
