"""Random operations on the engine against a dictionary: what is there, what it weighs, and who is told of it.

The model knows nothing of partitions, LSNs or replicas. Whatever happens to those, the items, their unique keys
and sizes, the pages of a query and the change feed have to be those of the dictionary.
"""

from __future__ import annotations

import json
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from azlatch.lab.cosmos.account import Account
from azlatch.testing.cosmos_engine import Engine, document, substatus

REGIONS = ("A", "B", "C")
PATH = "/dbs/d/colls/c/docs/"
keys = st.sampled_from(["p", "q", "r", "s"])
names = st.sampled_from(["a", "b", "c"])
unique = st.integers(0, 3)
ttls = st.sampled_from([None, None, None, 3, 20, -1])
wide = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@dataclass
class Item:
    """What the model knows of one item."""

    n: int
    u: int
    etag: str
    size: int
    expires: float | None = None


@dataclass
class Reader:
    """A reader of the change feed: a range of keys, where it goes on, and what it was told."""

    low: str = ""
    high: str = "FF"
    mark: str = ""


State = dict[tuple[str, str], Item]


class CosmosModel(RuleBasedStateMachine):
    """The engine, and beside it the model."""

    @initialize(ttl=st.sampled_from([None, -1, 10]), lag=st.sampled_from([0, 0, 4]))
    def begin(self, ttl: int | None, lag: int) -> None:
        container: dict[str, Any] = {"uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/u"]}]}}
        if ttl is not None:
            container["defaultTtl"] = ttl
        self.engine = Engine(regions=REGIONS, container=container)
        self.ttl = ttl
        self.items: State = {}
        self.n = 0
        self.write = "A"
        self.standby: tuple[str, State] | None = None
        self.readers = [Reader()]
        self.told: dict[tuple[str, str], int] = {}
        if lag:
            self.engine.admin.lag("A", "C", lag)

    # -- the model -----------------------------------------------------------------------------------

    def live(self) -> State:
        now = self.engine.now
        return {key: each for key, each in self.items.items() if each.expires is None or now < each.expires}

    def new(self, name: str, pk: str, u: int, ttl: int | None) -> dict[str, Any]:
        self.n += 1
        return {"id": name, "pk": pk, "u": u, "n": self.n} | ({"ttl": ttl} if ttl is not None else {})

    def expiry(self, made: dict[str, Any]) -> float | None:
        if self.ttl is None:
            return None
        ttl = made.get("ttl", self.ttl)
        return None if ttl == -1 else int(self.engine.now) + ttl

    def clash(self, state: State, pk: str, name: str, u: int) -> bool:
        return any(key == pk and other != name and each.u == u for (key, other), each in state.items())

    def keep(self, pk: str, made: dict[str, Any], body: bytes | None = None) -> None:
        size = len(body if body is not None else json.dumps(made, separators=(",", ":")).encode())
        item = Item(made["n"], made["u"], made["_etag"], size, self.expiry(made))
        self.items[pk, made["id"]] = item

    def check(self, reply: Any, status: int, sub: int = 0) -> bool:
        assert (reply.status, substatus(reply)) == (status, sub), reply.body
        return bool(status < 300)

    # -- operations on items -------------------------------------------------------------------------

    @rule(pk=keys, name=names, u=unique, ttl=ttls)
    def create(self, pk: str, name: str, u: int, ttl: int | None) -> None:
        live = self.live()
        reply = self.engine.create(self.new(name, pk, u, ttl), self.write)
        if (pk, name) in live:
            self.check(reply, 409)
        elif self.clash(live, pk, name, u):
            self.check(reply, 409, 3301)
        elif self.check(reply, 201):
            self.keep(pk, document(reply), reply.body)

    @rule(pk=keys, name=names, u=unique, ttl=ttls)
    def upsert(self, pk: str, name: str, u: int, ttl: int | None) -> None:
        live = self.live()
        reply = self.engine.upsert(self.new(name, pk, u, ttl), self.write)
        if self.clash(live, pk, name, u):
            self.check(reply, 409, 3301)
        elif self.check(reply, 200 if (pk, name) in live else 201):
            self.keep(pk, document(reply), reply.body)

    @rule(pk=keys, name=names, to=names, u=unique, ttl=ttls, stale=st.booleans())
    def replace(self, pk: str, name: str, to: str, u: int, ttl: int | None, stale: bool) -> None:
        """Under its id or another one, with the right ETag or a wrong one."""
        live = self.live()
        old = live.get((pk, name))
        headers = {
            "x-ms-documentdb-partitionkey": json.dumps([pk]),
            "if-match": '"old"' if stale else old.etag if old else "*",
        }
        reply = self.engine.send("PUT", PATH + name, self.new(to, pk, u, ttl), headers, self.write)
        if old is None:
            self.check(reply, 404)
        elif stale:
            self.check(reply, 412)
        elif to != name and (pk, to) in live:
            self.check(reply, 409)
        elif self.clash({k: v for k, v in live.items() if k != (pk, name)}, pk, to, u):
            self.check(reply, 409, 3301)
        elif self.check(reply, 200):
            del self.items[pk, name]
            self.keep(pk, document(reply), reply.body)

    @rule(pk=keys, name=names, holds=st.booleans())
    def patch(self, pk: str, name: str, holds: bool) -> None:
        old = self.live().get((pk, name))
        self.n += 1
        operations = [{"op": "set", "path": "/n", "value": self.n}]
        n = old.n if old and holds else -1
        body = {"operations": operations, "condition": f"from c where c.n = {n}"}
        headers = {"x-ms-documentdb-partitionkey": json.dumps([pk])}
        reply = self.engine.send("PATCH", PATH + name, body, headers, self.write)
        if old is None:
            self.check(reply, 404)
        elif not holds:
            self.check(reply, 412)
        elif self.check(reply, 200):
            self.keep(pk, document(reply), reply.body)

    @rule(pk=keys, name=names)
    def delete(self, pk: str, name: str) -> None:
        there = (pk, name) in self.live()
        if self.check(self.engine.delete(name, pk, self.write), 204 if there else 404):
            del self.items[pk, name]

    @rule(pk=keys)
    def delete_key(self, pk: str) -> None:
        headers = {"x-ms-documentdb-partitionkey": json.dumps([pk])}
        path = "/dbs/d/colls/c/operations/partitionkeydelete"
        self.check(self.engine.send("POST", path, None, headers, self.write), 200)
        self.items = {key: each for key, each in self.items.items() if key[0] != pk}

    @rule(
        pk=keys,
        steps=st.lists(
            st.tuples(st.sampled_from(["Create", "Upsert", "Replace", "Delete"]), names, names, unique),
            min_size=1,
            max_size=5,
        ),
    )
    def batch(self, pk: str, steps: list[tuple[str, str, str, int]]) -> None:
        """All of it or nothing, and the first that fails says why."""
        staged = {name: each.u for (key, name), each in self.live().items() if key == pk}
        operations, failed = [], None
        for act, name, to, u in steps:
            made = self.new(to if act == "Replace" else name, pk, u, None)
            operations.append({"operationType": act, "id": name, "resourceBody": made})
            if failed is None:
                failed = self.stage(staged, act, name, made)
                at = len(operations) - 1
        for each in operations:
            if each["operationType"] == "Delete":
                del each["resourceBody"]
        reply = self.engine.batch(pk, operations, self.write)
        results = json.loads(reply.body)
        if failed is not None:
            codes = [each["statusCode"] for each in results]
            assert (reply.status, codes) == (207, [failed if n == at else 424 for n in range(len(steps))])
            return
        assert reply.status == 200, reply.body
        for (act, name, _, _), result in zip(steps, results, strict=True):
            if act != "Create":
                self.items.pop((pk, name), None)
            if act != "Delete":
                self.keep(pk, result["resourceBody"])

    def stage(self, staged: dict[str, int], act: str, name: str, made: dict[str, Any]) -> int | None:
        """Does one step of a batch to ids and unique values; the status if it cannot be."""
        to, u = made["id"], made["u"]
        if act in ("Replace", "Delete") and name not in staged:
            return 404
        if to in staged and (act == "Create" or (act == "Replace" and to != name)):
            return 409
        others = [each for other, each in staged.items() if other not in (name, to)]
        if act != "Delete" and u in others:
            return 409
        if act in ("Replace", "Delete"):
            del staged[name]
        if act != "Delete":
            staged[to] = u
        return None

    # -- what must change nothing --------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 1, 5, 30]))
    def wait(self, seconds: float) -> None:
        self.engine.tick(seconds)

    @rule(at=st.integers(0, 7))
    def split(self, at: int) -> None:
        parts = self.engine.store.parts
        if len(parts) < 5:
            self.engine.admin.split("d/c", parts[at % len(parts)].id)

    @precondition(lambda self: self.standby is None)
    @rule(at=st.integers(0, 7))
    def merge(self, at: int) -> None:
        parts = self.engine.store.parts
        if len(parts) > 1:
            at %= len(parts) - 1
            self.engine.admin.merge("d/c", [parts[at].id, parts[at + 1].id])

    @rule(region=st.sampled_from(REGIONS), seconds=st.sampled_from([0, 2, 10]))
    def lag(self, region: str, seconds: int) -> None:
        if region != self.write:
            self.engine.admin.lag(self.write, region, seconds)

    @precondition(lambda self: self.standby is None)
    @rule(region=st.sampled_from(REGIONS))
    def fail_over(self, region: str) -> None:
        assert self.engine.admin.failover(region) == 0
        self.write = region

    @precondition(lambda self: self.standby is None)
    @rule(region=st.sampled_from(REGIONS))
    def cut_off(self, region: str) -> None:
        """From now on a region hears nothing of the writes."""
        if region != self.write:
            self.engine.tick(11)
            self.engine.admin.pause(self.write, region)
            self.standby = region, deepcopy(self.items)

    @precondition(lambda self: self.standby is not None)
    @rule(outage=st.booleans())
    def hear_again(self, outage: bool) -> None:
        """The write region is lost, and what the other one has not heard with it; or nothing happens."""
        assert self.standby is not None
        (region, items), self.standby = self.standby, None
        old = self.write
        if outage:
            self.engine.admin.offline(old)
            self.engine.admin.failover(region)
            self.engine.admin.online(old)
            self.write, self.items = region, items
        self.engine.admin.resume(old, region)

    @precondition(lambda self: self.standby is None)
    @rule()
    def restart(self) -> None:
        """What is kept in a file is all there is; regions are as at the start."""
        kept, now = self.engine.account.dump(), self.engine.now
        self.engine.account = Account(regions=REGIONS, throttling=False)
        self.engine.account.load(kept)
        assert self.engine.account.now <= now
        self.write = "A"

    @precondition(lambda self: self.standby is None)
    @rule(ttl=st.sampled_from([None, -1, 10]))
    def live_differently(self, ttl: int | None) -> None:
        """The container's time to live holds for what it has, too."""
        self.items = self.live()
        body = self.engine.ok("GET", "/dbs/d/colls/c")
        body.pop("defaultTtl", None)
        self.engine.ok("PUT", "/dbs/d/colls/c", body | ({"defaultTtl": ttl} if ttl is not None else {}))
        self.ttl = ttl
        for (pk, name), each in list(self.items.items()):
            reply = self.engine.read(name, pk, self.write)
            made = document(reply) if reply.status == 200 else None
            if ttl is not None and made is None:
                # It is as old as that by now.
                del self.items[pk, name]
            elif made is not None:
                own = made.get("ttl", ttl)
                each.expires = None if ttl is None or own == -1 else made["_ts"] + own

    # -- what is checked -----------------------------------------------------------------------------

    @invariant()
    def sizes_and_unique_keys(self) -> None:
        if not hasattr(self, "engine"):
            return
        live = self.live()
        parts = self.engine.store.parts
        for each in parts:
            each.advance(self.engine.now)
        assert sum(each.size for each in parts) == sum(each.size for each in live.values())
        # What is known without counting is what counting would say.
        assert [each.held for each in parts] == [sum(1 for _ in each.scan()) for each in parts]
        taken = sum(len(key.unique) for part in parts for key in part.keys.values())
        assert taken == len(live)
        if all(each.is_even for each in parts):
            assert sum(each.count for each in parts) == sum(each.held for each in parts) == len(live)
            # Nothing is left of what is gone.
            assert sum(len(key.items) for part in parts for key in part.keys.values()) == len(live)

    @rule(pk=keys, name=names)
    def read(self, pk: str, name: str) -> None:
        item = self.live().get((pk, name))
        reply = self.engine.read(name, pk, self.write)
        if item is None:
            self.check(reply, 404)
        else:
            found = document(reply)
            assert (found["n"], found["_etag"], len(reply.body)) == (item.n, item.etag, item.size)

    @rule(size=st.integers(1, 4), after=st.integers(0, 3), act=st.sampled_from(["", "split", "merge"]))
    def pages(self, size: int, after: int, act: str) -> None:
        """Each item once, even if the ranges change between two pages."""
        found: list[tuple[str, str]] = []
        continuation = ""
        for page in range(100):
            headers = {
                "x-ms-documentdb-isquery": "True",
                "content-type": "application/query+json",
                "x-ms-documentdb-query-enablecrosspartition": "True",
                "x-ms-max-item-count": str(size),
                "x-ms-continuation": continuation,
            }
            reply = self.engine.send("POST", PATH, {"query": "SELECT * FROM c"}, headers, self.write)
            assert reply.status == 200
            found += [(each["pk"], each["id"]) for each in document(reply)["Documents"]]
            continuation = reply.headers.get("x-ms-continuation", "")
            if not continuation:
                break
            if page == after and act == "split":
                self.split(page)
            elif page == after and act == "merge" and self.standby is None:
                self.merge(page)
        assert Counter(found) == Counter(list(self.live()))

    @rule(size=st.integers(1, 5), most=st.integers(1, 6))
    def listen(self, size: int, most: int) -> None:
        """Reads some of the change feed."""
        for reader in list(self.readers):
            for _ in range(most):
                if not self.listened(reader, size):
                    break

    def listened(self, reader: Reader, size: int) -> bool:
        """One page; False if there was nothing new."""
        part = next(each for each in self.engine.store.parts if each.low <= reader.low < each.high)
        if part.high < reader.high:
            # It was split: from now on there is a reader for each of them, from the same place on.
            self.readers.append(Reader(part.high, reader.high, reader.mark))
            reader.high = part.high
        headers = {
            "a-im": "Incremental Feed",
            "x-ms-documentdb-partitionkeyrangeid": part.id,
            "x-ms-start-epk": reader.low,
            "x-ms-end-epk": reader.high,
            "x-ms-max-item-count": str(size),
            "if-none-match": reader.mark,
        }
        reply = self.engine.send("GET", PATH, None, headers, self.write)
        assert reply.status in (200, 304), reply.body
        reader.mark = reply.headers["etag"]
        if reply.status == 304:
            return False
        lsns = []
        for each in document(reply)["Documents"]:
            self.told[each["pk"], each["id"]] = each["n"]
            lsns.append(each["_lsn"])
        assert lsns == sorted(lsns)
        return True

    def teardown(self) -> None:
        """When all is quiet, every reader has been told of every item as it is, and all regions show it."""
        if not hasattr(self, "engine"):
            return
        if self.standby is not None:
            self.hear_again(False)
        self.engine.tick(11)
        for reader in self.readers:
            for _ in range(1_000):
                if not self.listened(reader, 3):
                    break
        live = self.live()
        assert {key: self.told.get(key) for key in live} == {key: each.n for key, each in live.items()}
        for region in REGIONS:
            for pk in "pqrs":
                for name in "abc":
                    reply = self.engine.read(name, pk, region)
                    item = live.get((pk, name))
                    assert (document(reply).get("n") if reply.status == 200 else None) == (item and item.n)


CosmosModel.TestCase.settings = wide
TestCosmosModel = CosmosModel.TestCase
