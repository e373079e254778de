"""Unique keys: values that no two items of a logical partition have in common.

By the documentation ("Unique key constraints"): up to 10 constraints of up to 16 paths each; a value that is
absent counts as a value of its own (so one item may lack it), and here as the same one as null; numbers
compare as doubles; the policy cannot change after the container was made. What an object or an array at such
a path counts for is not documented: here it is its content.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from azlatch.lab.cosmos.effective_key import UNDEFINED
from azlatch.lab.cosmos.errors import bad_request, unique_key
from azlatch.lab.cosmos.paths import parts_of, value_at

#: Most constraints of a policy, and paths of a constraint.
MOST_CONSTRAINTS = 10
MOST_PATHS = 16

#: The values of one item: for each constraint one tuple that compares and hashes as the values do.
Keys = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class UniqueKeyPolicy:
    """The constraints of a container: paths, and the same taken apart."""

    paths: tuple[tuple[str, ...], ...] = ()
    parts: tuple[tuple[tuple[str, ...], ...], ...] = ()

    @classmethod
    def of(cls, json: Any) -> UniqueKeyPolicy:
        """From the `uniqueKeyPolicy` of a container; None and no constraints are one.

        Raises:
            ServiceError: 400 for what the service does not take.
        """
        if json is None:
            return cls()
        keys = json.get("uniqueKeys", []) if isinstance(json, Mapping) else None
        if not isinstance(keys, list):
            raise bad_request("The unique key policy must be an object with an array of uniqueKeys.")
        if len(keys) > MOST_CONSTRAINTS:
            raise bad_request(f"The unique key policy has more than {MOST_CONSTRAINTS} unique keys.")
        paths = tuple([_paths_of(each) for each in keys])
        parts = tuple([tuple([parts_of(path) for path in each]) for each in paths])
        if len({frozenset(each) for each in parts}) < len(parts):
            raise bad_request("The unique key policy has the same unique key twice.")
        if any(len(set(each)) < len(each) for each in parts):
            raise bad_request("A unique key has the same path twice.")
        return cls(paths, parts)

    def to_json(self) -> dict[str, Any]:
        """As the service shows it."""
        return {"uniqueKeys": [{"paths": list(each)} for each in self.paths]}

    def keys_of(self, document: Mapping[str, Any]) -> Keys:
        """The values of a document, for each constraint."""
        return tuple([tuple([_comparable(value_at(document, each)) for each in paths]) for paths in self.parts])


class UniqueIndex:
    """The unique values of one logical partition, and which item has them."""

    def __init__(self, constraints: int) -> None:
        self._owners: tuple[dict[tuple[Any, ...], str], ...] = tuple([{} for _ in range(constraints)])

    def check(self, keys: Keys, owner: str, changed: Container[str] = ()) -> None:
        """Nobody but `owner` has any of the values.

        Args:
            keys: from `keys_of` of the container's policy.
            owner: the id of the item that is to be written.
            changed: items that are written with it, whose values of before do not count.

        Raises:
            ServiceError: 409/3301 if somebody has.
        """
        for owners, key in zip(self._owners, keys, strict=True):
            found = owners.get(key, owner)
            if found != owner and found not in changed:
                raise unique_key()

    def add(self, keys: Keys, owner: str) -> None:
        """The item has the values from now on: all of them, or none if it raises.

        Raises:
            ServiceError: 409/3301 if another item has one of them.
        """
        self.check(keys, owner)
        for owners, key in zip(self._owners, keys, strict=True):
            owners[key] = owner

    def put(self, keys: Keys, owner: str) -> None:
        """The item has the values from now on, whoever had them: where it was decided without this index."""
        for owners, key in zip(self._owners, keys, strict=True):
            owners[key] = owner

    def remove(self, keys: Keys, owner: str) -> None:
        """The item has the values no longer; what it does not have is left alone."""
        for owners, key in zip(self._owners, keys, strict=True):
            if owners.get(key) == owner:
                del owners[key]

    def replace(self, before: Keys, after: Keys, owner: str) -> None:
        """The item has other values from now on: all of them, or the old ones if it raises.

        Raises:
            ServiceError: 409/3301 if another item has one of them.
        """
        if before == after:
            return
        self.check(after, owner)
        self.remove(before, owner)
        self.add(after, owner)

    def __len__(self) -> int:
        """How many values are taken, over all constraints."""
        return sum([len(each) for each in self._owners])


def _paths_of(json: Any) -> tuple[str, ...]:
    paths = json.get("paths") if isinstance(json, Mapping) else None
    if not isinstance(paths, list) or not paths or not all(isinstance(each, str) for each in paths):
        raise bad_request("A unique key must have an array of paths.")
    if len(paths) > MOST_PATHS:
        raise bad_request(f"A unique key has more than {MOST_PATHS} paths.")
    return tuple(paths)


def _comparable(value: Any) -> Any:
    """What equals and hashes as the service compares: by type, then value; `True` is not 1 here."""
    if value is None or value is UNDEFINED:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, dict):
        return ("object", frozenset([(name, _comparable(each)) for name, each in value.items()]))
    return ("array", tuple([_comparable(each) for each in value]))
