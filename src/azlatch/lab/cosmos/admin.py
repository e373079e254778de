"""The admin interface over HTTP: what `account.admin` can do, for those who cannot call Python.

It is at `/_azlatch/` of every port of the lab, wants the key in `x-azlatch-key`, and a Host header that names
the loopback interface: a page in a browser that was led here by DNS has neither. JSON in and out.

=============== ======================================= ======================================================
GET    state                                             what there is
GET    ledger?since=N&most=N                             requests after number N
GET    logs/TABLE?since=N&most=N                         the same as rows of Azure Monitor's tables
GET    rules                                             the rules in force
POST   rules    {"rule": TEXT}                           one more; its id
DELETE rules, rules/ID                                   ends all, or one
GET    clock                                             the time
POST   clock    {"advance": SECONDS}                     puts it forward
POST   split    {"container": "d/c", "range": ID}
POST   merge    {"container": "d/c", "ranges": [ID, …]}
POST   failover, offline, online  {"region": NAME}
POST   remove-region, add-region  {"region": NAME}
POST   lay-out  {"container": "d/c", "count": N}         ranges of an empty container
POST   lag      {"source": NAME, "target": NAME, "seconds": S}
POST   pause, resume  {"source": NAME, "target": NAME}
=============== ======================================= ======================================================
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qsl

from azlatch.lab.cosmos.clock import LabClock
from azlatch.lab.cosmos.errors import ServiceError, bad_request, not_found
from azlatch.lab.cosmos.reply_head import QUERY_HEADER, json_reply
from azlatch.lab.cosmos.wire import Reply, Request, decode

PREFIX = "/_azlatch/"
KEY_HEADER = "x-azlatch-key"
#: How many rows of the ledger one reply has at most.
MOST_ROWS = 10_000


class Admin(Protocol):
    """What the engine lets an operator do. A ValueError says what is wrong with an argument."""

    def add_rule(self, text: str) -> int: ...
    def remove_rule(self, rule_id: int) -> object: ...
    def clear_rules(self) -> object: ...
    def rules(self) -> list[dict[str, Any]]: ...
    def ledger(self, since: int, most: int) -> list[dict[str, Any]]: ...
    def logs(self, table: str, since: int, most: int) -> dict[str, Any]: ...
    def state(self) -> dict[str, Any]: ...
    def split(self, container: str, range_id: str) -> object: ...
    def merge(self, container: str, range_ids: list[str]) -> object: ...
    def failover(self, region: str) -> object: ...
    def offline(self, region: str) -> object: ...
    def online(self, region: str) -> object: ...
    def remove_region(self, region: str) -> object: ...
    def add_region(self, region: str) -> object: ...
    def lay_out(self, container: str, count: int) -> object: ...
    def lag(self, source: str, target: str, seconds: float) -> object: ...
    def pause(self, source: str, target: str) -> object: ...
    def resume(self, source: str, target: str) -> object: ...


class AdminDoor:
    """Answers requests below PREFIX, on the server's thread."""

    def __init__(self, admin: Callable[[], Admin], clock: LabClock, key: str) -> None:
        self._admin = admin
        self._clock = clock
        self._key = key.encode()

    def handle(self, request: Request) -> Reply:
        """Does what a request asks for.

        Raises:
            ServiceError: it may not, or it makes no sense.
        """
        if not is_loopback(request.header("host")):
            raise ServiceError(403, "The admin interface answers only to the loopback interface's own names.")
        given = request.header(KEY_HEADER).encode("utf-8", "replace")
        if not hmac.compare_digest(given, self._key):
            raise ServiceError(401, f"The header {KEY_HEADER} is missing or wrong.")
        what, _, rest = request.path[len(PREFIX) :].strip("/").partition("/")
        verbs = _VERBS.get(what)
        if verbs is None:
            raise not_found(f"There is no such thing: use {', '.join(_VERBS)}.")
        verb = verbs.get(request.method)
        if verb is None or (rest and (what, request.method) not in _WITH_REST):
            raise ServiceError(405, f"Possible here: {', '.join(verbs)}.")
        try:
            result = verb(_Call(self._admin(), self._clock, request, rest))
        except (ValueError, LookupError, TypeError) as error:
            said = error.args[0] if error.args and isinstance(error.args[0], str) else "An argument is wrong."
            raise bad_request(said) from None
        return json_reply(200, {} if result is None else result)


@dataclass(frozen=True, slots=True)
class _Call:
    """One request, as a verb sees it: `rest` is what follows the verb's name in the path."""

    admin: Admin
    clock: LabClock
    request: Request
    rest: str

    @property
    def body(self) -> Mapping[str, Any]:
        try:
            body = decode(self.request.body or b"{}")
        except ValueError:
            raise ValueError("The body is no JSON.") from None
        if not isinstance(body, dict):
            raise ValueError("The body is no JSON object.")
        return body

    def text(self, name: str) -> str:
        """A value of the body."""
        value = self.body.get(name)
        if not isinstance(value, str) or not value:
            raise ValueError(f'"{name}" is missing: give it a text.')
        return value

    def seconds(self, name: str) -> float:
        """A value of the body."""
        value = self.body.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f'"{name}" is missing: give it seconds.')
        return float(value)

    def texts(self, name: str) -> list[str]:
        """A value of the body."""
        value = self.body.get(name)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValueError(f'"{name}" is missing: give it a list of texts.')
        return value


def _state(call: _Call) -> Any:
    return {"now": call.clock.now(), "manual_clock": call.clock.is_manual, **call.admin.state()}


def _asked(call: _Call) -> tuple[int, int]:
    """Which requests are asked for: after a number, and how many."""
    asked = dict(parse_qsl(call.request.header(QUERY_HEADER), max_num_fields=8))
    since = _number(asked.get("since", "0"), "since")
    return since, min(_number(asked.get("most", str(MOST_ROWS)), "most"), MOST_ROWS)


def _remove_rule(call: _Call) -> Any:
    if call.rest:
        return call.admin.remove_rule(_number(call.rest, "the rule's id"))
    return call.admin.clear_rules()


#: Where something follows the verb's name in the path.
_WITH_REST = {("rules", "DELETE"), ("logs", "GET")}
_Verb = Callable[[_Call], Any]
_VERBS: dict[str, dict[str, _Verb]] = {
    "state": {"GET": _state},
    "ledger": {"GET": lambda call: call.admin.ledger(*_asked(call))},
    "logs": {"GET": lambda call: call.admin.logs(call.rest[:100], *_asked(call))},
    "rules": {
        "GET": lambda call: call.admin.rules(),
        "POST": lambda call: {"id": call.admin.add_rule(call.text("rule"))},
        "DELETE": _remove_rule,
    },
    "clock": {
        "GET": lambda call: {"now": call.clock.now(), "manual": call.clock.is_manual},
        "POST": lambda call: {"now": call.clock.advance(call.seconds("advance"))},
    },
    "split": {"POST": lambda call: call.admin.split(call.text("container"), call.text("range"))},
    "merge": {"POST": lambda call: call.admin.merge(call.text("container"), call.texts("ranges"))},
    "failover": {"POST": lambda call: call.admin.failover(call.text("region"))},
    "offline": {"POST": lambda call: call.admin.offline(call.text("region"))},
    "online": {"POST": lambda call: call.admin.online(call.text("region"))},
    "remove-region": {"POST": lambda call: call.admin.remove_region(call.text("region"))},
    "add-region": {"POST": lambda call: call.admin.add_region(call.text("region"))},
    "lay-out": {"POST": lambda call: call.admin.lay_out(call.text("container"), int(call.seconds("count")))},
    "lag": {
        "POST": lambda call: call.admin.lag(call.text("source"), call.text("target"), call.seconds("seconds"))
    },
    "pause": {"POST": lambda call: call.admin.pause(call.text("source"), call.text("target"))},
    "resume": {"POST": lambda call: call.admin.resume(call.text("source"), call.text("target"))},
}


def is_loopback(host: str) -> bool:
    """Whether a Host header names the loopback interface."""
    name = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _number(text: str, name: str) -> int:
    if not text.isdecimal() or len(text) > 15:
        raise ValueError(f"{name} is no whole number of at most 15 digits.")
    return int(text)
