"""Patches: Cosmos DB's dialect of JSON Patch (add, set, replace, remove, incr, move), and its limits."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

from azlatch.lab.cosmos.errors import bad_request
from azlatch.lab.cosmos.wire import decode

#: Operations of one patch.
MOST = 10
_MOST_PATH = 1_024
_SYSTEM = ("_rid", "_self", "_etag", "_attachments", "_ts")
_INT64 = 2**63

Container = dict[str, Any] | list[Any]


def parse_body(body: bytes) -> tuple[str | None, list[dict[str, Any]]]:
    """The condition and the operations of a request: ``{"condition"?: ..., "operations": [...]}``.

    Raises:
        ServiceError: 400, it is not one.
    """
    try:
        given = decode(body)
    except ValueError:
        raise bad_request("The patch request body is not valid JSON.") from None
    if isinstance(given, list):
        given = {"operations": given}
    if not isinstance(given, dict) or not isinstance(given.get("operations"), list):
        raise bad_request("The patch request has no operations.")
    condition = given.get("condition")
    if condition is not None and not isinstance(condition, str):
        raise bad_request("The condition of the patch is not a string.")
    operations = given["operations"]
    if not all(isinstance(each, dict) for each in operations):
        raise bad_request("An operation of the patch is not an object.")
    return condition or None, operations


def apply(
    document: dict[str, Any], operations: Sequence[dict[str, Any]], *, key_paths: Sequence[str] = ()
) -> dict[str, Any]:
    """The document after the operations, in their order; what was given stays as it is.

    Args:
        key_paths: the paths of the partition key, which no patch changes.

    Raises:
        ServiceError: 400, an operation cannot be done; nothing is.
    """
    if not operations:
        raise bad_request("The patch request has no operations.")
    if len(operations) > MOST:
        raise bad_request(f"The number of patch operations can't exceed '{MOST}'.")
    patched = copy.deepcopy(document)
    for each in operations:
        act = _ACTS.get(str(each.get("op", "")).lower())
        if act is None:
            raise bad_request("A patch operation has no valid op: add, set, replace, remove, incr or move.")
        act(patched, each, key_paths)
    return patched


def _path(given: Any, key_paths: Sequence[str]) -> list[str]:
    if not isinstance(given, str) or not given.startswith("/") or given == "/" or len(given) > _MOST_PATH:
        raise bad_request("A patch operation has no valid path: it starts with / and names a property.")
    parts = [each.replace("~1", "/").replace("~0", "~") for each in given[1:].split("/")]
    if parts[0] in _SYSTEM or parts == ["id"]:
        raise bad_request(f"The patch operation is not allowed on the system property '{given[:80]}'.")
    for path in key_paths:
        key = path.strip("/").replace('"', "").split("/")
        if parts[: len(key)] == key or key[: len(parts)] == parts:
            raise bad_request("The patch operation may not change the partition key.")
    return parts


def _parent(document: dict[str, Any], parts: Sequence[str]) -> Container:
    """What holds the last part of a path. Raises ServiceError 400 if there is nothing of the kind."""
    found: Any = document
    for part in parts[:-1]:
        if isinstance(found, list):
            found = found[_index(part, len(found) - 1)]
        elif isinstance(found, dict) and part in found:
            found = found[part]
        else:
            raise bad_request("A patch operation names a path whose parent does not exist.")
    if not isinstance(found, (dict, list)):
        raise bad_request("A patch operation names a path inside a value that is no object and no array.")
    return found


def _index(part: str, most: int) -> int:
    if not part.isdecimal() or len(part) > 9 or not 0 <= int(part) <= most:
        raise bad_request("A patch operation names an array index that is out of range.")
    return int(part)


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise bad_request("A patch operation has no value.")
    return copy.deepcopy(operation["value"])


def _put(holder: Container, part: str, value: Any, *, insert: bool) -> None:
    """Puts a value at a place; in an array `insert` moves what follows."""
    if isinstance(holder, dict):
        holder[part] = value
    elif part == "-":
        holder.append(value)
    elif insert:
        holder.insert(_index(part, len(holder)), value)
    else:
        at = _index(part, len(holder))
        holder[at : at + 1] = [value]


def _take(holder: Container, part: str, op: str) -> Any:
    if isinstance(holder, list):
        return holder.pop(_index(part, len(holder) - 1))
    if part not in holder:
        raise bad_request(f"{op} Operation can only be performed on an existing path.")
    return holder.pop(part)


def _add(document: dict[str, Any], operation: dict[str, Any], keys: Sequence[str]) -> None:
    parts = _path(operation.get("path"), keys)
    _put(_parent(document, parts), parts[-1], _value(operation), insert=True)


def _set(document: dict[str, Any], operation: dict[str, Any], keys: Sequence[str]) -> None:
    parts = _path(operation.get("path"), keys)
    _put(_parent(document, parts), parts[-1], _value(operation), insert=False)


def _replace(document: dict[str, Any], operation: dict[str, Any], keys: Sequence[str]) -> None:
    parts = _path(operation.get("path"), keys)
    holder, value = _parent(document, parts), _value(operation)
    if isinstance(holder, list):
        holder[_index(parts[-1], len(holder) - 1)] = value
    elif parts[-1] in holder:
        holder[parts[-1]] = value
    else:
        raise bad_request("Replace Operation can only be performed on an existing path.")


def _remove(document: dict[str, Any], operation: dict[str, Any], keys: Sequence[str]) -> None:
    parts = _path(operation.get("path"), keys)
    _take(_parent(document, parts), parts[-1], "Remove")


def _incr(document: dict[str, Any], operation: dict[str, Any], keys: Sequence[str]) -> None:
    parts = _path(operation.get("path"), keys)
    holder, step = _parent(document, parts), _value(operation)
    if isinstance(holder, list):
        at: Any = _index(parts[-1], len(holder) - 1)
        old: Any = holder[at]
    else:
        at, old = parts[-1], holder.get(parts[-1], 0)
    if not _is_number(step) or not _is_number(old):
        raise bad_request("Increment Operation can only be performed on a number, by a number.")
    new = old + step
    if isinstance(new, int) and not -_INT64 <= new < _INT64:
        # As a double from there on, which is what the service's numbers are.
        new = float(new)
    if isinstance(new, float) and not math.isfinite(new):
        raise bad_request("Increment Operation leads to a number that JSON cannot have.")
    holder[at] = new


def _move(document: dict[str, Any], operation: dict[str, Any], keys: Sequence[str]) -> None:
    source = _path(operation.get("from"), keys)
    target = _path(operation.get("path"), keys)
    if target[: len(source)] == source and len(target) > len(source):
        raise bad_request("Move Operation: the path is inside of what is moved.")
    value = _take(_parent(document, source), source[-1], "Move")
    _put(_parent(document, target), target[-1], value, insert=True)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_ACTS: dict[str, Callable[[dict[str, Any], dict[str, Any], Sequence[str]], None]] = {
    "add": _add,
    "set": _set,
    "replace": _replace,
    "remove": _remove,
    "incr": _incr,
    "increment": _incr,
    "move": _move,
}
