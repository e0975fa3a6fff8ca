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
import math
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from bus.address import check_module_name
from bus.core.peer.limits import Limits
from bus.core.wire import ADDRESS_MAX, Identity
from bus.core.wire import Role as WireRole
from bus.errors import AccessDeniedError, BusyError
from bus.keys.machine_keys import MachineKeys
from bus.links.comm_thread import CommThread
from bus.links.gateway import (
    GATEWAY_PORT,
    Gateway,
    address_via_master,
    gateway_address,
    split_gateway_address,
)
from bus.links.link_poller import SocketPoller
from bus.links.link_pool import PORT
from bus.links.run_directory import ELSEWHERE, RunDirectory
from bus.network import Network
from bus.rights import Credentials
from bus.role import Role
from queuebroker import _sync
from queuebroker.errors import BrokerNameInUseError
from queuebroker.meeting.broker_manager import BrokerManager
from queuebroker.sockets import (
    Driver,
    SocketMessageQueue,
    SocketOptions,
    SocketQueueBroker,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from bus.config import BusConfig
    from bus.core.remote.topology import Topology
    from bus.links.gateway import LinkEnd
    from bus.links.link_pool import LinkBroker
    from bus.threads.exchange import Exchange
    from queuebroker.channel.message_queue import MessageQueue
    from queuebroker.sockets import Peer

__all__ = ["SocketNetwork"]

_log: Final = logging.getLogger("bus")

_SCHEME: Final = "ism://"

_ALL_PORTS: Final = frozenset({PORT, GATEWAY_PORT})
# When to try again to listen for other machines, if that failed.
_LISTEN_AGAIN_S: Final = 5.0
# How long an abandoned link may stay open when the peer does not read.
_FAREWELL_S: Final = 5.0


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
        keys = self._network.keys
        self._keys: Final = None if keys is None else MachineKeys(keys)
        self._tls: Final = None if self._keys is None else self._keys.tls
        self._machine: str = ""
        self._process: str = ""
        # Both None until there is a comm thread; no gateway without a network.
        self._topology: Topology | None = None
        self._gateway: Gateway | None = None
        # The machines for which a master vouches, by link, until a link is used.
        # Weak: some links are not used after all.
        self._vouched_machines: Final[WeakKeyDictionary[MessageQueue, str]] = (
            WeakKeyDictionary()
        )
        self._listen_again_at: float = -math.inf
        # Where this process listens for other machines, once it does.
        self._outside: SocketQueueBroker | None = None
        # Receives a line of text about each rejected peer; the comm thread's, later.
        self._on_rejected: Callable[[str], object] = _log.warning
        self._failure: str = ""  # of the last attempt to become master
        self._role: Final = role
        self._config: Final = config
        self.directory: Final = _run_directory(bus, config)
        # A manager of its own, so that no name of a user's broker is taken.
        self._manager: Final = BrokerManager()
        self._driver: Driver | None = None

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
            self._driver = Driver()
            brokers, master = self._place(f"{machine}/{process}")
            listens = str(brokers[0].address)
            comm = CommThread(
                exchange,
                Identity(
                    bus=self.bus,
                    machine=machine,
                    machine_id=_machine_id(),
                    process=process,
                    process_id=os.getpid(),
                    incarnation=incarnation,
                    role=WireRole.MASTER if master else WireRole.SLAVE,
                ),
                config=config,
                policy=self,
                poller=SocketPoller(self._driver),
                nonce=_nonce,
                listens=listens,
                master=self.directory.master,
                static=self._network.peer_addresses,
            )
            self._on_rejected, self._topology = comm.on_rejected, comm.remote.topology
            if self._network.has_links:
                self._gateway = self._new_gateway(process, exchange, comm)
            for broker in brokers:
                self._serve_gateway(broker)
            comm.start(*brokers)
        except BaseException as error:
            if comm is None or comm.prevent_start():
                self._manager.close()
                if self._driver is not None:
                    self._driver.close()
                self.directory.release()
            if isinstance(error, PermissionError):
                fact = f"{error.filename or self.where}: {error.strerror}"
                raise AccessDeniedError(f"join bus {self.bus!r}", fact) from None
            raise
        return comm

    def _new_gateway(
        self, process: str, exchange: Exchange, comm: CommThread
    ) -> Gateway:
        """Return the part of this process in links through masters."""
        topology = comm.remote.topology

        def is_trusted(queue: SocketMessageQueue) -> bool:
            peer = queue.peer
            if peer.uid is None:
                return False
            rights = self._config.access.rights(peer.uid, peer.gid)
            return rights is not None and rights.whole

        def on_vouched(made: LinkEnd) -> None:
            if self._tls is not None and not made.machine:
                made.queue.disconnect()  # its master has no keys, and proves nothing
                return
            self._vouched_machines[made.queue] = made.machine
            comm.add_link(made.queue)

        return Gateway(
            process,
            PORT,
            self.directory.master,
            self._config.connect_timeout_s,
            frame_bytes_max=Limits.of(self._config).frame_bytes_max,
            proved=lambda queue: _machine_of(queue.peer) or "",
            may_dial=self._network.may_dial,
            address_of=lambda each: exchange.query(
                lambda: topology.inside_address_of(each)
            ),
            is_trusted=is_trusted,
            on_vouched=on_vouched,
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
                return self._listen_as_master(name), True
            except BrokerNameInUseError:
                # The lock file was removed, and another process still is master.
                self.directory.release()
        if self._role is Role.MASTER:
            if self.directory.is_guest:
                fact = "only a process that may write there can be master"
                raise PermissionError(errno.EACCES, fact, self.where)
            msg = f"the master's place on bus {self.bus!r} in {self.where}"
            raise BusyError(msg)
        return [self._listen(name, self.directory.slave())], False

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
            brokers = self._listen_as_master(f"master of {self.bus}")
            for broker in brokers:
                self._serve_gateway(broker)
            return brokers
        except (OSError, BrokerNameInUseError) as error:
            self.directory.release()  # this process or another may succeed later
            if str(error) != self._failure:  # not at each attempt
                self._failure = str(error)
                _log.warning("cannot become master of bus %r: %s", self.bus, error)
            return ()

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
        if self._gateway is None:
            found = broker.connect(address, PORT, timeout=timeout_s)
            queue = found if isinstance(found, SocketMessageQueue) else None
        else:
            assert isinstance(broker, SocketQueueBroker)
            dialled = self._gateway.connect(broker, address)
            queue = None if dialled is None else dialled.queue
        if queue is None:
            return None
        outside = queue.peer.uid is None
        why = (self._admit_outside if outside else self._admit)(queue.peer)
        if dialled is not None and not dialled.is_direct:
            self._vouched_machines[queue] = dialled.machine
            if self._tls is not None and not dialled.machine:
                why = "its master has no certificate: give `keys` to its network"
        if why is not None:
            queue.disconnect()
            raise PermissionError(f"the listener there is not trusted: {why}")
        return queue

    def credentials(self, queue: MessageQueue) -> Credentials:
        """Return the identity of the process at the other end, and its rights.

        A process of another machine has all rights: its master admits its users.
        """
        assert isinstance(queue, SocketMessageQueue)
        peer = queue.peer
        vouched = self._vouched_machines.pop(queue, None)
        if vouched is not None:
            return Credentials(machine=vouched or None, outside=True, is_direct=False)
        if peer.uid is None:
            return Credentials(machine=_machine_of(peer), outside=True)
        rights = self._config.access.rights(peer.uid, peer.gid)
        assert rights is not None
        return Credentials(peer.uid, rights, self._machine)

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
        return self._topology is not None and self._topology.is_master

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

        Behind a gateway this is an address of the master. A process without a network
        returns the address for its own machine, which the others do not dial: their
        senders get an `UnreachableError`.

        Raises:
            OSError, QueueBrokerError: it cannot listen.
        """
        present = self._outside
        # It is closed if no thread could be started to accept links at it.
        if present is not None and not present.closed:
            return None, (str(present.address),)
        network, addresses = self._network, self._network.end_process_addresses
        if network.gateway and network.listen_address is not None:
            return None, (self._gateway_address(network.listen_address),)
        now = _sync.monotonic()
        if not addresses or now < self._listen_again_at:
            return None, (inside,)
        # The caller holds a lock: no search from outside tries all ports again.
        self._listen_again_at = now + _LISTEN_AGAIN_S
        for address in addresses:
            with suppress(BrokerNameInUseError):
                name = f"{self.bus} for other machines"
                self._outside = made = self._listen(name, address, ports={PORT})
                return made, (str(made.address),)
        raise OSError(
            errno.EADDRINUSE,
            f"all ports {network.ports} are in use: give `ports` a longer range",
        )

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

    # Listening.

    def _listen_as_master(self, name: str) -> list[SocketQueueBroker]:
        """Listen for this machine and, if the network says so, for others."""
        brokers = [self._listen(name, self.directory.master)]
        address = self._network.listen_address
        if address is not None:
            try:
                brokers.append(self._listen_for_masters(name, address))
            except BaseException:
                brokers[0].close()
                raise
        return brokers

    def _listen_for_masters(self, name: str, address: str) -> SocketQueueBroker:
        try:
            outside = self._listen(f"{name} for other machines", address)
        except BrokerNameInUseError:
            fact = "another process listens there; give `listen` another port"
            raise OSError(errno.EADDRINUSE, f"{address}: {fact}") from None
        self._outside = outside
        if self._tls is None:
            _log.warning(
                "bus %r listens at %s without keys: any process of this host may join",
                self.bus,
                outside.address,
            )
        return outside

    def _listen(
        self, name: str, address: str, *, ports: AbstractSet[int] = _ALL_PORTS
    ) -> SocketQueueBroker:
        """Listen at an address; ports: those that are served there."""
        config = self._config
        if not self._network.has_links:
            ports = {PORT}
        outside = not address.startswith("ipc://")
        return SocketQueueBroker(
            name,
            listen=address,
            tls=self._tls,
            driver=self._driver,
            manager=self._manager,
            options=SocketOptions(
                mode=0o660 if config.access.groups else 0o600,
                message_bytes_max=Limits.of(config).frame_bytes_max,
                first_frame_bytes_max=config.unauthenticated_bytes,
                # No data may follow the peer's handshake before it is answered.
                unanswered_bytes_max=config.unauthenticated_bytes,
                farewell_s=_FAREWELL_S,
                handshake_s=config.auth_timeout_s,
                unknown_peers_max=config.unauthenticated_links,
                ports=ports,
                admit=self._admit_outside if outside else self._admit,
                # On this machine, a process also connects to see whether one listens.
                on_rejected=self._reject_outside if outside else None,
            ),
        )

    def _reject_outside(self, text: str) -> None:
        self._on_rejected(f"bus {self.bus!r} rejects {text}")

    def _admit(self, peer: Peer) -> str | None:
        """Return why a dialling process may not join; None if it may."""
        return self._config.access.refusal(peer.uid, peer.gid)

    def _admit_outside(self, peer: Peer) -> str | None:
        """Return why a process of another machine may not join; None if it may."""
        if self._tls is None or _machine_of(peer) is not None:
            return None
        return "its certificate names no machine"


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


def _nonce() -> int:
    return int.from_bytes(os.urandom(8)) >> 1


def _machine_of(peer: Peer) -> str | None:
    """Return the machine that the certificate of a peer names (BUS-SEC-5)."""
    found = [
        uri[len(_SCHEME) : -1]
        for uri in peer.uris
        if uri.startswith(_SCHEME) and uri.endswith("/")
    ]
    return found[0] if len(found) == 1 else None


def _machine_id() -> str:
    """Return an id that distinguishes machines of the same name (BUS-DISC-8)."""
    for place in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id"):
        with suppress(OSError):
            text = Path(place).read_text(encoding="ascii").strip()
            if text:
                return text
    return os.uname().nodename
