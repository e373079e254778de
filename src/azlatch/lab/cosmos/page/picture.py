"""A heat map as what its template draws: places and words, in the units of its view box. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from azlatch.lab.cosmos.page.heat import COLUMN_S, COLUMNS, Cell, HeatMap, Row
from azlatch.lab.cosmos.page.render import clock, number

WIDTH, LEFT, TOP, ROW, GAP = 960.0, 76.0, 4.0, 22.0, 3.0
_COLUMN = (WIDTH - LEFT) / COLUMNS
_BOTTOM = 22.0


@dataclass(frozen=True, slots=True)
class Box:
    """One cell: where it is, how strong, how high the mark of its 429s is, and what it says."""

    x: float
    y: float
    shade: int
    mark: float
    says: str


@dataclass(frozen=True, slots=True)
class Label:
    """A word beside a row, or below a column."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """All of it. `says` is what it shows, for who cannot see it."""

    width: float
    height: float
    box_width: float
    box_height: float
    left: float
    boxes: list[Box]
    rows: list[Label]
    ticks: list[Label]
    lines: list[float]
    says: str


def picture(heat: HeatMap) -> Picture:
    """Where everything of a heat map is drawn."""
    tops = [TOP + place * ROW for place in range(len(heat.rows))]
    bottom = TOP + len(heat.rows) * ROW
    boxes = [
        _box(cell, row, top, heat.start) for row, top in zip(heat.rows, tops, strict=True) for cell in row.cells
    ]
    rows = [
        Label(0, top + ROW / 2, f"{row.id} ended" if row.ended is not None else row.id)
        for row, top in zip(heat.rows, tops, strict=True)
    ]
    a_minute = 60 // COLUMN_S
    ticks = [
        Label(LEFT + column * _COLUMN, bottom + 15, clock(heat.start + column * COLUMN_S))
        for column in range(0, COLUMNS, 2 * a_minute)
    ]
    lines = [LEFT + column * _COLUMN for column in range(0, COLUMNS + 1, a_minute)]
    return Picture(
        WIDTH,
        bottom + _BOTTOM,
        _COLUMN - 0.8,
        ROW - GAP,
        LEFT,
        boxes,
        rows,
        ticks,
        lines,
        _summary(heat),
    )


def _box(cell: Cell, row: Row, top: float, start: int) -> Box:
    at = start + cell.column * COLUMN_S
    words = [
        f"range {row.id}, {clock(at)} to {clock(at + COLUMN_S)}: {number(cell.units)} RU",
        f"{cell.share:.0%} of its budget",
        f"{number(cell.requests)} requests",
    ]
    if cell.throttled:
        words.append(f"{number(cell.throttled)} answered with 429")
    mark = max(cell.refused * (ROW - GAP), 2.0) if cell.throttled else 0.0
    return Box(LEFT + cell.column * _COLUMN, top, cell.shade, mark, ", ".join(words))


def _summary(heat: HeatMap) -> str:
    busiest = max(heat.rows, key=lambda each: each.units, default=None)
    if busiest is None or not busiest.units:
        return "Load of the ranges over time: nothing was asked."
    throttled = sum(cell.throttled for row in heat.rows for cell in row.cells)
    return (
        f"Load of {len(heat.rows)} ranges over time. Range {busiest.id} was used most, "
        f"{number(busiest.units)} RU; {number(throttled)} requests were answered with 429."
    )
