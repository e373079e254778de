"""What of an item is indexed: for the price of a write, not for queries, which find everything anyway.

By the documentation ("Indexing policies"): `/a/b/?` is the scalar there, `/a/b/*` everything below, `[]` any
element of an array; of several paths that fit, the most precise one counts; `indexingMode` none indexes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from azlatch.lab.cosmos.item import SYSTEM_PROPERTIES

_SYSTEM = frozenset(SYSTEM_PROPERTIES)


@dataclass(slots=True)
class _Node:
    """A part of a path: whether what is below it, and the scalar right here, are indexed; None leaves it to
    others.
    """

    below: bool | None = None
    here: bool | None = None
    parts: dict[str, _Node] = field(default_factory=dict)


class Indexing:
    """The indexing policy of a container.

    Args:
        policy: `indexingPolicy` of the container, or None for the default, which indexes everything. What it
        has that
            is no path counts for nothing.
    """

    def __init__(self, policy: Mapping[str, Any] | None = None) -> None:
        policy = policy or {}
        mode = policy.get("indexingMode", "consistent")
        self._none = isinstance(mode, str) and mode.lower() == "none"
        self._root = _Node(below="includedPaths" not in policy and "excludedPaths" not in policy)
        included, excluded = _paths(policy, "includedPaths"), _paths(policy, "excludedPaths")
        for paths, indexed in ((included, True), (excluded, False)):
            for path in paths:
                self._add(path, indexed)
        # What is below no path of either list is not indexed, unless a policy only says what is not.
        if not included and excluded and not any(each == "/*" for each in excluded):
            self._root.below = True
        self._all = not self._none and bool(self._root.below) and _is_flat(self._root)

    def terms(self, document: Mapping[str, Any]) -> int:
        """How many values of an item are indexed; the service's own properties are not counted."""
        if self._none:
            return 0
        if self._all:
            return sum([_leaves(each) for name, each in document.items() if name not in _SYSTEM])
        total = 0
        for name, each in document.items():
            if name not in _SYSTEM:
                total += _count(each, self._root.parts.get(name), bool(self._root.below))
        return total

    def _add(self, path: str, indexed: bool) -> None:
        node = self._root
        *parts, last = path.strip("/").split("/")
        for part in parts:
            node = node.parts.setdefault(part.strip("\"'"), _Node())
        if last == "*":
            node.below = indexed
        elif last == "?":
            node.here = indexed


def _paths(policy: Mapping[str, Any], name: str) -> list[str]:
    given = policy.get(name)
    paths = [each.get("path") for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []
    return [each for each in paths if isinstance(each, str)]


def _is_flat(root: _Node) -> bool:
    """Whether there are no paths but those of the service's own properties."""
    return all(name in _SYSTEM for name in root.parts)


def _leaves(value: Any) -> int:
    if isinstance(value, dict):
        return sum([_leaves(each) for each in value.values()])
    if isinstance(value, list):
        return sum([_leaves(each) for each in value])
    return 1


def _count(value: Any, node: _Node | None, below: bool) -> int:
    if node is None:
        return _leaves(value) if below else 0
    if node.below is not None:
        below = node.below
    if isinstance(value, dict):
        inner: Iterable[tuple[str, Any]] = value.items()
    elif isinstance(value, list):
        inner = [("[]", each) for each in value]
    else:
        return int(below if node.here is None else node.here)
    return sum([_count(each, node.parts.get(name), below) for name, each in inner])
