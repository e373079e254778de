"""Where sessions go out of a service and come in: one place for account, keys and limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from azlatch.contracts.session_context import SessionContext
from azlatch.contracts.session_envelope import (
    MOST_BYTES,
    MOST_BYTES_EVER,
    Sealed,
    SessionKey,
    check_keys,
    seal,
    unseal,
)
from azlatch.contracts.session_errors import SessionForeign
from azlatch.errors import UsageError

#: Seconds; replication between regions takes far less.
MAX_AGE_S = 3_600.0


class SessionEdge:
    """Makes envelopes of sessions, and sessions of envelopes. It is used by all requests of a process at once.

    Args:
        keys: the first one signs, all of them are accepted. To rotate: add the new one at the end everywhere,
            then move it to the front everywhere, and take the old one away after `max_age_s`.
        account: a name that all instances share, for example the account's host name.
        containers: the links (`dbs/shop/colls/orders`) that sessions may speak of; by default all of the
            account.
        max_age_s: how long an envelope is taken.
        most_bytes: of an envelope, going out or coming in.
        clock: seconds since 1970, the same on all instances.

    Raises:
        UsageError: an argument is out of its range.
    """

    def __init__(
        self,
        keys: Sequence[SessionKey],
        *,
        account: str,
        containers: Collection[str] | None = None,
        max_age_s: float = MAX_AGE_S,
        most_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not account:
            raise UsageError("account: give it a name that all instances share")
        if not 1 <= max_age_s <= 30 * 86_400:
            raise UsageError(f"max_age_s is {max_age_s}: give it 1 to {30 * 86_400:,} seconds")
        if not 512 <= most_bytes <= MOST_BYTES_EVER:
            raise UsageError(f"most_bytes is {most_bytes}: give it 512 to {MOST_BYTES_EVER:,}")
        self.keys = check_keys(keys)
        self.account = account
        self.containers = None if containers is None else frozenset(containers)
        self.max_age_s = float(max_age_s)
        self.most_bytes = most_bytes
        self._clock = clock

    def begin(self, text: str | None = None) -> SessionContext:
        """The session that an envelope says, or a new one.

        Raises:
            SessionRefused: it is not taken; see the subclasses.
        """
        context = SessionContext(self.account)
        if text:
            self.absorb(context, text)
        return context

    def absorb(self, context: SessionContext, text: str) -> None:
        """Adds what an envelope says to a session.

        Raises:
            SessionRefused: it is not taken; nothing was added.
        """
        self._check(context)
        found = unseal(
            text,
            self.account,
            self.keys,
            now=self._clock(),
            most_bytes=self.most_bytes,
            containers=self.containers,
        )
        for link, tokens in found.items():
            context.tokens.absorb(link, tokens)

    def seal(self, context: SessionContext) -> Sealed:
        """A session as text; `left_out` says how many of its tokens had no room.

        Raises:
            SessionOversized: there is no room even for the names of its containers.
            SessionForeign: the session is of another account.
        """
        self._check(context)
        return seal(
            self.account,
            context.tokens.copy(),
            self.keys,
            now=self._clock(),
            max_age_s=self.max_age_s,
            most_bytes=self.most_bytes,
        )

    def _check(self, context: SessionContext) -> None:
        if context.account not in (None, self.account):
            raise SessionForeign("the session is of another account than the edge: give both the same account=")
