"""What the sync and the asyncio gate around a Cosmos DB item have in common."""

from __future__ import annotations

import copy
import random
import secrets
import time
from collections.abc import Mapping
from typing import Any

from azlatch.errors import UsageError
from azlatch.gates.cosmos_fence import check_field, cosmos_fence_of
from azlatch.gates.cosmos_key import ItemKey
from azlatch.gates.cosmos_record import PROPERTY, Record, Seen
from azlatch.gates.cosmos_run import Accepted, Run
from azlatch.gates.cosmos_wire import check_account, check_container
from azlatch.gates.fence import Acceptance, FenceSource, check_timeout

_ILLEGAL = frozenset("/\\?#")
_LONGEST_ID = 1_023


class ItemGate:
    """One item, by its container, id and partition key."""

    def __init__(
        self, container: Any, item_id: str, partition_key: Any, *, field: str = "fence", timeout: float = 30.0
    ) -> None:
        check_container(container)
        self._container = container
        self._id = _checked_id(item_id)
        self._partition_key = partition_key
        self._field = check_field(field)
        if field == PROPERTY:
            raise UsageError(f"field={field!r} is where the gate keeps its history: keep the fence in another")
        self._timeout = check_timeout(timeout)
        self._name = f"the gate of item {item_id!r}"
        self._record = Record(item_id, field, self._name)
        self._key: ItemKey | None = None
        #: What the last call left: the next write tries it first.
        self._kept: Seen | None = None

    def _run(self, fence: FenceSource) -> Run:
        check_account(self._container, self._name)
        return Run(
            self._record,
            self._name,
            self._field,
            cosmos_fence_of(fence),
            secrets.token_urlsafe(6),
            timeout=self._timeout,
            clock=time.monotonic,
            draw=random.random,
        )

    def _keep(self, accepted: Accepted) -> Acceptance:
        self._kept = accepted.seen
        return accepted.acceptance

    def _shown(self, seen: Seen) -> dict[str, Any] | None:
        """A copy: what is kept stays as it is stored."""
        self._kept = seen
        return copy.deepcopy(seen.content)

    def _complete(self, body: dict[str, Any], read: Mapping[str, Any]) -> dict[str, Any]:
        """The item with its partition key; `read` is the container's definition of it."""
        if self._key is None:
            self._key = ItemKey(self._partition_key, read, self._name, "a gate guards one item: leave it out")
            for path in self._key.paths:
                if path.strip('/"') in (self._field, PROPERTY):
                    raise UsageError(
                        f"field={self._field!r} is of the partition key: keep the fence in another"
                    )
        self._key.fill(body)
        self._key.check(body, "the content")
        return body


def _checked_id(item_id: object) -> str:
    if not isinstance(item_id, str) or not item_id:
        raise UsageError(f"item_id is {item_id!r:.100}: give the id of the item that is guarded")
    if _ILLEGAL.intersection(item_id) or not item_id.isprintable() or item_id.endswith(" "):
        raise UsageError(
            f"item_id is {item_id!r:.100}: an id has no / \\ ? #, no control characters, no space at its end"
        )
    if len(item_id.encode("utf-8", "surrogatepass")) > _LONGEST_ID:
        raise UsageError(f"item_id has more than {_LONGEST_ID:,} bytes, the most that an id can have")
    return item_id
