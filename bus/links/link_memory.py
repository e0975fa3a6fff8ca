"""`LinkMemory`: shared memory with the processes at the other ends of the links.

`SharedBodies` is the memory of this process, `LentBodies` that of the others. This
class passes the frames about memory to them, and long messages through them. The
manager knows of neither: its messages have their bodies, wherever these are.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bus.core.local.actions import Send
from bus.core.wire import (
    LEASED,
    RAW,
    Batch,
    CloseSlab,
    MemoryFrame,
    OfferSlab,
    Release,
    SlabAnswer,
    encode,
    long_body,
)
from bus.core.wire import pieces as link_pieces
from bus.errors import ArenaFullError, WireError
from bus.links.lent_bodies import LentBodies
from bus.links.shared_bodies import SharedBodies
from bus.multicast.arena import Arena
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Mapping, Sequence

    from bus.config import BusConfig
    from bus.core.wire import Frame
    from bus.shared_memory_info import SharedMemoryInfo
    from bus.threads.loan_request import LoanRequest

__all__ = ["LinkMemory"]


class LinkMemory:
    """The shared memory of a process, in both directions.

    All methods but `info` and `lend` are for the holder of `Rounds.hold`.

    Args:
        config: whether this process uses shared memory, and how much.
        process_id, on_ended: as for `LentBodies`.

    Attributes:
        closed: True once `close` has begun.

    Lock: ``_lock`` guards both directions while their state changes, so that `info`
    reads one state. A thread takes it last, and calls no code of users under it. Those
    methods take it that have something to do: a bus whose messages are short takes it
    never.
    """

    __slots__ = ("_lent", "_lock", "_requests", "_shared", "closed")

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
        self._lent: LentBodies | None = None
        self._shared: SharedBodies | None = None
        if config.arena:
            self._lent = LentBodies(process_id, config.message_bytes_max, on_ended)
            self._shared = SharedBodies(
                Arena(config.arena_bytes, share=config.arena_share),
                config.arena_threshold_bytes,
                process_id,
                on_ended,
            )

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
            return self._shared.pieces(link, frame, body)

    def end_round(self) -> Sequence[tuple[int, bytes]]:
        """Return the data to put on links at the end of a round, with their links."""
        if self._shared is None or self._shared.is_idle:
            return ()
        with self._lock:
            return self._shared.end_round()

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
        lent, shared = self._lent, self._shared
        if lent is None or shared is None:
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
                    shared.on_answer(link, frame)
                case Release():
                    shared.on_release(link, frame)
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
            return None if self.closed else self._shared.task_loans.lend(size)

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
            return self._shared.info(processes, self._lent.info(processes))

    # Ends.

    def forget(self, link: int) -> None:
        """Release what a closed link needed."""
        if self._lent is None or self._shared is None:
            return
        with self._lock:
            self._lent.forget(link)
            self._shared.forget(link)

    def close(self) -> None:
        """Close all memory; what other processes or tasks here read stays readable."""
        self.closed = True
        if self._lent is None or self._shared is None:
            return
        with self._lock:
            self._lent.close()
            self._shared.close()
        self.serve_requests()
