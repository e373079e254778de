"""LIKE: % for any text, _ for one character, [abc], [a-z] and [^abc] for one of them.

A pattern is matched by hand instead of as a regular expression: the time is bounded by text times pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Piece = str | Literal[True] | Callable[[str], bool]

#: A piece that any text fits.
_ANY: Literal[True] = True


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern that was read: a character, True for any text, or a test of one character, piece by piece."""

    pieces: tuple[Piece, ...]

    def cost(self, text: str) -> int:
        """Steps that a match takes at most, in the units of the meter."""
        return 1 + (len(text) * len(self.pieces) >> 4)

    def matches(self, text: str) -> bool:
        """Whether the whole text fits."""
        pieces = self.pieces
        at = place = 0
        anywhere, resume = -1, 0
        while at < len(text):
            piece = pieces[place] if place < len(pieces) else None
            if piece is _ANY:
                anywhere, resume = place, at
                place += 1
            elif piece is not None and (piece == text[at] if isinstance(piece, str) else piece(text[at])):
                at += 1
                place += 1
            elif anywhere >= 0:
                # The last % takes one character more.
                resume += 1
                at, place = resume, anywhere + 1
            else:
                return False
        return all(piece is _ANY for piece in pieces[place:])


def pattern_of(text: str, escape: str = "") -> Pattern:
    """Reads a pattern; what follows the escape character is meant as it stands."""
    pieces: list[Piece] = []
    at = 0
    while at < len(text):
        each = text[at]
        at += 1
        if escape and each == escape and at < len(text):
            pieces.append(text[at])
            at += 1
        elif each == "%":
            if not pieces or pieces[-1] is not _ANY:
                pieces.append(_ANY)
        elif each == "_":
            pieces.append(lambda _: True)
        elif each == "[" and "]" in text[at + 1 :]:
            end = text.index("]", at + 1)
            pieces.append(_one_of(text[at:end]))
            at = end + 1
        else:
            pieces.append(each)
    return Pattern(tuple(pieces))


def _one_of(text: str) -> Callable[[str], bool]:
    negated = text.startswith("^")
    singles: set[str] = set()
    ranges: list[tuple[str, str]] = []
    at = int(negated)
    while at < len(text):
        if at + 2 < len(text) and text[at + 1] == "-":
            ranges.append((text[at], text[at + 2]))
            at += 3
        else:
            singles.add(text[at])
            at += 1

    def test(each: str) -> bool:
        inside = each in singles or any(low <= each <= high for low, high in ranges)
        return inside is not negated

    return test
