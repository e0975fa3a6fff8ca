"""What the two ends of a connection share: one state, written as tables.

Every decision about an end, what it is and what a send or a receive may do, is in the
three tables below (the sequential model of the specification). The ends look up here
and only then touch a buffer; no status is stored anywhere else.

This does not know what the buffers hold, messages or bytes, nor how anybody waits.
"""

from __future__ import annotations

import enum
import itertools
from typing import TYPE_CHECKING, Final, Generic, Literal, Protocol, TypeVar

from queuebroker import _sync
from queuebroker.observer import Operation, Reason, Watch

if TYPE_CHECKING:
    import _thread
    from collections.abc import Mapping, Sequence

    from queuebroker.parking import WaitList
    from queuebroker.readiness import Readiness

__all__ = [
    "RECEIVE",
    "SEND",
    "STATUS",
    "Connection",
    "Flow",
    "Side",
    "Status",
    "Verdict",
]

Side = Literal[0, 1]  # 0 is the end of the acceptor, 1 that of the connector


class Status(enum.Enum):
    """What an end is; it moves down this list only, perhaps skipping (QB-DISC-1)."""

    CONNECTED = "connected"
    HALF_DISCONNECTED = "half-disconnected"
    DISCONNECTED = "disconnected"


class Verdict(enum.Enum):
    """What happens to a send or a receive that looks at its end."""

    DO = enum.auto()
    WAIT = enum.auto()
    DROP = enum.auto()
    REFUSE = enum.auto()


# By identity, as members are compared: the hash of Enum is Python code, and every
# operation looks something up in the tables.
Status.__hash__ = object.__hash__  # type: ignore[method-assign]  # see above
Verdict.__hash__ = object.__hash__  # type: ignore[method-assign]  # see above


_C, _H, _D = Status.CONNECTED, Status.HALF_DISCONNECTED, Status.DISCONNECTED
_DO, _WAIT, _DROP, _REFUSE = Verdict.DO, Verdict.WAIT, Verdict.DROP, Verdict.REFUSE

# (this end closed, its peer closed, something unread here) -> status
STATUS: Final[Mapping[tuple[bool, bool, bool], Status]] = {
    (False, False, False): _C,
    (False, False, True): _C,
    (False, True, True): _H,
    (False, True, False): _D,
    (True, False, False): _D,
    (True, False, True): _D,
    (True, True, False): _D,
    (True, True, True): _D,
}

# (status, room in the peer's buffer, this call has waited) -> what a send does
SEND: Final[Mapping[tuple[Status, bool, bool], Verdict]] = {
    (_C, True, False): _DO,
    (_C, True, True): _DO,
    (_C, False, False): _WAIT,
    (_C, False, True): _WAIT,
    (_H, True, False): _DROP,
    (_H, False, False): _DROP,
    (_H, True, True): _REFUSE,
    (_H, False, True): _REFUSE,
    (_D, True, False): _REFUSE,
    (_D, False, False): _REFUSE,
    (_D, True, True): _REFUSE,
    (_D, False, True): _REFUSE,
}

# (status, something unread here) -> what a receive does; half without anything unread
# is not a status an end can have
RECEIVE: Final[Mapping[tuple[Status, bool], Verdict]] = {
    (_C, True): _DO,
    (_C, False): _WAIT,
    (_H, True): _DO,
    (_D, True): _REFUSE,
    (_D, False): _REFUSE,
}


class Buffer(Protocol):
    """What a connection needs of a buffer of either kind."""

    capacity: int
    room: WaitList
    arrived: WaitList

    def __len__(self) -> int: ...
    def full(self) -> bool: ...
    def empty(self) -> bool: ...
    def clear_locked(self) -> Sequence[object]: ...
    def rouse_locked(self) -> None: ...
    def recover_locked(self) -> None: ...


B = TypeVar("B", bound=Buffer)

_numbers = itertools.count(1)


class Flow(Generic[B]):
    """One direction: its buffer, and its books (QB-BOOK-1).

    Guarded by the connection's lock. Units are messages, or bytes on a Channel.

    Invariant: ``accepted == received + discarded + len(buffer)``.
    """

    __slots__ = ("accepted", "buffer", "discarded", "half", "received")

    def __init__(self, buffer: B) -> None:
        self.buffer: B = buffer
        self.accepted: int = 0
        self.received: int = 0
        self.discarded: int = 0  # unread when the receiver disconnected
        self.half: int = 0  # sent after the receiver had disconnected, never accepted


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
        "limit",
        "lock",
        "names",
        "number",
        "port",
        "readiness",
        "seen",
        "strict",
        "watch",
    )

    def __init__(
        self,
        lock: _thread.LockType,
        flows: tuple[Flow[B], Flow[B]],
        names: tuple[str, str],
        port: int,
        *,
        limit: int | None = None,
        strict: tuple[bool, bool] = (False, False),
        watch: Watch | None = None,
    ) -> None:
        self.lock: _thread.LockType = lock
        self.flows: tuple[Flow[B], Flow[B]] = flows
        self.closed: list[bool] = [False, False]
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
        # Sides whose finalizer found the lock taken, perhaps by its own thread.
        self.deferred: list[Side] = []

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
        return STATUS[here, there, not self.flows[side].buffer.empty()]

    def send_verdict(self, side: Side, *, waited: bool) -> Verdict:
        """Return what a send by ``side`` would do now."""
        room = not self.flows[1 - side].buffer.full()
        verdict = SEND[self.status(side), room, waited]
        if verdict is Verdict.DROP and self.strict[side]:
            return Verdict.REFUSE  # QB-PY-8
        return verdict

    def receive_verdict(self, side: Side) -> Verdict:
        """Return what a receive by ``side`` would do now."""
        return RECEIVE[self.status(side), not self.flows[side].buffer.empty()]

    def cause(self, side: Side) -> BaseException | None:
        """Return the error that disconnected ``side``, None if all was orderly."""
        return self.errors[side if self.closed[side] else 1 - side]

    # Changing, under the lock.

    def close_locked(
        self, side: Side, error: BaseException | None, reason: Reason
    ) -> None:
        """Close a side for good, if it is not (QB-DISC-10).

        What it had not read is discarded (QB-DISC-11), and whoever waits at either
        end looks again (I3).
        """
        flow = self.flows[side]
        if self.closed[side] and flow.buffer.empty():
            return  # an interrupted disconnect that is repeated goes on instead
        self.closed[side] = True
        self.errors[side] = error
        unread = flow.buffer.clear_locked()
        flow.discarded += len(unread)
        if self.watch is not None:
            for item in unread:
                if isinstance(item, tuple):
                    seq, message = item
                    self.note(
                        Operation.DROP,
                        (side, side),
                        seq,
                        len(message),
                        Reason.DISCARDED,
                    )
            self.note(Operation.CLOSE_LOCAL, (side, side), 0, 0, reason)
        self.rouse_locked()
        self.refresh_locked(0)
        self.refresh_locked(1)

    def see_close_locked(self, side: Side) -> None:
        """Note the first time a side is told that its peer has disconnected."""
        if not (self.closed[side] or self.seen[side]):
            self.seen[side] = True
            self.note(Operation.CLOSE_SEEN, (side, side), 0, 0, Reason.DISCONNECTED)

    def rouse_locked(self) -> None:
        """Wake everybody who waits at either end."""
        for flow in self.flows:
            flow.buffer.rouse_locked()

    def close_both(self) -> None:
        """Close both sides, as if each had disconnected."""
        with self.lock:
            self.close_locked(0, None, Reason.BROKER_CLOSED)
            self.close_locked(1, None, Reason.BROKER_CLOSED)
        self.settle()

    def recover_locked(self) -> None:
        """Put right what an exception left half done, and wake everybody (QB-ERR-9).

        Every operation changes its buffer first and its count after that. So if the
        buffer has more than the books know of, a send was not counted; if it has less,
        what was taken out was not: received, or discarded by a side that is closed.
        """
        sides: tuple[Side, Side] = (0, 1)
        for side in sides:
            flow = self.flows[side]
            known = flow.accepted - flow.received - flow.discarded
            excess = len(flow.buffer) - known
            if excess > 0:
                flow.accepted += excess
            elif self.closed[side]:
                flow.discarded -= excess
            else:
                flow.received -= excess
            flow.buffer.recover_locked()
            readiness = self.readiness[side]
            if readiness is not None:
                waits = self.receive_verdict(side) is Verdict.WAIT
                readiness.restore_locked(readable=not waits)

    # A finalizer may run within any operation, on the thread that holds the lock.

    def finalize(self, side: Side) -> None:
        """Close a side whose end was collected, never waiting for itself (QB-CONC-9).

        If the lock is taken it may be by this very thread; then whoever holds it
        finds the note when it lets go. Free a moment ago, it can only have been taken
        by another thread meanwhile, and that one will let go: so `with` is safe, and
        unlike a bare acquire it cannot be torn by a signal.
        """
        self.deferred.append(side)
        if not self.lock.locked():
            self.settle()

    def settle(self) -> None:
        """Close what finalizers left behind; every operation ends by looking here."""
        while self.deferred:
            with self.lock:
                while self.deferred:
                    side = self.deferred.pop()
                    self.close_locked(side, None, Reason.COLLECTED)

    # Telling.

    def refresh_locked(self, side: Side) -> None:
        """Keep a side's descriptor, if it has one, in step with its receive."""
        readiness = self.readiness[side]
        if readiness is not None:
            waits = self.receive_verdict(side) is Verdict.WAIT
            readiness.set_locked(readable=not waits)

    def now_ns(self) -> int:
        """Return the monotonic clock in ns where somebody observes, else 0."""
        return 0 if self.watch is None else int(_sync.monotonic() * 1e9)

    def note(
        self,
        operation: Operation,
        who: tuple[Side, Side],
        seq: int,
        size: int,
        reason: Reason = Reason.NONE,
        *,
        waited_ns: int = 0,
    ) -> None:
        """Tell the observer, if there is one; ``who`` is (who acts, who receives)."""
        if self.watch is None:
            return
        actor, direction = who
        self.watch(
            operation,
            self.number,
            direction,
            seq,
            size,
            len(self.flows[direction].buffer),
            waited_ns,
            self.names[actor],
            self.names[1 - actor],
            self.port,
            reason,
        )

    def note_wait_end(self, side: Side, reason: Reason) -> None:
        """Tell the observer, if there is one, that a receive waits no more."""
        if self.watch is not None:
            with self.lock:
                self.note(Operation.RECV_END, (side, side), 0, 0, reason)
            self.settle()
