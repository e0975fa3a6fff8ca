"""`Arena`: slabs for each size, limits, loans, and recipients that are lost."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from bus.errors import ArenaFullError, BusFullError, StaleLeaseError
from bus.multicast import slab as slab_module
from bus.multicast.arena import Arena
from bus.multicast.shared_memory import SharedMemory
from bus.multicast.slab_buffer import SlabBuffer
from bus.multicast.slab_mappings import SlabMappings
from specs.clauses import clause
from tests.leaks import Snapshot
from tests.multicast.arena_reader import LEAST, MIB, Reader
from tests.multicast.support import content_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bus.multicast.loan import Loan
    from bus.multicast.placement import Placement
    from bus.multicast.slab import Slab


def publish(arena: Arena, content: bytes, to: Iterable[int]) -> list[Placement]:
    return list(arena.publish(content, to).values())


def publish_loan(
    arena: Arena, loan: Loan, to: Iterable[int], length: int | None = None
) -> list[Placement]:
    placements = [arena.share(loan, each, length) for each in to]
    arena.take_back(loan)
    return [each for each in placements if each is not None]


@pytest.fixture
def arena() -> Iterator[Arena]:
    made = Arena(16 * MIB)
    yield made
    made.close()


@clause("MC-36")
def test_few_buffers_are_used_in_turn(arena: Arena) -> None:
    one = arena.add_recipient()
    places = set()
    for _ in range(20):
        [placement] = publish(arena, b"x" * MIB, [one])
        places.add((placement.slab, placement.at))
        assert arena.release(one, placement.slab, placement.lease)
    assert len(places) == 1  # the last one that became free is used first
    assert arena.size == 4 * MIB


@clause("MC-36")
def test_the_oldest_slab_with_a_free_buffer_takes_a_message(arena: Arena) -> None:
    one = arena.add_recipient()
    held = [*publish(arena, b"", [one])]
    while held[-1].slab == held[0].slab:
        held += publish(arena, b"", [one])
    assert arena.size == 2 * MIB
    for each in (held[-1], held[3]):
        arena.release(one, each.slab, each.lease)

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
        assert arena.release(one, placement.slab, placement.lease)
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
def test_a_slab_of_one_buffer_is_made_before_an_idle_one_is_closed() -> None:
    arena = Arena(4 * MIB)
    one = arena.add_recipient()
    [held] = publish(arena, b"", [one])
    arena.release(one, held.slab, held.lease)

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
        assert arena.size == arena.held_bytes(one) == 0
        most = LEAST
        assert publish(arena, b"", [one])
        assert arena.size == LEAST
    assert publish(arena, b"", [one])
    assert arena.size == LEAST + MIB


@clause("MC-31", "MC-37")
def test_a_loan_is_not_shared_beyond_the_share_of_a_recipient() -> None:
    arena = Arena(8 * MIB, share=0.25)
    slow, quick = arena.add_recipient(), arena.add_recipient()
    held = [publish(arena, bytes(MIB), [slow])[0] for _ in range(2)]
    loan = arena.lend(MIB)

    assert arena.share(loan, slow) is None
    assert arena.share(loan, quick) is not None

    assert [arena.held_bytes(each) for each in (slow, quick)] == [2 * MIB, MIB]
    assert arena.release(slow, held[0].slab, held[0].lease)
    assert arena.share(loan, slow) is not None
    assert arena.check() == []
    arena.close()


@clause("MC-21")
def test_a_release_names_the_slab_and_the_lease_of_its_recipient(arena: Arena) -> None:
    one, other = arena.add_recipient(), arena.add_recipient()
    [small] = publish(arena, b"", [one])
    [large] = publish(arena, bytes(MIB), [one])
    assert small.slab != large.slab
    assert small.lease != large.lease

    for recipient, slab, lease in (
        (one, small.slab, large.lease),
        (one, large.slab, small.lease),
        (one, 9, small.lease),
        (one, small.slab, 9),
        (other, small.slab, small.lease),
    ):
        assert not arena.release(recipient, slab, lease)

    assert arena.stray_releases == 5
    assert arena.held_bytes(one) == LEAST + MIB
    assert arena.check() == []


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
        arena.release(quick, placement.slab, placement.lease)
        assert arena.is_within_share(quick, MIB)
    arena.close()


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
        assert arena.release(other, each.slab, each.lease)
    assert shared.slab not in {each.number for each in arena.slabs()}
    assert arena.take_closed() == [shared.slab]


@clause("MC-31")
def test_a_slow_recipient_misses_a_message_that_the_others_get() -> None:
    arena = Arena(8 * MIB, share=0.25)
    slow, quick = arena.add_recipient(), arena.add_recipient()
    for turn in range(4):
        placements = arena.publish(bytes(MIB), [slow, quick])
        assert sorted(placements) == ([slow, quick] if turn < 2 else [quick])
        last = placements[quick]
        assert arena.release(quick, last.slab, last.lease)
    arena.close()


def test_a_recipient_that_is_named_twice_gets_a_message_once(arena: Arena) -> None:
    one = arena.add_recipient()
    assert len(publish(arena, b"x", [one] * 100)) == 1
    assert arena.held_bytes(one) == LEAST


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
        ("recipients_max", 0),
    ],
)
def test_a_wrong_limit_is_named(name: str, value: float) -> None:
    given: dict[str, Any] = {"bytes_max": MIB, name: value}
    with pytest.raises(ValueError, match=f"^{name} must be .*got {value}"):
        Arena(**given)


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


@clause("MC-37", "MC-8")
def test_a_loan_is_published_without_a_copy(arena: Arena) -> None:
    numbers = [arena.add_recipient() for _ in range(3)]
    readers = [Reader(each, SlabMappings(lambda: None)) for each in numbers]
    content = content_of(5 * LEAST, 1)
    loan = arena.lend(6 * LEAST)
    assert len(loan.buffer) == 6 * LEAST
    loan.buffer[: len(content)] = content

    placements = publish_loan(arena, loan, numbers, len(content))

    for reader, placement in zip(readers, placements, strict=True):
        reader.take(arena, placement, content)
        [held] = reader.held
        assert bytes(held.view) == content
        assert arena.held_bytes(reader.number) == 8 * LEAST
    assert [each.leases for each in arena.slabs()] == [3]
    with pytest.raises(ValueError, match="released"):
        loan.buffer[0] = 1
    for wrong in (loan, loan._replace(slab=9)):
        with pytest.raises(StaleLeaseError):
            publish_loan(arena, wrong, numbers)
    assert not arena.take_back(loan)
    for reader in readers:
        assert arena.release(reader.number, *reader.held[0].key)
    assert [each.free for each in arena.slabs()] == [8]


@clause("MC-37")
def test_a_loan_that_is_taken_back_was_never_published(arena: Arena) -> None:
    one = arena.add_recipient()
    for published in (False, True):
        loan = arena.lend(1)
        assert [each.free for each in arena.slabs()] == [15]
        if published:
            assert publish_loan(arena, loan, []) == []
        else:
            assert arena.take_back(loan)
        assert [(each.free, each.leases) for each in arena.slabs()] == [(16, 0)]
    assert arena.held_bytes(one) == arena.stray_releases == 0
    for wrong in (loan, loan._replace(slab=9)):
        assert not arena.take_back(wrong)
    assert arena.stray_releases == 2


@clause("MC-37")
def test_no_more_of_a_loan_is_published_than_it_has(arena: Arena) -> None:
    one, loan = arena.add_recipient(), arena.lend(10)
    for length in (11, -1):
        with pytest.raises(ValueError, match=f"publish {length} bytes of a loan of 10"):
            publish_loan(arena, loan, [one], length)
    [placement] = publish_loan(arena, loan, [one], 0)
    assert placement.length == 0


@clause("MC-32", "MC-37")
def test_a_loan_in_an_abandoned_slab_is_still_published(arena: Arena) -> None:
    lost, other = arena.add_recipient(), arena.add_recipient()
    loan = arena.lend(1)
    publish(arena, b"x", [lost])
    arena.remove_recipient(lost, process_ended=False)

    [placement] = publish_loan(arena, loan, [other])

    assert placement.slab == loan.slab
    arena.release(other, placement.slab, placement.lease)
    assert list(arena.slabs()) == []


@clause("MC-32", "MC-37")
@pytest.mark.parametrize("published", [False, True])
def test_an_abandoned_slab_is_closed_with_its_last_loan(
    arena: Arena, *, published: bool
) -> None:
    lost, loan = arena.add_recipient(), arena.lend(1)
    publish(arena, b"x", [lost])
    arena.remove_recipient(lost, process_ended=False)
    assert len(list(arena.slabs())) == 1

    if published:
        publish_loan(arena, loan, [])
    else:
        arena.take_back(loan)

    assert list(arena.slabs()) == []


@clause("MC-37")
def test_an_array_made_from_a_loan_does_not_keep_it(arena: Arena) -> None:
    loan = arena.lend(1)
    part = loan.buffer[:1]
    assert arena.take_back(loan)
    assert len(part) == 1
    assert [each.free for each in arena.slabs()] == [16]


@clause("MC-13")
def test_a_message_for_no_recipient_takes_nothing(arena: Arena) -> None:
    assert publish(arena, bytes(MIB), []) == []
    assert arena.size == 0


def test_one_message_reaches_as_many_recipients_as_there_may_be() -> None:
    """Even if its slab has one buffer."""
    arena = Arena(LEAST, recipients_max=100)
    everyone = [arena.add_recipient() for _ in range(100)]

    placements = publish(arena, b"x", everyone)

    assert len({each.lease for each in placements}) == 100
    assert len({each.at for each in placements}) == 1
    arena.close()


def test_an_unknown_recipient_is_named(arena: Arena) -> None:
    one = arena.add_recipient()
    arena.remove_recipient(one, process_ended=True)
    for call in (
        lambda: arena.is_within_share(one, 1),
        lambda: publish(arena, b"", [one]),
        lambda: arena.release(one, 1, 1),
        lambda: arena.held_bytes(one),
        lambda: arena.remove_recipient(one, process_ended=True),
    ):
        with pytest.raises(ValueError, match=f"the arena has no recipient {one}"):
            call()
    assert arena.stray_releases == 0


def test_nothing_is_left_of_a_closed_arena() -> None:
    before = Snapshot.take()
    arena = Arena(16 * MIB)
    one = arena.add_recipient()
    publish(arena, bytes(MIB), [one])
    publish(arena, b"", [one])

    arena.close()

    assert not before.leaks()
    assert list(arena.slabs()) == []
    for call in (lambda: publish(arena, b"", [one]), arena.add_recipient):
        with pytest.raises((ValueError, BusFullError)):
            call()
