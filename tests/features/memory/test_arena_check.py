"""`Arena.check` reports counts that do not agree (MC-40)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.features.memory.arena import Arena
from bus.features.memory.blocks import DirectBlock
from specs.clauses import clause
from tests.features.memory.arena_publish import publish
from tests.features.memory.arena_reader import LEAST, MIB
from tests.kit.systems import needs_shared_memory

if TYPE_CHECKING:
    from bus.features.memory.slabs import Slab


pytestmark = needs_shared_memory


def crowded() -> tuple[Arena, Slab]:
    """Return an arena with a lease, a loan and an abandoned message in one slab."""
    arena = Arena(16 * MIB)
    lost, one = arena.add_recipient(), arena.add_recipient()
    publish(arena, b"", [lost, one])
    arena.lease(1)
    arena.remove_recipient(lost, process_ended=False)
    assert arena.check() == []
    return arena, arena._slabs.by_number[1]


@clause("MC-40")
@pytest.mark.parametrize("by", [1, -1])
@pytest.mark.parametrize("at", [0, LEAST, 2 * LEAST])
def test_a_wrong_count_of_holders_is_reported(at: int, by: int) -> None:
    arena, slab = crowded()
    slab.blocks[at // LEAST].dup += by
    assert any("abandoned" in each for each in arena.check())
    arena.close()


@clause("MC-40")
def test_a_buffer_that_counts_fewer_holders_than_it_has_is_reported() -> None:
    arena, slab = crowded()
    slab.blocks[1].dup = 0  # that of the loan
    name = f"the DCB at {LEAST} of slab 1"
    assert f"{name} counts 0 holders, and has 1" in arena.check()
    arena.close()


@clause("MC-40")
def test_a_buffer_in_two_places_or_in_none_is_reported() -> None:
    arena, slab = crowded()
    slab.free.append(slab.blocks[1])
    slab.free.append(slab.blocks[2])
    slab.free.remove(slab.blocks[3])
    dcbs = [f"the DCB at {at * LEAST} of slab 1" for at in range(4)]
    assert arena.check() == [
        f"{dcbs[2]} is among the free DCBs and the free DCBs",
        f"{dcbs[1]} is among the free DCBs and the DCBs with holders",
        f"{dcbs[3]} is in no place",
    ]
    arena.close()


@clause("MC-40")
def test_a_wrong_sum_of_a_recipient_and_a_lease_of_a_closed_slab_are_reported() -> None:
    arena, slab = crowded()
    [one] = arena._recipients.values()
    one.held_bytes += 1
    arena._loans[99] = DirectBlock(7, 0, LEAST)
    assert arena.check() == [
        f"recipient 1 counts {LEAST + 1} bytes, and holds {LEAST}",
        "the DCB at 0 of slab 7 has holders, and its slab is closed",
    ]
    assert slab.abandoned == 1
    arena.close()
