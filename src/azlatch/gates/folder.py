"""Files of one folder, replaced whole and durably, locked with a bound, and never through a symbolic link."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from types import TracebackType

from azlatch.errors import BackendDenied, BackendMisconfigured, BackendUnavailable, LatchError, OutcomeUnknown

if sys.platform != "win32":
    import fcntl

_PAUSE_FIRST_S = 0.001
_PAUSE_LAST_S = 0.05

_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_MISCONFIGURED = {
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENXIO,
    errno.ENAMETOOLONG,
    errno.ENOLCK,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
}

#: What a file system answers that has no such thing, as on a network; every other failure is one.
_NO_FULL_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.ENOTTY, errno.EOPNOTSUPP}


class Folder:
    """An open folder. Names are looked up in it, so a folder that is renamed meanwhile stays the same one."""

    def __init__(self, path: str) -> None:
        self.path = path
        with translated(path):
            self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def look(self, name: str) -> os.stat_result | None:
        """What stands there, or None.

        Raises:
            BackendMisconfigured: a link, or no regular file.
        """
        with translated(self._full(name)):
            try:
                found = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
            except FileNotFoundError:
                return None
        return self._regular(name, found)

    def read(self, name: str, limit: int) -> bytes | None:
        """The content, of at most `limit` bytes and one more, or None."""
        with translated(self._full(name)):
            try:
                # O_NONBLOCK: opening a FIFO that someone put there must not wait for its writer.
                descriptor = self._open(name, os.O_RDONLY | os.O_NONBLOCK)
            except FileNotFoundError:
                return None
            try:
                self._regular(name, os.fstat(descriptor))
                with open(descriptor, "rb", closefd=False) as file:
                    return file.read(limit + 1)
            finally:
                os.close(descriptor)

    def create(self, name: str, like: os.stat_result | None) -> int:
        """A new file, open for writing; what a crash left under its name is removed first.

        Its mode is 0600, or that of `like`; owner and group too, where the process may give them away.
        """
        with translated(self._full(name)):
            self.discard(name)
            descriptor = self._open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                if like is not None:
                    mine = os.fstat(descriptor)
                    if (mine.st_uid, mine.st_gid) != (like.st_uid, like.st_gid):
                        with contextlib.suppress(PermissionError):
                            os.fchown(descriptor, like.st_uid, like.st_gid)
                    os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
            except BaseException:
                os.close(descriptor)
                raise
            return descriptor

    def discard(self, name: str) -> None:
        """Removes the file, if there is one."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def replace(self, source: str, target: str) -> None:
        """Gives the file the target's name, in one step, durably.

        Raises:
            BackendError: it did not happen.
            OutcomeUnknown: whether it happened, or whether a power loss can take it back, is unknown.
        """
        full = self._full(target)
        moved = self.look(source)
        try:
            os.replace(source, target, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except OSError as error:
            happened = self._happened(moved, source, target)
            if happened is None:
                raise OutcomeUnknown(
                    f"replacing {full} failed with {error.strerror}; it may have happened"
                ) from error
            if not happened:
                raise error_of(error, full) from error
        try:
            sync(self._descriptor)
        except OSError as error:
            raise OutcomeUnknown(
                f"{full} is replaced, but its folder not synced ({error.strerror}): a power loss may undo it"
            ) from error

    def _happened(self, moved: os.stat_result | None, source: str, target: str) -> bool | None:
        try:
            if moved is not None and _same(self.look(target), moved):
                return True
            return False if moved is not None and _same(self.look(source), moved) else None
        except LatchError:
            return None

    @contextlib.contextmanager
    def locked(self, name: str, timeout: float) -> Iterator[int]:
        """Keeps all others out by a flock on the file, which is made if it is missing; yields its descriptor.

        Raises:
            BackendUnavailable: someone else had it for the whole timeout.
        """
        full = self._full(name)
        until = time.monotonic() + timeout
        pause = _PAUSE_FIRST_S
        while True:
            with translated(full):
                descriptor = self._open(name, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK)
            try:
                with translated(full):
                    found = self._regular(name, os.fstat(descriptor))
                # Locked, and still the file of that name: who locks one that was removed is alone in there.
                if _flock(descriptor, full) and _same(self.look(name), found):
                    try:
                        yield descriptor
                    finally:
                        # Not left to close(): a child that was forked in here would keep the lock.
                        fcntl.flock(descriptor, fcntl.LOCK_UN)
                    return
            finally:
                os.close(descriptor)
            left = until - time.monotonic()
            if left <= 0:
                raise BackendUnavailable(
                    f"another process had {full} locked for {timeout:g} s: writing, or stopped"
                )
            time.sleep(min(pause, left))
            pause = min(2 * pause, _PAUSE_LAST_S)

    def _open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._descriptor)

    def _regular(self, name: str, found: os.stat_result) -> os.stat_result:
        if not stat.S_ISREG(found.st_mode):
            what = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "no regular file"
            raise BackendMisconfigured(f"{self._full(name)} is {what}: name the file itself")
        return found

    def _full(self, name: str) -> str:
        return os.path.join(self.path, name)


def sync(descriptor: int) -> None:
    """Returns once the file or folder is on the disk itself: macOS leaves fsync in the drive's own memory."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        try:
            fcntl.fcntl(descriptor, full)
        except OSError as error:
            if error.errno not in _NO_FULL_SYNC:
                raise
        else:
            return
    os.fsync(descriptor)


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """OSError as ours; only around steps after which nothing has happened yet."""
    try:
        yield
    except OSError as error:
        raise error_of(error, path) from error


def error_of(error: OSError, path: str) -> LatchError:
    """The one table from errno to our errors."""
    text = f"{path}: {error.strerror or error}"
    if error.errno in _DENIED:
        return BackendDenied(f"{text}; the user that runs this needs to write the file's folder")
    if error.errno in _MISCONFIGURED:
        return BackendMisconfigured(f"{text}; name a file in an existing folder of a local disk, and no link")
    return BackendUnavailable(f"{text}; it was not written")


def _flock(descriptor: int, full: str) -> bool:
    with translated(full):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _same(found: os.stat_result | None, other: os.stat_result) -> bool:
    return found is not None and (found.st_dev, found.st_ino) == (other.st_dev, other.st_ino)
