"""`Node`: the connections of one socket.

The public sockets are faces of a node: `BusSocket`, `RawBusSocket`, `PairSocket`. A
transport adds a `Pipe` for each connection. The node knows no bytes and no descriptor.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from bus.errors import BusyError
from bus.pattern.arrivals import Arrivals
from bus.pattern.burst import Burst
from bus.pattern.drop_ledger import DropLedger
from bus.pattern.drop_reason import DropReason
from bus.pattern.message_run import MessageRun
from bus.pattern.native import Sent, Taken
from bus.pattern.pipe import PeerStats, Pipe, new_node_id
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
    from collections.abc import Callable, Mapping, Sequence

    from bus.pattern.drop_ledger import Drop
    from bus.pattern.pipe import Carrier
    from bus.pattern.socket_config import SocketConfig
    from bus.pattern.wire import EndpointType
    from queuebroker.waiting.readiness import Readiness

__all__ = ["Node", "SocketStats"]

T = TypeVar("T")


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
        lock: see below.
        ledger: the messages dropped.
        arrivals: the messages received.
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
        self._pipes_max: Final = pipes_max
        self._pipes: Final[dict[int, Pipe]] = {}
        # The pipes that carry messages: of several to the same node, the first. True
        # if all of them gather.
        self._active: tuple[Pipe, ...] = ()
        self._gathers: bool = False
        self._burst: Final = Burst(self.id)
        self._sent: int = 0
        self._number: int = 0  # of the last message that began here
        # Callers that wait for room, or for a peer.
        self._senders: Final = WaitList()
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
            self._number += 1
            burst = self._burst
            waits = burst.continues(len(body), _sync.monotonic()) and self._gathers
            if waits:
                if burst.add(body, self._number):
                    self._active[0].carrier.flush_soon(self.flush)
                if not burst.is_full:
                    return
            self._hand_over_burst_locked()
            if not waits:
                self._hand_over_locked(MessageRun(self.id, self._number, [body]))
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
        self.ledger.report()

    def _hand_over_burst_locked(self) -> None:
        """Hand the gathered messages to all peers, before anything else changes."""
        if self._burst:
            self._hand_over_locked(self._burst.take())

    def _hand_over_locked(self, run: MessageRun, came_by: int = 0) -> None:
        count = len(run.bodies)
        if not self._active:
            self.ledger.add_locked(None, DropReason.NO_PEER, count)
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
                self.ledger.add_locked(pipe, DropReason.SEND_QUEUE, count - taken)

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
        """Return the next message, and make the ones behind it ready (`Arrivals`).

        Raises:
            ReceiveTimeoutError: none arrived in time.
            BrokerClosedError: the socket is closed.
        """

        def attempt() -> bytes | Pending:
            self._check_open("receive", "")
            return self.arrivals.take_body_locked()

        return self._receive(attempt, deadline)

    def receive_tagged(
        self, deadline: float | None, owner: str = "", most: int = 1
    ) -> tuple[int, MessageRun]:
        """Return the next messages of one peer, with the id of its pipe.

        most: how many, at most; those that are here.

        Raises:
            BusyError: another owner has the socket.
            ReceiveTimeoutError, BrokerClosedError: as `receive`.
        """

        def attempt() -> tuple[Pipe, MessageRun] | Pending:
            self._check_open("receive", owner)
            return self.arrivals.take_run_locked(most)

        pipe, run = self._receive(attempt, deadline)
        return pipe.id, run

    def _receive(self, attempt: Callable[[], T | Pending], deadline: float | None) -> T:
        with self.lock:
            taken = attempt()
        if isinstance(taken, Pending) and (
            deadline is None or deadline > _sync.monotonic()
        ):
            check_may_wait(self.lock)
            arrivals = self.arrivals
            taken = wait_for(
                self, arrivals.receivers, attempt, arrivals.has_next, deadline
            )
        if isinstance(taken, Pending):
            raise ReceiveTimeoutError("no message arrived in time")
        self.arrivals.resume()
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
            for run in runs:
                self.arrivals.accept_locked(pipe, run)
            self.arrivals.wake_locked()
            pipe.report_soon_locked()
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
                self.ledger.add_locked(pipe, reason, discarded)
            self._arrange_locked()
        self.ledger.report()

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
        with self.lock:
            if self.closed:
                return
            self._hand_over_burst_locked()
            self.closed = True
            closers, pipes = [*self._closers], [*self._pipes.values()]
            self._closers.clear()
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
        self.closed = self.arrivals.closed = True
        self._pipes.clear()
        self._active = ()

    # Accounts.

    def stats(self) -> SocketStats:
        """Return the account of this socket."""
        self.flush()
        for pipe in list(self._pipes.values()):
            pipe.carrier.refresh()
        with self.lock:
            arrivals = self.arrivals
            peers = [
                pipe.stats(arrivals.delivered_of(pipe)) for pipe in self._pipes.values()
            ]
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
            lost = dropped[DropReason.SEND_QUEUE] + dropped[DropReason.TOO_LONG]
            return Sent(pipe.sent, lost), Taken(
                pipe.arrived,
                self.arrivals.delivered_of(pipe),
                dropped[DropReason.RECEIVE_QUEUE] + dropped[DropReason.CLOSED],
                dropped[DropReason.DUPLICATE],
            )

    # For `wait_for`.

    def recover_locked(self) -> None:
        """Wake every waiter, after an exception in one of them."""
        self.arrivals.recover_locked()
        self._senders.wake_all()

    def settle(self) -> None:
        """Do nothing: no work is deferred under the lock."""
