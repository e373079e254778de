"""Ways to lock with Cosmos DB that are easily found, and do not lock: adversaries for an experiment."""

from __future__ import annotations

from lock_world import TTL_S, Link, Way


class ReadThenUpsert:
    """Reads, and if there is no lock or its time is over, writes its own over it; deletes it to release."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._me = link.process.name

    def try_acquire(self) -> bool:
        found = self._link.read()
        now = self._link.process.wall()
        if found is not None and found["expires"] > now:
            return False
        self._link.upsert(owner=self._me, expires=now + TTL_S)
        return True

    def release(self) -> None:
        self._link.delete()


class AndReleasesItsOwn(ReadThenUpsert):
    """The same by someone who has met the release of others: looks whose lock it is before it is deleted."""

    def release(self) -> None:
        if self._is_mine():
            self._link.delete()

    def _is_mine(self) -> bool:
        found = self._link.read()
        return found is not None and found["owner"] == self._me


class AndReadsBack(AndReleasesItsOwn):
    """The same by someone who has thought of the race: looks who has it before it is believed."""

    def try_acquire(self) -> bool:
        return super().try_acquire() and self._is_mine()


class CreateThatNeverExpires:
    """Creates an item, which one alone can; its expiry field has a name that the service does not know."""

    field = "_ttl"

    def __init__(self, link: Link) -> None:
        self._link = link

    def try_acquire(self) -> bool:
        return self._link.create(owner=self._link.process.name, **{self.field: int(TTL_S)}) is not None

    def release(self) -> None:
        self._link.delete()


class CreateThatExpires(CreateThatNeverExpires):
    """The same with the name that the service knows."""

    field = "ttl"


WAYS: dict[str, Way] = {
    "read, then upsert; release by delete": ReadThenUpsert,
    "the same; release if it reads its own name": AndReleasesItsOwn,
    "the same; grant if it reads its own name": AndReadsBack,
    "create with `_ttl`; release by delete": CreateThatNeverExpires,
    "create with `ttl`; release by delete": CreateThatExpires,
}
