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
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

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
    from collections.abc import Iterable, Iterator, Sequence

    from bus.core.actions import Action
    from bus.core.correspondence import Correspondence
    from bus.core.neighbourhood import Neighbourhood
    from bus.core.peer import Peer
    from bus.core.routing_table import Entry
    from bus.payload import Payload

__all__ = ["Shortcut"]

_BODY_MAX: Final = 64 * 2**10  # what is longer costs more than the books do
_ENTRIES_MAX: Final = 256  # so that to enter them keeps nobody waiting for long


class _Answered(Struct, frozen=True, eq=False):
    """That a task has answered what came from another process."""

    question: Incoming
    payload: Payload


# What went, or came, and is not entered yet.
_Entry: TypeAlias = "Incoming | _Answered | Batch"


class _Leave(Struct, frozen=True, eq=False):
    """That a task may send to another one at once, until anything is decided.

    kind: of what it sends. messages, length: how much, all that is not entered counted;
      longest: how long each may be.
    epoch, incarnation, floor, first: of the stream, as it is in the books.
    """

    relay: Relay
    source: Entry
    kind: Kind
    messages: int
    length: int
    longest: int
    epoch: int
    incarnation: int
    floor: int
    first: int


class _Ends(Struct, frozen=True, eq=False):
    """Who sends to whom, by their numbers on the link, until anything is decided."""

    source: int
    to: int
    relay: Relay
    target: Entry
    receipt: Receipt


class Shortcut:
    """The short way to one other process, over one link; gone when that is.

    Every method is called as those of the `Neighbourhood` are, one at a time.

    Attributes:
        peer, link: where it leads.

    Invariants:
    I1. what is not entered has the numbers that follow those in the books, each way.
    I2. to enter it puts nothing on a link, and gives nobody anything to do.
    I3. what ``_leave`` and ``_ends`` say holds: whatever may change it is decided, and
        before that all is entered.
    """

    __slots__ = (
        "_came",
        "_ends",
        "_leave",
        "_length",
        "_remote",
        "_sent",
        "_unentered",
        "link",
        "peer",
    )

    def __init__(self, remote: Neighbourhood, peer: Peer, link: int) -> None:
        self._remote: Final = remote
        self.peer: Final = peer
        self.link: Final = link
        self._unentered: Final[deque[_Entry]] = deque()
        # Of these: how many went, how long they were together, and how many came.
        self._sent = self._length = self._came = 0
        # What was sent last may be sent again; None if that is to be looked at.
        self._leave: _Leave | None = None
        # Of what came last; likewise.
        self._ends: _Ends | None = None

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
        if not question.wants_reply or question._trace is not None:
            return None
        flags, body = packed(question.payload)
        relay: Relay = question._to.box
        leave = self._leave_for(relay, question._source, Kind.COMMAND, len(body))
        if leave is None:
            return None
        left = milliseconds_left(question._deadline, now)
        frame = self._frame(leave, flags | WANTS_REPLY, question._id, left, body)
        self._note(question, len(body))
        return frame

    def answer(self, question: Incoming, payload: Payload) -> bytes | None:
        """Return the frame of an answer to what came from there; as `ask`."""
        if question.kind is not Kind.COMMAND or question._trace is not None:
            return None
        flags, body = packed(payload)
        relay: Relay = question._source.box
        leave = self._leave_for(relay, question._to, Kind.COMMAND_RESPONSE, len(body))
        if leave is None:
            return None
        frame = self._frame(leave, flags, question._id, NO_DEADLINE, body)
        self._note(_Answered(question, payload), len(body))
        return frame

    def _note(self, sent: Incoming | _Answered, size: int) -> None:
        # No call: an interrupt finds all of it or nothing.
        entries = self._unentered
        entries += (sent,)
        self._sent += 1
        self._length += size

    def _leave_for(
        self, relay: Relay, source: Entry, kind: Kind, size: int
    ) -> _Leave | None:
        """Return the leave by which a message goes at once; None if it may not."""
        leave = self._leave
        if (
            leave is None
            or leave.relay is not relay
            or leave.source is not source
            or leave.kind is not kind
        ):
            leave = self._leave = self._new_leave(relay, source, kind)
        if (
            leave is None
            or self._sent >= leave.messages
            or self._length + size > leave.length
            or len(self._unentered) >= _ENTRIES_MAX
            or size > leave.longest
        ):
            return None
        return leave

    def _new_leave(self, relay: Relay, source: Entry, kind: Kind) -> _Leave | None:
        """Return leave to send if that puts a message on the link, and nothing else."""
        peer, limits = self.peer, relay.limits
        session = peer.session
        if not (
            self.stands
            and not session.speaks
            and peer.relays.get(relay.number) is relay
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
        outgoing = session.outgoing
        # As if all that is not entered were for this relay.
        return _Leave(
            relay,
            source,
            kind,
            min(session.room, limits.window - relay.under_way),
            limits.window_bytes - relay.unacked_bytes,
            min(_BODY_MAX, peer.message_bytes_max),
            session.epoch,
            session.incarnation,
            outgoing.floor,
            outgoing.next,
        )

    def _frame(
        self, leave: _Leave, flags: int, id_: int, left: int, body: bytes
    ) -> bytes:
        return encode_lone(
            leave.epoch,
            leave.incarnation,
            leave.floor,
            leave.first + self._sent,
            leave.relay.number,
            leave.source.relay,
            leave.kind,
            flags,
            id_,
            left,
            body,
        )

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
        ):
            return None
        run = batch.runs[0]
        ends = self._ends
        if ends is None or ends.source != run.source or ends.to != run.to:
            ends = self._ends = self._new_ends(run)
        if ends is None or run.mid or run.flags & FAILED:
            return None
        try:
            payload = unpacked(run, run.bodies[0])
        except WireError:
            return None
        action: Post | Reply
        if run.kind is Kind.COMMAND_RESPONSE:
            address = ends.relay.entry.address
            action = Reply(ends.target, run.id, address, payload, None, final=True)
        elif run.kind is Kind.COMMAND:
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
                batch.first,
                run.id,
                wants_reply=bool(run.flags & WANTS_REPLY),
            )
            action = Post(ends.target, [command])
        else:
            return None
        return batch, action

    def _new_ends(self, run: Run) -> _Ends | None:
        """Look up who has sent something, and whom it is for."""
        peer = self.peer
        relay = peer.relays.get(run.source)
        target = self._remote.relays.task(run.to)
        epoch = peer.session.their_epoch
        if relay is None or target is None or epoch is None or not peer.rights.whole:
            return None
        receipt = Receipt(peer, epoch, run.to)
        return _Ends(run.source, run.to, relay, target, receipt)

    # The books.

    def enter(self, now: float) -> None:
        """Enter all that is not entered; it happened as it would have.

        What goes each way is entered in order, and as one where it can be: most of what
        an entry costs is the same for many. What went goes before what came after the
        first of it: an answer that came finds its question, and one that went needs
        nothing of what came.
        """
        self._leave = self._ends = None
        if not self._unentered:
            return
        remote, peer, sent = self._remote, self.peer, self._sent
        entries = list(self._unentered)
        self._unentered.clear()
        self._sent = self._length = self._came = 0
        todo = remote.neighbours.todo
        waiting = todo.copy()
        todo.clear()  # else what is entered might join it
        before = list(takewhile(_came, entries))
        self._enter_came(before, now)
        for _, some in groupby(_went(entries), key=_way_of):
            _enter_sent(remote.correspondence, list(some))
        self._enter_came(entries[len(before) :], now)
        todo[:] = waiting
        if sent:  # and so there was nothing else to be said
            peer.session.has_sent(sent)

    def _enter_came(self, entries: Iterable[_Entry], now: float) -> None:
        batches = [each for each in entries if isinstance(each, Batch)]
        if batches:
            self._remote.keep_alive.heard(self.peer, now)
        for batch in _joined(batches):
            self._remote.intake.arrived(self.peer, batch, now)


def _came(entry: _Entry) -> bool:
    return isinstance(entry, Batch)


def _went(entries: Iterable[_Entry]) -> Iterator[Incoming | _Answered]:
    return (each for each in entries if not isinstance(each, Batch))


def _way_of(sent: Incoming | _Answered) -> tuple[type, Entry, Entry]:
    """Return what is the same of messages that may be entered as one."""
    if isinstance(sent, _Answered):
        return _Answered, sent.question._to, sent.question._source
    return Incoming, sent._source, sent._to


def _enter_sent(
    correspondence: Correspondence, sent: Sequence[Incoming | _Answered]
) -> None:
    """Enter what one task has sent to another."""
    questions = [each for each in sent if isinstance(each, Incoming)]
    if questions:
        correspondence.post(questions[0]._to, questions)
    else:
        answered = [each for each in sent if isinstance(each, _Answered)]
        correspondence.answer_all([(one.question, one.payload) for one in answered])


def _joined(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Join batches that follow one another in a stream; the floor is the lowest."""
    for _, some in groupby(batches, key=lambda each: (each.epoch, each.incarnation)):
        first, *rest = some
        more = [run for each in rest for run in each.runs]
        yield replace(first, runs=[*first.runs, *more]) if more else first
