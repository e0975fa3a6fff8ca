"""What the two ends of a connection share: flags, buffers, books, and one lock.

The ends look up in the tables of `queuebroker.status` through this, and only then
touch a buffer. This does not know what the buffers hold, messages or bytes, nor how
anybody waits.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeVar

from queuebroker import _sync
from queuebroker.observer import Operation, Reason, Watch
from queuebroker.status import RECEIVE, SEND, STATUS, Status, Verdict

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from queuebroker.parking import WaitList
    from queuebroker.readiness import Readiness

__all__ = ["Connection", "Flow", "Side"]

Side = Literal[0, 1]  # 0 is the end of the acceptor, 1 that of the connector

# A side to close, the error that made it disconnect, and the reason to report.
Deferred = tuple[Side, BaseException | None, Reason]


class Buffer(Protocol):
    """What a connection needs of a buffer of either kind."""

    capacity: int
    discarded: int
    ended: bool
    room: WaitList
    arrived: WaitList

    def __len__(self) -> int: ...
    def full(self) -> bool: ...
    def empty(self) -> bool: ...
    def drained(self) -> bool: ...
    def pulled(self) -> int: ...
    def discard_locked(self) -> None: ...
    def wake_locked(self) -> None: ...
    def rouse_locked(self) -> None: ...
    def recover_locked(self) -> None: ...


B = TypeVar("B", bound=Buffer)
T = TypeVar("T")

_numbers = itertools.count(1)

_NO_READINESS: Final[list[Readiness | None]] = [None, None]


class Flow(Generic[B]):
    """One direction: its buffer, and its books (QB-BOOK-1).

    Units are messages, or bytes on a Channel. The buffer counts what leaves it; what
    came in follows from that, so that the books balance by construction.
    """

    __slots__ = ("buffer", "half", "heard", "told")

    def __init__(self, buffer: B) -> None:
        self.buffer: B = buffer
        self.half: int = 0  # sent after the receiver had disconnected, never accepted
        # The last number of whose SEND, of whose RECEIVE an observer was told.
        self.told: int = 0
        self.heard: int = 0

    @property
    def received(self) -> int:
        """How much was received."""
        return self.buffer.pulled()

    @property
    def discarded(self) -> int:
        """How much was unread when the receiver disconnected."""
        return self.buffer.discarded

    @property
    def accepted(self) -> int:
        """How much was stored for the receiver."""
        return self.received + self.discarded + len(self.buffer)


class Connection(Generic[B]):
    """The state of one connection; ``flows[s]`` is what side ``s`` receives.

    Lock: ``lock`` guards all of it; both buffers share it. No other lock is taken and
    nothing of a user's is called under it, an observer apart.

    Invariants, true whenever ``lock`` is free:
    I1. a side that is closed has nothing unread.
    I2. once a side is closed, nothing is appended to its peer's buffer or its own.
    I3. nobody is listed on any buffer of a connection with a closed side without
        having been woken since it closed.
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
        # None of a kind that makes them when somebody first asks for them.
        if flows is not None:
            self.flows: tuple[Flow[B], Flow[B]] = flows
        self.closed: list[bool] = [False, False]
        # Whether all that goes with closing a side was done: an interrupted
        # disconnect that is repeated goes on until then.
        self.hung_up: list[bool] = [False, False]
        # What made a side disconnect abnormally, and whether a side was told.
        self.errors: list[BaseException | None] = [None, None]
        self.seen: list[bool] = [False, False]
        self.names: tuple[str, str] = names
        self.port: int = port
        self.limit: int | None = limit  # bytes a message may have, None for any number
        self.strict: tuple[bool, bool] = strict
        self.watch: Watch | None = watch
        # A descriptor for event loops, for each side that asked for one.
        self.readiness: list[Readiness | None] = [None, None]
        self.number: int = next(_numbers)
        # Where it is kept while one of its sides is open, if anywhere.
        self.registry: dict[int, Connection[Any]] | None = None
        # Sides to close whose finalizer found the lock taken, perhaps by its own
        # thread, or whose signal handler had interrupted its own thread.
        self.deferred: list[Deferred] = []
        # Whether a signal handler that interrupted its own thread in here would have to
        # wait, which it cannot: an observer gets the true order (QB-CONC-10).
        self.sole: bool = watch is not None

    # Reading, with the lock or without.

    @staticmethod
    def peer_of(side: Side) -> Side:
        """Return the other side."""
        return 0 if side else 1

    def status(self, side: Side) -> Status:
        """Return what ``side`` is now.

        Correct without the lock too, in this order of reading: flags only rise and,
        once the peer's has risen, what is unread only shrinks, so what was read first
        still holds when the last is read.
        """
        there = self.closed[1 - side]
        here = self.closed[side]
        return STATUS[here, there, not self.flows[side].buffer.drained()]

    def send_verdict(self, side: Side, *, waited: bool) -> Verdict:
        """Return what a send by ``side`` would do now."""
        room = not self.flows[1 - side].buffer.full()
        verdict = SEND[self.status(side), room, waited]
        if verdict is Verdict.DROP and self.strict[side]:
            return Verdict.REFUSE  # QB-PY-8
        return verdict

    def receive_verdict(self, side: Side) -> Verdict:
        """Return what a receive by ``side`` would do now."""
        while True:
            status = self.status(side)
            verdict = RECEIVE[status, not self.flows[side].buffer.empty()]
            # A signal handler may have hung up between the two reads, and discarded.
            if verdict is not Verdict.WAIT or status is self.status(side):
                return verdict

    def cause(self, side: Side) -> BaseException | None:
        """Return the error that disconnected ``side``, None if all was orderly."""
        return self.errors[side if self.closed[side] else 1 - side]

    # Changing, under the lock.

    def close_locked(
        self, side: Side, error: BaseException | None, reason: Reason
    ) -> None:
        """Close a side for good, if it is not (QB-DISC-10).

        What it had not read is discarded (QB-DISC-11), and whoever waits at either
        end looks again (I3). Each step may be done twice, and the last one says that
        all were done.
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
        """Stop all further stores, and mark a side as closed in the tables."""
        one, other = self.flows
        # No call from here on: a signal handler sees all of the change or nothing.
        if not self.closed[side]:
            one.buffer.ended = other.buffer.ended = True
            self.errors[side] = error
            self.closed[side] = True

    def empty_locked(self, side: Side, reason: Reason) -> None:
        """Discard what a side that closes had not read, and tell whom it concerns."""
        if self.watch is not None:
            self.note_discarded_locked(side)
        self.flows[side].buffer.discard_locked()
        if self.watch is not None:
            self.note(Operation.CLOSE_LOCAL, side, side, reason=reason)
        self.rouse_locked()
        if self.readiness != _NO_READINESS:
            self.refresh_locked(0)
            self.refresh_locked(1)

    def forget(self) -> None:
        """Be kept no longer: nobody can disconnect this any more."""
        if self.registry is not None:
            self.registry.pop(self.number, None)

    def see_close_locked(self, side: Side) -> None:
        """Note the first time a side is told that its peer has disconnected."""
        if not (self.closed[side] or self.seen[side]):
            self.seen[side] = True
            self.note(Operation.CLOSE_SEEN, side, side, reason=Reason.DISCONNECTED)

    def rouse_locked(self) -> None:
        """Wake everybody who waits at either end."""
        for flow in self.flows:
            flow.buffer.rouse_locked()

    def close_both(self) -> None:
        """Close both sides, as if each had disconnected."""

        def close() -> None:
            self.close_locked(0, None, Reason.BROKER_CLOSED)
            self.close_locked(1, None, Reason.BROKER_CLOSED)

        self.critical(close)

    def critical(self, step: Callable[[], T]) -> T:
        """Do a step under the lock and return what it returns.

        Whatever strikes, the state is whole and nobody sleeps on: an interrupt may
        have come after a change and before its wake-up (QB-ERR-9).
        """
        try:
            with self.lock:
                try:
                    return step()
                except BaseException:
                    self.recover_locked()
                    raise
        finally:
            # Not even an interrupt just here may keep a finalizer's wish waiting.
            if self.deferred:
                try:
                    self.settle()
                except BaseException:
                    self.settle()
                    raise

    def read(self, look: Callable[[], T]) -> T:
        """Return the result of ``look`` as of one instant: two reads must agree.

        A signal handler may use the connection in the middle of a read.
        """
        within = self.watch is None and _sync.owns(self.lock)

        def agreed() -> T:
            if within and True in self.closed:
                # The handler may have interrupted the disconnect, which goes on later.
                for flow, closed in zip(self.flows, self.closed, strict=True):
                    if closed:
                        flow.buffer.discard_locked()
            seen = look()
            while (again := look()) != seen:
                seen = again
            return seen

        return self.critical(agreed)

    def recover_locked(self) -> None:
        """Wake everybody, and set descriptors right, after an exception (QB-ERR-9).

        It may have come after a change and before its wake-up; the changes themselves
        are never half done, see `CircularBufferQueue`.
        """
        sides: tuple[Side, Side] = (0, 1)
        for side in sides:
            self.flows[side].buffer.recover_locked()
            readiness = self.readiness[side]
            if readiness is not None:
                waits = self.receive_verdict(side) is Verdict.WAIT
                readiness.restore_locked(readable=not waits)

    # A finalizer may run within any operation, on the thread that holds the lock.

    def finalize(self, side: Side) -> None:
        """Close a side whose end was collected, without waiting (QB-CONC-9).

        If the lock is taken, perhaps by this very thread, whoever holds it finds the
        note when it lets go. Even to wait for another thread would be wrong: that one
        may be in an observer which waits for a lock that this thread holds.
        """
        self.deferred.append((side, None, Reason.COLLECTED))
        # Within an operation of its own thread it does no more than that: the collector
        # may run where no signal handler can, in the middle of a change.
        while self.deferred and not _sync.owns(self.lock):
            taken: list[bool] = []
            try:
                # One call in C: an interrupt cannot fall between taking the lock and
                # knowing that it is taken.
                taken.extend(map(self.lock.acquire, (False,)))
                if not taken or not taken[0]:
                    return
                self._close_deferred_locked()
            finally:
                # No call before the release: an interrupt would strike when it returns.
                if taken and taken[0]:
                    self.lock.release()

    def settle(self) -> None:
        """Close what finalizers left behind; every operation ends by looking here."""
        # If this thread holds the lock, the interrupted operation does this at its end.
        while self.deferred and not _sync.owns(self.lock):
            with self.lock:
                self._close_deferred_locked()

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
        """Close a side; at the end of the interrupted operation if it has to wait."""
        if self.sole and _sync.owns(self.lock):
            self.deferred.append((side, error, reason))
        else:
            self.critical(partial(self.close_locked, side, error, reason))

    def check_not_within(self, act: str) -> None:
        """Refuse a signal handler's call inside an operation of its own thread.

        For connections that are `sole`, before an operation that changes them.

        Raises:
            RuntimeError: the calling thread is within an operation already.
        """
        if _sync.owns(self.lock):
            msg = (
                f"cannot {act}: this signal handler interrupted a call on the same"
                f" connection, which is observed or between processes; set a flag, or"
                f" put the event into a queue.SimpleQueue that another thread reads"
            )
            raise RuntimeError(msg)

    # Telling.

    def refresh_locked(self, side: Side) -> None:
        """Keep a side's descriptor, if it has one, in step with its receive."""
        readiness = self.readiness[side]
        while readiness is not None:
            readable = self.receive_verdict(side) is not Verdict.WAIT
            readiness.set_locked(readable=readable)
            # A signal handler may have sent or received meanwhile.
            if readable is (self.receive_verdict(side) is not Verdict.WAIT):
                break

    def now_ns(self) -> int:
        """Return the monotonic clock in ns where somebody observes, else 0."""
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
        """Tell the observer, if there is one, who did something to whose flow.

        depth: how much is unread afterwards, None for what is now.
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
        """Tell of each thing unread by a side that closes; bytes are not told of."""
