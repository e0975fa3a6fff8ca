"""`Bypass`: the fast path, on which a task thread uses a link by itself.

Most of the cost of a round trip is the handover to the comm thread and the wake-up by
it. While that thread sleeps and has no earlier work, a task thread puts a single
command or answer on the link itself. A task thread that waits for the next message
waits at that link and takes the messages that arrive there. `Shortcut` accounts for
them at once.

The task thread handles frames of other kinds in place of the comm thread, and
acknowledges the messages that its tasks have taken. Two threads that alternate for each
batch would cost more than the batch. The main thread leaves both jobs to the comm
thread, since it may be interrupted at any point.
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

_ACK: Final = bytes((FrameType.ACK.value,))  # the first byte of such a frame
# After this many waits without a message, a thread waits at its inbox again.
_VAIN_MAX: Final = 8
# Minimum commands in a run, and maximum mean size in bytes, to wait at the link.
_MANY: Final = 16
_SHORT_MAX: Final = 4096
# A command without an answer counts as lone if none was sent for this many seconds.
# Commands that follow faster share a frame.
_ALONE_S: Final = 0.0002


class Rounds(Protocol):
    """The comm thread, as seen by a task thread that uses a link itself.

    inbox: the requests to the comm thread, which go first.
    outbox: the pending actions on links.
    watched: True if only the comm thread, or no thread, may use the links.
    """

    @property
    def inbox(self) -> Inbox: ...
    @property
    def outbox(self) -> deque[Send | HangUp | Dial]: ...
    @property
    def watched(self) -> bool: ...

    def nudge(self) -> None:
        """Request a round now, with all pending actions."""


class Bypass:
    """The links that task threads use themselves, and the lock for using a link.

    Args:
        rounds: the comm thread.
        wake: wakes the comm thread.
        soon: makes the comm thread wake within milliseconds.
        midway: returns True if the next bytes of a link are not a frame.
        extractions: the messages that tasks have taken.
        attend: handles the frames read by others, and the taken messages, as the comm
            thread would; called under ``hold``, not in the main thread.

    Lock: a thread that touches links holds ``hold``: the comm thread for a round, a
    task thread while it sends or handles received frames. It is the first of all locks:
    the locks of the exchange, of an inbox and of a link are taken under it. The holder
    makes no callback and waits for no other thread.

    Invariant: the frames in ``_given`` arrived before all unread frames of their link.
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
        # Guarded by the exchange's lock.
        self._ways: dict[Peer, _Way] = {}
        # Time of the last command without an answer. No lock: the value is a guess.
        self._commanded_at: float = -math.inf
        # Frames for the comm thread with their links, in order; guarded by ``hold``.
        self._given: Final[deque[tuple[int, bytes]]] = deque()

    # For any thread.

    def command(self, command: Incoming) -> bool:
        """Put a command on the link; return False if it must be posted as usual."""
        if not (command.wants_reply or self._is_alone()):
            return False
        peer: Peer = command._to.box.peer
        return self._send(peer, command._source, self._command, command, None)

    def _is_alone(self) -> bool:
        now = _sync.monotonic()
        last, self._commanded_at = self._commanded_at, now
        return now - last >= _ALONE_S

    def answer(self, question: Incoming, payload: Payload) -> bool:
        """Put an answer on the link; return False as `command` does."""
        source: Entry = question._to
        place = source.place
        if place is None or place.pending():
            return False  # pending messages may be answered in the same frame
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
            return False  # this message may join the round under way
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
            # The message may be noted as sent without being sent; a new link resends
            # it.
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
        # Checked here, while no action is pending or under way that could send frames.
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
            return None  # shared frames serve a steady stream of questions better
        frame = way.shortcut.command(command, _sync.monotonic())
        if frame is not None:
            way.question = command
        return frame

    def _answer(self, way: _Way, question: Incoming, payload: Payload) -> bytes | None:
        # The answer acknowledges the question; no other frame is needed for that.
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
        """Let a thread wait at the link that brings its tasks many short commands.

        Long commands are better copied from the kernel by another thread meanwhile.

        last: the latest message for one of these tasks.
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
        """Take out the frames that other threads read for this one."""
        return [self._given.popleft() for _ in range(len(self._given))]

    @property
    def due(self) -> bool:
        """True if there are such frames."""
        return bool(self._given)

    # For a task thread that holds the read lease of a link.

    def receive(
        self, way: _Way, frames: Sequence[bytes], place: ThreadManager
    ) -> tuple[bool, bool, bool]:
        """Take frames from a link, under ``hold``.

        Returns three flags: some frame had a message for a local task, as far as is
        known; such a message waits for `act`; the comm thread should rather wait at the
        link.
        """
        slipped = waits = other = False
        short, given = way.shortcut, self._given
        for frame in frames:
            slip = Slip.REFUSED
            # Earlier frames go first, and the bytes must be a frame.
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
        """Acknowledge the messages taken by this thread's tasks, before it sleeps."""
        if not place.main and self._extractions.due:
            with self.hold:
                self._attend()

    def look_at(self, link: int) -> None:
        """Let the comm thread check the state of a link."""
        self._lines.stir(link)
        self._wake()

    def give_up(self, link: int) -> None:
        """Abort a link whose traffic is no longer known for certain."""
        self._lines.give_up(link)
        self.look_at(link)

    def act(self, *, main: bool) -> None:
        """Do the pending actions; only one in a main thread, which may be
        interrupted."""
        if main:
            self._exchange.act(1)
            if self._exchange.unfinished:
                self._rounds.nudge()
            self._soon()
        else:
            self._exchange.act()


class _Way:
    """A link that a task thread may wait at; see `bus.threads.thread_manager.Way`.

    shortcut: the accounting of the fast path of this link.
    question: the last question sent this way; None before the first.
    wanted: True if a thread was given this way since the flag was cleared.
    early: True if a thread about to wait takes the read lease before it sends.
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
        """Take the read lease; return False if the comm thread keeps it."""
        if place.leading is self:
            return True
        place.leave_way()
        if not self._lead.take(place.inbox):
            return False
        place.leading = self
        return True

    def leave(self, place: ThreadManager) -> None:
        """Return the read lease to the comm thread, if ``place`` holds it."""
        self._lead.leave(place.inbox)

    def wait(self, place: ThreadManager, deadline: float | None) -> bool:
        """Wait for the link or the inbox; return False to wait for the inbox alone.

        On return, each received message is in a mailbox, in an inbox, or with the comm
        thread.
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
                # After it is listed at the link: an earlier poster did not see it
                # sleep. `tell` may also have put a message into a mailbox of this
                # thread.
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
                        # The rest of a long frame is on its way. If left to the comm
                        # thread, it would wake that thread once per part.
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
