"""Every read of a random history is one that the formal model of the service allows; and each anomaly occurs.

The model is `simple-model/CosmosDB.tla` of github.com/Azure/azure-cosmos-tla: a log, the index up to which all
regions have it (commit), and the index up to which every replica has it (read). It is evaluated here from what
was written and when, without the engine's own data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from azlatch.testing.cosmos_engine import Engine, document, substatus

REGIONS = ("West US", "East US")
LEVELS = ("Strong", "BoundedStaleness", "Session", "ConsistentPrefix", "Eventual")
_KEYS = ("a", "b")


@dataclass
class Written:
    """An entry of the log: which item became what, and when."""

    key: str
    value: int
    at: float


@dataclass
class Model:
    """The log, and how far each replica has come: (region, late)."""

    write: str = REGIONS[0]
    log: list[Written] = field(default_factory=list)
    lags: dict[tuple[str, str], float] = field(default_factory=dict)
    seen: dict[tuple[str, bool], int] = field(
        default_factory=lambda: {(each, late): 0 for each in REGIONS for late in (False, True)}
    )
    epoch: int = 0

    def advance(self, now: float) -> None:
        for (region, late), seen in self.seen.items():
            lag = 0.0 if region == self.write else self.lags.get((self.write, region), 0.0)
            lag += self.lags.get((region, region), 0.0) if late else 0.0
            while seen < len(self.log) and self.log[seen].at + lag <= now:
                seen += 1
            self.seen[region, late] = seen

    @property
    def commit(self) -> int:
        return min(self.seen[each, False] for each in REGIONS)

    @property
    def read(self) -> int:
        return min(self.seen.values())

    def general(self, key: str, index: int, *, dirty: bool) -> set[int | None]:
        """GeneralRead of the model; None is "there is no such item"."""
        before = [each.value for each in self.log[:index] if each.key == key]
        allowed: set[int | None] = {before[-1] if before else None}
        if dirty:
            allowed |= {each.value for each in self.log[index:] if each.key == key}
        return allowed

    def allowed(self, key: str, level: str, checkpoint: int) -> set[int | None]:
        if level == "Strong":
            return self.general(key, self.commit, dirty=False)
        if level == "BoundedStaleness":
            return self.general(key, self.commit, dirty=True)
        if level == "Session":
            return self.general(key, max(checkpoint, self.read), dirty=True)
        return self.general(key, self.read, dirty=True)


class History:
    """One random run at one level of the account, with what happened in it."""

    def __init__(self, level: str, seed: int) -> None:
        self.random = Random(seed)
        self.level = level
        self.engine = Engine(regions=REGIONS, consistency=level, seed=seed)
        self.model = Model()
        self.seen_anomalies: set[str] = set()
        #: The client's session: token, and what it stands for.
        self.token, self.checkpoint, self.epoch = "", 0, 0
        self.acknowledged: dict[str, int] = {}
        self.uncertain: set[int] = set()
        self.newest_read: dict[str, int] = {}
        self.value = 0

    def run(self, steps: int) -> set[str]:
        acts = (
            [self.write] * 6
            + [self.read] * 10
            + [self.pass_time] * 5
            + [self.change_lag] * 2
            + [self.fail_over]
        )
        for _ in range(steps):
            self.random.choice(acts)()
        return self.seen_anomalies

    def pass_time(self) -> None:
        self.engine.tick(self.random.choice((0.1, 0.5, 2.0)))
        self.model.advance(self.engine.now)

    def change_lag(self) -> None:
        source, target = self.random.choice(REGIONS), self.random.choice(REGIONS)
        lag = self.random.choice((0.0, 0.0, 1.0, 3.0, 20.0))
        self.model.advance(self.engine.now)
        self.engine.admin.lag(source, target, lag)
        self.model.lags[source, target] = lag

    def write(self) -> None:
        self.value += 1
        key = self.random.choice(_KEYS)
        reply = self.engine.upsert({"id": key, "pk": "p", "value": self.value}, self.model.write)
        self.model.log.append(Written(key, self.value, self.engine.now))
        self.model.advance(self.engine.now)
        if reply.status == 408:
            assert self.level == "Strong"
            self.uncertain.add(self.value)
            return
        assert reply.status in (200, 201), reply
        if reply.ready_at is not None:
            # The client waits for its answer.
            self.engine.tick(reply.ready_at - self.engine.now)
            self.model.advance(self.engine.now)
            assert self.model.commit == len(self.model.log)
        self.acknowledged[key] = self.value
        self.token, self.checkpoint = reply.headers["x-ms-session-token"], len(self.model.log)
        self.epoch = self.model.epoch

    def read(self) -> None:
        key, region = self.random.choice(_KEYS), self.random.choice(REGIONS)
        level = self.random.choice(LEVELS[LEVELS.index(self.level) :])
        token = self.token if level == "Session" and self.random.random() < 0.7 else ""
        self.model.advance(self.engine.now)
        headers = {"x_ms_consistency_level": level, **({"x_ms_session_token": token} if token else {})}
        reply = self.engine.read(key, "p", region, **headers)
        if reply.status == 404 and substatus(reply) == 1002:
            assert token
            best = max(self.model.seen[region, False], self.model.seen[region, True])
            assert self.epoch != self.model.epoch or best < self.checkpoint
            self.seen_anomalies.add("a token that no replica satisfies")
            if self.epoch != self.model.epoch:
                self.token = ""
            return
        assert reply.status in (200, 404), reply
        value = document(reply)["value"] if reply.status == 200 else None
        assert not token or self.epoch == self.model.epoch, "a token of another epoch was taken"
        allowed = self.model.allowed(key, level, self.checkpoint if token else 0)
        assert value in allowed, (level, key, value, allowed)
        self._name(key, level, value, token=bool(token))
        if token:
            self.token = self._merged(reply.headers["x-ms-session-token"])

    def _merged(self, told: str) -> str:
        """The client's next token: the higher one of the same epoch, as the SDK keeps it."""
        lsn, mine = (int(each.split("#")[1]) for each in (told, self.token))
        self.checkpoint = max(self.checkpoint, lsn)
        return told if lsn > mine else self.token

    def _name(self, key: str, level: str, value: int | None, *, token: bool) -> None:
        """Which anomaly it was, if any."""
        newest = next((each.value for each in reversed(self.model.log) if each.key == key), None)
        at = next((i + 1 for i, each in enumerate(self.model.log) if each.value == value), 0)
        weak = level in ("ConsistentPrefix", "Eventual") or (level == "Session" and not token)
        if value != newest:
            self.seen_anomalies.add(f"stale at {level}" + (" without a token" if level == "Session" else ""))
        if at > self.model.commit:
            self.seen_anomalies.add(f"dirty at {level} on {self.level}")
        if value in self.uncertain and at <= self.model.commit:
            self.seen_anomalies.add("a write reported as failed is durable")
        if weak and at < self.newest_read.get(key, 0):
            self.seen_anomalies.add("time goes back")
        self.newest_read[key] = at

    def fail_over(self) -> None:
        other = next(each for each in REGIONS if each != self.model.write)
        self.model.advance(self.engine.now)
        planned = self.random.random() < 0.5
        old = self.model.write
        if not planned:
            self.engine.admin.offline(old)
        lost = self.engine.admin.failover(other)
        head = len(self.model.log)
        kept = head if planned else self.model.seen[other, False]
        assert lost == head - kept
        if lost:
            self.model.epoch += 1
            self.seen_anomalies.add("lost writes")
            gone = {each.value for each in self.model.log[kept:]}
            if self.level == "Strong":
                assert not gone & set(self.acknowledged.values()), "an acknowledged write was lost at Strong"
            self.newest_read = {}
        del self.model.log[kept:]
        self.model.seen = {replica: min(seen, kept) for replica, seen in self.model.seen.items()}
        if planned:
            self.model.seen[other, False] = self.model.seen[other, True] = head
        self.model.write = other
        if not planned:
            self.engine.admin.online(old)
        self.model.advance(self.engine.now)


#: What each level of an account allows, and the lab has to show.
_REACHED: dict[str, set[str]] = {
    "Strong": {
        "dirty at Eventual on Strong",
        "dirty at BoundedStaleness on Strong",
        "a write reported as failed is durable",
        "stale at Eventual",
        "time goes back",
    },
    "BoundedStaleness": {
        "stale at BoundedStaleness",
        "dirty at BoundedStaleness on BoundedStaleness",
        "lost writes",
    },
    "Session": {
        "stale at Session without a token",
        "a token that no replica satisfies",
        "lost writes",
        "time goes back",
    },
    "ConsistentPrefix": {"stale at ConsistentPrefix", "time goes back", "lost writes"},
    "Eventual": {"stale at Eventual", "time goes back", "lost writes"},
}


@pytest.mark.parametrize("level", LEVELS)
def test_random_histories_stay_in_what_the_level_allows_and_reach_its_anomalies(level: str) -> None:
    reached: set[str] = set()
    for seed in range(60):
        reached |= History(level, seed).run(120)
    assert reached >= _REACHED[level], _REACHED[level] - reached
