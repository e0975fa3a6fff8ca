"""`Service`: a task between producers and readers that do not know one another.

Producers send it commands, readers subscribe to it, and each command becomes one
notification (BUS-MSG-14). No task needs to know the others, or their number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bus.api.arguments import check_instance, check_optional_callback
from bus.api.bus import Bus
from bus.api.bus_thread import BusThread
from bus.model.address import Address
from bus.model.message import Incoming
from queuebroker.closable import Closable

__all__ = ["Service"]


class Service(Closable):
    """A task that turns commands to ``name`` into its notifications; a context manager.

    bus: the open bus to register on.
    thread: the thread that hosts it; the bus's own default thread if None.
    transform: maps a command to the payload of its notification; if None, the payload
      is passed on unchanged.

    A producer that waits for an answer gets None once the notification was posted to
    all readers. If ``transform`` raises, or a reader whose policy refuses has no room,
    the producer gets a `RemoteError`; the other readers still get the notification.

    Raises:
        NameTakenError, ValueError: as `Bus.register`.
        TypeError: ``transform`` cannot be called.
    """

    __slots__ = ("_task", "_transform")

    def __init__(
        self,
        bus: Bus,
        name: str,
        *,
        thread: BusThread | None = None,
        transform: Callable[[Incoming], Any] | None = None,
    ) -> None:
        check_instance("bus", bus, Bus)
        check_optional_callback("transform", transform)
        self._transform: Final = transform
        # A command that arrives between these two lines waits.
        self._task: Final = bus.register(name, thread=thread)
        self._task.on_command(self._pass_on)

    def __repr__(self) -> str:
        return f"<Service {self.address}>"

    @property
    def address(self) -> Address:
        """The address that producers send to and that readers subscribe to."""
        return self._task.address

    def close(self) -> None:
        """Leave the bus; later commands wait for the next task of that name."""
        self._task.deregister()

    def _pass_on(self, message: Incoming) -> None:
        transform = self._transform
        self._task.notify(message.payload if transform is None else transform(message))
