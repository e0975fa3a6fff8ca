"""`DiscoveredMachines`: the discovered machines that a master dials (BUS-DISC)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.discovery.machine_table import CONFLICTS_S, Change

if TYPE_CHECKING:
    from bus.core.discovery.discovery import Event
    from bus.core.discovery.machine_table import Machine
    from bus.core.local.actions import Action
    from bus.core.remote.master_dialler import MasterDialler
    from bus.core.remote.name_conflicts import NameConflicts
    from bus.core.remote.topology import Topology

__all__ = ["DiscoveredMachines"]


class DiscoveredMachines:
    """The machines that a master has discovered: it dials each until it removes it."""

    __slots__ = ("_conflicts", "_dialler", "_topology")

    def __init__(
        self, topology: Topology, dialler: MasterDialler, conflicts: NameConflicts
    ) -> None:
        self._topology: Final = topology
        self._dialler: Final = dialler
        self._conflicts: Final = conflicts

    def on_event(self, event: Event, now: float) -> list[Action]:
        """Handle a change of the known machines."""
        machine, dialler = event.machine, self._dialler
        match event.change:
            case Change.FOUND:
                self._conflicts.end(machine.name, machine.address)
                dialler.on_machine_found(
                    machine.name, (machine.address,), now, event.patience_s
                )
            case Change.RESTARTED:
                dialler.on_machine_restarted(
                    machine.name, (machine.address,), now, event.patience_s
                )
            case Change.CONFLICT:
                self._on_conflict(machine, now)
            case Change.SILENT:
                dialler.on_machine_silent(machine.name)
            case _:  # Change.LEFT
                dialler.on_machine_gone(machine.name)
        return self._topology.take_actions()

    def _on_conflict(self, machine: Machine, now: float) -> None:
        """Record that two machines have one name; called again while that lasts."""
        name, address, lasts_s = machine.name, machine.address, 2 * CONFLICTS_S
        if name == self._topology.me.machine:
            self._conflicts.note_own(address, now, lasts_s)
            return
        known = name in self._dialler.targets()
        where = f" at {self._dialler.address_of(name)}" if known else ", found earlier,"
        self._conflicts.note(name, address, f"the one{where}", now, lasts_s)

    def on_found(
        self,
        machine: str,
        addresses: tuple[str, ...],
        now: float,
        patience_s: float = 0.0,
    ) -> list[Action]:
        """Record the addresses of the master of another machine, and dial it."""
        self._dialler.on_machine_found(machine, addresses, now, patience_s)
        return self._topology.take_actions()
