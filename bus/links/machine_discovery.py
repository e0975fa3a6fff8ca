"""`MachineDiscovery`: the discovery of machines by one process, while it is master."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from bus.core.discovery.discovery import Discovery, DiscoverySettings
from bus.links.announcement_group import AnnouncementGroup
from bus.links.announcer import Announcer
from bus.network import DiscoveryScope
from queuebroker import _sync
from queuebroker.sockets.address import Address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bus.config import BusConfig
    from bus.core.discovery.discovery import Event
    from bus.core.discovery.machine_table import Machine
    from bus.links.comm_thread import CommThread
    from bus.links.socket_listeners import SocketListeners
    from bus.network import Network

__all__ = ["MachineDiscovery"]


class MachineDiscovery:
    """The discovery of one process; does nothing if `Network.discovery` is off.

    Args:
        network: its scope, its port, and the advertised address.
        config: its intervals and groups.
        key: the group key; None without keys.
        listeners: where the process listens for other machines, and the driver.
    """

    def __init__(
        self,
        network: Network,
        config: BusConfig,
        key: bytes | None,
        listeners: SocketListeners,
    ) -> None:
        self._network: Final = network
        self._config: Final = config
        self._key: Final = key
        self._listeners: Final = listeners
        self._announcer: Announcer | None = None

    def begin(self, comm: CommThread) -> None:
        """Announce this machine, whose master this process is, and listen for others.

        Raises:
            OSError: the system refuses the sockets, or there is no such group; the text
              says which.
            ModuleNotFoundError: the package `ifaddr` is not installed.
        """
        network, config = self._network, self._config
        address = self._listeners.outside_address
        if network.discovery is DiscoveryScope.OFF or address is None:
            return
        listens = Address.parse(address)
        group = AnnouncementGroup.of(
            listens.host, network.discovery_port, network.discovery, config
        )
        advertised = network.advertised_address
        seen = listens if advertised is None else Address.parse(advertised)
        settings = DiscoverySettings(
            host=seen.host,
            port=seen.port,
            scheme=network.scheme,
            key=self._key,
            interval_s=config.announce_s,
            jitter=config.announce_jitter,
            lease_s=config.lease_s,
            advertised=advertised is not None,
        )
        # The wall clock makes each instance higher than those before.
        me, instance = comm.remote.topology.me, _sync.wall_ns()
        discovery = Discovery(me, instance, settings, _share)
        machines = comm.remote.discovered_machines

        def on_event(event: Event) -> None:
            comm.decide(lambda: machines.on_event(event, _sync.monotonic()))

        self._announcer = Announcer(
            discovery, group.open(), self._listeners.driver, on_event
        )
        self._announcer.start()

    def machines(self) -> list[Machine]:
        """Return the machines that announce themselves; any thread may call this."""
        return [] if self._announcer is None else self._announcer.machines()

    def rejected(self) -> Mapping[str, int]:
        """Return the number of ignored datagrams, by reason; any thread may call it."""
        return {} if self._announcer is None else self._announcer.rejected()

    def end(self) -> None:
        """Announce that this master shuts down; for the comm thread."""
        if self._announcer is not None:
            self._announcer.stop()


def _share() -> float:
    """Return a random number from 0 to 1."""
    return int.from_bytes(os.urandom(4)) / (2**32 - 1)
