"""The record of a name as an item of Cosmos DB, and what there is to show of it.

The item's id, which is its partition key too, is the name's injective store id. The property ``ttl`` is the
service's own word for when it deletes an item; it is -1, never, whatever the container's default is. The ttl of
the latch is called ``life``.

`quiet_since` belongs to R3: a probe writes the item, and so gives it another ``_ts``, without being a beat. It
leaves the ``_ts`` that was there before in this property; every other write puts 0 there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from azlatch.backends.protocol import View
from azlatch.core.instance import Instance
from azlatch.core.names import store_id
from azlatch.core.record import Record, State

#: Marks an item as ours, with the version of its form.
MARK, FORM = "azlatch", 1
#: What `_ts` and the clocks of two replicas may be apart, seconds: it is a whole second, too (R3).
SLACK = 2.0
_STATES: dict[str, State] = {"held": "held", "free": "free", "broken": "broken"}
_NONCE = re.compile(r"[0-9a-f]{32}")
_UNREADABLE = (KeyError, ValueError, TypeError, OverflowError)


def id_of(name: str) -> str:
    """The id of a name's item."""
    return store_id(name)


def document_of(record: Record) -> dict[str, Any]:
    """The item of a record."""
    holder = record.holder
    return {
        "id": id_of(record.name),
        MARK: FORM,
        "name": record.name,
        "fence": record.fence,
        "nonce": record.nonce,
        "beat": record.beat,
        "life": record.ttl,
        "mode": record.mode,
        "state": record.state,
        "version": record.version,
        "holder": {
            "id": holder.id,
            "host": holder.host,
            "pid": holder.pid,
            "started": holder.started,
            "role": holder.role,
        },
        "since": record.since,
        "note": record.note,
        "previous": record.previous,
        "breaker": record.breaker,
        "reason": record.reason,
        "quiet_since": 0,
        "ttl": -1,
    }


def record_of(document: Mapping[str, Any]) -> Record | None:
    """The record in an item, or None where it has none, or one that cannot be read."""
    try:
        if document[MARK] != FORM:
            return None
        holder = document["holder"]
        return Record(
            name=str(document["name"]),
            fence=int(document["fence"]),
            nonce=_nonce(document["nonce"]),
            beat=int(document["beat"]),
            ttl=float(document["life"]),
            mode=str(document["mode"]),
            state=_STATES[document["state"]],
            version=int(document["version"]),
            boot="",
            time_namespace="",
            beat_at=0.0,
            member="",
            holder=Instance(
                str(holder["id"]),
                str(holder["host"]),
                int(holder["pid"]),
                float(holder["started"]),
                str(holder["role"]),
            ),
            since=float(document["since"]),
            note=str(document["note"]),
            previous=_nonce(document["previous"]) if document["previous"] else "",
            breaker=str(document["breaker"]),
            reason=str(document["reason"]),
        )
    except _UNREADABLE:
        return None


def _nonce(text: object) -> str:
    """A nonce, which goes into conditions as it is. Raises ValueError for anything else."""
    if not isinstance(text, str) or not _NONCE.fullmatch(text):
        raise ValueError("no nonce")
    return text


def beat_of(document: Mapping[str, Any]) -> float:
    """The service's time of the last write that was a beat, seconds since the Unix epoch."""
    return float(document.get("quiet_since") or document.get("_ts") or 0)


def view_of(document: Mapping[str, Any], record: Record, now: float | None) -> View:
    """What there is to show. `now` is the service's time; whether a hold is over it tells for people only."""
    free = record.state == "free"
    age = max(now - beat_of(document), 0.0) if now is not None and not free else None
    over = age is not None and age > record.ttl + SLACK
    return View(
        name=record.name,
        state="expired" if over else record.state,
        fence=record.fence,
        holder=None if free else record.holder,
        ttl=record.ttl,
        since=None if free else record.since,
        age=age,
        expires_in=None if age is None else max(record.ttl + SLACK - age, 0.0),
        note=record.note,
        waiters=None,
        breaker=record.breaker,
        reason=record.reason,
    )
