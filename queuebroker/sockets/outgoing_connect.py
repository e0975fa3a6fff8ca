"""`OutgoingConnect`: a connect to an address, from the dial to welcome or refusal.

To its own broker it is a caller of ``connect`` like any other: an `RdV` that waits
elsewhere. So the broker's close and the caller's timeout end it as they end the others.
"""

from __future__ import annotations

import errno
import math
from typing import TYPE_CHECKING, Final

from queuebroker import _net, _sync
from queuebroker.errors import BrokerClosedError, UnknownBrokerError
from queuebroker.meeting.meet import withdraw_locked
from queuebroker.meeting.rendezvous import RdVEvent, RdVMap
from queuebroker.observer import Reason
from queuebroker.sockets.address import Scheme
from queuebroker.sockets.connection import SocketConnection
from queuebroker.sockets.errors import NotAdmittedError, PeerLostError, ProtocolError
from queuebroker.sockets.frames import Hello, Refused, Welcome
from queuebroker.sockets.incoming_connect import REFUSALS
from queuebroker.sockets.link import Link
from queuebroker.sockets.peer import peer_of
from queuebroker.sockets.protocol import Lost, Protocol
from queuebroker.sockets.queue import SocketMessageQueue
from queuebroker.sockets.states import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker._net import Socket
    from queuebroker.meeting.rendezvous import NameSpace, RdV
    from queuebroker.sockets.address import Address
    from queuebroker.sockets.driver import Driver
    from queuebroker.sockets.protocol import Event

__all__ = ["OutgoingConnect"]

# The platform's errors for an address where nothing listens, or without a route: both
# may change later. Every other error concerns this process or machine.
_NOBODY: Final = frozenset(
    (
        *(errno.ECONNREFUSED, errno.ENOENT, errno.ENOTDIR),
        *(errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ETIMEDOUT),
    )
)
# The errors of a connection that the peer has ended.
_ENDED: Final = frozenset((errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED))
# How long to wait before the next dial if the listener's backlog is full, in seconds.
RETRY_S: Final = 0.002

_REASONS: Final = {refusal: reason for reason, refusal in REFUSALS.items()}


class RemoteBroker:
    """A stand-in for the broker at an address; see `RdV.target`."""

    __slots__ = ("closed", "name", "waiting")

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.closed: bool = False
        self.waiting: RdVMap = RdVMap()


class OutgoingConnect:
    """An outgoing connect: the host of its link until the welcome arrives.

    place: where to dial; the caller may resolve its host name before `begin`.
    error: the reason there is no connection, if no `RdV.reason` fits.
    cause: the system's error if nothing listens there, or the peer hung up.
    """

    def __init__(
        self,
        rdv: RdV,
        address: Address,
        hello: Hello,
        driver: Callable[[], Driver],
        secure: Callable[[Socket], Socket] | None,
        lease_s: float | None,
        farewell_s: float | None,
        connect_s: float = math.inf,
    ) -> None:
        self._rdv = rdv
        self._address = address
        self.place: _net.Place = address.place
        self._hello = hello
        self._driver = driver
        self._lease_s = lease_s
        self._secure = secure
        self._farewell_s = farewell_s
        self._connect_s = connect_s
        self._connected: bool = False
        self._link: Link | None = None
        self.error: BaseException | None = None
        self.cause: BaseException | None = None

    @property
    def _manager(self) -> NameSpace:
        return self._rdv.caller.manager

    # In the caller's thread.

    def begin(self, rdv: RdV) -> None:
        """Register the call and dial; see `queuebroker.meeting.meet.begin`."""
        self._manager.check_not_within("connect")
        with self._manager.lock:
            if rdv.caller.closed:
                rdv.reason = Reason.BROKER_CLOSED
                rdv.step(RdVEvent.WITHDRAW)
                return
            rdv.target = RemoteBroker(str(self._address))
            rdv.begun = True
            rdv.target.waiting.add(rdv)
            rdv.caller.departing[rdv] = None
        self._manager.settle()
        self._dial()

    def cancel(self) -> None:
        """Abort the connect if no welcome arrived: no broker must accept it later."""
        link = self._link
        if link is None:
            return
        with link.lock:
            if link.connection is None and link.protocol.state is State.HELLO_SENT:
                link.send_goodbye_locked(None)
                link._finish_soon_locked()

    def cancel_soon(self) -> None:
        """Cancel in the driver's thread; for callers that must take no lock."""
        if self._link is not None:
            self._link.driver.call(self.cancel, self)

    def _dial(self) -> None:
        """Connect the socket, or start to."""
        if not self._rdv.waiting:
            return
        # A UNIX socket is connected at once.
        opening = None if self._address.scheme is Scheme.IPC else self._on_connected
        protocol = Protocol(self._hello, lease_s=self._lease_s)
        try:
            socket = _net.dial(self.place)
        except BlockingIOError:  # the listener's backlog is full
            driver = self._driver()
            soon = _sync.monotonic() + RETRY_S
            driver.at(soon, lambda: self._retry(driver), self)
            return
        except OSError as error:
            self._fail(error)
            return
        try:
            driver = self._driver()
        except BaseException:
            socket.close()
            raise
        self._link = Link(
            socket,
            protocol,
            driver,
            self,
            opening,
            takes_fds=self._hello.descriptors > 0,
            farewell_s=self._farewell_s,
        )
        try:
            self._link.begin()
        except Exception as error:
            self._link.fail(error)
            raise
        if opening is not None and self._connect_s < math.inf:
            until = _sync.monotonic() + self._connect_s
            driver.at(until, self._expire_connect, self)
        if self._rdv.ended():
            self.cancel()

    def _expire_connect(self) -> None:
        """End a connect that the other host has not accepted in time.

        A busy driver may not have served its socket since.
        """
        assert self._link is not None
        if not (self._connected or _net.is_connected(self._link.socket)):
            code = errno.ETIMEDOUT
            self._fail(OSError(code, _net.error_text(code)))

    def _retry(self, driver: Driver) -> None:
        try:
            self._dial()
        finally:
            driver.release()

    def fail(self, error: BaseException) -> None:
        """End the call with an error of this process; the call raises it unchanged."""
        self.error = self.error or error.with_traceback(None)
        self._withdraw(Reason.BROKER_CLOSED)

    abort = fail

    # In the driver's thread.

    def _on_connected(self, socket: Socket) -> int:
        """Check the result of the connect, then continue the TLS handshake, if any."""
        link = self._link
        assert link is not None
        if not link.secured:
            _net.check_connected(socket)
            self._connected = True
            if self._secure is None:
                return 0
            socket = self._secure(socket)
            link.secure_locked(socket)
        assert isinstance(socket, _net.TlsSocket)
        return _net.do_handshake_once(socket)

    def on_events(self, link: Link, events: list[Event]) -> None:
        """Handle the answer and the events that arrived with it."""
        answer = events[0]
        if isinstance(answer, Welcome):
            try:
                self._on_welcome(link, answer, events[1:])
            except BaseException as error:
                self.fail(error)  # the link may have dropped this host already
                raise
        elif isinstance(answer, Refused):
            self._on_refused(answer)
        elif isinstance(answer, Lost):
            self._on_lost(answer)

    def _on_welcome(self, link: Link, welcome: Welcome, rest: list[Event]) -> None:
        rdv = self._rdv
        with link.lock:
            connection = SocketConnection(
                link,
                1,
                (welcome.name, self._hello.name),
                self._hello.port,
                welcome.capacity,
                welcome.limit,
                strict=rdv.terms.strict,
                watch=self._manager.watch,
                number=welcome.number,
            )
            connection.peer = peer_of(link.socket, welcome.name)
            link.connection = connection
            link.host = None
            # Deliver these before another thread can read the socket: they are older.
            link.dispatch_locked(rest)
        end = SocketMessageQueue(connection, 1)
        with self._manager.lock:
            met = rdv.waiting
            if met:
                self._manager.keep_locked(connection)
                rdv.end = end
                rdv.step(RdVEvent.MATCH)
                rdv.caller.departing.pop(rdv, None)
                rdv.target.waiting.remove(rdv)
                rdv.wake()
        self._manager.settle()
        if not met:
            end.disconnect()

    def _on_refused(self, answer: Refused) -> None:
        reason = _REASONS.get(answer.reason)
        if reason is None:
            why = answer.text or answer.reason.name.lower().replace("_", " ")
            self.error = NotAdmittedError(
                f"cannot connect to {str(self._address)!r}: not admitted: {why}"
            )
        self._withdraw(reason or Reason.BROKER_CLOSED)

    def _on_lost(self, answer: Lost) -> None:
        error, cause = answer.error, answer.error.__cause__
        if not isinstance(error, PeerLostError):
            self._fail_at_foreign_service(error)
        elif isinstance(cause, OSError):
            self._fail(cause)
        else:
            self.cause = error
            self._withdraw(Reason.BROKER_CLOSED)

    def _fail(self, error: OSError) -> None:
        """Distinguish an address where nothing listens from an error of this process.

        The call raises the latter with the address added: it does not show whether a
        broker listens.
        """
        if _net.is_no_tls(error):
            self._fail_at_foreign_service(error)
            return
        reason, error = Reason.BROKER_CLOSED, error.with_traceback(None)
        if isinstance(error, _net.TlsError):  # its numbers are no errno
            if isinstance(error, _net.TLS_ENDED):
                self.cause = error
            else:
                self.error = error
            self._withdraw(reason)
            return
        if error.errno in _NOBODY:
            self.cause, reason = error, Reason.UNKNOWN_BROKER
        elif error.errno in _ENDED:
            self.cause = error
        else:
            error.filename = error.filename or str(self._address)
            self.error = error
        self._withdraw(reason)

    def _fail_at_foreign_service(self, error: Exception) -> None:
        """End the call: the service there uses another protocol."""
        self.error = ProtocolError(
            f"cannot connect to {str(self._address)!r}: the service there is not a"
            f" broker: {error}"
        )
        self.error.__cause__ = error
        self._withdraw(Reason.BROKER_CLOSED)

    def error_for(self, error: BrokerClosedError | UnknownBrokerError) -> BaseException:
        """Return the exact error for a call that raised ``error``; called once.

        This object does not keep its own error. The frames in the traceback of the
        error refer to this object, so that the two would be a cycle.
        """
        if isinstance(error, UnknownBrokerError):
            made: BaseException = self._unknown()
            made.__cause__ = self.cause
        elif self.error is not None:
            made, self.error = self.error, None
            made.__suppress_context__ = True  # it has its own cause
        else:
            made = error
            made.__cause__ = self.cause
        return made

    def _unknown(self) -> UnknownBrokerError:
        """Return the error for an address where nothing listens."""
        address, port = self._address, self._rdv.port
        why = f": {_net.error_text(self._errno).lower()}" if self._errno else ""
        return UnknownBrokerError(
            f"cannot connect to {str(address)!r} port {port}: no broker listens there"
            + why
        )

    @property
    def _errno(self) -> int:
        return (isinstance(self.cause, OSError) and self.cause.errno) or 0

    def _withdraw(self, reason: Reason) -> None:
        with self._manager.lock:
            if self._rdv.waiting:
                withdraw_locked(self._rdv, reason)
        self._manager.settle()
