"""`Arena.check` reports counts that do not agree (MC-40)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.features.memory.arena import Arena
from bus.features.memory.slabs import SlabBuffer
from specs.clauses import clause
from tests.features.memory.arena_publish import publish
from tests.features.memory.arena_reader import LEAST, MIB

if TYPE_CHECKING:
    from bus.features.memory.slabs import Slab


def crowded() -> tuple[Arena, Slab]:
    """Return an arena with a lease, a loan and an abandoned message in one slab."""
    arena = Arena(16 * MIB)
    lost, one = arena.add_recipient(), arena.add_recipient()
    publish(arena, b"", [lost, one])
    arena.lend(1)
    arena.remove_recipient(lost, process_ended=False)
    assert arena.check() == []
    return arena, arena._slabs.by_number[1]


@clause("MC-40")
@pytest.mark.parametrize("by", [1, -1])
@pytest.mark.parametrize("at", [0, LEAST, 2 * LEAST])
def test_a_wrong_count_of_holders_is_reported(at: int, by: int) -> None:
    arena, slab = crowded()
    slab.buffers[at // LEAST].holders += by
    assert any("abandoned" in each for each in arena.check())
    arena.close()


@clause("MC-40")
def test_a_buffer_that_counts_fewer_holders_than_it_has_is_reported() -> None:
    arena, slab = crowded()
    slab.buffers[1].holders = 0  # that of the loan
    name = f"the buffer at {LEAST} of slab 1"
    assert f"{name} counts 0 holders, and has 1" in arena.check()
    arena.close()


@clause("MC-40")
def test_a_buffer_in_two_places_or_in_none_is_reported() -> None:
    arena, slab = crowded()
    slab.free.append(slab.buffers[1])
    slab.free.append(slab.buffers[2])
    slab.free.remove(slab.buffers[3])
    assert arena.check() == [
        f"the buffer at {LEAST} of slab 1 has 1 holders, and is free 1x",
        f"the buffer at {2 * LEAST} of slab 1 has 0 holders, and is free 2x",
        f"the buffer at {3 * LEAST} of slab 1 has 0 holders, and is free 0x",
    ]
    arena.close()


@clause("MC-40")
def test_a_wrong_sum_of_a_recipient_and_a_lease_of_a_closed_slab_are_reported() -> None:
    arena, slab = crowded()
    [one] = arena._recipients.values()
    one.held_bytes += 1
    arena._loans[99] = SlabBuffer(7, 0, LEAST)
    assert arena.check() == [
        f"recipient 1 counts {LEAST + 1} bytes, and holds {LEAST}",
        "a lease or a loan is of slab 7, which is closed",
    ]
    assert slab.abandoned == 1
    arena.close()
