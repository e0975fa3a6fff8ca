"""`SendQueue`: its bounds and its flush, by one thread and in every schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.pattern.message_run import MessageRun
from bus.pattern.send_queue import SendQueue
from queuebroker import _sync
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run


class Peer:
    """A peer that takes frames while it has room, and its queue."""

    def __init__(
        self, messages_max: int = 9, bytes_max: int = 99, room: float = float("inf")
    ) -> None:
        self.room = room
        self.written: list[str] = []
        self.is_writing = False
        self.lock: Final = _sync.Lock()  # of the node
        self.queue: Final = SendQueue[str](messages_max, bytes_max, self._write)

    def _write(self) -> bool:
        assert not self.is_writing, "two threads write at once"
        self.is_writing = True
        try:
            while self.room > 0:
                frame = self.queue.take()
                if frame is None:
                    return True
                self.room -= 1
                self.written.append(frame)
            return False
        finally:
            self.is_writing = False

    def put(self, *frames: str) -> int:
        """Put frames as one run of messages; return how many had room."""
        run = MessageRun(1, 1, [frame.encode() for frame in frames])
        return self.queue.put(run, joined)

    def send(self, *frames: str) -> None:
        """Send frames as a node does: put them under its lock, flush without it."""
        for frame in frames:
            with self.lock:
                assert self.put(frame) == 1
            self.queue.flush()

    def make_room(self, room: float = float("inf")) -> None:
        """Take more frames, as a transport does."""
        self.room = room
        self.queue.unblock()


def joined(run: MessageRun) -> str:
    """Return the frame of some messages."""
    return b"+".join(run.bodies).decode()


def put(queue: SendQueue[str], *sizes: int) -> list[bool]:
    """Put messages one by one; return which of them had room."""
    runs = [MessageRun(1, 1, [b"x" * size]) for size in sizes]
    return [queue.put(run, lambda run: f"{run.size} bytes") == 1 for run in runs]


@clause("BP-4")
def test_the_messages_that_wait_are_bounded() -> None:
    queue = Peer(3, 99).queue

    assert put(queue, 1, 1, 0, 0, 1) == [True, True, True, False, False]
    assert (len(queue), queue.size) == (3, 2)
    assert not queue.has_room(0)

    queue.take()
    assert put(queue, 5, 0) == [True, False]


@clause("BP-4")
def test_the_bytes_that_wait_are_bounded() -> None:
    queue = Peer(99, 10).queue

    assert put(queue, 6, 5, 4, 1, 0) == [True, False, True, False, True]
    assert (len(queue), queue.size) == (3, 10)

    queue.take()
    assert (len(queue), queue.size) == (2, 4)
    assert put(queue, 7, 6) == [False, True]


@clause("BP-4")
def test_one_message_always_fits() -> None:
    queue = Peer(1, 10).queue

    assert queue.has_room(1_000)
    assert put(queue, 1_000, 0) == [True, False]
    queue.take()
    assert put(queue, 1_000) == [True]


@clause("BP-4", "BP-16")
def test_an_account_always_has_room_and_keeps_its_place() -> None:
    queue = Peer(1, 10).queue
    assert put(queue, 5, 1) == [True, False]

    queue.put_control("account")

    assert (len(queue), queue.size) == (1, 5)
    assert [queue.take(), queue.take(), queue.take()] == ["5 bytes", "account", None]
    assert (len(queue), queue.size) == (0, 0)


@clause("BP-4", "BP-20")
def test_a_message_without_bytes_is_no_account() -> None:
    queue = Peer(1, 10).queue

    assert put(queue, 0, 0) == [True, False]
    assert len(queue) == 1
    queue.take()
    assert len(queue) == 0


@clause("BP-4")
def test_the_messages_that_are_discarded_are_counted() -> None:
    queue = Peer().queue
    put(queue, 0, 5)
    queue.put_control("account")
    put(queue, 1)
    queue.take()

    assert queue.discard() == 2
    assert queue.take() is None
    assert queue.discard() == 0


@clause("BP-4")
def test_several_messages_in_one_frame_are_counted_as_several() -> None:
    peer = Peer(4, 10)
    queue = peer.queue
    assert queue.has_room(10, 4)
    assert not queue.has_room(0, 5)
    assert not queue.has_room(11, 2)  # unlike one message that is longer

    assert peer.put("ab", "", "cd") == 3

    assert (len(queue), queue.size) == (3, 4)
    assert queue.has_room(6)
    assert not queue.has_room(7)
    assert not queue.has_room(0, 2)
    assert queue.take() == "ab++cd"
    assert (len(queue), queue.size) == (0, 0)

    peer.put("a", "b", "c")
    assert queue.discard() == 3


@clause("BP-4", "BP-19")
@pytest.mark.parametrize(
    ("frames", "fitting"),
    [
        (("a", "b", "c", "d", "e", "f"), 4),
        (("a", "bbbbb", "ccccc", "d"), 2),
        (("a" * 11, "b"), 1),
        (("", "", "", "", ""), 4),
    ],
)
def test_of_messages_without_room_together_the_first_ones_are_put(
    frames: tuple[str, ...], fitting: int
) -> None:
    peer = Peer(4, 10)

    assert peer.put(*frames) == fitting

    assert [peer.queue.take() for _ in range(fitting + 1)] == [*frames[:fitting], None]


STEPS = st.one_of(st.none(), st.lists(st.integers(0, 6), min_size=1, max_size=4))


@given(st.lists(STEPS))
@clause("BP-4", "BP-19")
def test_the_queue_behaves_as_its_model(steps: list[list[int] | None]) -> None:
    """None takes a frame; a list puts messages of so many bytes each."""
    queue = SendQueue[list[int]](3, 10, lambda: True)
    waiting: list[list[int]] = []

    def fits(sizes: list[int]) -> bool:
        queued = [size for frame in waiting for size in frame]
        return (len(sizes) == 1 and not queued) or (
            len(queued) + len(sizes) <= 3 and sum(queued) + sum(sizes) <= 10
        )

    for step in steps:
        if step is None:
            assert queue.take() == (waiting.pop(0) if waiting else None)
        else:
            assert queue.has_room(sum(step), len(step)) is fits(step)
            count = 0
            if fits(step):
                waiting.append(step)
                count = len(step)
            else:
                for size in step:
                    if not fits([size]):
                        break
                    waiting.append([size])
                    count += 1
            run = MessageRun(1, 1, [bytes(size) for size in step])
            assert queue.put(run, lambda run: [*map(len, run.bodies)]) == count
        assert len(queue) == sum(map(len, waiting))
        assert queue.size == sum(map(sum, waiting))


# The flush.


@clause("BP-4", "BP-19")
def test_a_flush_writes_all_frames_that_the_peer_takes() -> None:
    peer = Peer(room=2)

    peer.send("1", "2", "3", "4")

    assert peer.written == ["1", "2"]
    assert peer.queue.blocked
    assert len(peer.queue) == 2

    peer.make_room(1)
    assert peer.written == ["1", "2", "3"]
    assert peer.queue.blocked

    peer.make_room()
    assert peer.written == ["1", "2", "3", "4"]
    assert not peer.queue.blocked


@clause("BP-4")
def test_nothing_is_written_to_a_peer_that_takes_no_more() -> None:
    peer = Peer(room=0)
    peer.send("1")
    assert peer.queue.blocked

    peer.room = 5
    peer.queue.flush()

    assert peer.written == []


@clause("BP-4")
def test_a_failed_write_lets_the_next_one_begin() -> None:
    fails = [True]

    def write() -> bool:
        if fails:
            fails.clear()
            raise KeyError("a fault in the transport")
        return queue.take() is None or True

    queue = SendQueue[str](9, 99, write)
    put(queue, 1)
    with pytest.raises(KeyError):
        queue.flush()

    assert len(queue) == 0, "the same call writes what others may have left to it"


@clause("BP-4", "BP-19")
def test_no_flush_of_two_senders_is_lost() -> None:
    def program(run: Run) -> None:
        peer = Peer()
        senders = [run.spawn(peer.send, *frames) for frames in (("a1", "a2"), ("b1",))]
        peer.send("c1")
        for sender in senders:
            sender.join()
        assert sorted(peer.written) == ["a1", "a2", "b1", "c1"]
        assert peer.written.index("a1") < peer.written.index("a2")
        assert len(peer.queue) == peer.queue.size == 0

    under_every_schedule(program)


@clause("BP-4", "BP-19")
@pytest.mark.parametrize("senders", [1, 2])
def test_no_unblock_is_lost_while_senders_write(senders: int) -> None:
    """The peer takes nothing until it unblocks the queue, once.

    An end of an ``inproc`` connection does so: it does not repeat it, as a descriptor
    that stays ready does.
    """
    frames = ["a", "b"][:senders]

    def program(run: Run) -> None:
        peer = Peer(room=0)
        tasks = [run.spawn(peer.send, frame) for frame in frames]
        peer.make_room()
        for task in tasks:
            task.join()
        assert sorted(peer.written) == frames
        assert not peer.queue.blocked

    under_every_schedule(program)


@clause("BP-4", "BP-19")
def test_no_unblock_is_lost_if_room_comes_in_parts() -> None:
    def program(run: Run) -> None:
        peer = Peer(room=1)
        senders = [run.spawn(peer.send, *frames) for frames in (("a1", "a2"), ("b1",))]
        driver = run.spawn(peer.make_room, name="driver")
        for task in (*senders, driver):
            task.join()
        assert sorted(peer.written) == ["a1", "a2", "b1"]
        assert peer.written.index("a1") < peer.written.index("a2")

    under_every_schedule(program)


@clause("BP-4")
def test_nothing_is_written_once_the_queue_is_stopped() -> None:
    """A thread that writes to a closed descriptor may hit another file."""

    def program(run: Run) -> None:
        peer = Peer()
        senders = [run.spawn(peer.send, *frames) for frames in (("a1", "a2"), ("b1",))]
        closed: list[list[str]] = []

        def close() -> None:
            assert not peer.is_writing
            closed.append([*peer.written])

        peer.queue.stop(close)
        for sender in senders:
            sender.join()
        peer.send("late")
        peer.make_room()
        assert closed == [peer.written]

    under_every_schedule(program)


@clause("BP-4")
def test_each_message_is_either_written_or_discarded() -> None:
    def program(run: Run) -> None:
        peer = Peer()
        for frame in ("1", "2", "3"):
            peer.put(frame)
        flushing = run.spawn(peer.queue.flush)
        discarded = peer.queue.discard()
        flushing.join()
        assert peer.written == sorted(peer.written)
        assert discarded + len(peer.written) == 3

    under_every_schedule(program)


def under_every_schedule(program: Callable[[Run], object]) -> None:
    explore(program, bound=2, limit=schedules(1_000), random=schedules(50), seed=1)
    explore(
        program,
        bound=2,
        limit=schedules(2_000),
        random=schedules(200),
        seed=1,
        bytecode=(SendQueue,),
    )


def test_a_message_that_cannot_be_encoded_takes_no_room() -> None:
    def refuse(run: MessageRun) -> bytes:
        raise TypeError(run)

    queue: SendQueue[bytes] = SendQueue(9, 99, lambda: True)
    with pytest.raises(TypeError):
        queue.put(MessageRun(1, 1, [b"x"]), refuse)
    assert len(queue) == queue.size == 0
