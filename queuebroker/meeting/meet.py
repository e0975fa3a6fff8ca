"""Drive an accept or connect call until it meets its opposite, over `RdVMap`.

`begin` is one critical section under the manager's lock that either matches or enlists.
Then the caller sleeps on the parker of its `RdV`. If the call has to be withdrawn,
`expire` or `abandon` runs one more critical section. No other caller is woken: a match
concerns two callers only (QB-RDV-7). `meet` combines these steps for a caller that
sleeps in its own thread.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final, cast

from queuebroker import _sync
from queuebroker.channel.channel import Channel
from queuebroker.channel.circular_buffer import CircularBuffer, CircularBufferQueue
from queuebroker.channel.connection import Connection
from queuebroker.channel.flow import Flow
from queuebroker.channel.locked_queue import LockedMessageQueue
from queuebroker.channel.queue_connection import (
    Message,
    QueueConnection,
    UnobservedConnection,
)
from queuebroker.channel.unobserved_queue import UnobservedMessageQueue
from queuebroker.errors import (
    BrokerClosedError,
    PortInUseError,
    RendezvousTimeoutError,
    UnknownBrokerError,
)
from queuebroker.lockfree.fast_queue import FastMessageQueue
from queuebroker.lockfree.lock_free_connection import LockFreeConnection
from queuebroker.meeting.rendezvous import Kind, RdV, RdVEvent, RdVState
from queuebroker.observer import Operation, Reason

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from queuebroker.channel.message_queue import MessageQueue
    from queuebroker.errors import QueueBrokerError
    from queuebroker.meeting.rendezvous import NameSpace
    from queuebroker.observer import Watch

__all__ = ["abandon", "begin", "expire", "meet", "outcome", "pair", "withdraw_locked"]

# A member of an Enum takes five times as long to look up as a global name.
_MATCH: Final = RdVEvent.MATCH
_MATCHED: Final = RdVState.MATCHED
_CHANNEL: Final = Kind.CHANNEL

# The fast kind relies on the interpreter lock (docs/explanation/fast-path.md).
LOCKED: Final = (
    os.environ.get("QUEUEBROKER_LOCKED") == "1"
    or not getattr(sys, "_is_gil_enabled", lambda: True)()
)


def meet(
    rdv: RdV,
    deadline: float | None,
    timeout: float | None = None,
    begin: Callable[[RdV], None] | None = None,
) -> MessageQueue | Channel:
    """Wait in this thread until the call is matched; return its end.

    ``timeout``, in seconds, is the source of ``deadline``, for the text of an error.
    ``begin`` enlists a call whose opposite is in another process.

    Raises:
        UnknownBrokerError: no live broker of that name offers the wanted kind.
        RendezvousTimeoutError: no opposite call came in time.
        BrokerClosedError: the caller's broker is closed, or either was closed during
            the wait.
        PortInUseError: an exclusive accept conflicts with this call.
    """
    # One block: an interrupt between two blocks would leave the caller listed for good.
    try:
        (begin or _begin)(rdv)
        _sleep(rdv, deadline)  # a call: see `_sync.Lock`
        return outcome(rdv, timeout)
    except BaseException:
        abandon(rdv)
        raise


def _sleep(rdv: RdV, deadline: float | None) -> None:
    """Sleep until a call no longer waits, or its time is up."""
    while rdv.waiting:
        parker = cast("_thread.LockType", rdv.parker)  # created by `RdVMap.add`
        if not _sync.park(parker, rdv.ended, deadline):
            expire(rdv)
        # else matched, withdrawn, or woken for no reason (QB-CONC-6)
    # It may belong to a descriptor, and a traceback may keep this call.
    rdv.parker = None


def begin(rdv: RdV) -> None:
    """Match a call with the opposite that has waited longest, else list it to wait.

    If there is nothing to wait for, the call is withdrawn at once. After an interrupt
    the lists are repaired before the lock is released. Otherwise the next caller would
    take a half-made match for a waiter. If this raises, the caller must `abandon` the
    call.
    """
    manager = rdv.caller.manager
    manager.check_not_within("accept" if rdv.accepts else "connect")
    try:
        with manager.lock:
            try:
                _begin_locked(manager, rdv)
            except BaseException:
                if rdv.begun:
                    if rdv.waiting:
                        withdraw_locked(rdv, Reason.INTERRUPTED)
                    rdv.target.waiting.mend()
                raise
    finally:
        if manager.deferred:
            manager.settle()


_begin: Final = begin  # `meet` has a parameter of that name


def _begin_locked(manager: NameSpace, rdv: RdV) -> None:
    caller = rdv.caller
    if caller.closed:
        _withdraw_unseen(rdv, Reason.BROKER_CLOSED)
        return
    if not rdv.accepts:
        target = manager.find_locked(rdv.name)
        if target is None or rdv.kind not in target.kinds:
            _withdraw_unseen(rdv, Reason.UNKNOWN_BROKER)
            if manager.watch is not None:
                # Of side 1, without a ticket and a wait: it was never on a list.
                manager.watch(
                    Operation.REFUSE,
                    0,
                    1,
                    0,
                    0,
                    0,
                    0,
                    caller.name,
                    rdv.name,
                    rdv.port,
                    rdv.reason,
                )
            return
        rdv.target = target
    rdv.begun = True
    if manager.watch is not None:
        rdv.began_ns = _sync.monotonic_ns()
        _note(Operation.ACCEPT_BEGIN if rdv.accepts else Operation.CONNECT_BEGIN, rdv)
    waiting = rdv.target.waiting
    if waiting.refuses(rdv):
        rdv.step(RdVEvent.WITHDRAW)
        rdv.reason = Reason.PORT_IN_USE
        _note(Operation.REFUSE, rdv)
        return
    opposite = waiting.opposite_of(rdv)
    if opposite is None:
        waiting.add(rdv)
        if not rdv.accepts:
            caller.departing[rdv] = None
        return
    # Early, although the woken thread finds nothing before the lock is released: a
    # wake-up takes about as long as the remaining steps.
    opposite.wake()
    acceptor, connector = (rdv, opposite) if rdv.accepts else (opposite, rdv)
    connection, accept_end, connect_end = pair(acceptor, connector, manager.watch)
    manager.keep_locked(connection)
    # Ends first, then states, then the wake-up, then the lists: `RdVMap.mend` can find
    # any step after the states that an interrupt leaves undone.
    acceptor.end, connector.end = accept_end, connect_end
    acceptor.step(_MATCH)
    connector.step(_MATCH)
    opposite.wake()
    connector.caller.departing.pop(connector, None)
    waiting.remove(opposite)
    if manager.watch is not None:
        _note(Operation.ACCEPT_END, acceptor, connector, connection.number)
        _note(Operation.CONNECT_END, connector, acceptor, connection.number)


def _withdraw_unseen(rdv: RdV, reason: Reason) -> None:
    """Withdraw a call that was never on a list."""
    rdv.reason = reason
    rdv.step(RdVEvent.WITHDRAW)


def withdraw_locked(rdv: RdV, reason: Reason) -> None:
    """Remove a waiting call from every list and wake its caller (QB-RDV-11)."""
    try:
        rdv.reason = reason
        rdv.step(RdVEvent.WITHDRAW)
        if not rdv.begun:
            return
        rdv.wake()
        rdv.caller.departing.pop(rdv, None)
        rdv.target.waiting.remove(rdv)
        _note(Operation.REFUSE, rdv)
    except BaseException:
        if rdv.begun:
            rdv.target.waiting.mend()
        raise


def expire(rdv: RdV) -> None:
    """Withdraw a call whose time is up, unless it was matched first (QB-TIME-5)."""
    manager = rdv.caller.manager
    with manager.lock:
        if rdv.waiting:
            withdraw_locked(rdv, Reason.TIMED_OUT)
    manager.settle()


def outcome(rdv: RdV, timeout: float | None = None) -> MessageQueue | Channel:
    """Return the end of a call that no longer waits, or raise its refusal.

    ``timeout``, in seconds, is how long the call waited if its time was up.
    """
    # By the state, not by the presence of an end: an interrupted match that the other
    # side undid may have left an end here.
    if rdv.state is not _MATCHED or rdv.end is None:
        raise _refusal(rdv, timeout)
    return rdv.end


def abandon(rdv: RdV) -> None:
    """Undo a call after an exception, before or after its match (QB-RDV-12)."""
    manager = rdv.caller.manager
    with manager.lock:
        if rdv.waiting:
            withdraw_locked(rdv, Reason.INTERRUPTED)
        if rdv.begun:
            rdv.target.waiting.mend()
        end, rdv.end = rdv.end, None
    manager.settle()
    if end is not None:
        end.disconnect()


def _refusal(rdv: RdV, timeout: float | None) -> QueueBrokerError:
    """Return the exception for a call that was withdrawn."""
    act = "accept" if rdv.accepts else "connect"
    whom = f"{rdv.name!r} port {rdv.port}"
    if rdv.reason is Reason.UNKNOWN_BROKER:
        return UnknownBrokerError(
            f"cannot connect to {whom}: no live broker of that name offers"
            f" {rdv.kind.value}s"
        )
    if rdv.reason is Reason.TIMED_OUT:
        did = "connected to" if rdv.accepts else "accepted at"
        limit = "in time" if timeout is None else f"within {timeout} s"
        return RendezvousTimeoutError(f"cannot {act}: no broker {did} {whom} {limit}")
    if rdv.reason is Reason.PORT_IN_USE:
        return PortInUseError(f"cannot {act}: another accept holds {whom}")
    if not rdv.begun:
        return BrokerClosedError(
            f"cannot {act} on port {rdv.port}: broker {rdv.caller.name!r} is closed"
        )
    closed = rdv.caller.name if rdv.caller.closed else rdv.target.name
    return BrokerClosedError(
        f"cannot {act}: broker {closed!r} was closed during the wait for {whom}"
    )


def _note(
    operation: Operation, rdv: RdV, other: RdV | None = None, channel: int = 0
) -> None:
    """Notify the observer, if there is one, of a step of one caller."""
    watch = rdv.caller.manager.watch
    if watch is None:
        return
    remote = "" if rdv.accepts else rdv.name
    if other is not None:
        remote = other.caller.name
    watch(
        operation,
        channel,
        0 if rdv.accepts else 1,
        rdv.ticket,
        0,
        0,
        _sync.monotonic_ns() - rdv.began_ns,
        rdv.caller.name,
        remote,
        rdv.port,
        rdv.reason,
    )


def pair(
    acceptor: RdV, connector: RdV, watch: Watch | None
) -> tuple[Connection[Any], MessageQueue | Channel, MessageQueue | Channel]:
    """Return one new connection, the acceptor's end of it, and the connector's.

    The only place that chooses the kind of end. It runs under the manager's lock and
    takes no other: no other thread has the connection yet.

    The acceptor's terms decide capacity and limit (QB-BUF-10); strictness is each
    side's own.
    """
    if connector.join is not None:
        # The connector's end is in another process; its call here gets the acceptor's
        # end.
        connection, end = connector.join(acceptor, watch)
        return connection, end, end
    lock = _sync.RLock()
    capacity = acceptor.terms.capacity
    names = (acceptor.caller.name, connector.caller.name)
    strict = (acceptor.terms.strict, connector.terms.strict)
    if acceptor.kind is _CHANNEL:
        bytes_flows = (
            Flow(CircularBuffer(capacity, lock=lock)),
            Flow(CircularBuffer(capacity, lock=lock)),
        )
        stream = Connection(
            lock, bytes_flows, names, acceptor.port, strict=strict, watch=watch
        )
        return stream, Channel(stream, 0), Channel(stream, 1)
    limit = acceptor.terms.limit
    if watch is None and not LOCKED:
        fast = LockFreeConnection(
            lock, capacity, names, acceptor.port, limit=limit, strict=strict
        )
        return fast, FastMessageQueue(fast, 0), FastMessageQueue(fast, 1)
    if watch is None:
        plain = UnobservedConnection(
            lock, capacity, names, acceptor.port, limit=limit, strict=strict
        )
        return plain, UnobservedMessageQueue(plain, 0), UnobservedMessageQueue(plain, 1)
    messages: tuple[CircularBufferQueue[Message], CircularBufferQueue[Message]] = (
        CircularBufferQueue(capacity, lock=lock),
        CircularBufferQueue(capacity, lock=lock),
    )
    flows = (Flow(messages[0]), Flow(messages[1]))
    queue = QueueConnection(
        lock, flows, names, acceptor.port, limit=limit, strict=strict, watch=watch
    )
    return queue, LockedMessageQueue(queue, 0), LockedMessageQueue(queue, 1)
