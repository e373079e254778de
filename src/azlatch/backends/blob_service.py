"""The Blob service as the latch needs it: eight requests, each with a definite answer or an honest error.

Every answer of the service and every failure of the way to it is put into words here, once: `Refused` is a
"no" (the request did nothing), the errors of `azlatch.errors` are the rest. The SDK's own retries are off in
every request, whatever the client was made with: one 503 would delay a renewal by longer than a lease lives.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from azlatch.backends.bounded import Bounded
from azlatch.core.env import Env
from azlatch.errors import (
    BackendDenied,
    BackendMisconfigured,
    BackendThrottled,
    BackendUnavailable,
    LatchError,
    OutcomeUnknown,
    UsageError,
)

if TYPE_CHECKING:
    from azure.storage.blob import BlobClient, ContainerClient

T = TypeVar("T")

LeaseState = Literal["available", "leased", "expired", "breaking", "broken"]

#: Why the service said no: the lease is another's, the blob is not the version that was meant, there is no
#: such blob, there is one already, the lease is not ours (any more), it was broken.
No = Literal["held", "changed", "absent", "exists", "mismatch", "broken"]

#: The most that making a connection may take, seconds.
_CONNECT = 3.0
#: Clients of single blobs that are kept; making one costs more than a request does.
_MOST_CLIENTS = 2_000

_NO: dict[str, No] = {
    "BlobAlreadyExists": "exists",
    "BlobNotFound": "absent",
    "ConditionNotMet": "changed",
    "LeaseAlreadyPresent": "held",
    "LeaseIdMissing": "held",
    "LeaseIsBreakingAndCannotBeAcquired": "held",
    "LeaseIsBreakingAndCannotBeChanged": "held",
    "LeaseAlreadyBroken": "broken",
    "LeaseIsBrokenAndCannotBeRenewed": "broken",
    "LeaseIdMismatchWithBlobOperation": "mismatch",
    "LeaseIdMismatchWithLeaseOperation": "mismatch",
    "LeaseLost": "mismatch",
    "LeaseNotPresentWithBlobOperation": "mismatch",
    "LeaseNotPresentWithLeaseOperation": "mismatch",
}

_NO_CONTAINER = ("ContainerNotFound", "ContainerBeingDeleted", "ContainerDisabled", "ResourceNotFound")


class Refused(Exception):
    """The service said no, and nothing happened."""

    def __init__(self, no: No, code: str) -> None:
        super().__init__(f"{no}: {code}")
        self.no: No = no
        self.code = code


class Blob(NamedTuple):
    """A blob as the service describes it. Times are the service's, in seconds since the Unix epoch."""

    name: str
    etag: str
    table: dict[str, str]
    lease: LeaseState
    infinite: bool
    modified: float
    now: float | None
    size: int = 0

    @property
    def leased(self) -> bool:
        """Whether nobody else can have a lease now."""
        return self.lease in ("leased", "breaking")


class Answer(NamedTuple):
    """What the service said to a request that it carried out; `now` is its own time."""

    etag: str
    now: float | None
    lease_id: str | None = None
    left: float = 0.0


class Settings(NamedTuple):
    """What `doctor` asks for; None is what this credential may not know."""

    container: str
    service: str
    api_version: str
    now: float | None
    soft_delete_days: int | None
    immutable: bool
    hierarchical: bool | None
    public: bool


class BlobService(Protocol):
    """The requests. Each raises Refused, a BackendError, or, where it writes, OutcomeUnknown."""

    def head(self, blob: str, until: float) -> Blob | None: ...

    def create(self, blob: str, table: dict[str, str], until: float, *, replace: bool = False) -> Answer:
        """Makes an empty blob; without `replace` only if there is none."""
        ...

    def acquire(self, blob: str, lease_id: str, duration: int, etag: str | None, until: float) -> Answer: ...
    def renew(self, blob: str, lease_id: str, until: float) -> Answer: ...
    def release(self, blob: str, lease_id: str, until: float) -> Answer: ...

    def break_lease(self, blob: str, period: int | None, etag: str, until: float) -> Answer:
        """Ends the lease after `period` seconds, None for what remains of it; `left` says how many."""
        ...

    def describe(
        self, blob: str, table: dict[str, str], lease_id: str | None, etag: str | None, until: float
    ) -> Answer:
        """Replaces the table."""
        ...

    def delete(self, blob: str, etag: str, until: float) -> None: ...
    def list(self, start: str, until: float) -> Iterator[Blob]:
        """All whose names start so; the time until `until` is for each page."""
        ...

    def create_container(self, until: float) -> None: ...
    def settings(self, until: float) -> Settings: ...
    def close(self) -> None: ...


class AzureBlobService:
    """The real one, through azure-storage-blob's client of a container.

    Raises:
        UsageError: the client is an asyncio one, or its retries cannot be switched off.
    """

    def __init__(self, container: ContainerClient, env: Env, *, owned: bool) -> None:
        check_client(container)
        self._container = container
        self._env = env
        self._owned = owned
        self._bounded = Bounded(env, "azlatch-blob")
        self._clients: dict[str, BlobClient] = {}

    def head(self, blob: str, until: float) -> Blob | None:
        client = self._client(blob)
        now = _Now()

        def run() -> Blob:
            return _blob(client.get_blob_properties(raw_response_hook=now, **self._options(until)), now.value)

        try:
            return self._call(run, until, writes=False)
        except Refused as refused:
            if refused.no == "absent":
                return None
            raise

    def create(self, blob: str, table: dict[str, str], until: float, *, replace: bool = False) -> Answer:
        client = self._client(blob)
        now = _Now()

        def run() -> Answer:
            done = client.upload_blob(
                b"", metadata=table, overwrite=replace, raw_response_hook=now, **self._options(until)
            )
            return _whole(Answer(done["etag"], now.value), done["etag"])

        try:
            return self._call(run, until, writes=True)
        except Refused as refused:
            # "Exists" has three spellings, by whether it is leased and by the version of the service.
            if refused.no in ("held", "changed") and not replace:
                raise Refused("exists", refused.code) from None
            raise

    def acquire(self, blob: str, lease_id: str, duration: int, etag: str | None, until: float) -> Answer:
        lease, now = self._lease(blob, lease_id), _Now()

        def run() -> Answer:
            lease.acquire(duration, raw_response_hook=now, **_if_match(etag), **self._options(until))
            return _whole(Answer(lease.etag, now.value, lease.id), lease.id)

        return self._call(run, until, writes=True)

    def renew(self, blob: str, lease_id: str, until: float) -> Answer:
        lease = self._lease(blob, lease_id)

        def run() -> Answer:
            lease.renew(**self._options(until))
            return _whole(Answer(lease.etag, None, lease.id), lease.id)

        return self._call(run, until, writes=True)

    def release(self, blob: str, lease_id: str, until: float) -> Answer:
        lease = self._lease(blob, lease_id)

        def run() -> Answer:
            lease.release(**self._options(until))
            return Answer(lease.etag, None)

        return self._call(run, until, writes=True)

    def break_lease(self, blob: str, period: int | None, etag: str, until: float) -> Answer:
        lease, now = self._lease(blob, ""), _Now()

        def run() -> Answer:
            left = lease.break_lease(period, raw_response_hook=now, **_if_match(etag), **self._options(until))
            return Answer(etag, now.value, left=float(left or 0))

        return self._call(run, until, writes=True)

    def describe(
        self, blob: str, table: dict[str, str], lease_id: str | None, etag: str | None, until: float
    ) -> Answer:
        client, now = self._client(blob), _Now()
        lease = {"lease": self._lease(blob, lease_id)} if lease_id is not None else {}

        def run() -> Answer:
            done = client.set_blob_metadata(
                table, raw_response_hook=now, **lease, **_if_match(etag), **self._options(until)
            )
            return _whole(Answer(str(done["etag"]), now.value), done["etag"])

        return self._call(run, until, writes=True)

    def delete(self, blob: str, etag: str, until: float) -> None:
        client = self._client(blob)
        self._call(lambda: client.delete_blob(**_if_match(etag), **self._options(until)), until, writes=True)

    def list(self, start: str, until: float) -> Iterator[Blob]:
        now, limit = _Now(), until - self._env.now()
        pages = self._container.list_blobs(
            name_starts_with=start or None,
            include=["metadata"],
            results_per_page=5_000,
            raw_response_hook=now,
            **self._options(until),
        ).by_page()
        while True:
            until = self._env.now() + limit
            page = self._call(lambda: [_blob(each, now.value) for each in next(pages, ())], until, writes=False)
            if not page and pages.continuation_token is None:  # type: ignore[attr-defined]
                return
            yield from page
            if not pages.continuation_token:  # type: ignore[attr-defined]
                return

    def create_container(self, until: float) -> None:
        from azure.core.exceptions import ResourceExistsError

        def run() -> None:
            with contextlib.suppress(ResourceExistsError):
                self._container.create_container(**self._options(until))

        self._call(run, until, writes=True)

    def close(self) -> None:
        self._bounded.stop()
        self._clients.clear()
        if self._owned:
            self._container.close()

    def settings(self, until: float) -> Settings:
        return self._call(lambda: self._settings(until), until, writes=False)

    def _settings(self, until: float) -> Settings:
        from azure.core.exceptions import AzureError
        from azure.storage.blob import BlobServiceClient

        now = _Now()
        version: list[str] = []

        def hook(response: Any) -> None:
            now(response)
            version[:] = [
                response.http_response.headers.get(name, "unknown") for name in ("Server", "x-ms-version")
            ]

        found = self._container.get_container_properties(raw_response_hook=hook, **self._options(until))
        days: int | None = None
        hierarchical: bool | None = None
        account = BlobServiceClient(
            self._container.primary_endpoint.rpartition("/")[0].partition("?")[0],
            credential=self._container.credential,
            _configuration=self._container._config,
            _pipeline=self._container._pipeline,
        )
        with contextlib.suppress(AzureError):
            policy = account.get_service_properties(**self._options(until))["delete_retention_policy"]
            days = int(policy.days or 1) if policy.enabled else 0
        with contextlib.suppress(AzureError):
            hierarchical = bool(account.get_account_information(**self._options(until)).get("is_hns_enabled"))
        return Settings(
            self._container.container_name,
            version[0],
            version[1],
            now.value,
            days,
            bool(found.has_immutability_policy or found.has_legal_hold),
            hierarchical,
            bool(found.public_access),
        )

    # -- how a request is made -----------------------------------------------------------------------

    def _call(self, run: Callable[[], T], until: float, *, writes: bool) -> T:
        """Makes it on a thread, and puts what came of it into words; no SDK error is left in the context."""
        answer: T
        error: Exception | None = None
        try:
            answer = self._bounded.call(run, until, writes=writes)
        except (LatchError, Refused):
            raise
        except Exception as caught:  # noqa: BLE001 - whatever the SDK raises is put into words
            error = in_words(caught, writes=writes)
        if error is not None:
            raise error
        return answer

    def _options(self, until: float) -> dict[str, Any]:
        left = max(until - self._env.now(), 0.001)
        return {
            "retry_total": 0,
            "connection_timeout": min(left, _CONNECT),
            "read_timeout": left,
        }

    def _client(self, blob: str) -> BlobClient:
        client = self._clients.get(blob)
        if client is None:
            if len(self._clients) >= _MOST_CLIENTS:
                self._clients.clear()
            client = self._clients[blob] = self._container.get_blob_client(blob)
        return client

    def _lease(self, blob: str, lease_id: str) -> Any:
        from azure.storage.blob import BlobLeaseClient

        return BlobLeaseClient(self._client(blob), lease_id=lease_id or None)


class _Now:
    """Takes the service's own time from its answer."""

    value: float | None = None

    def __call__(self, response: Any) -> None:
        date = response.http_response.headers.get("Date")
        with contextlib.suppress(TypeError, ValueError):
            self.value = parsedate_to_datetime(date).timestamp()


def _whole(answer: Answer, header: object) -> Answer:
    """The answer, if it has the header that makes it one: to the SDK a head that was cut is a success."""
    if not header:
        raise OutcomeUnknown("the Blob service's answer was cut short")
    return answer


def check_client(container: Any) -> None:
    """Refuses a client that a latch cannot use safely (H2).

    Raises:
        UsageError: it is no client of a container, an asyncio one, or has a retry policy of its own.
    """
    from azure.storage.blob import ContainerClient
    from azure.storage.blob._shared.policies import StorageRetryPolicy

    if not isinstance(container, ContainerClient):
        kind = f"{type(container).__module__}.{type(container).__qualname__}"
        raise UsageError(
            f"a latch on Blob takes azure.storage.blob.ContainerClient, not {kind}: pass the sync client; "
            "azlatch.aio calls it from threads"
        )
    policy = container._config.retry_policy
    if not isinstance(policy, StorageRetryPolicy):
        kind = f"{type(policy).__module__}.{type(policy).__qualname__}"
        raise UsageError(
            f"the client's retry policy is {kind}, which cannot be switched off for single requests, and a "
            "retried renewal outlives its lease: make the client without retry_policy="
        )


def in_words(error: Exception, *, writes: bool) -> Exception:
    """What an exception of the SDK means. Its own text is left out: it may carry a signature (SAS)."""
    from azure.core.exceptions import (
        ClientAuthenticationError,
        HttpResponseError,
        ServiceRequestError,
    )

    kind = type(error).__name__
    if isinstance(error, HttpResponseError) and error.response is not None:
        return _status(error, writes=writes)
    if isinstance(error, ClientAuthenticationError):
        return BackendDenied(
            f"no credential was accepted ({kind}): sign in, or give the process an identity or a "
            "connection string"
        )
    if isinstance(error, ServiceRequestError) and not _broke_in_tls(error):
        return BackendUnavailable(f"the Blob service cannot be reached ({kind}): nothing was sent")
    message = f"the connection to the Blob service failed while it was to answer ({kind})"
    return OutcomeUnknown(message) if writes else BackendUnavailable(message)


def _broke_in_tls(error: Any) -> bool:
    """Whether TLS ended the connection, perhaps in the middle of an answer: to the SDK it was never made."""
    from requests.exceptions import SSLError

    inner = error.inner_exception
    return isinstance(inner, SSLError) and "CERTIFICATE_VERIFY_FAILED" not in str(inner)


def _status(error: Any, *, writes: bool) -> Exception:
    status = int(error.status_code or error.response.status_code or 0)
    headers = error.response.headers
    code = _code(error, headers)
    no = _NO.get(code)
    if no is not None and status in (404, 409, 412):
        return Refused(no, code)
    request_id = str(headers.get("x-ms-request-id", ""))[:64]
    said = f"the Blob service answered {status} {code or '(no code)'}" + (
        f", request {request_id}" if request_id else ""
    )
    if status == 412:
        return Refused("changed", code)
    if code in _NO_CONTAINER:
        return BackendMisconfigured(
            f"{said}: make the container with `azlatch doctor --apply`, or connect(create=True)"
        )
    if status in (401, 403):
        return BackendDenied(
            f"{said}: the identity needs the role Storage Blob Data Contributor on the container, and the "
            "account's network rules must let this machine in"
        )
    if status == 429 or code == "ServerBusy":
        return BackendThrottled(said, retry_after=_retry_after(headers))
    # Without a code and without a date it is the beginning of an answer whose head was cut.
    if status >= 500 or status == 408 or not (code or "Date" in headers):
        return OutcomeUnknown(said) if writes else BackendUnavailable(said)
    return BackendMisconfigured(f"{said}: `azlatch doctor` says what is wrong with the store")


def _code(error: Any, headers: Any) -> str:
    """The service's word for it, as plain text: the SDK has it as an enumeration or not at all."""
    code = getattr(error, "error_code", None)
    code = getattr(code, "value", code) or headers.get("x-ms-error-code") or ""
    return str(code)[:80]


def _retry_after(headers: Any) -> float | None:
    try:
        seconds = float(headers.get("Retry-After", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def only_if(etag: str | None) -> dict[str, Any]:
    """The condition of a request: this version, or with None that there is no blob yet."""
    from azure.core import MatchConditions

    if etag is None:
        return {"match_condition": MatchConditions.IfMissing}
    return {"etag": etag, "match_condition": MatchConditions.IfNotModified}


def _if_match(etag: str | None) -> dict[str, Any]:
    return only_if(etag) if etag is not None else {}


def _blob(properties: Any, now: float | None) -> Blob:
    lease = properties.lease
    return Blob(
        properties.name,
        properties.etag,
        {key: value or "" for key, value in (properties.metadata or {}).items()},
        lease.state or "available",
        lease.duration == "infinite",
        properties.last_modified.timestamp(),
        now,
        properties.size or 0,
    )
