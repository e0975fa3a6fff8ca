"""`LockFreeConnection`: a connection whose two buffers are lock-free.

It holds the state shared by the two ends of the fast kind, and their operations under
the lock. These shut the buffers, or follow an operation that ran without the lock.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from queuebroker import _sync
from queuebroker.channel.queue_connection import UnobservedConnection
from queuebroker.channel.status import Status, Verdict
from queuebroker.lockfree.lock_free_buffer import LockFreeBuffer
from queuebroker.lockfree.sleepers import LOOK
from queuebroker.waiting.parking import PENDING, Pending, WaitList, WaitLists, wait_for

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from queuebroker.channel.side import Side
    from queuebroker.observer import Reason
    from queuebroker.waiting.parking import Parker

__all__ = ["LockFreeConnection"]


class LockFreeConnection(UnobservedConnection):
    """A connection of two lock-free buffers; side ``s`` receives from ``buffers[s]``.

    It has no observer, because an observer is called under the lock.

    If an end is hung up before there are buffers, there is nothing to shut. The first
    receiver to sleep in a buffer checks under the lock for such a disconnect.
    """

    __slots__ = ()

    def _new_buffer(self) -> LockFreeBuffer:
        return LockFreeBuffer(self._capacity, lock=self.lock)

    @property
    def buffers(self) -> tuple[LockFreeBuffer, LockFreeBuffer]:
        """The buffer of each side's incoming messages; used without the lock."""
        one, other = self.flows
        return cast("LockFreeBuffer", one.buffer), cast("LockFreeBuffer", other.buffer)

    # Under the lock.

    def shut_locked(self) -> None:
        """Shut both buffers for good."""
        for buffer in self.buffers:
            if not buffer.shut:
                buffer.shut_locked()

    def close_locked(
        self, side: Side, error: BaseException | None, reason: Reason
    ) -> None:
        # Before the flag: a thread that sees the flag, and nothing in transit, relies
        # on the fact that no further operation can start (QB-DISC-1).
        if self._made and not self.hung_up[side]:
            self.shut_locked()
        super().close_locked(side, error, reason)

    def flag_closed_locked(self, side: Side, error: BaseException | None) -> None:
        while True:  # check after the jump, where a signal handler may run
            buffers = self.buffers if self._made else ()
            # No call from here on: a signal handler may make buffers, and send.
            if self.closed[side]:
                return
            if not self._made:
                self.errors[side] = error
                self.closed[side] = True
                return
            if buffers:
                one, other = buffers
                if one.shut and other.shut:
                    one.ended = other.ended = True
                    self.errors[side] = error
                    self.closed[side] = True
                    return
            # Until here.
            self.shut_locked()

    def sleeping_locked(self, buffer: LockFreeBuffer) -> deque[Parker]:
        """Return the deque of sleeping receivers, created if missing."""
        if True in self.closed:
            self.shut_locked()  # there was no buffer to shut when it was hung up
        return buffer.sleepers.ensure_locked()

    def look_locked(self) -> None:
        """Complete the work that an operation without the lock found to be due."""
        for buffer, closed in zip(self.buffers, self.closed, strict=True):
            if closed:
                buffer.discard_locked()  # in transit when its receiver disconnected
            if buffer.settlers is not None:
                buffer.settlers.wake_all()
            buffer.wake_locked()
        if True in self.closed:
            self.wake_all_locked()
        self.refresh_locked(0)
        self.refresh_locked(1)

    # For an end that acted, or is about to act, without the lock.

    def push_many(
        self, buffer: LockFreeBuffer, messages: list[bytes], begin: int
    ) -> int:
        """Store as many messages from ``begin`` on as fit; return where it stopped."""
        try:
            stored = buffer.push_many(messages, begin)
            if buffer.sleepers.present:
                self.wake_receiver(buffer)  # that one wakes the next
        except BaseException:
            self.recover()
            raise
        return stored

    def pull_many(self, buffer: LockFreeBuffer, limit: int) -> list[bytes]:
        """Remove the oldest messages present now, ``limit`` at most."""
        try:
            pulled = buffer.pull_many(limit)
            if buffer.room.asleep:
                self.wake_sender(buffer)  # that one wakes the next
        except BaseException:
            self.recover()
            raise
        return pulled

    def wake_receiver(self, buffer: LockFreeBuffer) -> None:
        """Wake a receiver for a message just sent, or run `look_locked` instead."""
        if buffer.sleepers.present is LOOK:
            self.critical(self.look_locked)
        else:
            buffer.sleepers.wake_one()

    def wake_sender(self, buffer: LockFreeBuffer) -> None:
        """Wake a sender for the room just made, or run `look_locked` instead."""
        with self.lock:
            if buffer.shut or buffer.settlers is not None:
                self.look_locked()
            else:
                buffer.room.wake_one()
        if self.deferred:
            self.settle()

    def settled(self, side: Side, *, sends: bool) -> bool:
        """Return True if a buffer that looks full or empty is so (QB-TIME-8)."""
        if sends:
            return self.buffers[1 - side].settled()
        on_its_way = self.status(side) is Status.HALF_DISCONNECTED
        return not self.buffers[side].empty() or not on_its_way

    def act_when_settled(
        self, side: Side, attempt: Callable[[int], Verdict], *, sends: bool
    ) -> Verdict:
        """Attempt until the verdict is not WAIT, or WAIT is final.

        The wait is short. It ends when other threads have stored into the slots that
        they took, or returned the slots of fetched messages: one call into C for each.
        """

        buffer = self.buffers[1 - side if sends else side]
        settled = partial(self.settled, side, sends=sends)

        def look() -> Verdict | Pending:
            verdict = attempt(0)
            buffer.wake_locked()  # perhaps this was woken in place of another
            return verdict if verdict is not Verdict.WAIT or settled() else PENDING

        def watch_locked() -> None:
            if buffer.settlers is None:
                buffer.settlers = WaitList()
            buffer.look_from_now_on_locked()

        if _sync.owns(self.lock):
            # No thread can wake a signal handler: the waking thread would wait for the
            # lock that the handler's thread holds. Operations in progress need no lock.
            while (verdict := attempt(0)) is Verdict.WAIT and not settled():
                _sync.spin(settled)
            return verdict
        self.critical(watch_locked)
        assert buffer.settlers is not None
        lists = WaitLists(buffer.room, buffer.settlers)
        outcome = wait_for(self, lists, look, settled, None)
        assert outcome is not PENDING  # there is no deadline
        return outcome

    def recover(self) -> None:
        """Wake every waiter, after an exception in an operation without the lock."""
        self.critical(self.recover_locked)
