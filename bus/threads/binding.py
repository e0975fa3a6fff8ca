"""`Binding`: what follows once a name of any machine has a task (BUS-NAME-8).

The messages that waited for the name are sent to the task, and each thread that waits
for the name gets its address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.errors import BusFullError
from bus.message import Incoming, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.address import Address
    from bus.core.local.actions import Bind
    from bus.core.local.routing_table import Entry

__all__ = ["Binding", "send_bound"]


class Binding:
    """A wait for the task of a name, parked in the place of a message.

    on_bound: called once with the address of the task, in any thread.
    """

    __slots__ = ("on_bound",)

    def __init__(self, on_bound: Callable[[Address], object]) -> None:
        self.on_bound: Final = on_bound

    def probe(self, waiter: Entry, name: str, deadline: float | None) -> Incoming:
        """Return the message to park; no task receives it.

        It is no command, so that its failure is reported to no task.

        waiter: the task of the waiting thread, for which the name is searched.
        deadline: when the wait ends, in seconds; None for no limit.
        """
        return Incoming(
            kind=Kind.NOTIFICATION,
            payload=self,
            _source=waiter,
            _name=name,
            _deadline=deadline,
        )


def send_bound(bind: Bind, send: Callable[[Incoming], object]) -> None:
    """Send the messages that waited for a name to its task, in order.

    A message is taken out before it is sent: after an interrupt, which lets the action
    begin again, none is sent twice.

    send: sends a message to the task registered under its ``_name``, without waiting.
    """
    entry: Entry = bind.entry
    while bind.messages:
        message = bind.messages.popleft()
        if type(message.payload) is Binding:
            message.payload.on_bound(entry.address)
            continue
        message._name = entry.name
        try:
            send(message)
        except BusFullError as error:
            message._source.mailbox.client.on_undeliverable(message, error)
