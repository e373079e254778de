"""A batch as it goes out: the user's operations, before them the marker of `once` and the gate of `guard`.

The marker comes first, so that of several reasons to refuse a batch that was applied before, it is the one
that is told. Both are items under the batch's own partition key: there is no other way into the transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from azlatch.contracts import batch_checks as checks
from azlatch.contracts.batch import Guard, Once, Operation
from azlatch.contracts.batch_key import BatchKey
from azlatch.errors import UsageError
from azlatch.gates.cosmos_fence import fence_patch, fence_predicate
from azlatch.gates.cosmos_key import parts_of, put_at

#: The property by which our own items are told from the user's.
OURS = "azlatch"
#: The marker of an operation that was done; of one that was given up, which no late send of it can be any more.
APPLIED, VOID = "applied", "void"


class Plan:
    """What is sent, and how its answers map to what the user asked for.

    Args:
        operations, guard, once: as they were built.
        partition_key: of the batch.
        properties: of the container.
        run: random, one for each call of `execute`.
        deadline_s: how long it may be repeated.
        escaped: whether the SDK writes other characters than ASCII as escapes.

    Raises:
        UsageError: the service would refuse it.
    """

    def __init__(
        self,
        operations: list[Operation],
        guard: Guard | None,
        once: Once | None,
        partition_key: object,
        properties: Mapping[str, Any],
        *,
        run: str,
        deadline_s: float,
        escaped: bool,
    ) -> None:
        self.operations = operations
        self.guard = guard
        self.once = once
        self.key = BatchKey(partition_key, properties.get("partitionKey") or {})
        self._properties = properties
        self._run = run
        #: The etag of a marker that was void; None: there is none, it is created.
        self.void_etag: str | None = None
        self.gate_exists = True
        own = (guard is not None) + (once is not None)
        checks.check_count(len(operations) + own, own)
        self._check_items()
        self._check_once(deadline_s)
        checks.check_size([each.for_wire() for each in self.sent()], escaped=escaped)

    @property
    def writes(self) -> list[tuple[str, str]]:
        """Operation and id of each write of the user's."""
        return [(each.name, each.item_id) for each in self.operations if each.writes]

    @property
    def only_reads(self) -> bool:
        return not self.writes and self.guard is None and self.once is None

    def sent(self) -> list[Operation]:
        """All that goes out, in its order."""
        own: list[Operation] = []
        if self.once is not None:
            own.append(self.marker("applied"))
        if self.guard is not None:
            own.append(self._gate(self.guard))
        return [*own, *self.operations]

    def names(self) -> list[tuple[int | None, str, str]]:
        """Index, operation and item id of all that goes out; ours have no index."""
        named: list[tuple[int | None, str, str]] = []
        if self.once is not None:
            named.append((None, "once", self.once.item_id))
        if self.guard is not None:
            named.append((None, "guard", self.guard.item_id))
        return [*named, *((number, each.name, each.item_id) for number, each in enumerate(self.operations))]

    def marker(self, state: Literal["applied", "void"]) -> Operation:
        """Writes the marker: only if there is none, or over the void one that was seen."""
        assert self.once is not None
        body: dict[str, Any] = {
            "id": self.once.item_id,
            OURS: {"kind": "once", "state": state, "run": self._run, "operations": self._shape()},
        }
        if self.once.ttl_s is not None:
            body["ttl"] = self.once.ttl_s
        self._complete(body)
        if self.void_etag is None:
            return Operation("create", self.once.item_id, body=body)
        return Operation("replace", self.once.item_id, body=body, etag=self.void_etag)

    def is_own(self, marker: Mapping[str, Any]) -> bool:
        """Whether this very call of `execute` wrote a marker."""
        found = marker.get(OURS)
        return isinstance(found, Mapping) and found.get("run") == self._run

    def state_of(self, marker: Mapping[str, Any]) -> str:
        """`applied` or `void`.

        Raises:
            UsageError: the item is no marker, or one of another batch.
        """
        assert self.once is not None
        found = marker.get(OURS)
        if not isinstance(found, Mapping) or found.get("kind") != "once":
            raise UsageError(
                f"the item {self.once.item_id!r} is not one of azlatch: choose another operation id. Nothing "
                "was written"
            )
        if found.get("operations") != self._shape():
            raise UsageError(
                f"the operation id {self.once.operation_id!r} was used for a batch of other operations "
                f"({found.get('operations')!r:.200}): an operation has an id of its own. Nothing was written "
                "now"
            )
        return VOID if found.get("state") == VOID else APPLIED

    def _shape(self) -> str:
        # Not the contents: a program that starts again makes the same operation of newer versions and times.
        text = " ".join(f"{each.name}:{each.item_id}" for each in self.operations)
        if len(text) <= 256:
            return text
        import hashlib

        return f"{len(self.operations)} operations, sha256 {hashlib.sha256(text.encode()).hexdigest()}"

    def _gate(self, guard: Guard) -> Operation:
        if not self.gate_exists:
            # For ever, whatever the container says: a gate that expires would let an old fence in.
            body: dict[str, Any] = {
                "id": guard.item_id,
                guard.field: guard.fence,
                OURS: {"kind": "gate"},
                "ttl": -1,
            }
            return Operation("create", guard.item_id, body=self._complete(body))
        return Operation(
            "patch",
            guard.item_id,
            patches=fence_patch(guard.field, guard.fence),
            condition=fence_predicate(guard.field, guard.fence),
        )

    def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """With the partition key, and with values of its own under each unique key: two nulls would collide."""
        self.key.fill(body)
        for unique in (self._properties.get("uniqueKeyPolicy") or {}).get("uniqueKeys") or ():
            for path in unique.get("paths") or ():
                put_at(body, parts_of(path), body["id"])
        return body

    def _check_items(self) -> None:
        own = {each.item_id for each in (self.guard, self.once) if each is not None}
        if self.guard is not None and self.once is not None and len(own) == 1:
            raise UsageError(f"guard and once have the same item id, {self.guard.item_id!r}: give them two")
        if own and any(parts == ["id"] for parts in map(parts_of, self.key.paths)):
            raise UsageError(
                "the container's partition key is /id: there is no room for a second item, as guard and once "
                "need, under one key"
            )
        if self.guard is not None and any(
            parts[0] == self.guard.field for parts in map(parts_of, self.key.paths)
        ):
            raise UsageError(
                f"field={self.guard.field!r} is of the partition key: keep the fence in another field"
            )
        for number, each in enumerate(self.operations, 1):
            where = f"operation {number} ({each.name} {each.item_id!r:.100})"
            if each.item_id in own:
                raise UsageError(
                    f"{where} is on the item of guard or once, which is azlatch's alone: use another id"
                )
            if each.body is not None:
                self.key.check(each.body, where)
            for step in each.patches or ():
                self.key.check_patch(step, where)

    def _check_once(self, deadline_s: float) -> None:
        if self.once is None or self.once.ttl_s is None:
            return
        if self.once.ttl_s < deadline_s + 60:
            raise UsageError(
                f"ttl_s={self.once.ttl_s} of once is less than the deadline of {deadline_s:g} s and a minute: "
                "the marker has to outlive every repeat"
            )
        if self._properties.get("defaultTtl") is None:
            raise UsageError(
                f"once with ttl_s={self.once.ttl_s} wants a container that has a time to live, or the markers "
                "stay for ever: set its default_ttl to -1 (which lets nothing else expire), or give "
                "ttl_s=None"
            )
