"""What `queuebroker.aio` gives, as type checkers see it. Read by them, never run.

A line that must be refused carries the error it must give as an ignore: the checkers
are set to complain of an ignore that nothing needs.
"""

from __future__ import annotations

from typing import assert_type

from queuebroker import MessageQueue, QueueBroker, Status, aio
from queuebroker.aio.socket_broker import SocketQueueBroker as SocketFace
from queuebroker.sockets import SocketQueueBroker


async def meet(broker: aio.QueueBroker, sure: bool) -> None:
    assert_type(await broker.accept(1), aio.MessageQueue)
    assert_type(await broker.connect("name", 1), aio.MessageQueue | None)
    assert_type(await broker.connect("name", 1, required=True), aio.MessageQueue)
    assert_type(await broker.connect("name", 1, required=sure), aio.MessageQueue | None)
    async for queue in broker.accept_iter(1):
        assert_type(queue, aio.MessageQueue)
    async with broker as same:
        assert_type(same, aio.QueueBroker)


async def talk(queue: aio.MessageQueue) -> None:
    assert_type(await queue.receive(), bytes)
    assert_type(await queue.receive_many(), list[bytes])
    assert_type(await queue.receive_into(bytearray(1)), int)
    assert_type(await queue.send_many([b"x", bytearray(1)], timeout=1), int)
    assert_type(queue.receive_nowait(), bytes)
    assert_type(queue.status, Status)
    assert_type(await aio.receive_any([queue]), tuple[aio.MessageQueue, bytes])
    await queue.send(memoryview(b"x"), 0, 1)
    await queue.send("text")  # type: ignore[arg-type]
    async for message in queue:
        assert_type(message, bytes)


def wrapped(
    queue: MessageQueue, broker: QueueBroker, socket_broker: SocketQueueBroker
) -> None:
    assert_type(aio.wrap(queue), aio.MessageQueue)
    assert_type(aio.wrap(broker), aio.QueueBroker)
    assert_type(aio.wrap(socket_broker), SocketFace)
    assert_type(aio.wrap(queue).queue, MessageQueue)
    assert_type(aio.wrap(broker).broker, QueueBroker)
    assert_type(aio.wrap(socket_broker).broker, SocketQueueBroker)
    aio.wrap(None)  # type: ignore[call-overload]
