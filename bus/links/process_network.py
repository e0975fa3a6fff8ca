"""`ProcessNetwork`: makes the processes of a bus find one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from bus.config import BusConfig
    from bus.links.comm_thread import CommThread
    from bus.threads.exchange import Exchange

__all__ = ["ProcessNetwork"]


class ProcessNetwork(Protocol):
    """The network of one process, or of several processes inside one."""

    def new_incarnation(self) -> int:
        """Return a number higher than that of any earlier incarnation (AMO-17)."""

    def join(
        self,
        machine: str,
        process: str,
        incarnation: int,
        exchange: Exchange,
        config: BusConfig,
    ) -> CommThread:
        """Connect a process to all others; return its comm thread."""

    def leave(self, machine: str, process: str, comm: CommThread) -> None:
        """Remove a process; called at its end, by its comm thread."""
