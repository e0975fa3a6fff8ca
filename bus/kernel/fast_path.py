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
link. A received answer is accounted for in steps that may be repeated, as when the peer
resends it on the next link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from bus.errors import WireError
from bus.kernel.hooks import Bodies
from bus.kernel.peer.relay import AUDIENCE, RelayState
from bus.kernel.peer.session import milliseconds_left
from bus.kernel.relays import Proxy
from bus.kernel.streams.incoming_stream import NUMBERS, Acknowledgement
from bus.kernel.streams.receipts import Receipt
from bus.kernel.tasks.actions import Answer, Post
from bus.kernel.tasks.runs import OutboundRun, pack_payload
from bus.kernel.wire import (
    FAILED,
    FOLLOWS_MIN,
    LEASED,
    NO_DEADLINE,
    RAW,
    WANTS_REPLY,
    Batch,
    Run,
    decode_single,
    encode_single,
)
from bus.model.message import Incoming, Kind
from bus.model.payload import decode, own_copy

if TYPE_CHECKING:
    from collections import deque

    from bus.kernel.peer.peer import Peer
    from bus.kernel.peer.relay import Relay
    from bus.kernel.remote_manager import RemoteManager
    from bus.kernel.streams.incoming_stream import IncomingStream
    from bus.kernel.streams.receipts import Receipts
    from bus.kernel.tasks.actions import Action
    from bus.kernel.tasks.routing_table import Audience, Entry
    from bus.model.payload import Payload

__all__ = ["BODY_MAX", "FastPath"]

BODY_MAX: Final = 64 * 2**10  # a longer one, on the link, holds the interpreter
_SHARED_MAX: Final = 8 * 2**20  # a wake-up is little beside the copy of a longer one
_BY_LINK: Final = Bodies()


class _Permit(Struct, frozen=True, eq=False):
    """Permission for a task to send to another at once; void after the next decision.

    revision: `ProcessManager.revision` at the look-up. longest: the maximum length of a
      body on the link, in bytes.
    """

    revision: int
    relay: Relay
    source: Entry
    kind: Kind
    longest: int


class _Ends(Struct, frozen=True, eq=False):
    """Sender and receiver of a message, by relay numbers; valid as long as a `_Permit`.

    stream: the inbound stream of the sender's process. receipts: for the receiver.
    """

    revision: int
    source: int
    to: int
    relay: Relay
    target: Entry
    stream: IncomingStream[tuple[int, Run]]
    receipt: Receipt
    receipts: Receipts


class _Notifier(Struct, frozen=True, eq=False):
    """A task of the peer by relay number, and its subscribers; valid as a `_Permit`.

    stream: the inbound stream of its process.
    """

    revision: int
    source: int
    relay: Relay
    audience: tuple[Audience, ...]
    stream: IncomingStream[tuple[int, Run]]


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
        "_notifier",
        "_permit",
        "_remote",
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
        self._bodies: Final = bodies
        self.peer: Final = peer
        self.link: Final = link
        self._session: Final = peer.session
        self._acks: Final = peer.acks
        self._permit: _Permit | None = None
        self._ends: _Ends | None = None
        self._notifier: _Notifier | None = None

    @property
    def is_current(self) -> bool:
        """True if the link is still the one in use."""
        return self.peer.session.link == self.link

    # Sending.

    def command(self, command: Incoming, now: float) -> bytes | Batch | None:
        """Return the frame of a command, which the caller must send at once.

        None if the command must be posted in the usual way; then nothing has changed. A
        long message is returned as a batch, whose body the caller puts into memory.
        """
        if command._trace is not None:
            return None
        flags, body = pack_payload(command.payload)
        relay: Relay = command._to.mailbox
        source = command._source
        permit = self._permit_for(relay, source, Kind.COMMAND, len(body))
        if permit is None:
            return None
        outbound_run = OutboundRun(
            Kind.COMMAND,
            source,
            source.relay,
            command._id,
            flags | WANTS_REPLY if command.wants_reply else flags,
            next(self._remote.outbound_messages.turns),
            command._deadline,
            (body,),
            len(body),
            command,
        )
        return self._send(
            permit, outbound_run, milliseconds_left(command._deadline, now)
        )

    def answer(self, question: Incoming, payload: Payload) -> bytes | Batch | None:
        """Return the frame of an answer to a command from the peer, as `command`."""
        if question.kind is not Kind.COMMAND or question._trace is not None:
            return None
        flags, body = pack_payload(payload)
        relay: Relay = question._source.mailbox
        source = question._to
        permit = self._permit_for(relay, source, Kind.COMMAND_RESPONSE, len(body))
        if permit is None or not self.peer.answers.admit(len(body)):
            return None
        outbound_run = OutboundRun(
            Kind.COMMAND_RESPONSE,
            source,
            source.relay,
            question._id,
            flags,
            next(self._remote.outbound_messages.turns),
            None,
            (body,),
            len(body),
        )
        return self._send(permit, outbound_run, NO_DEADLINE)

    def notification_permit(self, source: Entry, size: int) -> _Permit | None:
        """Return the permission to send a notification at once; None if it must wait.

        size: the length of its body in bytes.
        """
        permit = self._permit_for(self.peer.audience, source, Kind.NOTIFICATION, size)
        return None if permit is None or size > permit.longest else permit

    def notification(self, permit: _Permit, outbound_run: OutboundRun) -> bytes | Batch:
        """Return the frame of a notification, which the caller must send at once.

        permit: as `notification_permit` has returned it just now.
        """
        return self._send(permit, outbound_run, NO_DEADLINE)

    def _permit_for(
        self, relay: Relay, source: Entry, kind: Kind, size: int
    ) -> _Permit | None:
        """Return the permission to send a message at once; None if it must wait."""
        permit = self._permit
        if (
            permit is None
            or permit.revision != self._remote.manager.revision
            or permit.relay is not relay
            or permit.source is not source
            or permit.kind is not kind
        ):
            permit = self._permit = self._new_permit(relay, source, kind)
        if permit is None or (size > permit.longest and not self._is_shared(size)):
            return None
        config, outgoing = relay.config, self._session.outgoing
        if (
            relay.under_way >= config.window
            or relay.unacked_bytes + size > config.window_bytes
            # `OutgoingStream.room`, without the call.
            or outgoing.next - outgoing.floor >= outgoing.window
            or outgoing.next == NUMBERS
        ):
            return None
        return permit

    def _is_shared(self, size: int) -> bool:
        """Return True if a body of ``size`` bytes would lie in shared memory."""
        return FOLLOWS_MIN <= size <= min(
            _SHARED_MAX, self.peer.message_bytes_max
        ) and self._bodies.shares(self.link)

    def _new_permit(self, relay: Relay, source: Entry, kind: Kind) -> _Permit | None:
        """Return permission if posting the message would do no more than send it."""
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
            and source in self._remote.manager.table
            and source.relay in peer.announced
            and not peer.is_leaving(source.relay)
        ):
            return None
        if kind is Kind.COMMAND and (
            relay.state is not RelayState.NAMED  # it is elsewhere by now
            or source.address.bus != relay.entry.address.bus  # no answer could come
            or source not in relay.users
        ):
            return None
        if kind is Kind.NOTIFICATION and (
            source.relay in peer.waiting  # a command of this task (BUS-MSG-15)
            or peer.has_gap(source.relay)
        ):
            return None
        return _Permit(
            self._remote.manager.revision,
            relay,
            source,
            kind,
            min(BODY_MAX, peer.message_bytes_max),
        )

    def _send(
        self, permit: _Permit, outbound_run: OutboundRun, left: int
    ) -> bytes | Batch:
        """Account for a message as sent; return its frame."""
        relay, session, acks = permit.relay, self._session, self._acks
        task = outbound_run.relay
        acknowledged, extracted, whole = acks.acknowledgement_by(task)
        outgoing, [body] = session.outgoing, outbound_run.bodies
        frame: bytes | Batch
        if len(body) < FOLLOWS_MIN:
            frame = encode_single(
                session.epoch,
                session.incarnation,
                outgoing.floor,
                outgoing.next,
                relay.number,
                task,
                outbound_run.kind,
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
                session.epoch,
                session.incarnation,
                outgoing.floor,
                outgoing.next,
                [run],
                acknowledged,
                extracted,
            )
        relay.send_at_once(outbound_run)
        if whole:
            acks.on_acknowledged(task, acknowledged, extracted)
        return frame

    # Receiving.

    def receive(
        self,
        data: bytes,
        now: float,
        todo: deque[Action],
        *,
        answers_only: bool = False,
    ) -> bool:
        """Accept a frame from the link; append the action for its message to `todo`.

        False if the frame must be read in the usual way; then nothing has changed.

        answers_only: accept no commands. After an interrupt a message may be delivered
          a second time, which is harmless only for an answer.
        """
        batch = decode_single(data)
        session, peer, acks = self._session, self.peer, self._acks
        horizons, has = self._remote.topology.horizons, acks.received
        if (
            batch is None
            or session.link != self.link
            or not session.ready
            or batch.epoch != session.their_epoch
            or batch.incarnation != session.own
            # A frame that arrived before, over another link, stops here (AMO-7).
            or batch.first != has.next
            or has.missing
            or peer.unresponsive
            # Otherwise a horizon must be stored first (AMO-20), by an action of a
            # round.
            or not (
                horizons is None or horizons.covers(peer.name, batch.epoch, batch.first)
            )
        ):
            return False
        [run] = batch.runs
        kind = run.kind
        if kind is Kind.NOTIFICATION:
            return not answers_only and self._notified(batch, now, todo)
        answers = kind is Kind.COMMAND_RESPONSE
        ends = self._ends
        if (
            ends is None
            or ends.revision != self._remote.manager.revision
            or ends.source != run.source
            or ends.to != run.to
        ):
            ends = self._ends = self._new_ends(run)
        if (
            ends is None
            or not (answers or (kind is Kind.COMMAND and not answers_only))
            or run.mid
            or run.flags & FAILED
            or (acked := self._acked_by(batch, ends.relay)) is None
            # Earlier messages for the task are not extracted yet.
            or (answers and ends.receipts.unread)
        ):
            return False
        try:
            if run.flags & LEASED:
                # Last, after all reasons to refuse: the end of this view would end the
                # lease of a message that is read again in the usual way.
                found = self._bodies.resolve_body(self.link, batch)
                assert isinstance(found, Batch)
                [run] = found.runs
            [body] = run.bodies
            payload: Payload = body if run.flags & RAW else decode(body)
        except WireError:
            return False
        first, relay = batch.first, ends.relay
        # If an interrupt comes before the last line, the link is dropped, and the peer
        # resends the frame on the next link. All steps may be repeated.
        action: Action
        if answers:
            asker, source = ends.target, relay.entry.address
            action = Answer(asker, run.id, source, payload)
            todo.append(action)
            # First: a request that is answered needs no deadline once it is extracted.
            relay.on_answer(asker, run.id)
        if acked[0]:
            session.outgoing.acknowledge_all()
        if acked[1]:
            relay.on_all_extracted()
        if answers:
            ends.receipts.extracted = first
            acks.on_extracted(run.to, first, now, len(body))
        else:
            action = _command_in(run, first, ends, payload, now)
        peer.received_at = now
        acks.on_received(Acknowledgement(first + 1))
        ends.stream.next = first + 1
        if not answers:
            # Not before: after an error, the peer sends the command again, which is
            # then refused (AMO-7). No interrupt comes here: the main thread accepts no
            # commands.
            todo.append(action)
        return True

    def _notified(self, batch: Batch, now: float, todo: deque[Action]) -> bool:
        """Accept a notification; append the actions for its subscribers to `todo`."""
        [run] = batch.runs
        notifier = self._notifier
        if (
            notifier is None
            or notifier.revision != self._remote.manager.revision
            or notifier.source != run.source
        ):
            notifier = self._notifier = self._new_notifier(run.source)
        if (
            notifier is None
            or run.to != AUDIENCE
            or run.mid
            or run.flags & ~RAW
            or (acked := self._acked_by(batch, notifier.relay)) is None
        ):
            return False
        relay, [body] = notifier.relay, run.bodies
        try:
            payload = body if run.flags & RAW else decode(body)
        except WireError:
            return False
        posts = [
            Post(
                each.entry,
                [
                    Incoming(
                        Kind.NOTIFICATION,
                        own_copy(payload) if at else payload,
                        subscriptions=each.subscriptions,
                        gap=relay.gap,
                        _source=relay.entry,
                        _id=run.id,
                        _to=each.entry,
                        _size=len(body),
                    )
                ],
            )
            for at, each in enumerate(notifier.audience)
        ]
        if acked[0]:
            self._session.outgoing.acknowledge_all()
        if acked[1]:
            relay.on_all_extracted()
        self.peer.received_at = now
        self._acks.on_received(Acknowledgement(batch.first + 1))
        notifier.stream.next = batch.first + 1
        self._acks.on_extracted(AUDIENCE, batch.first, now, len(body))
        self._acks.check_rarely()
        relay.gap = 0
        todo += posts
        return True

    def _new_notifier(self, source: int) -> _Notifier | None:
        """Look up the sender of a notification, and its subscribers here."""
        peer, remote = self.peer, self._remote
        relay, epoch = peer.relays.get(source), peer.session.their_epoch
        if relay is None or epoch is None:
            return None
        if relay.provisional or relay.state is RelayState.SUPERSEDED:
            return None  # an acknowledgement in its frame may change that
        audience = remote.relays.audience(relay)
        stream = remote.inbound_messages.stream(peer, epoch)
        if not audience or stream is None:
            return None
        return _Notifier(remote.manager.revision, source, relay, audience, stream)

    def _new_ends(self, run: Run) -> _Ends | None:
        """Look up the sender and the receiver of a run."""
        peer, remote = self.peer, self._remote
        relay = peer.relays.get(run.source)
        target = remote.relays.task(run.to)
        epoch = peer.session.their_epoch
        if relay is None or target is None or epoch is None or not peer.rights.whole:
            return None
        if relay.provisional or relay.state is RelayState.SUPERSEDED:
            return None
        if isinstance(target, Proxy):
            return None
        stream = remote.inbound_messages.stream(peer, epoch)
        if stream is None:
            return None
        return _Ends(
            remote.manager.revision,
            run.source,
            run.to,
            relay,
            target,
            stream,
            Receipt(peer, epoch, run.to),
            peer.receipts(target),
        )

    def _acked_by(self, batch: Batch, relay: Relay) -> tuple[bool, bool] | None:
        """Return whether a frame acknowledges the stream, and the messages of a relay.

        Each of the two as a whole, or nothing of it. None if the frame acknowledges a
        part, or frees room for which a message waits.
        """
        outgoing, unacked = self._session.outgoing, relay.unacked
        stop = batch.acknowledged + 1
        stream = stop > outgoing.floor
        if stream and (stop != outgoing.next or self.peer.waiting):
            return None
        if not unacked or unacked[0][0] > batch.extracted:
            return stream, False
        last, outbound_run = unacked[-1]
        if last + len(outbound_run.bodies) != batch.extracted + 1 or self.peer.waiting:
            return None
        return stream, True


def _command_in(
    run: Run, number: int, ends: _Ends, payload: Payload, now: float
) -> Post:
    """Account for a received command; return the action that delivers it."""
    left = run.milliseconds_left
    command = Incoming(
        Kind.COMMAND,
        payload,
        None,
        ends.relay.entry,
        ends.target,
        None,
        len(run.bodies[0]),
        None if left == NO_DEADLINE else now + left / 1000,
        ends.receipt,
        number,
        run.id,
        wants_reply=bool(run.flags & WANTS_REPLY),
    )
    ends.relay.users.add(ends.target)
    ends.receipts.expect(number)
    return Post(ends.target, [command])
