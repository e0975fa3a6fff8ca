"""State shared by the two ends of a connection: flags, buffers, counters and one lock.

The ends look up the tables of `queuebroker.channel.status` through `Connection` before
they touch a buffer. That class does not depend on the content of the buffers, messages
or bytes, nor on the way in which a caller waits.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from queuebroker import _sync
from queuebroker.arguments import within_own_call
from queuebroker.channel.flow import B
from queuebroker.channel.side import SIDES, Side
from queuebroker.channel.status import RECEIVE, SEND, STATUS, Status, Verdict
from queuebroker.observer import Operation, Reason, Watch

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from queuebroker.channel.flow import Flow
    from queuebroker.waiting.readiness import Readiness

__all__ = ["Connection"]

# The side to close, the error that made it disconnect, and the reason to report.
Deferred = tuple[Side, BaseException | None, Reason]

T = TypeVar("T")

_numbers = itertools.count(1)

_NO_READINESS: Final[list[Readiness | None]] = [None, None]


class Connection(Generic[B]):
    """The state of one connection; side ``s`` receives from ``flows[s]``.

    Lock: ``lock`` guards all of it; both buffers share it. Under it the code takes no
    other lock and calls no user code except an observer.

    Invariants, true whenever ``lock`` is free:
    I1. a closed side has nothing unread.
    I2. once a side is closed, nothing is appended to its peer's buffer or its own.
    I3. if a side is closed, every parker listed on a buffer of the connection has been
        woken since.
    """

    __slots__ = (
        "__weakref__",
        "closed",
        "deferred",
        "errors",
        "flows",
        "hung_up",
        "limit",
        "lock",
        "names",
        "number",
        "port",
        "readiness",
        "registry",
        "seen",
        "sole",
        "strict",
        "watch",
    )

    def __init__(
        self,
        lock: _thread.RLock,
        flows: tuple[Flow[B], Flow[B]] | None,
        names: tuple[str, str],
        port: int,
        *,
        limit: int | None = None,
        strict: tuple[bool, bool] = (False, False),
        watch: Watch | None = None,
    ) -> None:
        self.lock: _thread.RLock = lock
        # None for a kind of connection that makes its flows on first use.
        if flows is not None:
            self.flows: tuple[Flow[B], Flow[B]] = flows
        self.closed: list[bool] = [False, False]
        # True once every step of closing a side is done. A repeated disconnect goes on
        # where an interrupted one stopped.
        self.hung_up: list[bool] = [False, False]
        # The error of an abnormal disconnect by a side, and True once a side has learnt
        # that its peer disconnected.
        self.errors: list[BaseException | None] = [None, None]
        self.seen: list[bool] = [False, False]
        self.names: tuple[str, str] = names
        self.port: int = port
        self.limit: int | None = limit  # maximum bytes of a message, None for no limit
        self.strict: tuple[bool, bool] = strict
        self.watch: Watch | None = watch
        # A descriptor for event loops, for each side that requested one.
        self.readiness: list[Readiness | None] = [None, None]
        # As the observer is given it. Both ends of a socket have the same number.
        self.number: int = _sync.draw(_numbers)
        # The registry that holds this connection while a side is open, if any.
        self.registry: dict[Connection[Any], None] | None = None
        # Sides still to be closed: a finalizer found the lock taken, perhaps by its own
        # thread, or a signal handler had interrupted its own thread under it.
        self.deferred: list[Deferred] = []
        # True if a signal handler that interrupted its own thread in here would have to
        # wait, which it cannot: the observer must see the true order (QB-CONC-10).
        self.sole: bool = watch is not None

    # Reads, with or without the lock.

    def status(self, side: Side) -> Status:
        """Return the status of ``side``.

        Correct without the lock too, because of the order of the reads. Flags only
        rise. Once the peer's flag is up, the unread content only shrinks. So the
        earlier reads still hold when the last one is done.
        """
        there = self.closed[1 - side]
        here = self.closed[side]
        return STATUS[here, there, not self.flows[side].buffer.drained()]

    def send_verdict(self, side: Side, *, waited: bool) -> Verdict:
        """Return the outcome that a send by ``side`` would have now."""
        room = not self.flows[1 - side].buffer.full()
        verdict = SEND[self.status(side), room, waited]
        if verdict is Verdict.DROP and self.strict[side]:
            return Verdict.REFUSE  # QB-PY-8
        return verdict

    def receive_verdict(self, side: Side) -> Verdict:
        """Return the outcome that a receive by ``side`` would have now."""
        while True:
            status = self.status(side)
            verdict = RECEIVE[status, not self.flows[side].buffer.empty()]
            # A signal handler may have disconnected, and so discarded, between the two
            # reads.
            if verdict is not Verdict.WAIT or status is self.status(side):
                return verdict

    def cause(self, side: Side) -> BaseException | None:
        """Return the error that disconnected ``side``; None if all was orderly."""
        return self.errors[side if self.closed[side] else 1 - side]

    # Changes, under the lock.

    def close_locked(
        self, side: Side, error: BaseException | None, reason: Reason
    ) -> None:
        """Close a side for good, if it is open (QB-DISC-10).

        Discards the unread content of the side (QB-DISC-11). Every waiter at either end
        checks its condition again (I3). Each step may be repeated; the last one records
        that all are done.
        """
        if self.hung_up[side]:
            return
        if not self.closed[side]:
            self.flag_closed_locked(side, error)
        self.empty_locked(side, reason)
        if self.closed[1 - side]:
            self.forget()
        self.hung_up[side] = True

    def flag_closed_locked(self, side: Side, error: BaseException | None) -> None:
        """Stop all further stores, and mark a side as closed."""
        one, other = self.flows
        # No call from here on: a signal handler sees the whole change or nothing.
        if not self.closed[side]:
            one.buffer.ended = other.buffer.ended = True
            self.errors[side] = error
            self.closed[side] = True

    def empty_locked(self, side: Side, reason: Reason) -> None:
        """Discard the unread content of a side that closes, and wake every waiter."""
        if self.watch is not None:
            self.note_discarded_locked(side)
        self.flows[side].buffer.discard_locked()
        if self.watch is not None:
            self.note(Operation.CLOSE_LOCAL, side, side, reason=reason)
        self.wake_all_locked()
        if self.readiness != _NO_READINESS:
            self.refresh_locked(0)
            self.refresh_locked(1)

    def forget(self) -> None:
        """Leave the registry: no side is left to disconnect."""
        if self.registry is not None:
            self.registry.pop(self, None)

    def note_close_seen_locked(self, side: Side) -> None:
        """Note the first time that a side learns that its peer has disconnected."""
        if not (self.closed[side] or self.seen[side]):
            self.seen[side] = True
            self.note(Operation.CLOSE_SEEN, side, side, reason=Reason.DISCONNECTED)

    def wake_all_locked(self) -> None:
        """Wake every waiter at either end."""
        for flow in self.flows:
            flow.buffer.wake_all_locked()

    def close_both(self) -> None:
        """Close both sides, as if each had disconnected."""

        def close() -> None:
            self.close_locked(0, None, Reason.BROKER_CLOSED)
            self.close_locked(1, None, Reason.BROKER_CLOSED)

        self.critical(close)

    def critical(self, step: Callable[[], T]) -> T:
        """Run ``step`` under the lock and return its result.

        If an exception is raised, the state stays consistent and every waiter is woken:
        an interrupt may have come after a change and before its wake-up (QB-ERR-9).
        """
        try:
            with self.lock:
                try:
                    return step()
                except BaseException:
                    self.recover_locked()
                    raise
        finally:
            if self.deferred:
                self.settle_at_last()

    def read(self, look: Callable[[], T]) -> T:
        """Return the result of ``look`` as of one instant: two reads must agree.

        A signal handler may use the connection in the middle of a read.
        """
        within = self.watch is None and _sync.owns(self.lock)

        def agreed() -> T:
            if within and True in self.closed:
                # The handler may have interrupted a disconnect, which then continues.
                for flow, closed in zip(self.flows, self.closed, strict=True):
                    if closed:
                        flow.buffer.discard_locked()
            seen = look()
            while (again := look()) != seen:
                seen = again
            return seen

        return self.critical(agreed)

    def recover_locked(self) -> None:
        """Wake every waiter and correct the descriptors after an exception (QB-ERR-9).

        An interrupt may have come after a change and before its wake-up. The changes
        themselves are never half done, see `CircularBufferQueue`.
        """
        for side in SIDES:
            self.flows[side].buffer.recover_locked()
            readiness = self.readiness[side]
            if readiness is not None:
                waits = self.receive_verdict(side) is Verdict.WAIT
                readiness.restore_locked(readable=not waits)

    # A finalizer may run within any operation, on the thread that holds the lock.

    def finalize(self, side: Side) -> None:
        """Close a side whose end was collected, without waiting (QB-CONC-9).

        If the lock is taken, perhaps by this thread, the holder completes the deferred
        close once it has released the lock. To wait for another thread would be wrong,
        too: that thread may be in an observer that waits for a lock held by this one.
        """
        self.deferred.append((side, None, Reason.COLLECTED))
        # Within an operation of its own thread, the close stays deferred: the collector
        # may run in the middle of a change, where no signal handler can.
        while self.deferred and not _sync.owns(self.lock):
            taken: list[bool] = []
            try:
                # One call in C: no interrupt can come between taking the lock and
                # recording that it is taken.
                taken.extend(map(self.lock.acquire, (False,)))
                if not taken or not taken[0]:
                    return
                self._close_deferred_locked()
            finally:
                # No call before the release: an interrupt would be raised when that
                # call returns.
                if taken and taken[0]:
                    self.lock.release()

    def settle(self) -> None:
        """Close the sides that finalizers left open; every operation ends with this."""
        # If this thread holds the lock, the interrupted operation does this at its end.
        while self.deferred and not _sync.owns(self.lock):
            with self.lock:
                self._close_deferred_locked()

    def settle_at_last(self) -> None:
        """Settle, even after an interrupt: it must not delay a deferred close."""
        try:
            self.settle()
        except BaseException:
            self.settle()
            raise

    def _close_deferred_locked(self) -> None:
        try:
            self._close_each_deferred_locked()  # a call: see `_sync.Lock`
        except BaseException:
            self.recover_locked()
            raise

    def _close_each_deferred_locked(self) -> None:
        while self.deferred:
            side, error, reason = self.deferred[0]
            self.close_locked(side, error, reason)
            del self.deferred[0]  # only now: an interrupt must not lose it

    # A signal handler, too, may run within any operation of its own thread.

    def disconnect(
        self, side: Side, error: BaseException | None, reason: Reason
    ) -> None:
        """Close a side, or defer it to the end of the interrupted operation."""
        if self.sole and _sync.owns(self.lock):
            self.deferred.append((side, error, reason))
        else:
            self.critical(partial(self.close_locked, side, error, reason))

    def check_not_within(self, act: str) -> None:
        """Refuse a signal handler's call inside an operation of its own thread.

        For connections that are `sole`, before an operation that changes them.

        Raises:
            RuntimeError: the calling thread is already within an operation.
        """
        if _sync.owns(self.lock):
            what = "connection, which is observed or between processes"
            raise within_own_call(act, what)

    # Notifications.

    def flush_locked(self) -> None:
        """Write the gathered messages before a wait; only sockets gather any."""

    def refresh_locked(self, side: Side) -> None:
        """Update a side's descriptor, if it has one, to match its receive."""
        readiness = self.readiness[side]
        while readiness is not None:
            readable = self.receive_verdict(side) is not Verdict.WAIT
            readiness.set_locked(readable=readable)
            # A signal handler may have sent or received meanwhile.
            if readable is (self.receive_verdict(side) is not Verdict.WAIT):
                break

    def now_ns(self) -> int:
        """Return the monotonic clock in ns if an observer is set, else 0."""
        return 0 if self.watch is None else _sync.monotonic_ns()

    def note(
        self,
        operation: Operation,
        actor: Side,
        receiver: Side,
        *,
        seq: int = 0,
        size: int = 0,
        reason: Reason = Reason.NONE,
        depth: int | None = None,
        waited_ns: int = 0,
    ) -> None:
        """Notify the observer, if there is one, of an operation of ``actor`` on a flow.

        depth: number of units unread afterwards, None for the present number.
        """
        if self.watch is None:
            return
        self.watch(
            operation,
            self.number,
            receiver,
            seq,
            size,
            len(self.flows[receiver].buffer) if depth is None else depth,
            waited_ns,
            self.names[actor],
            self.names[1 - actor],
            self.port,
            reason,
        )

    def note_discarded_locked(self, side: Side) -> None:
        """Notify the observer of each message a closing side had not read."""
