"""`LinkMemory` at the owner: what it shares, and when its buffers are free."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from bus.features.memory import shared_bodies
from bus.features.memory.frames import Release, SlabAnswer
from bus.kernel.wire import RAW, Batch
from specs.clauses import clause
from tests.features.memory.memory_ends import (
    MIB,
    SIZE,
    Owner,
    Recipient,
    all_closed,
    body_of,
    in_memory,
)
from tests.kit.systems import needs_shared_memory
from tests.support import until

pytestmark = needs_shared_memory

__all__ = ["all_closed"]  # a fixture


def test_a_short_message_is_sent_as_without_shared_memory(owner: Owner) -> None:
    for size in (0, 10, SIZE - 1):
        [frame] = owner.send(bytes(size), 1)
        assert body_of(frame) == bytes(size)
        assert type(body_of(frame)) is bytes

    assert owner.used == 0
    assert list(owner.arena.slabs()) == []


@clause("MC-38")
def test_a_message_below_the_threshold_goes_by_the_link(owner: Owner) -> None:
    owner.prepared(1)

    [below] = owner.send(bytes(SIZE - 1), 1)
    [at] = owner.send(bytes(SIZE), 1)

    assert type(body_of(below)) is bytes
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


@clause("MC-29", "BUS-MSG-16")
def test_a_link_to_another_machine_is_offered_nothing() -> None:
    owner = Owner()
    owner.memory._shared._process_id = lambda _: None  # type: ignore[misc]
    owner.link(1, Recipient())

    [frame] = owner.send(bytes(SIZE), 1)

    assert not in_memory(frame)
    assert owner.answers() == []
    assert list(owner.arena.slabs()) == []


@clause("MC-31", "MC-29")
def test_a_recipient_beyond_its_share_gets_copies_and_the_others_do_not() -> None:
    owner = Owner(arena_bytes=8 * MIB, ARENA_SHARE=0.25)
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


@clause("MC-31")
def test_no_slab_is_made_for_a_recipient_that_holds_its_share() -> None:
    owner = Owner(arena_bytes=16 * MIB, ARENA_SHARE=0.25)
    owner.link(1, Recipient())
    owner.prepared(1, size=MIB)
    slow = [owner.send(bytes(MIB), 1)[0] for _ in range(4)]
    assert all(map(in_memory, slow))

    [late] = owner.send(bytes(MIB), 1)

    assert not in_memory(late)
    assert [each.free for each in owner.arena.slabs()] == [0]


@clause("MC-31", "MC-29", "MC-39")
@pytest.mark.parametrize("links", [(1, 2), (2, 1)])
def test_one_body_is_in_memory_for_those_that_are_within_their_share(
    links: tuple[int, int],
) -> None:
    owner = Owner(arena_bytes=8 * MIB, ARENA_SHARE=0.25)
    owner.link(1, Recipient())
    owner.link(2, Recipient())
    owner.prepared(1, 2, size=MIB)
    slow = [owner.send(bytes(MIB), 1)[0] for _ in range(2)]

    arrived = owner.send(b"x" * MIB, *links)

    found = dict(zip(links, arrived, strict=True))
    assert [in_memory(found[each]) for each in (1, 2)] == [False, True]
    assert [body_of(each) for each in arrived] == [b"x" * MIB] * 2
    info = owner.memory.info()
    assert info is not None
    assert [each.messages.beyond_share for each in info.recipients] == [1, 0]
    assert len(slow) == 2


@clause("MC-29", "MC-30")
def test_a_message_without_room_in_the_arena_goes_by_the_link() -> None:
    owner = Owner(arena_bytes=2 * MIB, ARENA_SHARE=1.0)
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


@pytest.mark.deep
@clause("MC-8", "MC-37")
def test_one_body_for_many_tasks_of_one_process_is_one_message_in_memory() -> None:
    """Each task has a lease of its own."""
    owner = Owner(arena_bytes=1024 * MIB, ARENA_SHARE=1.0)
    owner.link(1, Recipient())
    owner.prepared(1, size=MIB)
    body = os.urandom(MIB)

    arrived = owner.send(body, *[1] * 300)

    assert all(in_memory(each) and body_of(each) == body for each in arrived)
    assert (len(arrived), owner.used) == (300, 1)
    assert owner.arena.check() == []
    arrived.clear()
    gc.collect()
    owner.answers()
    assert owner.used == 0


@pytest.mark.deep
@clause("MC-32")
def test_all_leases_that_a_lost_recipient_has_of_one_body_are_abandoned() -> None:
    owner = Owner(arena_bytes=1024 * MIB, ARENA_SHARE=1.0)
    owner.link(1, Recipient())
    owner.prepared(1, size=MIB)
    held = owner.send(b"v" * MIB, *[1] * 300)

    owner.memory.forget(1)

    assert list(owner.arena.slabs()) == []  # nothing but lost recipients may read it
    assert all(body_of(each) == b"v" * MIB for each in held)


# Several threads, and memory that takes the system some time to free.
_BUSY: Final = """
import threading
memory = b"x" * (64 << 20)
for _ in range(3):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print(flush=True)
input()
"""


@pytest.mark.deep
@pytest.mark.parametrize("stage", ["closes its links", "is a zombie", "is reaped"])
@clause("MC-32")
def test_all_leases_of_a_killed_process_are_released(stage: str) -> None:
    """The loss of its link may be detected at any stage of its end."""
    with subprocess.Popen(
        [sys.executable, "-c", _BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        owner = Owner(process_id=child.pid)
        owner.link(1, Recipient())
        owner.prepared(1)
        held = owner.send(bytes(SIZE), 1)
        child.kill()
        child.stdout.read()  # up to the end, as of its links
        if stage != "closes its links":
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        if stage == "is reaped":
            child.wait()

        owner.memory.forget(1)

        assert owner.used == 0
        assert [each.abandoned for each in owner.arena.slabs()] == [0]
        del held


@clause("MC-32")
@pytest.mark.parametrize(
    ("sizes", "ended"),
    [
        ([0], True),  # all its links may be closed before it is a zombie
        ([0, 0], True),
        ([0, 4096], False),  # the main thread alone has ended
        ([4096], False),
    ],
)
def test_a_process_has_ended_once_no_thread_of_it_has_memory(
    sizes: list[int],
    ended: bool,
    owner: Owner,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for number, size in enumerate(sizes):
        thread = tmp_path / str(number)
        thread.mkdir()
        fields = ["R", *["0"] * 49]
        fields[20] = str(size)
        (thread / "stat").write_text(f"{number} (a) b) {' '.join(fields)}\n")
    owner.prepared(1)
    held = owner.send(bytes(SIZE), 1)
    monkeypatch.setattr(shared_bodies, "Path", lambda _: tmp_path)

    owner.memory.forget(1)

    slabs = [(each.free, each.abandoned) for each in owner.arena.slabs()]
    assert slabs == ([(16, 0)] if ended else [])  # else closed, not used again
    del held


@clause("MC-32")
def test_a_thread_that_starts_in_between_may_still_read(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threads that were listed have ended since."""
    lists = iter((["1"], ["2"]))
    owner.prepared(1)
    held = owner.send(bytes(SIZE), 1)
    monkeypatch.setattr(shared_bodies, "Path", lambda _: Path("/proc/none"))
    monkeypatch.setattr(os, "listdir", lambda _: next(lists))

    owner.memory.forget(1)

    assert list(owner.arena.slabs()) == []  # closed, not used again
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
    owner.memory._shared._process_id = lambda _: None  # type: ignore[misc]

    owner.send(bytes(SIZE), 1)

    assert owner.memory._shared._recipients == {}
