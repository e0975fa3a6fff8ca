"""`Verdicts`: which names of this process the master has not confirmed (OPEN-3).

Behind each EXPORT goes a PING. A link keeps the order of what is said on it: whatever
the master has against a name has come before its PONG, which is the verdict of all the
others. Rejected: an answer to each EXPORT, of which a master that is told of everything
again would send as many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.actions import Confirm
from bus.core.wire import Ping

if TYPE_CHECKING:
    from bus.core.neighbours import Neighbours
    from bus.core.peer import Peer
    from bus.core.routing_table import Entry

__all__ = ["Verdicts"]


class Verdicts:
    """Public tasks of this process that wait for the master's word.

    Invariant: the present master has been told of each task in it, with its PING behind
    that, or will be as soon as there is a link with one.
    """

    __slots__ = ("_asked", "_neighbours")

    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours: Final = neighbours
        # Each with the number of the PING that went behind its EXPORT.
        self._asked: Final[dict[Entry, int]] = {}

    def awaits(self, task: Entry) -> bool:
        """Whether the master is to say yet that a task has its name."""
        return task in self._asked

    def awaited(self) -> list[Entry]:
        """Return the tasks on which the master is to say something."""
        return list(self._asked)

    def ask(self, master: Peer, task: Entry) -> None:
        """Ask for the verdict on a task that the master was just told of."""
        self._asked[task] = self._ping(master)

    def opened(self, master: Peer) -> None:
        """Ask again, over a new link, or another master."""
        if self._asked:
            number = self._ping(master)
            for task in self._asked:
                self._asked[task] = number

    def _ping(self, master: Peer) -> int:
        number = self._neighbours.new_ping()
        master.session.say(Ping(number=number))
        return number

    def answered(self, number: int) -> None:
        """Take it that the master has nothing against any asked for by that PING."""
        confirmed = [task for task, asked in self._asked.items() if asked <= number]
        for task in confirmed:
            self.forget(task)
            self._neighbours.todo.append(Confirm(task))

    def become_master(self) -> None:
        """Need nobody's word from now on."""
        self.answered(self._neighbours.new_ping())  # above all that were asked

    def forget(self, task: Entry) -> None:
        """Wait no more for a task: it was confirmed, or refused, or has left."""
        self._asked.pop(task, None)
