"""Tasks that read runs of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bus.kernel.streams.receipts import Receipt, Receipts
from bus.process.account import Admission
from queuebroker import _sync
from tests.kit.messages import inbound_run
from tests.kit.station import Clerk, Station, run_due

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.tasks.runs import InboundRun
    from bus.model.message import Incoming

__all__ = [
    "FIRST",
    "RECEIPT",
    "REFERENCE",
    "Reader",
    "named",
    "post",
    "post_one",
    "reader",
    "runs_until",
    "several",
]

REFERENCE: Final = "reference"
RECEIPT: Final = Receipt(None, 1, 1, Receipts())
FIRST: Final = 11  # the number of the first command


class Reader(Clerk):
    """A task that reads commands that arrived together, and acts on each.

    act: the action on a payload; None for no action.
    begun: the number of the next command at the start of each turn of reading.
    parts: the number of commands read in each turn.
    singly: payloads of commands handed over one by one.
    """

    def __init__(self, capacity: int = 100) -> None:
        super().__init__(capacity, "error")
        self.act: Callable[[Any], object] | None = None
        self.remote_subscriptions = True
        self.begun: list[int] = []
        self.parts: list[int] = []
        self.singly: list[Any] = []
        self.failed_callbacks = 0
        self.messages: list[Incoming] = []

    def reads(self, run: InboundRun) -> tuple[Callable[[Incoming], object], Any] | None:
        return (self.on_command, REFERENCE) if self.remote_subscriptions else None

    def on_command(self, message: Incoming) -> None:
        self.messages.append(message)
        self.read.append(message.payload)
        self.threads.append(message._to.host.name)
        if self.act is not None:
            self.act(message.payload)

    def handle(self, item: Any) -> None:
        super().handle(item)
        self.singly.append(item.payload)
        if self.act is not None:
            self.act(item.payload)

    def on_run_begun(self, run: InboundRun) -> None:
        self.begun.append(run.number + run.at)

    def on_run_read(self, run: InboundRun) -> None:
        self.parts.append(run.number + run.at - self.begun[-1])

    def on_exception(self, callback: object) -> None:
        assert callback == self.on_command
        self.failed_callbacks += 1


def reader(station: Station, name: str, capacity: int = 100) -> tuple[Reader, Entry]:
    """Register a task that reads a run of commands in parts."""
    _, entry = station.register(name, station.home)
    entry.mailbox.client = client = Reader(capacity)
    run_due(station.home)
    return client, entry


def several(
    station: Station,
    entry: Entry,
    *payloads: bytes,
    number: int = FIRST,
    deadline: float | None = None,
) -> InboundRun:
    """Make a run of several commands from "sender"."""
    return inbound_run(
        payloads,
        entry,
        station.source,
        receipt=RECEIPT,
        number=number,
        deadline=deadline,
    )


def post(
    station: Station, entry: Entry, *payloads: bytes, deadline: float | None = None
) -> int:
    """Post several commands as one run; return how many there was room for."""
    run = several(station, entry, *payloads, deadline=deadline)
    host = station.home
    return host.inbox.offer_inbound_run(run, entry.mailbox.client.account, host)


def post_one(station: Station, entry: Entry, payload: Any) -> None:
    """Post a command as another thread does."""
    message = station.message(entry.name, payload)
    message._to, message._account = entry, entry.mailbox.client.account
    host = station.home
    assert host.inbox.offer(message, host) is Admission.ACCEPTED


def named(count: int) -> tuple[bytes, ...]:
    return tuple(bytes([ord("a") + number]) for number in range(count))


def runs_until(station: Station, last: bytes) -> Callable[[bytes], None]:
    """Return a callback that stops the thread once it reads the payload `last`."""

    def act(payload: bytes) -> None:
        if payload == last:
            station.home.stop(_sync.monotonic() + 100)

    return act
