"""`LinkPool.wait`: the owner of links sleeps, and the first event wakes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuebroker.testing import explore
from tests.links.link_owner import LinkOwner, under_every_schedule

if TYPE_CHECKING:
    from queuebroker.testing import Run


def test_a_loss_wakes_though_nothing_came_and_other_links_live() -> None:
    """The link may be lost just before the owner enlists itself to be woken."""

    def program(run: Run) -> None:
        owner = LinkOwner()
        owner.open()
        far, _other = owner.connected(2)
        run.spawn(far.disconnect)
        owner.until(lambda: owner.came)
        owner.close()
        assert owner.came == [(1, None)]

    under_every_schedule(program)


@pytest.mark.parametrize("by", ["frame", "inbox", "loss"])
def test_one_of_many_simultaneous_events_wakes_the_owner(by: str) -> None:
    """No wake-up is lost, whichever comes first, and each event is reported once."""

    def program(run: Run) -> None:
        owner = LinkOwner()
        owner.open()
        far = owner.connected(2)
        asked: list[int] = []

        def wakes(number: int) -> None:
            if by == "inbox":
                owner.ask(lambda: asked.append(number))
            elif by == "frame":
                far[number].send(b"x")
            else:
                far[number].disconnect()

        for number in range(2):
            run.spawn(wakes, number)
        run.spawn(owner.ask, lambda: asked.append(7))
        owner.until(lambda: len(owner.came) + len(asked) == 3)
        owner.close()
        told = sorted(link for link, _ in owner.came)
        assert told == ([] if by == "inbox" else [1, 2])
        assert sorted(asked) == ([0, 1, 7] if by == "inbox" else [7])

    under_every_schedule(program, limit=1_000)


def test_a_ready_note_wakes_the_owner_before_or_after_it_falls_asleep() -> None:
    def program(run: Run) -> None:
        owner = LinkOwner()
        owner.open()
        notes: list[int] = []
        owner.ready = lambda: bool(notes)

        def wakes() -> None:
            notes.append(1)
            with owner.inbox.lock:
                owner.inbox.arrived.wake_one()

        run.spawn(wakes)
        owner.until(lambda: notes)
        owner.close()

    under_every_schedule(program)


def test_the_owner_wakes_at_its_deadline_and_not_before() -> None:
    def program(run: Run) -> None:
        owner = LinkOwner()
        owner.open()
        owner.connected()
        until = run.now + 3.0
        owner.until(lambda: False, until)
        assert run.now >= until
        owner.close()

    explore(program, bound=0, limit=20, random=0)
