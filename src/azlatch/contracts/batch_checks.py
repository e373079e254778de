"""What a batch refuses before anything is sent: what the service would, and guards that guard nothing."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from azlatch.errors import UsageError

#: Limits of the service for a batch. Source: learn.microsoft.com/azure/cosmos-db/concepts-limits
MOST_OPERATIONS = 100
MOST_BYTES = 2 * 2**20
MOST_PATCHES = 10
MOST_ID_BYTES = 1_023
MOST_LEVELS = 128
_ILLEGAL = frozenset("/\\?#")
_PATCHES = ("add", "set", "replace", "remove", "incr", "move")


class Unset:
    """Stands for an argument that was left out, which None does not."""

    def __repr__(self) -> str:
        return "<left out>"


UNSET: Final = Unset()


def check_id(value: object, where: str) -> str:
    """An id of an item.

    Raises:
        UsageError: missing, no text, too long, or with characters that an id cannot have.
    """
    if value is None or value == "":
        raise UsageError(f"{where} has no id: the SDK adds none in a batch; give it one")
    if not isinstance(value, str):
        raise UsageError(f"{where} has the id {value!r:.100}, a {type(value).__name__}: an id is a str")
    bad = sorted(_ILLEGAL.intersection(value))
    if bad or not value.isprintable() or value.endswith(" "):
        what = f"contains {' '.join(bad)}" if bad else "has a control character or ends with a space"
        raise UsageError(f"{where} has the id {value!r:.100}, which {what}: leave / \\ ? # and these out")
    size = len(value.encode("utf-8", "surrogatepass"))
    if size > MOST_ID_BYTES:
        raise UsageError(f"{where} has an id of {size:,} bytes; at most {MOST_ID_BYTES:,} are allowed")
    return value


def check_etag(etag: object, where: str) -> str | None:
    """The version that a write is conditional on; None where none was asked for.

    Raises:
        UsageError: an etag was asked for, and is none.
    """
    if isinstance(etag, Unset):
        return None
    if not isinstance(etag, str) or not etag or etag == "*":
        raise UsageError(
            f"{where} is to be guarded by etag={etag!r}, which guards nothing: give the _etag of the item "
            "that was read, or leave etag out to write whatever is there"
        )
    return etag


def check_condition(condition: object, where: str) -> str | None:
    """The filter predicate of a patch; None where none was asked for.

    Raises:
        UsageError: a condition was asked for, and is none.
    """
    if isinstance(condition, Unset):
        return None
    if not isinstance(condition, str) or not re.match(r"\s*from\s", condition, re.IGNORECASE):
        raise UsageError(
            f"{where} has condition={condition!r:.100}: write it as 'from c where c.state = \"open\"', or "
            "leave condition out"
        )
    return condition


def check_body(body: object, where: str) -> dict[str, Any]:
    """A copy of an item as JSON has it.

    Raises:
        UsageError: it is a list, no mapping, or something in it is no JSON; the message names the path.
    """
    if isinstance(body, list | tuple):
        raise UsageError(
            f"{where} got {len(body)} items at once: an operation is for one item; call it for each"
        )
    if not isinstance(body, Mapping):
        raise UsageError(f"{where} got a {type(body).__name__}: give it one item, as a dict")
    copy = _copy(body, where, "", 1)
    assert isinstance(copy, dict)
    return copy


def check_patches(patches: object, where: str) -> list[dict[str, Any]]:
    """A copy of the steps of a patch.

    Raises:
        UsageError: the service would refuse one of them.
    """
    if isinstance(patches, str | bytes | Mapping) or not isinstance(patches, Sequence):
        raise UsageError(f"{where} takes a list of steps, such as {{'op': 'incr', 'path': '/n', 'value': 1}}")
    if not 1 <= len(patches) <= MOST_PATCHES:
        raise UsageError(f"{where} has {len(patches)} steps: give it 1 to {MOST_PATCHES}, or use replace")
    return [_patch(each, f"{where}, step {number}") for number, each in enumerate(patches, 1)]


def _patch(step: object, where: str) -> dict[str, Any]:
    if not isinstance(step, Mapping):
        raise UsageError(f"{where} is a {type(step).__name__}: give it a dict with op, path and value")
    copy = _copy(step, where, "", 1)
    assert isinstance(copy, dict)
    op, path = copy.get("op"), copy.get("path")
    if op not in _PATCHES:
        raise UsageError(f"{where} has op={op!r:.40}: use one of {', '.join(_PATCHES)}")
    if not isinstance(path, str) or not path.startswith("/"):
        raise UsageError(f"{where} has path={path!r:.100}: it begins with /, as '/position'")
    if path == "/id":
        raise UsageError(f"{where} changes /id, which cannot be changed: delete the item and create another")
    if op == "move" and not isinstance(copy.get("from"), str):
        raise UsageError(f"{where} moves from nowhere: give it 'from' with a path")
    if op in ("add", "set", "replace", "incr") and "value" not in copy:
        raise UsageError(f"{where} has no value: op={op} needs one")
    if op == "incr" and (isinstance(copy["value"], bool) or not isinstance(copy["value"], int | float)):
        raise UsageError(f"{where} has value={copy['value']!r:.100}: incr needs a number")
    return copy


def check_size(operations: Sequence[Mapping[str, Any]], *, escaped: bool) -> int:
    """The bytes of the request, as the SDK writes it.

    Raises:
        UsageError: more than the service takes.
    """
    text = json.dumps(operations, separators=(",", ":"), ensure_ascii=escaped)
    size = len(text) if escaped else len(text.encode("utf-8", "surrogatepass"))
    if size > MOST_BYTES:
        raise UsageError(
            f"the batch has {size:,} bytes as it would be sent; the service takes {MOST_BYTES:,} (2 MB). "
            "Divide it (the parts are not atomic together), or keep what is large elsewhere"
        )
    return size


def check_count(count: int, own: int) -> None:
    """Raises UsageError where a batch has no operation, or too many."""
    if count == own:
        raise UsageError("the batch is empty: add an operation before it is executed")
    if count > MOST_OPERATIONS:
        added = f" ({own} of them for guard and once)" if own else ""
        raise UsageError(
            f"the batch has {count} operations{added}; the service takes {MOST_OPERATIONS}. Divide it: the "
            "parts are not atomic together"
        )


def _copy(value: object, where: str, path: str, level: int) -> object:
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UsageError(
                f"{where} has {value!r} at {path or '/'}, which JSON does not have: use a number or None"
            )
        return value
    if level > MOST_LEVELS:
        raise UsageError(f"{where} is nested deeper than {MOST_LEVELS} levels: the service takes no more")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise UsageError(f"{where} has the key {key!r:.100} at {path or '/'}: JSON has texts for keys")
        return {key: _copy(each, where, f"{path}/{key}", level + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(each, where, f"{path}/{number}", level + 1) for number, each in enumerate(value)]
    raise UsageError(
        f"{where} has a {type(value).__name__} at {path or '/'}, which JSON does not have: make a text, a "
        "number or a list of it"
    )
