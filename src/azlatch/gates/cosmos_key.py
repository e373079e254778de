"""The partition key that writes are for, and whether an item has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from azlatch.errors import UsageError


class _Missing:
    """Stands for a partition key value that an item does not have."""

    def __repr__(self) -> str:
        return "no value"


MISSING: Final = _Missing()


def parts_of(path: str) -> list[str]:
    """A path of a container's definition, taken apart: `/a/b`, or `/"a b"/c`.

    Raises:
        UsageError: the definition has a path that is none.
    """
    parts: list[str] = []
    rest = path
    while rest:
        if not rest.startswith("/") or len(rest) < 2:
            raise UsageError(f"the container has the path {path!r}, which cannot be read")
        if rest[1] in "\"'":
            end = rest.find(rest[1], 2)
            if end < 0:
                raise UsageError(f"the container has the path {path!r}, which cannot be read")
            parts.append(rest[2:end])
            rest = rest[end + 1 :]
        else:
            part, slash, more = rest[1:].partition("/")
            parts.append(part)
            rest = slash + more
    return parts


def value_at(body: Mapping[str, Any], parts: Sequence[str]) -> object:
    """What an item has at a path; MISSING where there is nothing."""
    found: object = body
    for part in parts:
        if not isinstance(found, Mapping) or part not in found:
            return MISSING
        found = found[part]
    return found


def put_at(body: dict[str, Any], parts: Sequence[str], value: object) -> None:
    """Puts a value at a path where there is none yet; where something else is in the way it stays."""
    for part in parts[:-1]:
        body = body.setdefault(part, {})
        if not isinstance(body, dict):
            return
    body.setdefault(parts[-1], value)


class ItemKey:
    """The value of a partition key, by the definition of its container.

    Args:
        value: as the SDK takes it.
        definition: the container's `partitionKey`.
        whose: who needs the value, for messages.
        advice: what to do with items of other keys.

    Raises:
        UsageError: the value is not one that the container can have.
    """

    def __init__(self, value: object, definition: Mapping[str, Any], whose: str, advice: str) -> None:
        self._whose = whose
        self._advice = advice
        self.paths: list[str] = [str(each) for each in definition.get("paths") or ()]
        if not self.paths:
            raise UsageError(f"the container has no partition key: {whose} needs one")
        self._parts = [parts_of(each) for each in self.paths]
        self.values = self._values(value)

    def _values(self, value: object) -> tuple[object, ...]:
        hierarchical = isinstance(value, list | tuple)
        if getattr(value, "__name__", "") == "NonePartitionKeyValue":
            return (MISSING,) * len(self.paths)
        given = list(value) if isinstance(value, list | tuple) else [value]
        if hierarchical and len(self.paths) == 1:
            raise UsageError(
                f"the partition key {value!r:.200} has levels, and the container has one path, "
                f"{self.paths[0]}: give its value alone"
            )
        if len(given) != len(self.paths):
            raise UsageError(
                f"the partition key {value!r:.200} has {len(given)} of the container's {len(self.paths)} "
                f"levels ({', '.join(self.paths)}): {self._whose} needs all of them"
            )
        return tuple(_component(each) for each in given)

    def check(self, body: Mapping[str, Any], where: str) -> None:
        """Raises UsageError where an item has another partition key."""
        for path, parts, wanted in zip(self.paths, self._parts, self.values, strict=True):
            found = value_at(body, parts)
            if not _same(found, wanted):
                raise UsageError(
                    f"{where} has {found!r:.200} at {path}, and {self._whose} is for {wanted!r:.200}: "
                    f"{self._advice}"
                )

    def fill(self, body: dict[str, Any]) -> dict[str, Any]:
        """Gives an item that lacks it the partition key."""
        for parts, value in zip(self._parts, self.values, strict=True):
            if value is not MISSING:
                put_at(body, parts, value)
        return body


def _component(value: object) -> object:
    name = getattr(value, "__name__", "")
    if name == "NonePartitionKeyValue" or value == {}:
        return MISSING
    if name == "NullPartitionKeyValue":
        return None
    if value is None or isinstance(value, bool | str | int | float):
        return value
    raise UsageError(
        f"the partition key has a {type(value).__name__}: its values are texts, numbers, True, False, None or "
        "NonePartitionKeyValue"
    )


def _same(found: object, wanted: object) -> bool:
    """Equal as JSON: True is not 1, 1 is 1.0."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return found == wanted
    return type(found) is type(wanted) and found == wanted
