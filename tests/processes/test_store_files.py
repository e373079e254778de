"""The store's files: power loss, full disks, missing rights, foreign files, replaced files."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

import azlatch
from azlatch.backends.machine import Machine, file_system_of, network_file_system
from azlatch.backends.sqlite import SqliteBackend

# Tests drop holds that they are done with; what that warns of has a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore:the hold of:ResourceWarning")


def grant(path: Path, machine: Machine | None = None) -> int:
    with azlatch.connect(backend=SqliteBackend(path, machine=machine)) as latches, latches.hold("a") as hold:
        assert hold.fence is not None
        return hold.fence


def copy_store(path: Path, to: Path) -> None:
    to.mkdir()
    for file in path.parent.glob(path.name + "*"):
        if file.is_file():
            shutil.copy(file, to / file.name)


def put_back(path: Path, copy: Path) -> None:
    for file in path.parent.glob(path.name + "*"):
        if file.is_file():
            file.unlink()
    for file in copy.iterdir():
        shutil.copy(file, path.parent / file.name)


@pytest.mark.parametrize("rebooted", [True, False])
def test_power_loss_repeats_no_fence(start, tmp_path: Path, rebooted: bool) -> None:
    """An older WAL put back, after a boot or without one: the next fence is higher than all before (F3)."""
    path = tmp_path / "s" / "x.db"
    child = start(
        """
        latches = azlatch.connect("sqlite:///" + sys.argv[1])
        latches.acquire("a").release()
        say(ready=True)
        hear()
        for _ in range(50):
            hold = latches.acquire("a")
            hold.release()
        say(fence=hold.fence)
        hear()
        """,
        path,
    )
    child.hear()
    copy_store(path, tmp_path / "copy")
    child.say()
    highest = child.hear()["fence"]
    child.kill()
    put_back(path, tmp_path / "copy")
    machine = Machine("another-boot", "1") if rebooted else None
    assert grant(path, machine) > highest


@pytest.mark.parametrize("how", ["put back", "deleted"])
def test_many_openings_and_an_older_copy_repeat_no_fence(tmp_path: Path, how: str) -> None:
    """However often the store was opened before: with an older copy, or none, the next fence is the highest."""
    path = tmp_path / "s" / "x.db"
    grant(path)
    copy_store(path, tmp_path / "copy")
    fences = [grant(path) for _ in range(20)]
    if how == "put back":
        put_back(path, tmp_path / "copy")
    else:
        for file in path.parent.glob("x.db*"):
            shutil.rmtree(file) if file.is_dir() else file.unlink()
    fences += [grant(path) for _ in range(3)]
    assert fences == sorted(set(fences))
    assert fences[-1] < 2**53


def test_two_that_open_an_older_copy_at_once_repeat_no_fence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one opening has not raised the epoch yet, another does not take the store for one in use (F3)."""
    from azlatch.backends import sqlite_file

    path = tmp_path / "s" / "x.db"
    grant(path)
    copy_store(path, tmp_path / "copy")
    before = [grant(path) for _ in range(5)]
    put_back(path, tmp_path / "copy")
    real, others = sqlite_file.open_store, []

    def slow(*arguments: object, **named: object) -> object:
        monkeypatch.setattr(sqlite_file, "open_store", real)
        others.append(grant(path))
        return real(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(sqlite_file, "open_store", slow)
    last = grant(path)
    assert min(others[0], last) > max(before)
    assert last > others[0]


def test_another_boot_frees_everything(start, tmp_path: Path) -> None:
    """After a boot nobody of before lives: what was held is free at once, whatever its ttl (R3)."""
    path = tmp_path / "x.db"
    child = start(
        "azlatch.connect('sqlite:///' + sys.argv[1]).acquire('a', ttl=3600).note('x'); say(); hear()", path
    )
    del child
    before = SqliteBackend(path, machine=Machine("boot-1", "1"))
    holder = azlatch.connect(backend=before)
    hold = holder.acquire("b", ttl=3600)
    # The lock proves life even against a boot id that differs, so it goes first.
    before._liveness.stop(forget=True)
    with azlatch.connect(backend=SqliteBackend(path, machine=Machine("boot-2", "1"))) as latches:
        assert latches.try_acquire("b").fence > hold.fence


def test_a_held_lock_outweighs_another_boot_id(tmp_path: Path) -> None:
    """A sandbox that makes up boot ids does not make its neighbours look dead."""
    path = tmp_path / "x.db"
    with (
        azlatch.connect(backend=SqliteBackend(path, machine=Machine("boot-1", "1"))) as one,
        azlatch.connect(backend=SqliteBackend(path, machine=Machine("boot-2", "1"))) as other,
    ):
        with one.hold("a", ttl=3600):
            assert other.try_acquire("a") is None


@pytest.mark.parametrize("theirs", [Machine("", ""), Machine("boot-1", "2")])
def test_unknown_clocks_are_watched(tmp_path: Path, theirs: Machine) -> None:
    """Where clocks cannot be compared, a holder is replaced only after its ttl was watched pass (R2)."""
    path = tmp_path / "x.db"
    backend = SqliteBackend(path, machine=Machine("boot-1", "1"))
    one = azlatch.connect(backend=backend)
    hold = one.acquire("a", ttl=0.6, heartbeat=False)
    backend._liveness.stop(forget=True)
    with azlatch.connect(backend=SqliteBackend(path, machine=theirs)) as other:
        assert other.try_acquire("a") is None
        taken = other.acquire("a", timeout=10)
        assert hold.is_lost
        assert taken.fence > hold.fence
    one.close()


def test_full_disk(start, tmp_path: Path) -> None:
    """A file size limit that is reached is a clear error within the timeout, and nothing is lost (M5)."""
    path = tmp_path / "x.db"
    child = start(
        """
        import resource
        latches = azlatch.connect("sqlite:///" + sys.argv[1])
        kept = latches.acquire("kept", ttl=600)
        size = os.path.getsize(sys.argv[1] + "-wal")
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        error = None
        for n in range(500):
            try:
                latches.acquire(f"n{n}", timeout=0.5)
            except azlatch.BackendError as caught:
                error = caught
                break
        say(error=type(error).__name__, text=str(error), kept=kept.remaining() > 0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        again = latches.acquire("after", timeout=10)
        say(after=again.remaining() > 0, kept=latches.inspect("kept").fence == kept.fence)
        """,
        path,
    )
    failed = child.hear()
    assert failed["error"] == "BackendUnavailable"
    assert str(path) in failed["text"]
    assert failed["kept"]
    assert child.hear() == {"after": True, "kept": True}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_no_rights(start, tmp_path: Path) -> None:
    """A folder without rights is BackendDenied that names it, at once and whatever the timeout."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    # The interpreter may lie where that user cannot go: everything is loaded before.
    code = """
        azlatch.connect("sqlite:///" + sys.argv[2]).acquire("a").release()
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        try:
            azlatch.connect("sqlite:///" + sys.argv[1]).acquire("a", timeout=60)
        except azlatch.BackendDenied as error:
            say(text=str(error), who=error.who)
        """
    for parent in [tmp_path, *tmp_path.parents][:3]:
        parent.chmod(0o755)
    child = start(code, folder / "x.db", tmp_path / "warm.db")
    said = child.hear()
    assert str(folder) in said["text"]
    assert said["who"] == "operator"
    folder.chmod(0o755)
    grant(folder / "x.db")
    child = start(code, folder / "x.db", tmp_path / "warm.db")
    assert str(folder) in child.hear()["text"]


@pytest.mark.parametrize("content", [b"garbage" * 1000, b"\0" * 5000, b"SQLite format 3\0" + b"x" * 5000])
def test_garbage(tmp_path: Path, content: bytes) -> None:
    """A file that is no database is refused by name, and left as it is."""
    path = tmp_path / "x.db"
    path.write_bytes(content)
    with pytest.raises(azlatch.BackendMisconfigured, match=r"x\.db"):
        azlatch.connect(f"sqlite:///{path}").acquire("a", timeout=1)
    assert path.read_bytes() == content


@pytest.mark.parametrize("wal", [True, False])
def test_foreign_database(tmp_path: Path, wal: bool) -> None:
    """Another program's database is refused, and left as it is."""
    path = tmp_path / "x.db"
    db = sqlite3.connect(path)
    if wal:
        db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE theirs (x)")
    db.commit()
    before = path.read_bytes()
    with pytest.raises(azlatch.BackendMisconfigured, match="another program"):
        azlatch.connect(f"sqlite:///{path}").acquire("a", timeout=1)
    assert path.read_bytes() == before
    db.execute("INSERT INTO theirs VALUES (1)")
    db.commit()
    db.close()


def test_damaged_store(tmp_path: Path) -> None:
    """A store with overwritten pages is refused as damaged, not treated as empty."""
    path = tmp_path / "x.db"
    grant(path)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 16384)
    with pytest.raises(azlatch.BackendMisconfigured):
        azlatch.connect(f"sqlite:///{path}").acquire("a", timeout=1)


def test_links_are_refused(tmp_path: Path) -> None:
    """A symbolic link in the place of the store is not followed."""
    target = tmp_path / "target"
    (tmp_path / "x.db").symlink_to(target)
    with pytest.raises(azlatch.BackendMisconfigured, match="symbolic link"):
        azlatch.connect(f"sqlite:///{tmp_path}/x.db").acquire("a", timeout=1)
    assert not target.exists()


def test_only_the_user_can_read(tmp_path: Path) -> None:
    """Store and liveness files are the user's alone."""
    path = tmp_path / "x.db"
    with azlatch.connect(f"sqlite:///{path}") as latches:
        latches.acquire("a")
        for file in tmp_path.rglob("*"):
            assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file


def test_a_replaced_file_is_noticed(tmp_path: Path) -> None:
    """Once the file is removed or replaced nothing is granted or renewed on the old one (M1)."""
    path = tmp_path / "x.db"
    with azlatch.connect(f"sqlite:///{path}") as latches:
        hold = latches.acquire("a", ttl=1)
        path.unlink()
        with pytest.raises(azlatch.BackendMisconfigured, match="replaced"):
            latches.acquire("b", timeout=5)
        assert hold.wait_lost(10)
        grant(path)
        with pytest.raises(azlatch.BackendMisconfigured, match="replaced"):
            latches.try_acquire("b")


def test_many_processes_create_one_store(start, tmp_path: Path) -> None:
    """Sixteen processes that open a store which is not there yet end up with the same one."""
    code = """
        hear()
        with azlatch.connect("sqlite:///" + sys.argv[1]) as latches:
            with latches.hold("a", timeout=30) as hold:
                say(fence=hold.fence)
        """
    children = [start(code, tmp_path / "new" / "x.db") for _ in range(16)]
    for child in children:
        child.say()
    fences = [child.hear()["fence"] for child in children]
    assert len(set(fences)) == 16


MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:27 / /home/site rw - cifs //account/share rw
31 22 0:28 / /mnt/with\\040space rw - nfs4 server:/x rw
32 31 0:29 / /mnt/with\\040space/local rw - tmpfs tmpfs rw
33 22 0:30 / /data rw - nfs server:/y rw
34 22 0:31 / /data rw - ext4 /dev/vdb rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/x", "ext4"),
        ("/home/site", "cifs"),
        ("/home/site/a/b", "cifs"),
        ("/home/sites", "ext4"),
        ("/mnt/with space/a", "nfs4"),
        ("/mnt/with space/local/a", "tmpfs"),
        ("/data/a", "ext4"),
    ],
)
def test_file_system_of(path: str, kind: str) -> None:
    """The longest mount point wins, the last of several on one point, and escapes are read."""
    assert file_system_of(path, MOUNTS) == kind


def test_network_file_systems_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store on a network file system is BackendMisconfigured that says where to go."""
    assert network_file_system(str(tmp_path)) is None
    monkeypatch.setattr("azlatch.backends.sqlite_file.network_file_system", lambda path: "cifs")
    with pytest.raises(azlatch.BackendMisconfigured, match=r"network file system \(cifs\)"):
        azlatch.connect(f"sqlite:///{tmp_path}/x.db").acquire("a", timeout=1)
    assert not (tmp_path / "x.db").exists()
