"""What happens to a latch when its holder is stopped, killed or forked: with real signals."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import azlatch
from azlatch.gates.sql import SqliteGate

# Tests drop holds that they are done with; what that warns of has a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore:the hold of:ResourceWarning")

HOLD = """
with azlatch.connect(sys.argv[1]) as latches:
    calls = []
    renew = latches._connection.backend.renew
    latches._connection.backend.renew = lambda *a: (calls.append(a), renew(*a))[1]
    hold = latches.acquire("a", ttl=float(sys.argv[2]))
    say(fence=hold.fence)
    hear()
    before = len(calls)
    try:
        hold.ensure()
        say(lost=None)
    except azlatch.HoldLost as error:
        say(lost=error.reason, renewals=len(calls) - before)
    hear()
"""


def live_files(url: str) -> list[Path]:
    folder = Path(url.removeprefix("sqlite:///") + "-live")
    return sorted(folder.glob("*.live"))


def test_stopped_holder_is_lost_and_fenced_out(start, url: str, tmp_path: Path) -> None:
    """SIGSTOP for three ttls: another gets it; after SIGCONT ensure() says lost, and the gate refuses."""
    gate = SqliteGate(str(tmp_path / "data.db"), "balance")
    child = start(
        """
        from azlatch.gates import SqliteGate
        gate = SqliteGate(sys.argv[2], "balance")
        with azlatch.connect(sys.argv[1]) as latches:
            renewals = []
            renew = latches._connection.backend.renew
            latches._connection.backend.renew = lambda *a: (renewals.append(a), renew(*a))[1]
            hold = latches.acquire("a", ttl=0.6)
            with gate.write(hold):
                pass
            say(fence=hold.fence)
            hear()
            before = len(renewals)
            try:
                hold.ensure()
                say(lost=None)
            except azlatch.HoldLost as error:
                say(lost=error.reason, renewals=len(renewals) - before)
            try:
                with gate.write(hold):
                    pass
                say(rejected=False)
            except azlatch.FenceRejected as error:
                say(rejected=True, newest=error.newest)
        """,
        url,
        tmp_path / "data.db",
    )
    fence = child.hear()["fence"]
    child.stop()
    with azlatch.connect(url) as latches, latches.hold("a", timeout=20) as hold:
        time.sleep(3 * 0.6)
        assert hold.fence > fence
        with gate.write(hold):
            pass
        # What it hears waits in the pipe: ensure() is the first thing that it does.
        child.say()
        child.go_on()
        assert child.hear() == {"lost": "expired", "renewals": 0}
        assert child.hear() == {"rejected": True, "newest": hold.fence}
        hold.ensure()


def test_killed_holder_frees_it_at_once(start, url: str) -> None:
    """kill -9 of the holder proves its death by its lock: the ttl of an hour plays no part (R4)."""
    child = start(HOLD, url, 3600)
    fence = child.hear()["fence"]
    with azlatch.connect(url) as latches:
        assert latches.try_acquire("a") is None
        child.kill()
        assert latches.acquire("a", timeout=10).fence > fence


def test_waiter_notices_the_death(start, url: str) -> None:
    """A waiter that waits already gets the latch of a holder that dies, long before the ttl."""
    holder = start(HOLD, url, 3600)
    fence = holder.hear()["fence"]
    waiter = start(
        """
        with azlatch.connect(sys.argv[1]) as latches:
            say(waits=True)
            with latches.hold("a", timeout=20) as hold:
                say(fence=hold.fence)
        """,
        url,
    )
    waiter.hear()
    time.sleep(0.3)
    holder.kill()
    assert waiter.hear(10)["fence"] > fence


def test_without_the_liveness_file_the_ttl_decides(start, url: str) -> None:
    """Where the file is gone nothing is proved: the latch is free a ttl after the last beat, not before."""
    child = start(HOLD, url, 2)
    child.hear()
    for file in live_files(url):
        file.unlink()
    with azlatch.connect(url) as latches:
        child.kill()
        assert latches.try_acquire("a") is None
        assert latches.acquire("a", timeout=2 + 0.2 + 0.6).remaining() > 0


def test_one_shot_contender_gets_through(start, url: str) -> None:
    """kill -9, nobody looks for two ttls, and one try in a new process succeeds (M4, R3)."""
    child = start(HOLD, url, 0.6)
    fence = child.hear()["fence"]
    for file in live_files(url):
        file.unlink()
    child.kill()
    time.sleep(2 * 0.6)
    once = start(
        """
        with azlatch.connect(sys.argv[1]) as latches:
            hold = latches.try_acquire("a")
            say(fence=hold and hold.fence)
        """,
        url,
    )
    assert once.hear()["fence"] > fence


def test_a_command_that_inherits_the_lock_counts_as_alive(start, url: str) -> None:
    """While a child process has the liveness descriptor, its dead parent is not taken for dead (R4)."""
    child = start(
        """
        import subprocess
        latches = azlatch.connect(sys.argv[1])
        hold = latches.acquire("a", ttl=3600)
        fd = latches._connection.backend.liveness_fileno()
        heir = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], pass_fds=[fd])
        say(heir=heir.pid)
        hear()
        """,
        url,
    )
    heir = child.hear()["heir"]
    try:
        child.kill()
        with azlatch.connect(url) as latches:
            with pytest.raises(azlatch.AcquireTimeout):
                latches.acquire("a", timeout=0.5)
            os.kill(heir, 9)
            assert latches.acquire("a", timeout=10).remaining() > 0
    finally:
        try:
            os.kill(heir, 9)
        except ProcessLookupError:
            pass


def test_exit_releases(start, url: str) -> None:
    """A process that ends without releasing frees what it holds as it goes."""
    child = start(
        """
        hold = azlatch.connect(sys.argv[1]).acquire("a", ttl=3600)
        say(fence=hold.fence)
        """,
        url,
    )
    fence = child.hear()["fence"]
    assert child.end() == 0
    with azlatch.connect(url) as latches:
        hold = latches.try_acquire("a")
        assert hold is not None
        assert hold.fence > fence


def test_forked_child_holds_nothing(start, url: str) -> None:
    """In a forked child the hold is `forked` and its exit releases nothing; the parent's hold lives (H4)."""
    child = start(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork in a process with threads
        latches = azlatch.connect(sys.argv[1])
        with latches.hold("a", ttl=4) as hold:
            pid = os.fork()
            if pid == 0:
                try:
                    hold.ensure()
                    say(child="held")
                except azlatch.HoldLost as error:
                    say(child=error.reason, remaining=hold.remaining())
                hold.release()
                contended = latches.try_acquire("a")
                other = latches.acquire("b", timeout=5)
                say(contended=contended is None, other=other.remaining() > 0)
                sys.exit(0)  # runs the exit handlers that the child inherited
            status = os.waitpid(pid, 0)[1]
            time.sleep(5)
            hold.ensure()
            say(status=status, parent=hold.remaining() > 0)
        """,
        url,
    )
    assert child.hear() == {"child": "forked", "remaining": 0.0}
    assert child.hear() == {"contended": True, "other": True}
    assert child.hear() == {"status": 0, "parent": True}
    assert child.end() == 0


def test_fork_in_the_middle_of_use(start, url: str) -> None:
    """Forks while other threads use the store: neither side corrupts it or hangs."""
    child = start(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        latches = azlatch.connect(sys.argv[1])
        stop = threading.Event()
        def work(name):
            while not stop.is_set():
                latches.acquire(name, timeout=20).release()
        threads = [threading.Thread(target=work, args=(f"n{n}",)) for n in range(3)]
        for thread in threads: thread.start()
        statuses = []
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    latches.acquire("n0", timeout=20).release()
                    code = 0
                finally:
                    os._exit(code)
            statuses.append(os.waitpid(pid, 0)[1])
        stop.set()
        for thread in threads: thread.join()
        say(statuses=statuses)
        """,
        url,
    )
    assert child.hear(60)["statuses"] == [0] * 20
    with azlatch.connect(url) as latches:
        assert latches.try_acquire("n1") is not None


def test_freeze_inside_a_write_is_an_outage(start, url: str) -> None:
    """A process stopped inside a transaction blocks the store: BackendUnavailable, not contention (M6)."""
    with azlatch.connect(url) as latches:
        latches.acquire("b").release()
        child = start(
            """
            import sqlite3
            db = sqlite3.connect(sys.argv[1], isolation_level=None)
            db.execute("BEGIN IMMEDIATE")
            say(inside=True)
            hear()
            """,
            url.removeprefix("sqlite:///"),
        )
        child.hear()
        child.stop()
        with pytest.raises(azlatch.BackendUnavailable):
            latches.acquire("a", timeout=0.5)
        child.kill()
        assert latches.acquire("a", timeout=10).remaining() > 0
