"""What is put together from the fields of the form is the rule that was meant, or is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azlatch.errors import UsageError
from azlatch.lab.cosmos.faults import parse
from azlatch.lab.cosmos.page.rule_form import EXAMPLES, KINDS, NUMBERS, OPERATIONS, WORDS, rule_of

texts = st.text(max_size=30) | st.sampled_from(
    ["West US", "it's", 'a "b"', "x key=[1]", "a\\b", "--", "#", "="]
)
keys = st.lists(st.text(max_size=8) | st.integers() | st.none() | st.booleans(), max_size=3).map(json.dumps)


@settings(max_examples=400, deadline=None)
@given(
    kind=st.sampled_from(list(KINDS)),
    op=st.sampled_from(["", *OPERATIONS]),
    words=st.fixed_dictionaries(
        {name: texts for name in WORDS if name != "key"}, optional={"key": keys | texts}
    ),
    times=st.sampled_from(["", "1", "17"]),
)
def test_a_rule_says_what_the_fields_say(kind: str, op: str, words: dict[str, str], times: str) -> None:
    """Each field is read again as it was given: no value becomes another word of the rule."""
    value = {"status": "429/3200", "delay": "1.5", "delay-reply": "2"}.get(kind, "")
    fields = {"fault": kind, "value": value, "op": op, **words, "times": times}
    wanted = {name: each.strip() for name, each in fields.items() if name in ("op", *WORDS) and each.strip()}
    try:
        rule = parse(rule_of(fields))
    except UsageError as error:
        # Two of these are possible: a key within another word, and a key that is no JSON.
        assert "key" in str(error)
        return
    assert (rule.kind, rule.words, rule.times) == (kind, wanted, int(times) if times else None)


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"fault": "status", "value": "429/3200", "p": "0.1"}, "status=429/3200 p=0.1"),
        ({"fault": "drop-reply", "op": "patch", "key": '["contoso"]'}, 'drop-reply op=patch key=["contoso"]'),
        ({"fault": "delay", "value": "2", "region": "West US"}, "delay=2 'region=West US'"),
        ({"fault": "reset", "value": " ", "times": " 1 "}, "reset times=1"),
        ({"rule": " reset op=read "}, "reset op=read"),
    ],
)
def test_rules_are_written_as_people_would(fields: dict[str, str], rule: str) -> None:
    """Short, and without quotes where none are needed."""
    assert rule_of(fields) == rule


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "empty"),
        ({"rule": "explode"}, "explode"),
        ({"fault": "status"}, "CODE"),
        ({"fault": "status", "value": "999"}, "400 to 599"),
        ({"fault": "drop-reply", "value": "3"}, "leave =3 out"),
        ({"fault": "reset", "p": "2"}, "0 to 1"),
        ({"fault": "reset", "nth": "x"}, "needs a number"),
        ({"fault": "nonsense"}, "nonsense"),
        ({"fault": "reset", "key": "[1"}, "key"),
        ({"fault": "reset", "name": 'a key=["b"]'}, "key"),
    ],
)
def test_what_is_no_rule_is_refused(fields: dict[str, str], says: str) -> None:
    """With what was wrong."""
    with pytest.raises(UsageError) as refused:
        rule_of(fields)
    assert says in str(refused.value)


def test_the_ready_ones_are_rules() -> None:
    """Every button works, and each number of the form is known to the rules."""
    assert [rule_of({"rule": each}) for each in EXAMPLES] == list(EXAMPLES)
    for name in NUMBERS:
        assert parse(rule_of({"fault": "reset", name: "1"})).text == f"reset {name}=1"
