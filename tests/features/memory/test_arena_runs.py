"""`Arena`, in any course of publishes, releases and losses, against a model."""

from __future__ import annotations

from collections import deque
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
from bus.features.memory.arena import Arena
from bus.features.memory.mappings import SlabMappings
from specs.clauses import clause
from tests.depth import among
from tests.features.memory.arena_reader import LEAST, MIB, Reader, buffer_for
from tests.features.memory.support import content_of
from tests.kit.systems import needs_shared_memory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bus.features.memory.arena import ArenaLoan, SlabState
    from tests.features.memory.arena_reader import HeldMessage


pytestmark = needs_shared_memory

SIZES = st.sampled_from([0, 1, LEAST, LEAST + 1, 5 * LEAST, MIB, 2 * MIB + 1])
LIMIT = 3 * MIB
RECIPIENTS = 3


class ArenaMachine(RuleBasedStateMachine):
    """An arena, its recipients, and lost recipients that read on."""

    @initialize()
    def make(self) -> None:
        self.arena = Arena(LIMIT, share=0.5)
        self.numbers: set[int] = set()  # given out, also those of lost recipients
        self.readers: dict[int, Reader] = {}
        self.queues: dict[int, deque[bytes]] = {}
        self.lost: list[Reader] = []
        self.leases: set[tuple[int, int]] = set()
        self.closed: set[int] = set()
        self.loans: list[tuple[ArenaLoan, bytes]] = []
        self.salt = 0
        self.strays = 0

    @precondition(lambda self: len(self.readers) < RECIPIENTS)
    @rule()
    def add_a_recipient(self) -> None:
        number = self.arena.add_recipient()
        assert number not in self.numbers
        self.numbers.add(number)
        self.readers[number] = Reader(number, SlabMappings(lambda: None))
        self.queues[number] = deque()

    @rule(size=SIZES, chosen=st.sets(st.integers(0, RECIPIENTS - 1)))
    def publish(self, size: int, chosen: set[int]) -> None:
        self.salt += 1
        content = content_of(size, self.salt)
        within = LIMIT // 2 - buffer_for(size)
        named = [each for at, each in enumerate(self.readers) if at in chosen]
        to = []
        for number in named:
            may = self.arena.is_within_share(number, size)
            assert may == (self._held_bytes(number) <= within)
            if may:
                to.append(number)
        before = list(self.arena.slabs())
        try:
            assert self.arena.publish(content, named) == to
        except ArenaFullError as error:
            refusal = (error.needed, error.limit)
        else:
            for number in to:
                self.queues[number].append(content)
            # MC-8: one buffer, for any number of recipients.
            assert _used(self.arena.slabs()) == _used(before) + bool(to)
            return
        assert refusal == (size, LIMIT)
        taken = [each for each in before if each.leases]
        assert taken == [each for each in self.arena.slabs() if each.leases]
        # There is a reason: no free buffer, and no room for one more.
        wanted = buffer_for(size)
        assert not any(each.buffer_bytes == wanted and each.free for each in taken)
        assert sum(each.buffers * each.buffer_bytes for each in taken) + wanted > LIMIT

    @rule(size=SIZES)
    def lend(self, size: int) -> None:
        self.salt += 1
        content = content_of(size, self.salt)
        try:
            loan = self.arena.lease(size)
        except ArenaFullError:
            return  # `publish` compares the reasons
        assert (loan.slab, loan.lease) not in self.leases
        self.leases.add((loan.slab, loan.lease))
        loan.buffer[:] = content
        self.loans.append((loan, content))

    @precondition(lambda self: self.loans and self.readers)
    @rule(data=st.data())
    def enqueue_a_loan(self, data: st.DataObject) -> None:
        loan, content = self.loans[data.draw(st.integers(0, len(self.loans) - 1))]
        number = data.draw(st.sampled_from(sorted(self.readers)))
        may = self.arena.is_within_share(number, len(content))

        assert self.arena.enqueue(loan, number) == may

        if may:
            self.queues[number].append(content)

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def dequeue(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.readers)))

        placement = self.arena.dequeue(number)

        if placement is None:
            assert not self.queues[number]
            return
        assert (placement.slab, placement.lease) not in self.leases
        self.leases.add((placement.slab, placement.lease))
        content = self.queues[number].popleft()
        self.readers[number].take(self.arena, placement, content)

    @precondition(lambda self: self.loans)
    @rule(data=st.data())
    def take_back(self, data: st.DataObject) -> None:
        loan, _ = self.loans.pop(data.draw(st.integers(0, len(self.loans) - 1)))
        assert self.arena.release_loan(loan)
        assert not self.arena.release_loan(loan)
        self.strays += 1

    @precondition(lambda self: any(each.held for each in self.readers.values()))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        holders = [each for each in self.readers.values() if each.held]
        reader = data.draw(st.sampled_from(holders))
        held = data.draw(st.sampled_from(reader.held))
        reader.held.remove(held)
        held.view.release()
        del held.view

        assert reader.mappings.take_ended() == [held.key]
        assert self.arena.release(reader.number, held.placement.lease)
        assert not self.arena.release(reader.number, held.placement.lease)
        self.strays += 1

    @precondition(lambda self: len(self.readers) > 1)
    @rule(data=st.data())
    def release_what_another_holds(self, data: st.DataObject) -> None:
        reader, other = data.draw(st.permutations(list(self.readers.values())))[:2]
        for held in other.held:
            assert not self.arena.release(reader.number, held.placement.lease)
            self.strays += 1

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), ended=st.booleans())
    def lose_a_recipient(self, data: st.DataObject, *, ended: bool) -> None:
        reader = self.readers.pop(data.draw(st.sampled_from(sorted(self.readers))))

        count = self.arena.remove_recipient(reader.number, process_ended=ended)

        assert count == len(reader.held) + len(self.queues.pop(reader.number))
        if not ended:
            self.lost.append(reader)

    @invariant()
    def each_message_is_unchanged_while_it_can_be_read(self) -> None:
        for reader in (*self.readers.values(), *self.lost):
            for held in reader.held:
                assert bytes(held.view) == held.content  # compared faster than the view

    @invariant()
    def all_is_counted(self) -> None:
        assert self.arena.check() == []
        assert self.arena.size <= LIMIT
        assert self.arena.stray_releases == self.strays
        for number, reader in self.readers.items():
            counts = (len(self.queues[number]), len(reader.held))
            assert self.arena.holdings(number) == (*counts, self._held_bytes(number))
        slabs = {each.number: each for each in self.arena.slabs()}
        assert not slabs.keys() & self.closed
        for slab in slabs.values():
            own = self._held_in(slab.number, self.readers.values())
            lost = self._held_in(slab.number, self.lost)
            lent = [loan for loan, _ in self.loans if loan.slab == slab.number]
            queued = self._queued_in(slab.number)
            assert slab.leases == len(own) + len(lost) + len(lent) + len(queued)
            assert slab.loans == len(lent)
            assert slab.abandoned == len(lost)
            places = {each.placement.at for each in own + lost}
            places |= {loan.at for loan in lent} | {*queued}
            assert slab.free == slab.buffers - len(places)
            assert own or lent or queued or not lost  # else it is closed
            for each in own:
                assert buffer_for(len(each.content)) == slab.buffer_bytes

    def _held_in(self, slab: int, readers: Iterable[Reader]) -> list[HeldMessage]:
        held = [each for reader in readers for each in reader.held]
        return [each for each in held if each.placement.slab == slab]

    def _queued_in(self, slab: int) -> list[int]:
        """Return the positions of the messages that are queued, and not located yet."""
        blocks = [
            block.target
            for number in self.queues
            for block in self.arena._recipients[number].queue
        ]
        return [block.at for block in blocks if block.slab == slab]

    def _held_bytes(self, number: int) -> int:
        queued = sum(buffer_for(len(each)) for each in self.queues[number])
        return queued + self.readers[number].bytes_held

    @rule()
    def unmap_closed_slabs(self) -> None:
        for number in self.arena.take_closed():
            assert number not in self.closed
            self.closed.add(number)
            with pytest.raises(ValueError, match="is closed"):
                self.arena.memory(number).fileno()
            for reader in self.readers.values():
                reader.mappings.remove(number)

    def teardown(self) -> None:
        """All are lost, and all buffers are free or given up."""
        for number in self.readers:
            self.arena.remove_recipient(number, process_ended=True)
        for loan, _ in self.loans:
            self.arena.release_loan(loan)
        for slab in self.arena.slabs():
            assert slab.free == slab.buffers
        self.arena.close()
        for reader in (*self.readers.values(), *self.lost):
            reader.mappings.close()


def _used(slabs: Iterable[SlabState]) -> int:
    return sum(each.buffers - each.free for each in slabs)


@clause(
    "MC-6",
    "MC-8",
    "MC-21",
    "MC-24",
    "MC-30",
    "MC-31",
    "MC-32",
    "MC-36",
    "MC-37",
    "MC-40",
)
def test_any_course_of_publishes_releases_and_losses() -> None:
    run_state_machine_as_test(
        ArenaMachine,
        settings=settings(
            max_examples=among(10, 100), stateful_step_count=30, deadline=None
        ),
    )
