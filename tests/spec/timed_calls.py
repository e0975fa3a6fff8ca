"""Every call that takes a timeout, set up so that it has to wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from queuebroker import (
    Broker,
    BrokerManager,
    CircularBufferQueue,
    QueueBroker,
    ReceiveTimeoutError,
    RendezvousTimeoutError,
    SendTimeoutError,
    receive_any,
)
from tests.pairs import channel_pair, queue_pair

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

__all__ = ["CALLS", "Case"]


@attrs.frozen
class Case:
    """A call that has to wait.

    act: the call, with a timeout.
    error: the class it raises when the timeout passes.
    release: an action that ends the wait.
    """

    act: Callable[[Any], object]
    error: type[TimeoutError]
    release: Callable[[], object]


def _brokers(kind: type[QueueBroker | Broker]) -> tuple[Any, Any]:
    manager = BrokerManager()
    return kind("a", manager=manager), kind("b", manager=manager)


def _accept(kind: type[QueueBroker | Broker]) -> Case:
    a, b = _brokers(kind)
    return Case(
        lambda timeout: a.accept(1, timeout=timeout).disconnect(),
        RendezvousTimeoutError,
        lambda: b.connect("a", 1).disconnect(),
    )


def _connect(kind: type[QueueBroker | Broker]) -> Case:
    a, b = _brokers(kind)
    return Case(
        lambda timeout: b.connect("a", 1, timeout=timeout).disconnect(),
        RendezvousTimeoutError,
        lambda: a.accept(1).disconnect(),
    )


def _sends(stack: ExitStack, method: str, *args: object) -> Case:
    left, right = stack.enter_context(queue_pair())
    left.send(b"full")
    send: Callable[..., object] = getattr(left, method)
    return Case(
        lambda timeout: send(*args, timeout=timeout), SendTimeoutError, right.receive
    )


def _receives(stack: ExitStack, method: str, *args: object) -> Case:
    left, right = stack.enter_context(queue_pair())
    receive: Callable[..., object] = getattr(left, method)
    return Case(
        lambda timeout: receive(*args, timeout=timeout),
        ReceiveTimeoutError,
        lambda: right.send(b"m"),
    )


def _receives_any(stack: ExitStack) -> Case:
    ends = [stack.enter_context(queue_pair()) for _ in range(2)]
    queues = [left for left, _ in ends]
    return Case(
        lambda timeout: receive_any(queues, timeout=timeout),
        ReceiveTimeoutError,
        lambda: ends[1][1].send(b"m"),
    )


def _writes(stack: ExitStack, method: str) -> Case:
    left, right = stack.enter_context(channel_pair())
    left.write(b"f")
    write: Callable[..., object] = getattr(left, method)
    return Case(
        lambda timeout: write(b"m", timeout=timeout),
        SendTimeoutError,
        lambda: right.read(bytearray(1)),
    )


def _reads(stack: ExitStack, method: str, *args: object) -> Case:
    left, right = stack.enter_context(channel_pair())
    read: Callable[..., object] = getattr(left, method)
    return Case(
        lambda timeout: read(*args, timeout=timeout),
        ReceiveTimeoutError,
        lambda: right.write(b"m"),
    )


def _push(_: ExitStack) -> Case:
    buffer = CircularBufferQueue[bytes](1)
    buffer.push(b"full")
    return Case(
        lambda timeout: buffer.push(b"m", timeout=timeout),
        SendTimeoutError,
        buffer.pull,
    )


CALLS: dict[str, Callable[[ExitStack], Case]] = {
    "accept a queue": lambda _: _accept(QueueBroker),
    "accept a channel": lambda _: _accept(Broker),
    "connect a queue": lambda _: _connect(QueueBroker),
    "connect a channel": lambda _: _connect(Broker),
    "send": lambda stack: _sends(stack, "send", b"m"),
    "send_many": lambda stack: _sends(stack, "send_many", [b"m"]),
    "receive": lambda stack: _receives(stack, "receive"),
    "receive_into": lambda stack: _receives(stack, "receive_into", bytearray(1)),
    "receive_many": lambda stack: _receives(stack, "receive_many"),
    "receive_any": _receives_any,
    "write": lambda stack: _writes(stack, "write"),
    "write_all": lambda stack: _writes(stack, "write_all"),
    "read": lambda stack: _reads(stack, "read", bytearray(1)),
    "read_exactly": lambda stack: _reads(stack, "read_exactly", 1),
    "push": _push,
}
