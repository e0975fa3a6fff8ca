"""`Worker`: reads the assigned files, and sends them on, whole and checked."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from bus.demo.messages import (
    Give,
    Head,
    Paused,
    Piece,
    Stored,
    Unread,
    decode_receipt,
    encode,
    sent,
)
from bus.model.message import NOREPLY
from queuebroker import _sync
from queuebroker.errors import (
    BrokerClosedError,
    DisconnectedQueueError,
    UnknownBrokerError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from bus.api.bus import Bus
    from bus.api.bus_thread import BusThread
    from bus.api.task import Task
    from bus.demo.files import FileList
    from bus.demo.messages import Order
    from bus.model.message import Incoming

__all__ = ["Carrier", "Worker"]

PIECE_BYTES: Final = 16384
LOT: Final = 32  # messages sent by one call, so that a large file is not copied at once
TRIES: Final = 3


class Carrier(Protocol):
    """One end of a queue; every method as that of `queuebroker.MessageQueue`.

    Between threads it is such a queue, and between processes a
    `bus.demo.recorded_queue.RecordedQueue`.
    """

    @property
    def remote_name(self) -> str:
        """The name of the other end."""

    @property
    def remote_disconnected(self) -> bool:
        """True if the other end was disconnected."""

    def send(self, data: bytes, /) -> None:
        """Send one message."""

    def send_many(self, messages: Sequence[bytes], /) -> object:
        """Send several, in order."""

    def receive(self) -> bytes:
        """Wait for the next message."""

    def disconnect(self) -> None:
        """Disconnect this end."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Connector(Protocol):
    """Connects a worker, as `queuebroker.QueueBroker` does."""

    @property
    def name(self) -> str:
        """The name of the worker."""

    def connect(self, name: str, port: int, *, required: Literal[True]) -> Carrier:
        """Wait until the peer accepts."""


class Worker:
    """A task in a thread of its own, so it may block there without delaying others.

    It takes commands from the bus and sends content over a queue. If it loses either
    peer, it leaves both.

    broker: gives the task its name.
    leaves: disconnect in the middle of a file: of the first that is due and not empty.
    dies: report a pause and wait to be killed, in the middle of the first file, empty
      or not, that is due.
    from_file, after_s: a file is due if it has this index or a higher one, or belongs
      to a later pass, and begins this long after the construction.
    """

    _content: Carrier
    _task: Task

    def __init__(
        self,
        broker: Connector,
        files: FileList,
        *,
        leaves: bool = False,
        dies: bool = False,
        from_file: int = 0,
        after_s: float = 0.0,
    ) -> None:
        self._broker: Final = broker
        self._files: Final = files
        self._leaves: Final = leaves
        self._dies: Final = dies
        self._from: Final = (1, from_file)
        self._from_s: Final = _sync.monotonic() + after_s

    def connect(self, to: str, port: int) -> None:
        """Connect to the receiver of the content."""
        # These mean that the run ended before this worker began.
        with suppress(BrokerClosedError, UnknownBrokerError):
            self._content = self._broker.connect(to, port, required=True)

    def register(self, bus: Bus, thread: BusThread) -> None:
        """Take commands from now on."""
        self._task = bus.register(self._broker.name, thread=thread)
        self._task.on_command(self._ordered)

    def _ordered(self, message: Incoming) -> Any:
        order: Order = sent(message.payload)
        with suppress(DisconnectedQueueError):
            if isinstance(order, Give) and self._done(order):
                return None  # the answer: it is done
        self._content.disconnect()
        self._task.deregister(final=True)
        return NOREPLY

    def _done(self, give: Give) -> bool:
        """Read a file and send it until it is stored; return False to leave.

        Raises:
            DisconnectedQueueError: the collector has left.
        """
        reached = (give.pass_number, give.index) >= self._from
        due = reached and _sync.monotonic() >= self._from_s
        pauses = self._dies and due
        try:
            data = self._files.read(give.index)
        except OSError as error:
            if pauses:
                self._pause()
            self._miss(give, error.strerror or str(error))
            return True
        head = Head(give.pass_number, give.index, hashlib.sha256(data).hexdigest())
        if self._leaves and due and data:
            self._send(head, _first_half(data))
            return False
        if pauses:
            self._send(head, _first_half(data))
            self._pause()
        for _ in range(TRIES):
            self._send(head, _pieces(data, PIECE_BYTES))
            if isinstance(decode_receipt(self._content.receive()), Stored):
                return True
        self._miss(give, "content was damaged in transit")
        return True

    def _pause(self) -> None:
        self._content.send(encode(Paused()))
        self._content.receive()  # blocks: no receipt is due until an end closes

    def _send(self, head: Head, pieces: Iterable[Piece]) -> None:
        messages = map(encode, chain((head,), pieces))
        while lot := tuple(islice(messages, LOT)):
            self._content.send_many(lot)

    def _miss(self, give: Give, reason: str) -> None:
        self._content.send(encode(Unread(give.pass_number, give.index, reason)))
        decode_receipt(self._content.receive())


def _first_half(data: bytes) -> list[Piece]:
    """Return half of a file, in pieces small enough that there is a middle."""
    pieces = list(_pieces(data, min(PIECE_BYTES, max(1, len(data) // 4))))
    return pieces[: len(pieces) // 2]


def _pieces(data: bytes, piece_bytes: int) -> Iterator[Piece]:
    starts = range(0, max(1, len(data)), piece_bytes)
    for start in starts:
        yield Piece(data[start : start + piece_bytes], last=start == starts[-1])
