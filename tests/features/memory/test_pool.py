"""`Pool`, step by step against a model of plain lists.

Pools are small, so that most runs exhaust them, borrow DCBs, and reuse blocks. After
each step both are compared block by block, and conservation is checked (MC-23).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from bus.errors import ArenaFullError
from bus.features.memory import Excerpt, Mode
from specs.clauses import clause
from tests.depth import among
from tests.features.memory.model import PoolModel
from tests.features.memory.support import Site, content_of

if TYPE_CHECKING:
    from bus.features.memory import Descriptor
    from tests.features.memory.model import Held

USERS = 3
SIZE = 3
TOTALS = st.integers(0, 4 * SIZE)
# A recipient may be named twice.
RECIPIENTS = st.lists(st.integers(0, USERS - 1), max_size=4)
USER = st.integers(0, USERS - 1)


class PoolMachine(RuleBasedStateMachine):
    """A pool and its model."""

    @initialize(buffers=st.integers(1, 9), icbs=st.integers(0, 5))
    def make(self, buffers: int, icbs: int) -> None:
        self.site = Site(buffers=buffers, size=SIZE, icbs=icbs, users=USERS)
        self.pool = self.site.pool
        self.model = PoolModel(buffers, SIZE, icbs, USERS)
        self.descriptors: dict[tuple[int, int], Descriptor] = {}
        self.salt = 0
        self.strays = 0

    @rule(total=TOTALS, users=RECIPIENTS)
    def publish(self, total: int, users: list[int]) -> None:
        content = self._content(total)
        before = self.site.bits
        room = self.pool.has_room(total, len(users))
        fits = not users or self.model.publish(content, users)
        assert room == fits
        try:
            self.pool.publish(content, users)
        except ArenaFullError:
            assert not fits
            assert self.site.bits == before
        else:
            assert fits

    @rule(total=TOTALS, users=RECIPIENTS)
    def publish_by_buffer(self, total: int, users: list[int]) -> None:
        content = self._content(total)
        before = self.site.bits
        room = self.pool.has_room(total, len(users), mode=Mode.BY_BUFFER)
        fits = not users or self.model.compose([content], None, users)
        assert room == fits
        try:
            self.pool.publish(content, users, mode=Mode.BY_BUFFER)
        except ArenaFullError:
            assert not fits
            assert self.site.bits == before
        else:
            assert fits

    @precondition(lambda self: self._originals())
    @rule(users=RECIPIENTS, data=st.data())
    def publish_variant(self, users: list[int], data: st.DataObject) -> None:
        user, lease = data.draw(st.sampled_from(self._originals()))
        original = self.model.leases[user][lease]
        parts = data.draw(st.lists(self._parts(original), max_size=3))
        before = self.site.bits
        fits = not users or self.model.compose(parts, original, users)
        try:
            self.pool.publish_variant(user, lease, parts, users)
        except ArenaFullError:
            assert not fits
            assert self.site.bits == before
        else:
            assert fits

    @rule(user=USER)
    def dequeue(self, user: int) -> None:
        descriptor = self.pool.dequeue(user)

        if descriptor is None:
            assert not self.model.queues[user]
            return
        held = self.model.dequeue(user, descriptor.lease)
        assert [piece[:3] for piece in descriptor.pieces] == held.stretches
        assert descriptor.total_bytes == len(held.content)
        self.descriptors[user, descriptor.lease] = descriptor

    @precondition(lambda self: self.descriptors)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        user, lease = data.draw(st.sampled_from(sorted(self.descriptors)))

        assert self.pool.release(user, lease)

        self.model.release(user, lease)
        del self.descriptors[user, lease]

    @rule(user=USER, lease=st.integers(0, 20))
    def release_a_lease_that_may_not_be_there(self, user: int, lease: int) -> None:
        if (user, lease) in self.descriptors:
            return
        before = self.site.bits

        assert not self.pool.release(user, lease)

        self.strays += 1
        assert self.site.bits == before

    @rule(user=USER)
    def lose_a_recipient(self, user: int) -> None:
        count = len(self.model.queues[user]) + len(self.model.leases[user])

        assert self.pool.release_all(user) == count

        self._lose(user)

    @invariant()
    def every_block_is_in_one_place(self) -> None:
        assert self.pool.check() == []
        assert self.pool.stray_releases == self.strays

    @invariant()
    def the_same_blocks_are_free(self) -> None:
        model = (self.model.free_direct, self.model.free_indirect)
        assert self.site.free == model
        census = self.pool.census()
        assert (census.free_direct, census.free_indirect) == tuple(map(len, model))
        assert census.free_direct + census.chained + census.borrowed == (
            self.model.buffers
        )
        assert census.free_indirect + census.indirect == self.model.icbs
        blocks = range(self.site.layout.blocks)
        generations = [self.pool.control.block(index).generation for index in blocks]
        assert generations == [self.model.generations[index] for index in blocks]

    @invariant()
    def the_holders_are_counted(self) -> None:
        for held in self.model.held():
            if held.group is not None:
                assert self.site.dup(held.group.chain[0]) == held.group.holders
            else:
                for buffer, _, _ in held.stretches:
                    assert self.site.dup(buffer) == self.model.dups[buffer]
        for user in range(USERS):
            assert self.pool.holdings(user) == self.model.holdings(user)

    @invariant()
    def what_is_leased_stays_readable_and_unchanged(self) -> None:
        for (user, lease), descriptor in self.descriptors.items():
            held = self.model.leases[user][lease]
            assert self.site.reader.read(descriptor) == held.content

    def teardown(self) -> None:
        """MC-24: all is released, and all is free again."""
        for user in range(USERS):
            self.pool.release_all(user)
            self._lose(user)
        assert self.pool.check() == []
        assert self.site.free == (self.model.free_direct, self.model.free_indirect)
        free = [len(each) for each in self.site.free]
        assert free == [self.model.buffers, self.model.icbs]

    def _content(self, total: int) -> bytes:
        self.salt += 1
        return content_of(total, self.salt)

    def _lose(self, user: int) -> None:
        """Release in the model what a recipient holds: leases first, then its queue."""
        while self.model.queues[user]:
            # After the ids that the pool gives out: the newest leases are the last.
            self.model.dequeue(user, 10**9 + len(self.model.leases[user]))
        for lease in list(self.model.leases[user]):
            self.model.release(user, lease)
            self.descriptors.pop((user, lease), None)

    def _originals(self) -> list[tuple[int, int]]:
        return [
            (user, lease)
            for user, leases in enumerate(self.model.leases)
            for lease, held in leases.items()
            if held.group is None
        ]

    def _parts(self, original: Held) -> st.SearchStrategy[bytes | Excerpt]:
        places = range(len(original.stretches))
        excerpts = st.sampled_from(places).flatmap(
            lambda place: _excerpts(place, original.stretches[place][2])
        )
        new = st.builds(lambda total: content_of(total, 77), st.integers(0, 2 * SIZE))
        return st.one_of(new, excerpts)


def _excerpts(place: int, length: int) -> st.SearchStrategy[Excerpt]:
    return st.integers(0, length).flatmap(
        lambda offset: st.builds(
            Excerpt,
            st.just(place),
            st.just(offset),
            st.integers(0, length - offset),
        )
    )


@pytest.mark.deep
@clause("MC-23", "MC-24", "MC-10", "MC-14", "MC-15", "MC-16", "MC-19", "MC-22", "MC-26")
def test_a_pool_does_as_its_model_of_plain_lists() -> None:
    runs = settings(max_examples=among(20, 300), stateful_step_count=40)
    run_state_machine_as_test(PoolMachine, settings=runs)
