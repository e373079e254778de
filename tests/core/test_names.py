"""Names: what is allowed, and that no two share a store id."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azlatch import UsageError
from azlatch.core.names import MAX_CHARACTERS, check_name, store_id

allowed = st.text(st.characters(blacklist_categories=("Cc", "Cs")), min_size=1, max_size=MAX_CHARACTERS)
escapes = st.text(st.sampled_from("a_-%0123456789abcdefAZé日"), min_size=1, max_size=80)


@given(allowed)
def test_allowed_names_pass_unchanged(name: str) -> None:
    """A name without control characters and of allowed length is taken as it is."""
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "a\0b", "a\nb", "\x1b[2J", "a\x7f", "a\x85", "\ud800", "x" * 1025, 7, None, b"a"]
)
def test_refused_names(name: object) -> None:
    """What is no name is a UsageError that says the cure."""
    with pytest.raises(UsageError):
        check_name(name)


def test_the_message_names_the_character_and_its_place() -> None:
    """A control character is named by code point and position, never printed."""
    with pytest.raises(UsageError, match=r"U\+001B, at position 3"):
        check_name("abc\x1b[2J")


@given(allowed | escapes, allowed | escapes)
def test_ids_are_injective(one: str, other: str) -> None:
    """Two different names have two different ids."""
    assert (store_id(one) == store_id(other)) == (one == other)


@given(escapes, escapes)
def test_short_limits_are_injective_too(one: str, other: str) -> None:
    """Also where most ids have to be cut, the long and the short never meet."""
    assert (store_id(one, limit=70) == store_id(other, limit=70)) == (one == other)


@given(allowed)
def test_ids_are_plain_and_short(name: str) -> None:
    """An id has at most 250 characters of a set that every store takes, in one case only."""
    assert re.fullmatch(r"[a-z0-9_-]{1,250}", store_id(name))


def test_known_ids() -> None:
    """Ids are part of what is stored: they never change."""
    assert store_id("invoice/42") == "invoice_2f42"
    assert store_id("A_b") == "_41_5fb"
    assert store_id("é") == "_c3_a9"
    assert store_id("x" * 251).startswith("x" * 184 + "__")
