"""A queue of the lab's Service Bus, with or without sessions: pure, and every method is given the time."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

from azlatch.errors import UsageError
from azlatch.lab.servicebus.message import ACTIVE, DEFERRED, SCHEDULED, Message

VENDOR = "com.microsoft:"
LOCK_LOST, SESSION_LOST = VENDOR + "message-lock-lost", VENDOR + "session-lock-lost"
Act = Literal["complete", "abandon", "defer", "dead-letter", "release"]


class BrokerError(Exception):
    """What the broker refuses, with the condition that the service names it by."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(text)
        self.condition = condition


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """What a queue is. `lock` is the lock duration; `duplicates` the window of duplicate detection, seconds.

    Raises:
        UsageError: a value is out of its range.
    """

    name: str
    session: bool = False
    lock: float = 60.0
    max_delivery: int = 10
    duplicates: float = 0.0

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > 260 or not self.name.isprintable() or "$" in self.name:
            raise UsageError(f"queue name {self.name!r}: use 1 to 260 printable characters without $")
        if not 0 < self.lock <= 300:
            raise UsageError(
                f"queue {self.name}: lock={self.lock:g}: give it more than 0 and up to 300 seconds"
            )
        if not 1 <= self.max_delivery <= 2_000:
            raise UsageError(f"queue {self.name}: max_delivery={self.max_delivery}: give it 1 to 2,000")
        if not 0 <= self.duplicates <= 604_800:
            raise UsageError(f"queue {self.name}: duplicates={self.duplicates:g}: give it 0 to 604,800 seconds")


@dataclass(slots=True)
class Session:
    """A session: its state, and who has it until when."""

    id: str
    state: bytes | None = None
    owner: object = None
    until: float = 0.0


class Queue:
    """Messages in order of their sequence numbers."""

    def __init__(self, settings: QueueSettings, random: Random, *, is_dead: bool = False) -> None:
        self.settings = settings
        self.has_sessions = settings.session and not is_dead
        self._random = random
        self._next = 1
        self.messages: dict[int, Message] = {}
        self.sessions: dict[str, Session] = {}
        self._seen: dict[object, float] = {}
        self.dead = None if is_dead else Queue(settings, random, is_dead=True)

    # What comes in.

    def send(self, message: Message, now: float) -> int:
        """Takes a message in, and gives its sequence number. Raises BrokerError."""
        if self.has_sessions and message.session is None:
            raise BrokerError("amqp:not-allowed", f"queue {self.settings.name} needs a session id")
        window = self.settings.duplicates
        if window and self.dead is not None and message.id is not None:
            self._seen = {key: at for key, at in self._seen.items() if at > now - window}
            if message.id in self._seen:
                return 0
            self._seen[message.id] = now
        message.sequence, message.enqueued = self._next, now
        self._next += 1
        due = message.scheduled
        message.state = SCHEDULED if due is not None and due > now else ACTIVE
        self.messages[message.sequence] = message
        return message.sequence

    def cancel(self, sequence: int) -> None:
        """Takes a scheduled message back. Raises BrokerError."""
        found = self.messages.get(sequence)
        if found is None or found.state != SCHEDULED:
            raise BrokerError(VENDOR + "message-not-found", f"no message {sequence} is scheduled")
        del self.messages[sequence]

    # What time does.

    def at(self, now: float) -> None:
        """Does what is due: locks end, scheduled messages are enqueued, old ones go."""
        for session in self.sessions.values():
            if session.owner is not None and session.until <= now:
                self._free(session)
        for message in list(self.messages.values()):
            due = message.scheduled
            if message.state == SCHEDULED and due is not None and due <= now:
                # It gets a new place: it is behind all that was enqueued before it.
                del self.messages[message.sequence]
                message.sequence, message.state, message.enqueued = self._next, ACTIVE, due
                self._next += 1
                self.messages[message.sequence] = message
            elif message.lock is not None and self._lock_end(message) <= now:
                self._again(message, now)
            elif message.lock is None and message.state != SCHEDULED and _ends(message) <= now:
                del self.messages[message.sequence]
        if self.dead is not None:
            self.dead.at(now)

    def next_event(self) -> float:
        """When `at` has something to do next."""
        times = [session.until for session in self.sessions.values() if session.owner is not None]
        for message in self.messages.values():
            if message.state == SCHEDULED and message.scheduled is not None:
                times.append(message.scheduled)
            elif message.lock is not None:
                times.append(self._lock_end(message))
            else:
                times.append(_ends(message))
        return min([*times, self.dead.next_event() if self.dead is not None else math.inf])

    def _lock_end(self, message: Message) -> float:
        # In a session the session's lock is the only one, and its end frees its messages.
        return math.inf if self.has_sessions else message.locked_until

    # Delivery.

    def take(self, owner: object, session: str | None, now: float, *, delete: bool) -> Message | None:
        """Delivers the next message to a receiver: locked for it, or gone from here. None if there is none."""
        for message in self.messages.values():
            if (
                message.state == ACTIVE
                and message.lock is None
                and (session is None or message.session == session)
            ):
                if delete:
                    del self.messages[message.sequence]
                else:
                    self._lock(message, owner, now)
                return message
        return None

    def deferred(self, owner: object, sequences: list[int], now: float, *, delete: bool) -> list[Message]:
        """Deferred messages by their numbers, locked or gone. Raises BrokerError if one is not there."""
        found = [self.messages.get(each) for each in sequences]
        if not all(each is not None and each.state == DEFERRED and each.lock is None for each in found):
            raise BrokerError(VENDOR + "message-not-found", f"not all of {sequences} are deferred here")
        taken = [each for each in found if each is not None]
        for message in taken:
            if delete:
                del self.messages[message.sequence]
            else:
                self._lock(message, owner, now)
        return taken

    def _lock(self, message: Message, owner: object, now: float) -> None:
        message.lock = uuid.UUID(int=self._random.getrandbits(128), version=4)
        message.locked_until = now + self.settings.lock
        message.owner = owner

    def peek(self, start: int, count: int, session: str | None) -> Iterator[Message]:
        """Up to `count` messages from a number on, whatever their state."""
        for message in sorted(self.messages.values(), key=lambda each: each.sequence):
            if count > 0 and message.sequence >= start and session in (None, message.session):
                count -= 1
                yield message

    # Settlement.

    def locked(self, token: uuid.UUID, now: float) -> Message:
        """The message that a token locks. Raises BrokerError if it does no more."""
        self.at(now)
        for message in self.messages.values():
            if message.lock == token:
                return message
        raise BrokerError(
            SESSION_LOST if self.has_sessions else LOCK_LOST, f"the lock {token} has ended, or never was"
        )

    def settle(self, token: uuid.UUID, act: Act, now: float, reason: str = "", description: str = "") -> None:
        """Settles a locked message. Raises BrokerError."""
        message = self.locked(token, now)
        if act == "complete":
            del self.messages[message.sequence]
        elif act == "dead-letter":
            self._bury(message, reason, description, now)
        elif act == "defer":
            message.delivery_count += 1
            message.lock, message.owner, message.state = None, None, DEFERRED
        elif act == "abandon":
            self._again(message, now)
        else:
            message.lock = message.owner = None

    def renew(self, token: uuid.UUID, now: float) -> float:
        """Renews a message's lock and gives its end. Raises BrokerError."""
        message = self.locked(token, now)
        message.locked_until = now + self.settings.lock
        return message.locked_until

    def gone(self, owner: object) -> None:
        """A link has ended: its session is free. Locks of messages outlive it, until they end."""
        for session in self.sessions.values():
            if session.owner is owner:
                self._free(session)

    def _again(self, message: Message, now: float) -> None:
        message.lock = message.owner = None
        message.delivery_count += 1
        if message.delivery_count >= self.settings.max_delivery and self.dead is not None:
            text = f"Message could not be consumed after {message.delivery_count} delivery attempts."
            self._bury(message, "MaxDeliveryCountExceeded", text, now)

    def _bury(self, message: Message, reason: str, description: str, now: float) -> None:
        if self.dead is None:
            raise BrokerError("amqp:not-allowed", "a dead-letter queue has none of its own")
        del self.messages[message.sequence]
        message.lock = message.owner = None
        message.state = ACTIVE
        message.application = {**message.application, "DeadLetterReason": reason}
        message.application["DeadLetterErrorDescription"] = description
        message.annotations.pop("x-opt-scheduled-enqueue-time", None)
        self.dead.send(message, now)

    # Sessions.

    def accept(self, session_id: str | None, owner: object, now: float) -> Session | None:
        """Gives a session to a link: the named one, or the next that has messages (None if there is none).

        Raises:
            BrokerError: another link has it.
        """
        self.at(now)
        if session_id is None:
            waiting = (each.session for each in self.messages.values() if each.state == ACTIVE)
            free = (each for each in waiting if each is not None and self._session(each).owner is None)
            session_id = next(free, None)
            if session_id is None:
                return None
        session = self._session(session_id)
        if session.owner is not None:
            raise BrokerError(VENDOR + "session-cannot-be-locked", f"session {session_id!r} is locked")
        session.owner, session.until = owner, now + self.settings.lock
        return session

    def held(self, session_id: str, owner: object, now: float) -> Session:
        """A session that a link has. Raises BrokerError if it has it no more."""
        self.at(now)
        session = self.sessions.get(session_id)
        if session is None or session.owner is None or session.owner is not owner:
            raise BrokerError(SESSION_LOST, f"the lock of session {session_id!r} has ended")
        return session

    def renew_session(self, session_id: str, owner: object, now: float) -> float:
        """Renews a session's lock and gives its end. Raises BrokerError."""
        session = self.held(session_id, owner, now)
        session.until = now + self.settings.lock
        return session.until

    def _session(self, session_id: str) -> Session:
        return self.sessions.setdefault(session_id, Session(session_id))

    def _free(self, session: Session) -> None:
        session.owner = None
        for message in list(self.messages.values()):
            if message.session == session.id and message.lock is not None:
                self._again(message, session.until)


def _ends(message: Message) -> float:
    return math.inf if message.ttl is None else message.enqueued + message.ttl
