"""Stores that expire a lease themselves: the fence of a grant, and the record beside the lease.

Rules F1, F2, L2 and L3. The record is a flat table of ASCII texts, which is what such services keep beside
a lease. Everything in it may come from outside and may be damaged: what does not read well is unknown.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from azlatch.core.instance import Instance

#: Fences of one second, as a power of two.
SECOND_BITS = 20
#: The one key of a table.
KEY = "azlatch"
#: What a table that was changed by hand may raise.
_UNREADABLE = (KeyError, ValueError, TypeError, AttributeError, OverflowError, RecursionError)
#: The longest encoded text of one field, characters; a note and a reason may have more of them.
MOST_FIELD, MOST_TEXT = 300, 900


def next_fence(previous: int | None, service_time: float | None) -> int | None:
    """The fence of a grant, or None: there is no knowledge to make one of (F1).

    Args:
        previous: the fence of the grant before, as the store has it, or None.
        service_time: the service's own time in its answer to this grant, seconds since the Unix epoch.
    """
    by_time = math.floor(service_time) << SECOND_BITS if service_time is not None else None
    if previous is None:
        return by_time
    return max(previous + 1, by_time or 0)


class Record(NamedTuple):
    """What is kept beside a lease. `grant` is a digest of the lease's id; the id itself is a capability."""

    name: str
    fence: int
    grant: str
    ttl: float
    since: float
    holder: Instance
    note: str = ""

    def to_table(self) -> dict[str, str]:
        """As an ASCII text: at most 2 kB beside the name. One text: each header costs time."""
        holder = self.holder
        return _table(
            self.name,
            fence=self.fence,
            grant=self.grant,
            ttl=self.ttl,
            since=round(self.since, 3),
            instance=to_ascii(holder.id, MOST_FIELD),
            host=to_ascii(holder.host, MOST_FIELD),
            pid=holder.pid,
            started=round(holder.started, 3),
            role=to_ascii(holder.role, MOST_FIELD),
            note=to_ascii(self.note, MOST_TEXT),
        )


class Break(NamedTuple):
    """What is kept of a break, beside the record: which hold was broken, by whom, and why."""

    fence: int | None
    breaker: str
    reason: str

    def to_table(self) -> dict[str, str]:
        """As an ASCII text."""
        breaker, reason = to_ascii(self.breaker, MOST_FIELD), to_ascii(self.reason, MOST_TEXT)
        return _table(None, fence=self.fence, breaker=breaker, reason=reason)


def blank(name: str) -> dict[str, str]:
    """The table of a name that has never been granted."""
    return _table(name)


def is_ours(table: dict[str, str]) -> bool:
    """Whether azlatch wrote the table."""
    return any(key.lower() == KEY for key in table)


def name_in(table: dict[str, str]) -> str | None:
    """The name in a table, also in a blank one."""
    try:
        return to_text(str(_facts(table)["name"]))
    except _UNREADABLE:
        return None


def record_of(table: dict[str, str]) -> Record | None:
    """The record in a table, or None where it has none, or one that cannot be read (L3)."""
    try:
        facts = _facts(table)
        holder = Instance(
            to_text(facts["instance"]),
            to_text(facts["host"]),
            int(facts["pid"]),
            float(facts["started"]),
            to_text(facts["role"]),
        )
        return Record(
            to_text(facts["name"]),
            int(facts["fence"]),
            str(facts["grant"]),
            float(facts["ttl"]),
            float(facts["since"]),
            holder,
            to_text(facts["note"]),
        )
    except _UNREADABLE:
        return None


def break_of(table: dict[str, str]) -> Break | None:
    """The break in a table, or None."""
    try:
        facts = _facts(table)
        fence = facts["fence"]
        return Break(None if fence is None else int(fence), to_text(facts["breaker"]), to_text(facts["reason"]))
    except _UNREADABLE:
        return None


def _table(name: str | None, **facts: object) -> dict[str, str]:
    named = {"name": to_ascii(name)} if name is not None else {}
    # No space anywhere: what carries the text may fold or trim them.
    return {KEY: json.dumps({"v": 1, **named, **facts}, separators=(",", ":"))}


def _facts(table: dict[str, str]) -> dict[str, Any]:
    """The facts of a table. Raises ValueError if it has none."""
    for key, text in table.items():
        if key.lower() == KEY:
            facts = json.loads(text)
            if isinstance(facts, dict) and facts.get("v") == 1:
                return facts
    raise ValueError("no table of azlatch")


def to_ascii(text: str, most: int | None = None) -> str:
    """Percent-encoded, or the other way round where that is shorter; cut at `most` so that nothing is torn."""
    if most is None:
        encoded = quote(text, safe="")
        if len(encoded) <= len(text.encode()) * 4 // 3 + 8:
            return encoded
        from base64 import urlsafe_b64encode

        return "=" + urlsafe_b64encode(text.encode()).decode()
    encoded = ""
    for character in text:
        piece = quote(character, safe="")
        if len(encoded) + len(piece) > most:
            break
        encoded += piece
    return encoded


def to_text(encoded: str) -> str:
    """The reverse of `to_ascii`. Raises ValueError if it is not one of its."""
    if not encoded.startswith("="):
        return unquote(encoded)
    from base64 import urlsafe_b64decode

    return urlsafe_b64decode(encoded[1:].encode()).decode()
