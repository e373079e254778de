"""Which functions a latch can be held around."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from azlatch.errors import UsageError


def check_function(function: Callable[..., Any], *, awaited: bool = True) -> None:
    """Refuses what would run, or be registered, without the latch.

    Args:
        function: what a decorator was given.
        awaited: whether coroutine functions are awaited while the latch is held.

    Raises:
        UsageError: it is no function, or one whose body runs when the call is long over.
    """
    if not inspect.isroutine(function):
        raise UsageError(
            f"guarded was given a value of type {type(function).__name__}: put it right above the function, "
            "and the decorators of the framework above it"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(
            f"{function.__name__!r} is a generator, whose body runs after the call: guard a function that does "
            "the work, or hold the latch inside"
        )
    if inspect.iscoroutinefunction(function) and not awaited:
        raise UsageError(
            f"{function.__name__!r} is a coroutine function, whose body runs after the call: use "
            "azlatch.guarded, or connect with azlatch.aio.connect"
        )
