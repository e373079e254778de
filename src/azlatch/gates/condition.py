"""A gate in any SQL database: a condition for your own UPDATE, and what its row count means.

::

    UPDATE invoices SET paid = 1, fence = :fence
    WHERE id = :id AND (fence IS NULL OR fence <= :fence)

The database compares and writes in one statement, so no gate of its own is needed: the row is the gate. The
conditions are these, and they are yours to keep:

* The column is a 64-bit integer (BIGINT): fences pass 2**31 at once.
* Every write of the row, by whomever, has both parts: it sets the fence and carries the condition.
* What is bound is `fence_of(hold)`, which refuses a hold without a fence before the statement runs. Its bare
  `hold.fence` is None then, and a row with a NULL fence would take it.
* A row with a NULL fence accepts any: nothing is known of it. DELETE forgets the fence with the row; where
  rows come back, mark them deleted instead.
* Isolation READ COMMITTED or stricter on PostgreSQL, MySQL and SQL Server: there an UPDATE that waited for
  the row looks at the committed one. A read replica does not do, nor does a SELECT before the UPDATE.
* Where the commit fails without an answer, the outcome is unknown: read the row back on a new connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from azlatch.errors import FenceRejected, OutcomeUnknown, UsageError
from azlatch.gates.fence import FenceSource, check_fence, fence_of, reporting

_COLUMN = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]{0,127}\.){0,2}[A-Za-z_][A-Za-z0-9_]{0,127}")
_PARAMETER = re.compile(
    r"\?|%s|[:@][A-Za-z_][A-Za-z0-9_]{0,127}|%\([A-Za-z_][A-Za-z0-9_]{0,127}\)s|[:$][1-9][0-9]{0,3}"
)


def fence_condition(column: str = "fence", parameter: str = ":fence") -> str:
    """The condition under which a row accepts a fence: none is stored, or none that is newer.

    The parameter occurs once. With a positional one (``?``, ``%s``) the fence is bound twice in an UPDATE:
    for `fence_assignment`, and here.

    Args:
        column: where the fence stands; may be qualified, as in ``invoices.fence``.
        parameter: in your driver's style: ``:name``, ``?``, ``%s``, ``%(name)s``, ``@name``, ``:1`` or ``$1``.

    Raises:
        UsageError: the column is not a plain identifier, or the parameter not a placeholder.
    """
    name, placeholder = _identifier(column), _placeholder(parameter)
    return f"({name} IS NULL OR {name} <= {placeholder})"


def fence_assignment(column: str = "fence", parameter: str = ":fence") -> str:
    """What goes into SET next to your own columns; without it the row would never learn of the fence.

    Raises:
        UsageError: as in `fence_condition`.
    """
    # PostgreSQL takes no qualified name on the left of an assignment.
    return f"{_identifier(column).rpartition('.')[2]} = {_placeholder(parameter)}"


def check_rowcount(
    rowcount: int,
    fence: FenceSource,
    *,
    expected: int = 1,
    current: Callable[[], Sequence[object] | None] | None = None,
) -> int:
    """Returns the row count of an UPDATE with `fence_condition`, unless a newer fence refused the write.

    Fewer rows than expected do not say why. Without `current` that is always FenceRejected, which then says
    that the row may be missing instead. With it, a return of fewer rows means: not because of the fence. The
    row is missing, another of your conditions did not hold, or (MySQL without ``CLIENT.FOUND_ROWS``) the row
    had these very values already. Roll back where some of several rows were refused.

    Args:
        rowcount: `cursor.rowcount` after the UPDATE, in the same transaction.
        fence: what was offered.
        expected: how many rows the UPDATE is to write.
        current: reads the stored fence, as `fetchone()` gives it: None for no row, else a row whose first
            column is the fence or NULL; for several rows select MAX(fence). It looks after the UPDATE: a
            newer fence that came in between counts as the reason, and rightly refuses the old holder. On
            MySQL add FOR UPDATE: a plain SELECT there may read an older snapshot than the UPDATE saw.

    Raises:
        FenceRejected: a newer fence refused it; or too few rows, and no `current` to tell why.
        OutcomeUnknown: the driver did not count (-1): roll back, or use one that does.
        UsageError: the fence is none.
    """
    with reporting(fence, "the row"):
        return _check_rowcount(rowcount, fence_of(fence), expected, current)


def _check_rowcount(
    rowcount: int, offered: int, expected: int, current: Callable[[], Sequence[object] | None] | None
) -> int:
    if rowcount >= expected:
        return rowcount
    if current is not None:
        row = current()
        stored = None if row is None else row[0]
        if stored is not None:
            check_fence(offered, fence_of(_integer(stored)), "the row")
    if rowcount < 0:
        raise OutcomeUnknown(
            "the driver did not count the rows: whether the write was accepted is unknown, roll back"
        )
    if current is None:
        raise FenceRejected(
            f"{rowcount} of {expected} rows accepted fence {offered}: a newer one was accepted, or there is no "
            "such row (pass `current` to tell which)",
            offered=offered,
        )
    return rowcount


def _integer(stored: object) -> int:
    """A NUMERIC column comes back as a Decimal, or worse; only whole numbers are fences."""
    try:
        value = int(stored)  # type: ignore[call-overload]  # whatever the driver made of the column
    except (TypeError, ValueError, OverflowError):
        value = None
    if value is None or value != stored:
        raise UsageError(f"`current` read {stored!r}, which is no fence: select the fence column first")
    return int(value)


def _identifier(column: str) -> str:
    if not isinstance(column, str) or not _COLUMN.fullmatch(column):
        raise UsageError(
            f"{column!r} is not a plain column name: letters, digits and _, at most two qualifiers before dots"
        )
    return column


def _placeholder(parameter: str) -> str:
    if not isinstance(parameter, str) or not _PARAMETER.fullmatch(parameter):
        raise UsageError(f"{parameter!r} is not a placeholder: use :name, ?, %s, %(name)s, @name, :1 or $1")
    return parameter
