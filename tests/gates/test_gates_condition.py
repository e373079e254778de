"""The condition for any UPDATE, and what its row count means."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azlatch.errors import FenceRejected, OutcomeUnknown, UsageError
from azlatch.gates import check_rowcount, fence_assignment, fence_condition, fence_of

Pay = Callable[..., int]


@pytest.fixture
def invoices() -> Iterator[sqlite3.Connection]:
    """One invoice, 42, that no holder has touched yet."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE invoices (id INTEGER PRIMARY KEY, paid INTEGER DEFAULT 0, fence INTEGER)")
    connection.execute("INSERT INTO invoices (id) VALUES (42)")
    yield connection
    connection.close()


def pay(connection: sqlite3.Connection, fence: int, *, invoice: int = 42, tell: bool = True) -> int:
    cursor = connection.execute(
        f"UPDATE invoices SET paid = paid + 1, {fence_assignment()} WHERE id = :id AND {fence_condition()}",
        {"id": invoice, "fence": fence},
    )
    query = "SELECT fence FROM invoices WHERE id = ?"
    current = (lambda: connection.execute(query, (invoice,)).fetchone()) if tell else None
    return check_rowcount(cursor.rowcount, fence, current=current)


def test_the_text_is_the_documented_one() -> None:
    """The condition and the assignment are what the documentation shows."""
    assert fence_condition() == "(fence IS NULL OR fence <= :fence)"
    assert fence_assignment() == "fence = :fence"
    assert fence_condition("i.fence", "%(f)s") == "(i.fence IS NULL OR i.fence <= %(f)s)"
    assert fence_assignment("main.invoices.fence", "%s") == "fence = %s"


@pytest.mark.parametrize("parameter", [":fence", "?", "%s", "%(fence)s", "@fence", ":1", "$2"])
def test_every_parameter_style_is_taken(parameter: str) -> None:
    """The five styles of DB-API 2.0, those of ODBC and of asyncpg."""
    assert fence_condition(parameter=parameter).endswith(f"<= {parameter})")


@pytest.mark.parametrize(
    "text", ["", "a b", "a;", "a--", "a'", 'a"', "1a", "a.", ".a", "a.b.c.d", "a\n", "\uff41", "x" * 129]
)
def test_no_text_gets_in_through_the_column(text: str) -> None:
    """What is not a plain identifier is a UsageError, a trailing newline and full-width letters too."""
    for function in (fence_condition, fence_assignment):
        with pytest.raises(UsageError):
            function(text)


@given(st.text() | st.from_regex(r"[:%?$@(]+\w*[)s]?.?"))
def test_no_text_gets_in_through_the_parameter(text: str) -> None:
    """Whatever is accepted as a placeholder has no space, quote, semicolon or comment in it."""
    try:
        condition = fence_condition(parameter=text)
    except UsageError:
        return
    assert not set(condition.removeprefix("(fence IS NULL OR fence <= ")) & set(" '\";-/*\\\n")


@given(st.lists(st.integers(0, 6), max_size=10))
def test_a_row_accepts_the_running_maximum(offers: list[int]) -> None:
    """A row under the condition is paid for exactly the fences that are not below an accepted one."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE invoices (id INTEGER PRIMARY KEY, paid INTEGER DEFAULT 0, fence INTEGER)")
    connection.execute("INSERT INTO invoices (id) VALUES (42)")
    accepted: list[int] = []
    for fence in offers:
        try:
            assert pay(connection, fence) == 1
            accepted.append(fence)
        except FenceRejected as refused:
            assert (refused.offered, refused.newest) == (fence, accepted[-1])
    assert accepted == [fence for place, fence in enumerate(offers) if fence >= max(offers[: place + 1])]
    assert connection.execute("SELECT paid FROM invoices").fetchone() == (len(accepted),)
    connection.close()


def test_an_upsert_needs_no_row_before(invoices: sqlite3.Connection) -> None:
    """INSERT … ON CONFLICT DO UPDATE … WHERE the condition: a missing row accepts, an existing one compares."""
    upsert = (
        "INSERT INTO invoices (id, paid, fence) VALUES (7, 1, :fence) ON CONFLICT (id) DO UPDATE SET "
        f"paid = paid + 1, {fence_assignment()} WHERE {fence_condition('invoices.fence')}"
    )
    counts = [invoices.execute(upsert, {"fence": fence}).rowcount for fence in (3, 3, 2, 4)]
    assert counts == [1, 1, 0, 1]


def test_no_rows_is_refused_when_nobody_can_tell_why(invoices: sqlite3.Connection) -> None:
    """Without `current` a missing row is FenceRejected too, and says that it may be that."""
    with pytest.raises(FenceRejected, match="no such row") as caught:
        pay(invoices, 1, invoice=43, tell=False)
    assert (caught.value.offered, caught.value.newest) == (1, None)


def test_a_missing_row_is_told_from_a_newer_fence(invoices: sqlite3.Connection) -> None:
    """With `current` a missing row is 0 rows, as with any UPDATE, and a newer fence is FenceRejected."""
    assert pay(invoices, 1, invoice=43) == 0
    assert pay(invoices, 5) == 1
    with pytest.raises(FenceRejected) as caught:
        pay(invoices, 4)
    assert (caught.value.offered, caught.value.newest) == (4, 5)


def test_another_condition_is_not_the_fence() -> None:
    """A stored fence that is equal or older, or NULL, did not refuse the write."""
    assert check_rowcount(0, 5, current=lambda: (5,)) == 0
    assert check_rowcount(0, 5, current=lambda: (None,)) == 0
    assert check_rowcount(1, 5, expected=2, current=lambda: (4,)) == 1


def test_some_rows_of_several_are_refused() -> None:
    """Fewer rows than expected count as refused."""
    assert check_rowcount(3, 5, expected=3) == 3
    with pytest.raises(FenceRejected):
        check_rowcount(2, 5, expected=3)


def test_an_uncounted_update_is_unknown() -> None:
    """-1 is neither success nor failure; a newer fence that can be read settles it."""
    with pytest.raises(OutcomeUnknown):
        check_rowcount(-1, 5)
    with pytest.raises(OutcomeUnknown):
        check_rowcount(-1, 5, current=lambda: (5,))
    with pytest.raises(FenceRejected):
        check_rowcount(-1, 5, current=lambda: (6,))


def test_a_numeric_column_is_read_as_a_number() -> None:
    """A Decimal is the number it shows; what is no whole number is a UsageError, never 0."""
    with pytest.raises(FenceRejected):
        check_rowcount(0, 5, current=lambda: (Decimal(6),))
    for stored in ("6", "x", 6.5, Decimal("NaN"), object()):
        with pytest.raises(UsageError):
            check_rowcount(0, 5, current=lambda stored=stored: (stored,))  # type: ignore[misc]


def test_a_fence_that_is_none_is_refused() -> None:
    """A write that went out without a fence is refused even where it wrote a row."""
    with pytest.raises(FenceRejected):
        check_rowcount(1, None)


def test_a_fence_that_is_none_is_refused_before_the_statement(invoices: sqlite3.Connection) -> None:
    """Bound through `fence_of`, a hold without a fence does not reach even a row that accepts any."""
    with pytest.raises(FenceRejected):
        pay(invoices, fence_of(None))
    assert invoices.execute("SELECT paid, fence FROM invoices").fetchone() == (0, None)
