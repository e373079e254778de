"""A gate around one file: it is replaced whole, by writers whose fence is not older than the newest accepted.

Three files stand side by side: the guarded ``PATH``, ``PATH.fence`` (the ledger: the newest acceptances in
order), and ``PATH.gate``, which is locked (flock) from the compare to the last write. `open_guarded` and
`write` go in this order; a process may be killed, or the power fail, between any two steps:

1. the new content into ``PATH.gate.data``, synced      a crash leaves: nothing but that file, overwritten next
2. the new ledger into ``PATH.gate.fence``, synced      the same
3. rename to ``PATH.fence``, folder synced              accepted, not written: the old content under a newer
                                                        ledger. Older fences are refused from here on; the same
                                                        fence or a newer one may write again
4. rename to ``PATH``, folder synced                    done; before the sync a power loss leads back to 3

So the ledger is never behind the content. A reader needs no lock: it finds the old or the new content, whole.
A ledger that is damaged, or gone although ``PATH.gate`` knows of one, is an error, never "nothing accepted".
The lock holds among the processes of one machine; do not remove ``PATH.gate`` while writers live.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from azlatch.errors import BackendUnavailable, OutcomeUnknown, UsageError
from azlatch.gates.fence import Acceptance, FenceSource, check_fence, check_timeout, fence_of, reporting
from azlatch.gates.folder import Folder, sync, translated
from azlatch.gates.ledger import MAX_BYTES, Ledger, decode

#: What the locked file says once there is a ledger.
_MARK = b"the ledger is in the .fence file next to this one\n"


class GuardedFile(io.BufferedWriter):
    """The new content while it is written, a binary file.

    Attributes:
        acceptance: the fence and its place in the order, valid once the `with` block ended without an error.
    """

    acceptance: Acceptance


class Passage(NamedTuple):
    """A gate that is held closed behind you.

    Attributes:
        acceptance: the fence, already accepted, and its place in the order.
        descriptor: give it to a child (`pass_fds`), and if this process is killed inside, the gate stays
            closed until the child has ended too.
    """

    acceptance: Acceptance
    descriptor: int


class FileGate:
    """Guards one file among the processes and threads of one machine. It does no I/O before its first use.

    New files have mode 0600; a guarded file that exists keeps its mode.

    Args:
        path: the guarded file; its folder exists.
        timeout: seconds to wait for the writer that is inside; one that is stopped inside stays.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        if sys.platform == "win32":
            raise UsageError("FileGate needs flock, which Windows has not: use SqliteGate")
        path = os.fspath(path)
        if not isinstance(path, str) or "\0" in path or os.path.basename(path) in ("", ".", ".."):
            raise UsageError(f"{path!r} names no file that a gate can guard")
        self.path = os.path.abspath(path)
        self._timeout = check_timeout(timeout)
        self._folder, self._name = os.path.split(self.path)

    def write(self, fence: FenceSource, data: bytes | str) -> Acceptance:
        """Replaces the content, text as UTF-8.

        Raises:
            LatchError: as `open_guarded`.
        """
        content = data.encode("utf-8") if isinstance(data, str) else data
        if not isinstance(content, bytes | bytearray | memoryview):
            raise UsageError(f"a file holds bytes or str, not {type(data).__name__}")
        with self.open_guarded(fence) as file, translated(self.path):
            file.write(content)
        return file.acceptance

    @contextlib.contextmanager
    def open_guarded(self, fence: FenceSource) -> Iterator[GuardedFile]:
        """A file for the new content, which takes the place of the old when the body ends without an error.

        The gate is closed to others meanwhile. If the body raises, nothing is accepted.

        Raises:
            FenceRejected: a newer fence was accepted, or there is none; the body did not run.
            UsageError: the fence is none.
            BackendUnavailable: another writer was inside for the whole timeout, or the disk failed; the
                content was not written, though the fence may count as accepted.
            BackendDenied: no right to write in the folder.
            BackendMisconfigured: the ledger is damaged or gone, there is a link, or the folder is missing.
            OutcomeUnknown: whether the content was replaced, or would stay so after a power loss, is unknown.
        """
        fresh = f"{self._name}.gate.data"
        with self._entered(fence) as (folder, lock, ledger):
            descriptor = folder.create(fresh, folder.look(self._name))
            try:
                file = GuardedFile(io.FileIO(os.dup(descriptor), "wb"))
                file.acceptance = ledger.accepted[-1]
                try:
                    yield file
                except BaseException:
                    with contextlib.suppress(OSError):
                        file.close()
                    raise
                with translated(self.path):
                    file.close()
                    sync(descriptor)
                self._store(folder, lock, ledger)
                folder.replace(fresh, self._name)
            finally:
                os.close(descriptor)
                with contextlib.suppress(OSError):
                    folder.discard(fresh)

    @contextlib.contextmanager
    def passage(self, fence: FenceSource) -> Iterator[Passage]:
        """Accepts the fence, durably, and keeps the gate closed for the body, whatever that writes to.

        The fence is accepted before the body starts and stays so when it fails: nobody can undo what it did.

        Raises:
            LatchError: as `open_guarded`; the body did not run.
        """
        with self._entered(fence) as (folder, lock, ledger):
            self._store(folder, lock, ledger)
            yield Passage(ledger.accepted[-1], lock)

    def run(self, fence: FenceSource, command: Sequence[str], *, limit: float | None = None) -> int:
        """Runs a command in a `passage`, and returns its exit code, or -n where signal n ended it.

        The gate stays closed until the command itself ends, also when this process is killed before.

        Args:
            command: the program and its arguments; no shell.
            limit: seconds after which it is killed; None waits for as long as it takes.

        Raises:
            LatchError: as `open_guarded`; the command did not run.
            subprocess.TimeoutExpired: the limit passed.
            OSError: the command could not be started.
        """
        with self.passage(fence) as passage:
            return subprocess.run(command, timeout=limit, pass_fds=[passage.descriptor], check=False).returncode

    @property
    def newest(self) -> int | None:
        """The newest fence accepted, or None before the first."""
        with Folder(self._folder) as folder:
            return self._ledger(folder).newest

    def history(self) -> tuple[Acceptance, ...]:
        """The newest acceptances (at most 100), in the order in which they happened."""
        with Folder(self._folder) as folder:
            return self._ledger(folder).accepted

    @contextlib.contextmanager
    def _entered(self, fence: FenceSource) -> Iterator[tuple[Folder, int, Ledger]]:
        """The folder, the lock, and the ledger as it will be; only for those who may enter."""
        offered = fence_of(fence)
        with Folder(self._folder) as folder, folder.locked(f"{self._name}.gate", self._timeout) as lock:
            ledger = self._ledger(folder)
            with reporting(fence, self.path):
                check_fence(offered, ledger.newest, self.path)
            yield folder, lock, ledger.with_next(offered)

    def _ledger(self, folder: Folder) -> Ledger:
        # In this order: a first writer leaves its ledger before its mark.
        mark = folder.look(f"{self._name}.gate")
        raw = folder.read(f"{self._name}.fence", MAX_BYTES)
        if raw is None and mark is not None and mark.st_size > 0:
            raw = b""  # there was one, so this is damage
        return Ledger() if raw is None else decode(raw, f"{self.path}.fence")

    def _store(self, folder: Folder, lock: int, ledger: Ledger) -> None:
        """Makes the ledger durable, before anything that it accepts is written."""
        fresh = f"{self._name}.gate.fence"
        descriptor = folder.create(fresh, None)
        try:
            with translated(f"{self.path}.fence"), open(descriptor, "wb", closefd=False) as file:
                file.write(ledger.encode())
                file.flush()
                sync(descriptor)
            folder.replace(fresh, f"{self._name}.fence")
            with translated(f"{self.path}.gate"):
                if os.fstat(lock).st_size == 0:
                    os.write(lock, _MARK)
                    sync(lock)
        except OutcomeUnknown as error:
            raise BackendUnavailable(f"{self.path} was not written; its fence may count as accepted") from error
        finally:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                folder.discard(fresh)
