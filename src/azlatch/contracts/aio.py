"""The parts of `azlatch.contracts` that talk to the service, awaited, over containers of `azure.cosmos.aio`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from azlatch.contracts.batch_async import Batch
    from azlatch.contracts.session_context import SessionContext
    from azlatch.contracts.update_aio import update_item

__all__ = [
    "Batch",
    "SessionContext",
    "update_item",
]

#: Where each public name is; it is loaded when it is first touched.
_LATER = {
    "Batch": "azlatch.contracts.batch_async",
    "SessionContext": "azlatch.contracts.session_context",
    "update_item": "azlatch.contracts.update_aio",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
