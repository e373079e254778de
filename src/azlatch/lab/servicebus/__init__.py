"""A local Service Bus: a broker that the unmodified SDK talks to over AMQP 1.0.

The engine (`queue`, `message`) is given the time and does no I/O; `codec` is AMQP's types as pure functions;
`connection` carries frames between them and a socket; `lab` is all of it, in a thread of its own.
"""

from __future__ import annotations

from azlatch.lab.servicebus.lab import ServiceBusLab
from azlatch.lab.servicebus.queue import QueueSettings

__all__ = ["QueueSettings", "ServiceBusLab"]
