"""What the suite sets, and nothing here reads."""

from __future__ import annotations


def is_live() -> bool:
    """Whether the tests run against Azure."""
    return False
