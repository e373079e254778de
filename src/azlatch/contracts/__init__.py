"""Data contracts for Cosmos DB: what an answer means, and what may be done about it.

The four promises that teams confuse each have their own part here. This package is cheap to import: a part is
loaded when it is first touched, and none of them loads the SDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from azlatch.contracts.classify import classify
    from azlatch.contracts.diagnosis import Diagnosis

__all__ = ["Diagnosis", "classify"]

#: Where each public name is; it is loaded when it is first touched.
_LATER = {
    "Diagnosis": "azlatch.contracts.diagnosis",
    "classify": "azlatch.contracts.classify",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    found = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
