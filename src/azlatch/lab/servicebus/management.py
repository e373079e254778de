"""What the management node of a queue does: one function an operation, the table of them at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from azlatch.lab.servicebus.codec import (
    Array,
    CodecError,
    Described,
    Int,
    Symbol,
    Timestamp,
    ULong,
    encode,
)
from azlatch.lab.servicebus.message import Message, parse
from azlatch.lab.servicebus.queue import VENDOR, Act, BrokerError, Queue

Body = dict[Any, Any]
_STATUS = {"message-not-found": 404, "message-lock-lost": 410, "session-lock-lost": 410}
_ACTS: dict[str, Act] = {
    "completed": "complete",
    "abandoned": "abandon",
    "defered": "defer",
    "suspended": "dead-letter",
}


def answer(queue: Queue, operation: Any, body: Any, owner: object, now: float) -> tuple[int, str, Any]:
    """Status, condition and body of the answer to a request."""
    does = _OPERATIONS.get(operation)
    if does is None or not isinstance(body, dict):
        return 400, VENDOR + "argument-error", None
    try:
        found = does(queue, body, owner, now)
    except BrokerError as error:
        return _STATUS.get(error.condition.removeprefix(VENDOR), 400), error.condition, None
    except (CodecError, KeyError, TypeError, ValueError, AttributeError):
        return 400, VENDOR + "argument-error", None
    return (204, "", None) if found is None else (200, "", found)


def _renew(queue: Queue, body: Body, owner: object, now: float) -> Body:
    ends = [queue.renew(token, now) for token in body["lock-tokens"]]
    return {"expirations": Array(Timestamp(round(end * 1000)) for end in ends)}


def _renew_session(queue: Queue, body: Body, owner: object, now: float) -> Body:
    return {"expiration": Timestamp(round(queue.renew_session(body["session-id"], owner, now) * 1000))}


def _get_state(queue: Queue, body: Body, owner: object, now: float) -> Body:
    return {"session-state": queue.held(body["session-id"], owner, now).state}


def _set_state(queue: Queue, body: Body, owner: object, now: float) -> Body:
    state = body["session-state"]
    if state is not None and (not isinstance(state, bytes) or len(state) > 262_144):
        raise BrokerError(VENDOR + "argument-error", "a state has up to 262,144 bytes")
    queue.held(body["session-id"], owner, now).state = state
    return {}


def _settle(queue: Queue, body: Body, owner: object, now: float) -> Body:
    act = _ACTS[body["disposition-status"]]
    reason, text = body.get("deadletter-reason") or "", body.get("deadletter-description") or ""
    for token in body["lock-tokens"]:
        queue.settle(token, act, now, reason, text)
    return {}


def _schedule(queue: Queue, body: Body, owner: object, now: float) -> Body:
    messages = [parse(each["message"]) for each in body["messages"]]
    return {"sequence-numbers": Array([queue.send(each, now) for each in messages])}


def _cancel(queue: Queue, body: Body, owner: object, now: float) -> Body:
    for sequence in body["sequence-numbers"]:
        queue.cancel(sequence)
    return {}


def _packed(message: Message) -> Body:
    token = {} if message.lock is None else {"lock-token": message.lock}
    return {"message": message.encoded(), **token}


def _peek(queue: Queue, body: Body, owner: object, now: float) -> Body | None:
    count = min(int(body["message-count"]), 250)
    found = list(queue.peek(body["from-sequence-number"], count, body.get("session-id")))
    return {"messages": [{"message": each.encoded()} for each in found]} if found else None


def _deferred(queue: Queue, body: Body, owner: object, now: float) -> Body:
    delete = body.get("receiver-settle-mode") == 0
    found = queue.deferred(owner, list(body["sequence-numbers"]), now, delete=delete)
    return {"messages": [_packed(each) for each in found]}


def _sessions(queue: Queue, body: Body, owner: object, now: float) -> Body | None:
    having = {each.session for each in queue.messages.values() if each.session is not None}
    having |= {each.id for each in queue.sessions.values() if each.state is not None}
    page = sorted(having)[body["skip"] : body["skip"] + min(body["top"], 1_000)]
    return {"skip": body["skip"], "sessions-ids": page} if page else None


_OPERATIONS: dict[Any, Callable[[Queue, Body, object, float], Body | None]] = {
    VENDOR + "renew-lock": _renew,
    VENDOR + "renew-session-lock": _renew_session,
    VENDOR + "get-session-state": _get_state,
    VENDOR + "set-session-state": _set_state,
    VENDOR + "update-disposition": _settle,
    VENDOR + "schedule-message": _schedule,
    VENDOR + "cancel-scheduled-message": _cancel,
    VENDOR + "peek-message": _peek,
    VENDOR + "receive-by-sequence-number": _deferred,
    VENDOR + "get-message-sessions": _sessions,
}


def reply(request: Message, status: int, condition: str, body: Any, *, is_cbs: bool = False) -> Message:
    """The message that answers a request."""
    code, text = ("status-code", "status-description") if is_cbs else ("statusCode", "statusDescription")
    made = Message(properties=[None] * 5 + [request.id])
    made.application = {code: Int(status), text: condition or "OK"}
    if condition:
        made.application["errorCondition"] = Symbol(condition)
    made.body = encode(Described(ULong(0x77), body))
    return made
