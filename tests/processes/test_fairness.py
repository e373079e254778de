"""First come, first served among processes."""

from __future__ import annotations

import os

SECONDS = float(os.environ.get("AZLATCH_FAIRNESS_SECONDS", "60"))

WORK = """
    with azlatch.connect(sys.argv[1]) as latches:
        latches.acquire("warm").release()
        say(ready=True)
        hear()
        end = time.monotonic() + float(sys.argv[2])
        grants = 0
        fences = []
        while time.monotonic() < end:
            with latches.hold("a", timeout=60) as hold:
                fences.append(hold.fence)
                grants += 1
        say(grants=grants, first=fences[0], last=fences[-1], rising=fences == sorted(set(fences)))
"""


def test_sixteen_processes_in_contention(start, url: str) -> None:
    """In continuous contention the most served of 16 processes has at most twice the grants of the least."""
    children = [start(WORK, url, SECONDS) for _ in range(16)]
    for child in children:
        child.hear()
    for child in children:
        child.say()
    said = [child.hear(SECONDS + 30) for child in children]
    grants = [each["grants"] for each in said]
    assert all(each["rising"] for each in said)
    assert min(grants) > 0
    assert max(grants) <= 2 * min(grants)


def test_first_come_first_served(start, url: str) -> None:
    """Processes that wait get the latch in the order in which they came."""
    holder = start(
        "hold = azlatch.connect(sys.argv[1]).acquire('a'); say(); hear(); hold.release(); say()", url
    )
    holder.hear()
    waiters = []
    for number in range(5):
        waiter = start(
            """
            with azlatch.connect(sys.argv[1]) as latches:
                say(asks=True)
                with latches.hold("a", timeout=30) as hold:
                    say(fence=hold.fence)
            """,
            url,
        )
        waiter.hear()
        # It is in line once the store says so.
        holder_view = start(
            """
            with azlatch.connect(sys.argv[1]) as latches:
                end = time.monotonic() + 20
                while latches.inspect("a").waiters < int(sys.argv[2]) and time.monotonic() < end:
                    time.sleep(0.01)
                say(waiters=latches.inspect("a").waiters)
            """,
            url,
            number + 1,
        )
        assert holder_view.hear()["waiters"] == number + 1
        waiters.append(waiter)
    holder.say()
    fences = [waiter.hear()["fence"] for waiter in waiters]
    assert fences == sorted(fences)


def test_a_stopped_waiter_does_not_block_those_behind(start, url: str) -> None:
    """A first in line that is stopped loses its place, and those behind it go on."""
    holder = start(
        "hold = azlatch.connect(sys.argv[1]).acquire('a'); say(); hear(); hold.release(); say()", url
    )
    holder.hear()
    waiter = (
        "say(asks=True); hold = azlatch.connect(sys.argv[1]).acquire('a', timeout=30); say(fence=hold.fence)"
    )
    stopped = start(waiter, url)
    stopped.hear()
    watch = """
        with azlatch.connect(sys.argv[1]) as latches:
            end = time.monotonic() + 20
            while latches.inspect("a").waiters < 1 and time.monotonic() < end:
                time.sleep(0.01)
            say(waiters=latches.inspect("a").waiters)
        """
    assert start(watch, url).hear()["waiters"] == 1
    stopped.stop()
    holder.say()
    holder.hear()
    behind = start(waiter, url)
    behind.hear()
    fence = behind.hear(10)["fence"]
    stopped.go_on()
    assert stopped.hear()["fence"] > fence
