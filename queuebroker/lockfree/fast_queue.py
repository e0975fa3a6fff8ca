"""`FastMessageQueue`: the kind of end that takes no lock unless it has to wait.

An operation goes through a gate of a `LockFreeBuffer`. If the gate yields nothing
(full, empty, shut, not created yet), the operation continues as in the locked kind. So
the table, the counters and the wait exist only once. The first operation of an end
finds `UNMADE`, the later ones the buffers of its connection. A disconnect shuts both
buffers before it raises its flag; from then on every operation takes the lock. A call
that checks before it takes, `receive_into` or `fileno`, needs the lock too, and shuts
the buffers for good.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

from queuebroker import _sync
from queuebroker.arguments import deadline_after, positive, remaining_s, snapshot
from queuebroker.channel.locked_queue import LockedMessageQueue
from queuebroker.channel.status import Verdict
from queuebroker.errors import (
    DisconnectedQueueError,
    ReceiveTimeoutError,
    SendTimeoutError,
)
from queuebroker.lockfree.lock_free_buffer import UNMADE, LockFreeBuffer
from queuebroker.waiting.parking import check_may_wait, taken_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from queuebroker.channel.side import Side
    from queuebroker.lockfree.lock_free_connection import LockFreeConnection

__all__ = ["FastMessageQueue"]

_ZERO: Final = 0


class FastMessageQueue(LockedMessageQueue):
    """A `MessageQueue` that takes the lock only if it has to wait."""

    __slots__ = ("_inward", "_lock_free", "_outward", "_plain")

    def __init__(self, connection: LockFreeConnection, side: Side) -> None:
        super().__init__(connection, side)
        self._lock_free: Final = connection
        self._inward = self._outward = UNMADE
        # The class of data that needs no copy. With a limit, a class that no data has:
        # then `snapshot` checks every message.
        self._plain: Final[type] = bytes if connection.limit is None else LockFreeBuffer

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
        buffer = self._outward
        try:
            # A `for` instead of `next`, because its start is no call: no interrupt can
            # separate taking the slot from using it (QB-ERR-9).
            for _ in buffer.free:
                buffer.messages.append(data)  # type: ignore[arg-type]  # bytes by now
                if buffer.sleepers.present:
                    self._lock_free.wake_receiver(buffer)
                return
        except IndexError:
            pass  # full
        except BaseException:
            self._lock_free.recover()
            raise
        super().send(data, timeout=timeout)

    def receive(self, timeout: float | None = None) -> bytes:
        deadline = None if timeout is None else deadline_after(timeout)
        buffer = self._inward
        try:
            while True:
                try:
                    for message in buffer.incoming:
                        buffer.slots.append(None)
                        if buffer.room.asleep:
                            self._lock_free.wake_sender(buffer)
                        return message  # type: ignore[no-any-return]  # unobserved
                    if buffer.shut:
                        break
                except IndexError:
                    pass  # nothing is here
                if timeout == 0 or not self._sleep(buffer, deadline):
                    break
                buffer = self._inward  # a statement before the jump: see `_sync.Lock`
            # Inside the `try`: this call may have consumed the wake-up for a message
            # that is still here. After an interrupt, `recover` wakes the others.
            return super().receive(timeout=remaining_s(deadline))
        except ReceiveTimeoutError:
            raise self._timeout_error(timeout) from None
        except DisconnectedQueueError:
            raise
        except BaseException:
            self._lock_free.recover()
            raise

    def _sleep(self, buffer: LockFreeBuffer, deadline: float | None) -> bool:
        """Sleep until a message may be here; return False to use the lock instead."""
        if _sync.spin(buffer.ready):
            return not buffer.shut
        sleepers = buffer.sleepers
        sleeping = sleepers.sleeping
        if sleeping is None:
            sleeping = self._lock_free.critical(
                partial(self._lock_free.sleeping_locked, buffer)
            )
        check_may_wait(self._lock_free.lock)
        parker = taken_lock()
        sleeping.append(parker)
        # Check again: a sender that came before the append could not see this parker.
        if buffer.messages or buffer.shut:
            sleepers.leave(parker)
        elif not _sync.park(parker, buffer.ready, deadline):
            sleepers.leave(parker)
            return False
        elif sleeping:
            sleepers.leave(parker)  # if it was not woken (QB-CONC-6)
        if len(buffer.messages) > 1 and sleepers.present:
            self._lock_free.wake_receiver(buffer)  # a bulk send wakes only one receiver
        return not buffer.shut

    # Several messages at a time.

    def _send_from(
        self,
        sendable: list[bytes],
        sent: int,
        timeout: float | None,
        deadline: float | None,
    ) -> int:
        buffer = self._outward
        while sent < len(sendable) and not buffer.shut:
            begin, sent = sent, self._lock_free.push_many(buffer, sendable, sent)
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
        buffer = self._inward
        if buffer.shut:
            return super().receive_many(limit, timeout=timeout)
        most = self.capacity if limit is None else positive("limit", limit)
        taken = [
            self.receive(timeout=timeout),
            *self._lock_free.pull_many(buffer, most - 1),
        ]
        if self._inward.shut and len(taken) < most:  # shut since this call began
            with contextlib.suppress(ReceiveTimeoutError, DisconnectedQueueError):
                taken += super().receive_many(most - len(taken), timeout=0)
        return taken

    # Calls that check before they take: only the lock makes the two one step.

    def receive_into(self, buffer: Buffer, *, timeout: float | None = None) -> int:
        take = self._take_into(buffer)
        deadline_after(timeout)
        self._lock_free.critical(self._lock_free.shut_locked)
        return self._receive(take, timeout)

    def fileno(self) -> int:
        self._lock_free.critical(self._lock_free.shut_locked)
        return super().fileno()

    # Wait for operations in progress before WAIT is returned (QB-TIME-8).

    def _act(
        self, attempt: Callable[[int], Verdict], timeout: float | None, *, sends: bool
    ) -> Verdict:
        if self._inward is UNMADE:
            # Use the buffers from now on; this creates them if they are missing.
            buffers, side = self._lock_free.buffers, self._side
            self._outward, self._inward = buffers[1 - side], buffers[side]
        verdict = super()._act(attempt, timeout, sends=sends)
        if verdict is not Verdict.WAIT or self._lock_free.settled(
            self._side, sends=sends
        ):
            return verdict
        return self._lock_free.act_when_settled(self._side, attempt, sends=sends)
