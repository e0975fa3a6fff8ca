"""`KnownMachines`: the other machines that one master knows (BUS-DISC-13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.remote.name_conflicts import REMEDY
from bus.snapshot import MachineInfo, MachineState

if TYPE_CHECKING:
    from bus.core.peer.peer import Peer
    from bus.core.remote.link_table import LinkTable
    from bus.core.remote.name_conflicts import NameConflict
    from bus.core.remote.topology import Topology

__all__ = ["KnownMachines"]


class KnownMachines:
    """The machines of one master, however it knows them, in the order of their names.

    A machine is found by discovery, expected at a static address, or linked; or several
    of these at once.
    """

    __slots__ = ("_links", "_topology")

    def __init__(self, topology: Topology, links: LinkTable) -> None:
        self._topology: Final = topology
        self._links: Final = links

    def report(self, now: float) -> list[MachineInfo]:
        """Return all of them; a process that is not master knows none.

        now: the present time, in seconds.
        """
        topology, machines = self._topology, self._links.machines
        if not topology.is_master:
            return []
        own = topology.me.machine
        peers = {each.machine: each for each in topology.joined()}
        peers.pop(own, None)
        keys: dict[str, list[str]] = {machine: [] for machine in peers}
        conflicts = machines.conflicts.present(now)
        in_conflict = {each.address for each in conflicts}
        unnamed = []
        for key in machines.targets():
            machine = machines.machine_at(key)
            if machine is None:
                if key not in in_conflict:
                    unnamed.append(key)
            else:
                keys.setdefault(machine, []).append(key)
        return [
            *(
                self._info(each, peers.get(each), keys[each], now)
                for each in sorted(keys)
            ),
            *(self._info(None, None, [key], now) for key in unnamed),
            *(_conflict(each, now) for each in conflicts),
        ]

    def _info(
        self, name: str | None, peer: Peer | None, keys: list[str], now: float
    ) -> MachineInfo:
        """Describe one machine; keys: those by which it is dialled."""
        machines = self._links.machines
        address = machines.address_of(keys[0]) if keys else None
        link = (
            None if peer is None else self._links.by_number.get(peer.session.link or 0)
        )
        if link is not None and peer is not None and peer.session.ready:
            return MachineInfo(
                name=name,
                address=address,
                state=MachineState.LINKED,
                since_s=now - link.since,
                round_trip_s=peer.round_trip_s,
                why="",
            )
        failures = machines.failures.last(keys)
        starts = [machines.found_at.get(key) for key in keys]
        starts += [machines.failures.first_at(key) for key in keys]
        if peer is not None:
            starts = [peer.since]
        since = min((each for each in starts if each is not None), default=None)
        why = "its link was lost" if peer is not None and link is None else ""
        if any(each.is_refusal for each in failures):
            state = MachineState.REFUSED
        elif failures or (keys and name not in machines.redial_at):
            state = MachineState.DIALLING
        else:
            state = MachineState.WAITING
        return MachineInfo(
            name=name,
            address=address,
            state=state,
            since_s=None if since is None else now - since,
            round_trip_s=None,
            why=failures[-1].why if failures else why,
        )


def _conflict(conflict: NameConflict, now: float) -> MachineInfo:
    return MachineInfo(
        name=conflict.name,
        address=conflict.address or None,
        state=MachineState.CONFLICT,
        since_s=now - conflict.since,
        round_trip_s=None,
        why=f"{conflict.holder} has this name, too: {REMEDY}",
    )
