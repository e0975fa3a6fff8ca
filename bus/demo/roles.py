"""The tasks of the demo: what each says and does, over message queues.

Nothing here knows who starts the tasks or what carries the messages. Whoever loses its
peer hangs up in turn; nobody else is disturbed.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, Final

from bus.demo.messages import (
    Done,
    Give,
    Head,
    HungUp,
    PassDone,
    Ready,
    Stored,
    Took,
    Unread,
    decode_give,
    decode_order,
    decode_receipt,
    decode_request,
    encode,
)
from bus.demo.stock import Stock
from queuebroker import DisconnectedQueueError, _sync

if TYPE_CHECKING:
    from bus.demo.agenda import Agenda, Item
    from bus.demo.files import FileList
    from bus.demo.messages import News
    from queuebroker import MessageQueue

__all__ = ["CONTENT", "NEWS", "WORK", "Collector", "serve_worker", "work"]

WORK: Final = 1  # the lister's port: files to read
CONTENT: Final = 2  # the collector's port: content and digests
NEWS: Final = 3  # the console's port: progress

CHUNK_BYTES: Final = 16384


def serve_worker(queue: MessageQueue, agenda: Agenda) -> None:
    """Lister: hand out files to one worker until nothing is left or it leaves."""
    item: Item | None = None
    with queue:
        try:
            while True:
                decode_request(queue.receive())
                if item is not None:
                    done, item = item, None
                    agenda.done(done)
                item = agenda.take()
                if item is None:
                    return
                queue.send(encode(Give(*item)))
        except DisconnectedQueueError:
            # Not heard of since it was handed out: somebody else is to do it.
            if item is not None:
                agenda.give_back(item)


def work(
    tasks: MessageQueue,
    content: MessageQueue,
    files: FileList,
    leave_at: int | None = None,
) -> None:
    """Worker: read files, send content and digest, until the lister hangs up.

    leave_at: hang up in the middle of that file, counted from 1, or of the first
      after it that is not empty; None for never.
    """
    count = 0
    # A peer that is gone leaves nothing to do here.
    with contextlib.suppress(DisconnectedQueueError), tasks, content:
        tasks.send(encode(Ready()))
        for order in tasks:
            give = decode_give(order)
            count += 1
            try:
                data = files.read(give.index)
            except OSError as error:
                reason = error.strerror or str(error)
                content.send(encode(Unread(give.pass_number, give.index, reason)))
            else:
                leave = leave_at is not None and count >= leave_at and bool(data)
                _send_file(content, give, data, leave=leave)
                if leave:
                    return
            decode_receipt(content.receive())
            tasks.send(encode(Done()))


def _send_file(content: MessageQueue, give: Give, data: bytes, *, leave: bool) -> None:
    """Send one file; to leave, its head and the first half of its chunks."""
    starts = range(0, len(data), CHUNK_BYTES)
    digest = hashlib.sha256(data).hexdigest()
    head = Head(give.pass_number, give.index, len(data), digest, len(starts))
    content.send(encode(head))
    for start in starts[: len(starts) // 2] if leave else starts:
        content.send(data[start : start + CHUNK_BYTES])


class Collector:
    """Collector: what all workers send comes together here.

    Lock: ``_lock`` guards ``stocks``; messages are sent without it.

    Args:
        files: how many files make a pass.
        news: where to tell of progress.
        stocks: what was found, by pass.
    """

    def __init__(
        self, files: int, news: MessageQueue, stocks: dict[int, Stock]
    ) -> None:
        self._files = files
        self._news = news
        self._lock = _sync.Lock()
        self.stocks = stocks

    def serve_worker(self, queue: MessageQueue) -> None:
        """Take what one worker sends, until it leaves."""
        head: Head | None = None
        drained = 0
        with queue:
            try:
                while True:
                    drained += queue.remote_disconnected
                    order = decode_order(queue.receive())
                    if isinstance(order, Unread):
                        self._miss(order)
                    else:
                        head = order
                        parts = []
                        for _ in range(head.chunks):
                            drained += queue.remote_disconnected
                            parts.append(queue.receive())
                        self._take(head, b"".join(parts))
                        head = None
                    queue.send(encode(Stored()))
            except DisconnectedQueueError:
                if head is not None:
                    left = HungUp(queue.remote_name, drained, head.index)
                    self._tell(left)

    def _take(self, head: Head, content: bytes) -> None:
        """Keep a file, if it is what its head says."""
        digest = hashlib.sha256(content).hexdigest()
        if digest != head.digest:
            reason = "content was damaged on the way"
            self._miss(Unread(head.pass_number, head.index, reason))
            return
        with self._lock:
            stock = self.stocks.setdefault(head.pass_number, Stock())
            stock.add(head.index, len(content), digest)
        self._tell(Took(head.pass_number, head.index, len(content)))
        self._tell_complete(head.pass_number)

    def _miss(self, unread: Unread) -> None:
        """Note a file that could not be read."""
        with self._lock:
            stock = self.stocks.setdefault(unread.pass_number, Stock())
            stock.unread[unread.index] = unread.reason
        self._tell_complete(unread.pass_number)

    def _tell_complete(self, pass_number: int) -> None:
        with self._lock:
            stock = self.stocks[pass_number]
            complete = stock.files + len(stock.unread) == self._files
        if complete:
            self._tell(PassDone(pass_number))

    def _tell(self, news: News) -> None:
        # When nobody listens any more the work goes on.
        with contextlib.suppress(DisconnectedQueueError):
            self._news.send(encode(news))
