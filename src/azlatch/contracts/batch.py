"""A batch as it is built: operations on items of one partition key, all of them or none.

Each call checks what it is given and keeps a copy. Nothing is sent before `execute`, which the drivers have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from azlatch.contracts import batch_checks as checks
from azlatch.contracts.batch_checks import UNSET, Unset
from azlatch.errors import UsageError
from azlatch.gates.cosmos_fence import check_field, cosmos_fence_of
from azlatch.gates.fence import FenceSource

OperationName = Literal["create", "replace", "upsert", "patch", "delete", "read"]

MOST_TTL = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a batch, checked."""

    name: OperationName
    item_id: str
    body: dict[str, Any] | None = None
    patches: list[dict[str, Any]] | None = None
    etag: str | None = None
    condition: str | None = None

    @property
    def writes(self) -> bool:
        return self.name != "read"

    def for_sdk(self) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """As `execute_item_batch` takes it. A new one for each send: the SDK empties the last part."""
        arguments: dict[str, tuple[Any, ...]] = {
            "create": (self.body,),
            "upsert": (self.body,),
            "replace": (self.item_id, self.body),
            "patch": (self.item_id, self.patches),
            "delete": (self.item_id,),
            "read": (self.item_id,),
        }
        options = {"if_match_etag": self.etag, "filter_predicate": self.condition}
        return self.name, arguments[self.name], {key: each for key, each in options.items() if each is not None}

    def for_wire(self) -> dict[str, Any]:
        """As it is sent: to measure it."""
        sent: dict[str, Any] = {"operationType": self.name.capitalize()}
        if self.name not in ("create", "upsert"):
            sent["id"] = self.item_id
        if self.patches is not None:
            sent["resourceBody"] = {"operations": self.patches}
            if self.condition is not None:
                sent["resourceBody"]["condition"] = self.condition
        elif self.body is not None:
            sent["resourceBody"] = self.body
        if self.etag is not None:
            sent["ifMatch"] = self.etag
        return sent


@dataclass(frozen=True, slots=True)
class Guard:
    """The gate of a batch: an item that keeps the newest fence."""

    source: FenceSource
    fence: int
    item_id: str
    field: str


@dataclass(frozen=True, slots=True)
class Once:
    """The marker of a batch: an item whose creation is part of it, so that it is applied once."""

    operation_id: str
    ttl_s: int | None

    @property
    def item_id(self) -> str:
        return f"azlatch-once-{self.operation_id}"


class BatchBuilder:
    """Operations for one partition key. The drivers add `execute`.

    Args:
        container: the user's own ContainerProxy of azure-cosmos.
        partition_key: as the SDK takes it: a value, a list for a hierarchical key, None for null, or
            NonePartitionKeyValue.
    """

    def __init__(self, container: Any, partition_key: Any) -> None:
        if not callable(getattr(container, "execute_item_batch", None)):
            raise UsageError(
                f"a batch is made of a ContainerProxy of azure-cosmos, not of a {type(container).__name__}"
            )
        self._container = container
        self._partition_key = partition_key
        self._operations: list[Operation] = []
        self._guard: Guard | None = None
        self._once: Once | None = None
        self._spent = ""

    def __len__(self) -> int:
        return len(self._operations)

    def create(self, body: Mapping[str, Any]) -> Self:
        """Creates an item; one that exists is already_exists (409).

        Raises:
            UsageError: as all of these do, for what the service would refuse.
        """
        return self._with_body("create", body)

    def upsert(self, body: Mapping[str, Any]) -> Self:
        """Creates an item or overwrites what is there, whoever wrote it; there is no guard for it."""
        return self._with_body("upsert", body)

    def replace(self, item_id: str, body: Mapping[str, Any], *, etag: str | Unset = UNSET) -> Self:
        """Replaces an item; with `etag` only the version that was read (412 otherwise)."""
        where = self._where("replace", item_id)
        checked = checks.check_body(body, where)
        checked.setdefault("id", checks.check_id(item_id, where))
        if checked["id"] != item_id:
            raise UsageError(
                f"{where} has the id {checked['id']!r:.100} in its body: a batch renames nothing; delete the "
                "one and create the other"
            )
        return self._add(Operation("replace", item_id, body=checked, etag=checks.check_etag(etag, where)))

    def patch(
        self,
        item_id: str,
        ops: Sequence[Mapping[str, Any]],
        *,
        condition: str | Unset = UNSET,
        etag: str | Unset = UNSET,
    ) -> Self:
        """Changes parts of an item; with `condition` (`from c where ...`) or `etag` only where that holds."""
        where = self._where("patch", item_id)
        return self._add(
            Operation(
                "patch",
                checks.check_id(item_id, where),
                patches=checks.check_patches(ops, where),
                etag=checks.check_etag(etag, where),
                condition=checks.check_condition(condition, where),
            )
        )

    def delete(self, item_id: str, *, etag: str | Unset = UNSET) -> Self:
        """Deletes an item; with `etag` only the version that was read."""
        where = self._where("delete", item_id)
        etag_or_none = checks.check_etag(etag, where)
        return self._add(Operation("delete", checks.check_id(item_id, where), etag=etag_or_none))

    def read(self, item_id: str) -> Self:
        """Reads an item as it is after the operations before it."""
        return self._add(Operation("read", checks.check_id(item_id, self._where("read", item_id))))

    def guard(self, hold: FenceSource, *, item_id: str = "azlatch-gate", field: str = "fence") -> Self:
        """Lets the service refuse the whole batch if a newer fence has written under this gate.

        The gate is an item under the batch's partition key, made at its first use, whose `field` is the newest
        fence. An equal or newer fence is let in and noted, in the same transaction as the data. Every writer of
        the data has to use the same gate.

        Raises:
            FenceRejected: the hold has no fence (`fence=False`).
            UsageError: it is no fence, or the batch has a guard already.
        """
        if self._guard is not None:
            raise UsageError(
                f"the batch has a guard already, {self._guard.item_id!r}: one gate is for the whole batch"
            )
        fence = cosmos_fence_of(hold)
        self._guard = Guard(hold, fence, checks.check_id(item_id, "guard"), check_field(field))
        return self

    def once(self, operation_id: str, *, ttl_s: int | None = 86_400) -> Self:
        """Makes the batch exactly once for this operation id: it can be sent again after an unknown outcome.

        A marker item is created in the same transaction; who finds it there knows that the batch was applied.
        It lives for `ttl_s` seconds (the container needs a time to live, -1 is enough), or for ever with None.

        Raises:
            UsageError: no id, a time to live that the service does not have, or `once` for the second time.
        """
        if self._once is not None:
            raise UsageError(f"the batch has the operation id {self._once.operation_id!r} already: it has one")
        if isinstance(ttl_s, bool) or (
            ttl_s is not None and not (isinstance(ttl_s, int) and 1 <= ttl_s <= MOST_TTL)
        ):
            raise UsageError(f"ttl_s={ttl_s!r}: give seconds, 1 to {MOST_TTL:,}, or None for ever")
        checks.check_id(operation_id, "once")
        made = Once(operation_id, ttl_s)
        checks.check_id(made.item_id, "the marker of once")
        self._once = made
        return self

    def _with_body(self, name: Literal["create", "upsert"], body: Mapping[str, Any]) -> Self:
        where = self._where(name, body.get("id") if isinstance(body, Mapping) else None)
        checked = checks.check_body(body, where)
        return self._add(Operation(name, checks.check_id(checked.get("id"), where), body=checked))

    def _where(self, name: str, item_id: object) -> str:
        named = f" {item_id!r:.100}" if isinstance(item_id, str) and item_id else ""
        return f"operation {len(self._operations) + 1} ({name}{named})"

    def _add(self, operation: Operation) -> Self:
        checks.check_count(len(self._operations) + 1, 0)
        self._operations.append(operation)
        return self
