"""`SpSocket`: the common part of the sockets of this package."""

from __future__ import annotations

import abc
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, TypeVar

import attrs

from bus.pattern.dialler import Dialler
from bus.pattern.drop_ledger import Drop
from bus.pattern.listener import Listener
from bus.pattern.node import Node, SocketStats
from bus.pattern.socket_config import SocketConfig
from bus.pattern.socket_state import Waiting
from bus.pattern.socket_url import SocketUrl, Transport
from bus.pattern.wire import EndpointType
from queuebroker import _sync
from queuebroker.arguments import (
    check_callable,
    check_instance,
    deadline_after,
    index,
    positive,
)
from queuebroker.closable import Closable
from queuebroker.errors import BrokerClosedError
from queuebroker.sockets.driver import await_background_end, call_in_background

__all__ = ["SpSocket"]

M = TypeVar("M")


class SpSocket(Closable, abc.ABC, Generic[M]):
    """A socket with any number of listeners and diallers, for messages of one type.

    All methods are for any thread. A child of a fork must open sockets of its own.
    Iteration yields messages until the socket is closed. A socket that is garbage
    collected while open emits a `ResourceWarning` and is closed.
    """

    __slots__ = ("__weakref__", "_node", "_readiness", "_ready")

    def __init__(
        self,
        config: SocketConfig | None,
        on_drop: Callable[[Drop], object] | None,
        endpoint: EndpointType,
        native: EndpointType | None = None,
        *,
        overflow: Literal["drop", "block"] = "drop",
        **limits: Any,
    ) -> None:
        config = SocketConfig() if config is None else config
        check_instance("config", config, SocketConfig)
        if config.receive_overflow is None:
            config = attrs.evolve(config, receive_overflow=overflow)
        if on_drop is not None:
            check_callable("on_drop", on_drop)
        self._node = Node(config, endpoint, native, on_drop=on_drop, **limits)
        self._ready = self._node.inbound.ready

    # Bound as defaults: at interpreter exit modules are emptied, including this one.
    def __del__(
        self,
        _ending: Callable[[], bool] = sys.is_finalizing,
        _warn: Callable[..., None] = warnings.warn,
    ) -> None:
        # A socket whose construction failed has no node.
        node = getattr(self, "_node", None)
        if node is None or node.closed or _ending():
            return
        unclosed = f"unclosed {self!r}"
        # By the driver: a finalizer may run while its thread holds any lock. Listeners
        # and diallers hold the driver; without them there is nothing to close.
        call_in_background(node.close)
        _warn(unclosed, ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        state = "closed" if self._node.closed else f"{self._node.peers} peers"
        return f"<{type(self).__name__}, {state}>"

    def listen(self, url: str, *, mode: int = 0o600) -> Listener:
        """Accept peers at an address, until the listener or the socket is closed.

        url: ``inproc://name``, ``ipc:///path``, ``abstract://name`` or
          ``tcp://host:port``; see `SocketUrl`. With port 0 the system chooses one, and
          `Listener.url` has it.
        mode: the permission bits of the file of an ``ipc`` address, 0 to 0o777.

        Raises:
            TypeError, ValueError: it is no such address, or no such mode.
            OSError: the system refuses it, for example since it is in use.
            BrokerClosedError: this socket is closed.
        """
        self._node.check_open("listen")
        bits = index("mode", mode)
        if not 0 <= bits <= 0o777:
            raise ValueError(f"mode must be from 0 to 0o777, got {bits:#o}")
        return Listener(self._node, _stream_url(url, "listen"), bits)

    def dial(self, url: str) -> Dialler:
        """Connect to an address, again after each loss, until closed.

        Does not wait: see `wait_for_peers`.

        Raises:
            TypeError, ValueError: it is no such address.
            BrokerClosedError: this socket is closed.
        """
        self._node.check_open("dial")
        return Dialler(self._node, _stream_url(url, "dial"))

    def wait_for_peers(self, count: int = 1, timeout: float | None = None) -> bool:
        """Wait until ``count`` peers are connected; return False if time is up first.

        timeout: in seconds; None for no limit.

        Raises:
            TypeError, ValueError: ``count`` is no int, or below 1.
            BrokerClosedError: the socket is closed.
        """
        return self._node.wait_for_peers(
            positive("count", count), deadline_after(timeout)
        )

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until all messages sent have left; return False if time is up first.

        They have arrived at peers of this package. For other peers the system has taken
        them; it may discard some after `close` if such a peer sends just then. `close`
        itself drops messages that wait here.

        timeout: in seconds; None for no limit.

        Raises:
            BrokerClosedError: the socket is closed.
        """
        return self._node.drain(deadline_after(timeout))

    @abc.abstractmethod
    def receive(self, timeout: float | None = None) -> M:
        """Return the next message.

        timeout: in seconds; None for no limit, 0 to return at once.

        Raises:
            ReceiveTimeoutError: none arrived in time.
            BrokerClosedError: the socket is closed.
        """

    def receive_nowait(self) -> M:
        """Receive with ``timeout=0``."""
        return self.receive(0)

    def __iter__(self) -> Iterator[M]:
        """Yield messages until the socket is closed."""
        while True:
            try:
                message = self.receive()
            except BrokerClosedError:
                return
            yield message

    @abc.abstractmethod
    def _receiving(self) -> Waiting[M]:
        """Return the arguments of `wait_for` for the next message."""

    @property
    def stats(self) -> SocketStats:
        """The account of this socket: messages sent, delivered, and dropped."""
        return self._node.stats()

    @property
    def closed(self) -> bool:
        """True once the socket is closed."""
        return self._node.closed

    def fileno(self) -> int:
        """Return a descriptor for `selectors`: readable while a receive does not wait.

        It is readable, too, once the socket is closed.

        Raises:
            BrokerClosedError: the socket is closed.
        """
        self._readiness = self._node.readiness()
        return self._readiness.fd

    def _take(self, timeout: float | None) -> bytes:
        """Return the next message; see `BusSocket.receive`."""
        deadline = None if timeout is None else deadline_after(timeout)
        node, ready = self._node, self._ready
        try:
            body = ready.popleft()
        except IndexError:
            return node.receive(deadline)
        if not ready:
            node.on_ready_empty()
        return body

    def close(self) -> None:
        """Close all connections; each call that waits raises `BrokerClosedError`.

        If no socket of this process is left, this waits for the end of the driver's
        thread, at most one second.
        """
        self._node.close()
        if not _sync.owns(self._node.lock):
            await_background_end()


def _stream_url(text: str, act: str) -> SocketUrl:
    url = SocketUrl.parse(text)
    if url.transport is Transport.MULTICAST:
        where = text if act == "dial" else f"at {text}"
        raise ValueError(f"cannot {act} {where}: call join_group for multicast")
    if act == "dial" and url.transport is Transport.TCP and not (url.host and url.port):
        raise ValueError(
            f"cannot dial {text}: give the host and the port of a listener"
        )
    return url
