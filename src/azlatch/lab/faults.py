"""What goes wrong, and for which requests: pure rules, no I/O and no clock.

A rule is a fault and the requests that it is for. As text: the fault, then what narrows it, in any order::

    drop-reply method=PUT lease=acquire times=1
    status=503 p=0.1 retry-after=1
    delay=5 path="comp=lease" after=2
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, Protocol
from xml.sax.saxutils import escape

from azlatch.errors import UsageError

Kind = Literal[
    "delay",  # forwarded late, even when the client has gone by then
    "black-hole",  # not forwarded, and nothing is answered
    "status",  # answered here, not forwarded
    "reset",  # RST, not forwarded
    "drop-request",  # closed without an answer, not forwarded
    "drop-reply",  # forwarded and applied, then closed without an answer
    "delay-reply",  # forwarded and applied, answered late
    "trickle",  # the reply comes in small pieces
    "truncate",  # the reply's body ends too soon
    "partial",  # the reply's head ends too soon
]

#: The error codes of Azure Storage that fit a status, for `Fault.status`.
STORAGE_CODES = {
    400: "InvalidInput",
    401: "NoAuthenticationInformation",
    403: "AuthorizationFailure",
    404: "ResourceNotFound",
    409: "LeaseAlreadyPresent",
    412: "ConditionNotMet",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServerBusy",
}
LEASE_ACTION = "x-ms-lease-action"
_LEASE_ACTIONS = ("acquire", "renew", "change", "release", "break")
_LONGEST = 86_400.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong. Made by the class methods; `value` is in seconds, bytes or a status."""

    kind: Kind
    value: float | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    @classmethod
    def delay(cls, seconds: float) -> Fault:
        """Forwarded after `seconds`, also when the client has given up by then: a write that lands late."""
        return cls("delay", _between("delay", seconds, 0, _LONGEST))

    @classmethod
    def black_hole(cls, seconds: float | None = None) -> Fault:
        """Never forwarded or answered; closed after `seconds`, or when the rule is removed."""
        limited = None if seconds is None else _between("black-hole", seconds, 0, _LONGEST)
        return cls("black-hole", limited)

    @classmethod
    def status(
        cls,
        status: int,
        *,
        error_code: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Fault:
        """Answered with `status` and not forwarded.

        Without a body the answer has the shape of an error of Azure Storage: `error_code` (by default the one
        that fits the status, see STORAGE_CODES) in XML and in the header x-ms-error-code.
        """
        _between("status", status, 200, 599)
        given = dict(headers or {})
        if body is None:
            code = error_code if error_code is not None else STORAGE_CODES.get(status, "InjectedFault")
            given = {"content-type": "application/xml", "x-ms-error-code": code, **given}
            text = f"<Code>{escape(code)}</Code><Message>Injected by the fault proxy.</Message>"
            body = f'<?xml version="1.0" encoding="utf-8"?><Error>{text}</Error>'.encode()
        elif error_code is not None:
            given = {"x-ms-error-code": error_code, **given}
        for name, value in given.items():
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not re.fullmatch(r"[ -~]*", value):
                raise UsageError(
                    f"header {name!r}: {value!r} cannot be sent: use printable ASCII, no spaces in the name"
                )
        return cls("status", status, tuple(given.items()), body)

    @classmethod
    def reset(cls) -> Fault:
        """The connection is reset (RST); nothing was forwarded."""
        return cls("reset")

    @classmethod
    def drop_request(cls) -> Fault:
        """The connection is closed without an answer; nothing was forwarded, so nothing was applied."""
        return cls("drop-request")

    @classmethod
    def drop_reply(cls) -> Fault:
        """The service gets the request and answers; the connection is closed before the client hears of it."""
        return cls("drop-reply")

    @classmethod
    def delay_reply(cls, seconds: float) -> Fault:
        """The service has applied the request; its answer is passed on after `seconds`."""
        return cls("delay-reply", _between("delay-reply", seconds, 0, _LONGEST))

    @classmethod
    def trickle(cls, bytes_per_second: float) -> Fault:
        """The answer, head and body, is passed on at this rate."""
        return cls("trickle", _between("trickle", bytes_per_second, 1, 1e9))

    @classmethod
    def truncate(cls, length: int) -> Fault:
        """The connection is closed after `length` bytes of the answer's body."""
        return cls("truncate", _between("truncate", length, 0, 2**53))

    @classmethod
    def partial(cls, length: int) -> Fault:
        """The connection is closed after `length` bytes of the answer's head."""
        return cls("partial", _between("partial", length, 0, 2**53))

    def __str__(self) -> str:
        return self.kind if self.value is None else f"{self.kind}={self.value:g}"


@dataclass(frozen=True, slots=True)
class Request:
    """What a rule looks at. `target` is the path with the query; header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]


class Counted(Protocol):
    """A rule as far as it counts: see `Rule`."""

    after: int
    nth: int | None
    every: int | None
    p: float | None
    times: int | None
    seen: int
    fired: int


def has_its_turn(rule: Counted, random: Random) -> bool:
    """Counts one more request that the rule is for, and says whether this one gets the fault."""
    rule.seen += 1
    number = rule.seen - rule.after
    if number < 1:
        return False
    # Drawn for each, so that what `times` cuts off does not shift the rest.
    lucky = rule.p is None or random.random() < rule.p
    chosen = (rule.nth is None or number == rule.nth) and (rule.every is None or number % rule.every == 0)
    if not (lucky and chosen) or (rule.times is not None and rule.fired >= rule.times):
        return False
    rule.fired += 1
    return True


@dataclass(eq=False)
class Rule:
    """A fault, and the requests that it is for.

    Attributes:
        method: the HTTP method, or None for any.
        path: a regular expression that is searched in path and query, or None.
        header: headers that must be there with exactly this value; names in any case.
        after: how many matching requests pass first.
        nth: only this matching request, counted from 1 after `after`.
        every: each nth matching request.
        p: the probability for each, drawn from the seed.
        times: how often at most, or None for always.
        seen: how many requests matched.
        fired: how many were given the fault.
        removed: whether it is still in force.
    """

    fault: Fault
    method: str | None = None
    path: str | None = None
    header: Mapping[str, str] = field(default_factory=dict)
    after: int = 0
    nth: int | None = None
    every: int | None = None
    p: float | None = None
    times: int | None = None
    seen: int = field(default=0, init=False)
    fired: int = field(default=0, init=False)
    removed: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        for name, least in (("after", 0), ("nth", 1), ("every", 1), ("times", 1)):
            count = getattr(self, name)
            if count is not None:
                _between(name, count, least, 2**53)
        if self.p is not None:
            _between("p", self.p, 0, 1)
        try:
            self._path = None if self.path is None else re.compile(self.path)
        except re.error as error:
            raise UsageError(f"path={self.path!r} is no regular expression: {error}") from None
        self.method = None if self.method is None else self.method.upper()
        self.header = {name.lower(): value for name, value in self.header.items()}
        if LEASE_ACTION in self.header:
            # As the service reads it; another spelling would never fire.
            self.header[LEASE_ACTION] = _lease_action(self.header[LEASE_ACTION])
        self._random = Random()

    def seed(self, seed: str) -> None:
        """Fixes what `p` draws."""
        self._random = Random(seed)

    def matches(self, request: Request) -> bool:
        """Whether the request is one that this rule is for, whatever was counted."""
        return (
            (self.method is None or self.method == request.method)
            and (self._path is None or self._path.search(request.target) is not None)
            and all(request.headers.get(name) == value for name, value in self.header.items())
        )

    def fires(self, request: Request) -> bool:
        """Counts the request if it matches, and says whether it gets the fault."""
        if self.removed or not self.matches(request):
            return False
        return has_its_turn(self, self._random)

    def __str__(self) -> str:
        words = [str(self.fault)]
        if self.method is not None:
            words.append(f"method={self.method}")
        if self.path is not None:
            words.append(f"path={self.path}")
        for name, value in self.header.items():
            words.append(f"lease={value}" if name == LEASE_ACTION else f"header={name}:{value}")
        for name in ("after", "nth", "every", "p", "times"):
            number = getattr(self, name)
            if number is not None and (name, number) != ("after", 0):
                words.append(f"{name}={number:g}")
        return shlex.join(words)


def parse(text: str) -> Rule:
    """The rule that a text stands for; see the module.

    Raises:
        UsageError: a word is unknown or its value is out of range; the message names what is allowed.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"rule {text!r}: {error}") from None
    if not words:
        raise UsageError(f"the rule is empty: begin with one of {_FAULT_WORDS}")
    kind, given, value = words[0].partition("=")
    if kind not in _FAULTS:
        raise UsageError(f"rule {text!r}: {kind!r} is no fault: begin with one of {_FAULT_WORDS}")
    options: dict[str, Any] = {}
    answer: dict[str, Any] = {}
    for word in words[1:]:
        _option(text, word, options, answer)
    if answer and kind != "status":
        raise UsageError(f"rule {text!r}: {' and '.join(answer)} goes with status=CODE only")
    return Rule(_fault(text, kind, value if given else None, answer), **options)


def _option(text: str, word: str, options: dict[str, Any], answer: dict[str, Any]) -> None:
    name, given, value = word.partition("=")
    if not given or name not in _OPTIONS:
        raise UsageError(f"rule {text!r}: {word!r} is unknown: use one of {', '.join(_OPTIONS.values())}")
    if name != "header" and (name in options or name in answer):
        raise UsageError(f"rule {text!r}: {name} is given twice")
    if name == "lease":
        options.setdefault("header", {})[LEASE_ACTION] = value
    elif name == "header":
        header, colon, wanted = value.partition(":")
        if not colon or not header.strip():
            raise UsageError(f"rule {text!r}: {word!r} is no header: write header=NAME:VALUE")
        options.setdefault("header", {})[header.strip()] = wanted.strip()
    elif name in ("method", "path"):
        options[name] = value
    elif name in ("code", "retry-after"):
        answer[name] = value
    else:
        options[name] = _number(text, name, value, float if name == "p" else int)


def _fault(text: str, kind: str, value: str | None, answer: dict[str, Any]) -> Fault:
    make, form = _FAULTS[kind]
    if form == "" and value is not None:
        raise UsageError(f"rule {text!r}: {kind} takes no value: leave ={value} out")
    if value is None:
        if form != "" and kind != "black-hole":
            raise UsageError(f"rule {text!r}: {kind} needs a value: write {kind}={form}")
        return make()
    number = _number(text, kind, value, float if form in ("SECONDS", "BYTES_PER_SECOND") else int)
    if kind != "status":
        return make(number)
    headers = {"retry-after": answer["retry-after"]} if "retry-after" in answer else None
    return Fault.status(int(number), error_code=answer.get("code"), headers=headers)


def _number(text: str, name: str, value: str, kind: Callable[[str], float]) -> float:
    try:
        return kind(value)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise UsageError(f"rule {text!r}: {name}={value} needs {what}") from None


def _between(name: str, value: float, least: float, most: float) -> float:
    if not math.isfinite(value) or not least <= value <= most:
        raise UsageError(f"{name} is {value:g}: give it {least:g} to {most:g}")
    return value


_FAULTS: dict[str, tuple[Callable[..., Fault], str]] = {
    "delay": (Fault.delay, "SECONDS"),
    "black-hole": (Fault.black_hole, "SECONDS"),
    "status": (Fault.status, "CODE"),
    "reset": (Fault.reset, ""),
    "drop-request": (Fault.drop_request, ""),
    "drop-reply": (Fault.drop_reply, ""),
    "delay-reply": (Fault.delay_reply, "SECONDS"),
    "trickle": (Fault.trickle, "BYTES_PER_SECOND"),
    "truncate": (Fault.truncate, "BYTES"),
    "partial": (Fault.partial, "BYTES"),
}
_FAULT_WORDS = ", ".join(kind if form == "" else f"{kind}={form}" for kind, (_, form) in _FAULTS.items())
_OPTIONS = {
    "method": "method=PUT",
    "path": "path=REGEX",
    "lease": "lease=ACTION",
    "header": "header=NAME:VALUE",
    "after": "after=N",
    "nth": "nth=N",
    "every": "every=N",
    "p": "p=0..1",
    "times": "times=N",
    "code": "code=ERROR_CODE",
    "retry-after": "retry-after=SECONDS",
}


def _lease_action(value: str) -> str:
    action = value.lower()
    if action not in _LEASE_ACTIONS:
        raise UsageError(f"the lease action {value!r} is none: use one of {', '.join(_LEASE_ACTIONS)}")
    return action
