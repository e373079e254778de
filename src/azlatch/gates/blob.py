"""A gate for state that lies in a blob: the service itself refuses the stale writer (F5).

The newest fence is in the metadata of the blob that is guarded, and every write is conditional on the
version that this fence was read from: of two writers that read the same version, one gets in. The blob of
the latch is another one, always.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from azlatch.backends.blob_service import Refused, in_words, only_if
from azlatch.errors import BackendError, BackendUnavailable, OutcomeUnknown, UsageError
from azlatch.gates.fence import Acceptance, FenceSource, check_fence, check_timeout, fence_of, reporting

if TYPE_CHECKING:
    from azure.storage.blob import BlobClient

T = TypeVar("T")

_FENCE, _ORDER, _WRITE = "azlatch_gate_fence", "azlatch_gate_order", "azlatch_gate_write"
_CONNECT = 3.0


class _Seen(NamedTuple):
    """The guarded blob as it was read; `etag` is None where there is none yet."""

    etag: str | None
    fence: int | None
    order: int
    write: str
    metadata: dict[str, str]
    settings: Any


class BlobGate:
    """Guards one blob. Its other metadata and its content settings stay; blob tags do not survive a write.

    Args:
        blob: a sync client of the blob, made by the user. Every other writer of it has to go through a gate.
        timeout: seconds for a write with all its retries, and for each single wait for an answer.

    Source: https://learn.microsoft.com/azure/storage/blobs/concurrency-manage
    """

    def __init__(self, blob: BlobClient, *, timeout: float = 30.0) -> None:
        self._blob = blob
        self._timeout = check_timeout(timeout)
        self._name = f"the gate of blob {blob.blob_name!r}"

    def write(
        self, fence: FenceSource, change: bytes | str | Callable[[bytes | None], bytes | str]
    ) -> Acceptance:
        """Accepts the content, or what the function makes of the present one (None where there is none).

        The function may be called more than once: for as often as another write came between.

        Raises:
            FenceRejected: a newer fence was accepted, or there is none.
            BackendError: the service failed, or others kept coming between for the whole timeout.
            OutcomeUnknown: the service did not say whether it wrote, and reading back could not tell.
        """
        offered = fence_of(fence)
        mine = uuid.uuid4().hex
        unknown: OutcomeUnknown | None = None
        before = ""
        give_up = time.monotonic() + self._timeout
        while True:
            try:
                seen = self._look()
            except BackendError as error:
                raise unknown or error from None
            if seen.write == mine:
                return Acceptance(seen.order, offered)
            if unknown is not None and seen.write != before:
                # Another write came since: after this one, or in place of it.
                raise unknown
            with reporting(fence, self._name):
                check_fence(offered, seen.fence, self._name)
            try:
                return self._put(offered, mine, seen, change)
            except Refused:
                pass  # another write came between, or an earlier send of this one
            except OutcomeUnknown as error:
                unknown, before = error, seen.write
            if time.monotonic() >= give_up:
                raise unknown or BackendUnavailable(
                    f"others wrote to {self._name} for {self._timeout:g} s, each time before this one"
                )

    def read(self, fence: FenceSource) -> bytes | None:
        """The content, None where there is none; from then on an older fence can write no more.

        Raises:
            FenceRejected: a newer fence was accepted, or there is none.
            BackendError: the service failed.
            OutcomeUnknown: the service did not say whether it took the fence.
        """
        offered = fence_of(fence)
        give_up = time.monotonic() + self._timeout
        while True:
            seen = self._look()
            with reporting(fence, self._name):
                check_fence(offered, seen.fence, self._name)
            try:
                if seen.etag is None:
                    return None
                etag = seen.etag
                if seen.fence != offered:
                    etag = self._mark(offered, seen)
                return self._get(etag)
            except Refused:
                if time.monotonic() >= give_up:
                    raise BackendUnavailable(f"others wrote to {self._name} for {self._timeout:g} s") from None

    @property
    def newest(self) -> int | None:
        """The newest fence accepted, or None before the first."""
        return self._look().fence

    # -- requests ------------------------------------------------------------------------------------

    def _look(self) -> _Seen:
        try:
            found = self._call(lambda: self._blob.get_blob_properties(**self._options()), writes=False)
        except Refused as refused:
            if refused.no != "absent":
                raise BackendUnavailable(f"{self._name} cannot be read: {refused.code}") from None
            return _Seen(None, None, 0, "", {}, None)
        found.content_settings.content_md5 = None  # of the content before
        table = {key.lower(): value for key, value in (found.metadata or {}).items()}
        try:
            fence = int(table[_FENCE]) if _FENCE in table else None
            order = int(table.get(_ORDER, "0"))
        except ValueError:
            raise UsageError(
                f"the metadata of {self._name} were changed by hand: {_FENCE} and {_ORDER} are numbers"
            ) from None
        return _Seen(
            found.etag, fence, order, table.get(_WRITE, ""), dict(found.metadata or {}), found.content_settings
        )

    def _put(
        self, offered: int, mine: str, seen: _Seen, change: bytes | str | Callable[[bytes | None], bytes | str]
    ) -> Acceptance:
        content = change
        if callable(content):
            content = content(self._get(seen.etag) if seen.etag is not None else None)
        data = content.encode() if isinstance(content, str) else bytes(content)
        order = seen.order + 1
        metadata = _marked(seen.metadata, offered, order, mine)
        settings = {"content_settings": seen.settings} if seen.settings is not None else {}
        self._call(
            lambda: self._blob.upload_blob(
                data, overwrite=True, metadata=metadata, **settings, **only_if(seen.etag), **self._options()
            ),
            writes=True,
        )
        return Acceptance(order, offered)

    def _mark(self, offered: int, seen: _Seen) -> str:
        metadata = _marked(seen.metadata, offered, seen.order, seen.write)
        done = self._call(
            lambda: self._blob.set_blob_metadata(metadata, **only_if(seen.etag), **self._options()), writes=True
        )
        return str(done["etag"])

    def _get(self, etag: str) -> bytes:
        def run() -> bytes:
            return bytes(self._blob.download_blob(**only_if(etag), **self._options()).readall())

        return self._call(run, writes=False)

    def _call(self, run: Callable[[], T], *, writes: bool) -> T:
        result: T
        error: Exception | None = None
        try:
            result = run()
        except Exception as caught:  # noqa: BLE001 - whatever the SDK raises is put into words
            error = in_words(caught, writes=writes)
        if error is not None:
            raise error
        return result

    def _options(self) -> dict[str, Any]:
        return {
            "retry_total": 0,
            "connection_timeout": min(self._timeout, _CONNECT),
            "read_timeout": self._timeout,
        }


def _marked(metadata: dict[str, str], fence: int, order: int, write: str) -> dict[str, str]:
    kept = {key: value for key, value in metadata.items() if key.lower() not in (_FENCE, _ORDER, _WRITE)}
    return {**kept, _FENCE: str(fence), _ORDER: str(order), **({_WRITE: write} if write else {})}
