"""`DiscoveredMachines`: the discovered machines that a master dials (BUS-DISC)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.discovery.machine_table import Change

if TYPE_CHECKING:
    from bus.core.discovery.discovery import Event
    from bus.core.discovery.machine_table import Machine
    from bus.core.local.actions import Action
    from bus.core.remote.master_dialler import MasterDialler
    from bus.core.remote.topology import Topology

__all__ = ["DiscoveredMachines"]


class DiscoveredMachines:
    """The machines that one master has discovered: it dials each until it removes it.

    conflicts: the machines whose name another machine already has. `MachineTable`
      reports each conflict once, so it is listed here until that machine has the name.
    """

    __slots__ = ("_dialler", "_topology", "conflicts")

    def __init__(self, topology: Topology, dialler: MasterDialler) -> None:
        self._topology: Final = topology
        self._dialler: Final = dialler
        self.conflicts: Final[list[Machine]] = []

    def on_event(self, event: Event, now: float) -> list[Action]:
        """Handle a change of the known machines."""
        machine, dialler = event.machine, self._dialler
        match event.change:
            case Change.FOUND:
                self._end_conflict(machine)
                dialler.on_machine_found(
                    machine.name, (machine.address,), now, event.patience_s
                )
            case Change.RESTARTED:
                dialler.on_machine_restarted(
                    machine.name, (machine.address,), now, event.patience_s
                )
            case Change.CONFLICT:
                self.conflicts.append(machine)
                self._topology.complain(
                    f"two machines are named {machine.name}: this process ignores the "
                    f"one at {machine.address}, with id {machine.id}; rename one of "
                    "them (BUS-DISC-8)"
                )
            case Change.SILENT:
                dialler.on_machine_silent(machine.name)
            case _:  # Change.LEFT
                dialler.on_machine_gone(machine.name)
        return self._topology.take_actions()

    def _end_conflict(self, machine: Machine) -> None:
        """Remove the conflict of a machine that has the name now."""
        self.conflicts[:] = [
            each
            for each in self.conflicts
            if (each.name, each.id) != (machine.name, machine.id)
        ]

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
