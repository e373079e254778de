"""Partial updates: the dialect of JSON Patch that Cosmos DB has.

Sources: "Partial document update" and its "Getting started" (operations, limits, messages) in the
documentation, and `patch_eval.rs` of azure_data_cosmos_driver (Rust). What they say, and what they leave
open:

- A path is a JSON Pointer (`~1` for `/`, `~0` for `~`). It may begin without the slash, as in the
  documentation's REST example. All but its last part must exist: nothing is created on the way.
- `add` puts a value there; in an array it inserts. `set` does the same, but replaces in an array. `replace`
  needs what it replaces. `remove` needs what it removes. `incr` makes the value if there is none (not in an
  array). `move` takes away and adds, and cannot move anything into itself.
- `-` is the end of an array: `add`, `set` and the target of `move` append there.
- `incr`: a whole number plus a whole number stays whole, and must stay within 64 bits signed (400 otherwise:
  the Rust driver's rule, the service's own is not documented). If one of them is a float, the sum is one, and
  must be finite.
- The id, the system properties and, by their whole path, the values of the partition key cannot be patched;
  neither can an object that holds one of them. The service answers that with 400.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from azlatch.lab.cosmos.errors import bad_request
from azlatch.lab.cosmos.item import SYSTEM_PROPERTIES
from azlatch.lab.cosmos.wire import decode

#: Most operations of one patch.
MOST_OPERATIONS = 10
#: Longest condition, characters.
_MOST_CONDITION = 64 * 1024
#: Longest path, characters.
_MOST_PATH = 8 * 1024
#: Deepest path, parts: that of an item.
_MOST_PARTS = 128

#: A tuple, since what is looked for in it may be anything.
_OPERATIONS = ("add", "set", "replace", "remove", "incr", "move")
_WITH_VALUE = frozenset(["add", "set", "replace", "incr"])
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_ESCAPE = re.compile(r"~(.?)", re.DOTALL)
_SYNTAX = "Invalid patch request: check syntax of patch specification"

#: What nobody but the service may write.
_PROTECTED = tuple([(each,) for each in ("id", *SYSTEM_PROPERTIES)])

Parts = tuple[str, ...]


def parse_body(body: bytes) -> tuple[str | None, list[dict[str, Any]]]:
    """The condition, if there is one, and the operations of a request's body; a bare array is operations, too.

    The operations are checked by `apply`, which sees the item.

    Raises:
        ServiceError: 400 for what is no patch.
    """
    try:
        json = decode(body)
    except ValueError:
        raise bad_request(_SYNTAX) from None
    condition = None
    if isinstance(json, dict):
        condition = json.get("condition")
        json = json.get("operations")
    if not isinstance(json, list) or not all(isinstance(each, dict) for each in json):
        raise bad_request(_SYNTAX)
    if condition is not None and (not isinstance(condition, str) or len(condition) > _MOST_CONDITION):
        raise bad_request(_SYNTAX)
    return condition, json


def apply(
    document: dict[str, Any], operations: Sequence[Any], *, partition_key: Sequence[Parts] = ()
) -> dict[str, Any]:
    """The document after all operations, in their order; the one that came in stays as it was.

    What is not changed is shared with it.

    Args:
        document: as stored, system properties included.
        operations: `{"op", "path", "value" or "from"}` each.
        partition_key: the parts of each path of the partition key.

    Raises:
        ServiceError: 400 if one of them cannot be done; then none is.
    """
    if not operations:
        raise bad_request(_SYNTAX)
    if len(operations) > MOST_OPERATIONS:
        raise bad_request(f"The number of patch operations can't exceed {MOST_OPERATIONS}.")
    patched = _Patched(document, (*_PROTECTED, *partition_key))
    for number, operation in enumerate(operations, 1):
        patched.number = number
        patched.do(operation)
    return patched.root


class _Patched:
    """A document in the middle of a patch: containers are copied when they are first written to."""

    def __init__(self, document: dict[str, Any], protected: Sequence[Parts]) -> None:
        self.root = dict(document)
        self.number = 0
        self._protected = protected
        #: The containers that are copies already, by identity; kept, so that no other one gets their identity.
        self._own: dict[int, Any] = {id(self.root): self.root}

    def do(self, operation: Any) -> None:
        """One operation."""
        if not isinstance(operation, dict) or operation.get("op") not in _OPERATIONS:
            raise bad_request(_SYNTAX)
        verb = operation["op"]
        if verb in _WITH_VALUE and "value" not in operation:
            raise bad_request(_SYNTAX)
        parts = self._path(operation.get("path"))
        if verb == "move":
            self._move(self._path(operation.get("from")), parts)
        elif verb == "remove":
            self._take(parts)
        elif verb == "incr":
            self._increase(parts, operation["value"])
        else:
            self._put(parts, operation["value"], verb)

    def _path(self, path: Any) -> Parts:
        parts = _parts(path)
        for each in self._protected:
            if parts[: len(each)] == each or each[: len(parts)] == parts:
                kind = "system" if each in _PROTECTED else "partition key"
                raise bad_request(
                    f"Invalid patch request: Can't patch {kind} property {'/'.join(parts)[:100]}."
                )
        return parts

    def _move(self, source: Parts, target: Parts) -> None:
        if target[: len(source)] == source:
            self._fail("the target of a move can't be its source, nor lie within it")
        value = self._take(source)
        self._put(target, value, "add")

    def _take(self, parts: Parts) -> Any:
        holder, name = self._holder(parts), parts[-1]
        if isinstance(holder, dict):
            if name not in holder:
                self._fail(f"Node({_shown(parts)}) to be removed is absent")
            return holder.pop(name)
        return holder.pop(self._index(name, len(holder)))

    def _put(self, parts: Parts, value: Any, verb: str) -> None:
        holder, name = self._holder(parts), parts[-1]
        if isinstance(holder, dict):
            if verb == "replace" and name not in holder:
                self._fail(f"Node({_shown(parts)}) to be replaced is absent")
            holder[name] = value
        elif verb == "add" or (verb == "set" and name in ("-", str(len(holder)))):
            holder.insert(len(holder) if name == "-" else self._index(name, len(holder) + 1), value)
        else:
            holder[self._index(name, len(holder))] = value

    def _increase(self, parts: Parts, by: Any) -> None:
        if not _is_number(by):
            raise bad_request(_SYNTAX)
        holder, name = self._holder(parts), parts[-1]
        if isinstance(holder, dict) and name not in holder:
            holder[name] = by
            return
        at = name if isinstance(holder, dict) else self._index(name, len(holder))
        holder[at] = self._sum(holder[at], by, parts)

    def _sum(self, number: Any, by: Any, parts: Parts) -> Any:
        if not _is_number(number):
            self._fail(f"Node({_shown(parts)}) isn't a number")
        try:
            total = number + by
            fits = -(2**63) <= total < 2**63 if isinstance(total, int) else math.isfinite(total)
        except OverflowError:
            fits = False
        if not fits:
            self._fail(f"Node({_shown(parts)}) can't be increased beyond the range of numbers")
        return total

    def _holder(self, parts: Parts) -> Any:
        """The object or array that the last part is in: a copy that may be written to."""
        holder: Any = self.root
        for at, part in enumerate(parts[:-1]):
            if isinstance(holder, dict):
                place: Any = part
                found = part in holder
            else:
                place = self._index(part, len(holder))
                found = True
            inner = holder[place] if found else None
            if not isinstance(inner, (dict, list)):
                self._fail(
                    "Given Operation can only create a child object of an existing node(array or object) and "
                    f"can't create path recursively, no path found beyond: '{_shown(parts[:at])}'"
                )
            if id(inner) not in self._own:
                inner = inner.copy()
                self._own[id(inner)] = inner
                holder[place] = inner
            holder = inner
        return holder

    def _index(self, part: str, end: int) -> int:
        if not _INDEX.fullmatch(part):
            self._fail(f"Index({part[:20]}) to operate on is not a number")
        index = int(part)
        if index >= end:
            self._fail(f"Index({part}) to operate on is out of array bounds")
        return index

    def _fail(self, reason: str) -> NoReturn:
        raise bad_request(f"For Operation({self.number}): {reason}.")


def _parts(path: Any) -> Parts:
    if not isinstance(path, str) or not path or len(path) > _MOST_PATH:
        raise bad_request(_SYNTAX)
    raw = path.removeprefix("/").split("/")
    if not all(raw) or len(raw) > _MOST_PARTS:
        raise bad_request(_SYNTAX)
    return tuple([_ESCAPE.sub(_unescaped, each) for each in raw])


def _unescaped(found: re.Match[str]) -> str:
    known = {"0": "~", "1": "/"}.get(found[1])
    if known is None:
        raise bad_request(_SYNTAX)
    return known


def _shown(parts: Parts) -> str:
    return "/".join(parts)[:100]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
