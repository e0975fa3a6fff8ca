"""`Acceptor`: a listening socket; `Listener`: the one at a broker's address.

A broker gives each peer that connects an `IncomingConnect`. The number of unknown
peers, those without a `Hello`, and their time are limited. The sockets of `bus.pattern`
accept their peers by an `Acceptor`, too.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from queuebroker import _net, _sync
from queuebroker.sockets.driver import default_driver
from queuebroker.sockets.frame_reader import FrameReader
from queuebroker.sockets.incoming_connect import IncomingConnect
from queuebroker.sockets.link import Link
from queuebroker.sockets.protocol import Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker._net import Socket
    from queuebroker.meeting.broker import Broker
    from queuebroker.sockets.driver import Driver
    from queuebroker.sockets.options import SocketOptions

__all__ = ["Acceptor", "Listener"]

_log: Final = logging.getLogger("queuebroker.sockets")

# How many connects are accepted before other descriptors have their turn.
_ACCEPTS_MAX: Final = 64
# How long the listener accepts no peer once no descriptor is left, in seconds.
_PAUSE_S: Final = 0.1
# A listener gets no other driver if the last one ended within this time, in seconds.
_MOVES_S: Final = 1.0


class Acceptor:
    """A listening socket until it is closed; a `Handler` of the driver.

    Only the driver calls its methods, except for the close of a subclass, which any
    thread may call, and `abandon_after_fork` in a child. The driver and the closing
    thread share only containers whose single operations are atomic.

    driver: held by the caller for this listener.
    """

    def __init__(self, socket: Socket, driver: Driver) -> None:
        self.driver: Driver = driver
        self._listening = [socket]  # empty once it is closed
        driver.register(socket.fileno(), self, _net.READ)

    def _admit(self, made: Socket, source: str) -> None:
        """Begin the connection of one peer; an error ends that peer and no other."""
        raise NotImplementedError

    def _move(self) -> None:
        """Go on with another driver: the present one has failed."""
        raise NotImplementedError

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
            self._admit(*made)

    def _pause(self) -> None:
        """Stop watching the socket for `_PAUSE_S`: no descriptor is left for a peer.

        New peers wait. The socket stays readable meanwhile, and the driver would
        report it again and again.
        """
        with suppress(IndexError, OSError, ValueError):  # it may be closed just now
            # First the timer: without it the driver would never resume this listener.
            self.driver.at(_sync.monotonic() + _PAUSE_S, self._resume, self)
            self.driver.watch(self._listening[0].fileno(), _net.ONCE)

    def _resume(self) -> None:
        with suppress(IndexError, OSError, ValueError):
            self.driver.watch(self._listening[0].fileno(), _net.READ)

    def fail(self, error: BaseException) -> None:  # noqa: ARG002  # the driver logs it
        """Continue to listen, with another driver if the present one ends.

        The error of one peer ends that peer's connection. An error reported here
        concerns the listener itself, such as a lack of memory, and may pass.
        """
        if self.driver.failed:
            self._move()
        else:
            self._pause()

    def abort(self, error: BaseException) -> None:
        """Do nothing: the owner closed the driver and must close the listener."""

    @property
    def is_ending(self) -> bool:
        """True once it is closed."""
        return not self._listening

    def abandon_after_fork(self) -> None:
        """Close the socket and nothing else: its file belongs to the parent."""
        for socket in self._listening:
            socket.close()


class Listener(Acceptor):
    """The listening socket of one broker, until the broker closes."""

    driver: Driver

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
        self.options: SocketOptions = options
        self.lease_s: float | None = lease_s
        self._farewell_s: float | None = farewell_s
        self._secure = secure
        # Peers that have not sent a `Hello` yet, and peers that wait to be accepted.
        self.unknown: dict[IncomingConnect, None] = {}
        self.waiting: dict[IncomingConnect, None] = {}
        self._moved_at = -_MOVES_S
        super().__init__(socket, driver)

    def _move(self) -> None:
        """Move to the default driver; close the broker if that fails.

        Without a driver the broker's accepts would wait forever.
        """
        former, now = self.driver, _sync.monotonic()
        if not self._listening:
            return  # closed just now: `_finish_close` releases the driver
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

    def _admit(self, made: Socket, source: str) -> None:
        if len(self.unknown) >= self.options.unknown_peers_max:
            # Not the new one: silent peers would keep all others out.
            oldest = next(iter(self.unknown))
            oldest.end(f"too many peers have sent no name: {len(self.unknown)}")
        incoming_connect = IncomingConnect(self, source)
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
            incoming_connect.report(str(error))
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
        reader = FrameReader(
            self.options.first_frame_bytes_max, self.options.unanswered_bytes_max
        )
        protocol = Protocol(reader=reader, lease_s=self.lease_s)
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
        self.driver.call(self._finish_close, self)

    def _finish_close(self) -> None:
        for incoming_connect in list(self.unknown):
            incoming_connect.link.drop()
        self.unknown.clear()
        self.driver.release()
