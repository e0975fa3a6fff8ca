"""`Listener`: the socket at a broker's address, and the peers that connected to it.

A peer that connects first sends a `Hello` with its name and the port it wants. From
then on it is a caller of ``connect`` like any other: an `RdV` in the broker's `RdVMap`
with a remote caller. Until its `Hello` arrives the peer is unknown; the number of
unknown peers and their time are limited.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from queuebroker import _net, _sync
from queuebroker.meeting.meet import begin, expire, withdraw_locked
from queuebroker.meeting.rendezvous import Kind, RdV, RdVState, Terms
from queuebroker.observer import Reason
from queuebroker.sockets.connection import SocketConnection
from queuebroker.sockets.driver import default_driver
from queuebroker.sockets.errors import NotAdmittedError
from queuebroker.sockets.frames import Hello, Refusal, Welcome
from queuebroker.sockets.link import Link
from queuebroker.sockets.peer import Peer, peer_of
from queuebroker.sockets.protocol import Protocol
from queuebroker.sockets.queue import SocketMessageQueue
from queuebroker.sockets.states import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker._net import Socket
    from queuebroker.meeting.broker import Broker
    from queuebroker.meeting.broker_manager import BrokerManager
    from queuebroker.observer import Watch
    from queuebroker.sockets.driver import Driver, Served
    from queuebroker.sockets.options import SocketOptions
    from queuebroker.sockets.protocol import Event

__all__ = ["Listener"]

_log: Final = logging.getLogger("queuebroker.sockets")

# How many connects are accepted before other descriptors have their turn.
_ACCEPTS_MAX: Final = 64
# How long the listener accepts no peer once no descriptor is left, in seconds.
_PAUSE_S: Final = 0.1
# A listener gets no other driver if the last one ended within this time, in seconds.
_MOVES_S: Final = 1.0

_REFUSALS: Final = {
    Reason.TIMED_OUT: Refusal.TIMED_OUT,
    Reason.BROKER_CLOSED: Refusal.BROKER_CLOSED,
    Reason.UNKNOWN_BROKER: Refusal.UNKNOWN_BROKER,
}


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


class Listener:
    """The listening socket of one broker, until the broker closes.

    Only the driver calls its methods, except for `close`. The driver and the caller of
    `close` share only containers whose single operations are atomic.
    """

    def __init__(
        self,
        broker: Broker,
        socket: Socket,
        driver: Driver,
        options: SocketOptions,
        secure: Callable[[Socket], Socket] | None,
        lease_s: float | None,
        farewell_s: float | None,
    ) -> None:
        self.broker: Broker = broker
        self.driver: Driver = driver
        self.options: SocketOptions = options
        self.lease_s: float | None = lease_s
        self._farewell_s: float | None = farewell_s
        self._secure = secure
        self._listening = [socket]
        # Peers that have not sent a `Hello` yet, and peers that wait to be accepted.
        self.unknown: dict[IncomingConnect, None] = {}
        self.waiting: dict[IncomingConnect, None] = {}
        self._moved_at = -_MOVES_S
        driver.register(socket.fileno(), self, _net.READ)

    def ready(self, mask: int) -> None:  # noqa: ARG002  # part of `Handler`
        """Accept the peers that have connected."""
        for _ in range(_ACCEPTS_MAX):
            try:
                made = _net.accept(self._listening[0])
            except IndexError:
                return  # closed just now
            except OSError:
                self._pause()
                return
            if made is None:
                return
            if len(self.unknown) >= self.options.unknown_peers_max:
                made.close()
                continue
            self._admit(made)

    def _pause(self) -> None:
        """Stop watching the socket for `_PAUSE_S`: no descriptor is left for a peer.

        New peers wait. The socket stays readable meanwhile, and the driver would
        report it again and again.
        """
        with suppress(IndexError, OSError):  # it may be closed just now
            # First the timer: without it the driver would never resume this listener.
            self.driver.at(_sync.monotonic() + _PAUSE_S, self._resume, self)
            self.driver.watch(self._listening[0].fileno(), _net.ONCE)

    def fail(self, error: BaseException) -> None:  # noqa: ARG002  # the driver logs it
        """Continue to listen, with another driver if the present one ends.

        The error of one peer ends that peer's connect (`IncomingConnect`). An error
        reported here concerns the listener itself, such as a lack of memory, and may
        pass.
        """
        if self.driver.failed:
            self._move()
        else:
            self._pause()

    def abort(self, error: BaseException) -> None:
        """Do nothing: the owner closed the driver and must close the broker."""

    def _move(self) -> None:
        """Move to the default driver; close the broker if that fails.

        Without a driver the broker's accepts would wait forever.
        """
        former, now = self.driver, _sync.monotonic()
        if not self._listening:
            return  # closed just now: `_part` releases the driver
        try:
            if now < self._moved_at + _MOVES_S:
                msg = "the previous driver has ended, too"
                raise RuntimeError(msg)
            self._moved_at = now
            socket = self._listening[0]
            former.unregister(socket.fileno())
            self.driver = default_driver()
            try:
                self.driver.register(socket.fileno(), self, _net.READ)
            except BaseException:
                self.driver.call(self.driver.release)
                raise
        except Exception:  # noqa: BLE001 # nothing else would close the broker
            _log.exception(
                "broker %r closes: no driver serves its address", self.broker.name
            )
            self.driver = former
            self.broker.close()
            return
        former.release()

    def _resume(self) -> None:
        with suppress(IndexError, OSError):
            self.driver.watch(self._listening[0].fileno(), _net.READ)

    def _admit(self, made: Socket) -> None:
        """Set up the link of one peer; an error here ends that peer and no other."""
        incoming_connect = IncomingConnect(self)
        held = False
        try:
            opening = None
            if self._secure is not None:
                # `secure` reads the socket's state, and raises if the peer has hung up.
                made, opening = (
                    self._secure(made),
                    cast("Callable[[Socket], int]", _net.do_handshake_once),
                )
            held = self.driver.hold()
            self._begin(incoming_connect, made, opening)
        except Exception as error:  # noqa: BLE001 # it ends this peer only
            self.driver.failures += 1
            _log.debug("a peer of broker %r: %s", self.broker.name, error)
            self.unknown.pop(incoming_connect, None)
            if hasattr(incoming_connect, "link"):
                incoming_connect.link.fail(error)
                return
            made.close()
            if held:
                self.driver.release()

    def _begin(
        self,
        incoming_connect: IncomingConnect,
        made: Socket,
        opening: Callable[[Socket], int] | None,
    ) -> None:
        protocol = Protocol.listening(
            first_max=self.options.first_frame_bytes_max,
            unanswered_max=self.options.unanswered_bytes_max,
            lease_s=self.lease_s,
        )
        takes_fds = (
            self.options.descriptors_max > 0 and _net.credentials_of(made) is not None
        )
        incoming_connect.link = Link(
            made,
            protocol,
            self.driver,
            incoming_connect,
            opening,
            takes_fds=takes_fds,
            farewell_s=self._farewell_s,
        )
        self.unknown[incoming_connect] = None
        self.driver.at(
            _sync.monotonic() + self.options.handshake_s,
            incoming_connect.expire_unknown,
            incoming_connect,
        )
        incoming_connect.link.begin()

    def abandon_after_fork(self) -> None:
        """Close the socket and nothing else: its file belongs to the parent."""
        for socket in self._listening:
            socket.close()

    def close(self) -> None:
        """Stop listening.

        The broker refuses the waiting peers; unknown peers are dropped without notice.
        """
        try:
            socket = self._listening.pop()
        except IndexError:
            return
        self.driver.unregister(socket.fileno())
        socket.close()
        self.driver.call(self._part, self)

    def _part(self) -> None:
        for incoming_connect in list(self.unknown):
            incoming_connect.link.drop()
        self.unknown.clear()
        self.driver.release()


class IncomingConnect:
    """An incoming connect: the host of the peer's link until an accept takes it."""

    link: Link

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
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
            self._end()

    def _end(self) -> None:
        self._listener.unknown.pop(self, None)
        self._listener.waiting.pop(self, None)
        self.link.drop()

    def on_events(self, link: Link, events: list[Event]) -> None:
        """Handle the events of the link; anything other than a `Hello` ends it."""
        for event in events:
            if isinstance(event, Hello):
                self._listener.unknown.pop(self, None)
                self._ask(event)
            else:
                self._leave(link, event)

    def _ask(self, hello: Hello) -> None:
        """Enter the peer as a caller that waits for an accept, like any other."""
        listener = self._listener
        self._hello = hello
        refusal = self._refusal(hello)
        if refusal is not None:
            self._refuse(*refusal)
            return
        listener.waiting[self] = None
        caller = cast("Broker", RemoteCaller(hello.name, listener.broker.manager))
        self._rdv = rdv = RdV(
            RdVState.WAITING_CONNECT,
            caller,
            listener.broker.name,
            Kind.QUEUE,
            hello.port,
            Terms(1),  # of no effect: the acceptor's terms decide (QB-BUF-10)
            lambda: DriverParker(listener.driver, self._look, self),
        )
        rdv.join = self._join
        begin(rdv)
        if rdv.waiting and not hello.waits:
            expire(rdv)
        self._look()

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

    def _look(self) -> None:
        """Act on the outcome of the call; in the driver's thread."""
        rdv = self._rdv
        if rdv is None:
            return
        state, reason = rdv.caller.manager.critical(lambda: (rdv.state, rdv.reason))
        if state is RdVState.WITHDRAWN:
            self._rdv = None
            self._refuse(_REFUSALS.get(reason, Refusal.BROKER_CLOSED), "")
        elif state is RdVState.MATCHED:
            # The acceptor owns the end: it is collected once the acceptor drops it.
            self._rdv = None
            self._listener.waiting.pop(self, None)
            self.link.host = None
            del self.link  # the handshake timer still refers to this for a while

    def _refuse(self, reason: Refusal, text: str) -> None:
        self._listener.waiting.pop(self, None)
        with self.link.lock:
            if self.link.protocol.state is State.HELLO_RECEIVED:
                self.link.protocol.refuse(reason, text)
                self.link.flush_locked()

    def _leave(self, link: Link, event: Event) -> None:
        """Withdraw a peer that left or was lost.

        If it was accepted just now, the acceptor's end gets the event.
        """
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
                    )
                )
                link.flush_locked()
            else:
                # The peer left between the match and now: an ordinary disconnect.
                connection.close_locked(1, None, Reason.NONE)
        return connection, SocketMessageQueue(connection, 0)


def refused(reason: Refusal, text: str, address: str) -> NotAdmittedError:
    """Return the exception for a peer that was not admitted."""
    why = text or reason.name.lower().replace("_", " ")
    return NotAdmittedError(f"cannot connect to {address!r}: not admitted: {why}")
