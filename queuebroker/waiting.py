"""`receive_any`: the first message of several queues, and no other (QB-WAIT-1).

`Selection` knows which queue is next and who has to be told where; it does not know how
a caller sleeps, so that threads and event loops share it. What comes is taken by the
queue's own receive, which tries once: no queue is looked at and taken from in two
steps, and the lock of one connection is never held together with that of another.

The races are those of one queue (`queuebroker.parking`), and one more. A sender wakes
one sleeper for what it sent. If that is us, and we take from another queue, somebody
who sleeps on the first would sleep on while his message lies there. So whoever leaves a
queue's list wakes the next if anything is left (I1 of `queuebroker.parking`).
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from queuebroker import _sync
from queuebroker.arguments import (
    check_instance,
    deadline_after,
    known_as,
    wrong_type,
)
from queuebroker.bell import Bell
from queuebroker.errors import DisconnectedQueueError, ReceiveTimeoutError
from queuebroker.message_queue import MessageQueue
from queuebroker.status import Status
from queuebroker.typed_queue import TypedQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from queuebroker.errors import DisconnectedError
    from queuebroker.parking import Parker, WaitList

__all__ = ["Selection", "attend", "check_queues", "receive_any"]

P = TypeVar("P", bound="Parker")
Q = TypeVar("Q")

_turns = itertools.count(1)


def receive_any(
    queues: Iterable[MessageQueue], *, timeout: float | None = None
) -> tuple[MessageQueue, bytes]:
    """Receive one message from one of several queues; return both (QB-WAIT-1).

    Waits while there is none anywhere. Queues that are disconnected are passed over.
    If several have something, it is the turn of the one that `receive_any` has served
    least recently; those it never served come first, in the order given.

    timeout: seconds, None for ever, 0 to look once at each.

    Raises:
        DisconnectedQueueError: all are disconnected. The cause is that of the first
            that was disconnected abnormally.
        ReceiveTimeoutError: nothing arrived in time.
        TypeError: ``queues`` is not iterable, or one of them is no `MessageQueue`.
        ValueError: there are no queues.
    """
    selection = Selection(check_queues(queues, MessageQueue))
    deadline = deadline_after(timeout)
    taken = selection.take()
    expired = timeout == 0
    while taken is None and not expired:
        try:
            bell = selection.enlist(Bell)
            # Looked at again: who sent before we were listed could not see us.
            if not selection.ready():
                expired = not _sync.park(bell.lock, selection.ready, deadline)
            # After the deadline, too: success and disconnect beat it (QB-TIME-5).
            # Still listed: to leave first would wake another for what we take.
            taken = selection.take()
            selection.withdraw()
        except BaseException:
            selection.withdraw()
            raise
    if taken is None:
        raise selection.nothing_came(timeout)
    return taken


class Selection:
    """The queues that one caller receives from, and where it is listed.

    To receive: `take`; if that is None `enlist` a new parker, look whether it is
    `ready` by now, else sleep; `take` and `withdraw`. Whatever happens after `enlist`,
    `withdraw` has to be called.

    Belongs to one caller; the lock of each connection guards that one's wait list.
    A queue that is given twice is one.
    """

    __slots__ = ("_ends", "_listed", "_parker")

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self._ends: list[MessageQueue] = list(dict.fromkeys(queues))
        self._listed: list[MessageQueue] = []
        self._parker: Parker | None = None

    def take(self) -> tuple[MessageQueue, bytes] | None:
        """Receive from the first that has something; None if nothing is anywhere.

        They are looked at one after another: what went from one to another meanwhile
        may be missed.

        Raises:
            DisconnectedQueueError: all are disconnected.
        """
        for end in sorted(self._ends, key=_last_turn):
            if not _worth_a_try(end):
                continue
            try:
                message = end.receive(timeout=0)
            except (ReceiveTimeoutError, DisconnectedQueueError):
                continue  # somebody was faster
            end._served = next(_turns)
            return end, message
        if self._over():
            raise self._refusal()
        return None

    def ready(self) -> bool:
        """Whether `take` may get anywhere; only reads, and needs no lock."""
        return any(map(_worth_a_try, self._ends)) or self._over()

    def enlist(self, make: Callable[[], P]) -> P:
        """Make a parker and list it on every queue; return it.

        It is for one sleep only, and may be released several times, by several.
        """
        parker = self._parker = make()
        for end in self._ends:
            # First noted, then listed: an interrupt between leaves nobody listed.
            self._listed.append(end)
            end._connection.critical(partial(_list_locked, end, parker))
        return parker

    def withdraw(self) -> None:
        """Be listed nowhere, and pass on the wake-ups that are not ours.

        May be repeated: after an interrupt it goes on where it was.
        """
        while self._listed:
            end = self._listed[-1]
            end._connection.critical(partial(self._leave_locked, end))
            del self._listed[-1]

    def forget(self, gone: Callable[[WaitList, Parker], bool]) -> None:
        """Leave to ``gone(waiters, parker)`` the lists for which it returns True.

        For drivers that may have to leave a list without its lock. `withdraw` does the
        rest; may be repeated.
        """
        parker = self._parker
        if parker is not None:
            self._listed = [
                end for end in self._listed if not gone(_arrived(end), parker)
            ]

    def nothing_came(self, timeout: float | None) -> ReceiveTimeoutError:
        """Return the exception for a receive that ran out of time."""
        return ReceiveTimeoutError(
            f"cannot receive: nothing from any of {len(self._ends)} queues"
            f" within {timeout} s"
        )

    def _leave_locked(self, end: MessageQueue) -> None:
        assert self._parker is not None
        _arrived(end).leave(self._parker)
        # Whoever woke us did not wake anybody else; after leaving, since we are not
        # to be woken in turn.
        end._connection.flows[end._side].buffer.wake_locked()

    def _over(self) -> bool:
        # One after another is exact here: nobody is connected again (QB-DISC-1).
        return all(end.disconnected() for end in self._ends)

    def _refusal(self) -> DisconnectedError:
        """Return the exception for queues that are all disconnected.

        It speaks of the first with a cause, or of the first; all are told (QB-BOOK-4).
        """
        told = self._ends[0]
        for end in reversed(self._ends):
            connection, side = end._connection, end._side
            connection.critical(partial(connection.see_close_locked, side))
            if connection.cause(side) is not None:
                told = end
        return told._refusal(f"receive from any of {len(self._ends)} queues")


def attend(end: MessageQueue, parker: Parker) -> None:
    """List a parker at a queue for good, for an owner who receives there alone.

    It is released whenever a message comes, and when the peer hangs up; not if that was
    before, so the queue is to be looked at once after this. A parker that is always
    ``locked()`` is released each time.
    """
    end._connection.critical(partial(_list_locked, end, parker))


def check_queues(queues: Iterable[Q], kind: type) -> list[Q]:
    """Return the queues that a caller gave, all of one kind, for threads or coroutines.

    Raises:
        TypeError: not iterable, or one of them is of another kind.
        ValueError: there are none.
    """
    # A queue can be iterated: it would be received from, until it is disconnected.
    if isinstance(queues, (MessageQueue, TypedQueue)) or not hasattr(
        queues, "__iter__"
    ):
        raise wrong_type("queues", f"an iterable of {known_as(kind)}s", queues)
    given = list(queues)
    for position, queue in enumerate(given):
        check_instance(f"queues[{position}]", queue, kind)
    if not given:
        msg = "queues must not be empty"
        raise ValueError(msg)
    return given


def _last_turn(end: MessageQueue) -> int:
    """Return when `receive_any` has served an end last, 0 for never."""
    # Set with the first turn only: an end that is never waited for like this, as most,
    # shall not take longer to make.
    return getattr(end, "_served", 0)


def _worth_a_try(end: MessageQueue) -> bool:
    """Whether a receive has a chance: a message is here, or on its way.

    It may be on its way only once the peer has hung up; then the receive knows how to
    wait for it, which is soon (QB-TIME-8).
    """
    status = end.status
    if status is Status.CONNECTED:
        return end.pending > 0
    return status is Status.HALF_DISCONNECTED


def _arrived(end: MessageQueue) -> WaitList:
    """Return who waits for messages at an end."""
    return end._connection.flows[end._side].buffer.arrived


def _list_locked(end: MessageQueue, parker: Parker) -> None:
    # Who is disconnected tells nobody any more (I3 of `Connection`).
    if not end.disconnected():
        _arrived(end).enlist(parker)
