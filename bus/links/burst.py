"""`Burst`: commands that one task sends to one of another process in quick succession.

The first is posted to the comm thread; those that follow before it has been taken join
it there, without a lock, a message object, or a wake-up for each. So a task that sends
one by one is nearly as quick as one that could send many at once.

Only the thread that made a burst adds to it. A task keeps one for each addressee; it
ends as soon as the task sends anything by another way, which must not be overtaken
(BUS-MSG-15).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from bus.core.parcel import commands_of
from bus.core.wire import Bodies
from queuebroker import _sync
from queuebroker.arguments import deadline_after
from queuebroker.parking import PENDING, Pending, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.routing_table import Entry
    from bus.links.stand_in import StandIn
    from bus.message import Incoming
    from bus.threads.inbox import Inbox

__all__ = ["PAYLOAD_MAX", "SHORT_MAX", "Burst", "Salvo"]

# How long a payload may be. Until what was sent is counted each takes as much of the
# addressee's bytes as the least of these that is no shorter.
PAYLOAD_MAX: Final = 64 * 2**10
SHORT_MAX: Final = 1024
_LENGTHS: Final = (SHORT_MAX, 4 * SHORT_MAX, 16 * SHORT_MAX, PAYLOAD_MAX)
# For which room is taken at a time.
_ROOM_MAX: Final = 1024  # messages
_ROOM: Final = _ROOM_MAX * SHORT_MAX  # bytes


class Salvo(Struct, eq=False):
    """What was sent of a burst, as the comm thread has taken it.

    size: how long that is together, in bytes.
    deadline: when it is not worth delivering any more, in seconds; None for never.
    """

    _to: Entry
    source: Entry
    payloads: list[bytes]
    size: int
    deadline: float | None

    def commands(self) -> list[Incoming]:
        """Return messages for it, to be sent elsewhere."""
        return commands_of(self.source, self._to.name, self.payloads, self.deadline)


class Burst:
    """What was sent and not taken yet.

    Attributes:
        to, source: the addressee, and who sends.
        thread: the one that may add.
        order: by which what it sends in another way is told (`Entry.order`).
        room: how many messages may lie here; room_bytes: as how long they count.
        length: how long those may be that join them.
        payloads: what does.
        posted: whether it lies in the inbox, where the comm thread finds it.
        steady: whether nobody has taken any of these, or of the room, since that was
          said.

    Lock: that of the inbox guards ``room``, ``room_bytes``, ``posted``, and all that
    takes out of ``payloads``. ``length`` is of who adds alone.

    Mostly there is nothing to lock: `bus.api.task.Task.command`, in which every step
    counts, appends a payload itself while there is room for it and both tasks are as
    they were. Afterwards it looks at ``steady``, and lets `confirm` see to it unless
    that is so: who takes messages or room says there that it does, before it looks what
    there is.

    Invariants, whenever that lock is free and nobody is adding:
    I1. there is room for what lies here, and it is posted if anything does.
    I2. if it is steady it is posted, and has the room that it had when that was said.
    """

    __slots__ = (
        "_deadline",
        "_inbox",
        "_lone",
        "_longest",
        "_place",
        "_stand_in",
        "_timeout_s",
        "_waits_s",
        "length",
        "order",
        "payloads",
        "posted",
        "room",
        "room_bytes",
        "source",
        "steady",
        "thread",
        "to",
    )

    def __init__(
        self,
        to: Entry,
        source: Entry,
        stand_in: StandIn,
        place: object,
        inbox: Inbox,
        timeout_s: float | None,
        lone: Callable[[Incoming], bool],
        payload_max: int = PAYLOAD_MAX,
        waits_s: Callable[[], float] | None = None,
    ) -> None:
        self.to: Final = to
        self._stand_in: Final = stand_in
        self._place: Final = place
        self._inbox: Final = inbox
        self._timeout_s: Final = timeout_s
        self._lone: Final = lone
        # Of what it began with; the others come so soon after that it holds for them.
        self._deadline: float | None = None
        self.order: Final = source.order
        self._waits_s: Final = waits_s
        self._longest: Final = min(PAYLOAD_MAX, payload_max)
        self.source: Final = source
        self.thread: Final = _sync.get_ident()
        self.payloads: Final[list[bytes]] = []
        self.room: int = 0
        self.room_bytes: int = 0
        self.length: int = 0
        self.posted: bool = False
        self.steady: bool = False

    # For the thread that made it.

    def add(self, payload: bytes) -> bool:
        """Send one more; False if it is to go another way.

        So it is if it is too long, if there is no room, and if either task is there no
        more or the sender has sent something by another way since this was begun.

        Raises:
            BusFullError: it has waited for room in vain.
        """
        if self.to.table is None or self.source.order is not self.order:
            return False
        if not (self.posted or self.payloads) and self._goes_alone(payload):
            return True
        with self._inbox.lock:
            if self._add_locked(payload):
                return True
        return self._add_in_time(payload)

    def _goes_alone(self, payload: bytes) -> bool:
        """Send one by itself, if nothing lies here that has to go first."""
        if len(payload) > self._longest:
            return False
        [command] = commands_of(
            self.source, self.to.name, (payload,), self._deadline_from_now()
        )
        command._to = self.to
        return self._lone(command)

    def _deadline_from_now(self) -> float | None:
        if self._timeout_s is None:
            return None
        return _sync.monotonic() + self._timeout_s

    def confirm(self) -> bool:
        """Add anew what was appended just as room for it, or all there was, was taken.

        False if there is no room any more; then it is here no more.

        Raises:
            BusFullError: as `add`.
        """
        with self._inbox.lock:
            if not self.payloads:
                return True
            payload = self.payloads.pop()
            if self._add_locked(payload):
                return True
        return self._add_in_time(payload)

    def withdraw(self) -> bool:
        """Take back what was appended last, with no lock; False if it has gone."""
        try:
            self.payloads.pop()
        except IndexError:
            return False
        return True

    def _add_in_time(self, payload: bytes) -> bool:
        """Add as soon as there is room, where senders wait for that (BUS-FLOW-2).

        To leave that to the way of a lone message would cost more than all the others
        that go along with this one.
        """
        if self._waits_s is None or not (waits_s := self._waits_s()):
            return False
        inbox, size = self._inbox, len(payload)
        if size > self._longest:
            return False

        def gone() -> bool:
            return self.to.place is not self._place

        def attempt() -> bool | Pending:
            if gone():
                return False
            if not self._add_locked(payload):
                # Room is taken for some more, and for longer ones: where that is not
                # there, but room for this, it goes as a lone message does.
                return PENDING if self._stand_in.full(size) else False
            inbox.room.wake_one()  # there may be room for one more
            return True

        def ready() -> bool:
            return gone() or not self._stand_in.full(size)

        outcome = wait_for(inbox, inbox.room, attempt, ready, deadline_after(waits_s))
        if outcome is PENDING:
            raise self._stand_in.error(f"task {self.to.name!r}")
        return outcome

    def _add_locked(self, payload: bytes) -> bool:
        # Before room is made for it: a signal handler must not take that.
        self.steady = False
        if not self._admit_locked(len(self.payloads) + 1, len(payload)):
            return False
        # Last: an interrupt before leaves only room, which can be taken back.
        self._post_locked()
        self.payloads.append(payload)
        self.steady = True
        return True

    def _admit_locked(self, count: int, length: int) -> bool:
        """See to it that there is room for so many, if possible for some more."""
        if self.to.place is not self._place:
            return False
        if length > self.length:  # what room is left is for shorter ones
            self._stand_in.reclaim_locked(self)
        need = count - self.room
        if need > 0:
            longest = self._longest
            if length > longest:
                return False
            fits = next(each for each in _LENGTHS if each >= length)
            self.length = min(fits, longest)
            size = max(1, self.length)
            most = min(_ROOM_MAX, _ROOM // size)
            given = self._stand_in.reserve_locked(self, need, most, size)
            self.room += given
            self.room_bytes += given * size
            return given >= need
        return True

    def _post_locked(self) -> None:
        if not self.posted:
            self._deadline = self._deadline_from_now()
            self._inbox.append_locked(self)
            self.posted = True

    # For others.

    @property
    def spare(self) -> bool:
        """Whether it has room for more messages than lie here."""
        return len(self.payloads) < self.room

    def reclaim_locked(self) -> tuple[int, int]:
        """Give up the room that is not used; return how many messages, and bytes."""
        self.steady = False  # first: what is added from now on is looked at again
        room, used = self.room, len(self.payloads)
        if used > room:
            return 0, 0
        counted, size = self.room_bytes, sum(map(len, self.payloads[:used]))
        # No call until this has returned: no interrupt comes before it is counted.
        self.room, self.room_bytes = used, size
        return room - used, counted - size

    def take(self) -> Salvo:
        """Take out what was sent; for the comm thread.

        It counts as what waits for the addressee until it is said to have moved.
        """
        with self._inbox.lock:
            self.steady = False  # first, as above
            self.posted = False
            count = min(len(self.payloads), self.room)
            payloads = Bodies(self.payloads[:count])
            size = payloads.lengths.total
            self._stand_in.release_locked(
                self, self.room - count, self.room_bytes - size
            )
            self.room = self.room_bytes = 0
            del self.payloads[:count]  # not all: one more may be there by now
            return Salvo(self.to, self.source, payloads, size, self._deadline)
