"""`Questions`: the open questions of one task, each awaiting an answer.

Each question closes once: by an answer, an error or its timeout (BUS-FLOW-5). This
class neither blocks nor runs callbacks; the caller passes the time as an argument.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from bus.address import Address
from bus.api.unanswered import why_unanswered
from bus.errors import BusError, CommandTimeoutError, UnresolvedError
from bus.message import Incoming, Response
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread

__all__ = ["Question", "Questions"]


class Question(Struct, eq=False):
    """A question to one addressee, or to all subscribers of a notification.

    to: the name of the addressee, as sent; None for all subscribers.
    bus: the bus of the addressee.
    callback, reference: the callback of the asker, and its reference.
    message: the message sent; None if there are several.
    timeout_s, deadline: the time to wait, in seconds, and its end on the monotonic
      clock in seconds; None for no limit.
    on_asker_gone: called to wake a waiting caller if the asker deregisters while this
      is open.
    direct: True if ``callback`` is not one of the asker's, but wakes a caller that
      waits in another thread; any thread may call it.
    answers: the number of answers received that were not the final one.
    """

    to: str | None
    bus: str
    callback: Callable[[Response], object]
    reference: Any
    timeout_s: float | None
    deadline: float | None
    message: Incoming | None = None
    on_asker_gone: Callable[[], object] | None = None
    direct: bool = False
    answers: int = 0

    def addressee(self, machine: str | None) -> Address | None:
        """Return the full address of the addressee.

        machine: the machine of the asker, used if the name contains none.
        """
        if self.to is None:
            return None
        address = Address.parse(self.to)
        return Address(address.module, machine=address.machine or machine, bus=self.bus)

    def timeout_error(self) -> BusError | None:
        """Return the error for a timeout.

        Return None for a question to all subscribers: its timeout is its regular end.
        """
        if self.to is None:
            return None
        assert self.timeout_s is not None
        if self.message is not None and self.message._to is None:
            # No task has had that name the whole time (BUS-ROUTE-19).
            elsewhere = str(self.message._name).startswith("ism://")
            return UnresolvedError(self.to, self.timeout_s, elsewhere=elsewhere)
        why = "" if self.message is None else why_unanswered(self.message._to)
        return CommandTimeoutError(self.to, self.timeout_s, why)


class Questions:
    """The open questions of one task, by number.

    open: the mapping from number to question; only this class modifies it.

    Lock: ``_lock`` guards all attributes: a task may ask in any thread, and the thread
    that hosts it handles the answers.
    """

    __slots__ = ("_closed", "_deadlines", "_lock", "_numbers", "open")

    def __init__(self) -> None:
        self._lock: Final[_thread.LockType] = _sync.Lock()
        self._numbers = itertools.count(1)
        self.open: dict[int, Question] = {}
        # A heap; the entry of a closed question is removed when it reaches the top.
        self._deadlines: list[tuple[float, int]] = []
        self._closed: bool = False

    def __len__(self) -> int:
        return len(self.open)

    def __contains__(self, number: int) -> bool:
        """Return True if a question is open; takes no lock."""
        return number in self.open

    def get(self, number: int) -> Question | None:
        """Return an open question; None if it is closed."""
        return self.open.get(number)

    def ask(self, question: Question) -> int | None:
        """Open a question; return its number, or None after `close_all`."""
        with self._lock:
            if self._closed:
                return None
            number = next(self._numbers)
            self.open[number] = question
            if question.deadline is not None:
                heapq.heappush(self._deadlines, (question.deadline, number))
        return number

    def answer(self, number: int, *, final: bool) -> Question | None:
        """Return the question of an answer, and close it if the answer is final.

        Return None if the question is closed: the answer is late.
        """
        with self._lock:
            question = self.open.get(number)
            if question is None:
                return None
            if final:
                del self.open[number]
                deadlines = self._deadlines
                # Mostly the only one, so removed without a call of `_prune_locked`.
                if deadlines and deadlines[0][1] == number:
                    heapq.heappop(deadlines)
                    if deadlines:
                        self._prune_locked()
            else:
                question.answers += 1
        return question

    def close(self, number: int) -> Question | None:
        """Close a question without an answer and return it; None if it was closed."""
        with self._lock:
            question = self.open.pop(number, None)
            self._prune_locked()
        return question

    def cancel(self, question: Question) -> bool:
        """Close the question of a command; return False if it was closed.

        If the addressee has not read the command yet, it does not receive it.
        """
        message = question.message
        assert message is not None
        if self.close(message._id) is None:
            return False
        message._deadline = 0.0
        return True

    def cancel_for(self, callback: Callable[[Response], object]) -> None:
        """Cancel the questions with a callback that is not used again."""
        with self._lock:
            closed = {
                number: question
                for number, question in self.open.items()
                if question.callback is callback
            }
            for number in closed:
                del self.open[number]
            self._prune_locked()
        for question in closed.values():
            if question.message is not None:
                question.message._deadline = 0.0  # as in `cancel`

    def close_all(self) -> list[Question]:
        """Close and return all questions, oldest first; refuse further ones."""
        with self._lock:
            closed = list(self.open.values())
            self.open.clear()
            self._deadlines.clear()
            self._closed = True
        return closed

    def next_deadline(self) -> float | None:
        """Return the earliest deadline; None if there is none."""
        with self._lock:
            return self._deadlines[0][0] if self._deadlines else None

    def due(self, now: float) -> list[tuple[int, Question]]:
        """Return the questions past their deadline, in that order, each once.

        They stay open: an answer that has already arrived takes precedence.
        """
        with self._lock:
            return self._due_locked(now)  # a separate function: see `_sync.Lock`

    def _due_locked(self, now: float) -> list[tuple[int, Question]]:
        late: list[tuple[int, Question]] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            number = heapq.heappop(self._deadlines)[1]
            late.append((number, self.open[number]))
            self._prune_locked()
        return late

    def _prune_locked(self) -> None:
        while self._deadlines and self._deadlines[0][1] not in self.open:
            heapq.heappop(self._deadlines)
