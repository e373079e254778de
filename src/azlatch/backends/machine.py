"""Which kernel, since which boot, on which clock: what lets two processes compare their clocks at all."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """The kernel that this process runs on; "" where it cannot be told, and then nothing is concluded.

    Attributes:
        boot: changes with every boot of the kernel.
        time_namespace: two processes with the same one read the same CLOCK_BOOTTIME.
    """

    boot: str
    time_namespace: str

    @property
    def clock(self) -> str:
        """Which clock this is, for comparing what two processes read off it; "" where it cannot be told."""
        return f"{self.boot}/{self.time_namespace}" if self.boot and self.time_namespace else ""


def this_machine() -> Machine:
    """Reads it from the kernel."""
    if sys.platform == "linux":
        return Machine(_linux_boot(), _linux_time_namespace())
    if sys.platform == "darwin":
        return Machine(_darwin_boot(), "none")
    return Machine("", "")


def _linux_boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def _linux_time_namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/time").st_ino)
    except FileNotFoundError:
        # Linux before 5.6 has no time namespaces; without /proc nothing is known.
        return "none" if os.path.exists("/proc/self/ns") else ""
    except OSError:
        return ""


def _darwin_boot() -> str:
    size = ctypes.c_size_t(128)
    text = ctypes.create_string_buffer(size.value)
    library = ctypes.CDLL(None)
    if library.sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, 0) != 0:
        return ""
    return text.value.decode("ascii", "replace")


#: File systems that are shared over a network, or whose locks are not the kernel's own. SQLite's WAL needs
#: shared memory and honest locks among all its users (https://www.sqlite.org/wal.html, "Overview").
NETWORK_FILE_SYSTEMS = frozenset(
    {
        *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "lustre", "ncpfs", "nfs", "nfs3"),
        *("nfs4", "ocfs2", "orangefs", "pvfs2", "smb2", "smb3", "smbfs", "virtiofs"),
        *(
            f"fuse.{kind}"
            for kind in ("blobfuse", "blobfuse2", "ceph", "gcsfuse", "glusterfs", "rclone", "s3fs")
        ),
        "fuse.sshfs",
    }
)


def file_system_of(path: str, mounts: str) -> str | None:
    """The type of the file system that an absolute path is on, by the text of /proc/self/mountinfo.

    None where the text does not tell. Format: proc(5), "mountinfo".
    """
    best, found = -1, None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")[0]
        if len(fields) < 5 or not kind:
            continue
        point = _unescape(fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        # Of several mounts on one point the last one is what a path reaches.
        if inside and len(point) >= best:
            best, found = len(point), kind
    return found


def network_file_system(path: str) -> str | None:
    """The type of the network file system that the path is on, or None: local, or not known."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            kind = file_system_of(os.path.realpath(path), file.read())
    except OSError:
        return None
    return kind if kind in NETWORK_FILE_SYSTEMS else None


def _unescape(text: str) -> str:
    for escaped, plain in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        text = text.replace(escaped, plain)
    return text
