"""`SharedBodies`: the bodies of long messages, in the shared memory of this process.

A link carries their locations. One body for several links is copied into the memory
once, if their frames are of one round; and a body that a task wrote there is not copied
(MC-41). A link carries the body itself if the process at its other end cannot read the
memory, or has not answered yet that it can (MC-38), or holds its share of it, or if
there is no room (MC-29). So a lack of shared memory makes no sender wait, and no
message fail.

`TaskLoans` are the buffers of the arena that tasks of this process write in place. A
task gets a writable view. When it sends the message, the payload is a read-only view of
the same bytes, which stays in this process until no code, no queue and no relay needs
the message any more. The loan lasts as long as any of these views (MC-35), so its
buffer is not used for other bytes meanwhile.
"""

from __future__ import annotations

import enum
import os
import weakref
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bus.errors import ArenaFullError
from bus.features.memory.frames import CloseSlab, OfferSlab
from bus.features.memory.mappings import lend
from bus.features.memory.slabs import buffer_bytes_for
from bus.kernel.wire import encode, encode_located, pieces
from bus.model.snapshot import (
    ArenaRecipientInfo,
    LongMessageCounters,
    SharedMemoryInfo,
    SlabInfo,
)
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bus.features.memory.arena import Arena, ArenaLoan, SlabState
    from bus.features.memory.frames import Release, SlabAnswer
    from bus.kernel.wire import Batch
    from bus.model.snapshot import LentViewsInfo

__all__ = ["LeaseAccount", "SharedBodies", "TaskLoans"]


class LeaseAccount:
    """The counters of the long messages for one recipient, and the age of its leases.

    All methods are for the holder of the lock of `LinkMemory`.

    Invariant: ``shared == released + leases``.

    Attributes:
        shared, released, beyond_share, no_room, not_mapped: as `LongMessageCounters`.
    """

    __slots__ = (
        "_since",
        "beyond_share",
        "no_room",
        "not_mapped",
        "released",
        "shared",
    )

    def __init__(self) -> None:
        self.shared: int = 0
        self.released: int = 0
        self.beyond_share: int = 0
        self.no_room: int = 0
        self.not_mapped: int = 0
        # When each lease began, by its id; the oldest is first.
        self._since: Final[dict[int, float]] = {}

    @property
    def leases(self) -> int:
        """The number of leases that have not ended."""
        return len(self._since)

    @property
    def since(self) -> float | None:
        """When the oldest lease began, on the clock of `_sync.monotonic`."""
        return next(iter(self._since.values()), None)

    def begin(self, lease: int) -> None:
        """Count a message that the recipient has leased."""
        self.shared += 1
        self._since[lease] = _sync.monotonic()

    def end(self, lease: int) -> None:
        """Count the release of a lease that the recipient has."""
        del self._since[lease]
        self.released += 1

    def end_all(self) -> None:
        """Count the release of all leases, as the link is lost (MC-32)."""
        self.released += len(self._since)
        self._since.clear()

    def add(self, other: LeaseAccount) -> None:
        """Add the counters of another recipient, not its leases."""
        self.shared += other.shared
        self.released += other.released
        self.beyond_share += other.beyond_share
        self.no_room += other.no_room
        self.not_mapped += other.not_mapped

    def counters(self) -> LongMessageCounters:
        """Return the present counters."""
        return LongMessageCounters(
            shared=self.shared,
            released=self.released,
            beyond_share=self.beyond_share,
            no_room=self.no_room,
            not_mapped=self.not_mapped,
        )


class TaskLoans:
    """The loans of an arena to tasks, by their views.

    All methods but `has_ended` are for the holder of the lock of `LinkMemory`. Loans
    end in any thread.

    Args:
        arena: the arena.
        on_ended: as for `LentBodies`.
    """

    __slots__ = ("_arena", "_ended", "_loans", "_on_ended")

    def __init__(self, arena: Arena, on_ended: Callable[[], object]) -> None:
        self._arena: Final = arena
        self._on_ended: Final = on_ended
        # By the `id` of the object behind the views: each view of a view has the same.
        self._loans: Final[dict[int, _TaskLoan]] = {}
        # Appended to in any thread; see `SlabMappings`.
        self._ended: Final[deque[_TaskLoan]] = deque()

    @property
    def has_ended(self) -> bool:
        """True if `take_back` has something to do."""
        return bool(self._ended)

    def lend(self, size: int) -> memoryview:
        """Return a writable view of a buffer; the loan ends with the last view of it.

        Raises:
            ArenaFullError: there is no room.
        """
        self.take_back()
        loan = self._arena.lease(size)
        memory = self._arena.memory(loan.slab)
        made: list[_TaskLoan] = []
        try:
            view = lend(
                memory,
                loan.at,
                size,
                self._on_ended,
                watch=lambda behind: made.append(_TaskLoan(behind, self._ended.append)),
                writable=True,
            )
        except MemoryError:
            self._arena.release_loan(loan)
            raise
        [watched] = made
        watched.loan, watched.key = loan, id(view.obj)
        self._loans[watched.key] = watched
        return view

    def find(self, body: memoryview) -> ArenaLoan | None:
        """Return the loan that a body is a view of; None if it is none."""
        found = self._loans.get(id(body.obj))
        # The object of another view may have the id of one that is gone.
        return None if found is None or found() is None else found.loan

    def take_back(self) -> None:
        """End the loans of which no view is left."""
        while self._ended:
            ended = self._ended.popleft()
            if self._loans.get(ended.key) is ended:
                del self._loans[ended.key]
            self._arena.release_loan(ended.loan)


class _TaskLoan(weakref.ref[object]):
    """A loan, by the object behind its views.

    loan: as the arena counts it. key: the ``id`` of ``obj`` of its views.
    """

    __slots__ = ("key", "loan")

    key: int
    loan: ArenaLoan


_MEMORY_AT: Final = 20  # the size of the memory, among the fields behind the name


class SharedBodies:
    """The arena of a process, and the links on which it is used.

    All methods but `is_idle` are for the holder of the lock of `LinkMemory`.

    Args:
        arena: used by this object alone.
        process_id: returns the process at the other end of a link, by the number of the
            link; None unless the system reports it.
        on_ended: as for `LentBodies`, of the loans to tasks.

    Attributes:
        task_loans: the buffers that tasks write in place.
    """

    __slots__ = (
        "_arena",
        "_past",
        "_process_id",
        "_publications",
        "_recipients",
        "task_loans",
    )

    def __init__(
        self,
        arena: Arena,
        process_id: Callable[[int], int | None],
        on_ended: Callable[[], object],
    ) -> None:
        self._arena: Final = arena
        self.task_loans: Final = TaskLoans(arena, on_ended)
        self._process_id: Final = process_id
        # By link; none for a link whose process cannot read the arena: nothing would
        # remove it if the link is lost already.
        self._recipients: Final[dict[int, _Recipient]] = {}
        # The bodies copied in this round, which stay alive, by their `id`.
        self._publications: Final[dict[int, tuple[bytes | memoryview, ArenaLoan]]] = {}
        # The long messages for all links that are not among the recipients.
        self._past: Final = LeaseAccount()

    # Sending.

    def pieces(
        self, link: int, batch: Batch, body: bytes | memoryview
    ) -> Sequence[bytes]:
        """Return the data to put on a link for one long message, in order."""
        recipient = self._recipient(link)
        if recipient is None:
            return pieces(batch)
        loan = self._loan(recipient, body)
        if loan is None:
            return pieces(batch)
        slab = loan.slab
        state = recipient.slabs.get(slab)
        if state is not _SlabState.MAPPED:
            recipient.account.not_mapped += 1
            if state is not None:
                return pieces(batch)
            # Not used before the answer: no message depends on access that a process
            # may lack (MC-38).
            recipient.slabs[slab] = _SlabState.OFFERED
            return self._offer(slab), *pieces(batch)
        if not self._arena.enqueue(loan, recipient.number):
            recipient.account.beyond_share += 1
            return pieces(batch)
        # The link takes it from the queue at once.
        placement = self._arena.dequeue(recipient.number)
        assert placement is not None
        recipient.account.begin(placement.lease)
        return (encode_located(batch, placement.pack()),)

    @property
    def is_idle(self) -> bool:
        """True if `end_round` has nothing to do."""
        return not (self._publications or self._recipients or self.task_loans.has_ended)

    def end_round(self) -> list[tuple[int, bytes]]:
        """Forget the bodies of this round; return the data to put on links, if any."""
        for _, loan in self._publications.values():
            self._arena.release_loan(loan)
        self._publications.clear()
        self.task_loans.take_back()
        closed = []
        for slab in self._arena.take_closed():
            data = encode(CloseSlab(slab=slab))
            for link, recipient in self._recipients.items():
                if slab in recipient.slabs:
                    del recipient.slabs[slab]
                    closed.append((link, data))
        return closed

    def _recipient(self, link: int) -> _Recipient | None:
        """Return the recipient at a link; None if it gets no body in shared memory."""
        found = self._recipients.get(link)
        if found is not None:
            return found
        process_id = self._process_id(link)
        if process_id is None:
            return None
        made = _Recipient(self._arena.add_recipient(), process_id)
        self._recipients[link] = made
        return made

    def _loan(
        self, recipient: _Recipient, body: bytes | memoryview
    ) -> ArenaLoan | None:
        """Return the place of a body in the arena.

        None if it has none yet, and the recipient holds its share or there is no room.
        """
        if type(body) is memoryview and (written := self.task_loans.find(body)):
            return written
        published = self._publications.get(id(body))
        if published is not None:
            return published[1]
        # MC-31: a recipient that is slow to release has its messages copied. Asked
        # before a buffer is taken: otherwise a slab might be made for nothing.
        if not self._arena.is_within_share(recipient.number, len(body)):
            recipient.account.beyond_share += 1
            return None
        try:
            loan = self._arena.lease(len(body))
        except ArenaFullError:
            recipient.account.no_room += 1
            return None
        self._publications[id(body)] = body, loan
        loan.buffer[:] = body
        return loan

    def _offer(self, slab: int) -> bytes:
        memory = self._arena.memory(slab)
        return encode(
            OfferSlab(slab=slab, descriptor=memory.fileno(), token=memory.name)
        )

    def may_have_room(self, size: int) -> bool:
        """Return True if the empty arena has room for a body of this size."""
        return buffer_bytes_for(size) <= self._arena.bytes_max

    # Frames of recipients.

    def on_answer(self, link: int, frame: SlabAnswer) -> None:
        """Note whether the process at a link can read a slab."""
        recipient = self._recipients.get(link)
        if recipient is not None and frame.slab in recipient.slabs:
            recipient.slabs[frame.slab] = (
                _SlabState.MAPPED if frame.mapped else _SlabState.REFUSED
            )

    def on_release(self, link: int, frame: Release) -> None:
        """End the leases that a recipient does not use any more."""
        recipient = self._recipients.get(link)
        if recipient is not None:
            for slab, lease in frame.leases:
                if self._arena.release(recipient.number, lease, slab):
                    recipient.account.end(lease)

    # Ends.

    def forget(self, link: int) -> None:
        """Release what the process at a closed link holds (MC-32)."""
        recipient = self._recipients.pop(link, None)
        if recipient is not None:
            ended = _has_ended(recipient.process_id)
            self._arena.remove_recipient(recipient.number, process_ended=ended)
            self._retire(recipient)

    def close(self) -> None:
        """Close the arena; what recipients have leased stays readable (MC-33)."""
        self._publications.clear()
        for recipient in self._recipients.values():
            self._retire(recipient)
        self._recipients.clear()
        self._arena.close()

    def _retire(self, recipient: _Recipient) -> None:
        recipient.account.end_all()
        self._past.add(recipient.account)

    # Inspection.

    def info(
        self, processes: Mapping[int, str], lent: tuple[LentViewsInfo, ...]
    ) -> SharedMemoryInfo:
        """Return the state of the arena (MC-39).

        processes: the name of the process at each link.
        lent: the state of the other direction.
        """
        arena, now, total = self._arena, _sync.monotonic(), LeaseAccount()
        total.add(self._past)
        recipients = []
        for link, each in self._recipients.items():
            total.add(each.account)
            held_bytes = arena.holdings(each.number).held_bytes
            recipients.append(each.info(processes.get(link, ""), held_bytes, now))
        return SharedMemoryInfo(
            bytes_max=arena.bytes_max,
            size=arena.size,
            share_bytes=arena.held_max,
            slabs=tuple(map(_slab_info, arena.slabs())),
            recipients=tuple(recipients),
            messages=total.counters(),
            stray_releases=arena.stray_releases,
            lent=lent,
        )


class _SlabState(enum.Enum):
    """The state of a slab at a recipient; it is unknown there without any."""

    OFFERED = "offered"  # no answer has arrived
    MAPPED = "mapped"
    REFUSED = "refused"  # the process cannot map it


class _Recipient:
    """A process that reads the arena over one link.

    number: as the arena counts recipients. process_id: of the process.
    slabs: the slabs that it was offered. account: its leases.
    """

    __slots__ = ("account", "number", "process_id", "slabs")

    def __init__(self, number: int, process_id: int) -> None:
        self.number: Final = number
        self.process_id: Final = process_id
        self.slabs: Final[dict[int, _SlabState]] = {}
        self.account: Final = LeaseAccount()

    def info(self, process: str, held_bytes: int, now: float) -> ArenaRecipientInfo:
        """Return its state; the arena and the link table give the arguments."""
        account, states = self.account, list(self.slabs.values())
        since = account.since
        return ArenaRecipientInfo(
            process=process,
            pid=self.process_id,
            since_s=None if since is None else now - since,
            leases=account.leases,
            held_bytes=held_bytes,
            slabs_mapped=states.count(_SlabState.MAPPED),
            slabs_refused=states.count(_SlabState.REFUSED),
            messages=account.counters(),
        )


def _slab_info(slab: SlabState) -> SlabInfo:
    return SlabInfo(
        number=slab.number,
        buffer_bytes=slab.buffer_bytes,
        buffers=slab.buffers,
        used=slab.buffers - slab.free,
        loans=slab.loans,
        # The arena counts these among its leases: no recipient has them.
        leases=slab.leases - slab.abandoned - slab.loans,
        abandoned=slab.abandoned,
    )


def _has_ended(process_id: int) -> bool:
    """Return True if a process can no longer read; False while that is unknown.

    A process that is killed closes its links before it becomes a zombie, and often its
    threads are listed for some time. So only the memory of the threads counts: each
    gives it up first of all, and has a size of 0 from then on.
    """
    threads = Path(f"/proc/{process_id}/task")
    try:
        listed = os.listdir(threads)
        if not all(_has_no_memory(threads / each) for each in listed):
            return False
        # A thread that was listed may have started another one before it ended.
        return set(os.listdir(threads)) <= set(listed)
    except OSError:
        pass  # it is reaped, or /proc hides the processes of other users
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # of another user
    return False


def _has_no_memory(thread: Path) -> bool:
    try:
        stat = (thread / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return True
    # The fields begin behind its name, which may hold any bytes but is in parentheses.
    return stat.rpartition(b")")[2].split()[_MEMORY_AT] == b"0"
