"""`RecordedQueue`: a queue to another process, recorded at both of its ends.

Two processes share no channel number and no message number by which their journals
could be read as one. Here the creator of the queue gives it a number, and the sender
gives one to each message, which carries it. So the receiver's record proves the order
instead of assuming it. Each end belongs to one thread, which records its operations in
the order in which it performs them.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Final

from bus.journal.format import RecordKind
from queuebroker import DisconnectedQueueError, _sync
from queuebroker.observer import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Literal, Self

    from bus.journal.writer import Journal
    from queuebroker import MessageQueue
    from queuebroker.sockets import SocketQueueBroker

__all__ = ["RecordedConnector", "RecordedQueue", "new_channel"]

_NUMBER: Final = struct.Struct("<Q")
_MET: Final = (RecordKind.ACCEPT_END, RecordKind.CONNECT_END)


def new_channel() -> int:
    """Return a number for a queue that is unique in all journals."""
    # As wide as a journal's own, see `bus.journal.format`.
    return int.from_bytes(os.urandom(8), "little") >> 2 or 1


class RecordedQueue:
    """One end; it implements `bus.demo.worker.Carrier`.

    Args:
        queue: a queue without an observer that rejects a message its peer would not get
          (``strict_half``).
        journal: the journal of this process.
        channel: the number of the queue, the same at both ends.
        side: 0 for the acceptor, 1 for the connector.
        waited_ns: how long the two took to meet.
    """

    def __init__(
        self,
        queue: MessageQueue,
        journal: Journal,
        channel: int,
        side: Literal[0, 1],
        waited_ns: int = 0,
    ) -> None:
        self._queue: Final = queue
        self._emit: Final = journal.emit
        self._names: Final = (
            journal.name(queue.local_name),
            journal.name(queue.remote_name),
        )
        self._here: Final = channel << 1 | side  # the flow of receives, and of closes
        self._there: Final = self._here ^ 1
        self._sent = 0
        self._closed = False
        self._take: Callable[[], bytes] = queue.receive
        self._note(_MET[side], self._here, waited_ns=waited_ns)

    @property
    def remote_name(self) -> str:
        """The name of the other end."""
        return self._queue.remote_name

    @property
    def remote_disconnected(self) -> bool:
        """True if the other end was disconnected."""
        return self._queue.remote_disconnected

    def send(self, data: bytes, /) -> None:
        """Send one message; see `MessageQueue.send`."""
        self.send_many((data,))

    def send_many(self, messages: Sequence[bytes], /) -> None:
        """Send several, in order; see `MessageQueue.send_many`."""
        numbered = list(enumerate(messages, self._sent + 1))
        # Recorded before the send: the peer may receive and record them at once.
        for number, data in numbered:
            self._note(RecordKind.SEND, self._there, number, len(data))
        self._sent += len(numbered)
        try:
            self._queue.send_many([_NUMBER.pack(one) + data for one, data in numbered])
        except DisconnectedQueueError:
            for number, data in numbered:
                reason = Reason.HALF_DISCONNECTED
                self._note(
                    RecordKind.DROP, self._there, number, len(data), reason=reason
                )
            raise

    def receive(self) -> bytes:
        """Wait for the next message; see `MessageQueue.receive`."""
        began = _sync.monotonic_ns()
        try:
            whole = self._take()
        except DisconnectedQueueError as error:
            if error.side == "remote":
                self._note(
                    RecordKind.CLOSE_SEEN, self._here, reason=Reason.DISCONNECTED
                )
            raise
        waited_ns = _sync.monotonic_ns() - began
        (number,) = _NUMBER.unpack_from(whole)
        data = whole[_NUMBER.size :]
        depth = self._queue.pending
        self._note(
            RecordKind.RECEIVE, self._here, number, len(data), waited_ns, depth=depth
        )
        return data

    @property
    def receive_raw(self) -> Callable[[], bytes]:
        """The function that takes a numbered message from the queue, unrecorded."""
        return self._queue.receive

    def receive_with(self, take: Callable[[], bytes]) -> None:
        """Take messages with another function from now on, such as a faulty one."""
        self._take = take

    def disconnect(self) -> None:
        """Disconnect; do nothing if already disconnected."""
        if not self._closed:
            self._closed = True
            # Recorded first, as between threads: the peer sees only recorded closes.
            self._note(RecordKind.CLOSE_LOCAL, self._here)
            self._queue.disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.disconnect()

    def _note(
        self,
        kind: RecordKind,
        flow: int,
        seq: int = 0,
        size: int = 0,
        waited_ns: int = 0,
        *,
        reason: Reason = Reason.NONE,
        depth: int = 0,
    ) -> None:
        task, peer = self._names
        self._emit(
            kind,
            reason=reason,
            size=size,
            flow=flow,
            seq=seq,
            mid=self._queue.port,
            task=task,
            peer=peer,
            wait_us=waited_ns // 1000,
            depth=depth,
        )


class RecordedConnector:
    """Connects a worker of this process, once; a `bus.demo.worker.Connector`.

    broker: gives the worker its name. channel: the number of its queue.
    """

    def __init__(
        self, broker: SocketQueueBroker, journal: Journal, channel: int
    ) -> None:
        self._broker: Final = broker
        self._journal: Final = journal
        self._channel: Final = channel

    @property
    def name(self) -> str:
        """The name of the worker."""
        return self._broker.name

    def connect(
        self, name: str, port: int, *, required: Literal[True]
    ) -> RecordedQueue:
        """Wait until the peer accepts; see `SocketQueueBroker.connect`."""
        began = _sync.monotonic_ns()
        queue = self._broker.connect(name, port, required=required)
        waited_ns = _sync.monotonic_ns() - began
        return RecordedQueue(queue, self._journal, self._channel, 1, waited_ns)
