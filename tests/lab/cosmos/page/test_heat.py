"""The heat map: nothing that was used is lost on the way into it, and it stays in its bounds."""

from __future__ import annotations

from random import Random

import pytest

from azlatch.lab.cosmos.page.heat import COLUMN_S, COLUMNS, MOST_ROWS, Cell, Row, cells_of, drawn, start_of
from azlatch.lab.cosmos.page.picture import ROW, WIDTH, picture
from azlatch.lab.cosmos.usage import KEPT_S, Usage


def test_cells_have_all_that_was_used_in_their_time() -> None:
    """Units, requests and 429s of the columns are those of their seconds, whenever one looks."""
    random = Random(3)
    usage, now = Usage(), 1_790_000_003.0
    for _ in range(2_000):
        now += random.choice([0.0, 0.2, 1.0, 7.0])
        second = usage.second(now, 400)
        second.requests += 1
        second.throttled += random.random() < 0.3
        second.units += random.random() * 50
        start = start_of(now)
        assert start % COLUMN_S == 0
        assert start <= now - KEPT_S + COLUMN_S
        assert now < start + COLUMNS * COLUMN_S
        cells = cells_of(usage.seconds(now), start)
        kept = [each for each in usage.seconds(now) if each.at >= start]
        assert sum(each.requests for each in cells) == sum(each.requests for each in kept)
        assert sum(each.throttled for each in cells) == sum(each.throttled for each in kept)
        assert sum(each.units for each in cells) == pytest.approx(sum(each.units for each in kept))
        assert [each.column for each in cells] == sorted({(each.at - start) // COLUMN_S for each in kept})


def test_columns_keep_their_place() -> None:
    """One second later everything is drawn where it was, or one column further to the left."""
    assert {start_of(1_000_000_000 + each) for each in range(5)} == {start_of(1_000_000_000)}
    assert start_of(1_000_000_005) == start_of(1_000_000_000) + COLUMN_S


@pytest.mark.parametrize(
    ("units", "shade"),
    [(0, 0), (499, 0), (500, 1), (999, 1), (1_000, 2), (1_500, 3), (1_999, 3), (2_000, 4), (9_000, 4)],
)
def test_the_shade_is_of_what_was_allowed(units: float, shade: int) -> None:
    """400 RU/s allow 2,000 in a cell; a cell for which nothing is known to be allowed is faint."""
    assert Cell(0, units=units, requests=1, allowed=2_000).shade == shade
    assert Cell(0, units=units, requests=1).shade == 0


def test_of_many_ranges_those_are_drawn_that_were_used_most() -> None:
    """In the order of their keys; how many are left out is said, and what is drawn is bounded."""
    rows = [Row(str(each), f"{each:04X}", [Cell(1, units=each, requests=1)]) for each in range(500)]
    heat = drawn(reversed(rows), 0)
    assert [each.id for each in heat.rows] == [str(each) for each in range(500 - MOST_ROWS, 500)]
    assert heat.hidden == 500 - MOST_ROWS
    full = [Row(each.id, each.low, [Cell(c, requests=1) for c in range(COLUMNS)]) for each in rows]
    assert len(picture(drawn(full, 0)).boxes) == MOST_ROWS * COLUMNS


def test_a_range_that_ended_is_above_its_children_while_its_time_is_to_be_seen() -> None:
    """Before and after in one picture; after ten minutes it is gone, as one that was never used is at once."""
    cells = [Cell(1, units=1, requests=1)]
    rows = [
        Row("2", "80", cells),
        Row("1", "", cells),
        Row("0", "", cells, ended=1_000.0),
        Row("old", "", cells, ended=10.0),
        Row("idle", "", [], ended=1_000.0),
    ]
    assert [each.id for each in drawn(rows, 500).rows] == ["0", "1", "2"]


def test_everything_is_drawn_within_the_picture() -> None:
    """Boxes and marks lie in it, a mark within its box; words say what it shows, or that nothing was asked."""
    rows = [
        Row(str(row), str(row), [Cell(c, c * 100, 10, c % 11, 2_000) for c in range(COLUMNS)])
        for row in range(5)
    ]
    seen = picture(drawn(rows, 0))
    for box in seen.boxes:
        assert seen.left <= box.x
        assert box.x + seen.box_width <= WIDTH
        assert box.y >= 0
        assert box.y + ROW <= seen.height
        assert 0 <= box.mark <= seen.box_height
    assert {bool(each.mark) for each in seen.boxes if "429" in each.says} == {True}
    assert not any(each.mark for each in seen.boxes if "429" not in each.says)
    assert "Range 0 was used most" in seen.says
    assert "nothing was asked" in picture(drawn([Row("0", "", [])], 0)).says
    assert "nothing was asked" in picture(drawn([], 0)).says
