"""Sessions in messages: one application property of a Service Bus message."""

from __future__ import annotations

from typing import Any

from azlatch.contracts.session_context import SessionContext
from azlatch.contracts.session_edge import SessionEdge
from azlatch.contracts.session_errors import SessionDamaged

PROPERTY = "azlatch-session"


def put_session(message: Any, context: SessionContext, edge: SessionEdge) -> int:
    """Lets a message carry a session, so that its receiver reads what its sender wrote.

    Returns:
        How many of the session's tokens had no room: the receiver's reads that may need them are refused.

    Raises:
        SessionOversized: see `SessionEdge.seal`.
    """
    if not len(context.tokens) and not context.left_out:
        return 0
    sealed = edge.seal(context)
    properties = dict(message.application_properties or {})
    properties[PROPERTY] = sealed.text
    message.application_properties = properties
    return sealed.left_out


def take_session(message: Any, edge: SessionEdge) -> SessionContext:
    """The session that a message carries, or a new one if it carries none.

    Raises:
        SessionRefused: it is not taken; see the subclasses.
    """
    # The SDK hands names and texts of a received message over as bytes.
    properties = message.application_properties or {}
    text = properties.get(PROPERTY, properties.get(PROPERTY.encode()))
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    if text is not None and not isinstance(text, str):
        raise SessionDamaged("the session of the message is no text")
    return edge.begin(text)
