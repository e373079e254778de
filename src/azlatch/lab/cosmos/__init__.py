"""A local Cosmos DB: the service that the unmodified SDK talks to, with the faults that production has.

The engine is one object without threads, sockets or a clock of its own: a request and the time go in, a reply
comes out. What is around it (HTTP, the admin interface, the command line) only carries requests to it.

`CosmosLab` is all of it. It is loaded on first touch: importing this package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from azlatch.lab.cosmos.lab import CosmosLab

__all__ = ["CosmosLab"]


def __getattr__(name: str) -> Any:
    if name == "CosmosLab":
        try:
            from azlatch.lab.cosmos.lab import CosmosLab
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] == "azlatch":
                raise
            from azlatch.errors import BackendMisconfigured

            raise BackendMisconfigured(f"the lab needs {missing.name}: pip install 'azlatch[lab]'") from None
        return CosmosLab
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
