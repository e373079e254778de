"""Rules for faults as text: what is no rule is refused with the reason, however it is written."""

from __future__ import annotations

import json

import pytest

from azlatch.errors import UsageError
from azlatch.lab.cosmos.faults import parse
from azlatch.testing.cosmos_engine import Engine


@pytest.mark.parametrize("closed", [True, False])
def test_a_key_that_is_nested_too_deeply_is_refused(closed: bool) -> None:
    """As a mistake of who wrote it, not as one of the lab."""
    depth = 4_000
    with pytest.raises(UsageError, match="its key is nested too deeply") as refused:
        parse("reset key=" + "[" * depth + "]" * depth * closed)
    assert len(str(refused.value)) < 300


def test_a_very_long_rule_is_refused_unread() -> None:
    """With its length and the limit."""
    with pytest.raises(UsageError, match="1,000,006 characters: give it at most 10,000"):
        parse("reset " + "[" * 1_000_000)


def test_a_key_may_be_written_in_any_spelling_of_its_json() -> None:
    """It is the value that counts."""
    engine = Engine()
    engine.admin.add_rule('status=503 key=[ "p" ] op=create')
    statuses = [engine.create({"id": "a", "pk": pk}).status for pk in ("p", "q")]
    assert statuses == [503, 201]
    assert json.loads(parse("reset key=[1, 2.0]").words["key"]) == [1, 2]
