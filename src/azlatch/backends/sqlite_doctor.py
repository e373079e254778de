"""What `doctor` looks at on the embedded store."""

from __future__ import annotations

import os
import shutil
import stat
import time
from typing import TYPE_CHECKING

from azlatch.backends.machine import network_file_system, this_machine
from azlatch.backends.protocol import Check
from azlatch.core.env import Env

if TYPE_CHECKING:
    from azlatch.backends.sqlite import SqliteBackend

_LEAST_FREE = 100_000_000
_LIMIT = 10.0


def examine(backend: SqliteBackend, *, apply: bool) -> list[Check]:
    """Everything, in the order in which a person would look."""
    path = backend.path
    until = backend.env.now() + _LIMIT
    checks = [Check("store", "ok", f"{path} is open")]
    checks.append(_disk(path))
    checks.append(_rights(path, apply))
    sound = backend.examine("PRAGMA quick_check(1)", until)[0][0]
    checks.append(
        Check("content", "ok", "sound")
        if sound == "ok"
        else Check("content", "wrong", str(sound), "move the file away while nobody uses it")
    )
    checks.append(_machine())
    checks.append(_clock(backend.env))
    free = shutil.disk_usage(os.path.dirname(path)).free
    enough = free > _LEAST_FREE
    checks.append(Check("space", "ok" if enough else "warn", f"{free / 1e6:,.0f} MB free", "free some"))
    dead = backend.leftovers()
    checks.append(
        Check(
            "members",
            "warn" if dead else "ok",
            f"{len(dead)} dead ones have files that a record may need",
            "azlatch reap --apply frees what they held",
        )
        if dead
        else Check("members", "ok", "no files of dead ones")
    )
    return checks


def _disk(path: str) -> Check:
    kind = network_file_system(os.path.dirname(path))
    if kind is not None:
        return Check("disk", "wrong", f"a network file system ({kind})", "put the store on a local disk")
    return Check("disk", "ok", "of this machine")


def _rights(path: str, apply: bool) -> Check:
    loose = [name for name in (path, f"{path}-wal", f"{path}-shm") if _is_loose(name)]
    if not loose:
        return Check("rights", "ok", "readable by its user only")
    if apply:
        for name in loose:
            os.chmod(name, 0o600)
        return Check("rights", "mended", f"{len(loose)} files were open to others")
    return Check("rights", "wrong", f"{loose[0]} is open to others", "azlatch doctor --apply")


def _is_loose(path: str) -> bool:
    try:
        return bool(stat.S_IMODE(os.stat(path).st_mode) & 0o077)
    except OSError:
        return False


def _machine() -> Check:
    machine = this_machine()
    if machine.boot and machine.time_namespace:
        return Check("kernel", "ok", f"boot {machine.boot[:8]}, its clock can be compared among processes")
    return Check(
        "kernel",
        "warn",
        "its boot or time namespace cannot be told",
        "dead holders are replaced after their ttl only",
    )


def _clock(env: Env) -> Check:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return Check("clock", "ok", f"counts through suspend, now {env.now():.0f} s")
    return Check(
        "clock", "warn", "may not count through suspend", "keep the machine awake while latches are held"
    )
