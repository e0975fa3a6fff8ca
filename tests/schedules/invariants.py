"""The safety properties of the protocol models, checked on the library itself.

Each function has the name of a property in ``specs/promela``. Those of `MEETINGS` and
`CONNECTION` are asserted at each release of the lock they refer to, where the models
state them; the others are about the outcomes of calls, and a program calls them.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from queuebroker import _sync
from queuebroker.channel.status import Status
from queuebroker.meeting import broker as broker_module
from queuebroker.meeting.rendezvous import RdV, RdVState
from queuebroker.observer import Reason
from queuebroker.waiting.parking import Parker, WaitList

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Iterator, Sequence

    from queuebroker import MessageQueue, QueueBroker

__all__ = ["CONNECTION", "MEETINGS", "Meetings", "Talk", "watch_meetings"]

_FINAL = (RdVState.MATCHED, RdVState.WITHDRAWN)
_DOWN = (Status.CONNECTED, Status.HALF_DISCONNECTED, Status.DISCONNECTED)


class CheckedLock:
    """A stand-in for a lock that runs ``check`` before each release."""

    def __init__(self, lock: _thread.RLock, check: Callable[[], None]) -> None:
        self._lock = lock
        self._check = check
        self._is_owned = partial(_sync.owns, lock)
        self.acquire = lock.acquire

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def release(self) -> None:
        """Check, and release the lock even if the check fails."""
        try:
            self._check()
        finally:
            self._lock.release()


# The rendezvous.


class Meetings:
    """The calls that have begun at some brokers, now and at the last check."""

    def __init__(self, brokers: Sequence[QueueBroker]) -> None:
        self.brokers = [each._broker for each in brokers]
        self.made: list[RdV] = []
        self.states: dict[RdV, RdVState] = {}
        self.lines: list[list[RdV]] = []
        # Matched since the last check, and every match so far with both its ends.
        self.fresh: list[RdV] = []
        self.matches: list[tuple[tuple[RdV, Any], ...]] = []
        self.looks = 0

    def begun(self) -> list[RdV]:
        """Return every call that has been under the lock."""
        return [rdv for rdv in self.made if rdv.begun]

    def check(self) -> None:
        """Assert all invariants that hold whenever the manager's lock is free."""
        self.looks += 1
        matched = [rdv for rdv in self.begun() if rdv.state is RdVState.MATCHED]
        self.fresh = [
            rdv for rdv in matched if self.states.get(rdv) is not RdVState.MATCHED
        ]
        for invariant in MEETINGS:
            invariant(self)
        if self.fresh:
            self.matches.append(tuple((rdv, rdv.end) for rdv in self.fresh))
        self.states = {rdv: rdv.state for rdv in self.begun()}
        self.lines = self.now()

    def now(self) -> list[list[RdV]]:
        """Return the callers that wait on each port, in order."""
        return [
            list(line)
            for broker in self.brokers
            for line in broker.waiting._waiting.values()
        ]


@contextmanager
def watch_meetings(brokers: Sequence[QueueBroker]) -> Iterator[Meetings]:
    """Check the brokers of one manager for the duration of the block."""
    meetings = Meetings(brokers)
    manager = brokers[0].manager

    def noted(*arguments: Any) -> RdV:
        meetings.made.append(RdV(*arguments))
        return meetings.made[-1]

    lock = CheckedLock(manager.lock, meetings.check)
    manager.lock = lock  # type: ignore[assignment]  # acts as a lock
    with patch.object(broker_module, "RdV", noted):
        yield meetings


def one_role_waits(meetings: Meetings) -> None:
    for line in meetings.now():
        assert len({rdv.state for rdv in line}) == 1


def who_is_listed_waits(meetings: Meetings) -> None:
    listed = [rdv for line in meetings.now() for rdv in line]
    assert all(rdv.waiting and rdv.end is None for rdv in listed)
    assert all(rdv in listed for rdv in meetings.begun() if rdv.waiting)
    assert all(meetings.now()), "a port without a waiter"


def who_departs_waits(meetings: Meetings) -> None:
    for broker in meetings.brokers:
        waiting = {
            rdv
            for rdv in meetings.begun()
            if rdv.caller is broker and rdv.state is RdVState.WAITING_CONNECT
        }
        assert set(broker.departing) == waiting


def a_match_gives_both_an_end(meetings: Meetings) -> None:
    if not meetings.fresh:
        return
    accept, connect = sorted(meetings.fresh, key=lambda rdv: not rdv.accepts)
    assert accept.accepts
    assert not connect.accepts
    assert accept.end is not None
    assert connect.end is not None
    assert accept.end._connection is connect.end._connection
    assert (accept.end._side, connect.end._side) == (0, 1)


def who_came_first_is_met_first(meetings: Meetings) -> None:
    for line in meetings.lines:
        assert not any(rdv in line[1:] for rdv in meetings.fresh)


def final_states_are_final(meetings: Meetings) -> None:
    for rdv, state in meetings.states.items():
        assert state not in _FINAL or rdv.state is state


def who_withdrew_knows_why(meetings: Meetings) -> None:
    for rdv in meetings.begun():
        assert rdv.state is not RdVState.WITHDRAWN or rdv.reason is not Reason.NONE


def nobody_waits_where_it_is_closed(meetings: Meetings) -> None:
    for rdv in meetings.begun():
        assert not (rdv.waiting and (rdv.caller.closed or rdv.target.closed))


MEETINGS: tuple[Callable[[Meetings], None], ...] = (
    one_role_waits,
    who_is_listed_waits,
    who_departs_waits,
    a_match_gives_both_an_end,
    who_came_first_is_met_first,
    final_states_are_final,
    who_withdrew_knows_why,
    nobody_waits_where_it_is_closed,
)


def both_succeed_or_neither(
    meetings: Meetings, returned: Sequence[MessageQueue], *, interrupted: int = 0
) -> None:
    """In ``returned`` every end has its peer, except those of interrupted calls."""
    lost = 0
    for match in meetings.matches:
        missing = [rdv for rdv, end in match if all(end is not one for one in returned)]
        lost += bool(missing)
    assert lost <= interrupted
    assert len(returned) <= 2 * len(meetings.matches)


def who_was_interrupted_hangs_up(
    meetings: Meetings, returned: Sequence[MessageQueue]
) -> None:
    """Each matched end that no caller got was disconnected."""
    for match in meetings.matches:
        for _, end in match:
            if all(end is not one for one in returned):
                assert end._connection.closed[end._side]


# The half-disconnect.


class NotingWaitList(WaitList):
    """A wait list that records which waiters were woken since they were listed."""

    __slots__ = ("_woken",)

    def __init__(self) -> None:
        super().__init__()
        self._woken: list[Parker] = []

    def leave(self, parker: Parker) -> None:
        super().leave(parker)
        if parker in self._woken:
            self._woken.remove(parker)

    def wake_one(self) -> None:
        taken = [parker for parker in self._parkers or () if parker.locked()]
        self._woken += taken[:1]
        super().wake_one()

    def wake_all(self) -> None:
        self._woken += [parker for parker in self._parkers or () if parker.locked()]
        super().wake_all()

    def sleepers(self) -> int:
        """Return the number of listed waiters that are not woken."""
        return sum(parker not in self._woken for parker in self._parkers or ())

    def forgotten(self) -> bool:
        """Return whether there are listed waiters, and none of them was woken."""
        listed = len(self._parkers or ())
        return listed > 0 and self.sleepers() == listed


class Talk:
    """One connection between two ends, now and at the last check.

    It must be observed, which makes its ends those of the locked kind that the model
    mirrors, and numbers its messages.
    """

    def __init__(self, end: MessageQueue) -> None:
        self.connection = end._connection
        self.accepted: list[int] | None = None
        self.ranks = [0, 0]
        self.looks = 0
        for flow in self.connection.flows:
            flow.buffer.room = NotingWaitList()
            flow.buffer.arrived = NotingWaitList()
        lock = CheckedLock(self.connection.lock, self.check)
        self.connection.lock = lock  # type: ignore[assignment]  # as above

    def rank(self, side: int) -> int:
        """Return the rank of an end's status: 0, 1, 2."""
        return _DOWN.index(self.connection.status(1 if side else 0))

    def check(self) -> None:
        """Assert all invariants that hold whenever the connection's lock is free."""
        self.looks += 1
        for invariant in CONNECTION:
            invariant(self)
        self.ranks = [self.rank(0), self.rank(1)]
        if self.accepted is None and any(self.connection.closed):
            self.accepted = [flow.last_send_noted for flow in self.connection.flows]

    def waits(self) -> Iterator[NotingWaitList]:
        """Yield the four wait lists."""
        for flow in self.connection.flows:
            for waits in (flow.buffer.room, flow.buffer.arrived):
                assert isinstance(waits, NotingWaitList)
                yield waits


def counters_balance(talk: Talk) -> None:
    for flow in talk.connection.flows:
        # Reported messages are counted when stored, the others when they are removed.
        assert flow.last_send_noted == flow.received + flow.discarded + len(flow.buffer)


def a_closed_side_has_nothing_unread(talk: Talk) -> None:
    for closed, flow in zip(talk.connection.closed, talk.connection.flows, strict=True):
        assert not closed or flow.buffer.empty()


def nothing_arrives_after_a_hang_up(talk: Talk) -> None:
    now = [flow.last_send_noted for flow in talk.connection.flows]
    assert talk.accepted is None or talk.accepted == now


def only_its_own_hang_up_discards(talk: Talk) -> None:
    for closed, flow in zip(talk.connection.closed, talk.connection.flows, strict=True):
        assert closed or flow.discarded == 0


def received_in_order(talk: Talk) -> None:
    for flow in talk.connection.flows:
        numbers = [item[0] for item in flow.buffer.items_locked()]
        first = flow.received + 1
        assert numbers == list(range(first, first + len(numbers)))


def status_moves_down_only(talk: Talk) -> None:
    assert all(talk.rank(side) >= talk.ranks[side] for side in (0, 1))


def nobody_sleeps_through_a_hang_up(talk: Talk) -> None:
    if any(talk.connection.closed):
        assert all(waits.sleepers() == 0 for waits in talk.waits())


def no_waiter_is_forgotten(talk: Talk) -> None:
    if any(talk.connection.closed):
        return
    for flow in talk.connection.flows:
        room, arrived = flow.buffer.room, flow.buffer.arrived
        assert isinstance(room, NotingWaitList)
        assert isinstance(arrived, NotingWaitList)
        assert flow.buffer.full() or not room.forgotten()
        assert flow.buffer.empty() or not arrived.forgotten()


CONNECTION: tuple[Callable[[Talk], None], ...] = (
    counters_balance,
    a_closed_side_has_nothing_unread,
    nothing_arrives_after_a_hang_up,
    only_its_own_hang_up_discards,
    received_in_order,
    status_moves_down_only,
    nobody_sleeps_through_a_hang_up,
    no_waiter_is_forgotten,
)


def what_was_accepted_is_drained(end: MessageQueue) -> None:
    """Check that no accepted message is left; call it after a receive raised."""
    flow = end._connection.flows[end._side]
    assert end._connection.closed[end._side] or flow.received == flow.last_send_noted


def status_as_read_moves_down_only(read: Sequence[Status]) -> None:
    """Check statuses that one thread read one after the other without the lock."""
    ranks = [_DOWN.index(status) for status in read]
    assert ranks == sorted(ranks)
