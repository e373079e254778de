"""Keeps the log that production has while the lab serves: each request as it comes, the keys now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azlatch.errors import UsageError
from azlatch.lab.cosmos import log_tables
from azlatch.lab.cosmos.errors import ServiceError
from azlatch.lab.cosmos.ledger import Row
from azlatch.lab.cosmos.log_files import LogFiles
from azlatch.lab.cosmos.wire import Request

if TYPE_CHECKING:
    from azlatch.lab.cosmos.account import Account

#: How often the sizes of keys are written down, seconds of the lab's clock; and once more at the end.
STATISTICS_EVERY_S = 300.0


class RequestLog:
    """Writes down what an account does; called on the server's thread alone."""

    def __init__(self, account: Account, files: LogFiles) -> None:
        self._account = account
        self._files = files
        self._next: float | None = None

    def wrote(self, row: Row) -> None:
        """One request."""
        if self._next is None:
            self._next = row.at + STATISTICS_EVERY_S
        elif row.at >= self._next:
            self._next = row.at + STATISTICS_EVERY_S
            self._sizes()
        for table, found in log_tables.rows_of(row, self._account.name):
            self._files.write(table, found)

    def refused(self, request: Request, error: ServiceError, now: float) -> None:
        """A request that may not be made, and of which the account does not hear otherwise."""
        self._account.refused(request, error, now)

    def close(self) -> None:
        """The sizes of keys a last time, and the end of the files."""
        self._sizes()
        self._files.close()

    def _sizes(self) -> None:
        for row in sizes(self._account):
            self._files.write(log_tables.STATISTICS, row)


def sizes(account: Account) -> list[dict[str, Any]]:
    """The statistics of the keys as they are now."""
    regions = [each.name for each in account.topology.present]
    return log_tables.statistics(account.service.stores.values(), regions, account.name, account.now)


def page(account: Account, table: str, since: int, most: int) -> dict[str, Any]:
    """Rows of a table for the requests after number `since`, and `next`, after which the following ones are.

    Raises:
        UsageError: there is no such table, or no log is kept.
    """
    if table not in log_tables.COLUMNS:
        raise UsageError(f"there is no table {table!r}: use one of {', '.join(log_tables.COLUMNS)}")
    if account.log is None:
        raise UsageError("no log is kept: start the lab with logs= (--logs FOLDER)")
    if table == log_tables.STATISTICS:
        return {"next": since, "rows": sizes(account)}
    rows = account.ledger.rows(since, most)
    found = log_tables.table_of(table, rows, account.name)
    return {"next": rows[-1].number if rows else since, "rows": found}
