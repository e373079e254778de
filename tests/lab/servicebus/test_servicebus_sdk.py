"""The lab's Service Bus through the real SDK, sync and asyncio."""

from __future__ import annotations

import asyncio
import datetime
import gc
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.aio import ServiceBusClient as AsyncClient
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusConnectionError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from azlatch.lab.cosmos.clock import LabClock
from azlatch.lab.servicebus import QueueSettings, ServiceBusLab

QUEUES = [
    QueueSettings("latches", session=True, lock=30),
    QueueSettings("work", lock=30, max_delivery=2),
    QueueSettings("once", duplicates=600),
]
WAIT = 10


@pytest.fixture
def lab() -> Iterator[ServiceBusLab]:
    with ServiceBusLab(QUEUES, clock=LabClock(manual=True, start=float(int(time.time())))) as running:
        yield running


@pytest.fixture
def client(lab: ServiceBusLab) -> Iterator[ServiceBusClient]:
    with ServiceBusClient.from_connection_string(lab.connection_string, retry_total=0) as made:
        yield made


def send(client: ServiceBusClient, queue: str, *messages: Any) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(list(messages))


def receiver(client: ServiceBusClient, queue: str = "work", **options: Any) -> Any:
    return client.get_queue_receiver(queue, keep_alive=0, **options)


def one(receiver: Any) -> Any:
    (message,) = receiver.receive_messages(1, max_wait_time=WAIT)
    return message


def test_send_receive_complete(client: ServiceBusClient) -> None:
    """What is sent arrives in order, with all that it carries, and is gone once completed."""
    first = ServiceBusMessage("a", message_id="1", subject="s", application_properties={"n": 1, "t": "x"})
    send(client, "work", first, ServiceBusMessage("b"))
    with receiver(client) as it:
        message = one(it)
        assert (str(message), message.message_id, message.subject) == ("a", "1", "s")
        assert message.application_properties == {b"n": 1, b"t": b"x"}
        assert (message.sequence_number, message.delivery_count) == (1, 0)
        it.complete_message(message)
        message = one(it)
        assert str(message) == "b"
        it.complete_message(message)
        assert it.peek_messages() == []


def test_a_large_message_in_several_frames(client: ServiceBusClient) -> None:
    """A body larger than a frame arrives as it was."""
    body = bytes(range(256)) * 1_000
    send(client, "work", ServiceBusMessage(body))
    with receiver(client) as it:
        message = one(it)
        assert b"".join(message.body) == body
        it.complete_message(message)


def test_abandon_and_max_delivery(client: ServiceBusClient) -> None:
    """An abandoned message comes again, and after the most deliveries is a dead letter with the reason."""
    send(client, "work", ServiceBusMessage("a"))
    with receiver(client) as it:
        it.abandon_message(one(it))
        message = one(it)
        assert message.delivery_count == 1
        it.abandon_message(message)
    with receiver(client, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as it:
        assert one(it).dead_letter_reason == "MaxDeliveryCountExceeded"


def test_dead_letter(client: ServiceBusClient) -> None:
    """A dead letter carries its reason and description."""
    send(client, "work", ServiceBusMessage("a"))
    with receiver(client) as it:
        it.dead_letter_message(one(it), "why", "because")
    with receiver(client, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as it:
        message = one(it)
        assert (message.dead_letter_reason, message.dead_letter_error_description) == ("why", "because")
        it.complete_message(message)
        assert it.peek_messages() == []


def test_defer(client: ServiceBusClient) -> None:
    """A deferred message comes by its number only, and is settled by way of the management link."""
    send(client, "work", ServiceBusMessage("a"))
    with receiver(client) as it:
        message = one(it)
        it.defer_message(message)
        (again,) = it.receive_deferred_messages(message.sequence_number)
        it.complete_message(again)
        assert it.peek_messages(sequence_number=1) == []


def test_receive_and_delete(client: ServiceBusClient) -> None:
    """What is received in this mode is gone."""
    send(client, "work", ServiceBusMessage("a"))
    with receiver(client, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as it:
        assert str(one(it)) == "a"
        assert it.peek_messages(sequence_number=1) == []


def test_locks_end_and_are_renewed(lab: ServiceBusLab, client: ServiceBusClient) -> None:
    """A renewed lock outlives its first end; what it locked comes again once it has ended."""
    send(client, "work", ServiceBusMessage("a"))
    with receiver(client) as it:
        message = one(it)
        first = message.locked_until_utc
        lab.clock.advance(20)
        assert it.renew_message_lock(message) - first == datetime.timedelta(seconds=20)
        lab.clock.advance(31)
        with pytest.raises(MessageLockLostError):
            it.complete_message(message)
        assert one(it).delivery_count == 1


def test_schedule_and_cancel(lab: ServiceBusLab, client: ServiceBusClient) -> None:
    """A scheduled message comes when it is time; a cancelled one never."""
    due = datetime.datetime.fromtimestamp(lab.clock.now() + 60, datetime.UTC)
    with client.get_queue_sender("work") as sender:
        _, second = sender.schedule_messages([ServiceBusMessage("a"), ServiceBusMessage("b")], due)
        sender.cancel_scheduled_messages(second)
    with receiver(client) as it:
        assert [str(each) for each in it.peek_messages(5)] == ["a"]
        lab.clock.advance(61)
        assert str(one(it)) == "a"


def test_duplicates(client: ServiceBusClient) -> None:
    """A message id that was there within the window is taken for the same message."""
    send(client, "once", ServiceBusMessage("a", message_id="1"))
    send(client, "once", ServiceBusMessage("b", message_id="1"))
    send(client, "once", ServiceBusMessage("c", message_id="2"))
    with receiver(client, "once") as it:
        assert [str(each) for each in it.peek_messages(5)] == ["a", "c"]


def test_a_session_is_exclusive(client: ServiceBusClient) -> None:
    """A second receiver is refused while the first has the session, and gets it after."""
    with receiver(client, "latches", session_id="k"):
        with pytest.raises(SessionCannotBeLockedError):
            receiver(client, "latches", session_id="k").__enter__()
        with receiver(client, "latches", session_id="other") as other:
            assert other.session.session_id == "other"
    with receiver(client, "latches", session_id="k") as it:
        assert it.session.session_id == "k"


def test_session_state_and_renewal(lab: ServiceBusLab, client: ServiceBusClient) -> None:
    """State outlives the link; a renewal counts from when it was made; a session that ended is lost."""
    with receiver(client, "latches", session_id="k") as it:
        assert it.session.get_state() is None
        it.session.set_state(b"nonce")
        first = it.session.locked_until_utc
        lab.clock.advance(20)
        assert it.session.renew_lock() - first == datetime.timedelta(seconds=20)
    with receiver(client, "latches", session_id="k") as it:
        assert it.session.get_state() == b"nonce"
        lab.clock.advance(31)
        with pytest.raises(SessionLockLostError):
            it.session.renew_lock()


def test_sessions_keep_their_messages_apart(client: ServiceBusClient) -> None:
    """A receiver gets its session's messages alone, in order; the next available is one that has messages."""
    send(client, "latches", *[ServiceBusMessage(f"{each}", session_id=each[0]) for each in ("x1", "y1", "x2")])
    with receiver(client, "latches", session_id="x") as it:
        for expected in ("x1", "x2"):
            message = one(it)
            assert str(message) == expected
            it.complete_message(message)
    with receiver(client, "latches", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=WAIT) as it:
        assert it.session.session_id == "y"


def test_no_session_available(lab: ServiceBusLab, client: ServiceBusClient) -> None:
    """Without messages there is no next session, and that is said after the time that was given."""
    lab.clock.advance(0)
    with ServiceBusLab(QUEUES) as real:
        with ServiceBusClient.from_connection_string(real.connection_string, retry_total=0) as other:
            with pytest.raises(OperationTimeoutError):
                receiver(other, "latches", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1).__enter__()


def test_a_queue_that_is_not_there(client: ServiceBusClient) -> None:
    """A queue that is not there is said to be missing."""
    with pytest.raises(MessagingEntityNotFoundError):
        client.get_queue_sender("none").__enter__()


def test_a_message_without_its_session(client: ServiceBusClient) -> None:
    """A queue with sessions refuses a message that has none."""
    with pytest.raises(ServiceBusError):
        send(client, "latches", ServiceBusMessage("a"))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the SDK leaves its socket
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_dropped_connections(lab: ServiceBusLab) -> None:
    """A session is free once its connection is dropped, and the SDK sends over a new one."""
    with ServiceBusClient.from_connection_string(lab.connection_string, retry_backoff_factor=0.01) as client:
        held = receiver(client, "latches", session_id="k").__enter__()
        with client.get_queue_sender("work") as sender:
            assert lab.drop_connections() >= 1
            with pytest.raises(ServiceBusConnectionError):
                held.session.renew_lock()
            sender.send_messages(ServiceBusMessage("a"))
        held.close()
        with receiver(client, "latches", session_id="k") as it:
            assert it.session.session_id == "k"
    del held, it, sender
    gc.collect()  # What the SDK left open is found here, and not in another test.


def test_asyncio(lab: ServiceBusLab) -> None:
    """The asyncio client sends, receives, settles, renews, and holds a session."""

    async def run() -> None:
        async with AsyncClient.from_connection_string(lab.connection_string, retry_total=0) as client:
            async with client.get_queue_sender("work") as sender:
                await sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
            async with client.get_queue_receiver("work", keep_alive=0) as it:
                (message,) = await it.receive_messages(1, max_wait_time=WAIT)
                await it.renew_message_lock(message)
                await it.complete_message(message)
                (message,) = await it.receive_messages(1, max_wait_time=WAIT)
                await it.dead_letter_message(message, "why")
            async with client.get_queue_receiver("latches", session_id="k", keep_alive=0) as it:
                await it.session.set_state(b"n")
                assert await it.session.get_state() == b"n"
                await it.session.renew_lock()
                with pytest.raises(SessionCannotBeLockedError):
                    await client.get_queue_receiver("latches", session_id="k").__aenter__()

    asyncio.run(run())


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">IBBH", 2**31, 2, 0, 0),
        b"AMQP\x00\x01\x00\x00" + struct.pack(">IBBH", 40, 2, 0, 0) + b"\x00" * 32,
        b"AMQP\x00\x01\x00\x00"
        + struct.pack(">IBBH", 20, 2, 0, 0)
        + b"\x00\x53\x10\xf0\x00\x00\x00\x05\xff\xff\xff\xff",
    ],
)
def test_what_is_no_amqp_ends_its_connection_alone(
    lab: ServiceBusLab, client: ServiceBusClient, data: bytes
) -> None:
    """Bad frames end the connection that sent them; the next client is served."""
    with socket.create_connection(("127.0.0.1", lab.port), timeout=WAIT) as raw:
        raw.sendall(data)
        while raw.recv(4_096):
            pass
    send(client, "work", ServiceBusMessage("a"))
    assert lab.is_alive
