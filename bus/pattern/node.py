"""`Node`: the connections of one socket, and the messages that arrived on them.

The public sockets are faces of a node: `BusSocket`, `RawBusSocket`, `PairSocket`. A
transport adds a `Pipe` for each connection. The node knows no bytes and no descriptor.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from bus.errors import BusyError
from bus.pattern.drop_reason import DropReason
from bus.pattern.fair_queue import FairQueue
from bus.pattern.loop_guard import LoopGuard
from bus.pattern.message_run import MessageRun
from bus.pattern.native import Sent, Taken
from bus.pattern.pipe import PeerStats, Pipe, new_node_id
from bus.pattern.repeat_filter import RepeatFilter
from queuebroker import _sync
from queuebroker.errors import BrokerClosedError, ReceiveTimeoutError, SendTimeoutError
from queuebroker.waiting.parking import (
    PENDING,
    Pending,
    WaitList,
    check_may_wait,
    wait_for,
)
from queuebroker.waiting.readiness import Readiness

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Mapping, Sequence

    from bus.pattern.pipe import Carrier
    from bus.pattern.socket_config import SocketConfig
    from bus.pattern.wire import EndpointType

__all__ = ["Drop", "Node", "SocketStats"]

T = TypeVar("T")

_log: Final = logging.getLogger("bus.pattern")

# A message sent within this time of the previous one, in seconds, waits for the next
# ones: they are encoded together, and one system call carries them to each peer. It
# waits until so many messages or bytes are together, or until another thread comes.
_BURST_S: Final = 5e-5
_BURST_MESSAGES: Final = 256
_BURST_BYTES: Final = 1 << 16
# How many messages a call makes ready for the next ones: those of one peer, fewer if
# another peer waits for its turn.
_READY_MAX: Final = 64
_READY_SHARED_MAX: Final = 4


@attrs.frozen
class Drop:
    """Messages that were dropped; see `on_drop` of the sockets.

    pipe: the id of the connection; 0 if there was none.
    reason: why.
    count: how many.
    """

    pipe: int
    reason: DropReason
    count: int


@attrs.frozen(kw_only=True)
class SocketStats:
    """The account of one socket; totals since it was opened.

    node: its node id.
    sent: messages that the application has sent.
    delivered: messages that the application has taken.
    received_queued: those that have arrived and wait to be taken.
    dropped: by reason, of all connections together, also of closed ones.
    peers: the connections that are open now.
    """

    node: int
    sent: int
    delivered: int
    received_queued: int
    dropped: Mapping[DropReason, int]
    peers: tuple[PeerStats, ...]


class Node:
    """The connections of one socket.

    Args:
        config: the limits.
        endpoint: the endpoint type of the socket among all libraries.
        native: the endpoint type among sockets of this package; None without one.
        pipes_max: the number of connections at a time; None for any.
        on_drop: called after messages were dropped, in any thread, without a lock.

    Attributes:
        id: of 64 bits, random: how other nodes recognise this one.
        owner: the device that owns the socket now; "" for none (BP-14).
        ready: the next messages, which count as delivered. Any thread may take the
          first of them, in one call into C. If that was the last one, it calls
          `on_ready_empty`; if there is none, `receive`. A raw socket does not use it.

    Lock: ``lock`` guards everything here, and the fields of all pipes. It is never held
    while another node's lock is taken, nor while a callback runs. It is reentrant,
    since a signal handler may send.
    """

    def __init__(
        self,
        config: SocketConfig,
        endpoint: EndpointType,
        native: EndpointType | None = None,
        *,
        pipes_max: int | None = None,
        on_drop: Callable[[Drop], object] | None = None,
    ) -> None:
        self.id: Final = new_node_id()
        self.config: Final = config
        self.endpoint: Final = endpoint
        self.native: Final = native
        self.lock: Final[_thread.RLock] = _sync.RLock()
        self.owner: str = ""
        self.ready: Final[deque[bytes]] = deque()
        self.closed: bool = False
        self._pipes_max: Final = pipes_max
        self._blocks: Final = config.receive_overflow == "block"
        self._on_drop: Final = on_drop
        self._pipes: Final[dict[int, Pipe]] = {}
        # The pipes that carry messages: of several to the same node, the first.
        self._active: tuple[Pipe, ...] = ()
        self._arrived: Final[FairQueue[int]] = FairQueue(
            config.receive_messages, config.receive_bytes
        )
        # The pipe of the messages in `ready`.
        self._ready_of: int = 0
        self._guard: Final = LoopGuard(self.id)
        self._repeats: Final = RepeatFilter(config.repeat_s)
        # Callers that wait for a message; for room or a peer.
        self._receivers: Final = WaitList()
        self._senders: Final = WaitList()
        self._readiness: Readiness | None = None
        self._closers: Final[list[Callable[[], object]]] = []
        self._sent: int = 0
        self._sent_at: float = 0.0
        # The number of the last message that began here; the messages of a burst that
        # are not handed over, their length, and the number of the first of them.
        self._number: int = 0
        self._burst: list[bytes] = []
        self._burst_bytes: int = 0
        self._burst_first: int = 0
        self._gathers: bool = False  # all active pipes do
        self._delivered: int = 0
        self._dropped: Final[Counter[DropReason]] = Counter()
        # Carriers to resume, since there is room again.
        self._resumed: Final[deque[Carrier]] = deque()
        # Drops that `on_drop` has not seen.
        self._unreported: Final[Counter[tuple[int, DropReason]]] = Counter()

    # Sending.

    def send(self, body: bytes) -> None:
        """Hand a message to all peers that are connected now (BP-1).

        Never waits: a peer without room does not get it (BP-4).

        Raises:
            BrokerClosedError: the socket is closed.
            BusyError: a device owns the socket.
        """
        size = len(body)
        with self.lock:
            if self.closed or self.owner:
                self._check_open("send", "")
            self._sent += 1
            self._number = number = self._number + 1
            now = _sync.monotonic()
            in_burst, self._sent_at = now - self._sent_at < _BURST_S, now
            burst = self._burst
            if in_burst and self._gathers and size < _BURST_BYTES:
                if not burst:
                    self._burst_first = self._number
                    self._active[0].carrier.flush_soon(self.flush)
                burst.append(body)
                self._burst_bytes += size
                if len(burst) < _BURST_MESSAGES and self._burst_bytes < _BURST_BYTES:
                    return
                self._hand_over_burst_locked()
            else:
                self._hand_over_burst_locked()
                self._hand_over_locked(MessageRun(self.id, number, [body]))
            active = self._active
        self._flush(active)

    def forward(self, run: MessageRun, *, came_by: int, owner: str = "") -> None:
        """Hand messages to all peers but the one that they came by (BP-8).

        run: with origin 0 for a new message, which gets the next number.
        came_by: the id of the pipe; 0 for none. One of another socket excludes no peer.

        Raises:
            BrokerClosedError: the socket is closed.
            BusyError: another owner has the socket.
        """
        with self.lock:
            self._check_open("send", owner)
            self._sent += len(run.bodies)
            if not run.origin:
                run = MessageRun(self.id, self._number + 1, run.bodies)
                self._number += len(run.bodies)
            self._hand_over_burst_locked()
            self._hand_over_locked(run, came_by)
            active = self._active
        self._flush(active)

    def flush(self) -> None:
        """Hand over the messages of a burst; for any thread, without the lock."""
        with self.lock:
            self._hand_over_burst_locked()
            active = self._active
        self._flush(active)

    def _flush(self, pipes: Sequence[Pipe]) -> None:
        for pipe in pipes:
            pipe.carrier.flush()
        self.report_drops()

    def _hand_over_burst_locked(self) -> None:
        """Hand the gathered messages to all peers, before anything else changes."""
        if burst := self._burst:
            self._burst, self._burst_bytes = [], 0
            self._hand_over_locked(MessageRun(self.id, self._burst_first, burst))

    def _hand_over_locked(self, run: MessageRun, came_by: int = 0) -> None:
        count = len(run.bodies)
        if not self._active:
            self.drop_locked(None, DropReason.NO_PEER, count)
            return
        came_from = self._pipes[came_by].node if came_by in self._pipes else None
        for pipe in self._active:
            if pipe.id == came_by or (
                pipe.node is not None and pipe.node in (run.origin, came_from)
            ):
                continue
            pipe.sent += count
            taken = pipe.carrier.put(run)
            if taken < count:
                self.drop_locked(pipe, DropReason.SEND_QUEUE, count - taken)

    def send_waiting(self, body: bytes, deadline: float | None) -> None:
        """Hand a message to the only peer, once there is one with room.

        Raises:
            SendTimeoutError: there was none in time.
            BrokerClosedError: the socket is closed.
        """
        if deadline is None or deadline > _sync.monotonic():
            check_may_wait(self.lock)

        def attempt() -> Pipe | Pending:
            self._check_open("send", "")
            if not self._has_room(len(body)):
                return PENDING
            [pipe] = self._active
            self._sent += 1
            self._number += 1
            pipe.sent += 1
            pipe.carrier.put(MessageRun(self.id, self._number, [body]))
            return pipe

        def ready() -> bool:
            return self.closed or self._has_room(len(body))

        pipe = wait_for(self, self._senders, attempt, ready, deadline)
        if isinstance(pipe, Pending):
            why = "its queue is full" if self._active else "no peer is connected"
            raise SendTimeoutError(f"cannot send in time: {why}")
        pipe.carrier.flush()

    def _has_room(self, size: int) -> bool:
        return any(pipe.carrier.has_room(size) for pipe in self._active)

    def on_room(self) -> None:
        """Wake callers that wait for room, after a queue was flushed."""
        if self._senders.asleep:
            with self.lock:
                self._senders.wake_all()

    def wait_for_peers(self, count: int, deadline: float | None) -> bool:
        """Wait until ``count`` peers are connected; return False if they are not."""
        return self._wait(lambda: self.closed or len(self._active) >= count, deadline)

    def drain(self, deadline: float | None) -> bool:
        """Wait until no message waits to be sent; return False if one does."""
        self.flush()
        return self._wait(
            lambda: all(pipe.carrier.is_idle for pipe in self._active), deadline
        )

    def _wait(self, ready: Callable[[], bool], deadline: float | None) -> bool:
        check_may_wait(self.lock)

        def attempt() -> bool | Pending:
            return True if ready() else PENDING

        return wait_for(self, self._senders, attempt, ready, deadline) is True

    # Receiving.

    def receive(self, deadline: float | None) -> bytes:
        """Return the next message; `ready` has the ones behind it.

        Raises:
            ReceiveTimeoutError: none arrived in time.
            BrokerClosedError: the socket is closed.
        """
        return self._receive(self._take_body_locked, deadline)

    def receive_tagged(
        self, deadline: float | None, owner: str = "", most: int = 1
    ) -> tuple[int, MessageRun]:
        """Return the next messages of one peer, with the id of its pipe.

        most: how many, at most; those that are here.

        Raises:
            BusyError: another owner has the socket.
            ReceiveTimeoutError, BrokerClosedError: as `receive`.
        """
        return self._receive(partial(self._take_tagged_locked, owner, most), deadline)

    def _receive(self, attempt: Callable[[], T | Pending], deadline: float | None) -> T:
        with self.lock:
            taken = attempt()
        if isinstance(taken, Pending) and (
            deadline is None or deadline > _sync.monotonic()
        ):
            check_may_wait(self.lock)
            taken = wait_for(self, self._receivers, attempt, self._has_next, deadline)
        if isinstance(taken, Pending):
            raise ReceiveTimeoutError("no message arrived in time")
        if self._resumed:
            self._resume()
        return taken

    def _has_next(self) -> bool:
        return self.closed or bool(self.ready or self._arrived)

    def _take_body_locked(self) -> bytes | Pending:
        self._check_open("receive", "")
        try:
            # Another thread may have filled it since.
            body = self.ready.popleft()
        except IndexError:
            if not self._arrived:
                return PENDING
            most = _READY_MAX if self._arrived.peers == 1 else _READY_SHARED_MAX
            pipe, bodies = self._arrived.take_bodies(most)
            self._ready_of = pipe
            self._on_taken_locked(pipe, len(bodies))
            body, *rest = bodies
            self.ready.extend(rest)
        self._pass_on_locked()
        return body

    def _take_tagged_locked(
        self, owner: str, most: int
    ) -> tuple[int, MessageRun] | Pending:
        self._check_open("receive", owner)
        if not self._arrived:
            return PENDING
        taken = self._arrived.take(most)
        self._on_taken_locked(taken[0], len(taken[1].bodies))
        self._pass_on_locked()
        return taken

    def _on_taken_locked(self, number: int, count: int) -> None:
        self._delivered += count
        pipe = self._pipes.get(number)
        if pipe is not None:
            pipe.delivered += count
            self._report_locked(pipe)
            if pipe.is_paused and not self._arrived.is_full(number):
                pipe.is_paused = False
                self._resumed.append(pipe.carrier)

    def _pass_on_locked(self) -> None:
        """Wake the next receiver if there is more; update the descriptor."""
        if self._receivers.asleep and self._has_next():
            self._receivers.wake_one()
        self._set_readable_locked()

    def on_ready_empty(self) -> None:
        """Update the descriptor and the account: `ready` has no message left."""
        with self.lock:
            self._set_readable_locked()
            pipe = self._pipes.get(self._ready_of)
            if pipe is not None:
                self._report_locked(pipe)

    def _ready_count(self, pipe: Pipe) -> int:
        """Return how many messages of a pipe are in `ready`."""
        return len(self.ready) if pipe.id == self._ready_of else 0

    def accept(self, pipe: Pipe, runs: Sequence[MessageRun]) -> None:
        """Queue messages that have arrived on a pipe; a full queue drops them (BP-6).

        For the thread of its transport, without any lock.
        """
        with self.lock:
            ended = self.closed or pipe.id not in self._pipes
            for run in runs:
                pipe.arrived += len(run.bodies)
                if ended:
                    # Within a process, a sender may come here just after the end.
                    reason = DropReason.CLOSED if self.closed else DropReason.LOST
                    self.drop_locked(pipe, reason, len(run.bodies))
                else:
                    self._accept_locked(pipe, run)
            self._set_readable_locked()
            if self._arrived and self._receivers.asleep:
                self._receivers.wake_one()
            self._report_locked(pipe)
        self.report_drops()

    def _accept_locked(self, pipe: Pipe, run: MessageRun) -> None:
        count = len(run.bodies)
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
            self.drop_locked(pipe, reason, count - new)
        for each in fresh:
            new -= self._arrived.offer(pipe.id, each, forced=self._blocks)
        if new:
            self.drop_locked(pipe, DropReason.RECEIVE_QUEUE, new)

    def _report_locked(self, pipe: Pipe) -> None:
        """Have the accounts of this end sent to a native peer soon."""
        if pipe.node is not None and not pipe.is_report_due:
            pipe.is_report_due = True
            pipe.carrier.report()

    def pauses(self, pipe: Pipe) -> bool:
        """Return True if a carrier must take in no more messages until `resume`."""
        if not self._blocks:
            return False
        with self.lock:
            pipe.is_paused = self._arrived.is_full(pipe.id)
            return pipe.is_paused

    def _resume(self) -> None:
        """Resume the carriers of which messages were taken; without the lock."""
        while self._resumed:
            with contextlib.suppress(IndexError):  # another thread has
                self._resumed.popleft().resume()

    def readiness(self) -> Readiness:
        """Return a descriptor that is readable while `receive` would not wait.

        The caller keeps it: it stays readable after `close`, which forgets it here.
        """
        with self.lock:
            self._check_open("make a descriptor", self.owner)
            if self._readiness is None:
                self._readiness = Readiness()
                self._set_readable_locked()
            return self._readiness

    def _set_readable_locked(self) -> None:
        if self._readiness is not None:
            self._readiness.set_locked(readable=self._has_next())

    # Connections.

    @property
    def peers(self) -> int:
        """The number of peers that are connected."""
        return len(self._active)

    def add_pipe(self, carrier: Carrier, url: str, node: int | None) -> Pipe | None:
        """Add a connection; return None if the socket takes no more of them."""
        with self.lock:
            full = self._pipes_max is not None and len(self._pipes) >= self._pipes_max
            if self.closed or full or node == self.id:
                return None
            self._hand_over_burst_locked()  # a later peer does not get it (BP-17)
            pipe = Pipe(carrier, url, node)
            self._pipes[pipe.id] = pipe
            self._arrange_locked()
            return pipe

    def remove_pipe(self, pipe: Pipe) -> None:
        """Remove a connection that has ended; its messages that arrived stay."""
        with self.lock:
            if self._pipes.pop(pipe.id, None) is None:
                return
            self._hand_over_burst_locked()
            if discarded := pipe.carrier.discard():
                reason = DropReason.CLOSED if self.closed else DropReason.LOST
                self.drop_locked(pipe, reason, discarded)
            self._arrange_locked()
        self.report_drops()

    def _arrange_locked(self) -> None:
        """Choose the pipes that carry messages: one for each node (BP-16)."""
        active: dict[int, Pipe] = {}
        for pipe in self._pipes.values():
            first = active.setdefault(pipe.id if pipe.node is None else pipe.node, pipe)
            pipe.is_standby = first is not pipe
        self._active = tuple(active.values())
        self._gathers = bool(active) and all(
            pipe.carrier.gathers for pipe in self._active
        )
        self._senders.wake_all()

    def add_closer(self, close: Callable[[], object]) -> bool:
        """Call ``close`` when the socket is closed; return False if it is already."""
        with self.lock:
            if self.closed:
                return False
            self._closers.append(close)
            return True

    def remove_closer(self, close: Callable[[], object]) -> None:
        """Undo `add_closer`."""
        with self.lock, contextlib.suppress(ValueError):
            self._closers.remove(close)

    def on_account(self, pipe: Pipe, account: Sent | Taken) -> None:
        """Note an account of a native peer."""
        with self.lock:
            if isinstance(account, Sent):
                pipe.remote_sent = account
            else:
                pipe.remote_taken = account

    # Owners and the end.

    def own(self, owner: str) -> None:
        """Make ``owner`` the only one that may use the socket (BP-14).

        Raises:
            BrokerClosedError: the socket is closed.
            BusyError: it has another owner.
        """
        with self.lock:
            self._check_open("start a device", "")  # of one more device: busy
            self.owner = owner
            self._receivers.wake_all()  # they find the new owner

    def disown(self) -> None:
        """Let every caller use the socket again."""
        with self.lock:
            self.owner = ""

    def check_open(self, act: str) -> None:
        """Raise a `BrokerClosedError` if the socket is closed."""
        if self.closed:
            raise BrokerClosedError(f"cannot {act}: this socket is closed")

    def _check_open(self, act: str, owner: str) -> None:
        if self.closed:
            raise BrokerClosedError(f"cannot {act}: this socket is closed")
        if self.owner != owner:
            raise BusyError(f"this socket, by {self.owner}")

    def close(self) -> None:
        """Close all connections, and end every call that waits."""
        with self.lock:
            if self.closed:
                return
            self._hand_over_burst_locked()
            self.closed = True
            closers, pipes = [*self._closers], [*self._pipes.values()]
            self._closers.clear()
            left = Counter(self._arrived.clear())
            left[self._ready_of] += self._clear_ready_locked()
            for number, count in left.items():
                pipe = self._pipes.get(number)
                self.drop_locked(pipe, DropReason.CLOSED, count)
            self._set_readable_locked()
            self._readiness = None
            self._receivers.wake_all()
            self._senders.wake_all()
        for close in closers:
            close()
        for pipe in pipes:
            pipe.carrier.close()
            self.remove_pipe(pipe)
        self.report_drops()

    def _clear_ready_locked(self) -> int:
        """Remove the messages in `ready`; return how many there were."""
        count = 0
        with contextlib.suppress(IndexError):
            while True:  # from the other end: other threads take the first ones
                self.ready.pop()
                count += 1
        self._delivered -= count
        if (pipe := self._pipes.get(self._ready_of)) is not None:
            pipe.delivered -= count
        return count

    def abandon_after_fork(self) -> None:
        """Close the socket in a fork's child: its connections are the parent's."""
        self.closed = True
        self._pipes.clear()
        self._active = ()

    # Accounts.

    def stats(self) -> SocketStats:
        """Return the account of this socket."""
        self.flush()
        for pipe in list(self._pipes.values()):
            pipe.carrier.refresh()
        with self.lock:
            return SocketStats(
                node=self.id,
                sent=self._sent,
                delivered=self._delivered - len(self.ready),
                received_queued=len(self._arrived) + len(self.ready),
                dropped=dict(self._dropped),
                peers=tuple(
                    [
                        pipe.stats(self._ready_count(pipe))
                        for pipe in self._pipes.values()
                    ]
                ),
            )

    def accounts_of(self, pipe: Pipe) -> tuple[Sent, Taken]:
        """Return the accounts of this end for a native peer."""
        with self.lock:
            pipe.is_report_due = False
            dropped = pipe.dropped
            lost = dropped[DropReason.SEND_QUEUE] + dropped[DropReason.TOO_LONG]
            return Sent(pipe.sent, lost), Taken(
                pipe.arrived,
                pipe.delivered - self._ready_count(pipe),
                dropped[DropReason.RECEIVE_QUEUE] + dropped[DropReason.CLOSED],
                dropped[DropReason.DUPLICATE],
            )

    def drop(self, pipe: Pipe | None, reason: DropReason, count: int = 1) -> None:
        """Count dropped messages, and report them."""
        with self.lock:
            self.drop_locked(pipe, reason, count)
        self.report_drops()

    def drop_locked(
        self, pipe: Pipe | None, reason: DropReason, count: int = 1
    ) -> None:
        self._dropped[reason] += count
        if pipe is not None:
            pipe.dropped[reason] += count
            self._report_locked(pipe)
        if self._on_drop is not None:
            self._unreported[0 if pipe is None else pipe.id, reason] += count

    def report_drops(self) -> None:
        """Call ``on_drop`` for the drops since the last call; without the lock."""
        if self._on_drop is None or not self._unreported:
            return
        with self.lock:
            unreported = [*self._unreported.items()]
            self._unreported.clear()
        for (pipe, reason), count in unreported:
            try:
                self._on_drop(Drop(pipe, reason, count))
            except Exception:  # noqa: BLE001 # of the application
                _log.exception("on_drop of a socket has raised an error")

    # For `wait_for`.

    def recover_locked(self) -> None:
        """Wake every waiter, after an exception in one of them."""
        self._receivers.wake_all()
        self._senders.wake_all()
        if self._readiness is not None:
            self._readiness.restore_locked(readable=self._has_next())

    def settle(self) -> None:
        """Do nothing: no work is deferred under the lock."""
