"""What `classify` makes of everything that a call of Cosmos DB can end with, and of everything else."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    DecodeError,
    HttpResponseError,
    IncompleteReadError,
    ServiceRequestError,
    ServiceRequestTimeoutError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
)
from azure.cosmos import exceptions as sdk
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from azlatch import contracts
from azlatch.contracts import Diagnosis, classify
from azlatch.contracts.diagnosis import OPERATIONS
from azlatch.contracts.evidence import evidence_of
from azlatch.errors import OutcomeUnknown

ACTIVITY = "3f2a1b44-55aa-4a11-9b1c-0123456789ab"
NOT_FOUND, EXISTS = sdk.CosmosResourceNotFoundError, sdk.CosmosResourceExistsError
WRITES = ("create", "replace", "upsert", "patch", "delete", "batch")


def response(status: int, **headers: str) -> Any:
    """What the SDK's exceptions are made of."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return SimpleNamespace(status_code=status, headers=named, reason="", content_type="", text=lambda: "")


# Exceptions of the SDK.


@pytest.mark.parametrize(
    ("error", "status", "substatus", "kind"),
    [
        (NOT_FOUND(404, "m", response(404, x_ms_substatus="1002")), 404, 1002, "behind_session"),
        (NOT_FOUND(404, "m", response(404, x_ms_substatus="0")), 404, 0, "absent"),
        (NOT_FOUND(404, "m", response(404, x_ms_activity_id=ACTIVITY)), 404, 0, "absent"),
        (EXISTS(409, "m", response(409, x_ms_substatus="3301")), 409, 3301, "unique_key"),
        (sdk.CosmosAccessConditionFailedError(412, "m"), 412, None, "stale_version"),
        (sdk.CosmosHttpResponseError(410, "m", sub_status=1002), 410, 1002, "partition_moved"),
        (sdk.CosmosHttpResponseError(503, "m", sub_status=21015), 503, 21015, "unavailable"),
        (HttpResponseError("Status code: 429 Sub-status: 3200"), 429, 3200, "throttled"),
    ],
)  # fmt: skip
def test_exceptions_of_the_sdk(error: Exception, status: int, substatus: int | None, kind: str) -> None:
    """Status and substatus are read from every class, and from its headers."""
    found = classify(error)
    assert (found.status, found.substatus, found.kind) == (status, substatus, kind)


def test_a_missing_substatus_is_not_an_absence() -> None:
    """A 404 that lost its headers may be 404/1002: whether to retry depends, and the note says so."""
    found = classify(sdk.CosmosResourceNotFoundError(404, "m"), operation="read")
    assert (found.kind, found.substatus, found.safe_to_retry) == ("absent", None, None)
    assert "404/1002 behind_session" in found.notes[0]


def test_headers_of_a_throttled_answer() -> None:
    """The wait is that of the answer, in seconds; that the SDK had tried before is said."""
    headers = {"x_ms_substatus": "3200", "x_ms_retry_after_ms": "250", "x_ms_throttle_retry_count": "9"}
    found = classify(sdk.CosmosHttpResponseError(429, "m", response(429, x_ms_activity_id=ACTIVITY, **headers)))
    assert (found.kind, found.safe_to_retry, found.wait_s) == ("throttled", True, 0.25)
    assert found.activity_id == ACTIVITY
    assert "9" in found.notes[0]


# Batches.

FAILED = [{"statusCode": 424, "requestCharge": 0}, {"statusCode": 412, "requestCharge": 1}, {"statusCode": 424}]


def batch_error(results: Any, status: int = 412, headers: Any = None) -> Exception:
    made: Exception = sdk.CosmosBatchOperationError(
        error_index=2, headers=headers or {}, status_code=status, message="m", operation_responses=results
    )
    return made


@pytest.mark.parametrize("form", [FAILED, tuple(FAILED), json.dumps(FAILED), batch_error(FAILED)])
def test_the_root_of_a_batch(form: object) -> None:
    """The operation that is not 424 is the cause, whatever `error_index` says; the others depend on it."""
    found = classify(form)
    assert (found.status, found.substatus, found.kind) == (412, 0, "stale_version")
    assert (found.index, found.dependents) == (1, (0, 2))
    assert any("Operation 1" in each for each in found.notes)


def test_a_batch_error_without_headers() -> None:
    """The SDK cannot even make one without headers; one that came about otherwise is understood."""
    with pytest.raises(TypeError):
        sdk.CosmosBatchOperationError(error_index=0, status_code=409, message="m", operation_responses=[])
    error = sdk.CosmosBatchOperationError.__new__(sdk.CosmosBatchOperationError)
    error.headers, error.status_code, error.operation_responses = None, 409, [{"statusCode": 409}]
    assert (classify(error).kind, classify(error).index) == ("already_exists", 0)


def test_a_throttled_operation_of_a_batch() -> None:
    """A 429 inside of a batch has the wait of that operation (yevhen/Streamstone #41)."""
    results = [{"statusCode": 429, "subStatusCode": 3200, "retryAfterMilliseconds": 40}, {"statusCode": 424}]
    found = classify(batch_error(results, 429))
    assert (found.kind, found.safe_to_retry, found.wait_s, found.index) == ("throttled", True, 0.04, 0)


def test_a_batch_without_results_is_unknown() -> None:
    """Results that are missing say nothing about what was applied (azure-cosmos-dotnet-v3 #3199)."""
    for thing in ([], batch_error([], 207)):
        found = classify(thing, operation="batch")
        assert (found.kind, found.safe_to_retry, found.status) == ("unknown_outcome", None, None)


def test_a_batch_of_nothing_but_dependents() -> None:
    """A 424 is never shown as the cause."""
    found = classify([{"statusCode": 424}, {"statusCode": 424}])
    assert (found.kind, found.index, found.dependents) == ("failed_dependency", None, (0, 1))
    assert any("not complete" in each for each in found.notes)


def test_a_batch_that_succeeded() -> None:
    """Nothing failed, nothing to do."""
    assert classify([{"statusCode": 201}, {"statusCode": 200}]).kind == "ok"


# No answer.


@pytest.mark.parametrize(
    "error",
    [
        ServiceRequestError("m"),
        ServiceRequestTimeoutError("m"),
        ServiceResponseError("m"),
        ServiceResponseTimeoutError("m"),
        IncompleteReadError("m"),
        sdk.CosmosClientTimeoutError(),
        sdk.CosmosHttpResponseError(408, "m", sub_status=20008),
        ConnectionResetError(),
        BrokenPipeError(),
        TimeoutError(),
        asyncio.CancelledError(),
        OutcomeUnknown("m"),
        (503, 20003),
        (410, 20001),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_unknown_outcome(error: object) -> None:
    """Where no answer came, no write is safe to repeat, every write has its own reason, and reads are safe."""
    assert classify(error).kind == "unknown_outcome"
    assert classify(error).safe_to_retry is None
    reasons = set()
    for operation in WRITES:
        found = classify(error, operation=operation)
        assert (found.kind, found.safe_to_retry, found.wait_s) == ("unknown_outcome", None, None)
        reasons.add(found.retry)
    assert len(reasons) == len(WRITES)
    for operation in ("read", "query"):
        found = classify(error, operation=operation)
        assert (found.kind, found.safe_to_retry) == ("no_answer", True)


def test_what_a_repetition_meets() -> None:
    """After an unknown outcome the reasons name the answer that a repetition of one's own write gets."""
    for operation, answer in (("create", "409"), ("replace", "412"), ("delete", "404"), ("patch", "twice")):
        assert answer in classify((408, 0), operation=operation).retry  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [ConnectionRefusedError(), socket.gaierror()])
def test_nothing_was_sent(error: object) -> None:
    """Without a connection nothing was sent."""
    found = classify(error, operation="create")
    assert (found.kind, found.safe_to_retry, found.name) == ("unavailable", True, "NotConnected")


def test_a_reply_that_could_not_be_read() -> None:
    """An exception about a reply that began with 200 says nothing of what was applied."""
    found = classify(DecodeError("m", response=response(200)), operation="patch")
    assert (found.kind, found.safe_to_retry) == ("unknown_outcome", None)


def test_a_credential_that_cannot_be_had() -> None:
    """Nothing was sent where no credential could be had."""
    assert classify(ClientAuthenticationError("m")).kind == "denied"


def test_causes_are_followed() -> None:
    """An exception of the caller's own is known by its cause."""
    try:
        try:
            raise sdk.CosmosHttpResponseError(449, "m", sub_status=0)
        except sdk.CosmosHttpResponseError as error:
            raise RuntimeError("our own") from error
    except RuntimeError as error:
        assert classify(error).kind == "concurrent_write"


# Other forms.

BEHIND = "The read session is not available for the input session token."


@pytest.mark.parametrize(
    ("thing", "code", "kind"),
    [
        (412, "412", "stale_version"),
        ("412", "412", "stale_version"),
        (b"404/1002", "404/1002", "behind_session"),
        ("404 1002", "404/1002", "behind_session"),
        ((404, "1002"), "404/1002", "behind_session"),
        ((412, None), "412", "stale_version"),
        (HTTPStatus.CONFLICT, "409", "already_exists"),
        (412.0, "412", "stale_version"),
        ("ReadSessionNotAvailable", "404/1002", "behind_session"),
        (3214, "429/3214", "hot_key"),
        (201, "201", "ok"),
        (SimpleNamespace(status_code=429, headers={"x-ms-substatus": "3201"}), "429/3201", "throttled"),
        (SimpleNamespace(status=429, sub_status=3214, headers=None), "429/3214", "hot_key"),
        ({"statusCode": 404, "subStatusCode": 1002}, "404/1002", "behind_session"),
        ({"statusCode": 412, "requestCharge": 1.2, "eTag": None}, "412/0", "stale_version"),
        ({"code": "PreconditionFailed", "message": "m"}, "412", "stale_version"),
        ({"error": {"code": "NotFound", "message": BEHIND}}, "404/1002", "behind_session"),
        ({"StatusCode": 404, "OperationName": "Read", "TimeGenerated": "t"}, "404", "absent"),
        ({"StatusCode": "429", "SubStatusCode": 3200.0}, "429/3200", "throttled"),
        ({"properties": {"statusCode_s": "429", "substatus": "3200"}}, "429/3200", "throttled"),
        ({"statusCode_s": "409", "operationType_s": "Create"}, "409", "already_exists"),
        ({"t": 1, "op": "create", "status": 449, "sub": 0}, "449/0", "concurrent_write"),
    ],
)  # fmt: skip
def test_forms(thing: object, code: str, kind: str) -> None:
    """Numbers, pairs, text, objects and mappings are read alike."""
    found = classify(thing)
    assert (found.code, found.kind) == (code, kind)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("CosmosResourceNotFoundError: (NotFound) Status code: 404 Sub-status: 1002", "404/1002"),
        ("does not indicate success: TooManyRequests (429); Substatus: 3200; Reason: x", "429/3200"),
        ('{"ClassName":"NotFoundException","statusCode":404,"subStatusCode":1002,"error":"x"}', "404/1002"),
        ('WARN {"code":"Conflict","message":"Entity with the specified id already exists."}', "409/0"),
        ("t=3 op=patch status=449 sub=0 ms=4", "449/0"),
        ("got 410/1007 from range 3", "410/1007"),
        ("Message: Unique index constraint violation.", "409/3301"),
        ("azure.core.exceptions.ServiceResponseError: ('Connection aborted.', x)", "ServiceResponseError"),
        ("CosmosAccessConditionFailedError", "412"),
    ],
)  # fmt: skip
def test_lines_of_logs(line: str, code: str) -> None:
    """Lines as the SDKs for Python, .NET and Java write them, and as applications do."""
    assert classify(line).code == code


@pytest.mark.parametrize(
    "line", ["", "   ", "foo", "paid 412 euros on 2026-04-04", "10.0.4.12/24 up", "x" * 100_000, "{" * 90_000]
)
def test_other_text_is_unknown(line: str) -> None:
    """A number in a text is no status."""
    found = classify(line)
    assert (found.kind, found.who, found.safe_to_retry) == ("unknown", "unknown", None)


def test_the_operation_of_a_row_counts() -> None:
    """What a log row was about refines it; what the caller says goes before."""
    row = {"StatusCode": 404, "SubStatusCode": 0, "OperationName": "Create", "ActivityId": ACTIVITY.upper()}
    assert (classify(row).kind, classify(row).operation) == ("owner_missing", "create")
    assert classify(row).activity_id == ACTIVITY
    assert classify(row, operation="read").kind == "absent"


def test_results_of_the_sdk_are_fine() -> None:
    """What the SDK returns for an item is a success, whatever is in the item."""

    class Item(dict[str, Any]):
        def get_response_headers(self) -> dict[str, str]:
            return {}

    assert classify(Item(status=412, code=404)).kind == "ok"


# What the operation adds.


@pytest.mark.parametrize(
    ("pair", "operation", "kind"),
    [
        ((404, 0), "read", "absent"),
        ((404, 0), "replace", "absent"),
        ((404, 0), "create", "owner_missing"),
        ((404, 0), "query", "owner_missing"),
        ((403, 1008), "read", "wrong_region"),
        ((410, 1008), "read", "partition_moved"),
        ((400, 1001), "replace", "immutable_partition_key"),
        ((400, 1001), "create", "bad_request"),
        ((409, 0), "create", "already_exists"),
        ((409, 0), "replace", "unique_key"),
        ((412, 2003), "replace", "busy"),
    ],
)
def test_refinement(pair: tuple[int, int], operation: Any, kind: str) -> None:
    """What was asked for says more than the numbers."""
    assert classify(pair, operation=operation).kind == kind


def test_own_writes() -> None:
    """409 after a create, 412 after a replace and 404 after a delete may be one's own doing."""
    for pair, operation, other in (
        ((409, 0), "create", "read"),
        ((412, 0), "replace", "read"),
        ((404, 0), "delete", "read"),
    ):
        assert len(classify(pair, operation=operation).notes) == 1  # type: ignore[arg-type]
        assert classify(pair, operation=other).notes == ()  # type: ignore[arg-type]


def test_an_operation_that_is_none() -> None:
    """An operation that is not known is left out, and that is said."""
    found = classify((404, 0), operation="frobnicate")  # type: ignore[arg-type]
    assert (found.kind, found.operation) == ("absent", None)
    assert "operation" in found.notes[-1]


def test_what_is_not_in_the_table() -> None:
    """An unknown substatus is said to be one: 404 and 412 are then not taken for what they usually are."""
    for pair, kind in (
        ((404, 7777), "unknown"),
        ((412, 7777), "unknown"),
        ((429, 7777), "throttled"),
        ((503, 7777), "unknown_outcome"),
    ):
        found = classify(pair)
        assert found.kind == kind
        assert "7777" in found.notes[0]
    assert classify(418).kind == classify((418, 1)).kind == "unknown"
    assert (classify((418, 1)).status, classify((418, 1)).substatus) == (418, 1)


# Never an exception.


class Hostile:
    """Raises whatever is asked of it."""

    def __init__(self, error: Exception) -> None:
        object.__setattr__(self, "error", error)

    def __getattribute__(self, name: str) -> Any:
        raise object.__getattribute__(self, "error")

    __str__ = __repr__ = __eq__ = __hash__ = __iter__ = __len__ = __bool__ = __int__ = __getattribute__  # type: ignore[assignment]


class HostileDict(dict[Any, Any]):
    def items(self) -> Any:
        raise RuntimeError("no items")

    get = keys = __getitem__ = items


class HostileError(Exception):
    status_code = "four"
    headers = HostileDict(a=1)

    def __str__(self) -> str:
        raise ValueError("no text")


class HostileInt(int):
    def __index__(self) -> Any:
        raise ValueError

    __le__ = __ge__ = __lt__ = __gt__ = __eq__ = __index__  # type: ignore[assignment]
    __hash__ = int.__hash__


FIELDS = ["statusCode", "status", "code", "message", "error", "headers", "operation_responses"]
ODDITIES = [
    object(),
    type,
    iter(()),
    10**5_000,
    float("inf"),
    lambda: 1,
    NotImplemented,
    ...,
    b"\xff",
    range(3),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(FIELDS), inner),
    max_leaves=8,
)
ERRORS = st.sampled_from(
    [ValueError("x"), RecursionError(), MemoryError(), StopIteration(), OSError(), HostileError()]
)
ANYTHING = (
    JSON
    | st.binary()
    | st.tuples(JSON, JSON)
    | st.builds(Hostile, ERRORS)
    | st.builds(HostileDict, st.dictionaries(st.text(), JSON))
    | st.builds(HostileInt, st.integers())
    | ERRORS
    | st.lists(st.builds(Hostile, ERRORS))
    | st.builds(SimpleNamespace, status_code=JSON, sub_status=JSON, headers=JSON, operation_responses=JSON)
    | st.builds(lambda made: {"statusCode": made, "headers": made, "message": made}, st.builds(Hostile, ERRORS))
    | st.sampled_from(ODDITIES)
)


@settings(deadline=None, max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(
    thing=ANYTHING,
    operation=st.sampled_from(OPERATIONS) | ANYTHING,
    language=st.sampled_from(["en", "pt"]) | ANYTHING,
)
def test_it_raises_for_nothing(thing: Any, operation: Any, language: Any) -> None:
    """Anything at all has a diagnosis, whole, and as JSON."""
    found = classify(thing, operation=operation, language=language)
    assert type(found) is Diagnosis
    assert found.kind
    assert found.cause
    assert found.next_step
    assert found.status is None or 100 <= found.status <= 599
    assert json.loads(json.dumps(found.to_json()))["kind"] == found.kind
    assert found.code


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(thing=JSON | st.binary() | st.tuples(JSON, JSON) | st.builds(json.dumps, JSON))
def test_plain_data_is_read_without_a_net(thing: Any) -> None:
    """Plain data never gets as far as the last resort of `classify`: reading it raises nothing by itself."""
    found = evidence_of(thing)
    assert found.status is None or found.status == 0 or 100 <= found.status <= 599


@settings(deadline=None)
@given(text=st.text() | st.from_regex(r"(?i)(sub)?status(code)?[\"' :=]*\d{1,6}[ /;]\w*"))
def test_text_never_shows_in_a_diagnosis(text: str) -> None:
    """No text of an answer is repeated: neither a key nor a command for a terminal can get out this way."""
    secret = "AccountKey=c2VjcmV0\x1b[2J"
    found = classify({"code": "NotFound", "message": f"{secret} {text}", "ActivityId": secret})
    assert "c2VjcmV0" not in json.dumps(found.to_json())


def test_what_is_no_exception_passes() -> None:
    """Ctrl-C while an object is being looked at is not swallowed."""

    class Interrupted:
        @property
        def status_code(self) -> int:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        classify(Interrupted())


def test_cycles_and_depth_end() -> None:
    """Causes that lead to themselves and nesting without end are followed for a few steps only."""
    error = ValueError("a")
    error.__cause__ = other = ValueError("b")
    other.__cause__ = error
    nested: dict[str, Any] = {}
    nested["error"] = nested
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert [classify(each).kind for each in (error, nested, deep)] == ["unknown"] * 3


# The package.


def test_exports() -> None:
    """The public names are there, and nothing else is."""
    assert {"Diagnosis", "classify"} <= set(contracts.__all__)
    assert all(getattr(contracts, each) is not None for each in contracts.__all__)
    assert set(contracts.__all__) <= set(dir(contracts))
    with pytest.raises(AttributeError):
        _ = contracts.nothing  # type: ignore[attr-defined]


def test_it_is_frozen() -> None:
    """A diagnosis cannot be changed."""
    with pytest.raises(AttributeError):
        classify(412).kind = "ok"  # type: ignore[misc]


def test_it_loads_little() -> None:
    """`classify` loads neither an SDK nor asyncio, and the package itself loads none of its parts."""
    code = (
        "import sys; import azlatch.contracts as c; before = set(sys.modules); c.classify(412);"
        "print('azlatch.contracts.table' in before, *sorted(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    early, *loaded = said.stdout.split()
    assert early == "False"
    assert not {name.partition(".")[0] for name in loaded} & {
        "azure",
        "asyncio",
        "click",
        "aiohttp",
        "requests",
    }
