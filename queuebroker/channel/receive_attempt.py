"""`ReceiveAttempt`: a receive attempt, independent of how the caller waits.

A thread and a coroutine repeat the same `attempt`, and an observer gets the same
events. Only the sleep between two attempts differs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from queuebroker.channel.status import Verdict
from queuebroker.observer import Operation, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queuebroker.channel.connection import Connection
    from queuebroker.channel.side import Side

__all__ = ["ReceiveAttempt", "Take"]

T = TypeVar("T")

# Called under the lock once a message is here, with the side and the time waited. None
# stands for no message: a thread without the lock, or a handler, was first.
Take = Callable[["Side", int], T | None]

# The reason reported for the end of a wait; None is an exception.
_ENDED: Final[Mapping[Verdict | None, Reason]] = {
    Verdict.DO: Reason.NONE,
    Verdict.REFUSE: Reason.DISCONNECTED,
    Verdict.WAIT: Reason.TIMED_OUT,
    None: Reason.INTERRUPTED,
}


class ReceiveAttempt(Generic[T]):
    """One receive by one side: repeat `attempt`, set ``verdict``, and always `end`.

    taken: the result of the take; None, which is no message, if there was none.
    verdict: the final verdict; None until then.
    """

    __slots__ = (
        "_connection",
        "_side",
        "_take",
        "_told_begin",
        "_waits",
        "taken",
        "verdict",
    )

    def __init__(
        self, connection: Connection[Any], side: Side, take: Take[T], *, waits: bool
    ) -> None:
        self._connection: Connection[Any] = connection
        self._side: Side = side
        self._take: Take[T] = take
        self._waits = waits
        self._told_begin = False
        self.taken: T | None = None
        self.verdict: Verdict | None = None

    def attempt(self, waited_ns: int) -> Verdict:
        """Take the present messages; under the lock."""
        connection, side = self._connection, self._side
        verdict = connection.receive_verdict(side)
        while verdict is Verdict.DO:
            self.taken = self._take(side, waited_ns)
            if self.taken is not None:
                return verdict
            # A thread without the lock, or a signal handler, was first, or
            # disconnected.
            verdict = connection.receive_verdict(side)
        if verdict is Verdict.REFUSE:
            connection.note_close_seen_locked(side)
        elif self._waits and not self._told_begin:
            self._told_begin = True
            connection.note(Operation.RECV_BEGIN, side, side)
        return verdict

    def end(self) -> None:
        """Report the end of the wait and its reason to the observer, if it waited."""
        if self._told_begin and self._connection.watch is not None:
            self._connection.critical(self._tell_end_locked)

    def _tell_end_locked(self) -> None:
        reason = _ENDED[self.verdict]
        self._connection.note(Operation.RECV_END, self._side, self._side, reason=reason)
