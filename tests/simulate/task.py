"""`SimTask`: a task of a simulated process, which reads one message at a time."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import attrs

from bus.errors import ExpiredError
from bus.model.events import BusReason
from bus.model.message import Kind

if TYPE_CHECKING:
    from bus.kernel.tasks.actions import Action
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.trace import Trace, Tracer
    from bus.model.address import Address
    from bus.model.message import Incoming
    from bus.model.registration import RegistrationId
    from bus.model.specification import Specification
    from tests.simulate.process import SimProcess

__all__ = ["Asked", "SimTask"]


@attrs.frozen(eq=False)
class Asked:
    """A subscription or a watch of a task."""

    _entry: Entry
    specification: Specification


class SimTask:
    """A task: its mailbox, and its reader.

    reads: False while a test holds the task back.
    confirmed: True if the master has accepted its name.
    tracer: makes the traces of sent messages; None if nothing is recorded.
    ways: the way (see `Performer`) of each notification in the mailbox, by its payload.
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
        self.kept: list[Incoming] = []  # questions to answer later
        self.watches: list[Asked] = []
        # By watch: the addresses last reported as present.
        self.present: dict[Asked, set[Address]] = {}
        self.changes = 0  # number of changes to its subscriptions
        self.gaps: list[int] = []  # of each received notification
        self.ways: dict[int, object] = {}

    @property
    def id(self) -> RegistrationId:
        """The id of its registration."""
        return self.entry.id

    @property
    def here(self) -> bool:
        """True if it is registered."""
        return self.entry in self.process.manager.table

    def put(self, message: Incoming) -> None:
        """Put a message into the mailbox."""
        if message._trace is not None:
            message._trace.record_accepted(self.id.number)
        self.items.append(message)
        self.review()

    def review(self) -> None:
        """Schedule the next read if there is a message to read."""
        if self.items and not (self.held or self.due or not self.reads):
            self.due = True
            world = self.process.world
            world.at(world.random.random() * world.reading, self.process_one)

    def process_one(self) -> None:
        """Read one message, as an event of its process."""
        self.due = False
        self.process.event(self._read)

    def _read(self) -> list[Action]:
        if self.items and not self.held and self.here and self.reads:
            self.take(self.items.popleft())
            self.review()
        return []

    def take(self, message: Incoming) -> None:
        """Run a callback, unless the message has expired."""
        process, number = self.process, message.payload
        world = process.world
        trace: Trace | None = message._trace
        if trace is not None:
            trace.record_extracted()
        if message._receipt is not None:
            taken = (message._receipt, message._number, 1, message._size)
            process.remote.inbound_messages.on_extracted([taken], world.now)
        if message.kind is Kind.NOTIFICATION:
            if any(each in self.subscriptions for each in message.subscriptions):
                process.say(lambda: f"{self.name} hears {number}")
                if trace is not None:
                    trace.record_delivered()
                self.gaps.append(message.gap)
                way = self.ways.pop(number, None)
                source = message._source.id
                world.counters.notified(number, source, self.id, message.gap, way)
            elif trace is not None:
                trace.record_discarded(BusReason.UNWANTED)
            return
        if message._deadline is not None and message._deadline <= world.now:
            if trace is not None:
                reported = not (message.wants_reply or message._source.remote)
                trace.record_failed(ExpiredError(self.name), told=reported)
            world.counters.expired(number)
            return
        process.say(lambda: f"{self.name} takes {number}")
        if trace is not None:
            trace.record_delivered()
        world.counters.taken(number, self.id, self.name)
        if message.wants_reply:
            if world.random.random() < 0.7:
                process.answer(message)
            else:
                self.kept.append(message)
