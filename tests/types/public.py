"""What the public names give, as type checkers see it. Read by them, never run.

A line that must be refused carries the error it must give as an ignore: the checkers
are set to complain of an ignore that nothing needs.
"""

from __future__ import annotations

from typing import Any, assert_type

import attrs

from queuebroker import (
    Broker,
    BrokerManager,
    Channel,
    CircularBufferQueue,
    DisconnectedError,
    DisconnectedQueueError,
    IncompleteReadError,
    MessageQueue,
    Observer,
    Operation,
    PayloadError,
    QueueBroker,
    Reason,
    Stats,
    Status,
    Task,
    TypedQueue,
    current_broker,
    default_manager,
)


@attrs.frozen
class Reading:
    sensor: str
    celsius: float


def naming(observer: Observer) -> None:
    assert_type(default_manager(), BrokerManager)
    with BrokerManager(observer=observer) as manager:
        assert_type(manager, BrokerManager)
        assert_type(manager.names(), list[str])
        assert_type(manager.get("name"), Broker | None)
        with QueueBroker("name", manager=manager, capacity=2) as broker:
            assert_type(broker, QueueBroker)
            assert_type(broker.name, str)
            assert_type(broker.closed, bool)
            assert_type(broker.waiting_accepts(), dict[int, int])
            assert_type(broker.waiting_connects(), dict[int, int])
            assert_type(broker.outgoing(), dict[tuple[str, int], int])


def meeting(queues: QueueBroker, channels: Broker) -> None:
    assert_type(queues.accept(1), MessageQueue)
    assert_type(queues.accept(1, timeout=2, capacity=3, exclusive=True), MessageQueue)
    assert_type(channels.accept(1, timeout=None), Channel)
    for queue in queues.accept_iter(1):
        assert_type(queue, MessageQueue)
    for channel in channels.accept_iter(1):
        assert_type(channel, Channel)
    queues.accept(1, 2)  # type: ignore[call-arg] # settings go by name


def messages(queue: MessageQueue) -> None:
    queue.send(b"x")
    queue.send(bytearray(b"xyz"), 1, 2, timeout=0.5)
    queue.send(memoryview(b"x"))
    assert_type(queue.receive(), bytes)
    assert_type(queue.receive(timeout=0.5), bytes)
    assert_type(queue.receive_into(bytearray(8)), int)
    assert_type(queue.receive_nowait(), bytes)
    assert_type(queue.send_many([b"x", bytearray(b"y")]), int)
    assert_type(queue.receive_many(), list[bytes])
    assert_type(queue.receive_many(3, timeout=1), list[bytes])
    for message in queue:
        assert_type(message, bytes)
    with queue as same:
        assert_type(same, MessageQueue)
    queue.send("text")  # type: ignore[arg-type] # bytes only
    queue.send(3)  # type: ignore[arg-type] # bytes only
    queue.receive(1)  # type: ignore[call-arg] # the timeout goes by name


def objects(queue: MessageQueue) -> None:
    readings = queue.of(Reading)
    assert_type(readings, TypedQueue[Reading])
    assert_type(readings.queue, MessageQueue)
    readings.send(Reading("roof", 21.5), timeout=0.5)
    assert_type(readings.send_many([Reading("roof", 21.5)]), int)
    assert_type(readings.receive(timeout=0.5), Reading)
    assert_type(readings.receive_nowait(), Reading)
    for reading in readings:
        assert_type(reading, Reading)
    with queue.of(list[int]) as numbers:
        assert_type(numbers, TypedQueue[list[int]])
    assert_type(queue.of(int | str), TypedQueue[Any])
    either: TypedQueue[int | str] = queue.of(int | str)
    assert_type(either.receive(), int | str)
    readings.send("roof 21.5")  # type: ignore[arg-type] # no reading
    readings.queue = queue  # type: ignore[misc] # read-only
    try:
        readings.receive()
    except PayloadError as error:
        assert_type(error.payload, bytes)


def looking(queue: MessageQueue) -> None:
    assert_type(queue.disconnected(), bool)
    assert_type(queue.closed, bool)
    assert_type(queue.remote_disconnected, bool)
    assert_type(queue.status, Status)
    assert_type(queue.local_name, str)
    assert_type(queue.remote_name, str)
    assert_type(queue.port, int)
    assert_type(queue.capacity, int)
    assert_type(queue.pending, int)
    assert_type(queue.stats(), Stats)
    assert_type(queue.fileno(), int)
    queue.port = 2  # type: ignore[misc] # read-only
    queue.disconnect(ValueError("gone wrong"))
    queue.disconnect("gone wrong")  # type: ignore[arg-type] # an exception


def bytes_in_a_stream(channel: Channel) -> None:
    assert_type(channel.write(b"xyz"), int)
    assert_type(channel.write(memoryview(b"xyz"), 1, 2, timeout=0.5), int)
    assert_type(channel.read(bytearray(8)), int)
    assert_type(channel.read(bytearray(8), 1, 2, timeout=0.5), int)
    assert_type(channel.read_exactly(8), bytes)
    channel.write_all(b"xyz")
    channel.write("text")  # type: ignore[arg-type] # bytes only


def buffers() -> None:
    buffer = CircularBufferQueue[bytes](3)
    buffer.push(b"x")
    assert_type(buffer.pull(), bytes | None)
    assert_type(buffer.full(), bool)
    assert_type(len(buffer), int)


def tasks(broker: QueueBroker) -> None:
    def work(number: int, text: str) -> None:
        assert_type(current_broker(), Broker | QueueBroker)
        assert_type(QueueBroker.get_broker(), Broker | QueueBroker)

    task = Task(broker, work, 1, "x", name="worker", daemon=True)
    task.start()
    task.join(timeout=1)
    assert_type(task.is_alive(), bool)


def hanging_up(queue: MessageQueue, channel: Channel) -> None:
    try:
        queue.receive()
    except DisconnectedQueueError as error:
        assert_type(error.reason, str | None)
        if error.side == "remote":
            return
        error.side = "nobody"  # type: ignore[assignment] # local or remote
    try:
        channel.read_exactly(8)
    except IncompleteReadError as error:
        assert_type(error.partial, bytes)
    except DisconnectedError:
        pass


def watching() -> None:
    def print_it(
        operation: Operation,
        channel: int,
        direction: int,
        seq: int,
        size: int,
        depth: int,
        waited_ns: int,
        local: str,
        remote: str,
        port: int,
        reason: Reason,
        /,
    ) -> None:
        print(operation.name, seq, reason.name)

    BrokerManager(observer=print_it)
    BrokerManager(observer=print)
    BrokerManager(observer=len)  # type: ignore[arg-type] # not told of operations
