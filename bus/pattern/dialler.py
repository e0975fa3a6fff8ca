"""`Dialler`: connects a socket to one address, again after each loss."""

from __future__ import annotations

import logging
import secrets
from functools import partial
from typing import TYPE_CHECKING, Final

from bus.errors import WireError
from bus.pattern.inproc import InprocConnection
from bus.pattern.listener import INPROC
from bus.pattern.node import Node
from bus.pattern.socket_url import SocketUrl, Transport
from bus.pattern.stream_connection import StreamConnection
from queuebroker import _net, _sync
from queuebroker.closable import Closable
from queuebroker.sockets.driver import Driver, await_background_end, default_driver

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Dialler", "Redial"]

_log: Final = logging.getLogger("bus.pattern")


class Redial:
    """The pauses between the attempts of one dialler, with full jitter.

    Args:
        min_s, max_s: bounds of the pause, in seconds. It doubles after each failure.
        share: returns a random number from 0 to 1.

    A pause is random between 0 and the current bound, so that the members of a bus do
    not all dial at once when a listener returns.
    """

    __slots__ = ("_bound_s", "_max_s", "_min_s", "_share")

    def __init__(self, min_s: float, max_s: float, share: Callable[[], float]) -> None:
        self._min_s: Final = min_s
        self._max_s: Final = max(min_s, max_s)
        self._share: Final = share
        self._bound_s: float = min_s

    def next_pause(self) -> float:
        """Return the pause before the next attempt, in seconds."""
        pause_s = self._share() * self._bound_s
        self._bound_s = min(2 * self._bound_s, self._max_s)
        return pause_s

    def on_loss(self, lasted_s: float) -> None:
        """Note a connection that has ended after a complete handshake.

        If it lasted as long as a pause might, the pauses are short again. Else they go
        on to grow: some listeners reject a connection only after the handshake, such as
        a pair that has a peer.
        """
        if lasted_s >= self._bound_s:
            self.reset()

    def reset(self) -> None:
        """Start again with the shortest pause."""
        self._bound_s = self._min_s


class Dialler(Closable):
    """One address that a socket dials, until `close`.

    After a failure or a loss it dials again, after a random pause (`Redial`).

    Attributes:
        url: the address.
    """

    __slots__ = ("_attempts", "url")

    def __init__(self, node: Node, url: SocketUrl) -> None:
        self.url: Final = str(url)
        self._attempts: Final = _Attempts(node, url)

    @property
    def is_connected(self) -> bool:
        """True while there is a connection."""
        return self._attempts.is_connected

    @property
    def error(self) -> BaseException | None:
        """The reason for the last failure or loss; None before the first."""
        return self._attempts.error

    def close(self) -> None:
        """End the connection, and dial no more; for any thread."""
        self._attempts.close()
        await_background_end()

    def __repr__(self) -> str:
        state = "connected" if self.is_connected else "not connected"
        return f"<Dialler {self.url}, {state}>"


class _Attempts:
    """The connections of a dialler, one after the other; a `ConnectionHost`."""

    def __init__(self, node: Node, url: SocketUrl) -> None:
        self.url: Final = str(url)
        self.error: BaseException | None = None
        self._node: Final = node
        self._address: Final = url
        self._closed: bool = False
        self._finished: bool = False
        self._connection: StreamConnection | InprocConnection | None = None
        # The listener rejected the native type, since its bytes came in pieces.
        self._is_plain: bool = False
        self._warned: bool = False
        self._opened_at: float | None = None  # when the connection was complete
        config = node.config
        self._redial: Final = Redial(
            config.redial_min_s, config.redial_max_s, _random_share
        )
        # Changed under the node's lock, and not once ``_closed``.
        self._driver: Driver = default_driver()
        if not node.add_closer(self.close):
            self._closed = True
            self._driver.call(self._finish)
            return
        if url.transport is Transport.INPROC:
            self._dial()
        else:
            self._driver.call(self._dial, self)

    def _dial(self) -> None:
        """Dial once; in the thread of the driver, but for ``inproc``."""
        if self._closed:
            return
        if self._address.transport is Transport.INPROC:
            self._dial_inproc()
        elif _net.has_host_name(place := self._address.place):
            # The look-up of a name may take long, and the driver serves all sockets.
            resolve = partial(self._resolve, place)
            _sync.Thread(
                target=resolve, name=f"resolve {place[0]}", daemon=True
            ).start()
        else:
            self._connect(place)

    def _dial_inproc(self) -> None:
        self._connection = end = InprocConnection(
            self._node, partial(self._on_end, ConnectionResetError("the peer closed"))
        )
        try:
            if INPROC.dial(self._address.name, end, self._dial):
                self.on_open()
        except WireError as error:
            self._on_end(error)
        if self._closed:  # meanwhile, by another thread
            INPROC.forget(self._address.name, self._dial)
            end.close()

    def _resolve(self, place: tuple[str, int]) -> None:
        try:
            found = _net.resolve(place, self._address.ip_version)
        except Exception as error:  # noqa: BLE001 # no such name, or no memory
            self._driver.call(partial(self._on_end, error), self)
        else:
            self._driver.call(partial(self._connect, found), self)

    def _connect(self, place: _net.Place) -> None:
        if self._closed:
            return
        url, node, driver = self._address, self._node, self._driver
        try:
            socket = _net.dial(place)
        except OSError as error:
            self._on_end(error)
            return
        if not driver.hold():
            socket.close()
            self._on_end(ConnectionAbortedError("the driver of the sockets has failed"))
            return
        self._connection = connection = StreamConnection(
            node,
            socket,
            driver,
            self,
            url,
            native=None if self._is_plain else node.native,
            dials=True,
        )
        try:
            connection.begin()
        except OSError as error:
            connection.fail(error)

    @property
    def is_connected(self) -> bool:
        """True while there is a connection."""
        connection = self._connection
        return connection is not None and connection.is_open

    def on_open(self, _: StreamConnection | None = None) -> None:
        """Note that the handshake is complete."""
        self._opened_at = _sync.monotonic()

    def on_end(self, _: StreamConnection, error: BaseException | None) -> None:
        """Dial again, unless this was closed."""
        self._on_end(error)

    def _on_end(self, error: BaseException | None) -> None:
        if self._closed:
            return
        self.error = error
        connection, self._connection = self._connection, None
        if self._opened_at is not None:
            self._redial.on_loss(_sync.monotonic() - self._opened_at)
            self._opened_at = None
        if isinstance(connection, StreamConnection) and connection.was_mistaken:
            self._is_plain = True
            pause_s = 0.0
        else:
            self._is_plain = False
            pause_s = self._redial.next_pause()
            if isinstance(error, WireError) and not self._warned:
                self._warned = True
                _log.warning("%s: the listener does not match: %s", self.url, error)
        self._change_failed_driver()
        self._driver.at(_sync.monotonic() + pause_s, self._dial, self)

    def _change_failed_driver(self) -> None:
        """Go on with another driver if this one has failed: it serves no more sockets.

        Raises:
            RuntimeError: the system has no thread left.
        """
        if not self._driver.failed:
            return
        spare = default_driver()
        with self._node.lock:
            if not self._closed:
                self._driver, spare = spare, self._driver
        spare.call(spare.release)

    def fail(self, error: BaseException) -> None:
        """Dial again later: an error of this process ended the attempt."""
        self._on_end(error)

    def close(self) -> None:
        """End the connection, and dial no more; for any thread.

        The next call completes an interrupted one.
        """
        with self._node.lock:
            self._closed = True
            driver = self._driver  # the last one
        INPROC.forget(self._address.name, self._dial)
        connection = self._connection
        if connection is not None:
            connection.close()
        driver.call(self._finish)
        self._node.remove_closer(self.close)

    def _finish(self) -> None:
        if self._finished:
            return
        self._finished = True
        # A connection that began while `close` ran.
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._driver.release()


def _random_share() -> float:
    return secrets.randbelow(1 << 32) / (1 << 32)
