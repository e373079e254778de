"""What can be read off an answer, whatever form it comes in: exceptions, responses, results, log rows, text.

Attributes and keys are looked at by name; no SDK is imported, and nothing that is read is believed to be of the
type that it should be of. Raises only what looking at a hostile object raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from azlatch.contracts.diagnosis import Operation
from azlatch.contracts.fields import activity, fields_of, is_a, names_of, number, operation_of, peek, seconds
from azlatch.contracts.messages import NO_ANSWER, Found, find

#: A note and the numbers in it.
Note = tuple[str, tuple[tuple[str, str], ...]]

#: How deep causes and nested objects are followed.
_DEEPEST = 5
#: A batch has at most 100 operations; of what is longer no more than this is looked at.
_MOST_RESULTS = 1_000
_MOST_TEXT = 65_536

_STATUS = ("statuscode", "httpstatuscode", "status", "httpstatus", "resultcode")
_SUBSTATUS = ("substatuscode", "substatus", "xmssubstatus", "sub")
_NESTED = ("error", "properties", "response", "innererror", "exception")
_MESSAGES = ("message", "errormessage", "innererrormessage", "error", "reason", "exception", "body")
_RESULTS = ("operationresponses", "results", "operations")
#: What a result of a batch has, and nothing else.
_OF_RESULTS = frozenset(
    (
        "statuscode",
        "substatuscode",
        "requestcharge",
        "etag",
        "resourcebody",
        "retryaftermilliseconds",
        "message",
    )
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was read. A status of 0 stands for no answer; a substatus of None for one that is not known."""

    status: int | None = None
    substatus: int | None = None
    operation: Operation | None = None
    activity_id: str | None = None
    wait_s: float | None = None
    index: int | None = None
    dependents: tuple[int, ...] = ()
    notes: tuple[Note, ...] = ()


def evidence_of(thing: Any, depth: int = 0) -> Evidence:
    """What can be read off anything at all; nothing of it, where it is nothing that is known."""
    if depth > _DEEPEST or thing is None or is_a(thing, bool):
        return Evidence()
    if is_a(thing, int, float):
        return _of_number(number(thing))
    if is_a(thing, str, bytes, bytearray):
        return _of_text(thing, depth)
    if is_a(thing, tuple) and len(thing) == 2 and not is_a(thing[0], Mapping):
        return _of_pair(thing[0], thing[1])
    if is_a(thing, list, dict) and callable(peek(type(thing), "get_response_headers")):
        return _of_returned(thing)
    if is_a(thing, list, tuple):
        return _of_results(thing)
    if is_a(thing, Mapping):
        return _of_mapping(thing, depth)
    return _of_object(thing, depth)


def note(key: str, **numbers: object) -> Note:
    """A note to be put into words later."""
    return key, tuple((name, str(value)) for name, value in numbers.items())


def _of_number(value: int | None) -> Evidence:
    if value is None:
        return Evidence()
    return Evidence(status=value) if 100 <= value <= 599 else Evidence(substatus=value)


def _of_pair(status: Any, substatus: Any) -> Evidence:
    first, second = number(status), number(substatus)
    if first is None or not 100 <= first <= 599:
        return Evidence()
    return Evidence(first, second)


def _of_text(text: Any, depth: int) -> Evidence:
    words = bytes(text[:_MOST_TEXT]).decode("utf-8", "replace") if is_a(text, bytes, bytearray) else str(text)
    found = find(words[:_MOST_TEXT])
    if found.data is not None:
        inner = evidence_of(found.data, depth + 1)
        if inner.status is not None or inner.substatus is not None:
            return inner
    return _of_found(found)


def _of_found(found: Found) -> Evidence:
    notes = (note("by_wording"),) if found.by_wording else ()
    return Evidence(
        found.status,
        found.substatus,
        operation_of(found.operation),
        activity(found.activity_id),
        seconds(found.wait_ms),
        notes=notes,
    )


def _of_returned(thing: Any) -> Evidence:
    """What the SDK returns, which is what succeeded: an item, whatever is in it, or results of a batch."""
    found = _of_results(thing) if is_a(thing, list) else Evidence(200, 0)
    return _with_headers(found, fields_of(thing.get_response_headers()))


def _of_mapping(thing: Mapping[Any, Any], depth: int) -> Evidence:
    fields = fields_of(thing)
    for name in _RESULTS:
        if is_a(fields.get(name), list) and fields[name]:
            return _with(_of_results(fields[name]), fields)
    status = _first(fields, _STATUS)
    if status is None or not 100 <= status <= 599:
        return _of_parts(fields, depth)
    substatus = _first(fields, _SUBSTATUS)
    if substatus is None and len(fields) > 1 and fields.keys() <= _OF_RESULTS:
        substatus = 0
    if substatus is None:
        substatus = _substatus_of(fields.get("headers")) or _said_substatus(fields)
    return _with(Evidence(status, substatus), fields)


def _of_parts(fields: Mapping[str, Any], depth: int) -> Evidence:
    """A mapping without a status: what is nested in it, its `code`, the text of its message."""
    for name in _NESTED:
        if is_a(fields.get(name), Mapping):
            inner = evidence_of(fields[name], depth + 1)
            if inner.status is not None:
                return _with(inner, fields)
    status = number(fields.get("code"))
    substatus = _first(fields, _SUBSTATUS)
    said = _said(fields)
    if status is None and is_a(fields.get("code"), str):
        named = find(fields["code"][:200])
        status, substatus = named.status, named.substatus if substatus is None else substatus
    if status is not None and 100 <= status <= 599:
        if substatus is None and said.status in (None, status):
            substatus = said.substatus
        found = Evidence(status, substatus, activity_id=activity(said.activity_id))
    else:
        found = replace(_of_found(said), substatus=said.substatus if substatus is None else substatus)
    return _with(found, fields)


def _with(found: Evidence, fields: Mapping[str, Any]) -> Evidence:
    """Adds what stands beside the status: operation, activity id, how long to wait."""
    headers = fields_of(fields.get("headers"))
    words = (fields.get(name) for name in ("operationname", "operationtype", "operation", "op"))
    operation = next((known for known in map(operation_of, words) if known is not None), None)
    return replace(
        found,
        operation=found.operation or operation,
        activity_id=found.activity_id
        or activity(fields.get("activityid") or headers.get("xmsactivityid") or _said(fields).activity_id),
        wait_s=found.wait_s if found.wait_s is not None else _wait(fields, headers),
    )


def _of_results(results: Sequence[Any]) -> Evidence:
    """The root of a batch: the operation that failed and is not 424."""
    found = [_of_result(each) for each in results[:_MOST_RESULTS]]
    if not found or all(each.status is None for each in found):
        return Evidence(0, 6) if not found else Evidence()
    size = (note("batch_size", count=len(results)),)
    failed = [index for index, each in enumerate(found) if (each.status or 0) >= 400]
    if not failed:
        return replace(found[0], operation="batch", notes=size)
    followers = tuple(index for index in failed if found[index].status in (424, 453))
    roots = [index for index in failed if index not in followers]
    if not roots:
        return replace(found[followers[0]], dependents=followers, notes=(*size, note("batch_without_root")))
    root = roots[0]
    count = len(followers)
    return replace(
        found[root],
        index=root,
        dependents=followers,
        notes=(*size, note("batch_root", index=root, count=count), *found[root].notes),
    )


def _of_result(result: Any) -> Evidence:
    if is_a(result, Mapping):
        found = _of_mapping(result, _DEEPEST)
        # The service leaves the substatus of a result out where it is 0.
        return replace(found, substatus=0) if found.status is not None and found.substatus is None else found
    return _of_pair(result, 0) if number(result) is not None else Evidence()


def _of_object(thing: Any, depth: int) -> Evidence:
    results = peek(thing, "operation_responses")
    response = peek(thing, "response")
    headers = fields_of(peek(thing, "headers")) or fields_of(peek(response, "headers"))
    status = _status_of(thing)
    if status is None:
        status = _status_of(response)
    is_error = isinstance(thing, BaseException)
    if is_a(results, list, tuple):
        found = _of_batch_error(results, status, headers)
    elif status is None or (is_error and status < 400 and status != 304):
        found = _of_failure(thing, depth, status)
    else:
        found = Evidence(status, _substatus(thing, headers, is_error))
    return _with_headers(found, headers)


def _of_batch_error(results: Any, status: int | None, headers: Mapping[str, Any]) -> Evidence:
    found = _of_results(results)
    if found.index is None and status is not None and status >= 400 and not results:
        return Evidence(status, number(headers.get("xmssubstatus")), "batch")
    return found


def _of_failure(thing: Any, depth: int, status: int | None) -> Evidence:
    """An object without a usable status: an exception whose class says that no answer came, or its cause."""
    for name in names_of(thing):
        if name in NO_ANSWER:
            return Evidence(*NO_ANSWER[name])
    if not isinstance(thing, BaseException):
        return Evidence()
    if status is not None:
        return Evidence(0, 2)  # an exception about a reply that began well: it could not be read to its end
    for link in ("__cause__", "inner_exception"):
        cause = peek(thing, link)
        if isinstance(cause, BaseException) and cause is not thing:
            found = evidence_of(cause, depth + 1)
            if found.status is not None:
                return found
    return _of_found(find(_text(thing), bare=False))


def _substatus(thing: Any, headers: Mapping[str, Any], is_error: bool) -> int | None:
    for name in ("sub_status", "substatus", "sub_status_code", "subStatus"):
        value = number(peek(thing, name))
        if value is not None:
            return value
    value = number(headers.get("xmssubstatus"))
    if value is None and is_error:
        value = find(_text(thing), bare=False).substatus
    if value is None and any(name.startswith("xms") for name in headers):
        return 0  # the service's own headers are there, and the substatus is not: there is none
    return value


def _with_headers(found: Evidence, headers: Mapping[str, Any]) -> Evidence:
    tries = number(headers.get("xmsthrottleretrycount"))
    notes = (*found.notes, note("sdk_waited", count=tries)) if tries else found.notes
    return replace(
        found,
        activity_id=found.activity_id or activity(headers.get("xmsactivityid")),
        wait_s=found.wait_s if found.wait_s is not None else _wait(headers, {}),
        notes=notes,
    )


def _status_of(thing: Any) -> int | None:
    for name in ("status_code", "status", "statusCode"):
        value = number(peek(thing, name))
        if value is not None and 100 <= value <= 599:
            return value
    return None


def _substatus_of(headers: Any) -> int | None:
    return number(fields_of(headers).get("xmssubstatus"))


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    return next((value for value in (number(fields.get(name)) for name in names) if value is not None), None)


def _said(fields: Mapping[str, Any]) -> Found:
    for name in _MESSAGES:
        if is_a(fields.get(name), str):
            return find(fields[name][:_MOST_TEXT], bare=False)
    return Found()


def _said_substatus(fields: Mapping[str, Any]) -> int | None:
    return _said(fields).substatus


def _wait(fields: Mapping[str, Any], headers: Mapping[str, Any]) -> float | None:
    for place in (fields, headers):
        for name in ("xmsretryafterms", "retryaftermilliseconds", "retryafterinms", "retryafterms"):
            value = seconds(place.get(name))
            if value is not None:
                return value
    return None


def _text(thing: Any) -> str:
    return str(thing)[:_MOST_TEXT]
