"""The state of the lab in a file: whole or not at all, and for its owner's eyes."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile

from azlatch.errors import UsageError

#: The largest file that is read, bytes.
MOST = 4 * 1024**3


def read(path: str) -> bytes | None:
    """What was saved, or None if there is no file yet.

    Raises:
        UsageError: it is no ordinary file, too large, or cannot be read.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"the lab's file {path!r} cannot be read: {error.strerror}") from None
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode):
        os.close(number)
        raise UsageError(f"the lab's file {path!r} is no ordinary file")
    with os.fdopen(number, "rb") as file:
        if found.st_size > MOST:
            raise UsageError(f"the lab's file {path!r} has {found.st_size} bytes: at most {MOST} are read")
        return file.read()


def write(path: str, data: bytes) -> None:
    """Puts it in the place of what was there, mode 0600; after a crash it is the old or the new.

    Raises:
        UsageError: it cannot be written there.
    """
    folder = os.path.dirname(os.path.abspath(path))
    try:
        number, draft = tempfile.mkstemp(prefix=".azlatch-lab-", dir=folder)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(number)
            os.replace(draft, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise
        _sync(folder)
    except OSError as error:
        raise UsageError(f"the lab's file {path!r} cannot be written: {error.strerror}") from None


def _sync(folder: str) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)
