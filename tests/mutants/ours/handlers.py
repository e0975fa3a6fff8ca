"""Faults that a signal handler finds, in the middle of its own thread's call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.mutants.mutant import Edit, Mutant

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HANDLERS"]

_CLAUSES: Final = ("QB-CONC-10",)

HANDLERS: Final[Sequence[Mutant]] = (
    Mutant(
        "I1",
        "a send that was interrupted after its look at the room stores too much",
        _CLAUSES,
        (
            Edit(
                "circular_buffer.py",
                "            if stored == self._stored and not self.ended:\n",
                "            if not self.ended:\n",
            ),
        ),
        locked=True,
    ),
    Mutant(
        "I2",
        "a send that was interrupted by a disconnect stores all the same",
        _CLAUSES,
        (
            Edit(
                "connection.py",
                "            one.buffer.ended = other.buffer.ended = True\n",
                "",
            ),
        ),
        locked=True,
    ),
    Mutant(
        "I3",
        "a lane is shut twice",
        _CLAUSES,
        (
            Edit(
                "lane.py",
                "        if not self.shut:  # a signal handler may have done it since\n",
                "        if True:\n",
            ),
        ),
    ),
    Mutant(
        "I4",
        "the gates of a lane are made twice, or after it was shut",
        _CLAUSES,
        (
            Edit(
                "lane.py",
                "        if self.open or self.shut:\n            return",
                "        if False:\n            return",
            ),
        ),
    ),
    Mutant(
        "I5",
        "an observed end is disconnected in the middle of an interrupted call",
        _CLAUSES,
        (
            Edit(
                "connection.py",
                "        if self.sole and _sync.owns(self.lock):\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutant(
        "I6",
        "a broker is closed in the middle of an interrupted match",
        _CLAUSES,
        (
            Edit(
                "broker_manager.py",
                "        if _sync.owns(self.lock):\n"
                "            self.deferred.append(close)\n",
                "        if False:\n            self.deferred.append(close)\n",
            ),
        ),
    ),
    Mutant(
        "I7",
        "a waiter that a handler has woken is woken again, which is an error",
        _CLAUSES,
        (
            Edit(
                "parking.py",
                "    except RuntimeError:\n        return False\n",
                "    except ZeroDivisionError:\n        return False\n",
            ),
        ),
        locked=True,
    ),
    Mutant(
        "I8",
        "a receive_into takes another message than the one that it has measured",
        _CLAUSES,
        (
            Edit(
                "circular_buffer.py",
                "        if not self._messages or self._messages[0] is not only:\n",
                "        if not self._messages:\n",
            ),
        ),
        locked=True,
    ),
    Mutant(
        "I9",
        "bytes are written over those of a handler",
        _CLAUSES,
        (
            Edit(
                "circular_buffer.py",
                "        while count > self.capacity - self._count:\n",
                "        while False:\n",
            ),
        ),
    ),
    Mutant(
        "I10",
        "a receive that was interrupted by a hang-up has run out of time",
        _CLAUSES,
        (
            Edit(
                "connection.py",
                "            if verdict is not Verdict.WAIT"
                " or status is self.status(side):\n",
                "            if True:\n",
            ),
        ),
    ),
    Mutant(
        "I11",
        "a manager that a handler closes leaves the connections made meanwhile",
        _CLAUSES,
        (
            Edit(
                "broker_manager.py",
                "            if self._hangs_up:\n",
                "            if False:\n",
            ),
        ),
    ),
    Mutant(
        "I12",
        "an observed end takes a message in the middle of an interrupted call",
        _CLAUSES,
        (
            Edit(
                "end.py",
                "        if connection.sole and connection.lock._is_owned():",
                "        if False:",
            ),
        ),
    ),
    Mutant(
        "I13",
        "an end between processes hangs up in the middle of an interrupted call",
        _CLAUSES,
        (
            Edit(
                "sockets/connection.py",
                "        self.sole = True\n",
                "        self.sole = False\n",
            ),
        ),
    ),
    Mutant(
        "I14",
        "an end between processes sends in the middle of a frame",
        _CLAUSES,
        (
            Edit(
                "sockets/queue.py",
                '            connection.check_not_within("send")\n',
                "            pass\n",
            ),
        ),
    ),
)
