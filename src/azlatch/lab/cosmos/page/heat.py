"""The load of physical partitions over time as a heat map: what is drawn, not how. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from azlatch.lab.cosmos.usage import KEPT_S, Second

#: The seconds of one column, and how many there are.
COLUMN_S = 5
COLUMNS = KEPT_S // COLUMN_S
#: How many rows are drawn at most: of more ranges, those that were used most.
MOST_ROWS = 32
#: From which share of the budget on a cell has which shade; below the first it has the faintest.
SHADES = (0.25, 0.5, 0.75, 1.0)


@dataclass(slots=True)
class Cell:
    """A range in one column of time: what it was used for, and what it might have been."""

    column: int
    units: float = 0.0
    requests: int = 0
    throttled: int = 0
    allowed: float = 0.0

    @property
    def share(self) -> float:
        """The part of the budget that was used; above 1 where what was saved before was spent, too."""
        return self.units / self.allowed if self.allowed else 0.0

    @property
    def shade(self) -> int:
        """0 to 4, the faintest to the strongest."""
        return sum(self.share >= least for least in SHADES)

    @property
    def refused(self) -> float:
        """The part of the requests that was answered with 429."""
        return self.throttled / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """A range. `low` is where it begins; `ended` the time when it was split or merged."""

    id: str
    low: str
    cells: Sequence[Cell]
    ended: float | None = None

    @property
    def units(self) -> float:
        """What it was used for in all columns."""
        return sum(each.units for each in self.cells)


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Rows in the order of their keys; `hidden` more ranges were used less. `start` is of the first column."""

    rows: Sequence[Row]
    start: int
    hidden: int = 0


def start_of(now: float) -> int:
    """When the first column begins: columns keep their place from one look to the next."""
    return (int(now // 1) // COLUMN_S + 1 - COLUMNS) * COLUMN_S


def cells_of(seconds: Iterable[Second], start: int) -> list[Cell]:
    """The columns in which something was asked, in their order."""
    found: dict[int, Cell] = {}
    for each in seconds:
        column = (each.at - start) // COLUMN_S
        if 0 <= column < COLUMNS:
            cell = found.setdefault(column, Cell(column))
            cell.units += each.units
            cell.requests += each.requests
            cell.throttled += each.throttled
            cell.allowed = each.rate * COLUMN_S
    return list(found.values())


def drawn(rows: Iterable[Row], start: int) -> HeatMap:
    """A heat map of at most MOST_ROWS rows. A range that ended is drawn above those that came of it, while
    something of its time is to be seen."""
    alive = [each for each in rows if each.ended is None or (each.cells and each.ended >= start)]
    kept = sorted(alive, key=lambda each: -each.units)[:MOST_ROWS]
    ordered = sorted(kept, key=lambda each: (each.low, each.ended is None, each.ended or 0.0))
    return HeatMap(ordered, start, len(alive) - len(kept))
