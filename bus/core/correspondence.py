"""`Correspondence`: messages to tasks of other processes, and from them.

Whatever happens to a link or to a process, each message is in one place here: parked,
in the queue of a relay, under way, or with the task it is for. What was never put on
a link is sent elsewhere; what was, and was not taken, is sent elsewhere if its
addressee left in order and said what it took (BUS-DEREG-4), and is in doubt if its
process is lost (BUS-MOVE-8).
"""

from __future__ import annotations

import itertools
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bus.core.actions import Fail, Post, Reply
from bus.core.incoming_streams import IncomingStreams, Refusal
from bus.core.receipts import Receipt
from bus.core.relay import AUDIENCE, Parcel, Relay
from bus.core.wire import (
    FAILED,
    NO_DEADLINE,
    WANTS_REPLY,
    Ack,
    Message,
    Unrelay,
)
from bus.errors import (
    BusFullError,
    ExpiredError,
    InDoubtError,
    PeerLostError,
    RemoteError,
    UnreachableError,
    WireError,
)
from bus.message import Incoming, Kind
from bus.payload import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bus.core.actions import Action
    from bus.core.neighbours import Neighbours
    from bus.core.peer import Peer
    from bus.core.process_manager import ProcessManager
    from bus.core.relays import Relays
    from bus.core.routing_table import Entry
    from bus.core.wire import Batch, OpenStream
    from bus.errors import BusError
    from bus.payload import Payload

__all__ = ["Correspondence"]

_RECEIPT: Final = attrgetter("_receipt")
_NUMBER: Final = attrgetter("_number")


class Correspondence:
    """All messages between this process and others.

    strays: messages that came for, or from, a task that had left.
    """

    __slots__ = (
        "_books",
        "_manager",
        "_neighbours",
        "_relays",
        "_streams",
        "_turns",
        "strays",
    )

    def __init__(
        self, neighbours: Neighbours, manager: ProcessManager, relays: Relays
    ) -> None:
        limits = neighbours.limits
        self._neighbours: Final = neighbours
        self._manager: Final = manager
        self._relays: Final = relays
        self._books: Final = relays.books
        self._streams: Final[IncomingStreams[tuple[int, Message]]] = IncomingStreams(
            neighbours.me.incarnation,
            window=limits.stream_window,
            ranges_max=limits.missing_ranges,
            life_s=limits.message_life_s,
            ended_max=limits.ended_streams,
        )
        self._turns = itertools.count(1)
        self.strays: int = 0

    # What tasks of this process send.

    def post(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        """Send commands to a relay; what it has no room for fails (BUS-FLOW-1)."""
        relay: Relay = entry.box
        limit = self._neighbours.limits.relay_queue
        at = 0
        while at < len(messages):
            room = limit - len(relay.queue)
            if room <= 0:
                error = BusFullError(f"the relay of {entry.name!r}", limit)
                if entry.overflow != "drop-oldest":
                    self._fail(messages[at:], error)
                    return
                oldest = relay.drop_oldest_command()
                self._books.failed += len(oldest)
                self._fail(oldest, error)
                room = 1
            # Of one sender, and no more than fits: the next may be let through by then.
            source = messages[at]._source
            end = min(len(messages), at + room)
            stop = at + 1
            while stop < end and messages[stop]._source is source:
                stop += 1
            run = messages[at:stop]
            self._books.posted += len(run)
            parcels = self._parcels(relay, source, run)
            relay.append(parcels)
            self._see_off(relay, parcels)
            relay.pump()
            at = stop

    def open(self, entry: Entry, messages: Iterable[Incoming]) -> None:
        """Let a relay send: first what waited for its name."""
        relay: Relay = entry.box
        parcels = [
            parcel
            for message in messages
            for parcel in self._parcels(relay, message._source, [message])
        ]
        # What has come meanwhile keeps its turn, and what goes before it needs one as
        # early: else each would wait for the other, and a notification in between.
        turns = {each.relay: each.turn for each in reversed(relay.queue)}
        if turns:
            parcels = [
                replace(each, turn=turns.get(each.relay, each.turn)) for each in parcels
            ]
        self._books.posted += len(parcels)
        relay.open(parcels)
        self._see_off(relay, parcels)
        relay.pump()

    def answer(
        self,
        question: Incoming,
        *,
        payload: Payload = None,
        error: str | None = None,
    ) -> bool:
        """Send the answer to what came over a link; False if nobody wants it."""
        relay: Relay = question._source.box
        if relay.peer.relays.get(relay.number) is not relay:
            return False
        command = question.kind is Kind.COMMAND
        source = self._relays.known(question._to)
        parcel = Parcel(
            kind=Kind.COMMAND_RESPONSE if command else Kind.NOTIFICATION_RESPONSE,
            source=source,
            relay=source.relay,
            id=question._id,
            flags=0 if error is None else FAILED,
            turn=next(self._turns),
            deadline=None,
            body=encode(payload if error is None else error),
        )
        relay.append((parcel,))
        relay.pump()
        return True

    def notify(
        self, hearers: Iterable[Peer], source: Entry, payload: Payload, question: int
    ) -> None:
        """Send a notification to each process that hears its sender, once.

        question: which of the sender's waits an answer belongs to; 0 for none.
        """
        parcel = Parcel(
            kind=Kind.NOTIFICATION,
            source=source,
            relay=self._relays.known(source).relay,
            id=question,
            flags=WANTS_REPLY if question else 0,
            turn=next(self._turns),
            deadline=None,
            body=encode(payload),
        )
        for peer in hearers:
            if len(peer.audience.queue) >= self._neighbours.limits.relay_queue:
                peer.audience.drop_oldest()  # (BUS-FLOW-3)
            peer.audience.append((parcel,))
            peer.audience.pump()

    def _parcels(
        self, relay: Relay, source: Entry, messages: Iterable[Incoming]
    ) -> list[Parcel]:
        """Pack commands of one task."""
        if source in self._manager.table:
            number = self._relays.known(source).relay
        else:
            # It has left, and its number with it.
            number = relay.peer.stray(source, self._relays.new_number)
        command, turns = Kind.COMMAND, self._turns
        return [
            Parcel(  # by position, which is quicker; the order is that of the class
                command,
                source,
                number,
                message._id,
                WANTS_REPLY if message.wants_reply else 0,
                next(turns),
                message._deadline,
                encode(message.payload),
                message,
            )
            for message in messages
        ]

    def _see_off(self, relay: Relay, parcels: Iterable[Parcel]) -> None:
        """Let no relay stay of senders that have left, once this was sent."""
        for parcel in parcels:
            if parcel.source not in self._manager.table:
                relay.peer.farewell(parcel.relay, final=False)

    # What comes over links.

    def opened(self, peer: Peer, frame: OpenStream) -> None:
        """Go on with a process over a new link; it is what it was before."""
        sender = "/".join(peer.key)
        opened = self._streams.open(sender, frame.epoch, frame.first)
        if opened.refusal is not None:
            raise WireError(f"OPEN_STREAM of an old epoch: {frame.epoch}")
        peer.session.open(frame, opened.has)
        peer.bound = True
        self.pump(peer)

    def arrived(self, peer: Peer, batch: Batch, now: float) -> None:
        """Take messages; each that is new goes to whom it is for."""
        session, sender = peer.session, "/".join(peer.key)
        if batch.epoch != session.their_epoch:
            raise WireError(f"MSG of epoch {batch.epoch}, open: {session.their_epoch}")
        run = list(enumerate(batch.messages, batch.first))
        accepted = self._streams.accept(
            sender, batch.epoch, batch.incarnation, batch.first, run, batch.floor
        )
        if isinstance(accepted, Refusal):
            raise WireError(f"MSG is refused: {accepted.value}")
        session.received(self._streams.acknowledgement(sender))
        if len(accepted) < len(run):
            session.repeat_ack()
        # Mostly they are commands of one task for another, one after the other: who
        # these are is looked up where that changes.
        kind, to, by, commands = Kind.COMMAND, AUDIENCE, AUDIENCE, None
        for number, message in accepted:
            if message.kind is not kind:
                commands = None
                self._deliver(peer, number, message, now)
                continue
            if commands is None or message.to != to or message.source != by:
                to, by = message.to, message.source
                commands = self._commands(peer, message)
            if commands is not None:
                commands.add(number, message, now)

    def _commands(self, peer: Peer, message: Message) -> _Commands | None:
        """Begin to deliver commands as this one; None if nobody is to get it."""
        ends = self._ends(peer, message)
        if ends is None:
            return None
        relay, target = ends
        todo = self._neighbours.todo
        last = todo[-1] if todo else None
        if not isinstance(last, Post) or last.entry is not target:
            last = Post(target, [])
        receipt = Receipt(peer, peer.session.their_epoch, message.to)
        expect = peer.receipts(target).expect
        return _Commands(relay.entry, last, receipt, expect, todo)

    def _ends(self, peer: Peer, message: Message) -> tuple[Relay, Entry] | None:
        """Return what stands for the sender of a message, and whom it is for."""
        if message.to == AUDIENCE:
            raise WireError(f"MSG has a {message.kind.name} for relay {message.to}")
        relay = peer.relays.get(message.source)
        target = self._relays.task(message.to)
        if target is None or relay is None:
            self.strays += 1
            if target is None and not peer.is_told(message.to):
                # It left before this session, in which it has taken nothing.
                peer.session.tell(Unrelay(relay=message.to, extracted=0))
            return None
        relay.users.add(target)
        return relay, target

    def _deliver(self, peer: Peer, number: int, message: Message, now: float) -> None:
        """Deliver what is no command."""
        if message.kind is Kind.NOTIFICATION:
            if message.to != AUDIENCE:
                raise WireError(f"MSG has a NOTIFICATION for relay {message.to}")
            self._notify(peer, number, message, peer.relays.get(message.source), now)
            return
        ends = self._ends(peer, message)
        if ends is None:
            return
        relay, target = ends
        source: Entry = relay.entry
        payload = decode(message.body)
        peer.receipts(target).expect(number)
        peer.took(message.to, (number,), now)
        final = message.kind is Kind.COMMAND_RESPONSE
        if final:
            relay.answered(target, message.id)
        failed = bool(message.flags & FAILED)
        error = RemoteError(source.address.module, str(payload)) if failed else None
        self._neighbours.todo.append(
            Reply(
                target,
                message.id,
                source.address,
                None if failed else payload,
                error,
                final,
            )
        )

    def _notify(
        self, peer: Peer, number: int, message: Message, relay: Relay | None, now: float
    ) -> None:
        """Give a notification to all who hear its sender here (BUS-RELAY-7)."""
        peer.session.took(AUDIENCE, number, now)
        if relay is None:
            self.strays += 1
            return
        payload = decode(message.body)
        for each in self._relays.audience(relay):
            incoming = Incoming(
                kind=Kind.NOTIFICATION,
                payload=payload,
                subscriptions=each.subscriptions,
                wants_reply=bool(message.flags & WANTS_REPLY),
                _source=relay.entry,
                _id=message.id,
                _to=each.entry,
                _size=len(message.body),
            )
            self._neighbours.todo.append(Post(each.entry, [incoming]))

    def acknowledged(self, peer: Peer, ack: Ack) -> None:
        """Forget what came, and what was taken; send what that makes room for."""
        if ack.epoch != peer.session.epoch:
            return
        peer.session.acknowledged(ack)
        for number, extracted in ack.extracted:
            if number == AUDIENCE:
                peer.audience.extracted(extracted)
            elif (relay := peer.relays.get(number)) is not None:
                relay.provisional = False  # it has taken something
                self._books.taken += relay.extracted(extracted)
                self._relays.drained(relay)
        self.pump(peer)

    def extracted(self, messages: Iterable[Incoming], now: float) -> None:
        """Note that tasks took, or dropped, what came over links (BUS-RELAY-9)."""
        for receipt, taken in groupby(messages, _RECEIPT):
            peer: Peer = receipt.peer
            if receipt.epoch == peer.session.their_epoch:
                peer.took(receipt.relay, map(_NUMBER, taken), now)

    def pump(self, peer: Peer) -> None:
        """Put on the link whatever may be."""
        while True:
            notifications = len(peer.audience.queue)
            for relay in peer.all_relays():
                if relay.queue:
                    relay.pump()
            if len(peer.audience.queue) == notifications:
                return  # else what waited for them may go on

    # Departures.

    def unrelay(self, peer: Peer, frame: Unrelay) -> None:
        """Release the relay of a task that left in order (BUS-DEREG-4).

        Some of what the task sent may still come: that needs the relay for a while.
        """
        depart = peer.relays.get if frame.more else peer.depart
        relay = depart(frame.relay)
        if relay is None:
            return
        self._books.taken += relay.extracted(frame.extracted)
        again = [*relay.take_unacked(), *relay.take_unsent()]
        self._relays.release(relay, again, final=frame.final)

    def left(self, task: Entry, *, final: bool) -> None:
        """Say to all that a task of this process left, and what it took."""
        if task.relay:
            self._relays.forget_task(task)
            for peer in self._neighbours.peers.values():
                peer.farewell(task.relay, final=final)
                for relay in peer.all_relays():
                    relay.left(task)

    def lose(self, peer: Peer, now: float) -> None:
        """Give a process up, or know that it is another one now (BUS-MOVE-8)."""
        self._streams.end("/".join(peer.key), now)
        for relay in list(peer.relays.values()):
            name = relay.entry.name
            doubtful = relay.take_unacked()
            self._books.in_doubt += len(doubtful)
            asked = list(relay.asked.values())
            self._fail(doubtful, InDoubtError(name))
            self._fail(asked, PeerLostError(name))
            relay.asked.clear()
            self._relays.release(relay, relay.take_unsent(), final=False)
        peer.forget()

    def unreachable(self, peer: Peer) -> None:
        """Fail what waits for a process to which no link can be made."""
        for relay in peer.relays.values():
            unsent = relay.take_unsent()
            self._books.failed += len(unsent)
            error = UnreachableError(relay.entry.name, "no process answers")
            self._fail(unsent, error)

    def close(self, peer: Peer) -> None:
        """Let go of relays that nothing needs, along with the link (BUS-DEREG-5)."""
        for relay in list(peer.relays.values()):
            self._relays.release(relay, relay.take_unsent(), final=False)
        peer.forget()

    # Time.

    def next_deadline(self) -> float | None:
        """Return when something of streams that ended is to be forgotten."""
        return self._streams.next_deadline()

    def expire(self, now: float) -> None:
        """Give up what waited in a relay for too long."""
        self._streams.expire(now)
        for peer in self._neighbours.peers.values():
            for relay in list(peer.relays.values()):
                late = relay.expire(now)
                self._books.failed += len(late)
                self._fail(late, ExpiredError(relay.entry.name))
                at = self._relays.forgotten_at(relay)
                if at is not None and at <= now:
                    del peer.relays[relay.number]
                    self._relays.release(relay, [], final=False)

    def _fail(self, messages: Iterable[Incoming], error: BusError) -> None:
        self._neighbours.todo += [Fail(each, error) for each in messages]


class _Commands:
    """Commands that came one after the other from one task for another one.

    They join ``post``, which is to be done as soon as there is one.
    """

    __slots__ = ("_expect", "_post", "_receipt", "_source", "_todo")

    def __init__(
        self,
        source: Entry,
        post: Post,
        receipt: Receipt,
        expect: Callable[[int], object],
        todo: list[Action],
    ) -> None:
        self._source: Final = source
        self._post: Final = post
        self._receipt: Final = receipt
        self._expect: Final = expect
        self._todo: Final = todo

    def add(self, number: int, message: Message, now: float) -> None:
        """Note one that came.

        Raises:
            WireError: its body is no payload.
        """
        left, body = message.milliseconds_left, message.body
        incoming = Incoming(
            kind=Kind.COMMAND,
            payload=decode(body),
            wants_reply=bool(message.flags & WANTS_REPLY),
            _source=self._source,
            _id=message.id,
            _to=self._post.entry,
            _size=len(body),
            _deadline=None if left == NO_DEADLINE else now + left / 1000,
            _receipt=self._receipt,
            _number=number,
        )
        self._expect(number)
        if not self._post.messages:
            self._todo.append(self._post)
        self._post.messages.append(incoming)
