"""`Broker`: a name that accepts and opens connections of bytes.

A `QueueBroker` uses a broker of the same name. This class keeps the name, the waiting
callers and the open flag once for both faces (QB-NAME-12). `BrokerFace` has the members
that answer from these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeVar, overload

from queuebroker import _sync
from queuebroker.arguments import (
    check_instance,
    check_name,
    check_port,
    deadline_after,
    positive,
)
from queuebroker.channel.channel import Channel
from queuebroker.channel.message_queue import MessageQueue
from queuebroker.closable import Closable
from queuebroker.errors import BrokerClosedError, UnknownBrokerError
from queuebroker.meeting.broker_manager import BrokerManager, default_manager
from queuebroker.meeting.current import as_current, current_broker
from queuebroker.meeting.meet import meet, withdraw_locked
from queuebroker.meeting.rendezvous import Kind, RdV, RdVMap, RdVState, Terms
from queuebroker.observer import Reason
from queuebroker.waiting.parking import Parker, own_parker

if TYPE_CHECKING:
    from queuebroker.meeting.queue_broker import QueueBroker

__all__ = ["Broker", "BrokerFace", "accept_each"]

CAPACITY_BYTES = 4096

# A member of an Enum takes five times as long to look up as a global name.
_ACCEPT: Final = RdVState.WAITING_ACCEPT
_CONNECT: Final = RdVState.WAITING_CONNECT

E = TypeVar("E")


class BrokerFace(Closable):
    """The members that a `Broker` and its faces share."""

    __slots__ = ()

    # The kind of the connections that it accepts and opens.
    _connection_kind: ClassVar[Kind] = Kind.QUEUE

    @property
    def _broker(self) -> Broker:
        """The broker that has the name; a face may store it as an attribute."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name of the broker, also after it was closed."""
        return self._broker.name

    @property
    def manager(self) -> BrokerManager:
        """The name space of the broker."""
        return self._broker.manager

    @property
    def closed(self) -> bool:
        """True once `close()` was called."""
        return self._broker.closed

    def waiting_accepts(self) -> dict[int, int]:
        """Return the number of waiting accepts, by port (QB-BOOK-2).

        Calls of threads, of coroutines and from other processes all count.
        """
        return self._broker.count_waiting(_ACCEPT, self._connection_kind)

    def waiting_connects(self) -> dict[int, int]:
        """Return the number of waiting connects, by port; see `waiting_accepts`."""
        return self._broker.count_waiting(_CONNECT, self._connection_kind)

    def outgoing(self) -> dict[tuple[str, int], int]:
        """Return the number of its waiting connects, by name or address, and port."""
        return self._broker.count_departing(self._connection_kind)

    @staticmethod
    def get_broker() -> Broker | QueueBroker:
        """Return the broker of the running Task; see `current_broker`."""
        return current_broker()

    def close(self) -> None:
        """Close the broker with all its faces; see `Broker.close`."""
        self._broker.close()


class Broker(BrokerFace):
    """A named meeting point for byte `Channel`\\ s; every method from any thread.

    The name is taken when the constructor returns and free again after `close()`.

    Args:
        name: a non-empty str, compared by value.
        manager: the name space, by default one for the whole process.
        capacity: bytes that fit in each direction of the channels it accepts.
        kinds: kinds of connection offered at once; for `QueueBroker`, whose face must
            exist together with the name.

    Raises:
        BrokerNameInUseError: a live broker of that manager has the name.
        TypeError, ValueError: wrong arguments.
    """

    __slots__ = (
        "_open",
        "_terms",
        "departing",
        "kinds",
        "manager",
        "name",
        "on_close",
        "waiting",
    )

    _connection_kind = Kind.CHANNEL

    def __init__(
        self,
        name: str,
        *,
        manager: BrokerManager | None = None,
        capacity: int = CAPACITY_BYTES,
        kinds: Iterable[Kind] = (Kind.CHANNEL,),
    ) -> None:
        self.name: str = check_name(name)
        self._terms = Terms(positive("capacity", capacity))
        if manager is not None:
            check_instance("manager", manager, BrokerManager)
        self.manager: BrokerManager = default_manager() if manager is None else manager
        # The manager's lock guards these four:
        self.waiting: RdVMap = RdVMap()
        self.departing: dict[RdV, None] = {}  # connects of this broker that wait
        self.kinds: set[Kind] = set(kinds)
        self._open = True
        # Called on close, under the manager's lock, to stop the listener at the address
        # of the broker, if it has one.
        self.on_close: Callable[[], object] | None = None
        self.manager.register(self)

    def __repr__(self) -> str:
        return f"<Broker {self.name!r} {'closed' if self.closed else 'open'}>"

    # Accepting and connecting.

    def accept(
        self, port: int, *, timeout: float | None = None, exclusive: bool = False
    ) -> Channel:
        """Wait for a connect to this broker and port; return this side's end.

        Several accepts on a port are served in order of arrival. With ``exclusive``
        this accept and any other on the port refuse one another.

        Raises:
            RendezvousTimeoutError: no connect arrived in time.
            BrokerClosedError: this broker is closed, or was closed during the wait.
            PortInUseError: see ``exclusive``.
            TypeError, ValueError: wrong arguments.
        """
        terms = self._terms
        if exclusive:
            terms = Terms(terms.capacity, exclusive=True)
        end = self.meet_accept(Kind.CHANNEL, port, terms, timeout)
        return _channel(end)

    @overload
    def connect(
        self,
        name: str,
        port: int,
        *,
        timeout: float | None = None,
        required: Literal[True],
    ) -> Channel: ...
    @overload
    def connect(
        self,
        name: str,
        port: int,
        *,
        timeout: float | None = None,
        required: bool = False,
    ) -> Channel | None: ...
    def connect(
        self,
        name: str,
        port: int,
        *,
        timeout: float | None = None,
        required: bool = False,
    ) -> Channel | None:
        """Wait for an accept at the named broker and port; return this side's end.

        ::

            with broker.connect("server", 80, required=True) as channel:
                channel.write_all(b"hello")

        If no live broker has that name, the call returns None at once, whatever the
        timeout. Pass ``required=True`` if the result is used: the call then raises
        `UnknownBrokerError` instead, and its type excludes None.

        Raises:
            UnknownBrokerError: raised instead of returning None, with ``required``.
            RendezvousTimeoutError: no accept arrived in time.
            BrokerClosedError: this broker is closed, or either was closed during the
                wait.
            TypeError, ValueError: wrong arguments.
        """
        try:
            end = self.meet_connect(Kind.CHANNEL, name, port, self._terms, timeout)
        except UnknownBrokerError:
            if required:
                raise
            return None
        return _channel(end)

    def accept_iter(self, port: int) -> Iterator[Channel]:
        """Yield accepted channels until this broker is closed (QB-PY-9).

        Raises:
            TypeError, ValueError: wrong port, detected at the call.
        """
        return accept_each(self.accept, check_port(port))

    # State.

    @property
    def _broker(self) -> Broker:
        return self

    @property
    def closed(self) -> bool:
        """True once `close()` was called."""
        return not self._open

    def as_current(self) -> AbstractContextManager[None]:
        """Make this the current broker of the thread or coroutine (QB-NAME-11)."""
        return as_current(self)

    # Closing.

    def close(self) -> None:
        """Free the name and end every wait here and of its own (QB-NAME-6).

        Each waiting call raises BrokerClosedError. Existing channels stay open. May be
        repeated.
        """
        if self.manager.foreign:
            self._open = False
            return
        if _sync.owns(self.manager.lock):
            self._open = False  # the interrupted call completes this when it ends
        self.manager.run_or_defer(self.close_locked)

    def close_locked(self) -> None:
        """Close as `close` does; one step, seen whole or not at all."""
        self._open = False
        for rdv in (*self.waiting, *self.departing):
            if rdv.waiting:
                withdraw_locked(rdv, Reason.BROKER_CLOSED)
        if self.on_close is not None:
            self.on_close()
        # Last: if an interrupt stops this close, a repeated one still finds the broker
        # by its name.
        self.manager.unregister_locked(self)

    # For both faces.

    def meet_accept(
        self, kind: Kind, port: int, terms: Terms, timeout: float | None
    ) -> MessageQueue | Channel:
        """Accept one connection of a kind."""
        deadline = None if timeout is None else deadline_after(timeout)
        return meet(self.new_accept(kind, port, terms), deadline, timeout)

    def meet_connect(
        self,
        kind: Kind,
        name: str,
        port: int,
        terms: Terms,
        timeout: float | None,
    ) -> MessageQueue | Channel:
        """Connect to a broker that offers a kind; any other is an unknown broker."""
        deadline = None if timeout is None else deadline_after(timeout)
        return meet(self.new_connect(kind, name, port, terms), deadline, timeout)

    def new_accept(
        self,
        kind: Kind,
        port: int,
        terms: Terms,
        make: Callable[[], Parker] = own_parker,
    ) -> RdV:
        """Return an accept call that has not begun."""
        number = check_port(port)
        self.manager.check_process()
        rdv = RdV(_ACCEPT, self, self.name, kind, number, terms, make)
        rdv.target = self
        return rdv

    def new_connect(
        self,
        kind: Kind,
        name: str,
        port: int,
        terms: Terms,
        make: Callable[[], Parker] = own_parker,
    ) -> RdV:
        """Return a connect call that has not begun."""
        check_name(name)
        number = check_port(port)
        self.manager.check_process()
        return RdV(_CONNECT, self, name, kind, number, terms, make)

    def offer(self, kind: Kind) -> None:
        """Make this broker available to connects of a kind (QB-NAME-12)."""
        self.kinds.add(kind)  # one call into C

    def count_waiting(self, state: RdVState, kind: Kind) -> dict[int, int]:
        """Return the number of callers of a kind that wait here in a state, by port."""
        return self.manager.critical(lambda: self.waiting.count(state, kind))

    def count_departing(self, kind: Kind) -> dict[tuple[str, int], int]:
        """Return the number of its waiting connects of a kind, by name and port."""
        departing = self.manager.critical(lambda: list(self.departing))
        counts: dict[tuple[str, int], int] = {}
        for rdv in departing:
            if rdv.kind is kind and rdv.waiting:
                where = (rdv.target.name, rdv.port)
                counts[where] = counts.get(where, 0) + 1
        return counts


def accept_each(accept: Callable[[int], E], port: int) -> Iterator[E]:
    """Yield accepted ends until the broker is closed (QB-PY-9)."""
    while True:
        try:
            end = accept(port)
        except BrokerClosedError:
            return
        yield end


def _channel(end: MessageQueue | Channel) -> Channel:
    assert isinstance(end, Channel)  # QB-RDV-4: kinds never match one another
    return end
