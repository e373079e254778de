"""The rules of the fault proxy, alone."""

from __future__ import annotations

import pytest

from azlatch.errors import UsageError
from azlatch.lab.faults import Fault, Request, Rule, parse

ACQUIRE = Request("PUT", "/a/b?comp=lease", {"x-ms-lease-action": "acquire"})
GET = Request("GET", "/a/b", {})


def fired(rule: Rule, request: Request = ACQUIRE, times: int = 12) -> list[int]:
    """Which of so many requests got the fault, from 1."""
    return [number for number in range(1, times + 1) if rule.fires(request)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("reset", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
        ("reset times=2", [1, 2]),
        ("reset after=10", [11, 12]),
        ("reset nth=3", [3]),
        ("reset every=5", [5, 10]),
        ("reset after=2 every=3 times=2", [5, 8]),
        ("reset after=2 nth=2", [4]),
        ("reset p=0", []),
        ("reset p=1 times=1", [1]),
    ],
)
def test_how_often(text: str, numbers: list[int]) -> None:
    """after, nth, every, p and times choose among the requests that match."""
    assert fired(parse(text)) == numbers


@pytest.mark.parametrize(
    ("text", "matching"),
    [
        ("reset method=put", [ACQUIRE]),
        ("reset method=GET", [GET]),
        ("reset path=comp=lease", [ACQUIRE]),
        ("reset path=^/a/b$", [GET]),
        ("reset lease=acquire", [ACQUIRE]),
        ("reset lease=renew", []),
        ("reset header=X-MS-Lease-Action:acquire method=PUT", [ACQUIRE]),
        ("reset header=x-ms-lease-action:acquire header=a:b", []),
    ],
)
def test_for_which(text: str, matching: list[Request]) -> None:
    """Method, path with query, and headers in any case choose which requests match."""
    rule = parse(text)
    assert [request for request in (ACQUIRE, GET) if rule.matches(request)] == matching


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("delay=0.5", Fault.delay(0.5)),
        ("black-hole", Fault.black_hole()),
        ("black-hole=3", Fault.black_hole(3)),
        ("status=503", Fault.status(503)),
        ("status=409 code=LeaseIdMissing", Fault.status(409, error_code="LeaseIdMissing")),
        ("status=429 retry-after=2", Fault.status(429, headers={"retry-after": "2"})),
        ("reset", Fault.reset()),
        ("drop-request", Fault.drop_request()),
        ("drop-reply", Fault.drop_reply()),
        ("delay-reply=1", Fault.delay_reply(1)),
        ("trickle=100", Fault.trickle(100)),
        ("truncate=0", Fault.truncate(0)),
        ("partial=9", Fault.partial(9)),
    ],
)
def test_every_fault_has_a_text(text: str, fault: Fault) -> None:
    """What a text names is what the method of that name makes."""
    assert parse(text).fault == fault


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "begin with one of delay=SECONDS"),
        ("explode", "'explode' is no fault"),
        ("delay", "write delay=SECONDS"),
        ("delay=soon", "needs a number"),
        ("delay=-1", "give it 0 to"),
        ("delay=nan", "give it 0 to"),
        ("delay=inf", "give it 0 to"),
        ("status=99", "give it 200 to 599"),
        ("status=5.5", "needs a whole number"),
        ("reset=1", "takes no value"),
        ("reset p=2", "give it 0 to 1"),
        ("reset times=0", "give it 1 to"),
        ("reset nth=x", "needs a whole number"),
        ("reset nth=1 nth=2", "given twice"),
        ("reset colour=red", "use one of method=PUT"),
        ("reset acquire", "use one of method=PUT"),
        ("reset path=(", "no regular expression"),
        ("reset header=x", "write header=NAME:VALUE"),
        ("reset code=ServerBusy", "status=CODE only"),
        ("status=429 retry-after='1\r\nx: y'", "cannot be sent"),
        ('reset path="', "quotation"),
        ("reset lease=aquire", "acquire, renew"),
    ],
)
def test_bad_rules_say_what_is_allowed(text: str, says: str) -> None:
    """A rule that says nothing is a UsageError that names the value and what is allowed."""
    with pytest.raises(UsageError) as raised:
        parse(text)
    assert says in str(raised.value)


def test_a_rule_as_text_is_the_same_rule() -> None:
    """str(rule) parses to a rule that chooses the same."""
    text = "'status=503' method=PUT 'path=a b' lease=renew header=a:b after=1 every=2 p=0.5 times=3"
    rule = parse(text)
    assert str(parse(str(rule))) == str(rule)
    assert "'path=a b'" in str(rule)


def test_the_seed_decides() -> None:
    """The same seed draws the same, another one something else, and `times` does not shift it."""

    def drawn(seed: str, times: int | None = None) -> list[int]:
        rule = Rule(Fault.reset(), p=0.5, times=times)
        rule.seed(seed)
        return fired(rule, times=64)

    assert drawn("1") == drawn("1") != drawn("2")
    assert drawn("1", 3) == drawn("1")[:3]
    assert 16 < len(drawn("1")) < 48


def test_a_lease_action_in_any_spelling() -> None:
    """The service reads it in any case, and so does a rule."""
    assert str(parse("reset lease=Acquire")) == str(parse("reset lease=acquire"))
