"""The worker: what it sends, when it resends, and when it leaves."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from bus.demo.files import FileList
from bus.demo.messages import (
    Again,
    Give,
    Head,
    Leave,
    Paused,
    Piece,
    Stored,
    Unread,
    decode_content,
    encode,
)
from bus.demo.worker import PIECE_BYTES, TRIES, Worker
from queuebroker import BrokerManager, DisconnectedQueueError, QueueBroker
from tests.demo.support import demo_bus
from tests.kit.inspection import is_there
from tests.kit.serving import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bus import Bus, Response
    from bus.demo.messages import Content, Receipt
    from queuebroker import MessageQueue

CONTENTS = {
    "empty": b"",
    "exact": bytes(PIECE_BYTES),
    "long": b"x" * PIECE_BYTES + b"y",
}


@pytest.fixture
def files(tmp_path: Path) -> FileList:
    """Create three files, and list one that has vanished."""
    for name, content in CONTENTS.items():
        (tmp_path / name).write_bytes(content)
    return FileList(tmp_path, "files", (*CONTENTS, "gone"))


@contextmanager
def at_work(files: FileList, **part: Any) -> Iterator[tuple[Bus, MessageQueue]]:
    """Give a bus with a registered worker, and the collector's end."""
    with demo_bus() as bus, BrokerManager() as manager:
        broker = QueueBroker("worker/1", manager=manager)
        worker = Worker(broker, files, **part)
        thread = bus.thread("worker/1")
        thread.call_soon(lambda: worker.connect("collector", 1))
        with QueueBroker("collector", manager=manager).accept(1) as queue:
            worker.register(bus, thread)
            yield bus, queue


def give(bus: Bus, index: int) -> Callable[[], Response]:
    """Command a file; return a function that waits for the result."""
    received: list[Response] = []
    lister = bus.register(f"lister{index}", thread=bus.here())
    lister.command("worker/1", Give(1, index), on_response=received.append)

    def outcome() -> Response:
        serve(bus, lambda: received, "it answers")
        return received[0]

    return outcome


def receive(queue: MessageQueue, receipt: Receipt) -> list[Content]:
    """Receive until a receipt is due, and send it."""
    got: list[Content] = []
    while not got or not (isinstance(got[-1], Unread) or _is_last(got[-1])):
        got.append(decode_content(queue.receive()))
    queue.send(encode(receipt))
    return got


def _is_last(message: Content) -> bool:
    return isinstance(message, Piece) and message.last


@pytest.mark.parametrize(("index", "pieces"), [(0, 1), (1, 1), (2, 2)])
def test_sends_a_file_in_pieces_with_its_digest_and_answers_when_it_is_stored(
    files: FileList, index: int, pieces: int
) -> None:
    with at_work(files) as (bus, queue):
        outcome = give(bus, index)
        head, *rest = receive(queue, Stored())

        assert outcome().error is None

    content = CONTENTS[files.paths[index]]
    assert head == Head(1, index, hashlib.sha256(content).hexdigest())
    assert len(rest) == pieces
    assert b"".join(each.data for each in rest if isinstance(each, Piece)) == content
    assert [_is_last(each) for each in rest] == [False] * (pieces - 1) + [True]


def test_a_worker_sends_a_damaged_file_again(files: FileList) -> None:
    with at_work(files) as (bus, queue):
        outcome = give(bus, 2)
        first, second = receive(queue, Again()), receive(queue, Stored())

        assert outcome().error is None
        assert queue.pending == 0
    assert first == second


def test_gives_up_a_file_that_is_damaged_each_time(files: FileList) -> None:
    with at_work(files) as (bus, queue):
        outcome = give(bus, 1)
        for _ in range(TRIES):
            receive(queue, Again())

        assert receive(queue, Stored()) == [
            Unread(1, 1, "content was damaged in transit")
        ]
        assert outcome().error is None


def test_says_why_a_file_cannot_be_read(files: FileList) -> None:
    with at_work(files) as (bus, queue):
        outcome = give(bus, 3)

        assert receive(queue, Stored()) == [Unread(1, 3, "No such file or directory")]
        assert outcome().error is None


def test_a_worker_leaves_the_queue_and_the_bus_on_command(files: FileList) -> None:
    with at_work(files) as (bus, queue):
        bus.command("worker/1", Leave())

        with pytest.raises(DisconnectedQueueError):
            queue.receive()
        serve(bus, lambda: not is_there(bus, "worker/1"), "it has left the bus")


def test_leaves_the_bus_when_the_collector_hangs_up(files: FileList) -> None:
    with at_work(files) as (bus, queue):
        give(bus, 2)
        queue.receive()
        queue.disconnect()

        serve(bus, lambda: not is_there(bus, "worker/1"), "it has left the bus")


def test_hangs_up_in_the_middle_of_the_file_it_is_to(files: FileList) -> None:
    with at_work(files, leaves=True) as (bus, queue):
        outcome = give(bus, 0)  # its file has no middle
        receive(queue, Stored())
        outcome()

        give(bus, 2)
        got = [decode_content(message) for message in queue]

        serve(bus, lambda: not is_there(bus, "worker/1"), "it has left the bus")
    head, *pieces = got
    assert isinstance(head, Head)
    assert [_is_last(each) for each in pieces] == [False, False]  # of five


@pytest.mark.parametrize(("index", "pieces"), [(0, 0), (2, 2)])
def test_a_worker_due_to_pause_does_so_in_the_middle_of_any_file(
    files: FileList, index: int, pieces: int
) -> None:
    with at_work(files, dies=True) as (bus, queue):
        give(bus, index)

        assert isinstance(decode_content(queue.receive()), Head)
        got = [decode_content(queue.receive()) for _ in range(pieces + 1)]

        assert all(isinstance(each, Piece) and not each.last for each in got[:-1])
        assert got[-1] == Paused()
        queue.disconnect()  # otherwise it would wait forever
        serve(bus, lambda: not is_there(bus, "worker/1"), "it leaves")


def test_a_worker_due_to_pause_does_so_at_a_file_that_cannot_be_read_too(
    files: FileList,
) -> None:
    with at_work(files, dies=True) as (bus, queue):
        give(bus, 3)

        assert decode_content(queue.receive()) == Paused()
        queue.disconnect()
        serve(bus, lambda: not is_there(bus, "worker/1"), "it leaves")


@pytest.mark.parametrize("later", [{"after_s": 3600.0}, {"from_file": 2}])
def test_a_worker_that_pauses_later_works_until_then(
    files: FileList, later: dict[str, float]
) -> None:
    with at_work(files, dies=True, **later) as (bus, queue):
        outcome = give(bus, 1)
        receive(queue, Stored())

        assert outcome().error is None
