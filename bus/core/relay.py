"""`Relay`: what stands in one process for a task of another (BUS-RELAY-1).

What is posted to it waits in its queue until it may be put on the link, and is kept
until the task has taken it. So it is known at any time what has become of each message:
waiting, under way, or taken (BUS-RELAY-9).
"""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bus.core.limits import Limits
    from bus.core.peer import Peer
    from bus.core.routing_table import Entry
    from bus.core.wire import Characteristics
    from bus.message import Incoming, Kind

__all__ = ["AUDIENCE", "Parcel", "Relay", "RelayState"]

AUDIENCE: Final = 0  # the relay number of all who hear notifications in a process


class Parcel(Struct, frozen=True, eq=False):
    """A message on its way to another process.

    source: the task that sends it; relay: the number by which others know that.
    id, flags: as in `bus.core.wire.Message`.
    turn: tells of two of one sender which was sent first.
    deadline: on the clock of this process, in seconds.
    message: the command it was made from, to be sent elsewhere or to fail; None for
      what concerns nobody else.
    """

    kind: Kind
    source: Entry
    relay: int
    id: int
    flags: int
    turn: int
    deadline: float | None
    body: bytes
    message: Incoming | None = None


class RelayState(enum.Enum):
    """What a relay is to those who look for a name."""

    UNNAMED = "unnamed"  # only answers go to it (BUS-RELAY-5)
    NAMED = "named"  # it is what they find
    SUPERSEDED = "superseded"  # somebody else is, who must not overtake it


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
    queue: what was not put on any link; queued_bytes: how long the bodies of that are.
    unacked: what was, with its number, and was not extracted.
    asked: commands that were, by who asked and the number of the question, and are not
      answered.
    withdrawn: commands taken out of the queue, for whoever has the name now.
    users: tasks of this process that have sent it anything, or got anything from it,
      and have not left (BUS-DEREG-10).

    Invariants:
    I1. numbers in ``unacked`` rise; there are no more of them, and of their bytes, than
        the window holds, but for the last one's.
    I2. commands are queued or withdrawn only while it is not unnamed.
    """

    __slots__ = (
        "_answered",
        "asked",
        "characteristics",
        "client",
        "entry",
        "limits",
        "number",
        "opened",
        "peer",
        "provisional",
        "queue",
        "queued_bytes",
        "since",
        "state",
        "unacked",
        "unacked_bytes",
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
        self.queued_bytes: int = 0
        self.unacked: deque[tuple[int, Parcel]] = deque()
        self.unacked_bytes: int = 0
        self.asked: dict[tuple[Entry, int], Incoming] = {}
        self.withdrawn: list[Incoming] = []
        self.users: set[Entry] = set()
        self._answered: set[tuple[Entry, int]] = set()

    @property
    def busy(self) -> bool:
        """Whether anything waits here, is under way, or is to be answered."""
        return bool(self.queue or self.unacked or self.asked or self.withdrawn)

    def append(self, parcels: Sequence[Parcel]) -> None:
        """Post something of one task, and of one kind, behind all that is here."""
        self.queue += parcels
        self.queued_bytes += sum([len(parcel.body) for parcel in parcels])
        self.peer.queued(parcels[0], len(parcels))

    def open(self, first: list[Parcel]) -> None:
        """Put in front what was sent before all that is here."""
        self.queue.extendleft(reversed(first))
        for parcel in first:
            self._count(parcel)
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
        session, held, at = self.peer.session, set[int](), 0
        while at < len(self.queue) and self._room and session.room:
            parcel = self.queue[at]
            if parcel.relay in held or self.peer.holds_back(self, parcel):
                held.add(parcel.relay)
                at += 1
                continue
            del self.queue[at]
            self._send([parcel])

    def _take_run(self) -> list[Parcel]:
        """Take out what goes first of one sender and may go now, as it lies there."""
        queue, window_bytes = self.queue, self.limits.window_bytes
        room = min(self.peer.session.room, self.limits.window - len(self.unacked))
        length = self.unacked_bytes
        number = queue[0].relay
        run: list[Parcel] = []
        if (
            len(queue) <= room
            and length + self.queued_bytes <= window_bytes
            and all(each.relay == number for each in queue)
        ):
            # All that lies here, and nothing of another sender: mostly so.
            run += queue
            queue.clear()
            return run
        while len(run) < room and queue and queue[0].relay == number:
            if length >= window_bytes and (run or self.unacked):
                break
            parcel = queue.popleft()
            run.append(parcel)
            length += len(parcel.body)
        return run

    def _send(self, run: list[Parcel]) -> None:
        """Put on the link what was taken out, of one sender."""
        peer, first = self.peer, run[0]
        peer.announce(first.source, first.relay)
        if not peer.is_leaving(first.relay):
            self.users.add(first.source)
        self.unacked += zip(peer.session.send(self.number, run), run, strict=True)
        length = sum([len(parcel.body) for parcel in run])
        self.unacked_bytes += length
        self.queued_bytes -= length
        peer.unqueued(first, len(run))

    @property
    def _room(self) -> bool:
        """Whether one more may be under way; one always may if nothing is."""
        return not self.unacked or (
            len(self.unacked) < self.limits.window
            and self.unacked_bytes < self.limits.window_bytes
        )

    def drop_oldest(self) -> None:
        """Drop what has waited longest for a link."""
        self._uncount(self.queue.popleft())

    def drop_oldest_command(self) -> list[Incoming]:
        """Take out the command that has waited longest, if any does."""
        found = (each for each in self.queue if each.message is not None)
        oldest = [each for each in [next(found, None)] if each is not None]
        for each in oldest:
            self.queue.remove(each)
            self._uncount(each)
        return _commands(oldest)

    def withdraw(self) -> None:
        """Keep back the commands that are not under way yet, in order."""
        self.withdrawn += _commands(self._take(commands_only=True))

    def left(self, task: Entry) -> None:
        """Note that a task of this process has left, and waits for no answer."""
        self.users.discard(task)
        for key in [each for each in self.asked if each[0] is task]:
            del self.asked[key]

    @property
    def waiting(self) -> int:
        """How many commands wait here, or are under way."""
        waiting = len(self.withdrawn)
        if self.queue:
            waiting += sum(each.message is not None for each in self.queue)
        if self.unacked:
            waiting += sum(each.message is not None for _, each in self.unacked)
        return waiting

    def extracted(self, number: int) -> int:
        """Note that the task took all up to a number; return how many commands."""
        taken = 0
        while self.unacked and self.unacked[0][0] <= number:
            _, parcel = self.unacked.popleft()
            self.unacked_bytes -= len(parcel.body)
            message = parcel.message
            if message is None:
                continue
            taken += 1
            if message.wants_reply:
                key = (parcel.source, parcel.id)
                if key in self._answered:
                    self._answered.discard(key)
                elif parcel.source in self.users:
                    self.asked[key] = message
        return taken

    def answered(self, asker: Entry, number: int) -> None:
        """Note that the task has answered a question.

        Mostly before it is acknowledged that it took that.
        """
        if self.asked.pop((asker, number), None) is None and self.unacked:
            self._answered.add((asker, number))

    def take_unsent(self) -> list[Incoming]:
        """Take out the commands that are not under way, in order; drop the rest."""
        withdrawn, self.withdrawn = self.withdrawn, []
        return withdrawn + _commands(self._take(commands_only=False))

    def take_unacked(self) -> list[Incoming]:
        """Take out the commands that are under way, in order; drop the rest."""
        parcels = [parcel for _, parcel in self.unacked]
        self.unacked.clear()
        self.unacked_bytes = 0
        self._answered.clear()
        return _commands(parcels)

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
        return _commands(late)

    def next_deadline(self) -> float | None:
        """Return when the first thing that waits here is too late; None for never."""
        waiting = [each.deadline for each in self.queue]
        asked = [each._deadline for each in self.asked.values()]
        return min((at for at in waiting + asked if at is not None), default=None)

    def _take(self, *, commands_only: bool) -> list[Parcel]:
        taken = [
            each for each in self.queue if not commands_only or each.message is not None
        ]
        for each in taken:
            self.queue.remove(each)
            self._uncount(each)
        return taken

    def _count(self, parcel: Parcel) -> None:
        self.queued_bytes += len(parcel.body)
        self.peer.queued(parcel)

    def _uncount(self, parcel: Parcel) -> None:
        self.queued_bytes -= len(parcel.body)
        self.peer.unqueued(parcel)


def _commands(parcels: Iterable[Parcel]) -> list[Incoming]:
    return [each.message for each in parcels if each.message is not None]
