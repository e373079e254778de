"""What the page shows of an account, as plain values: each function is short, and runs on the lab's thread.

What grows with the lab is taken in pieces (see `reader`), or counted up to a bound. Nothing of it is charged,
and nothing of it is in the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from azlatch.errors import UsageError
from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.ledger import Row as Request
from azlatch.lab.cosmos.page.heat import Row, cells_of
from azlatch.lab.cosmos.store import Store

if TYPE_CHECKING:
    from azlatch.lab.cosmos.account import Account
    from azlatch.lab.cosmos.budget import Budget
    from azlatch.lab.cosmos.partition import PhysicalPartition
    from azlatch.lab.cosmos.versions import History, Version

#: Ranges that are looked at in one go, and items of which the living ones are shown on one page.
PIECE, VISITED = 8, 500
#: Seconds of which the mean load is told, and of which it is told how many requests got a 429.
LOAD_S, THROTTLED_S = 10, 60
#: Requests that are searched for those that are wanted, the newest.
SEARCHED = 5_000
#: What a table shows at most of what has no bound of its own.
MOST_ROWS = 200


@dataclass(frozen=True, slots=True)
class Facts:
    """The account."""

    name: str
    now: float
    consistency: str
    multiple: bool
    throttling: bool
    requests: int
    rules: int
    containers: int
    regions: Sequence[str]


@dataclass(frozen=True, slots=True)
class Container:
    """A container; `path` is "database/container", `ranges` the ids of its physical partitions."""

    path: str
    keys: Sequence[str]
    throughput: int
    autoscale: bool
    shares_database: bool
    ttl: int | None
    ranges: Sequence[str]
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Range:
    """A physical partition, and what it was used for lately."""

    id: str
    low: str
    high: str
    parents: Sequence[str]
    keys: int
    lsn: int
    rate: float
    banked: float
    lately: Lately
    row: Row


@dataclass(frozen=True, slots=True)
class Lately:
    """What something is used for now: RU/s, requests answered with 429, and what each region lacks of it.

    `behind` is in the account's order of regions: writes, and since when, seconds.
    """

    items: int
    load: float
    throttled: int
    behind: Sequence[tuple[int, float]]

    def __add__(self, other: Lately) -> Lately:
        both = zip(self.behind, other.behind, strict=True)
        behind = [(one[0] + more[0], max(one[1], more[1])) for one, more in both]
        return Lately(
            self.items + other.items, self.load + other.load, self.throttled + other.throttled, behind
        )


@dataclass(frozen=True, slots=True)
class Region:
    """A region of the account."""

    name: str
    endpoint: str
    online: bool
    member: bool
    writes: bool


@dataclass(frozen=True, slots=True)
class Link:
    """The way of what is written, from one region to another; to itself, to its late replica."""

    source: str
    target: str
    lag: float
    paused: bool


@dataclass(frozen=True, slots=True)
class Item:
    """An item in a list."""

    number: int
    id: str
    key: str
    range: str
    etag: str
    size: int
    ts: int
    expires: float | None


@dataclass(frozen=True, slots=True)
class Items:
    """One page of a range's items, and after which number the next one goes on; None after the last."""

    range: str
    items: Sequence[Item]
    following: int | None


@dataclass(frozen=True, slots=True)
class WholeItem:
    """An item with its body, and what the regions have of it: an ETag, "" for nothing."""

    item: Item
    body: bytes
    etags: Sequence[tuple[str, str]]


def facts(account: Account) -> Facts:
    """The account in a few words."""
    topology = account.topology
    return Facts(
        account.name,
        account.now,
        topology.level,
        topology.multiple,
        account.service.throttling,
        len(account.ledger),
        len(account.rules.all),
        len(account.service.stores),
        account.regions,
    )


def containers(account: Account) -> list[Container]:
    """The first MOST_ROWS, in the order of their making."""
    return [_container(each) for each in islice(account.service.stores.values(), MOST_ROWS)]


def container(account: Account, path: str) -> Container:
    """One of them. Raises UsageError if there is none."""
    return _container(_store(account, path))


def ranges(account: Account, path: str, names: Sequence[str], start: int) -> list[Range]:
    """Physical partitions, of those that are there still; `start` is of the heat map's first column."""
    store, now = _store(account, path), account.now
    wanted = set(names)
    found = []
    for part in store.parts:
        if part.id not in wanted:
            continue
        budget = store.budgets[part.id]
        found.append(
            Range(
                part.id,
                part.low,
                part.high,
                list(part.parents),
                len(part.keys),
                part.head,
                budget.rate,
                budget.banked(now),
                _lately(part, budget, account),
                Row(part.id, part.low, cells_of(budget.seconds(now), start)),
            )
        )
    return found


def lately(account: Account, path: str, names: Sequence[str]) -> Lately:
    """What physical partitions of a container are used for together, of those that are there still."""
    store = _store(account, path)
    nothing = Lately(0, 0.0, 0, [(0, 0.0)] * len(account.regions))
    wanted = set(names)
    found = (_lately(each, store.budgets[each.id], account) for each in store.parts if each.id in wanted)
    return sum(found, nothing)


def _lately(part: PhysicalPartition, budget: Budget, account: Account) -> Lately:
    now = account.now
    part.advance(now)
    seconds = budget.recent(now, THROTTLED_S)
    return Lately(
        part.held,
        sum(each.units for each in seconds if each.at > now - LOAD_S) / LOAD_S,
        sum(each.throttled for each in seconds),
        [part.behind(each, now) for each in account.topology.regions],
    )


def former(account: Account, path: str, start: int) -> list[Row]:
    """The ranges that were split or merged, and what they were used for before."""
    store, now = _store(account, path), account.now
    return [
        Row(each.id, each.low, cells_of(each.budget.seconds(now), start), each.ended) for each in store.former
    ]


def regions(account: Account) -> list[Region]:
    """All regions, with the one that has the account's name first."""
    topology = account.topology
    return [
        Region(
            each.name,
            account.endpoints.get(each.name, ""),
            each.online,
            each.member,
            topology.writes_here(each),
        )
        for each in topology.regions
    ]


def links(account: Account) -> list[Link]:
    """The ways between all regions."""
    topology, names = account.topology, account.regions
    ways = [(a, b, topology.link(a, b)) for a in names for b in names]
    return [Link(a, b, link.lag, link.paused) for a, b, link in ways]


def requests(account: Account, most: int, container: str = "", status: str = "") -> list[Request]:
    """The newest ones, of a container and with a status alone if they are given: "429", "4xx" or "failed"."""
    if not container and not status:
        return account.ledger.latest(most)

    def is_wanted(row: Request) -> bool:
        said = str(row.status)
        fits = status in ("", said, f"{said[0]}xx") or (status == "failed" and row.status >= 400)
        return fits and container in ("", row.container)

    return account.ledger.latest(most, is_wanted, SEARCHED)


def items(account: Account, path: str, range_id: str, after: int, most: int) -> Items:
    """Some items of a physical partition, as the region that writes has them.

    Raises:
        UsageError: the container or the range is not there (any more).
    """
    part, now = _part(_store(account, path), range_id), account.now
    part.advance(now)
    found: list[Item] = []
    for visited, history in enumerate(part.scan(after), start=1):
        version = history.show(None)
        if version is not None and version.lives(now):
            if len(found) == most:
                return Items(part.id, found, found[-1].number)
            found.append(_item(history, version, part))
        if visited == VISITED:
            return Items(part.id, found, history.number)
    return Items(part.id, found, None)


def find(account: Account, path: str, key: str, name: str) -> Item:
    """An item by its partition key, as JSON, and its id.

    Raises:
        UsageError: there is none, or the key is not one of this container.
    """
    store, now = _store(account, path), account.now
    try:
        definition = store.resource.definition
        values = definition.values_of_header(key)
        part = store.part_of(definition.epk(values))
    except ServiceError as error:
        raise UsageError(f"the key {key!r}: {error.message}") from None
    part.advance(now)
    history = part.find(definition.text(values), name)
    version = history.show(None) if history is not None else None
    if history is None or version is None or not version.lives(now):
        raise UsageError(f"there is no item {name!r} with the key {key} in {path}")
    return _item(history, version, part)


def item(account: Account, path: str, number: int) -> WholeItem:
    """An item by its number. Raises UsageError if there is none."""
    store, now = _store(account, path), account.now
    for part in store.parts:
        history = part.numbered(number)
        version = history.show(None) if history is not None else None
        if history is None or version is None:
            continue
        part.advance(now)
        if version.body is not None and version.lives(now):
            etags = [(each.name, _seen(history, part, each.name)) for each in account.topology.regions]
            return WholeItem(_item(history, version, part), version.body, etags)
    raise UsageError(f"there is no item {number} in {path}: it was deleted, or replaced by another")


def _container(store: Store) -> Container:
    resource = store.resource
    return Container(
        f"{resource.database.name}/{resource.name}",
        list(resource.definition.paths),
        resource.throughput,
        resource.autoscale,
        resource.shares_database,
        resource.default_ttl,
        [each.id for each in store.parts],
        dict(resource.body),
    )


def _seen(history: History, part: PhysicalPartition, region: str) -> str:
    topology = part.topology
    shown = history.show(part.replication.view(topology.region(region), late=False))
    return shown.etag if shown is not None and shown.body is not None else ""


def _item(history: History, version: Version, part: PhysicalPartition) -> Item:
    return Item(
        history.number,
        history.id,
        history.key.text,
        part.id,
        version.etag,
        len(version.body or b""),
        version.ts,
        version.expires,
    )


def _store(account: Account, path: str) -> Store:
    database, _, name = path.partition("/")
    try:
        return account.service.stores[account.resources.container(database, name).rid]
    except ServiceError:
        raise UsageError(f"there is no container {path!r}: it was deleted, or never made") from None


def _part(store: Store, name: str) -> PhysicalPartition:
    try:
        return store.part(name)
    except ServiceError:
        raise UsageError(f"there is no range {name!r} any more: it was split or merged") from None
