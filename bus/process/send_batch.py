"""`SendBatch`: a send batch of messages of one task to other processes.

It holds commands for one task, or notifications for all remote subscribers. The first
message is posted to the comm thread. Messages that follow before the comm thread takes
it join it in the inbox, without a lock, a message object, or a wake-up for each. So a
task that sends messages one by one is nearly as fast as one that sends many at once.

Only the thread that made a batch adds to it. A task keeps one batch for each addressee,
and one for notifications. The batch ends as soon as the task sends anything by another
way, so that no later message overtakes that one (BUS-MSG-15).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from bus.errors import BusFullError
from bus.kernel.tasks.routing_table import Entry
from bus.kernel.tasks.runs import commands_of
from bus.kernel.wire import Bodies
from bus.model.message import Incoming, Kind
from bus.process.inbox import Inbox
from queuebroker import _sync
from queuebroker.arguments import deadline_after
from queuebroker.waiting.parking import PENDING, Pending, wait_for

__all__ = ["PAYLOAD_MAX", "SHORT_MAX", "BatchHost", "Room", "SealedBatch", "SendBatch"]

# Maximum lengths of payloads, in bytes. Until the payloads are counted exactly, each
# reserves the smallest of ``_LENGTHS`` that is no shorter.
PAYLOAD_MAX: Final = 64 * 2**10
SHORT_MAX: Final = 1024
_LENGTHS: Final = (SHORT_MAX, 4 * SHORT_MAX, 16 * SHORT_MAX, PAYLOAD_MAX)
# Maximum room reserved at a time.
_ROOM_MAX: Final = 1024  # messages
_ROOM: Final = _ROOM_MAX * SHORT_MAX  # bytes


class SealedBatch(Struct, eq=False):
    """A sealed batch: the messages of a send batch, as taken by the comm thread.

    size: the total length of the payloads, in bytes.
    deadline: the time after which delivery is useless, in seconds; None for never.
    gap: the number of notifications dropped before the first one.
    """

    _to: Entry
    source: Entry
    payloads: list[bytes]
    size: int
    deadline: float | None
    gap: int = 0

    def commands(self) -> list[Incoming]:
        """Return these commands as messages, to be sent elsewhere."""
        return commands_of(self.source, self._to.name, self.payloads, self.deadline)


class Room(Protocol):
    """The room of a relay, or of all notifications, as the batches use it.

    `bus.process.accounts.BatchRoom` implements it.
    """

    def full(self, size: int) -> bool:
        """Return True if there is no room for ``size`` bytes; takes no lock."""

    def error(self, what: str) -> BusFullError:
        """Return the error to raise for lack of room; ``what`` names the receiver."""

    def reserve_locked(
        self, send_batch: SendBatch, need: int, most: int, size: int
    ) -> int:
        """Reserve room for ``need`` to ``most`` messages of ``size`` bytes each.

        Returns the number of messages, 0 if ``need`` of them do not fit.
        """

    def reclaim_locked(self, send_batch: SendBatch) -> None:
        """Reclaim the unused room of a batch."""

    def release_locked(
        self, send_batch: SendBatch, unused: int, unused_bytes: int
    ) -> int:
        """Release the unused room of a batch as it is taken.

        Returns the number of messages dropped before its first one.
        """


class BatchHost(Protocol):
    """The host of an addressee, as the batches to it use it.

    `bus.process.relay_outbox.RelayOutbox` implements it.
    """

    @property
    def inbox(self) -> Inbox:
        """The inbox of the comm thread."""


class SendBatch:
    """The messages of a send batch that the comm thread has not yet taken.

    Args:
        room: the room of the addressee.
        timeout_s, payload_max: how long a message is worth delivering, None for ever;
          the maximum length of a payload.
        waits_s: returns how long the calling thread may wait for room; None if no
          message waits.
        send_single: sends a single message at once, or returns False.
        kind: the kind of the messages.

    Attributes:
        to, source: the addressee, and the sending task.
        thread: the only thread that may add messages.
        order: the value of `Entry.order` at the start of the batch; it changes when the
            source sends by another way.
        room: number of messages for which room is reserved.
        room_bytes: number of bytes reserved for them.
        length: maximum length of a payload that may use this room.
        payloads: the payloads sent so far.
        posted: True if the batch is in the inbox of the comm thread.
        steady: True if no payload, and no room, was taken since the flag was set.

    Lock: the inbox's lock guards ``room``, ``room_bytes``, ``posted``, and each removal
    from ``payloads``. ``length`` belongs to the sending thread alone.

    The usual case takes no lock. In `bus.api.task.Task.command` every step counts, so
    it appends a payload itself while there is room and both tasks are unchanged.
    Afterwards it checks ``steady``, and calls `confirm` if the flag is not set. A
    thread that takes messages or room clears the flag before it counts them.

    Invariants, whenever that lock is free and no thread is adding:
    I1. There is room for all payloads, and the batch is posted if it has any.
    I2. If the batch is steady, it is posted, and has the room it had when the flag was
        set.
    """

    __slots__ = (
        "_deadline",
        "_host",
        "_inbox",
        "_kind",
        "_longest",
        "_room",
        "_send_single",
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
        room: Room,
        host: BatchHost,
        timeout_s: float | None,
        payload_max: int,
        waits_s: Callable[[], float] | None,
        send_single: Callable[[Incoming], bool],
        kind: Kind = Kind.COMMAND,
    ) -> None:
        self.to: Final = to
        self._room: Final = room
        self._host: Final = host
        self._inbox: Final = host.inbox
        self._timeout_s: Final = timeout_s
        self._send_single: Final = send_single
        self._kind: Final = kind
        # Deadline of the first command; the others follow so soon that it fits them,
        # too.
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

    # For the thread that made the batch.

    def add(self, payload: bytes) -> bool:
        """Send one more command; return False if it must go another way.

        A command goes another way if it is too long, or if there is no room. It also
        does if either task has left, or if the sender has sent by another way
        meanwhile.

        Raises:
            BusFullError: there was no room within the send timeout.
        """
        if self.to.table is None or self.source.order is not self.order:
            return False
        if not (self.posted or self.payloads) and self._send_alone(payload):
            return True
        with self._inbox.lock:
            if self._add_locked(payload):
                return True
        return self._add_in_time(payload)

    def _send_alone(self, payload: bytes) -> bool:
        """Send a message alone, if no earlier one is in the batch."""
        if len(payload) > self._longest:
            return False
        message = Incoming(
            self._kind,
            payload,
            _source=self.source,
            _to=self.to,
            _name=self.to.name,
            _size=len(payload),
            _deadline=self._deadline_from_now(),
        )
        return self._send_single(message)

    def _deadline_from_now(self) -> float | None:
        if self._timeout_s is None:
            return None
        return _sync.monotonic() + self._timeout_s

    def confirm(self) -> bool:
        """Add the last payload again, unless it was taken; the batch was not steady.

        Returns False if there is no room for it any more; it is then withdrawn.

        Raises:
            BusFullError: see `add`.
        """
        with self._inbox.lock:
            if not self.payloads:
                return True
            payload = self.payloads.pop()
            if self._add_locked(payload):
                return True
        return self._add_in_time(payload)

    def withdraw(self) -> bool:
        """Withdraw the last payload, without a lock; return False if it was taken."""
        try:
            self.payloads.pop()
        except IndexError:
            return False
        return True

    def _add_in_time(self, payload: bytes) -> bool:
        """Add as soon as there is room, if senders wait for room (BUS-FLOW-2).

        To send this one outside the batch would cost more than the rest of the batch.
        """
        if self._waits_s is None or not (waits_s := self._waits_s()):
            return False
        inbox, size = self._inbox, len(payload)
        if size > self._longest:
            return False

        def gone() -> bool:
            return self.to.host is not self._host

        def attempt() -> bool | Pending:
            if gone():
                return False
            if not self._add_locked(payload):
                # `_add_locked` reserves room for several messages, also longer ones. If
                # only this message has room, it goes alone.
                return PENDING if self._room.full(size) else False
            inbox.room.wake_one()  # there may be room for one more
            return True

        def ready() -> bool:
            return gone() or not self._room.full(size)

        outcome = wait_for(inbox, inbox.room, attempt, ready, deadline_after(waits_s))
        if outcome is PENDING:
            raise self._room.error(f"task {self.to.name!r}")
        return outcome

    def _add_locked(self, payload: bytes) -> bool:
        # Before room is reserved: a signal handler must not use that room.
        self.steady = False
        if not self._admit_locked(len(self.payloads) + 1, len(payload)):
            return False
        # Last: an earlier interrupt leaves only unused room, which can be reclaimed.
        self._post_locked()
        self.payloads.append(payload)
        self.steady = True
        return True

    def _admit_locked(self, count: int, length: int) -> bool:
        """Reserve room for ``count`` messages, and for some more if possible."""
        if self.to.host is not self._host:
            return False
        if length > self.length:  # the reserved room is for shorter payloads
            self._room.reclaim_locked(self)
        need = count - self.room
        if need > 0:
            longest = self._longest
            if length > longest:
                return False
            fits = next(each for each in _LENGTHS if each >= length)
            self.length = min(fits, longest)
            size = max(1, self.length)
            most = min(_ROOM_MAX, _ROOM // size)
            given = self._room.reserve_locked(self, need, most, size)
            self.room += given
            self.room_bytes += given * size
            return given >= need
        return True

    def _post_locked(self) -> None:
        if not self.posted:
            self._deadline = self._deadline_from_now()
            self._inbox.append_locked(self)
            self.posted = True

    # For other threads.

    @property
    def spare(self) -> bool:
        """True if the batch has room for more messages than it holds."""
        return len(self.payloads) < self.room

    def reclaim_locked(self) -> tuple[int, int]:
        """Release the unused room; return its size in messages and in bytes."""
        self.steady = False  # first: payloads added from now on are checked again
        room, used = self.room, len(self.payloads)
        if used > room:
            return 0, 0
        counted, size = self.room_bytes, sum(map(len, self.payloads[:used]))
        # No call from here to the return: no interrupt comes before the caller counts.
        self.room, self.room_bytes = used, size
        return room - used, counted - size

    def take(self) -> SealedBatch:
        """Seal the batch and take it out; for the comm thread.

        Commands stay on the account of their relay until `RelayAccount.on_batch_moved`;
        notifications are off their account from now on.
        """
        with self._inbox.lock:
            self.steady = False  # first, as above
            self.posted = False
            count = min(len(self.payloads), self.room)
            payloads = Bodies(self.payloads[:count])
            size = payloads.lengths.total
            gap = self._room.release_locked(
                self, self.room - count, self.room_bytes - size
            )
            self.room = self.room_bytes = 0
            del self.payloads[:count]  # not all: the sender may have appended one
            return SealedBatch(
                self.to, self.source, payloads, size, self._deadline, gap
            )

    def drop_oldest_locked(self) -> tuple[bytes, int]:
        """Remove and return the oldest payload, which has room, and its length.

        The caller holds the lock, and takes the payload off the account.
        """
        self.steady = False  # first, as above
        payload = self.payloads[0]
        size = len(payload)
        # No call from here to the return, as above.
        self.room -= 1
        self.room_bytes -= size
        del self.payloads[0]
        return payload, size
