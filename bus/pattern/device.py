"""`device`: joins two raw sockets, or the peers of one (BP-11, BP-12)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from bus.errors import BusyError
from bus.pattern.node import Node
from bus.pattern.raw_bus_socket import RawBusSocket
from bus.process.failures import InternalErrors
from queuebroker import _sync
from queuebroker.arguments import deadline_after, wrong_type
from queuebroker.closable import Closable
from queuebroker.errors import BrokerClosedError
from queuebroker.sockets.driver import await_background_end

__all__ = ["Device", "device"]

_AT_ONCE: Final = 64  # messages of one peer, before those of another
_END_S: Final = 1.0  # the most that `close` waits for the threads


def device(first: RawBusSocket | None, second: RawBusSocket | None = None) -> Device:
    """Forward messages between two sockets, or among the peers of one.

    With one socket, each message of a peer goes to all its other peers. With two, each
    message that one of them receives goes to the peers of the other one, and not back
    to its own side: there the peers need connections of their own.

    The sockets may still `listen` and `dial`, so a device can start before they have
    peers, and get further ones later. To send or to receive by them raises `BusyError`.

    Raises:
        TypeError: a socket is not raw: a `BusSocket` lacks the tags.
        ValueError: no socket, or the same socket twice.
        BusyError: another device uses one of the sockets.
        BrokerClosedError: one of them is closed.
    """
    sockets: list[object] = [each for each in (first, second) if each is not None]
    if not sockets:
        raise ValueError("device must have at least one socket, got None and None")
    nodes: list[Node] = []
    for each in sockets:
        if not isinstance(each, RawBusSocket):
            raise wrong_type("socket of a device", "a RawBusSocket", each)
        nodes.append(each._node)
    if first is second:
        raise ValueError("device must have two different sockets; give one to reflect")
    return Device(nodes, sockets)


class Device(Closable):
    """The forwarding between one or two sockets, in threads of its own; see `device`.

    It owns the messages of its sockets until it ends (BP-14). It ends when it or one of
    the sockets is closed, and closes all of them. It keeps forwarding if no variable
    refers to it or to them.

    Attributes:
        error: the error that ended it; None if it was closed, or goes on.
    """

    def __init__(self, nodes: list[Node], sockets: Sequence[object] = ()) -> None:
        self.error: Exception | None = None
        self._sockets: Final = sockets  # they close when they are collected
        self._nodes: Final = nodes
        self._name: Final = f"device {id(self):#x}"
        # Held during the start: no thread forwards before all of them run.
        self._starting: Final = _sync.Lock()
        self._started: bool = False
        try:
            for node in nodes:
                node.own(self._name)
            pairs = zip(nodes, reversed(nodes), strict=True)
            self._threads: Final = [
                _sync.Thread(
                    target=partial(self._forward, *pair), name=self._name, daemon=True
                )
                for pair in pairs
            ]
            with self._starting:
                for thread in self._threads:
                    thread.start()
                self._started = True
        except BaseException:
            for node in nodes:  # an interrupt may come before any note of an owner
                node.disown(self._name)
            raise

    def _forward(self, source: Node, target: Node) -> None:
        """Forward all messages of one socket to another, or to the same one."""
        with self._starting:
            if not self._started:
                return  # the sockets are their user's again
        owner = self._name
        errors = InternalErrors(owner)
        try:
            while True:
                try:
                    pipe, run = source.receive_tagged(None, owner, _AT_ONCE)
                    target.forward(run, came_by=pipe, owner=owner)
                    errors.on_success()
                except MemoryError as error:  # these messages are lost
                    errors.on_error(error)
        except BrokerClosedError:
            pass
        except BusyError:
            return  # an interrupt has ended the start just behind its last step
        except Exception as error:  # noqa: BLE001 # for `error`
            self.error = error
        self.close()

    @property
    def closed(self) -> bool:
        """True once it has ended."""
        return not any(thread.is_alive() for thread in self._threads)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended; return False if time is up first.

        timeout: in seconds; None for no limit.
        """
        deadline = deadline_after(timeout)
        for thread in self._threads:
            left_s = _sync.WAIT_S_MAX
            if deadline is not None:
                left_s = max(0.0, deadline - _sync.monotonic())
            if not _sync.join(thread, left_s):
                return False
        return True

    def close(self) -> None:
        """End it, and close its sockets; for any thread.

        Returns when its threads have ended, or after a second: they may be calling the
        ``on_drop`` of a socket, which may call this.
        """
        for node in self._nodes:
            node.close()
        if _sync.current_thread() not in self._threads:
            self.wait(_END_S)
            await_background_end()
