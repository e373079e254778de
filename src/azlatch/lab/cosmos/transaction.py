"""Operations on the items of one logical partition: alone or together, all of them or none.

Each reads what the ones before it have done, and nothing is written until all have succeeded. A point
operation is a transaction of one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from azlatch.lab.cosmos import charges, errors, item, patch
from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.partition import PhysicalPartition
from azlatch.lab.cosmos.replication import Entry
from azlatch.lab.cosmos.resource_id import child_id
from azlatch.lab.cosmos.store import Store
from azlatch.lab.cosmos.versions import Version, View
from azlatch.lab.cosmos.wire import encode

Act = Literal["create", "upsert", "read", "replace", "patch", "delete"]

#: Says whether a patch's condition holds for a document.
Holds = Callable[[str, dict[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `document` is for create, upsert and replace; `body` as it was sent is for patch."""

    act: Act
    name: str = ""
    document: Any = None
    body: bytes = b""
    if_match: str = ""
    if_none_match: str = ""
    #: Bytes of what was sent.
    size: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an operation came to."""

    status: int
    charge: float
    etag: str = ""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Key:
    """A partition key value in its forms."""

    values: tuple[Any, ...]
    text: str
    epk: str


class Transaction:
    """Operations on one logical partition, as a replica with `view` sees it."""

    def __init__(
        self,
        store: Store,
        part: PhysicalPartition,
        key: Key,
        view: View,
        *,
        source: int,
        now: float,
        etag: Callable[[float], str],
        holds: Holds,
        level: str,
        largest_key: int,
    ) -> None:
        self._store = store
        self._part = part
        self._key = key
        self._view = view
        self._source = source
        self._now = now
        self._etag = etag
        self._holds = holds
        self._level = level
        self._largest_key = largest_key
        self._changes: dict[str, Version] = {}
        self._rids: dict[str, int] = {}

    def run(self, operation: Operation) -> Outcome:
        """Carries one out, as far as the others of the transaction are concerned.

        Raises:
            ServiceError: it cannot be; nothing of it was done. `charge` says what that costs.
        """
        return _ACTS[operation.act](self, operation)

    def commit(self) -> Entry | None:
        """Writes what there is to write, with one LSN; None if there is nothing."""
        if not self._changes:
            return None
        self._check_room()
        key = self._part.logical(self._key.text, self._key.values, self._key.epk)
        return self._part.write(key, self._changes, self._rids, self._now, self._view)

    # -- the acts ------------------------------------------------------------------------------------

    def _create(self, operation: Operation) -> Outcome:
        document = self._checked(operation)
        name = str(document["id"])
        if self._current(name) is not None:
            raise errors.exists()
        return self._put(name, document, None, 201)

    def _upsert(self, operation: Operation) -> Outcome:
        document = self._checked(operation)
        name = str(document["id"])
        old = self._current(name)
        if old is None:
            # With If-Match, too: that is how the service does it.
            return self._put(name, document, None, 201)
        _check_etag(operation, old)
        return self._put(name, document, old, 200)

    def _read(self, operation: Operation) -> Outcome:
        found = self._found(operation.name)
        if operation.if_none_match and operation.if_none_match in (found.etag, "*"):
            return Outcome(304, charges.read(0, self._level), found.etag)
        if operation.if_match and operation.if_match not in (found.etag, "*"):
            raise errors.precondition()
        body = found.body or b""
        return Outcome(200, charges.read(len(body), self._level), found.etag, body)

    def _replace(self, operation: Operation) -> Outcome:
        old = self._found(operation.name)
        _check_etag(operation, old)
        document = self._checked(operation)
        name = str(document["id"])
        if name != operation.name:
            # The id may be changed so: the item keeps its resource id.
            if self._current(name) is not None:
                raise errors.exists()
            self._rids[name] = self._number(operation.name)
            # Another item of the old id, in the same transaction, gets a number of its own.
            del self._rids[operation.name]
            self._remove(operation.name, old)
        return self._put(name, document, old, 200)

    def _patch(self, operation: Operation) -> Outcome:
        condition, steps = patch.parse_body(operation.body)
        old = self._found(operation.name)
        _check_etag(operation, old)
        if condition is not None and not self._holds(condition, old.document):
            raise errors.precondition()
        document = patch.apply(old.document, steps, partition_key=self._store.resource.definition.parts)
        self._store.resource.definition.check_match(self._key.values, document)
        item.check_item(document, len(encode(document)))
        return self._put(operation.name, document, old, 200)

    def _delete(self, operation: Operation) -> Outcome:
        old = self._found(operation.name)
        _check_etag(operation, old)
        self._remove(operation.name, old)
        indexed = self._store.indexing.terms(old.document)
        return Outcome(204, charges.delete(len(old.body or b""), indexed))

    # -- what they share -----------------------------------------------------------------------------

    def _checked(self, operation: Operation) -> dict[str, Any]:
        document = operation.document
        item.check_item(document, operation.size)
        self._store.resource.definition.check_match(self._key.values, document)
        checked: dict[str, Any] = document
        return checked

    def _current(self, name: str) -> Version | None:
        """The item as the transaction sees it."""
        version = self._changes.get(name)
        if version is None:
            history = self._part.find(self._key.text, name)
            version = history.show(self._view) if history is not None else None
        return version if version is not None and version.lives(self._now) else None

    def _found(self, name: str) -> Version:
        version = self._current(name)
        if version is None:
            raise errors.not_found()
        return version

    def _number(self, name: str) -> int:
        """The number of an item: the one that it has, else a new one."""
        if name not in self._rids:
            history = self._part.find(self._key.text, name)
            kept = history is not None and self._current(name) is not None and name not in self._changes
            self._rids[name] = history.number if history is not None and kept else next(self._store.numbers)
        return self._rids[name]

    def _put(self, name: str, document: dict[str, Any], old: Version | None, status: int) -> Outcome:
        container = self._store.resource
        rid = child_id(container.rid, "docs", self._number(name))
        self._check_unique(name, document)
        etag, ts = self._etag(self._now), int(self._now)
        stored = item.with_system(document, rid, f"{container.self_link}docs/{rid}/", etag, ts)
        body = encode(stored)
        expires = item.expires_at(document, container.default_ttl, ts)
        self._changes[name] = Version(body, etag, ts, expires, self._source)
        indexed = self._store.indexing.terms(document)
        if old is None:
            charge = charges.create(len(body), indexed)
        else:
            charge = charges.replace(len(old.body or b""), len(body), indexed)
        return Outcome(status, charge, etag, body)

    def _remove(self, name: str, old: Version) -> None:
        self._changes[name] = Version(None, old.etag, int(self._now), None, self._source)

    def _check_unique(self, name: str, document: dict[str, Any]) -> None:
        """Raises where another item of the logical partition has the same values under a unique key."""
        policy = self._store.unique
        if not policy.paths:
            return
        keys = policy.keys_of(document)
        key = self._part.keys.get(self._key.text)
        if key is not None and key.unique is not None:
            key.unique.check(keys, name, self._changes)
        for other, version in self._changes.items():
            if other != name and version.body is not None:
                taken = policy.keys_of(version.document)
                if any(mine == theirs for mine, theirs in zip(keys, taken, strict=True)):
                    raise errors.unique_key()

    def _check_room(self) -> None:
        """Raises where the logical partition would be over its limit."""
        key = self._part.keys.get(self._key.text)
        size = key.size if key is not None else 0
        grows = 0
        for name, version in self._changes.items():
            old = key.items[name].show(self._view) if key is not None and name in key.items else None
            grows += len(version.body or b"") - len((old.body if old is not None else b"") or b"")
        if grows > 0 and size + grows > self._largest_key:
            raise ServiceError(403, "Partition key reached maximum size of 20 GB", 1014)


def _check_etag(operation: Operation, old: Version) -> None:
    if operation.if_match and operation.if_match not in (old.etag, "*"):
        raise errors.precondition()
    if operation.if_none_match and operation.if_none_match in (old.etag, "*"):
        raise errors.precondition()


_ACTS: dict[Act, Callable[[Transaction, Operation], Outcome]] = {
    "create": Transaction._create,
    "upsert": Transaction._upsert,
    "read": Transaction._read,
    "replace": Transaction._replace,
    "patch": Transaction._patch,
    "delete": Transaction._delete,
}
