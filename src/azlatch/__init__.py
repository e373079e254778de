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

if TYPE_CHECKING:
    from azlatch import aio
    from azlatch.runtime.connect import connect
    from azlatch.runtime.guard import guarded
    from azlatch.runtime.latches import Hold, Latches

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


#: What is loaded when it is first touched: a program that imports azlatch may never take a latch.
_LATER = {
    "Hold": "azlatch.runtime.latches",
    "Latches": "azlatch.runtime.latches",
    "connect": "azlatch.runtime.connect",
    "guarded": "azlatch.runtime.guard",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name == "aio":
        # asyncio costs more than all the rest: who does not use it does not pay for it.
        return importlib.import_module("azlatch.aio")
    if name in _LATER:
        found = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
        return found
    raise AttributeError(f"module 'azlatch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
