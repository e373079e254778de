"""The command `azlatch`; its parts are loaded when they are used."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the command line, or says what brings it."""
    try:
        from azlatch.cli.app import run
    except ModuleNotFoundError as missing:
        if missing.name not in ("click", "rich"):
            raise
        sys.stderr.write("azlatch: the command line needs click and rich: pip install 'azlatch[cli]'\n")
        return 64
    return run()
