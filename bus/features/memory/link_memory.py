"""`LinkMemory`: shared memory with the processes at the other ends of the links.

`SharedBodies` is the memory of this process, `LentBodies` that of the others. This
class passes the frames about memory to them, and long messages through them. The lower
parts know of neither: their messages have their bodies, wherever these are (`Bodies`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from bus.errors import ArenaFullError, WireError
from bus.features.memory.arena import Arena
from bus.features.memory.frames import (
    CloseSlab,
    MemoryFrame,
    OfferSlab,
    Release,
    SlabAnswer,
)
from bus.features.memory.lent_bodies import LentBodies
from bus.features.memory.shared_bodies import SharedBodies
from bus.kernel.hooks import Bodies, Hooks, Row
from bus.kernel.tasks.actions import Send
from bus.kernel.wire import LEASED, RAW, Batch, FrameType, decode, encode, long_body
from bus.kernel.wire import pieces as link_pieces
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Collection, Sequence

    from bus.kernel.hooks import Process
    from bus.kernel.links.link import Link
    from bus.kernel.wire import Frame
    from bus.model.config import BusConfig
    from bus.model.snapshot import SharedMemoryInfo

__all__ = ["LinkMemory", "LoanRequest", "ViewedBodies"]

# The part of an arena that one recipient may hold (MC-31), so that one that keeps its
# messages for long leaves room for the others.
ARENA_SHARE: Final = 0.25


class ViewedBodies(Bodies):
    """The bodies of long messages where the system has no shared memory.

    Links carry all of them. A long payload of bytes becomes a view nevertheless, so
    that its type is the same on each system (BUS-MSG-16).
    """

    __slots__ = ()

    def resolve_body(self, link: int, frame: Frame) -> Frame:
        """Return a frame with a view of its body, if that is long."""
        frame = super().resolve_body(link, frame)
        body = long_body(frame)
        if not isinstance(frame, Batch) or body is None:
            return frame
        [run] = frame.runs
        if not run.flags & RAW:
            return frame
        return replace(frame, runs=[replace(run, bodies=[memoryview(body)])])


class LoanRequest(Struct, eq=False):
    """A request for a writable view of a buffer in the arena (MC-41).

    size: in bytes.
    then: called once, in the comm thread or in one that acts for it, with the view;
      with an error, if there is no room; or with None, if the arena is closed.
    waits: True if the request may wait until the arena has room.
    withdrawn: True once no task waits for the answer.
    """

    size: int
    then: Callable[[memoryview | ArenaFullError | None], object]
    waits: bool
    withdrawn: bool = False


class LinkMemory(Bodies):
    """The shared memory of a process, in both directions.

    All methods but `info`, `lend` and `post_request` are for the holder of
    `Rounds.hold`.

    Args:
        config: how much memory this process shares.
        process: this process.

    Attributes:
        closed: True once `close` has begun.
        ended_at: as of `LentBodies`.

    Lock: ``_lock`` guards both directions while their state changes, so that `info`
    reads one state. A thread takes it last, and calls no code of users under it. A bus
    whose messages are short never takes it: only methods that have work to do take it.

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
        "_process",
        "_requests",
        "_shared",
        "_shared_at",
        "_unshared_at",
        "closed",
        "ended_at",
    )

    takes: Collection[bytes] = (bytes((FrameType.RELEASE.value,)),)

    def __init__(self, config: BusConfig, process: Process) -> None:
        self._lock: Final[_thread.LockType] = _sync.Lock()
        self.closed: bool = False
        # The tasks that wait for room, in the order of their requests.
        self._requests: Final[deque[LoanRequest]] = deque()
        self._config: Final = config
        self._process: Final = process
        self._lent: Final = LentBodies(
            process.process_id, config.message_bytes_max, process.wake_unless_soon
        )
        self.ended_at: Collection[int] = self._lent.ended_at
        self._shared: SharedBodies = self._new_shared()
        # True while a thread changes ``_shared``; see above.
        self._changing: bool = False
        # Links whose last long body lay in memory; links that know the memory of this
        # process; links that know memory which was replaced.
        self._shared_at: Final[set[int]] = set()
        self._known_at: Final[set[int]] = set()
        self._unshared_at: Final[set[int]] = set()

    def _new_shared(self) -> SharedBodies:
        config = self._config
        return SharedBodies(
            Arena(config.arena_bytes, share=ARENA_SHARE),
            self._process.process_id,
            self._process.wake_unless_soon,
        )

    def _begin_locked(self) -> None:
        """Begin a change of ``_shared``, after an interrupted one of another memory."""
        if self._changing:
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

    def put(self, link: int, frame: bytes | Batch) -> Sequence[bytes]:
        """Return the data for a frame outside a round, behind the reports on its link.

        So the peer has room for its answer. The comm thread reports the leases of other
        links, when it wakes. If this is interrupted, the caller must drop the link.
        """
        with self._lock:
            data = [encode(each) for each in self._lent.take_ended_at(link)]
        data += [frame] if isinstance(frame, bytes) else self.pieces(link, frame)
        return data

    def shares(self, link: int) -> bool:
        """Return True if the last long body sent on a link lay in memory.

        A later one may not (MC-29); then the link carries that.
        """
        return link in self._shared_at

    def end_round(self) -> Sequence[tuple[int, bytes]]:
        """Return the data to put on links at the end of a round, with their links."""
        closed: Sequence[tuple[int, bytes]] = ()
        if not self._shared.is_idle:
            with self._lock:
                self._begin_locked()
                closed = self._shared.end_round()
                self._changing = False
        # In the main thread an interrupt could lose an answer; a later round serves.
        if self._requests and not _sync.may_be_interrupted():
            self.serve_requests()
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
            with self._lock:
                return self._lent.resolve_body(link, frame)
        body = long_body(frame)
        if body is None or not frame.runs[0].flags & RAW:
            return frame
        run = replace(frame.runs[0], bodies=[memoryview(body)])
        return replace(frame, runs=[run])

    def on_frame(self, link: int, frame: MemoryFrame) -> list[Send]:
        """Handle a frame from an open link; return the answer.

        Raises:
            WireError: the frame is wrong.
        """
        with self._lock:
            match frame:
                case OfferSlab():
                    return [Send(link, self._lent.on_offer(link, frame))]
                case CloseSlab():
                    self._lent.on_closed(link, frame.slab)
                case SlabAnswer():
                    self._begin_locked()
                    self._shared.on_answer(link, frame)
                    self._changing = False
                case Release():
                    self._begin_locked()
                    self._shared.on_release(link, frame)
                    self._changing = False
        return []

    def begin(self, send: Callable[[int, Frame], object]) -> Hooks:
        """Return the rows of the frames about memory."""

        def handle(link: Link, frame: MemoryFrame, _: float) -> None:
            for answer in self.on_frame(link.id, frame):
                send(answer.link, answer.frame)

        return Hooks(
            frames=tuple(
                Row(kind, handle, of_link=True)
                for kind in (OfferSlab, SlabAnswer, CloseSlab, Release)
            )
        )

    def take(self, link: int, frame: bytes) -> bool:
        """Handle a report of ended leases; return False if it is malformed."""
        try:
            report = decode(frame)
        except WireError:
            return False  # the comm thread drops the link
        assert isinstance(report, Release)
        self.on_frame(link, report)
        if self._requests:  # the comm thread serves them, not a main thread
            self._process.ask(self.serve_requests)
        return True

    # Ended leases.

    def is_due(self, *, soon: bool) -> bool:
        """Return True if leases have ended whose report cannot wait.

        soon: True if the next round comes soon anyway.
        """
        return self._shared.task_loans.has_ended or self._lent.is_due(soon=soon)

    def take_ended(self) -> Sequence[Send]:
        """Return the reports of the leases ended since the last call."""
        if self._lent.is_idle:
            return ()
        with self._lock:
            return [Send(link, frame) for link, frame in self._lent.take_ended()]

    # Loans to tasks.

    def lend(self, size: int) -> memoryview | None:
        """Return a writable view of a buffer; None if this is closed (MC-41).

        For any thread that holds no other lock, and that no interrupt reaches: one
        would leave the arena half changed.

        Raises:
            ArenaFullError: there is no room.
        """
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

    def post_request(self, request: LoanRequest) -> None:
        """Let the comm thread answer a request for a loan."""
        self._process.ask(partial(self.request_loan, request))
        # After the post: the comm thread sets this, then empties its inbox a last time.
        if self.closed:
            request.then(None)

    def request_loan(self, request: LoanRequest) -> None:
        """Answer a request for a loan, at once or when there is room.

        For any thread after `close`.
        """
        if self.closed:
            request.then(None)
        elif request.waits and self._shared.may_have_room(request.size):
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

    def info(self) -> SharedMemoryInfo:
        """Return the state of the shared memory (MC-39).

        For any thread that holds no other lock.
        """
        processes = self._process.link_names()
        with self._lock:
            self._begin_locked()
            self._changing = False  # nothing more is changed
            return self._shared.info(processes, self._lent.info(processes))

    # Ends.

    def forget(self, link: int) -> None:
        """Release the memory of a closed link."""
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
        with self._lock:
            self._lent.close()
            self._begin_locked()
            self._shared.close()
            self._changing = False
        self.serve_requests()
