"""Names of latches: what is allowed, and injective ids for stores that allow less.

A name has 1 to 1,024 characters and no control characters. Two different names never share a store id,
whatever their characters, case and length: names are compared as they are, code point by code point.
"""

from __future__ import annotations

import unicodedata

from azlatch.errors import UsageError

MAX_CHARACTERS = 1_024

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-")
_DIGEST_CHARACTERS = 64


def check_name(name: object) -> str:
    """Returns the name as it is, if it is one.

    Raises:
        UsageError: not a string, empty, too long, a control character or a lone surrogate in it.
    """
    if not isinstance(name, str):
        raise UsageError(f"a latch name is a string, not {type(name).__name__}: pass str(...) of it")
    if name.isascii() and name.isprintable() and 0 < len(name) <= MAX_CHARACTERS:
        return name
    if not name:
        raise UsageError("the latch name is empty: give it 1 to 1,024 characters")
    if len(name) > MAX_CHARACTERS:
        raise UsageError(
            f"the latch name has {len(name):,} characters and the limit is {MAX_CHARACTERS:,}: "
            "shorten it, or use a digest of it"
        )
    for position, character in enumerate(name):
        category = unicodedata.category(character)
        if category in ("Cc", "Cs"):
            kind = "control character" if category == "Cc" else "lone surrogate"
            raise UsageError(
                f"the latch name has a {kind}, U+{ord(character):04X}, at position {position}: remove it"
            )
    return name


def store_id(name: str, *, limit: int = 250) -> str:
    """Maps a name to an id of at most `limit` characters from ``[a-z0-9_-]``, injectively.

    Other bytes of its UTF-8 form become ``_`` and two hexadecimal digits. An id that would be too long
    keeps its beginning and ends in ``__`` and the SHA-256 of the whole name: ``__`` occurs in no other id,
    so the long and the short never meet.
    """
    raw = name.encode("utf-8")
    encoded = "".join(chr(byte) if byte in _PLAIN else f"_{byte:02x}" for byte in raw)
    if len(encoded) <= limit:
        return encoded
    import hashlib  # only long names need it

    head = encoded[: limit - _DIGEST_CHARACTERS - 2]
    # An escape that was cut in the middle is dropped whole, so that "__" stays the only such mark.
    cut = head.rfind("_")
    if cut > len(head) - 3:
        head = head[:cut]
    return f"{head}__{hashlib.sha256(raw).hexdigest()}"
