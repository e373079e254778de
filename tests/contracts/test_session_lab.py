"""Sessions against the lab, with both clients of the SDK; the rows are public reports on session tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient
from azure.cosmos.exceptions import (
    CosmosAccessConditionFailedError,
    CosmosBatchOperationError,
    CosmosResourceExistsError,
    CosmosResourceNotFoundError,
)

from azlatch import contracts
from azlatch.contracts import session_sdk
from azlatch.errors import UsageError
from azlatch.lab.cosmos import CosmosLab

WEST, EAST = "West US", "East US"
#: Reads of EAST alone: else the SDK asks the write region after a 404/1002, which has everything.
EAST_ALONE = {"excluded_locations": [WEST]}
LAG = 0.25


class World:
    """Two regions, and instances that read in one of them."""

    def __init__(self, stack: ExitStack, **options: Any) -> None:
        self._stack = stack
        self.lab = stack.enter_context(CosmosLab(regions=(WEST, EAST), **options))
        client = stack.enter_context(CosmosClient(self.lab.endpoint, self.lab.key))
        database = client.create_database("shop")
        for name in ("orders", "others"):
            database.create_container(name, PartitionKey("/customer"))
        key = contracts.SessionKey("k1", b"k" * 32)
        self.edge = contracts.SessionEdge([key], account="contoso")

    def container(self, region: str, name: str = "orders", **options: Any) -> Any:
        """That of a new instance."""
        endpoint = self.lab.endpoints[region]
        client = CosmosClient(endpoint, self.lab.key, preferred_locations=[region], **options)
        return self._stack.enter_context(client).get_database_client("shop").get_container_client(name)

    def admin(self, verb: str, *rest: Any) -> Any:
        return self.lab.call(lambda: getattr(self.lab.account.admin, verb)(*rest))

    def over(self, context: contracts.SessionContext) -> contracts.SessionContext:
        """The session on another instance."""
        return self.edge.begin(self.edge.seal(context).text)

    def begin(self) -> contracts.SessionContext:
        return self.edge.begin()

    def fail_over_with_losses(self) -> int:
        """EAST takes the writes, without what was not replicated."""
        self.admin("offline", WEST)
        return int(self.admin("failover", EAST))


@pytest.fixture
def world() -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack)


class Spy:
    """The session tokens that requests were sent with: `raw_response_hook=spy`."""

    def __init__(self) -> None:
        self.sent: list[str | None] = []

    def __call__(self, response: Any) -> None:
        self.sent.append(response.http_request.headers.get("x-ms-session-token"))


def run_async(world: World, region: str, act: Callable[[Any], Awaitable[Any]]) -> Any:
    """Gives a new asyncio instance's container to a coroutine."""

    async def main() -> Any:
        options = {"preferred_locations": [region]}
        async with AsyncCosmosClient(world.lab.endpoints[region], world.lab.key, **options) as client:
            return await act(client.get_database_client("shop").get_container_client("orders"))

    return asyncio.run(main())


def test_row_28_tokens_are_taken_from_reads_and_from_refusals(world: World) -> None:
    """Row 28: of 2xx, and of 404/0, 409 and 412."""
    west = world.container(WEST)
    west.create_item({"id": "1", "customer": "a"})
    refusals: list[tuple[type[Exception] | None, Callable[[Any], Any]]] = [
        (None, lambda tracked: tracked.read_item("1", "a")),
        (CosmosResourceNotFoundError, lambda tracked: tracked.read_item("none", "a")),
        (CosmosResourceExistsError, lambda tracked: tracked.create_item({"id": "1", "customer": "a"})),
        (
            CosmosAccessConditionFailedError,
            lambda tracked: tracked.replace_item(
                "1", {"id": "1", "customer": "a"}, etag='"stale"', match_condition=MatchConditions.IfNotModified
            ),
        ),
    ]
    for kind, act in refusals:
        context = world.begin()
        if kind is None:
            act(context.track(west))
        else:
            with pytest.raises(kind):
                act(context.track(west))
        assert len(context.tokens) == 1, kind


def test_row_28_with_the_asyncio_client(world: World) -> None:
    world.container(WEST).create_item({"id": "1", "customer": "a"})

    async def act(container: Any) -> None:
        for error in (CosmosResourceNotFoundError, CosmosResourceExistsError):
            context = world.begin()
            tracked = context.track(container)
            with pytest.raises(error):
                if error is CosmosResourceNotFoundError:
                    await tracked.read_item("none", "a")
                else:
                    await tracked.create_item({"id": "1", "customer": "a"})
            assert len(context.tokens) == 1

    run_async(world, WEST, act)


def test_row_29_the_functions_of_the_sdk_need_no_container(world: World) -> None:
    """Row 29: they are called without one; this fails when a new version of the SDK begins to look at it."""
    container = world.container(WEST)
    one, other = container.feed_range_from_partition_key("a"), container.feed_range_from_partition_key("b")
    assert session_sdk.merge("0:1#5", "0:1#7") == container.get_latest_session_token(
        [(one, "0:1#5"), (one, "0:1#7")], one
    )
    assert session_sdk.overlap(session_sdk.scope_of(one), session_sdk.scope_of(one))
    assert not session_sdk.overlap(session_sdk.scope_of(one), session_sdk.scope_of(other))
    whole = list(container.read_feed_ranges())
    assert session_sdk.hull([session_sdk.scope_of(one)], whole) == session_sdk.scope_of(whole[0])


@pytest.mark.parametrize("text", ["0:123", "", "a,b", "0:1#1" + "0" * 20_000])
def test_row_30_a_token_that_is_none_is_refused_before_it_is_sent(world: World, text: str) -> None:
    """Row 30: and of the session's own container nothing is changed by it."""
    tracked = world.begin().track(world.container(WEST))
    with pytest.raises(contracts.SessionDamaged):
        tracked.learn(text, "a")
    tracked.create_item({"id": "1", "customer": "a"})
    assert tracked.read_item("1", "a")["id"] == "1"


def test_row_30_a_token_besides_the_session_is_refused(world: World) -> None:
    tracked = world.begin().track(world.container(WEST))
    with pytest.raises(UsageError, match="session_token"):
        tracked.read_item("1", "a", session_token="0:1#1")


def test_row_31_of_many_ranges_the_needed_one_is_sent(world: World) -> None:
    """Row 31: the SDK sends what it has; a session that saw 100 ranges sends one with a read by key."""
    world.admin("lay_out", "shop/orders", 200)
    west, spy = world.container(WEST), Spy()
    context = world.begin()
    tracked = context.track(west)
    for number in range(100):
        tracked.create_item({"id": "1", "customer": f"c{number}"})
    assert len(context.tokens) > 60
    tracked.read_item("1", "c5", raw_response_hook=spy)
    assert spy.sent[0] is not None
    assert spy.sent[0].count(":") == 1
    sealed = world.edge.seal(context)
    assert len(sealed.text) <= world.edge.most_bytes
    assert sealed.left_out > 0
    after = world.edge.begin(sealed.text)
    assert after.read_item(west, "1", "c99")["id"] == "1"
    with pytest.raises(contracts.SessionIncomplete):
        after.read_item(west, "1", "c0")


def test_row_34_the_token_is_really_sent(world: World) -> None:
    """Row 34: seen in the request itself, also after the SDK dropped its own."""
    east, west, spy = world.container(EAST), world.container(WEST), Spy()
    context = world.begin()
    tracked = context.track(west)
    tracked.create_item({"id": "1", "customer": "a"})
    after = world.over(context)
    world.admin("pause", WEST, EAST)
    tracked.patch_item("1", "a", [{"op": "set", "path": "/n", "value": 1}])
    behind = world.over(context)
    with pytest.raises(contracts.BehindSession):
        behind.read_item(east, "1", "a", deadline=0.05, raw_response_hook=spy, **EAST_ALONE)
    # The SDK has dropped all tokens of the container by now: the next read carries ours.
    assert after.read_item(east, "1", "a", raw_response_hook=spy, **EAST_ALONE)["id"] == "1"
    expected = [each.tokens.copy()["dbs/shop/colls/orders"].ranges["0"].text for each in (behind, after)]
    assert set(spy.sent) == {expected[0], *spy.sent[-1:]}
    assert None not in spy.sent


@pytest.mark.parametrize("level", ["Eventual", "ConsistentPrefix"])
def test_row_34_a_client_that_does_not_send_it_is_no_silent_success(world: World, level: str) -> None:
    """Row 34: the client was made with a weaker level."""
    context = world.begin()
    context.track(world.container(WEST)).create_item({"id": "1", "customer": "a"})
    weak = world.container(WEST, consistency_level=level)
    with pytest.raises(contracts.SessionNotSent) as caught:
        world.over(context).read_item(weak, "1", "a")
    assert (caught.value.code, caught.value.who) == ("session-not-sent", "operator")
    with pytest.raises(contracts.SessionNotSent):
        list(world.over(context).track(weak).query_items("SELECT * FROM c", partition_key="a"))


def test_row_35_a_token_of_another_container_ends_within_the_deadline() -> None:
    """Row 35: thirty seconds of retries, and then an absence, elsewhere; here a bound, and what it may be."""
    with ExitStack() as stack:
        world = World(stack)
        orders, others = world.container(WEST), world.container(WEST, "others")
        orders.create_item({"id": "1", "customer": "a"})
        for number in range(5):
            others.create_item({"id": str(number), "customer": "a"})
        token = others.read_item("1", "a").get_response_headers()["x-ms-session-token"]
        context = world.begin()
        context.track(orders).learn(token, "a")
        began = time.monotonic()
        with pytest.raises(contracts.BehindSession, match="another container or partition") as caught:
            context.read_item(orders, "1", "a", deadline=0.2)
        assert time.monotonic() - began < 10
        assert caught.value.attempts > 1
        assert not isinstance(caught.value, CosmosResourceNotFoundError)


def test_row_37_stateless_workers(world: World) -> None:
    """Row 37: each request has a client of its own; the session comes with the request."""
    world.admin("lag", WEST, EAST, 0.05)
    text = ""
    for number in range(5):
        region = (WEST, EAST)[number % 2]
        context = world.edge.begin(text)
        tracked = context.track(world.container(region))
        if number:
            assert tracked.read_item("1", "a")["n"] == number - 1
        tracked.upsert_item({"id": "1", "customer": "a", "n": number})
        text = world.edge.seal(context).text


def test_row_38_two_instances_with_and_without_the_token(world: World) -> None:
    """Row 38: without it a stale read and a false absence, with it neither."""
    west, east = world.container(WEST), world.container(EAST)
    context = world.begin()
    tracked = context.track(west)
    tracked.create_item({"id": "1", "customer": "a", "n": 1})
    world.admin("lag", WEST, EAST, LAG)
    tracked.replace_item("1", {"id": "1", "customer": "a", "n": 2})
    tracked.create_item({"id": "2", "customer": "a"})
    assert east.read_item("1", "a")["n"] == 1
    with pytest.raises(CosmosResourceNotFoundError):
        east.read_item("2", "a")
    after = world.over(context)
    assert after.read_item(east, "1", "a", **EAST_ALONE)["n"] == 2
    assert [each["id"] for each in after.track(east).query_items("SELECT c.id FROM c", partition_key="a")] == [
        "1",
        "2",
    ]


def test_row_38_with_the_asyncio_client(world: World) -> None:
    context = world.begin()
    world.admin("lag", WEST, EAST, LAG)
    context.track(world.container(WEST)).create_item({"id": "1", "customer": "a"})

    async def act(east: Any) -> None:
        with pytest.raises(CosmosResourceNotFoundError):
            await east.read_item("1", "a")
        after = world.over(context)
        assert (await after.read_item(east, "1", "a", **EAST_ALONE))["id"] == "1"
        tracked = after.track(east)
        assert [each["id"] async for each in tracked.query_items("SELECT c.id FROM c", partition_key="a")] == [
            "1"
        ]
        await tracked.execute_item_batch([("create", ({"id": "2", "customer": "a"},))], "a")
        assert (await world.over(after).read_item(east, "2", "a"))["id"] == "2"
        await tracked.patch_item("2", "a", [{"op": "set", "path": "/n", "value": 1}])
        await tracked.replace_item("2", {"id": "2", "customer": "a", "n": 2})
        await tracked.delete_item("2", "a")
        with pytest.raises(CosmosResourceNotFoundError):
            await world.over(after).read_item(east, "2", "a")
        await tracked.learn("0:1#1#1=1", "a")

    run_async(world, EAST, act)


def test_row_39_a_session_covers_the_writers_that_share_it(world: World) -> None:
    """Row 39: what another session wrote is not covered, until its token is taken over."""
    west, east = world.container(WEST), world.container(EAST)
    mine, theirs = world.begin(), world.begin()
    mine.track(west).create_item({"id": "1", "customer": "a"})
    world.admin("pause", WEST, EAST)
    theirs.track(west).create_item({"id": "2", "customer": "a"})
    with pytest.raises(CosmosResourceNotFoundError):
        world.over(mine).read_item(east, "2", "a", **EAST_ALONE)
    world.edge.absorb(mine, world.edge.seal(theirs).text)
    with pytest.raises(contracts.BehindSession):
        world.over(mine).read_item(east, "2", "a", deadline=0.05, **EAST_ALONE)
    world.admin("resume", WEST, EAST)
    assert world.over(mine).read_item(east, "2", "a", **EAST_ALONE)["id"] == "2"


def test_row_40_bounded_staleness_is_not_strong_under_failover() -> None:
    """Row 40: an acknowledged write is gone, silently. With a session its reader is told."""
    with ExitStack() as stack:
        world = World(stack, consistency="BoundedStaleness")
        west, east = world.container(WEST), world.container(EAST)
        context = world.begin()
        west.create_item({"id": "1", "customer": "a", "n": 1})
        world.admin("pause", WEST, EAST)
        context.track(west).replace_item("1", {"id": "1", "customer": "a", "n": 2})
        assert world.fail_over_with_losses() == 1
        assert east.read_item("1", "a")["n"] == 1
        asking = world.container(EAST, consistency_level="Session")
        with pytest.raises(contracts.BehindSession):
            world.over(context).read_item(asking, "1", "a", deadline=0.1)


def test_row_41a_each_write_has_its_token_and_a_batch_has_one(world: World) -> None:
    """Row 41a: the token changes with each write; a batch hands one on, also when it fails."""
    west = world.container(WEST)
    context = world.begin()
    tracked = context.track(west)

    def token() -> str:
        return context.tokens.copy()["dbs/shop/colls/orders"].ranges["0"].text

    seen = []
    tracked.create_item({"id": "1", "customer": "a"})
    seen.append(token())
    tracked.execute_item_batch([("create", ({"id": "2", "customer": "a"},))], "a")
    seen.append(token())
    tracked.patch_item("1", "a", [{"op": "set", "path": "/n", "value": 1}])
    seen.append(token())
    tracked.delete_item("1", "a")
    seen.append(token())
    assert len(set(seen)) == 4
    failing = world.begin()
    with pytest.raises(CosmosBatchOperationError):
        failing.track(west).execute_item_batch([("create", ({"id": "2", "customer": "a"},))], "a")
    assert len(failing.tokens) == 1


def test_row_41a_a_session_of_several_partitions(world: World) -> None:
    """Row 41a: a token is for the partitions that were used, and for each of them only as far as was seen."""
    world.admin("lay_out", "shop/orders", 4)
    west, east = world.container(WEST), world.container(EAST)
    context = world.begin()
    tracked = context.track(west)
    for number in range(12):
        tracked.create_item({"id": "1", "customer": f"c{number}"})
    assert 2 <= len(context.tokens) <= 4
    world.admin("lag", WEST, EAST, LAG)
    for number in range(12):
        tracked.upsert_item({"id": "2", "customer": f"c{number}"})
    query = "SELECT c.id FROM c"
    found = list(world.over(context).track(east).query_items(query, enable_cross_partition_query=True))
    assert len(found) == 24


def test_row_41a_what_has_no_token_is_not_covered_in_silence(world: World) -> None:
    """Row 41a: what is not tracked is not offered by the tracked container, and no token is none to learn."""
    tracked = world.begin().track(world.container(WEST))
    for name in (
        "read_items",
        "read_all_items",
        "query_items_change_feed",
        "delete_all_items_by_partition_key",
    ):
        assert not hasattr(tracked, name), name
    with pytest.raises(contracts.SessionDamaged):
        tracked.learn("", "a")


def test_row_41b_the_sdk_forgets_the_batch_and_the_session_does_not(world: World) -> None:
    """Row 41b, as measured: after a batch the client's own next read carries the token from before it."""
    west, spy = world.container(WEST), Spy()
    context = world.begin()
    tracked = context.track(west)
    first = tracked.create_item({"id": "1", "customer": "a"}).get_response_headers()["x-ms-session-token"]
    batch = tracked.execute_item_batch([("create", ({"id": "2", "customer": "a"},))], "a")
    token = batch.get_response_headers()["x-ms-session-token"]
    west.read_item("1", "a", raw_response_hook=spy)
    tracked.read_item("1", "a", raw_response_hook=spy)
    assert spy.sent == [first, token]
    assert first != token


# -- what is lost ----------------------------------------------------------------------------------------------


def test_after_a_failover_with_losses_the_guarantee_ends_loudly(world: World) -> None:
    """The write is gone. The session's reads say that, for both clients, until it is given up."""
    west, east = world.container(WEST), world.container(EAST)
    west.create_item({"id": "1", "customer": "a", "n": 1})
    world.admin("pause", WEST, EAST)
    context = world.begin()
    context.track(west).replace_item("1", {"id": "1", "customer": "a", "n": 2})
    assert world.fail_over_with_losses() == 1
    after = world.over(context)
    with pytest.raises(contracts.BehindSession, match="lost in a failover") as caught:
        after.read_item(east, "1", "a", deadline=0.1)
    assert (caught.value.kind, caught.value.code, caught.value.who) == (
        "behind_session",
        "behind-session",
        "service",
    )
    with pytest.raises(contracts.BehindSession):
        list(after.track(east).query_items("SELECT * FROM c", partition_key="a", deadline=0.1))

    async def act(container: Any) -> None:
        with pytest.raises(contracts.BehindSession):
            await world.over(context).read_item(container, "1", "a", deadline=0.1)
        with pytest.raises(contracts.BehindSession):
            tracked = world.over(context).track(container)
            assert [
                each async for each in tracked.query_items("SELECT * FROM c", partition_key="a", deadline=0.1)
            ]

    run_async(world, EAST, act)
    after.forget(east)
    assert after.read_item(east, "1", "a")["n"] == 1


def test_a_container_that_was_made_again(world: World) -> None:
    """Its tokens are worth nothing, and whoever held them is told."""
    west = world.container(WEST)
    context = world.begin()
    context.track(west).create_item({"id": "1", "customer": "a"})
    database = world._stack.enter_context(CosmosClient(world.lab.endpoint, world.lab.key)).get_database_client(
        "shop"
    )
    database.delete_container("orders")
    database.create_container("orders", PartitionKey("/customer"))
    fresh = world.container(WEST)
    after = world.over(context)
    after.track(fresh).create_item({"id": "1", "customer": "a"})
    with pytest.raises(contracts.SessionIncomplete, match="made again"):
        after.read_item(fresh, "1", "a")


def test_the_keyerror_of_the_sync_client_is_a_404_1002(world: World) -> None:
    """The sync client raises KeyError while it drops tokens that it does not have; see its `_session.py`."""
    context = world.begin()
    tracked = context.track(world.container(WEST))
    tracked.create_item({"id": "1", "customer": "a"})
    east = world.container(EAST)
    east.read_item("1", "a")
    world.admin("pause", WEST, EAST)
    tracked.create_item({"id": "2", "customer": "a"})
    token = context.tokens.needed("dbs/shop/colls/orders", None)
    kept = east.client_connection.session.session_container

    def state() -> None:
        """It knows the container, and no token of it."""
        kept.collection_name_to_rid["dbs/shop/colls/orders"] = "some"
        kept.rid_to_session_token.pop("some", None)

    state()
    with pytest.raises(KeyError):
        east.read_item("2", "a", session_token=token, **EAST_ALONE)
    state()
    with pytest.raises(contracts.BehindSession):
        world.over(context).read_item(east, "2", "a", deadline=0, **EAST_ALONE)


def test_a_service_that_hangs_ends_a_read_in_time(world: World) -> None:
    """The deadline bounds the request itself, not only the waiting."""
    world.admin("add_rule", "delay=20 op=read")
    west = world.container(WEST)
    context = world.begin()
    began = time.monotonic()
    with pytest.raises(Exception) as caught:
        context.read_item(west, "1", "a", deadline=0.3)
    assert not isinstance(caught.value, CosmosResourceNotFoundError)
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("deadline", [-1, 4_000, float("nan"), "5", True])
def test_a_deadline_that_is_none(world: World, deadline: Any) -> None:
    with pytest.raises(UsageError, match="deadline"):
        world.begin().read_item(world.container(WEST), "1", "a", deadline=deadline)


# -- what changes under a session ------------------------------------------------------------------------------


def test_a_split_and_a_merge_keep_the_promise(world: World) -> None:
    """Tokens of a parent count for its children, and those of the children for what they were merged into."""
    west, east = world.container(WEST), world.container(EAST)
    context = world.begin()
    tracked = context.track(west)
    keys = [f"c{number}" for number in range(6)]
    for n, act in enumerate((None, ("split", "shop/orders", "0"), ("merge", "shop/orders", ["1", "2"]))):
        if act is not None:
            world.admin(*act)
        world.admin("lag", WEST, EAST, LAG)
        for key in keys:
            tracked.upsert_item({"id": "1", "customer": key, "n": n})
        after = world.over(context)
        assert [after.read_item(east, "1", key, **EAST_ALONE)["n"] for key in keys] == [n] * len(keys)


def test_a_hierarchical_key() -> None:
    with ExitStack() as stack:
        world = World(stack)
        client = stack.enter_context(CosmosClient(world.lab.endpoint, world.lab.key))
        client.get_database_client("shop").create_container(
            "deep", PartitionKey(["/a", "/b/c"], kind="MultiHash")
        )
        west, east, spy = world.container(WEST, "deep"), world.container(EAST, "deep"), Spy()
        context = world.begin()
        world.admin("lag", WEST, EAST, LAG)
        context.track(west).create_item({"id": "1", "a": "x", "b": {"c": 1}})
        after = world.over(context)
        assert after.read_item(east, "1", ["x", 1], raw_response_hook=spy, **EAST_ALONE)["id"] == "1"
        found = after.track(east).query_items("SELECT c.id FROM c", partition_key=["x"], raw_response_hook=spy)
        assert [each["id"] for each in found] == ["1"]
        assert None not in spy.sent


def test_an_item_without_its_partition_key(world: World) -> None:
    context = world.begin()
    west = world.container(WEST)
    context.track(west).create_item({"id": "1"})
    (token,) = context.tokens.copy()["dbs/shop/colls/orders"].ranges.values()
    assert token.scopes
    assert len(token.scopes) == 1


def test_hooks_of_the_caller_are_called(world: World) -> None:
    heads: list[Any] = []
    tracked = world.begin().track(world.container(WEST))
    tracked.create_item(
        {"id": "1", "customer": "a"}, response_hook=lambda headers, body: heads.append(body["id"])
    )
    assert heads == ["1"]


def test_many_keys_of_one_container_keep_the_session_small(world: World) -> None:
    context = world.begin()
    west = world.container(WEST)
    for number in range(20):
        context.track(west).create_item({"id": "1", "customer": f"c{number}"})
    assert len(context.tokens) == 1
    assert len(world.edge.seal(context).text) < 400


def test_another_account_is_refused(world: World) -> None:
    with ExitStack() as stack:
        other = World(stack)
        context = contracts.SessionContext()
        context.track(world.container(WEST))
        with pytest.raises(contracts.SessionForeign):
            context.track(other.container(WEST))


def test_a_strong_account_needs_no_token() -> None:
    """The SDK sends none, and the read is as good as promised, with both clients."""
    with ExitStack() as stack:
        world = World(stack, consistency="Strong")
        context = world.begin()
        context.track(world.container(WEST)).create_item({"id": "1", "customer": "a"})
        assert world.over(context).read_item(world.container(EAST), "1", "a")["id"] == "1"

        async def act(east: Any) -> None:
            assert (await world.over(context).read_item(east, "1", "a"))["id"] == "1"

        run_async(world, EAST, act)


def test_a_bounded_account_is_asked_for_session() -> None:
    """Its own level is no promise about one's own writes in another region; Session is, and it allows it."""
    with ExitStack() as stack:
        world = World(stack, consistency="BoundedStaleness")
        context = world.begin()
        world.admin("lag", WEST, EAST, LAG)
        context.track(world.container(WEST)).create_item({"id": "1", "customer": "a"})
        with pytest.raises(contracts.SessionNotSent):
            world.over(context).read_item(world.container(WEST), "1", "a")
        east = world.container(EAST, consistency_level="Session")
        assert world.over(context).read_item(east, "1", "a", **EAST_ALONE)["id"] == "1"
