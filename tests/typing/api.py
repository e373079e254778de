"""The types that users see; checked by mypy, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import assert_type

import azlatch
from azlatch import Hold, Latches, aio, contracts
from azlatch.backends.protocol import Broken, View
from azlatch.backends.sqlite import SqliteBackend
from azlatch.errors import LossReason


def sync(latches: Latches) -> None:
    assert_type(azlatch.connect("sqlite:///x.db"), Latches)
    assert_type(azlatch.connect(backend=SqliteBackend("x.db"), fence=False), Latches)
    with latches as entered:
        assert_type(entered, Latches)
    with latches.hold("a", ttl=30, timeout=None) as hold:
        assert_type(hold, Hold)
        assert_type(hold.fence, int | None)
        assert_type(hold.remaining(), float)
        assert_type(hold.is_lost, bool)
        assert_type(hold.lost_reason, LossReason | None)
        assert_type(hold.wait_lost(1.0), bool)
    assert_type(latches.acquire("a"), Hold)
    assert_type(latches.try_acquire("a"), Hold | None)
    assert_type(latches.inspect("a"), View | None)
    assert_type(latches.list(), Iterator[View])
    assert_type(latches.break_hold("a", reason="x"), Broken | None)
    assert_type(latches.purge(older_than=1), int)
    assert_type(latches.lock("a").acquire(), bool)

    @latches.guarded("a")
    def job(number: int) -> str:
        return str(number)

    assert_type(job(1), str)


async def awaited(latches: aio.AsyncLatches) -> None:
    assert_type(aio.connect(), aio.AsyncLatches)
    async with latches.hold("a") as hold:
        assert_type(hold, aio.AsyncHold)
        await hold.ensure()
    assert_type(await latches.acquire("a"), aio.AsyncHold)
    assert_type(await latches.try_acquire("a"), aio.AsyncHold | None)
    assert_type(await latches.inspect("a"), View | None)
    views: AsyncIterator[View] = latches.list()
    async for view in views:
        assert_type(view, View)


def diagnoses(error: Exception) -> None:
    assert_type(contracts.classify(error, operation="replace"), contracts.Diagnosis)
    found = contracts.classify("404/1002", language="pt")
    assert_type(found.safe_to_retry, bool | None)
    assert_type(found.wait_s, float | None)
