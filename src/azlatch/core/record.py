"""One record per name, changed only by compare-and-swap: the rules R1 to R6, F1, B1 and B2.

For stores that offer a conditional write and nothing else (SQLite, Cosmos DB, memory). Every function
here takes the record as it was read and returns the record to swap in, or why not; the store does the
swap on the version it read. None of them asks for the time: `sent` comes in, counted by the caller from
before its request went out.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from azlatch.core.instance import Instance

Life = Literal["alive", "dead", "unknown"]

#: Fences of one epoch, as a power of two. Fences stay below 2**53, which JSON carries exactly, until 2248.
EPOCH_BITS = 10
#: A power loss can forget the commits of half a minute, which this leaves room for: 4 million fences.
EPOCHS_PER_BOOT = 4_096

State = Literal["held", "free", "broken"]
Takeover = Literal["holder-died", "rebooted", "expired", "observed"]


class Triple(NamedTuple):
    """What a contender watches; any change of it, to a lower beat too, means that someone is alive."""

    fence: int
    nonce: str
    beat: int


class Record(NamedTuple):
    """What the store keeps for one name.

    `beat_at` is the holder's clock before it sent its last beat; `boot` and `time_namespace` say which
    clock that is ("" where unknown). `member` is the liveness id of the holder in this store. `previous`
    is the nonce that a break replaced, so that its holder can tell broken from stolen. `since` is wall
    time, for people only.
    """

    name: str
    fence: int
    nonce: str
    beat: int
    ttl: float
    mode: str
    state: State
    version: int
    boot: str
    time_namespace: str
    beat_at: float
    member: str
    holder: Instance
    since: float
    note: str
    previous: str
    breaker: str
    reason: str

    @property
    def triple(self) -> Triple:
        return Triple(self.fence, self.nonce, self.beat)


class Observation(NamedTuple):
    """A triple that a contender has read, and its own clock after the first such read (R2)."""

    triple: Triple
    first_seen: float


class Claim(NamedTuple):
    """One request for a grant.

    The nonce is fresh for every grant and the same for every resend of one request, so that a reply that
    was lost can be told apart (R5). `sent` is the claimant's clock before the first of those resends.
    `queue` asks the store to keep a place in line when the name is held; without `fenced` the grant needs
    no fence, which saves some stores a request.
    """

    name: str
    nonce: str
    ttl: float
    sent: float
    now: float
    wall: float
    holder: Instance
    queue: bool
    observation: Observation | None
    fenced: bool = True


class Grant(NamedTuple):
    """A name granted under a nonce. `version` is the store's version of the grant, `fence` None without one."""

    name: str
    nonce: str
    fence: int | None
    ttl: float
    version: int


class Evidence(NamedTuple):
    """What the store can tell of the present holder, without any clock being compared across machines.

    `age` is seconds since the last beat where the store's or the machine's own clock tells, else None.
    `gone` names a proof that the holder has ended, else None.
    """

    age: float | None = None
    gone: Takeover | None = None


NO_EVIDENCE = Evidence()


def evidence_of(record: Record, life: Life, boot: str, time_namespace: str, now: float) -> Evidence:
    """What one machine's locks and clock tell of a holder (R3, R4).

    Args:
        record: the record of a name that is not free.
        life: what the holder's liveness lock says; "unknown" counts as alive.
        boot: this process's boot id, "" where it cannot be told.
        time_namespace: which CLOCK_BOOTTIME this process reads, "" where it cannot be told.
        now: that clock.
    """
    if life == "dead":
        return Evidence(gone="holder-died")
    if not record.boot or not boot:
        return NO_EVIDENCE
    if record.boot != boot:
        # A lock that is held is stronger than a boot id that a sandbox makes up.
        return NO_EVIDENCE if life == "alive" else Evidence(gone="rebooted")
    if record.time_namespace and record.time_namespace == time_namespace and now >= record.beat_at:
        return Evidence(age=now - record.beat_at)
    return NO_EVIDENCE


def takeover(record: Record, claim: Claim, evidence: Evidence) -> Takeover | None:
    """Says by which rule a record that is not free may be taken, or None: it may not (R2, R3, R4)."""
    if evidence.gone is not None:
        return evidence.gone
    if aged(record, evidence):
        return "expired"
    if watched(record, claim):
        return "observed"
    return None


def aged(record: Record, evidence: Evidence) -> bool:
    """R3: by one clock that holder and contender share, the record's own ttl has passed."""
    return evidence.age is not None and evidence.age > record.ttl


def watched(record: Record, claim: Claim) -> bool:
    """R2: the same triple, read twice, the record's own ttl apart on the contender's clock."""
    seen = claim.observation
    return seen is not None and seen.triple == record.triple and claim.now - seen.first_seen >= record.ttl


def observe(before: Observation | None, triple: Triple, after: float) -> Observation:
    """Notes a read that returned at `after`; any other triple restarts the count (R2)."""
    if before is not None and before.triple == triple:
        return before
    return Observation(triple, after)


def is_own(record: Record, nonce: str) -> bool:
    """Whether the record is the grant of this nonce: the way to settle an unknown outcome (R5)."""
    return record.nonce == nonce and record.state == "held"


def settled(record: Record | None, basis: int | None) -> bool:
    """Whether a write of unknown outcome, whose nonce is not in the record, can never land any more (R5).

    Its absence proves nothing by itself: only a version newer than the one that it was conditional on does.
    """
    return record is not None and basis is not None and record.version > basis


def next_epoch(epoch: int, boot_before: str, boot: str, cold: bool, now_ms: int) -> int:
    """The epoch to grant under: raised wherever grants may have been forgotten (F3).

    That is so after a boot, where the boot cannot be told, and when nobody else has the store open: only
    then can an older copy of it have been put in place, or a new one made. An epoch is a time, milliseconds
    since 1970, so that it is above all that such a copy has forgotten; where the clock does not tell, it
    still rises, after a boot by more than a power loss can have cost.
    """
    same_boot = boot_before == boot != ""
    if same_boot and not cold:
        return epoch
    return max(epoch + (1 if same_boot else EPOCHS_PER_BOOT), now_ms)


def epoch_floor(epoch: int) -> int:
    """A fence that no grant of an earlier epoch has exceeded: nobody grants 1,024 times a millisecond."""
    return epoch << EPOCH_BITS


def next_fence(record: Record | None, floor: int) -> int:
    """A fence above every fence of this name: no record means no knowledge, never 0 (F1).

    `floor` is a fence that no grant of a name without a record has exceeded.
    """
    return max(record.fence, floor) + 1 if record is not None else floor + 1


def granted(
    record: Record | None, claim: Claim, floor: int, boot: str, time_namespace: str, member: str
) -> Record:
    """The record that grants the claim: the fence rises in the same write (F1)."""
    broken = record is not None and record.previous
    return Record(
        name=claim.name,
        fence=next_fence(record, floor),
        nonce=claim.nonce,
        beat=0,
        ttl=claim.ttl,
        mode="own",
        state="held",
        version=record.version + 1 if record is not None else 1,
        boot=boot,
        time_namespace=time_namespace,
        beat_at=claim.now,
        member=member,
        holder=claim.holder,
        since=claim.wall,
        note="",
        # Who was broken may still be told so, even when the name has a new holder.
        previous=record.previous if record is not None and broken else "",
        breaker=record.breaker if record is not None and broken else "",
        reason=record.reason if record is not None and broken else "",
    )


def renewed(record: Record, nonce: str, sent: float) -> Record | None:
    """The record with its beat raised, or None: this grant is not the holder any more (R1)."""
    if not is_own(record, nonce):
        return None
    return record._replace(beat=record.beat + 1, beat_at=max(record.beat_at, sent), version=record.version + 1)


def why_gone(record: Record | None, nonce: str) -> Literal["broken", "stolen"]:
    """Why a grant is not the holder any more."""
    return "broken" if record is not None and record.previous == nonce else "stolen"


def released(record: Record, nonce: str) -> Record | None:
    """The record swapped to free, or None where another grant has it: then nothing is done (R6).

    A grant that was broken and has noticed frees the name too: that is its acknowledgement (B2).
    """
    if is_own(record, nonce):
        return record._replace(
            state="free", note="", previous="", breaker="", reason="", version=record.version + 1
        )
    if record.state == "broken" and record.previous == nonce:
        return record._replace(state="free", version=record.version + 1)
    return None


def broken(record: Record, *, nonce: str, by: str, reason: str, sent: float, now: bool) -> Record:
    """The record after an operator's break (B1).

    The nonce is replaced, so that no renewal in flight reads back as its own. The beat is raised, so that
    the ttl counts from the break (B2). With `now` the name is free at once, and only gates protect.
    """
    return record._replace(
        nonce=nonce,
        previous=record.nonce if record.state == "held" else record.previous,
        beat=record.beat + 1,
        beat_at=sent,
        state="free" if now else "broken",
        breaker=by,
        reason=reason,
        version=record.version + 1,
    )


def noted(record: Record, nonce: str, note: str) -> Record | None:
    """The record with the holder's note, or None: this grant is not the holder any more."""
    if not is_own(record, nonce):
        return None
    return record._replace(note=note, version=record.version + 1)
