"""`azlatch.guarded`: a function that runs while holding a latch, with no connection at import time."""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from azlatch.core.names import check_name
from azlatch.errors import AcquireTimeout, UsageError
from azlatch.runtime.connect import connect, connection_of
from azlatch.runtime.functions import check_function

if TYPE_CHECKING:
    from azlatch.runtime.async_latches import AsyncLatches
    from azlatch.runtime.latches import Latches

F = TypeVar("F", bound=Callable[..., Any])

_lock = threading.Lock()
_sync: dict[str | None, Latches] = {}
_async: dict[str | None, AsyncLatches] = {}


def _renew_lock() -> None:
    """In a forked child: a thread of the parent's may have held it."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def guarded(
    name: str,
    *,
    url: str | None = None,
    on_contended: Literal["raise", "skip"] = "raise",
    ttl: float = 30,
    timeout: float | None = None,
    max_hold: float | None = None,
) -> Callable[[F], F]:
    """The decorator: every call of the function, sync or async, runs while holding the latch.

    The store is connected at the first call, not at import. A parameter named ``hold`` gets the Hold, and
    is hidden from the signature, so that frameworks which read it (Azure Functions) do not bind it.

    Args:
        name: the latch.
        url: the store; as for `azlatch.connect`.
        on_contended: what to do when someone else has it for the whole timeout: ``"raise"`` AcquireTimeout,
            or ``"skip"`` the call and return None.
        ttl: as for `Latches.acquire`.
        timeout: seconds to wait; by default 60 to raise and 0 to skip.
        max_hold: as for `Latches.acquire`.

    Raises:
        UsageError: a value that cannot work; or what is decorated is a generator, or no function at all, as
            when a framework's decorator stands below: it has registered the function without the latch.
    """
    check_name(name)
    if on_contended not in ("raise", "skip"):
        raise UsageError(f"on_contended is {on_contended!r}: use 'raise' or 'skip'")
    patience = (0.0 if on_contended == "skip" else 60.0) if timeout is None else timeout
    terms: dict[str, Any] = {"ttl": ttl, "timeout": patience, "max_hold": max_hold}

    def decorate(function: F) -> F:
        check_function(function)
        signature = inspect.signature(function)
        wants_hold = "hold" in signature.parameters
        call = (_async_call if inspect.iscoroutinefunction(function) else _sync_call)(
            function, name, url, on_contended == "skip", wants_hold, terms
        )
        if wants_hold:
            shown = [each for each in signature.parameters.values() if each.name != "hold"]
            call.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
            annotations = {key: value for key, value in function.__annotations__.items() if key != "hold"}
            # __wrapped__ stays: whoever evaluates these annotations finds the function's own module by it.
            call.__annotations__ = annotations
        return cast("F", call)

    return decorate


def _sync_call(
    function: Callable[..., Any],
    name: str,
    url: str | None,
    skip: bool,
    wants_hold: bool,
    terms: dict[str, Any],
) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            hold = _latches(url).acquire(name, **terms)
        except AcquireTimeout:
            if skip:
                return None
            raise
        with hold:
            if wants_hold:
                kwargs["hold"] = hold
            return function(*args, **kwargs)

    return call


def _async_call(
    function: Callable[..., Any],
    name: str,
    url: str | None,
    skip: bool,
    wants_hold: bool,
    terms: dict[str, Any],
) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            hold = await _async_latches(url).acquire(name, **terms)
        except AcquireTimeout:
            if skip:
                return None
            raise
        async with hold:
            if wants_hold:
                kwargs["hold"] = hold
            return await function(*args, **kwargs)

    return call


def _latches(url: str | None) -> Latches:
    with _lock:
        if url not in _sync:
            _sync[url] = connect(url)
        return _sync[url]


def _async_latches(url: str | None) -> AsyncLatches:
    # Here, and not above: asyncio is loaded by those who use it.
    from azlatch.runtime.async_latches import AsyncLatches

    with _lock:
        if url not in _async:
            _async[url] = AsyncLatches(connection_of(url, None))
        return _async[url]
