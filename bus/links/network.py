"""`Network`: what makes the processes of a bus find one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from bus.config import BusConfig
    from bus.links.comm_thread import CommThread
    from bus.threads.exchange import Exchange

__all__ = ["Network"]


class Network(Protocol):
    """One process's, or one for several processes inside one."""

    def new_incarnation(self) -> int:
        """Return a number above those of all earlier lives (AMO-17)."""

    def join(
        self,
        machine: str,
        process: str,
        incarnation: int,
        exchange: Exchange,
        config: BusConfig,
    ) -> CommThread:
        """Let a process speak with all others."""

    def leave(self, machine: str, process: str, comm: CommThread) -> None:
        """Forget a process; told at its end, by its comm thread."""
