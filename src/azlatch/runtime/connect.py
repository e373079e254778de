"""From a URL to a connection, without any I/O."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

from azlatch.core.instance import Instance, scales_out
from azlatch.errors import UsageError
from azlatch.runtime.connection import Connection, tie_to_process
from azlatch.runtime.env import REAL
from azlatch.runtime.latches import Latches

if TYPE_CHECKING:
    from azlatch.audit.events import Sink
    from azlatch.backends.memory import MemoryStore
    from azlatch.backends.protocol import Backend

SCHEMES = ("sqlite:", "memory:", "blob:", "cosmos:", "servicebus:")

_shared: dict[str, MemoryStore] = {}
_shared_lock = threading.Lock()


def connect(
    url: str | None = None,
    *,
    backend: Backend | None = None,
    instance: Instance | None = None,
    fence: bool = True,
    audit: Sink | str | os.PathLike[str] | None = None,
    create: bool = False,
) -> Latches:
    """Latches in the store that the URL names. Does no I/O; the first use, or `with`, does.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``blob://ACCOUNT/CONTAINER``,
            ``cosmos://ACCOUNT/DATABASE/CONTAINER``, ``memory:`` (private) or ``memory:NAME`` (shared within the
            process). By default ``AZLATCH_URL``, else the embedded store in the user's state directory.
        backend: a store instead of a URL.
        instance: how this process is named to others; by default its host, pid and platform role.
        fence: whether holds carry a fencing token; without one, gates refuse them.
        audit: where events go: a path of a log file, or a callable that takes every
            `azlatch.audit.events.Event`. By default the file that ``AZLATCH_AUDIT`` names, if it is set.
        create: whether a container, database or table that is missing is created; the embedded store is.

    Raises:
        UsageError: both or neither of url and backend can be used, or the URL is not one that azlatch knows.
    """
    return Latches(connection_of(url, backend, instance=instance, fence=fence, audit=audit, create=create))


def connection_of(
    url: str | None,
    backend: Backend | None,
    *,
    instance: Instance | None = None,
    fence: bool = True,
    audit: Sink | str | os.PathLike[str] | None = None,
    create: bool = False,
) -> Connection:
    """The connection behind either driver; see `connect`."""
    if backend is not None and url is not None:
        raise UsageError("both url= and backend= are given: leave one out")
    if backend is None:
        backend = backend_of(url if url is not None else default_url(dict(os.environ)))
    sink = sink_of(audit if audit is not None else os.environ.get("AZLATCH_AUDIT"))
    connection = Connection(backend, REAL, instance=instance, fence=fence, audit=sink, create=create)
    tie_to_process(connection)
    return connection


def sink_of(audit: Sink | str | os.PathLike[str] | None) -> Sink | None:
    """The sink that a path or a callable stands for."""
    if audit is None or callable(audit):
        return audit
    from azlatch.audit.log import FileSink

    if not isinstance(audit, (str, os.PathLike)) or not os.fspath(audit):
        raise UsageError(f"audit is of type {type(audit).__name__}: give it a path or a callable")
    return FileSink(audit)


def backend_of(url: str) -> Backend:
    """The store of a URL.

    Raises:
        UsageError: no such scheme, or no path in it.
    """
    if not isinstance(url, str) or not url.startswith(SCHEMES):
        raise UsageError(
            f"the URL {_shown(url)} is not one of a store: use {', '.join(SCHEMES)} as in sqlite:///latches.db"
        )
    scheme, _, rest = url.partition(":")
    if scheme == "sqlite":
        return _sqlite(url, rest)
    if scheme == "memory":
        return _memory(rest)
    if scheme == "blob":
        return _blob(url)
    if scheme == "cosmos":
        return _cosmos(url)
    raise UsageError(f"this azlatch has no {scheme} backend: use sqlite:, blob:, cosmos: or memory:")


def _sqlite(url: str, rest: str) -> Backend:
    from urllib.parse import unquote

    path = unquote(rest.removeprefix("///")) if rest.startswith("///") else ""
    if not path or "?" in rest or "#" in rest or "\0" in path:
        raise UsageError(
            f"the URL {_shown(url)} does not name a file: use sqlite:///relative.db or sqlite:////absolute.db"
        )
    from azlatch.backends.sqlite import SqliteBackend

    return SqliteBackend(path)


def _memory(rest: str) -> Backend:
    from azlatch.backends.memory import MemoryBackend, MemoryStore

    name = rest.strip("/")
    if not name:
        return MemoryBackend()
    with _shared_lock:
        return MemoryBackend(_shared.setdefault(name, MemoryStore()))


def _blob(url: str) -> Backend:
    from azlatch.backends.blob import BlobBackend
    from azlatch.backends.storage_account import container_of

    return BlobBackend.in_container(*container_of(url, os.environ))


def _cosmos(url: str) -> Backend:
    from azlatch.backends.cosmos import CosmosBackend
    from azlatch.backends.cosmos_account import place_of

    return CosmosBackend.in_container(*place_of(url, os.environ))


def default_url(environment: dict[str, str]) -> str:
    """AZLATCH_URL, else the embedded store in the user's state directory.

    Raises:
        UsageError: the platform runs replicas that do not share a disk.
    """
    given = environment.get("AZLATCH_URL")
    if given:
        return given
    platform = scales_out(environment)
    if platform is not None:
        raise UsageError(
            f"no URL is given, and on {platform} there is no default: each replica would have its own file; "
            "pass a URL or set AZLATCH_URL"
        )
    return f"sqlite:///{os.path.join(state_directory(environment), 'latches.db')}"


def state_directory(environment: dict[str, str]) -> str:
    """Where this user's programs keep state: XDG_STATE_HOME/azlatch, or what the platform has for it."""
    given = environment.get("XDG_STATE_HOME")
    if given and os.path.isabs(given):
        return os.path.join(given, "azlatch")
    home = os.path.expanduser("~")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "azlatch")
    return os.path.join(home, ".local", "state", "azlatch")


def _shown(url: object) -> str:
    """The scheme of a URL that was refused; the rest of it may carry a secret."""
    if not isinstance(url, str):
        return f"of type {type(url).__name__}"
    scheme, colon, _ = url.partition(":")
    return repr(f"{scheme[:20]}:...") if colon and scheme.isalpha() else "without a scheme"
