"""The memory of links without links: an owner, its recipients, and the frames between.

Owner and recipients are in this process, so that each sees every lease of the others.
"""

from __future__ import annotations

import fcntl
import gc
import os
import subprocess
import sys
from collections import deque
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from bus import BusConfig
from bus.core.wire import (
    FOLLOWS_MIN,
    LEASED,
    NO_DEADLINE,
    RAW,
    Batch,
    CloseSlab,
    FrameReader,
    MemoryFrame,
    OfferSlab,
    Release,
    Run,
    SlabAnswer,
)
from bus.errors import WireError
from bus.links import lent_bodies, shared_bodies
from bus.links.link_memory import LinkMemory
from bus.message import Kind
from bus.multicast.shared_memory import SEALS
from specs.clauses import clause
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bus.core.wire import Frame
    from bus.multicast.arena import Arena

MIB: Final = 2**20
SIZE: Final = FOLLOWS_MIN  # the least that goes through memory
_numbers = count(1)
_opened: Final[list[LinkMemory]] = []


def message(body: bytes) -> Batch:
    """Return the frame of one command."""
    run = Run(1, 2, Kind.COMMAND, RAW, 0, NO_DEADLINE, 0, [body])
    number = next(_numbers)
    return Batch(1, 1, number, number, [run])


def body_of(frame: Frame) -> Any:
    assert isinstance(frame, Batch)
    [run] = frame.runs
    [body] = run.bodies
    return body


def in_memory(frame: Frame) -> bool:
    """Return True if the body of a message lies in shared memory.

    It is a view in any case (BUS-MSG-16).
    """
    body = body_of(frame)
    assert type(body) is memoryview
    assert body.readonly
    return type(body.obj) is not bytes


class Owner:
    """A process that sends; its links are numbered, one to each recipient."""

    def __init__(self, process_id: int | None = None, **settings: Any) -> None:
        pid = os.getpid() if process_id is None else process_id
        config = BusConfig(**settings)
        self.memory: Final = LinkMemory(config, lambda _: pid, lambda: None)
        self.recipients: Final[dict[int, Recipient]] = {}
        _opened.append(self.memory)

    def link(self, number: int, recipient: Recipient) -> None:
        self.recipients[number] = recipient

    def send(self, body: bytes, *links: int) -> list[Frame]:
        """Send one body on links in one round; return the messages that arrived."""
        arrived = []
        for link in links:
            for piece in self.memory.pieces(link, message(body)):
                arrived += self.recipients[link].read(piece)
        for link, data in self.memory.end_round():
            arrived += self.recipients[link].read(data)
        return [each for each in arrived if isinstance(each, Batch)]

    def answers(self) -> list[MemoryFrame]:
        """Take in all that the recipients have to say; return it."""
        came = []
        for link, recipient in self.recipients.items():
            for frame in recipient.say():
                came.append(frame)
                assert self.memory.on_frame(link, frame) == []
        return came

    def prepared(self, *links: int, size: int = SIZE) -> None:
        """Have a slab for messages of this size mapped at links."""
        first = self.send(bytes(size), *links)
        assert not any(map(in_memory, first))
        assert self.answers() == [SlabAnswer(slab=1, mapped=True)] * len(links)

    @property
    def arena(self) -> Arena:
        assert self.memory._shared is not None
        return self.memory._shared._arena

    @property
    def used(self) -> int:
        """The buffers in use."""
        return sum(each.buffers - each.free for each in self.arena.slabs())


class Recipient:
    """A process that receives, on one link with the number 7."""

    def __init__(self, process_id: int | None = -1, **settings: Any) -> None:
        pid = os.getpid() if process_id == -1 else process_id
        self.woken = 0
        self.memory: Final = LinkMemory(
            BusConfig(**settings), lambda _: pid, self._on_ended
        )
        self._reader: Final = FrameReader()
        self._answers: Final[deque[MemoryFrame]] = deque()
        self.pieces: Final[list[bytes]] = []
        _opened.append(self.memory)

    def _on_ended(self) -> None:
        self.woken += 1

    def read(self, data: bytes) -> list[Frame]:
        self.pieces.append(data)
        frame = self._reader.read(data)
        if frame is None:
            return []
        frame = self.memory.resolve_body(7, frame)
        if isinstance(frame, MemoryFrame):
            for action in self.memory.on_frame(7, frame):
                assert isinstance(action.frame, SlabAnswer)
                self._answers.append(action.frame)
        return [frame]

    def say(self) -> Iterator[MemoryFrame]:
        while self._answers:
            yield self._answers.popleft()
        for action in self.memory.take_ended():
            assert isinstance(action.frame, Release)
            yield action.frame


@pytest.fixture(autouse=True)
def all_closed() -> Iterator[None]:
    """Close all memory after the test."""
    yield
    while _opened:
        _opened.pop().close()
    gc.collect()


@pytest.fixture
def owner() -> Owner:
    made = Owner()
    made.link(1, Recipient())
    return made


def test_a_short_message_is_sent_as_without_shared_memory(owner: Owner) -> None:
    for size in (0, 10, SIZE - 1):
        [frame] = owner.send(bytes(size), 1)
        assert body_of(frame) == bytes(size)
        assert type(body_of(frame)) is bytes

    assert owner.used == 0
    assert list(owner.arena.slabs()) == []


@clause("MC-38")
def test_a_message_below_the_threshold_goes_by_the_link() -> None:
    owner = Owner(arena_threshold_bytes=MIB)
    owner.link(1, Recipient())
    owner.prepared(1, size=MIB)

    [below] = owner.send(bytes(MIB - 1), 1)
    [at] = owner.send(bytes(MIB), 1)

    assert not in_memory(below)
    assert in_memory(at)


@clause("MC-38")
def test_a_long_message_lies_in_memory_as_soon_as_its_recipient_can_read_it(
    owner: Owner,
) -> None:
    owner.prepared(1)
    body = os.urandom(SIZE)

    [frame] = owner.send(body, 1)

    view = body_of(frame)
    assert type(view) is memoryview
    assert view.readonly
    assert view == body
    assert isinstance(frame, Batch)
    assert frame.runs[0].flags == RAW
    # Its bytes did not travel.
    assert len(owner.recipients[1].pieces[-1]) < 200


@clause("MC-38")
def test_no_message_depends_on_an_answer_that_has_not_come(owner: Owner) -> None:
    for number in range(4):
        [frame] = owner.send(bytes([number]) * SIZE, 1)
        assert body_of(frame) == bytes([number]) * SIZE
        assert not in_memory(frame)

    # One offer, whatever the number of messages.
    assert owner.answers() == [SlabAnswer(slab=1, mapped=True)]
    assert in_memory(owner.send(bytes(SIZE), 1)[0])


@clause("MC-8")
def test_one_body_for_many_is_written_once_and_has_one_place(owner: Owner) -> None:
    for link in (2, 3, 4):
        owner.link(link, Recipient())
    owner.prepared(1, 2, 3, 4, size=MIB)
    body = os.urandom(MIB)

    frames = owner.send(body, 1, 2, 3, 4)

    assert [body_of(each) == body for each in frames] == [True] * 4
    assert owner.used == 1
    # Two bodies in one round, and equal ones: each has its own place.
    more = owner.send(bytes(bytearray(body)), 1, 2)
    assert owner.used == 2
    del frames, more


@clause("MC-35", "MC-24")
def test_the_buffer_is_home_once_no_recipient_reads_it(owner: Owner) -> None:
    owner.link(2, Recipient())
    owner.prepared(1, 2)
    one, two = owner.send(b"x" * SIZE, 1, 2)
    view = body_of(one)[5:]

    del one, two
    gc.collect()
    assert [type(each) for each in owner.answers()] == [Release]  # that of link 2
    assert owner.used == 1
    assert view[:3] == b"xxx"

    del view
    assert [type(each) for each in owner.answers()] == [Release]
    assert owner.used == 0
    assert owner.arena.stray_releases == 0


@clause("MC-35")
def test_ended_leases_are_reported_at_once_only_if_nothing_else_wakes_the_thread(
    owner: Owner,
) -> None:
    owner.prepared(1)
    recipient = owner.recipients[1]
    assert not recipient.memory.is_due(soon=False)

    for number in range(15):
        owner.send(bytes(SIZE), 1)
        assert recipient.woken == number + 1
        assert recipient.memory.is_due(soon=False)
        assert not recipient.memory.is_due(soon=True)
    owner.send(bytes(SIZE), 1)
    assert recipient.memory.is_due(soon=True)

    [report] = owner.answers()
    assert isinstance(report, Release)
    assert len(report.leases) == 16
    assert not recipient.memory.is_due(soon=False)
    assert owner.answers() == []


@clause("MC-35")
def test_an_ended_lease_whose_note_was_interrupted_is_reported(owner: Owner) -> None:
    owner.prepared(1)
    owner.send(bytes(SIZE), 1)
    lent = owner.recipients[1].memory._lent
    assert lent is not None
    lent._ended_at.clear()

    assert [type(each) for each in owner.answers()] == [Release]
    assert owner.used == 0


def test_a_report_has_at_most_256_leases() -> None:
    owner = Owner(arena_bytes=64 * MIB, arena_share=1.0)
    owner.link(1, Recipient())
    owner.prepared(1)
    held = [owner.send(bytes(SIZE), 1)]
    while owner.used < 300:
        held.append(owner.send(bytes(SIZE), 1))
        owner.answers()
    held.clear()
    gc.collect()

    reports = owner.answers()

    leases = [len(each.leases) for each in reports if isinstance(each, Release)]
    assert leases == [256, 44]
    assert owner.used == 0


def _without_pid() -> Recipient:
    return Recipient(process_id=None)


def _of_no_process() -> Recipient:
    return Recipient(process_id=2**22 - 1)


@clause("MC-29", "MC-38")
@pytest.mark.parametrize("make", [_without_pid, _of_no_process])
def test_a_recipient_without_access_gets_every_message_by_its_link(
    owner: Owner, make: Callable[[], Recipient]
) -> None:
    owner.link(2, make())
    owner.send(bytes(SIZE), 1, 2)
    assert {
        each.mapped for each in owner.answers() if isinstance(each, SlabAnswer)
    } == {
        True,
        False,
    }

    for number in range(3):
        one, two = owner.send(bytes([number]) * SIZE, 1, 2)
        assert in_memory(one)
        assert not in_memory(two)
        assert body_of(two) == bytes([number]) * SIZE
    # It is not asked again for the same slab.
    assert not any(isinstance(each, SlabAnswer) for each in owner.answers())


@clause("MC-29", "MC-38", "BUS-MSG-16")
def test_a_recipient_that_uses_no_memory_gets_bytes(owner: Owner) -> None:
    owner.link(2, Recipient(arena=False))
    for _ in range(3):
        [frame] = owner.send(bytes(SIZE), 2)
        assert body_of(frame) == bytes(SIZE)
        assert type(body_of(frame)) is bytes
        assert owner.answers() in ([], [SlabAnswer(slab=1, mapped=False)])


@clause("BUS-MSG-16")
def test_only_a_long_payload_of_bytes_becomes_a_view(owner: Owner) -> None:
    packed = Run(1, 2, Kind.COMMAND, 0, 0, NO_DEADLINE, 0, [bytes(SIZE)])
    two = Run(1, 2, Kind.COMMAND, RAW, 0, NO_DEADLINE, 0, [bytes(SIZE)] * 2)
    for run in (packed, two):
        batch = Batch(1, 1, 1, 1, [run])
        assert owner.memory.resolve_body(1, batch) is batch


@clause("MC-29", "BUS-MSG-16")
def test_a_link_to_another_machine_is_offered_nothing() -> None:
    owner = Owner()
    owner.memory._shared._process_id = lambda _: None  # type: ignore[misc, union-attr]
    owner.link(1, Recipient())

    [frame] = owner.send(bytes(SIZE), 1)

    assert not in_memory(frame)
    assert owner.answers() == []
    assert list(owner.arena.slabs()) == []


@clause("MC-31", "MC-29")
def test_a_recipient_beyond_its_share_gets_copies_and_the_others_do_not() -> None:
    owner = Owner(arena_bytes=8 * MIB, arena_share=0.25)
    owner.link(1, Recipient())
    owner.link(2, Recipient())
    owner.prepared(1, 2, size=MIB)
    slow = [owner.send(bytes([n]) * MIB, 1)[0] for n in range(4)]

    assert [*map(in_memory, slow)] == [True, True, False, False]
    for number in range(8):
        [frame] = owner.send(bytes([number]) * MIB, 2)
        assert in_memory(frame)
        del frame
        owner.answers()
    assert [*map(body_of, slow)] == [bytes([n]) * MIB for n in range(4)]


@clause("MC-29", "MC-30")
def test_a_message_without_room_in_the_arena_goes_by_the_link() -> None:
    owner = Owner(arena_bytes=2 * MIB, arena_share=1.0)
    owner.link(1, Recipient())
    owner.prepared(1, size=MIB)
    first = owner.send(b"1" * MIB, 1)
    owner.send(b"2" * MIB, 1)  # offers a second slab, which has room for one message
    owner.answers()
    second = owner.send(b"2" * MIB, 1)
    owner.link(2, Recipient())

    [third] = owner.send(b"3" * MIB, 2)  # it has all of its share
    [larger] = owner.send(b"4" * (4 * MIB), 2)

    assert all(map(in_memory, (*first, *second)))
    assert body_of(third) == b"3" * MIB
    assert body_of(larger) == b"4" * (4 * MIB)
    assert not in_memory(third)
    assert not in_memory(larger)


@clause("MC-29", "MC-14")
def test_one_body_for_more_tasks_than_a_slab_has_blocks_for_is_sent_to_all() -> None:
    """Each message has a lease of its own, also if all are for one process."""
    owner = Owner(arena_bytes=1024 * MIB, arena_share=1.0)
    owner.link(1, Recipient())
    owner.prepared(1, size=MIB)
    body = os.urandom(MIB)

    arrived = owner.send(body, *[1] * 300)

    assert {in_memory(each) for each in arrived} == {True, False}
    assert all(body_of(each) == body for each in arrived)
    arrived.clear()
    gc.collect()
    owner.answers()
    assert owner.used == 0


@clause("MC-32", "MC-14")
def test_no_want_of_blocks_keeps_a_lost_recipient_from_being_abandoned() -> None:
    owner = Owner(arena_bytes=1024 * MIB, arena_share=1.0)
    owner.link(1, Recipient())
    owner.prepared(1, size=MIB)
    held = owner.send(b"v" * MIB, *[1] * 300)

    owner.memory.forget(1)

    assert list(owner.arena.slabs()) == []  # nothing but lost recipients may read it
    assert all(body_of(each) == b"v" * MIB for each in held)


@clause("MC-36")
def test_a_closed_slab_is_unmapped_where_it_was_offered() -> None:
    owner = Owner(arena_bytes=4 * MIB, arena_share=1.0)
    owner.link(1, Recipient())
    owner.link(2, Recipient())
    owner.prepared(1, size=MIB)
    kept = body_of(owner.send(b"k" * MIB, 1)[0])
    del kept
    gc.collect()
    owner.answers()

    owner.send(bytes(4 * MIB), 2)  # needs all of the memory

    lent = owner.recipients[1].memory._lent
    assert lent is not None
    assert [len(each.mappings) for each in lent._lenders.values()] == [0]
    closing = FrameReader().read(owner.recipients[1].pieces[-1])
    assert closing == CloseSlab(slab=1)
    # The other was never offered that slab.
    assert owner.answers() == [SlabAnswer(slab=2, mapped=True)]


@clause("MC-32")
def test_a_lost_recipient_that_lives_keeps_what_it_reads(owner: Owner) -> None:
    owner.link(2, Recipient())
    owner.prepared(1, 2)
    view = body_of(owner.send(b"v" * SIZE, 1)[0])

    owner.memory.forget(1)
    owner.recipients[1].memory.forget(7)

    assert [each.abandoned for each in owner.arena.slabs()] in ([], [1])
    for number in range(20):
        owner.send(bytes([number]) * SIZE, 2)
        owner.answers()
    assert view == b"v" * SIZE
    del view
    assert owner.recipients[1].memory.is_due(soon=False)
    assert list(owner.recipients[1].say()) == []  # there is no link to report on
    assert not owner.recipients[1].memory.is_due(soon=False)


@pytest.mark.parametrize("reaped", [True, False])
@clause("MC-32")
def test_all_that_an_ended_process_had_leased_is_free(reaped: bool) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = Owner(process_id=child.pid)
    owner.link(1, Recipient())
    owner.prepared(1)
    held = owner.send(bytes(SIZE), 1)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    if reaped:
        child.wait()

    owner.memory.forget(1)

    assert owner.used == 0
    assert [each.abandoned for each in owner.arena.slabs()] == [0]
    child.communicate()
    del held


# Its main thread ends, and another one waits for its input.
_WITHOUT_MAIN_THREAD: Final = """
import ctypes, threading
threading.Thread(target=input).start()
print(flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


@clause("MC-32")
def test_a_process_whose_main_thread_has_ended_may_still_read() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _WITHOUT_MAIN_THREAD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        stat = Path(f"/proc/{child.pid}/stat")
        until(lambda: b") Z " in stat.read_bytes(), "its main thread has ended")
        owner = Owner(process_id=child.pid)
        owner.link(1, Recipient())
        owner.prepared(1)
        held = owner.send(bytes(SIZE), 1)

        owner.memory.forget(1)

        assert list(owner.arena.slabs()) == []  # closed, not used again
        child.kill()
        del held


@clause("MC-32")
def test_a_process_that_is_hidden_may_still_read(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system may hide the processes of other users in /proc."""
    owner.prepared(1)
    held = owner.send(bytes(SIZE), 1)
    monkeypatch.setattr(shared_bodies, "Path", lambda _: Path("/proc/none"))

    owner.memory.forget(1)

    assert list(owner.arena.slabs()) == []  # closed, not used again
    del held


def test_nothing_is_stored_for_a_link_without_shared_memory(owner: Owner) -> None:
    """A message for a link that is lost may come after its end."""
    owner.memory._shared._process_id = lambda _: None  # type: ignore[misc, union-attr]

    owner.send(bytes(SIZE), 1)

    assert owner.memory._shared is not None
    assert owner.memory._shared._recipients == {}


@clause("MC-33")
def test_views_outlive_the_end_of_their_owner_and_of_the_link(owner: Owner) -> None:
    owner.prepared(1)
    view = body_of(owner.send(b"v" * SIZE, 1)[0])

    owner.memory.close()
    owner.recipients[1].memory.forget(7)
    lent = owner.recipients[1].memory._lent
    assert lent is not None
    assert lent.info({}) == ()  # nothing of that link is kept
    owner.recipients[1].memory.close()

    assert view == b"v" * SIZE


@clause("MC-21")
def test_answers_and_releases_about_nothing_change_nothing(owner: Owner) -> None:
    owner.prepared(1)
    [frame] = owner.send(bytes(SIZE), 1)
    for link in (1, 9):
        for wrong in (
            SlabAnswer(slab=77, mapped=True),
            Release(leases=((1, 900), (77, 1))),
            CloseSlab(slab=77),
        ):
            assert owner.memory.on_frame(link, wrong) == []
    owner.memory.forget(9)

    assert owner.used == 1
    assert owner.arena.stray_releases == 2
    del frame


@clause("MC-34", "MC-38")
def test_a_slab_that_is_offered_twice_is_a_violation(owner: Owner) -> None:
    owner.prepared(1)
    memory = owner.arena.memory(1)
    offer = OfferSlab(slab=1, descriptor=memory.fileno(), token=memory.name)

    with pytest.raises(WireError, match="slab 1 was handed over twice"):
        owner.recipients[1].memory.on_frame(7, offer)


@clause("MC-38")
def test_a_recipient_maps_a_bounded_number_of_slabs(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lent_bodies, "_SLABS_MAX", 1)
    owner.prepared(1)

    owner.send(bytes(MIB), 1)

    assert owner.answers() == [SlabAnswer(slab=2, mapped=False)]


@clause("MC-38")
def test_a_recipient_maps_no_slab_larger_than_any_owner_makes(owner: Owner) -> None:
    """Such memory costs a hostile owner nothing, and a recipient its address space."""
    owner.prepared(1)
    lent = owner.recipients[1].memory._lent
    assert lent is not None
    for slab, size in enumerate((64 * MIB, 64 * MIB + 1), 2):
        name = f"bus-{slab}"
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)

        answer = lent.on_offer(
            7, OfferSlab(slab=slab, descriptor=descriptor, token=name)
        )

        assert answer.mapped == (size == 64 * MIB)
        os.close(descriptor)


@clause("MC-38")
@pytest.mark.parametrize(
    ("fields", "fact"),
    [
        ((1, 1, 0, 17 * MIB), "a body in shared memory of 17825792 bytes, allowed"),
        ((2, 1, 0, SIZE), "slab 2 was not handed over"),
        ((1, 1, 2**40, SIZE), "a message lies outside of its slab"),
    ],
)
def test_a_location_of_nothing_is_a_violation(
    owner: Owner, fields: tuple[int, ...], fact: str
) -> None:
    owner.prepared(1)
    location = b"".join(each.to_bytes(8) for each in fields)
    run = Run(1, 2, Kind.COMMAND, RAW | LEASED, 0, NO_DEADLINE, 0, [location])

    with pytest.raises(WireError, match=fact):
        owner.recipients[1].memory.resolve_body(7, Batch(1, 1, 1, 1, [run]))


def test_without_an_arena_there_is_no_shared_memory() -> None:
    owner = Owner(arena=False)
    recipient = Recipient(arena=False)
    owner.link(1, recipient)

    [frame] = owner.send(bytes(SIZE), 1)

    assert type(body_of(frame)) is bytes
    assert owner.answers() == []
    assert not recipient.memory.is_due(soon=False)
    run = Run(1, 2, Kind.COMMAND, RAW | LEASED, 0, NO_DEADLINE, 0, [bytes(32)])
    with pytest.raises(WireError, match="which is not in use here"):
        recipient.memory.resolve_body(7, Batch(1, 1, 1, 1, [run]))
    for about in (Release(leases=((1, 1),)), SlabAnswer(slab=1, mapped=True)):
        assert recipient.memory.on_frame(7, about) == []
    recipient.memory.forget(7)
    recipient.memory.close()
