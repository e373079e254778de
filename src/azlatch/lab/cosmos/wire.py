"""A request as the engine sees it, and its reply: HTTP without a socket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

#: What happens to a reply on its way: it arrives; the connection is closed instead of it (`drop`) or reset
#: (`reset`); it ends in the middle (`truncate`), with the length that it should have had in its head.
Fate = Literal["arrive", "drop", "reset", "truncate"]


@dataclass(slots=True)
class Request:
    """One request. `path` is as it was sent, without the query string; names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    #: The region whose endpoint it came to; "" for the account's, which is the write region's.
    region: str = ""

    def header(self, name: str, default: str = "") -> str:
        """A header by its name in lower case."""
        return self.headers.get(name, default)

    def flag(self, name: str) -> bool:
        """Whether a header says true; the SDK spells it in three ways."""
        return self.headers.get(name, "").lower() == "true"


@dataclass(slots=True)
class Reply:
    """One reply: not sent before `ready_at` on the clock of the lab, and `delay` real seconds after that."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    ready_at: float | None = None
    delay: float = 0.0
    fate: Fate = "arrive"


def encode(value: Any) -> bytes:
    """As JSON in UTF-8."""
    return msgspec.json.encode(value)


def decode(body: bytes) -> Any:
    """JSON as Python's own objects.

    Raises:
        ValueError: it is none.
    """
    try:
        return msgspec.json.decode(body)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
