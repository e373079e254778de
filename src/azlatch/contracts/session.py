"""What a session has seen: for each container, one token for each physical partition that it met.

A token is opaque but for two things that the SDK itself reads: a header is a list of tokens joined by commas,
and what precedes a token's colon names its physical partition. Two tokens of one partition are merged by the
SDK's own function; LSNs are never compared here, because a newer token may have a lower one.

Each token is kept with the feed ranges that it was seen for, so that a read carries the tokens that speak of
what it reads, and no others. Where that cannot be told, the token is carried with every read of the container:
that is stronger, never weaker.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from azlatch.contracts.session_errors import SessionDamaged, SessionIncomplete
from azlatch.errors import UsageError

#: A feed range of the SDK as canonical JSON; None is the whole container.
Scope = str
Merge = Callable[[str, str], str]
Overlap = Callable[[Scope, Scope], bool]

#: Containers of one session.
MOST_CONTAINERS = 32
#: Physical partitions of one container in one session.
MOST_RANGES = 4_096
#: Scopes of one token, before they are widened.
MOST_SCOPES = 8
#: Characters of one token, and of what is sent with one request.
MOST_TOKEN = 2_048
MOST_SENT = 8_192

# What `VectorSessionToken.create` of azure-cosmos 4.17.1 reads; all else becomes an error deep in the SDK.
_TOKEN = re.compile(r"[A-Za-z0-9]{1,20}:-?[0-9]{1,19}#-?[0-9]{1,19}(#[0-9]{1,10}=-?[0-9]{1,19})*")


def split_tokens(header: str) -> list[str]:
    """The tokens of a header.

    Raises:
        SessionDamaged: one of them is none that the SDK can use, or there are too many.
    """
    if len(header) > MOST_RANGES * 64:
        raise SessionDamaged(f"the session token has {len(header)} characters, more than any service writes")
    found = [each.strip() for each in header.split(",")]
    if len(found) > MOST_RANGES:
        raise SessionDamaged(f"the session token has {len(found)} parts: at most {MOST_RANGES} are taken")
    for each in found:
        if len(each) > MOST_TOKEN or not _TOKEN.fullmatch(each):
            raise SessionDamaged("the session token is none: it has to read RANGE:VERSION#LSN#REGION=LSN...")
    return found


@dataclass(frozen=True, slots=True)
class RangeToken:
    """The newest token of one physical partition, and what it was seen for; None is anything.

    `touched` orders tokens by their last use.
    """

    text: str
    scopes: tuple[Scope, ...] | None
    touched: int

    @property
    def range_id(self) -> str:
        """The physical partition's."""
        return self.text.partition(":")[0]


@dataclass(slots=True)
class ContainerTokens:
    """What was seen of one container.

    Attributes:
        rid: the container's own id, which changes when it is deleted and made again; None while unknown.
        ranges: the tokens by their physical partition.
        left_out: how many tokens had no room on the way here.
        lost: why nothing can be promised of it any more, or None.
    """

    rid: str | None = None
    ranges: dict[str, RangeToken] = field(default_factory=dict)
    left_out: int = 0
    lost: str | None = None


class SessionTokens:
    """The tokens of one session, for one account. Every method may be called from any thread."""

    def __init__(self, merge: Merge, overlap: Overlap) -> None:
        self._merge = merge
        self._overlap = overlap
        self._lock = threading.RLock()
        self._containers: dict[str, ContainerTokens] = {}
        self._count = 0

    @property
    def changes(self) -> int:
        """Grows whenever something is learned."""
        return self._count

    @property
    def left_out(self) -> int:
        """How many tokens had no room on the way here."""
        with self._lock:
            return sum(each.left_out for each in self._containers.values())

    def __len__(self) -> int:
        with self._lock:
            return sum(len(each.ranges) for each in self._containers.values())

    def copy(self) -> dict[str, ContainerTokens]:
        """What is known, container by container."""
        with self._lock:
            return {link: replace(each, ranges=dict(each.ranges)) for link, each in self._containers.items()}

    # -- learning ------------------------------------------------------------------------------------

    def learn(self, link: str, header: str, scope: Scope | None, *, rid: str | None = None) -> None:
        """Adds what a token says that came with an answer about `scope`; None is the whole container.

        Raises:
            SessionDamaged: it is no token that the SDK can use.
        """
        found = split_tokens(header)
        with self._lock:
            container = self._container(link, rid)
            for text in found:
                self._add(container, text, None if scope is None else (scope,))

    def absorb(self, link: str, other: ContainerTokens) -> None:
        """Adds what another session has seen of a container."""
        with self._lock:
            container = self._container(link, other.rid)
            container.left_out += other.left_out
            container.lost = container.lost or other.lost
            for each in sorted(other.ranges.values(), key=lambda each: each.touched):
                self._add(container, each.text, each.scopes)

    def lose(self, link: str, reason: str) -> None:
        """From now on nothing is promised of a container, and reads of it say so."""
        with self._lock:
            self._count += 1
            self._container(link, None).lost = reason

    def forget(self, link: str | None = None) -> None:
        """Gives up what was seen of a container, or of all: a new session begins, without what was promised."""
        with self._lock:
            self._count += 1
            if link is None:
                self._containers.clear()
            else:
                self._containers.pop(link, None)

    def crowded(self, link: str) -> list[RangeToken]:
        """The tokens that were seen for more scopes than are kept; `widen` each."""
        with self._lock:
            container = self._containers.get(link)
            ranges = container.ranges.values() if container else ()
            return [each for each in ranges if each.scopes is not None and len(each.scopes) > MOST_SCOPES]

    def widen(self, link: str, range_id: str, scope: Scope | None) -> None:
        """Lets one scope stand for all those of a token that it covers."""
        with self._lock:
            known = self._containers[link].ranges[range_id]
            scopes = None if scope is None else (scope,)
            self._containers[link].ranges[range_id] = replace(known, scopes=scopes)

    def _container(self, link: str, rid: str | None) -> ContainerTokens:
        container = self._containers.get(link)
        if container is None:
            if len(self._containers) >= MOST_CONTAINERS:
                raise UsageError(
                    f"a session has at most {MOST_CONTAINERS} containers: forget one of them first"
                )
            container = self._containers[link] = ContainerTokens(rid)
        if rid is not None and container.rid not in (None, rid):
            self._count += 1
            container.ranges.clear()
            container.lost = "the container was deleted and made again"
        container.rid = rid or container.rid
        return container

    def _add(self, container: ContainerTokens, text: str, scopes: tuple[Scope, ...] | None) -> None:
        self._count += 1
        new = RangeToken(text, scopes, self._count)
        known = container.ranges.get(new.range_id)
        if known is None:
            if len(container.ranges) >= MOST_RANGES:
                container.lost = f"it has more than {MOST_RANGES} physical partitions"
                return
            container.ranges[new.range_id] = new
            return
        merged = known.text
        if text != known.text:
            try:
                merged = split_tokens(self._merge(known.text, text))[0]
            except Exception:  # noqa: BLE001 - whatever the SDK makes of two tokens that do not go together
                container.lost = "the SDK cannot merge two tokens of one physical partition"
                return
        both = None if known.scopes is None or scopes is None else tuple(dict.fromkeys(known.scopes + scopes))
        container.ranges[new.range_id] = RangeToken(merged, both, self._count)

    # -- asking --------------------------------------------------------------------------------------

    def needed(self, link: str, target: Scope | None) -> str:
        """What a read of `target` has to carry, "" if the session has seen nothing of it.

        Raises:
            SessionIncomplete: that is not known, or it is too much for one request.
        """
        with self._lock:
            container = self._containers.get(link)
            if container is None:
                return ""
            if container.lost is not None:
                raise SessionIncomplete(
                    f"nothing can be promised of {link}: {container.lost}; forget() begins a new session"
                )
            found = [each for each in container.ranges.values() if self._speaks_of(each, target)]
            if container.left_out and (target is None or not found):
                raise SessionIncomplete(
                    f"{container.left_out} session tokens of {link} had no room on their way here, and this "
                    "read may need one of them; give them more room, or forget() to begin a new session"
                )
        header = ",".join([each.text for each in found])
        if len(header) > MOST_SENT:
            raise SessionIncomplete(
                f"this read of {link} needs {len(found)} session tokens, {len(header)} bytes of at most "
                f"{MOST_SENT}: read by partition key instead"
            )
        return header

    def _speaks_of(self, token: RangeToken, target: Scope | None) -> bool:
        if token.scopes is None or target is None or target in token.scopes:
            return True
        return any(self._overlap(each, target) for each in token.scopes)
