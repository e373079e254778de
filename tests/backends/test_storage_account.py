"""URLs, connection strings and answers of the Blob service, put into words; and nothing secret in them."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import traceback
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import trustme

from azlatch.backends.blob import BlobBackend
from azlatch.backends.blob_service import AzureBlobService, Refused, in_words
from azlatch.backends.storage_account import (
    EMULATOR_KEY,
    StorageAccount,
    account_of,
    check_container,
    container_of,
)
from azlatch.errors import (
    BackendDenied,
    BackendMisconfigured,
    BackendThrottled,
    BackendUnavailable,
    LatchError,
    OutcomeUnknown,
    UsageError,
)
from azlatch.runtime.connect import connect
from azlatch.runtime.env import REAL

CANARY = "c2VjcmV0LWNhbmFyeQ=="
KEYED = f"DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={CANARY};EndpointSuffix=core.windows.net"
SIGNED = f"BlobEndpoint=https://shop.blob.core.windows.net/;SharedAccessSignature=sv=1&sig={CANARY}"


PUBLIC = "https://shop.blob.core.windows.net"
LOCAL = "http://127.0.0.1:10000/devstoreaccount1"
OTHER_PORT = "http://127.0.0.1:4711/devstoreaccount1"
EMULATED = f"AccountName=devstoreaccount1;AccountKey={EMULATOR_KEY};BlobEndpoint={OTHER_PORT};"


@pytest.mark.parametrize(
    ("url", "environment", "endpoint"),
    [
        ("blob://shop/latches", {}, PUBLIC),
        ("blob://shop.blob.core.usgovcloudapi.net/c-1", {}, "https://shop.blob.core.usgovcloudapi.net"),
        ("blob://shop/latches", {"AZURE_STORAGE_CONNECTION_STRING": KEYED}, PUBLIC),
        ("blob://shop/latches", {"AZURE_STORAGEBLOB_CONNECTIONSTRING": SIGNED}, PUBLIC),
        ("blob://shop/latches?connection=AzureWebJobsStorage", {"AzureWebJobsStorage": KEYED}, PUBLIC),
        ("blob://shop/latches?connection=Jobs", {"Jobs__blobServiceUri": f"{PUBLIC}/"}, PUBLIC),
        ("blob://shop/latches?connection=Jobs", {"Jobs__accountName": "shop"}, PUBLIC),
        ("blob://devstoreaccount1/latches", {}, LOCAL),
        ("blob://devstoreaccount1/latches?connection=J", {"J": "UseDevelopmentStorage=true"}, LOCAL),
        ("blob://devstoreaccount1/latches", {"AZURE_STORAGE_CONNECTION_STRING": EMULATED}, OTHER_PORT),
    ],
)
def test_urls(url: str, environment: dict[str, str], endpoint: str) -> None:
    """Every way to name an account, and where it leads."""
    account, container = container_of(url, environment)
    assert account.name == ("devstoreaccount1" if "devstore" in endpoint else "shop")
    assert account.endpoint == endpoint
    assert container in ("latches", "c-1")
    assert CANARY not in repr(account)


def test_a_signature_in_an_endpoint_is_not_shown() -> None:
    """Also where somebody put it into the endpoint itself."""
    account = account_of(f"BlobEndpoint={PUBLIC}/?sig={CANARY};SharedAccessSignature=sv=1")
    assert CANARY not in repr(account)


@pytest.mark.parametrize(
    ("url", "environment", "words"),
    [
        ("blob://shop", {}, "not complete"),
        ("blob:///latches", {}, "not complete"),
        ("blob://shop/a/b", {}, "container name"),
        ("blob://shop/UPPER", {}, "container name"),
        ("blob://shop/ab", {}, "3 to 63"),
        ("blob://shop/a--b", {}, "single hyphens"),
        ("blob://Shop_1/latches", {}, "account name"),
        (f"blob://shop/latches?{CANARY[:-2]}", {}, "an option that is not"),
        (f"blob://shop/latches?sig={CANARY}", {}, "an option that is not"),
        (f"blob://user:{CANARY}@shop/latches", {}, "not complete"),
        ("blob://shop/latches?connection=Jobs", {}, "Jobs__blobServiceUri"),
        ("blob://shop/latches?connection=Jobs", {"Jobs__blobServiceUri": CANARY}, "no URL"),
        ("blob://other/latches", {"AZURE_STORAGE_CONNECTION_STRING": KEYED}, "'other'"),
        ("blob://other/latches?connection=J", {"J": KEYED}, "'shop'"),
        ("blob://shop/latches", {"AZURE_STORAGE_CONNECTION_STRING": CANARY[:-2]}, "without '='"),
        ("blob://shop/latches", {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=shop"}, "AccountKey"),
        ("blob://shop/latches", {"AZURE_STORAGE_CONNECTION_STRING": f"AccountKey={CANARY}"}, "AccountName"),
    ],
)
def test_wrong_urls(url: str, environment: dict[str, str], words: str) -> None:
    """What cannot work is said with its cure, and no secret is repeated."""
    with pytest.raises(UsageError) as caught:
        container_of(url, environment)
    assert words in str(caught.value)
    assert CANARY[:-2] not in "".join(traceback.format_exception(caught.value))


def test_containers() -> None:
    """The names that the service takes."""
    assert check_container("a1-b") == "a1-b"


def test_connect_makes_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL of an account that does not exist is no error before the first use."""
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)
    connect("blob://devstoreaccount1/latches").close()


def test_the_environment_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies, their exceptions and certificates of the environment count; no request reads them again."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "other.blob.core.windows.net")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/ssl/bundle.pem")
    for name, proxies in (("shop", {"https": "http://proxy.example:3128"}), ("other", {})):
        with account_of(KEYED.replace("shop", name)).container("latches") as client:
            transport = client._pipeline._transport
            assert not transport.session.trust_env
            assert {key: transport.session.proxies[key] for key in proxies} == proxies
            assert bool(transport.session.proxies) == bool(proxies)
            assert transport.connection_config.verify == "/etc/ssl/bundle.pem"


# -- answers in words ------------------------------------------------------------------------------------------


def answer(status: int, code: str, **headers: str) -> Exception:
    from azure.core.exceptions import HttpResponseError

    error = HttpResponseError(f"https://shop/c?sig={CANARY}")
    error.status_code = status
    error.response = SimpleNamespace(  # type: ignore[assignment]
        status_code=status, headers={"x-ms-error-code": code, **headers}
    )
    return error


@pytest.mark.parametrize(
    ("status", "code", "read", "written"),
    [
        (404, "BlobNotFound", "absent", "absent"),
        (409, "LeaseAlreadyPresent", "held", "held"),
        (409, "LeaseIsBreakingAndCannotBeAcquired", "held", "held"),
        (409, "LeaseIsBrokenAndCannotBeRenewed", "broken", "broken"),
        (409, "LeaseIdMismatchWithLeaseOperation", "mismatch", "mismatch"),
        (409, "LeaseNotPresentWithLeaseOperation", "mismatch", "mismatch"),
        (412, "LeaseIdMissing", "held", "held"),
        (412, "LeaseLost", "mismatch", "mismatch"),
        (412, "ConditionNotMet", "changed", "changed"),
        (412, "", "changed", "changed"),
        (409, "BlobAlreadyExists", "exists", "exists"),
        (404, "ContainerNotFound", BackendMisconfigured, BackendMisconfigured),
        (409, "ContainerBeingDeleted", BackendMisconfigured, BackendMisconfigured),
        (409, "BlobImmutableDueToPolicy", BackendMisconfigured, BackendMisconfigured),
        (400, "InvalidHeaderValue", BackendMisconfigured, BackendMisconfigured),
        (401, "InvalidAuthenticationInfo", BackendDenied, BackendDenied),
        (403, "AuthorizationFailure", BackendDenied, BackendDenied),
        (403, "AuthorizationPermissionMismatch", BackendDenied, BackendDenied),
        (429, "", BackendThrottled, BackendThrottled),
        (503, "ServerBusy", BackendThrottled, BackendThrottled),
        (500, "OperationTimedOut", BackendUnavailable, OutcomeUnknown),
        (500, "InternalError", BackendUnavailable, OutcomeUnknown),
        (502, "", BackendUnavailable, OutcomeUnknown),
        (503, "", BackendUnavailable, OutcomeUnknown),
        (408, "", BackendUnavailable, OutcomeUnknown),
        (404, "", BackendUnavailable, OutcomeUnknown),
        (409, "", BackendUnavailable, OutcomeUnknown),
    ],
)
def test_statuses(status: int, code: str, read: Any, written: Any) -> None:
    """One table: contention, load and an outage are different answers (M6), and so is unknown (M5)."""
    for writes, expected in ((False, read), (True, written)):
        said = in_words(answer(status, code), writes=writes)
        assert CANARY not in str(said)
        if isinstance(expected, str):
            assert isinstance(said, Refused)
            assert said.no == expected
        else:
            assert type(said) is expected


def test_a_whole_answer_of_another_server() -> None:
    """A 404 without a code that has a date is somebody else's, not a head that was cut."""
    said = in_words(answer(404, "", Date="Tue, 01 Dec 2026 00:00:00 GMT"), writes=True)
    assert isinstance(said, BackendMisconfigured)


@pytest.mark.parametrize(
    ("header", "seconds"), [("7", 7.0), ("-1", None), ("nan", None), ("soon", None), ("", None)]
)
def test_retry_after(header: str, seconds: float | None) -> None:
    """How long the service wants to be left alone, where it says so in a way that can be used."""
    said = in_words(answer(503, "ServerBusy", **{"Retry-After": header}), writes=True)
    assert isinstance(said, BackendThrottled)
    assert said.retry_after == seconds


@contextlib.contextmanager
def _tls(answer: Callable[[socket.socket], object], *, trusted: bool = True) -> Iterator[str]:
    """A server that reads one request and does that then, with what lies under its TLS. Its URL."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    def serve() -> None:
        plain, _ = listener.accept()
        with contextlib.suppress(OSError), plain.dup() as under:
            with context.wrap_socket(plain, server_side=True) as connection:
                connection.recv(65_536)
                answer(under)

    with socket.create_server(("127.0.0.1", 0)) as listener, authority.cert_pem.tempfile() as bundle:
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        with pytest.MonkeyPatch.context() as patch:
            if trusted:
                patch.setenv("REQUESTS_CA_BUNDLE", bundle)
            yield f"https://127.0.0.1:{listener.getsockname()[1]}/shop"
        server.join(10)


def test_a_connection_that_breaks_in_the_middle_of_an_answer() -> None:
    """What comes after the request and is no TLS: the request may have been carried out (M5)."""
    with _tls(lambda under: under.sendall(b"not a record of TLS")) as url:
        account = StorageAccount("shop", url, EMULATOR_KEY)
        with account.container("latches") as client:
            service = AzureBlobService(client, REAL, owned=False)
            with pytest.raises(OutcomeUnknown):
                service.acquire("a", str(uuid.uuid4()), 15, None, REAL.now() + 10)
            service.close()


def test_a_certificate_that_is_not_trusted() -> None:
    """Nothing is sent to a server that is not trusted, and that is said."""
    with _tls(lambda under: None, trusted=False) as url:
        account = StorageAccount("shop", url, EMULATOR_KEY)
        with account.container("latches") as client:
            service = AzureBlobService(client, REAL, owned=False)
            with pytest.raises(BackendUnavailable, match="nothing was sent"):
                service.acquire("a", str(uuid.uuid4()), 15, None, REAL.now() + 10)
            service.close()


def test_failures_on_the_way() -> None:
    """Not sent is unavailable, sent without an answer is unknown."""
    from azure.core.exceptions import (
        ClientAuthenticationError,
        ServiceRequestError,
        ServiceResponseError,
    )

    assert isinstance(in_words(ServiceRequestError(CANARY), writes=True), BackendUnavailable)
    assert isinstance(in_words(ServiceResponseError(CANARY), writes=True), OutcomeUnknown)
    assert isinstance(in_words(ServiceResponseError(CANARY), writes=False), BackendUnavailable)
    assert isinstance(in_words(ClientAuthenticationError(CANARY), writes=True), BackendDenied)
    assert isinstance(in_words(ValueError(CANARY), writes=True), OutcomeUnknown)


@pytest.fixture(name="closed_port")
def _closed_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield listener.getsockname()[1]


def test_no_secret_in_what_goes_wrong(closed_port: int, caplog: pytest.LogCaptureFixture) -> None:
    """A service that is not there: the error, all that it was raised from, and the log carry no signature."""
    text = f"BlobEndpoint=http://127.0.0.1:{closed_port}/shop;SharedAccessSignature=sv=1&sig={CANARY}"
    account = account_of(text)
    assert account.name == "shop"
    backend = BlobBackend.from_connection_string(text, "latches")
    backend.open(REAL, lambda name: None, create=False, until=REAL.now() + 5)
    try:
        with pytest.raises(LatchError) as caught:
            backend.read("a", REAL.now() + 2)
    finally:
        with contextlib.suppress(LatchError):
            backend.close()
    assert isinstance(caught.value, BackendUnavailable)
    said = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert CANARY not in said
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("url", "environment"),
    [
        ("blob://shop/latches?connection=AccountName=shop%3BAccountKey=CANARY", {}),
        ("blob://shop/latches?connection=", {}),
        ("blob://[CANARY/latches", {}),
        ("blob://shop/latches?connection=Jobs", {"Jobs__blobServiceUri": "https://[?sig=CANARY"}),
        ("blob://shop/latches?connection=Jobs", {"Jobs": "BlobEndpoint=https://[CANARY;AccountKey=CANARY"}),
    ],
)
def test_what_cannot_be_read_is_a_usage_error_and_not_repeated(url: str, environment: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        container_of(url, environment)
    assert "CANARY" not in str(caught.value)
