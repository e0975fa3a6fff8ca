"""The master of a machine: ``python -m tests.network.worker LIFE FOLDER SEED NETWORK``.

It executes the orders of `tests.kills.worker`, and some about other machines. NETWORK
is the path of its network file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bus import BusConfig, Network, Role, open_bus
from tests.kills.load import TICK_S
from tests.kills.worker import Worker, serve

if TYPE_CHECKING:
    from bus import Bus

__all__ = ["MachineWorker"]

# A lost link must be detected well within `campaign.LINKS_S`.
_CONFIG: Final = BusConfig(
    resolve_timeout_s=1.0,
    keep_alive_s=0.5,
    lease_s=2.0,
    connect_timeout_s=1.0,
    announce_s=0.5,
)


# The number of links up to which each machine sends as often as in `tests.kills`: all
# pairs of five machines.
_FULL_LOAD: Final = 10


class MachineWorker(Worker):
    """The orders, as methods; each returns the answer."""

    def __init__(self, life: str, folder: Path, seed: str, network: Path) -> None:
        super().__init__(life, folder, seed)
        self._network: Final = network

    def open(self, *, client: bool) -> Bus:
        """Return the bus that this process joins, as the master of its machine."""
        del client
        return open_bus(
            process=self._name,
            machine=self._name,
            role=Role.MASTER,
            config=_CONFIG,
            network=Network.read(self._network),
            journal=self._recorded(self._name),
        )

    def subscribe(self, machines: list[str]) -> None:
        """Subscribe to the notifications of other machines.

        All machines share the processors of this one, and each notification goes to all
        others. So the more links there are, the less each machine sends: an overloaded
        one cannot respond within the lease, and then loses its links for that reason.
        """
        links = len(machines) * (len(machines) + 1) / 2
        self._load.tick_s = TICK_S * max(1.0, links / _FULL_LOAD)
        for each in machines:
            self._load.subscribe(f"ism://{each}/from/*")

    def linked(self) -> list[str]:
        """Return the machines whose masters have an open link with this one."""
        peers = self._comm.remote.topology.peers.copy()
        return sorted({key[0] for key, each in peers.items() if each.session.ready})


if __name__ == "__main__":
    _life, _notes, _seed, _file = sys.argv[1:]
    serve(MachineWorker(_life, Path(_notes), _seed, Path(_file)))
