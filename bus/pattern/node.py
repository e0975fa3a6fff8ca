"""`Node`: the connections of one socket.

The public sockets are faces of a node: `BusSocket`, `RawBusSocket`, `PairSocket`. A
transport adds a `Pipe` for each connection. The node knows no bytes and no descriptor.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from bus.errors import BusyError
from bus.pattern.arrivals import Arrivals
from bus.pattern.burst import Burst
from bus.pattern.drop_ledger import DropLedger
from bus.pattern.drop_reason import DropReason
from bus.pattern.message_run import MessageRun
from bus.pattern.native import Sent, Taken
from bus.pattern.peer_pipes import PeerPipes
from bus.pattern.pipe import Pipe, new_node_id
from bus.pattern.socket_stats import SocketStats
from queuebroker import _sync
from queuebroker.errors import BrokerClosedError, ReceiveTimeoutError, SendTimeoutError
from queuebroker.waiting.parking import (
    PENDING,
    Pending,
    WaitList,
    check_may_wait,
    wait_for,
)

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Sequence

    from bus.pattern.drop_ledger import Drop
    from bus.pattern.pipe import Carrier
    from bus.pattern.socket_config import SocketConfig
    from bus.pattern.wire import EndpointType
    from queuebroker.waiting.readiness import Readiness

__all__ = ["Node", "Waiting"]

T = TypeVar("T")
# A wait, for threads and for coroutines: the list, the attempt under the lock, and the
# check without it; see `queuebroker.waiting.parking.wait_for`.
Waiting: TypeAlias = tuple[WaitList, "Callable[[], T | Pending]", "Callable[[], bool]"]


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
        lock: see below.
        ledger: the messages dropped.
        arrivals: the messages received.
        pipes: the connections.
        owner: the device that owns the socket now; "" for none (BP-14).
        closed: True once the socket is closed.

    Lock: ``lock`` guards everything here and in the parts, and the fields of all pipes.
    It is never held while another node's lock is taken, nor while a callback runs. It
    is reentrant, since a signal handler may send.
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
        self.ledger: Final = DropLedger(self.lock, on_drop)
        self.arrivals: Final = Arrivals(self.id, config, self.ledger)
        self.owner: str = ""
        self.closed: bool = False
        self._is_abandoned: bool = False  # in a fork's child
        self.pipes: Final = PeerPipes(pipes_max, self.ledger)
        self._burst: Final = Burst()
        self._sent: int = 0
        self._number: int = 0  # of the last message that was handed over
        # Callers that wait for room, or for a peer.
        self._senders: Final = WaitList()
        _nodes.add(self)
        self._closers: Final[list[Callable[[], object]]] = []

    # Sending.

    def send(self, body: bytes) -> None:
        """Hand a message to all peers that are connected now (BP-1).

        Never waits: a peer without room does not get it (BP-4).

        Raises:
            BrokerClosedError: the socket is closed.
            BusyError: a device owns the socket.
        """
        with self.lock:
            if self.closed or self.owner:
                self._check_open("send", "")
            self._sent += 1
            burst = self._burst
            waits = burst.continues(len(body), _sync.monotonic()) and self.pipes.gathers
            if waits:
                if burst.add(body):
                    self.pipes.active[0].carrier.flush_soon(self.flush)
                if not burst.is_full:
                    return
            self._hand_over_burst_locked()
            if not waits:
                self._hand_over_locked([body])
        self._flush()

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
            self._hand_over_burst_locked()
            if run.origin:
                self.pipes.put(run, came_by)
            else:
                self._hand_over_locked(run.bodies, came_by)
        self._flush()

    def flush(self) -> None:
        """Hand over the messages of a burst; for any thread, without the lock."""
        with self.lock:
            self._hand_over_burst_locked()
        self._flush()

    def _flush(self) -> None:
        self.pipes.flush()
        self.ledger.report()

    def _hand_over_burst_locked(self) -> None:
        """Hand the gathered messages to all peers, before anything else changes."""
        if bodies := self._burst.take():
            self._hand_over_locked(bodies)

    def _hand_over_locked(self, bodies: Sequence[bytes], came_by: int = 0) -> None:
        """Number new messages, and hand them to all peers but that of ``came_by``."""
        count = len(bodies)
        # No call comes between these, and so no signal handler that sends: peers would
        # drop one of two messages with the same number.
        first = self._number + 1
        self._number += count
        self.pipes.put(MessageRun(self.id, first, bodies), came_by)

    def send_waiting(self, body: bytes, deadline: float | None) -> None:
        """Hand a message to the only peer, once there is one with room.

        Raises:
            SendTimeoutError: there was none in time.
            BrokerClosedError: the socket is closed.
        """
        if deadline is None or deadline > _sync.monotonic():
            check_may_wait(self.lock)
        self.pipes.flush()  # in place of a call that was interrupted

        self.sent(wait_for(self, *self.sending(body), deadline))

    def sending(self, body: bytes) -> Waiting[bool]:
        """Return the arguments of `wait_for` for a message to the only peer."""

        def attempt() -> bool | Pending:
            self._check_open("send", "")
            if not self.pipes.has_room(len(body)):
                return PENDING
            self._sent += 1
            self._hand_over_locked([body])
            return True

        def ready() -> bool:
            return self.closed or self.pipes.has_room(len(body))

        return self._senders, attempt, ready

    def sent(self, outcome: bool | Pending) -> None:
        """Pass on the message that was queued after the wait of `sending`.

        Raises:
            SendTimeoutError: it was not, in time.
        """
        if outcome is PENDING:
            peer = self.pipes.active
            why = "its queue is full" if peer else "no peer is connected"
            raise SendTimeoutError(f"cannot send in time: {why}")
        self._flush()

    def on_room(self) -> None:
        """Wake callers that wait for room, after a queue was flushed."""
        if self._senders.asleep:
            with self.lock:
                self._senders.wake_all()

    def wait_for_peers(self, count: int, deadline: float | None) -> bool:
        """Wait until ``count`` peers are connected; return False if they are not.

        Raises:
            BrokerClosedError: the socket is closed.
        """
        check_may_wait(self.lock)
        return wait_for(self, *self.for_peers(count), deadline) is True

    def for_peers(self, count: int) -> Waiting[bool]:
        """Return the arguments of `wait_for` for ``count`` peers that are connected."""
        return self._until("wait for peers", lambda: self.peers >= count)

    def drain(self, deadline: float | None) -> bool:
        """Wait until all messages have left; return False if they have not.

        Raises:
            BrokerClosedError: the socket is closed.
        """
        check_may_wait(self.lock)
        return wait_for(self, *self.draining(), deadline) is True

    def draining(self) -> Waiting[bool]:
        """Return the arguments of `wait_for` for messages that have all left.

        A native peer must have confirmed them in an account: the system discards what
        it has not sent if the peer sends anything, such as an account, after a close.
        """
        self.flush()
        return self._until(
            "drain", lambda: all(pipe.carrier.is_idle for pipe in self.pipes.active)
        )

    def _until(self, act: str, ready: Callable[[], bool]) -> Waiting[bool]:
        def attempt() -> bool | Pending:
            self.check_open(act)
            return ready() or PENDING

        return self._senders, attempt, lambda: self.closed or ready()

    # Receiving.

    def receive(self, deadline: float | None) -> bytes:
        """Return the next message, and make the ones behind it ready (`Arrivals`).

        Raises:
            ReceiveTimeoutError: none arrived in time.
            BrokerClosedError: the socket is closed.
        """
        return self._receive(self.receiving(), deadline)

    def receiving(self) -> Waiting[bytes]:
        """Return the arguments of `wait_for` for the next message; see `received`."""
        arrivals = self.arrivals

        def attempt() -> bytes | Pending:
            self._check_open("receive", "")
            return arrivals.take_body_locked()

        return arrivals.receivers, attempt, arrivals.has_next

    def receive_tagged(
        self, deadline: float | None, owner: str = "", most: int = 1
    ) -> tuple[int, MessageRun]:
        """Return the next messages of one peer, with the id of its pipe.

        most: how many, at most; those that are here.

        Raises:
            BusyError: another owner has the socket.
            ReceiveTimeoutError, BrokerClosedError: as `receive`.
        """
        pipe, run = self._receive(self.receiving_tagged(owner, most), deadline)
        return pipe.id, run

    def receiving_tagged(
        self, owner: str = "", most: int = 1
    ) -> Waiting[tuple[Pipe, MessageRun]]:
        """Return the arguments of `wait_for` for `receive_tagged`; see `received`."""
        arrivals = self.arrivals

        def attempt() -> tuple[Pipe, MessageRun] | Pending:
            self._check_open("receive", owner)
            return arrivals.take_run_locked(most)

        return arrivals.receivers, attempt, arrivals.has_next

    def _receive(self, wanted: Waiting[T], deadline: float | None) -> T:
        self.arrivals.resume()  # in place of a call that was interrupted
        with self.lock:
            try:
                taken = wanted[1]()
            except BaseException:
                self.recover_locked()
                raise
        if isinstance(taken, Pending) and (
            deadline is None or deadline > _sync.monotonic()
        ):
            check_may_wait(self.lock)
            taken = wait_for(self, *wanted, deadline)
        return self.received(taken)

    def received(self, taken: T | Pending) -> T:
        """Return what was received after a wait, and make use of the room.

        Raises:
            ReceiveTimeoutError: no message arrived in time.
        """
        self.arrivals.resume()
        if isinstance(taken, Pending):
            raise ReceiveTimeoutError("no message arrived in time")
        return taken

    def on_ready_empty(self) -> None:
        """Note that a caller has taken the last message that was ready."""
        with self.lock:
            self.arrivals.on_ready_empty_locked()

    def accept(self, pipe: Pipe, runs: Sequence[MessageRun]) -> None:
        """Queue messages that have arrived on a pipe; a full queue drops them (BP-6).

        For the thread of its transport, without any lock.
        """
        with self.lock:
            try:
                for run in runs:
                    self.arrivals.accept_locked(pipe, run)
                self.arrivals.wake_locked()
                pipe.report_soon_locked()
            except BaseException:
                self.recover_locked()
                raise
        self.ledger.report()

    def pauses(self, pipe: Pipe) -> bool:
        """Return True if its carrier must take in no more messages until resumed."""
        with self.lock:
            return self.arrivals.pause_locked(pipe)

    def readiness(self) -> Readiness:
        """Return a descriptor that is readable while `receive` would not wait."""
        with self.lock:
            self._check_open("make a descriptor", self.owner)
            return self.arrivals.readiness_locked()

    # Connections.

    @property
    def peers(self) -> int:
        """The number of peers that are connected."""
        return len(self.pipes.active)

    def add_pipe(self, carrier: Carrier, url: str, node: int | None) -> Pipe | None:
        """Add a connection; return None if the socket takes no more of them."""
        with self.lock:
            if self.closed or self.pipes.is_full or node == self.id:
                return None
            self._hand_over_burst_locked()  # a later peer does not get it (BP-17)
            pipe = Pipe(carrier, url, node)
            self.pipes.add(pipe)
            self._senders.wake_all()
            return pipe

    def remove_pipe(self, pipe: Pipe) -> None:
        """Remove a connection that has ended; its messages that arrived stay."""
        with self.lock:
            self._hand_over_burst_locked()
            reason = DropReason.CLOSED if self.closed else DropReason.LOST
            if self.pipes.remove(pipe, reason):
                self._senders.wake_all()
        self.ledger.report()

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
                self._senders.wake_all()

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
            self.arrivals.receivers.wake_all()  # they find the new owner

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
        if self._is_abandoned:
            return
        # The next call completes an interrupted one: each closer removes itself last.
        with self.lock:
            self._hand_over_burst_locked()
            self.closed = True
            closers, pipes = [*self._closers], [*self.pipes]
            self.arrivals.close_locked()
            self._senders.wake_all()
        for close in closers:
            close()
        for pipe in pipes:
            pipe.carrier.close()
            self.remove_pipe(pipe)
        self.ledger.report()

    def abandon_after_fork(self) -> None:
        """Close the socket in a fork's child: its connections are the parent's."""
        # Without the lock, which another thread of the parent may have held.
        self._is_abandoned = self.closed = self.arrivals.closed = True
        self.pipes.clear()

    # Accounts.

    def stats(self) -> SocketStats:
        """Return the account of this socket."""
        self.flush()
        for pipe in self.pipes:
            pipe.carrier.refresh()
        with self.lock:
            arrivals = self.arrivals
            peers = [pipe.stats(arrivals.delivered_of(pipe)) for pipe in self.pipes]
            return SocketStats(
                node=self.id,
                sent=self._sent,
                delivered=arrivals.delivered - len(arrivals.ready),
                received_queued=len(arrivals),
                dropped=dict(self.ledger.totals),
                peers=tuple(peers),
            )

    def accounts_of(self, pipe: Pipe) -> tuple[Sent, Taken]:
        """Return the accounts of this end for a native peer."""
        with self.lock:
            pipe.is_report_due = False
            dropped = pipe.dropped
            return Sent(pipe.sent, pipe.dropped_unsent), Taken(
                pipe.arrived,
                self.arrivals.delivered_of(pipe),
                dropped[DropReason.RECEIVE_QUEUE] + dropped[DropReason.CLOSED],
                dropped[DropReason.DUPLICATE],
            )

    # For `wait_for`.

    def recover_locked(self) -> None:
        """Wake every waiter, after an exception in one of them."""
        self.arrivals.recover_locked(self.pipes)
        self._senders.wake_all()

    def settle(self) -> None:
        """Do nothing: no work is deferred under the lock."""


# All nodes of the process: a fork's child has none of their threads.
_nodes: Final[weakref.WeakSet[Node]] = weakref.WeakSet()


def _forked() -> None:
    for node in list(_nodes):
        node.abandon_after_fork()


os.register_at_fork(after_in_child=_forked)
