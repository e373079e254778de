"""The list of operations in an item, beside a plain list of them."""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st

from azlatch.contracts.operations import MOST, PROPERTY, Operations, hashed, word


@given(st.lists(st.tuples(st.binary(min_size=6, max_size=6), st.text(max_size=12)), max_size=3 * MOST))
def test_the_text_is_what_a_list_of_the_newest_would_be(updates: list[tuple[bytes, str]]) -> None:
    """However many there were, the item tells of the newest sixteen, in their order."""
    operations, listed = Operations(), [f"{word(data)}.{hashed(etag)}" for data, etag in updates]
    for data, etag in updates:
        operations = Operations.of({PROPERTY: operations.then(word(data), etag)})
    assert operations.entries == listed[-MOST:]
    assert operations.newest == (listed[-1][:8] if listed else None)
    told = {each[:8] for each in listed[-MOST:]}
    assert [operations.has(word(data)) for data, _ in updates] == [word(data) in told for data, _ in updates]


def test_a_list_that_others_made_longer_is_cut_at_the_front() -> None:
    """What is read has the newest sixteen, too."""
    listed = [f"{number:08d}.abcdef" for number in range(MOST + 3)]
    assert Operations.of({PROPERTY: " ".join(listed)}).entries == listed[-MOST:]


@given(st.binary(max_size=40))
def test_a_word_is_url_safe_base64(data: bytes) -> None:
    """It is the standard library's, in fewer steps: items that were written before are still understood."""
    assert word(data) == base64.urlsafe_b64encode(data).decode()
