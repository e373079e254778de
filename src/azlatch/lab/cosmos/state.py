"""An account's state as bytes: what is there, without what is on its way and without the versions before."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from azlatch.lab.cosmos.partition import PhysicalPartition
from azlatch.lab.cosmos.store import Store
from azlatch.lab.cosmos.versions import Version
from azlatch.lab.cosmos.wire import decode, encode

if TYPE_CHECKING:
    from azlatch.lab.cosmos.account import Account

_FORMAT = 1


def dump(account: Account) -> bytes:
    """Everything that a later run needs."""
    stores = {rid: _store(store) for rid, store in account.service.stores.items()}
    return encode(
        {
            "format": _FORMAT,
            "now": account.now,
            "etags": account.service.etags,
            "resources": account.resources.dump(),
            "stores": stores,
        }
    )


def load(account: Account, data: bytes) -> None:
    """Puts it into an account that is empty.

    Raises:
        ValueError: it is not the state of an account.
    """
    try:
        state = decode(data)
        if not isinstance(state, dict) or state.get("format") != _FORMAT:
            raise ValueError(f"it has not the format {_FORMAT} of this version")
        account.resources.load(state["resources"])
        account.at(float(state["now"]))
        account.service.etags = int(state["etags"])
        for database in account.resources.databases():
            for container in database.containers:
                account.container_made(container, account.now)
                _restore(account.service.stores[container.rid], state["stores"][container.rid], account.now)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"something is missing in it ({type(error).__name__})") from None


def _store(store: Store) -> dict[str, Any]:
    return {
        "next_range": store.next_range,
        "version": store.version,
        "next_number": next(store.numbers),
        "parts": [_part(each) for each in store.parts],
    }


def _part(part: PhysicalPartition) -> dict[str, Any]:
    items = []
    for history in part.scan():
        version = history.show(None)
        if version is not None and version.body is not None:
            facts = [version.lsn, version.at, version.ts, version.etag, version.expires, version.order]
            items.append([history.key.text, history.id, history.number, *facts, version.body.decode()])
    return {
        "id": part.id,
        "low": part.low,
        "high": part.high,
        "parents": part.parents,
        "head": part.head,
        "version": part.version,
        "valid": part.valid,
        "begun": part.begun,
        "floors": part.floors,
        "items": items,
    }


def _restore(store: Store, kept: dict[str, Any], now: float) -> None:
    store.next_range, store.version = int(kept["next_range"]), int(kept["version"])
    store.numbers = itertools.count(int(kept["next_number"]))
    parts = []
    for each in kept["parts"]:
        part = store.new_part(each["id"], each["low"], each["high"], each["parents"])
        part.head, part.version = int(each["head"]), int(each["version"])
        part.valid, part.begun = int(each["valid"]), int(each["begun"])
        part.floors = [(int(version), int(floor)) for version, floor in each["floors"]]
        for item in each["items"]:
            _put(store, part, item)
        parts.append(part)
    store.take_parts(parts, now)


def _put(store: Store, part: PhysicalPartition, item: list[Any]) -> None:
    text, name, number, lsn, at, ts, etag, expires, order, body = item
    definition = store.resource.definition
    values = definition.values_of_header(text)
    version = Version(body.encode(), etag, ts, expires, store.topology.sources[0])
    version.lsn, version.at, version.order = lsn, at, order
    part.restore(part.logical(text, values, definition.epk(values)), name, number, version)
