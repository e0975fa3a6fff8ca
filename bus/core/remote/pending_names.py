"""`PendingNames`: names of this process that no master has granted yet (OPEN-3).

In a slave each EXPORT is followed by a PING. A link keeps the order of its frames, so
the master's refusal of a name arrives before the PONG. The PONG grants the name.
Rejected: an answer to each EXPORT. A master that receives all exports again would send
as many answers.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from bus.core.local.actions import Confirm
from bus.core.wire import Ping

if TYPE_CHECKING:
    from bus.core.local.routing_table import Entry
    from bus.core.peer.peer import Peer
    from bus.core.remote.topology import Topology

__all__ = ["PendingNames"]


class PendingNames:
    """Public tasks of this process that wait for the master's verdict.

    Invariant: if this process has a link with a master, that master was sent the EXPORT
    of each of these tasks, followed by its PING.
    """

    __slots__ = ("_asked", "_topology")

    def __init__(self, topology: Topology) -> None:
        self._topology: Final = topology
        # The number of the PING that followed the EXPORT of each task, in rising order;
        # 0 before the first one.
        self._asked: Final[dict[Entry, int]] = {}

    def is_pending(self, task: Entry) -> bool:
        """Return True if the master has yet to grant the name of a task."""
        return task in self._asked

    def tasks(self) -> list[Entry]:
        """Return the tasks whose names the master has yet to grant."""
        return list(self._asked)

    def add(self, task: Entry) -> None:
        """Add a task that was just registered, before its EXPORT."""
        self._asked[task] = 0

    def ask(self, master: Peer, task: Entry) -> None:
        """Ask for the verdict on a task that was just exported to the master."""
        self._asked[task] = self._ping(master)

    def on_link_open(self, master: Peer) -> None:
        """Ask again, over a new link or of another master."""
        if self._asked:
            number = self._ping(master)
            for task in self._asked:
                self._asked[task] = number

    def _ping(self, master: Peer) -> int:
        number = self._topology.new_ping()
        master.session.send_link_frame(Ping(number=number))
        return number

    def on_pong(self, number: int) -> None:
        """Confirm the tasks that the master has not refused before this PONG.

        The number must be that of their PING: a new master defers these PONGs, and may
        send later ones, about other things, before them.
        """
        # The numbers rise, so the scan ends with the first higher one.
        asked = itertools.takewhile(lambda each: each[1] <= number, self._asked.items())
        for task in [each for each, of_ping in asked if of_ping == number]:
            self._confirm(task)

    def confirm_all(self) -> None:
        """Confirm all tasks: no other process decides from now on."""
        for task in self.tasks():
            self._confirm(task)

    def _confirm(self, task: Entry) -> None:
        self.forget(task)
        self._topology.todo.append(Confirm(task))

    def forget(self, task: Entry) -> None:
        """Stop waiting for a task: it was confirmed or refused, or has deregistered."""
        self._asked.pop(task, None)
