"""`IncomingConnect`: the connect of one peer, from its arrival to an accept or refusal.

A peer that connects first sends a `Hello` with its name and the port it wants. From
then on it is a caller of ``connect`` like any other: an `RdV` in the broker's `RdVMap`
with a remote caller. Until its `Hello` arrives the peer is unknown.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final
from typing import Protocol as Seam

from queuebroker import _net
from queuebroker.meeting.meet import begin, expire, withdraw_locked
from queuebroker.meeting.rendezvous import Kind, RdV, RdVState, Terms
from queuebroker.observer import Reason
from queuebroker.sockets.connection import SocketConnection
from queuebroker.sockets.frames import Hello, Refusal, Welcome
from queuebroker.sockets.peer import Peer, peer_of
from queuebroker.sockets.protocol import Lost
from queuebroker.sockets.queue import SocketMessageQueue
from queuebroker.sockets.states import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.meeting.broker import Broker
    from queuebroker.meeting.broker_manager import BrokerManager
    from queuebroker.observer import Watch
    from queuebroker.sockets.driver import Driver, Served
    from queuebroker.sockets.link import Link
    from queuebroker.sockets.options import SocketOptions
    from queuebroker.sockets.protocol import Event

__all__ = ["REFUSALS", "AcceptingListener", "IncomingConnect"]

_log: Final = logging.getLogger("queuebroker.sockets")

REFUSALS: Final = {
    Reason.TIMED_OUT: Refusal.TIMED_OUT,
    Reason.BROKER_CLOSED: Refusal.BROKER_CLOSED,
    Reason.UNKNOWN_BROKER: Refusal.UNKNOWN_BROKER,
}


class AcceptingListener(Seam):
    """The listener of an incoming connect: its settings, and its other peers.

    unknown, waiting: the peers that have not sent a `Hello` yet, and the peers that
      wait to be accepted.
    """

    broker: Broker
    driver: Driver
    options: SocketOptions
    unknown: dict[IncomingConnect, None]
    waiting: dict[IncomingConnect, None]


class RemoteCaller:
    """A stand-in for the broker of a caller in another process; see `RdV.caller`."""

    __slots__ = ("closed", "departing", "manager", "name")

    def __init__(self, name: str, manager: BrokerManager) -> None:
        self.name: str = name
        self.manager: BrokerManager = manager
        self.closed: bool = False
        self.departing: dict[RdV, None] = {}


class DriverParker:
    """A parker that wakes the driver instead of a thread."""

    __slots__ = ("_driver", "_function", "_released", "_served")

    def __init__(
        self, driver: Driver, function: Callable[[], object], served: Served
    ) -> None:
        self._driver = driver
        self._function = function
        self._served = served
        self._released = False

    def locked(self) -> bool:
        """Return True until `release` was called."""
        return not self._released

    def release(self) -> None:
        """Schedule the driver's check; a second call is harmless."""
        self._released = True
        self._driver.call(self._function, self._served)


class IncomingConnect:
    """An incoming connect: the host of the peer's link until an accept takes it.

    The driver's thread calls the methods; only `_join` runs in the accepting thread.

    Args:
        listener: its listener.
        source: the network address of the peer, "" for a process of this machine.
    """

    link: Link

    def __init__(self, listener: AcceptingListener, source: str = "") -> None:
        self._listener = listener
        self._source = source
        self._rdv: RdV | None = None
        self._hello: Hello | None = None
        self.peer: Peer | None = None

    def fail(self, error: BaseException) -> None:
        """End the connect of this peer, because of an error of this process."""
        link: Link | None = getattr(self, "link", None)
        if link is None:
            return  # it has been accepted
        link.fail(error)

    def abort(self, error: BaseException) -> None:  # noqa: ARG002  # the driver logs it
        """Withdraw from the accept: an error of this process ended the link."""
        self._withdraw()

    def expire_unknown(self) -> None:
        """End a peer that has not sent its `Hello` in time."""
        if self in self._listener.unknown:
            self.end(f"it sent no name within {self._listener.options.handshake_s:g} s")

    def end(self, reason: str) -> None:
        """End a peer that has not sent its `Hello`, without notice to it."""
        self._listener.unknown.pop(self, None)
        self.link.drop()
        self.report(reason)

    def report(self, reason: str) -> None:
        """Report that this peer is rejected: its network address and the reason.

        An error in the user's callback ends no peer.
        """
        listener = self._listener
        source = self._source or "a process of this machine"
        text = f"{source}: {' '.join(reason.split())}"  # one line, whatever it says
        _log.debug("broker %r rejects %s", listener.broker.name, text)
        if listener.options.on_rejected is None:
            return
        try:
            listener.options.on_rejected(text)
        except Exception:  # noqa: BLE001 # a user's callback
            listener.driver.failures += 1
            _log.exception("on_rejected of broker %r failed", listener.broker.name)

    def on_events(self, link: Link, events: list[Event]) -> None:
        """Handle the events of the link; anything other than a `Hello` ends it."""
        for event in events:
            if isinstance(event, Hello):
                self._listener.unknown.pop(self, None)
                self._register_caller(event)
            else:
                self._leave(link, event)

    def _register_caller(self, hello: Hello) -> None:
        """Enter the peer as a caller that waits for an accept, like any other."""
        listener = self._listener
        self._hello = hello
        refusal = self._refusal(hello)
        if refusal is not None:
            self._refuse(*refusal)
            return
        listener.waiting[self] = None
        caller = RemoteCaller(hello.name, listener.broker.manager)
        self._rdv = rdv = RdV(
            RdVState.WAITING_CONNECT,
            caller,
            listener.broker.name,
            Kind.QUEUE,
            hello.port,
            Terms(1),  # of no effect: the acceptor's terms decide (QB-BUF-10)
            lambda: DriverParker(listener.driver, self._check_outcome, self),
        )
        rdv.join = self._join
        begin(rdv)
        if rdv.waiting and not hello.waits:
            expire(rdv)
        self._check_outcome()

    def _refusal(self, hello: Hello) -> tuple[Refusal, str] | None:
        options = self._listener.options
        self.peer = peer_of(self.link.socket, hello.name)
        if len(self._listener.waiting) >= options.waiting_peers_max:
            return Refusal.BUSY, "too many peers wait to be accepted"
        if options.ports is not None and hello.port not in options.ports:
            return Refusal.NOT_ADMITTED, f"no task accepts at port {hello.port}"
        if options.admit is None:
            return None
        try:
            reason = options.admit(self.peer)
        except Exception as error:  # noqa: BLE001 # a user's callback: errors refuse
            reason = f"{type(error).__name__}: {error}"
        return None if reason is None else (Refusal.NOT_ADMITTED, str(reason))

    def _check_outcome(self) -> None:
        """Act on the outcome of the call; in the driver's thread."""
        rdv = self._rdv
        if rdv is None:
            return
        state, reason = rdv.caller.manager.critical(lambda: (rdv.state, rdv.reason))
        if state is RdVState.WITHDRAWN:
            self._rdv = None
            self._refuse(REFUSALS.get(reason, Refusal.BROKER_CLOSED), "")
        elif state is RdVState.MATCHED:
            # The acceptor owns the end: it is collected once the acceptor drops it.
            self._rdv = None
            self._listener.waiting.pop(self, None)
            self.link.host = None
            del self.link  # the handshake timer still refers to this for a while

    def _refuse(self, reason: Refusal, text: str) -> None:
        self._listener.waiting.pop(self, None)
        if text:  # an outcome of the call, such as its timeout, has none
            self.report(text)
        with self.link.lock:
            if self.link.protocol.state is State.HELLO_RECEIVED:
                self.link.protocol.refuse(reason, text)
                self.link.flush_locked()

    def _leave(self, link: Link, event: Event) -> None:
        """Withdraw a peer that left or was lost.

        If it was accepted just now, the acceptor's end gets the event.
        """
        if self in self._listener.unknown:
            self.report(_reason_of(event))
        self._withdraw()
        with link.lock:
            if link.connection is not None:
                link.dispatch_locked([event])
            link.flush_locked()

    def _withdraw(self) -> None:
        """Withdraw from the accept and from every list."""
        self._listener.unknown.pop(self, None)
        self._listener.waiting.pop(self, None)
        rdv, self._rdv = self._rdv, None
        if rdv is None:
            return

        def withdraw() -> None:
            if rdv.waiting:
                withdraw_locked(rdv, Reason.DISCONNECTED)

        rdv.caller.manager.critical(withdraw)

    def _join(
        self, acceptor: RdV, watch: Watch | None
    ) -> tuple[SocketConnection, SocketMessageQueue]:
        """Create the acceptor's end; under the manager's lock, in the accepting thread.

        Only here is the connection's lock taken under the manager's lock. Only the
        driver uses the link so far, and the driver never takes the manager's lock under
        the connection's lock.
        """
        hello, listener, link = self._hello, self._listener, self.link
        assert hello is not None
        limit = min(
            acceptor.terms.limit or listener.options.message_bytes_max,
            listener.options.message_bytes_max,
            hello.limit,
        )
        descriptors = min(hello.descriptors, listener.options.descriptors_max)
        if descriptors and _net.credentials_of(link.socket) is None:
            descriptors = 0  # no UNIX socket, whatever the peer says
        with link.lock:
            connection = SocketConnection(
                link,
                0,
                (listener.broker.name, hello.name),
                acceptor.port,
                acceptor.terms.capacity,
                limit,
                strict=acceptor.terms.strict,
                watch=watch,
            )
            connection.peer = self.peer
            link.connection = connection
            if link.protocol.state is State.HELLO_RECEIVED and not link.closed:
                link.protocol.welcome(
                    Welcome(
                        listener.broker.name,
                        acceptor.terms.capacity,
                        limit,
                        descriptors,
                        number=connection.number,
                    )
                )
                link.flush_locked()
            else:
                # The peer left between the match and now: an ordinary disconnect.
                connection.close_locked(1, None, Reason.NONE)
        return connection, SocketMessageQueue(connection, 0)


def _reason_of(event: Event) -> str:
    """Return why a peer without a name has ended, from its only event."""
    if not isinstance(event, Lost):
        return "it left before it sent its name"
    return str(event.error)
