"""`Listener`: accepts the peers that dial one address of a socket."""

from __future__ import annotations

import errno
import logging
from typing import Final

import attrs

from bus.errors import WireError
from bus.pattern.inproc import InprocConnection, InprocRegistry
from bus.pattern.node import Node
from bus.pattern.socket_url import SocketUrl, Transport
from bus.pattern.stream_connection import StreamConnection
from bus.pattern.wire import type_mismatch
from queuebroker import _net, _platform
from queuebroker._net import Socket
from queuebroker.closable import Closable
from queuebroker.sockets.driver import await_background_end, default_driver
from queuebroker.sockets.listener import Acceptor

__all__ = ["INPROC", "Listener"]

_log: Final = logging.getLogger("bus.pattern")

INPROC: Final = InprocRegistry()
_platform.after_fork_in_child(INPROC.clear)
_BACKLOG: Final = 128
# How many peers may be in the handshake; the oldest of them goes first.
_UNKNOWN_MAX: Final = 256


class Listener(Closable):
    """One address at which a socket accepts peers, until `close`.

    Attributes:
        url: the address, with the port that the system chose for port 0.
    """

    __slots__ = ("_close", "url")

    def __init__(self, node: Node, url: SocketUrl, mode: int) -> None:
        if url.transport is Transport.INPROC:
            inproc = _InprocListener(node, url)
            self.url: str = str(url)
            self._close = inproc.close
        else:
            stream = _StreamListener(node, url, mode)
            self.url = stream.url
            self._close = stream.close

    def close(self) -> None:
        """Accept no more peers; those that are connected stay."""
        self._close()
        await_background_end()

    def __repr__(self) -> str:
        return f"<Listener {self.url}>"


class _InprocListener:
    def __init__(self, node: Node, url: SocketUrl) -> None:
        self._node: Final = node
        self._url: Final = url
        self._closed: bool = False
        self._finished: bool = False
        # Held for the finalizer of the socket, which can close it in no other thread.
        self._driver: Final = default_driver()
        if not INPROC.listen(url.name, self._accept):
            self._driver.call(self._finish)
            code = errno.EADDRINUSE
            raise _refusal(url, OSError(code, _net.error_text(code)))
        if not node.add_closer(self.close):
            self.close()

    def _accept(self, end: InprocConnection) -> bool:
        theirs, ours = end.node.endpoint, self._node.endpoint
        if theirs is not ours:
            error = type_mismatch("inproc peer", theirs, ours)
            _log.info("%s: a peer was rejected: %s", self._url, error)
            raise type_mismatch("inproc listener", ours, theirs)
        own = InprocConnection(self._node, lambda: None)
        return own.join(end, str(self._url))

    def close(self) -> None:
        with self._node.lock:
            if not self._closed:  # else the name may be another listener's
                INPROC.stop(self._url.name)
                self._closed = True
        self._driver.call(self._finish)
        self._node.remove_closer(self.close)

    def _finish(self) -> None:
        if not self._finished:
            self._finished = True
            self._driver.release()


class _StreamListener(Acceptor):
    """A listening socket.

    Lock: that of the node; ``driver`` changes under it, and not once this is closed.
    """

    def __init__(self, node: Node, url: SocketUrl, mode: int) -> None:
        self._node: Final = node
        self._path: Final = url.path if url.transport is Transport.IPC else None
        try:
            self._socket: Final[Socket] = _listen(url, mode)
        except OSError as error:
            raise _refusal(url, error) from None
        self._identity: Final = (
            None if self._path is None else _net.identity_of(self._path)
        )
        if url.transport is Transport.TCP:
            url = attrs.evolve(url, port=_net.port_of(self._socket))
        self.url: Final = str(url)
        self._url: Final = url
        self._unknown: Final[dict[StreamConnection, None]] = {}
        self._finished: bool = False
        self._abandoned: bool = False  # this is a fork's child
        super().__init__(self._socket, default_driver())
        if not node.add_closer(self.close):
            self.close()

    def _admit(self, made: Socket, source: str) -> None:
        if not self.driver.hold():
            made.close()
            return
        if len(self._unknown) >= _UNKNOWN_MAX:
            # Not the new one: silent peers would keep all others out.
            next(iter(self._unknown)).fail(TimeoutError("too many silent peers"))
        connection = StreamConnection(
            self._node,
            made,
            self.driver,
            self,
            SocketUrl.parse(f"tcp://{source}") if source else self._url,
            native=self._node.native,
            dials=False,
        )
        self._unknown[connection] = None
        if not self._node.add_closer(connection.close):
            connection.close()
        try:
            connection.begin()
        except OSError as error:
            connection.fail(error)

    def on_open(self, connection: StreamConnection) -> None:
        """Note that a peer has completed the handshake."""
        self._unknown.pop(connection, None)

    def on_end(self, connection: StreamConnection, error: BaseException | None) -> None:
        """Forget a connection."""
        self._node.remove_closer(connection.close)
        if connection in self._unknown:
            del self._unknown[connection]
            if error is not None and not self.is_ending:
                _log.info("%s: a peer was rejected: %s", self.url, error)
        elif isinstance(error, WireError):
            _log.warning("%s: a peer was disconnected: %s", self.url, error)

    def _move(self) -> None:
        """Go on with another driver: the present one has failed.

        Raises:
            RuntimeError, OSError: the system has no thread, or no descriptor left.
        """
        unused = default_driver()
        try:
            with self._node.lock:
                if self._listening:
                    self.driver, unused = unused, self.driver
                    unused.unregister(self._socket.fileno())
                    self.driver.register(self._socket.fileno(), self, _net.READ)
        finally:
            unused.call(unused.release)

    def abandon_after_fork(self) -> None:
        """Close the descriptor, and nothing else: its file is the parent's."""
        self._abandoned = True
        self._socket.close()
        self._node.abandon_after_fork()

    def close(self) -> None:
        """Stop listening; for any thread.

        The next call completes an interrupted one.
        """
        if self._abandoned:
            return  # the file is the parent's
        with self._node.lock:
            self._listening.clear()
            if (descriptor := self._socket.fileno()) >= 0:
                if self._path is not None and self._identity is not None:
                    _net.unlink_if(self._path, self._identity)
                self.driver.unregister(descriptor)
                self._socket.close()
            driver = self.driver  # the last one
        driver.call(self._finish)
        self._node.remove_closer(self.close)

    def _finish(self) -> None:
        if self._finished:
            return
        self._finished = True
        for connection in list(self._unknown):
            connection.fail(ConnectionAbortedError("the listener was closed"))
        self.driver.release()


def _listen(url: SocketUrl, mode: int) -> Socket:
    if url.transport is Transport.IPC:
        return _net.listen_ipc(url.path, mode=mode, backlog=_BACKLOG)
    if url.transport is Transport.ABSTRACT:
        return _net.listen_abstract(url.name, backlog=_BACKLOG)
    return _net.listen_tcp(
        url.host, url.port, backlog=_BACKLOG, ip_version=url.ip_version
    )


def _refusal(url: SocketUrl, error: OSError) -> OSError:
    """Return the error of a listener that cannot listen, with its address."""
    way_out = ""
    if _net.is_in_use(error):
        way_out = "; choose another address, or close the other listener"
        if url.transport is Transport.IPC and not url.path.is_socket():
            way_out = "; the path exists and is no socket: choose another path"
    text = f"cannot listen at {url}: {error.strerror or error}{way_out}"
    return OSError(error.errno, text)
