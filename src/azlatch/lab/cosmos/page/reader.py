"""Reads what the page shows from a lab that serves, in pieces that keep no request waiting for long."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from azlatch.errors import BackendUnavailable, UsageError
from azlatch.lab.cosmos.page import heat, looking
from azlatch.lab.cosmos.page.heat import HeatMap
from azlatch.lab.cosmos.page.looking import PIECE, Container, Lately, Range

if TYPE_CHECKING:
    from azlatch.lab.cosmos.account import Account
    from azlatch.lab.cosmos.lab import CosmosLab

_T = TypeVar("_T")
#: How long the lab may take for one piece, seconds.
_WITHIN = 10.0


class Reader:
    """Calls the functions of `looking` on a lab's thread.

    Everything raises BackendUnavailable if the lab does not run, or does not answer in time.
    """

    def __init__(self, lab: CosmosLab) -> None:
        self._lab = lab

    def ask(self, question: Callable[[Account], _T]) -> _T:
        """What a function says of the account."""
        if not self._lab.is_alive:
            raise BackendUnavailable("the lab does not run")
        return self._lab.call(lambda: question(self._lab.account), _WITHIN)

    def load(self, container: Container) -> tuple[list[Range], HeatMap]:
        """The ranges of a container, and a heat map of what they and their parents were used for."""
        start = heat.start_of(self._lab.clock.now())
        path, names = container.path, container.ranges
        found: list[Range] = []
        for at in range(0, len(names), PIECE):
            found += self.ask(partial(looking.ranges, path=path, names=names[at : at + PIECE], start=start))
        parents = self.ask(lambda account: looking.former(account, path, start))
        return found, heat.drawn([*(each.row for each in found), *parents], start)

    def containers(self) -> list[tuple[Container, Lately]]:
        """The containers, and what each is used for now, without those that are deleted meanwhile."""
        found = []
        for container in self.ask(looking.containers):
            with contextlib.suppress(UsageError):
                found.append((container, self._lately(container)))
        return found

    def _lately(self, container: Container) -> Lately:
        names = container.ranges
        pieces = [names[at : at + PIECE] for at in range(0, len(names), PIECE)]
        found = [self.ask(partial(looking.lately, path=container.path, names=each)) for each in pieces]
        return sum(found[1:], found[0])
