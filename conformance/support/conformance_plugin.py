"""In the process that runs a file of the suite: names of regions resolve, and what came out is written down.

One line of JSON for each thing, at once: what had come out when the process was ended is known.
"""

from __future__ import annotations

import json
import os
import re
import socket
from typing import Any

import pytest  # noqa: TC002

#: The account's name, and those of its regions as the SDK derives them from it: no resolver knows them.
_ACCOUNT, _DOT, _DOMAIN = os.environ.get("CONFORMANCE_HOST", "").partition(".")
_OURS = re.compile(rf"{re.escape(_ACCOUNT)}(-[a-z0-9]+)?{re.escape(_DOT + _DOMAIN)}") if _ACCOUNT else None
_LONGEST = 2000
_resolve = socket.getaddrinfo


def _locally(host: Any, *arguments: Any, **options: Any) -> Any:
    """As getaddrinfo, with those names."""
    if _OURS is not None and isinstance(host, str) and _OURS.fullmatch(host):
        host = "127.0.0.1"
    return _resolve(host, *arguments, **options)


socket.getaddrinfo = _locally


def _write(**entry: Any) -> None:
    with open(os.environ["CONFORMANCE_LOG"], "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is going to run."""
    _write(collected=[item.nodeid for item in session.items])


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be loaded has no tests to fail."""
    if report.failed:
        _write(broken=report.nodeid, message=str(report.longrepr)[-_LONGEST:])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """The outcome of one part of one test."""
    outcome = report.outcome
    if outcome == "failed" and report.when != "call":
        outcome = "error"
    if outcome == "passed" and report.when != "call":
        return
    _write(test=report.nodeid, outcome=outcome, seconds=round(report.duration, 3), message=_message(report))


def _message(report: pytest.TestReport) -> str:
    if report.outcome == "passed":
        return ""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2][:_LONGEST]
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash is not None else str(report.longrepr))[:_LONGEST]
