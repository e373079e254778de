"""The embedded store: one SQLite file, shared by any number of processes of one machine.

Every change is one immediate transaction that reads the record, asks `azlatch.core.record` what may be
done, and writes. Waiting processes stand in line in the order in which they came: whoever frees a name
calls the first of them through its pipe, and a name that is free while someone is in line is granted to
nobody else for `_CALL_GRACE`. The line is about order only; no rule of safety rests on it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from azlatch.backends import sqlite_doctor, sqlite_file
from azlatch.backends.liveness import Liveness
from azlatch.backends.machine import Machine, this_machine
from azlatch.backends.protocol import Broken, Check, Gone, Granted, Held, View
from azlatch.backends.wakes import Wakes
from azlatch.core import record as rules
from azlatch.core.acquisition import Orphan
from azlatch.core.env import Env
from azlatch.core.instance import Instance
from azlatch.core.record import Claim, Evidence, Grant, Record
from azlatch.core.terms import Limits
from azlatch.errors import BackendError, BackendMisconfigured, BackendUnavailable, UsageError

T = TypeVar("T")

#: Whom to wake after the commit.
_Called = list[str]

#: How long a called waiter may take before its place lapses, seconds.
_CALL_GRACE = 0.5
#: How often the first in line looks whether the holder has died, and the others who is before them.
_LOOK_FIRST = 0.1
_LOOK_OTHERS = 0.5
_PAGE = 500
#: How long an opening tidies up after the dead, at most, seconds.
_SWEEP_LIMIT = 0.2
#: How long a fork waits for a call in flight before the child is left without the store.
_FORK_WAIT = 5.0

_COLUMNS = ", ".join(Record._fields)
_SELECT = f"SELECT {_COLUMNS} FROM latches WHERE name = ?"
_SELECT_WITH_LINE = (
    f"SELECT {_COLUMNS}, EXISTS (SELECT 1 FROM waiters WHERE name = ?1) FROM latches WHERE name = ?1"
)
_LINE = "SELECT ticket, member, called_at FROM waiters WHERE name = ? ORDER BY ticket LIMIT 1"
_INSERT = f"INSERT INTO latches VALUES ({', '.join('?' * len(Record._fields))}, ?)"
_UPDATE = (
    f"UPDATE latches SET {', '.join(f'{field} = ?' for field in Record._fields[1:])}, touched = ? "
    "WHERE name = ? AND version = ?"
)


class SqliteBackend:
    """Latches in an SQLite file.

    Args:
        path: the file; created with its folder where missing, readable by this user only.
        machine: for tests: what this process takes for its kernel.
    """

    kind = "sqlite"
    limits = Limits(min_ttl=0.5, max_ttl=86_400.0)

    def __init__(self, path: str | os.PathLike[str], *, machine: Machine | None = None) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._given_machine = machine
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._cursor: sqlite3.Cursor | None = None
        self._pid = 0
        self._opened = False
        self._stranded = False
        _forks.add(self)

    # -- opening and closing -----------------------------------------------------------------------

    def open(self, env: Env, wake: Callable[[str], None], *, create: bool, until: float) -> None:
        """Opens the file; `create` changes nothing, the embedded store is always created."""
        if self._stranded:
            raise BackendMisconfigured(
                f"this process was forked while a call to {self.path} was under way, and SQLite must not be "
                "used in it: connect in the child after exec, or fork before the first use"
            )
        self.env = env
        if not self._lock.acquire(timeout=max(until - env.now(), 0.0)):
            raise BackendUnavailable(f"another thread is opening {self.path}, and the disk does not answer")
        # Held until it is open, so that no fork comes in between.
        try:
            self._machine = self._given_machine or this_machine()
            sqlite_file.prepare(self.path)
            self._liveness = Liveness(f"{self.path}-live", env.nonce())
            self._liveness.start()
            try:
                opened = sqlite_file.open_store(
                    self.path, self._machine, env, cold=self._liveness.cold, until=until
                )
            except BaseException:
                self._liveness.stop(forget=True)
                raise
            self._liveness.settled_in()
            self._in_line: set[str] = set()
            self._wakes = Wakes(env, self._liveness, wake)
            self._db, self._identity, self._epoch = opened
            self._cursor = self._db.cursor()
            self._floor = rules.epoch_floor(self._epoch)
            self._pid = env.pid()
            self._opened = True
        finally:
            self._lock.release()
        with contextlib.suppress(BackendError):
            # Tidying up is nobody's reason to wait, or to fail.
            self._sweep(min(until, env.now() + _SWEEP_LIMIT))

    def close(self) -> None:
        """Closes the file. The liveness file stays where a record still needs it to prove this death."""
        if not self._opened:
            return
        self._opened = False
        self._wakes.stop()
        if not self._lock.acquire(timeout=1.0):
            # A call that does not return has the file: it, and the lock of this member, end with the process.
            return
        db, self._db, self._cursor = self._db, None, None
        self._lock.release()
        left = True
        if db is not None:
            try:
                query = "SELECT EXISTS (SELECT 1 FROM latches WHERE member = ? AND state != 'free')"
                left = bool(db.execute(query, (self._liveness.member,)).fetchone()[0])
            except sqlite3.Error:
                left = True
            db.close()
        self._liveness.stop(forget=not left)

    def liveness_fileno(self) -> int:
        """The descriptor that proves this member alive; a command that inherits it keeps it alive (R4)."""
        return self._liveness.fileno()

    # -- the latch ---------------------------------------------------------------------------------

    def acquire(self, claim: Claim, until: float) -> Granted | Held:
        """One transaction: grant, or say who has it and take a place in line if the claim asks for one."""
        if claim.queue and claim.name in self._in_line:
            held = self._call_db(lambda db: self._still_held(db, claim), until)
            if held is not None:
                return held
        called: _Called = []
        reply = self._write(lambda db: self._acquire(db, claim, called), until)
        for member in called:
            self._wakes.send(member, claim.name)
        if type(reply) is Granted and self._in_line:
            self._in_line.discard(claim.name)
            self._wakes.expect_no_more(claim.name)
        return reply

    def _still_held(self, db: sqlite3.Cursor, claim: Claim) -> Held | None:
        """A look of someone who has a place in line: reading blocks nobody, and is all that most looks need."""
        record = _read(db, claim.name)
        if record is None or record.state == "free" or rules.is_own(record, claim.nonce):
            return None
        if rules.takeover(record, claim, self._evidence(record, claim.now)) is not None:
            return None
        line = db.execute("SELECT member, called_at FROM waiters WHERE name = ? ORDER BY ticket", (claim.name,))
        places = line.fetchall()
        mine = [called_at for member, called_at in places if member == self._liveness.member]
        if not mine or mine[0] is not None:
            return None
        look = _LOOK_FIRST if places[0][0] == self._liveness.member else _LOOK_OTHERS
        return Held(record.holder, record.triple, record.version, look)

    def _acquire(self, db: sqlite3.Cursor, claim: Claim, called: _Called) -> Granted | Held:
        record, has_line = _read_with_line(db, claim.name)
        if record is not None and rules.is_own(record, claim.nonce):
            return Granted(_grant(record), None)
        taken: rules.Takeover | None = None
        if record is not None and record.state != "free":
            taken = rules.takeover(record, claim, self._evidence(record, claim.now))
            if taken is None:
                place = self._join(db, claim) if claim.queue else _LOOK_OTHERS
                return Held(record.holder, record.triple, record.version, place)
        first = self._first_in_line(db, claim.name, claim.now) if has_line else None
        if first is not None and first != self._liveness.member:
            if self._call(db, claim.name, first, claim.now):
                called.append(first)
            if claim.queue:
                self._in_line.add(claim.name)
                self._wakes.expect(claim.name)
                db.execute(
                    "INSERT OR IGNORE INTO waiters (name, member) VALUES (?, ?)",
                    (claim.name, self._liveness.member),
                )
            return Held(None, None, record.version if record is not None else 0, _CALL_GRACE)
        floor = self._floor
        if record is None:
            floor = max(floor, int(db.execute("SELECT floor FROM store").fetchone()[0]))
        machine = self._machine
        new = rules.granted(record, claim, floor, machine.boot, machine.time_namespace, self._liveness.member)
        self._swap(db, record, new)
        if first is not None:
            db.execute("DELETE FROM waiters WHERE name = ? AND member = ?", (claim.name, first))
        return Granted(_grant(new), record.fence if record is not None else None, taken)

    def renew(self, grant: Grant, sent: float, until: float) -> Gone | None:
        def work(db: sqlite3.Cursor) -> Gone | None:
            record = _read(db, grant.name)
            new = rules.renewed(record, grant.nonce, sent) if record is not None else None
            if record is None or new is None:
                return Gone(rules.why_gone(record, grant.nonce))
            self._swap(db, record, new)
            return None

        return self._write(work, until)

    def release(self, grant: Grant, until: float) -> None:
        self._free(grant.name, grant.nonce, until)

    def settle(self, name: str, orphan: Orphan, until: float) -> bool:
        """A local commit happened or did not by the time its call returned: one look settles it."""
        self._free(name, orphan.nonce, until)
        return True

    def _free(self, name: str, nonce: str, until: float) -> None:
        called: _Called = []

        def work(db: sqlite3.Cursor) -> None:
            record, has_line = _read_with_line(db, name)
            new = rules.released(record, nonce) if record is not None else None
            if record is not None and new is not None:
                self._swap(db, record, new)
                if has_line:
                    self._call_first(db, name, called)

        # A file that was replaced makes no difference here: what is freed in the old one nobody looks at.
        self._call_db(work, until, write=True, check=False)
        for member in called:
            self._wakes.send(member, name)

    def note(self, grant: Grant, text: str, until: float) -> Gone | None:
        def work(db: sqlite3.Cursor) -> Gone | None:
            record = _read(db, grant.name)
            new = rules.noted(record, grant.nonce, text) if record is not None else None
            if record is None or new is None:
                return Gone(rules.why_gone(record, grant.nonce))
            self._swap(db, record, new)
            return None

        return self._write(work, until)

    # -- the line ----------------------------------------------------------------------------------

    def leave(self, name: str, until: float) -> None:
        self._in_line.discard(name)
        self._wakes.expect_no_more(name)
        called: _Called = []

        def work(db: sqlite3.Cursor) -> None:
            db.execute("DELETE FROM waiters WHERE name = ? AND member = ?", (name, self._liveness.member))
            record = _read(db, name)
            if record is None or record.state == "free":
                # Whoever goes may just have been called.
                self._call_first(db, name, called)

        self._write(work, until)
        for member in called:
            self._wakes.send(member, name)

    def _join(self, db: sqlite3.Cursor, claim: Claim) -> float:
        """Takes a place at the end, or keeps the one there is; returns in how many seconds to look again."""
        me = self._liveness.member
        # Before the commit: whoever sees the place may call at once.
        self._wakes.expect(claim.name)
        self._in_line.add(claim.name)
        # Whoever was called and finds the name held again, by a takeover, can be called again.
        db.execute(
            "INSERT INTO waiters (name, member) VALUES (?, ?) "
            "ON CONFLICT (name, member) DO UPDATE SET called_at = NULL WHERE called_at IS NOT NULL",
            (claim.name, me),
        )
        first = db.execute("SELECT member FROM waiters WHERE name = ? ORDER BY ticket LIMIT 1", (claim.name,))
        return _LOOK_FIRST if first.fetchone()[0] == me else _LOOK_OTHERS

    def _first_in_line(self, db: sqlite3.Cursor, name: str, now: float) -> str | None:
        """Who may take the name when it is free; the dead and those who did not come are struck out."""
        while True:
            row = db.execute(_LINE, (name,)).fetchone()
            if row is None:
                return None
            ticket, member, called_at = row
            if member == self._liveness.member:
                return str(member)
            lapsed = called_at is not None and not 0 <= now - called_at < _CALL_GRACE
            if not lapsed and self._liveness.probe(member) != "dead":
                return str(member)
            db.execute("DELETE FROM waiters WHERE ticket = ?", (ticket,))

    def _call(self, db: sqlite3.Cursor, name: str, member: str, now: float) -> bool:
        """Notes that it is this member's turn; False if it was called before."""
        return bool(
            db.execute(
                "UPDATE waiters SET called_at = ? WHERE name = ? AND member = ? AND called_at IS NULL",
                (now, name, member),
            ).rowcount
        )

    def _call_first(self, db: sqlite3.Cursor, name: str, called: _Called) -> None:
        now = self.env.now()
        first = self._first_in_line(db, name, now)
        if first is not None and (self._call(db, name, first, now) or first == self._liveness.member):
            called.append(first)

    # -- operators ---------------------------------------------------------------------------------

    def read(self, name: str, until: float) -> View | None:
        def work(db: sqlite3.Cursor) -> View | None:
            record = _read(db, name)
            return self._view(db, record) if record is not None else None

        return self._call_db(work, until)

    def list(self, until: float) -> Iterator[View]:
        last = ""
        # The bound is for each page: how long the caller takes between them is its own affair.
        limit = until - self.env.now()
        while True:
            page = self._call_db(functools.partial(self._page, last), self.env.now() + limit)
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1].name

    def _page(self, last: str, db: sqlite3.Cursor) -> Sequence[View]:
        query = f"SELECT {_COLUMNS} FROM latches WHERE name > ? ORDER BY name LIMIT {_PAGE}"
        return [self._view(db, _record(row)) for row in db.execute(query, (last,)).fetchall()]

    def break_hold(
        self, name: str, fence: int | None, by: str, reason: str, *, now: bool, until: float
    ) -> Broken | None:
        called: _Called = []

        def work(db: sqlite3.Cursor) -> Broken | None:
            record = _read(db, name)
            if record is None or record.state == "free":
                return None
            if fence is not None and record.fence != fence:
                raise UsageError(
                    f"{name!r} has fence {record.fence} by now, not {fence}: look again before you break it"
                )
            clock = self.env.now()
            evidence = self._evidence(record, clock)
            at_once = now or evidence.gone is not None or rules.aged(record, evidence)
            if record.state == "broken" and not at_once:
                left = record.ttl - evidence.age if evidence.age is not None else record.ttl
                return Broken(record.fence, max(left, 0.0))
            new = rules.broken(record, nonce=self.env.nonce(), by=by, reason=reason, sent=clock, now=at_once)
            # The ttl counts from the break, on the breaker's clock (B2).
            new = new._replace(boot=self._machine.boot, time_namespace=self._machine.time_namespace)
            self._swap(db, record, new)
            if new.state == "free":
                self._call_first(db, name, called)
            return Broken(record.fence, 0.0 if new.state == "free" else record.ttl)

        result = self._write(work, until)
        for member in called:
            self._wakes.send(member, name)
        return result

    def purge(self, older_than: float, until: float) -> int:
        """The floor rises with what goes, so that no fence comes twice (F1)."""
        before = self.env.wall() - older_than

        def work(db: sqlite3.Cursor) -> int:
            where = "WHERE state = 'free' AND touched <= ? AND name NOT IN (SELECT name FROM waiters)"
            highest = db.execute(f"SELECT max(fence) FROM latches {where}", (before,)).fetchone()[0]
            if highest is None:
                return 0
            db.execute("UPDATE store SET floor = max(floor, ?)", (highest,))
            return db.execute(f"DELETE FROM latches {where}", (before,)).rowcount

        return self._write(work, until)

    def _view(self, db: sqlite3.Cursor, record: Record) -> View:
        evidence = self._evidence(record, self.env.now())
        waiters = db.execute("SELECT count(*) FROM waiters WHERE name = ?", (record.name,)).fetchone()[0]
        free = record.state == "free"
        over = not free and (evidence.gone is not None or rules.aged(record, evidence))
        left = None if free or evidence.age is None else max(record.ttl - evidence.age, 0.0)
        return View(
            name=record.name,
            state="expired" if over else record.state,
            fence=record.fence,
            holder=None if free else record.holder,
            ttl=record.ttl,
            since=None if free else record.since,
            age=None if free else evidence.age,
            expires_in=0.0 if over else left,
            note=record.note,
            waiters=int(waiters),
            breaker=record.breaker,
            reason=record.reason,
        )

    def doctor(self, *, apply: bool = False) -> Sequence[Check]:
        """Looks at what makes this store unsafe, unreadable or slow; `apply` mends what is safe to mend."""
        return sqlite_doctor.examine(self, apply=apply)

    def examine(self, query: str, until: float) -> Sequence[tuple[object, ...]]:
        """The rows of a reading query, for `doctor`."""
        return self._call_db(lambda db: db.execute(query).fetchall(), until)

    def leftovers(self) -> Sequence[str]:
        """Members that are dead and still have files."""
        return [member for member in self._liveness.members() if self._liveness.probe(member) == "dead"]

    # -- evidence ----------------------------------------------------------------------------------

    def _evidence(self, record: Record, now: float) -> Evidence:
        """What this machine's clock and locks tell of the holder (R3, R4)."""
        machine = self._machine
        life = self._liveness.probe(record.member)
        return rules.evidence_of(record, life, machine.boot, machine.time_namespace, now)

    # -- transactions ------------------------------------------------------------------------------

    def _swap(self, db: sqlite3.Cursor, old: Record | None, new: Record) -> None:
        row = (*new[:12], _holder_text(new.holder), *new[13:], self.env.wall())
        if old is None:
            db.execute(_INSERT, row)
        elif db.execute(_UPDATE, (*row[1:], new.name, old.version)).rowcount != 1:
            raise AssertionError("a record changed inside an immediate transaction")

    def _write(self, work: Callable[[sqlite3.Cursor], T], until: float) -> T:
        """Runs `work` in an immediate transaction of its own: all of it happens, or nothing."""
        return self._call_db(work, until, write=True)

    def _call_db(
        self, work: Callable[[sqlite3.Cursor], T], until: float, *, write: bool = False, check: bool = True
    ) -> T:
        now = self.env.now()
        committing = False
        db = None
        # `map` stores the answer before a signal handler can raise between the lock and the `try`.
        locked: list[bool] = []
        try:
            locked.extend(map(self._lock.acquire, (True,), (max(until - now, 0.0),)))
            if not locked[0]:
                raise BackendUnavailable(
                    f"another thread's call to {self.path} has not returned: the disk does not answer"
                )
            db = self._connection(until, check=check)
            # One cursor for all: making one for each statement costs more than the statement does.
            cursor = self._cursor
            if cursor is None:
                cursor = self._cursor = db.cursor()
            if not write:
                return sqlite_file.retry_busy(functools.partial(work, cursor), self.env, until, self.path)
            self._begin(cursor, until)
            result = work(cursor)
            committing = True
            cursor.execute("COMMIT")
            return result
        except sqlite3.Error as error:
            raise sqlite_file.translate(error, self.path, committing=committing) from error
        finally:
            if db is not None and db.in_transaction:
                self._roll_back(db)
            if locked and locked[0]:
                self._lock.release()

    def _begin(self, db: sqlite3.Cursor, until: float) -> None:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not sqlite_file.is_busy(error):
                raise
            sqlite_file.retry_busy(lambda: db.execute("BEGIN IMMEDIATE"), self.env, until, self.path)

    def _roll_back(self, db: sqlite3.Connection) -> None:
        try:
            db.execute("ROLLBACK")
        except sqlite3.Error:
            # A connection that cannot even roll back is of no more use; the next call opens a new one.
            db.close()
            self._db = self._cursor = None

    def _connection(self, until: float, *, check: bool) -> sqlite3.Connection:
        if self._pid != self.env.pid():
            self._stranded = True
        if self._stranded:
            raise BackendMisconfigured(
                f"this is a forked child and {self.path} was open in its parent: connect again in the child"
            )
        if check and not self._opened:
            raise UsageError("this connection is closed: connect again")
        if check or self._db is None:
            try:
                found = os.stat(self.path)
            except OSError as error:
                raise self._replaced() from error
            if (found.st_dev, found.st_ino) != self._identity:
                raise self._replaced()
        if self._db is None:
            self._db = sqlite_file.connect(self.path, self.env, until)
        return self._db

    def _replaced(self) -> BackendMisconfigured:
        return BackendMisconfigured(
            f"{self.path} was removed or replaced while it was in use: processes that still have the old file "
            "and those with the new one do not see each other; restart all of them"
        )

    def _sweep(self, until: float) -> None:
        """Removes the files of dead members that no record needs as a proof."""
        dead = [member for member in self._liveness.members() if self._liveness.probe(member) == "dead"]
        if not dead:
            return

        def work(db: sqlite3.Cursor) -> list[str]:
            used = {row[0] for row in db.execute("SELECT DISTINCT member FROM latches WHERE state != 'free'")}
            forgotten = [member for member in dead if member not in used]
            db.executemany("DELETE FROM waiters WHERE member = ?", [(member,) for member in forgotten])
            return forgotten

        self._liveness.forget(self._write(work, until))

    # -- fork --------------------------------------------------------------------------------------

    def _before_fork(self) -> None:
        """SQLite must not be carried across a fork: the file is closed now and opened again when needed."""
        if self._lock.acquire(timeout=_FORK_WAIT):
            if self._db is not None:
                self._db.close()
                self._db = self._cursor = None
        else:
            self._stranded = True

    def _after_fork_in_parent(self) -> None:
        if self._stranded:
            self._stranded = False
        else:
            self._lock.release()

    def forked(self) -> None:
        """In the child: nothing of the parent's is used or closed for it; `open` starts afresh."""
        self._lock = threading.Lock()
        if not self._opened:
            return
        self._opened = False
        if self._db is not None:
            _never_closed.append(self._db)
            self._db = self._cursor = None
        self._liveness.drop()
        self._wakes.drop()


_forks: weakref.WeakSet[SqliteBackend] = weakref.WeakSet()
_never_closed: list[sqlite3.Connection] = []


def _before_fork() -> None:
    for backend in list(_forks):
        backend._before_fork()


def _after_fork_in_parent() -> None:
    for backend in list(_forks):
        backend._after_fork_in_parent()


def _after_fork_in_child() -> None:
    for backend in list(_forks):
        backend.forked()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
)


def _read(db: sqlite3.Cursor, name: str) -> Record | None:
    row = db.execute(_SELECT, (name,)).fetchone()
    return _record(row) if row is not None else None


def _read_with_line(db: sqlite3.Cursor, name: str) -> tuple[Record | None, bool]:
    """The record, and whether anyone may be in line: always so where there is no record yet."""
    row = db.execute(_SELECT_WITH_LINE, (name,)).fetchone()
    return (_record(row[:-1]), bool(row[-1])) if row is not None else (None, True)


def _record(row: tuple[object, ...]) -> Record:
    return Record._make((*row[:12], _holder(row[12]), *row[13:]))


def _grant(record: Record) -> Grant:
    return Grant(record.name, record.nonce, record.fence, record.ttl, record.version)


@functools.lru_cache(maxsize=512)
def _holder_text(holder: Instance) -> str:
    return json.dumps([holder.id, holder.host, holder.pid, holder.started, holder.role], ensure_ascii=True)


@functools.lru_cache(maxsize=512)
def _holder(text: str) -> Instance:
    try:
        identity, host, pid, started, role = json.loads(text)
        return Instance(str(identity), str(host), int(pid), float(started), str(role))
    except (ValueError, TypeError):
        return Instance("", "unknown", 0, 0.0)
