"""`MachineDiscovery`: the discovery of machines by one process, while it is master."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from bus.errors import AccessDeniedError
from bus.network import DiscoveryScope
from queuebroker import _sync
from queuebroker.sockets.address import Address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bus.config import BusConfig
    from bus.core.discovery.discovery import Event
    from bus.core.discovery.machine_table import Machine
    from bus.keys.machine_keys import MachineKeys
    from bus.links.announcer import Announcer
    from bus.links.comm_thread import CommThread
    from bus.links.socket_listeners import SocketListeners
    from bus.network import Network
    from queuebroker import _net

__all__ = ["MachineDiscovery"]

# Relative variation of the interval between announcements, so that the announcements of
# machines that start together spread out (BUS-DISC-3).
_JITTER: Final = 0.2


class MachineDiscovery:
    """The discovery of one process; does nothing if `Network.discovery` is off.

    Args:
        network: its scope, its port, and the advertised address.
        config: its intervals and groups.
        keys: of this machine; None without keys.
        listeners: where the process listens for other machines, and the driver.
    """

    def __init__(
        self,
        network: Network,
        config: BusConfig,
        keys: MachineKeys | None,
        listeners: SocketListeners,
    ) -> None:
        self._network: Final = network
        self._config: Final = config
        self._keys: Final = keys
        self._group_keys: Sequence[bytes] = () if keys is None else keys.group_keys()
        self._key_failure: str = ""  # the last one, which is logged once
        self._listeners: Final = listeners
        self._comm: CommThread
        self._announcer: Announcer | None = None

    def prepare(self, comm: CommThread) -> None:
        """Open the sockets of this machine's master, which this process is.

        Raises:
            OSError: the system refuses the sockets, or there is no such group; the text
              says which.
            ModuleNotFoundError: the package `ifaddr` is not installed.
        """
        self.end()  # the sockets of an earlier attempt to become master
        network, config = self._network, self._config
        listens = self._listens
        if network.discovery is DiscoveryScope.OFF or listens is None:
            return
        from bus.core.discovery.discovery import (  # noqa: PLC0415 - for discovery only
            INTERVALS_BEFORE_DIAL,
            Discovery,
            DiscoverySettings,
        )
        from bus.links.announcer import Announcer  # noqa: PLC0415 - likewise

        self._comm = comm
        seen = network.advertised_address(listens.port) or listens
        settings = DiscoverySettings(
            host=seen.host,
            port=seen.port,
            scheme=network.scheme,
            keys=self._group_keys,
            interval_s=config.announce_s,
            jitter=_JITTER,
            lease_s=max(config.lease_s, INTERVALS_BEFORE_DIAL * config.announce_s),
            advertised=seen is not listens,
        )
        # The wall clock makes each instance higher than those before.
        me, instance = comm.remote.topology.me, _sync.wall_ns()
        discovery = Discovery(me, instance, settings, _share)
        self._announcer = Announcer(discovery, self, self._listeners.driver)

    def start(self) -> None:
        """Announce this machine, and listen for others."""
        if self._announcer is not None:
            self._announcer.start()

    @property
    def _listens(self) -> Address | None:
        """The address at which the master listens for other machines."""
        text = self._listeners.outside_address
        if text is None:
            return None
        address = Address.parse(text)
        if address.host == "localhost":
            return Address(address.scheme, "127.0.0.1", address.port)
        return address

    # The host of the announcer.

    def open_group(self) -> _net.Datagrams:
        """Open the sockets for the group of the network."""
        from bus.links.announcement_group import (  # noqa: PLC0415 - for discovery only
            AnnouncementGroup,
        )

        network, listens = self._network, self._listens
        assert listens is not None
        return AnnouncementGroup.of(
            listens.host, network.discovery_port, network.discovery, self._config
        ).open()

    def group_keys(self) -> Sequence[bytes]:
        """Return the group keys that are in the folder now, or the earlier ones."""
        if self._keys is None:
            return ()
        try:
            self._group_keys, failure = self._keys.group_keys(), ""
        except (OSError, ValueError, AccessDeniedError) as error:
            failure = f"the earlier group keys stay in use: {error}"
        if failure and failure != self._key_failure:
            self.report(failure)
        self._key_failure = failure
        return self._group_keys

    def on_event(self, event: Event) -> None:
        """Let the comm thread decide on a change of the known machines."""
        machines = self._comm.remote.machines
        self._comm.decide(lambda: machines.on_event(event, _sync.monotonic()))

    def report(self, text: str) -> None:
        """Log a line as soon as the comm thread holds no lock."""
        self._comm.report(text)

    # For people.

    def machines(self) -> list[Machine]:
        """Return the machines that announce themselves; any thread may call this."""
        announcer = self._announcer
        return [] if announcer is None else announcer.machines()

    def rejected(self) -> Mapping[str, int]:
        """Return the number of ignored datagrams, by reason; any thread may call it."""
        announcer = self._announcer
        return {} if announcer is None else announcer.rejected()

    # The end.

    def end(self) -> None:
        """Announce that this master shuts down; for the comm thread."""
        announcer, self._announcer = self._announcer, None
        if announcer is not None:
            announcer.stop()

    def abandon(self) -> None:
        """Close the sockets and send nothing: this master has not started."""
        announcer, self._announcer = self._announcer, None
        if announcer is not None:
            announcer.abandon_after_fork()


def _share() -> float:
    """Return a random number from 0 to 1."""
    return int.from_bytes(os.urandom(4)) / (2**32 - 1)
