"""Who is alive on this machine, by kernel file locks (PROTOCOL R4).

Every member of a store holds an flock on a file of its own for as long as it lives; the kernel drops it
with the process, however that ends. A lock that can be had proves death. Everything else, a missing or
unreadable file too, proves nothing. Process ids are never asked: they are reused, and namespaces hide them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterable

from azlatch.core.record import Life
from azlatch.errors import BackendDenied, BackendMisconfigured

_HEX = frozenset("0123456789abcdef")


class Liveness:
    """The folder of a store's members, and this process's own lock in it.

    Attributes:
        member: this member's id, 32 hexadecimal digits.
        cold: whether no other member was alive when this one started.
    """

    def __init__(self, folder: str, member: str) -> None:
        self.folder = folder
        self.member = member
        self.cold = True
        self._own = -1
        self._open = -1

    def start(self) -> None:
        """Takes the locks.

        Raises:
            BackendDenied: no right to create files there, or it is another user's.
            BackendMisconfigured: it is not a folder.
        """
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.folder, 0o700)
            found = os.lstat(self.folder)
            if not stat.S_ISDIR(found.st_mode):
                raise BackendMisconfigured(f"{self.folder} must be a folder, not a link or a file: remove it")
            if os.geteuid() not in (0, found.st_uid):
                raise BackendDenied(
                    f"{self.folder} belongs to uid {found.st_uid} and this process runs as uid {os.geteuid()}: "
                    "all processes that share a store run as one user"
                )
            # Locked before it has its name: whoever sees it may take a free lock for death.
            self._own = os.open(
                self.path(self.member, "new"), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600
            )
            fcntl.flock(self._own, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(self.path(self.member, "new"), self.path(self.member))
            self._open = os.open(
                os.path.join(self.folder, "open.lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600
            )
        except OSError as error:
            self.drop()
            raise BackendDenied(
                f"cannot keep liveness files in {self.folder}: {error.strerror}; the user that runs this needs "
                "the right to create files beside the store"
            ) from error
        try:
            fcntl.flock(self._open, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.cold = True
        except OSError:
            try:
                fcntl.flock(self._open, fcntl.LOCK_SH | fcntl.LOCK_NB)
                self.cold = False
            except OSError:
                # Someone is opening it just now, and has perhaps not raised the epoch yet.
                self.cold = True

    def settled_in(self) -> None:
        """The store is open: others may see that it is in use."""
        with contextlib.suppress(OSError):
            fcntl.flock(self._open, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def path(self, member: str, suffix: str = "live") -> str:
        return os.path.join(self.folder, f"{member}.{suffix}")

    def fileno(self) -> int:
        """The descriptor whose lock is this member's life; a child that inherits it keeps it alive."""
        return self._own

    def probe(self, member: str) -> Life:
        """Whether the member lives; "unknown" counts as alive."""
        if member == self.member:
            return "alive"
        if not is_member(member):
            return "unknown"
        try:
            file = os.open(self.path(member), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return "unknown"
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return "alive"
        except OSError:
            return "unknown"
        finally:
            os.close(file)
        return "dead"

    def members(self) -> list[str]:
        """Every other member that has a file, alive or not."""
        try:
            names = sorted(os.listdir(self.folder))
        except OSError:
            return []
        members = (name[:-5] for name in names if name.endswith(".live"))
        return [member for member in members if is_member(member) and member != self.member]

    def forget(self, members: Iterable[str]) -> None:
        """Removes the files of members that are dead and that no record names any more."""
        for member in members:
            for suffix in ("live", "wake"):
                with contextlib.suppress(OSError):
                    os.unlink(self.path(member, suffix))

    def stop(self, *, forget: bool) -> None:
        """Drops the lock; removes the file too if no record needs it as a proof of death."""
        if forget and self._own >= 0:
            self.forget((self.member,))
        self.drop()

    def drop(self) -> None:
        """Closes the descriptors; in a forked child this leaves the parent's locks as they are."""
        for file in (self._own, self._open):
            if file >= 0:
                with contextlib.suppress(OSError):
                    os.close(file)
        self._own = self._open = -1


def is_member(text: str) -> bool:
    """Whether a text from the store is a member id, and so safe to make a file name of."""
    return len(text) == 32 and _HEX.issuperset(text)
