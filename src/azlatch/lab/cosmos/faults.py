"""Faults by rule: what goes wrong, and for which requests.

A rule as text is the fault, then what narrows it, in any order::

    status=429/3200 op=create container=shop/orders p=0.1 retry-after-ms=20
    drop-reply op=replace key=["contoso"] times=1
    status=449 range=0 every=3
    delay=2 region="West US" after=10

Of `status`, `drop-request` and `reset` nothing is applied; `drop-reply`, `reset-reply` and `truncate` come
after the request was carried out.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from azlatch.errors import UsageError
from azlatch.lab.cosmos.wire import decode, encode
from azlatch.lab.faults import has_its_turn

#: The faults, each with the form of its value.
KINDS = {
    "status": "CODE[/SUBSTATUS]",
    "delay": "SECONDS",
    "delay-reply": "SECONDS",
    "drop-request": "",
    "reset": "",
    "drop-reply": "",
    "reset-reply": "",
    "truncate": "",
}
_WORDS = ("op", "container", "key", "range", "region", "name")
_NUMBERS = ("after", "nth", "every", "times", "p", "retry-after-ms")
OPERATIONS = (
    *("create", "upsert", "read", "replace", "patch", "delete", "batch", "delete-key", "execute"),
    *(
        "list",
        "changes",
        "query",
        "plan",
        "account",
        "container",
        "database",
        "ranges",
        "any-write",
        "any-read",
    ),
)
_OTHERS = {"database": "dbs", "container": "colls", "account": "account", "ranges": "pkranges"}
_WRITES = ("create", "upsert", "replace", "patch", "delete", "batch", "delete-key")
_LONGEST = 3_600.0
_MOST_CHARACTERS = 10_000
#: Where a key begins that is not quoted for the rule.
_KEY = re.compile(r"(?<!\S)key=(?=\[)")


class Facts(NamedTuple):
    """What a rule looks at of a request; `container` is "database/container"."""

    op: str
    container: str = ""
    key: str = ""
    range: str = ""
    region: str = ""
    name: str = ""
    kind: str = "docs"


@dataclass
class Rule:
    """A fault and the requests that it is for.

    Attributes:
        seen: how many requests matched.
        fired: how many were given the fault.
    """

    text: str
    kind: str
    status: int = 0
    substatus: int = 0
    seconds: float = 0.0
    retry_after_ms: int | None = None
    words: dict[str, str] = field(default_factory=dict)
    after: int = 0
    nth: int | None = None
    every: int | None = None
    times: int | None = None
    p: float | None = None
    seen: int = 0
    fired: int = 0
    id: int = 0
    random: Random = field(default_factory=Random)

    def matches(self, facts: Facts) -> bool:
        """Whether the request is one that the rule is for: without `op` one for items."""
        if facts.kind != "docs" and "op" not in self.words:
            return False
        return all(_fits(name, wanted, facts) for name, wanted in self.words.items())

    def fires(self, facts: Facts) -> bool:
        """Counts a request that matches, and says whether it gets the fault."""
        return self.matches(facts) and has_its_turn(self, self.random)


def _fits(name: str, wanted: str, facts: Facts) -> bool:
    if name == "op":
        if wanted in _OTHERS:
            return facts.kind == _OTHERS[wanted]
        if facts.kind != "docs":
            return False
        if wanted == "any-write":
            return facts.op in _WRITES
        return facts.op not in _WRITES if wanted == "any-read" else facts.op == wanted
    if name == "region":
        return facts.region.replace(" ", "").lower() == wanted.replace(" ", "").lower()
    if name == "container":
        return wanted in (facts.container, facts.container.partition("/")[2])
    if name == "key":
        return _json(wanted) == _json(facts.key)
    return bool(getattr(facts, name) == wanted)


def _json(text: str) -> str:
    """A partition key as JSON in one spelling."""
    try:
        return encode(decode(text.encode())).decode()
    except (ValueError, OverflowError, RecursionError):
        return text


def parse(text: str) -> Rule:
    """The rule that a text stands for.

    Raises:
        UsageError: a word is unknown, or its value is out of range.
    """
    if len(text) > _MOST_CHARACTERS:
        raise UsageError(f"the rule has {len(text):,} characters: give it at most {_MOST_CHARACTERS:,}")
    try:
        words = _words(text)
    except ValueError as error:
        raise UsageError(f"rule {text!r}: {error}") from None
    except RecursionError:
        raise UsageError(f"rule {text[:100]!r}…: its key is nested too deeply") from None
    if not words:
        raise UsageError(f"the rule is empty: begin with one of {', '.join(KINDS)}")
    kind, given, value = words[0].partition("=")
    if kind not in KINDS:
        raise UsageError(f"rule {text!r}: {kind!r} is no fault: begin with one of {', '.join(KINDS)}")
    if bool(given) != bool(KINDS[kind]):
        form = f"write {kind}={KINDS[kind]}" if KINDS[kind] else f"leave ={value} out"
        raise UsageError(f"rule {text!r}: {form}")
    rule = Rule(text, kind)
    if kind == "status":
        status, _, substatus = value.partition("/")
        rule.status = int(_number(text, "status", status, 400, 599))
        rule.substatus = int(_number(text, "substatus", substatus or "0", 0, 99_999))
    elif given:
        rule.seconds = _number(text, kind, value, 0, _LONGEST)
    for word in words[1:]:
        _option(rule, word)
    return rule


def _words(text: str) -> list[str]:
    """The words of a rule. A key may stand in it as JSON, quotes and all. Raises ValueError."""
    found = _KEY.search(text)
    if found is None:
        return shlex.split(text)
    begin = found.end()
    _, end = json.JSONDecoder().raw_decode(text, begin)
    return [*shlex.split(text[: found.start()] + " " + text[end:]), f"key={text[begin:end]}"]


def _option(rule: Rule, word: str) -> None:
    name, given, value = word.partition("=")
    if given and name in _WORDS:
        if name == "op" and value not in OPERATIONS:
            raise UsageError(f"rule {rule.text!r}: op={value} is none: use one of {', '.join(OPERATIONS)}")
        rule.words[name] = value
    elif given and name == "p":
        rule.p = _number(rule.text, name, value, 0, 1)
    elif given and name in _NUMBERS:
        least = 0 if name in ("after", "retry-after-ms") else 1
        number = int(_number(rule.text, name, value, least, 2**53))
        setattr(rule, name.replace("-", "_"), number)
    else:
        known = ", ".join((*_WORDS, *_NUMBERS))
        raise UsageError(f"rule {rule.text!r}: {word!r} is unknown: use NAME=VALUE with one of {known}")


def _number(text: str, name: str, value: str, least: float, most: float) -> float:
    try:
        number = float(value)
    except ValueError:
        raise UsageError(f"rule {text!r}: {name}={value} needs a number") from None
    if not math.isfinite(number) or not least <= number <= most:
        raise UsageError(f"rule {text!r}: {name}={value}: give it {least:g} to {most:g}")
    return number


class Rules:
    """The rules in force, in the order in which they were added; the first that fires is the one."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._next = 1
        self.all: list[Rule] = []

    def add(self, text: str) -> int:
        """Puts a rule in force and returns its number."""
        rule = parse(text)
        rule.id = self._next
        rule.random = Random(f"{self._seed}/{rule.id}")
        self._next += 1
        self.all.append(rule)
        return rule.id

    def remove(self, number: int) -> None:
        """Takes a rule out of force. Raises UsageError if there is none of that number."""
        kept = [each for each in self.all if each.id != number]
        if len(kept) == len(self.all):
            raise UsageError(f"there is no rule {number}")
        self.all = kept

    def clear(self) -> None:
        """Takes all rules out of force."""
        self.all = []

    def choose(self, facts: Facts) -> Rule | None:
        """The rule whose fault a request gets."""
        return next((each for each in self.all if each.fires(facts)), None)
