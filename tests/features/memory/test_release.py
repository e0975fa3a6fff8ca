"""Delivery and release: counts, freed chains, stray releases, stale descriptors."""

from __future__ import annotations

import itertools

import pytest

from bus.errors import StaleLeaseError
from bus.features.memory import Mode
from bus.features.memory.blocks import END
from specs.clauses import clause
from tests.features.memory.support import Site, content_of

MODES = pytest.mark.parametrize("mode", list(Mode))
SIZES = pytest.mark.parametrize("size", [0, 3, 4, 11])


@pytest.mark.deep
@clause("MC-17", "MC-19", "MC-20", "MC-24")
@MODES
@SIZES
@pytest.mark.parametrize("icbs", [0, 9])
@pytest.mark.parametrize("recipients", [1, 2, 3, 4, 5])
def test_the_chain_stays_until_the_last_release_in_any_order(
    recipients: int, size: int, icbs: int, mode: Mode
) -> None:
    """Every order: the direct holder may be the first, the last, or in between."""
    users = range(recipients)
    site = Site(buffers=16, size=4, icbs=icbs, users=5)
    for order in itertools.permutations(users):
        site.pool.publish(content_of(size, recipients), users, mode=mode)
        held = site.take_all(users)
        chained = site.pool.census().chained
        for place, user in enumerate(order):
            for other in order[place:]:
                assert site.reader.read(held[other]) == content_of(size, recipients)
            assert site.pool.census().chained == chained
            assert site.pool.release(user, held[user].lease)
        assert site.pool.census().chained == 0
        assert site.pool.check() == []

    assert [len(each) for each in site.free] == [16, icbs]


@clause("MC-18", "MC-10")
def test_each_release_counts_one_holder_less_and_an_icb_goes_home_first() -> None:
    site = Site(buffers=4, size=4, icbs=2, users=3)
    site.pool.publish(content_of(5), [0, 1, 2])
    first, second, third = site.take_all([0, 1, 2])
    assert (site.dup(0), site.free) == (3, ([2, 3], []))

    site.pool.release(2, third.lease)
    assert (site.dup(0), site.free) == (2, ([2, 3], [5]))

    site.pool.release(0, first.lease)
    assert (site.dup(0), site.free) == (1, ([2, 3], [5]))

    site.pool.release(1, second.lease)
    assert (site.dup(0), site.free) == (0, ([2, 3, 0, 1], [5, 4]))


@clause("MC-18", "MC-15")
def test_a_borrowed_block_is_freed_before_the_chain_that_it_stands_for() -> None:
    site = Site(buffers=3, size=4, icbs=0, users=2)
    site.pool.publish(content_of(5), [0, 1])
    direct, indirect = site.take_all([0, 1])

    site.pool.release(0, direct.lease)
    site.pool.release(1, indirect.lease)

    assert site.free[0] == [2, 0, 1]
    assert [site.dup(index) for index in range(3)] == [0, 0, 0]


@clause("MC-20")
def test_a_chain_is_freed_as_it_was_linked() -> None:
    """Even if the buffers of the message are not neighbours."""
    site = Site(buffers=5, size=4, icbs=0, users=2)
    site.pool.publish(content_of(4), [0])  # 0
    site.pool.publish(content_of(4), [1])  # 1
    site.pool.release(1, site.take(1).lease)  # 2, 3, 4, 1 are free
    site.pool.publish(content_of(16), [1])

    site.pool.release(0, site.take(0).lease)
    assert site.free[0] == [0]
    site.pool.release(1, site.take(1).lease)

    assert site.free[0] == [0, 2, 3, 4, 1]
    control = site.pool.control.queue(site.layout.free_direct_at)
    assert (control.head, control.tail, control.length) == (0, 1, 5)
    assert site.pool.control.block(1).next_buffer == END


@clause("MC-20")
def test_a_chain_is_freed_into_an_empty_queue() -> None:
    site = Site(buffers=2, size=4, icbs=0, users=1)
    site.pool.publish(content_of(8), [0])
    assert site.free[0] == []

    site.pool.release(0, site.take(0).lease)

    assert site.free[0] == [0, 1]
    assert site.pool.check() == []


@clause("MC-21")
@MODES
def test_a_release_of_a_lease_that_is_not_there_changes_nothing(mode: Mode) -> None:
    site = Site(users=3)
    site.pool.publish(b"one", [0, 1], mode=mode)
    ended, other = site.take_all([0, 1])
    site.pool.release(0, ended.lease)
    site.pool.publish(b"two", [0], mode=mode)
    site.take(0)
    before = site.bits

    strays = [
        (0, ended.lease),  # released before, and the block has a message again
        (0, other.lease),  # the lease of another recipient
        (2, other.lease),
        (0, 99),  # never given out
        (0, 0),
    ]
    for count, (user, lease) in enumerate(strays, start=1):
        assert not site.pool.release(user, lease)
        assert site.pool.stray_releases == count

    assert site.bits == before
    assert site.pool.check() == []
    assert site.reader.read(other) == b"one"


@clause("MC-21")
def test_a_lease_id_is_never_given_out_again() -> None:
    site = Site(users=2)
    ids = []
    for _ in range(50):
        site.pool.publish(b"abc", [0, 1])
        assert site.pool.dequeue(0) is not None
        ids += [site.take(1).lease, *site.pool._recipients[0].leases]
        site.pool.dequeue(0)  # nothing there
        site.pool.release_all(0)
        site.pool.release_all(1)

    assert len(set(ids)) == 100


@clause("MC-22")
@MODES
@pytest.mark.parametrize("user", [0, 1])
def test_a_descriptor_of_a_freed_buffer_is_stale(user: int, mode: Mode) -> None:
    """It never shows the message that has the buffer now."""
    site = Site(buffers=2, size=4, icbs=2, users=2)
    site.pool.publish(b"earlier!", [0, 1], mode=mode)
    old = site.take_all([0, 1])[user]
    assert site.reader.read(old) == b"earlier!"

    site.pool.release_all(0)
    site.pool.release_all(1)

    for content in (None, b"the next"):
        if content is not None:
            site.pool.publish(content, [0], mode=mode)
        with pytest.raises(StaleLeaseError) as caught:
            site.reader.read(old)
        assert caught.value.lease == old.lease
        with pytest.raises(StaleLeaseError):
            site.reader.views(old)
    assert site.reader.read(site.take(0)) == b"the next"


@clause("MC-22")
def test_one_freed_buffer_of_several_makes_a_descriptor_stale() -> None:
    site = Site(buffers=3, size=4, icbs=0, users=1)
    site.pool.publish(content_of(12), [0])
    held = site.take(0)
    for buffer in (1, 2):
        block = site.pool.control.block(buffer)
        block.raise_generation()

        with pytest.raises(StaleLeaseError):
            site.reader.check(held)

        block.generation -= 1
        site.reader.check(held)


@clause("MC-22")
@MODES
def test_a_descriptor_has_the_generation_of_the_buffer_and_not_of_the_icb(
    mode: Mode,
) -> None:
    site = Site(buffers=1, size=4, icbs=2, users=2)
    for generation, users in enumerate(([0], [0, 1], [0, 1])):
        site.pool.publish(b"abc", users, mode=mode)

        for user in users:
            held = site.take(user)
            assert held.pieces[0].generation == generation
            assert site.reader.read(held) == b"abc"
            site.pool.release(user, held.lease)


@clause("MC-22")
def test_a_buffer_that_is_freed_during_a_read_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bytes that were copied may be those of two messages: none are returned."""
    site = Site(buffers=2, size=4, users=1)
    site.pool.publish(b"earlier!", [0])
    held = site.take(0)
    views = site.reader.views

    def freed_meanwhile(descriptor: object) -> list[memoryview]:
        got = views(held)
        site.pool.release_all(0)
        site.pool.publish(b"the next", [0])
        return got

    monkeypatch.setattr(
        type(site.reader), "views", lambda _, each: freed_meanwhile(each)
    )

    with pytest.raises(StaleLeaseError):
        site.reader.read(held)


@clause("MC-22")
def test_generations_begin_anew_after_the_last_one() -> None:
    site = Site(buffers=1, users=1)
    site.pool.control.block(0).generation = 2**32 - 1
    site.pool.publish(b"abc", [0])
    held = site.take(0)

    site.pool.release(0, held.lease)

    assert site.pool.control.block(0).generation == 0
    with pytest.raises(StaleLeaseError):
        site.reader.read(held)


@clause("MC-22")
@pytest.mark.parametrize("icbs", [0, 1])
def test_an_icb_has_a_generation_too(icbs: int) -> None:
    site = Site(buffers=2, icbs=icbs, users=2)
    site.pool.publish(b"abc", [0, 1])
    assert site.take_all([0, 1])[1].pieces[0].buffer == 0

    site.pool.release_all(1)

    generations = [
        site.pool.control.block(index).generation for index in range(2 + icbs)
    ]
    assert generations == ([0, 1] if icbs == 0 else [0, 0, 1])


@clause("MC-24")
@MODES
def test_all_that_a_lost_recipient_holds_is_released_once(mode: Mode) -> None:
    site = Site(buffers=12, size=4, icbs=12, users=3)
    for number in range(3):
        site.pool.publish(content_of(5, number), [0, 1, 2], mode=mode)
    leases = [site.take(0).lease, site.take(0).lease]
    site.pool.release(0, leases[0])
    before = site.pool.stray_releases

    assert site.pool.release_all(0) == 2

    assert site.pool.stray_releases == before
    assert site.pool.holdings(0) == (0, 0, 0, 0)
    assert site.pool.check() == []
    assert site.pool.release_all(0) == 0
    assert not site.pool.release(0, leases[1])
    assert [site.reader.read(site.take(1)) for _ in range(3)] == [
        content_of(5, number) for number in range(3)
    ]
    assert site.pool.release_all(1) == 3
    assert site.pool.release_all(2) == 3
    assert [len(each) for each in site.free] == [12, 12]


def test_holdings_are_what_a_recipient_keeps_from_being_freed() -> None:
    """Queued and leased alike: messages, their buffers, their bytes."""
    site = Site(buffers=8, size=4, icbs=4, users=2)
    site.pool.publish(content_of(9), [0, 1])
    site.pool.publish(b"", [0])

    assert site.pool.holdings(0) == (2, 0, 4, 9)
    held = site.take(0)
    assert site.pool.holdings(0) == (1, 1, 4, 9)
    assert site.pool.holdings(1) == (1, 0, 3, 9)
    site.pool.release(0, held.lease)
    assert site.pool.holdings(0) == (1, 0, 1, 0)
    census = site.pool.census()
    assert (census.queued, census.leased) == (2, 0)
    site.take(1)
    census = site.pool.census()
    assert (census.queued, census.leased) == (1, 1)


@pytest.mark.parametrize("user", [-1, 4])
def test_a_recipient_that_is_not_there_is_refused(user: int) -> None:
    site = Site(users=4)
    site.pool.publish(b"a", [0], mode=Mode.BY_BUFFER)
    lease = site.take(0).lease
    before = site.bits
    pool = site.pool

    for call in (
        lambda: pool.publish(b"abc", [0, user]),
        lambda: pool.publish_variant(0, lease, [b"abc"], [0, user]),
        lambda: pool.publish_variant(user, lease, [b"abc"], [0]),
        lambda: pool.dequeue(user),
        lambda: pool.release(user, lease),
        lambda: pool.release_all(user),
        lambda: pool.holdings(user),
    ):
        with pytest.raises(ValueError, match=f"no recipient {user}: .* 0 to 3"):
            call()

    assert site.bits == before
    assert pool.stray_releases == 0
