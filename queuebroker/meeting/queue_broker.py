"""`QueueBroker`: a name that accepts and opens connections of whole messages.

The face of a `Broker` that connects `MessageQueue`\\ s. It adds the settings of the
queues it makes, and leaves the rendezvous to the broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Final, Literal, cast, overload

from queuebroker.arguments import check_port, positive, wrong_type
from queuebroker.channel.channel import Channel
from queuebroker.channel.message_queue import MessageQueue
from queuebroker.errors import UnknownBrokerError
from queuebroker.meeting import broker, broker_manager, current
from queuebroker.meeting.broker import Broker, BrokerFace, accept_each
from queuebroker.meeting.broker_manager import BrokerManager
from queuebroker.meeting.current import as_current
from queuebroker.meeting.rendezvous import Kind, Terms

__all__ = ["QueueBroker"]

CAPACITY_MESSAGES = 64

# A member of an Enum takes five times as long to look up as a global name.
_QUEUE: Final = Kind.QUEUE


class QueueBroker(BrokerFace):
    """A named meeting point for `MessageQueue`\\ s; every method from any thread.

    ::

        with QueueBroker("client") as client:
            with client.connect("server", 80, required=True) as queue:
                queue.send(b"hello")

    Args:
        name: a non-empty str, or an open `Broker` that gets this face.
        manager: the name space, by default one for the whole process.
        capacity: messages that fit in each direction of the queues it accepts.
        max_message_size: maximum bytes of a message on these, None for no limit.
        strict_half: True to make sends of its own ends raise, instead of being dropped,
            while half-disconnected; `accept` and `connect` may override it.

    Raises:
        BrokerNameInUseError: a live broker of that manager has the name.
        TypeError, ValueError: wrong arguments.
    """

    __slots__ = ("_broker", "_capacity_max", "_terms")

    def __init__(
        self,
        name: str | Broker,
        *,
        manager: BrokerManager | None = None,
        capacity: int = CAPACITY_MESSAGES,
        max_message_size: int | None = None,
        strict_half: bool = False,
    ) -> None:
        _check_named(name)
        self._terms = Terms(
            positive("capacity", capacity),
            None
            if max_message_size is None
            else positive("max_message_size", max_message_size),
            bool(strict_half),
        )
        # Set by a face whose frames limit the capacity.
        self._capacity_max: int | None = None
        if isinstance(name, Broker):
            if manager is not None and manager is not name.manager:
                msg = f"cannot wrap {name!r}: it belongs to another manager"
                raise ValueError(msg)
            self._broker: Broker = name
            self._broker.offer(Kind.QUEUE)
        else:
            self._broker = Broker(name, manager=manager, kinds=Kind)

    def __repr__(self) -> str:
        return f"<QueueBroker {self.name!r} {'closed' if self.closed else 'open'}>"

    # Accepting and connecting.

    def accept(
        self,
        port: int,
        *,
        timeout: float | None = None,
        capacity: int | None = None,
        exclusive: bool = False,
        strict_half: bool | None = None,
    ) -> MessageQueue:
        """Wait for a connect to this broker and port; return this side's end.

        capacity: messages in each direction, for this connection only.
        strict_half: for this end only (QB-PY-8).

        Otherwise as `Broker.accept`.
        """
        terms = self._terms_with(strict_half, capacity, exclusive=exclusive)
        return _queue(self._broker.meet_accept(_QUEUE, port, terms, timeout))

    @overload
    def connect(
        self,
        name: str,
        port: int,
        *,
        timeout: float | None = None,
        required: Literal[True],
        strict_half: bool | None = None,
    ) -> MessageQueue: ...
    @overload
    def connect(
        self,
        name: str,
        port: int,
        *,
        timeout: float | None = None,
        required: bool = False,
        strict_half: bool | None = None,
    ) -> MessageQueue | None: ...
    def connect(
        self,
        name: str,
        port: int,
        *,
        timeout: float | None = None,
        required: bool = False,
        strict_half: bool | None = None,
    ) -> MessageQueue | None:
        """Wait for an accept at the named broker and port; return this side's end.

        ::

            with broker.connect("server", 80, required=True) as queue:
                queue.send(b"hello")

        If no live broker has that name, the call returns None at once, without
        regard to the timeout, or raises `UnknownBrokerError` with ``required=True``.

        strict_half: for this end only (QB-PY-8).

        Otherwise as `Broker.connect`; a broker without this face counts as unknown.
        """
        try:
            return self._connect(name, port, timeout, strict_half)
        except UnknownBrokerError:
            if required:
                raise
            return None

    def _connect(
        self, name: str, port: int, timeout: float | None, strict_half: bool | None
    ) -> MessageQueue:
        """Connect as `connect` does with ``required``."""
        terms = self._terms_with(strict_half)
        return _queue(self._broker.meet_connect(_QUEUE, name, port, terms, timeout))

    def accept_iter(self, port: int) -> Iterator[MessageQueue]:
        """Yield accepted queues until this broker is closed (QB-PY-9).

        Raises:
            TypeError, ValueError: wrong port, detected at the call.
        """
        return accept_each(self.accept, check_port(port))

    def as_current(self) -> AbstractContextManager[None]:
        """Make this the current broker of the thread or coroutine (QB-NAME-11)."""
        return as_current(self)

    def _terms_with(
        self,
        strict_half: bool | None,
        capacity: int | None = None,
        *,
        exclusive: bool = False,
    ) -> Terms:
        """Return the settings of this broker, with those of one call applied."""
        terms = self._terms
        if strict_half is not None:
            terms = terms._replace(strict=bool(strict_half))
        if capacity is not None:
            slots = positive("capacity", capacity, self._capacity_max)
            terms = terms._replace(capacity=slots)
        if exclusive:
            terms = terms._replace(exclusive=True)
        return terms


def _check_named(name: object) -> None:
    if not isinstance(name, (str, Broker)):
        raise wrong_type("name", "a str or a Broker", name)


def _queue(end: MessageQueue | Channel) -> MessageQueue:
    # QB-RDV-4: kinds never match one another. An isinstance check would take longer
    # than a lock, because a class with abstract methods answers in Python.
    return cast("MessageQueue", end)


# The classes of these modules return one another, so some modules import a name for
# type checkers only. Here `typing.get_type_hints` gets it.
vars(broker)["QueueBroker"] = QueueBroker
vars(broker_manager)["Broker"] = Broker
vars(current).update(Broker=Broker, QueueBroker=QueueBroker)
