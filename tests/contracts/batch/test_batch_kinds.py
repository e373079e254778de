"""What a batch says of a refusal is what `classify` says of it: one table, whoever asks."""

from __future__ import annotations

import pytest

from azlatch import contracts
from azlatch.contracts.batch_answer import Answer, NotTaken, Refused, judge
from azlatch.contracts.batch_errors import _WORDS, FailedOperation, words_for
from azlatch.contracts.diagnosis import Operation
from azlatch.contracts.table import TABLE

OPERATIONS: tuple[Operation, ...] = ("create", "replace", "upsert", "patch", "delete", "read", "batch")
#: What refuses a batch, or an operation of it.
REFUSALS = [
    (status, substatus or 0)
    for status, substatus in TABLE
    if status and 400 <= status < 500 and status not in (408, 424)
]


def verdict(status: int, substatus: int, operation: Operation) -> Refused | NotTaken:
    """Of a batch that was refused as a whole, or because of its one operation."""
    if operation == "batch":
        found = judge(Answer(status, substatus), [])
    else:
        result = {"statusCode": status, "subStatusCode": substatus}
        found = judge(Answer(207, results=[result]), [(0, operation, "a")])
    assert isinstance(found, Refused | NotTaken)
    return found


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_kind_is_the_one_of_the_table(operation: Operation) -> None:
    """Every refusal of the table, as that of a batch and of each of its operations."""
    told = {code: verdict(*code, operation).root.kind for code in REFUSALS}
    assert told == {code: contracts.classify(code, operation=operation).kind for code in REFUSALS}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_cause_and_cure_are_parts_of_a_sentence(operation: Operation) -> None:
    """They fit into the message, also where they are those of the table."""
    for code in REFUSALS:
        cause, cure = words_for(verdict(*code, operation).root)
        assert cause and cure, code
        assert not cause.endswith((".", " ")) and not cure.endswith((".", " ")), code
        assert cause[0] == cause[0].lower() and cure[0] == cure[0].lower(), code


def test_no_words_are_for_a_text_that_the_table_does_not_have() -> None:
    """Words of a batch's own that nothing leads to would hide that a text got another name."""
    refined = {"wrong_key", "owner_missing_for", "unique_or_id"}
    assert _WORDS.keys() - {row.text for row in TABLE.values()} == refined


def test_the_operation_says_more_than_the_number() -> None:
    """A replace that is answered 409 has not met its own id, and a lock of a management operation no ETag."""
    assert verdict(409, 0, "create").root.kind == "already_exists"
    assert verdict(409, 0, "replace").root.kind == "unique_key"
    assert isinstance(verdict(412, 0, "replace"), Refused)
    assert verdict(412, 0, "replace").root.kind == "stale_version"
    assert isinstance(verdict(412, 2012, "replace"), NotTaken)
    assert verdict(412, 2012, "replace").root.kind == "busy"
    assert verdict(412, 2012, "batch").root.kind == "busy"


def test_no_connection_has_words_of_its_own() -> None:
    """It is no answer, so it is not in the table of answers."""
    root = FailedOperation(None, "batch", None, 0, None, "unreachable")
    assert words_for(root) == ("no connection could be made", "check the network, and send it again")
