"""What a mutant of the engine is; the mutants themselves are in `azlatch.testing.mutants`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from azlatch.testing.scenario import PROFILES, Stress

if TYPE_CHECKING:
    from azlatch.testing.watched import Profile


@dataclass(frozen=True)
class Mutant:
    """One rule undone.

    Attributes:
        rule: the rule of PROTOCOL.md.
        patches: (object, attribute, replacement).
        prepare: what has to be changed in the simulated store.
        stress: what the worlds are made harsher in, where most worlds would not need the rule.
        profiles: the kinds of store that have the rule.
    """

    rule: str
    patches: tuple[tuple[Any, str, Any], ...] = ()
    prepare: Callable[[Any], None] = lambda store: None
    stress: Stress | None = None
    profiles: tuple[Profile, ...] = PROFILES

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """The engine is the mutant inside `with`."""
        with contextlib.ExitStack() as stack:
            for target, name, replacement in self.patches:
                stack.enter_context(patch.object(target, name, replacement))
            yield
