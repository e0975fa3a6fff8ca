"""`receive_any`: the first message of several queues, and no other (QB-WAIT-1).

`Selection` chooses the next queue and keeps the lists on which the caller is listed. It
does not depend on how the caller sleeps, so that threads and event loops share it. The
queue's own receive, which tries once, takes the message. So no queue is checked and
taken from in two steps. The lock of one connection is never held together with that of
another.

The races are those of one queue (`queuebroker.waiting.parking`), and one more. A sender
wakes one sleeper for its message. If this caller is woken and takes from another queue,
a second sleeper on the first queue would sleep on although a message is available. So a
caller that leaves a queue's list wakes the next sleeper if any message is left (I1 of
`queuebroker.waiting.parking`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from queuebroker import _sync
from queuebroker.arguments import (
    check_instance,
    deadline_after,
    known_as,
    wrong_type,
)
from queuebroker.channel.message_queue import MessageQueue
from queuebroker.channel.status import Status, Verdict
from queuebroker.channel.typed_queue import TypedQueue
from queuebroker.errors import (
    DisconnectedError,
    DisconnectedQueueError,
    ReceiveTimeoutError,
)
from queuebroker.waiting.parking import Parker, SharedParker, WaitList

__all__ = ["Selection", "add_parker", "check_queues", "has_room", "receive_any"]

P = TypeVar("P", bound="Parker")
Q = TypeVar("Q")

_turns = itertools.count(1)


def receive_any(
    queues: Iterable[MessageQueue], *, timeout: float | None = None
) -> tuple[MessageQueue, bytes]:
    """Receive one message from one of several queues; return both (QB-WAIT-1).

    Waits while all queues are empty. Disconnected queues are skipped. If several queues
    have a message, the one that `receive_any` has served least recently comes first.
    Queues never served precede it, in the order given.

    timeout: seconds, None to wait forever, 0 to check each queue once.

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
            shared_parker = selection.enlist(SharedParker)
            # Check again: a sender that came before the enlisting could not see this
            # caller.
            if not selection.ready():
                expired = not _sync.park(shared_parker.lock, selection.ready, deadline)
            # After the deadline, too: success and disconnect beat it (QB-TIME-5). Still
            # listed: to leave first would wake another caller for the message taken
            # here.
            taken = selection.take()
            selection.withdraw()
        except BaseException:
            selection.withdraw()
            raise
    if taken is None:
        raise selection.nothing_came(timeout)
    return taken


class Selection:
    """The queues that one caller receives from, and those on which it is listed.

    To receive: `take`. If that is None, `enlist` a new parker, check `ready`, else
    sleep; then `take` and `withdraw`. After `enlist`, `withdraw` has to be called in
    every case.

    Belongs to one caller; the lock of each connection guards the wait list of that
    connection. Duplicate queues count once.
    """

    __slots__ = ("_ends", "_listed", "_parker")

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self._ends: list[MessageQueue] = list(dict.fromkeys(queues))
        self._listed: list[MessageQueue] = []
        self._parker: Parker | None = None

    def take(self) -> tuple[MessageQueue, bytes] | None:
        """Receive from the first queue with a message; return None if all are empty.

        The queues are checked one after another: a message that moves from one queue to
        another meanwhile may be missed.

        Raises:
            DisconnectedQueueError: all are disconnected.
        """
        for end in sorted(self._ends, key=_last_turn):
            if not _worth_a_try(end):
                continue
            try:
                message = end.receive(timeout=0)
            except (ReceiveTimeoutError, DisconnectedQueueError):
                continue  # another receiver was first
            end._served = _sync.draw(_turns)
            return end, message
        if self._over():
            raise self._refusal()
        return None

    def ready(self) -> bool:
        """Return True if `take` may succeed; only reads, and needs no lock."""
        return any(map(_worth_a_try, self._ends)) or self._over()

    def enlist(self, make: Callable[[], P]) -> P:
        """Create a parker and list it on every queue; return it.

        It serves one sleep only; several wakers may release it, several times.
        """
        parker = self._parker = make()
        for end in self._ends:
            # Noted first, then listed: an interrupt in between leaves no stray parker.
            self._listed.append(end)
            end._connection.critical(partial(_list_locked, end, parker))
        return parker

    def withdraw(self) -> None:
        """Leave every list, and pass on wake-ups meant for others.

        May be repeated: after an interrupt it continues where it stopped.
        """
        while self._listed:
            end = self._listed[-1]
            end._connection.critical(partial(self._leave_locked, end))
            del self._listed[-1]

    def forget(self, gone: Callable[[WaitList, Parker], bool]) -> None:
        """Drop the lists for which ``gone(waiters, parker)`` returns True.

        For drivers that may have to leave a list without its lock. `withdraw` handles
        the remaining lists; may be repeated.
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
        # The waker woke only this caller, so pass the wake-up on. After leaving,
        # because this caller must not be woken in turn.
        end._connection.flows[end._side].buffer.wake_locked()

    def _over(self) -> bool:
        # Checking them one by one is exact: a disconnected end stays so (QB-DISC-1).
        return all(end.disconnected() for end in self._ends)

    def _refusal(self) -> DisconnectedError:
        """Return the exception for queues that are all disconnected.

        It names the first queue with a cause, else the first. The close is noted as
        seen on every queue (QB-BOOK-4).
        """
        told = self._ends[0]
        for end in reversed(self._ends):
            connection, side = end._connection, end._side
            connection.critical(partial(connection.note_close_seen_locked, side))
            if connection.cause(side) is not None:
                told = end
        return told._refusal(f"receive from any of {len(self._ends)} queues")


def add_parker(end: MessageQueue, parker: Parker) -> None:
    """List a parker on a queue for good, for the only receiver of that queue.

    The parker is released at each message, and when the peer disconnects. If the queue
    changed before this call, there is no release, so check the queue once afterwards. A
    parker that is always ``locked()`` is released each time.
    """

    def list_locked() -> None:
        _list_locked(end, parker)
        _arrived(end).pin()  # so that no waiter that leaves need look for it

    end._connection.critical(list_locked)


def has_room(end: MessageQueue) -> bool:
    """Return True if a send need not wait; only reads, and needs no lock."""
    verdict = end._connection.send_verdict(end._side, waited=True)
    return verdict is not Verdict.WAIT


def check_queues(queues: Iterable[Q], kind: type) -> list[Q]:
    """Return the queues passed by a caller, all of one kind, as a list.

    Raises:
        TypeError: not iterable, or one of them is of another kind.
        ValueError: there are none.
    """
    # A queue is iterable: `list` would receive from it until it is disconnected.
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
    """Return the turn at which `receive_any` last served an end, 0 for never."""
    # Set by the first turn only: most ends are never used in this way, and must stay
    # cheap to create.
    return getattr(end, "_served", 0)


def _worth_a_try(end: MessageQueue) -> bool:
    """Return True if a receive may succeed: a message is here or in transit.

    A message is in transit only after the peer has disconnected. Then the receive waits
    for that message, for a moment (QB-TIME-8).
    """
    status = end.status
    if status is Status.CONNECTED:
        return end.pending > 0
    return status is Status.HALF_DISCONNECTED


def _arrived(end: MessageQueue) -> WaitList:
    """Return the list of waiters for messages at an end."""
    return end._connection.flows[end._side].buffer.arrived


def _list_locked(end: MessageQueue, parker: Parker) -> None:
    # A disconnected end wakes no waiter any more (I3 of `Connection`).
    if not end.disconnected():
        end._connection.flush_locked()
        _arrived(end).enlist(parker)
