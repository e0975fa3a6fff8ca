"""`LaneConnection`: a connection whose two buffers are lanes.

What the two ends of the fast kind share, and what they do under its lock where they
need one after all: to shut the lanes, and to look for those who acted without it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from queuebroker import _sync
from queuebroker.connection import Flow
from queuebroker.lane import Lane
from queuebroker.parking import PENDING, Pending, WaitList, WaitLists, wait_for
from queuebroker.queue_connection import QueueConnection
from queuebroker.sleepers import LOOK
from queuebroker.status import Status, Verdict

if TYPE_CHECKING:
    import _thread
    from collections import deque
    from collections.abc import Callable

    from queuebroker.connection import Side
    from queuebroker.observer import Reason
    from queuebroker.parking import Parker
    from queuebroker.queue_connection import Messages

    _Parts = tuple[tuple[Lane, Lane], tuple[Flow[Messages], Flow[Messages]]]

__all__ = ["LaneConnection"]


class LaneConnection(QueueConnection):
    """A connection of lanes; ``lanes[s]`` is what side ``s`` receives.

    Nobody observes it: an observer is told under the lock.

    Lanes and flows are made when somebody first asks for them; who only meets and parts
    does not. Until then nobody has sent or waited, so that hanging up has nothing to
    shut, discard or wake. Who is first to sleep in a lane looks under the lock whether
    that has happened.
    """

    __slots__ = ("_capacity", "_made")

    def __init__(
        self,
        lock: _thread.RLock,
        capacity: int,
        names: tuple[str, str],
        port: int,
        *,
        limit: int | None,
        strict: tuple[bool, bool],
    ) -> None:
        super().__init__(lock, None, names, port, limit=limit, strict=strict)
        self._capacity: Final = capacity
        self._made: Final[list[_Parts]] = []

    @property
    def lanes(self) -> tuple[Lane, Lane]:
        """What each side receives; the ends act on it without the lock."""
        return self._parts()[0]

    @property
    def flows(self) -> tuple[Flow[Messages], Flow[Messages]]:  # type: ignore[override]
        """The same with its books; read-only here."""
        return self._parts()[1]

    def _parts(self) -> _Parts:
        if not self._made:
            one, other = (Lane(self._capacity, lock=self.lock) for _ in range(2))
            # One call in C: of several who came here the first has made them.
            self._made.append(((one, other), (Flow(one), Flow(other))))
        return self._made[0]

    # Under the lock.

    def shut_locked(self) -> None:
        """Shut both lanes for good."""
        for lane in self.lanes:
            if not lane.shut:
                lane.shut_locked()

    def close_locked(
        self, side: Side, error: BaseException | None, reason: Reason
    ) -> None:
        # Before the flag: who sees the flag, and nothing on its way, relies on it that
        # nothing can set out any more (QB-DISC-1).
        if self._made and not self.hung_up[side]:
            self.shut_locked()
        super().close_locked(side, error, reason)

    def flag_closed_locked(self, side: Side, error: BaseException | None) -> None:
        while True:  # with the check after the jump, where a signal handler may run
            lanes = self.lanes if self._made else ()
            # No call from here on: a signal handler may make lanes, and send.
            if self.closed[side]:
                return
            if not self._made:
                self.errors[side] = error
                self.closed[side] = True
                return
            if lanes:
                one, other = lanes
                if one.shut and other.shut:
                    one.ended = other.ended = True
                    self.errors[side] = error
                    self.closed[side] = True
                    return
            # Until here.
            self.shut_locked()

    def empty_locked(self, side: Side, reason: Reason) -> None:
        if self._made:
            super().empty_locked(side, reason)

    def sleeping_locked(self, lane: Lane) -> deque[Parker]:
        """Return where those who wait for a message sleep, made if it was not."""
        if True in self.closed:
            self.shut_locked()  # there was no lane to shut when it was hung up
        return lane.sleepers.made_locked()

    def look_locked(self) -> None:
        """Do what somebody who acted without the lock found to be done."""
        for lane, closed in zip(self.lanes, self.closed, strict=True):
            if closed:
                lane.discard_locked()  # it was on its way when its receiver hung up
            if lane.settlers is not None:
                lane.settlers.wake_all()
            lane.wake_locked()
        if True in self.closed:
            self.rouse_locked()
        self.refresh_locked(0)
        self.refresh_locked(1)

    # For an end that acted, or would act, without the lock.

    def push_many(self, lane: Lane, messages: list[bytes], begin: int) -> int:
        """Store messages from ``begin`` on, as many as fit; return where it stopped."""
        try:
            stored = lane.push_many(messages, begin)
            if lane.sleepers.present:
                self.wake_receiver(lane)  # who wakes the next
        except BaseException:
            self.recover()
            raise
        return stored

    def pull_many(self, lane: Lane, limit: int) -> list[bytes]:
        """Remove the oldest messages that are here now, ``limit`` at most."""
        try:
            pulled = lane.pull_many(limit)
            if lane.room.asleep:
                self.wake_sender(lane)  # who wakes the next
        except BaseException:
            self.recover()
            raise
        return pulled

    def wake_receiver(self, lane: Lane) -> None:
        """Wake one who waits for what was just sent, or do what else is to be done."""
        if lane.sleepers.present is LOOK:
            self.critical(self.look_locked)
        else:
            lane.sleepers.wake_one()

    def wake_sender(self, lane: Lane) -> None:
        """Wake one who waits for the room just made, or do what else is to be done."""
        with self.lock:
            if lane.shut or lane.settlers is not None:
                self.look_locked()
            else:
                lane.room.wake_one()
        if self.deferred:
            self.settle()

    def settled(self, side: Side, *, sends: bool) -> bool:
        """Whether what looks full, or empty, to a side is so for good (QB-TIME-8)."""
        if sends:
            return self.lanes[1 - side].settled()
        on_its_way = self.status(side) is Status.HALF_DISCONNECTED
        return not self.lanes[side].empty() or not on_its_way

    def act_when_settled(
        self, side: Side, attempt: Callable[[int], Verdict], *, sends: bool
    ) -> Verdict:
        """Attempt until it need not wait, or its WAIT is the truth.

        That is soon: it waits for those who have taken a slot and not stored, or
        fetched and not given back, which is a matter of one call into C.
        """

        lane = self.lanes[1 - side if sends else side]
        settled = partial(self.settled, side, sends=sends)

        def look() -> Verdict | Pending:
            verdict = attempt(0)
            lane.wake_locked()  # perhaps we were woken in somebody's place
            return verdict if verdict is not Verdict.WAIT or settled() else PENDING

        def watch_locked() -> None:
            if lane.settlers is None:
                lane.settlers = WaitList()
            lane.look_from_now_on_locked()

        if _sync.owns(self.lock):
            # No thread can wake a signal handler: the waking thread would wait for the
            # lock that the handler's thread holds. Operations under way need no lock.
            while (verdict := attempt(0)) is Verdict.WAIT and not settled():
                _sync.glance(settled)
            return verdict
        self.critical(watch_locked)
        assert lane.settlers is not None
        lists = WaitLists(lane.room, lane.settlers)
        outcome = wait_for(self, lists, look, settled, None)
        assert outcome is not PENDING  # there is no deadline
        return outcome

    def recover(self) -> None:
        """Wake everybody, after an exception in what needs no lock."""
        self.critical(self.recover_locked)
