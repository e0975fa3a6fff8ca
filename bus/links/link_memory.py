"""`LinkMemory`: shared memory with the processes at the other ends of the links.

`SharedBodies` is the memory of this process, `LentBodies` that of the others. This
class passes the frames about memory to them, and long messages through them. The
manager knows of neither: its messages have their bodies, wherever these are.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bus.core.local.actions import Send
from bus.core.wire import LEASED, RAW, Batch, encode, long_body
from bus.core.wire import pieces as link_pieces
from bus.core.wire.memory_frames import (
    CloseSlab,
    MemoryFrame,
    OfferSlab,
    Release,
    SlabAnswer,
)
from bus.errors import ArenaFullError, WireError
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Collection, Mapping, Sequence

    from bus.config import BusConfig
    from bus.core.wire import Frame
    from bus.links.lent_bodies import LentBodies
    from bus.links.shared_bodies import SharedBodies
    from bus.snapshot import SharedMemoryInfo
    from bus.threads.loan_request import LoanRequest

__all__ = ["LinkMemory"]

# The part of an arena that one recipient may hold (MC-31), so that one that keeps its
# messages for long leaves room for the others.
ARENA_SHARE: Final = 0.25


class LinkMemory:
    """The shared memory of a process, in both directions.

    All methods but `info` and `lend` are for the holder of `Rounds.hold`.

    Args:
        config: whether this process uses shared memory, and how much.
        process_id, on_ended: as for `LentBodies`.

    Attributes:
        closed: True once `close` has begun.
        ended_at: as of `LentBodies`; empty without one. Any thread may read it.

    Lock: ``_lock`` guards both directions while their state changes, so that `info`
    reads one state. A thread takes it last, and calls no code of users under it. Those
    methods take it that have something to do: a bus whose messages are short takes it
    never.

    Interrupts: a main thread that sends on the fast path may be interrupted while it
    changes the memory of this process. ``_changing`` then stays True, and the next
    caller replaces that memory (`_begin_locked`). Links that knew the old memory carry
    their bodies themselves from then on, so no number of a slab gets a second meaning
    there. Rejected: to undo the change, since the arena is many objects. The other
    direction needs no such care: the interrupted thread drops the link, and with it all
    leases of that link.
    """

    __slots__ = (
        "_changing",
        "_config",
        "_known_at",
        "_lent",
        "_lock",
        "_on_ended",
        "_process_id",
        "_requests",
        "_shared",
        "_shared_at",
        "_unshared_at",
        "closed",
        "ended_at",
    )

    def __init__(
        self,
        config: BusConfig,
        process_id: Callable[[int], int | None],
        on_ended: Callable[[], object],
    ) -> None:
        self._lock: Final[_thread.LockType] = _sync.Lock()
        self.closed: bool = False
        # The tasks that wait for room, in the order of their requests.
        self._requests: Final[deque[LoanRequest]] = deque()
        self._config: Final = config
        self._process_id: Final = process_id
        self._on_ended: Final = on_ended
        self._lent: LentBodies | None = None
        self._shared: SharedBodies | None = None
        # True while a thread changes ``_shared``; see above.
        self._changing: bool = False
        # Links whose last long body lay in memory; links that know the memory of this
        # process; links that know memory which was replaced.
        self._shared_at: Final[set[int]] = set()
        self._known_at: Final[set[int]] = set()
        self._unshared_at: Final[set[int]] = set()
        self.ended_at: Collection[int] = ()
        if config.shared_memory:  # else the modules of shared memory are not loaded
            from bus.links.lent_bodies import LentBodies  # noqa: PLC0415 - see above

            self._lent = LentBodies(process_id, config.message_bytes_max, on_ended)
            self.ended_at = self._lent.ended_at
            self._shared = self._new_shared()

    def _new_shared(self) -> SharedBodies:
        from bus.links.shared_bodies import SharedBodies  # noqa: PLC0415 - see `__init__`
        from bus.multicast.arena import Arena  # noqa: PLC0415 - likewise

        config = self._config
        return SharedBodies(
            Arena(config.arena_bytes, share=ARENA_SHARE),
            self._process_id,
            self._on_ended,
        )

    def _begin_locked(self) -> None:
        """Begin a change of ``_shared``, after an interrupted one of another memory."""
        if self._changing and self._shared is not None:
            self._unshared_at.update(self._known_at)
            self._known_at.clear()
            self._shared_at.clear()
            # Its state is unknown. Recipients can still read what they have (MC-33).
            with suppress(Exception):
                self._shared.close()
            self._shared = self._new_shared()
        self._changing = True

    # Frames that are sent.

    def pieces(self, link: int, frame: Frame) -> Sequence[bytes]:
        """Return the data to put on a link for a frame, in order."""
        body = long_body(frame)
        if body is None:
            return (encode(frame),)
        assert isinstance(frame, Batch)
        if self._shared is None:
            return link_pieces(frame)
        with self._lock:
            self._begin_locked()
            pieces: Sequence[bytes]
            if link in self._unshared_at:
                pieces = link_pieces(frame)
            else:
                self._known_at.add(link)
                pieces = self._shared.pieces(link, frame, body)
            self._changing = False
        if len(pieces) == 1:  # a location
            self._shared_at.add(link)
        else:
            self._shared_at.discard(link)
        return pieces

    def shares(self, link: int) -> bool:
        """Return True if the last long body sent on a link lay in memory.

        A later one may not (MC-29); then the link carries that.
        """
        return link in self._shared_at

    def end_round(self) -> Sequence[tuple[int, bytes]]:
        """Return the data to put on links at the end of a round, with their links."""
        if self._shared is None or self._shared.is_idle:
            return ()
        with self._lock:
            self._begin_locked()
            closed = self._shared.end_round()
            self._changing = False
        return closed

    # Frames that arrive.

    def resolve_body(self, link: int, frame: Frame) -> Frame:
        """Return a frame with its body, if it has only the location of that.

        A long payload of bytes becomes a view also if the link carried it. So its type
        does not depend on whether the memory had room (BUS-MSG-16).

        Raises:
            WireError: there is no such body.
        """
        if not isinstance(frame, Batch) or len(frame.runs) != 1:
            return frame
        if frame.runs[0].flags & LEASED:
            if self._lent is None:
                fact = "a body in shared memory, which is not in use here"
                raise WireError(f"MSG has {fact}")
            with self._lock:
                return self._lent.resolve_body(link, frame)
        body = long_body(frame)
        if body is None or self._lent is None or not frame.runs[0].flags & RAW:
            return frame
        run = replace(frame.runs[0], bodies=[memoryview(body)])
        return replace(frame, runs=[run])

    def on_frame(self, link: int, frame: MemoryFrame) -> list[Send]:
        """Handle a frame from an open link; return the answer.

        Raises:
            WireError: the frame is wrong.
        """
        lent = self._lent
        if lent is None or self._shared is None:
            if isinstance(frame, OfferSlab):
                return [Send(link, SlabAnswer(slab=frame.slab, mapped=False))]
            return []
        with self._lock:
            match frame:
                case OfferSlab():
                    return [Send(link, lent.on_offer(link, frame))]
                case CloseSlab():
                    lent.on_closed(link, frame.slab)
                case SlabAnswer():
                    self._begin_locked()
                    self._shared.on_answer(link, frame)
                    self._changing = False
                case Release():
                    self._begin_locked()
                    self._shared.on_release(link, frame)
                    self._changing = False
        return []

    # Ended leases.

    def is_due(self, *, soon: bool) -> bool:
        """Return True if leases have ended whose report cannot wait.

        soon: True if the next round comes soon anyway.
        """
        if self._lent is None or self._shared is None:
            return False
        return self._shared.task_loans.has_ended or self._lent.is_due(soon=soon)

    def take_ended(self) -> Sequence[Send]:
        """Return the reports of the leases ended since the last call."""
        if self._lent is None or self._lent.is_idle:
            return ()
        with self._lock:
            return [Send(link, frame) for link, frame in self._lent.take_ended()]

    def take_ended_at(self, link: int) -> Sequence[bytes]:
        """Return the reports of the leases of one link, as data to put on it.

        If this is interrupted, the caller must drop the link.
        """
        if self._lent is None:
            return ()
        with self._lock:
            return [encode(frame) for frame in self._lent.take_ended_at(link)]

    # Loans to tasks.

    def lend(self, size: int) -> memoryview | None:
        """Return a writable view of a buffer; None if no arena is in use (MC-41).

        For any thread that holds no other lock, and that no interrupt reaches: one
        would leave the arena half changed.

        Raises:
            ArenaFullError: there is no room.
        """
        if self._shared is None:
            return None
        with self._lock:
            if self.closed:
                return None
            self._begin_locked()
            try:
                view = self._shared.task_loans.lend(size)
            except ArenaFullError:
                self._changing = False  # nothing was changed
                raise
            self._changing = False
            return view

    @property
    def has_requests(self) -> bool:
        """True if tasks wait for room; takes no lock."""
        return bool(self._requests)

    def request_loan(self, request: LoanRequest) -> None:
        """Answer a request for a loan, at once or when there is room.

        For any thread after `close`.
        """
        shared = self._shared
        if self.closed or shared is None:
            request.then(None)
        elif request.waits and shared.may_have_room(request.size):
            self._requests.append(request)
            self.serve_requests()
        else:
            request.then(self._answer_to(request))

    def serve_requests(self) -> None:
        """Answer the requests for which there is room now, the oldest first."""
        while self._requests:
            request = self._requests[0]
            if not request.withdrawn:
                answer = self._answer_to(request)
                if isinstance(answer, ArenaFullError):
                    return
                request.then(answer)
            self._requests.popleft()

    def _answer_to(self, request: LoanRequest) -> memoryview | ArenaFullError | None:
        try:
            return self.lend(request.size)
        except ArenaFullError as error:
            return error

    # Inspection.

    def info(self, processes: Mapping[int, str]) -> SharedMemoryInfo | None:
        """Return the state of the shared memory (MC-39); None if there is none.

        For any thread that holds no other lock.

        processes: the name of the process at each link.
        """
        if self._lent is None or self._shared is None:
            return None
        with self._lock:
            self._begin_locked()
            self._changing = False  # nothing more is changed
            return self._shared.info(processes, self._lent.info(processes))

    # Ends.

    def forget(self, link: int) -> None:
        """Release the memory of a closed link."""
        if self._lent is None or self._shared is None:
            return
        with self._lock:
            self._lent.forget(link)
            self._begin_locked()
            self._shared.forget(link)
            self._changing = False
        for links in (self._shared_at, self._known_at, self._unshared_at):
            links.discard(link)

    def close(self) -> None:
        """Close all memory; views that processes or tasks have stay readable."""
        self.closed = True
        if self._lent is None or self._shared is None:
            return
        with self._lock:
            self._lent.close()
            self._begin_locked()
            self._shared.close()
            self._changing = False
        self.serve_requests()
