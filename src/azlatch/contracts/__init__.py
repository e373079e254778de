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
    from azlatch.contracts.session_clients import attach_requests, httpx_async_hooks, httpx_hooks
    from azlatch.contracts.session_context import SessionContext
    from azlatch.contracts.session_edge import SessionEdge
    from azlatch.contracts.session_envelope import SessionKey
    from azlatch.contracts.session_errors import (
        BehindSession,
        SessionDamaged,
        SessionError,
        SessionExpired,
        SessionForeign,
        SessionIncomplete,
        SessionKeyUnknown,
        SessionNotSent,
        SessionOversized,
        SessionRefused,
    )
    from azlatch.contracts.session_http import AsgiSessions, SessionHttp, WsgiSessions
    from azlatch.contracts.session_message import put_session, take_session
    from azlatch.contracts.update_errors import ConflictNeedsDecision, ItemAbsent, UpdateRefused, UpdateTimeout
    from azlatch.contracts.update_steps import Update
    from azlatch.contracts.update_sync import update_item

__all__ = [
    "MISSING",
    "AsgiSessions",
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
    "SessionContext",
    "SessionDamaged",
    "SessionEdge",
    "SessionError",
    "SessionExpired",
    "SessionForeign",
    "SessionHttp",
    "SessionIncomplete",
    "SessionKey",
    "SessionKeyUnknown",
    "SessionNotSent",
    "SessionOversized",
    "SessionRefused",
    "Update",
    "UpdateRefused",
    "UpdateTimeout",
    "WsgiSessions",
    "append_to_set",
    "attach_requests",
    "classify",
    "differences",
    "httpx_async_hooks",
    "httpx_hooks",
    "numeric_delta",
    "put_session",
    "take_mine",
    "take_session",
    "three_way",
    "update_item",
]

#: Where each public name is; it is loaded when it is first touched.
_LATER = {
    "MISSING": "azlatch.contracts.difference",
    "AsgiSessions": "azlatch.contracts.session_http",
    "Batch": "azlatch.contracts.batch_sync",
    "BatchFailed": "azlatch.contracts.batch_errors",
    "BatchNotTaken": "azlatch.contracts.batch_errors",
    "BatchOutcomeUnknown": "azlatch.contracts.batch_errors",
    "BatchResult": "azlatch.contracts.batch_result",
    "BehindSession": "azlatch.contracts.session_errors",
    "ConflictNeedsDecision": "azlatch.contracts.update_errors",
    "Diagnosis": "azlatch.contracts.diagnosis",
    "Difference": "azlatch.contracts.difference",
    "FailedOperation": "azlatch.contracts.batch_errors",
    "ItemAbsent": "azlatch.contracts.update_errors",
    "OperationResult": "azlatch.contracts.batch_result",
    "SessionContext": "azlatch.contracts.session_context",
    "SessionDamaged": "azlatch.contracts.session_errors",
    "SessionEdge": "azlatch.contracts.session_edge",
    "SessionError": "azlatch.contracts.session_errors",
    "SessionExpired": "azlatch.contracts.session_errors",
    "SessionForeign": "azlatch.contracts.session_errors",
    "SessionHttp": "azlatch.contracts.session_http",
    "SessionIncomplete": "azlatch.contracts.session_errors",
    "SessionKey": "azlatch.contracts.session_envelope",
    "SessionKeyUnknown": "azlatch.contracts.session_errors",
    "SessionNotSent": "azlatch.contracts.session_errors",
    "SessionOversized": "azlatch.contracts.session_errors",
    "SessionRefused": "azlatch.contracts.session_errors",
    "Update": "azlatch.contracts.update_steps",
    "UpdateRefused": "azlatch.contracts.update_errors",
    "UpdateTimeout": "azlatch.contracts.update_errors",
    "WsgiSessions": "azlatch.contracts.session_http",
    "append_to_set": "azlatch.contracts.reconcile",
    "attach_requests": "azlatch.contracts.session_clients",
    "classify": "azlatch.contracts.classifier",
    "differences": "azlatch.contracts.difference",
    "httpx_async_hooks": "azlatch.contracts.session_clients",
    "httpx_hooks": "azlatch.contracts.session_clients",
    "numeric_delta": "azlatch.contracts.reconcile",
    "put_session": "azlatch.contracts.session_message",
    "take_mine": "azlatch.contracts.reconcile",
    "take_session": "azlatch.contracts.session_message",
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
