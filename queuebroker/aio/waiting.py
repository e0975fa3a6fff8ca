"""Wait loops for coroutines, the counterparts of the loops for threads.

`wait_for` corresponds to `queuebroker.waiting.parking.wait_for`, `act` to `End._act`,
`meet` to `queuebroker.meeting.meet.meet`. Those define the condition of the wait, the
repair after an exception, and the calls of an observer. The locks taken here are held
only for moments, never during a sleep.

A coroutine may end where no thread can: it is closed (`GeneratorExit`) when it is
collected. That may happen within any operation of the same thread, even one that holds
the lock which the coroutine would need (QB-CONC-9). The comments below rely on this: a
listed waiter holds its task, and so its coroutine. A listed coroutine is collected only
together with the lock, which no thread can hold then.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from queuebroker.aio.waker import Waiter, running_waker
from queuebroker.lockfree.sleepers import Sleepers
from queuebroker.meeting.meet import abandon, begin, expire, outcome
from queuebroker.waiting.parking import PENDING, Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from queuebroker.channel.channel import Channel
    from queuebroker.channel.locked_queue import LockedMessageQueue
    from queuebroker.channel.message_queue import MessageQueue
    from queuebroker.channel.status import Verdict
    from queuebroker.meeting.rendezvous import RdV
    from queuebroker.waiting.parking import Parker, Pending, Waitable, WaitList

__all__ = ["act", "handed_on", "meet", "undone_if_interrupted", "wait_for"]

T = TypeVar("T")


async def act(
    end: LockedMessageQueue,
    attempt: Callable[[int], Verdict],
    deadline: float | None,
    *,
    sends: bool,
) -> Verdict:
    """Repeat an attempt that returned WAIT, until it need not wait or time is up."""
    waiters, look, ready = end._waiting(attempt, sends=sends)
    verdict = await wait_for(end._connection, waiters, look, ready, deadline)
    if verdict is not PENDING:
        return verdict
    # Wait for operations in progress before WAIT is returned (QB-TIME-8).
    return end._act(attempt, 0, sends=sends)


async def wait_for(
    state: Waitable,
    waiters: WaitList,
    attempt: Callable[[], T | Pending],
    ready: Callable[[], bool],
    deadline: float | None,
    kind: Callable[..., Wait[T, Waiter]] = Wait,
) -> T | Pending:
    """Repeat ``attempt`` as `queuebroker.waiting.parking.wait_for`, for a coroutine.

    A call that is cancelled while it waits has no effect, and no waiter is left.

    kind: the class of the wait.
    """
    wait = kind(state, waiters, attempt, ready, running_waker().waiter)
    outcome = await undone_if_interrupted(
        partial(_wait, wait, deadline), partial(_leave, wait, waiters)
    )
    state.settle()
    return outcome


async def undone_if_interrupted(
    wait: Callable[[], Coroutine[Any, Any, T]], undo: Callable[[BaseException], object]
) -> T:
    """Await the result of ``wait``; if an exception ends the wait, run ``undo``.

    A cancel is common, so an interrupt may come while ``undo`` runs. Then ``undo`` runs
    once more, and so must be repeatable.

    This encloses the wait, because a function called only after the exception would
    come too late: an interrupt can come at its entry, before any ``try`` in it.
    """
    try:
        return await wait()
    except BaseException as error:
        try:
            undo(error)
        except BaseException:
            undo(error)
            raise
        raise


async def _wait(wait: Wait[T, Waiter], deadline: float | None) -> T | Pending:
    """Sleep and attempt again; see `queuebroker.waiting.parking.wait_for`."""
    expired = False
    while True:
        outcome = wait.look(last=expired)
        if outcome is not PENDING or expired:
            return outcome
        assert wait.parker is not None
        expired = not await wait.parker.slept(deadline)


def _leave(wait: Wait[Any, Waiter], waiters: WaitList, error: BaseException) -> None:
    """Stop waiting after an exception; may be repeated."""
    if isinstance(error, GeneratorExit) and handed_on(waiters, wait.parker):
        return
    wait.withdraw()


def handed_on(waiters: WaitList, waiter: Parker | None) -> bool:
    """Leave a list, and wake the next waiter instead, if that needs no lock.

    For a coroutine that is closed. A waker of `Sleepers` removes the sleeper from the
    list, so the coroutine may be collected while the lock is held. Any other list keeps
    a woken waiter; then the lock has to be taken, and it is free.
    """
    if waiter is None or not isinstance(waiters, Sleepers):
        return False
    waiters.leave(waiter)
    waiters.wake_one()
    return True


async def meet(
    rdv: RdV,
    deadline: float | None,
    timeout: float | None,
    enlist: Callable[[RdV], None] = begin,
) -> MessageQueue | Channel:
    """Wait until the call is matched; return its end, or raise as `meeting.meet`.

    The caller gave ``rdv`` the waiter factory of the running loop. ``timeout``, in
    seconds, is the source of ``deadline``, for the text of an error. ``enlist`` is for
    a call whose opposite is in another process.
    """
    return await undone_if_interrupted(
        partial(_meet, rdv, deadline, timeout, enlist), partial(_abandon, rdv)
    )


async def _meet(
    rdv: RdV,
    deadline: float | None,
    timeout: float | None,
    enlist: Callable[[RdV], None],
) -> MessageQueue | Channel:
    enlist(rdv)
    while rdv.waiting:
        waiter = cast("Waiter", rdv.parker)
        if not await waiter.slept(deadline):
            expire(rdv)
        # Matched, withdrawn, or woken for no reason (QB-CONC-6). Before the state is
        # read again: a thread that changes it later has to find the waiter locked.
        waiter.arm()
    return outcome(rdv, timeout)


def _abandon(rdv: RdV, error: BaseException) -> None:
    """Undo a call after an exception; may be repeated."""
    if rdv.waiting or not isinstance(error, GeneratorExit):
        abandon(rdv)
    # Otherwise the call is matched and no longer listed, so this thread may already
    # hold the lock. No reference to the end remains, so the end disconnects
    # (QB-RDV-12).
