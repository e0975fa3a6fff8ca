"""`Node`: the connections of one socket.

The public sockets are faces of a node: `BusSocket`, `RawBusSocket`, `PairSocket`. A
transport adds a `Pipe` for each connection. The node knows no bytes and no descriptor.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from bus.pattern.drop_ledger import DropLedger
from bus.pattern.drop_reason import DropReason
from bus.pattern.inbound_messages import InboundMessages
from bus.pattern.native import ReceiverAccount
from bus.pattern.outbound_messages import OutboundMessages
from bus.pattern.peer_pipes import PeerPipes
from bus.pattern.pipe import PeerStats, Pipe, new_node_id
from bus.pattern.socket_state import SocketState
from queuebroker import _platform, _sync
from queuebroker.waiting.parking import Pending, check_may_wait, wait_for

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Sequence

    from bus.pattern.drop_ledger import Drop
    from bus.pattern.message_run import MessageRun
    from bus.pattern.native import SenderAccount
    from bus.pattern.pipe import Carrier
    from bus.pattern.socket_config import SocketConfig
    from bus.pattern.socket_state import Waiting
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
    """The connections of one socket: a lock, and the parts that it guards.

    A message that is sent passes `outbound` and `pipes` to the carrier of each peer.
    A carrier hands over a message that arrives with `accept`; it waits in `inbound`.
    A method takes the lock, lets a part decide, releases the lock, and then flushes.

    Args:
        config: the limits.
        endpoint: the endpoint type of the socket among all libraries.
        native: the endpoint type among sockets of this package; None without one.
        pipes_max: the number of connections at a time; None for any.
        on_drop: called after messages were dropped, in any thread, without a lock.

    Attributes:
        id: of 64 bits, random: how other nodes recognise this one.
        lock: see below.
        state: whether the socket is open, and its owner.
        pipes: the connections.
        outbound: the messages sent.
        inbound: the messages received.
        ledger: the messages dropped.

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
        self.state: Final = SocketState()
        self.ledger: Final = DropLedger(self.lock, on_drop)
        self.pipes: Final = PeerPipes(pipes_max, self.ledger)
        self.outbound: Final = OutboundMessages(
            self.id, self.lock, self.state, self.pipes, self.ledger
        )
        self.inbound: Final = InboundMessages(self.id, config, self.state, self.ledger)
        self._closers: Final[list[Callable[[], object]]] = []
        _nodes.add(self)

    # Sending.

    def send(self, body: bytes) -> None:
        """Hand a message to all peers that are connected now (BP-1).

        Never waits: a peer without room does not get it (BP-4).

        Raises:
            BrokerClosedError: the socket is closed.
            BusyError: a device owns the socket.
        """
        state, outbound = self.state, self.outbound
        with self.lock:
            if state.closed or state.owner:
                state.check("send", "")
            is_handed_over = outbound.send_locked(body)
        if is_handed_over:
            outbound.pass_on()

    def forward(self, run: MessageRun, *, came_by: int, owner: str = "") -> None:
        """Hand messages to all peers but the one that they came by (BP-8).

        run: with origin 0 for a new message, which gets the next number.
        came_by: the id of the pipe; 0 for none. One of another socket excludes no peer.

        Raises:
            BrokerClosedError: the socket is closed.
            BusyError: another owner has the socket.
        """
        with self.lock:
            self.state.check("send", owner)
            self.outbound.forward_locked(run, came_by)
        self.outbound.pass_on()

    def send_waiting(self, body: bytes, deadline: float | None) -> None:
        """Hand a message to the only peer, once there is one with room.

        Raises:
            SendTimeoutError: there was none in time.
            BrokerClosedError: the socket is closed.
        """
        if deadline is None or deadline > _sync.monotonic():
            check_may_wait(self.lock)
        outbound = self.outbound
        outbound.on_sent(wait_for(self, *outbound.sending(body), deadline))

    def wait_for_peers(self, count: int, deadline: float | None) -> bool:
        """Wait until ``count`` peers are connected; return False if they are not.

        Raises:
            BrokerClosedError: the socket is closed.
        """
        check_may_wait(self.lock)
        return wait_for(self, *self.outbound.for_peers(count), deadline) is True

    def drain(self, deadline: float | None) -> bool:
        """Wait until all messages have left; return False if they have not.

        Raises:
            BrokerClosedError: the socket is closed.
        """
        check_may_wait(self.lock)
        return wait_for(self, *self.outbound.draining(), deadline) is True

    # Receiving.

    def receive(self, deadline: float | None) -> bytes:
        """Return the next message, and make those behind it ready: `InboundMessages`.

        Raises:
            ReceiveTimeoutError: none arrived in time.
            BrokerClosedError: the socket is closed.
        """
        return self._receive(self.inbound.receiving(), deadline)

    def receive_tagged(
        self, deadline: float | None, owner: str = "", most: int = 1
    ) -> tuple[int, MessageRun]:
        """Return the next messages of one peer, with the id of its pipe.

        most: how many, at most; those that are here.

        Raises:
            BusyError: another owner has the socket.
            ReceiveTimeoutError, BrokerClosedError: as `receive`.
        """
        wanted = self.inbound.receiving_tagged(owner, most)
        pipe, run = self._receive(wanted, deadline)
        return pipe.id, run

    def _receive(self, wanted: Waiting[T], deadline: float | None) -> T:
        self.inbound.resume()  # in place of a call that was interrupted
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
        return self.inbound.on_received(taken)

    def on_ready_empty(self) -> None:
        """Note that a caller has taken the last message that was ready."""
        with self.lock:
            self.inbound.on_ready_empty_locked()

    def accept(self, pipe: Pipe, runs: Sequence[MessageRun]) -> None:
        """Queue messages that have arrived on a pipe; a full queue drops them (BP-6).

        For the thread of its transport, without any lock.
        """
        with self.lock:
            try:
                for run in runs:
                    self.inbound.accept_locked(pipe, run)
                self.inbound.wake_locked()
                pipe.report_soon_locked()
            except BaseException:
                self.recover_locked()
                raise
        self.ledger.report()

    def pauses(self, pipe: Pipe) -> bool:
        """Return True if its carrier must take in no more messages until resumed."""
        with self.lock:
            return self.inbound.pause_locked(pipe)

    def readiness(self) -> Readiness:
        """Return a descriptor that is readable while `receive` would not wait."""
        with self.lock:
            self.state.check("make a descriptor")
            return self.inbound.readiness_locked()

    # Connections.

    def on_room(self) -> None:
        """Wake callers that wait for room, after a queue was flushed."""
        self.outbound.on_room()

    @property
    def peers(self) -> int:
        """The number of peers that are connected."""
        return len(self.pipes.active)

    def add_pipe(self, carrier: Carrier, url: str, node: int | None) -> Pipe | None:
        """Add a connection; return None if the socket takes no more of them."""
        with self.lock:
            if self.state.closed or self.pipes.is_full or node == self.id:
                return None
            # A later peer does not get the messages of the batch (BP-17).
            self.outbound.hand_over_batch_locked()
            pipe = Pipe(carrier, url, node)
            self.pipes.add(pipe)
            self.outbound.senders.wake_all()
            return pipe

    def remove_pipe(self, pipe: Pipe) -> None:
        """Remove a connection that has ended; its messages that arrived stay."""
        with self.lock:
            self.outbound.hand_over_batch_locked()
            reason = DropReason.CLOSED if self.state.closed else DropReason.LOST
            if self.pipes.remove(pipe, reason):
                self.outbound.senders.wake_all()
        self.ledger.report()

    def add_closer(self, close: Callable[[], object]) -> bool:
        """Call ``close`` when the socket is closed; return False if it is already."""
        with self.lock:
            if self.state.closed:
                return False
            self._closers.append(close)
            return True

    def remove_closer(self, close: Callable[[], object]) -> None:
        """Undo `add_closer`."""
        with self.lock, contextlib.suppress(ValueError):
            self._closers.remove(close)

    def on_account(self, pipe: Pipe, account: SenderAccount | ReceiverAccount) -> None:
        """Note an account of a native peer."""
        with self.lock:
            pipe.note_account_locked(account)
            # Then the last message may have arrived.
            if isinstance(account, ReceiverAccount):
                self.outbound.senders.wake_all()

    # Owners and the end.

    def own(self, owner: str) -> None:
        """Make ``owner`` the only one that may use the socket (BP-14).

        Raises:
            BrokerClosedError: the socket is closed.
            BusyError: it has another owner.
        """
        with self.lock:
            self.state.check(f"start {owner}", "")  # of one more owner: busy
            self.state.owner = owner
            self.inbound.receivers.wake_all()  # they find the new owner

    def disown(self, owner: str) -> None:
        """Let every caller use the socket again, if this very ``owner`` has it."""
        with self.lock:
            # By identity: two gateways may have the same name.
            if self.state.owner is owner:
                self.state.owner = ""
                self.inbound.receivers.wake_all()  # those of the owner end

    @property
    def closed(self) -> bool:
        """True once the socket is closed."""
        return self.state.closed

    def check_open(self, act: str) -> None:
        """Raise a `BrokerClosedError` if the socket is closed."""
        self.state.check(act)

    def close(self) -> None:
        """Close all connections, and end every call that waits."""
        if self.state.is_abandoned:
            return
        # The next call completes an interrupted one: each closer removes itself last.
        with self.lock:
            self.outbound.hand_over_batch_locked()
            self.state.closed = True
            closers, pipes = [*self._closers], [*self.pipes]
            self.inbound.close_locked()
            self.outbound.senders.wake_all()
        for close in closers:
            close()
        for pipe in pipes:
            pipe.carrier.close()
            self.remove_pipe(pipe)
        self.ledger.report()

    def abandon_after_fork(self) -> None:
        """Close the socket in a fork's child: its connections are the parent's."""
        _sync.free_after_fork(self.lock)
        self.state.is_abandoned = self.state.closed = True
        self.inbound.abandon_after_fork()
        self.pipes.clear()

    # Accounts.

    def stats(self) -> SocketStats:
        """Return the account of this socket."""
        self.outbound.flush()
        for pipe in self.pipes:
            pipe.carrier.refresh()
        with self.lock:
            inbound = self.inbound
            peers = [pipe.stats(inbound.delivered_of(pipe)) for pipe in self.pipes]
            return SocketStats(
                node=self.id,
                sent=self.outbound.sent,
                delivered=inbound.delivered - len(inbound.ready),
                received_queued=len(inbound),
                dropped=dict(self.ledger.totals),
                peers=tuple(peers),
            )

    def accounts_of(self, pipe: Pipe) -> tuple[SenderAccount, ReceiverAccount]:
        """Return the accounts of this end for a native peer."""
        with self.lock:
            return pipe.accounts_locked(self.inbound.delivered_of(pipe))

    # For `wait_for`.

    def recover_locked(self) -> None:
        """Wake every waiter, after an exception in one of them."""
        self.inbound.recover_locked(self.pipes)
        self.outbound.senders.wake_all()

    def settle(self) -> None:
        """Do nothing: no work is deferred under the lock."""


# All nodes of the process: a fork's child has none of their threads.
_nodes: Final[weakref.WeakSet[Node]] = weakref.WeakSet()


def _forked() -> None:
    for node in list(_nodes):
        node.abandon_after_fork()


_platform.after_fork_in_child(_forked)
