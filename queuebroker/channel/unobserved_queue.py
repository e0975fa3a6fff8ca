"""`UnobservedMessageQueue`: an end whose ordinary send or receive is one short section.

It serves interpreters without a global lock, where one call into C is no step that
other threads see as a whole, so that the lock-free kind cannot work. The lock of the
connection makes the step. While both ends are open and there is room, or a message, the
step is written out here. Everything else continues in the locked kind: full and empty
buffers, disconnects, descriptors. So the tables and the waits exist only once.

A message may be stored or taken only where no call separates the change from the check
that permits it: see `CircularBufferQueue`.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from queuebroker import _sync
from queuebroker.arguments import deadline_after, positive, snapshot
from queuebroker.channel.locked_queue import LockedMessageQueue
from queuebroker.channel.side import Side, other_side
from queuebroker.channel.status import Verdict
from queuebroker.errors import SendTimeoutError

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from typing_extensions import Buffer

    from queuebroker.channel.queue_connection import (
        Message,
        Messages,
        UnobservedConnection,
    )
    from queuebroker.channel.receive_attempt import Take
    from queuebroker.waiting.parking import WaitList

__all__ = ["UnobservedMessageQueue"]

_ZERO: Final = 0


class _Unmade:
    """The buffer of an end that has none yet: neither room nor a message."""

    _stored = _pulled = capacity = 0
    ended = True


_UNMADE: Final = cast("Messages", _Unmade())
_NO_MESSAGES: Final = cast("deque[Message]", ())


class UnobservedMessageQueue(LockedMessageQueue):
    """A `MessageQueue` under one lock, for a connection without an observer.

    Before a caller sleeps, it spins without the lock: the peer runs on another
    processor at the same time, and answers sooner than a sleeper wakes.
    """

    __slots__ = (
        "_arrived",
        "_deferred",
        "_free",
        "_has_message",
        "_incoming",
        "_inward",
        "_lock",
        "_outgoing",
        "_outward",
        "_plain",
    )

    def __init__(self, connection: UnobservedConnection, side: Side) -> None:
        super().__init__(connection, side)
        # Used by every call: a chain of attributes costs more without the global lock,
        # since each object on it is shared, and counts its references in memory that
        # both processors change.
        self._lock: Final = connection.lock
        self._deferred: Final = connection.deferred
        # As in `FastMessageQueue`: the class of data that needs no copy.
        self._plain: Final[type] = bytes if connection.limit is None else type(self)
        # The first operation makes the buffers, see `_begin`.
        self._outward: Messages = _UNMADE
        self._inward: Messages = _UNMADE
        self._incoming: deque[Message] = _NO_MESSAGES
        self._outgoing: deque[Message]
        self._free: WaitList
        self._arrived: WaitList
        self._has_message: Callable[[], bool]

    def _begin(self) -> None:
        self._connection.critical(self._begin_locked)

    def _begin_locked(self) -> None:
        """Use the buffers of the connection from now on."""
        flows = cast("UnobservedConnection", self._connection).begin_locked()
        inward, outward = flows[self._side].buffer, flows[1 - self._side].buffer
        self._outgoing = outward._messages
        self._arrived = outward.arrived
        self._free = inward.room
        # In C, for a spin; at its end the table decides about a disconnect, too.
        self._has_message = partial(bool, inward._messages)
        # Last: another thread may use this end already.
        self._outward, self._inward = outward, inward
        self._incoming = inward._messages

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
            with self._lock:
                try:
                    # No call up to `append`: a signal handler may store a message, or
                    # disconnect, in one. So not `len`.
                    stored = buffer._stored
                    if stored - buffer._pulled < buffer.capacity and not buffer.ended:
                        buffer._stored = stored + 1
                        self._outgoing.append(data)  # type: ignore[arg-type]  # bytes
                        if self._arrived.asleep:
                            self._wake_locked(other_side(self._side))
                        return
                except BaseException:
                    self._connection.recover_locked()
                    raise
        finally:
            if self._deferred:
                self._connection.settle_at_last()
        if buffer is _UNMADE:
            self._begin()
            self.send(data, timeout=timeout)
            return
        if timeout != 0 and _sync.spin(self._has_room):
            with contextlib.suppress(SendTimeoutError):
                self.send(data, timeout=0)
                return
        super().send(data, timeout=timeout)

    def receive(self, timeout: float | None = None) -> bytes:
        if timeout is not None:
            deadline_after(timeout)
        messages = self._incoming
        if not messages:
            if messages is _NO_MESSAGES:
                self._begin()
                return self.receive(timeout)
            if timeout != 0:
                _sync.spin(self._has_message)
        buffer = self._inward
        try:
            with self._lock:
                try:
                    if messages and not buffer.ended:
                        message, pulled = messages[0], buffer._pulled + 1
                        # As in `CircularBufferQueue.pull_locked`.
                        del messages[0]
                        buffer._pulled = pulled
                        if self._free.asleep:
                            self._wake_locked(self._side)
                        return message  # type: ignore[return-value]  # unobserved
                except BaseException:
                    self._connection.recover_locked()
                    raise
        finally:
            if self._deferred:
                self._connection.settle_at_last()
        return super().receive(timeout)

    def _has_room(self) -> bool:
        return len(self._outgoing) < self._outward.capacity or self._outward.ended

    def _wake_locked(self, receiver: Side) -> None:
        """Complete a change of the messages for a side that a waiter may wait for."""
        self._connection.flows[receiver].buffer.wake_locked()
        self._connection.refresh_locked(receiver)

    def fileno(self) -> int:
        # From now on each change of the messages for this side ends in `_wake_locked`.
        self._connection.critical(self._pin_locked)
        return super().fileno()

    def _pin_locked(self) -> None:
        self._begin_locked()
        self._inward.arrived.pin()
        self._inward.room.pin()

    # Several messages at a time.

    def _send_run_locked(
        self, messages: list[bytes], begin: int
    ) -> tuple[int, Verdict]:
        if self._outward is _UNMADE:
            self._begin_locked()
        buffer, peer = self._outward, other_side(self._side)
        while begin < len(messages):
            stored = buffer._stored
            run = messages[begin : begin + max(0, buffer.free_slots())]
            size = len(run)
            # A signal handler may have stored something since.
            if not run or stored != buffer._stored or buffer.ended:
                break
            buffer._stored = stored + size
            buffer._messages.extend(run)
            begin += size
            self._wake_locked(peer)
        return super()._send_run_locked(messages, begin)

    def _take_many(self, limit: int | None) -> Take[list[bytes]]:
        take_slowly = super()._take_many(limit)
        most = None if limit is None else positive("limit", limit)

        def take(side: Side, waited_ns: int) -> list[bytes] | None:
            if self._inward is _UNMADE:
                self._begin_locked()
            buffer, taken = self._inward, []
            if buffer.ended:
                return take_slowly(side, waited_ns)
            count = self.pending if most is None else min(most, self.pending)
            for _ in range(count):
                if not buffer._messages:
                    break  # a signal handler has taken some
                buffer._pulled += 1
                taken.append(buffer._messages.popleft())
            self._wake_locked(side)
            return taken or None  # type: ignore[return-value]  # unobserved

        return take
