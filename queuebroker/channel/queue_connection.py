"""`QueueConnection`: the effect of a send and a receive on a connection of messages.

Each method is one step under the lock: look up the table, change the buffer, update the
counters, notify the observer. The verdict WAIT makes the caller wait; the kind of end
decides how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from queuebroker.channel.circular_buffer import CircularBufferQueue
from queuebroker.channel.connection import Connection
from queuebroker.channel.flow import Flow
from queuebroker.channel.side import Side, other_side
from queuebroker.channel.status import STATUS, Status, Verdict
from queuebroker.observer import Operation, Reason

if TYPE_CHECKING:
    import _thread

__all__ = ["Message", "Messages", "QueueConnection", "UnobservedConnection"]

# The content of a buffer: the message, and its number too if the connection is
# observed. The number travels with the message, so that the receiver's record proves
# the order instead of assuming it (QB-BOOK-4).
Message = bytes | tuple[int, bytes]
Messages = CircularBufferQueue[Message]
_Flows = tuple[Flow[Messages], Flow[Messages]]


class QueueConnection(Connection[Messages]):
    """A connection whose buffers hold whole messages."""

    __slots__ = ()

    def send_locked(
        self, side: Side, message: bytes, *, waited: bool = False, waited_ns: int = 0
    ) -> Verdict:
        """Send by ``side`` as the table requires now; return the verdict."""
        peer = other_side(side)
        verdict = self.send_verdict(side, waited=waited)
        while verdict is Verdict.DO:
            if self._store_locked(peer, message, waited_ns):
                return verdict
            if not self.flows[peer].buffer.ended:
                return Verdict.WAIT  # a sender without the lock took the last slot
            # A signal handler has disconnected since the table was read.
            verdict = self.send_verdict(side, waited=waited)
        if verdict is Verdict.DROP:
            self.flows[peer].half_disconnected += 1
            self.note(
                Operation.DROP,
                side,
                peer,
                size=len(message),
                reason=Reason.HALF_DISCONNECTED,
            )
        elif verdict is Verdict.REFUSE:
            self.note_close_seen_locked(side)
        return verdict

    def _store_locked(self, peer: Side, message: bytes, waited_ns: int) -> bool:
        flow = self.flows[peer]
        if self.watch is None:
            stored = flow.buffer.push_locked(message)
        else:
            seq = flow.last_send_noted + 1
            stored = flow.buffer.push_locked((seq, message))
            self._tell_sent_locked(peer, seq, len(message), waited_ns)
        self.refresh_locked(peer)
        return stored

    def take_locked(
        self, side: Side, waited_ns: int, only: Message | None = None
    ) -> bytes | None:
        """Remove and return the oldest message for ``side``, or None.

        only: the message that `head_locked` returned; if it is no longer the oldest,
          nothing is removed.
        """
        buffer = self.flows[side].buffer
        item = only
        if only is None:
            item = buffer.pull_locked()
        elif not buffer.pull_only_locked(only):
            item = None
        self.refresh_locked(side)
        if item is None:
            return None
        if not isinstance(item, tuple):
            return item
        seq, message = item
        size = len(message)
        self.note(
            Operation.RECEIVE, side, side, seq=seq, size=size, waited_ns=waited_ns
        )
        self.flows[side].last_receive_noted = seq
        return message

    def _tell_sent_locked(
        self, receiver: Side, seq: int, size: int, waited_ns: int = 0
    ) -> None:
        sender = other_side(receiver)
        self.note(
            Operation.SEND, sender, receiver, seq=seq, size=size, waited_ns=waited_ns
        )
        self.flows[receiver].last_send_noted = seq

    def _numbered(self, side: Side) -> list[tuple[int, bytes]]:
        """Return a side's unread messages with their numbers; empty if unobserved."""
        if self.watch is None:
            return []
        items = self.flows[side].buffer.items_locked()
        return [item for item in items if isinstance(item, tuple)]

    def note_discarded_locked(self, side: Side) -> None:
        for seq, message in self._numbered(side):
            self.note(
                Operation.DROP,
                side,
                side,
                seq=seq,
                size=len(message),
                reason=Reason.DISCARDED,
                depth=0,
            )

    def recover_locked(self) -> None:
        super().recover_locked()
        if self.watch is None:
            return
        # The observer must see a SEND for each message that can be received, and a
        # RECEIVE or DROP for each removed one. An interrupted call may have skipped
        # these (QB-BOOK-4).
        sides: tuple[Side, Side] = (0, 1)
        for side in sides:
            flow = self.flows[side]
            for seq, message in self._numbered(side):
                if seq > flow.last_send_noted:
                    self._tell_sent_locked(side, seq, len(message))
            while flow.last_receive_noted < flow.received:
                flow.last_receive_noted += 1
                self.note(
                    Operation.DROP,
                    side,
                    side,
                    seq=flow.last_receive_noted,
                    reason=Reason.INTERRUPTED,
                )

    def head_locked(self, side: Side) -> Message | None:
        """Return the oldest message for ``side`` without removing it, or None."""
        return self.flows[side].buffer.peek_locked()


class UnobservedConnection(QueueConnection):
    """A `QueueConnection` without an observer, which makes its flows on first use.

    A connection that is only opened and closed never has any. Until then no end has
    sent or waited, so that a disconnect has nothing to discard and no waiter to wake.

    A thread that makes them needs no lock, and may do so while another one closes a
    side. The flag goes up first, then the closing thread marks the buffers that it
    finds. An end that starts to use buffers does the opposite: see `begin_locked`.
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
        self._made: Final[list[_Flows]] = []

    @property
    def flows(self) -> _Flows:  # type: ignore[override]  # read-only here
        """The buffers with their counters."""
        if not self._made:
            one: CircularBufferQueue[Message]
            other: CircularBufferQueue[Message]
            one = CircularBufferQueue(self._capacity, lock=self.lock)
            other = CircularBufferQueue(self._capacity, lock=self.lock)
            # One call in C: of several threads that come here, the first one's buffers
            # are used.
            self._made.append((Flow(one), Flow(other)))
        return self._made[0]

    def begin_locked(self) -> _Flows:
        """Return the flows to an end that stores and takes without a look at the table.

        A side may have been closed when there was no buffer to mark.
        """
        one, other = flows = self.flows
        if True in self.closed:
            one.buffer.ended = other.buffer.ended = True
        return flows

    def status(self, side: Side) -> Status:
        there = self.closed[1 - side]
        here = self.closed[side]
        # In the order of the base class: once the peer's flag is up, nothing is stored.
        unread = bool(self._made) and not self.flows[side].buffer.drained()
        return STATUS[here, there, unread]

    def flag_closed_locked(self, side: Side, error: BaseException | None) -> None:
        # No call from here on: a signal handler sees the whole change or nothing.
        if not self.closed[side]:
            self.errors[side] = error
            self.closed[side] = True
            if self._made:
                one, other = self._made[0]
                one.buffer.ended = other.buffer.ended = True

    def empty_locked(self, side: Side, reason: Reason) -> None:
        if self._made:
            super().empty_locked(side, reason)
