"""`Service`: a task between producers and readers, who do not know one another.

Producers send it commands, readers subscribe to it, and each command becomes one
notification (BUS-MSG-14). Nobody needs to know who else is there, or how many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from bus.api.arguments import check_instance, check_optional_callback
from bus.api.bus import Bus

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from bus.address import Address
    from bus.api.bus_thread import BusThread
    from bus.message import Incoming
    from bus.payload import Payload

__all__ = ["Service"]


class Service:
    """Makes notifications of ``name`` out of commands to ``name``; a context manager.

    bus: where; an open bus.
    thread: what hosts it; the bus's own default thread if None.
    transform: makes the notification of a command; without it, it has the same payload.

    A producer that waits for an answer gets None once all readers were posted to. What
    ``transform`` raises, or a reader with no room whose policy is that this is told, it
    gets as `RemoteError`; other readers have got the notification even so.

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
        transform: Callable[[Incoming], Payload] | None = None,
    ) -> None:
        check_instance("bus", bus, Bus)
        check_optional_callback("transform", transform)
        self._transform: Final = transform
        # Commands that come between these two lines wait.
        self._task: Final = bus.register(name, thread=thread)
        self._task.on_command(self._pass_on)

    def __repr__(self) -> str:
        return f"<Service {self.address}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def address(self) -> Address:
        """To whom commands are sent, and whom readers subscribe to."""
        return self._task.address

    def close(self) -> None:
        """Leave the bus; commands wait for whoever takes the name next."""
        self._task.deregister()

    def _pass_on(self, message: Incoming) -> None:
        transform = self._transform
        self._task.notify(message.payload if transform is None else transform(message))
