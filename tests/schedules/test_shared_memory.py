"""MC-32 to MC-39: shared memory, where leases end in any thread."""

from __future__ import annotations

import os
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import pytest

from bus.features.memory.lent_bodies import LentBodies, _Lender
from bus.features.memory.mappings import SlabMappings
from bus.process.rounds import Rounds
from queuebroker import _sync
from specs.clauses import clause
from tests.features.memory.memory_ends import SIZE, Recipient
from tests.schedules.memory import (
    BODIES,
    Links,
    Reader,
    info_of,
    shared,
    small_owner,
)
from tests.schedules.scenario import Scenario, of_module, scenario
from tests.schedules.survey import check

if TYPE_CHECKING:
    from queuebroker.testing import Run

# Code that shares data without a lock with the thread in which a lease ends.
NOTES: Final = (LentBodies._end, LentBodies.take_ended, SlabMappings.take_ended)
WAKES: Final = (
    *(LentBodies.is_due, Rounds.wake_unless_soon, Rounds.run, Rounds.deadline),
)
NO_PROCESS: Final = 2**22 - 1
LONGER: Final = (b"3" * 2 * SIZE, b"4" * 2 * SIZE)


@scenario(quick=1, inside=(*NOTES, *WAKES), variants={"asleep": (0,), "soon": (1,)})
@clause("MC-35")
def an_ended_lease_is_reported(run: Run, soon: int) -> None:
    """The comm thread does not sleep over it, also if it wakes soon by itself."""
    with small_owner() as owner:
        reader = Reader()
        owner.link(1, reader)
        views = shared(owner, 1, 1)
        if soon:
            alarm = reader.rounds._timers.alarm(lambda _: None)
            alarm.by(_sync.monotonic() + 0.005)
        run.spawn(views.clear, name="reads")

        reader.make_round()  # for another reason
        owner.answers()
        while not info_of(owner).messages.released:
            reader.sleep()
            reader.make_round()
            owner.answers()

        run.join()
        reader.make_round()
        assert owner.answers() == []
        assert not reader.rounds.is_due()
        assert owner.used == 0


@scenario(inside=NOTES)
@clause("MC-32", "MC-35", "MC-21")
def a_lease_ends_while_its_link_is_lost(run: Run) -> None:
    """It is reported before, or not at all; its buffer is home, or abandoned."""
    with small_owner() as owner:
        reader = Reader()
        owner.link(1, reader)
        views = shared(owner, 1, 2)
        run.spawn(views.clear, name="reads")

        reader.make_round()
        reader.make_round(loss=True)
        reported = sum(len(report.leases) for report in reader.reports)
        owner.answers()
        owner.memory.forget(1)
        run.join()
        reader.make_round()

        assert not reader.rounds.is_due(), "no link is left for a report"
        assert info_of(reader).lent == ()
        found = info_of(owner)
        assert found.messages.shared == found.messages.released == 2
        # A slab with an abandoned buffer is closed, since it has no other.
        assert [slab.used for slab in found.slabs] == [0] * reported


@scenario(variants={"lives": (False,), "has ended": (True,)})
@clause("MC-32", "MC-8", "MC-21", "MC-39")
def a_recipient_is_lost_while_a_body_is_shared_with_two(
    run: Run, process_ended: bool
) -> None:
    """The other one reads whole bytes, and so does the lost one, if it lives on.

    Its link is lost between any two actions of a round.
    """
    with small_owner() as owner:
        for link in (1, 2):
            owner.link(link, Recipient())
        owner.process_ids[1] = NO_PROCESS if process_ended else os.getpid()
        owner.prepared(1, 2)
        links, kept, arrived = Links(owner), list[Any](), list[bytes]()

        def read() -> None:
            arrived.extend(map(bytes, links.read(2)))
            links.answer(2)

        run.spawn(links.lose, 1, name="loses")
        run.spawn(read, name="reads")
        for body in BODIES:
            links.share(body, 1, 2)
            if not process_ended:
                kept += zip(links.read(1), [body], strict=False)
        run.join()
        links.share(BODIES[0], 1, 2)
        read()

        assert arrived == [*BODIES, BODIES[0]]
        assert all(bytes(view) == body for view, body in kept)
        found = info_of(owner)
        assert [each.pid for each in found.recipients] == [os.getpid()]
        assert found.messages.shared == found.messages.released
        assert owner.used == 0


@scenario()
@clause("MC-38", "MC-36", "MC-29", "MC-39")
def a_slab_is_closed_while_its_answer_is_under_way(run: Run) -> None:
    """Each body arrives; at last both ends agree on the slabs that are mapped."""
    with small_owner(2 * SIZE) as owner:
        owner.link(1, Recipient())
        links, arrived = Links(owner), list[bytes]()

        def read() -> None:
            for _ in range(2):
                arrived.extend(map(bytes, links.read(1)))
                links.answer(1)

        run.spawn(read, name="reads")
        # A longer body needs all memory of the arena.
        for body in (*BODIES, *LONGER):
            links.share(body, 1)
        run.join()
        read()

        assert arrived == [*BODIES, *LONGER]
        found = info_of(owner)
        assert found.messages.shared == found.messages.released
        assert owner.used == 0
        [recipient] = found.recipients
        [lent] = info_of(owner.recipients[1]).lent
        assert lent.slabs == recipient.slabs_mapped <= len(found.slabs)


@scenario(quick=1, inside=(*NOTES, _Lender.info, SlabMappings.ended))
@clause("MC-33", "MC-35", "MC-39")
def both_ends_are_closed_while_a_lease_ends(run: Run) -> None:
    """The reports meanwhile are states of their own; views outlive the close."""
    with small_owner() as owner:
        recipient = Recipient()
        owner.link(1, recipient)
        kept, *views = shared(owner, 1, 2)

        run.spawn(views.clear, name="reads")
        looking = run.spawn(info_of, recipient, name="looks")
        reports = owner.answers()
        recipient.memory.close()
        owner.memory.close()
        run.join()

        assert sum(each.views for each in looking.result.lent) <= 2
        assert recipient.place.woken == 1
        assert list(recipient.say()) == []
        assert not recipient.memory.is_due(soon=False)
        assert len(reports) <= 1
        assert info_of(recipient).lent == ()
        found = info_of(owner)
        assert found.slabs == ()
        assert found.messages.shared == found.messages.released == 2
        assert bytes(kept) == BODIES[0]


@pytest.mark.deep
@pytest.mark.parametrize("scenario", of_module(__name__), ids=attrgetter("name"))
def test_quick(scenario: Scenario) -> None:
    """The clauses hold in every schedule with few preemptions, and in random ones."""
    check(scenario)
