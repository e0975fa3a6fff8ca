"""Free queues and user queues, step by step against plain deques."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from bus.features.memory import PoolLayout
from bus.features.memory.blocks import END
from bus.features.memory.queues import BlockSupply, UserQueue
from bus.features.memory.region import ControlRegion
from specs.clauses import clause

SIZES = st.integers(0, 4)


class Free(RuleBasedStateMachine):
    """Both free queues, as two deques; leased blocks come back in chains."""

    @initialize(buffers=st.integers(1, 6), icbs=SIZES)
    def make(self, buffers: int, icbs: int) -> None:
        layout = PoolLayout(buffers, 4, icbs, 1)
        self.region = ControlRegion(layout, bytearray(layout.control_bytes))
        supply = BlockSupply(self.region)
        supply.build()
        self.queues = (supply.free_direct, supply.free_indirect)
        self.ends = (layout.free_direct_at, layout.free_indirect_at)
        self.models = (
            deque(range(buffers)),
            deque(range(buffers, buffers + icbs)),
        )
        self.leased: tuple[list[list[int]], list[list[int]]] = ([], [])
        self.generations = [0] * layout.blocks

    @rule(which=st.integers(0, 1), count=SIZES)
    def lease(self, which: int, count: int) -> None:
        model = self.models[which]
        count = min(count, len(model))

        got = self.queues[which].lease(count)

        assert got == [model.popleft() for _ in range(count)]
        if got:
            self.leased[which].append(got)

    @rule(which=st.integers(0, 1), data=st.data())
    def release(self, which: int, data: st.DataObject) -> None:
        if not self.leased[which]:
            return
        places = st.integers(0, len(self.leased[which]) - 1)
        chain = self.leased[which].pop(data.draw(places))

        self.queues[which].release(chain[0], chain[-1], len(chain))

        self.models[which].extend(chain)
        for index in chain:
            self.generations[index] += 1

    @invariant()
    def agree(self) -> None:
        for queue, at, model in zip(self.queues, self.ends, self.models, strict=True):
            assert list(queue) == list(model)
            assert len(queue) == len(model)
            control = self.region.queue(at)
            ends = (model[0], model[-1]) if model else (END, END)
            assert (control.head, control.tail) == ends

    @invariant()
    def each_release_has_raised_the_generation(self) -> None:
        blocks = [self.region.block(index) for index in range(len(self.generations))]
        assert [block.generation for block in blocks] == self.generations


class Users(RuleBasedStateMachine):
    """Three user queues over the same blocks, as three deques."""

    @initialize()
    def make(self) -> None:
        layout = PoolLayout(8, 4, 0, 3)
        self.region = ControlRegion(layout, bytearray(layout.control_bytes))
        for index in range(layout.blocks):
            self.region.block(index).next_message = END
        self.ends = [layout.user_queue_at(user) for user in range(3)]
        self.queues = [UserQueue(self.region, at) for at in self.ends]
        for queue in self.queues:
            queue.build()
        self.models: list[deque[int]] = [deque() for _ in self.queues]
        self.idle = list(range(layout.blocks))

    @precondition(lambda self: self.idle)
    @rule(user=st.integers(0, 2))
    def enqueue(self, user: int) -> None:
        head = self.idle.pop()

        self.queues[user].append(self.region.block(head))

        self.models[user].append(head)

    @rule(user=st.integers(0, 2))
    def dequeue(self, user: int) -> None:
        model = self.models[user]

        if not model:
            with pytest.raises(IndexError, match="the user queue is empty"):
                self.queues[user].popleft()
            return
        block = self.queues[user].popleft()

        assert block.index == model.popleft()
        assert block.next_message == END
        self.idle.insert(0, block.index)

    @invariant()
    def agree(self) -> None:
        for queue, at, model in zip(self.queues, self.ends, self.models, strict=True):
            assert [block.index for block in queue] == list(model)
            assert len(queue) == len(model)
            control = self.region.queue(at)
            ends = (model[0], model[-1]) if model else (END, END)
            assert (control.head, control.tail) == ends


@pytest.mark.deep
@clause("MC-5", "MC-20", "MC-22")
def test_free_queues_are_two_deques() -> None:
    run_state_machine_as_test(Free)


@pytest.mark.deep
@clause("MC-6")
def test_user_queues_are_deques() -> None:
    run_state_machine_as_test(Users)
