"""`Addresses`: the addresses that a caller on one bus may write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.api.arguments import wrong_type
from bus.errors import NotJoinedError
from bus.features import use_any_machine
from bus.model.address import ANY_MACHINE, Address, check_bus_name
from bus.model.specification import Specification

if TYPE_CHECKING:
    from bus.api.task_owner import TaskOwner

__all__ = ["Addresses"]


class Addresses:
    """Resolves addresses, as callers on one bus write them, to a bus and a key."""

    __slots__ = ("_bus", "_find", "_name")

    def __init__(self, bus: TaskOwner) -> None:
        self._bus: Final = bus
        self._name: Final = bus.name
        self._find: Final = bus._exchange.find

    def route(self, where: str | Address, bus: str | None) -> tuple[str, TaskOwner]:
        """Return the key by which an addressee is routed, and its bus.

        The key is the module on this machine (BUS-NAME-2, BUS-NAME-3), and the full
        address on another one.
        """
        if bus is None and type(where) is str and self._find(where):
            return where, self._bus
        address = where if isinstance(where, Address) else Address.parse(where)
        there = self._bus_called(address.bus, bus)
        if address.machine in {None, there.machine}:
            return address.module, there
        if address.machine == ANY_MACHINE:
            use_any_machine(there._exchange)
        return f"ism://{address.machine}/{address.module}", there

    def specification(
        self, to: str | Address | Specification, bus: str | None
    ) -> tuple[Specification, TaskOwner]:
        """Return the specification for an argument ``to``, and its bus."""
        if isinstance(to, Address):
            to = str(to)
        if isinstance(to, str):
            to = Specification.parse(to)
        if not isinstance(to, Specification):
            raise wrong_type("to", "a name, an Address or a Specification", to)
        return to, self._bus_called(to.bus, bus)

    def _bus_called(self, written: str | None, given: str | None) -> TaskOwner:
        """Return a bus that this process has joined.

        written: the name in the address.
        given: the name in the argument ``bus``.
        """
        if given is not None:
            check_bus_name(given)
            if written not in {None, given}:
                msg = f"bus must be {written!r} as in the address, got {given!r}"
                raise ValueError(msg)
        name = written or given or self._name
        bus = self._bus if name == self._name else self._bus._others.get(name)
        if bus is None:
            raise NotJoinedError(name)
        return bus
