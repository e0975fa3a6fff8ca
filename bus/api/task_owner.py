"""`TaskOwner`: the bus of a task, as the task itself uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from bus.address import Address
    from bus.api.bus_thread import BusThread
    from bus.config import BusConfig
    from bus.specification import Specification
    from bus.threads.exchange import Exchange
    from bus.threads.thread_manager import ThreadManager

__all__ = ["TaskOwner"]


class TaskOwner(Protocol):
    """The bus of a task; `bus.api.bus.Bus` implements it.

    _foreign: True if this process inherited the bus by a fork.
    """

    _foreign: bool

    @property
    def name(self) -> str:
        """The name of the bus."""

    @property
    def _config(self) -> BusConfig:
        """The configuration of the bus."""

    @property
    def _exchange(self) -> Exchange:
        """The exchange that carries the messages of all tasks of the bus."""

    def _check(self) -> None:
        """Raise unless the bus is open, and of this process."""

    def _check_process(self) -> None:
        """Raise WrongProcessError if this process inherited the bus by a fork."""

    def _check_own(self, thread: BusThread) -> None:
        """Raise unless the argument is a thread of this bus."""

    def _in_callback(self) -> bool:
        """Return True if the calling thread runs a callback, or else serves a bus."""

    def _thread_of(self, manager: ThreadManager) -> BusThread | None:
        """Return the thread that a manager belongs to; None if it has ended."""

    def _route(self, where: str | Address, bus: str | None) -> tuple[str, TaskOwner]:
        """Return the key by which an addressee is routed, and its bus."""

    def _specification(
        self, to: str | Address | Specification, bus: str | None
    ) -> tuple[Specification, TaskOwner]:
        """Return the specification for an argument ``to``, and its bus."""
