"""`SimTask`: a task of a simulated process, which reads one message at a time."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from bus.address import Address
    from bus.core.actions import Action
    from bus.core.routing_table import Entry, RegistrationId
    from bus.core.trace import Tracer
    from bus.message import Incoming
    from bus.specification import Specification
    from tests.simulate.process import SimProcess

__all__ = ["Asked", "SimTask"]


@attrs.frozen(eq=False)
class Asked:
    """A subscription of a task."""

    entry: Entry
    specification: Specification


class SimTask:
    """A task: its mailbox, and what is read from it.

    reads: whether it is going on to read; a task that is held back does not.
    confirmed: whether the master has nothing against its name, as far as it was asked.
    tracer: makes the traces of what it sends; None where nothing is recorded.
    """

    def __init__(self, process: SimProcess, name: str) -> None:
        self.process = process
        self.name = name
        self.items: deque[Incoming] = deque()
        self.held = True
        self.reads = True
        self.confirmed = False
        self.due = False
        self.entry: Entry
        self.tracer: Tracer | None = None
        self.subscriptions: list[Asked] = []
        self.kept: list[Incoming] = []  # questions it answers later
        self.watches: list[Asked] = []
        # By watch: the addresses that it was told to be here, and not to be gone since.
        self.present: dict[Asked, set[Address]] = {}
        self.changes = 0  # of what it has subscribed to
        self.gaps: list[int] = []  # of each notification that it has heard

    @property
    def id(self) -> RegistrationId:
        """Its registration."""
        return self.entry.id

    @property
    def here(self) -> bool:
        """Whether it is registered."""
        return self.entry in self.process.manager.table

    def put(self, message: Incoming) -> None:
        """Take a message into its mailbox."""
        if message._trace is not None:
            message._trace.accepted(self.id.number)
        self.items.append(message)
        self.review()

    def review(self) -> None:
        """Go on reading if there is anything to read."""
        if self.items and not (self.held or self.due or not self.reads):
            self.due = True
            world = self.process.world
            world.at(world.random.random() * world.reading, self.process_one)

    def process_one(self) -> None:
        """Read one message, in its own process."""
        self.due = False
        self.process.event(self._read)

    def _read(self) -> list[Action]:
        if self.items and not self.held and self.here and self.reads:
            self.process.read(self, self.items.popleft())
            self.review()
        return []
