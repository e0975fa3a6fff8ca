"""How a caller of accept or connect meets its opposite: the driver over `RdVMap`.

Each call is one critical section under the manager's lock that either matches or
enlists, a sleep on the RdV's own parker, and one more section if it has to withdraw.
Nobody else is woken: a match concerns two callers and no others (QB-RDV-7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queuebroker import _sync
from queuebroker.errors import (
    BrokerClosedError,
    PortInUseError,
    RendezvousTimeoutError,
)
from queuebroker.observer import Operation, Reason
from queuebroker.pairing import pair
from queuebroker.rendezvous import RdV, RdVEvent, RdVState

if TYPE_CHECKING:
    from queuebroker.broker import Broker
    from queuebroker.broker_manager import BrokerManager
    from queuebroker.channel import Channel
    from queuebroker.message_queue import MessageQueue

__all__ = ["abandon", "begin_locked", "finish", "withdraw_locked"]


def begin_locked(rdv: RdV) -> None:
    """Match a call with who has waited longest for it, else let it wait.

    It is withdrawn at once where an exclusive accept stands in its way (QB-RDV-9). An
    interrupt leaves the lists whole before the lock is let go: the next caller would
    take a half-made match for somebody who waits.
    """
    try:
        _begin_locked(rdv)
    except BaseException:
        rdv.target.waiting.mend()
        raise


def _begin_locked(rdv: RdV) -> None:
    manager, waiting = rdv.caller.manager, rdv.target.waiting
    rdv.began_ns = _now_ns(manager)
    rdv.begun = True
    begin = Operation.ACCEPT_BEGIN if rdv.accepts else Operation.CONNECT_BEGIN
    _note(begin, rdv)
    if waiting.refuses(rdv):
        rdv.step(RdVEvent.WITHDRAW)
        rdv.reason = Reason.PORT_IN_USE
        _note(Operation.REFUSE, rdv)
        return
    opposite = waiting.opposite_of(rdv)
    if opposite is None:
        waiting.add(rdv)
        if not rdv.accepts:
            rdv.caller.departing[rdv] = None
        return
    acceptor, connector = (rdv, opposite) if rdv.accepts else (opposite, rdv)
    connection, accept_end, connect_end = pair(acceptor, connector, manager.watch)
    manager.keep_locked(connection)
    # First the ends, then the states, then the wake-up, then the lists: whatever an
    # interrupt leaves undone after that, `RdVMap.mend` can find.
    acceptor.end, connector.end = accept_end, connect_end
    acceptor.step(RdVEvent.MATCH)
    connector.step(RdVEvent.MATCH)
    opposite.parker.release()
    connector.caller.departing.pop(connector, None)
    waiting.remove(opposite)
    _note(Operation.ACCEPT_END, acceptor, connector, connection.number)
    _note(Operation.CONNECT_END, connector, acceptor, connection.number)


def withdraw_locked(rdv: RdV, reason: Reason) -> None:
    """Take a waiting call off every list and let its caller know why (QB-RDV-11)."""
    try:
        rdv.reason = reason
        rdv.step(RdVEvent.WITHDRAW)
        if rdv.parker.locked():
            rdv.parker.release()
        rdv.caller.departing.pop(rdv, None)
        rdv.target.waiting.remove(rdv)
        if rdv.begun:
            _note(Operation.REFUSE, rdv)
    except BaseException:
        rdv.target.waiting.mend()
        raise


def finish(rdv: RdV, deadline: float | None) -> MessageQueue | Channel:
    """Wait until a call that has begun is matched; return its end.

    Whatever this raises, the caller must `abandon` the call.

    Raises:
        RendezvousTimeoutError: nobody came in time.
        BrokerClosedError: either broker was closed meanwhile.
        PortInUseError: an exclusive accept stood in the way.
    """
    while rdv.waiting:
        if _sync.park(rdv.parker, lambda: not rdv.waiting, deadline):
            continue  # matched, withdrawn, or woken for no reason (QB-CONC-6)
        with rdv.caller.manager.lock:
            # A match that came with the deadline beats it (QB-TIME-5).
            if rdv.waiting:
                withdraw_locked(rdv, Reason.TIMED_OUT)
    # By the state, not by whether there is an end: a match that was struck, and undone
    # by the other side, may have left one here.
    if rdv.state is not RdVState.MATCHED or rdv.end is None:
        raise _refusal(rdv)
    return rdv.end


def abandon(rdv: RdV) -> None:
    """Undo a call that an exception struck, before or after its match (QB-RDV-12)."""
    with rdv.caller.manager.lock:
        if rdv.waiting:
            withdraw_locked(rdv, Reason.INTERRUPTED)
        rdv.target.waiting.mend()
        end, rdv.end = rdv.end, None
    if end is not None:
        end.disconnect()


def _refusal(rdv: RdV) -> BrokerClosedError | PortInUseError | RendezvousTimeoutError:
    """Return the exception for a call that was withdrawn."""
    act = "accept" if rdv.accepts else "connect"
    whom = f"{rdv.target.name!r} port {rdv.port}"
    if rdv.reason is Reason.TIMED_OUT:
        did = "connected to" if rdv.accepts else "accepted at"
        return RendezvousTimeoutError(f"cannot {act}: nobody {did} {whom} in time")
    if rdv.reason is Reason.PORT_IN_USE:
        return PortInUseError(f"cannot {act}: another accept holds {whom}")
    closed: Broker = rdv.caller if rdv.caller.closed else rdv.target
    return BrokerClosedError(
        f"cannot {act}: broker {closed.name!r} was closed while {whom} was waited for"
    )


def _now_ns(manager: BrokerManager) -> int:
    return 0 if manager.watch is None else _sync.monotonic_ns()


def _note(
    operation: Operation, rdv: RdV, other: RdV | None = None, channel: int = 0
) -> None:
    """Tell the observer, if there is one, of a step of one caller."""
    manager = rdv.caller.manager
    if manager.watch is None:
        return
    remote = "" if rdv.accepts else rdv.target.name
    if other is not None:
        remote = other.caller.name
    manager.note(
        operation,
        rdv.caller.name,
        remote=remote,
        port=rdv.port,
        channel=channel,
        side=0 if rdv.accepts else 1,
        ticket=rdv.ticket,
        waited_ns=_now_ns(manager) - rdv.began_ns,
        reason=rdv.reason,
    )
