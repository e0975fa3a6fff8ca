"""The lister: each file is done once, whichever workers join, leave or break down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus import NOREPLY
from bus.demo.lister import Lister, WorkList
from bus.demo.messages import Give, sent
from bus.errors import InDoubtError
from bus.model.message import Response
from queuebroker.testing import explore
from tests.demo.support import demo_bus
from tests.kit.inspection import info, is_there
from tests.kit.serving import serve

if TYPE_CHECKING:
    from bus import Bus, BusThread, Incoming
    from queuebroker.testing import Run


class Hand:
    """A worker that notes its orders, and executes them or misbehaves."""

    def __init__(self, bus: Bus, name: str, thread: BusThread, does: str) -> None:
        self._does = does
        self.given: list[tuple[int, int]] = []
        self.dismissed = False
        self._task = bus.register(f"worker/{name}", thread=thread)
        self._task.on_command(self._ordered)

    def _ordered(self, message: Incoming) -> Any:
        order = sent(message.payload)
        if isinstance(order, Give):
            self.given.append((order.pass_number, order.index))
            if self._does == "works":
                return None
            if self._does == "takes its time":
                return NOREPLY
            if self._does == "breaks down":
                raise ValueError("broken")
        else:
            self.dismissed = True
        self.leave()
        return NOREPLY

    def leave(self) -> None:
        self._task.deregister(final=True)


def test_all_workers_share_the_files_of_every_pass() -> None:
    passes = iter([True, False])
    with demo_bus() as bus:
        work_list = WorkList(5, lambda: next(passes))
        Lister(bus, work_list)
        hands = [Hand(bus, name, bus.here(), "works") for name in ("a", "b")]

        serve(bus, lambda: not is_there(bus, "worker/b"), "b is let go")
        serve(bus, lambda: not is_there(bus, "worker/a"), "a is let go")

    given = [item for hand in hands for item in hand.given]
    assert sorted(given) == [(number, i) for number in (1, 2) for i in range(5)]
    assert all(hand.dismissed for hand in hands)


def test_a_late_worker_is_dismissed() -> None:
    with demo_bus() as bus:
        work_list = WorkList(1, lambda: False)
        Lister(bus, work_list)
        Hand(bus, "early", bus.here(), "works")
        serve(bus, lambda: not is_there(bus, "worker/early"), "all is done")

        late = Hand(bus, "late", bus.here(), "works")
        serve(bus, lambda: not is_there(bus, "worker/late"), "it is let go")

    assert late.given == []
    assert late.dismissed


def test_a_worker_that_fails_is_dismissed_and_another_gets_its_file(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with demo_bus() as bus:
        work_list = WorkList(3, lambda: False)
        Lister(bus, work_list)
        broken = Hand(bus, "broken", bus.here(), "breaks down")
        serve(bus, lambda: not is_there(bus, "worker/broken"), "it is let go")
        assert not work_list.over

        whole = Hand(bus, "whole", bus.here(), "works")
        serve(bus, lambda: not is_there(bus, "worker/whole"), "all is done")

    assert broken.given == [(1, 0)]
    assert broken.dismissed
    assert whole.given == [(1, 0), (1, 1), (1, 2)]
    assert "ValueError: broken" in caplog.text


def test_the_file_of_a_worker_that_left_goes_to_a_present_one() -> None:
    """Not to the idle worker that left before."""
    with demo_bus() as bus:
        here = bus.here()
        work_list = WorkList(1, lambda: False)
        Lister(bus, work_list)
        busy = Hand(bus, "busy", here, "takes its time")
        serve(bus, lambda: busy.given, "it has something to do")
        idle = Hand(bus, "idle", here, "works")
        idle.leave()
        busy.leave()
        serve(bus, lambda: not is_there(bus, "worker/busy"), "both have left")

        other = Hand(bus, "other", here, "works")
        serve(bus, lambda: not is_there(bus, "worker/other"), "all is done")

        assert bus.inspect().parked == {}
        assert info(bus, "lister").questions == 0
    assert other.given == [(1, 0)]
    assert idle.given == []


def test_each_worker_gets_as_many_files_ahead_as_configured() -> None:
    with demo_bus() as bus:
        work_list = WorkList(5, lambda: False)
        Lister(bus, work_list, ahead=2)
        slow = Hand(bus, "slow", bus.here(), "takes its time")

        serve(bus, lambda: len(slow.given) == 2, "it has two")

        assert info(bus, "lister").questions == 2
    assert slow.given == [(1, 0), (1, 1)]


def test_files_taken_back_are_done_in_the_old_order() -> None:
    with demo_bus() as bus:
        here = bus.here()
        work_list = WorkList(3, lambda: False)
        Lister(bus, work_list, ahead=2)
        slow = Hand(bus, "slow", here, "takes its time")
        serve(bus, lambda: len(slow.given) == 2, "it has two")
        slow.leave()
        serve(bus, lambda: not is_there(bus, "worker/slow"), "it has left")

        other = Hand(bus, "other", here, "works")
        serve(bus, lambda: not is_there(bus, "worker/other"), "all is done")

        assert info(bus, "lister").questions == 0
    assert other.given == [(1, 0), (1, 1), (1, 2)]


def test_no_worker_gets_a_file_before_all_awaited_ones_are_present() -> None:
    """The assignment then follows their names, not the order of arrival."""
    with demo_bus() as bus:
        here = bus.here()
        work_list = WorkList(2, lambda: False)
        Lister(bus, work_list, awaited=("worker/a", "worker/b"))
        second = Hand(bus, "b", here, "takes its time")
        received: list[bool] = []
        seer = bus.register("seer", thread=here)
        seer.watch("worker/b", lambda presence: received.append(presence.here))
        serve(bus, lambda: received, "the first one is seen")
        assert second.given == []

        first = Hand(bus, "a", here, "takes its time")
        serve(bus, lambda: first.given and second.given, "both have something")

    assert (first.given, second.given) == ([(1, 0)], [(1, 1)])


def test_a_late_outcome_does_not_count_against_a_worker_that_is_back() -> None:
    with demo_bus() as bus:
        here = bus.here()
        work_list = WorkList(4, lambda: False)
        lister = Lister(bus, work_list, ahead=2)
        cut = Hand(bus, "x", here, "takes its time")
        serve(bus, lambda: len(cut.given) == 2, "it has two")
        cut.leave()
        serve(bus, lambda: not is_there(bus, "worker/x"), "it is gone")
        back = Hand(bus, "x", here, "takes its time")
        serve(bus, lambda: len(back.given) == 2, "it has two again")
        doubt = InDoubtError("worker/x")
        for item in ((1, 2), (1, 3)):  # not in its hands
            lister._answered(Response(None, None, doubt, ("worker/x", item)))

        other = Hand(bus, "y", here, "works")
        serve(bus, lambda: len(other.given) == 2, "the other one does the rest")

        assert back.given == [(1, 0), (1, 1)]
        assert other.given == [(1, 2), (1, 3)]
        assert lister.unanswered == {"in doubt": 2}


@pytest.mark.deep
def test_every_file_is_done_once_though_one_leaves_with_a_file_in_hand() -> None:
    def program(_run: Run) -> None:
        with demo_bus() as bus:
            work_list = WorkList(2, lambda: False)
            Lister(bus, work_list)
            gone: list[bool] = []
            seer = bus.register("seer", thread=bus.here())
            seer.watch("worker/b", lambda presence: gone.append(not presence.here))
            works = Hand(bus, "b", bus.thread(), "works")
            leaves = Hand(bus, "a", bus.here(), "leaves")
            while not any(gone):
                bus.here().poll(None)
        assert work_list.over
        assert sorted(works.given) == [(1, 0), (1, 1)]
        assert len(leaves.given) <= 1

    explore(program, bound=1, limit=200, random=100)
