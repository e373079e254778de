"""The tracked container for asyncio: the same operations, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from azlatch.contracts import session_sdk
from azlatch.contracts.session import Scope
from azlatch.contracts.session_call import DEADLINE, SessionCall
from azlatch.contracts.session_tracked import _LEVELS, _PROPERTIES, _UNSET, MOST_LOOKED_AT, Tracked

if TYPE_CHECKING:
    from azure.cosmos.aio import ContainerProxy


class AsyncTrackedContainer(Tracked):
    """What `TrackedContainer` is, for the SDK's asyncio containers."""

    container: ContainerProxy

    async def read(self, **options: Any) -> Any:
        """The container's own definition, as the SDK's."""
        return await self.container.read(**options)

    async def read_item(
        self, item: Any, partition_key: Any, *, deadline: float = DEADLINE, **options: Any
    ) -> Any:
        """As `TrackedContainer.read_item`."""
        scope = await self._scope(partition_key)
        return await self._run(
            lambda more: self.container.read_item(item, partition_key, **more),
            scope,
            options,
            deadline,
            reads=True,
        )

    async def query_items(
        self, query: str, *, partition_key: Any = _UNSET, deadline: float = DEADLINE, **options: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """As `TrackedContainer.query_items`."""
        scope = None
        if partition_key is not _UNSET:
            scope, options["partition_key"] = await self._scope(partition_key), partition_key
        elif options.get("feed_range") is not None:
            scope = session_sdk.scope_of(options["feed_range"])
        call = SessionCall(self.tokens, self.link, scope, deadline=deadline, reads=True)
        given = False
        while True:
            try:
                async for each in self.container.query_items(query, **call.options(options)):
                    await self._done(call)
                    given = True
                    yield each
                await self._done(call)
                return
            except Exception as error:  # noqa: BLE001 - `failed` raises it again, unless it is a 404/1002
                await asyncio.sleep(call.failed(error, again=not given))

    async def create_item(self, body: Any, **options: Any) -> Any:
        """As the SDK's."""
        scope = await self._scope_in(body)
        return await self._write(lambda more: self.container.create_item(body, **more), scope, options)

    async def upsert_item(self, body: Any, **options: Any) -> Any:
        """As the SDK's."""
        scope = await self._scope_in(body)
        return await self._write(lambda more: self.container.upsert_item(body, **more), scope, options)

    async def replace_item(self, item: Any, body: Any, **options: Any) -> Any:
        """As the SDK's."""
        scope = await self._scope_in(body)
        return await self._write(lambda more: self.container.replace_item(item, body, **more), scope, options)

    async def patch_item(self, item: Any, partition_key: Any, patch_operations: Any, **options: Any) -> Any:
        """As the SDK's."""
        scope = await self._scope(partition_key)
        return await self._write(
            lambda more: self.container.patch_item(item, partition_key, patch_operations, **more),
            scope,
            options,
        )

    async def delete_item(self, item: Any, partition_key: Any, **options: Any) -> None:
        """As the SDK's."""
        scope = await self._scope(partition_key)
        await self._write(lambda more: self.container.delete_item(item, partition_key, **more), scope, options)

    async def execute_item_batch(self, batch_operations: Any, partition_key: Any, **options: Any) -> Any:
        """As the SDK's; but the token of its answer is noted, which the SDK does not do."""
        scope = await self._scope(partition_key)
        return await self._write(
            lambda more: self.container.execute_item_batch(batch_operations, partition_key, **more),
            scope,
            options,
        )

    async def learn(self, token: str, partition_key: Any = _UNSET) -> None:
        """As `TrackedContainer.learn`."""
        scope = None if partition_key is _UNSET else await self._scope(partition_key)
        self.tokens.learn(self.link, token, scope)

    async def _write(
        self, send: Callable[[dict[str, Any]], Awaitable[Any]], scope: Scope | None, options: dict[str, Any]
    ) -> Any:
        return await self._run(send, scope, options, DEADLINE, reads=False)

    async def _run(
        self,
        send: Callable[[dict[str, Any]], Awaitable[Any]],
        scope: Scope | None,
        options: dict[str, Any],
        deadline: float,
        *,
        reads: bool,
    ) -> Any:
        call = SessionCall(self.tokens, self.link, scope, deadline=deadline, reads=reads)
        while True:
            more = call.options(options)
            try:
                result = await send(more)
            except Exception as error:  # noqa: BLE001 - `failed` raises it again, unless it is a 404/1002
                await asyncio.sleep(call.failed(error))
                continue
            await self._done(call)
            await self._make_room()
            return result

    async def _done(self, call: SessionCall) -> None:
        connection = self.client_connection
        if call.wants_level and connection not in _LEVELS:
            _LEVELS[connection] = session_sdk.level_of(await connection.GetDatabaseAccount())
        call.done(_LEVELS.get(connection, ""))

    async def _scope(self, partition_key: Any) -> Scope:
        return session_sdk.scope_of(await self.container.feed_range_from_partition_key(partition_key))

    async def _scope_in(self, body: Any) -> Scope | None:
        if not isinstance(body, Mapping):
            return None
        known = self._known_properties()
        if known is None:
            known = _PROPERTIES[self.container] = await self.container.read()
        try:
            return await self._scope(session_sdk.key_in(body, known))
        except (LookupError, TypeError, ValueError):
            return None

    async def _make_room(self) -> None:
        for token in self.tokens.crowded(self.link):
            ranges = [each async for each in self.container.read_feed_ranges()]
            inside = session_sdk.hull(token.scopes or (), ranges) if len(ranges) <= MOST_LOOKED_AT else None
            self.tokens.widen(self.link, token.range_id, inside)
