"""How a coroutine waits: the twins of the loops by which a thread does.

`act` stands for `End._act`, `meet` for `queuebroker.meeting.meet`. What is waited for,
what an exception leaves to be done, and what is told to an observer is all theirs. The
locks taken here are held for moments only, never while anybody sleeps.

A coroutine may end where no thread can: it is closed (`GeneratorExit`) when it is
collected, and that may be within any operation of the same thread, also one that holds
the lock which it would need (QB-CONC-9). What is said on it below rests on this: a
waiter that is listed holds its task, and so its coroutine; who is listed is collected
only together with the lock, which nobody can hold then.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from queuebroker.aio.waker import Waiter, running_waker
from queuebroker.meeting import abandon, begin, expire, outcome
from queuebroker.parking import PENDING, Wait
from queuebroker.sleepers import Sleepers

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from queuebroker.channel import Channel
    from queuebroker.locked_queue import LockedMessageQueue
    from queuebroker.message_queue import MessageQueue
    from queuebroker.parking import Parker, Pending, WaitList
    from queuebroker.rendezvous import RdV
    from queuebroker.status import Verdict

__all__ = ["act", "handed_on", "meet", "undone_if_struck"]

T = TypeVar("T")


async def act(
    end: LockedMessageQueue,
    attempt: Callable[[int], Verdict],
    deadline: float | None,
    *,
    sends: bool,
) -> Verdict:
    """Repeat an attempt that was told to wait, until it need not or time is up."""
    waiters, look, ready = end._waiting(attempt, sends=sends)
    make = running_waker().waiter
    wait = Wait(end._connection, waiters, look, ready, make)
    verdict = await undone_if_struck(
        partial(_wait, wait, deadline), partial(_leave, wait, waiters)
    )
    end._connection.settle()
    if verdict is not PENDING:
        return verdict
    # What still looks full or empty is settled with those under way (QB-TIME-8).
    return end._act(attempt, 0, sends=sends)


async def undone_if_struck(
    wait: Callable[[], Coroutine[Any, Any, T]], undo: Callable[[BaseException], object]
) -> T:
    """Await what ``wait`` returns; if an exception ends it, undo it.

    A cancel is no rare thing, so an interrupt may strike what it leads to. Then it is
    undone once more; so ``undo`` must be such as may be repeated.

    This stands around the wait because a function that is called once it was struck
    would come too late: an interrupt can strike its entry, before any ``try`` in it.
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
    """See `queuebroker.parking.wait_for`."""
    expired = False
    while True:
        outcome = wait.look(last=expired)
        if outcome is not PENDING or expired:
            return outcome
        assert wait.parker is not None
        expired = not await wait.parker.slept(deadline)


def _leave(wait: Wait[Any, Waiter], waiters: WaitList, error: BaseException) -> None:
    """Wait no more, since an exception struck; may be repeated."""
    if isinstance(error, GeneratorExit) and handed_on(waiters, wait.parker):
        return
    wait.withdraw()


def handed_on(waiters: WaitList, waiter: Parker | None) -> bool:
    """Leave a list, and wake the next in our place, if that needs no lock.

    For who is closed. Whoever wakes one of `Sleepers` takes it off, so it may be
    collected while the lock is held. Any other list keeps who is woken: there is a lock
    to be taken, and it is free.
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

    The caller gave ``rdv`` the maker of waiters of the running loop. ``timeout``, in
    seconds, is the one from which ``deadline`` was made: for the text of an error.
    ``enlist`` is for a call whose opposite is in another process.
    """
    return await undone_if_struck(
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
        # looked at again: who changes it after that has to find it locked.
        waiter.arm()
    return outcome(rdv, timeout)


def _abandon(rdv: RdV, error: BaseException) -> None:
    """Undo a call that an exception struck; may be repeated."""
    if rdv.waiting or not isinstance(error, GeneratorExit):
        abandon(rdv)
    # Else who is matched is not listed, so a lock may be taken. Nobody holds the end
    # now, and it disconnects (QB-RDV-12).
