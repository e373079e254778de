"""The Blob store: beside the SDK's own leases, on Azurite; and what it asks of the service."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import azlatch
import canned
import handover
import pairs
from azlatch.backends.blob import BlobBackend
from azlatch.errors import BackendMisconfigured, BackendUnavailable
from azlatch.lab.azurite import VERSION, Azurite
from azlatch.lab.proxy import FaultProxy
from contender import BLOB_CONTAINER, Spec
from crew import Crew
from table import Row, Section

RAW = "BlobLeaseClient"
_FENCED = "azlatch"
_PLAIN = "azlatch, fence=False"
_TTLS = (15, 30, 60)
_WAITERS = (2, 16)
#: By then a waiter's looks are as rare as they get, seconds.
_SETTLED = 6.0


class Plan(NamedTuple):
    """How long and how often."""

    pair_rounds: int = 7
    pair_seconds: float = 1.0
    canned_rounds: int = 7
    canned_pairs: int = 200
    relay_rounds: int = 3
    relay_hand_overs: int = 40
    relay_seconds: float = 12.0
    held_seconds: float = 65.0
    looked_seconds: float = 20.0


QUICK = Plan(
    pair_rounds=3,
    pair_seconds=0.2,
    canned_rounds=3,
    canned_pairs=50,
    relay_rounds=1,
    relay_hand_overs=4,
    relay_seconds=3.0,
    held_seconds=9.5,
    looked_seconds=3.0,
)


def measure(plan: Plan, place: Path, step: Callable[[str], None]) -> tuple[list[Section], str]:
    """The sections, and what Azurite is; or no section, and why there is none."""
    try:
        with Azurite() as azurite, FaultProxy(azurite) as proxy:
            # For the contenders, here and in other processes.
            os.environ.update(azurite.environment())
            with azlatch.connect(f"blob://devstoreaccount1/{BLOB_CONTAINER}", create=True) as latches:
                latches.inspect("made")
            sections = list(_measure(plan, place, proxy, step))
    except (BackendMisconfigured, BackendUnavailable) as error:
        return [], f"not measured: {error}"
    return sections, f"{VERSION} on this machine"


def _measure(plan: Plan, place: Path, proxy: FaultProxy, step: Callable[[str], None]) -> Iterator[Section]:
    step("Blob: uncontended pairs beside the SDK's own leases")
    specs = [
        Spec(_PLAIN, "blob-plain"),
        Spec(_FENCED, "blob"),
        Spec(RAW, "blob-raw"),
        Spec(f"{RAW} and metadata", "blob-raw-described"),
    ]
    rates = pairs.measure(specs, place, 0, rounds=plan.pair_rounds, seconds=plan.pair_seconds)
    plain, fenced, raw, described = rates
    remarks = [
        f"{plain / raw:.2f} of {RAW}",
        f"{fenced / raw:.2f} of {RAW}, {fenced / described:.2f} of the one with metadata",
        "a new lease id for each pair",
        f"{described / raw:.2f} of {RAW}: what a third request costs",
    ]
    yield Section("Blob: uncontended acquire and release", ("pairs/s",), "pairs per second", "higher", 0).show(
        Row(spec.label, (rate,), remark=remark)
        for spec, rate, remark in zip(specs, rates, remarks, strict=True)
    )
    step("Blob: our own processor time")
    spent = canned.measure(rounds=plan.canned_rounds, pairs=plan.canned_pairs)
    ours = {
        "fence=False": spent["fence=False"] - spent["raw, 2 requests"],
        "with the fence": spent["with the fence"] - spent["raw, 3 requests"],
    }
    yield Section("Blob: processor time, the answers there at once", ("per pair",), "ms", "lower", 3).show(
        Row(label, (each * 1e3,), remark=f"{ours[label] * 1e3:.3f} ms of it our own" if label in ours else "")
        for label, each in spent.items()
    )
    specs = [Spec(_FENCED, "blob"), Spec(f"{RAW}, try every 1 s", "blob-raw", 1.0)]
    with Crew(max(_WAITERS) + 1) as crew:
        for waiters in _WAITERS:
            step(f"Blob: hand-over with {waiters} waiting processes")
            overs = handover.measure(
                crew,
                waiters,
                specs,
                place,
                0,
                rounds=plan.relay_rounds,
                hand_overs=plan.relay_hand_overs,
                seconds=plan.relay_seconds,
            )
            title = f"Blob: from release to the next process's acquire, {waiters} waiting"
            yield Section(title, ("median", "p95"), "ms", "lower", 0).compare(
                _FENCED,
                [
                    Row(spec.label, (over.median * 1e3, over.p95 * 1e3), remark=over.remark)
                    for spec, over in zip(specs, overs, strict=True)
                ],
            )
    step("Blob: requests of held latches and of waiters")
    yield _requests(plan, proxy)


def _requests(plan: Plan, proxy: FaultProxy) -> Section:
    """Counted at the proxy; the held latches are held while the waiters wait."""
    section = Section("Blob: requests per hour", ("per hour",), "requests", "lower", 0)
    with contextlib.ExitStack() as stack:
        count = len(_TTLS) + len(_WAITERS) + sum(_WAITERS)
        latches = [stack.enter_context(_connected(proxy)) for _ in range(count)]
        began = time.monotonic()
        # A hold that nobody refers to is not renewed.
        holds = [latches.pop().acquire(f"held-{ttl}", ttl=ttl) for ttl in _TTLS]
        for waiters in _WAITERS:
            holds.append(latches.pop().acquire(f"waited-{waiters}", ttl=60))
            for _ in range(waiters):
                threading.Thread(
                    target=_wait, args=(latches.pop(), f"waited-{waiters}", plan), daemon=True
                ).start()
        time.sleep(_SETTLED)
        since = time.monotonic()
        time.sleep(plan.looked_seconds)
        until = time.monotonic()
        seen = [each for each in proxy.requests if since <= each.began < until]
        time.sleep(max(began + plan.held_seconds - time.monotonic(), 0.0))
        for ttl in _TTLS:
            section.rows.extend(_renewals(proxy, ttl))
        for hold in holds:
            hold.release()
    for waiters in _WAITERS:
        # The holder's renewals are not the waiters'.
        looks = sum(each.path.endswith(f"waited-{waiters}") and each.action != "renew" for each in seen)
        rate = looks / (until - since) * 3600
        section.rows.append(Row(f"{waiters} waiters of one", (rate,), remark=f"{rate / waiters:,.0f} each"))
    return section


def _renewals(proxy: FaultProxy, ttl: int) -> Iterator[Row]:
    """From the times between the grant and its renewals; nothing where the run is too short for one."""
    of_it = [each for each in proxy.requests if each.path.endswith(f"held-{ttl}")]
    times = [each.began for each in of_it if each.action in ("acquire", "renew")]
    if len(times) > 1:
        every = (times[-1] - times[0]) / (len(times) - 1)
        yield Row(f"a latch held with ttl {ttl}", (3600 / every,), remark=f"one every {every:.1f} s")


@contextlib.contextmanager
def _connected(proxy: FaultProxy) -> Iterator[azlatch.Latches]:
    backend = BlobBackend.from_connection_string(proxy.connection_string, BLOB_CONTAINER)
    with azlatch.connect(backend=backend) as latches:
        yield latches


def _wait(latches: azlatch.Latches, name: str, plan: Plan) -> None:
    # Longer than it is looked at, and over soon after.
    with contextlib.suppress(azlatch.LatchError):
        latches.acquire(name, ttl=60, timeout=_SETTLED + plan.looked_seconds + 2)
