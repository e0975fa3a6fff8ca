"""`SocketConnection`: the state of one connection, seen from one of its ends.

It is a `QueueConnection` in which the link acts for the peer. The outgoing buffer
only counts the messages that the peer has not received. The messages and actions of the
peer are applied to the state as if the peer were local. So the tables of
`queuebroker.channel.status` decide as they do between threads.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from queuebroker.channel.circular_buffer import CircularBufferQueue
from queuebroker.channel.flow import Flow
from queuebroker.channel.queue_connection import Message, QueueConnection
from queuebroker.channel.side import Side, other_side
from queuebroker.channel.status import Status
from queuebroker.observer import SHARED_CHANNELS, Operation, Reason
from queuebroker.sockets.descriptors import Described, close_all
from queuebroker.sockets.errors import PeerLostError, ProtocolError, RemoteError
from queuebroker.sockets.frames import Credit, Goodbye, Messages, Pong
from queuebroker.sockets.protocol import Lost
from queuebroker.sockets.read_owner import OPEN
from queuebroker.waiting.parking import WaitList

if TYPE_CHECKING:
    import _thread
    from collections.abc import Sequence

    from queuebroker.observer import Watch
    from queuebroker.sockets.link import Link
    from queuebroker.sockets.peer import Peer
    from queuebroker.sockets.protocol import Event, Protocol
    from queuebroker.sockets.read_owner import ReadOwner

__all__ = ["Inbox", "Outbound", "SocketConnection"]


class Inbox(CircularBufferQueue[Message]):
    """The messages that arrived here; the protocol enforces its capacity.

    The holder of the read lease need not be on a wait list. It sleeps at the socket;
    `wake_all_locked` wakes it, for instance when the connection ends.

    pull_until: number of the last message that the caller may pull itself, with nothing
      to do but to count it; 0 if none.

    Invariant, true whenever the lock is free:
    I3. messages up to ``pull_until`` are here, each is plain bytes, and no credit is
        due before the last of them; no thread waits for a message, no descriptor shows
        that one is here, and both sides are open.
    """

    __slots__ = ("_read_owner", "pull_until")

    def __init__(self, capacity: int, link: Link) -> None:
        super().__init__(capacity, lock=link.lock)
        self._read_owner: ReadOwner = link.read_owner
        self.pull_until: int = 0

    def extend_locked(self, messages: Sequence[Message]) -> None:
        """Store messages that arrived together, and wake one waiting receiver."""
        self._messages.extend(messages)
        if self.arrived:
            self.arrived.wake_one()

    def pull_run_locked(self, most: int) -> list[Message]:
        """Remove the oldest messages, ``most`` at most."""
        messages = self._messages
        if most >= len(messages):
            taken = list(messages)
            messages.clear()
        else:
            taken = [messages.popleft() for _ in range(most)]
        self._pulled += len(taken)
        return taken

    def wake_all_locked(self) -> None:
        super().wake_all_locked()
        self._read_owner.wake_locked()


class Outbound(CircularBufferQueue[Message]):
    """The peer's buffer as known here: the number of unread messages in it.

    It stores nothing: a pushed message goes to the protocol at once.

    lost: messages that the peer may or may not have received.
    """

    __slots__ = ("_link", "_protocol", "lost")

    discarded: int

    def __init__(self, capacity: int, link: Link) -> None:
        super().__init__(capacity, lock=link.lock)
        self._link: Link = link
        self._protocol: Protocol = link.protocol
        self.lost: int = 0

    def __len__(self) -> int:
        return self._protocol.unreceived - self.discarded - self.lost

    def full(self) -> bool:
        return self._protocol.unreceived >= self.capacity

    def empty(self) -> bool:
        return not len(self)

    def free_slots(self) -> int:
        return self.capacity - self._protocol.unreceived

    def push_locked(self, message: Message) -> bool:
        self._protocol.gather_until = 0
        if self.full():
            return False
        data = message[1] if isinstance(message, tuple) else message
        if isinstance(data, Described):
            self._link.post_fds_locked(data, list(data.take()))
        else:
            self._link.protocol.send_message(data)
        self.wake_locked()
        return True

    def pull_locked(self) -> None:
        """Do nothing: the peer receives these messages."""

    def wake_locked(self) -> None:
        if self.room and not self.full():
            self.room.wake_one()

    def pulled(self) -> int:
        return self._protocol.received

    def items_locked(self) -> list[Message]:
        return []

    def discard_locked(self) -> None:
        self.discarded += len(self)

    def lose_locked(self) -> None:
        """Count the unread messages as lost."""
        self.lost += len(self)


class SocketConnection(QueueConnection):
    """One end's view of a connection; ``side`` is this end, the other one is remote.

    Lock: that of its link, which also guards the socket and the protocol.
    """

    __slots__ = (
        "_inbox",
        "_outbound",
        "link",
        "peer",
        "pinged",
        "ponged",
        "pongs",
        "side",
    )

    def __init__(
        self,
        link: Link,
        side: Side,
        names: tuple[str, str],
        port: int,
        capacity: int,
        limit: int,
        *,
        strict: bool = False,
        watch: Watch | None = None,
        number: int | None = None,
    ) -> None:
        """Create the view of one side.

        number: drawn by the acceptor; None to draw it.
        """
        inward = Flow[Any](Inbox(capacity, link))
        outward = Flow[Any](Outbound(capacity, link))
        super().__init__(
            link.lock,
            (inward, outward) if side == 0 else (outward, inward),
            names,
            port,
            limit=limit,
            strict=(strict, strict),
            watch=watch,
        )
        if number is None:
            number = SHARED_CHANNELS | int.from_bytes(os.urandom(8)) >> 3
        self.number = number
        # A signal handler cannot send in the middle of a frame.
        self.sole = True
        self.link: Link = link
        link.piecewise |= watch is not None
        self.side: Side = side
        self._inbox: Inbox = inward.buffer
        self._outbound: Outbound = outward.buffer
        self.peer: Peer | None = None
        self.pongs: WaitList = WaitList()
        self.pinged: int = 0
        self.ponged: int = 0

    @property
    def inbox(self) -> Inbox:
        """The messages that arrived here."""
        return self._inbox

    @property
    def outbound(self) -> Outbound:
        """The messages that the peer has not received."""
        return self._outbound

    # Actions of the peer.

    def on_event_locked(self, event: Event) -> None:
        """Apply an event of the peer to the state."""
        remote = other_side(self.side)
        match event:
            case Messages():
                if not self.closed[self.side]:
                    self._arrive_locked(event)
                else:
                    self._discard_locked(event)
            case Credit():
                self.outbound.wake_locked()
            case Goodbye():
                error = RemoteError(event.text or event.kind, kind=event.kind)
                self._part_locked(remote, error if event.abnormal else None)
            case Lost():
                self._note_lost_locked()
                self.outbound.lose_locked()
                self._part_locked(remote, event.error)
            case Pong():
                self.ponged = event.number
                self.pongs.wake_all()
            case _:
                raise AssertionError(event)  # the protocol passes no other event

    def _arrive_locked(self, event: Messages) -> None:
        messages = event.messages
        if event.descriptors:
            fds = self.link.take_fds_locked(event.descriptors)
            if fds is None:
                msg = f"{event.descriptors} descriptors were announced, fewer arrived"
                self.link.fail_locked(ProtocolError(msg))
                return
            messages = [Described.of(messages[0], fds)]
        if self.watch is None:
            self.inbox.extend_locked(messages)
        else:
            self.inbox.extend_locked(list(enumerate(messages, event.first)))
        self.refresh_locked(self.side)

    def _discard_locked(self, event: Messages) -> None:
        """Drop messages that arrive after this end has disconnected."""
        if event.descriptors:
            close_all(self.link.take_fds_locked(event.descriptors) or ())
        for seq, message in enumerate(event.messages, event.first):
            self._note_drop(self.side, seq, len(message), Reason.DISCARDED)

    def _note_lost_locked(self) -> None:
        """Note each message of which it is unknown whether the lost peer received it.

        A peer that does leaves its own record of that.
        """
        if self.watch is not None and not self.closed[1 - self.side]:
            protocol = self.link.protocol
            for seq in range(protocol.received + 1, protocol.sent + 1):
                self._note_drop(other_side(self.side), seq, 0, Reason.PEER_LOST)

    def _note_drop(self, receiver: Side, seq: int, size: int, reason: Reason) -> None:
        self.note(
            Operation.DROP, self.side, receiver, seq=seq, size=size, reason=reason
        )

    def _part_locked(self, remote: Side, error: BaseException | None) -> None:
        reason = Reason.NONE if error is None else Reason.ABNORMAL
        self.close_locked(remote, error, reason)
        self.pongs.wake_all()

    # Actions of this end.

    def close_locked(
        self, side: Side, error: BaseException | None, reason: Reason
    ) -> None:
        super().close_locked(side, error, reason)
        if side == self.side:
            self._leave_locked(error)
        else:
            self._leave_if_done_locked()

    def close_both(self) -> None:
        self.critical(lambda: self.close_locked(self.side, None, Reason.BROKER_CLOSED))

    def _leave_if_done_locked(self) -> None:
        """Send the good-bye once the peer has left and its messages are received."""
        if self.status(self.side) is Status.DISCONNECTED:
            self._leave_locked(None)

    def _leave_locked(self, error: BaseException | None) -> None:
        self.link.send_goodbye_locked(error)
        self.pongs.wake_all()  # no pong may arrive any more

    def _store_locked(self, peer: Side, message: bytes, waited_ns: int) -> bool:
        stored = super()._store_locked(peer, message, waited_ns)
        self.link.read_owner.sent_since_sleep = True
        self.link.flush_locked()
        return stored

    def grab_locked(self) -> bytes | None:
        """Receive a message if one is here; return None to use the tables."""
        inbox = self._inbox
        messages = inbox._messages
        if not messages or self.watch is not None:
            return None
        message = messages[0]
        pulled, taken = inbox._pulled + 1, self.link.protocol.taken + 1
        # Three changes without a call or a new object between them: neither an
        # interrupt nor a lack of memory can separate them.
        del messages[0]
        inbox._pulled = pulled
        self.link.protocol.taken = taken
        self._give_credit_locked()
        if messages and inbox.arrived:
            inbox.arrived.wake_one()
        if self.readiness[self.side] is not None:
            self.refresh_locked(self.side)
        elif messages:
            self._permit_pulls_locked()
        assert not isinstance(message, tuple)  # unobserved
        return message

    def _permit_pulls_locked(self) -> None:
        """Let callers pull the next messages, as far as nothing else is due."""
        inbox, protocol = self._inbox, self.link.protocol
        if (
            protocol.arrived < protocol.receivable
            and self.closed == OPEN
            and not (inbox.arrived or protocol.descriptors)
        ):
            left = (protocol.capacity - 1) // 2 - protocol.taken  # until credit is due
            inbox.pull_until = inbox._pulled + min(len(inbox._messages), left)

    def revoke_locked(self) -> None:
        """Let each message take all of its steps again, since something has changed."""
        self._inbox.pull_until = self.link.protocol.gather_until = 0

    def flush_locked(self) -> None:
        self.link.flush_locked()

    def flag_closed_locked(self, side: Side, error: BaseException | None) -> None:
        self.revoke_locked()
        super().flag_closed_locked(side, error)

    def refresh_locked(self, side: Side) -> None:
        self._inbox.pull_until = 0  # a message has arrived, or a descriptor was made
        super().refresh_locked(side)

    def grab_run_locked(self, most: int) -> list[bytes] | None:
        """Receive up to ``most`` messages that are here; None: use the tables."""
        inbox = self._inbox
        if not inbox._messages or self.watch is not None:
            return None
        taken = inbox.pull_run_locked(most)
        self.link.protocol.taken += len(taken)
        self._give_credit_locked()
        if inbox._messages and inbox.arrived:
            inbox.arrived.wake_one()
        if self.readiness[self.side] is not None:
            self.refresh_locked(self.side)
        return [bytes(one) for one in taken if isinstance(one, bytes)]

    def _give_credit_locked(self) -> None:
        """Send the credit for received messages, if it is due."""
        protocol = self.link.protocol
        if (
            2 * protocol.taken >= protocol.capacity
            or protocol.arrived >= protocol.receivable
            or self.closed[1 - self.side]
        ):
            self.on_received_locked(0)

    def store_run_locked(self, messages: list[bytes]) -> None:
        """Send several messages, unobserved; the peer must have room for them."""
        self.link.read_owner.sent_since_sleep = True
        self.link.protocol.send_run(messages)
        self.link.flush_locked()
        self.outbound.wake_locked()

    def take_locked(
        self, side: Side, waited_ns: int, only: Message | None = None
    ) -> bytes | None:
        message = super().take_locked(side, waited_ns, only)
        if message is not None:
            self.on_received_locked(1)
        return message

    def on_received_locked(self, count: int) -> None:
        """Record ``count`` received messages; send the credit when it is due."""
        self.link.protocol.credit(count)
        if self.closed[1 - self.side]:
            self._leave_if_done_locked()
        else:
            self.link.flush_locked()

    def is_awaited_locked(self) -> bool:
        """Return True if a thread waits for input that the driver would read."""
        return bool(
            # The lists, not their lengths: this runs after every receive.
            self._inbox.arrived._parkers
            or self._outbound.room._parkers
            or self.pongs._parkers
            or self.readiness[self.side] is not None
        )

    def recover_locked(self) -> None:
        self.revoke_locked()
        link = self.link
        protocol = link.protocol
        if not (link.mid_io or self.closed[0] or self.closed[1]):
            # Credit a message that was received but not recorded as such: else the peer
            # would have one slot less forever.
            protocol.taken = protocol.owed - len(self._inbox)
            protocol.credit(0)
        link.recover_locked()
        remote = other_side(self.side)
        if protocol.ended and not self.hung_up[remote]:
            # The interrupted call took the final event from the protocol and did not
            # deliver it.
            self.on_event_locked(Lost(PeerLostError("interrupted as the peer closed")))
        super().recover_locked()

    def note(
        self, operation: Operation, actor: Side, receiver: Side, **told: Any
    ) -> None:
        # The observer in the peer's process gets the peer's operations.
        if actor == self.side:
            super().note(operation, actor, receiver, **told)

    def abandon_after_fork(self, lock: _thread.RLock) -> None:
        """Mark the peer as lost: no thread runs the driver; ``lock`` is a new lock."""
        self.lock = lock
        self.inbox.lock = self.outbound.lock = lock
        self.revoke_locked()
        remote = other_side(self.side)
        self.outbound.lose_locked()
        self.closed[remote] = True
        self.errors[remote] = PeerLostError(
            "its driver is closed, or in another process"
        )
        self.hung_up[remote] = True
        self.wake_all_locked()
