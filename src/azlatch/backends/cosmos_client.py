"""The SDK's client as a latch can use it: watched at each request, so that it repeats none.

Two hooks do what no setting does: the one that sees an answer raises for all that is no success, by a class
that the SDK does not know and lets through; the one that sees a request refuses to let a second one out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azlatch.backends.cosmos_words import Answered, date_of, in_words
from azlatch.errors import BackendDenied, BackendUnavailable, LatchError, OutcomeUnknown, UsageError

if TYPE_CHECKING:
    from azure.cosmos import CosmosClient


class Absent(Exception):
    """There is no such item."""

    def __init__(self, now: float | None) -> None:
        super().__init__()
        self.now = now


class _Again(Exception):
    """The SDK was about to send a request a second time."""


class Hooks:
    """What is done for each request for items on its way out and for each answer on its way in."""

    def __init__(self, *, reads: bool) -> None:
        self.sent = 0
        #: Requests that may go out.
        self.most = 1
        #: Answers that are left to the SDK.
        self.passes: frozenset[int] = frozenset()
        self.now: float | None = None
        self._reads = reads

    def sending(self, request: Any) -> None:
        """Raises before a second request for items goes out."""
        if not _is_for_items(request.http_request):
            return
        if self.sent >= self.most:
            raise _Again
        self.sent += 1

    def received(self, response: Any) -> None:
        """Raises for an answer that is no success."""
        if not _is_for_items(response.http_request):
            return
        found = response.http_response
        self.now = date_of(found.headers)
        if found.status_code >= 400 and found.status_code not in self.passes:
            answered = Answered(found.status_code, dict(found.headers))
            if self._reads and answered.code == (404, 0):
                raise Absent(self.now)
            raise answered


def _is_for_items(request: Any) -> bool:
    return bool(request.headers.get("x-ms-thinclient-proxy-resource-type") == "docs")


def check_client(client: Any) -> CosmosClient:
    """Refuses a client that a latch cannot use safely (H2).

    Raises:
        UsageError: it is no sync client, or its retries cannot be switched off.
    """
    from azure.cosmos import CosmosClient
    from azure.cosmos._retry_utility import ConnectionRetryPolicy

    if not isinstance(client, CosmosClient):
        kind = f"{type(client).__module__}.{type(client).__qualname__}"
        raise UsageError(
            f"a latch on Cosmos DB takes azure.cosmos.CosmosClient, not {kind}: pass the sync client; "
            "azlatch.aio calls it from threads"
        )
    policy: Any = client.client_connection.connection_policy
    retries = policy.ConnectionRetryConfiguration
    if type(retries) is not ConnectionRetryPolicy:
        kind = f"{type(retries).__module__}.{type(retries).__qualname__}"
        raise UsageError(
            f"the client's retry policy is {kind}, which cannot be switched off for single requests, and a "
            "retried renewal outlives its latch: make the client without connection_retry_policy="
        )
    if policy.RetryNonIdempotentWrites:
        raise UsageError(
            f"the client was made with retry_write={policy.RetryNonIdempotentWrites!r}, which sends writes "
            "again on its own, and that cannot be switched off for single requests: make one for latches "
            "without it"
        )
    return client


def failure_in_words(error: Exception, *, writes: bool, sent: bool) -> Exception:
    """What an exception of the SDK means that is no answer. Its own text is left out: it may carry a key."""
    from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError
    from azure.cosmos.exceptions import CosmosHttpResponseError

    kind = type(error).__name__
    if isinstance(error, CosmosHttpResponseError) and error.status_code is not None:
        # Of a request for the account or the container, which the hooks let through.
        substatus = {"x-ms-substatus": str(error.sub_status or 0)}
        said = in_words(Answered(int(error.status_code), substatus), writes=writes)
        return (
            said
            if isinstance(said, LatchError)
            else BackendUnavailable(f"Cosmos DB answered {error.status_code}")
        )
    if isinstance(error, ClientAuthenticationError):
        return BackendDenied(
            f"no credential was accepted ({kind}): sign in, or give the process an identity or a connection "
            "string"
        )
    if isinstance(error, ServiceRequestError) and not broke_in_tls(error):
        return BackendUnavailable(f"Cosmos DB cannot be reached ({kind}): nothing was sent")
    message = f"the connection to Cosmos DB failed while it was to answer ({kind})"
    return OutcomeUnknown(message) if writes and sent else BackendUnavailable(message)


def broke_in_tls(error: Any) -> bool:
    """Whether TLS ended the connection, perhaps in the middle of an answer: to the SDK it was never made."""
    from requests.exceptions import SSLError

    inner = getattr(error, "inner_exception", None)
    return isinstance(inner, SSLError) and "CERTIFICATE_VERIFY_FAILED" not in str(inner)


def transport() -> Any:
    """A transport with a connection for each call at a time, and without retries of its own."""
    import requests
    from azure.core.pipeline.transport import RequestsTransport
    from requests.adapters import HTTPAdapter

    session = requests.Session()
    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(pool_connections=4, pool_maxsize=64, max_retries=0))
    return RequestsTransport(session=session, session_owner=True)
