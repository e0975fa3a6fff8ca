"""`OutboundMessages`: the messages that a node sends, until its pipes have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.pattern.message_run import MessageRun
from queuebroker.errors import SendTimeoutError
from queuebroker.sockets.quick_sends import QuickSends
from queuebroker.waiting.parking import PENDING, Pending, WaitList

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Sequence

    from bus.pattern.drop_ledger import DropLedger
    from bus.pattern.peer_pipes import PeerPipes
    from bus.pattern.socket_state import SocketState, Waiting

__all__ = ["OutboundMessages"]

# Messages in quick succession are encoded together, and one system call carries them to
# each peer: at most so many messages, or about so many bytes.
_BATCH_MESSAGES_MAX: Final = 256
_BATCH_BYTES_MAX: Final = 1 << 16


class OutboundMessages:
    """The sent messages of one node; under its lock, unless a method says otherwise.

    Messages sent in quick succession are a batch: they wait here, and are numbered and
    handed over together. Nothing overtakes them: a message outside the batch, a new
    pipe and the end of a pipe hand them over first.

    Args:
        node: the node id.
        lock: the lock of the node.
        state: of the node.
        pipes: get the messages.
        ledger: reports the messages that they drop.

    Attributes:
        sent: the number of messages that the application has sent.
        senders: the callers that wait for room, for a peer, or for the last message to
          leave.
    """

    __slots__ = (
        "_batch",
        "_batch_bytes",
        "_ledger",
        "_lock",
        "_node",
        "_number",
        "_pipes",
        "_quick_sends",
        "_state",
        "senders",
        "sent",
    )

    def __init__(
        self,
        node: int,
        lock: _thread.RLock,
        state: SocketState,
        pipes: PeerPipes,
        ledger: DropLedger,
    ) -> None:
        self.sent: int = 0
        self.senders: Final = WaitList()
        self._node: Final = node
        self._lock: Final = lock
        self._state: Final = state
        self._pipes: Final = pipes
        self._ledger: Final = ledger
        self._number: int = 0  # of the last message that was handed over
        self._batch: list[bytes] = []
        self._batch_bytes: int = 0
        self._quick_sends: Final = QuickSends(lock)

    # From the application.

    def send_locked(self, body: bytes) -> bool:
        """Hand a message to all peers; return False if it waits in the batch instead.

        If it does not, the caller calls `pass_on` without the lock.
        """
        self.sent += 1
        size, flush_soon = len(body), self._pipes.flush_soon
        may_share = self._quick_sends.may_share(goes_on=False)
        if flush_soon is None or not may_share or size >= _BATCH_BYTES_MAX:
            self.hand_over_batch_locked()
            self._hand_over_locked([body])
            return True
        if not self._batch:
            self._quick_sends.begin_group(flush_soon, self.flush)
        self._batch.append(body)
        self._batch_bytes += size
        if (
            len(self._batch) < _BATCH_MESSAGES_MAX
            and self._batch_bytes < _BATCH_BYTES_MAX
        ):
            return False
        self.hand_over_batch_locked()
        return True

    def forward_locked(self, run: MessageRun, came_by: int) -> None:
        """Hand messages to all peers but that of the pipe ``came_by`` (BP-8).

        run: with origin 0 for new messages, which get the next numbers.
        """
        self.sent += len(run.bodies)
        self.hand_over_batch_locked()
        if run.origin:
            self._pipes.put(run, came_by)
        else:
            self._hand_over_locked(run.bodies, came_by)

    # To the pipes.

    def hand_over_batch_locked(self) -> None:
        """Hand the gathered messages to all peers, before anything else changes."""
        while batch := self._batch:
            sent, count = self.sent, len(batch)
            run = MessageRun(self._node, self._number + 1, batch)
            before = self._pipes.progress()
            if self._batch is batch and self.sent == sent:
                break
            # Else a signal handler has sent meanwhile: it has added to the batch, or
            # handed it over.
        else:
            return
        # No call comes between the check, these and the `try`, and so no interrupt and
        # no signal handler.
        self._batch, self._batch_bytes = [], 0
        self._number += count
        try:
            self._pipes.put(run)
        except BaseException:
            # The calls that sent these messages have returned. An interrupt of this one
            # costs no peer any of them. Its signal handler may have sent others.
            self._pipes.complete(run, before, self._number - run.first - count + 1)
            raise

    def _hand_over_locked(self, bodies: Sequence[bytes], came_by: int = 0) -> None:
        """Number new messages, and hand them to all peers but that of ``came_by``."""
        count = len(bodies)
        # No call comes between these, and so no signal handler that sends: peers would
        # drop one of two messages with the same number.
        first = self._number + 1
        self._number += count
        self._pipes.put(MessageRun(self._node, first, bodies), came_by)

    def flush(self) -> None:
        """Hand over the messages of the batch, and pass them on; without the lock."""
        with self._lock:
            self.hand_over_batch_locked()
        self.pass_on()

    def pass_on(self) -> None:
        """Have the pipes send their messages, and report drops; without the lock."""
        try:
            self._pipes.flush()
        finally:  # a callback of another node in this process may raise `SystemExit`
            self.on_room()
        self._ledger.report()

    def on_room(self) -> None:
        """Wake callers that wait for room, after a flush; without the lock."""
        if self.senders.asleep:
            with self._lock:
                self.senders.wake_all()

    # Waits, for threads and for coroutines.

    def sending(self, body: bytes) -> Waiting[bool]:
        """Return the arguments of `wait_for` for a message to the only peer.

        Pass the outcome to `on_sent`. Called without the lock.
        """
        self.pass_on()  # in place of a call that was interrupted
        pipes, size = self._pipes, len(body)

        def send() -> bool | Pending:
            if not pipes.has_room(size):
                return PENDING
            self.sent += 1
            self._hand_over_locked([body])
            return True

        return self._state.waiting(
            self.senders, send, lambda: pipes.has_room(size), "send", owner=""
        )

    def on_sent(self, outcome: bool | Pending) -> None:
        """Pass on the message of `sending` after the wait; without the lock.

        Raises:
            SendTimeoutError: there was no peer, or no room, in time.
        """
        if outcome is PENDING:
            peer = self._pipes.active
            why = "its queue is full" if peer else "no peer is connected"
            raise SendTimeoutError(f"cannot send in time: {why}")
        self.pass_on()

    def for_peers(self, count: int) -> Waiting[bool]:
        """Return the arguments of `wait_for` for ``count`` peers that are connected."""
        return self._until("wait for peers", lambda: len(self._pipes.active) >= count)

    def draining(self) -> Waiting[bool]:
        """Return the arguments of `wait_for` for messages that have all left.

        A native peer must have confirmed them in an account, and is asked for it: the
        system discards its unsent bytes if the peer sends anything, such as an account,
        after a close. Called without the lock.
        """
        self.flush()
        for pipe in self._pipes.active:
            pipe.carrier.ask()
        return self._until("drain", lambda: self._pipes.are_idle)

    def _until(self, act: str, ready: Callable[[], bool]) -> Waiting[bool]:
        return self._state.waiting(self.senders, lambda: ready() or PENDING, ready, act)
