"""The command `azlatch`."""

from __future__ import annotations

import sys


def main() -> int:
    """Says honestly that this version brings the library alone."""
    sys.stderr.write("azlatch: this version has no commands; use it from Python: import azlatch\n")
    return 64
