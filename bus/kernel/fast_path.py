"""`FastPath`: the fast path: a task thread sends or receives one message itself.

The message is a single command, answer or notification. The task thread accounts for it
at once (streams, relays, receipts), under the exchange's lock. Only the simplest case
takes this path: no other message waits for the link, and this one is alone, not
recorded, and short or in shared memory. The comm thread sends or reads every other
message in one of its rounds.

Interrupts: to account for a sent message, the thread first prepares all new values. It
then publishes them in lines without a call or a loop, between which CPython raises no
interrupt (`Relay.send_at_once`). So an interrupt finds either all of the changes or
none; after that only the frame may be missing on the link, and the caller drops that
link. A received message is accounted for in steps that may be repeated, as when the
peer resends it on the next link, until it counts as received.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from bus.errors import WireError
from bus.kernel.hooks import Bodies
from bus.kernel.peer.relay import AUDIENCE, RelayState
from bus.kernel.peer.session import milliseconds_left
from bus.kernel.relays import Proxy
from bus.kernel.streams.incoming_stream import NUMBERS, Acknowledgement
from bus.kernel.streams.receipts import Receipt, Receipts
from bus.kernel.tasks.actions import Answer, Post
from bus.kernel.tasks.runs import OutboundRun, pack_payload
from bus.kernel.wire import (
    FAILED,
    FOLLOWS_MIN,
    HEAD_BYTES,
    LEASED,
    NO_DEADLINE,
    RAW,
    WANTS_REPLY,
    Batch,
    Run,
    decode_single,
    encode_single,
    ends_head,
    read_single,
    stream_head,
)
from bus.model.message import Incoming, Kind
from bus.model.payload import decode, own_copy

if TYPE_CHECKING:
    from bus.kernel.peer.peer import Peer
    from bus.kernel.peer.relay import Relay
    from bus.kernel.remote_manager import RemoteManager
    from bus.kernel.streams.incoming_stream import IncomingStream
    from bus.kernel.tasks.actions import Action
    from bus.kernel.tasks.routing_table import Audience, Entry
    from bus.model.payload import Payload

__all__ = ["BODY_MAX", "FastPath"]

BODY_MAX: Final = 64 * 2**10  # a longer one, on the link, holds the interpreter
_SHARED_MAX: Final = 8 * 2**20  # a wake-up is little beside the copy of a longer one
_BY_LINK: Final = Bodies()
# Constants: on 3.11 the look-up of an enum member goes through its `__getattr__`.
_COMMAND, _COMMAND_RESPONSE = Kind.COMMAND, Kind.COMMAND_RESPONSE
_NOTIFICATION: Final = Kind.NOTIFICATION


class _Ends(Struct, frozen=True, eq=False):
    """The sender and the receivers of messages; valid until the next decision.

    head: the `stream_head` of the frames from the sender's process. epoch, stream: of
      that stream.
    answers: True if the messages are answers. refused: flags that are not accepted.
    to: the relay number of the receiver. target: the receiving task, an `Entry`, if it
      is one; audience: else the subscribers.
    receipt, receipts: for the receiving task; those of the audience stay empty.
    """

    head: bytes
    epoch: int
    relay: Relay
    stream: IncomingStream[tuple[int, Run]]
    answers: bool
    refused: int
    to: int
    target: Any
    audience: tuple[Audience, ...]
    receipt: Receipt
    receipts: Receipts


class FastPath:
    """The fast path to one other process over one link; discarded with that link.

    As with `RemoteManager`, only one thread at a time may call a method.

    Args:
        bodies: the slot of the process.

    Attributes:
        peer, link: the process at the other end, and the link to it.
    """

    __slots__ = (
        "_acks",
        "_bodies",
        "_ends",
        "_head",
        "_horizons",
        "_longest",
        "_manager",
        "_outgoing",
        "_permit",
        "_remote",
        "_revision",
        "_sent_ends",
        "_session",
        "link",
        "peer",
    )

    def __init__(
        self,
        remote: RemoteManager,
        peer: Peer,
        link: int,
        bodies: Bodies = _BY_LINK,
    ) -> None:
        self._remote: Final = remote
        self._manager: Final = remote.manager
        self._bodies: Final = bodies
        self._horizons: Final = remote.topology.horizons
        self.peer: Final = peer
        self.link: Final = link
        self._session: Final = peer.session
        self._acks: Final = peer.acks
        # The session replaces its stream only along with the link.
        self._outgoing: Final = peer.session.outgoing
        self._head: Final = stream_head(peer.session.epoch, peer.session.incarnation)
        # The messages that may be sent at once: their relay, sender and kind. After the
        # next decision, at another `ProcessManager.revision`, that must be checked.
        self._permit: tuple[int, Relay, Entry, Kind] | None = None
        # Of these: the maximum length on the link, in bytes, and the `ends_head`.
        self._longest: int = 0
        self._sent_ends: bytes = b""
        # The ends of received messages, by `ends_head`, all found at this revision.
        self._ends: Final[dict[bytes, _Ends]] = {}
        self._revision: int = -1

    @property
    def is_current(self) -> bool:
        """True if the link is still the one in use."""
        return self.peer.session.link == self.link

    # Sending.

    def command(
        self, command: Incoming, now: float, encoded: bytes | None = None
    ) -> bytes | Batch | None:
        """Return the frame of a command, which the caller must send at once.

        None if the command must be posted in the usual way; then nothing has changed. A
        long message is returned as a batch, whose body the caller puts into memory.

        encoded: the encoding of its payload, if it is known.
        """
        if command._trace is not None:
            return None
        source, deadline = command._source, command._deadline
        flags, body = (0, encoded) if encoded else pack_payload(command.payload)
        outbound_run = OutboundRun(
            _COMMAND,
            source,
            source.relay,
            command._id,
            flags | WANTS_REPLY if command.wants_reply else flags,
            0,  # it never waits
            deadline,
            (body,),
            len(body),
            command,
        )
        left = milliseconds_left(deadline, now)
        return self._send(command._to.mailbox, outbound_run, left)

    def answer(
        self,
        question: Incoming,
        payload: Payload,
        encoded: bytes | None = None,
        *,
        extracted_at: float | None = None,
    ) -> bytes | Batch | None:
        """Return the frame of an answer to a command from the peer, as `command`.

        extracted_at: when the task extracted the command, in seconds, if this frame is
          to acknowledge that; None if the extraction is reported in another way.
        """
        if question.kind is not _COMMAND or question._trace is not None:
            return None
        source = question._to
        flags, body = (0, encoded) if encoded else pack_payload(payload)
        outbound_run = OutboundRun(
            _COMMAND_RESPONSE,
            source,
            source.relay,
            question._id,
            flags,
            0,  # it never waits
            None,
            (body,),
            len(body),
        )
        relay: Relay = question._source.mailbox
        return self._send(relay, outbound_run, NO_DEADLINE, question, extracted_at)

    def may_notify(self, source: Entry, size: int) -> bool:
        """Return True if a notification may be sent at once.

        size: the length of its body in bytes.
        """
        audience = self.peer.audience
        permit = self._manager.revision, audience, source, _NOTIFICATION
        return (
            (permit == self._permit or self._renew(permit))
            and audience.room > 0
            and size <= self._longest
        )

    def notification(self, outbound_run: OutboundRun) -> bytes | Batch:
        """Return the frame of a notification, which the caller must send at once.

        `may_notify` has allowed it just now.
        """
        relay = self.peer.audience
        frame = self._send(relay, outbound_run, NO_DEADLINE, is_allowed=True)
        assert frame is not None
        return frame

    def _renew(self, permit: tuple[int, Relay, Entry, Kind]) -> bool:
        """Return True if such messages may be sent at once until the next decision."""
        _, relay, source, kind = permit
        if not self._would_be_sent(relay, source, kind):
            return False
        self._longest = min(BODY_MAX, self.peer.message_bytes_max)
        self._sent_ends = ends_head(relay.number, source.relay, kind)
        self._permit = permit
        return True

    def _is_shared(self, size: int) -> bool:
        """Return True if a body of ``size`` bytes would lie in shared memory."""
        return FOLLOWS_MIN <= size <= min(
            _SHARED_MAX, self.peer.message_bytes_max
        ) and self._bodies.shares(self.link)

    def _would_be_sent(self, relay: Relay, source: Entry, kind: Kind) -> bool:
        """Return True if posting the message would do no more than send it."""
        peer = self.peer
        session = peer.session
        if not (
            self.is_current
            and session.room
            and not session.has_unsent
            and (relay is peer.audience or peer.relays.get(relay.number) is relay)
            and relay.opened
            and not relay.queue
            and not peer.notifying
            and source in self._manager.table
            and source.relay in peer.announced
            and not peer.is_leaving(source.relay)
        ):
            return False
        if kind is Kind.COMMAND and (
            relay.state is not RelayState.NAMED  # it is elsewhere by now
            or source.address.bus != relay.entry.address.bus  # no answer could come
            or source not in relay.users
        ):
            return False
        return kind is not Kind.NOTIFICATION or not (
            source.relay in peer.waiting  # a command of this task (BUS-MSG-15)
            or peer.has_gap(source.relay)
        )

    def _send(
        self,
        relay: Relay,
        outbound_run: OutboundRun,
        left: int,
        question: Incoming | None = None,
        extracted_at: float | None = None,
        *,
        is_allowed: bool = False,
    ) -> bytes | Batch | None:
        """Account for a message as sent; return its frame, or None if it must wait.

        question, extracted_at: as for `answer`. is_allowed: by `may_notify`.
        """
        outgoing, size = self._outgoing, outbound_run.size
        floor, number = outgoing.floor, outgoing.next
        if not is_allowed:
            source, kind = outbound_run.source, outbound_run.kind
            permit = self._manager.revision, relay, source, kind
            if permit != self._permit and not self._renew(permit):
                return None
            if (
                (size > self._longest and not self._is_shared(size))
                or (relay.under_way and relay.room <= 0)
                # `OutgoingStream.room`, without the call.
                or number - floor >= outgoing.window
                or number == NUMBERS
            ):
                return None
        task, [body], extraction = outbound_run.relay, outbound_run.bodies, None
        if question is not None and extracted_at is not None:
            # The relay of the asker is still in place, so this is still the same epoch.
            receipts: Receipts = question._receipt.receipts
            if receipts.take(question._number):
                extraction = receipts.extracted, extracted_at, question._size
        acknowledged, extracted = self._acks.acknowledge_by(task, extraction)
        frame: bytes | Batch
        if size < FOLLOWS_MIN:
            frame = encode_single(
                self._head,
                floor,
                number,
                self._sent_ends,
                outbound_run.flags,
                outbound_run.id,
                left,
                body,
                acknowledged,
                extracted,
            )
        else:  # the caller puts the body into memory
            run = Run(
                relay.number,
                task,
                outbound_run.kind,
                outbound_run.flags,
                outbound_run.id,
                left,
                0,
                [body],
            )
            frame = Batch(
                self._session.epoch,
                self._session.incarnation,
                floor,
                number,
                [run],
                acknowledged,
                extracted,
            )
        relay.send_at_once(outbound_run)
        return frame

    # Receiving.

    def receive(  # noqa: PLR0912, PLR0915 # a call for each part would cost more
        self,
        data: bytes,
        now: float,
        todo: deque[Action],
        *,
        tasks_only: bool = False,
    ) -> bool:
        """Accept a frame from the link; append the actions for its message to `todo`.

        False if the frame must be read in the usual way; then nothing has changed.

        tasks_only: accept no notification. The main thread gives this, because an
          interrupt would leave the accounts of a notification half done.
        """
        head = read_single(data)
        if head is None:
            return False
        stream, _, first, acked, extracted, key, flags, id_, left, _, _, mid, _ = head
        if self._revision != self._manager.revision:
            self._ends.clear()  # first: after an interrupt the next call repeats this
            self._revision = self._manager.revision
        ends = self._ends.get(key) or self._new_ends(key, data)
        if ends is None:
            return False
        peer, relay, acks, outgoing = self.peer, ends.relay, self._acks, self._outgoing
        answers, target, has = ends.answers, ends.target, acks.received
        if (
            stream != ends.head
            # A frame that arrived before, over another link, stops here (AMO-7).
            or first != has.next
            or has.missing
            or flags & ends.refused
            or mid
            # Earlier messages for the task are not extracted yet.
            or (ends.receipts.unread if answers else target is None and tasks_only)
            # Otherwise a horizon must be stored first (AMO-20), by an action of a
            # round.
            or not (
                self._horizons is None
                or self._horizons.covers(peer.name, ends.epoch, first)
            )
        ):
            return False
        # True if the frame acknowledges the stream, and the messages of the relay.
        arrived = taken = True
        if acked != extracted or acked != outgoing.next - 1 or peer.waiting:
            parts = self._acked_by(acked, extracted, relay)
            if parts is None:
                return False
            arrived, taken = parts
        try:
            # Last, after all reasons to refuse: the end of a view of a leased body
            # would end the lease of a message that is read again in the usual way.
            body = self._leased(data) if flags & LEASED else data[HEAD_BYTES:]
            payload: Payload = body if flags & RAW else decode(body)
        except WireError:
            return False
        # If an interrupt comes before ``stream.next`` is set, the link is dropped, and
        # the peer resends the frame on the next link. All steps may be repeated.
        size, after = len(body), first + 1
        if answers:
            todo.append(Answer(target, id_, relay.entry.address, payload))
            # First: a request that is answered needs no deadline once it is extracted.
            relay.on_answer(target, id_)
        if arrived:
            # The call comes first: an interrupt finds both changes or none.
            outgoing.kept, outgoing.floor = deque(), outgoing.next
        if taken:
            relay.on_all_extracted()
        peer.received_at = now
        if answers:
            ends.receipts.extracted = first
            acks.on_extracted(ends.to, first, now, size)
            acks.received = Acknowledgement(after)
            ends.stream.next = after
        else:
            if target is None:
                posts = _notifications(ends, id_, payload, size)
            else:
                command = Incoming(
                    _COMMAND,
                    payload,
                    None,
                    relay.entry,
                    target,
                    None,
                    size,
                    None if left == NO_DEADLINE else now + left / 1000,
                    ends.receipt,
                    first,
                    id_,
                    wants_reply=flags & WANTS_REPLY != 0,
                )
                relay.users.add(target)
                ends.receipts.expect(first)
                posts = [Post(target, [command])]
            received = Acknowledgement(after)
            # The command counts as received, and its action is here, in one step: no
            # interrupt comes between these lines. In this order: after an error, the
            # peer sends the command again, which is then refused (AMO-7).
            acks.received = received
            ends.stream.next = after
            todo += posts
            acks.on_received(received)  # it may be urgent
            if target is None:
                acks.on_extracted(AUDIENCE, first, now, size)
                acks.check_rarely()
                relay.gap = 0
        return True

    def _acked_by(
        self, acked: int, extracted: int, relay: Relay
    ) -> tuple[bool, bool] | None:
        """Return whether a frame acknowledges the stream, and the messages of a relay.

        Each of the two as a whole, or nothing of it. None if the frame acknowledges a
        part, or frees room for which a message waits.

        acked, extracted: its `Batch.acknowledged` and `Batch.extracted`.
        """
        outgoing, unacked = self._outgoing, relay.unacked
        stream = acked >= outgoing.floor
        if stream and (acked + 1 != outgoing.next or self.peer.waiting):
            return None
        if not unacked or unacked[0][0] > extracted:
            return stream, False
        last, outbound_run = unacked[-1]
        if last + len(outbound_run.bodies) != extracted + 1 or self.peer.waiting:
            return None
        return stream, True

    def _leased(self, data: bytes) -> bytes | memoryview:
        """Return the body of a message in shared memory; raise `WireError` if none."""
        batch = decode_single(data)
        assert batch is not None
        found = self._bodies.resolve_body(self.link, batch)
        assert isinstance(found, Batch)
        return found.runs[0].bodies[0]

    def _new_ends(self, key: bytes, data: bytes) -> _Ends | None:
        """Look up the sender and the receivers of messages; None if rounds read them.

        data: the frame of one of these messages.
        """
        batch = decode_single(data)
        if batch is None:
            return None
        peer, remote, [run] = self.peer, self._remote, batch.runs
        kind, to = run.kind, run.to
        relay, epoch = peer.relays.get(run.source), peer.session.their_epoch
        if (
            relay is None
            or epoch is None
            or not (self.is_current and peer.session.ready)
            or peer.unresponsive
            # An acknowledgement in the frame may change that.
            or relay.provisional
            or relay.state is RelayState.SUPERSEDED
        ):
            return None
        stream = remote.inbound_messages.stream(peer, epoch)
        if stream is None:
            return None
        if to == AUDIENCE:
            target, audience = None, remote.relays.audience(relay)
            if not audience or kind is not Kind.NOTIFICATION:
                return None
            refused, receipts = ~RAW, Receipts()
        else:
            target, audience = remote.relays.task(to), ()
            if (
                target is None
                or isinstance(target, Proxy)
                or not peer.rights.whole
                or kind not in {Kind.COMMAND, Kind.COMMAND_RESPONSE}
            ):
                return None
            refused, receipts = FAILED, peer.receipts(target)
        ends = self._ends[key] = _Ends(
            stream_head(epoch, peer.session.own),
            epoch,
            relay,
            stream,
            kind is Kind.COMMAND_RESPONSE,
            refused,
            to,
            target,
            audience,
            Receipt(peer, epoch, to, receipts),
            receipts,
        )
        return ends


def _notifications(ends: _Ends, id_: int, payload: Payload, size: int) -> list[Post]:
    """Return the actions that deliver a notification to its subscribers."""
    return [
        Post(
            each.entry,
            [
                Incoming(
                    _NOTIFICATION,
                    own_copy(payload) if at else payload,
                    subscriptions=each.subscriptions,
                    gap=ends.relay.gap,
                    _source=ends.relay.entry,
                    _id=id_,
                    _to=each.entry,
                    _size=size,
                )
            ],
        )
        for at, each in enumerate(ends.audience)
    ]
