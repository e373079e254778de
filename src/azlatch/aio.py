"""The same verbs as `azlatch`, awaited: ``async with azlatch.aio.connect(url) as latches: ...``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from azlatch.runtime.async_latches import AsyncHold, AsyncLatches
from azlatch.runtime.connect import connection_of

if TYPE_CHECKING:
    from azlatch.audit.events import Sink
    from azlatch.backends.protocol import Backend
    from azlatch.core.instance import Instance

__all__ = ["AsyncHold", "AsyncLatches", "connect"]


def connect(
    url: str | None = None,
    *,
    backend: Backend | None = None,
    instance: Instance | None = None,
    fence: bool = True,
    audit: Sink | str | os.PathLike[str] | None = None,
    create: bool = False,
) -> AsyncLatches:
    """Latches in the store that the URL names, for asyncio; the arguments are those of `azlatch.connect`.

    Raises:
        UsageError: both or neither of url and backend can be used, or the URL is not one that azlatch knows.
    """
    return AsyncLatches(connection_of(url, backend, instance=instance, fence=fence, audit=audit, create=create))
