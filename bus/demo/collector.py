"""`Collector`: receives the content from all workers, and reports progress."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import attrs

from bus.demo.inventory import Inventory
from bus.demo.messages import (
    Again,
    Damaged,
    Head,
    HungUp,
    PassDone,
    Paused,
    Piece,
    Stored,
    Took,
    Unread,
    decode_content,
    encode,
)
from bus.errors import BusFullError, UnknownTaskError
from queuebroker import DisconnectedQueueError, _sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.api.bus import Bus
    from bus.demo.messages import Content, Event, Receipt
    from bus.demo.worker import Carrier

__all__ = ["COLLECTOR", "CONTENT", "Collector"]

COLLECTOR: Final = "collector"
CONTENT: Final = 2  # its port: content and digests


@attrs.define(slots=True)
class _Inbound:
    """One file, as far as it has arrived."""

    head: Head | None = None
    pieces: list[bytes] = attrs.field(factory=list)


class Collector:
    """A task that notifies, and one server for each worker, in a thread of its own.

    inventories: the results, by pass.

    Lock: ``_lock`` guards everything; messages are sent without it.

    Args:
        files: the number of files in a pass.
        workers: the number of workers to serve; after the last of them the task leaves.
        paused: called with the name of a worker that stops in the middle of a file.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        files: int,
        workers: int,
        paused: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._files: Final = files
        self._paused: Final = paused
        self._lock: Final = _sync.Lock()
        self._serving = workers
        self.inventories: Final[dict[int, Inventory]] = {}
        # The files reported in each pass; the pass is reported when all have been.
        self._told: Final[dict[int, set[int]]] = {}
        self._task: Final = bus.register(COLLECTOR)

    def serve(self, queue: Carrier) -> None:
        """Receive from one worker, until it leaves."""
        try:
            self._serve(queue)
        finally:
            with self._lock:
                self._serving -= 1
                last = not self._serving
            if last:
                self._task.deregister(final=True)

    def _serve(self, queue: Carrier) -> None:
        file = _Inbound()
        drained = 0
        with queue:
            try:
                while True:
                    hung_up = queue.remote_disconnected
                    message = decode_content(queue.receive())
                    drained += hung_up
                    receipt = self._receive(queue.remote_name, file, message)
                    if receipt is not None:
                        queue.send(encode(receipt))
            except DisconnectedQueueError as error:
                # A lost worker did not disconnect: the lister reports its file.
                orderly = error.side == "remote" and error.__cause__ is None
                if file.head is not None and orderly:
                    self._tell(HungUp(queue.remote_name, drained, file.head.index))

    def _receive(self, worker: str, file: _Inbound, message: Content) -> Receipt | None:
        """Handle one message; return the receipt that is then due."""
        match message:
            case Head():
                file.head, file.pieces = message, []
            case Piece(data, last):
                file.pieces.append(data)
                if last:
                    head, file.head = file.head, None
                    if head is not None and self._take(head, file.pieces):
                        return Stored()
                    self._tell(Damaged(worker))
                    return Again()
            case Unread():
                self._miss(message)
                return Stored()
            case Paused():
                self._paused(worker)
        return None

    def _take(self, head: Head, pieces: list[bytes]) -> bool:
        """Keep a file, if its content matches its head."""
        content = b"".join(pieces)
        digest = hashlib.sha256(content).hexdigest()
        if digest != head.digest:
            return False
        with self._lock:
            files = self.inventories.setdefault(head.pass_number, Inventory())
            files.add(head.index, len(content), digest)
        self._tell(Took(head.pass_number, head.index, len(content)))
        self._tell_complete(head.pass_number, head.index)
        return True

    def _miss(self, unread: Unread) -> None:
        """Note a file that could not be read."""
        with self._lock:
            files = self.inventories.setdefault(unread.pass_number, Inventory())
            files.unread[unread.index] = unread.reason
        self._tell_complete(unread.pass_number, unread.index)

    def _tell_complete(self, pass_number: int, index: int) -> None:
        with self._lock:
            told = self._told.setdefault(pass_number, set())
            is_new = index not in told
            told.add(index)
            complete = is_new and len(told) == self._files
        if complete:
            self._tell(PassDone(pass_number))

    def _tell(self, event: Event) -> None:
        # Without a listener, or with one blocked for too long, the work continues.
        with suppress(BusFullError, UnknownTaskError):
            self._task.notify(event)
