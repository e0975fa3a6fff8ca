"""`Group`: the nodes of a multicast group, as one peer of a socket (BP-15)."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Final

from bus.errors import WireError
from bus.pattern import native
from bus.pattern.drop_reason import DropReason
from bus.pattern.framing import NativeFraming
from bus.pattern.message_run import MessageRun
from bus.pattern.native import HEAD_BYTES
from bus.pattern.node import Node
from bus.pattern.pipe import Pipe, new_node_id
from bus.pattern.send_queue import SendQueue
from bus.pattern.socket_url import SocketUrl, Transport
from queuebroker import _net
from queuebroker.arguments import check_instance
from queuebroker.closable import Closable
from queuebroker.sockets.driver import await_background_end, default_driver

__all__ = ["Group"]

# Before the native frame: a magic number with a version, and the node that sends.
_HEAD: Final = struct.Struct("!4sQ")
_MAGIC: Final = b"QBp\1"
# The longest datagram that Ethernet carries in one piece: without IP and UDP headers.
_DATAGRAM_BYTES_MAX: Final = {4: 1500 - 20 - 8, 6: 1500 - 40 - 8}
_RECEIVES_MAX: Final = 256  # before other descriptors have their turn
_UINT32_MAX: Final = 2**32 - 1


class Group(Closable):
    """A multicast group that a socket has joined, until `close`.

    A message that does not fit into one datagram is dropped and counted
    (`DropReason.TOO_LONG`): the loss of one of several pieces would lose all of it. So
    are the datagrams for which the system had no room in its receive buffer
    (`DropReason.SYSTEM`). Those that are lost on the way are in no account.

    Attributes:
        url: the address of the group.
        message_bytes_max: the maximum length of a message.
    """

    __slots__ = ("_close", "message_bytes_max", "url")

    def __init__(self, node: Node, url: str, source: str) -> None:
        carrier = _GroupCarrier(node, url, source)
        self.url: Final = carrier.url
        self.message_bytes_max: Final = carrier.message_bytes_max
        self._close: Final = carrier.close

    def close(self) -> None:
        """Leave the group; for any thread."""
        self._close()
        await_background_end()

    def __repr__(self) -> str:
        return f"<Group {self.url}>"


class _GroupCarrier:
    """A `Carrier`, and a `Handler` of the driver.

    Attributes:
        queue: the datagrams that wait; the system drops those that it has no room for.
        flush_soon: None: a datagram carries one message.
    """

    flush_soon: Final = None

    def __init__(self, node: Node, url: str, source: str) -> None:
        parsed = SocketUrl.parse(url)
        check_instance("source", source, str)
        if parsed.transport is not Transport.MULTICAST:
            raise ValueError(
                f"cannot join {url}: it is no udp-mcast address; call listen or dial"
            )
        node.check_open("join a group")
        self.url: Final = str(parsed)
        version = 6 if ":" in parsed.host else 4
        self._framing: Final = NativeFraming()
        used = _HEAD.size + HEAD_BYTES
        self.message_bytes_max: Final = _DATAGRAM_BYTES_MAX[version] - used
        self._node: Final = node
        try:
            self._datagrams: Final = _net.join_group(parsed.host, parsed.port, source)
        except OSError as error:
            by = f" by {source}" if source else ""
            text = f"cannot join {self.url}{by}: {error.strerror or error}"
            raise OSError(error.errno, text) from None
        self._id: Final = new_node_id()
        self._ended: bool = False
        self._dropped: int = 0  # datagrams that the system has dropped, as counted here
        config = node.config
        self.queue: Final[SendQueue[bytes]] = SendQueue(
            config.send_messages, config.send_bytes, self._write
        )
        self._finished: bool = False
        try:
            self._driver: Final = default_driver()
        except BaseException:
            self._datagrams.close()
            raise
        try:
            self._begin()
        except BaseException:
            self.close()  # without the lock: the removal may call `on_drop`
            raise

    def _begin(self) -> None:
        # Under the lock: once the node has the pipe, other threads send and close.
        with self._node.lock:
            # A pipe of a native node that sends nothing itself: each message in the
            # group states its own origin.
            pipe = self._node.add_pipe(self, self.url, self._id)
            if pipe is None:
                self._node.check_open("join a group")
                raise AssertionError("a bus socket takes any number of pipes")
            self._driver.register(self._datagrams.fileno(), self, _net.READ)

    @property
    def _pipe(self) -> Pipe | None:
        # By the node: an interrupt may come before this object could note it.
        mine = [each for each in self._node.pipes if each.carrier is self]
        return mine[0] if mine else None

    # For the driver.

    def ready(self, mask: int) -> None:  # noqa: ARG002 # part of `Handler`
        """Take in the datagrams that have arrived."""
        runs: list[MessageRun] = []
        with suppress(OSError):  # the system reports an earlier failure to send
            for _ in range(_RECEIVES_MAX):
                if self._ended or (came := self._datagrams.receive()) is None:
                    break
                runs += self._read(came[0])
        if runs and (pipe := self._pipe) is not None:
            self._node.accept(pipe, runs)
        self.refresh()

    def _read(self, datagram: bytes) -> list[MessageRun]:
        if len(datagram) < _HEAD.size:
            return []
        magic, sender = _HEAD.unpack_from(datagram)
        # By node, not by address: several nodes share the address of a host (BP-15).
        if magic != _MAGIC or sender == self._node.id:
            return []
        try:
            return self._framing.read([datagram[_HEAD.size :]], sender)[0]
        except WireError:
            return []  # of a stranger: nothing is known of it

    def fail(self, error: BaseException) -> None:  # noqa: ARG002 # the driver logs it
        """Leave the group: an error of this process."""
        self.close()

    abort = fail

    @property
    def is_ending(self) -> bool:
        """True once it is closed."""
        return self._ended

    def abandon_after_fork(self) -> None:
        """Close the descriptors: this is a fork's child."""
        self._ended = True
        self._datagrams.close()
        self._node.abandon_after_fork()

    # For the node.

    def put(self, run: MessageRun) -> int:
        """Queue messages, as many as there is room for; return how many."""
        for at, body in enumerate(run.bodies):
            if len(body) > self.message_bytes_max:
                self._node.ledger.add_locked(self._pipe, DropReason.TOO_LONG)
            elif not self.queue.put(run.part(at, at + 1), self._encode):
                return at
        return len(run.bodies)

    def _encode(self, run: MessageRun) -> bytes:
        head = _HEAD.pack(_MAGIC, self._node.id) + native.head(run)
        return head + run.bodies[0]

    @property
    def is_idle(self) -> bool:
        """True if nothing waits to be sent."""
        return self.queue.is_idle

    def _write(self) -> bool:
        while (datagram := self.queue.take()) is not None:
            with suppress(OSError):  # no route just now: as lost on the way
                self._datagrams.send(datagram)
        return True

    def report(self) -> None:
        """Do nothing: a group has no account."""

    def ask(self) -> None:
        """Do nothing: no node confirms a datagram."""

    def refresh(self) -> None:
        """Count the datagrams that the system has dropped since the last call."""
        with self._node.lock:
            dropped = self._datagrams.dropped()
            if dropped is None:
                return
            count = (dropped - self._dropped) & _UINT32_MAX
            self._dropped = dropped
            if count:
                self._node.ledger.add_locked(self._pipe, DropReason.SYSTEM, count)
        self._node.ledger.report()

    def resume(self) -> None:
        """Do nothing: datagrams are read, and dropped if there is no room."""

    def close(self) -> None:
        """Leave the group; for any thread."""
        self._ended = True
        self._driver.call(self._finish)
        if (pipe := self._pipe) is not None:
            self._node.remove_pipe(pipe)

    def _finish(self) -> None:
        if self._finished:
            return
        self._finished = True
        self._driver.unregister(self._datagrams.fileno())
        # No thread must write to a descriptor that has become another file's.
        self.queue.stop(self._datagrams.close)
        self._driver.release()
