"""Gates: resources that check the fencing token, so that a holder who came back too late cannot write.

A gate accepts a write whose fence is equal to or newer than the newest it has accepted, and refuses an older
one with FenceRejected. It compares and writes in one atomic step of the resource, and keeps what it knows
next to what it guards, never with the latch (M3 and F5 of the protocol).

=====================================  =====================================================================
`fence_condition`, `check_rowcount`    any SQL database: the row itself is the gate
`SqliteGate`                           an SQLite database: your statements and the fence in one transaction
`FileGate`                             a file that is replaced whole, or a command that is run
`BlobGate`                             a blob: the service refuses the stale writer
`CosmosGate`                           a Cosmos DB item: the same; and `contracts.Batch.guard` in a transaction
`MemoryGate`                           a value in this process
=====================================  =====================================================================

Every gate has `newest`; all but `BlobGate` have `history()`, the order in which they accepted. `gates.aio` has
the gates for asyncio.
"""

from __future__ import annotations

from azlatch.gates.blob import BlobGate
from azlatch.gates.condition import check_rowcount, fence_assignment, fence_condition
from azlatch.gates.cosmos import CosmosGate
from azlatch.gates.fence import Acceptance, FenceSource, HasFence, fence_of
from azlatch.gates.file import FileGate, GuardedFile, Passage
from azlatch.gates.memory import MemoryGate
from azlatch.gates.sql import GateCursor, SqliteGate

__all__ = [
    "Acceptance",
    "BlobGate",
    "CosmosGate",
    "FenceSource",
    "FileGate",
    "GateCursor",
    "GuardedFile",
    "HasFence",
    "MemoryGate",
    "Passage",
    "SqliteGate",
    "check_rowcount",
    "fence_assignment",
    "fence_condition",
    "fence_of",
]
