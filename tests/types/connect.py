"""What `connect` gives, as type checkers see it. Read by them, never run.

A line that must be refused carries the error it must give as an ignore: the checkers
are set to complain of an ignore that nothing needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

from queuebroker import Broker, Channel, MessageQueue, QueueBroker

if TYPE_CHECKING:
    from queuebroker.sockets import SocketQueueBroker


def queue_connect(broker: QueueBroker, sure: bool) -> None:
    assert_type(broker.connect("name", 1), MessageQueue | None)
    assert_type(broker.connect("name", 1, timeout=0.5), MessageQueue | None)
    assert_type(broker.connect("name", 1, required=False), MessageQueue | None)
    assert_type(broker.connect("name", 1, required=True), MessageQueue)
    assert_type(broker.connect("name", 1, timeout=1, required=True), MessageQueue)
    assert_type(broker.connect("name", 1, required=sure), MessageQueue | None)


def channel_connect(broker: Broker, sure: bool) -> None:
    assert_type(broker.connect("name", 1), Channel | None)
    assert_type(broker.connect("name", 1, timeout=0.5), Channel | None)
    assert_type(broker.connect("name", 1, required=False), Channel | None)
    assert_type(broker.connect("name", 1, required=True), Channel)
    assert_type(broker.connect("name", 1, timeout=1, required=True), Channel)
    assert_type(broker.connect("name", 1, required=sure), Channel | None)


def socket_connect(broker: SocketQueueBroker, sure: bool) -> None:
    assert_type(broker.connect("name", 1), MessageQueue | None)
    assert_type(broker.connect("name", 1, required=False), MessageQueue | None)
    assert_type(broker.connect("name", 1, required=True), MessageQueue)
    assert_type(broker.connect("name", 1, timeout=1, required=True), MessageQueue)
    assert_type(broker.connect("name", 1, required=sure), MessageQueue | None)
    broker.connect("name", 1).receive()  # type: ignore[union-attr] # may be None
    broker.connect("name", 1, required=True).receive()


def none_must_be_looked_at(queues: QueueBroker, channels: Broker) -> None:
    queues.connect("name", 1).receive()  # type: ignore[union-attr] # may be None
    channels.connect("name", 1).read_exactly(1)  # type: ignore[union-attr] # likewise
    queues.connect("name", 1, required=True).receive()
    channels.connect("name", 1, required=True).read_exactly(1)
    if (queue := queues.connect("name", 1)) is not None:
        assert_type(queue, MessageQueue)


def wrong_arguments(broker: QueueBroker) -> None:
    broker.connect("name")  # type: ignore[call-overload] # no port
    broker.connect(1, "name")  # type: ignore[call-overload] # the wrong way round
    broker.connect("name", 1, 0.5)  # type: ignore[call-overload] # timeout by name
