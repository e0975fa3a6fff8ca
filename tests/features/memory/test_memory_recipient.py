"""`LinkMemory` at a recipient: mapped slabs, views, and reports of their ends."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

import pytest

from bus.features.memory import lent_bodies
from bus.features.memory.frames import CloseSlab, OfferSlab, Release, SlabAnswer
from bus.features.memory.shared_memory import SEALS
from bus.kernel.wire import NO_DEADLINE, RAW, Batch, FrameReader, Run
from bus.model.message import Kind
from queuebroker._files import fcntl
from specs.clauses import clause
from tests.features.memory.memory_ends import (
    MIB,
    SIZE,
    Owner,
    Recipient,
    all_closed,
    body_of,
    in_memory,
)
from tests.kit.systems import needs_shared_memory

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = needs_shared_memory

__all__ = ["all_closed"]  # a fixture


@clause("MC-35")
def test_ended_leases_are_reported_at_once_only_if_nothing_else_wakes_the_thread(
    owner: Owner,
) -> None:
    owner.prepared(1)
    recipient = owner.recipients[1]
    assert not recipient.memory.is_due(soon=False)

    for number in range(15):
        owner.send(bytes(SIZE), 1)
        assert recipient.place.woken == number + 1
        assert recipient.memory.is_due(soon=False)
        assert not recipient.memory.is_due(soon=True)
    owner.send(bytes(SIZE), 1)
    assert recipient.memory.is_due(soon=True)

    [report] = owner.answers()
    assert isinstance(report, Release)
    assert len(report.leases) == 16
    assert not recipient.memory.is_due(soon=False)
    assert owner.answers() == []


@clause("MC-35")
def test_an_ended_lease_whose_note_was_interrupted_is_reported(owner: Owner) -> None:
    owner.prepared(1)
    owner.send(bytes(SIZE), 1)
    lent = owner.recipients[1].memory._lent
    lent.ended_at.clear()

    assert [type(each) for each in owner.answers()] == [Release]
    assert owner.used == 0


@clause("MC-35")
def test_a_message_outside_a_round_takes_the_reports_of_its_link_with_it(
    owner: Owner,
) -> None:
    owner.send(bytes(SIZE), 1)
    owner.answers()
    owner.send(bytes(SIZE), 1)
    gc.collect()

    report, message = owner.recipients[1].memory.put(7, b"message")

    assert owner.used == 1
    assert owner.memory.take(1, report)
    assert owner.used == 0
    assert message == b"message"
    assert owner.recipients[1].memory.put(7, b"message") == [b"message"]


def _without_pid() -> Recipient:
    return Recipient(process_id=None)


def _of_no_process() -> Recipient:
    return Recipient(process_id=2**22 - 1)


@clause("MC-29", "MC-38")
@pytest.mark.parametrize("make", [_without_pid, _of_no_process])
def test_a_recipient_without_access_gets_every_message_by_its_link(
    owner: Owner, make: Callable[[], Recipient]
) -> None:
    owner.link(2, make())
    owner.send(bytes(SIZE), 1, 2)
    assert {
        each.mapped for each in owner.answers() if isinstance(each, SlabAnswer)
    } == {
        True,
        False,
    }

    for number in range(3):
        one, two = owner.send(bytes([number]) * SIZE, 1, 2)
        assert in_memory(one)
        assert not in_memory(two)
        assert body_of(two) == bytes([number]) * SIZE
    # It is not asked again for the same slab.
    assert not any(isinstance(each, SlabAnswer) for each in owner.answers())


@clause("BUS-MSG-16")
def test_only_a_long_payload_of_bytes_becomes_a_view(owner: Owner) -> None:
    packed = Run(1, 2, Kind.COMMAND, 0, 0, NO_DEADLINE, 0, [bytes(SIZE)])
    two = Run(1, 2, Kind.COMMAND, RAW, 0, NO_DEADLINE, 0, [bytes(SIZE)] * 2)
    for run in (packed, two):
        batch = Batch(1, 1, 1, 1, [run])
        assert owner.memory.resolve_body(1, batch) is batch


@clause("MC-36")
def test_a_closed_slab_is_unmapped_where_it_was_offered() -> None:
    owner = Owner(arena_bytes=4 * MIB, ARENA_SHARE=1.0)
    owner.link(1, Recipient())
    owner.link(2, Recipient())
    owner.prepared(1, size=MIB)
    kept = body_of(owner.send(b"k" * MIB, 1)[0])
    del kept
    gc.collect()
    owner.answers()

    owner.send(bytes(4 * MIB), 2)  # needs all of the memory

    lent = owner.recipients[1].memory._lent
    assert [len(each.mappings) for each in lent._lenders.values()] == [0]
    closing = FrameReader().read(owner.recipients[1].pieces[-1])
    assert closing == CloseSlab(slab=1)
    # The other was never offered that slab.
    assert owner.answers() == [SlabAnswer(slab=2, mapped=True)]


@clause("MC-32")
def test_a_lost_recipient_that_lives_keeps_what_it_reads(owner: Owner) -> None:
    owner.link(2, Recipient())
    owner.prepared(1, 2)
    view = body_of(owner.send(b"v" * SIZE, 1)[0])

    owner.memory.forget(1)
    owner.recipients[1].memory.forget(7)

    assert [each.abandoned for each in owner.arena.slabs()] in ([], [1])
    for number in range(20):
        owner.send(bytes([number]) * SIZE, 2)
        owner.answers()
    assert view == b"v" * SIZE
    del view
    assert owner.recipients[1].memory.is_due(soon=False)
    assert list(owner.recipients[1].say()) == []  # there is no link to report on
    assert not owner.recipients[1].memory.is_due(soon=False)


@clause("MC-33")
def test_views_outlive_the_end_of_their_owner_and_of_the_link(owner: Owner) -> None:
    owner.prepared(1)
    view = body_of(owner.send(b"v" * SIZE, 1)[0])

    owner.memory.close()
    owner.recipients[1].memory.forget(7)
    lent = owner.recipients[1].memory._lent
    assert lent.info({}) == ()  # nothing of that link is kept
    owner.recipients[1].memory.close()

    assert view == b"v" * SIZE


@clause("MC-38")
def test_a_recipient_maps_a_bounded_number_of_slabs(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lent_bodies, "_SLABS_MAX", 1)
    owner.prepared(1)

    owner.send(bytes(MIB), 1)

    assert owner.answers() == [SlabAnswer(slab=2, mapped=False)]


@clause("MC-38")
def test_a_recipient_maps_no_slab_larger_than_any_owner_makes(owner: Owner) -> None:
    """Such memory costs a hostile owner nothing, and a recipient its address space."""
    owner.prepared(1)
    lent = owner.recipients[1].memory._lent
    for slab, size in enumerate((64 * MIB, 64 * MIB + 1), 2):
        name = f"bus-{slab}"
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)

        answer = lent.on_offer(
            7, OfferSlab(slab=slab, descriptor=descriptor, token=name)
        )

        assert answer.mapped == (size == 64 * MIB)
        os.close(descriptor)
