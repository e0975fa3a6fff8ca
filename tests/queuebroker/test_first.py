"""`Selection`, as threads and event loops use it: where and how long it is listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuebroker.first import Selection
from queuebroker.waiting.parking import SharedParker, taken_lock
from tests.pairs import look_away, queue_pair

if TYPE_CHECKING:
    from queuebroker import MessageQueue, Observer
    from queuebroker.waiting.parking import Parker, WaitList

both_kinds = pytest.mark.parametrize(
    "observer", [None, look_away], ids=["fast", "locked"]
)


def _arrived(end: MessageQueue) -> WaitList:
    return end._connection.flows[end._side].buffer.arrived


@both_kinds
def test_a_parker_is_listed_where_something_can_come(observer: Observer | None) -> None:
    with (
        queue_pair(observer=observer) as (_, open_end),
        queue_pair(observer=observer) as (_, closed_end),
    ):
        closed_end.disconnect()
        selection = Selection([closed_end, open_end])

        parker = selection.enlist(taken_lock)

        assert (len(_arrived(open_end)), len(_arrived(closed_end))) == (1, 0)
        assert parker.locked()
        selection.withdraw()
        assert len(_arrived(open_end)) == 0
        selection.withdraw()  # has no effect


@both_kinds
def test_a_selection_does_not_leave_a_wait_list_that_it_has_forgotten(
    observer: Observer | None,
) -> None:
    """The driver has removed some list entries itself; the others stay ours."""
    with (
        queue_pair(observer=observer) as (_, first),
        queue_pair(observer=observer) as (_, second),
    ):
        selection = Selection([first, second])
        selection.forget(lambda *_: True)  # not listed anywhere yet
        parker = selection.enlist(taken_lock)
        asked: list[tuple[WaitList, Parker]] = []

        def gone(waiters: WaitList, parker: Parker) -> bool:
            asked.append((waiters, parker))
            return waiters is _arrived(first)

        selection.forget(gone)
        selection.withdraw()

        assert asked == [(_arrived(first), parker), (_arrived(second), parker)]
        assert (len(_arrived(first)), len(_arrived(second))) == (1, 0)
        _arrived(first).leave(parker)


@both_kinds
def test_it_is_ready_when_there_is_something_to_take_or_nothing_to_hope_for(
    observer: Observer | None,
) -> None:
    with (
        queue_pair(observer=observer) as (one, first),
        queue_pair(observer=observer) as (_, second),
    ):
        selection = Selection([first, second])
        assert not selection.ready()
        one.send(b"m")
        assert selection.ready()
        assert selection.take() == (first, b"m")
        assert not selection.ready()
        assert selection.take() is None
        one.disconnect()
        assert not selection.ready()
        second.disconnect()
        assert selection.ready()


@both_kinds
def test_a_withdrawing_selection_passes_its_wake_up_to_the_next_waiter(
    observer: Observer | None,
) -> None:
    with queue_pair(2, observer=observer) as (sender, queue):
        selection = Selection([queue])
        shared_parker = selection.enlist(SharedParker)
        next_one = taken_lock()
        _arrived(queue).enlist(next_one)

        sender.send(b"m")
        assert (shared_parker.locked(), next_one.locked()) == (False, True)
        selection.withdraw()

        assert not next_one.locked()


@both_kinds
def test_a_selection_that_took_its_message_wakes_no_other_waiter(
    observer: Observer | None,
) -> None:
    with queue_pair(2, observer=observer) as (sender, queue):
        selection = Selection([queue])
        selection.enlist(SharedParker)
        next_one = taken_lock()
        _arrived(queue).enlist(next_one)

        sender.send(b"m")
        assert selection.take() == (queue, b"m")
        selection.withdraw()

        assert next_one.locked()
