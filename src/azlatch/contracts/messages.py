"""Reading status, substatus and activity id out of text: of an exception, of a log line, of JSON.

The forms are those of the SDKs for Python, .NET and Java, of the service's own messages, and of `key=value`
logs.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Any

_I = re.IGNORECASE
_SEPARATOR = r"[\"'\\]*\s*[:=]?\s*[\"'\\]*"
_PAIR = re.compile(r"\s*([1-5]\d{2})(?:\s*[/:.,; ]\s*(\d{1,5}))?\s*", re.ASCII)
_ALONE = re.compile(r"\s*(\d{1,2}|\d{4,5})\s*", re.ASCII)
_STATUS = (
    re.compile(
        rf"(?<![a-z])(?<!sub)(?<!sub[ _-])status[ _-]?code(?:_[sd])?{_SEPARATOR}([1-5]\d{{2}})(?!\d)", _I
    ),
    re.compile(r"(?<![a-z])(?<!sub)(?<!sub[ _-])status[\"'\\]*\s*[:=]\s*[\"'\\]*([1-5]\d{2})(?!\d)", _I),
    re.compile(r"(?<![a-z])HTTP(?:/\d(?:\.\d)?)?[\"']?\s+([1-5]\d{2})(?!\d)", _I),
    re.compile(r"(?<![a-z])[A-Z][A-Za-z]+ \(([1-5]\d{2})\)"),
    re.compile(r"(?<![\d/.])([45]\d\d)/(?=\d{1,5}(?![\d/.]))"),
)
_SUBSTATUS = (
    re.compile(rf"(?<![a-z])sub[ _-]?status(?:[ _-]?code)?(?:_[sd])?{_SEPARATOR}(\d{{1,5}})(?!\d)", _I),
    re.compile(r"(?<![a-z])sub[\"'\\]*\s*[:=]\s*[\"'\\]*(\d{1,5})(?!\d)", _I),
    re.compile(r"(?<![\d/.])[45]\d\d/(\d{1,5})(?![\d/.])"),
)
_ACTIVITY = re.compile(
    r"activity[ _-]?id(?:_g)?[\"'\\]*\s*[:=]\s*[\"'\\]*([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})",
    _I,
)
_WAIT = re.compile(r"retry[ _-]?after[ _-]?(?:in)?ms[\"'\\]*\s*[:=]\s*[\"'\\]*(\d{1,7})", _I)
_OPERATION = re.compile(
    r"(?<![a-z])op(?:eration)?[ _-]?(?:type|name)?(?:_s)?[\"'\\]*\s*[:=]\s*[\"'\\]*([\w/]{2,40})", _I
)
_WORD = re.compile(r"(?<![A-Za-z])[A-Z][a-z]+(?:[A-Z][A-Za-z0-9]*)+")
_MOST_WORDS = 2_000

#: What the service says in words; each is told by these alone.
_PHRASES: tuple[tuple[str, int, int], ...] = (
    ("read session is not available", 404, 1002),
    ("owner resource does not exist", 404, 1003),
    ("partition key provided either doesn't correspond", 400, 1001),
    ("partitionkey extracted from document doesn't match", 400, 1001),
    ("unique index constraint violation", 409, 3301),
    ("partition key reached maximum size", 403, 1014),
    ("the requested operation cannot be performed at this region", 403, 3),
    ("one of the specified pre-condition is not met", 412, 0),
    ("resource with specified id or name already exists", 409, 0),
    ("entity with the specified id already exists", 409, 0),
    ("entity with the specified id does not exist", 404, 0),
    ("conflicting request to resource has been attempted", 449, 0),
    ("request rate is large", 429, 0),
    ("request size is too large", 413, 0),
)
#: What stands for an answer that did not come, by the names of an exception's classes.
NO_ANSWER: dict[str, tuple[int, int]] = {
    "ServiceRequestError": (0, 1),
    "ServiceResponseError": (0, 2),
    "CosmosClientTimeoutError": (408, 20008),
    "ClientAuthenticationError": (401, 20402),
    "ConnectionRefusedError": (0, 4),
    "gaierror": (0, 4),
    "ClientConnectorError": (0, 4),
    "TimeoutError": (0, 3),
    "Timeout": (0, 3),
    "CancelledError": (0, 5),
    "ConnectionError": (0, 2),
    "ClientConnectionError": (0, 2),
    "ProtocolError": (0, 2),
    "ConnectionResetError": (0, 2),
    "BrokenPipeError": (0, 2),
    "RemoteDisconnected": (0, 2),
    "ServerDisconnectedError": (0, 2),
    "IncompleteReadError": (0, 2),
    "OutcomeUnknown": (0, 2),
}
#: Further names of what is in the table.
_ALIASES: dict[str, int] = {
    "CosmosResourceNotFoundError": 404,
    "CosmosResourceExistsError": 409,
    "CosmosAccessConditionFailedError": 412,
    "RequestRateTooLarge": 429,
    "RequestRateTooLargeException": 429,
}


@dataclass(frozen=True, slots=True)
class Found:
    """What a text says; `data` is the JSON that it is, or has in it."""

    status: int | None = None
    substatus: int | None = None
    operation: str | None = None
    activity_id: str | None = None
    wait_ms: str | None = None
    by_wording: bool = False
    data: Any = None


def find(text: str, *, bare: bool = True) -> Found:
    """What a text says. With `bare`, it may also be nothing but numbers or one name, or JSON."""
    if bare:
        whole = _whole(text)
        if whole is not None:
            return whole
    found = Found(
        _first(_STATUS, text),
        _first(_SUBSTATUS, text),
        _group(_OPERATION, text),
        _group(_ACTIVITY, text),
        _group(_WAIT, text),
    )
    if found.status is None and bare:
        found = replace(found, data=_embedded(text))
    return _by_words(found, text) if found.status is None and found.data is None else found


def _whole(text: str) -> Found | None:
    """A text that is nothing but what is asked for."""
    pair = _PAIR.fullmatch(text)
    if pair:
        return Found(int(pair[1]), None if pair[2] is None else int(pair[2]))
    alone = _ALONE.fullmatch(text)
    if alone:
        return Found(substatus=int(alone[1]))
    status, substatus = _named(text.strip())
    if status is not None or substatus is not None:
        return Found(status, substatus)
    if text.lstrip()[:1] in ("{", "["):
        data = _json(text)
        return None if data is None else Found(data=data)
    return None


def _by_words(found: Found, text: str) -> Found:
    lowered = text.lower()
    for phrase, *pair in _PHRASES:
        if phrase in lowered:
            return _worded(found, *pair)
    for match in islice(_WORD.finditer(text), _MOST_WORDS):
        named = _named(match[0])
        if named[0] is not None:
            return _worded(found, *named)
    return found


def _worded(found: Found, status: int | None, substatus: int | None) -> Found:
    kept = substatus if found.substatus is None else found.substatus
    return replace(found, status=status, substatus=kept, by_wording=True)


def _named(word: str) -> tuple[int | None, int | None]:
    """The status, and where the name is that of one substatus, the substatus too."""
    if word in _ALIASES:
        return _ALIASES[word], None
    if word in NO_ANSWER:
        return NO_ANSWER[word]
    return _names().get(word, (None, None))


@cache
def _names() -> dict[str, tuple[int | None, int | None]]:
    from azlatch.contracts.table import TABLE

    found: dict[str, tuple[int | None, int | None]] = {}
    for (status, substatus), row in TABLE.items():
        if substatus == 0 or (substatus is None and row.name not in found):
            found[row.name] = (status, None)
        elif row.name not in found or (status or 0) > (found[row.name][0] or 0):
            # What the client reports as 410 inside reaches the program as 503.
            found[row.name] = (status, substatus)
    return found


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _embedded(text: str) -> Any:
    """The first JSON object inside of a line."""
    start = text.find("{")
    if start < 0:
        return None
    try:
        return json.JSONDecoder().raw_decode(text, start)[0]
    except (ValueError, RecursionError):
        return None


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> int | None:
    for pattern in patterns:
        match = pattern.search(text)
        if match:
            return int(match[1])
    return None


def _group(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None
