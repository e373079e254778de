"""A store inside one process, for tests: the same record protocol, nothing on disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from azlatch.backends.protocol import Broken, Gone, Granted, Held, View
from azlatch.core import record as rules
from azlatch.core.acquisition import Orphan
from azlatch.core.env import Env
from azlatch.core.record import Claim, Evidence, Grant, Record
from azlatch.core.terms import Limits
from azlatch.errors import UsageError

_LOOK = 0.1


class MemoryStore:
    """What several `MemoryBackend` share: the records of one process, and whom to wake."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.records: dict[str, Record] = {}
        self.touched: dict[str, float] = {}
        self.floor = 0
        self.lines: dict[str, list[MemoryBackend]] = {}

    def put(self, record: Record, wall: float) -> None:
        self.records[record.name] = record
        self.touched[record.name] = wall


class MemoryBackend:
    """Latches in memory; give several backends one `store` to have them contend.

    A forked child starts with a copy that nobody shares: its records are forgotten.
    """

    kind = "memory"
    limits = Limits(min_ttl=0.5, max_ttl=86_400.0)

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store if store is not None else MemoryStore()

    def open(self, env: Env, wake: Callable[[str], None], *, create: bool, until: float) -> None:
        self._env = env
        self._wake = wake

    def close(self) -> None:
        with self.store.lock:
            for line in self.store.lines.values():
                if self in line:
                    line.remove(self)

    def acquire(self, claim: Claim, until: float) -> Granted | Held:
        store = self.store
        with store.lock:
            record = store.records.get(claim.name)
            if record is not None and rules.is_own(record, claim.nonce):
                return Granted(_grant(record), None)
            taken: rules.Takeover | None = None
            if record is not None and record.state != "free":
                taken = rules.takeover(record, claim, self._evidence(record, claim.now))
                if taken is None:
                    self._join(claim)
                    return Held(record.holder, record.triple, record.version, _LOOK)
            line = store.lines.get(claim.name)
            if line and line[0] is not self:
                self._join(claim)
                first = line[0]
                reply = Held(None, None, record.version if record is not None else 0, _LOOK)
            else:
                new = rules.granted(record, claim, store.floor, "memory", "memory", "")
                store.put(new, self._env.wall())
                if line:
                    line.pop(0)
                return Granted(_grant(new), record.fence if record is not None else None, taken)
        first._wake(claim.name)
        return reply

    def renew(self, grant: Grant, sent: float, until: float) -> Gone | None:
        return self._change(grant, lambda record: rules.renewed(record, grant.nonce, sent))

    def note(self, grant: Grant, text: str, until: float) -> Gone | None:
        return self._change(grant, lambda record: rules.noted(record, grant.nonce, text))

    def _change(self, grant: Grant, rule: Callable[[Record], Record | None]) -> Gone | None:
        with self.store.lock:
            record = self.store.records.get(grant.name)
            new = rule(record) if record is not None else None
            if new is None:
                return Gone(rules.why_gone(record, grant.nonce))
            self.store.put(new, self._env.wall())
        return None

    def release(self, grant: Grant, until: float) -> None:
        self._free(grant.name, grant.nonce)

    def settle(self, name: str, orphan: Orphan, until: float) -> bool:
        self._free(name, orphan.nonce)
        return True

    def _free(self, name: str, nonce: str) -> None:
        with self.store.lock:
            record = self.store.records.get(name)
            new = rules.released(record, nonce) if record is not None else None
            if new is None:
                return
            self.store.put(new, self._env.wall())
            first = self._first(name)
        if first is not None:
            first._wake(name)

    def _join(self, claim: Claim) -> None:
        line = self.store.lines.setdefault(claim.name, [])
        if claim.queue and self not in line:
            line.append(self)

    def _first(self, name: str) -> MemoryBackend | None:
        line = self.store.lines.get(name)
        return line[0] if line else None

    def leave(self, name: str, until: float) -> None:
        with self.store.lock:
            line = self.store.lines.get(name, [])
            if self in line:
                line.remove(self)
            first = self._first(name)
        if first is not None:
            first._wake(name)

    def read(self, name: str, until: float) -> View | None:
        with self.store.lock:
            record = self.store.records.get(name)
            return self._view(record) if record is not None else None

    def list(self, until: float) -> Iterator[View]:
        with self.store.lock:
            views = [self._view(record) for _, record in sorted(self.store.records.items())]
        return iter(views)

    def break_hold(
        self, name: str, fence: int | None, by: str, reason: str, *, now: bool, until: float
    ) -> Broken | None:
        with self.store.lock:
            record = self.store.records.get(name)
            if record is None or record.state == "free":
                return None
            if fence is not None and record.fence != fence:
                raise UsageError(
                    f"{name!r} has fence {record.fence} by now, not {fence}: look again before you break it"
                )
            clock = self._env.now()
            evidence = self._evidence(record, clock)
            at_once = now or rules.aged(record, evidence)
            if record.state == "broken" and not at_once:
                return Broken(record.fence, max(record.ttl - (evidence.age or 0.0), 0.0))
            new = rules.broken(record, nonce=self._env.nonce(), by=by, reason=reason, sent=clock, now=at_once)
            self.store.put(new, self._env.wall())
            first = self._first(name) if at_once else None
        if first is not None:
            first._wake(name)
        return Broken(record.fence, 0.0 if at_once else record.ttl)

    def purge(self, older_than: float, until: float) -> int:
        before = self._env.wall() - older_than
        with self.store.lock:
            gone = [
                record
                for name, record in self.store.records.items()
                if record.state == "free"
                and self.store.touched[name] <= before
                and not self.store.lines.get(name)
            ]
            for record in gone:
                self.store.floor = max(self.store.floor, record.fence)
                del self.store.records[record.name], self.store.touched[record.name]
        return len(gone)

    def forked(self) -> None:
        self.store = MemoryStore()

    def _evidence(self, record: Record, now: float) -> Evidence:
        return Evidence(age=now - record.beat_at) if now >= record.beat_at else rules.NO_EVIDENCE

    def _view(self, record: Record) -> View:
        evidence = self._evidence(record, self._env.now())
        free = record.state == "free"
        over = not free and rules.aged(record, evidence)
        return View(
            name=record.name,
            state="expired" if over else record.state,
            fence=record.fence,
            holder=None if free else record.holder,
            ttl=record.ttl,
            since=None if free else record.since,
            age=None if free else evidence.age,
            expires_in=None if free or evidence.age is None else max(record.ttl - evidence.age, 0.0),
            note=record.note,
            waiters=len(self.store.lines.get(record.name, ())),
            breaker=record.breaker,
            reason=record.reason,
        )


def _grant(record: Record) -> Grant:
    return Grant(record.name, record.nonce, record.fence, record.ttl, record.version)
