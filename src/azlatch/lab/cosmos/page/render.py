"""Makes the pages, from templates that escape by themselves.

Whatever an expression gives, its characters that are not printable are shown as code points: controls of a
terminal, and what turns the direction of a text around.
"""

from __future__ import annotations

import http
import json
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, Response

_FOLDER = Path(__file__).parent
_STATIC = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
#: Of a body that much is shown, characters.
MOST_SHOWN = 200_000


class Pages:
    """Pages by the names of their templates."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(_FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_finalized,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {"clock": clock, "day": day, "number": number, "pretty": pretty}
        self._environment.globals |= {"link": link}

    def page(self, name: str, code: int = 200, /, **values: Any) -> Response:
        """A page."""
        return HTMLResponse(self._environment.get_template(f"{name}.html").render(values), code)

    def problem(self, status: int, message: str) -> Response:
        """A page that says what is wrong, and nothing of the lab."""
        title = http.HTTPStatus(status).phrase
        return self.page("problem", status, status=status, title=title, message=message)


@lru_cache(maxsize=len(_STATIC))
def static(name: str) -> Response | None:
    """A file that all pages share, None if there is none of that name."""
    kind = _STATIC.get(name)
    if kind is None:
        return None
    return Response((_FOLDER / "static" / name).read_bytes(), media_type=kind)


def shown(text: str, kept: str = "") -> str:
    """A text with what is not printable as code points; `kept` is left as it is."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in kept else f"\\u{ord(each):04x}" for each in text)


def link(address: str, /, **asked: object) -> str:
    """A link within the page, with what is asked there."""
    return f"{address}?{urlencode({name: str(value) for name, value in asked.items()}, errors='replace')}"


def clock(at: float) -> str:
    """The time of day, UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")


def day(at: float) -> str:
    """Date and time of day, UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def number(value: float, digits: int = 0) -> str:
    """A number with its thousands apart."""
    return f"{value:,.{digits}f}"


def pretty(body: bytes) -> Markup:
    """A body as JSON, a value a line, or as it is where that is not possible; cut where it is very long."""
    try:
        text = msgspec.json.format(body, indent=2).decode("utf-8", "replace")
    except (ValueError, RecursionError):
        text = body.decode("utf-8", "replace")
    more = len(text) - MOST_SHOWN
    cut = f"\n… and {more:,} more characters" if more > 0 else ""
    return escape(shown(text[:MOST_SHOWN], kept="\n") + cut)


def as_json(value: Any) -> bytes:
    """A value as JSON."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _finalized(value: Any) -> Any:
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value
