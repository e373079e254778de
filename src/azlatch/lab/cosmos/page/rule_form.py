"""A rule for faults from the fields of a form: text as `azlatch.lab.cosmos.faults` reads it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from azlatch.errors import UsageError
from azlatch.lab.cosmos.faults import KINDS, OPERATIONS, parse

#: Of the form, what narrows a rule: by the name of the field, what it is called and what may stand in it.
WORDS = {
    "container": ("Container", "shop/orders"),
    "key": ("Partition key, as JSON", '["contoso"]'),
    "name": ("Id of the item", "17"),
    "range": ("Id of the range", "0"),
    "region": ("Region", "West US"),
}
NUMBERS = {
    "p": ("With a probability of", "0.1"),
    "times": ("So many times at most", "1"),
    "every": ("Every nth that matches", "3"),
    "nth": ("The nth that matches", "2"),
    "after": ("After so many that match", "10"),
    "retry-after-ms": ("Retry after, milliseconds", "20"),
}
#: Rules that are one button each, with what they are good for.
EXAMPLES = {
    "status=429/3200 p=0.1 retry-after-ms=50": "Request units run out for one request in ten.",
    "drop-reply op=any-write times=1": "The next write is carried out, and its reply is lost.",
    "status=449 op=any-write every=5": "Every fifth write meets another one: retry with.",
    "status=503 p=0.05": "The service does not answer, now and then.",
    "delay=2 op=any-read p=0.2": "One read in five takes two seconds longer.",
    "status=410/1002 op=read times=1": "The next read meets a range that has been split.",
}

__all__ = ["EXAMPLES", "KINDS", "NUMBERS", "OPERATIONS", "WORDS", "rule_of"]


def rule_of(fields: Mapping[str, str]) -> str:
    """The rule that a form asks for: its field `rule`, or what is put together from the others.

    Raises:
        UsageError: it is none, or cannot be written as one.
    """
    text = fields.get("rule", "").strip()
    if "fault" in fields and not text:
        text = _composed(fields)
    parse(text)
    return text


def _composed(fields: Mapping[str, str]) -> str:
    kind, value = fields["fault"], fields.get("value", "").strip()
    words = {name: fields.get(name, "").strip() for name in ("op", *WORDS, *NUMBERS)}
    given = {name: word for name, word in words.items() if word}
    text = " ".join(
        [
            shlex.quote(f"{kind}={value}" if value else kind),
            *(_word(name, word) for name, word in given.items()),
        ]
    )
    understood = parse(text).words
    if understood != {name: word for name, word in given.items() if name not in NUMBERS}:
        raise UsageError(f"the rule {text!r} would be read in another way: write it as text")
    return text


def _word(name: str, value: str) -> str:
    # A key is JSON, with quotes of its own, and may stand as it is.
    return f"key={value}" if name == "key" and value.startswith("[") else shlex.quote(f"{name}={value}")
