"""`TaskOwner`: the bus of a task, as the task itself uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bus.api.bus_threads import BusThreads
    from bus.api.lifetime import Lifetime, Orphans
    from bus.errors import BusError, MovedError
    from bus.model.address import Address
    from bus.model.config import BusConfig
    from bus.model.loan import Loan
    from bus.model.message import Incoming
    from bus.model.specification import Specification
    from bus.process.exchange import Exchange
    from bus.process.router import Router

__all__ = ["TaskOwner"]


class TaskOwner(Protocol):
    """The bus of a task; `bus.api.bus.Bus` implements it."""

    @property
    def name(self) -> str:
        """The name of the bus."""

    @property
    def machine(self) -> str:
        """The machine of this process on the bus."""

    @property
    def _config(self) -> BusConfig:
        """The configuration of the bus."""

    @property
    def _exchange(self) -> Exchange:
        """The exchange of the process on the bus."""

    @property
    def _router(self) -> Router:
        """The router that posts the messages of all tasks of the bus."""

    @property
    def _others(self) -> Mapping[str, TaskOwner]:
        """The buses that this process has joined, by name."""

    @property
    def _threads(self) -> BusThreads:
        """The threads of the bus."""

    @property
    def _lifetime(self) -> Lifetime:
        """The time in which the bus may be used."""

    @property
    def _orphans(self) -> Orphans:
        """The tasks that lost their owner, and the calls that did."""

    @property
    def _follow(self) -> Callable[[Incoming, MovedError], BusError | None] | None:
        """Sends a message on to the new address of its addressee.

        Returns None, or the error to report. None if this process follows no moves.
        """

    @property
    def _new_loan(self) -> Callable[..., Loan]:
        """Takes a loan for a task; see `bus.features.new_loan`."""

    def _route(self, where: str | Address, bus: str | None) -> tuple[str, TaskOwner]:
        """Return the key by which an addressee is routed, and its bus."""

    def _specification(
        self, to: str | Address | Specification, bus: str | None
    ) -> tuple[Specification, TaskOwner]:
        """Return the specification for an argument ``to``, and its bus."""
