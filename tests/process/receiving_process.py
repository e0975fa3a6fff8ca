"""`ReceivingProcess`: a task for which messages of another process are held back.

For the schedules of the delivery: those of a whole bus are too many to explore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bus.model.address import Address
from bus.model.message import Incoming, Kind
from bus.model.registration import Visibility
from bus.process.dropping_account import new_account
from bus.process.inbound_delivery import InboundDelivery
from bus.process.thread_manager import ThreadManager
from tests.kit.messages import new_message
from tests.kit.station import Clerk, Station, run_due

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.kernel.tasks.routing_table import Entry
    from bus.process.account import Account, Overflow

__all__ = [
    "BYTES_MAX",
    "MESSAGES_MAX",
    "Far",
    "Held",
    "Reader",
    "ReceivingProcess",
    "Subscribed",
]

# The bounds of the messages held back for one task.
MESSAGES_MAX, BYTES_MAX = 4, 400


class Reader(Clerk):
    """A task whose held messages are delivered once it has read, moved or left."""

    def __init__(
        self, inbound_delivery: Held, capacity: int, overflow: Overflow = "error"
    ) -> None:
        super().__init__(capacity, overflow)
        self.inbound_delivery = inbound_delivery
        self.cut: list[Any] = []

    def handle(self, item: Any) -> None:
        super().handle(item)
        self.inbound_delivery.look(item._to)

    def on_overflow(self, message: Incoming) -> None:
        self.cut.append(message.payload)


class Far:
    """A stand-in for the sending task in another process."""

    remote = True
    address = Address("far", machine="there", bus="bus1")

    def __init__(self) -> None:
        self.mailbox = self
        self.client = self
        self.lost: list[Any] = []

    def on_dropped(self, message: Incoming) -> None:
        self.lost.append(message.payload)


class Subscribed:
    """A subscription, as far as delivery uses it."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self.active = True


class Held:
    """Delivery under the exchange's rule that one thread acts at a time."""

    def __init__(self, station: Station) -> None:
        self.station = station
        self.inbound_delivery = InboundDelivery(
            messages_max=MESSAGES_MAX, bytes_max=BYTES_MAX
        )
        self.far = Far()
        self.exchange = station.exchange
        self.exchange.comm = self  # type: ignore[assignment] # as far as needed

    def command(self, entry: Entry, payload: Any, size: int = 1) -> Incoming:
        return new_message(payload, _source=self.far, _to=entry, _size=size)

    def notification(
        self,
        entry: Entry,
        received: Subscribed,
        payload: Any,
        size: int = 1,
        gap: int = 0,
    ) -> Incoming:
        return new_message(
            payload,
            kind=Kind.NOTIFICATION,
            subscriptions=(received,),
            _source=self.far,
            _to=entry,
            _size=size,
            gap=gap,
        )

    # The interface of the comm thread, as the exchange calls it.

    def enter(self) -> bool:
        return True  # nothing bypasses the accounts

    def arrive(self, *messages: Incoming) -> None:
        """Deliver messages; the exchange may do so in several threads."""
        for message in messages:
            self._arrives(message)

    def _arrives(self, message: Incoming) -> None:
        self.exchange.decide(lambda: [_Post(message)])  # type: ignore[list-item]

    def arrive_together(self, *messages: Incoming) -> None:
        """Deliver messages of one sender for one task, as from one frame."""
        self.exchange.decide(lambda: [_Post(*messages)])  # type: ignore[list-item]

    def look(self, entry: Entry) -> None:
        if self.inbound_delivery.holds(entry):
            self.exchange.decide(lambda: [_Resume(entry)])  # type: ignore[list-item]

    def do(self, action: Any) -> None:
        action.done(self.inbound_delivery)

    def request_flush(self) -> None:
        """Do nothing: there is no thread to wake."""

    def on_room(self, entry: Entry) -> None:
        self.look(entry)

    def decide(self, event: Callable[[], Any]) -> None:
        self.exchange.decide(event)


class _Post:
    def __init__(self, *messages: Incoming) -> None:
        self.messages = messages

    def done(self, inbound_delivery: InboundDelivery) -> None:
        inbound_delivery.deliver(self.messages[0]._to, list(self.messages))


class _Resume:
    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    def done(self, inbound_delivery: InboundDelivery) -> None:
        inbound_delivery.resume(self.entry)


class ReceivingProcess:
    """A process with one task that receives messages from remote senders."""

    def __init__(self, capacity: int, overflow: Overflow = "error") -> None:
        self.station = Station()
        self.held = Held(self.station)
        self.host = ThreadManager("host")
        self.host.adopt()
        self.reader = Reader(self.held, capacity, overflow)
        self.entry = self.station.exchange.register(
            "reader", Visibility.PUBLIC, "bus1", self.host, self.reader
        )
        self.host.poll(0)

    def commands(self, *payloads: Any, size: int = 1) -> list[Incoming]:
        return [self.held.command(self.entry, each, size) for each in payloads]

    def serve(self) -> None:
        run_due(self.host)

    def subscription(
        self, overflow: Overflow = "drop-oldest", capacity: int = MESSAGES_MAX
    ) -> Subscribed:
        return Subscribed(
            new_account(messages_max=capacity, bytes_max=BYTES_MAX, overflow=overflow)
        )
