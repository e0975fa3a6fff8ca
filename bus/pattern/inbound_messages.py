"""`InboundMessages`: messages that have arrived at a node and were not taken yet."""

from __future__ import annotations

import contextlib
from collections import OrderedDict, deque
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, TypeVar

from bus.kernel.streams.incoming_stream import IncomingStream
from bus.pattern.drop_reason import DropReason
from bus.pattern.fair_queue import FairQueue
from queuebroker import _sync
from queuebroker.errors import ReceiveTimeoutError
from queuebroker.waiting.parking import PENDING, Pending, WaitList
from queuebroker.waiting.readiness import Readiness

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bus.pattern.drop_ledger import DropLedger
    from bus.pattern.message_run import MessageRun
    from bus.pattern.pipe import Carrier, Pipe
    from bus.pattern.socket_config import SocketConfig
    from bus.pattern.socket_state import SocketState, Waiting

__all__ = ["InboundMessages", "LoopGuard", "RepeatFilter"]

T = TypeVar("T")
# How many messages a call makes ready for the next ones: those of one peer, fewer if
# another peer waits for its turn.
_READY_MAX: Final = 64
_READY_SHARED_MAX: Final = 4
# `LoopGuard`: how far a message may fall behind a later one of its origin, on another
# path, and how many ranges of such messages are remembered.
_WINDOW: Final = 1 << 16
_RANGES_MAX: Final = 1024
# The number of origins that are remembered; the one unheard for longest goes first.
_ORIGINS_MAX: Final = 4096
# The number of messages that a `RepeatFilter` remembers; the oldest goes first.
_MESSAGES_MAX: Final = 1 << 16
_DIGEST_BYTES: Final = 16


class InboundMessages:
    """The received messages of one node; under its lock, but for the first attributes.

    Args:
        node: the node id.
        config: the limits.
        state: of the node.
        ledger: counts the messages that are dropped here.

    Attributes:
        ready: the next messages of a socket that is not raw; they count as delivered.
          Any thread may take the first of them, in one call into C, without the lock.
          If that was the last one, it calls `on_ready_empty_locked`.
        receivers: the callers that wait for a message.
        delivered: the number of messages that were taken, or are ready.
    """

    __slots__ = (
        "_blocks",
        "_guard",
        "_ledger",
        "_queue",
        "_readiness",
        "_ready_of",
        "_repeats",
        "_resumed",
        "_state",
        "delivered",
        "ready",
        "receivers",
    )

    def __init__(
        self, node: int, config: SocketConfig, state: SocketState, ledger: DropLedger
    ) -> None:
        self.ready: Final[deque[bytes]] = deque()
        self.receivers: Final = WaitList()
        self.delivered: int = 0
        self._state: Final = state
        self._ledger: Final = ledger
        self._blocks: Final = config.receive_overflow == "block"
        self._queue: Final[FairQueue[Pipe]] = FairQueue(
            config.receive_messages, config.receive_bytes
        )
        self._guard: Final = LoopGuard(node)
        self._repeats: Final = RepeatFilter(config.repeat_s)
        self._ready_of: Pipe | None = None  # the pipe of the messages in `ready`
        self._readiness: Readiness | None = None
        # Carriers to resume, since there is room again.
        self._resumed: Final[deque[Carrier]] = deque()

    def __len__(self) -> int:
        return len(self._queue) + len(self.ready)

    def has_next(self) -> bool:
        """Return True if a receiver need not wait; for any thread, without the lock."""
        return self._state.closed or bool(self.ready or self._queue)

    # Arriving.

    def accept_locked(self, pipe: Pipe, run: MessageRun) -> None:
        """Queue messages; those that came before, or have no room, are dropped."""
        count = len(run.bodies)
        pipe.arrived += count
        if self._state.closed:
            # Within a process, a sender may come here just after the end.
            self._ledger.add_locked(pipe, DropReason.CLOSED, count)
            return
        if pipe.node is None:
            fresh = self._repeats.without_repeats(run)
            reason = DropReason.REPEAT
            # A device may send them to native peers, from which they may return.
            self._guard.without_duplicates(run)
        else:
            fresh = self._guard.without_duplicates(run)
            reason = DropReason.DUPLICATE
        new = sum([len(each.bodies) for each in fresh])
        if new < count:
            self._ledger.add_locked(pipe, reason, count - new)
        for each in fresh:
            new -= self._queue.offer(pipe, each, forced=self._blocks)
        if new:
            self._ledger.add_locked(pipe, DropReason.RECEIVE_QUEUE, new)

    def pause_locked(self, pipe: Pipe) -> bool:
        """Return True if its carrier must take in no more messages until `resume`."""
        pipe.is_paused = self._blocks and self._queue.is_full(pipe)
        return pipe.is_paused

    def resume(self) -> None:
        """Resume the carriers of which messages were taken; without the lock."""
        while self._resumed:
            self._resume_first()

    def _resume_first(self) -> None:
        # Removed afterwards: an interrupt in between must not leave it paused.
        with contextlib.suppress(IndexError, ValueError):  # another thread has
            carrier = self._resumed[0]
            carrier.resume()
            self._resumed.remove(carrier)

    # Taking.

    def take_body_locked(self) -> bytes | Pending:
        """Remove and return the next message, and make the ones behind it ready."""
        try:
            body = self.ready.popleft()  # another thread has made it ready
        except IndexError:
            if not self._queue:
                self._set_readable_locked()  # an interrupt may have left it wrong
                return PENDING
            most = _READY_MAX if self._queue.peers == 1 else _READY_SHARED_MAX
            pipe, bodies = self._queue.take_bodies(most)
            self._ready_of = pipe
            self._on_taken_locked(pipe, len(bodies))
            body, *rest = bodies
            self.ready.extend(rest)
        self.wake_locked()
        return body

    def take_run_locked(self, most: int) -> tuple[Pipe, MessageRun] | Pending:
        """Remove and return up to ``most`` messages of the next peer."""
        if not self._queue:
            return PENDING
        pipe, run = self._queue.take(most)
        self._on_taken_locked(pipe, len(run.bodies))
        self.wake_locked()
        return pipe, run

    def receiving(self) -> Waiting[bytes]:
        """Return the arguments of `wait_for` for the next message.

        Pass the outcome to `on_received`.
        """
        return self._state.waiting(
            self.receivers, self.take_body_locked, self.has_next, "receive", owner=""
        )

    def receiving_tagged(
        self, owner: str = "", most: int = 1
    ) -> Waiting[tuple[Pipe, MessageRun]]:
        """Return the arguments of `wait_for` for up to ``most`` messages of one peer.

        Pass the outcome to `on_received`.
        """
        return self._state.waiting(
            self.receivers,
            lambda: self.take_run_locked(most),
            self.has_next,
            "receive",
            owner,
        )

    def on_received(self, outcome: T | Pending) -> T:
        """Return the outcome of a wait, and resume carriers; without the lock.

        Raises:
            ReceiveTimeoutError: no message arrived in time.
        """
        self.resume()
        if isinstance(outcome, Pending):
            raise ReceiveTimeoutError("no message arrived in time")
        return outcome

    def _on_taken_locked(self, pipe: Pipe, count: int) -> None:
        self.delivered += count
        pipe.delivered += count
        pipe.report_soon_locked()
        self._resume_locked(pipe)

    def _resume_locked(self, pipe: Pipe) -> None:
        if pipe.is_paused and not self._queue.is_full(pipe):
            pipe.is_paused = False
            self._resumed.append(pipe.carrier)

    def on_ready_empty_locked(self) -> None:
        """Update the descriptor and the account."""
        self._set_readable_locked()
        if self._ready_of is not None:
            self._ready_of.report_soon_locked()

    def wake_locked(self) -> None:
        """Wake the next receiver if there is a message; update the descriptor."""
        if self.receivers.asleep and self.has_next():
            self.receivers.wake_one()
        self._set_readable_locked()

    def delivered_of(self, pipe: Pipe) -> int:
        """Return how many messages of a pipe the application has taken."""
        ready = len(self.ready) if pipe is self._ready_of else 0
        return pipe.delivered - ready

    # The descriptor.

    def readiness_locked(self) -> Readiness:
        """Return a descriptor that is readable while a receiver need not wait.

        The caller keeps it: it stays readable after the end, which forgets it here.
        """
        if self._readiness is None:
            self._readiness = Readiness()
            self._set_readable_locked()
        return self._readiness

    def _set_readable_locked(self) -> None:
        if self._readiness is not None:
            self._readiness.set_locked(readable=self.has_next())

    def recover_locked(self, pipes: Iterable[Pipe]) -> None:
        """Repair the queue, and wake every receiver, after an exception."""
        self._queue.repair()
        for pipe in pipes:
            self._resume_locked(pipe)
        self.receivers.wake_all()
        if self._readiness is not None:
            self._readiness.restore_locked(readable=self.has_next())

    # The end.

    def close_locked(self) -> None:
        """Drop all messages, and wake every receiver; the state is closed already."""
        for pipe, count in self._queue.clear().items():
            self._ledger.add_locked(pipe, DropReason.CLOSED, count)
        if (left := self._clear_ready()) and self._ready_of is not None:
            self.delivered -= left
            self._ready_of.delivered -= left
            self._ledger.add_locked(self._ready_of, DropReason.CLOSED, left)
        self._set_readable_locked()
        self._readiness = None
        self.receivers.wake_all()

    def abandon_after_fork(self) -> None:
        """Forget what the parent has, in a fork's child; without the lock.

        Else both would take the messages that are ready, and the descriptor of this
        process, which is the parent's, would change in the parent too.
        """
        self.ready.clear()
        self._readiness = None

    def _clear_ready(self) -> int:
        count = 0
        try:
            while True:  # from the other end: other threads take the first ones
                self.ready.pop()
                count += 1
        except IndexError:
            return count


class LoopGuard:
    """The messages that a socket has accepted, by origin; for the holder of its lock.

    It recognises a message that has come by another path (BP-16). Each message between
    sockets of this package has an origin, the node that sent it first, and its number
    there. So it is accepted once, however many devices form a ring.

    own: the node id of the socket, whose messages never come back.
    """

    __slots__ = ("_streams", "own")

    def __init__(self, own: int) -> None:
        self.own: Final = own
        self._streams: Final[OrderedDict[int, IncomingStream[None]]] = OrderedDict()

    def without_duplicates(self, run: MessageRun) -> list[MessageRun]:
        """Record messages; return those that have not come before, in order."""
        origin, first, count = run.origin, run.first, len(run.bodies)
        stream = self._streams.get(origin)
        # The common case first: the messages after the last one.
        if stream is not None and stream.accept_next(first, count, 1):
            self._streams.move_to_end(origin)
            return [run]
        return [
            run.part(at, at + 1)
            for at in range(count)
            if self.accepts(origin, first + at)
        ]

    def accepts(self, origin: int, number: int) -> bool:
        """Record a message; return False if it has come before."""
        if origin == self.own:
            return False
        stream = self._streams.get(origin)
        if stream is None:
            stream = self._begin(origin, number)
        else:
            self._streams.move_to_end(origin)
        # The common case first: the message after the last one.
        if stream.accept_next(number, 1, 1):
            return True
        return bool(stream.accept(number, (None,), 1))

    def _begin(self, origin: int, number: int) -> IncomingStream[None]:
        if len(self._streams) >= _ORIGINS_MAX:
            self._streams.popitem(last=False)
        # Earlier messages may still come by a slower path.
        stream = IncomingStream[None](
            max(1, number - _WINDOW),
            window=_WINDOW,
            ranges_max=_RANGES_MAX,
            ordered=False,
        )
        self._streams[origin] = stream
        return stream


class RepeatFilter:
    """The messages of the last ``seconds``, by their digests; 0 filters none.

    It drops messages whose bytes arrived a short time ago (BP-16). For the holder of
    the node's lock.
    """

    __slots__ = ("_came_at", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds: Final = seconds
        self._came_at: Final[OrderedDict[bytes, float]] = OrderedDict()

    def without_repeats(self, run: MessageRun) -> list[MessageRun]:
        """Record messages; return those that repeat no recent one, in order."""
        if not self._seconds:
            return [run]
        return [
            run.part(at, at + 1)
            for at, body in enumerate(run.bodies)
            if not self.repeats(body)
        ]

    def repeats(self, body: bytes) -> bool:
        """Record a message; return True if it repeats a recent one."""
        if not self._seconds:
            return False
        now, came_at = _sync.monotonic(), self._came_at
        digest = blake2b(body, digest_size=_DIGEST_BYTES).digest()
        repeated = digest in came_at and came_at[digest] > now - self._seconds
        came_at[digest] = now
        came_at.move_to_end(digest)
        if len(came_at) > _MESSAGES_MAX:
            came_at.popitem(last=False)
        return repeated
