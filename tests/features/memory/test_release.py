"""Delivery and release: counts, freed chains, stray releases, stale descriptors."""

from __future__ import annotations

import pytest

from bus.errors import StaleLeaseError
from bus.features.memory import Mode
from bus.features.memory.blocks import END
from specs.clauses import clause
from tests.features.memory.support import Site, content_of

MODES = pytest.mark.parametrize("mode", list(Mode))
SIZES = pytest.mark.parametrize("size", [0, 3, 4, 11])


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
        with pytest.raises(ValueError, match=f"no recipient {user}: it was"):
            call()

    assert site.bits == before
    assert pool.stray_releases == 0
