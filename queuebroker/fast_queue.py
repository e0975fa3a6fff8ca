"""`FastMessageQueue`: the kind of end that takes no lock where nobody waits.

An operation goes through a gate of a `Lane`. Where the gate lets nobody in (full,
empty, shut) it does what the locked kind does: the table, the books, the waiting are
written once. Hanging up shuts both lanes before it raises its flag, and from then on
there is only the lock. A call that looks before it takes needs the lock, too, and
shuts them for good: `receive_into`, `fileno`.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Final

from queuebroker import _sync
from queuebroker.arguments import deadline_after, positive, snapshot
from queuebroker.connection import Flow
from queuebroker.errors import DisconnectedQueueError, ReceiveTimeoutError
from queuebroker.lane import Lane
from queuebroker.locked_queue import LockedMessageQueue
from queuebroker.parking import PENDING, Pending, WaitList, WaitLists, wait_for
from queuebroker.queue_connection import Messages, QueueConnection
from queuebroker.sleepers import LOOK
from queuebroker.status import Status, Verdict

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from typing_extensions import Buffer

    from queuebroker.connection import Side
    from queuebroker.observer import Reason

__all__ = ["FastMessageQueue", "LaneConnection"]

_ZERO: Final = 0


class LaneConnection(QueueConnection):
    """A connection whose two buffers are lanes; nobody observes it."""

    __slots__ = ("lanes",)

    def __init__(
        self,
        lock: _thread.LockType,
        lanes: tuple[Lane, Lane],
        names: tuple[str, str],
        port: int,
        *,
        limit: int | None,
        strict: tuple[bool, bool],
    ) -> None:
        buffers: tuple[Messages, Messages] = lanes
        flows = (Flow(buffers[0]), Flow(buffers[1]))
        super().__init__(lock, flows, names, port, limit=limit, strict=strict)
        self.lanes: Final = lanes

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
        if not self.hung_up[side]:
            self.shut_locked()
        super().close_locked(side, error, reason)

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


class FastMessageQueue(LockedMessageQueue):
    """A `MessageQueue` that takes the lock where it has to wait, and else none."""

    __slots__ = ("_inward", "_lanes", "_outward", "_plain")

    def __init__(self, connection: LaneConnection, side: Side) -> None:
        super().__init__(connection, side)
        self._lanes: Final = connection
        self._inward: Final = connection.lanes[side]
        self._outward: Final = connection.lanes[1 - side]
        # The class of data that is a message as it is; with a limit, nobody's.
        self._plain: Final[type] = bytes if connection.limit is None else Lane

    def send(
        self,
        data: Buffer,
        offset: int = 0,
        length: int | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        if (
            data.__class__ is not self._plain
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
                    self._call(lane)
                return
        except IndexError:
            pass  # full
        except BaseException:
            self._recover()
            raise
        super().send(data, timeout=timeout)

    def receive(self, *, timeout: float | None = None) -> bytes:
        deadline = None if timeout is None else deadline_after(timeout)
        lane = self._inward
        if lane.messages:
            try:
                for message in lane.incoming:
                    for number in lane.numbers:
                        lane.slots.append(number)
                        if lane.room.asleep:
                            self._look(lane, lane.room)
                        return message  # type: ignore[no-any-return]  # unobserved
            except IndexError:
                pass  # somebody was faster
            except BaseException:
                self._recover()
                raise
        if timeout == 0:
            return super().receive(timeout=0)
        return self._receive_later(timeout, deadline)

    def _receive_later(self, timeout: float | None, deadline: float | None) -> bytes:
        """Receive what is not here yet, with as little as can be around the sleep."""
        lane = self._inward
        try:
            sleepers = lane.sleepers
            sleeping = sleepers.sleeping
            if sleeping is None:
                sleeping = sleepers.made()
            while not lane.shut:
                parker = _sync.Lock()
                parker.acquire()
                sleeping.append(parker)
                # Looked at again: who came before that could not see us.
                if lane.messages or lane.shut:
                    sleepers.get_up(parker)
                elif not _sync.park(parker, lane.ready, deadline):
                    sleepers.get_up(parker)
                    break
                elif sleeping:
                    sleepers.get_up(parker)  # if nobody has woken it (QB-CONC-6)
                try:
                    for message in lane.incoming:
                        for number in lane.numbers:
                            lane.slots.append(number)
                            if lane.room.asleep:
                                self._look(lane, lane.room)
                            if lane.messages and sleepers.present:
                                self._call(lane)  # perhaps that was for another
                            return message  # type: ignore[no-any-return]  # unobserved
                except IndexError:
                    continue  # somebody was faster
        except BaseException:
            self._recover()
            raise
        try:
            rest_s = None if deadline is None else deadline - _sync.monotonic()
            return super().receive(timeout=rest_s and max(0.0, rest_s))
        except ReceiveTimeoutError:
            raise self._nothing_came(timeout) from None

    def _call(self, lane: Lane) -> None:
        """Wake a receiver, or do what else is to be done."""
        if lane.sleepers.present is LOOK:
            self._connection.critical(self._lanes.look_locked)
            return
        try:
            for parker in lane.sleepers.waking:
                parker.release()
                return
        except IndexError:
            return  # nobody, or somebody else was faster

    def _send_from(
        self,
        sendable: list[bytes],
        sent: int,
        timeout: float | None,
        deadline: float | None,
    ) -> int:
        while (begin := self._send_run(sendable, sent)) < len(sendable):
            # One as the locked kind does it: it waits, or says why it cannot.
            sent = super()._send_from(sendable[: begin + 1], begin, timeout, deadline)
            if sent == begin:
                break
        return begin

    def _send_run(self, sendable: list[bytes], sent: int) -> int:
        """Send from there on while the lane lets; return how many were sent."""
        lane = self._outward
        try:
            try:
                for message in itertools.islice(sendable, sent, None):
                    for _ in lane.free:
                        lane.messages.append(message)
                        sent += 1
                        break
            except IndexError:
                pass  # full
            if lane.sleepers.present:
                self._call(lane)
        except BaseException:
            self._recover()
            raise
        return sent

    def receive_many(
        self, limit: int | None = None, *, timeout: float | None = None
    ) -> list[bytes]:
        lane = self._inward
        if lane.shut:
            return super().receive_many(limit, timeout=timeout)
        most = self.capacity if limit is None else positive("limit", limit)
        taken = [self.receive(timeout=timeout)]
        try:
            try:
                for _ in range(min(most - 1, len(lane))):
                    for message in lane.incoming:
                        for number in lane.numbers:
                            lane.slots.append(number)
                            break
                        taken.append(message)
                        break
            except IndexError:
                pass  # somebody was faster
            if lane.room.asleep:
                self._look(lane, lane.room)
        except BaseException:
            self._recover()
            raise
        if self._inward.shut and len(taken) < most:  # since we began
            with contextlib.suppress(ReceiveTimeoutError, DisconnectedQueueError):
                taken += super().receive_many(most - len(taken), timeout=0)
        return taken

    def receive_into(self, buffer: Buffer, *, timeout: float | None = None) -> int:
        # To look at the next message and to take it must be one step.
        self._connection.critical(self._lanes.shut_locked)
        return super().receive_into(buffer, timeout=timeout)

    def fileno(self) -> int:
        self._connection.critical(self._lanes.shut_locked)
        return super().fileno()

    def _look(self, lane: Lane, waiters: WaitList) -> None:
        """Wake one who waits for what was just done, or do what else is to be done."""
        connection = self._lanes
        with connection.lock:
            if lane.shut or lane.settlers is not None:
                connection.look_locked()
            else:
                waiters.wake_one()
        if connection.deferred:
            connection.settle()

    def _recover(self) -> None:
        self._connection.critical(self._connection.recover_locked)

    # What looks full or empty is settled with those under way (QB-TIME-8).

    def _act(
        self, attempt: Callable[[int], Verdict], timeout: float | None, *, sends: bool
    ) -> Verdict:
        verdict = super()._act(attempt, timeout, sends=sends)
        if verdict is not Verdict.WAIT or self._settled(sends=sends):
            return verdict
        lane = self._outward if sends else self._inward

        def look() -> Verdict | Pending:
            verdict = attempt(0)
            lane.wake_locked()  # perhaps we were woken in somebody's place
            if verdict is not Verdict.WAIT or self._settled(sends=sends):
                return verdict
            return PENDING

        def ready() -> bool:
            return self._settled(sends=sends)

        with self._connection.lock:
            if lane.settlers is None:
                lane.settlers = WaitList()
            lane.look_from_now_on_locked()
        lists = WaitLists(lane.room, lane.settlers)
        settled = wait_for(self._connection, lists, look, ready, None)
        assert settled is not PENDING  # there is no deadline
        return settled

    def _settled(self, *, sends: bool) -> bool:
        """Whether a WAIT would be the truth."""
        if sends:
            return self._outward.settled()
        return not self._inward.empty() or self.status is not Status.HALF_DISCONNECTED
