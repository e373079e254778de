"""How a function is declared: its name, how many arguments it takes, and what it needs besides them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from azlatch.lab.cosmos.sql.limits import Meter


@dataclass(frozen=True, slots=True)
class Context:
    """What functions may use besides their arguments: the time of the query and its meter."""

    meter: Meter
    #: Seconds since 1970, fixed for the whole query.
    now: float = 0.0


@dataclass(frozen=True, slots=True)
class Function:
    """A function of SQL. `most` is None where there is no end to the arguments.

    `strict` ones are undefined as soon as an argument is, without being asked.
    """

    name: str
    apply: Callable[..., Any]
    least: int
    most: int | None
    strict: bool = True
    context: bool = False


class Table:
    """Functions by their name in capitals."""

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}

    def add(
        self, name: str, least: int, most: int | None = -1, *, strict: bool = True, context: bool = False
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declares the decorated function; `most` is `least` unless it is told."""

        def declared(apply: Callable[..., Any]) -> Callable[..., Any]:
            upto = least if most == -1 else most
            self.functions[name.upper()] = Function(name, apply, least, upto, strict, context)
            return apply

        return declared
