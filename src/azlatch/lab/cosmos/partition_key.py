"""The partition key of a container: its definition, and the values that items and requests have for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from azlatch.lab.cosmos.effective_key import UNDEFINED, effective_key
from azlatch.lab.cosmos.effective_key import prefix_range as _prefix_range
from azlatch.lab.cosmos.errors import ServiceError, bad_request
from azlatch.lab.cosmos.paths import parts_of, value_at

#: Most levels of a hierarchical partition key.
_MOST_LEVELS = 3
#: Longest string as a value, bytes in UTF-8. Version 1 takes longer ones than it hashes, too (documentation of
#: large partition keys): what is beyond its 101 bytes does not decide where they go.
_MOST_BYTES = 2_048
#: Longest header that is looked at, characters: three values of which every byte is escaped, and some.
_MOST_HEADER = 64_000

#: The substatus of 400 for a partition key that is not the document's or the container's.
MISMATCH = 1001

_NOT_THE_DOCUMENTS = "PartitionKey extracted from document doesn't match the one specified in the header"
#: The service's own words, the doubled one included.
_COUNT = (
    "The partition key supplied in x-ms-partitionkey header has {} components than defined in the the "
    "collection."
)
_NO_KEY = "The partition key supplied in x-ms-partitionkey header is not a JSON array of scalars."


@dataclass(frozen=True, slots=True)
class PartitionKeyDefinition:
    """By which paths a container is partitioned, and how their values are hashed.

    Values are tuples of str, bool, None, float and `UNDEFINED`. In Python `(True,) == (1.0,)`, so what tells
    logical partitions apart is `text` or `epk`, never a dictionary of values.
    """

    paths: tuple[str, ...]
    kind: str
    version: int
    system_key: bool = False
    #: The paths, taken apart.
    parts: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, json: Any) -> PartitionKeyDefinition:
        """From the `partitionKey` of a container.

        `kind` is Hash if it is left away. So is `version` 1, by the documentation and the SDK (which reads a
        missing version as 1), but 2 for MultiHash, which has no other.

        Raises:
            ServiceError: 400 for what the service does not take.
        """
        if not isinstance(json, Mapping):
            raise bad_request("The partition key definition must be an object.")
        kind = json.get("kind", "Hash")
        if kind not in ("Hash", "MultiHash"):
            raise bad_request("The partition key kind must be Hash or MultiHash.")
        paths = json.get("paths")
        if not isinstance(paths, list) or not all(isinstance(each, str) for each in paths):
            raise bad_request("The partition key definition must have an array of paths.")
        _check_levels(kind, paths)
        version = json.get("version", 2 if kind == "MultiHash" else 1)
        if type(version) is not int or version not in (1, 2) or (kind == "MultiHash" and version != 2):
            raise bad_request("The partition key version must be 1 or 2, and 2 for MultiHash.")
        system_key = json.get("systemKey", False)
        if not isinstance(system_key, bool):
            raise bad_request("systemKey of the partition key definition must be true or false.")
        parts = tuple([parts_of(each) for each in paths])
        if len(set(parts)) < len(parts):
            raise bad_request("The partition key definition has the same path twice.")
        return cls(tuple(paths), kind, version, system_key, parts)

    def to_json(self) -> dict[str, Any]:
        """As the service shows it."""
        json: dict[str, Any] = {"paths": list(self.paths), "kind": self.kind, "version": self.version}
        if self.system_key:
            json["systemKey"] = True
        return json

    def values_of(self, document: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values that a document has; `UNDEFINED` where it has none, or has an object.

        A document without a value in a container with a system key has no component at all.

        Raises:
            ServiceError: 400 for an array, a number beyond the doubles or a string that is too long.
        """
        found = [value_at(document, parts) for parts in self.parts]
        if self.system_key and all(each is UNDEFINED for each in found):
            return ()
        return tuple([UNDEFINED if isinstance(each, dict) else self._component(each) for each in found])

    def values_of_header(self, text: str, *, prefix: bool = False) -> tuple[Any, ...]:
        """The values in the header x-ms-documentdb-partitionkey; `{}` in it is `UNDEFINED`.

        `[]` is no value: what the SDK sends for a container with a system key, and elsewhere no key at all.
        With `prefix`, which is for queries, there may be fewer values than levels, and `[[]]`, as which the
        SDK sends an empty list, is no value either.

        Raises:
            ServiceError: 400 for what is no array of scalars, 400/1001 for the wrong number of them.
        """
        values = _decoded(text)
        if not values or (prefix and values == [[]]):
            return ()
        if len(values) > len(self.paths):
            raise bad_request(_COUNT.format("more"), MISMATCH)
        if len(values) < len(self.paths) and not (prefix and self.kind == "MultiHash"):
            raise bad_request(_COUNT.format("fewer"), MISMATCH)
        return tuple([UNDEFINED if each == {} else self._component(each) for each in values])

    def check_match(self, header_values: tuple[Any, ...], document: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values of the document, which must be those of the header.

        Raises:
            ServiceError: 400/1001 if they are not.
        """
        values = self.values_of(document)
        if len(values) != len(header_values) or not all(map(_same, values, header_values)):
            raise bad_request(_NOT_THE_DOCUMENTS, MISMATCH)
        return values

    def epk(self, values: tuple[Any, ...]) -> str:
        """The effective partition key of the values."""
        return effective_key(values, version=self.version, kind=self.kind)

    def epk_range(self, values: tuple[Any, ...]) -> tuple[str, str]:
        """The range, without its upper end, of the keys that begin with the values.

        It holds one key if the values are complete, and all keys if there are none.
        """
        if not values and not self.system_key:
            return "", "FF"
        if self.kind == "MultiHash" and len(values) < len(self.paths):
            return _prefix_range(values, version=self.version, kind=self.kind)
        low = self.epk(values)
        # Nothing lies between a key and the same key with two more digits.
        return low, low + "00"

    def text(self, values: tuple[Any, ...]) -> str:
        """The values as the JSON array that names the logical partition: one text for one partition."""
        return msgspec.json.encode([_written(each) for each in values]).decode()

    def _component(self, value: Any) -> Any:
        if isinstance(value, str):
            if len(value) * 3 > _MOST_BYTES:
                _check_length(value)
            return value
        if value is None or value is UNDEFINED or isinstance(value, bool):
            return value
        if isinstance(value, (int, float)):
            try:
                # Adding nothing makes of -0.0 what equals it.
                return float(value) + 0.0
            except OverflowError:
                raise bad_request("A number in the partition key is out of range.") from None
        raise bad_request(_NO_KEY)


def _check_length(value: str) -> None:
    if len(value.encode("utf-8", "surrogatepass")) > _MOST_BYTES:
        raise bad_request(f"The partition key value is longer than the {_MOST_BYTES} bytes that it may have.")


def _check_levels(kind: str, paths: list[str]) -> None:
    most = 1 if kind == "Hash" else _MOST_LEVELS
    if len(paths) > most:
        raise bad_request(f"Too many partition key paths: {len(paths)} where {kind} has at most {most}.")
    if not paths:
        raise bad_request("The partition key definition has no path.")


def _decoded(text: str) -> list[Any]:
    try:
        if len(text) > _MOST_HEADER:
            raise ValueError("it is too long")
        values = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        raise _no_key() from None
    if not isinstance(values, list):
        raise _no_key()
    return values


def _no_key() -> ServiceError:
    return bad_request(_NO_KEY)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _written(value: Any) -> Any:
    if value is UNDEFINED:
        return {}
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
