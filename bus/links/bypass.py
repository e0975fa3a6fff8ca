"""`Bypass`: how a thread of tasks uses a link itself, without the comm thread.

Most of the cost of a round trip is to hand a message to the comm thread and to be woken
by it. While that thread sleeps and has nothing to do that comes first, a thread of
tasks puts a single command or answer on the link itself. Where it waits for the next
message, it waits at that link and takes the messages that come there; `Shortcut` enters
them in the accounts at once.

Frames of other kinds it handles as the comm thread would, in its place, and it tells
what its tasks have taken: two threads that take turns for each batch cost more than the
batch. The main thread leaves both to the comm thread, since an interrupt may strike it
at any point.
"""

from __future__ import annotations

import math
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from bus.core.command_run import CommandRun
from bus.core.shortcut import Shortcut
from bus.core.wire import FrameType
from bus.threads.exchange import Slip
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Sequence

    from bus.core.actions import Dial, HangUp, Send
    from bus.core.neighbourhood import Neighbourhood
    from bus.core.peer import Peer
    from bus.core.routing_table import Entry
    from bus.links.extractions import Extractions
    from bus.links.lines import Lines
    from bus.links.sleep import Lead
    from bus.message import Incoming
    from bus.payload import Payload
    from bus.threads.exchange import Exchange
    from bus.threads.inbox import Inbox
    from bus.threads.thread_manager import ThreadManager

__all__ = ["Bypass"]

_ACK: Final = bytes((FrameType.ACK.value,))  # how such a frame begins
# After so many waits in vain a thread waits where it is woken for all else.
_VAIN_MAX: Final = 8
# From how many commands on, of how many bytes at most, it is worth to wait at the link.
_MANY: Final = 16
_SHORT_MAX: Final = 4096
# A command that wants no answer is alone if none was sent for so long before it, in
# seconds. Of those that follow one another faster a frame holds many.
_ALONE_S: Final = 0.0002


class Rounds(Protocol):
    """The comm thread, as a thread of tasks sees it that goes to a link itself.

    inbox: its requests, which go first. outbox: actions on links, not yet done.
    watched: whether it alone may read and write the links, or nobody may.
    """

    @property
    def inbox(self) -> Inbox: ...
    @property
    def outbox(self) -> deque[Send | HangUp | Dial]: ...
    @property
    def watched(self) -> bool: ...

    def nudge(self) -> None:
        """Let it make a round now, with all pending actions."""


class Bypass:
    """The links that threads of tasks use themselves, and the right to use a link.

    Args:
        rounds: the comm thread.
        wake: wakes the comm thread. soon: sees to it that it wakes within milliseconds.
        midway: whether what comes next by a link is no frame.
        extractions: what tasks have taken.
        attend: does what the comm thread would with what others have read, and what was
          taken; under ``hold``, not in the main thread.

    Lock: ``hold`` is held by whoever touches links: the comm thread for a round, or a
    thread of tasks for what it sends or has read. It is the first of all locks: that of
    the exchange, of an inbox, of a link are taken under it. Nobody is called back, or
    waited for, meanwhile.

    Invariant: what ``_given`` holds came before all that is to be read of its link.
    """

    __slots__ = (
        "_attend",
        "_commanded_at",
        "_exchange",
        "_extractions",
        "_given",
        "_lines",
        "_midway",
        "_remote",
        "_rounds",
        "_soon",
        "_wake",
        "_ways",
        "hold",
    )

    def __init__(
        self,
        exchange: Exchange,
        remote: Neighbourhood,
        lines: Lines,
        *,
        rounds: Rounds,
        wake: Callable[[], object],
        soon: Callable[[], object],
        midway: Callable[[int], bool],
        extractions: Extractions,
        attend: Callable[[], object],
    ) -> None:
        self._exchange: Final = exchange
        self._remote: Final = remote
        self._lines: Final = lines
        self._rounds: Final = rounds
        self._wake: Final = wake
        self._soon: Final = soon
        self._midway: Final = midway
        self._extractions: Final = extractions
        self._attend: Final = attend
        self.hold: Final[_thread.LockType] = _sync.Lock()
        # Under the exchange's lock.
        self._ways: dict[Peer, _Way] = {}
        # When a command was sent last that wants no answer. No lock: it is a guess.
        self._commanded_at: float = -math.inf
        # Frames for the comm thread, by link, in order; under ``hold``.
        self._given: Final[deque[tuple[int, bytes]]] = deque()

    # For any thread.

    def command(self, command: Incoming) -> bool:
        """Put a command on the link; False if it is to be posted as any other."""
        if not (command.wants_reply or self._is_alone()):
            return False
        peer: Peer = command._to.box.peer
        return self._send(peer, command._source, self._command, command, None)

    def _is_alone(self) -> bool:
        now = _sync.monotonic()
        last, self._commanded_at = self._commanded_at, now
        return now - last >= _ALONE_S

    def answer(self, question: Incoming, payload: Payload) -> bool:
        """Put an answer on the link; as `command`."""
        source: Entry = question._to
        place = source.place
        if place is None or place.pending():
            return False  # there is more here, perhaps to be answered together
        peer: Peer = question._source.box.peer
        return self._send(peer, source, self._answer, question, payload)

    def _send(
        self,
        peer: Peer,
        source: Entry,
        frame_of: Callable[[_Way, Incoming, Payload], bytes | None],
        question: Incoming,
        payload: Payload,
    ) -> bool:
        link = peer.session.link
        if link is None or self.hold.locked():
            return False  # a round is under way, which this may join
        try:
            with self.hold:
                went = self._exchange.send_now(
                    self._frame, peer, frame_of, question, payload
                )
                if went is None:
                    return False
                way, frame = went
                place = source.place
                if place is not None and place.owned():
                    if place.waits_next and way.early:
                        way.lead(place)
                    place.way = way
                if not self._lines.send(way.shortcut.link, frame):
                    self.look_at(way.shortcut.link)  # it goes on when there is room
            session = peer.session
            if session.ack_at is not None and not session.watched:
                self._soon()  # the comm thread may have gone to sleep before that
        except BaseException:
            # It may be noted as sent, and not be; then a new link carries it again.
            noted = self._ways.get(peer)
            self.give_up(link if noted is None else noted.shortcut.link)
            raise
        return True

    def _frame(
        self,
        peer: Peer,
        frame_of: Callable[[_Way, Incoming, Payload], bytes | None],
        question: Incoming,
        payload: Payload,
    ) -> tuple[_Way, bytes] | None:
        # Here, where nothing is being done that would have something to be said.
        rounds = self._rounds
        if (
            self._given
            or rounds.inbox.items
            or rounds.outbox
            or rounds.watched
            or self._lines.sending
        ):
            return None
        way = self._ways.get(peer)
        if way is None or way.shortcut.link != peer.session.link:
            way = self._new_way(peer)
            if way is None:
                return None
        frame = frame_of(way, question, payload)
        return None if frame is None else (way, frame)

    @staticmethod
    def _command(way: _Way, command: Incoming, _: Payload) -> bytes | None:
        if not command.wants_reply:
            return way.shortcut.command(command, _sync.monotonic())
        last = way.question
        if len(command._source.box.client.questions.open) > 1 or (
            last is not None and last._id in last._source.box.client.questions.open
        ):
            return None  # who asks on and on is better served by frames of many
        frame = way.shortcut.command(command, _sync.monotonic())
        if frame is not None:
            way.question = command
        return frame

    def _answer(self, way: _Way, question: Incoming, payload: Payload) -> bytes | None:
        # The answer acknowledges that the question was taken, so no frame has to.
        place = question._to.place
        taken = None
        if place is not None and not place.main:
            taken = self._extractions.take_lone()
        if taken:
            self._remote.extracted(taken, _sync.monotonic())
        return way.shortcut.answer(question, payload)

    def _new_way(self, peer: Peer) -> _Way | None:
        link = peer.session.link
        lead = None if link is None else self._lines.lead(link)
        if link is None or lead is None:
            return None
        ways = {old: way for old, way in self._ways.items() if way.shortcut.stands}
        way = ways[peer] = _Way(self, Shortcut(self._remote, peer, link), lead)
        self._ways = ways
        return way

    def show(self, last: Incoming | CommandRun, place: ThreadManager) -> None:
        """Let a thread wait at the link by which its tasks get many short commands.

        Long ones another thread had better copy out of the system, meanwhile.

        last: what came for one of them.
        """
        if type(last) is not CommandRun or place.main:
            return
        count = len(last.lengths)
        if count < _MANY or last.lengths.total > count * _SHORT_MAX:
            return
        peer: Peer = last.receipt.peer
        way = self._ways.get(peer)
        if way is None or not way.shortcut.stands:
            way = self._exchange.look(partial(self._new_way, peer))
        if way is not None:
            way.wanted = True
            place.way = way

    # For the comm thread, under ``hold``.

    def take(self) -> list[tuple[int, bytes]]:
        """Take out the frames that others have read, and are for this thread."""
        return [self._given.popleft() for _ in range(len(self._given))]

    @property
    def due(self) -> bool:
        """Whether there are any."""
        return bool(self._given)

    # For a thread of tasks that has the lead of a link.

    def receive(
        self, way: _Way, frames: Sequence[bytes], place: ThreadManager
    ) -> tuple[bool, bool, bool]:
        """Take frames from a link, under ``hold``.

        Returns whether any had a message for a task here, as far as it is known;
        whether one of these waits for `act`; and whether there was anything for which
        the comm thread had better wait at the link.
        """
        slipped = waits = other = False
        short, given = way.shortcut, self._given
        for frame in frames:
            slip = Slip.REFUSED
            # Nothing may be before it, and it has to be a frame.
            if not (given or self._rounds.watched or self._midway(short.link)):
                slip = self._exchange.slip_in(short, frame, place)
            if slip is Slip.REFUSED:
                given.append((short.link, frame))
                other = other or frame[:1] != _ACK
            else:
                slipped = True
                waits = waits or slip is Slip.WAITS
        if not self._given:
            if slipped and not short.peer.session.watched:
                self._soon()
            return slipped, waits, False
        if place.main:
            self._wake()
            return slipped, waits, other
        way.wanted = False
        self._attend()
        return slipped or way.wanted, waits, other and not way.wanted

    def tell(self, place: ThreadManager) -> None:
        """Tell what the tasks of the calling thread have taken, before it sleeps."""
        if not place.main and self._extractions.due:
            with self.hold:
                self._attend()

    def look_at(self, link: int) -> None:
        """Let the comm thread see for itself how a link stands."""
        self._lines.stir(link)
        self._wake()

    def give_up(self, link: int) -> None:
        """End a link of which nobody knows any more what went over it."""
        self._lines.give_up(link)
        self.look_at(link)

    def act(self, *, main: bool) -> None:
        """Do what was decided; no more than what came, where that may be struck."""
        if main:
            self._exchange.act(1)
            if self._exchange.unfinished:
                self._rounds.nudge()
            self._soon()
        else:
            self._exchange.act()


class _Way:
    """A link that a thread of tasks may wait at; see `bus.threads.thread_manager.Way`.

    shortcut: the books of what goes past the comm thread.
    question: what was asked by it last; None before the first.
    wanted: whether somebody was shown it since that was looked at.
    early: whether a thread that is about to wait there does so before it sends.
    """

    __slots__ = (
        "_bypass",
        "_lead",
        "_vain",
        "early",
        "question",
        "shortcut",
        "wanted",
    )

    def __init__(self, bypass: Bypass, shortcut: Shortcut, lead: Lead) -> None:
        self._bypass: Final = bypass
        self.shortcut: Final = shortcut
        self._lead: Final = lead
        self.early: Final = lead.early
        self._vain: int = 0
        self.question: Incoming | None = None
        self.wanted: bool = False

    def lead(self, place: ThreadManager) -> bool:
        """Read the link from now on; False if the comm thread does."""
        if place.leading is self:
            return True
        place.leave_way()
        if not self._lead.take(place.inbox):
            return False
        place.leading = self
        return True

    def leave(self, place: ThreadManager) -> None:
        """Let the comm thread read it again, if a thread does."""
        self._lead.leave(place.inbox)

    def wait(self, place: ThreadManager, deadline: float | None) -> bool:
        """Wait for the link, or for the inbox; False if that alone is to be waited for.

        What came by the link is in a mailbox or an inbox when this returns, or with the
        comm thread.
        """
        bypass, short, lead = self._bypass, self.shortcut, self._lead
        if not short.stands or not self.lead(place):
            place.leave_way()
            return False
        reading = slipped = waits = other = False
        try:
            bypass.tell(place)
            lacked: float = math.inf
            while True:
                # After it was listed there: who has posted before did not see it. What
                # was told may have put something in a mailbox of this thread.
                if not place.pending():
                    lead.sleep(deadline)
                with bypass.hold:
                    reading = True
                    frames = lead.read()
                    if (
                        not frames
                        and 0 < lead.lacks < lacked
                        and not (place.main or place.pending() or _passed(deadline))
                    ):
                        # The rest of a long frame is on its way. To leave it to the
                        # comm thread would wake that for each part of it.
                        lacked, reading = lead.lacks, False
                        continue
                    slipped, waits, other = bypass.receive(self, frames, place)
                    reading = False
                    place.leave_way()
                break
        except BaseException:
            place.leave_way()
            if reading:
                bypass.give_up(short.link)
            raise
        if lead.ended:
            bypass.look_at(short.link)
        if waits:
            bypass.act(main=place.main)
        self._vain = 0 if slipped else self._vain + 1
        return not other and self._vain < _VAIN_MAX


def _passed(deadline: float | None) -> bool:
    return deadline is not None and deadline <= _sync.monotonic()
