"""`FastMessageQueue`: the kind of end that takes no lock unless it has to wait.

An operation goes through a gate of a `Lane`. If the gate yields nothing (full, empty,
shut, not created yet), the operation continues as in the locked kind. So the table, the
counters and the wait exist only once. The first operation of an end finds `UNMADE`, the
later ones the lanes of its connection. A disconnect shuts both lanes before it raises
its flag; from then on every operation takes the lock. A call that looks before it
takes, `receive_into` or `fileno`, needs the lock too, and shuts the lanes for good.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

from queuebroker import _sync
from queuebroker.arguments import deadline_after, positive, remaining_s, snapshot
from queuebroker.errors import (
    DisconnectedQueueError,
    ReceiveTimeoutError,
    SendTimeoutError,
)
from queuebroker.lane import UNMADE, Lane
from queuebroker.locked_queue import LockedMessageQueue
from queuebroker.parking import check_may_wait, taken_lock
from queuebroker.status import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from queuebroker.connection import Side
    from queuebroker.lane_connection import LaneConnection

__all__ = ["FastMessageQueue"]

_ZERO: Final = 0


class FastMessageQueue(LockedMessageQueue):
    """A `MessageQueue` that takes the lock only if it has to wait."""

    __slots__ = ("_inward", "_lanes", "_outward", "_plain")

    def __init__(self, connection: LaneConnection, side: Side) -> None:
        super().__init__(connection, side)
        self._lanes: Final = connection
        self._inward = self._outward = UNMADE
        # The class of data that needs no copy; with a limit, a class that no data has.
        self._plain: Final[type] = bytes if connection.limit is None else Lane

    # The parameters that are keyword-only in `MessageQueue` are not so here: a call of
    # a function with keyword-only parameters takes 12 to 22 ns more.

    def send(
        self,
        data: Buffer,
        offset: int = 0,
        length: int | None = None,
        timeout: float | None = None,
    ) -> None:
        if (
            type(data) is not self._plain
            or timeout is not None
            or length is not None
            or offset is not _ZERO
        ):
            data = snapshot(data, offset, length, self._connection.limit)
            deadline_after(timeout)
        lane = self._outward
        try:
            for _ in lane.free:
                lane.messages.append(data)  # type: ignore[arg-type]  # bytes by now
                if lane.sleepers.present:
                    self._lanes.wake_receiver(lane)
                return
        except IndexError:
            pass  # full
        except BaseException:
            self._lanes.recover()
            raise
        super().send(data, timeout=timeout)

    def receive(self, timeout: float | None = None) -> bytes:
        deadline = None if timeout is None else deadline_after(timeout)
        lane = self._inward
        try:
            while True:
                try:
                    for message in lane.incoming:
                        lane.slots.append(None)
                        if lane.room.asleep:
                            self._lanes.wake_sender(lane)
                        return message  # type: ignore[no-any-return]  # unobserved
                    if lane.shut:
                        break
                except IndexError:
                    pass  # nothing is here
                if timeout == 0 or not self._slept(lane, deadline):
                    break
                lane = self._inward  # a statement before the jump: see `_sync.Lock`
            # Still in the block: this may have consumed a wake-up, and its message is
            # here.
            return super().receive(timeout=remaining_s(deadline))
        except ReceiveTimeoutError:
            raise self._nothing_came(timeout) from None
        except DisconnectedQueueError:
            raise
        except BaseException:
            self._lanes.recover()
            raise

    def _slept(self, lane: Lane, deadline: float | None) -> bool:
        """Sleep until a message may be here; return False to use the lock instead."""
        if _sync.glance(lane.ready):
            return not lane.shut
        sleepers = lane.sleepers
        sleeping = sleepers.sleeping
        if sleeping is None:
            sleeping = self._lanes.critical(partial(self._lanes.sleeping_locked, lane))
        check_may_wait(self._lanes.lock)
        parker = taken_lock()
        sleeping.append(parker)
        # Check again: a sender that came before the append could not see this parker.
        if lane.messages or lane.shut:
            sleepers.leave(parker)
        elif not _sync.park(parker, lane.ready, deadline):
            sleepers.leave(parker)
            return False
        elif sleeping:
            sleepers.leave(parker)  # if it was not woken (QB-CONC-6)
        if len(lane.messages) > 1 and sleepers.present:
            self._lanes.wake_receiver(lane)  # one call has sent several
        return not lane.shut

    # Several messages at a time.

    def _send_from(
        self,
        sendable: list[bytes],
        sent: int,
        timeout: float | None,
        deadline: float | None,
    ) -> int:
        lane = self._outward
        while sent < len(sendable) and not lane.shut:
            begin, sent = sent, self._lanes.push_many(lane, sendable, sent)
            if sent > begin:
                continue
            try:  # one by the locked kind, which waits or raises
                sent += super()._send_from([sendable[sent]], 0, timeout, deadline)
            except (DisconnectedQueueError, SendTimeoutError):
                if not sent:
                    raise
                return sent
        return super()._send_from(sendable, sent, timeout, deadline)

    def receive_many(
        self, limit: int | None = None, *, timeout: float | None = None
    ) -> list[bytes]:
        lane = self._inward
        if lane.shut:
            return super().receive_many(limit, timeout=timeout)
        most = self.capacity if limit is None else positive("limit", limit)
        taken = [self.receive(timeout=timeout), *self._lanes.pull_many(lane, most - 1)]
        if self._inward.shut and len(taken) < most:  # shut since this call began
            with contextlib.suppress(ReceiveTimeoutError, DisconnectedQueueError):
                taken += super().receive_many(most - len(taken), timeout=0)
        return taken

    # Calls that look before they take: the two must be one step.

    def receive_into(self, buffer: Buffer, *, timeout: float | None = None) -> int:
        take = self._taking_into(buffer)
        deadline_after(timeout)
        self._lanes.critical(self._lanes.shut_locked)
        return self._receive(take, timeout)

    def fileno(self) -> int:
        self._lanes.critical(self._lanes.shut_locked)
        return super().fileno()

    # Wait for operations in progress before WAIT is returned (QB-TIME-8).

    def _act(
        self, attempt: Callable[[int], Verdict], timeout: float | None, *, sends: bool
    ) -> Verdict:
        if self._inward is UNMADE:
            # Use the lanes from now on; this creates them if they are missing.
            lanes, side = self._lanes.lanes, self._side
            self._outward, self._inward = lanes[1 - side], lanes[side]
        verdict = super()._act(attempt, timeout, sends=sends)
        if verdict is not Verdict.WAIT or self._lanes.settled(self._side, sends=sends):
            return verdict
        return self._lanes.act_when_settled(self._side, attempt, sends=sends)
