"""`Peer`: one other process, and what the two know of one another's tasks.

It lasts as long as neither side has given the other one up; who comes back after that
is another one, under a new epoch.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from bus.core.receipts import Receipts
from bus.core.relay import Relay
from bus.core.relay_books import RelayBooks
from bus.core.routing_table import Visibility
from bus.core.wire import AddRelay, Characteristics, Gap, Role, Unrelay
from bus.events import BusReason
from bus.message import Kind
from bus.rights import UNRESTRICTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bus.core.limits import Limits
    from bus.core.parcel import Parcel
    from bus.core.routing_table import Entry
    from bus.core.session import Session
    from bus.rights import Credentials, Rights

__all__ = ["Key", "Peer"]

Key: TypeAlias = tuple[str, str]  # machine, process

_DEPARTED_MAX: Final = 4096


class Peer:
    """A process, as one that this process speaks with.

    key: its machine and its name. role: what it says it is.
    credentials: who it is, and may do; None while no link has told that. user: whose it
      is, as the master has said before any did.
    joined: whether the two are neighbours, one master or both: a signalling link was
      open between them.
    bound: whether any link was.
    since: when it was last seen to have a link, or was made, in seconds.
    idle_since: since when nothing here needs the link; None if something does.
    dialling: whether a link to it is being made.
    closing: whether it was asked to let the link be closed.
    pid: by which number its system knows it; None while no link has told that.
    parted: how its last link ended, if that has.
    heard_at: when anything came from it last, asked_at: when it was last asked whether
      it lives, in seconds. unresponsive: whether it was silent for too long.
    message_bytes_max: how long a message may be that it takes (OPEN-6), in bytes; as
      for this process, until a link has told that.
    addresses: where it listens, as far as that is known.
    relays: what stands for its tasks here, by the numbers it gave them.
    audience: what stands for all of its tasks that hear tasks of this process.
    announced: numbers of tasks of this process that it was told of, and has not
      dismissed.
    books: what became of messages for its tasks; notifications: of these alone.
    flooded: whether more answers wait for it than may.
    waiting: how many messages of a task wait for a link, by its number.
    """

    __slots__ = (
        "_answered",
        "_answered_bytes",
        "_departed",
        "_departing",
        "_gaps",
        "_notified",
        "_receipts",
        "_strays",
        "addresses",
        "announced",
        "asked_at",
        "audience",
        "books",
        "bound",
        "closing",
        "credentials",
        "dialling",
        "flooded",
        "heard_at",
        "idle_since",
        "joined",
        "key",
        "message_bytes_max",
        "notifications",
        "parted",
        "pid",
        "relays",
        "role",
        "session",
        "since",
        "unresponsive",
        "user",
        "waiting",
    )

    def __init__(
        self,
        key: Key,
        session: Session,
        now: float,
        *,
        limits: Limits,
        books: RelayBooks,
    ) -> None:
        self.key: Final = key
        self.books: Final = RelayBooks(books)
        self.notifications: Final = RelayBooks(self.books)
        self.session: Final = session
        self.role: Role = Role.SLAVE
        self.joined: bool = False
        self.bound: bool = False
        self.since: float = now
        self.idle_since: float | None = None
        self.closing: bool = False
        self.dialling: bool = False
        self.pid: int | None = None
        self.parted: BusReason = BusReason.GIVEN_UP
        self.heard_at: float = now
        self.asked_at: float = now
        self.unresponsive: bool = False
        self.credentials: Credentials | None = None
        self.user: int | None = None
        self.message_bytes_max: int = limits.message_bytes_max
        self.addresses: tuple[str, ...] = ()
        self.flooded: bool = False
        # Answers given since those that wait were counted, and how many did then.
        self._answered = self._answered_bytes = 0
        self.relays: Final[dict[int, Relay]] = {}
        self.audience: Relay = Relay(self, None, now, limits=limits)
        self.announced: Final[set[int]] = set()
        self.waiting: Final[Counter[int]] = Counter()
        self._notified: Final[Counter[int]] = Counter()  # of these, notifications
        # How many of a task were dropped before the oldest one that waits.
        self._gaps: Final[Counter[int]] = Counter()
        # What is said of a task that has left, once none of its messages waits.
        self._departing: Final[dict[int, Unrelay]] = {}
        # By which numbers it knows tasks that had left before it was told of them.
        self._strays: Final[dict[Entry, int]] = {}
        # Relay numbers of its tasks that have left: what comes late makes none of them.
        self._departed: Final[dict[int, None]] = {}
        self._receipts: Final[dict[int, Receipts]] = {}

    @property
    def machine(self) -> str:
        """Where it runs."""
        return self.key[0]

    @property
    def name(self) -> str:
        """What it is called in the books of streams, and by people."""
        return "/".join(self.key)

    def all_relays(self) -> list[Relay]:
        """Return its relays, that of its audience among them."""
        return [*self.relays.values(), self.audience]

    # What it may do.

    @property
    def rights(self) -> Rights:
        """What it may do (BUS-SEC-1); all that the master lets it, before any link."""
        return (self.credentials or UNRESTRICTED).rights

    def is_other(self, credentials: Credentials) -> bool:
        """Whether who has these is another process, which only says that it is this.

        Else a guest could have what others may, and get what is for them. Who has all
        rights may be seen as another user, by another system of users.
        """
        known, whole = self.credentials, credentials.rights.whole
        if known is None:
            return not whole and self.user not in {None, credentials.uid}
        return known.uid != credentials.uid and not (whole and known.rights.whole)

    def is_told_to_be_other(self, user: int | None) -> bool:
        """Whether it is a guest that says to be this process, as the master knows."""
        known = self.credentials
        if known is None or known.rights.whole:
            return False
        return user not in {None, known.uid}

    def admit(self, credentials: Credentials) -> None:
        """Know who it is, from its first link on; what it must not hear is dropped."""
        self.credentials = credentials
        may_hear = credentials.rights.may_hear
        self.audience.forbid(lambda parcel: not may_hear(parcel.source.name))

    # Tasks of this process.

    def about(self, task: Entry, relay: int | None = None) -> Characteristics:
        """Return what it makes a relay of a task from, open to its commands or not."""
        about = characteristics(task, self.session.own, relay)
        if not self.rights.may_command(task.name):
            about = replace(about, closed=True)
        return about

    def announce(self, task: Entry, relay: int) -> None:
        """Tell it of a task, unless it was told."""
        if relay not in self.announced:
            self.announced.add(relay)
            about = self.about(task, relay)
            if relay in self._departing:
                # Its name may be somebody else's by now.
                about = replace(about, visibility=Visibility.PRIVATE)
            self.session.tell(AddRelay(task=about))

    def stray(self, task: Entry, new: Callable[[], int]) -> int:
        """Return the number of a task that has left, and whose messages still go there.

        The one it had, as long as any of these waits; else a new one, for all of them.
        """
        if task.relay in self._departing:
            return task.relay
        number = self._strays.get(task)
        if number is None:
            number = self._strays[task] = new()
        return number

    def queued(self, parcel: Parcel, count: int = 1) -> None:
        """Note that so many messages like this one wait for the link."""
        self.waiting[parcel.relay] += count
        if parcel.kind is Kind.NOTIFICATION:
            self._notified[parcel.relay] += count

    def unqueued(self, parcel: Parcel, count: int = 1) -> None:
        """Note that they do not any more; say that the task left, if none does.

        Nobody can be told so before: what it sent would come from nobody.
        """
        relay = parcel.relay
        if parcel.kind is Kind.NOTIFICATION:
            self._notified[relay] -= count
            if not self._notified[relay]:
                del self._notified[relay]
        self.waiting[relay] -= count
        if not self.waiting[relay]:
            del self.waiting[relay]
            farewell = self._departing.pop(relay, None)
            if farewell is not None:
                self._leave(farewell)

    def dropped(self, oldest: Parcel) -> None:
        """Note that a notification was dropped, its task's oldest (BUS-FLOW-3)."""
        self._gaps[oldest.relay] += 1 + oldest.gap

    def tell_gap(self, notification: Parcel) -> None:
        """Tell, before a task's next notification, how many were dropped."""
        relay = notification.relay
        if count := self._gaps.pop(relay, 0) + notification.gap:
            self.session.tell(Gap(relay=relay, count=count))

    def answered(self, size: int, limits: Limits) -> None:
        """Note an answer of some bytes; whether too many wait, `flooded` says then.

        Questions are held back by windows; but who reads no answers may go on to ask.
        """
        self._answered += 1
        self._answered_bytes += size
        frames, length = limits.backlog_frames, limits.backlog_bytes
        if self._answered > frames or self._answered_bytes > length:
            # Mostly they are long gone: so seldom, to count them costs nothing.
            waiting = [each.waiting_answers() for each in self.relays.values()]
            self._answered = sum([count for count, _ in waiting])
            self._answered_bytes = sum([size for _, size in waiting])
            if self._answered > frames or self._answered_bytes > length:
                self.flooded = True

    def takes_answer(self, size: int, limits: Limits) -> bool:
        """Count one more answer of some bytes, unless it might be too many."""
        if (
            self._answered >= limits.backlog_frames
            or self._answered_bytes + size > limits.backlog_bytes
        ):
            return False
        self._answered += 1
        self._answered_bytes += size
        return True

    @property
    def notifying(self) -> bool:
        """Whether any notification waits for the link, which others may wait for."""
        return bool(self._notified)

    def holds_back(self, relay: Relay, parcel: Parcel) -> bool:
        """Whether its sender sent something before that waits for the link elsewhere.

        Notifications go one way, all else another; what goes the same way keeps its
        order by itself, or is for two tasks, of which neither sees it.
        """
        notified = self._notified.get(parcel.relay, 0)
        others: Iterable[Relay]
        if relay is not self.audience:
            if not notified:
                return False
            others = (self.audience,)
        else:
            if notified == self.waiting[parcel.relay]:
                return False
            others = self.relays.values()
        return any(
            each.relay == parcel.relay and each.turn < parcel.turn
            for other in others
            for each in other.queue
        )

    def farewell(self, relay: int, *, final: bool) -> None:
        """Say that a task of this process has left, and what it took (BUS-DEREG-4)."""
        if relay in self._departing:
            return
        receipts = self._receipts.pop(relay, None)
        extracted = 0 if receipts is None else receipts.extracted
        frame = Unrelay(relay=relay, extracted=extracted, final=final)
        if relay in self.waiting:
            # What it has not taken is free at once: two who leave while they write to
            # one another would wait for one another.
            self._departing[relay] = frame
            self.session.tell(replace(frame, more=True))
        else:
            self._leave(frame)

    def _leave(self, frame: Unrelay) -> None:
        self.announced.discard(frame.relay)
        self._gaps.pop(frame.relay, None)
        for task, number in list(self._strays.items()):
            if number == frame.relay:
                del self._strays[task]
        self.session.tell(frame)
        self.session.forget(frame.relay)

    def is_leaving(self, relay: int) -> bool:
        """Whether a task has left, and some of what it sent waits for the link."""
        return relay in self._departing

    def is_told(self, relay: int) -> bool:
        """Whether it will be told, or may just have been, that this task left."""
        return relay in self._departing or self.session.is_told(relay)

    def receipts(self, task: Entry) -> Receipts:
        """Return what came for a task of this process, to be noted there."""
        receipts = self._receipts.get(task.relay)
        if receipts is None:
            receipts = self._receipts[task.relay] = Receipts()
        return receipts

    def took(
        self, relay: int, number: int, now: float, *, count: int = 1, size: int = 0
    ) -> None:
        """Note that a task of this process took messages, from this one on.

        size: of all of them, in bytes.
        """
        receipts = self._receipts.get(relay)
        if receipts is not None and receipts.take(number, count):
            self.session.took(relay, receipts.extracted, now, size)

    # Its own tasks.

    def depart(self, number: int) -> Relay | None:
        """Forget one of its tasks; return what stood for it."""
        self._departed[number] = None
        if len(self._departed) > _DEPARTED_MAX:
            del self._departed[next(iter(self._departed))]
        return self.relays.pop(number, None)

    def has_departed(self, number: int) -> bool:
        """Whether it has said that this task of its has left."""
        return number in self._departed

    def forget(self) -> None:
        """Know nothing any more, since it does not either."""
        self.relays.clear()
        self.audience.abandon()
        self.audience = Relay(
            self, None, self.audience.since, limits=self.audience.limits
        )
        self.announced.clear()
        self.waiting.clear()
        self._notified.clear()
        self._gaps.clear()
        self._departing.clear()
        self._strays.clear()
        self._departed.clear()
        self._receipts.clear()
        self.joined = self.closing = self.flooded = False
        self._answered = self._answered_bytes = 0

    @property
    def busy(self) -> bool:
        """Whether anything of this process waits for it, or for a task of its."""
        return any(relay.busy for relay in self.all_relays())


def characteristics(
    task: Entry, incarnation: int, relay: int | None = None
) -> Characteristics:
    """Return what another process makes a relay of a task from."""
    return Characteristics(
        relay=task.relay if relay is None else relay,
        id=task.id,
        name=task.name,
        visibility=task.visibility,
        incarnation=incarnation,
        overflow=task.overflow,
    )
