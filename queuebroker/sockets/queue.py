"""`SocketMessageQueue`: an end whose peer is in another process.

This is the kind of end that takes the lock for every operation, over a
`SocketConnection`. It adds two things. A message that need not wait is sent or received
in one step. A receiver that must wait sleeps at the socket itself if possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from queuebroker import _sync
from queuebroker.arguments import Buffer, deadline_after, remaining_s, snapshot
from queuebroker.channel.end import Stats
from queuebroker.channel.locked_queue import LockedMessageQueue
from queuebroker.channel.receive_attempt import Take
from queuebroker.channel.side import Side
from queuebroker.channel.status import DONE, Verdict
from queuebroker.errors import ReceiveTimeoutError
from queuebroker.sockets.connection import Inbox, SocketConnection
from queuebroker.sockets.descriptors import Described, duplicates
from queuebroker.sockets.link_writer import GATHERED_BYTES_MAX
from queuebroker.sockets.peer import Peer
from queuebroker.sockets.protocol import Protocol
from queuebroker.sockets.read_owner import OPEN
from queuebroker.waiting.parking import PENDING, Pending, Wait, WaitList, wait_for

__all__ = ["SocketMessageQueue"]

# A run of messages is split into frames of at most this many messages and bytes.
RUN_MESSAGES_MAX = 4096
RUN_BYTES_MAX = 1 << 16

_ZERO: Any = 0


class SocketMessageQueue(LockedMessageQueue):
    """One end of a connection between processes; see `MessageQueue`.

    It behaves as between threads, except for the differences that QB-SOCK-1 lists: an
    action of the peer takes effect here when its frame has arrived.
    """

    __slots__ = ("_arrived", "_protocol", "_socket_connection")

    def __init__(self, connection: SocketConnection, side: Side) -> None:
        super().__init__(connection, side)
        self._socket_connection: SocketConnection = connection  # with its exact type
        # Looked up once, for each message.
        self._arrived: Inbox = connection.inbox
        self._protocol: Protocol = connection.link.protocol

    @property
    def peer(self) -> Peer:
        """The peer at the other end (QB-SOCK-9)."""
        peer = self._socket_connection.peer
        assert peer is not None  # known before there is an end
        return peer

    def drop_without_memory(self) -> None:
        """Receive an empty message in place of a long one without memory for it.

        Otherwise such a message ends the connection (QB-SOCK-10). Long is a message of
        which only a part arrives with one read.
        """
        self._socket_connection.link.protocol.reader.drops = True

    # Operations that need not wait, in one step; the base class does the rest.

    def send(
        self,
        data: Buffer,
        offset: int = 0,
        length: int | None = None,
        timeout: float | None = None,
        *,
        fds: Sequence[int] = (),
    ) -> None:
        """Send a message; see `MessageQueue.send`.

        fds: descriptors to send with it, over UNIX sockets and if both sides allow so
            many (`SocketOptions`). The caller keeps its own and may close them at any
            time.

        Raises:
            ValueError: more descriptors than this connection takes.
            OSError: one of them is no descriptor.
        """
        connection, protocol = self._socket_connection, self._protocol
        if timeout is not _ZERO and timeout is not None:
            deadline_after(timeout)  # a wrong one is an error in every state
        # The common arguments, by identity: the steps for any others are right for them
        # too, and only take longer.
        if (
            protocol.gather_until  # read again below
            and type(data) is bytes
            and offset is _ZERO
            and length is None
            and not fds
            and len(data) <= GATHERED_BYTES_MAX
        ):
            one = (data,)
            # Without the lock: see `Protocol.gather_until`.
            sent = protocol.sent + 1
            if sent <= protocol.gather_until:
                protocol.gathered += one
                protocol.sent = sent
                return
        link = connection.link
        if (
            type(data) is not bytes
            or offset is not _ZERO
            or length is not None
            or fds
            or len(data) > protocol.limit
        ):
            data = snapshot(data, offset, length, connection.limit)
            if fds:
                self._send_described(data, fds, timeout)
                return
        if connection.lock._is_owned():  # type: ignore[attr-defined]  # as `_sync.owns`
            connection.check_not_within("send")
        try:
            with connection.lock:
                try:
                    protocol.gather_until = 0
                    if (
                        protocol.sent < protocol.sendable
                        and connection.closed == OPEN
                        and connection.watch is None
                    ):
                        link.post_locked(data)
                        return
                except BaseException:
                    connection.recover_locked()
                    raise
        finally:
            if connection.deferred:
                connection.settle()
        super().send(data, timeout=timeout)

    def _send_described(
        self, message: bytes, fds: Sequence[int], timeout: float | None
    ) -> None:
        connection = self._socket_connection
        most = connection.link.protocol.descriptors
        if len(fds) > most:
            msg = f"a message takes {most} descriptors here, got {len(fds)}"
            raise ValueError(msg)
        described = Described.of(message, duplicates(fds))
        verdict = self._act(self._send_attempt(described), timeout, sends=True)
        if verdict not in DONE:
            raise self._unsent(verdict)

    def receive_fds(
        self, *, timeout: float | None = None
    ) -> tuple[bytes, tuple[int, ...]]:
        """Receive a message with the descriptors that arrived with it, if any.

        The caller owns them and must close them; they are closed on exec. Other
        receive methods drop the descriptors of such a message, and close them.

        Raises:
            DisconnectedQueueError, ReceiveTimeoutError: as `receive`.
        """
        message = self._take(timeout)
        if isinstance(message, Described):
            return bytes(message), message.take()
        return message, ()

    def receive(self, timeout: float | None = None) -> bytes:
        inbox = self._arrived
        connection = self._socket_connection
        if (
            inbox._pulled < inbox.pull_until  # checked again under the lock
            and not connection.lock._is_owned()  # type: ignore[attr-defined]
        ):
            if timeout is not None:
                deadline_after(timeout)  # a wrong one is an error in every state
            try:
                with connection.lock:
                    pulled, taken = inbox._pulled + 1, self._protocol.taken + 1
                    if pulled <= inbox.pull_until:
                        message = inbox._messages[0]
                        # No call and no new object: see `Protocol.begin_gathering`.
                        del inbox._messages[0]
                        inbox._pulled = pulled
                        self._protocol.taken = taken
                        return message  # type: ignore[return-value]  # I3 of `Inbox`
            finally:
                if connection.deferred:
                    connection.settle()
        message = self._take(timeout)
        return message if type(message) is bytes else bytes(message)

    def _take(self, timeout: float | None) -> bytes:
        """Receive a message as stored: it may carry descriptors."""
        connection = self._socket_connection
        link = connection.link
        read_owner = link.read_owner
        deadline = None if timeout is None else deadline_after(timeout)
        leased = False
        if connection.lock._is_owned():  # type: ignore[attr-defined]  # as `_sync.owns`
            connection.check_not_within("receive")
        try:
            with connection.lock:
                try:
                    message = connection.grab_locked()
                    # With an observer, a message that is here goes through the tables.
                    # Then this receiver must not sleep: nothing would wake it.
                    if (
                        message is None
                        and timeout != 0
                        and not connection._inbox._messages
                        and (
                            sleeper := read_owner.lease_locked(
                                link.socket, connection.closed
                            )
                        )
                    ):
                        leased = True
                        link.flush_locked()  # the wait may be for the answer
                        connection._inbox.arrived.enlist(sleeper)
                except BaseException:
                    connection.recover_locked()
                    raise
            if leased:
                # One inlined round of `_read_and_wait`: nearly always one is enough.
                link.sleep(deadline)
                with connection.lock:
                    try:
                        connection._inbox.arrived.leave(read_owner.sleeper)
                        message = link.read_whole_locked(connection._inbox)
                        if message is None:
                            message = connection.grab_locked()
                        read_owner.yield_locked(wanted=connection.is_awaited_locked())
                    except BaseException:
                        self._return_lease_locked()
                        raise
                    finally:
                        leased = False
        except BaseException:
            # After any exception: no other thread reads while this one has the lease.
            if leased:
                with connection.lock:
                    self._return_lease_locked()
            connection.settle()
            raise
        if connection.deferred:
            connection.settle()
        if message is not None:
            return message
        try:
            return super().receive(0 if timeout == 0 else remaining_s(deadline))
        except ReceiveTimeoutError:
            raise self._timeout_error(timeout) from None

    def receive_many(
        self, limit: int | None = None, *, timeout: float | None = None
    ) -> list[bytes]:
        # Messages that are here already need no wait and no verdict.
        if timeout == 0 and type(limit) is int and limit > 0:
            connection = self._socket_connection
            connection.check_not_within("receive")
            taken = connection.critical(lambda: connection.grab_run_locked(limit))
            if taken:
                return taken
        return super().receive_many(limit, timeout=timeout)

    def _return_lease_locked(self) -> None:
        """Return the read lease to the driver at once, after an exception."""
        connection = self._socket_connection
        link = connection.link
        connection.inbox.arrived.leave(link.read_owner.sleeper)
        link.read_owner.yield_locked(wanted=True)
        connection.recover_locked()

    def _waiting(
        self, attempt: Callable[[int], Verdict], *, sends: bool
    ) -> tuple[WaitList, Callable[[], Verdict | Pending], Callable[[], bool]]:
        # The wait may be for the answer to messages that are not yet written.
        self._socket_connection.critical(self._socket_connection.flush_locked)
        return super()._waiting(attempt, sends=sends)

    def _wait(
        self, attempt: Callable[[int], Verdict], deadline: float | None, *, sends: bool
    ) -> Verdict:
        """Sleep and attempt again; at the socket itself, if no other receiver reads it.

        A wake-up by the driver would involve two threads for each message.
        """
        connection = self._socket_connection
        read_owner = connection.link.read_owner
        leased = False
        try:
            with connection.lock:
                try:
                    socket, closed = connection.link.socket, connection.closed
                    leased = read_owner.lease_locked(socket, closed) is not None
                except BaseException:
                    connection.recover_locked()
                    raise
            if leased:
                outcome = self._read_and_wait(attempt, deadline, sends=sends)
                with connection.lock:
                    try:
                        read_owner.yield_locked(wanted=connection.is_awaited_locked())
                    except BaseException:
                        self._return_lease_locked()
                        raise
                    finally:
                        leased = False
                connection.settle()
                return outcome
        except BaseException:
            if leased:
                with connection.lock:
                    self._return_lease_locked()
            connection.settle()
            raise
        return super()._wait(attempt, deadline, sends=sends)

    def _read_and_wait(
        self, attempt: Callable[[int], Verdict], deadline: float | None, *, sends: bool
    ) -> Verdict:
        """Read the socket until this call is done, or its deadline passes."""
        connection = self._socket_connection
        link = connection.link
        waiters, look, ready = self._waiting(attempt, sends=sends)

        def read_and_look() -> Verdict | Pending:
            if not link.closed:
                link.read_locked()
            return look()

        wait = Wait(
            connection, waiters, read_and_look, ready, link.read_owner.sleeper.renew
        )
        expired = False
        try:
            while True:
                outcome = wait.look(last=expired)
                if outcome is not PENDING:
                    return outcome
                if expired:
                    return Verdict.WAIT
                expired = deadline is not None and deadline <= _sync.monotonic()
                if not expired:
                    link.sleep(deadline)
                outcome = PENDING  # a statement before the jump: see `_sync.Lock`
        except BaseException:
            wait.withdraw()
            raise

    def _send_run_locked(
        self, messages: list[bytes], begin: int
    ) -> tuple[int, Verdict]:
        connection = self._socket_connection
        self._protocol.gather_until = 0
        if connection.watch is not None:
            return super()._send_run_locked(messages, begin)
        while begin < len(messages):
            verdict = connection.send_verdict(self._side, waited=False)
            room = min(connection.outbound.free_slots(), RUN_MESSAGES_MAX)
            if verdict is not Verdict.DO or room < 2:
                return super()._send_run_locked(messages, begin)
            run = _short_run(messages, begin, room)
            if len(run) < 2:
                connection.send_locked(self._side, messages[begin])
            else:
                connection.store_run_locked(run)
            begin += len(run)
        return begin, Verdict.DO

    def _take_many(self, limit: int | None) -> Take[list[bytes]]:
        slow = super()._take_many(limit)  # and the check of the argument
        connection = self._socket_connection
        if connection.watch is not None:
            return slow

        def take(_side: Side, _waited_ns: int) -> list[bytes] | None:
            taken = connection.inbox.pull_run_locked(
                self.pending if limit is None else limit
            )
            connection.inbox.wake_locked()
            connection.refresh_locked(self._side)
            connection.on_received_locked(len(taken))
            return [bytes(one) for one in taken if isinstance(one, bytes)] or None

        return take

    def stats(self) -> Stats:
        connection = self._socket_connection
        outward, inward = connection.flows[1 - self._side], connection.flows[self._side]
        return connection.read(
            lambda: Stats(
                sent=outward.accepted
                + outward.half_disconnected
                + connection.outbound.lost,
                received=inward.received,
                half_disconnected=outward.half_disconnected,
                discarded=outward.discarded,
                peer_lost=connection.outbound.lost,
                pending=len(inward.buffer),
            )
        )

    def ping(self, timeout_s: float | None = None) -> bool:
        """Wait until the peer has processed every earlier action of this end.

        Return True also if there is no peer any more; return False on timeout.
        """
        connection = self._socket_connection
        connection.check_not_within("ping")
        number = connection.critical(self._ask_locked)
        if not number:
            return True

        def answered() -> bool:
            return connection.ponged >= number or connection.link.protocol.ended

        deadline = None if timeout_s is None else _sync.monotonic() + timeout_s
        outcome = wait_for(
            connection,
            connection.pongs,
            lambda: answered() or PENDING,
            answered,
            deadline,
        )
        return outcome is not PENDING

    def _ask_locked(self) -> int:
        """Send a ping; return its number, 0 if there is no peer to answer."""
        connection = self._socket_connection
        link = connection.link
        if link.protocol.ended or link.closed:
            return 0
        # The driver reads the pong, unless a receiver has the read lease.
        link.read_owner.rearm_locked()
        connection.pinged += 1
        link.protocol.ping(connection.pinged)
        link.flush_locked()
        return connection.pinged


def _short_run(messages: list[bytes], begin: int, most: int) -> list[bytes]:
    """Return the messages from ``begin`` on that fit in one frame, at least one."""
    run = messages[begin : begin + most]
    if sum(map(len, run)) <= RUN_BYTES_MAX:
        return run
    size = 0
    for count, message in enumerate(run):
        size += len(message)
        if size > RUN_BYTES_MAX:
            return run[: max(1, count)]
    return run
