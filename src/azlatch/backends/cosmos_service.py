"""Cosmos DB as the latch needs it: each request is sent once, with a definite answer or an honest error.

The SDK repeats requests on its own in more than one place, and neither the client's nor the request's settings
switch all of them off. So two hooks do it, which every request for items carries: the one that sees the answer
raises `Answered` for all that is no success, which the SDK does not know and lets through; the one that sees
the request refuses to let a second one out. Reads go to the region that takes the writes: a replica elsewhere
knows less. That region is looked up again after an answer, or a silence, that says it may be another by now.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from azlatch.backends.bounded import Bounded
from azlatch.backends.cosmos_client import Absent, Hooks, check_client, failure_in_words
from azlatch.backends.cosmos_words import BEHIND, MOVED, Answered, in_words, wrong_key
from azlatch.core.env import Env
from azlatch.errors import (
    BackendDenied,
    BackendMisconfigured,
    BackendUnavailable,
    LatchError,
    OutcomeUnknown,
    UsageError,
)

if TYPE_CHECKING:
    from azure.cosmos import ContainerProxy, CosmosClient

T = TypeVar("T")

Document = Mapping[str, Any]

#: The most that making a connection may take, seconds.
_CONNECT = 3.0
#: The write region is looked up again no sooner than so many seconds after the last time.
_LOOK_AGAIN = 1.0
#: Requests that one query may take.
_MOST_OF_A_QUERY = 10_000


class Answer(NamedTuple):
    """What the service said to a request that it carried out.

    `document` is the item, None where there is none; `now` is the service's own time.
    """

    document: Document | None
    now: float | None


class Account(NamedTuple):
    """What an account is set up to be, as far as a latch's safety depends on it."""

    write_regions: tuple[str, ...]
    read_regions: tuple[str, ...]
    level: str


class CosmosService(Protocol):
    """The requests. Each raises Refused, a BackendError, or, where it writes, OutcomeUnknown."""

    def prepare(self, until: float, *, create: bool) -> Account:
        """Finds the container, or makes it; before any other request."""
        ...

    def read(self, key: str, until: float) -> Answer: ...
    def create(self, document: Document, until: float) -> Answer: ...
    def replace(self, document: Document, etag: str, until: float) -> Answer: ...

    def patch(
        self,
        key: str,
        operations: Sequence[Document],
        until: float,
        *,
        condition: str | None = None,
        etag: str | None = None,
        quiet: bool = False,
    ) -> Answer:
        """Changes properties of an item that fits the condition; `quiet` wants no item back."""
        ...

    def delete(self, key: str, etag: str, until: float) -> None: ...

    def query(
        self, text: str, parameters: Sequence[Document], until: float
    ) -> tuple[list[Document], float | None]:
        """All that a query finds, which has a limit of its own, and the service's time."""
        ...

    def close(self) -> None: ...


class AzureCosmosService:
    """The real one, through azure-cosmos's sync client.

    Args:
        client: makes or has the client; called on a thread, since making one makes requests.
        owned: whether the client is closed with this.
    """

    def __init__(
        self, client: Callable[[], CosmosClient], database: str, container: str, env: Env, *, owned: bool
    ) -> None:
        self._make = client
        self._database = database
        self._name = container
        self._env = env
        self._owned = owned
        self._bounded = Bounded(env, "azlatch-cosmos")
        self._lock = threading.Lock()
        self._client: CosmosClient | None = None
        self._container: ContainerProxy | None = None
        self._regions: tuple[str, ...] = ()
        self._moved = False
        self._looked_at = 0.0

    # -- the container -----------------------------------------------------------------------------------

    def prepare(self, until: float, *, create: bool) -> Account:
        return self._call(lambda: self._prepare(until, create), until, writes=False)

    def _prepare(self, until: float, create: bool) -> Account:
        from azure.cosmos.exceptions import CosmosResourceNotFoundError

        with self._lock:
            if self._client is None:
                self._client = check_client(self._make())
        client = self._client
        account = self._account()
        container = client.get_database_client(self._database).get_container_client(self._name)
        limits: dict[str, Any] = {"read_timeout": max(until - self._env.now(), 0.001), "retry_total": 0}
        try:
            found = container.read(**limits)
        except CosmosResourceNotFoundError:
            if not create:
                raise BackendMisconfigured(
                    f"there is no container {self._name!r} in the database {self._database!r}: make it with "
                    "`azlatch doctor --apply`, connect(create=True), or az cosmosdb sql container create "
                    "--partition-key-path /id (roles for data cannot create containers)"
                ) from None
            found = self._create(limits)
        if list(found["partitionKey"]["paths"]) != ["/id"]:
            paths = ", ".join(found["partitionKey"]["paths"])
            raise BackendMisconfigured(wrong_key(f"the container {self._name!r} is partitioned by {paths}"))
        self._container = container
        return account

    def _create(self, limits: dict[str, Any]) -> Any:
        from azure.cosmos import PartitionKey
        from azure.cosmos.exceptions import CosmosHttpResponseError, CosmosResourceExistsError

        client = self._client
        assert client is not None
        try:
            with contextlib.suppress(CosmosResourceExistsError):
                client.create_database(self._database, **limits)
            database = client.get_database_client(self._database)
            with contextlib.suppress(CosmosResourceExistsError):
                database.create_container(
                    self._name,
                    PartitionKey("/id"),
                    # Each indexed property costs each write; nothing but these is looked for.
                    indexing_policy={
                        "indexingMode": "consistent",
                        "includedPaths": [{"path": "/state/?"}, {"path": "/fence/?"}, {"path": "/azlatch/?"}],
                        "excludedPaths": [{"path": "/*"}],
                    },
                    default_ttl=-1,
                    **limits,
                )
            return database.get_container_client(self._name).read(**limits)
        except CosmosHttpResponseError as error:
            if error.status_code in (401, 403):
                raise BackendDenied(
                    f"Cosmos DB answered {error.status_code}/{error.sub_status or 0}: this identity may not "
                    f"create the database {self._database!r} or the container {self._name!r}. Roles for data "
                    "never may: let an operator run az cosmosdb sql container create --partition-key-path /id, "
                    "then connect without create=True"
                ) from None
            raise

    def _account(self) -> Account:
        """Asks for the account, at any of its regions that answers, and tells the client what it says."""
        from azure.core.exceptions import AzureError

        assert self._client is not None
        connection: Any = self._client.client_connection
        manager = connection._global_endpoint_manager
        cache = manager.location_cache
        known = [
            each.get_primary() for each in cache.account_read_regional_routing_contexts_by_location.values()
        ]
        places = [connection.url_connection, *(each for each in known if each != connection.url_connection)]
        for place in places:
            try:
                found = connection.GetDatabaseAccount(place)
                break
            except AzureError:
                if place == places[-1]:
                    raise
        manager.refresh_needed = True
        manager.refresh_endpoint_list(found)
        self._looked_at, self._moved = self._env.now(), False
        account = Account(
            tuple(each["name"] for each in found.WritableLocations),
            tuple(each["name"] for each in found.ReadableLocations),
            str((found.ConsistencyPolicy or {}).get("defaultConsistencyLevel", "")),
        )
        self._regions = account.read_regions
        return account

    # -- the requests ------------------------------------------------------------------------------------

    def read(self, key: str, until: float) -> Answer:
        def run(container: ContainerProxy, hooks: Hooks) -> Answer:
            # Without a region that may be read, the SDK reads where it writes.
            found = container.read_item(
                key, key, excluded_locations=list(self._regions), **self._options(hooks, until)
            )
            return _whole(Answer(found, hooks.now))

        try:
            return self._request(run, until, writes=False)
        except Absent as absent:
            return Answer(None, absent.now)

    def create(self, document: Document, until: float) -> Answer:
        def run(container: ContainerProxy, hooks: Hooks) -> Answer:
            made = container.create_item(dict(document), no_response=False, **self._writing(hooks, until))
            return _whole(Answer(made, hooks.now))

        return self._request(run, until, writes=True)

    def replace(self, document: Document, etag: str, until: float) -> Answer:
        def run(container: ContainerProxy, hooks: Hooks) -> Answer:
            put = container.replace_item(
                document["id"], dict(document), no_response=False, **_if(etag), **self._writing(hooks, until)
            )
            return _whole(Answer(put, hooks.now))

        return self._request(run, until, writes=True)

    def patch(
        self,
        key: str,
        operations: Sequence[Document],
        until: float,
        *,
        condition: str | None = None,
        etag: str | None = None,
        quiet: bool = False,
    ) -> Answer:
        def run(container: ContainerProxy, hooks: Hooks) -> Answer:
            done = container.patch_item(
                key,
                key,
                [dict(each) for each in operations],
                filter_predicate=condition,
                no_response=quiet,
                **(_if(etag) if etag is not None else {}),
                **self._writing(hooks, until),
            )
            return Answer(None, hooks.now) if quiet else _whole(Answer(done, hooks.now))

        return self._request(run, until, writes=True)

    def delete(self, key: str, etag: str, until: float) -> None:
        def run(container: ContainerProxy, hooks: Hooks) -> None:
            container.delete_item(key, key, **_if(etag), **self._writing(hooks, until))

        self._request(run, until, writes=True)

    def query(
        self, text: str, parameters: Sequence[Document], until: float
    ) -> tuple[list[Document], float | None]:
        def run(container: ContainerProxy, hooks: Hooks) -> tuple[list[Document], float | None]:
            # It is as many requests as there are partitions and pages, and one more for its plan where the
            # service says so; only the SDK knows how to go on after a split.
            hooks.most, hooks.passes = _MOST_OF_A_QUERY, frozenset({400, 410})
            found = container.query_items(
                text,
                parameters=[dict(each) for each in parameters],
                enable_cross_partition_query=True,
                excluded_locations=list(self._regions),
                **self._options(hooks, until),
            )
            return list(found), hooks.now

        return self._request(run, until, writes=False)

    def close(self) -> None:
        self._bounded.stop()
        if self._owned and self._client is not None:
            self._client.close()

    # -- how a request is made -----------------------------------------------------------------------

    def _request(self, run: Callable[[ContainerProxy, Hooks], T], until: float, *, writes: bool) -> T:
        hooks = Hooks(reads=not writes)

        def ask() -> T:
            container = self._container
            if container is None:
                raise UsageError("the store is not prepared")
            if self._moved and self._env.now() >= self._looked_at + _LOOK_AGAIN:
                self._look_again()
            return run(container, hooks)

        return self._call(ask, until, writes=writes, hooks=hooks)

    def _look_again(self) -> None:
        from azure.core.exceptions import AzureError

        self._looked_at = self._env.now()
        with contextlib.suppress(AzureError):
            self._account()

    def _call(self, run: Callable[[], T], until: float, *, writes: bool, hooks: Hooks | None = None) -> T:
        """Makes it on a thread, and puts what came of it into words; no SDK error is left in the context."""
        answer: T
        error: Exception | None = None
        try:
            answer = self._bounded.call(run, until, writes=writes)
        except (LatchError, Absent) as known:
            self._moved = self._moved or isinstance(known, (OutcomeUnknown, BackendUnavailable))
            raise
        except Answered as answered:
            if answered.code == BEHIND:
                self._forget_session(answered)
            self._moved = self._moved or answered.code in MOVED or answered.is_silence
            error = in_words(answered, writes=writes)
        except Exception as caught:  # noqa: BLE001 - whatever the SDK raises is put into words
            self._moved = True
            error = failure_in_words(caught, writes=writes, sent=hooks is None or hooks.sent > 0)
        if error is not None:
            raise error
        return answer

    def _forget_session(self, answered: Answered) -> None:
        """As the SDK does where it has no other region left: the token may be of what a failover has lost."""
        session: Any = self._client.client_connection.session if self._client is not None else None
        if session is not None:
            with contextlib.suppress(KeyError):
                session.clear_session_token(dict(answered.headers))

    def _options(self, hooks: Hooks, until: float) -> dict[str, Any]:
        left = max(until - self._env.now(), 0.001)
        return {
            "availability_strategy": False,
            "retry_total": 0,
            "connection_timeout": min(left, _CONNECT),
            "read_timeout": left,
            "raw_request_hook": hooks.sending,
            "raw_response_hook": hooks.received,
        }

    def _writing(self, hooks: Hooks, until: float) -> dict[str, Any]:
        return {"retry_write": 0, "excluded_locations": [], **self._options(hooks, until)}


def _whole(answer: Answer) -> Answer:
    """The answer, if it has what makes it one: to the SDK a head that was cut may be a success."""
    if answer.document is None or not answer.document.get("_etag"):
        raise OutcomeUnknown("Cosmos DB's answer was cut short")
    return answer


def _if(etag: str) -> dict[str, Any]:
    from azure.core import MatchConditions

    return {"etag": etag, "match_condition": MatchConditions.IfNotModified}
