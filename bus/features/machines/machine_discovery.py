"""`OtherMachines`: the links of a process with other machines, by TCP or TLS.

The master listens for other machines, and dials their masters, which `MachineDiscovery`
finds. Any other process listens for them from when one of its tasks is first asked for,
or, behind a gateway, lets its master listen and dial for it (BUS-ROUTE-16).
"""

from __future__ import annotations

import errno
import logging
import math
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from bus.errors import AccessDeniedError
from bus.features.machines.gateway import GatewayClient
from bus.features.machines.gateway_address import (
    address_via_master,
    gateway_address,
    split_gateway_address,
)
from bus.features.machines.gateway_server import GatewayServer
from bus.features.machines.machine_dialler import MachineDialler
from bus.features.machines.network import DiscoveryScope
from bus.kernel.wire import ADDRESS_MAX
from bus.kernel.wire.batch import frame_bytes_max
from bus.model.address import check_module_name
from bus.process.link_helpers import GATEWAY_PORT, PORT
from bus.process.peer_trust import PeerTrust
from bus.process.socket_network import Outside, checked
from queuebroker import _sync
from queuebroker.errors import BrokerNameInUseError
from queuebroker.sockets import SocketQueueBroker
from queuebroker.sockets.address import Address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from bus.features.machines.announcer import Announcer
    from bus.features.machines.discovery import Event
    from bus.features.machines.gateway import LinkEnd
    from bus.features.machines.machine_keys import MachineKeys
    from bus.features.machines.machine_table import Machine
    from bus.features.machines.network import Network
    from bus.model.config import BusConfig
    from bus.model.rights import Credentials
    from bus.process.comm_thread import CommThread
    from bus.process.exchange import Exchange
    from bus.process.link_policy import LinkBroker
    from bus.process.socket_listeners import SocketListeners
    from queuebroker import _net
    from queuebroker.channel.message_queue import MessageQueue
    from queuebroker.sockets import Driver

__all__ = ["MachineDiscovery", "OtherMachines"]

_log: Final = logging.getLogger("bus")

# When to try again to listen for other machines, if that failed.
_LISTEN_AGAIN_S: Final = 5.0

# Relative variation of the interval between announcements, so that the announcements of
# machines that start together spread out (BUS-DISC-3).
_JITTER: Final = 0.2


class MachineDiscovery:
    """The discovery of one process; does nothing if `Network.discovery` is off.

    Args:
        network: its scope, its port, and the advertised address.
        config: its intervals and groups.
        keys: of this machine; None without keys.
    """

    def __init__(
        self, network: Network, config: BusConfig, keys: MachineKeys | None
    ) -> None:
        self._network: Final = network
        self._config: Final = config
        self._keys: Final = keys
        self._group_keys: Sequence[bytes] = () if keys is None else keys.group_keys()
        self._key_failure: str = ""  # the last one, which is logged once
        # From `prepare` on.
        self._comm: CommThread
        self._listens: Address
        self._announcer: Announcer | None = None

    def prepare(self, comm: CommThread, listens: str | None, driver: Driver) -> None:
        """Open the sockets of this machine's master, which this process is.

        listens: the address at which it listens for other machines; None for none.
        driver: serves the sockets.

        Raises:
            OSError: the system refuses the sockets, or there is no such group; the text
              says which.
            ModuleNotFoundError: the package `ifaddr` is not installed.
        """
        self.end()  # the sockets of an earlier attempt to become master
        network, config = self._network, self._config
        if network.discovery is DiscoveryScope.OFF or listens is None:
            return
        here = Address.parse(listens)
        if here.host == "localhost":
            here = Address(here.scheme, "127.0.0.1", here.port)
        from bus.features.machines.announcer import Announcer  # noqa: PLC0415 - likewise
        from bus.features.machines.discovery import (  # noqa: PLC0415 - for discovery only
            INTERVALS_BEFORE_DIAL,
            Discovery,
            DiscoverySettings,
        )

        self._comm, self._listens = comm, here
        seen = network.advertised_address(here.port) or here
        settings = DiscoverySettings(
            host=seen.host,
            port=seen.port,
            scheme=network.scheme,
            keys=self._group_keys,
            interval_s=config.announce_s,
            jitter=_JITTER,
            lease_s=max(config.lease_s, INTERVALS_BEFORE_DIAL * config.announce_s),
            advertised=seen is not here,
        )
        # The wall clock makes each instance higher than those before.
        me, instance = comm.remote.topology.me, _sync.wall_ns()
        discovery = Discovery(me, instance, settings, _share)
        self._announcer = Announcer(discovery, self, driver)

    def start(self) -> None:
        """Announce this machine, and listen for others."""
        if self._announcer is not None:
            self._dialler.ignored = self.rejected
            self._announcer.start()

    # The host of the announcer.

    def open_group(self) -> _net.Datagrams:
        """Open the sockets for the group of the network."""
        from bus.features.machines.announcer import AnnouncementGroup  # noqa: PLC0415 - for discovery only

        network, host = self._network, self._listens.host
        return AnnouncementGroup.of(
            host, network.discovery_port, network.discovery, self._config
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
        dialler = self._dialler
        self._comm.decide(lambda: dialler.on_event(event, _sync.monotonic()))

    @property
    def _dialler(self) -> MachineDialler:
        """The dialler of this process; once the comm thread has started."""
        dialler = self._comm.remote.links.masters
        assert isinstance(dialler, MachineDialler)
        return dialler

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


class OtherMachines(Outside):
    """The links of one process with other machines; it fills the slot `Outside`.

    It is the `GatewayOwner` of that process.

    Args:
        bus: the name of the bus.
        config: names the access list, the limits and the intervals.
        network: its addresses and its keys.

    Raises:
        AccessDeniedError, ValueError, OSError: see `MachineKeys`.
    """

    ports = frozenset({PORT, GATEWAY_PORT})

    def __init__(self, bus: str, config: BusConfig, network: Network) -> None:
        keys = _keys_of(network)
        self.static = network.peer_addresses
        self.tls = None if keys is None else keys.tls
        self._bus: Final = bus
        self._config: Final = config
        self._network: Final = network
        self._keys: Final = keys
        self._trust: Final = PeerTrust(config.access, self.tls)
        self._discovery: Final = MachineDiscovery(network, config, keys)
        # From `prepare` on.
        self._process: str
        self._listeners: SocketListeners
        self._client: GatewayClient
        # All three from `begin` on.
        self._exchange: Exchange
        self._comm: CommThread | None = None
        self._gateway: GatewayServer
        # Where this process listens for other machines, once it does.
        self._broker: SocketQueueBroker | None = None
        self._listen_again_at: float = -math.inf

    # Begin and end.

    def prepare(
        self, machine: str, process: str, master: str, listeners: SocketListeners
    ) -> None:
        keys = self._keys
        if keys is not None and keys.machine != machine:
            raise ValueError(
                f"keys in {keys.folder} are those of machine {keys.machine!r}, this is "
                f"{machine!r}: give the keys made by 'bus keys issue {machine}', or "
                "the other machine name"
            )
        self._process, self._listeners = process, listeners
        self._client = GatewayClient(
            master,
            self._trust,
            timeout_s=self._config.connect_timeout_s,
            frame_bytes_max=frame_bytes_max(self._config.message_bytes_max),
        )

    def begin(
        self,
        exchange: Exchange,
        comm: CommThread,
        brokers: Sequence[SocketQueueBroker],
    ) -> None:
        self._exchange, self._comm = exchange, comm
        self._gateway = GatewayServer(
            self._process, self._client, self._trust, self._network, self
        )
        self._serve(brokers)
        if comm.remote.topology.is_master:
            self._prepare_discovery(comm)

    def start(self) -> None:
        self._discovery.start()

    def become_master(self, brokers: Sequence[SocketQueueBroker]) -> None:
        assert self._comm is not None
        self._serve(brokers)
        try:
            self._prepare_discovery(self._comm)
        except Exception as error:  # noqa: BLE001 # it is the master all the same
            self._comm.report(f"bus {self._bus!r} is not announced: {error}")
        self._discovery.start()

    def _serve(self, brokers: Sequence[SocketQueueBroker]) -> None:
        """Serve the requests to the gateway that arrive at some brokers."""
        for broker in brokers:
            try:
                self._gateway.serve(broker)
            except RuntimeError as error:
                _log.warning(
                    "bus %r has no gateway at %s: %s", self._bus, broker.address, error
                )

    def _prepare_discovery(self, comm: CommThread) -> None:
        self._discovery.prepare(comm, self._address, self._listeners.driver)

    def on_end(self) -> None:
        self._discovery.end()

    def abandon(self) -> None:
        self._discovery.abandon()

    # Listening.

    @property
    def _address(self) -> str | None:
        """The address at which this process listens for other machines, if it does."""
        present = self._broker
        # It is closed if no thread could be started to accept links at it.
        if present is None or present.closed:
            return None
        return str(present.address)

    def listen_as_master(self, name: str) -> list[SocketQueueBroker]:
        address = self._network.listen_address
        if address is None:
            return []
        try:
            made = self._listen(f"{name} for other machines", address, self.ports)
        except BrokerNameInUseError:
            fact = "another process listens there; give `listen` another port"
            raise OSError(errno.EADDRINUSE, f"{address}: {fact}") from None
        if self.tls is None:
            _log.warning(
                "bus %r listens at %s without keys: any process of this host may join",
                self._bus,
                made.address,
            )
        return [made]

    def listen_outside(
        self, inside: str
    ) -> tuple[SocketQueueBroker | None, tuple[str, ...]]:
        # Behind a gateway this is an address of the master. If a router translates the
        # address of the master, it is the advertised one: the others reach no other
        # (OPEN-19).
        network, address = self._network, self._address
        if address is not None:
            return None, (self._seen(address) if self._is_master() else address,)
        if network.gateway and network.listen_address is not None:
            master = self._seen(network.listen_address)
            return None, (self._gateway_address(master),)
        addresses = network.end_process_addresses
        now = _sync.monotonic()
        if not addresses or now < self._listen_again_at:
            return None, (inside,)
        # Set before the attempt: the caller holds a lock, so a failure must not make
        # each further search try all ports.
        self._listen_again_at = now + _LISTEN_AGAIN_S
        for address in addresses:
            with suppress(BrokerNameInUseError):
                name = f"{self._bus} for other machines"
                made = self._listen(name, address, {PORT})
                return made, (str(made.address),)
        raise OSError(
            errno.EADDRINUSE,
            f"all ports {network.ports} are in use: give `ports` a longer range",
        )

    def _listen(
        self, name: str, address: str, ports: AbstractSet[int]
    ) -> SocketQueueBroker:
        self._broker = made = self._listeners.listen(
            name,
            address,
            ports=ports,
            admit=self._trust.outside_refusal,
            on_rejected=self._on_rejected,
        )
        return made

    def _on_rejected(self, text: str) -> None:
        report = _log.warning if self._comm is None else self._comm.on_rejected
        report(f"bus {self._bus!r} rejects {text}")

    def _seen(self, address: str) -> str:
        """Return the address of this machine's master, as other machines see it."""
        port = Address.parse(address).port
        return str(self._network.advertised_address(port) or address)

    def _gateway_address(self, master: str) -> str:
        """Return the address of this process behind its master.

        Raises:
            OSError: the name of this process is too long for an address.
        """
        address = gateway_address(master, self._process)
        if len(address) > ADDRESS_MAX:
            fact = f"{address!r} has more than {ADDRESS_MAX} characters"
            raise OSError(errno.ENAMETOOLONG, f"{fact}: give a shorter process name")
        return address

    # Dialling.

    def addresses_to_dial(self, addresses: Sequence[str]) -> Sequence[str]:
        allowed = [each for each in addresses if self._may_dial(each)]
        if self._network.gateway and not self._is_master():
            return [address_via_master(each) for each in allowed]
        return allowed

    def _is_master(self) -> bool:
        return self._comm is not None and self._comm.remote.topology.is_master

    def _may_dial(self, address: str) -> bool:
        place, process = split_gateway_address(address)
        if process is not None:
            try:
                check_module_name(process, what="process")
            except ValueError:
                return False
        return self._network.may_dial(place)

    def connect(
        self, broker: LinkBroker, address: str, timeout_s: float
    ) -> MessageQueue | None:
        assert isinstance(broker, SocketQueueBroker)
        dialled = self._client.connect(broker, address, timeout_s)
        if dialled is None:
            return None
        trust, queue = self._trust, dialled.queue
        outside = queue.peer.uid is None
        why = (trust.outside_refusal if outside else trust.refusal)(queue.peer)
        if not dialled.is_direct:
            why = trust.vouched_refusal(queue, dialled.machine) or why
        return checked(queue, why)

    def credentials(self, queue: MessageQueue) -> Credentials | None:
        return self._trust.credentials(queue)

    # The owner of the gateway.

    def inside_address_of(self, process: str) -> str | None:
        """Return the address of a process of this machine; only the master has any."""
        assert self._comm is not None
        topology = self._comm.remote.topology
        address: str | None = self._exchange.query(
            lambda: topology.inside_address_of(process)
        )
        return address

    def on_vouched(self, made: LinkEnd) -> None:
        """Use a link that a master has made to this process, if it is trusted."""
        assert self._comm is not None
        if self._trust.vouched_refusal(made.queue, made.machine) is None:
            self._comm.add_link(made.queue)
        else:
            made.queue.disconnect()  # its master has no keys, and proves nothing


def _keys_of(network: Network) -> MachineKeys | None:
    if network.keys is None:
        return None
    from bus.features.machines.machine_keys import MachineKeys  # noqa: PLC0415 - without keys unused

    return MachineKeys(network.keys)


def _share() -> float:
    """Return a random number from 0 to 1."""
    return int.from_bytes(os.urandom(4)) / (2**32 - 1)
