"""`PendingNames`: names of this process that the master has not confirmed (OPEN-3).

Each EXPORT is followed by a PING. A link keeps the order of its frames, so the master's
refusal of a name arrives before the PONG. The PONG confirms all other names. Rejected:
an answer to each EXPORT. A master that receives all exports again would send as many
answers.
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

    Invariant: the present master was sent the EXPORT of each of these tasks, followed
    by its PING. If there is no link, both are sent to the next master.
    """

    __slots__ = ("_asked", "_topology")

    def __init__(self, topology: Topology) -> None:
        self._topology: Final = topology
        # The number of the PING that followed the EXPORT of each task; numbers rise.
        self._asked: Final[dict[Entry, int]] = {}

    def is_pending(self, task: Entry) -> bool:
        """Return True if the master has yet to confirm the name of a task."""
        return task in self._asked

    def tasks(self) -> list[Entry]:
        """Return the tasks that the master has yet to confirm."""
        return list(self._asked)

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
        """Confirm the tasks that the master has not refused before this PONG."""
        asked = itertools.takewhile(lambda each: each[1] <= number, self._asked.items())
        for task, _ in list(asked):
            self.forget(task)
            self._topology.todo.append(Confirm(task))

    def become_master(self) -> None:
        """Confirm all tasks, since no other process decides from now on."""
        self.on_pong(self._topology.new_ping())  # greater than all numbers in use

    def forget(self, task: Entry) -> None:
        """Stop waiting for a task: it was confirmed or refused, or has deregistered."""
        self._asked.pop(task, None)
