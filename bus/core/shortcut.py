"""`Shortcut`: a question and its answer that go over a link before they are booked.

Whoever waits for an answer can put the question on the link itself, and take the
answer from it, while nothing else goes on there. What the books of this process have to
know of both, by which all is decided (streams, relays, receipts), is entered later, for
many at once, and always before anything is decided. So the books together with what is
not entered yet are what they would be otherwise, and nothing but time is saved.

Only the simplest case goes this way: of all that could make a difference nothing is
under way, and a message that is not plain goes, or is read, as any other. Like all of
this package it decides and does nothing else.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from bus.core.actions import Post, Reply
from bus.core.arriving import unpacked
from bus.core.parcel import packed
from bus.core.receipts import Receipt
from bus.core.relay import Relay, RelayState
from bus.core.session import milliseconds_left
from bus.core.wire import (
    FAILED,
    NO_DEADLINE,
    WANTS_REPLY,
    Batch,
    Run,
    decode_lone,
    encode_lone,
)
from bus.errors import WireError
from bus.message import Incoming, Kind

if TYPE_CHECKING:
    from bus.core.actions import Action
    from bus.core.neighbourhood import Neighbourhood
    from bus.core.peer import Peer
    from bus.core.routing_table import Entry
    from bus.payload import Payload

__all__ = ["Shortcut"]

_BODY_MAX: Final = 64 * 2**10  # what is longer costs more than the books do
_ENTRIES_MAX: Final = 64  # so that to enter them keeps nobody waiting for long


@attrs.frozen(eq=False)
class _Answered:
    """That a task has answered what came from another process."""

    question: Incoming
    payload: Payload


# What went, or came, and is not entered yet.
_Entry: TypeAlias = "Incoming | _Answered | Batch"


class Shortcut:
    """The short way to one other process, over one link; gone when that is.

    Every method is called as those of the `Neighbourhood` are, one at a time.

    Attributes:
        peer, link: where it leads.

    Invariants:
    I1. what is not entered has the numbers that follow those in the books, each way.
    I2. to enter it puts nothing on a link, and gives nobody anything to do.
    """

    __slots__ = ("_came", "_length", "_remote", "_sent", "_unentered", "link", "peer")

    def __init__(self, remote: Neighbourhood, peer: Peer, link: int) -> None:
        self._remote: Final = remote
        self.peer: Final = peer
        self.link: Final = link
        self._unentered: Final[deque[_Entry]] = deque()
        # Of these: how many went, how long they were together, and how many came.
        self._sent = self._length = self._came = 0

    def __len__(self) -> int:
        """How much is not entered."""
        return len(self._unentered)

    @property
    def stands(self) -> bool:
        """Whether the link is still the one that leads there."""
        return self.peer.session.link == self.link

    # What goes.

    def ask(self, question: Incoming, now: float) -> bytes | None:
        """Return the frame of a question, to be put on the link at once.

        None if it is to be posted as any other; then nothing has happened.
        """
        relay: Relay = question._to.box
        source: Entry = question._source
        if (
            not question.wants_reply
            or question._trace is not None
            or relay.state is not RelayState.NAMED  # it is elsewhere by now
            or source.address.bus != relay.entry.address.bus  # no answer could come
            or source not in relay.users  # so it has not left, and this was told of it
        ):
            return None
        flags, body = packed(question.payload)
        if not self._is_free(relay, source, len(body)):
            return None
        left = milliseconds_left(question._deadline, now)
        frame = self._frame(
            relay, source, Kind.COMMAND, flags | WANTS_REPLY, question._id, left, body
        )
        self._note(question, len(body))
        return frame

    def answer(self, question: Incoming, payload: Payload) -> bytes | None:
        """Return the frame of an answer to what came from there; as `ask`."""
        relay: Relay = question._source.box
        source: Entry = question._to
        if (
            question.kind is not Kind.COMMAND
            or question._trace is not None
            or source not in self._remote.manager.table
        ):
            return None
        flags, body = packed(payload)
        if not self._is_free(relay, source, len(body)):
            return None
        frame = self._frame(
            relay,
            source,
            Kind.COMMAND_RESPONSE,
            flags,
            question._id,
            NO_DEADLINE,
            body,
        )
        self._note(_Answered(question, payload), len(body))
        return frame

    def _note(self, sent: Incoming | _Answered, size: int) -> None:
        # No call: an interrupt finds all of it or nothing.
        entries = self._unentered
        entries += (sent,)
        self._sent += 1
        self._length += size

    def _is_free(self, relay: Relay, source: Entry, size: int) -> bool:
        """Whether a message would be put on the link at once, and nothing else."""
        peer, limits = self.peer, relay.limits
        return (
            self.stands
            and peer.session.room > self._sent
            and not peer.session.speaks
            and len(self._unentered) < _ENTRIES_MAX
            and size <= _BODY_MAX
            and peer.relays.get(relay.number) is relay
            and relay.opened
            and not relay.queue
            and not peer.notifying
            and source.relay in peer.announced
            and not peer.is_leaving(source.relay)
            # As if all that is not entered were for this relay.
            and relay.under_way + self._sent < limits.window
            and relay.unacked_bytes + self._length + size <= limits.window_bytes
        )

    def _frame(
        self,
        relay: Relay,
        source: Entry,
        kind: Kind,
        flags: int,
        id_: int,
        left: int,
        body: bytes,
    ) -> bytes:
        session = self.peer.session
        number = session.outgoing.next + self._sent
        run = Run(relay.number, source.relay, kind, flags, id_, left, 0, (body,))
        batch = Batch(
            session.epoch, session.incarnation, session.outgoing.floor, number, (run,)
        )
        return encode_lone(batch)

    # What comes.

    def came(
        self,
        data: bytes,
        now: float,
        todo: deque[Action],
        *,
        answers_only: bool = False,
    ) -> bool:
        """Take a frame from the link; what is to be done with its message joins todo.

        False if it is to be read as any other; then nothing has happened.

        answers_only: take no commands: whoever is struck as it does what is to be done
          may not know whether that is done, and only to give an answer twice is
          harmless.
        """
        found = self._read(data, now)
        if found is None:
            return False
        batch, action = found
        if answers_only and type(action) is not Reply:
            return False
        # No call from here on: an interrupt finds all of it or nothing.
        entries = self._unentered
        entries += (batch,)
        self._came += 1
        todo += (action,)
        return True

    def _read(self, data: bytes, now: float) -> tuple[Batch, Post | Reply] | None:
        batch, session = decode_lone(data), self.peer.session
        if (
            batch is None
            or not self.stands
            or len(self._unentered) >= _ENTRIES_MAX
            or not session.expects(batch, ahead=self._came)
            or not self.peer.rights.whole
        ):
            return None
        run = batch.runs[0]
        relay = self.peer.relays.get(run.source)
        target = self._remote.relays.task(run.to)
        if relay is None or target is None or run.mid or run.flags & FAILED:
            return None
        try:
            payload = unpacked(run, run.bodies[0])
        except WireError:
            return None
        action: Post | Reply
        if run.kind is Kind.COMMAND_RESPONSE:
            action = Reply(
                target, run.id, relay.entry.address, payload, None, final=True
            )
        elif run.kind is Kind.COMMAND:
            action = Post(target, [self._command(batch, relay, target, payload, now)])
        else:
            return None
        return batch, action

    def _command(
        self, batch: Batch, relay: Relay, target: Entry, payload: Payload, now: float
    ) -> Incoming:
        run = batch.runs[0]
        left = run.milliseconds_left
        return Incoming(
            Kind.COMMAND,
            payload,
            None,
            relay.entry,
            target,
            None,
            len(run.bodies[0]),
            None if left == NO_DEADLINE else now + left / 1000,
            Receipt(self.peer, batch.epoch, run.to),
            batch.first,
            run.id,
            wants_reply=bool(run.flags & WANTS_REPLY),
        )

    # The books.

    def enter(self, now: float) -> None:
        """Enter all that is not entered, in order; it happened as it would have."""
        remote, peer, sent = self._remote, self.peer, self._sent
        self._sent = self._length = self._came = 0
        todo = remote.neighbours.todo
        before = len(todo)
        while self._unentered:
            match self._unentered.popleft():
                case Incoming() as question:
                    remote.correspondence.post(question._to, [question])
                case _Answered(question, payload):
                    remote.correspondence.answer(question, payload=payload)
                case Batch() as batch:
                    remote.keep_alive.heard(peer, now)
                    remote.intake.arrived(peer, batch, now)
        del todo[before:]
        if sent:  # and so there was nothing else to be said
            peer.session.has_sent(sent)
