"""Unique keys: values that no two items of a logical partition may share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from azlatch.lab.cosmos.wire import encode

#: One value of a unique key: which of the container's keys, and the values as JSON.
Entry = tuple[int, bytes]


def keys_of(policies: Sequence[Sequence[str]], document: dict[str, Any]) -> list[Entry]:
    """What a document holds under each unique key of a container.

    A path that is not there counts as null, as in the service: one item at most may lack it.
    """
    return [
        (number, encode([_value(document, path) for path in paths])) for number, paths in enumerate(policies)
    ]


def _value(document: Any, path: str) -> Any:
    found = document
    for name in path.strip("/").split("/"):
        found = found.get(name) if isinstance(found, dict) else None
    # 1 and 1.0 are one number to the service.
    if isinstance(found, int) and not isinstance(found, bool):
        return float(found) if abs(found) < 2**53 else found
    return found


class UniqueIndex:
    """Which item of a logical partition has which values."""

    def __init__(self, policies: Sequence[Sequence[str]]) -> None:
        self._policies = policies
        self._owners: dict[Entry, str] = {}

    def owner(self, entry: Entry) -> str | None:
        """The id of the item that has these values."""
        return self._owners.get(entry)

    def add(self, name: str, document: dict[str, Any]) -> None:
        """An item is there."""
        for entry in keys_of(self._policies, document):
            self._owners[entry] = name

    def remove(self, name: str, document: dict[str, Any]) -> None:
        """An item is gone."""
        for entry in keys_of(self._policies, document):
            if self._owners.get(entry) == name:
                del self._owners[entry]
