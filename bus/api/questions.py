"""`Questions`: what one task has asked and has no answer to yet.

Each ends once: by an answer, an error or its time (BUS-FLOW-5). This neither waits nor
calls anybody back; time comes in as an argument.
"""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from bus.address import Address
from bus.api.unanswered import why_unanswered
from bus.errors import CommandTimeoutError, UnresolvedError
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from bus.errors import BusError
    from bus.message import Incoming, Response

__all__ = ["Question", "Questions"]


class Question(Struct, eq=False):
    """One thing asked of one addressee, or of all who hear a notification.

    to: who was asked, by the name as sent; None for all who hear.
    bus: on which bus.
    callback, reference: what the asker gave.
    message: what was sent; None if it went to several.
    timeout_s, deadline: how long to wait, and until when on the monotonic clock in
      seconds; None for ever.
    gone: called if the asker leaves while it is open, for whoever waits.
    direct: whether ``callback`` is no callback of the asker's, but rouses who waits in
      another thread; any thread may call it.
    answers: how many have come that were not the last one.
    """

    to: str | None
    bus: str
    callback: Callable[[Response], object]
    reference: Any
    timeout_s: float | None
    deadline: float | None
    message: Incoming | None = None
    gone: Callable[[], object] | None = None
    direct: bool = False
    answers: int = 0

    def asked(self, machine: str | None) -> Address | None:
        """Return who was asked, in full; ``machine`` is the asker's own."""
        if self.to is None:
            return None
        address = Address.parse(self.to)
        return Address(address.module, machine=address.machine or machine, bus=self.bus)

    def time_is_up(self) -> BusError | None:
        """Return what it ends with when no answer came in time.

        None for what was asked of all who hear: that ends so, and is no error.
        """
        if self.to is None:
            return None
        assert self.timeout_s is not None
        if self.message is not None and self.message._to is None:
            # Nobody has had that name all the while (BUS-ROUTE-19).
            elsewhere = str(self.message._name).startswith("ism://")
            return UnresolvedError(self.to, self.timeout_s, elsewhere=elsewhere)
        why = "" if self.message is None else why_unanswered(self.message)
        return CommandTimeoutError(self.to, self.timeout_s, why)


class Questions:
    """Open questions by number.

    open: they, by number; to be changed here only.

    Lock: ``_lock`` guards all of it: a task asks in any thread, and is answered in its
    own.
    """

    __slots__ = ("_closed", "_deadlines", "_lock", "_numbers", "open")

    def __init__(self) -> None:
        self._lock: Final[_thread.LockType] = _sync.Lock()
        self._numbers = itertools.count(1)
        self.open: dict[int, Question] = {}
        # A heap; what is answered is taken off when it comes to the top.
        self._deadlines: list[tuple[float, int]] = []
        self._closed: bool = False

    def __len__(self) -> int:
        return len(self.open)

    def __contains__(self, number: int) -> bool:
        """Whether a question is open; a look, with no lock."""
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
        """Return what a number was asked for, and close it if nothing more can come.

        None if it is closed: the answer comes too late.
        """
        with self._lock:
            question = self.open.get(number)
            if question is None:
                return None
            if final:
                del self.open[number]
                self._prune_locked()
            else:
                question.answers += 1
        return question

    def close(self, number: int) -> Question | None:
        """Close a question without an answer; None if it was closed."""
        with self._lock:
            question = self.open.pop(number, None)
            self._prune_locked()
        return question

    def close_for(self, callback: Callable[[Response], object]) -> list[Question]:
        """Close what was asked with a callback, which nobody asks with again."""
        with self._lock:
            closed = {
                number: question
                for number, question in self.open.items()
                if question.callback is callback
            }
            for number in closed:
                del self.open[number]
            self._prune_locked()
        return list(closed.values())

    def close_all(self) -> list[Question]:
        """Close all questions, oldest first, and let no more be asked."""
        with self._lock:
            closed = list(self.open.values())
            self.open.clear()
            self._deadlines.clear()
            self._closed = True
        return closed

    def next_deadline(self) -> float | None:
        """Return when the time of the first of them is up; None if that is never."""
        with self._lock:
            return self._deadlines[0][0] if self._deadlines else None

    def due(self, now: float) -> list[tuple[int, Question]]:
        """Return the questions whose time is up, in that order, each once.

        They stay open: an answer that is here already comes first.
        """
        with self._lock:
            return self._due_locked(now)  # a call: see `_sync.Lock`

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
