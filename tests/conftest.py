"""What all tests need of the process that runs them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a shell without job control: children would inherit it and never see Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers: what waits for leases goes to all of them, the rest stays on one, in its order."""
    services = Path(__file__).parent / "services"
    for item in items:
        if services not in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("one"))
