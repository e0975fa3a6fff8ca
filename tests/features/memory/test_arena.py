"""`Arena`: its slabs, its limits, and its end."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from bus.errors import ArenaFullError
from bus.features.memory import slabs as slab_module
from bus.features.memory.arena import Arena
from bus.features.memory.shared_memory import SharedMemory
from specs.clauses import clause
from tests.features.memory.arena_publish import publish
from tests.features.memory.arena_reader import LEAST, MIB
from tests.kit.systems import needs_shared_memory
from tests.leaks import Snapshot

if TYPE_CHECKING:
    from bus.features.memory.arena import Placement


pytestmark = needs_shared_memory


@clause("MC-36")
def test_few_buffers_are_used_in_turn(arena: Arena) -> None:
    one = arena.add_recipient()
    places = set()
    for _ in range(20):
        [placement] = publish(arena, b"x" * MIB, [one])
        places.add((placement.slab, placement.at))
        assert arena.release(one, placement.lease)
    assert len(places) == 1  # the last one that became free is used first
    assert arena.size == 4 * MIB


def test_any_contiguous_buffer_can_be_published(arena: Arena) -> None:
    one = arena.add_recipient()
    [placement] = publish(arena, (ctypes.c_uint8 * 3 * 0)(), [one])  # its shape is 0, 3

    assert placement.length == 0
    with pytest.raises(TypeError, match="must be bytes-like, got str"):
        arena.publish("abc", [one])  # type: ignore[arg-type] # under test


@clause("MC-36")
def test_the_oldest_slab_with_a_free_buffer_takes_a_message(arena: Arena) -> None:
    one = arena.add_recipient()
    held = [*publish(arena, b"", [one])]
    while held[-1].slab == held[0].slab:
        held += publish(arena, b"", [one])
    assert arena.size == 2 * MIB
    for each in (held[-1], held[3]):
        arena.release(one, each.lease)

    [placement] = publish(arena, b"", [one])

    assert (placement.slab, placement.at) == (held[3].slab, held[3].at)


@clause("MC-36")
@pytest.mark.parametrize("used_again", [False, True])
def test_idle_slabs_are_closed_for_another_one_the_least_recently_used_first(
    arena: Arena, *, used_again: bool
) -> None:
    one = arena.add_recipient()

    def use(size: int) -> Placement:
        [placement] = publish(arena, b"x" * size, [one])
        assert arena.release(one, placement.lease)
        return placement

    first = use(LEAST)  # 1 MiB
    [second] = publish(arena, b"x" * 2 * LEAST, [one])  # 2 MiB, not idle
    third = use(4 * LEAST)  # 4 MiB
    if used_again:
        assert use(LEAST).slab == first.slab
    for _ in range(2):
        publish(arena, b"x" * 4 * MIB, [one])
    assert arena.take_closed() == []
    with pytest.raises(ArenaFullError):
        publish(arena, b"x" * 8 * MIB, [arena.add_recipient()])
    assert (arena.take_closed(), arena.size) == ([], 15 * MIB)

    publish(arena, b"x" * 4 * MIB, [one])

    # The larger one is enough alone.
    closed = [third.slab] if used_again else [first.slab, third.slab]
    assert arena.take_closed() == closed
    assert second.slab in {each.number for each in arena.slabs()}
    for number in closed:
        with pytest.raises(ValueError, match=f"slab {number} of the arena is closed"):
            arena.memory(number).fileno()


@clause("MC-36")
def test_no_idle_slab_is_closed_once_there_is_room_to_the_byte() -> None:
    arena = Arena(5 * MIB)
    one = arena.add_recipient()
    idle = []
    for size in (MIB, LEAST):  # slabs of 4 MiB and of 1 MiB
        [placement] = publish(arena, bytes(size), [one])
        assert arena.release(one, placement.lease)
        idle.append(placement.slab)

    publish(arena, bytes(MIB // 2), [one])  # a slab of 4 MiB

    assert (arena.take_closed(), arena.size) == (idle[:1], 5 * MIB)
    arena.close()


@clause("MC-36")
def test_a_slab_of_one_buffer_is_made_before_an_idle_one_is_closed() -> None:
    arena = Arena(4 * MIB)
    one = arena.add_recipient()
    [held] = publish(arena, b"", [one])
    arena.release(one, held.lease)

    publish(arena, b"x" * MIB, [one])

    assert [each.buffers for each in arena.slabs()] == [16, 1]
    assert arena.take_closed() == []
    arena.close()


@clause("MC-30")
def test_a_message_larger_than_all_memory_is_refused_at_once(arena: Arena) -> None:
    one = arena.add_recipient()
    with pytest.raises(ArenaFullError) as caught:
        publish(arena, bytes(16 * MIB + 1), [one])
    assert (caught.value.needed, caught.value.limit) == (16 * MIB + 1, 16 * MIB)
    assert arena.size == 0
    assert publish(arena, bytes(16 * MIB), [one])


@clause("MC-30")
@pytest.mark.parametrize(
    "refusal", [OSError(errno.ENOMEM, ""), OSError(errno.EMFILE, ""), MemoryError()]
)
def test_the_arena_is_full_if_the_system_is(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    """Such as with few descriptors; a small slab may still fit."""
    one = arena.add_recipient()
    most = 0

    def make(size: int) -> SharedMemory:
        if size > most:
            raise refusal
        return SharedMemory(size)

    with monkeypatch.context() as context:
        context.setattr(slab_module, "SharedMemory", make)
        with pytest.raises(ArenaFullError):
            publish(arena, b"", [one])
        assert arena.size == arena.holdings(one).held_bytes == 0
        most = LEAST
        assert publish(arena, b"", [one])
        assert arena.size == LEAST
    assert publish(arena, b"", [one])
    assert arena.size == LEAST + MIB


@clause("MC-34")
def test_a_forked_child_of_the_owner_cannot_publish(arena: Arena) -> None:
    one = arena.add_recipient()
    pid = os.fork()
    if pid == 0:
        try:
            arena.publish(b"x", [one])
        except RuntimeError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bytes_max", LEAST - 1),
        ("share", 0),
        ("share", 1.01),
    ],
)
def test_a_wrong_limit_is_named(name: str, value: float) -> None:
    given: dict[str, Any] = {"bytes_max": MIB, name: value}
    with pytest.raises(ValueError, match=f"^{name} must be .*got {value}"):
        Arena(**given)


def test_nothing_is_left_of_a_closed_arena() -> None:
    before = Snapshot.take()
    arena = Arena(16 * MIB)
    one = arena.add_recipient()
    publish(arena, bytes(MIB), [one])
    publish(arena, b"", [one])

    arena.close()

    assert not before.leaks()
    assert list(arena.slabs()) == []
    with pytest.raises(ValueError, match=f"no recipient {one}"):
        publish(arena, b"", [one])
    late = arena.add_recipient()
    with pytest.raises(ArenaFullError):
        publish(arena, b"", [late])
    with pytest.raises(ArenaFullError):
        arena.lease(1)
    assert not before.leaks()
