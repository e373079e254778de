"""A session: what one user, request or job has seen, and has to see again on whichever instance it comes to."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, overload

from azlatch.contracts import session_sdk
from azlatch.contracts.session import SessionTokens
from azlatch.contracts.session_call import DEADLINE
from azlatch.contracts.session_errors import SessionForeign, SessionRefused
from azlatch.contracts.session_tracked import Tracked, TrackedContainer

if TYPE_CHECKING:
    from azure.cosmos import ContainerProxy
    from azure.cosmos.aio import ContainerProxy as AsyncContainerProxy

    from azlatch.contracts.session_tracked_aio import AsyncTrackedContainer


class SessionContext:
    """Reads your writes, across instances: it notes the tokens of answers, and reads carry them.

    It is for one session: one user, one request, one job. Shared by all requests of a process it would make
    every read wait for the writes of everybody.

    Args:
        account: its name, the same on all instances; by default host and port of the container's endpoint.

    Attributes:
        refused: why the session that was handed over was not taken, where the edge lets such requests through.
    """

    def __init__(self, account: str | None = None) -> None:
        self._named = account is not None
        self._account = account
        self.tokens = SessionTokens(session_sdk.merge, session_sdk.overlap)
        self.refused: SessionRefused | None = None

    @property
    def account(self) -> str | None:
        """Of which all is; None as long as that is not known."""
        return self._account

    @property
    def left_out(self) -> int:
        """How many tokens had no room on the way here; reads that may need one raise SessionIncomplete."""
        return self.tokens.left_out

    @overload
    def track(self, container: ContainerProxy) -> TrackedContainer: ...
    @overload
    def track(self, container: AsyncContainerProxy) -> AsyncTrackedContainer: ...

    def track(self, container: Any) -> Any:
        """The container with its operations on items in this session, for the client's own kind.

        Raises:
            SessionForeign: it is of another account than the session.
        """
        if isinstance(container, Tracked):
            container = container.container
        account = self._account if self._named else session_sdk.account_of(container)
        if self._account is None:
            self._account = account
        elif account != self._account:
            raise SessionForeign("the container is of another account than what the session has seen")
        link = session_sdk.link_of(container)
        if inspect.iscoroutinefunction(container.read_item):
            from azlatch.contracts.session_tracked_aio import AsyncTrackedContainer

            return AsyncTrackedContainer(container, self.tokens, link)
        return TrackedContainer(container, self.tokens, link)

    def read_item(
        self, container: Any, item: Any, partition_key: Any, *, deadline: float = DEADLINE, **options: Any
    ) -> Any:
        """`track(container).read_item(...)`: the item, or for the asyncio client what to await for it."""
        tracked: Any = self.track(container)
        return tracked.read_item(item, partition_key, deadline=deadline, **options)

    def forget(self, container: Any = None) -> None:
        """Gives up what was seen of a container, or of all: what was promised before no longer is."""
        self.tokens.forget(None if container is None else session_sdk.link_of(container))
