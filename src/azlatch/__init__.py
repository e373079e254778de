"""azlatch: safe concurrency on Azure, and a latch for one machine that needs no account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azlatch.errors import (
    AcquireTimeout,
    BackendDenied,
    BackendError,
    BackendMisconfigured,
    BackendThrottled,
    BackendUnavailable,
    FenceRejected,
    HeartUnavailable,
    HoldLost,
    LatchError,
    OutcomeUnknown,
    UsageError,
)
from azlatch.runtime.connect import connect
from azlatch.runtime.guard import guarded
from azlatch.runtime.latches import Hold, Latches

if TYPE_CHECKING:
    from azlatch import aio

__all__ = [
    "AcquireTimeout",
    "BackendDenied",
    "BackendError",
    "BackendMisconfigured",
    "BackendThrottled",
    "BackendUnavailable",
    "FenceRejected",
    "HeartUnavailable",
    "Hold",
    "HoldLost",
    "LatchError",
    "Latches",
    "OutcomeUnknown",
    "UsageError",
    "aio",
    "connect",
    "guarded",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "aio":
        # asyncio costs more than all the rest: who does not use it does not pay for it.
        import importlib

        return importlib.import_module("azlatch.aio")
    raise AttributeError(f"module 'azlatch' has no attribute {name!r}")
