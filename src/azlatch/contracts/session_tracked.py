"""A container whose answers are noted in a session, and whose reads carry what the session has seen."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from azlatch.contracts import session_sdk
from azlatch.contracts.session import Scope, SessionTokens
from azlatch.contracts.session_call import DEADLINE, SessionCall

if TYPE_CHECKING:
    from azure.cosmos import ContainerProxy

#: Physical partitions among which the one of a token is looked for.
MOST_LOOKED_AT = 256
_UNSET = object()

#: The definitions of containers, which a process reads once.
_PROPERTIES: weakref.WeakKeyDictionary[Any, Mapping[str, Any]] = weakref.WeakKeyDictionary()
#: The default levels of accounts by their clients' connections; it is asked for only where no token was sent.
_LEVELS: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


class Tracked:
    """What the two kinds of tracked container have in common.

    Attributes:
        container: the user's own.
        tokens: of the session.
    """

    def __init__(self, container: Any, tokens: SessionTokens, link: str) -> None:
        self.container = container
        self.tokens = tokens
        self.link = link

    @property
    def id(self) -> str:
        """The container's name."""
        return str(self.container.id)

    @property
    def container_link(self) -> str:
        """As the SDK's."""
        return str(self.container.container_link)

    @property
    def client_connection(self) -> Any:
        """As the SDK's."""
        return self.container.client_connection

    def token_for(self, scope: Scope | None) -> str:
        """What a read of a feed range has to carry; see `SessionTokens.needed`."""
        return self.tokens.needed(self.link, scope)

    def _known_properties(self) -> Mapping[str, Any] | None:
        known = _PROPERTIES.get(self.container)
        rid = self.tokens.copy().get(self.link)
        if known is not None and rid is not None and rid.rid not in (None, known.get("_rid")):
            return None
        return known


class TrackedContainer(Tracked):
    """The operations of a `ContainerProxy` on items, in a session. They take what the SDK's take.

    Reads have a `deadline`: seconds that they wait for replicas to catch up with the session. What is not here
    (`read_many_items`, the change feed) is not tracked: use `container`, and `learn` from its answers.
    """

    container: ContainerProxy

    def read(self, **options: Any) -> Any:
        """The container's own definition, as the SDK's."""
        return self.container.read(**options)

    def read_item(self, item: Any, partition_key: Any, *, deadline: float = DEADLINE, **options: Any) -> Any:
        """Reads an item that is at least as new as all that the session has seen.

        Raises:
            BehindSession: no replica had that within `deadline` seconds. It is not an absence.
            SessionIncomplete, SessionNotSent: it cannot be promised; see there.
        """
        scope = self._scope(partition_key)
        return self._run(
            lambda more: self.container.read_item(item, partition_key, **more),
            scope,
            options,
            deadline,
            reads=True,
        )

    def query_items(
        self, query: str, *, partition_key: Any = _UNSET, deadline: float = DEADLINE, **options: Any
    ) -> Iterator[dict[str, Any]]:
        """Yields the results of a query over what is at least as new as all that the session has seen.

        Raises, while it is iterated: as `read_item`. Once a result was given, it does not begin again.
        """
        scope = None
        if partition_key is not _UNSET:
            scope, options["partition_key"] = self._scope(partition_key), partition_key
        elif options.get("feed_range") is not None:
            scope = session_sdk.scope_of(options["feed_range"])
        call = SessionCall(self.tokens, self.link, scope, deadline=deadline, reads=True)
        given = False
        while True:
            try:
                for each in self.container.query_items(query, **call.options(options)):
                    self._done(call)
                    given = True
                    yield each
                self._done(call)
                return
            except Exception as error:  # noqa: BLE001 - `failed` raises it again, unless it is a 404/1002
                time.sleep(call.failed(error, again=not given))

    def create_item(self, body: Any, **options: Any) -> Any:
        """As the SDK's."""
        return self._write(lambda more: self.container.create_item(body, **more), self._scope_in(body), options)

    def upsert_item(self, body: Any, **options: Any) -> Any:
        """As the SDK's."""
        return self._write(lambda more: self.container.upsert_item(body, **more), self._scope_in(body), options)

    def replace_item(self, item: Any, body: Any, **options: Any) -> Any:
        """As the SDK's."""
        scope = self._scope_in(body)
        return self._write(lambda more: self.container.replace_item(item, body, **more), scope, options)

    def patch_item(self, item: Any, partition_key: Any, patch_operations: Any, **options: Any) -> Any:
        """As the SDK's."""
        scope = self._scope(partition_key)
        return self._write(
            lambda more: self.container.patch_item(item, partition_key, patch_operations, **more),
            scope,
            options,
        )

    def delete_item(self, item: Any, partition_key: Any, **options: Any) -> None:
        """As the SDK's."""
        scope = self._scope(partition_key)
        self._write(lambda more: self.container.delete_item(item, partition_key, **more), scope, options)

    def execute_item_batch(self, batch_operations: Any, partition_key: Any, **options: Any) -> Any:
        """As the SDK's; but the token of its answer is noted, which the SDK does not do."""
        scope = self._scope(partition_key)
        return self._write(
            lambda more: self.container.execute_item_batch(batch_operations, partition_key, **more),
            scope,
            options,
        )

    def learn(self, token: str, partition_key: Any = _UNSET) -> None:
        """Notes a session token that came with an answer of an operation that is not tracked.

        Raises:
            SessionDamaged: it is none that the SDK can use.
        """
        self.tokens.learn(self.link, token, None if partition_key is _UNSET else self._scope(partition_key))

    def _write(
        self, send: Callable[[dict[str, Any]], Any], scope: Scope | None, options: dict[str, Any]
    ) -> Any:
        return self._run(send, scope, options, DEADLINE, reads=False)

    def _run(
        self,
        send: Callable[[dict[str, Any]], Any],
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
                result = send(more)
            except Exception as error:  # noqa: BLE001 - `failed` raises it again, unless it is a 404/1002
                time.sleep(call.failed(error))
                continue
            self._done(call)
            self._make_room()
            return result

    def _done(self, call: SessionCall) -> None:
        connection = self.client_connection
        if call.wants_level and connection not in _LEVELS:
            _LEVELS[connection] = session_sdk.level_of(connection.GetDatabaseAccount())
        call.done(_LEVELS.get(connection, ""))

    def _scope(self, partition_key: Any) -> Scope:
        return session_sdk.scope_of(self.container.feed_range_from_partition_key(partition_key))

    def _scope_in(self, body: Any) -> Scope | None:
        """Of the item's partition key; None, which is safe, where that cannot be told."""
        if not isinstance(body, Mapping):
            return None
        known = self._known_properties()
        if known is None:
            known = _PROPERTIES[self.container] = self.container.read()
        try:
            return self._scope(session_sdk.key_in(body, known))
        except (LookupError, TypeError, ValueError):
            return None

    def _make_room(self) -> None:
        for token in self.tokens.crowded(self.link):
            ranges = list(self.container.read_feed_ranges())
            inside = session_sdk.hull(token.scopes or (), ranges) if len(ranges) <= MOST_LOOKED_AT else None
            self.tokens.widen(self.link, token.range_id, inside)
