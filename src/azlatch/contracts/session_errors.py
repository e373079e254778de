"""What can be wrong with a session, and whose job each is.

::

    SessionError (LatchError)
    ├── BehindSession       the replicas do not have what this session has seen        who: service
    ├── SessionIncomplete   the session does not know what this read has to see        who: caller
    ├── SessionNotSent      the SDK sent the read without the session's token          who: operator
    └── SessionRefused      what arrived from outside is not taken                     who: caller
        ├── SessionDamaged      it is no session, or it was changed on its way         who: caller
        ├── SessionForeign      it is of another account or container                  who: caller
        ├── SessionOversized    it is larger than the limit                            who: caller
        ├── SessionKeyUnknown   it is signed with a key that is not among the known    who: operator
        └── SessionExpired      it is older than it may be                             who: caller

No message repeats what came from outside.
"""

from __future__ import annotations

from typing import ClassVar

from azlatch.errors import LatchError, Who


class SessionError(LatchError):
    """Base of what can be wrong with a session."""

    code = "session"
    who: ClassVar[Who] = "caller"


class BehindSession(SessionError):
    """No replica that was asked has all that this session has seen. It says nothing about the item: not absent.

    It ends when replication catches up. It does not end where writes were lost in a failover, the container was
    made again, or the token is of another container.

    Attributes:
        waited: seconds from the first try to this error.
        attempts: how often the service was asked.
    """

    code = "behind-session"
    who = "service"
    kind: ClassVar[str] = "behind_session"

    def __init__(self, message: str, *, waited: float = 0.0, attempts: int = 0) -> None:
        super().__init__(message)
        self.waited = waited
        self.attempts = attempts


class SessionIncomplete(SessionError):
    """The session does not know how far this read has to see, because something had to be left out of it."""

    code = "session-incomplete"


class SessionNotSent(SessionError):
    """The SDK sent a read without the session's token, so that its answer is worth no more than without one."""

    code = "session-not-sent"
    who = "operator"


class SessionRefused(SessionError):
    """Base of the reasons not to take a session that came from outside."""

    code = "session-refused"


class SessionDamaged(SessionRefused):
    """It is no session, or it was changed on its way."""

    code = "session-damaged"


class SessionForeign(SessionRefused):
    """It is of another account, or of a container that is not expected here."""

    code = "session-foreign"


class SessionOversized(SessionRefused):
    """It is larger than the limit."""

    code = "session-oversized"


class SessionKeyUnknown(SessionRefused):
    """It is signed with a key that is not known here: a rotation that not everyone has seen, or a forgery."""

    code = "session-key-unknown"
    who = "operator"


class SessionExpired(SessionRefused):
    """It is older than its sender allowed."""

    code = "session-expired"
