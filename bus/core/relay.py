"""`Relay`: what stands in one process for a task of another (BUS-RELAY-1).

What is posted to it waits in its queue until it may be put on the link, and is kept
until the task has taken it. So it is known at any time what has become of each message:
waiting, under way, or taken (BUS-RELAY-9).
"""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from bus.core.relay_books import RelayBooks
from bus.events import BusReason
from bus.message import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from bus.core.limits import Limits
    from bus.core.parcel import Parcel
    from bus.core.peer import Peer
    from bus.core.relay_books import End
    from bus.core.routing_table import Entry
    from bus.core.trace import Trace
    from bus.core.wire import Characteristics
    from bus.message import Incoming

__all__ = ["AUDIENCE", "Dismissal", "Relay", "RelayState"]

AUDIENCE: Final = 0  # the relay number of all who hear notifications in a process


class RelayState(enum.Enum):
    """What a relay is to those who look for a name."""

    UNNAMED = "unnamed"  # only answers go to it (BUS-RELAY-5)
    NAMED = "named"  # it is what they find
    SUPERSEDED = "superseded"  # somebody else is, who must not overtake it


class Dismissal(enum.Enum):
    """What was agreed with a relay's process on whether it may go (BUS-DEREG-13)."""

    NONE = "none"
    ASKED = "asked"  # and not answered
    REVOKED = "revoked"  # asked; but that process counts on it since


class Relay:
    """The messages of this process for one task of another, in order.

    peer: whose task it is. characteristics: of that; None for the `AUDIENCE` of a
    process.
    entry: what leads to it in the routing table.
    provisional: whether it is known by hearsay only: its own process has not spoken of
      it on the link between the two.
    since: when it was made, in seconds.
    opened: whether what was sent before all that is posted to it lies in front.
    client: what stands for the task to those who post here; given by the driver.
    queue: what was not put on any link; queued: how many messages that is;
      queued_bytes: how long their bodies are.
    unacked: what was, with the number of its first message, and was not extracted;
      under_way: how many messages; unacked_bytes: how long their bodies are.
    asked: commands that were, by who asked and the number of the question, and are not
      answered. Of who has left there are none.
    withdrawn: commands taken out of the queue, for whoever has the name now.
    users: tasks of this process that have sent it anything, or got anything from it (a
      notification only if it wants an answer), and have not left.
    dismissal: whether it is to go.
    gap: notifications of the task that its process dropped, of which none that came
      here tells yet (BUS-FLOW-3).
    books: what became of messages that were given to it.

    Invariants:
    I1. numbers in ``unacked`` rise; there are no more messages in it, and no more
        bytes, than the window holds, but for the last one's.
    I2. commands are queued or withdrawn only while it is not unnamed.
    I3. ``books.posted == books.ended + present`` (BUS-FLOW-7).
    I4. each of ``_unanswered`` is in ``unacked``, so that no answer, however late or
        strange, makes it grow (BUS-ENT-17).
    """

    __slots__ = (
        "_unanswered",
        "asked",
        "books",
        "characteristics",
        "client",
        "dismissal",
        "entry",
        "gap",
        "limits",
        "number",
        "opened",
        "peer",
        "provisional",
        "queue",
        "queued",
        "queued_bytes",
        "since",
        "state",
        "unacked",
        "unacked_bytes",
        "under_way",
        "users",
        "withdrawn",
    )

    def __init__(
        self,
        peer: Peer,
        characteristics: Characteristics | None,
        now: float,
        *,
        limits: Limits,
    ) -> None:
        self.peer: Final = peer
        self.books: Final = (
            peer.notifications if characteristics is None else RelayBooks(peer.books)
        )
        self.characteristics: Final = characteristics
        self.number: Final = (
            AUDIENCE if characteristics is None else characteristics.relay
        )
        self.limits: Final = limits
        self.entry: Any = None
        self.client: Any = None
        self.state: RelayState = RelayState.UNNAMED
        self.provisional: bool = False
        self.since: Final = now
        self.opened: bool = True
        self.queue: deque[Parcel] = deque()
        self.queued: int = 0
        self.queued_bytes: int = 0
        self.unacked: deque[tuple[int, Parcel]] = deque()
        self.under_way: int = 0
        self.unacked_bytes: int = 0
        self.asked: dict[tuple[Entry, int], Incoming] = {}
        self.withdrawn: list[Incoming] = []
        self.users: set[Entry] = set()
        self.dismissal: Dismissal = Dismissal.NONE
        self.gap: int = 0
        # Questions that are under way and have no answer yet, as in `asked`.
        self._unanswered: set[tuple[Entry, int]] = set()

    @property
    def busy(self) -> bool:
        """Whether anything waits here, is under way, or is to be answered."""
        return bool(self.queue or self.unacked or self.asked or self.withdrawn)

    def append(self, parcels: Sequence[Parcel]) -> None:
        """Post something of one task, and of one kind, behind all that is here."""
        self.queue += parcels
        count = sum([len(parcel.bodies) for parcel in parcels])
        self.books.post(count)
        self.queued += count
        self.queued_bytes += sum([parcel.size for parcel in parcels])
        self.peer.queued(parcels[0], count)

    def open(self, first: list[Parcel]) -> None:
        """Put in front what was sent before all that is here."""
        self.queue.extendleft(reversed(first))
        for parcel in first:
            self.books.post(len(parcel.bodies))
            self.queued += len(parcel.bodies)
            self.queued_bytes += parcel.size
            self.peer.queued(parcel, len(parcel.bodies))
        self.opened = True

    def pump(self) -> None:
        """Put on the link what the window and the stream let through (BUS-RELAY-11).

        What one sender has sent before by another way goes first (BUS-MSG-15); other
        senders do not wait for that.
        """
        if not self.opened:
            return
        if self.number != AUDIENCE and not self.peer.notifying:
            while self.queue and (run := self._take_run()):
                self._send(run)
            return
        held, at = set[int](), 0
        while at < len(self.queue) and (room := self._room) > 0:
            parcel = self.queue[at]
            if parcel.relay in held or self.peer.holds_back(self, parcel):
                held.add(parcel.relay)
                at += 1
                continue
            if parcel.size > self.peer.message_bytes_max and self.number == AUDIENCE:
                # Not before it is its turn: that says which one tells of it (OPEN-6).
                del self.queue[at]
                self._drop(parcel, BusReason.TOO_LONG)
                continue
            bytes_left = self.limits.window_bytes - self.unacked_bytes
            self._send([self._take_fitting(at, room, bytes_left)])

    def _take_run(self) -> list[Parcel]:
        """Take out what goes first of one sender and may go now, as it lies there."""
        queue, limits = self.queue, self.limits
        number = queue[0].relay
        if (
            self.queued <= self._room
            and self.unacked_bytes + self.queued_bytes <= limits.window_bytes
            and all(each.relay == number for each in queue)
        ):
            # All that lies here, and nothing of another sender: mostly so.
            run = list(queue)
            queue.clear()
            return run
        room, bytes_left = self._room, limits.window_bytes - self.unacked_bytes
        run = []
        while room > 0 and queue and queue[0].relay == number:
            if bytes_left <= 0 and (run or self.unacked):
                break
            parcel = self._take_fitting(0, room, bytes_left)
            run.append(parcel)
            room -= len(parcel.bodies)
            bytes_left -= parcel.size
        return run

    @property
    def _room(self) -> int:
        """How many more may be put on the link now; one may if nothing is under way."""
        room = self.peer.session.room
        if not self.unacked:
            return min(room, self.limits.window)
        if self.unacked_bytes >= self.limits.window_bytes:
            return 0
        return min(room, self.limits.window - self.under_way)

    def _take_fitting(self, at: int, room: int, bytes_left: int) -> Parcel:
        """Take a parcel out of the queue, or as many of its messages as may go now."""
        parcel = self.queue[at]
        if len(parcel.bodies) > room or parcel.size > bytes_left:
            fits = room
            if parcel.size > bytes_left:
                fits = 0
                for body in parcel.bodies[:room]:
                    if bytes_left <= 0 and fits:
                        break
                    bytes_left -= len(body)
                    fits += 1
            if fits < len(parcel.bodies):
                self.queue[at] = parcel.part(fits)
                return parcel.part(0, fits)
        del self.queue[at]
        return parcel

    def _send(self, run: list[Parcel]) -> None:
        """Put on the link what was taken out, of one sender."""
        peer, first = self.peer, run[0]
        peer.announce(first.source, first.relay)
        if first.kind is Kind.NOTIFICATION:
            peer.tell_gap(first)
        stays = not peer.is_leaving(first.relay)
        if stays:
            self.users.add(first.source)
        for parcel in run:
            if parcel.trace is not None:
                parcel.trace.sent()
            message = parcel.message
            if message is not None and message.wants_reply and stays:
                self._unanswered.add((parcel.source, parcel.id))
        self.unacked += zip(peer.session.send(self.number, run), run, strict=True)
        count = sum([len(parcel.bodies) for parcel in run])
        size = sum([parcel.size for parcel in run])
        self.under_way += count
        self.unacked_bytes += size
        self.queued -= count
        self.queued_bytes -= size
        peer.unqueued(first, count)

    def send_at_once(self, parcel: Parcel) -> None:
        """Note that one message is on the link which never was in the queue.

        There must be room for it, and nothing in the queue.
        """
        outgoing = self.peer.session.outgoing
        number, size = outgoing.next, parcel.size
        kept = ((number, number + 1, (number, self.number, parcel)),)
        unacked = ((number, parcel),)
        asks: set[tuple[Entry, int]] = set()
        if parcel.message is not None and parcel.message.wants_reply:
            asks.add((parcel.source, parcel.id))
        own, whole = self.books, self.peer.books
        everything = whole.whole
        assert everything is not None
        # No call from here on: an interrupt finds all of it or nothing.
        outgoing.kept += kept
        outgoing.next = number + 1
        self.unacked += unacked
        self.under_way += 1
        self.unacked_bytes += size
        self._unanswered |= asks
        own.posted += 1
        whole.posted += 1
        everything.posted += 1

    def make_room(self, notification: Parcel) -> None:
        """Drop the oldest until one more may wait, or until none does (BUS-FLOW-3).

        notification: the one that is about to be posted, of any length.
        """
        limits = self.limits
        while self.queue and (
            self.queued >= limits.relay_queue
            or self.queued_bytes + notification.size > limits.relay_bytes
        ):
            self.drop_oldest()

    def drop_oldest(self) -> None:
        """Drop what has waited longest for a link; the next of its sender tells."""
        self._drop(self.queue.popleft(), BusReason.OLDEST)

    def _drop(self, notification: Parcel, reason: BusReason) -> None:
        """Drop what was taken out of the queue, the oldest of its sender."""
        self.peer.dropped(notification)
        self.books.end("dropped", 1)
        self._uncount(notification)
        if notification.trace is not None:
            notification.trace.discarded(reason)

    def take_too_long(self) -> list[tuple[Incoming, int]]:
        """Take out commands that its process does not take; with their lengths."""
        found: list[tuple[Incoming, int]] = []
        queue = list(self.queue)
        self.queue.clear()
        for parcel in queue:
            if not parcel.is_command:
                self.queue.append(parcel)
                continue
            fit, long = parcel.sifted(self.peer.message_bytes_max)
            if fit is not None:
                self.queue.append(fit)
            if long is not None:
                self._uncount(long)
                lengths = map(len, long.bodies)
                found += zip(long.commands(), lengths, strict=True)
        self.books.end("failed", len(found))
        return found

    def drop_oldest_command(self) -> list[Incoming]:
        """Take out the command that has waited longest, if any does."""
        for at, parcel in enumerate(self.queue):
            if parcel.is_command:
                oldest = parcel.part(0, 1)
                if oldest is parcel:
                    del self.queue[at]
                else:
                    self.queue[at] = parcel.part(1)
                self._uncount(oldest)
                commands = oldest.commands()
                self.books.end("failed", len(commands))
                return commands
        return []

    def forbid(self, is_forbidden: Callable[[Parcel], bool]) -> None:
        """Drop what waits for a link and must not go there (BUS-SEC-1)."""
        for parcel in [each for each in self.queue if is_forbidden(each)]:
            self.queue.remove(parcel)
            self._uncount(parcel)
            self.books.end("dropped", len(parcel.bodies))
            if parcel.trace is not None:
                parcel.trace.discarded(BusReason.DENIED)

    def waiting_answers(self) -> tuple[int, int]:
        """Count the answers that wait for a link: how many, and how many bytes."""
        waiting = [each for each in self.queue if not each.is_command]
        return len(waiting), sum([each.size for each in waiting])

    def withdraw(self) -> None:
        """Keep back the commands that are not under way yet, in order."""
        self.withdrawn += _commands(self._take(commands_only=True))

    def promise(self) -> None:
        """Note that its process takes it from now on that this is here."""
        if self.dismissal is Dismissal.ASKED:
            self.dismissal = Dismissal.REVOKED

    def left(self, task: Entry) -> None:
        """Note that a task of this process has left, and waits for no answer."""
        self.users.discard(task)
        for key in [each for each in self.asked if each[0] is task]:
            del self.asked[key]
        self._unanswered -= {each for each in self._unanswered if each[0] is task}

    @property
    def present(self) -> int:
        """How many messages wait here, or are under way."""
        return self.queued + self.under_way + len(self.withdrawn)

    def extracted(self, number: int) -> None:
        """Note that the task took all up to a number."""
        taken = commands = 0
        while self.unacked and self.unacked[0][0] <= number:
            first, parcel = self.unacked.popleft()
            if first + len(parcel.bodies) > number + 1:
                rest = parcel.part(number + 1 - first)
                self.unacked.appendleft((number + 1, rest))
                parcel = parcel.part(0, number + 1 - first)
            self.under_way -= len(parcel.bodies)
            self.unacked_bytes -= parcel.size
            taken += len(parcel.bodies)
            if not parcel.is_command:
                continue
            commands += len(parcel.bodies)
            message = parcel.message
            if message is not None and message.wants_reply:
                key = (parcel.source, parcel.id)
                if key in self._unanswered:
                    self._unanswered.discard(key)
                    self.asked[key] = message
        self.books.take(taken, commands)

    def extracted_all(self) -> None:
        """Note that the task took all messages that are under way."""
        asked: dict[tuple[Entry, int], Incoming] = {}
        commands = 0
        for _, parcel in self.unacked:
            if parcel.is_command:
                commands += len(parcel.bodies)
            key = (parcel.source, parcel.id)
            if key in self._unanswered and parcel.message is not None:
                asked[key] = parcel.message
        keys, taken = set(asked), self.under_way
        rest: deque[tuple[int, Parcel]] = deque()
        own, whole = self.books, self.peer.books
        everything = whole.whole
        assert everything is not None
        # No call from here on: an interrupt finds all of it or nothing.
        self.unacked = rest
        self.under_way = self.unacked_bytes = 0
        self._unanswered -= keys
        self.asked |= asked
        own.taken += taken
        whole.taken += taken
        everything.taken += taken
        own.commands_taken += commands
        whole.commands_taken += commands
        everything.commands_taken += commands

    def was_asked(self, asker: Entry, number: int) -> bool:
        """Whether the task was put a question that it has not answered."""
        key = (asker, number)
        return key in self.asked or key in self._unanswered

    def answered(self, asker: Entry, number: int) -> None:
        """Note that the task has answered a question.

        Mostly before it is acknowledged that it took that; or when it is not waited for
        any more.
        """
        key = (asker, number)
        if self.asked.pop(key, None) is None:
            self._unanswered.discard(key)

    def take_withdrawn(self) -> list[Incoming]:
        """Take out the commands that were kept back, to be sent elsewhere."""
        withdrawn, self.withdrawn = self.withdrawn, []
        self.books.end("returned", len(withdrawn))
        return withdrawn

    def take_unsent(self, how: End = "returned") -> list[Incoming]:
        """Take out the commands that are not under way, in order; drop the rest.

        how: what becomes of the commands.
        """
        withdrawn, self.withdrawn = self.withdrawn, []
        parcels = self._take(commands_only=False)
        commands = withdrawn + _commands(parcels)
        self.books.end(how, len(commands))
        self.books.end("dropped", _count_dropped(parcels))
        for trace in _dropped(parcels):
            trace.discarded(BusReason.UNWANTED)
        return commands

    def take_unacked(self, *, lost: bool = False) -> list[Incoming]:
        """Take out the commands that are under way, in order, to be sent elsewhere.

        All else is dropped. lost: whether nobody knows what was taken of all of these:
        then it is in doubt.
        """
        parcels = [parcel for _, parcel in self.unacked]
        if lost:
            self.books.end("in_doubt", self.under_way)
        else:
            dropped = _count_dropped(parcels)
            self.books.end("dropped", dropped)
            self.books.end("returned", self.under_way - dropped)
        self.unacked.clear()
        self.under_way = self.unacked_bytes = 0
        self._unanswered.clear()
        for trace in _dropped(parcels):
            if lost:
                trace.lost(BusReason.PROCESS_LOST)
            else:
                trace.discarded(BusReason.UNWANTED)
        return _commands(parcels)

    def abandon(self) -> None:
        """Tell that nothing here is delivered, as far as anybody knows; it ends."""
        self.books.end("dropped", self.queued)
        self.books.end("in_doubt", self.under_way)
        for trace in _dropped(self.queue):
            trace.discarded(BusReason.PROCESS_LOST)
        for trace in _dropped(parcel for _, parcel in self.unacked):
            trace.lost(BusReason.PROCESS_LOST)

    def expire(self, now: float) -> list[Incoming]:
        """Take out commands that are too late; forget questions that are."""
        for key, message in list(self.asked.items()):
            if message._deadline is not None and message._deadline <= now:
                del self.asked[key]
        late = [
            each
            for each in self.queue
            if each.deadline is not None and each.deadline <= now
        ]
        for each in late:
            self.queue.remove(each)
            self._uncount(each)
        commands = _commands(late)
        self.books.end("failed", len(commands))
        return commands

    def next_deadline(self) -> float | None:
        """Return when the first thing that waits here is too late; None for never."""
        waiting = [each.deadline for each in self.queue]
        asked = [each._deadline for each in self.asked.values()]
        return min((at for at in waiting + asked if at is not None), default=None)

    def _take(self, *, commands_only: bool) -> list[Parcel]:
        taken = [each for each in self.queue if not commands_only or each.is_command]
        for each in taken:
            self.queue.remove(each)
            self._uncount(each)
        return taken

    def _uncount(self, parcel: Parcel) -> None:
        self.queued -= len(parcel.bodies)
        self.queued_bytes -= parcel.size
        self.peer.unqueued(parcel, len(parcel.bodies))


def _count_dropped(parcels: Iterable[Parcel]) -> int:
    """Return how many messages are no commands."""
    return sum([len(each.bodies) for each in parcels if not each.is_command])


def _dropped(parcels: Iterable[Parcel]) -> Iterator[Trace]:
    """Return what to tell of of messages that are no commands."""
    for each in parcels:
        if each.trace is not None and not each.is_command:
            yield each.trace


def _commands(parcels: Iterable[Parcel]) -> list[Incoming]:
    return [command for each in parcels for command in each.commands()]
