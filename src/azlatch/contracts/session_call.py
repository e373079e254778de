"""One operation in a session, without the operation: what it is sent with, and what its outcome means."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from azlatch.contracts import session_sdk
from azlatch.contracts.session import Scope, SessionTokens
from azlatch.contracts.session_errors import BehindSession, SessionDamaged, SessionNotSent
from azlatch.errors import UsageError

#: Seconds that a read waits for replicas to catch up, unless it says otherwise.
DEADLINE = 5.0
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.25
#: The SDK refuses a timeout that has passed before the first request.
_SHORTEST_TIMEOUT = 0.05


def check_deadline(deadline: float) -> float:
    """The same, if it is one. Raises UsageError."""
    if isinstance(deadline, bool) or not isinstance(deadline, (int, float)) or not 0 <= deadline <= 3_600:
        raise UsageError(f"deadline is {deadline!r}: give it 0 to 3,600 seconds")
    return float(deadline)


class SessionCall:
    """One operation: `options` for each try of it, then `failed` or `done`."""

    def __init__(
        self, tokens: SessionTokens, link: str, scope: Scope | None, *, deadline: float = DEADLINE, reads: bool
    ) -> None:
        self._tokens = tokens
        self._link = link
        self._scope = scope
        self._deadline = check_deadline(deadline)
        self._reads = reads
        self._began = time.monotonic()
        self._pause = _FIRST_PAUSE
        self._attempts = 0
        self._was_behind = False
        self._sent = ""
        self._weak = False

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments of the next try.

        Raises:
            SessionIncomplete: the session does not know what it has to see.
            UsageError: a session token is given besides.
        """
        if given.get("session_token") is not None:
            raise UsageError(
                "session_token is what the session gives: leave it out, or call the container itself"
            )
        options = dict(given)
        self._attempts += 1
        self._weak = False
        self._sent = self._tokens.needed(self._link, self._scope)
        if self._sent:
            options["session_token"] = self._sent
        if self._reads:
            left = max(self._left, _SHORTEST_TIMEOUT)
            options["timeout"] = min(left, options.get("timeout") or left)
            options["read_timeout"] = min(left, options.get("read_timeout") or left)
        options["response_hook"] = self._hook(given.get("response_hook"))
        options["raw_response_hook"] = self._raw_hook(given.get("raw_response_hook"))
        return options

    @property
    def wants_level(self) -> bool:
        """Whether the read went out without its token: what it is worth depends on the account's level."""
        return self._weak

    def done(self, account_level: str = "") -> None:
        """The operation succeeded.

        Args:
            account_level: the account's default, where `wants_level`.

        Raises:
            SessionNotSent: it was a read, went out without the token, and the level is not Strong.
        """
        if self._weak and account_level.lower() != "strong":
            raise SessionNotSent(
                f"the SDK read {self._link} without the session token: the account or the client is set to a "
                "level that is neither Session nor Strong; use a client with consistency_level='Session', "
                "which an account of BoundedStaleness allows too"
            )

    def failed(self, error: BaseException, *, again: bool = True) -> float:
        """How many seconds to wait before the next try.

        Raises:
            BehindSession: no replica had what the session has seen, within the deadline.
            BaseException: `error` itself, after what it says about the session was noted.
        """
        unserved = type(error).__name__ == "CosmosClientTimeoutError" or getattr(error, "status_code", 0) == 503
        if session_sdk.is_behind(error) or (self._was_behind and unserved):
            if not again or self._left <= 0:
                raise self._behind() from error
            pause = min(self._pause, max(self._left, 0.0))
            self._pause = min(self._pause * 2, _LONGEST_PAUSE)
            return pause
        token = session_sdk.token_in(error)
        if token:
            self._learn(token, None)
        raise error

    @property
    def _left(self) -> float:
        return self._deadline - (time.monotonic() - self._began)

    def _behind(self) -> BehindSession:
        waited = time.monotonic() - self._began
        return BehindSession(
            f"no replica that answered had what this session has seen of {self._link} within {waited:.2f} s "
            f"and {self._attempts} tries. This is no absence. If it lasts: writes were lost in a failover, the "
            "container was made again, or the token is of another container or partition; then forget() begins "
            "a new session",
            waited=waited,
            attempts=self._attempts,
        )

    def _hook(self, given: Any) -> Any:
        def hook(headers: Mapping[str, Any], body: Any) -> None:
            token = str(headers.get(session_sdk.TOKEN_HEADER) or "")
            if token:
                self._learn(token, session_sdk.rid_of(body))
            elif not self._reads:
                self._tokens.lose(self._link, "a write was answered without a session token")
            if given is not None:
                given(headers, body)

        return hook

    def _raw_hook(self, given: Any) -> Any:
        sent = self._sent

        def hook(response: Any) -> None:
            # The SDK may go on to another region, and end with that one's error: this one is remembered.
            answer = response.http_response
            if answer.status_code == 404 and answer.headers.get("x-ms-substatus") == "1002":
                self._was_behind = True
            headers = response.http_request.headers
            if self._reads and sent and "x-ms-cosmos-is-query-plan-request" not in headers:
                self._weak = self._weak or headers.get(session_sdk.TOKEN_HEADER) != sent
            if given is not None:
                given(response)

        return hook

    def _learn(self, token: str, rid: str | None) -> None:
        try:
            self._tokens.learn(self._link, token, self._scope, rid=rid)
        except SessionDamaged:
            # The operation itself is done: to raise here would hide that.
            self._tokens.lose(self._link, "the service answered with a session token that the SDK cannot use")
