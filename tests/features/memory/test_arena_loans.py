"""Loans of an `Arena`: published without a copy, or taken back."""

from __future__ import annotations

import pytest

from bus.errors import StaleLeaseError
from bus.features.memory.arena import Arena
from bus.features.memory.mappings import SlabMappings
from specs.clauses import clause
from tests.features.memory.arena_publish import publish, publish_loan
from tests.features.memory.arena_reader import LEAST, MIB, Reader
from tests.features.memory.support import content_of
from tests.kit.systems import needs_shared_memory

pytestmark = needs_shared_memory


@clause("MC-31", "MC-37")
def test_a_loan_is_not_shared_beyond_the_share_of_a_recipient() -> None:
    arena = Arena(8 * MIB, share=0.25)
    slow, quick = arena.add_recipient(), arena.add_recipient()
    held = [publish(arena, bytes(MIB), [slow])[0] for _ in range(2)]
    loan = arena.lease(MIB)

    assert not arena.enqueue(loan, slow)
    assert arena.enqueue(loan, quick)

    assert [arena.holdings(each).held_bytes for each in (slow, quick)] == [2 * MIB, MIB]
    assert arena.release(slow, held[0].lease)
    assert arena.enqueue(loan, slow)
    assert arena.check() == []
    arena.close()


@clause("MC-37", "MC-8")
def test_a_loan_is_published_without_a_copy(arena: Arena) -> None:
    numbers = [arena.add_recipient() for _ in range(3)]
    readers = [Reader(each, SlabMappings(lambda: None)) for each in numbers]
    content = content_of(5 * LEAST, 1)
    loan = arena.lease(6 * LEAST)
    assert len(loan.buffer) == 6 * LEAST
    loan.buffer[: len(content)] = content

    placements = publish_loan(arena, loan, numbers, len(content))

    for reader, placement in zip(readers, placements, strict=True):
        reader.take(arena, placement, content)
        [held] = reader.held
        assert bytes(held.view) == content
        assert arena.holdings(reader.number).held_bytes == 8 * LEAST
    assert [each.leases for each in arena.slabs()] == [3]
    with pytest.raises(ValueError, match="released"):
        loan.buffer[0] = 1
    with pytest.raises(StaleLeaseError):
        publish_loan(arena, loan, numbers)
    assert not arena.release_loan(loan)
    for reader in readers:
        assert arena.release(reader.number, reader.held[0].placement.lease)
    assert [each.free for each in arena.slabs()] == [8]


@clause("MC-37")
def test_a_loan_that_is_taken_back_was_never_published(arena: Arena) -> None:
    one = arena.add_recipient()
    for published in (False, True):
        loan = arena.lease(1)
        assert [each.free for each in arena.slabs()] == [15]
        if published:
            assert publish_loan(arena, loan, []) == []
        else:
            assert arena.release_loan(loan)
        assert [(each.free, each.leases) for each in arena.slabs()] == [(16, 0)]
    assert arena.holdings(one).held_bytes == arena.stray_releases == 0
    assert not arena.release_loan(loan)
    assert arena.stray_releases == 1


@clause("MC-37")
def test_no_more_of_a_loan_is_published_than_it_has(arena: Arena) -> None:
    one, loan = arena.add_recipient(), arena.lease(10)
    for length in (11, -1):
        with pytest.raises(ValueError, match=f"publish {length} bytes of a loan of 10"):
            publish_loan(arena, loan, [one], length)
    [placement] = publish_loan(arena, loan, [one], 0)
    assert placement.length == 0


@clause("MC-32", "MC-37")
def test_a_loan_in_an_abandoned_slab_is_still_published(arena: Arena) -> None:
    lost, other = arena.add_recipient(), arena.add_recipient()
    loan = arena.lease(1)
    publish(arena, b"x", [lost])
    arena.remove_recipient(lost, process_ended=False)

    [placement] = publish_loan(arena, loan, [other])

    assert placement.slab == loan.slab
    arena.release(other, placement.lease)
    assert list(arena.slabs()) == []


@clause("MC-32", "MC-37")
@pytest.mark.parametrize("published", [False, True])
def test_an_abandoned_slab_is_closed_with_its_last_loan(
    arena: Arena, *, published: bool
) -> None:
    lost, loan = arena.add_recipient(), arena.lease(1)
    publish(arena, b"x", [lost])
    arena.remove_recipient(lost, process_ended=False)
    assert len(list(arena.slabs())) == 1

    if published:
        publish_loan(arena, loan, [])
    else:
        arena.release_loan(loan)

    assert list(arena.slabs()) == []


@clause("MC-37")
def test_an_array_made_from_a_loan_does_not_keep_it(arena: Arena) -> None:
    loan = arena.lease(1)
    part = loan.buffer[:1]
    assert arena.release_loan(loan)
    assert len(part) == 1
    assert [each.free for each in arena.slabs()] == [16]
