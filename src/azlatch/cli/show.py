"""How views of latches are shown, as a table or as JSON."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from azlatch.backends.protocol import View
from azlatch.cli.app import escape


def as_dict(view: View) -> dict[str, Any]:
    """A view as JSON shows it."""
    holder = view.holder
    return {
        **view._asdict(),
        "holder": None
        if holder is None
        else {
            "id": holder.id,
            "host": holder.host,
            "pid": holder.pid,
            "role": holder.role,
            "started": holder.started,
        },
    }


def json_line(data: Any) -> str:
    """One line of ASCII: nothing in it can speak to a terminal."""
    return json.dumps(data, ensure_ascii=True)


def table(titles: list[str], rows: list[list[str]]) -> str:
    """Columns as wide as their widest cell; the last one is left as it is."""
    cells = [titles, *[[escape(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    ]
    return "\n".join(lines)


def views_table(views: list[View]) -> str:
    """Who holds what."""
    rows = [
        [
            view.name,
            view.state,
            view.holder.label if view.holder is not None else "-",
            since(view.since),
            seconds(view.expires_in),
            str(view.fence if view.fence is not None else "-"),
            str(view.waiters if view.waiters is not None else "?"),
            view.note,
        ]
        for view in views
    ]
    return table(["NAME", "STATE", "HOLDER", "SINCE", "EXPIRES", "FENCE", "WAITERS", "NOTE"], rows)


def since(wall: float | None, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """A time of day as the local clock shows it; what no clock shows, as it stands."""
    try:
        return "-" if wall is None else time.strftime(form, time.localtime(wall))
    except (OverflowError, ValueError, OSError):
        return str(wall)


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}s"


def echo(text: str) -> None:
    click.echo(text)
