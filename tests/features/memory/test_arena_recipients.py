"""Recipients of an `Arena`: their shares, their releases, and lost ones."""

from __future__ import annotations

import pytest

from bus.features.memory.arena import Arena
from specs.clauses import clause
from tests.features.memory.arena_publish import publish, take
from tests.features.memory.arena_reader import LEAST, MIB
from tests.kit.systems import needs_shared_memory

pytestmark = needs_shared_memory


@clause("MC-31")
def test_a_recipient_holds_its_share_and_no_more() -> None:
    arena = Arena(8 * MIB, share=0.25)
    slow, quick = arena.add_recipient(), arena.add_recipient()
    content = bytes(MIB)
    for _ in range(2):
        assert arena.is_within_share(slow, MIB)
        publish(arena, content, [slow])
    assert not arena.is_within_share(slow, MIB)
    assert not arena.is_within_share(slow, 0)
    for _ in range(10):
        [placement] = publish(arena, content, [quick])
        arena.release(quick, placement.lease)
        assert arena.is_within_share(quick, MIB)
    arena.close()


@clause("MC-31")
def test_a_slow_recipient_misses_a_message_that_the_others_get() -> None:
    arena = Arena(8 * MIB, share=0.25)
    slow, quick = arena.add_recipient(), arena.add_recipient()
    for turn in range(4):
        numbers = arena.publish(bytes(MIB), [slow, quick])
        assert numbers == ([slow, quick] if turn < 2 else [quick])
        last = take(arena, numbers)[-1]
        assert arena.release(quick, last.lease)
    arena.close()


def test_a_recipient_that_is_named_twice_gets_a_message_once(arena: Arena) -> None:
    one = arena.add_recipient()
    assert len(publish(arena, b"x", [one] * 100)) == 1
    assert arena.holdings(one).held_bytes == LEAST


@clause("MC-8", "MC-40")
def test_one_message_reaches_any_number_of_recipients_with_one_copy() -> None:
    """Even if its slab has one buffer."""
    arena = Arena(LEAST)
    everyone = [arena.add_recipient() for _ in range(1000)]

    placements = publish(arena, b"x", everyone)

    assert len({each.lease for each in placements}) == 1000
    assert {each.at for each in placements} == {0}
    assert [arena.holdings(each).held_bytes for each in everyone] == [LEAST] * 1000
    [slab] = arena.slabs()
    assert (slab.buffers, slab.free, slab.leases) == (1, 0, 1000)
    for number, each in zip(everyone, placements, strict=True):
        assert arena.release(number, each.lease)
    assert [each.free for each in arena.slabs()] == [1]
    arena.close()


def test_the_number_of_a_lost_recipient_is_given_to_no_other(arena: Arena) -> None:
    """A late call for the lost one must not concern another process."""
    numbers = []
    for _ in range(100):
        numbers.append(arena.add_recipient())
        arena.remove_recipient(numbers[-1], process_ended=True)
    assert len(set(numbers)) == 100


@clause("MC-13")
def test_a_message_for_no_recipient_takes_nothing(arena: Arena) -> None:
    assert publish(arena, bytes(MIB), []) == []
    assert arena.size == 0


def test_an_unknown_recipient_is_named(arena: Arena) -> None:
    one = arena.add_recipient()
    arena.remove_recipient(one, process_ended=True)
    for call in (
        lambda: arena.is_within_share(one, 1),
        lambda: publish(arena, b"", [one]),
        lambda: arena.dequeue(one),
        lambda: arena.release(one, 1),
        lambda: arena.holdings(one),
        lambda: arena.remove_recipient(one, process_ended=True),
    ):
        with pytest.raises(ValueError, match=f"no recipient {one}"):
            call()
    assert arena.stray_releases == 0


@clause("MC-21")
def test_a_release_that_names_another_slab_changes_nothing(arena: Arena) -> None:
    one = arena.add_recipient()
    [small], [large] = publish(arena, b"", [one]), publish(arena, bytes(MIB), [one])

    for lease, slab in ((small.lease, large.slab), (large.lease, 9), (99, small.slab)):
        assert not arena.release(one, lease, slab)

    assert arena.stray_releases == 3
    assert arena.holdings(one) == (0, 2, LEAST + MIB)
    assert arena.check() == []
    assert arena.release(one, small.lease, small.slab)


@clause("MC-32")
def test_a_buffer_that_a_lost_recipient_may_read_is_never_used_again(
    arena: Arena,
) -> None:
    """Its slab is closed with the last message that another recipient has there."""
    lost, other = arena.add_recipient(), arena.add_recipient()
    alone = publish(arena, b"x", [lost])[0]
    _, shared = publish(arena, b"x", [lost, other])
    assert arena.remove_recipient(lost, process_ended=False) == 2

    later = [publish(arena, b"y", [other])[0] for _ in range(14)]

    assert {each.slab for each in later} == {shared.slab}
    places = {each.at for each in (alone, shared, *later)}
    assert len(places) == 16
    assert publish(arena, b"z", [other])[0].slab != shared.slab
    [state, _] = arena.slabs()
    assert (state.free, state.leases, state.abandoned) == (0, 17, 2)
    for each in (shared, *later):
        assert shared.slab in {each.number for each in arena.slabs()}
        assert arena.release(other, each.lease)
    assert shared.slab not in {each.number for each in arena.slabs()}
    assert arena.take_closed() == [shared.slab]


@clause("MC-32")
def test_a_message_that_a_lost_recipient_never_dequeued_is_free_at_once(
    arena: Arena,
) -> None:
    """Its process has no location of the message, so it cannot read it."""
    lost = arena.add_recipient()
    assert arena.publish(b"x", [lost]) == [lost]

    assert arena.remove_recipient(lost, process_ended=False) == 1

    [slab] = arena.slabs()
    assert (slab.free, slab.abandoned) == (16, 0)
    assert arena.check() == []


@clause("MC-32")
def test_memory_that_an_ended_recipient_held_is_used_again(arena: Arena) -> None:
    lost, other = arena.add_recipient(), arena.add_recipient()
    [held] = publish(arena, b"x", [lost])
    arena.remove_recipient(lost, process_ended=True)

    places = {(each.slab, each.at) for each in publish(arena, b"y", [other] * 16)}
    for _ in range(15):
        places |= {(each.slab, each.at) for each in publish(arena, b"y", [other])}

    assert len(places) == 16
    assert (held.slab, held.at) in places
