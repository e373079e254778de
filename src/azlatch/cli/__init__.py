"""The command `azlatch`; its parts are loaded when they are used."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Runs the command line, or says what brings it."""
    _fill_standard_files()
    try:
        from azlatch.cli.app import run
    except ModuleNotFoundError as missing:
        if missing.name not in ("click", "rich"):
            raise
        sys.stderr.write("azlatch: the command line needs click and rich: pip install 'azlatch[cli]'\n")
        return 64
    return run()


def _fill_standard_files() -> None:
    """Whoever starts it with a standard file closed would have the next file that is opened in its place."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
