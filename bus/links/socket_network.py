"""`SocketNetwork`: one process among the others, by UNIX sockets and TLS.

On one machine the process that holds the lock of the run directory is master, and all
others dial it. A process that may become master tries to take the lock each time before
it dials. So when a master ends, the first process to notice takes its place (OPEN-1).

With a `Network` the master also listens for other machines, and dials their masters.
Any other process listens for them from when one of its tasks is first asked for.
"""

from __future__ import annotations

import errno
import logging
import os
from typing import TYPE_CHECKING, Final

from bus.address import check_module_name
from bus.core.wire import ADDRESS_MAX, Identity
from bus.core.wire import Role as WireRole
from bus.core.wire.batch import frame_bytes_max
from bus.errors import AccessDeniedError, BusyError
from bus.links.comm_thread import CommThread
from bus.links.gateway_address import (
    address_via_master,
    gateway_address,
    split_gateway_address,
)
from bus.links.link_helpers import PORT
from bus.links.link_poller import SocketPoller
from bus.links.machine_discovery import MachineDiscovery
from bus.links.machine_id import machine_id
from bus.links.peer_trust import PeerTrust
from bus.links.run_directory import ELSEWHERE, RunDirectory
from bus.links.socket_listeners import SocketListeners
from bus.network import Network
from bus.role import Role
from queuebroker import _sync
from queuebroker.errors import BrokerNameInUseError
from queuebroker.sockets import SocketMessageQueue, SocketQueueBroker
from queuebroker.sockets.address import Address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bus.config import BusConfig
    from bus.keys.machine_keys import MachineKeys
    from bus.links.gateway_client import GatewayClient, LinkEnd
    from bus.links.gateway_server import GatewayServer
    from bus.links.link_policy import LinkBroker
    from bus.rights import Credentials
    from bus.threads.exchange import Exchange
    from queuebroker.channel.message_queue import MessageQueue

__all__ = ["SocketNetwork"]

_log: Final = logging.getLogger("bus")


class SocketNetwork:
    """The network of one process; made for one bus, and joined once.

    It is the `LinkPolicy` of that process.

    Args:
        bus: the name of the bus.
        role: the role that this process wants.
        config: names the run directory and the access list.
        network: the links with other machines; None for none.

    Raises:
        AccessDeniedError, ValueError, OSError: see `RunDirectory` and `MachineKeys`.
    """

    def __init__(
        self, bus: str, role: Role, config: BusConfig, network: Network | None = None
    ) -> None:
        self.bus: Final = bus
        self._network: Final = Network() if network is None else network
        self._keys: Final = self._machine_keys()
        self._trust: Final = PeerTrust(
            config.access, None if self._keys is None else self._keys.tls
        )
        self._machine: str = ""
        self._process: str = ""
        # All None until there is a comm thread; the last two also without a network.
        self._exchange: Exchange | None = None
        self._comm: CommThread | None = None
        self._client: GatewayClient | None = None
        self._gateway: GatewayServer | None = None
        self._failure: str = ""  # of the last attempt to become master
        self._role: Final = role
        self._config: Final = config
        self.directory: Final = _run_directory(bus, config)
        self._listeners: Final = SocketListeners(
            bus, config, self._network, self._trust
        )
        self._discovery: Final = MachineDiscovery(
            self._network, config, self._keys, self._listeners
        )

    def _machine_keys(self) -> MachineKeys | None:
        if self._network.keys is None:
            return None
        from bus.keys.machine_keys import MachineKeys  # noqa: PLC0415 - to other machines

        return MachineKeys(self._network.keys)

    @property
    def where(self) -> str:
        """The path of the directory in which this process finds the others."""
        return str(self.directory.path)

    def new_incarnation(self) -> int:
        """Return a number higher than that of any earlier incarnation (AMO-17)."""
        return _sync.wall_ns()

    def join(
        self,
        machine: str,
        process: str,
        incarnation: int,
        exchange: Exchange,
        config: BusConfig,
    ) -> CommThread:
        """Connect a process to all others; return its comm thread.

        Raises:
            BusyError: the process must be master, and there is one already.
            AccessDeniedError: the process may not listen there, or not be master.
        """
        comm: CommThread | None = None
        self._machine, self._process = machine, process
        if self._keys is not None and self._keys.machine != machine:
            raise ValueError(
                f"keys in {self._keys.folder} are those of machine "
                f"{self._keys.machine!r}, this is {machine!r}: give the keys made by "
                f"'bus keys issue {machine}', or the other machine name"
            )
        try:
            driver = self._listeners.open()
            brokers, master = self._place(f"{machine}/{process}")
            listens = str(brokers[0].address)
            comm = CommThread(
                exchange,
                Identity(
                    bus=self.bus,
                    machine=machine,
                    machine_id=machine_id(),
                    process=process,
                    process_id=os.getpid(),
                    incarnation=incarnation,
                    role=WireRole.MASTER if master else WireRole.SLAVE,
                ),
                config=config,
                policy=self,
                poller=SocketPoller(driver),
                listens=listens,
                master=self.directory.master,
                static=self._network.peer_addresses,
            )
            self._listeners.on_rejected = comm.on_rejected
            self._exchange, self._comm = exchange, comm
            if self._network.has_links:
                self._begin_gateway(process)
            for broker in brokers:
                self._serve_gateway(broker)
            if master:
                self._discovery.prepare(comm)
            comm.start(*brokers)
            self._discovery.start()
        except BaseException as error:
            if comm is None or comm.prevent_start():
                self._discovery.abandon()
                self._listeners.close()
                self.directory.release()
            if isinstance(error, PermissionError):
                fact = f"{error.filename or self.where}: {error.strerror}"
                raise AccessDeniedError(f"join bus {self.bus!r}", fact) from None
            raise
        return comm

    def _begin_gateway(self, process: str) -> None:
        """Reach other machines from now on, directly or through masters."""
        from bus.links.gateway_client import GatewayClient  # noqa: PLC0415 - as above
        from bus.links.gateway_server import GatewayServer  # noqa: PLC0415 - as above

        self._client = GatewayClient(
            self.directory.master,
            self._trust,
            timeout_s=self._config.connect_timeout_s,
            frame_bytes_max=frame_bytes_max(self._config.message_bytes_max),
        )
        self._gateway = GatewayServer(
            process, self._client, self._trust, self._network, self
        )

    def _serve_gateway(self, broker: SocketQueueBroker) -> None:
        """Serve the requests to the gateway that come to a broker."""
        if self._gateway is None:
            return
        try:
            self._gateway.serve(broker)
        except RuntimeError as error:
            _log.warning(
                "bus %r has no gateway at %s: %s", self.bus, broker.address, error
            )

    def _place(self, name: str) -> tuple[list[SocketQueueBroker], bool]:
        """Listen as master if this process can be, else at an address of its own.

        Returns the brokers, and True for the master.

        Raises:
            BusyError: the process must be master, and there is one already.
            OSError: the address for other machines is taken, or not of this machine.
        """
        if self._role is not Role.SLAVE and self.directory.claim():
            self.directory.sweep()
            try:
                brokers = self._listeners.listen_as_master(name, self.directory.master)
            except BrokerNameInUseError:
                # The lock file was removed, and another process still is master.
                self.directory.release()
            else:
                return brokers, True
        if self._role is Role.MASTER:
            if self.directory.is_guest:
                fact = "only a process that may write there can be master"
                raise PermissionError(errno.EACCES, fact, self.where)
            place = f"the master's place on bus {self.bus!r} in {self.where}"
            remedy = "another machine on this file system needs its own BUS_RUN_DIR"
            raise BusyError(f"{place}; {remedy}")
        return [self._listeners.listen(name, self.directory.slave())], False

    def leave(self, machine: str, process: str, comm: CommThread) -> None:
        """Do nothing: the lock is released when the process ends, however it ends."""

    # The policy of the links.

    @property
    def patient(self) -> bool:
        """True for a slave, which waits for a master."""
        return self._role is Role.SLAVE

    def claim_role(self) -> Sequence[SocketQueueBroker]:
        """Become master if there is none; return the brokers that accept links then."""
        try:
            if self._role is not Role.AUTO or not self.directory.claim():
                return ()
            self.directory.sweep()
            name = f"master of {self.bus}"
            brokers = self._listeners.listen_as_master(name, self.directory.master)
            for broker in brokers:
                self._serve_gateway(broker)
            self._announce()
            return brokers
        except (OSError, BrokerNameInUseError) as error:
            self.directory.release()  # this process or another may succeed later
            if str(error) != self._failure:  # not at each attempt
                self._failure = str(error)
                _log.warning("cannot become master of bus %r: %s", self.bus, error)
            return ()

    def slaves(self) -> Sequence[str]:
        """Return the addresses of the other processes in the run directory."""
        return self.directory.slaves()

    def _announce(self) -> None:
        """Announce this machine as its new master, if the network says so."""
        assert self._comm is not None
        try:
            self._discovery.prepare(self._comm)
        except Exception as error:  # noqa: BLE001 # it is the master all the same
            self._comm.report(f"bus {self.bus!r} is not announced: {error}")
        self._discovery.start()

    def ignored_announcements(self) -> Mapping[str, int]:
        """Return the number of ignored announcements, by reason (BUS-DISC-11)."""
        return self._discovery.rejected()

    def on_end(self) -> None:
        """Tell the other machines that this master ends."""
        self._discovery.end()

    def release_role(self) -> None:
        """Release the lock, so that another process can become master."""
        self.directory.release()

    def connect(
        self, broker: LinkBroker, address: str, timeout_s: float
    ) -> MessageQueue | None:
        """Dial an address, directly or through a master; check the listener there.

        Raises:
            PermissionError: the listener is not trusted (BUS-SEC-2), or a master
              refuses the link.
            QueueBrokerError, OSError, ValueError: see `SocketQueueBroker.connect`.
        """
        dialled: LinkEnd | None = None
        if self._client is None:
            found = broker.connect(address, PORT, timeout=timeout_s, required=True)
            queue = found if isinstance(found, SocketMessageQueue) else None
        else:
            assert isinstance(broker, SocketQueueBroker)
            dialled = self._client.connect(broker, address, timeout_s)
            queue = None if dialled is None else dialled.queue
        if queue is None:
            return None
        outside = queue.peer.uid is None
        trust = self._trust
        why = (trust.outside_refusal if outside else trust.refusal)(queue.peer)
        if dialled is not None and not dialled.is_direct:
            why = trust.vouched_refusal(queue, dialled.machine) or why
        if why is not None:
            queue.disconnect()
            raise PermissionError(f"the listener there is not trusted: {why}")
        return queue

    def new_nonce(self) -> int:
        """Return a random number that distinguishes rivals (AMO-17)."""
        return int.from_bytes(os.urandom(8)) >> 1

    def credentials(self, queue: MessageQueue) -> Credentials:
        """Return the identity of the process at the other end, and its rights."""
        return self._trust.credentials(queue, self._machine)

    def addresses_to_dial(
        self, machine: str, addresses: Sequence[str]
    ) -> Sequence[str]:
        """Return UNIX sockets of this machine, and other addresses of others.

        If this process reaches no other machine, its master dials them.
        """
        if machine == self._machine:
            return [each for each in addresses if each.startswith("ipc://")]
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

    def listen_outside(
        self, inside: str
    ) -> tuple[SocketQueueBroker | None, tuple[str, ...]]:
        """Return the address for other machines; listen there from the first call on.

        Behind a gateway this is an address of the master. If a router translates the
        address of the master, it is the advertised one: the others reach no other
        (OPEN-19). A process without a network returns the address for its own machine,
        which the others do not dial: their senders get an `UnreachableError`.

        Raises:
            OSError, QueueBrokerError: it cannot listen.
        """
        network, address = self._network, self._listeners.outside_address
        if address is not None:
            return None, (self._seen(address) if self._is_master() else address,)
        if network.gateway and network.listen_address is not None:
            master = self._seen(network.listen_address)
            return None, (self._gateway_address(master),)
        broker = self._listeners.listen_outside()
        if broker is None:
            return None, (inside,)
        return broker, (str(broker.address),)

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

    # The owner of the gateway.

    def inside_address_of(self, process: str) -> str | None:
        """Return the address of a process of this machine; only the master has any."""
        assert self._exchange is not None
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


def _run_directory(bus: str, config: BusConfig) -> RunDirectory:
    """Return the run directory; an error names the setting for another one.

    The commands check a run directory before they join, and give a more exact remedy.
    """
    try:
        return RunDirectory(bus, config.access, config.run_directory)
    except AccessDeniedError as error:
        fact = f"{error.fact}; {ELSEWHERE}a folder of your own with mode 0700"
        raise AccessDeniedError(f"join bus {bus!r}", fact) from None
    except ValueError as error:
        raise ValueError(f"{error}; {ELSEWHERE}a shorter path in UTF-8") from None
