"""What a language has to have so that a diagnosis can be given in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from azlatch.contracts.diagnosis import Language


class Text(NamedTuple):
    """What happened, and what to do."""

    cause: str
    next_step: str


@dataclass(frozen=True, slots=True)
class Words:
    """All texts of one language; every language has the same keys and the same places for numbers.

    Attributes:
        texts: of the rows of the table.
        reasons: why the same request may be sent again, or must not.
        notes: what else is said, with places for numbers.
        labels: for people who read a diagnosis on a terminal.
        who: the words for whose job it is.
    """

    texts: Mapping[str, Text]
    reasons: Mapping[str, str]
    notes: Mapping[str, str]
    labels: Mapping[str, str]
    who: Mapping[str, str]


def words_of(language: Language) -> Words:
    """The texts of a language; it is loaded when it is first asked for."""
    if language == "pt":
        from azlatch.contracts.portuguese import WORDS as PORTUGUESE

        return PORTUGUESE
    from azlatch.contracts.english import WORDS as ENGLISH

    return ENGLISH
