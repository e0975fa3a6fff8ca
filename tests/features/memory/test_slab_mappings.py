"""`SlabMappings`: the recipient's side of an arena, also when a process is killed."""

from __future__ import annotations

import gc
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import astuple, replace

from bus.errors import WireError
from bus.features.memory.arena import Arena, Placement
from bus.features.memory.mappings import SlabMappings
from bus.features.memory.shared_memory import SharedMemory
from specs.clauses import clause
from tests.features.memory.arena_publish import publish
from tests.features.memory.support import content_of
from tests.kit.systems import needs_shared_memory
from tests.leaks import Snapshot
from tests.processes import import_path
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType


pytestmark = needs_shared_memory

LENGTH = 100_000


@pytest.fixture
def arena() -> Iterator[Arena]:
    made = Arena(2**22)
    yield made
    made.close()


@pytest.fixture
def ends() -> list[None]:
    """Each call of the function that is called at the end of a lease."""
    return []


@pytest.fixture
def mappings(ends: list[None]) -> Iterator[SlabMappings]:
    made = SlabMappings(lambda: ends.append(None))
    yield made
    made.close()


@clause("MC-35")
def test_a_lease_ends_with_the_last_view(
    arena: Arena, mappings: SlabMappings, ends: list[None]
) -> None:
    one = arena.add_recipient()
    content = content_of(LENGTH, 1)
    [first] = publish(arena, content, [one])
    [second] = publish(arena, b"", [one])
    mappings.add(first.slab, arena.memory(first.slab).fileno())
    mappings.add(second.slab, arena.memory(second.slab).fileno())
    views = [mappings.view(first), mappings.view(second)]
    part = views[0][1:3]
    assert bytes(views[0]) == content
    assert bytes(views[1]) == b""

    views.clear()

    gc.collect()
    assert mappings.take_ended() == [(second.slab, second.lease)]
    assert len(ends) == 1
    assert bytes(part) == content[1:3]
    del part
    assert mappings.take_ended() == [(first.slab, first.lease)]
    assert mappings.take_ended() == []
    assert len(ends) == 2


@clause("MC-35")
def test_the_end_of_a_lease_is_there_when_it_is_reported(arena: Arena) -> None:
    taken: list[list[tuple[int, int]]] = []
    far = SlabMappings(lambda: taken.append(far.take_ended()))
    one = arena.add_recipient()
    [placement] = publish(arena, b"x", [one])
    far.add(placement.slab, arena.memory(placement.slab).fileno())

    far.view(placement)  # and it is not kept

    assert taken == [[(placement.slab, placement.lease)]]
    far.close()


@clause("MC-35")
@pytest.mark.parametrize("cycle", [False, True])
def test_no_interrupt_keeps_a_lease_from_ending(
    arena: Arena, mappings: SlabMappings, *, cycle: bool
) -> None:
    """A signal handler raises at each point of what runs at the end of a view."""
    one = arena.add_recipient()
    [place] = publish(arena, b"x", [one])
    mappings.add(place.slab, arena.memory(place.slab).fileno())
    for point in itertools.count(1):
        views: list[Any] = [mappings.view(replace(place, lease=point))]
        if cycle:
            views.append(views)
        interrupts = _Interrupts(point)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "unraisablehook", lambda _: None)
            with interrupts:
                del views
                gc.collect()
        assert mappings.take_ended() == [(place.slab, point)]
        if not interrupts.raised:
            break
    assert point > 10


class _Interrupts:
    """Raises a `KeyboardInterrupt` at an instruction of the package, within a block."""

    def __init__(self, point: int) -> None:
        self._left = point
        self._before = sys.gettrace()
        self.raised = False

    def __enter__(self) -> None:
        sys.settrace(self._trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        del event
        if frame.f_code.co_filename == __file__:
            return None
        frame.f_trace_opcodes = True
        self._left -= 1
        if not self._left:
            self.raised = True
            sys.settrace(None)
            raise KeyboardInterrupt
        return self._trace


@clause("MC-33")
def test_a_view_outlives_the_slab_on_both_sides(
    arena: Arena, mappings: SlabMappings
) -> None:
    one = arena.add_recipient()
    content = content_of(LENGTH, 2)
    [placement] = publish(arena, content, [one])
    mappings.add(placement.slab, arena.memory(placement.slab).fileno())
    view = mappings.view(placement)

    arena.close()
    mappings.remove(placement.slab)
    mappings.remove(placement.slab)

    assert bytes(view) == content
    with pytest.raises(WireError, match="was not handed over"):
        mappings.view(placement)


@clause("MC-34")
def test_a_placement_outside_of_its_slab_is_refused(mappings: SlabMappings) -> None:
    owner = SharedMemory(4096)
    mappings.add(1, owner.fileno())
    assert len(mappings.view(Placement(1, 1, 4000, 96))) == 96
    for at, length in (
        (4000, 97),
        (4097, 0),
        (0, 2**63),
        (-3, 2),
        (1, -1),
        (-(2**70), 2**70),
    ):
        with pytest.raises(WireError, match="outside of its slab"):
            mappings.view(Placement(1, 2, at, length))
    with pytest.raises(WireError, match="slab 1 was handed over twice"):
        mappings.add(1, owner.fileno())
    owner.close()


@clause("MC-34")
def test_memory_that_its_owner_could_shrink_is_not_mapped(
    mappings: SlabMappings, tmp_path: Path
) -> None:
    with (tmp_path / "plain").open("wb+") as plain:
        plain.truncate(4096)
        with pytest.raises(WireError, match=r"slab 1 cannot be used: .* may shrink"):
            mappings.add(1, plain.fileno())
    with pytest.raises(WireError, match="was not handed over"):
        mappings.view(Placement(1, 1, 0, 1))


# Processes that are killed.


class Far:
    """A recipient in another process, which reads and releases on order."""

    def __init__(self) -> None:
        self.own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.own.settimeout(LIMIT_S)
        self.known: set[int] = set()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _READER, str(theirs.fileno())],
                env={**os.environ, "PYTHONPATH": import_path()},
                pass_fds=[theirs.fileno()],
            )

    def ask(self, *words: object, fds: tuple[int, ...] = ()) -> object:
        """Send an order; return the answer."""
        socket.send_fds(self.own, [json.dumps(words).encode()], fds)
        return json.loads(self.own.recv(4096))

    def take(self, arena: Arena, placement: Placement) -> object:
        """Let it hold a message; return the sum of its bytes."""
        fds: tuple[int, ...] = ()
        if placement.slab not in self.known:
            self.known.add(placement.slab)
            fds = (arena.memory(placement.slab).fileno(),)
        return self.ask("take", *astuple(placement), fds=fds)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        # As the link tells it: nothing more to read.
        assert self.own.recv(4096) == b""
        self.own.close()


_READER = """
import json, os, socket, sys
from bus.features.memory.arena import Placement
from bus.features.memory.mappings import SlabMappings

link = socket.socket(fileno=int(sys.argv[1]))
mappings, views = SlabMappings(lambda: None), {}
while True:
    said, fds, _, _ = socket.recv_fds(link, 4096, 1)
    if not said:
        break
    verb, *words = json.loads(said)
    if verb == "take":
        placement = Placement(*words)
        for each in fds:
            mappings.add(placement.slab, each)
            os.close(each)
        views[placement.lease] = mappings.view(placement)
        answer = sum(views[placement.lease])
    elif verb == "look":
        answer = [sum(each) for each in views.values()]
    else:
        views.clear()
        answer = mappings.take_ended()
    link.send(json.dumps(answer).encode())
"""


@pytest.mark.deep
@clause("MC-32", "MC-24")
@pytest.mark.parametrize("turn", range(3))
def test_a_killed_recipient_gives_back_all_it_held(turn: int) -> None:
    """It is killed before, between and after the messages of the others."""
    before = Snapshot.take()
    arena, fars = Arena(2**22), [Far() for _ in range(3)]
    numbers = [arena.add_recipient() for _ in fars]
    sums = []
    for number in range(3):
        content = content_of(LENGTH, number)
        sums.append(sum(content))
        placements = publish(arena, content, numbers)
        for far, placement in zip(fars, placements, strict=True):
            assert far.take(arena, placement) == sums[-1]
        if number == turn:
            fars.pop(1).kill()
            assert (
                arena.remove_recipient(numbers.pop(1), process_ended=True) == number + 1
            )
    for far, number in zip(fars, numbers, strict=True):
        assert far.ask("look") == sums
        ended = far.ask("release")
        assert isinstance(ended, list)
        assert all(arena.release(number, lease) for _, lease in ended)
        far.kill()
    assert [each.free for each in arena.slabs()] == [16]
    assert arena.stray_releases == 0
    arena.close()
    assert not before.leaks()


_OWNER = """
import socket, sys
from bus.features.memory.arena import Arena
from tests.features.memory.support import content_of

arena = Arena(2**22)
one = arena.add_recipient()
arena.publish(content_of(100_000, 7), [one])
placement = arena.dequeue(one)
link = socket.socket(fileno=int(sys.argv[1]))
descriptor = arena.memory(placement.slab).fileno()
socket.send_fds(link, [placement.pack()], [descriptor])
sys.stdin.read()
"""


@clause("MC-33")
def test_the_messages_of_a_killed_owner_stay_readable(mappings: SlabMappings) -> None:
    before = Snapshot.take()
    own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own.settimeout(LIMIT_S)
    with (
        own,
        theirs,
        subprocess.Popen(
            [sys.executable, "-c", _OWNER, str(theirs.fileno())],
            env={**os.environ, "PYTHONPATH": import_path()},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.PIPE,
        ) as owner,
    ):
        said, fds, _, _ = socket.recv_fds(own, 4096, 1)
        owner.kill()
    assert owner.returncode == -signal.SIGKILL
    placement = Placement.unpack(said)
    mappings.add(placement.slab, fds[0])
    os.close(fds[0])

    view = mappings.view(placement)

    assert bytes(view) == content_of(LENGTH, 7)
    del view
    mappings.close()
    assert not before.leaks()
