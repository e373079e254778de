"""What a gate keeps in the item that it guards: the newest fence, and which writes came last.

Beside the fence the item has one property of ours, `azlatch_gate`: one text, so that it is one entry of the
index, of the number of the last write and the last sixteen of them, the newest last, each as `ID.FENCE`. As the
writes are numbered and each is conditional on the version before it, the item tells of a write whose answer was
lost: the one with the next number after the version that it was conditional on is it, or is another, and then
it never came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from azlatch.errors import UsageError
from azlatch.gates.cosmos_fence import stored_fence
from azlatch.gates.fence import Acceptance

PROPERTY = "azlatch_gate"
#: How many writes an item tells of.
KEPT = 16
_TEXT = re.compile(r"(\d{1,15})((?: [\w-]{8}\.\d{1,16}){0,16})", re.ASCII)
_OF_THE_SERVICE = frozenset({"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"})


class Entry(NamedTuple):
    """One write: its id, and the fence that it came with."""

    write: str
    fence: int


class Seen(NamedTuple):
    """The guarded item as it was read; `etag` is None where there is none."""

    etag: str | None = None
    fence: int | None = None
    order: int = 0
    entries: tuple[Entry, ...] = ()
    content: dict[str, Any] | None = None

    def write_of(self, number: int) -> str | None:
        """The id of the write with this number; None where it is not known any more, or did not come yet."""
        place = number - self.order - 1
        return self.entries[place].write if -len(self.entries) <= place < 0 else None

    def history(self) -> tuple[Acceptance, ...]:
        """The writes that it tells of, in their order."""
        first = self.order - len(self.entries) + 1
        return tuple(Acceptance(first + place, each.fence) for place, each in enumerate(self.entries))


class Record:
    """How one gate writes itself into its item.

    Args:
        item_id: of the guarded item.
        field: where the fence stands.
        gate: the gate in words.
    """

    def __init__(self, item_id: str, field: str, gate: str) -> None:
        self._id = item_id
        self._field = field
        self._gate = gate

    def seen(self, item: Mapping[str, Any], etag: str | None = None) -> Seen:
        """The item, taken apart.

        Raises:
            UsageError: what the gate keeps in it was changed by hand, or it was not read whole.
        """
        version = etag or item.get("_etag")
        if not isinstance(version, str) or not version:
            raise UsageError(f"the item of {self._gate} came without _etag: a gate needs whole items")
        order, entries = self._history(item.get(PROPERTY))
        own = {*_OF_THE_SERVICE, PROPERTY, self._field, "ttl"}
        content = {name: value for name, value in item.items() if name not in own}
        return Seen(version, stored_fence(item, self._field, self._gate), order, entries, content)

    def body(self, content: object, before: Seen, fence: int, write: str) -> dict[str, Any]:
        """The item with new content, after one more write.

        Raises:
            UsageError: the content cannot be written.
        """
        entries = (*before.entries, Entry(write, fence))[-KEPT:]
        told = " ".join((str(before.order + 1), *(f"{each.write}.{each.fence}" for each in entries)))
        # For ever, whatever the container says: an item that expires takes the fence with it.
        return {**self._checked(content), self._field: fence, PROPERTY: told, "ttl": -1}

    def _history(self, text: object) -> tuple[int, tuple[Entry, ...]]:
        if text is None:
            return 0, ()
        found = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise UsageError(f"{PROPERTY!r} of {self._gate} was changed by hand. Nothing was written")
        pairs = (each.split(".") for each in found[2].split())
        return int(found[1]), tuple(Entry(write, int(fence)) for write, fence in pairs)

    def _checked(self, content: object) -> dict[str, Any]:
        if not isinstance(content, Mapping):
            raise UsageError(f"{self._gate} got a {type(content).__name__}: an item is a dict")
        try:
            copy: dict[str, Any] = json.loads(json.dumps(dict(content), allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"the content for {self._gate} is no JSON: {error}") from None
        copy = {name: value for name, value in copy.items() if name not in _OF_THE_SERVICE}
        if copy.setdefault("id", self._id) != self._id:
            raise UsageError(f"the content for {self._gate} has the id {copy['id']!r:.100}: leave it out")
        for name in (self._field, PROPERTY):
            if name in copy:
                raise UsageError(
                    f"the content for {self._gate} has {name!r}, which is the gate's own: leave it out"
                    + (", or give the gate another field" if name == self._field else "")
                )
        if copy.get("ttl", -1) != -1:
            raise UsageError(
                f"the content for {self._gate} has ttl={copy['ttl']!r:.40}: an item that expires takes its "
                "fence with it, and the gate would let an old one in; leave it out"
            )
        return copy
