"""Pages put together are the whole result, wherever they are cut."""

from __future__ import annotations

from typing import Any

import pytest

from azlatch.lab.cosmos.sql import Position, execute, next_page, parse, streams

ITEMS: list[dict[str, Any]] = [{"id": str(at), "n": -at, "tags": list(range(at % 4))} for at in range(9)]


@pytest.mark.parametrize("most", [1, 2, 3, 100])
@pytest.mark.parametrize("size", [1, 25, 10_000])
@pytest.mark.parametrize(
    ("text", "streaming"),
    [
        ("SELECT * FROM c", True),
        ("SELECT c.id, t FROM c JOIN t IN c.tags", True),
        ("SELECT VALUE t FROM t IN c.tags WHERE t > 0", True),
        ("SELECT VALUE c.id FROM c ORDER BY c.n", False),
        ("SELECT DISTINCT VALUE t FROM t IN c.tags", False),
        ("SELECT VALUE COUNT(1) FROM c", False),
        ("SELECT TOP 4 * FROM c", False),
        ("SELECT VALUE c.id FROM c WHERE c.id = 'none'", True),
        ("SELECT 1", True),
    ],
)
def test_pages_are_the_whole(text: str, streaming: bool, most: int, size: int) -> None:
    """Nothing is lost or given twice, no page is too large, and only the last one has nothing after it."""
    query = parse(text)
    assert streams(query) is streaming
    found: list[Any] = []
    position: Position | None = Position()
    while position is not None:
        execution = execute(query, {}, ITEMS[position.items :])
        page = next_page(
            execution, query, position, most_values=most, most_size=size, size_of=lambda value: len(str(value))
        )
        assert len(page.values) <= most
        assert len(page.values) <= 1 or page.size <= size
        assert page.values or not found
        found += page.values
        position = page.following
    assert found == list(execute(query, {}, ITEMS))
