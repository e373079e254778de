"""What the decorators refuse, because it would run without the latch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

import azlatch


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


async def coroutine() -> None: ...


class Builder:
    """What decorators of frameworks return."""

    def __call__(self) -> None: ...


@pytest.mark.parametrize("function", [generator, async_generator, Builder()])
def test_guarded_refuses(function: object) -> None:
    """Generators, and what is no function: UsageError when it is decorated."""
    with pytest.raises(azlatch.UsageError):
        azlatch.guarded("job", url="memory:")(function)  # type: ignore[type-var]


@pytest.mark.parametrize("function", [generator, async_generator, Builder(), coroutine])
def test_the_decorator_of_a_sync_connection_refuses(function: object) -> None:
    """There a coroutine function as well: nobody awaits it while the latch is held."""
    with azlatch.connect("memory:") as latches, pytest.raises(azlatch.UsageError):
        latches.guarded("job")(function)  # type: ignore[arg-type]
